//! Values in uniform registers that threads of a diverged warp share.
//!
//! There is one set of uniform registers for all threads of a warp. While some threads execute an instruction that writes one, others may be
//! at any other instruction to which a divergent branch led them, and may still read a value that is no longer live in the code of the
//! first ones:
//!
//! ```text
//! bb0:  %1:UR2 = ULDC.64 c[0x0][0x208] ; @P0 BRA bb2 ; BRA bb1
//! bb1:  %5:UR = REDUX.SUM %0 ; ...              %1 is not live here, but must not be in the register of %5
//! bb2:  STG.E desc[%1][%2.64], %0
//! ```
//!
//! So where a block writes a uniform register, a `KEEP` makes the values live that are defined above it and read in other blocks. Values that
//! one block defines and reads need nothing: threads take turns only at control-flow instructions.

use oriole_ir::{Block, Function};
use oriole_support::Index;

use super::shared_values::{SharedUniformValues, is_uniform};
use super::synchronization::WarpConvergence;
use crate::definitions::Definitions;

/// Keeps shared values alive in each block that writes a uniform register while the warp may be diverged.
pub(super) fn keep_shared_uniform_values(function: &mut Function, convergence: &WarpConvergence<'_>) {
    let blocks = convergence.flow.reverse_post_order();
    let mut writers: Vec<(Block, usize)> = blocks.iter().filter_map(|&block| Some((block, last_uniform_write(function, block)?))).collect();
    // Most functions write uniform registers in the first block only.
    if writers.iter().all(|&(block, _)| block == function.entry()) {
        return;
    }
    let starts_diverged = convergence.diverged_blocks(function, &Definitions::compute(function));
    writers.retain(|&(block, _)| starts_diverged[block.position()]);
    let shared = SharedUniformValues::find(function);
    for (block, last) in writers {
        let keep = shared.keep(function, block);
        function.blocks[block].insts.splice(last + 1..last + 1, keep);
    }
}

/// Returns the index of the last instruction of a block that writes a uniform register or predicate.
fn last_uniform_write(function: &Function, block: Block) -> Option<usize> {
    function.blocks[block].insts.iter().rposition(|&inst| function.defined(inst).any(|value| is_uniform(function, value)))
}
