//! Writes an explanation as one self-contained page.
//!
//! The page works without a network and without scripts: the listing, the PTX and all tables are plain HTML, so that the search of the
//! browser, links to an instruction (`#f0-i0120`) and screen readers work as on any page. The script adds linked highlighting, the details
//! of the selected instruction, the timelines and the search field. It reads the data of the page, which is the JSON form.
//!
//! Listings of 15,000 instructions stay quick, because they are divided into tables of [`ROWS`] rows which the browser lays out only when
//! they come into view (`content-visibility`).

mod charts;
pub mod comparison;

use std::fmt::Write;

use crate::calls;
use crate::model::{Explanation, Function, Instruction};
use crate::text::cycles;

/// Rows of one table of a listing.
const ROWS: usize = 200;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns the page.
pub fn write(explanation: &Explanation) -> String {
    let mut out = String::with_capacity(1 << 20);
    let title = format!("{} on {}", escaped(&explanation.input), escaped(&explanation.target));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<a class=\"skip\" href=\"#main\">Skip to the code</a>\n"
    );
    let names: Vec<&str> = explanation.functions.iter().map(|function| function.name.as_str()).collect();
    header(&mut out, &names, &title);
    let layout = if explanation.ptx.is_empty() && explanation.sources.is_empty() { "single" } else { "double" };
    let _ = writeln!(out, "<div class=\"{layout}\">\n<main id=\"main\" tabindex=\"-1\">");
    for (number, function) in explanation.functions.iter().enumerate() {
        Page { out: &mut out, explanation, function, number }.write();
    }
    out.push_str("</main>\n");
    texts(&mut out, explanation);
    out.push_str("</div>\n");
    details(&mut out);
    // `</script>` and `<!--` would change how the element is read. In JSON `<` only occurs in strings, where `\u003c` means the same.
    let data = serde_json::to_string(explanation).unwrap_or_default().replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n//<![CDATA[\n{SCRIPT}//]]>\n</script>\n</body>\n</html>\n"
    );
    out
}

/// Returns text with the characters escaped that have a meaning in HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in a document.
            letter if letter.is_control() && letter != '\t' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

fn header(out: &mut String, functions: &[&str], title: &str) {
    let _ = write!(
        out,
        "<header>\n<h1>{title}</h1>\n<div role=\"search\"><label for=\"search\">Search</label> <input id=\"search\" type=\"search\" \
         autocomplete=\"off\" placeholder=\"instruction, register, address\"/> <button type=\"button\" id=\"previous\">Previous</button> \
         <button type=\"button\" id=\"next\">Next</button> <span id=\"found\" role=\"status\"></span></div>\n"
    );
    if functions.len() > 1 {
        out.push_str("<nav aria-label=\"Functions\">\n<ul>\n");
        for (number, function) in functions.iter().enumerate() {
            let _ = writeln!(out, "<li><a href=\"#f{number}\">{}</a></li>", escaped(function));
        }
        out.push_str("</ul>\n</nav>\n");
    }
    out.push_str("</header>\n");
}

fn details(out: &mut String) {
    out.push_str(
        "<aside id=\"details\" aria-label=\"Selected instruction\" aria-live=\"polite\">\n<p>Select an instruction, with a click or with the \
         arrow keys in the listing, to see why it is as it is.</p>\n</aside>\n",
    );
}

/// Writes the part of one function.
struct Page<'a> {
    out: &'a mut String,
    explanation: &'a Explanation,
    function: &'a Function,
    number: usize,
}

/// Appends text; writing to a string does not fail.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {{
        let _ = write!($page.out, $($text)*);
    }};
}

impl Page<'_> {
    fn write(&mut self) {
        let (number, function) = (self.number, self.function);
        let name = escaped(&function.name);
        put!(
            self,
            "<section class=\"function\" id=\"f{number}\" aria-labelledby=\"f{number}-name\">\n<h2 id=\"f{number}-name\">{name}</h2>\n"
        );
        if let Some(obstacle) = &function.obstacle {
            put!(self, "<p class=\"problem\">The code could not be analysed: {}</p>\n", escaped(obstacle));
        }
        if !function.unknown.is_empty() {
            put!(self, "<details><summary>What is not known about this code</summary>\n<ul>\n");
            for sentence in &function.unknown {
                put!(self, "<li>{}</li>\n", escaped(sentence));
            }
            self.out.push_str("</ul></details>\n");
        }
        self.summary();
        self.warnings();
        self.registers();
        self.loops();
        self.calls();
        self.decisions();
        self.timeline();
        self.code();
        self.out.push_str("</section>\n");
    }

    fn heading(&mut self, text: &str) {
        put!(self, "<h3>{text}</h3>\n");
    }

    fn summary(&mut self) {
        let function = self.function;
        let mut facts: Vec<(&str, String)> = vec![("Registers", function.registers.count.to_string())];
        facts.push(("Live at once", function.registers.peak_live.to_string()));
        if let Some(occupancy) = &function.occupancy {
            let assumed = if occupancy.is_declared { "" } else { " (assumed)" };
            let text = format!(
                "{:.0}%: {} blocks of {} threads{assumed}, limited by {}",
                occupancy.occupancy * 100.0,
                occupancy.blocks,
                occupancy.threads,
                escaped(&occupancy.limited_by.join(", "))
            );
            facts.push(("Occupancy", text));
        }
        facts.push(("Instructions", function.instructions.len().to_string()));
        facts.push(("Cycles of one warp", cycles(function.cycles)));
        facts.push(("Spills", format!("{} bytes stored, {} loaded", function.spills.store_bytes, function.spills.load_bytes)));
        let memory = &function.memory;
        facts.push((
            "Shared, stack, parameters",
            format!("{}, {}, {} bytes", memory.shared_bytes, memory.local_bytes, memory.parameter_bytes),
        ));
        self.out.push_str("<dl class=\"facts\">\n");
        for (term, text) in facts {
            put!(self, "<div><dt>{term}</dt><dd>{text}</dd></div>\n");
        }
        self.out.push_str("</dl>\n");
    }

    fn link(&self, address: u64) -> String {
        format!("<a href=\"#f{}-i{address:04x}\">{address:#06x}</a>", self.number)
    }

    fn warnings(&mut self) {
        if self.function.warnings.is_empty() {
            return;
        }
        self.heading("Warnings, the most expensive first");
        self.out.push_str("<ol class=\"warnings\">\n");
        for warning in &self.function.warnings {
            let places: Vec<String> = warning.addresses.iter().take(4).map(|&address| self.link(address)).collect();
            let more = warning.addresses.len().saturating_sub(4);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let line = warning.ptx_line.map_or_else(String::new, |line| format!(", <a href=\"#ptx-{line}\">line {line}</a>"));
            put!(
                self,
                "<li><strong>{} cycles</strong>, {}: {} <span class=\"places\">{}{more}{line}</span></li>\n",
                cycles(warning.cycles),
                escaped(&warning.kind),
                escaped(&warning.text),
                places.join(", ")
            );
        }
        self.out.push_str("</ol>\n");
    }

    fn registers(&mut self) {
        let registers = &self.function.registers;
        if registers.peak_address.is_none() {
            return;
        }
        self.heading("Registers");
        let curve = charts::live_registers(self.function, self.number);
        self.out.push_str(&curve);
        let mut sentences = Vec::new();
        if let Some(cliff) = &registers.next_above {
            sentences.push(format!("Up to {} registers: {} warps, {:.0}%.", cliff.registers, cliff.warps, cliff.occupancy * 100.0));
        }
        if let Some(cliff) = &registers.next_below {
            sentences.push(format!("With {} or fewer: {} warps, {:.0}%.", cliff.registers, cliff.warps, cliff.occupancy * 100.0));
        }
        put!(self, "<p>{}</p>\n", sentences.join(" "));
        let peak = registers.peak_address.map_or_else(String::new, |address| self.link(address));
        put!(self, "<details><summary>The {} values that are live at the peak</summary>\n<p>Before {peak}:</p>\n", registers.peak_live);
        self.out.push_str(
            "<table><caption>Live values</caption><thead><tr><th scope=\"col\">Register</th><th scope=\"col\">PTX register</th><th \
             scope=\"col\">Written at</th><th scope=\"col\">PTX line</th></tr></thead><tbody>\n",
        );
        for value in &registers.live_at_peak {
            let written: Vec<String> = value.written_at.iter().map(|&address| self.link(address)).collect();
            let line = value.ptx_line.map_or_else(String::new, |line| format!("<a href=\"#ptx-{line}\">{line}</a>"));
            put!(
                self,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{line}</td></tr>\n",
                value.register,
                escaped(value.name.as_deref().unwrap_or("")),
                written.join(", ")
            );
        }
        self.out.push_str("</tbody></table></details>\n");
    }

    fn loops(&mut self) {
        if self.function.loops.is_empty() {
            return;
        }
        self.heading("Loops");
        self.out.push_str("<ul class=\"tree\">\n");
        // Loops are sorted so that inner loops follow the loop around them; lists are closed when the depth decreases.
        let mut depth = 0;
        for one in &self.function.loops {
            while depth >= one.depth {
                self.out.push_str(if depth == 1 { "</li>\n" } else { "</li></ul>\n" });
                depth -= 1;
            }
            if one.depth > 1 && depth > 0 {
                self.out.push_str("<ul>\n");
            }
            depth = one.depth;
            let bound = one.bounds.first().map_or_else(String::new, |bound| {
                format!(" At least {}: {}. The schedule is {} above.", cycles(bound.cycles), escaped(&bound.text), cycles(one.above_bound))
            });
            let occupied = one.occupied.as_ref().map_or_else(String::new, |occupied| {
                format!(
                    " {} warps: {} cycles for all, limited by {}.",
                    occupied.warps,
                    cycles(occupied.cycles),
                    escaped(&occupied.limited_by)
                )
            });
            put!(
                self,
                "<li>{} {}: <strong>{} cycles</strong> an iteration, {} instructions.{bound}{occupied}",
                escaped(&one.header),
                self.link(one.start),
                cycles(one.cycles),
                cycles(one.instructions)
            );
        }
        while depth > 0 {
            self.out.push_str(if depth == 1 { "</li>\n" } else { "</li></ul>\n" });
            depth -= 1;
        }
        self.out.push_str("</ul>\n");
    }

    fn calls(&mut self) {
        let nodes = calls::tree(self.explanation, self.function);
        if nodes.is_empty() {
            return;
        }
        self.heading("Calls");
        self.out.push_str("<ul class=\"tree\">\n");
        for (at, node) in nodes.iter().enumerate() {
            // Only calls of this function are on this part of the page.
            let place = if node.depth == 0 { self.link(node.call.address) + " " } else { String::new() };
            put!(self, "<li>{place}{}", escaped(&node.text()));
            let next = nodes.get(at + 1).map_or(0, |next| next.depth);
            if next > node.depth {
                self.out.push_str("\n<ul>\n");
            } else {
                self.out.push_str("</li>\n");
                (next..node.depth).for_each(|_| self.out.push_str("</ul></li>\n"));
            }
        }
        self.out.push_str("</ul>\n");
    }

    fn decisions(&mut self) {
        let function = self.function;
        if function.remarks.is_empty() && function.passes.is_empty() {
            return;
        }
        self.out.push_str("<details><summary>What the passes did and did not do</summary>\n<ul>\n");
        for sentence in &function.schedule {
            put!(self, "<li>{}</li>\n", escaped(sentence));
        }
        for remark in &function.remarks {
            let line = remark.ptx_line.map_or_else(String::new, |line| format!(", <a href=\"#ptx-{line}\">line {line}</a>"));
            let done = if remark.is_done { "done" } else { "not done" };
            put!(self, "<li>{}{line}, {done}: {}</li>\n", escaped(&remark.pass), escaped(&remark.text));
        }
        self.out.push_str(
            "</ul>\n<table><caption>Passes</caption><thead><tr><th scope=\"col\">Pass</th><th scope=\"col\">Instructions before</th><th \
             scope=\"col\">After</th><th scope=\"col\">Created</th></tr></thead><tbody>\n",
        );
        for pass in &function.passes {
            put!(
                self,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&pass.name),
                pass.instructions_before,
                pass.instructions_after,
                pass.created
            );
        }
        self.out.push_str("</tbody></table></details>\n");
    }

    /// Writes the place of the timeline, which the script draws.
    fn timeline(&mut self) {
        if self.function.blocks.is_empty() {
            return;
        }
        let number = self.number;
        self.heading("Timeline");
        put!(self, "<p><label for=\"f{number}-block\">Block</label> <select id=\"f{number}-block\" data-function=\"{number}\">\n");
        for (position, block) in self.function.blocks.iter().enumerate() {
            put!(self, "<option value=\"{position}\">{}: {} cycles</option>\n", escaped(&block.name), block.cycles);
        }
        put!(
            self,
            "</select></p>\n<div class=\"timeline\" id=\"f{number}-timeline\" role=\"group\" tabindex=\"0\" aria-label=\"Issue cycles, units \
             and scoreboards of the block\"></div>\n"
        );
    }

    fn code(&mut self) {
        let number = self.number;
        self.heading("Code");
        put!(
            self,
            "<div class=\"pane sass\" id=\"f{number}-sass\" role=\"region\" aria-label=\"Machine code of {}\" tabindex=\"0\">\n",
            escaped(&self.function.name)
        );
        let function = self.function;
        let mut start = 0;
        while start < function.instructions.len() {
            let block = function.instructions[start].block;
            let rest = &function.instructions[start..];
            let length = rest.iter().take(ROWS).take_while(|instruction| instruction.block == block).count().max(1);
            self.rows(&rest[..length], start == 0 || function.instructions[start - 1].block != block);
            start += length;
        }
        self.out.push_str("</div>\n");
    }

    /// Writes a table of instructions of one block.
    fn rows(&mut self, instructions: &[Instruction], is_first: bool) {
        let block = instructions[0].block.and_then(|block| self.function.blocks.get(block));
        let name = block.map_or("code", |block| &block.name);
        let first = instructions[0].address;
        let caption = match block {
            Some(block) if is_first => {
                format!("{name}: {} cycles, {} waited, executed {} times", block.cycles, block.waited, cycles(block.executions))
            }
            _ => format!("{name}, continued at {first:#06x}"),
        };
        // The height of a row is fixed, so that the browser knows the size of tables that it has not laid out.
        put!(
            self,
            "<div class=\"chunk\" style=\"contain-intrinsic-size: auto {}px\"><table class=\"listing\"><caption>{}</caption><thead><tr><th \
             scope=\"col\">Address</th><th scope=\"col\">Instruction</th><th scope=\"col\">Cycle</th><th scope=\"col\">Stall</th><th \
             scope=\"col\">Wait</th><th scope=\"col\">Live</th><th scope=\"col\">PTX</th>{}</tr></thead><tbody>\n",
            (instructions.len() + 2) * 22,
            escaped(&caption),
            if self.function.samples.is_some() { "<th scope=\"col\">Measured</th>" } else { "" }
        );
        for instruction in instructions {
            self.row(instruction);
        }
        self.out.push_str("</tbody></table></div>\n");
    }

    /// Returns the cell with the share of the samples at an instruction; nothing without a measurement.
    fn measured(&self, instruction: &Instruction) -> String {
        let Some(all) = self.function.samples else { return String::new() };
        let share = instruction
            .measured
            .as_ref()
            .map_or_else(String::new, |measured| format!("{:.1}%", measured.samples as f64 * 100.0 / all.max(1) as f64));
        format!("<td>{share}</td>")
    }

    fn row(&mut self, instruction: &Instruction) {
        let Instruction { address, text, issue_cycle, stall, live, .. } = instruction;
        let id = format!("f{}-i{address:04x}", self.number);
        let wait = if instruction.waiting.cycles > 0 { instruction.waiting.cycles.to_string() } else { String::new() };
        let line = instruction.origin.ptx_line.map_or_else(String::new, |line| line.to_string());
        let class = if instruction.waiting.cycles >= 20 { " class=\"slow\"" } else { "" };
        put!(
            self,
            "<tr id=\"{id}\" data-line=\"{line}\"{class}><th scope=\"row\"><a href=\"#{id}\">{address:04x}</a></th><td>{}</td><td>{issue_cycle}</td>\
             <td>{stall}</td><td>{wait}</td><td>{live}</td><td>{line}</td>{}</tr>\n",
            escaped(text),
            self.measured(instruction)
        );
    }
}

/// Writes the PTX and the source files next to the functions.
fn texts(out: &mut String, explanation: &Explanation) {
    if explanation.ptx.is_empty() && explanation.sources.is_empty() {
        return;
    }
    out.push_str("<aside class=\"texts\" aria-label=\"PTX and source\">\n");
    if !explanation.ptx.is_empty() {
        out.push_str("<div class=\"pane text\" id=\"ptx\" role=\"region\" aria-label=\"PTX\" tabindex=\"0\">\n");
        text_lines(out, &explanation.ptx, |line| format!("ptx-{line}"));
        out.push_str("</div>\n");
    }
    for (file, source) in explanation.sources.iter().enumerate() {
        let name = escaped(&source.file);
        let _ = writeln!(out, "<div class=\"pane text\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\">");
        text_lines(out, &source.lines, |line| format!("src{file}-{line}"));
        out.push_str("</div>\n");
    }
    out.push_str("</aside>\n");
}

/// Writes numbered lines in pieces that the browser lays out when they come into view.
fn text_lines(out: &mut String, lines: &[String], id: impl Fn(usize) -> String) {
    for (piece, chunk) in lines.chunks(ROWS).enumerate() {
        let first = piece * ROWS + 1;
        let height = chunk.len() * 20;
        let _ = writeln!(out, "<ol class=\"chunk lines\" start=\"{first}\" style=\"contain-intrinsic-size: auto {height}px\">");
        for (number, line) in (first..).zip(chunk) {
            let _ = writeln!(out, "<li id=\"{}\" data-line=\"{number}\">{}</li>", id(number), escaped(line));
        }
        out.push_str("</ol>\n");
    }
}
