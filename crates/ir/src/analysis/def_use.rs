//! Definition-use chains: the definitions and uses of each value.

use oriole_support::{Groups, IndexVec};

use crate::function::Function;
use crate::ids::{Block, Inst, Value};
use crate::operand::OperandKind;

/// One use of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Use {
    /// The instruction.
    pub inst: Inst,
    /// Position among all operands of the instruction; `None` for its guard.
    pub operand: Option<u32>,
}

/// Definitions and uses of all values in the blocks of the layout.
#[derive(Clone, Debug)]
pub struct DefUse {
    definitions: Groups<Value, Inst>,
    uses: Groups<Value, Use>,
    /// The block of each instruction; `None` if it is in no block of the layout.
    blocks: IndexVec<Inst, Option<Block>>,
}

impl DefUse {
    /// Collects the definitions and uses from all instructions.
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

    /// Returns the instruction that defines a value; the first one in layout order if there are several.
    pub fn definition(&self, value: Value) -> Option<Inst> {
        self.definitions.of(value).first().copied()
    }

    /// Returns all instructions that define a value, in layout order.
    pub fn definitions(&self, value: Value) -> &[Inst] {
        self.definitions.of(value)
    }

    /// Returns all uses of a value, in layout order.
    pub fn uses(&self, value: Value) -> &[Use] {
        self.uses.of(value)
    }

    /// Returns the block of an instruction.
    pub fn block(&self, inst: Inst) -> Option<Block> {
        self.blocks.get(inst).copied().flatten()
    }
}
