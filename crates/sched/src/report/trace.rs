//! Every pick of a scheduler with its reason.
//!
//! Positions of a schedule mean something only while its block is at hand, so they become instructions at once. Their text is made by
//! [`text`] while the function still has the operands that the scheduler saw.

use std::fmt::Write;

use oriole_ir::text::print_inst;
use oriole_ir::{Block, Function, Inst};

use crate::backend::{Length, Mode, Reason, Schedule};

/// A pick, by index in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    picked: usize,
    runner_up: Option<usize>,
    reason: Reason,
    cycle: u32,
}

/// The picks of a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracedRegion {
    picks: Vec<Place>,
    start: usize,
    before: Length,
    after: Length,
    is_better: bool,
}

impl TracedRegion {
    /// The picks of a schedule. Its block starts at `block_start` in the code, the region at `start` in the block.
    pub fn new(schedule: &Schedule, block_start: usize, start: usize, before: Length, is_better: bool) -> TracedRegion {
        let picks = schedule.picks.iter().map(|pick| Place {
            picked: pick.picked - block_start,
            runner_up: pick.runner_up.map(|other| other - block_start),
            reason: pick.reason,
            cycle: pick.cycle,
        });
        TracedRegion { picks: picks.collect(), start, before, after: schedule.length, is_better }
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its regions stay, those that are faster than before.
    Taken,
    /// It needs too many registers.
    #[allow(missing_docs, reason = "how many")]
    TooManyRegisters { found: i32, allowed: i32 },
}

/// Why an instruction was picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedPick {
    /// The region in the block, from 0.
    pub region: usize,
    /// The cycle of the region in which it is issued.
    pub cycle: u32,
    /// The instruction.
    pub picked: Inst,
    /// Who came second; none if nobody else was ready.
    pub runner_up: Option<Inst>,
    /// The comparison that decided between the two.
    pub reason: Reason,
}

/// An attempt at a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempted {
    /// The block.
    pub block: Block,
    /// What for.
    pub mode: Mode,
    /// What became of it.
    pub verdict: Verdict,
    /// All picks, in order.
    pub picks: Vec<TracedPick>,
    /// For each region its first instruction in the block, the lengths of old and new order, and whether the new one stays.
    pub regions: Vec<(usize, Length, Length, bool)>,
}

impl Attempted {
    /// An attempt at a block whose instructions stand in their old order.
    pub fn new(block: Block, insts: &[Inst], mode: Mode, regions: Vec<TracedRegion>, verdict: Verdict) -> Attempted {
        let mut attempted = Attempted { block, mode, verdict, picks: Vec::new(), regions: Vec::new() };
        for (number, region) in regions.into_iter().enumerate() {
            attempted.regions.push((region.start, region.before, region.after, region.is_better));
            attempted.picks.extend(region.picks.into_iter().map(|pick| TracedPick {
                region: number,
                cycle: pick.cycle,
                picked: insts[pick.picked],
                runner_up: pick.runner_up.map(|other| insts[other]),
                reason: pick.reason,
            }));
        }
        attempted
    }
}

/// How wide columns get before they lose their shape.
const WIDEST: usize = 64;

/// The text of attempts at a function: one line for each pick, `phase block region cycle picked | runner-up | why`.
pub fn text(function: &Function, phase: u8, attempts: &[Attempted]) -> String {
    let mut text = String::new();
    for attempt in attempts.iter().filter(|attempt| !attempt.regions.is_empty()) {
        let verdict = match attempt.verdict {
            Verdict::Taken => String::new(),
            Verdict::TooManyRegisters { found, allowed } => format!(": dropped, {found} live registers where {allowed} are allowed"),
        };
        let _ = writeln!(text, "phase {phase} {:?} {}{verdict}", attempt.block, attempt.mode.name());
        for (number, &(start, before, after, is_better)) in attempt.regions.iter().enumerate() {
            let what = if is_better { "new order" } else { "old order stays" };
            let _ = writeln!(
                text,
                "  region {number} from instruction {start}: issued in {} cycles, results in {}; before {} and {}; {what}",
                after.issued, after.done, before.issued, before.done
            );
            picks(&mut text, function, attempt, number);
        }
    }
    text
}

/// What an instruction is called here: its text without the place in the source.
fn name(function: &Function, inst: Inst) -> String {
    let text = print_inst(function, inst);
    text.split(" ;@").next().unwrap_or_default().to_owned()
}

fn picks(text: &mut String, function: &Function, attempt: &Attempted, region: usize) {
    let picks: Vec<&TracedPick> = attempt.picks.iter().filter(|pick| pick.region == region).collect();
    let names: Vec<(String, String)> = picks
        .iter()
        .map(|pick| (name(function, pick.picked), pick.runner_up.map_or_else(|| "-".to_owned(), |other| name(function, other))))
        .collect();
    let width = |column: fn(&(String, String)) -> &String| names.iter().map(|pair| column(pair).len().min(WIDEST)).max().unwrap_or(0);
    let (first, second) = (width(|pair| &pair.0), width(|pair| &pair.1));
    for (pick, (picked, runner_up)) in picks.iter().zip(&names) {
        let _ = writeln!(text, "  {:>6}  {picked:first$}  | {runner_up:second$}  | {}", pick.cycle, pick.reason.text());
    }
}
