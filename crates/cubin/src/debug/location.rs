//! Locations of variables.

use gimli::constants::{DW_OP_fbreg, DW_OP_nop};

use crate::dwarf_bytes::DwarfBytes;

/// Returns the DWARF location of a variable at `distance` bytes from the frame base, padded to `size` bytes.
pub fn frame_location(distance: i64, size: usize) -> Vec<u8> {
    let mut out = DwarfBytes::default();
    out.byte(DW_OP_fbreg.0);
    out.signed(distance);
    let mut bytes = out.into_vec();
    bytes.resize(size.max(bytes.len()), DW_OP_nop.0);
    bytes
}
