//! `.debug_frame`: how to unwind, one pair of CIE and FDE for each function.
//!
//! ptxas writes the same CIE for every function (64-bit DWARF, stack pointer in R1), and an FDE with the size of the code
//! and a short program. The start address is 0 and has a relocation.

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The FDE of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Size of the code, in bytes.
    pub range: u64,
    /// Instructions of the FDE with padding; the whole must be a multiple of eight bytes.
    pub unwind: Vec<u8>,
}

/// Size of the field before a length in 64-bit DWARF, and of the length.
const LENGTH: u64 = 12;
/// Of a CIE behind its length.
const CIE_BODY: u64 = 0x24;
/// From the start of an FDE to its start address.
const ADDRESS: u64 = LENGTH + 8;
/// Of an FDE behind its length: pointer to the CIE, start, range.
const FDE_FIXED: u64 = 24;

/// Code is counted in units of this many bytes.
pub(super) const SASS_UNIT: u8 = 4;
pub(super) const MERCURY_UNIT: u8 = 1;

fn cie(unit: u8) -> Vec<u8> {
    let mut out = vec![0xff; 4];
    out.extend(CIE_BODY.to_le_bytes());
    out.extend([0xff; 8]);
    // Version 3, no augmentation, the unit, data alignment -4, return address in no register, an expression of 15 bytes.
    out.extend([3, 0, unit, 0x7c, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    // CFA is R1 + 0; R255 and R1 keep their values; three times nothing.
    out.extend([0x0c, 0x81, 0x80, 0x80, 0x28, 0x00, 0x08, 0xff, 0x81, 0x80, 0x28, 0x08, 0x81, 0x80, 0x80, 0x28, 0, 0, 0]);
    out
}

impl Frame {
    /// A frame that says only that the stack pointer does not move.
    pub fn plain(range: u64) -> Frame {
        // Advance by 0; CFA is R1 + 0; nothing.
        Frame { range, unwind: vec![0x04, 0, 0, 0, 0, 0x0c, 0x81, 0x80, 0x80, 0x28, 0, 0] }
    }
}

/// The section, and where in it the start addresses are.
pub(super) fn encode(frames: &[&Frame], unit: u8) -> (Vec<u8>, Vec<u64>) {
    let (mut out, mut addresses) = (Vec::new(), Vec::new());
    for frame in frames {
        let cie_at = out.len() as u64;
        out.extend(cie(unit));
        addresses.push(out.len() as u64 + ADDRESS);
        out.extend([0xff; 4]);
        out.extend((FDE_FIXED + frame.unwind.len() as u64).to_le_bytes());
        out.extend(cie_at.to_le_bytes());
        out.extend(0u64.to_le_bytes());
        out.extend(frame.range.to_le_bytes());
        out.extend(&frame.unwind);
    }
    (out, addresses)
}

/// Takes a section of this shape apart.
pub fn decode(bytes: &[u8]) -> Result<Vec<Frame>> {
    let data = Bytes::new(bytes);
    let mut frames = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let length = data.u64(at + 4, "a CIE")?;
        if length != CIE_BODY || data.u64(at + LENGTH, "a CIE")? != u64::MAX {
            return Err(Error::at(at, "this is not the CIE that ptxas writes for every function"));
        }
        at += LENGTH + CIE_BODY;
        let length = data.u64(at + 4, "an FDE")?;
        let body = data.window(at + LENGTH, length, "an FDE")?;
        let unwind = body.rest(FDE_FIXED, "an FDE")?.data().to_vec();
        frames.push(Frame { range: body.u64(16, "an FDE")?, unwind });
        at += LENGTH + length;
    }
    Ok(frames)
}
