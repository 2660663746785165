//! The values in uniform registers that several blocks share; `shared_uniform` has the reason why they matter.

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Function, Inst, Op, Operand, Pseudo, RegFile, Value};
use oriole_isa::Symbols;
use oriole_support::Index;
use smallvec::SmallVec;

/// Returns whether a value is in uniform registers or uniform predicates.
pub(super) fn is_uniform(function: &Function, value: Value) -> bool {
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

    /// Returns the values, each with its definition.
    pub(super) fn definitions(&self) -> impl Iterator<Item = (Value, Block, Inst)> + '_ {
        self.values.iter().copied()
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
