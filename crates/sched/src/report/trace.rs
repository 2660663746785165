//! Records each scheduling decision with its reason, and formats the record as text.
//!
//! Positions in a schedule are meaningful only while its block is being scheduled, so they are converted to instructions at once. [`text`]
//! must run while the function still has the operands that the scheduler saw.

use std::fmt::Write;

use oriole_ir::text::print_inst;
use oriole_ir::{Block, Function, Inst};

use crate::backend::{ChangeReason, CodeChange, Length, Reason, Schedule, ScheduleMode, SearchOutcome};

/// One scheduling decision. Instructions are given as indices in their block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PickByIndex {
    /// Index in the block of the instruction that was chosen.
    picked: usize,
    /// Index in the block of the second-best candidate; `None` if no other instruction was ready.
    runner_up: Option<usize>,
    /// The criterion that decided between the chosen instruction and the second-best candidate.
    reason: Reason,
    /// Issue cycle of the chosen instruction, from the start of the region.
    cycle: u32,
}

/// The decisions of one region. Instructions are given as indices in the block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracedRegion {
    /// The decisions, in issue order.
    picks: Vec<PickByIndex>,
    /// Index in the block of the first instruction of the region.
    start: usize,
    /// Length of the old order, in cycles.
    before: Length,
    /// Length of the new order, in cycles.
    after: Length,
    /// Result of a search for the best order; [`SearchOutcome::None`] if there was none.
    search: SearchOutcome,
    /// Whether the new order is used; otherwise the region keeps its old order.
    is_used: bool,
}

impl TracedRegion {
    /// Creates the record of a scheduled region. `block_start` is the position of the first item of the block in the code, `start` the
    /// index of the first item of the region in the block.
    pub fn new(schedule: &Schedule, block_start: usize, start: usize, before: Length, is_used: bool) -> TracedRegion {
        let picks = schedule.picks.iter().map(|pick| PickByIndex {
            picked: pick.picked - block_start,
            runner_up: pick.runner_up.map(|other| other - block_start),
            reason: pick.reason,
            cycle: pick.cycle,
        });
        TracedRegion { picks: picks.collect(), start, before, after: schedule.length, search: schedule.search, is_used }
    }
}

/// Whether the result of an attempt to schedule a block is used or dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptVerdict {
    /// The attempt is used. A region whose new order is not faster keeps its old order.
    Taken,
    /// The attempt needs too many registers and is dropped.
    #[allow(missing_docs, reason = "how many")]
    TooManyRegisters { found: i32, allowed: i32 },
    /// The attempt fits into the register budget, but an order near the original one, which is the next attempt, takes fewer cycles.
    #[allow(missing_docs, reason = "how many")]
    Slower { cycles: u64, replaced_by: u64 },
}

/// One scheduling decision. Instructions are given by their identifiers in the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedPick {
    /// Index of the region among the regions of the block.
    pub region: usize,
    /// Issue cycle of the chosen instruction, relative to the start of the region.
    pub cycle: u32,
    /// The instruction that was chosen.
    pub picked: Inst,
    /// The second-best candidate. `None` if no other instruction was ready.
    pub runner_up: Option<Inst>,
    /// The criterion that decided between the chosen instruction and the second-best candidate.
    pub reason: Reason,
}

/// One attempt to schedule a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracedAttempt {
    /// The block that was scheduled.
    pub block: Block,
    /// The optimization goal of the attempt.
    pub mode: ScheduleMode,
    /// Whether the attempt is used.
    pub verdict: AttemptVerdict,
    /// All decisions, in issue order.
    pub picks: Vec<TracedPick>,
    /// For each region: index of its first instruction in the block, length of the old order and of the new order (in cycles), result of a
    /// search for the best order, and whether the new order is used.
    pub regions: Vec<(usize, Length, Length, SearchOutcome, bool)>,
}

impl TracedAttempt {
    /// Creates the record of an attempt. `insts` lists the instructions of the block in the old order.
    pub fn new(block: Block, insts: &[Inst], mode: ScheduleMode, regions: Vec<TracedRegion>, verdict: AttemptVerdict) -> TracedAttempt {
        let mut traced = TracedAttempt { block, mode, verdict, picks: Vec::new(), regions: Vec::new() };
        for (number, region) in regions.into_iter().enumerate() {
            traced.regions.push((region.start, region.before, region.after, region.search, region.is_used));
            traced.picks.extend(region.picks.into_iter().map(|pick| TracedPick {
                region: number,
                cycle: pick.cycle,
                picked: insts[pick.picked],
                runner_up: pick.runner_up.map(|other| insts[other]),
                reason: pick.reason,
            }));
        }
        traced
    }
}

/// Maximum width of an aligned column, in characters. Longer texts are not cut; they only break the alignment.
const MAX_ALIGNED_COLUMN_CHARS: usize = 64;

/// Formats the attempts to schedule the blocks of a function as text. Each decision is a line `cycle picked | runner-up | reason` under
/// headings for block and region. `phase` is the number of the scheduling pass.
pub fn text(function: &Function, phase: u8, attempts: &[TracedAttempt]) -> String {
    let mut text = String::new();
    for attempt in attempts.iter().filter(|attempt| !attempt.regions.is_empty()) {
        let verdict = match attempt.verdict {
            AttemptVerdict::Taken => String::new(),
            AttemptVerdict::TooManyRegisters { found, allowed } => format!(": dropped, {found} live registers where {allowed} are allowed"),
            AttemptVerdict::Slower { cycles, replaced_by } => {
                format!(": dropped, {cycles} cycles; an order near that of the source takes {replaced_by}")
            }
        };
        let _ = writeln!(text, "phase {phase} {:?} {}{verdict}", attempt.block, attempt.mode.name());
        for (number, &(start, before, after, search, is_used)) in attempt.regions.iter().enumerate() {
            let what = if is_used { "new order" } else { "old order stays" };
            let proof = match search {
                SearchOutcome::None => "",
                SearchOutcome::Optimal => "; no order is shorter",
                SearchOutcome::Ended => "; the search ended without a proof",
                SearchOutcome::TooLarge => "; too large to be searched",
            };
            let _ = writeln!(
                text,
                "  region {number} from instruction {start}: issued in {} cycles, results in {}; before {} and {}; {what}{proof}",
                after.issued, after.done, before.issued, before.done
            );
            append_decision_lines(&mut text, function, attempt, number);
        }
    }
    text
}

/// Returns as text the changes that a strategy made to the function before it ordered the regions. Each change is a line `phase N PLACE:
/// instruction | reason`. N is the number of the scheduling pass; PLACE is `from -> to` for a move between two blocks, `block removed`,
/// `block added`, or only the block if all changes were undone.
pub fn code_changes_text(function: &Function, phase: u8, changes: &[CodeChange]) -> String {
    let mut text = String::new();
    for &CodeChange { inst, from, to, reason } in changes {
        let place = match reason {
            ChangeReason::RepeatedBarrier | ChangeReason::RepeatedFence => format!("{from:?} removed"),
            ChangeReason::TooManyRegisters => format!("{from:?}"),
            _ if from == to => format!("{from:?} added"),
            _ => format!("{from:?} -> {to:?}"),
        };
        let _ = writeln!(text, "phase {phase} {place}: {} | {}", inst_text(function, inst), reason.text());
    }
    text
}

/// Returns the text of an instruction without its source location.
fn inst_text(function: &Function, inst: Inst) -> String {
    let text = print_inst(function, inst);
    text.split(" ;@").next().unwrap_or_default().to_owned()
}

/// Appends one line of text for each decision of a region.
fn append_decision_lines(text: &mut String, function: &Function, attempt: &TracedAttempt, region: usize) {
    let picks: Vec<&TracedPick> = attempt.picks.iter().filter(|pick| pick.region == region).collect();
    let names: Vec<(String, String)> = picks
        .iter()
        .map(|pick| (inst_text(function, pick.picked), pick.runner_up.map_or_else(|| "-".to_owned(), |other| inst_text(function, other))))
        .collect();
    let width = |column: fn(&(String, String)) -> &String| {
        names.iter().map(|pair| column(pair).len().min(MAX_ALIGNED_COLUMN_CHARS)).max().unwrap_or(0)
    };
    let (first, second) = (width(|pair| &pair.0), width(|pair| &pair.1));
    for (pick, (picked, runner_up)) in picks.iter().zip(&names) {
        let _ = writeln!(text, "  {:>6}  {picked:first$}  | {runner_up:second$}  | {}", pick.cycle, pick.reason.text());
    }
}
