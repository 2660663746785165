//! Splits blocks in two.

use oriole_ir::{Block, Function, OperandKind};

/// Moves the instructions of `block` from index `at` on to a new block, which it returns. The new block is not in the layout, and `block`
/// has no terminator.
pub(super) fn split_block(function: &mut Function, block: Block, at: usize) -> Block {
    let after = function.new_block();
    move_rest_of_block(function, block, at, after);
    after
}

/// Moves the instructions of `block` from index `at` on to the empty block `after`. The successors of `block` are now reached from `after`,
/// so their phis name `after` as the predecessor.
pub(super) fn move_rest_of_block(function: &mut Function, block: Block, at: usize, after: Block) {
    function.blocks[after].insts = function.blocks[block].insts.split_off(at);
    for next in function.successors(after) {
        for inst in function.phis(next).to_vec() {
            for source in function.sources_mut(inst) {
                if source.kind == OperandKind::Block(block) {
                    source.kind = OperandKind::Block(after);
                }
            }
        }
    }
}
