//! What the walk over the blocks knows about values: their next uses, and where they are defined.

use oriole_ir::{Block, Function, Inst, Operand, Pseudo, Role, Value};
use oriole_support::IndexVec;
use smallvec::SmallVec;

use crate::liveness::NextUse;
use crate::registers::Reg;

/// The definition of a value by an instruction other than a phi.
#[derive(Clone, Copy)]
pub(crate) struct Definition {
    pub inst: Inst,
    /// First register of the value directly after the instruction, which the spill store reads.
    pub register: Reg,
    pub block: Block,
    /// Position of the instruction in its block.
    pub position: u32,
    /// Position of the last use in the block; `None` if the value lives beyond the block.
    pub last_use: Option<u32>,
}

/// The state of the walk over the blocks.
pub(crate) struct Walk {
    /// The block that is being walked.
    pub block: Block,
    /// Number of instructions of the block before allocation.
    length: u32,
    /// Positions of the `KEEP`s of the block that only extend lives ([`crate::products`]).
    keeps: SmallVec<[u32; 2]>,
    /// By value in registers: its next use.
    pub next_use: IndexVec<Value, NextUse>,
    /// By value: its definition, if it was met.
    pub definitions: IndexVec<Value, Option<Definition>>,
}

impl Walk {
    /// Creates the state before the walk.
    pub fn new(entry: Block) -> Walk {
        Walk { block: entry, length: 0, keeps: SmallVec::new(), next_use: IndexVec::new(), definitions: IndexVec::new() }
    }

    /// Begins with another register file of a function with this number of values.
    pub fn start_file(&mut self, values: usize) {
        self.next_use.resize(values, NextUse::NEVER);
        self.definitions.resize(values, None);
    }

    /// Begins with a block of this number of instructions.
    pub fn start_block(&mut self, function: &Function, block: Block, length: u32) {
        self.block = block;
        self.length = length;
        let is_fixed = |operand: &Operand| matches!(operand.role, Role::Fixed(_));
        let extends = |inst: Inst| function.insts[inst].is(Pseudo::Keep) && !function.operands(inst).iter().any(is_fixed);
        let insts = function.blocks[block].insts.iter().enumerate();
        self.keeps = insts.filter(|&(_, &inst)| extends(inst)).map(|(position, _)| position as u32).collect();
    }

    /// Returns whether a value is not read any more in the block, and only kept in its registers.
    pub fn is_only_kept(&self, value: Value) -> bool {
        self.keeps.iter().any(|&position| self.next_use[value] == NextUse::at(position))
    }

    /// Records a use at a position of the current block. If the value is defined in the same block, this is its last use so far, or it
    /// turns out to live beyond the block: that is the live interval of its spill slot.
    pub fn note_use(&mut self, value: Value, position: u32, next: NextUse) {
        self.next_use[value] = next;
        let leaves = next.is_after_block(self.length);
        if let Some(definition) = self.definitions[value].as_mut().filter(|definition| definition.block == self.block) {
            definition.last_use = if leaves { None } else { definition.last_use.map(|last| last.max(position)) };
        }
    }

    /// Records the definition of a value: instruction, position in the current block, and first register.
    pub fn note_definition(&mut self, value: Value, inst: Inst, position: u32, next: NextUse, register: Reg) {
        self.definitions[value] = Some(Definition { inst, register, block: self.block, position, last_use: Some(position) });
        self.note_use(value, position, next);
    }
}
