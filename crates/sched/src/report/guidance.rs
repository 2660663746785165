//! Formats the text after `SCHEDULING GUIDANCE:`, by level of detail.
//!
//! | level | added text |
//! |---|---|
//! | 0 | none |
//! | 1 | the header; each block with its cycles and its schedule |
//! | 2 | before the blocks: the scheduler, and the register target with its derivation |
//! | 3 | hidden latencies |
//! | 4 | `LOOP STATIC METRICS : ` and a line for each loop |

use std::fmt::Write;

use super::latency_hiding;
use super::statistics::{BlockSchedule, FunctionStatistics, LoopMetrics};
use super::target::RegisterTarget;

/// The word that starts the guidance text; the name of the function follows.
pub(crate) const GUIDANCE_HEADER: &str = "SCHEDULING GUIDANCE:";
/// The heading before the metrics of the loops; their number follows.
pub(crate) const LOOP_METRICS_HEADER: &str = "LOOP STATIC METRICS : ";

/// Lowest level of detail (0 to 4) at which the register target is explained.
const TARGET_DETAIL_LEVEL: u8 = 2;
/// Lowest level of detail at which the distances between producers and consumers (hidden latencies) are printed.
const LATENCY_HIDING_DETAIL_LEVEL: u8 = 3;
/// Lowest level of detail at which the metrics of loops are printed.
const LOOP_DETAIL_LEVEL: u8 = 4;

/// The effect of one scheduling pass on a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PassSummary {
    /// Phase number of the pass.
    pub phase: u8,
    /// Number of blocks whose instruction order the pass changed.
    pub blocks: usize,
    /// Estimated cycles of all blocks before the pass, each block executed once.
    pub cycles_before: u64,
    /// Estimated cycles of all blocks after the pass.
    pub cycles_after: u64,
    /// Maximum number of live general registers before the pass; 0 after register allocation.
    pub live_before: i32,
    /// Maximum number of live general registers after the pass; 0 after register allocation.
    pub live_after: i32,
    /// Number of regions whose order was searched and proved to be the shortest, and number of regions that were searched without such a
    /// proof.
    pub proved_and_unproved: (usize, usize),
}

impl PassSummary {
    /// Returns a phrase that says how many regions a search proved to be optimal, to be appended to a sentence; empty if nothing was
    /// searched.
    pub fn proof_phrase(&self) -> String {
        match self.proved_and_unproved {
            (0, 0) => String::new(),
            (proved, open) => format!("; no order is shorter in {proved} of {} searched regions", proved + open),
        }
    }
}

/// Everything that the guidance text of one function states.
#[derive(Clone, Copy, Debug)]
pub struct GuidanceInput<'a> {
    /// Name of the function.
    pub name: &'a str,
    /// The scheduling backend and mode, as text.
    pub scheduler: &'a str,
    /// The register target. `None` if the function was not scheduled before allocation.
    pub target: Option<&'a RegisterTarget>,
    /// The scheduling passes, in order.
    pub passes: &'a [PassSummary],
    /// Statistics of the final code.
    pub code: &'a FunctionStatistics,
}

/// Returns the guidance text of one function at a level of detail, 0 to 4.
pub fn text(subject: &GuidanceInput<'_>, level: u8) -> String {
    let mut text = String::new();
    if level == 0 {
        return text;
    }
    let _ = writeln!(text, "{GUIDANCE_HEADER} {}", subject.name);
    if level >= TARGET_DETAIL_LEVEL {
        let _ = writeln!(text, "  scheduled by {}", subject.scheduler);
        for pass in subject.passes {
            let PassSummary { phase, blocks, cycles_before, cycles_after, live_before, live_after, .. } = pass;
            let _ = write!(text, "  phase {phase}: {blocks} blocks with a new order, {cycles_before} cycles before, {cycles_after} after");
            if *live_after > 0 {
                let _ = write!(text, "; {live_before} registers live before, {live_after} after");
            }
            let _ = writeln!(text, "{}", pass.proof_phrase());
        }
        if let Some(target) = subject.target {
            let _ = writeln!(text, "  {target}");
        }
    }
    for block in &subject.code.blocks {
        append_block_lines(&mut text, block);
    }
    if level >= LATENCY_HIDING_DETAIL_LEVEL {
        text.push_str(&latency_hiding::lines(&subject.code.latency_distances));
    }
    if level >= LOOP_DETAIL_LEVEL {
        let _ = writeln!(text, "{LOOP_METRICS_HEADER}{}", subject.code.loops.len());
        for metrics in &subject.code.loops {
            append_loop_line(&mut text, metrics);
        }
    }
    text
}

/// Appends the lines of one block to the guidance text: its cycles and its schedule.
fn append_block_lines(text: &mut String, block: &BlockSchedule) {
    let BlockSchedule { block, cycles, idle_cycles: waited, executions, live, schedule } = block;
    let count = schedule.len();
    let _ = write!(text, "  {block:?}: {count} instructions, {cycles} cycles, {waited} of them waits, executed {executions} times");
    if let Some(live) = live {
        let _ = write!(text, ", {live} registers live");
    }
    text.push('\n');
    for (cycle, instruction) in schedule {
        let _ = writeln!(text, "  {cycle:>6}  {instruction}");
    }
}

/// Appends the line with the metrics of one loop to the guidance text.
fn append_loop_line(text: &mut String, metrics: &LoopMetrics) {
    let LoopMetrics { header, depth, blocks, instructions, loads, stores, cycles, live } = metrics;
    let _ = write!(text, "  {header:?} depth {depth}: {cycles:.0} cycles an iteration, {instructions} instructions in {blocks} blocks, ");
    let _ = write!(text, "{loads} loads, {stores} stores");
    if let Some(live) = live {
        let _ = write!(text, ", {live} registers live");
    }
    text.push('\n');
}
