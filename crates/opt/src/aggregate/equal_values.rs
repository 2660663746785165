//! Finds the values that are equal in all threads that execute an instruction together.
//!
//! [`Uniformity`] assumes that threads of a warp that execute an instruction together are in the same iteration of every loop around it.
//! That holds as long as each divergence ends at its reconvergence point. It does not hold if threads may pass a convergence barrier
//! without waiting for the others: while a thread inside the region yields or waits for other threads (`YIELD`, `WARPSYNC`, `BAR`), the
//! hardware releases the threads that wait at the `BSYNC`. These may start the next iteration of an outer loop and meet the others in an
//! inner loop whose counter is then different in the two groups:
//!
//! ```text
//! bb1: YIELD; ...              // an outer loop whose exit depends on memory
//! bb2: %i = PHI ...            // an inner loop with a divergent exit: some threads wait after it, are released, start again at bb1,
//!      REDG.E.ADD [%a], %i     // and arrive here with %i = 0 together with threads that have %i = 3
//! ```
//!
//! In a function where this may happen (found on sm_90a, by a random program), values that depend on a phi or on an exchange between
//! threads do not count as equal.

use oriole_ir::analysis::{ControlFlow, Loops, PostDominators, Uniformity};
use oriole_ir::{Block, Function, Inst, Operand, Pseudo, Value};
use oriole_isa::Effect;
use oriole_support::{BitSet, Index};
use rustc_hash::FxHashSet;

use crate::insert_yields::{may_wait_for_threads_at, waiting_loop_headers};

/// The search of [`threads_may_mix_iterations`] visits at most this many blocks for each block of the function. If that is not enough, it
/// assumes that threads mix iterations.
const MAX_SEARCH_VISITS_PER_BLOCK: usize = 16;

/// The set of values that are equal in all threads that execute an instruction together.
pub(super) struct ValuesEqualAcrossThreads {
    /// The values that are equal in all threads that are in the same iteration of every loop.
    uniformity: Uniformity,
    /// The values that may differ between threads that are in different iterations of a loop; empty if such threads never execute an
    /// instruction together.
    iteration_dependent: BitSet<Value>,
}

impl ValuesEqualAcrossThreads {
    /// Finds the values of a function that are equal in all threads that execute an instruction together.
    pub(super) fn compute(function: &Function, flow: &ControlFlow) -> ValuesEqualAcrossThreads {
        let uniformity = Uniformity::compute(function, flow);
        let mut iteration_dependent = BitSet::new(function.values.len());
        if threads_may_mix_iterations(function, flow, &uniformity) {
            // One walk in reverse post order is enough: definitions come before their uses, except for uses in phis, and the result of a
            // phi is in the set whatever its sources are.
            for &inst in flow.reverse_post_order().iter().flat_map(|&block| &function.blocks[block].insts) {
                let data = &function.insts[inst];
                let depends = data.is(Pseudo::Phi)
                    || data.op.effect() == Effect::Lanes
                    || function.used(inst).any(|part| iteration_dependent.contains(part.value));
                if depends {
                    for value in function.defined(inst) {
                        iteration_dependent.insert(value);
                    }
                }
            }
        }
        ValuesEqualAcrossThreads { uniformity, iteration_dependent }
    }

    /// Returns whether an operand is the same in all threads that execute its instruction together.
    pub(super) fn is_equal(&self, operand: &Operand) -> bool {
        self.uniformity.is_uniform_operand(operand) && operand.value().is_none_or(|value| !self.iteration_dependent.contains(value))
    }

    /// Returns whether an operand may differ between threads that are in the same iteration of every loop.
    pub(super) fn is_divergent(&self, operand: &Operand) -> bool {
        !self.uniformity.is_uniform_operand(operand)
    }
}

/// Returns whether threads in different iterations of a loop may execute an instruction together. For each divergent branch, searches the
/// blocks between the branch and its reconvergence point for two things: an instruction at which a thread yields or waits, and the header
/// of a loop that contains both the branch and its reconvergence point (the branch may then get no convergence barrier). Also true if the
/// function has an irreducible loop, or if the search would take too long.
fn threads_may_mix_iterations(function: &Function, flow: &ControlFlow, uniformity: &Uniformity) -> bool {
    let loops = Loops::compute(function, flow);
    if loops.iter().next().is_none() || uniformity.divergent_branches().is_empty() {
        return false;
    }
    if loops.iter().any(|id| loops.get(id).is_irreducible) {
        return true;
    }
    let mut yields: BitSet<Block> = BitSet::new(function.blocks.len());
    for header in waiting_loop_headers(function, &loops) {
        yields.insert(header);
    }
    let post_dominators = PostDominators::compute(function, flow);
    let divergent: FxHashSet<Inst> = uniformity.divergent_branches().iter().copied().collect();
    let mut visits_left = MAX_SEARCH_VISITS_PER_BLOCK * flow.reverse_post_order().len();
    let mut last_visit: Vec<Option<Block>> = vec![None; function.blocks.len()];
    for &branch in flow.reverse_post_order() {
        if !function.terminators(branch).iter().any(|inst| divergent.contains(inst)) {
            continue;
        }
        let meeting = post_dominators.immediate(branch);
        let mut work: Vec<Block> = flow.successors(branch).to_vec();
        while let Some(block) = work.pop() {
            if Some(block) == meeting || last_visit[block.position()].replace(branch) == Some(branch) {
                continue;
            }
            let starts_iteration = || {
                let Some(id) = loops.innermost(block).filter(|&id| loops.get(id).header == block) else { return false };
                loops.contains(id, branch) && meeting.is_some_and(|meeting| loops.contains(id, meeting))
            };
            if visits_left == 0
                || yields.contains(block)
                || starts_iteration()
                || function.blocks[block].insts.iter().any(|&inst| may_wait_for_threads_at(function, inst))
            {
                return true;
            }
            visits_left -= 1;
            work.extend(flow.successors(block));
        }
    }
    false
}
