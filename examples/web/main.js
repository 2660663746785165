// The page: reads the form, asks the worker, and shows the answers.

const byId = (id) => document.getElementById(id);
const [form, example, target, level, control, ptx, status, download] =
  ["form", "example", "target", "level", "control", "ptx", "status", "download"].map(byId);
const EXAMPLES = ["block_sum", "saxpy", "vector_add", "mma_tile"];
// Time without a key press after which the text is checked, in milliseconds.
const PAUSE = 300;

const worker = new Worker("worker.js", { type: "module" });
const waiting = new Map();
let calls = 0;
worker.onmessage = ({ data }) => {
  waiting.get(data.number)?.(data);
  waiting.delete(data.number);
};
worker.onerror = (event) => say(`The compiler cannot be loaded: ${event.message || "see the console"}`);

function ask(task, text, settings) {
  const number = ++calls;
  worker.postMessage({ number, task, ptx: text, settings });
  return new Promise((resolve) => waiting.set(number, resolve));
}

function say(text) {
  status.textContent = text;
}

function settings() {
  return { arch: target.value || null, opt_level: Number(level.value), control: control.checked, name: "input.ptx" };
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

// Messages

function select(offset, length) {
  // Offsets count bytes, the text area counts UTF-16 units.
  const bytes = new TextEncoder().encode(ptx.value);
  const units = (end) => new TextDecoder().decode(bytes.slice(0, end)).length;
  ptx.focus();
  ptx.setSelectionRange(units(offset), units(offset + length));
  const line = ptx.value.slice(0, ptx.selectionStart).split("\n").length;
  ptx.scrollTop = Math.max(0, (line - 5) * parseFloat(getComputedStyle(ptx).lineHeight));
}

function showMessages(report) {
  const panel = byId("messages");
  panel.replaceChildren();
  if (report.error) panel.append(Object.assign(document.createElement("pre"), { textContent: `error: ${report.error}` }));
  if (report.diagnostics.length > 0) {
    const list = document.createElement("ol");
    for (const finding of report.diagnostics) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: finding.rendered, className: finding.severity });
      button.onclick = () => select(finding.offset, finding.length);
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    panel.append(list);
  }
  if (report.functions.length > 0) panel.append(resources(report));
  if (panel.childNodes.length === 0) panel.append(Object.assign(document.createElement("pre"), { textContent: "No errors and no warnings." }));
}

function resources(report) {
  const columns = [["Function", "name"], ["Registers", "registers"], ["Instructions", "instructions"], ["Shared bytes", "shared_bytes"],
    ["Stack bytes", "stack_bytes"], ["Spilled bytes", "spill_store_bytes"]];
  const table = document.createElement("table");
  table.createCaption().textContent = `Compiled for ${report.target}`;
  const head = table.createTHead().insertRow();
  for (const [title] of columns) head.append(Object.assign(document.createElement("th"), { textContent: title, scope: "col" }));
  const body = table.createTBody();
  for (const entry of report.functions) {
    const row = body.insertRow();
    for (const [, field] of columns) row.insertCell().textContent = entry[field];
  }
  return table;
}

// Tabs

const tabs = [...document.querySelectorAll("[role=tab]")];

function choose(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", other === tab);
    other.tabIndex = other === tab ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  if (tab.id === "tab-explanation") explain();
}

for (const tab of tabs) {
  tab.onclick = () => choose(tab);
  tab.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = { Home: tabs[0], End: tabs.at(-1) }[event.key] ?? (step && tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]);
    if (!next) return;
    event.preventDefault();
    next.focus();
    choose(next);
  };
}

// Compilation

let latest = 0;
// The text and settings of the last successful compilation, and whether its explanation is in the frame.
let compiled;

async function compile() {
  const turn = ++latest;
  const [text, chosen] = [ptx.value, settings()];
  say("Compiling.");
  document.documentElement.dataset.state = "busy";
  const answer = await ask("compile", text, chosen);
  if (turn !== latest) return;
  if (download.href) URL.revokeObjectURL(download.href);
  download.removeAttribute("href");
  download.hidden = true;
  compiled = undefined;
  byId("sass").firstElementChild.textContent = answer.listing ?? "";
  setPage("");
  if (answer.failure) {
    say(`Internal error: ${answer.failure}`);
  } else {
    showMessages(answer.report);
    report(answer);
  }
  document.documentElement.dataset.state = "done";
  if (!compiled) choose(tabs[0]);
  else if (tabs[0].getAttribute("aria-selected") === "true") choose(tabs[1]);
  else choose(tabs.find((tab) => tab.getAttribute("aria-selected") === "true"));

  function report({ report, cubin, milliseconds }) {
    if (!report.ok) {
      const errors = report.diagnostics.filter((finding) => finding.severity === "error").length;
      return say(report.error ?? plural(errors, "error"));
    }
    compiled = { text, chosen, explained: false };
    download.href = URL.createObjectURL(new Blob([cubin], { type: "application/octet-stream" }));
    download.hidden = false;
    say(`Compiled for ${report.target} in ${milliseconds.toFixed(1)} ms: ${plural(report.functions.length, "function")}, ${cubin.length} bytes.`);
  }
}

async function explain() {
  if (!compiled || compiled.explained) return;
  const current = compiled;
  current.explained = true;
  const answer = await ask("explain", current.text, current.chosen);
  if (current !== compiled) return;
  if (answer.failure || !answer.report.ok) return say(`There is no explanation: ${answer.failure ?? answer.report.error}`);
  setPage(answer.page);
}

function setPage(text) {
  const frame = byId("page");
  if (frame.dataset.url) URL.revokeObjectURL(frame.dataset.url);
  const url = text ? URL.createObjectURL(new Blob([text], { type: "text/html" })) : "";
  frame.dataset.url = url;
  if (url) frame.src = url;
  else frame.removeAttribute("src");
}

let timer;
ptx.oninput = () => {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const turn = ++latest;
    const answer = await ask("check", ptx.value, { name: "input.ptx" });
    if (turn !== latest) return;
    if (answer.failure) return say(`Internal error: ${answer.failure}`);
    showMessages(answer.report);
    const errors = answer.report.diagnostics.filter((finding) => finding.severity === "error").length;
    say(errors ? plural(errors, "error") : "The PTX is valid.");
    document.documentElement.dataset.state = "checked";
  }, PAUSE);
};
ptx.onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    clearTimeout(timer);
    compile();
  }
};
form.onsubmit = (event) => {
  event.preventDefault();
  clearTimeout(timer);
  compile();
};
for (const choice of [target, level, control]) choice.onchange = () => compiled && compile();

async function load(name) {
  ptx.value = await (await fetch(`${name}.ptx`)).text();
}
example.onchange = async () => {
  await load(example.value);
  await compile();
};

async function start() {
  for (const name of EXAMPLES) example.add(new Option(`${name}.ptx`, name));
  const [answer] = await Promise.all([ask("targets"), load(EXAMPLES[0])]);
  if (answer.failure) return say(`The compiler cannot be loaded: ${answer.failure}`);
  target.add(new Option("of the PTX", ""));
  for (const name of answer.targets) target.add(new Option(name, name, name === "sm_90a", name === "sm_90a"));
  byId("compile").disabled = false;
  await compile();
  document.documentElement.dataset.ready = "true";
}
start();
