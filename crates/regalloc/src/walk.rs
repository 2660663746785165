//! The state of the walk over the blocks: the next uses of values, and their definitions.

use oriole_ir::{Block, Function, Inst, Operand, Pseudo, Role, Value};
use oriole_support::IndexVec;
use smallvec::SmallVec;

use crate::liveness::NextUse;
use crate::registers::Reg;

/// Where a value is defined, by an instruction other than a phi.
#[derive(Clone, Copy)]
pub(crate) struct ValueDefinition {
    /// The instruction that defines the value.
    pub inst: Inst,
    /// First register of the value directly after the instruction, which the spill store reads.
    pub register: Reg,
    /// The block of the instruction.
    pub block: Block,
    /// Position of the instruction in its block.
    pub position: u32,
    /// Position of the last use in the same block; `None` if the value is live at the end of the block.
    pub last_use: Option<u32>,
}

/// The state of the walk over the blocks: the current block, and the next uses and definitions of values.
#[derive(Clone)]
pub(crate) struct BlockWalk {
    /// The block that is being walked.
    pub block: Block,
    /// Number of instructions of the current block, before the moves and spill code of this register file are inserted.
    block_length: u32,
    /// Positions, in the current block, of each `KEEP` (a pseudo operation) that only extends live ranges ([`crate::products`]).
    keep_positions: SmallVec<[u32; 2]>,
    /// For each value in registers: its next use after the current point.
    pub next_use: IndexVec<Value, NextUse>,
    /// For each value: its definition; `None` if the walk has not reached it, or if a phi defines the value.
    pub definitions: IndexVec<Value, Option<ValueDefinition>>,
}

impl BlockWalk {
    /// Creates the state before the walk; `entry` is the entry block.
    pub fn new(entry: Block) -> BlockWalk {
        BlockWalk {
            block: entry,
            block_length: 0,
            keep_positions: SmallVec::new(),
            next_use: IndexVec::new(),
            definitions: IndexVec::new(),
        }
    }

    /// Makes room in the tables for values that were created since the previous register file; `values` is the number of values of the
    /// function.
    pub fn start_register_file(&mut self, values: usize) {
        self.next_use.resize(values, NextUse::NEVER);
        self.definitions.resize(values, None);
    }

    /// Starts the walk over a block; `length` is its number of instructions.
    pub fn start_block(&mut self, function: &Function, block: Block, length: u32) {
        self.block = block;
        self.block_length = length;
        let is_fixed = |operand: &Operand| matches!(operand.role, Role::Fixed(_));
        let extends = |inst: Inst| function.insts[inst].is(Pseudo::Keep) && !function.operands(inst).iter().any(is_fixed);
        let insts = function.blocks[block].insts.iter().enumerate();
        self.keep_positions = insts.filter(|&(_, &inst)| extends(inst)).map(|(position, _)| position as u32).collect();
    }

    /// Returns whether the next use of a value is a `KEEP` that only extends its live range, so that no other instruction of the block
    /// reads the value any more.
    pub fn is_only_kept(&self, value: Value) -> bool {
        self.keep_positions.iter().any(|&position| self.next_use[value] == NextUse::at(position))
    }

    /// Records a use of a value at a position of the current block; `next` is the use after it. If the value is defined in the same block,
    /// updates its [`ValueDefinition::last_use`], from which the live interval of its spill slot is computed later.
    pub fn note_use(&mut self, value: Value, position: u32, next: NextUse) {
        self.next_use[value] = next;
        let leaves = next.is_after_block(self.block_length);
        if let Some(definition) = self.definitions[value].as_mut().filter(|definition| definition.block == self.block) {
            definition.last_use = if leaves { None } else { definition.last_use.map(|last| last.max(position)) };
        }
    }

    /// Records the definition of a value by `inst` at a position of the current block; `next` is the first use of the value, and `register`
    /// its first register.
    pub fn note_definition(&mut self, value: Value, inst: Inst, position: u32, next: NextUse, register: Reg) {
        self.definitions[value] = Some(ValueDefinition { inst, register, block: self.block, position, last_use: Some(position) });
        self.note_use(value, position, next);
    }
}
