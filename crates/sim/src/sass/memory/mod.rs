//! Loads and stores: address computation ([`address`], [`space`]), accesses of one value per thread ([`plain`]), matrices and asynchronous
//! copies ([`matrix`]). Fences and cache control have no effect, because every access is visible at once.

pub(crate) mod address;
pub(super) mod matrix;
pub(super) mod plain;
pub(crate) mod space;

use oriole_isa::Opcode;

use super::site::Site;
use super::step::{Action, Built, UnsupportedInst};

/// Builds the action of a load, store or fence; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::LD | Opcode::LDG | Opcode::LDL | Opcode::LDS => plain::load(site),
        Opcode::ST | Opcode::STG | Opcode::STL | Opcode::STS => plain::store(site),
        Opcode::QSPC => plain::query_space(site),
        Opcode::LDSM => matrix::load(site),
        Opcode::STSM => matrix::store(site),
        Opcode::LDGSTS => matrix::copy(site),
        Opcode::CCTL if site.has(".QFAULT") => Err(site.unsupported("a cache operation that reports faults")),
        Opcode::MEMBAR | Opcode::FENCE | Opcode::ERRBAR | Opcode::CGAERRBAR | Opcode::CCTL | Opcode::CCTLL | Opcode::LDGDEPBAR => {
            Ok(Action::Nothing)
        }
        _ => return None,
    })
}

/// The size of an access per thread, and its extension to registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessWidth {
    U8,
    S8,
    U16,
    S16,
    B32,
    B64,
    B128,
}

impl AccessWidth {
    /// Decodes the width from the modifiers; 32 bits if none is named.
    pub fn of(site: &Site<'_>) -> Result<AccessWidth, UnsupportedInst> {
        if site.has(".256") {
            return Err(site.unsupported("accesses of 256 bits"));
        }
        let widths = [
            (".U8", AccessWidth::U8),
            (".S8", AccessWidth::S8),
            (".U16", AccessWidth::U16),
            (".S16", AccessWidth::S16),
            (".64", AccessWidth::B64),
        ];
        let wide = site.has(".128") || site.has(".U.128");
        Ok(if wide { AccessWidth::B128 } else { site.one_of(&widths).unwrap_or(AccessWidth::B32) })
    }

    /// Returns the number of bytes accessed.
    pub fn bytes(self) -> u32 {
        match self {
            AccessWidth::U8 | AccessWidth::S8 => 1,
            AccessWidth::U16 | AccessWidth::S16 => 2,
            AccessWidth::B32 => 4,
            AccessWidth::B64 => 8,
            AccessWidth::B128 => 16,
        }
    }

    /// Returns the number of registers read or written.
    pub fn registers(self) -> u16 {
        match self {
            AccessWidth::B64 => 2,
            AccessWidth::B128 => 4,
            _ => 1,
        }
    }

    /// Returns the register values for loaded bytes, sign- or zero-extended.
    #[inline]
    pub fn extend(self, bytes: &[u8]) -> [u32; 4] {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        match self {
            AccessWidth::U8 => [u32::from(bytes[0]), 0, 0, 0],
            AccessWidth::S8 => [i32::from(bytes[0] as i8) as u32, 0, 0, 0],
            AccessWidth::U16 => [u32::from(u16::from_le_bytes([bytes[0], bytes[1]])), 0, 0, 0],
            AccessWidth::S16 => [i32::from(i16::from_le_bytes([bytes[0], bytes[1]])) as u32, 0, 0, 0],
            AccessWidth::B32 => [word(0), 0, 0, 0],
            AccessWidth::B64 => [word(0), word(4), 0, 0],
            AccessWidth::B128 => [word(0), word(4), word(8), word(12)],
        }
    }
}
