//! Bytes of DWARF sections, encoded by gimli.
//!
//! The tables of `gimli::write` cannot hold what cubins have (`docs/debugging.md`); its encodings of numbers and lengths serve all the same.

use gimli::LittleEndian;
use gimli::write::{EndianVec, Writer};

use crate::error::{Error, Result};

/// Bytes of a section in little-endian order.
#[derive(Clone, Debug)]
pub(crate) struct DwarfBytes(EndianVec<LittleEndian>);

impl Default for DwarfBytes {
    fn default() -> Self {
        DwarfBytes(EndianVec::new(LittleEndian))
    }
}

impl DwarfBytes {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    /// Appends one byte.
    pub fn byte(&mut self, value: u8) {
        grown(self.0.write_u8(value));
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        grown(self.0.write(bytes));
    }

    /// Appends a number of two bytes.
    pub fn half(&mut self, value: u16) {
        grown(self.0.write_u16(value));
    }

    /// Appends a number of four bytes.
    pub fn word(&mut self, value: u32) {
        grown(self.0.write_u32(value));
    }

    /// Appends a number of eight bytes.
    pub fn double_word(&mut self, value: u64) {
        grown(self.0.write_u64(value));
    }

    /// Appends an unsigned LEB128 number.
    pub fn unsigned(&mut self, value: u64) {
        grown(self.0.write_uleb128(value));
    }

    /// Appends a signed LEB128 number.
    pub fn signed(&mut self, value: i64) {
        grown(self.0.write_sleb128(value));
    }

    /// Appends a string that ends with a zero byte. Zero bytes in it are left out.
    pub fn string(&mut self, text: &str) {
        let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
        self.bytes(&bytes);
        self.byte(0);
    }

    /// Appends zeros until the number of bytes, together with `before` other ones, is a multiple of eight.
    pub fn pad(&mut self, before: u64) {
        let length = self.len() + before as usize;
        self.bytes(&[0; 8][..length.next_multiple_of(8) - length]);
    }

    /// Stores the number of bytes after a length field of four bytes into the field. Fails if the number has more than 32 bits.
    pub fn set_length(&mut self, field: usize) -> Result<()> {
        let length = (self.len() - field - LENGTH_BYTES) as u64;
        self.0.write_udata_at(field, length, LENGTH_BYTES as u8).map_err(|_| Error::new("a DWARF section has more than 4 GiB"))
    }
}

/// Size in bytes of a length field of 32-bit DWARF.
const LENGTH_BYTES: usize = 4;

/// Takes the result of appending to a vector, which cannot fail.
fn grown(result: gimli::write::Result<()>) {
    debug_assert!(result.is_ok());
}
