//! Sets of phis that one phi of a tuple can replace.

use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Value};

/// A set of phis of one block that one phi of a tuple is to replace.
pub(super) struct JoinablePhis {
    /// The tuple whose registers are the sources of the phis for one of the predecessors.
    pub(super) source_tuple: Value,
    /// The phis, in the order of their registers in the tuple. Together they have all registers of the tuple.
    pub(super) phis: Vec<Inst>,
}

/// Returns the sources of a phi, each with the predecessor block that it is for.
pub(super) fn phi_sources(function: &Function, phi: Inst) -> impl Iterator<Item = (Operand, Block)> + '_ {
    function.sources(phi).chunks(2).filter_map(|pair| match pair {
        [source, Operand { kind: OperandKind::Block(from), .. }] => Some((*source, *from)),
        _ => None,
    })
}
