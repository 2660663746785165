//! Analyses of functions: control flow, dominance, loops, execution frequency, liveness, definition-use chains, uniformity, and the number
//! of registers in each block.
//!
//! An analysis is computed from a function and holds no reference to it; a pass that changes the function must know which analyses remain
//! valid. All of them use explicit stacks instead of recursion, and dense arrays. The cost is linear in the size of the function, times
//! the logarithm of the number of blocks for dominators, plus the size of the result for liveness and dominance frontiers.

mod control_flow;
mod def_use;
mod dominators;
mod frequency;
mod liveness;
mod loops;
mod register_counts;
mod uniformity;
mod warpgroup_branches;

pub use control_flow::{ControlFlow, remove_unreachable_blocks};
pub use def_use::{DefUse, Use};
pub use dominators::{DominanceFrontiers, Dominators, PostDominators};
pub use frequency::{BlockFrequencies, Divergence, LoopModel};
pub(crate) use liveness::LivenessWalk;
pub use liveness::{LiveIn, Liveness, Need, walk_back};
pub use loops::{Loop, LoopId, Loops};
pub use register_counts::{RegisterCounts, requested_registers};
pub use uniformity::{Threads, Uniformity, is_broadcast};
