//! The indices of values, instructions and blocks, and source positions.

use oriole_support::define_index;

define_index!(
    /// A virtual register; before SSA construction, a variable that may be assigned many times.
    pub struct Value,
    "%"
);
define_index!(
    /// An instruction.
    pub struct Inst,
    "inst"
);
define_index!(
    /// A basic block.
    pub struct Block,
    "bb"
);

/// A source position: byte offset in the PTX text and, with line information, an entry in the list of `.loc` directives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Location {
    /// Byte offset of the PTX statement, plus one; 0 if there is none.
    pub statement: u32,
    /// Number of the `.loc` directive in the body, plus one; 0 if there is none.
    pub line: u32,
}
