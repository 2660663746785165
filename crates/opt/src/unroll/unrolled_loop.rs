//! The unrolled loop: copies of the body of the old loop, connected in execution order.

use oriole_ir::{Function, Inst, Value};

use super::copies::{LoopCopyMapping, add_phi_source, copy_loop_blocks, create_header_phis, redirect_branches, set_jump};
use super::shape::UnrollableLoop;

/// Returns a function that maps each phi of the loop header to its value in the iteration after the copy `mapping` of the body.
pub(super) fn value_in_next_iteration<'a>(
    old_loop: &'a UnrollableLoop,
    mapping: &'a LoopCopyMapping,
) -> impl Fn(&Function, Inst) -> Value + 'a {
    move |function, phi| {
        let source = old_loop.latch_phi_source(function, phi).and_then(|source| source.value());
        mapping.value(source.unwrap_or_else(|| panic!("a phi of {:?} has no source for its back edge", old_loop.header)))
    }
}

/// In a copy of the body after which the loop surely continues, replaces the conditional exit by a branch to the next block in the loop.
pub(super) fn remove_exit_branch(function: &mut Function, old_loop: &UnrollableLoop, mapping: &LoopCopyMapping) {
    let inside = function.successors(old_loop.exiting).into_iter().find(|&block| block != old_loop.exit).unwrap_or(old_loop.header);
    set_jump(function, mapping.block(old_loop.exiting), mapping.block(inside));
}

/// An unrolled loop: the copies of the old body that it consists of.
pub(super) struct UnrolledLoop {
    /// The copies of the body, in execution order.
    pub(super) copies: Vec<LoopCopyMapping>,
    /// Pairs of a phi of the old header and the corresponding phi of the new one.
    pub(super) phis: Vec<(Inst, Inst)>,
}

impl UnrolledLoop {
    /// Creates `factor` copies of the loop body and connects them, without the back edge and the entry edge of the new loop. Only copy
    /// number `tested` keeps its exit test; none does if `tested` is `None`.
    pub(super) fn create(function: &mut Function, old_loop: &UnrollableLoop, factor: u32, tested: Option<u32>) -> UnrolledLoop {
        let phis = create_header_phis(function, old_loop.header);
        let mut copies: Vec<LoopCopyMapping> = Vec::new();
        for number in 0..factor {
            let mapping = match copies.last() {
                None => copy_loop_blocks(function, old_loop, |function, phi| {
                    let new = phis.iter().find(|pair| pair.0 == phi).and_then(|pair| function.results(pair.1)[0].value());
                    new.unwrap_or_else(|| panic!("a phi of {:?} has no copy", old_loop.header))
                }),
                Some(last) => {
                    let mapping = copy_loop_blocks(function, old_loop, value_in_next_iteration(old_loop, last));
                    redirect_branches(function, last.block(old_loop.latch), last.block(old_loop.header), mapping.block(old_loop.header));
                    mapping
                }
            };
            if tested != Some(number) {
                remove_exit_branch(function, old_loop, &mapping);
            }
            copies.push(mapping);
        }
        let header = copies[0].block(old_loop.header);
        function.blocks[header].insts.splice(0..0, phis.iter().map(|pair| pair.1));
        UnrolledLoop { copies, phis }
    }

    /// Returns the last copy of the loop body in execution order.
    pub(super) fn last_copy(&self) -> &LoopCopyMapping {
        &self.copies[self.copies.len() - 1]
    }

    /// Adds the sources of the phis of the new header, for the entry edge and the back edge.
    pub(super) fn add_header_phi_sources(&self, function: &mut Function, old_loop: &UnrollableLoop) {
        let (entry, latch) = (old_loop.entries[0], self.last_copy().block(old_loop.latch));
        for &(old, new) in &self.phis {
            let (Some(first), Some(next)) = (old_loop.entry_phi_source(function, old), old_loop.latch_phi_source(function, old)) else {
                continue;
            };
            add_phi_source(function, new, first, entry);
            add_phi_source(function, new, self.last_copy().operand(next), latch);
        }
    }
}
