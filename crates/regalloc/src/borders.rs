//! The borders of blocks: which values are in which registers where blocks start and end, and the code that edges need there.

use oriole_ir::{Block, Inst, Value};
use oriole_support::IndexVec;

use crate::lists::Lists;
use crate::register_file::ResidentValue;
use crate::registers::Reg;

/// Where a phi is when its block starts.
#[derive(Clone, Copy)]
pub(crate) struct PhiPlace {
    pub block: Block,
    /// The first register; `None` if the phi is in memory or unused.
    pub register: Option<Reg>,
}

/// The state at the borders of all blocks, for one register file.
#[derive(Default)]
pub(crate) struct Borders {
    /// Values in registers where each block starts, in the order of registers.
    pub entry: Lists<ResidentValue>,
    /// Values in registers where each block ends, in the order of registers.
    pub exit: Lists<ResidentValue>,
    /// By value: its place as a phi; `None` for values that no visited phi defines.
    pub phis: IndexVec<Value, Option<PhiPlace>>,
    /// Phis that got no register at the start of their block; their values are in spill slots or shadows there.
    pub phis_without_register: Vec<(Block, Inst)>,
    /// By block: the code of its incoming edge, to insert at its start.
    pub heads: IndexVec<Block, Vec<Inst>>,
    /// By value: the last block that was found to have it live-in. A stamp, so that a set need not be cleared for each block.
    pub live_into: IndexVec<Value, Option<Block>>,
    /// By value: its first register at the end of the predecessor that phis inherit from; all `None` except while phis are placed.
    pub base_exit_register: IndexVec<Value, Option<Reg>>,
}

impl Borders {
    /// Begins with another register file of a function with these numbers of values and blocks.
    pub fn start_file(&mut self, values: usize, blocks: usize) {
        self.entry.reset(blocks);
        self.exit.reset(blocks);
        self.phis.resize(values, None);
        self.phis_without_register.clear();
        self.heads.resize(blocks, Vec::new());
        self.live_into.resize(values, None);
        self.base_exit_register.resize(values, None);
    }

    /// Returns the first register of a phi where its block starts; `None` if the phi is in memory or unused.
    pub fn phi_register(&self, value: Value) -> Option<Reg> {
        self.phis[value].and_then(|place| place.register)
    }

    /// Returns whether a value is a phi of a block.
    pub fn is_phi_of(&self, value: Value, block: Block) -> bool {
        self.phis[value].is_some_and(|place| place.block == block)
    }
}
