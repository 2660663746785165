//! The states at the borders of blocks: which values are in which registers where blocks start and end, and the edge code there.

use oriole_ir::{Block, Inst, Value};
use oriole_support::IndexVec;

use crate::lists::BlockLists;
use crate::register_file::ResidentValue;
use crate::registers::Reg;

/// The block that a phi is in, and the registers of the phi at the start of that block.
#[derive(Clone, Copy)]
pub(crate) struct PhiPlace {
    /// The block of the phi.
    pub block: Block,
    /// First register of the phi; `None` if the phi is spilled (to its slot or shadow) or unused.
    pub register: Option<Reg>,
}

/// The state at the borders of all blocks, for one register file.
#[derive(Clone, Default)]
pub(crate) struct BlockBoundaryStates {
    /// For each block, its entry state: the values in registers at its start, in ascending order of registers.
    pub entry: BlockLists<ResidentValue>,
    /// For each block, its exit state: the values in registers at its end, in ascending order of registers.
    pub exit: BlockLists<ResidentValue>,
    /// For each value that a phi of a visited block defines: the block and first register of the phi; `None` for other values.
    pub phi_places: IndexVec<Value, Option<PhiPlace>>,
    /// Phis that got no register at the start of their block; their values are in spill slots there, or in shadows (values of another
    /// register file).
    pub phis_without_register: Vec<(Block, Inst)>,
    /// For each block with one predecessor: the code of its incoming edge, to insert at its start.
    pub entry_code: IndexVec<Block, Vec<Inst>>,
    /// For each value: the last visited block at whose start it is live. Comparing with the current block replaces a set that would have to
    /// be cleared for each block.
    pub last_live_in_block: IndexVec<Value, Option<Block>>,
    /// For each value: its first register at the end of the base predecessor, from which the phis of the current block inherit registers.
    /// All `None` except while phis are assigned registers.
    pub base_exit_register: IndexVec<Value, Option<Reg>>,
}

impl BlockBoundaryStates {
    /// Resets the state for the next register file; `values` and `blocks` are the numbers of values and blocks of the function.
    pub fn start_register_file(&mut self, values: usize, blocks: usize) {
        self.entry.reset(blocks);
        self.exit.reset(blocks);
        self.phi_places.resize(values, None);
        self.phis_without_register.clear();
        self.entry_code.resize(blocks, Vec::new());
        self.last_live_in_block.resize(values, None);
        self.base_exit_register.resize(values, None);
    }

    /// Returns the first register of a phi at the start of its block; `None` if the phi is spilled (to its slot or shadow) or unused.
    pub fn phi_register(&self, value: Value) -> Option<Reg> {
        self.phi_places[value].and_then(|place| place.register)
    }

    /// Returns whether a value is defined by a phi of a block.
    pub fn is_phi_of_block(&self, value: Value, block: Block) -> bool {
        self.phi_places[value].is_some_and(|place| place.block == block)
    }
}
