//! The machine code of a function, as the steps of this module see it.

use std::ops::Range;

use oriole_isa::Instruction;

/// The machine code of a function in its final instruction order. Instructions are numbered by their position in it.
pub struct MachineCode<'a> {
    /// All instructions. Their control words are ignored, except for an instruction that names a scoreboard itself (`LDGDEPBAR`).
    pub instructions: &'a [Instruction],
    /// Basic blocks in the order of the code; together they cover all instructions.
    pub blocks: Vec<MachineBlock>,
}

/// A basic block of machine code.
#[derive(Clone, Debug)]
pub struct MachineBlock {
    /// Positions of the block's instructions in [`MachineCode::instructions`]; may be empty.
    pub range: Range<usize>,
    /// The successors of the block, as indices into [`MachineCode::blocks`].
    pub successors: Vec<usize>,
}
