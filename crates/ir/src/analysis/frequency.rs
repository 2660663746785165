//! Static estimates of execution frequencies, without a profile of the program.
//!
//! [`LoopModel`] says how often code inside loops is executed: each loop around it multiplies the number of executions by an assumed trip
//! count. Every pass that weighs code by its frequency uses this model; passes differ in its two parameters only.
//!
//! | user | trip count | deepest loop that counts |
//! |---|---|---|
//! | score of schedules, occupancy (`oriole_sched::score`) | 10 | 6 |
//! | scheduling reports (`oriole_sched::report`) | 10 | any |
//! | choice of scoreboards (`oriole_ctrl::flow`) | `loop_weight` of the control rules, 8 | `loop_levels`, 4 |
//!
//! [`BlockFrequencies`] adds the branches. At a branch, each of n successors is taken with probability 1/n. At a divergent branch the warp
//! executes every successor. At a branch that leaves a loop, every successor counts as executed, because each loop is left in the end.
//!
//! Example: bb0 branches to bb1 or bb2, which join in bb3; bb3 is a loop, followed by bb4. The frequencies are 1, 0.5, 0.5, 10 and 1. If
//! the branch of bb0 is divergent, bb1 and bb2 have the frequency 1.

use oriole_support::IndexVec;
use rustc_hash::FxHashSet;

use super::{ControlFlow, Dominators, Loops};
use crate::function::Function;
use crate::ids::Block;

/// How often loops are assumed to be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopModel {
    /// Assumed number of iterations of every loop.
    pub trip_count: u32,
    /// Loop depth beyond which the number of executions no longer grows.
    pub max_depth: u32,
}

impl LoopModel {
    /// Ten iterations of every loop, at any depth.
    pub const TEN_ITERATIONS: LoopModel = LoopModel { trip_count: 10, max_depth: u32::MAX };

    /// Returns the number of executions of code inside `depth` loops, for one execution of the function.
    pub fn executions(self, depth: u32) -> f64 {
        let depth = depth.min(self.max_depth);
        f64::from(self.trip_count).powi(i32::try_from(depth).unwrap_or(i32::MAX))
    }
}

/// The assumption about branches at which the threads of a warp may take different ways.
#[derive(Clone, Copy, Debug)]
pub enum Divergence<'a> {
    /// A warp diverges at the branches that end these blocks, and only there.
    At(&'a FxHashSet<Block>),
    /// A warp never diverges.
    Never,
    /// A warp diverges at every branch.
    Always,
}

/// Estimated number of executions of each block; 0 for unreachable blocks.
#[derive(Clone, Debug)]
pub struct BlockFrequencies {
    /// Executions per iteration of the loops around the block.
    pub per_iteration: IndexVec<Block, f64>,
    /// Executions per execution of the function.
    pub total: IndexVec<Block, f64>,
}

impl BlockFrequencies {
    /// Computes the frequencies in one pass in reverse post-order.
    pub fn compute(
        function: &Function,
        flow: &ControlFlow,
        loops: &Loops,
        model: LoopModel,
        divergence: Divergence<'_>,
    ) -> BlockFrequencies {
        let dominators = Dominators::compute(function, flow);
        let mut per_iteration: IndexVec<Block, f64> = IndexVec::filled(function.blocks.len(), 0.0);
        let mut total = per_iteration.clone();
        // The fraction of executions of `from` that reach each of its successors. It is 1 at a branch that leaves a loop: the iteration
        // continues, and the loop is left in the end.
        let share = |from: Block| {
            let successors = flow.successors(from);
            let leaves = |block: &Block| loops.innermost(from).is_some_and(|id| !loops.contains(id, *block));
            let diverges = match divergence {
                Divergence::At(blocks) => blocks.contains(&from),
                Divergence::Never => false,
                Divergence::Always => true,
            };
            if diverges || successors.iter().any(leaves) { 1.0 } else { 1.0 / successors.len().max(1) as f64 }
        };
        for &block in flow.reverse_post_order() {
            let is_forward = |from: &&Block| flow.is_reachable(**from) && flow.position(**from) < flow.position(block);
            let comes_in: f64 = flow.predecessors(block).iter().filter(is_forward).map(|&from| per_iteration[from] * share(from)).sum();
            // A block executes at most as often as its immediate dominator. That bounds the sum where several fully executed paths join.
            let most = dominators.immediate(block).map_or(1.0, |above| per_iteration[above]);
            per_iteration[block] = if block == function.entry() { 1.0 } else { comes_in.min(most) };
            total[block] = per_iteration[block] * model.executions(loops.depth(block));
        }
        BlockFrequencies { per_iteration, total }
    }
}
