//! `.debug_frame`: unwinding information, one CIE and one FDE for each function.
//!
//! ptxas writes one of three CIEs (64-bit DWARF, stack pointer in R1), and an FDE with the size of the code and a short program. The start
//! address in the FDE has a relocation. In relocatable files the pointer to the CIE and the size have one too, so that the linker can drop
//! functions.

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The unwinding information of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    pub cie: Cie,
    /// Size of the code, in bytes.
    pub range: u64,
    /// Instructions of the FDE with padding; the size of the FDE must be a multiple of eight bytes.
    pub unwind: Vec<u8>,
}

/// The unwinding rules at the entry of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cie {
    /// A kernel, which has no caller.
    Kernel,
    /// A device function; the return address is in R20 and R21.
    Function,
    /// A subroutine inside a kernel. The return address, relative to the kernel's start, is in `return_register` and the next one. The
    /// registers in `kept`, usually only that one, have their values at entry.
    Subroutine { return_register: u8, kept: Vec<u8> },
    /// Any other CIE: the bytes after the length.
    Other(Vec<u8>),
}

/// Size in bytes of the length field of 64-bit DWARF: an escape of four bytes and the length itself.
const LENGTH: u64 = 12;
/// Offsets in an FDE: the pointer to its CIE, the start address, the size of the code.
const CIE_POINTER: u64 = LENGTH;
const ADDRESS: u64 = LENGTH + 8;
const RANGE: u64 = LENGTH + 16;
/// Size in bytes of the fixed part of an FDE after its length: pointer to the CIE, start, range.
const FDE_FIXED: u64 = 24;

/// Code alignment factors in bytes.
pub(super) const SASS_UNIT: u8 = 4;
pub(super) const MERCURY_UNIT: u8 = 1;

/// Returns the number of a register as LEB128. Numbers of general registers have 5 in their top byte.
fn register(number: u16) -> [u8; 4] {
    [number as u8 | 0x80, (number >> 7) as u8 | 0x80, 0x80, 0x28]
}

/// The register number that stands for the computed return address of a subroutine.
const RETURN_ADDRESS: u16 = 256;
const DW_CFA_ADVANCE_LOC4: u8 = 0x04;
const DW_CFA_OFFSET_EXTENDED: u8 = 0x05;
const DW_CFA_RESTORE_EXTENDED: u8 = 0x06;
const DW_CFA_UNDEFINED: u8 = 0x07;
const DW_CFA_SAME_VALUE: u8 = 0x08;
const DW_CFA_REGISTER: u8 = 0x09;
const DW_CFA_DEF_CFA: u8 = 0x0c;
const DW_CFA_VAL_EXPRESSION: u8 = 0x16;
const DW_OP_ADDR: u8 = 0x03;
const DW_OP_PLUS: u8 = 0x22;
const DW_OP_BREGX: u8 = 0x92;

impl Cie {
    /// Returns the bytes after the length, and the offset in them of the kernel's address if they contain it.
    fn body(&self, unit: u8) -> (Vec<u8>, Option<u64>) {
        // The CIE marker; version 3, no augmentation, the code alignment factor, data alignment factor -4.
        let mut out = vec![0xff; 8];
        out.extend([3, 0, unit, 0x7c]);
        let same_value = |out: &mut Vec<u8>, number| {
            out.push(DW_CFA_SAME_VALUE);
            out.extend(register(number));
        };
        match self {
            Cie::Kernel => out.extend([0xff, 0xff, 0xff, 0xff, 0x0f]),
            Cie::Function => out.extend(register(20)),
            Cie::Subroutine { .. } => out.extend(register(RETURN_ADDRESS)),
            Cie::Other(body) => return (body.clone(), None),
        }
        out.push(DW_CFA_DEF_CFA);
        out.extend(register(1));
        out.push(0);
        same_value(&mut out, 255);
        same_value(&mut out, 1);
        let mut address = None;
        match self {
            Cie::Function => {
                same_value(&mut out, 20);
                same_value(&mut out, 21);
            }
            Cie::Subroutine { return_register, kept } => {
                kept.iter().for_each(|&number| same_value(&mut out, u16::from(number)));
                out.push(DW_CFA_VAL_EXPRESSION);
                out.extend(register(RETURN_ADDRESS));
                out.extend([16, DW_OP_ADDR]);
                address = Some(out.len() as u64);
                out.extend([0; 8]);
                out.push(DW_OP_BREGX);
                out.extend(register(u16::from(*return_register)));
                out.extend([0, DW_OP_PLUS]);
            }
            Cie::Kernel | Cie::Other(_) => {}
        }
        // The size of the CIE must be a multiple of eight bytes.
        let length = LENGTH as usize;
        out.resize((out.len() + length).next_multiple_of(8) - length, 0);
        (out, address)
    }

    /// Returns the CIE with these bytes.
    fn of(body: &[u8]) -> Cie {
        let known = [Cie::Kernel, Cie::Function].into_iter().chain(Cie::subroutine(body));
        let fits = |cie: &Cie| [SASS_UNIT, MERCURY_UNIT].iter().any(|&unit| cie.body(unit).0 == body);
        known.into_iter().find(fits).unwrap_or_else(|| Cie::Other(body.to_vec()))
    }

    /// Parses the body as the CIE of a subroutine. The caller checks the result by encoding it again.
    fn subroutine(body: &[u8]) -> Option<Cie> {
        let empty = Cie::Subroutine { return_register: 0, kept: Vec::new() }.body(SASS_UNIT).0;
        let start = empty.iter().position(|&byte| byte == DW_CFA_VAL_EXPRESSION)?;
        let mut kept = Vec::new();
        let mut rest = body.get(start..)?;
        while let [DW_CFA_SAME_VALUE, low, high, _, _, more @ ..] = rest {
            kept.push(low & 0x7f | high << 7);
            rest = more;
        }
        Some(Cie::Subroutine { return_register: *kept.last()?, kept })
    }
}

impl FrameInfo {
    /// Returns the frame of a kernel whose stack pointer does not move.
    pub fn plain(range: u64) -> FrameInfo {
        FrameInfo { cie: Cie::Kernel, ..FrameInfo::function(range) }
    }

    /// Returns the frame of a device function whose stack pointer does not move.
    pub fn function(range: u64) -> FrameInfo {
        // DW_CFA_advance_loc4 by 0; DW_CFA_def_cfa R1 + 0; padding.
        FrameInfo { cie: Cie::Function, range, unwind: vec![0x04, 0, 0, 0, 0, 0x0c, 0x81, 0x80, 0x80, 0x28, 0, 0] }
    }
}

impl FrameInfo {
    /// Replaces the rules by those of a function whose stack pointer moves and which saves registers. `depths`: from each offset in the code
    /// on, in bytes, the stack pointer is the given number of bytes below its value at the entry. `saved` are the rules of registers, sorted
    /// by offset.
    pub fn with_rules(self, depths: &[(u32, u32)], saved: &[SavedRule]) -> FrameInfo {
        let (mut unwind, mut at) = (Vec::new(), 0);
        let unit = u32::from(SASS_UNIT);
        let mut offsets: Vec<u32> = depths.iter().map(|depth| depth.0).chain(saved.iter().map(|rule| rule.offset)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        for offset in offsets.into_iter().filter(|&offset| u64::from(offset) < self.range) {
            unwind.push(DW_CFA_ADVANCE_LOC4);
            unwind.extend((offset.saturating_sub(at) / unit).to_le_bytes());
            for &(_, depth) in depths.iter().filter(|depth| depth.0 == offset) {
                unwind.push(DW_CFA_DEF_CFA);
                unwind.extend(register(1));
                push_unsigned(&mut unwind, depth);
            }
            let first = saved.partition_point(|rule| rule.offset < offset);
            saved[first..].iter().take_while(|rule| rule.offset == offset).for_each(|rule| rule.encode(&mut unwind));
            at = offset;
        }
        if unwind.is_empty() {
            return self;
        }
        // The size of the FDE must be a multiple of eight bytes; zeros are `DW_CFA_nop`.
        let fixed = (LENGTH + FDE_FIXED) as usize;
        unwind.resize((unwind.len() + fixed).next_multiple_of(8) - fixed, 0);
        FrameInfo { unwind, ..self }
    }
}

/// Where the value is that a register had at the entry of the function, from an offset in the code on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedRule {
    /// Offset in the code in bytes.
    pub offset: u32,
    /// Number of the general register.
    pub register: u16,
    /// The place of its value.
    pub place: SavedPlace,
}

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedPlace {
    /// In the register itself.
    Same,
    /// In local memory, this number of bytes below the stack pointer at the entry; a multiple of four.
    Below(u32),
    /// In another general register.
    Register(u16),
    /// Nowhere.
    Lost,
}

impl SavedRule {
    fn encode(&self, out: &mut Vec<u8>) {
        let (operation, other) = match self.place {
            SavedPlace::Same => (DW_CFA_RESTORE_EXTENDED, None),
            SavedPlace::Below(_) => (DW_CFA_OFFSET_EXTENDED, None),
            SavedPlace::Register(other) => (DW_CFA_REGISTER, Some(other)),
            SavedPlace::Lost => (DW_CFA_UNDEFINED, None),
        };
        out.push(operation);
        out.extend(register(self.register));
        if let Some(other) = other {
            out.extend(register(other));
        }
        if let SavedPlace::Below(bytes) = self.place {
            // The data alignment factor is -4.
            push_unsigned(out, bytes / 4);
        }
    }
}

/// Appends an unsigned LEB128 number.
fn push_unsigned(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The content of the section, and the offsets of the relocated fields.
pub(super) struct Encoded {
    pub bytes: Vec<u8>,
    pub places: Vec<Places>,
}

/// Offsets in the section of the fields of one frame.
pub(super) struct Places {
    pub cie: u64,
    /// The kernel's address in the CIE, if it has one.
    pub cie_address: Option<u64>,
    pub cie_pointer: u64,
    pub address: u64,
    pub range: u64,
}

/// Encodes frames, given with their offsets in their code sections. In relocatable files, the pointers to the CIEs have relocations and are
/// 0.
pub(super) fn encode<'a>(frames: impl Iterator<Item = (u64, &'a FrameInfo)>, unit: u8, is_relocatable: bool) -> Encoded {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for (offset, frame) in frames {
        let cie = bytes.len() as u64;
        let (body, address) = frame.cie.body(unit);
        bytes.extend([0xff; 4]);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        let fde = bytes.len() as u64;
        places.push(Places {
            cie,
            cie_address: address.map(|address| cie + LENGTH + address),
            cie_pointer: fde + CIE_POINTER,
            address: fde + ADDRESS,
            range: fde + RANGE,
        });
        bytes.extend([0xff; 4]);
        bytes.extend((FDE_FIXED + frame.unwind.len() as u64).to_le_bytes());
        bytes.extend(if is_relocatable { 0 } else { cie }.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend(frame.range.to_le_bytes());
        bytes.extend(&frame.unwind);
    }
    Encoded { bytes, places }
}

/// A frame with its position in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFrame {
    pub frame: FrameInfo,
    /// Offset of the function in its code section.
    pub offset: u64,
    /// Offset of the start address in `.debug_frame`.
    pub address: u64,
}

/// Decodes a section in which each function has its own CIE.
pub fn decode(bytes: &[u8]) -> Result<Vec<PlacedFrame>> {
    let data = Bytes::new(bytes);
    let mut frames = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let length = data.u64(at + 4, "a CIE")?;
        let body = data.window(at + LENGTH, length, "a CIE")?;
        if body.u64(0, "a CIE")? != u64::MAX {
            return Err(Error::at(at, "this is not a CIE; ptxas writes one for every function"));
        }
        let cie = Cie::of(body.data());
        at += LENGTH + length;
        let length = data.u64(at + 4, "an FDE")?;
        let body = data.window(at + LENGTH, length, "an FDE")?;
        let unwind = body.rest(FDE_FIXED, "an FDE")?.data().to_vec();
        let frame = FrameInfo { cie, range: body.u64(16, "an FDE")?, unwind };
        frames.push(PlacedFrame { frame, offset: body.u64(8, "an FDE")?, address: at + ADDRESS });
        at += LENGTH + length;
    }
    Ok(frames)
}
