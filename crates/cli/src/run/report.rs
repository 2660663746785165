//! Prints the outcomes of kernel tests, for people and as JSON.

use std::fmt::Write as _;

use oriole_kernel_test::WrongElement;
use oriole_sim::ptx::UndefinedBehavior;
use oriole_sim::timing::Estimate;
use serde_json::{Value, json};

use super::Engine;
use super::outcome::{RunOutcome, Status, WrongBuffer};
use crate::print;

/// Number of wrong elements printed per buffer.
const SHOWN_ELEMENTS: usize = 5;
/// Number of findings printed.
const SHOWN_FINDINGS: usize = 5;
/// Number of stall reasons printed.
const SHOWN_REASONS: usize = 5;
/// Number of wrong elements per buffer in JSON.
const LISTED_ELEMENTS: usize = 100;

/// Prints outcomes and counts them.
pub struct Report {
    json: bool,
    engine: Engine,
    files: usize,
    passed: usize,
    failed: usize,
}

impl Report {
    pub fn new(json: bool, engine: Engine, files: usize) -> Report {
        Report { json, engine, files, passed: 0, failed: 0 }
    }

    /// Prints and counts the outcome of a file.
    pub fn add(&mut self, file: &str, outcome: &RunOutcome) {
        match outcome.status {
            Status::Passed => self.passed += 1,
            _ => self.failed += 1,
        }
        let name = if file == "-" { "<stdin>" } else { file };
        let text = if self.json { format!("{}\n", object(name, self.engine, outcome)) } else { text(name, self.engine, outcome) };
        print::out(text.as_bytes());
    }

    /// Prints the counts; returns whether all tests passed.
    pub fn finish(self) -> bool {
        let Report { json, files, passed, failed, .. } = self;
        match (json, files) {
            (true, _) => outln!("{}", json!({ "passed": passed, "failed": failed })),
            (false, 0 | 1) => {}
            (false, _) => outln!("{passed} passed, {failed} failed"),
        }
        failed == 0
    }
}

/// Formats an outcome for people.
fn text(name: &str, engine: Engine, outcome: &RunOutcome) -> String {
    let mut out = format!("{name}: {} ({}", outcome.status.name(), engine.name());
    if let Some(target) = outcome.target {
        let _ = write!(out, ", {target}");
    }
    if let Some(level) = outcome.level {
        let _ = write!(out, ", -O{level}");
    }
    out.push(')');
    if !outcome.message.is_empty() {
        let _ = write!(out, ": {}", outcome.message);
    } else if let Some(instructions) = outcome.instructions {
        let whose = if engine == Engine::Ptx { "thread" } else { "warp" };
        let _ = write!(out, ", {instructions} {whose} instructions");
        if outcome.hazards.is_some() {
            out.push_str(", no hazards");
        }
    }
    out.push('\n');
    for buffer in &outcome.buffers {
        let _ = writeln!(out, "    {}: {} of {} elements wrong", buffer.name, buffer.wrong.len(), buffer.elements);
        for wrong in buffer.wrong.iter().take(SHOWN_ELEMENTS) {
            let owner = buffer.owner(wrong.index).map_or(String::new(), |(block, thread)| format!(" (block {block}, thread {thread})"));
            let (expected, got) = (buffer.expected(wrong.expected), buffer.value(wrong.got));
            let _ = writeln!(out, "        {}[{}]{owner}: expected {expected}, got {got}", buffer.name, wrong.index);
        }
        if buffer.wrong.len() > SHOWN_ELEMENTS {
            let _ = writeln!(out, "        and {} more", buffer.wrong.len() - SHOWN_ELEMENTS);
        }
    }
    if outcome.findings.len() > 1 {
        outcome.findings.iter().take(SHOWN_FINDINGS).for_each(|finding| _ = writeln!(out, "    {finding}"));
        if outcome.findings.len() > SHOWN_FINDINGS {
            let _ = writeln!(out, "    and {} more", outcome.findings.len() - SHOWN_FINDINGS);
        }
    }
    for hazard in outcome.hazards.iter().flatten().take(SHOWN_FINDINGS) {
        hazard.lines().for_each(|line| _ = writeln!(out, "    {line}"));
    }
    match &outcome.timing {
        Some(Ok(estimate)) => timing_text(estimate, &mut out),
        Some(Err(reason)) => _ = writeln!(out, "    no estimate of its time: {reason}"),
        None => {}
    }
    if let Some(trace) = &outcome.trace {
        let _ = writeln!(out, "    {}{}", trace.title, if trace.lines.is_empty() { "" } else { ":" });
        trace.lines.iter().for_each(|line| _ = writeln!(out, "      {line}"));
    }
    if !outcome.printed.is_empty() {
        out.push_str("    the kernel printed:\n");
        outcome.printed.lines().for_each(|line| _ = writeln!(out, "      {line}"));
    }
    out
}

fn timing_text(estimate: &Estimate, out: &mut String) {
    let Estimate { warp, block, sm, kernel, occupancy, blocks_per_sm, waves, clock_mhz, stalls, issue_rate } = estimate;
    let _ = writeln!(out, "    about {:.2} us at {clock_mhz} MHz", estimate.microseconds(*clock_mhz));
    let _ = writeln!(out, "      cycles: warp {warp}, block {block}, multiprocessor {sm}, kernel {kernel}");
    let _ = writeln!(
        out,
        "      {} of {} warps resident; {blocks_per_sm} blocks for a multiprocessor, {waves:.2} waves; {issue_rate:.2} instructions a cycle",
        occupancy.warps, occupancy.warp_slots
    );
    let total: u64 = stalls.0.iter().map(|stall| stall.1).sum();
    for (reason, cycles) in stalls.0.iter().take(SHOWN_REASONS) {
        let _ = writeln!(out, "      {:>3.0}%  {reason}", 100.0 * *cycles as f64 / total.max(1) as f64);
    }
}

fn timing_object(timing: &Result<Estimate, String>) -> Value {
    match timing {
        Ok(estimate) => json!({
            "microseconds": estimate.microseconds(estimate.clock_mhz),
            "clock_mhz": estimate.clock_mhz,
            "warp_cycles": estimate.warp,
            "block_cycles": estimate.block,
            "multiprocessor_cycles": estimate.sm,
            "kernel_cycles": estimate.kernel,
            "resident_warps": estimate.occupancy.warps,
            "waves": estimate.waves,
            "instructions_per_cycle": estimate.issue_rate,
            "stalls": estimate.stalls.0.iter().map(|(reason, cycles)| json!({ "reason": reason, "cycles": cycles })).collect::<Vec<_>>(),
        }),
        Err(reason) => json!({ "failed": reason }),
    }
}

fn object(name: &str, engine: Engine, outcome: &RunOutcome) -> Value {
    json!({
        "file": name,
        "engine": engine.name(),
        "target": outcome.target.map(|target| target.to_string()),
        "level": outcome.level,
        "status": outcome.status.name(),
        "message": outcome.message,
        "instructions": outcome.instructions,
        "buffers": outcome.buffers.iter().map(buffer_object).collect::<Vec<_>>(),
        "findings": outcome.findings.iter().map(finding_object).collect::<Vec<_>>(),
        "hazards": outcome.hazards,
        "timing": outcome.timing.as_ref().map(timing_object),
        "trace": outcome.trace.as_ref().map(|trace| json!({ "title": trace.title, "lines": trace.lines })),
        "printed": outcome.printed,
    })
}

/// Returns a buffer with wrong elements as JSON.
fn buffer_object(buffer: &WrongBuffer) -> Value {
    let element = |wrong: &WrongElement| {
        let owner = buffer.owner(wrong.index);
        json!({
            "index": wrong.index,
            "block": owner.map(|owner| owner.0),
            "thread": owner.map(|owner| owner.1),
            "expected": buffer.expected(wrong.expected),
            "got": buffer.element.number(wrong.got),
            "got_bits": buffer.bits(wrong.got),
        })
    };
    json!({
        "buffer": buffer.name,
        "type": buffer.element.name(),
        "elements": buffer.elements,
        "wrong": buffer.wrong.len(),
        "first": buffer.wrong.iter().take(LISTED_ELEMENTS).map(element).collect::<Vec<_>>(),
    })
}

fn finding_object(finding: &UndefinedBehavior) -> Value {
    json!({
        "kind": finding.kind.name(),
        "line": finding.line,
        "block": finding.block,
        "thread": finding.thread,
        "message": finding.message,
    })
}
