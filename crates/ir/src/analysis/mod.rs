//! What passes ask about a function: control flow, dominance, loops, liveness, uses, uniformity.
//!
//! Analyses are computed from a function and keep no reference to it; a pass that changes the function knows which of them are
//! still true. All of them walk with explicit stacks and keep dense arrays, so their cost is linear in the function (times the
//! logarithm of its blocks for dominators; plus the size of the answer for liveness), whatever its shape.

mod control_flow;
mod def_use;
mod dominators;
mod liveness;
mod loops;
mod uniformity;

pub use control_flow::{ControlFlow, remove_unreachable_blocks};
pub use def_use::{DefUse, Use};
pub use dominators::{DominanceFrontiers, Dominators, PostDominators};
pub use liveness::{Liveness, walk_back};
pub(crate) use liveness::{Need, Walk};
pub use loops::{Loop, LoopId, Loops};
pub use uniformity::Uniformity;
