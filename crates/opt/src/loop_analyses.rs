//! The control-flow analyses that the passes over loops share.

use oriole_ir::Function;
use oriole_ir::analysis::{ControlFlow, Dominators, Loops};

/// The control-flow graph, the natural loops and the dominator tree of a function with at least one loop.
pub(crate) struct LoopAnalyses {
    /// The control-flow graph.
    pub(crate) flow: ControlFlow,
    /// The natural loops.
    pub(crate) loops: Loops,
    /// The dominator tree.
    pub(crate) dominators: Dominators,
}

impl LoopAnalyses {
    /// Computes the analyses; `None` if the function has no loops, so that a pass over loops has nothing to do.
    pub(crate) fn compute(function: &Function) -> Option<LoopAnalyses> {
        let flow = ControlFlow::compute(function);
        let loops = Loops::compute(function, &flow);
        if loops.is_empty() {
            return None;
        }
        let dominators = Dominators::compute(function, &flow);
        Some(LoopAnalyses { flow, loops, dominators })
    }
}
