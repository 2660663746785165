//! Where values are defined and used.

use oriole_support::{Groups, IndexVec};

use crate::function::{Block, Function, Inst, Value};
use crate::operand::OperandKind;

/// A place that reads a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Use {
    /// The instruction.
    pub inst: Inst,
    /// The position among all operands of the instruction; none for its guard.
    pub operand: Option<u32>,
}

/// Definitions and uses of all values in the blocks of the layout.
#[derive(Clone, Debug)]
pub struct DefUse {
    definitions: Groups<Value, Inst>,
    uses: Groups<Value, Use>,
    blocks: IndexVec<Inst, Option<Block>>,
}

impl DefUse {
    /// Looks at all instructions.
    pub fn compute(function: &Function) -> DefUse {
        let mut definitions = Vec::with_capacity(function.values.len());
        let mut uses = Vec::with_capacity(function.insts.len() * 2);
        let mut blocks = IndexVec::filled(function.insts.len(), None);
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                blocks[inst] = Some(block);
                for value in function.defined(inst) {
                    definitions.push((value, inst));
                }
                let data = &function.insts[inst];
                for (number, operand) in function.sources(inst).iter().enumerate() {
                    if let OperandKind::Value(part) = operand.kind {
                        uses.push((part.value, Use { inst, operand: Some((data.result_count() + number) as u32) }));
                    }
                }
                if let Some(guard) = &data.guard
                    && let OperandKind::Value(part) = guard.kind
                {
                    uses.push((part.value, Use { inst, operand: None }));
                }
            }
        }
        let count = function.values.len();
        DefUse { definitions: Groups::collect(count, &definitions), uses: Groups::collect(count, &uses), blocks }
    }

    /// The instruction that defines a value; the first one if there are several.
    pub fn definition(&self, value: Value) -> Option<Inst> {
        self.definitions.of(value).first().copied()
    }

    /// All instructions that define a value, in the order of the layout.
    pub fn definitions(&self, value: Value) -> &[Inst] {
        self.definitions.of(value)
    }

    /// All places that read a value, in the order of the layout.
    pub fn uses(&self, value: Value) -> &[Use] {
        self.uses.of(value)
    }

    /// The block an instruction is in.
    pub fn block(&self, inst: Inst) -> Option<Block> {
        self.blocks.get(inst).copied().flatten()
    }
}
