//! `SCHEDULING GUIDANCE:` and what follows it, by level.
//!
//! | level | what |
//! |---|---|
//! | 0 | nothing |
//! | 1 | the header; each block with its cycles and its schedule |
//! | 2 | before that, who scheduled, and the target of registers with its reasons |
//! | 3 | latencies that are hidden |
//! | 4 | `LOOP STATIC METRICS : ` and a line for each loop |

use std::fmt::Write;

use super::latency;
use super::statistics::{BlockSchedule, Gathered, LoopMetrics};
use super::target::RegisterTarget;

/// The header.
pub const HEADER: &str = "SCHEDULING GUIDANCE:";
/// What goes before the loops.
pub const LOOP_HEADER: &str = "LOOP STATIC METRICS : ";

/// The level from which on the target of registers is explained.
const TARGET_LEVEL: u8 = 2;
const HIDING_LEVEL: u8 = 3;
const LOOP_LEVEL: u8 = 4;

/// What a pass of the scheduler did, in figures.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PassSummary {
    /// The phase.
    pub phase: u8,
    /// Blocks with a new order.
    pub blocks: usize,
    /// Estimated cycles of all blocks, each once, before.
    pub cycles_before: u64,
    /// The same afterwards.
    pub cycles_after: u64,
    /// The most general registers that are live, before; 0 where it does not matter.
    pub live_before: i32,
    /// The same afterwards.
    pub live_after: i32,
}

/// What guidance is made of.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The function.
    pub name: &'a str,
    /// Who scheduled it, and what for.
    pub scheduler: &'a str,
    /// The target of registers, if it was scheduled before allocation.
    pub target: Option<&'a RegisterTarget>,
    /// What was done.
    pub passes: &'a [PassSummary],
    /// Final code.
    pub code: &'a Gathered,
}

/// The text of a level.
pub fn text(subject: &Subject<'_>, level: u8) -> String {
    let mut text = String::new();
    if level == 0 {
        return text;
    }
    let _ = writeln!(text, "{HEADER} {}", subject.name);
    if level >= TARGET_LEVEL {
        let _ = writeln!(text, "  scheduled by {}", subject.scheduler);
        for pass in subject.passes {
            let PassSummary { phase, blocks, cycles_before, cycles_after, live_before, live_after } = pass;
            let _ = write!(text, "  phase {phase}: {blocks} blocks with a new order, {cycles_before} cycles before, {cycles_after} after");
            if *live_after > 0 {
                let _ = write!(text, "; {live_before} registers live before, {live_after} after");
            }
            text.push('\n');
        }
        if let Some(target) = subject.target {
            let _ = writeln!(text, "  {target}");
        }
    }
    for block in &subject.code.blocks {
        block_lines(&mut text, block);
    }
    if level >= HIDING_LEVEL {
        text.push_str(&latency::lines(&subject.code.hiding));
    }
    if level >= LOOP_LEVEL {
        let _ = writeln!(text, "{LOOP_HEADER}{}", subject.code.loops.len());
        for metrics in &subject.code.loops {
            loop_line(&mut text, metrics);
        }
    }
    text
}

fn block_lines(text: &mut String, block: &BlockSchedule) {
    let BlockSchedule { block, cycles, waited, executions, live, schedule } = block;
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

fn loop_line(text: &mut String, metrics: &LoopMetrics) {
    let LoopMetrics { header, depth, blocks, instructions, loads, stores, cycles, live } = metrics;
    let _ = write!(text, "  {header:?} depth {depth}: {cycles:.0} cycles an iteration, {instructions} instructions in {blocks} blocks, ");
    let _ = write!(text, "{loads} loads, {stores} stores");
    if let Some(live) = live {
        let _ = write!(text, ", {live} registers live");
    }
    text.push('\n');
}
