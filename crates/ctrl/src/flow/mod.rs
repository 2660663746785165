//! Phase 115: exact stalls and six scoreboards over the whole flow graph.
//!
//! An instruction of fixed latency needs a number of cycles before the next one that touches the same register in the wrong way; one of
//! variable latency needs a scoreboard that the other waits for. Five steps, each linear in the length of the code:
//!
//! 1. [`waits`](waits::find) walks all paths and finds who has to wait for whom: the first on each path that reads or overwrites an
//!    outstanding result, or overwrites a source that is read late.
//! 2. [`boards`](boards::allocate) gives those who are waited for a scoreboard each, or one together where six are not enough.
//! 3. [`stalls`](stalls::settle) lengthens stalls until every fixed latency has passed on every path, back edges included.
//! 4. [`yields`](yields::decide) says where the scheduler may turn to other warps.
//! 5. [`reuse`](reuse::mark) keeps registers in the reuse cache for the next instruction.
//!
//! Registers and timing come from the hardware model, all other rules from `data/control.tbl`; what a `--hw-profile` changes there changes
//! the code. `oriole verify` checks the outcome from the bytes and shares nothing with this.

pub mod boards;
pub mod paths;
pub mod reasons;
pub mod reuse;
pub mod stalls;
pub mod touch;
pub mod waits;
pub mod yields;

use std::ops::Range;

use oriole_hardware::{ControlRules, Model};
use oriole_isa::{Control, Instruction};

use paths::Paths;
use reasons::Reasons;
use stalls::Shortfall;
use touch::Touches;

/// A function in its final order.
pub struct Code<'a> {
    pub instructions: &'a [Instruction],
    /// Blocks in the order of the code.
    pub blocks: Vec<Block>,
}

/// A run of instructions.
#[derive(Clone, Debug)]
pub struct Block {
    pub range: Range<usize>,
    /// Numbers of the blocks that control may go to.
    pub successors: Vec<usize>,
}

/// Control words, and what they cannot give.
#[derive(Debug)]
pub struct Assignment {
    pub controls: Vec<Control>,
    /// Where a fixed latency is longer than the longest stall in front of it; an instruction has to go there (phase 120).
    pub shortfalls: Vec<Shortfall>,
    /// Why, if that was asked for.
    pub reasons: Option<Reasons>,
}

/// Control words for all instructions.
pub fn assign(code: &Code<'_>, model: &Model) -> Vec<Control> {
    assign_all(code, model, false).controls
}

/// Control words for all instructions, and the reason of each stall and wait.
pub fn assign_with_reasons(code: &Code<'_>, model: &Model) -> (Vec<Control>, Reasons) {
    let done = assign_all(code, model, true);
    (done.controls, done.reasons.unwrap_or_default())
}

/// The whole phase.
pub fn assign_all(code: &Code<'_>, model: &Model, with_reasons: bool) -> Assignment {
    let rules = ControlRules::of(model);
    let touches: Vec<Touches> = code.instructions.iter().map(|instruction| Touches::new(instruction, model, rules)).collect();
    let paths = Paths::new(code);
    let waits = waits::find(code, &paths, &touches, model);
    let mut controls = boards::allocate(code, &paths, &touches, &waits, model, rules);
    let outcome = stalls::settle(code, &paths, &touches, model, rules, &mut controls, with_reasons);
    yields::decide(code, &paths, &touches, rules, &mut controls);
    reuse::mark(code, &paths, &touches, rules, &mut controls);
    let reasons = with_reasons.then_some(Reasons { waits, stalls: outcome.causes });
    Assignment { controls, shortfalls: outcome.shortfalls, reasons }
}
