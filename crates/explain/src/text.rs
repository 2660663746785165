//! Writes an explanation as text.

use std::fmt::Write;

use crate::calls;
use crate::model::{Block, Cliff, Explanation, Function, Instruction, Loop, Registers};

/// How much to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// What concerns whole functions.
    Summary,
    /// Also every instruction.
    Full,
}

/// Returns the explanation as text.
pub fn write(explanation: &Explanation, detail: Detail) -> String {
    let mut text = String::new();
    for function in &explanation.functions {
        if !text.is_empty() {
            text.push('\n');
        }
        Writer { out: &mut text, explanation, function }.function(detail);
    }
    text
}

struct Writer<'a> {
    out: &'a mut String,
    explanation: &'a Explanation,
    function: &'a Function,
}

/// Writes a line; writing to a string does not fail.
macro_rules! line {
    ($writer:expr, $($text:tt)*) => {{
        let _ = writeln!($writer.out, $($text)*);
    }};
}

/// Returns the list of names as a sentence part, or a word for none.
fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Returns a fraction in percent.
fn percent(fraction: f64) -> String {
    format!("{:.0}%", fraction * 100.0)
}

/// Returns a number of cycles with at most one decimal place.
pub(crate) fn cycles(number: f64) -> String {
    if (number - number.round()).abs() < 0.05 { format!("{number:.0}") } else { format!("{number:.1}") }
}

impl Writer<'_> {
    fn function(&mut self, detail: Detail) {
        let function = self.function;
        let kind = if function.is_kernel { "kernel" } else { "function" };
        let level = self.explanation.level.map_or_else(String::new, |level| format!(", -O{level}"));
        line!(self, "{} ({kind}, {}{level})", function.name, self.explanation.target);
        if let Some(obstacle) = &function.obstacle {
            line!(self, "  The code could not be analysed: {obstacle}");
        }
        for sentence in &function.unknown {
            line!(self, "  Not known: {sentence}");
        }
        self.registers(&function.registers);
        self.occupancy();
        let memory = &function.memory;
        line!(
            self,
            "Memory: {} bytes shared, {} bytes stack, {} bytes parameters, {} bytes constants",
            memory.shared_bytes,
            memory.local_bytes,
            memory.parameter_bytes,
            memory.constant_bytes
        );
        self.spills();
        self.time();
        self.decisions();
        self.warnings();
        if detail == Detail::Full {
            self.code();
        }
    }

    fn registers(&mut self, registers: &Registers) {
        let highest = registers.highest.map_or_else(String::new, |highest| format!(", R{highest} is the highest named"));
        line!(self, "Registers: {} of a thread; at most {} are live at once{highest}", registers.count, registers.peak_live);
        if let Some(cliff) = &registers.next_above {
            line!(self, "  up to {}: {}", cliff.registers, resident(cliff));
        }
        if let Some(cliff) = &registers.next_below {
            line!(self, "  with {} or fewer: {}", cliff.registers, resident(cliff));
        }
        if let Some(address) = registers.peak_address {
            line!(self, "  live before {address:#06x}:");
        }
        for value in &registers.live_at_peak {
            let name = value.name.as_deref().unwrap_or("");
            let place = match value.written_at.as_slice() {
                [] => "not written in this function".to_owned(),
                [one] => format!("written at {one:#06x}"),
                [one, others @ ..] => format!("written at {one:#06x} and {} other places", others.len()),
            };
            let line = value.ptx_line.map_or_else(String::new, |line| format!(", {}", self.ptx(line)));
            line!(self, "    {:5}{name:8} {place}{line}", value.register);
        }
    }

    /// Returns a PTX line with its number.
    fn ptx(&self, line: u32) -> String {
        match self.explanation.ptx.get((line as usize).wrapping_sub(1)) {
            Some(text) => format!("line {line}: {}", text.split("//").next().unwrap_or_default().trim()),
            None => format!("line {line}"),
        }
    }

    fn occupancy(&mut self) {
        let Some(occupancy) = &self.function.occupancy else { return };
        let assumed = if occupancy.is_declared { "" } else { " (assumed)" };
        line!(
            self,
            "Occupancy: {} blocks of {} threads{assumed} are resident, {} warps, {}; limited by {}",
            occupancy.blocks,
            occupancy.threads,
            occupancy.warps,
            percent(occupancy.occupancy),
            listed(&occupancy.limited_by)
        );
    }

    fn spills(&mut self) {
        let spills = &self.function.spills;
        if spills.slots.is_empty() {
            line!(self, "Spills: none");
            return;
        }
        let what = if spills.is_exact { "Spills" } else { "Accesses to the stack frame (spills or variables)" };
        line!(self, "{what}: {} bytes of stores, {} bytes of loads", spills.store_bytes, spills.load_bytes);
        for slot in &spills.slots {
            let name = slot.name.as_deref().unwrap_or("a value");
            let line = slot.ptx_line.map_or_else(String::new, |line| format!(" of {}", self.ptx(line)));
            let place = if slot.depth > 0 { ", in a loop" } else { "" };
            line!(self, "  {:#06x}: {name}{line}: {} stores, {} loads{place}", slot.offset, slot.stores.len(), slot.loads.len());
        }
    }

    fn time(&mut self) {
        let function = self.function;
        line!(self, "Time: about {} cycles for one warp alone, with ten iterations for each loop", cycles(function.cycles));
        for block in &function.blocks {
            self.block(block);
        }
        for one in &function.loops {
            self.one_loop(one);
        }
        for node in calls::tree(self.explanation, function) {
            let indent = "  ".repeat(node.depth + 1);
            line!(self, "{indent}call {:#06x} of {}", node.call.address, node.text());
        }
    }

    fn block(&mut self, block: &Block) {
        let path = &block.critical_path;
        let chain = match path.addresses.as_slice() {
            [first, .., last] => format!("; critical path {} cycles, from {first:#06x} to {last:#06x}", path.cycles),
            _ => String::new(),
        };
        line!(
            self,
            "  {} {:#06x}: {} cycles, {} of them waits, executed {} times{chain}",
            block.name,
            block.start,
            block.cycles,
            block.waited,
            cycles(block.executions)
        );
    }

    fn one_loop(&mut self, one: &Loop) {
        let indent = "  ".repeat(one.depth as usize);
        line!(
            self,
            "{indent}loop {} {:#06x} to {:#06x}: {} cycles an iteration, {} instructions",
            one.header,
            one.start,
            one.end,
            cycles(one.cycles),
            cycles(one.instructions)
        );
        if let Some(bound) = one.bounds.first() {
            line!(self, "{indent}  at least {}: {}; the schedule is {} above", cycles(bound.cycles), bound.text, cycles(one.above_bound));
        }
        if let Some(occupied) = &one.occupied {
            line!(
                self,
                "{indent}  {} warps a scheduler: {} cycles for all; limited by {}",
                occupied.warps,
                cycles(occupied.cycles),
                occupied.limited_by
            );
        }
    }

    fn decisions(&mut self) {
        let function = self.function;
        if !function.schedule.is_empty() {
            line!(self, "Schedule:");
        }
        for sentence in &function.schedule {
            line!(self, "  {sentence}");
        }
        for (title, is_done) in [("Done:", true), ("Not done:", false)] {
            let remarks: Vec<_> = function.remarks.iter().filter(|remark| remark.is_done == is_done).collect();
            if !remarks.is_empty() {
                line!(self, "{title}");
            }
            for remark in remarks {
                let place = remark.ptx_line.map_or_else(String::new, |line| format!(" line {line}"));
                line!(self, "  {}{place}: {}", remark.pass, remark.text);
            }
        }
        let changed: Vec<String> = function
            .passes
            .iter()
            .filter(|pass| pass.instructions_before != pass.instructions_after)
            .map(|pass| format!("{} {} to {}", pass.name, pass.instructions_before, pass.instructions_after))
            .collect();
        if !changed.is_empty() {
            line!(self, "Passes that changed the number of instructions: {}", changed.join(", "));
        }
    }

    fn warnings(&mut self) {
        if self.function.warnings.is_empty() {
            return;
        }
        line!(self, "Warnings, the most expensive first:");
        for warning in &self.function.warnings {
            let place = warning.addresses.first().map_or_else(String::new, |address| format!(" at {address:#06x}"));
            let line = warning.ptx_line.map_or_else(String::new, |line| format!(", line {line}"));
            line!(self, "  {} cycles: {}{place}{line}: {}", cycles(warning.cycles), warning.kind, warning.text);
        }
    }

    fn code(&mut self) {
        line!(self, "Code: address, control word, live registers, issue cycle, instruction");
        let (mut block, mut line) = (None, None);
        for instruction in &self.function.instructions {
            if instruction.block != block {
                block = instruction.block;
                let name = block.and_then(|block| self.function.blocks.get(block)).map_or("", |block| &block.name);
                line!(self, "{name}:");
            }
            if instruction.origin.ptx_line != line {
                line = instruction.origin.ptx_line;
                if let Some(line) = line {
                    let source = instruction.origin.source.first();
                    let source = source.map_or_else(String::new, |place| format!("{}:{}, ", place.file, place.line));
                    line!(self, "      // {source}{}", self.ptx(line));
                }
            }
            self.instruction(instruction);
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let Instruction { address, control, live, issue_cycle, text, .. } = instruction;
        line!(self, "  {address:04x}  [{control}] {live:3} {issue_cycle:5}  {text}");
        const INDENT: &str = "                                          ";
        for wait in &instruction.waits {
            line!(self, "{INDENT}B{}: {}", wait.scoreboard, wait.text);
        }
        if instruction.waiting.cycles > 0 {
            line!(self, "{INDENT}waits {} cycles for {}", instruction.waiting.cycles, instruction.waiting.reason);
        }
        for set in &instruction.sets {
            let letter = if set.event == "results" { 'W' } else { 'R' };
            let readers: Vec<String> = set.readers.iter().map(|reader| format!("{reader:#06x}")).collect();
            let readers = if readers.is_empty() { "no instruction waits for it".to_owned() } else { format!("for {}", readers.join(", ")) };
            line!(self, "{INDENT}{letter}{}: {readers}", set.scoreboard);
        }
        if let Some(place) = &instruction.place {
            line!(self, "{INDENT}here: {}", place.text);
        }
        if let Some(form) = instruction.form.as_ref().filter(|form| form.created_by != "select" || !form.changes.is_empty()) {
            line!(self, "{INDENT}form: {}", form.text);
        }
        if let (Some(measured), Some(all)) = (&instruction.measured, self.function.samples) {
            let reasons: Vec<String> = measured.reasons.iter().map(|part| format!("{} {}", part.reason, part.samples)).collect();
            let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
            line!(self, "{INDENT}measured {} of {all} samples{reasons}", measured.samples);
        }
        for cause in instruction.stall_causes.iter().filter(|cause| cause.kind != "minimum") {
            line!(self, "{INDENT}S: {} of {}: {}", cause.cycles, instruction.stall, cause.text);
        }
    }
}

/// Describes the resident warps at a cliff.
fn resident(cliff: &Cliff) -> String {
    format!("{} blocks, {} warps, {}", cliff.blocks, cliff.warps, percent(cliff.occupancy))
}
