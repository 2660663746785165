"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const details = byId("details");
  let parsed = null;
  // The data is large, so it is read when it is first needed.
  const data = () => (parsed ??= JSON.parse(byId("data").textContent));
  const hex = (number) => "0x" + number.toString(16).padStart(4, "0");
  // On a page that compares two files, `j` marks addresses of the second one.
  const rowId = (f, address, letter = "i") => "f" + f + "-" + letter + address.toString(16).padStart(4, "0");
  const isComparison = document.body.classList.contains("comparison");

  // Returns an element with text and children.
  const make = (name, text, ...children) => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    element.append(...children);
    return element;
  };

  // Returns the instructions of a row: one, or one of each file, with the function number and a function that makes links.
  const instructionsOf = (row) => {
    const section = row.closest(".function");
    const f = Number(/^f(\d+)/.exec(row.id)[1]);
    const linkIn = (letter) => (address) => {
      const anchor = make("a", hex(address));
      anchor.href = "#" + rowId(f, address, letter);
      return anchor;
    };
    if (!isComparison) {
      const address = parseInt(/-i([0-9a-f]+)$/.exec(row.id)[1], 16);
      return [["", linkIn("i"), data().functions[f].instructions[address / 16]]];
    }
    return [["first", "i"], ["second", "j"]].flatMap(([side, letter]) => {
      const address = row.dataset[side];
      if (address === undefined) return [];
      const instructions = data()[side].functions[Number(section.dataset[side])].instructions;
      return [[data()[side].input + ": ", linkIn(letter), instructions[parseInt(address, 16) / 16]]];
    });
  };

  const joined = (items) => items.flatMap((item, number) => (number ? [", ", item] : [item]));

  // Shows why an instruction is as it is.
  const explain = (row) => {
    const parts = instructionsOf(row).flatMap(([title, link, inst]) => describe(title, link, inst));
    details.replaceChildren(...parts);
  };
  const describe = (title, link, inst) => {
    const list = make("ul");
    const add = (...parts) => {
      const item = make("li");
      item.append(...parts);
      list.append(item);
    };
    for (const wait of inst.waits) {
      add("Waits for scoreboard " + wait.scoreboard + ", set at ", ...joined(wait.producers.map(link)), ": " + wait.text);
    }
    if (inst.waiting.cycles) add("Predicted to wait " + inst.waiting.cycles + " cycles for " + inst.waiting.reason);
    for (const set of inst.sets) {
      const what = set.event === "results" ? "its results are written" : "its operands have been read";
      const readers = set.readers.length ? joined(set.readers.map(link)) : ["no instruction"];
      add("Sets scoreboard " + set.scoreboard + " until " + what + "; waited for by ", ...readers);
    }
    for (const cause of inst.stall_causes) {
      add("Stall, " + cause.cycles + " of " + inst.stall + " cycles: " + cause.text, ...(cause.first === null ? [] : [" ", link(cause.first)]));
    }
    if (inst.place) add("Here: " + inst.place.text, ...(inst.place.runner_up === null ? [] : [" ", link(inst.place.runner_up)]));
    if (inst.form) add("Form: " + inst.form.text);
    if (inst.measured) {
      const reasons = inst.measured.reasons.map((part) => part.reason + " " + part.samples);
      add("Measured: " + inst.measured.samples + " samples" + (reasons.length ? ": " + reasons.join(", ") : ""));
    }
    const origin = [];
    if (inst.origin.ptx_line) origin.push("PTX line " + inst.origin.ptx_line);
    for (const place of inst.origin.source) origin.push(place.file + ":" + place.line);
    const about = hex(inst.address) + ", " + inst.unit + " unit, [" + inst.control + "], cycle " + inst.issue_cycle + " of its block, " +
      inst.live + " registers live" + (origin.length ? ", " + origin.join(", inlined at ") : "");
    return [make("p", title, make("code", inst.text), " " + about), list];
  };

  let chosen = null;
  // Marks what belongs to a PTX line, in the listing and in the text.
  const highlight = (line, keep) => {
    document.querySelectorAll(".linked").forEach((element) => element.classList.remove("linked"));
    if (!line) return;
    document.querySelectorAll('[data-line="' + line + '"]').forEach((element) => element.classList.add("linked"));
    const ptx = byId("ptx-" + line);
    if (ptx && ptx !== keep) scrollInto(ptx);
  };

  // Scrolls the pane of an element, and not the page.
  const scrollInto = (element) => {
    const pane = element.closest(".pane");
    if (!pane) return;
    const [outer, inner] = [pane.getBoundingClientRect(), element.getBoundingClientRect()];
    if (inner.top < outer.top + 40 || inner.bottom > outer.bottom) pane.scrollTop += inner.top - outer.top - outer.height / 3;
  };

  const choose = (row, focus) => {
    chosen?.classList.remove("chosen");
    chosen = row;
    row.classList.add("chosen");
    explain(row);
    highlight(row.dataset.line, row);
    scrollInto(row);
    if (focus) row.querySelector("a").focus({ preventScroll: true });
  };

  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[id]");
    if (row) {
      choose(row, false);
      history.replaceState(null, "", "#" + row.id);
      return;
    }
    const line = event.target.closest(".lines li");
    if (line && line.closest("#ptx")) {
      highlight(line.dataset.line, line);
      const first = document.querySelector('tr[data-line="' + line.dataset.line + '"]');
      if (first) choose(first, false);
    }
  });

  // All rows of a function in order.
  const rowsOf = (row) => [...row.closest(".sass").querySelectorAll("tr[id]")];
  document.addEventListener("keydown", (event) => {
    const row = event.target.closest?.("tr[id]");
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (!row || !step) return;
    const rows = rowsOf(row);
    const next = rows[Math.min(Math.max(rows.indexOf(row) + step, 0), rows.length - 1)];
    event.preventDefault();
    choose(next, true);
  });

  const follow = () => {
    const named = byId(decodeURIComponent(location.hash.slice(1)));
    // The address of the second file is an element inside of the row.
    const target = named?.matches("tr[id] a") ? named.closest("tr") : named;
    if (target?.matches("tr[id]")) choose(target, true);
    else if (target?.matches(".lines li")) highlight(target.dataset.line, null);
  };
  window.addEventListener("hashchange", follow);

  // Search in the text of instructions and in addresses.
  const field = byId("search");
  const status = byId("found");
  let hits = [];
  let at = -1;
  const show = (step) => {
    if (!hits.length) return;
    at = (at + step + hits.length) % hits.length;
    status.textContent = at + 1 + " of " + hits.length;
    choose(byId(hits[at]), false);
    byId(hits[at]).scrollIntoView({ block: "center" });
  };
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    hits = [];
    at = -1;
    if (wanted && isComparison) {
      hits = [...document.querySelectorAll("tr[id]")].filter((row) => row.textContent.toLowerCase().includes(wanted)).map((row) => row.id);
    } else if (wanted) {
      data().functions.forEach((func, f) => {
        for (const inst of func.instructions) {
          if (inst.text.toLowerCase().includes(wanted) || hex(inst.address).endsWith(wanted)) hits.push(rowId(f, inst.address));
        }
      });
    }
    status.textContent = wanted ? (hits.length ? "" : "not found") : "";
    show(1);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") show(event.shiftKey ? -1 : 1);
  });
  byId("next").addEventListener("click", () => show(1));
  byId("previous").addEventListener("click", () => show(-1));

  // Timeline of one block: a row for each instruction with its wait, issue and stall, and bars of the scoreboards that it sets.
  const MOST_ROWS = 400;
  const svgMake = (name, attributes) => {
    const element = document.createElementNS("http" + "://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const draw = (f, number) => {
    const func = data().functions[f];
    const block = func.blocks[number];
    const list = func.instructions.slice(block.start / 16, Math.min(block.end / 16, block.start / 16 + MOST_ROWS));
    const scale = Math.max(2, Math.min(16, 900 / Math.max(block.cycles, 1)));
    const [labels, height] = [320, 16];
    const svg = svgMake("svg", { width: labels + block.cycles * scale + 20, height: (list.length + 2) * height, role: "img" });
    const title = svgMake("title", {});
    title.textContent = "Timeline of " + block.name + ": " + block.cycles + " cycles, " + block.waited + " of them waits";
    svg.append(title);
    const bar = (kind, row, start, cycles, text) => {
      if (cycles <= 0) return;
      const y = kind === "board" ? row * height + 12 : row * height + 3;
      const rect = svgMake("rect", { class: kind, x: labels + start * scale, y, width: Math.max(cycles * scale, 1), height: kind === "board" ? 3 : 9 });
      const tip = svgMake("title", {});
      tip.textContent = text;
      rect.append(tip);
      svg.append(rect);
    };
    list.forEach((inst, row) => {
      const label = svgMake("text", { x: 4, y: row * height + 12 });
      label.textContent = inst.address.toString(16).padStart(4, "0") + "  " + (inst.text.length > 44 ? inst.text.slice(0, 43) + "…" : inst.text);
      svg.append(label);
      const issued = inst.issue_cycle;
      bar("wait", row, issued - inst.waiting.cycles, inst.waiting.cycles, "waits " + inst.waiting.cycles + " cycles for " + inst.waiting.reason);
      bar("issue", row, issued, 1, "issues in cycle " + issued + " to the " + inst.unit + " unit");
      bar("stall", row, issued + 1, inst.stall - 1, "stalls " + inst.stall + " cycles");
      for (const set of inst.sets) {
        const readers = set.readers.filter((at) => at > inst.address && at < block.end);
        const end = readers.length ? func.instructions[readers[0] / 16].issue_cycle : block.cycles;
        bar("board", row, issued, end - issued, "scoreboard " + set.scoreboard + " for " + set.event);
      }
    });
    if (block.end / 16 - block.start / 16 > list.length) {
      const note = svgMake("text", { x: 4, y: (list.length + 1) * height });
      note.textContent = "The first " + MOST_ROWS + " instructions are drawn.";
      svg.append(note);
    }
    byId("f" + f + "-timeline").replaceChildren(svg);
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      const f = /^f(\d+)/.exec(entry.target.id)[1];
      draw(Number(f), Number(byId("f" + f + "-block").value));
    }
  });
  document.querySelectorAll(".timeline").forEach((element) => watcher.observe(element));
  document.querySelectorAll("select[data-function]").forEach((select) => {
    select.addEventListener("change", () => draw(Number(select.dataset.function), Number(select.value)));
  });
  // Hides places that are the same in both files.
  document.querySelectorAll("input.filter").forEach((box) => {
    box.addEventListener("change", () => box.closest(".function").classList.toggle("filtered", box.checked));
  });
  follow();
  document.documentElement.dataset.ready = "true";
})();
