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

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Function, Inst, Op, Operand, Pseudo, RegFile, Value};
use oriole_isa::Symbols;
use oriole_support::Index;
use smallvec::SmallVec;

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

/// Returns whether a value is in uniform registers or uniform predicates.
fn is_uniform(function: &Function, value: Value) -> bool {
    matches!(function.values[value].file, RegFile::Uniform | RegFile::UniformPredicate)
}

/// The values in uniform registers that are read in another block than the one that defines them, each with its definition.
pub(crate) struct SharedUniformValues {
    values: Vec<(Value, Block, Inst)>,
    dominators: Dominators,
}

impl SharedUniformValues {
    /// Finds the values in a function.
    pub(crate) fn find(function: &Function) -> SharedUniformValues {
        let mut definitions: Vec<Option<(Block, Inst)>> = vec![None; function.values.len()];
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                for value in function.defined(inst) {
                    definitions[value.position()] = Some((block, inst));
                }
            }
        }
        let mut values: Vec<(Value, Block, Inst)> = Vec::new();
        for &reader in &function.layout {
            for part in function.blocks[reader].insts.iter().flat_map(|&inst| function.used(inst)) {
                if let Some((block, inst)) = definitions[part.value.position()].filter(|_| is_uniform(function, part.value))
                    && block != reader
                {
                    values.push((part.value, block, inst));
                }
            }
        }
        values.sort_unstable_by_key(|&(value, ..)| value);
        values.dedup();
        let flow = ControlFlow::compute(function);
        SharedUniformValues { values, dominators: Dominators::compute(function, &flow) }
    }

    /// Returns the values whose definitions are executed before the end of `block`, which may be the first part of a block that was split.
    fn defined_before_end(&self, function: &Function, block: Block) -> SmallVec<[Value; 8]> {
        let is_before = |definition: Block, inst: Inst| {
            if definition == block { function.blocks[block].insts.contains(&inst) } else { self.dominators.dominates(definition, block) }
        };
        self.values.iter().filter(|&&(_, definition, inst)| is_before(definition, inst)).map(|&(value, ..)| value).collect()
    }

    /// Returns a `KEEP` of the values whose definitions are executed before the end of `block`; `None` if there are none.
    pub(crate) fn keep(&self, function: &mut Function, block: Block) -> Option<Inst> {
        let kept = self.defined_before_end(function, block);
        let operands: SmallVec<[Operand; 8]> = kept.iter().map(|&value| Operand::from(function.whole(value))).collect();
        (!kept.is_empty()).then(|| function.new_inst(Op::Pseudo(Pseudo::Keep), Symbols::new(), None, &operands, 0))
    }
}
