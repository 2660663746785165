//! `.nv.callgraph`: the call graph, as pairs of symbols.
//!
//! The section contains four markers, pairs with caller 0 and callee -1 to -4. Each marker starts a list of edges, which may be empty. The
//! model keeps the order of the file.

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// A pair of the call graph: an edge or a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEdge {
    /// Index of the caller's symbol; 0 in a marker.
    pub caller: u32,
    /// Index of the callee's symbol, or the negative number of a marker.
    pub callee: i32,
}

/// The content of the section in a file without calls: the four markers.
pub const NO_CALLS: [CallEdge; 4] = [mark(-1), mark(-2), mark(-3), mark(-4)];

const fn mark(number: i32) -> CallEdge {
    CallEdge { caller: 0, callee: number }
}

impl CallEdge {
    /// Returns whether the pair is a marker.
    pub fn is_mark(self) -> bool {
        self.caller == 0 && self.callee < 0
    }
}

pub(crate) fn decode(data: Bytes<'_>) -> Result<Vec<CallEdge>> {
    if !data.len().is_multiple_of(8) {
        return Err(Error::at(data.place(0), format!("the call graph has {:#x} bytes, not a multiple of 8", data.len())));
    }
    let edge = |at| Ok(CallEdge { caller: data.u32(at, "a caller")?, callee: data.u32(at + 4, "a callee")?.cast_signed() });
    (0..data.len()).step_by(8).map(edge).collect()
}

pub(crate) fn encode(edges: &[CallEdge]) -> Vec<u8> {
    edges.iter().flat_map(|edge| [edge.caller, edge.callee.cast_unsigned()]).flat_map(u32::to_le_bytes).collect()
}
