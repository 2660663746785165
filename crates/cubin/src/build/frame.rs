//! `.debug_frame`: unwinding information, one CIE and one FDE for each function.
//!
//! ptxas writes one of three CIEs (64-bit DWARF, stack pointer in R1), and an FDE with the size of the code and a short program. The start
//! address in the FDE has a relocation. In relocatable files the pointer to the CIE and the size have one too, so that the linker can drop
//! functions.

use gimli::constants::{
    DW_CFA_advance_loc4, DW_CFA_def_cfa, DW_CFA_offset_extended, DW_CFA_register, DW_CFA_restore_extended, DW_CFA_same_value,
    DW_CFA_undefined, DW_CFA_val_expression, DW_OP_addr, DW_OP_bregx, DW_OP_plus,
};

use crate::bytes::Bytes;
use crate::dwarf_bytes::DwarfBytes;
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

/// DWARF's number of a general register: the class 5 in the top byte. `gimli::Register` has 16 bits only.
fn register(number: u16) -> u64 {
    0x500_0000 | u64::from(number)
}

/// The register number that stands for the computed return address of a subroutine.
const RETURN_ADDRESS: u16 = 256;
/// The return address register of kernels: none.
const NO_REGISTER: u64 = 0xffff_ffff;

impl Cie {
    /// Returns the bytes after the length, and the offset in them of the kernel's address if they contain it.
    fn body(&self, unit: u8) -> (Vec<u8>, Option<u64>) {
        let mut out = DwarfBytes::default();
        // The CIE marker; version 3, no augmentation, the code alignment factor, data alignment factor -4.
        out.double_word(u64::MAX);
        out.bytes(&[3, 0]);
        out.unsigned(unit.into());
        out.signed(-4);
        let same_value = |out: &mut DwarfBytes, number| {
            out.byte(DW_CFA_same_value.0);
            out.unsigned(register(number));
        };
        match self {
            Cie::Kernel => out.unsigned(NO_REGISTER),
            Cie::Function => out.unsigned(register(20)),
            Cie::Subroutine { .. } => out.unsigned(register(RETURN_ADDRESS)),
            Cie::Other(body) => return (body.clone(), None),
        }
        out.byte(DW_CFA_def_cfa.0);
        out.unsigned(register(1));
        out.unsigned(0);
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
                // The kernel's address plus the register.
                let mut expression = DwarfBytes::default();
                expression.byte(DW_OP_addr.0);
                let operand = expression.len();
                expression.double_word(0);
                expression.byte(DW_OP_bregx.0);
                expression.unsigned(register(u16::from(*return_register)));
                expression.signed(0);
                expression.byte(DW_OP_plus.0);
                out.byte(DW_CFA_val_expression.0);
                out.unsigned(register(RETURN_ADDRESS));
                out.unsigned(expression.len() as u64);
                address = Some((out.len() + operand) as u64);
                out.bytes(&expression.into_vec());
            }
            Cie::Kernel | Cie::Other(_) => {}
        }
        // The size of the CIE must be a multiple of eight bytes.
        out.pad(LENGTH);
        (out.into_vec(), address)
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
        let start = empty.iter().position(|&byte| byte == DW_CFA_val_expression.0)?;
        let mut kept = Vec::new();
        let mut rest = body.get(start..)?;
        const SAME_VALUE: u8 = DW_CFA_same_value.0;
        while let [SAME_VALUE, low, high, _, _, more @ ..] = rest {
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
        let anywhere = FrameInfo { cie: Cie::Function, range: u64::MAX, unwind: Vec::new() };
        FrameInfo { range, ..anywhere.with_rules(&[(0, 0)], &[]) }
    }
}

impl FrameInfo {
    /// Replaces the rules by those of a function whose stack pointer moves and which saves registers. `depths`: from each offset in the code
    /// on, in bytes, the stack pointer is the given number of bytes below its value at the entry. `saved` are the rules of registers, sorted
    /// by offset.
    pub fn with_rules(self, depths: &[(u32, u32)], saved: &[SavedRule]) -> FrameInfo {
        let (mut unwind, mut at) = (DwarfBytes::default(), 0);
        let unit = u32::from(SASS_UNIT);
        let mut offsets: Vec<u32> = depths.iter().map(|depth| depth.0).chain(saved.iter().map(|rule| rule.offset)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        for offset in offsets.into_iter().filter(|&offset| u64::from(offset) < self.range) {
            unwind.byte(DW_CFA_advance_loc4.0);
            unwind.word(offset.saturating_sub(at) / unit);
            for &(_, depth) in depths.iter().filter(|depth| depth.0 == offset) {
                unwind.byte(DW_CFA_def_cfa.0);
                unwind.unsigned(register(1));
                unwind.unsigned(depth.into());
            }
            let first = saved.partition_point(|rule| rule.offset < offset);
            saved[first..].iter().take_while(|rule| rule.offset == offset).for_each(|rule| rule.encode(&mut unwind));
            at = offset;
        }
        if unwind.len() == 0 {
            return self;
        }
        // The size of the FDE must be a multiple of eight bytes; zeros are `DW_CFA_nop`.
        unwind.pad(LENGTH + FDE_FIXED);
        FrameInfo { unwind: unwind.into_vec(), ..self }
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
    fn encode(&self, out: &mut DwarfBytes) {
        let (operation, other) = match self.place {
            SavedPlace::Same => (DW_CFA_restore_extended, None),
            // The data alignment factor is -4.
            SavedPlace::Below(bytes) => (DW_CFA_offset_extended, Some(u64::from(bytes / 4))),
            SavedPlace::Register(other) => (DW_CFA_register, Some(register(other))),
            SavedPlace::Lost => (DW_CFA_undefined, None),
        };
        out.byte(operation.0);
        out.unsigned(register(self.register));
        if let Some(other) = other {
            out.unsigned(other);
        }
    }
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
    let (mut out, mut places) = (DwarfBytes::default(), Vec::new());
    for (offset, frame) in frames {
        let cie = out.len() as u64;
        let (body, address) = frame.cie.body(unit);
        out.word(u32::MAX);
        out.double_word(body.len() as u64);
        out.bytes(&body);
        let fde = out.len() as u64;
        places.push(Places {
            cie,
            cie_address: address.map(|address| cie + LENGTH + address),
            cie_pointer: fde + CIE_POINTER,
            address: fde + ADDRESS,
            range: fde + RANGE,
        });
        out.word(u32::MAX);
        out.double_word(FDE_FIXED + frame.unwind.len() as u64);
        out.double_word(if is_relocatable { 0 } else { cie });
        out.double_word(offset);
        out.double_word(frame.range);
        out.bytes(&frame.unwind);
    }
    Encoded { bytes: out.into_vec(), places }
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
