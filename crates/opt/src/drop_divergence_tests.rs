//! Removes tests for a diverged warp where the warp is converged.
//!
//! A `barrier` without `.aligned`, which threads of a warp may reach at different instructions, starts with such a test. If the warp is
//! diverged, its threads meet in a function of the compiler:
//!
//! ```text
//! bb0: WARPSYNC.ALL                               bb0: WARPSYNC.ALL
//!      %1:UR = UMOV -0x1                               BRA bb1
//!      @PT BRA.DIV %1, bb2                        bb1: BAR.SYNC 0x1
//!      BRA bb1                          becomes        ...
//! bb1: BAR.SYNC 0x1
//!      ...
//! bb2: CALL.ABS.NOINC barrier
//!      BRA bb1
//! ```
//!
//! The warp is converged in a kernel before any divergent branch, and after a synchronization of all threads in a block that all of them
//! execute equally often (`converge/synchronization.rs`). The block of the diverged warp is then unreachable. Its call would keep loops
//! from carrying values in uniform registers, which all threads of a warp share. Functions other than kernels are left alone: while some
//! threads of a warp are in the function, others may be in its caller.
//!
//! Cost: linear in the size of the function, apart from the uniformity analysis, which is computed only if there is a test.

use oriole_ir::analysis::{ControlFlow, Threads, remove_unreachable_blocks};
use oriole_ir::{Block, Function, FunctionKind, Target};
use oriole_support::Index;

use crate::converge::{CfgAnalyses, WarpConvergence, divergence_test_target, divergent_blocks};
use crate::definitions::Definitions;
use crate::straighten;

/// Runs the pass over a function; `threads` is the shape of the thread blocks. Returns the number of tests removed.
pub fn run(function: &mut Function, target: Target, threads: Threads) -> usize {
    let mut tests: Vec<Block> = function.layout.clone();
    tests.retain(|&block| divergence_test_target(function, block).is_some());
    if tests.is_empty() || function.kind != FunctionKind::Kernel {
        return 0;
    }
    let flow = ControlFlow::compute(function);
    // The target of a test has no other predecessor, so that it becomes unreachable, with the sources of phis that belong to it.
    tests.retain(|&block| divergence_test_target(function, block).is_some_and(|apart| flow.predecessors(apart).len() == 1));
    let uniformity = CfgAnalyses::compute(function, &flow).uniformity(function, &flow, threads);
    let divergent = divergent_blocks(function, &flow, &uniformity);
    let definitions = Definitions::compute(function);
    let divergence = WarpConvergence { flow: &flow, divergent: &divergent, regions: &[] }.divergence(function, &definitions);
    tests.retain(|&block| !divergence.ends[block.position()]);
    for &block in &tests {
        let test = function.blocks[block].insts.len() - 2;
        function.blocks[block].insts.remove(test);
    }
    if !tests.is_empty() {
        remove_unreachable_blocks(function);
        straighten::run(function, target);
    }
    tests.len()
}
