//! Computes stall cycles so that every fixed latency has passed on every path.
//!
//! **Input:** the code in its final order, its register accesses, the latencies of the hardware model, and control words with scoreboards.
//! **Output:** the stall of each control word, and the instructions before which no stall is long enough ([`LatencyShortfall`]).
//!
//! The stall of an instruction is the number of cycles until the next one issues, so the distance of two instructions is the sum of the
//! stalls from the first to the one before the second. Where this is less than the latency, the stall directly before the second
//! instruction is lengthened. For the first instruction of a block, the last stall of each predecessor on whose path cycles are missing is
//! lengthened. Blocks are walked until nothing changes. Stalls only grow and are bounded by 15 cycles, so this terminates.
//!
//! In two cases it is cheaper to lengthen another stall than the one directly before the second instruction:
//!
//! - the stall before an earlier instruction that waits for a scoreboard, if that wait usually lasts at least as long as the missing
//!   cycles: they pass while the warp would wait anyway;
//! - the stall before a loop, for latencies that start outside of the loop: there the cycles are spent once, and not in every iteration.
//!
//! Example; a predicate can be used as a guard 13 cycles after the comparison that writes it:
//!
//! ```text
//! 0  LDG R0, [R2]              stall 1, sets SB0
//! 1  ISETP P0, PT, R4, R5      stall 11    the missing cycles are added here ...
//! 2  IADD3 R6, R0, R5          stall 2     ... and not here: this one waits for SB0 anyway, usually far longer
//! 3  @P0 IADD3 R7, R5, R5      issues at least 13 cycles after 1
//! ```
//!
//! Besides register dependences, there are five reasons for stalls:
//!
//! - A unit is busy for some cycles with each instruction. The hardware would delay the next one by itself; but then later stalls, which
//!   were computed without that delay, would be longer than necessary.
//! - An instruction that waits for a scoreboard sees it only some cycles after it was set.
//! - After a thread-block barrier (`BAR`), only arithmetic that overwrites no general register may issue for some cycles.
//! - Some opcodes need a minimum stall, regardless of the next instruction.
//! - Before control is transferred to code that was compiled separately, such as a callee, all results of fixed latency must be written.
//!
//! Hennessy and Gross 1983 ("Postpass Code Optimization of Pipeline Constraints") describe the same task for a machine without interlocks:
//! the latest accesses of each register are tracked with their age, and `NOP`s are inserted where an age is too low. The departures: the
//! distance is a field of the instruction and not a number of `NOP`s; ages are tracked over the edges of the control-flow graph, and not
//! only within basic blocks; and instructions are not reordered here, because the order is already final.
//!
//! Departure from the published description of ptxas: fixed latencies of any length are covered by stalls, of several instructions if need
//! be, and not only those up to 15 cycles.
//!
//! Cost: for each register and port only the last access is kept, and only until its latency has passed, so one walk is linear in the
//! length of the code.

use oriole_hardware::units::Unit;
use oriole_hardware::{ControlRules, Model};
use oriole_isa::Control;
use smallvec::smallvec;

use super::control_flow::{MachineControlFlow, Worklist};
use super::machine_code::MachineCode;
use super::reg_access::InstAccesses;
pub use causes::{LatencyShortfall, StallCause, StallPart, StallParts, StallSummary};
use events::BlockEndState;
use walker::StallWalker;

mod causes;
mod events;
mod walker;

/// For hardware with dual issue: finds pairs of consecutive independent instructions that use different units other than the branch unit,
/// if neither needs a longer minimum stall than usual and the second one waits for no scoreboard. Sets the stall of the first one to 0, so
/// that both issue in one cycle. If latencies do not allow that, the stall is lengthened again later.
fn allow_dual_issue(code: &MachineCode<'_>, inst_accesses: &[InstAccesses], rules: &ControlRules, controls: &mut [Control]) {
    let may_dual_issue = |inst: &InstAccesses| {
        let wants = rules.requirements(inst.opcode);
        !wants.yields_with_stall_0 && u32::from(wants.least_stall) <= rules.facts.least_stall && inst.class.unit() != Unit::Branch
    };
    for block in &code.blocks {
        let mut at = block.range.start;
        while at + 1 < block.range.end {
            let (first, second) = (&inst_accesses[at], &inst_accesses[at + 1]);
            let is_pair = may_dual_issue(first) && may_dual_issue(second) && first.class.unit() != second.class.unit();
            // Instructions that depend on each other are no pair: the latency would lengthen the stall between them again.
            let depends = first
                .writes
                .iter()
                .any(|written| second.reads.iter().chain(&second.writes).any(|other| other.register == written.register));
            if is_pair && !depends && controls[at + 1].wait == 0 {
                controls[at].stall = 0;
                at += 1;
            }
            at += 1;
        }
    }
}

/// Sets the stalls of all control words so that every fixed latency has passed on every path. Records the cause of each stall if
/// `with_causes` is true.
pub(crate) fn compute_stalls(
    code: &MachineCode<'_>,
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    model: &Model,
    rules: &ControlRules,
    controls: &mut [Control],
    with_causes: bool,
) -> StallSummary {
    // Start from the minimum stalls; they only grow from here on.
    for (control, inst) in controls.iter_mut().zip(inst_accesses) {
        let wants = rules.requirements(inst.opcode);
        control.stall = if wants.yields_with_stall_0 { 0 } else { wants.least_stall };
    }
    if rules.dual_issue {
        allow_dual_issue(code, inst_accesses, rules, controls);
    }
    let own = |(position, control): (usize, &Control)| -> StallParts {
        smallvec![StallPart { cycles: control.stall, cause: StallCause::MinimumStall, second: position as u32 }]
    };
    let parts = if with_causes { controls.iter().enumerate().map(own).collect() } else { Vec::new() };
    let mut walker = StallWalker::new(code, inst_accesses, model, rules, controls, parts);
    let mut left: Vec<Option<BlockEndState>> = vec![None; code.blocks.len()];
    let mut worklist = Worklist::new(code.blocks.len());
    control_flow.roots.iter().for_each(|&root| worklist.push(root));
    while let Some(block) = worklist.pop() {
        let first = code.blocks[block].range.clone().next();
        let mut entry = BlockEndState::new();
        let enters_loop = |before: u32| control_flow.depth_of_block(before as usize) < control_flow.depth_of_block(block);
        if left[block].is_none() && control_flow.predecessors[block].iter().any(|&before| enters_loop(before)) {
            // At the first visit to a loop, the stalls that its first block needs by itself are set. Otherwise `lengthen_before_loop` would
            // add cycles before the loop that these stalls cover anyway.
            walker.walk_block(block, &entry);
        }
        for &before in &control_flow.predecessors[block] {
            let before = before as usize;
            // A predecessor on a back edge may not have been walked yet; when it is, it adds this block to the worklist again.
            let Some(state) = &mut left[before] else { continue };
            let mut grown = first.map_or(0, |first| walker.lengthen_last_stall(before, first, state));
            state.add_age(grown, model);
            if enters_loop(before as u32) {
                let more = walker.lengthen_before_loop(before, block, state);
                state.add_age(more, model);
                grown += more;
            }
            // A longer stall at the end of the predecessor makes its events older for its other successors too.
            if grown > 0 {
                code.blocks[before].successors.iter().for_each(|&next| worklist.push(next));
            }
            entry.merge_events(state);
        }
        let state = walker.walk_block(block, &entry);
        if left[block].as_ref() != Some(&state) {
            left[block] = Some(state);
            code.blocks[block].successors.iter().for_each(|&next| worklist.push(next));
        }
    }
    // Several walks may report the same instruction; the largest number of missing cycles counts.
    let mut summary = walker.summary;
    summary.shortfalls.sort_unstable_by_key(|one| (one.before, std::cmp::Reverse(one.cycles)));
    summary.shortfalls.dedup_by_key(|one| one.before);
    summary
}
