//! Computes, for each instruction, the in-flight instructions that it has to wait for.
//!
//! **Input:** the code in its final order with the register accesses of each instruction, and the hardware model. **Output:** a list of
//! [`Wait`]s, from which [`super::boards`] assigns scoreboards.
//!
//! A forward may-analysis over the control-flow graph, like reaching definitions: the state at a point is the set of instructions that may
//! be in flight there. A variable-latency instruction is in flight from its issue until the first instruction on the path that reads or
//! overwrites its result; that instruction waits for it. An instruction that reads its sources late is likewise in flight until the first
//! instruction on the path that overwrites one of them. Where paths join, the state is the union. Blocks are walked until the states at
//! their starts no longer grow, and then once more to record the waits.
//!
//! Example; the two `MUFU` execute on a unit that finishes in order:
//!
//! ```text
//! bb0:  0  LDG R8, [R2]
//!       1  MUFU.RCP R0, R4
//!       2  MUFU.RCP R1, R5
//!       3  FADD R6, R0, R1      needs 1 and 2: waits for 2 only, which implies 1
//!       4  @P0 BRA bb2          in flight here: 0
//! bb1:  5  FADD R9, R8, R6      waits for 0
//! bb2:  6  FADD R10, R8, R6     waits for 0 too: on the path from bb0 it is still in flight
//! ```
//!
//! **In-order groups save waits.** Some units finish their instructions in the order of issue, and some queues read the sources of their
//! instructions in the order of issue. Waiting for one instruction of such a group implies that all older ones of the group are done. So of
//! several needed instructions of a group only the newest is waited for, and in the access list of a register the newest entry replaces
//! older ones of its group. A guarded instruction may not be executed, so it implies nothing about others. The order of issue is known
//! within a block only: instructions of the block are newer than those carried into it, whose order is unknown.
//!
//! The iteration over the blocks is that of Kildall 1973 ("A Unified Approach to Global Program Optimization"), with union as the meet. It
//! departs in one point: a state that becomes too large is reduced by waits at the start of the block (`MAX_INSTS_CARRIED_INTO_BLOCK`),
//! which is correct, because waiting too early only costs time, and bounds the size of the states.
//!
//! Departure: the published description of ptxas has separate passes for write-after-read hazards (before and after phase 120) and for
//! texture instructions (phase 114). Here one analysis handles all three kinds of dependence and all units, so nothing is repaired later.
//!
//! Cost: each register has a short list of in-flight accesses (at most `MAX_IN_FLIGHT_PER_REGISTER`). Stale entries are removed when the
//! list is visited, so one walk is linear in the length of the code. The number of walks depends on the nesting of loops. States with too
//! many instructions in flight are reduced (`MAX_INSTS_CARRIED_INTO_BLOCK`, `ACCESSES_KEPT_PER_REGISTER`).

use oriole_hardware::Model;

use super::control_flow::{MachineControlFlow, Worklist};
use super::machine_code::MachineCode;
use super::reg_access::InstAccesses;
use wait::CarriedInst;
pub use wait::{Wait, WaitCause, WaitedEvent};
use walker::WaitWalker;

mod wait;
mod walker;

/// Finds all waits that the code needs, sorted by the instruction that is waited for; at most one for each event and pair of instructions.
pub(crate) fn find_waits(
    code: &MachineCode<'_>,
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    model: &Model,
) -> Vec<Wait> {
    let mut entry: Vec<Option<Vec<CarriedInst>>> = vec![None; code.blocks.len()];
    let mut worklist = Worklist::new(code.blocks.len());
    for &root in &control_flow.roots {
        entry[root] = Some(Vec::new());
        worklist.push(root);
    }
    let mut walker = WaitWalker::new(inst_accesses, model);
    let (mut state, mut spare) = (Vec::new(), Vec::new());
    while let Some(block) = worklist.pop() {
        state.clone_from(entry[block].get_or_insert_default());
        let left = walker.walk_block(&state, code.blocks[block].range.clone());
        for &next in &code.blocks[block].successors {
            let changed = match &mut entry[next] {
                slot @ None => {
                    *slot = Some(left.to_vec());
                    true
                }
                Some(old) => merge_carried_insts(old, left, &mut spare),
            };
            if changed {
                worklist.push(next);
            }
        }
    }
    // The states at the starts of blocks are final now. One more walk over each block records the waits that they require.
    walker.recorded_waits = Some(Vec::new());
    for (block, state) in code.blocks.iter().zip(&entry) {
        walker.walk_block(state.as_deref().unwrap_or_default(), block.range.clone());
    }
    let mut recorded_waits = walker.recorded_waits.unwrap_or_default();
    recorded_waits.sort_unstable();
    recorded_waits.dedup_by_key(|wait| (wait.first, wait.event, wait.second));
    recorded_waits
}

/// Adds the in-flight instructions of `from` to `into`, both sorted by position in the code. Returns whether `into` has grown. `spare` is a
/// buffer that is kept between calls to save memory allocations.
fn merge_carried_insts(into: &mut Vec<CarriedInst>, from: &[CarriedInst], spare: &mut Vec<CarriedInst>) -> bool {
    if into.as_slice() == from {
        return false;
    }
    spare.clear();
    let mut changed = false;
    let mut old = into.iter().copied().peekable();
    for &one in from {
        while let Some(old) = old.next_if(|old| old.position < one.position) {
            spare.push(old);
        }
        let both = match old.next_if(|old| old.position == one.position) {
            Some(old) => {
                changed |= one.results_pending && !old.results_pending || one.reads_pending && !old.reads_pending;
                CarriedInst {
                    results_pending: old.results_pending || one.results_pending,
                    reads_pending: old.reads_pending || one.reads_pending,
                    ..old
                }
            }
            None => {
                changed = true;
                one
            }
        };
        spare.push(both);
    }
    spare.extend(old);
    if changed {
        into.clone_from(spare);
    }
    changed
}
