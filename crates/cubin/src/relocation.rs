//! Relocations.
//!
//! Files for Turing to Ada have relocations with an addend of 0 in `REL` sections and all others in `RELA` sections; files for Hopper and
//! later have `RELA` sections only. Types up to 115 are CUDA's. Mercury sections use types from 0x10000 on, which no public tool names;
//! they are kept as numbers.

use std::fmt;

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The type of a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RelocationType(pub u32);

/// First relocation type of Mercury.
const MERCURY: u32 = 0x10000;

impl RelocationType {
    pub const R_CUDA_32: Self = Self(1);
    pub const R_CUDA_64: Self = Self(2);
    pub const R_CUDA_G64: Self = Self(4);
    pub const R_CUDA_TEX_HEADER_INDEX: Self = Self(6);
    pub const R_CUDA_SAMP_HEADER_INDEX: Self = Self(7);
    pub const R_CUDA_FUNC_DESC_64: Self = Self(35);
    pub const R_CUDA_SURF_HEADER_INDEX: Self = Self(52);
    pub const R_CUDA_ABS32_32: Self = Self(55);
    pub const R_CUDA_ABS32_LO_32: Self = Self(56);
    pub const R_CUDA_ABS32_HI_32: Self = Self(57);
    pub const R_CUDA_ABS47_34: Self = Self(58);
    pub const R_CUDA_ABS16_32: Self = Self(59);
    pub const R_CUDA_FUNC_DESC32_LO_32: Self = Self(62);
    pub const R_CUDA_FUNC_DESC32_HI_32: Self = Self(63);
    pub const R_CUDA_CONST_FIELD19_40: Self = Self(64);
    pub const R_CUDA_CONST_FIELD21_38: Self = Self(66);
    pub const R_CUDA_UNUSED_CLEAR64: Self = Self(73);
    pub const R_CUDA_ABS24_40: Self = Self(74);
    pub const R_CUDA_ABS55_16_34: Self = Self(75);
    pub const R_CUDA_8_0: Self = Self(76);
    pub const R_CUDA_G8_0: Self = Self(84);
    pub const R_CUDA_FUNC_DESC_8_0: Self = Self(92);
    pub const R_CUDA_SAMP_HEADER_INDEX_0: Self = Self(101);
    pub const R_CUDA_UNIFIED: Self = Self(102);
    pub const R_CUDA_UNIFIED_8_0: Self = Self(104);
    pub const R_CUDA_UNIFIED32_LO_32: Self = Self(112);
    pub const R_CUDA_UNIFIED32_HI_32: Self = Self(113);
    pub const R_CUDA_ABS56_16_34: Self = Self(114);
    pub const R_CUDA_CONST_FIELD22_37: Self = Self(115);

    /// Returns the name without `R_CUDA_`, if the type has one.
    pub fn name(self) -> Option<&'static str> {
        let index = usize::try_from(self.0).ok()?.checked_sub(1)?;
        NAMES.get(index).copied()
    }

    /// Returns whether the type is one of Mercury's.
    pub fn is_mercury(self) -> bool {
        self.0 >= MERCURY
    }
}

impl fmt::Debug for RelocationType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "R_CUDA_{name}"),
            None if self.is_mercury() => write!(f, "R_MERCURY({})", self.0 - MERCURY),
            None => write!(f, "R_CUDA({})", self.0),
        }
    }
}

/// A relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset in the patched section.
    pub offset: u64,
    pub relocation_type: RelocationType,
    /// Index in the symbol table that the section links to.
    pub symbol: u32,
    /// `None` in a `REL` section.
    pub addend: Option<i64>,
}

pub(crate) fn decode(data: Bytes<'_>, with_addend: bool) -> Result<Vec<Relocation>> {
    let size = if with_addend { 24 } else { 16 };
    if !data.len().is_multiple_of(size) {
        return Err(Error::at(data.place(0), format!("a relocation section has {:#x} bytes, not a multiple of {size:#x}", data.len())));
    }
    let relocation = |at| {
        let info = data.u64(at + 8, "a relocation")?;
        Ok(Relocation {
            offset: data.u64(at, "a relocation")?,
            relocation_type: RelocationType(info as u32),
            symbol: (info >> 32) as u32,
            addend: if with_addend { Some(data.u64(at + 16, "an addend")?.cast_signed()) } else { None },
        })
    };
    (0..data.len()).step_by(size as usize).map(relocation).collect()
}

pub(crate) fn encode(relocations: &[Relocation], with_addend: bool) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for relocation in relocations {
        out.extend(relocation.offset.to_le_bytes());
        out.extend((u64::from(relocation.symbol) << 32 | u64::from(relocation.relocation_type.0)).to_le_bytes());
        match relocation.addend {
            Some(addend) if with_addend => out.extend(addend.to_le_bytes()),
            None if with_addend => out.extend([0; 8]),
            Some(addend) if addend != 0 => return Err(Error::new("a REL section cannot hold an addend")),
            _ => {}
        }
    }
    Ok(out)
}

/// Names of the types from 1 on, as cuobjdump 13.2 prints them for a relocation whose type was set to each number.
const NAMES: &[&str] = &[
    "32",
    "64",
    "G32",
    "G64",
    "ABS32_26",
    "TEX_HEADER_INDEX",
    "SAMP_HEADER_INDEX",
    "SURF_HW_DESC",
    "SURF_HW_SW_DESC",
    "ABS32_LO_26",
    "ABS32_HI_26",
    "ABS32_23",
    "ABS32_LO_23",
    "ABS32_HI_23",
    "ABS24_26",
    "ABS24_23",
    "ABS16_26",
    "ABS16_23",
    "TEX_SLOT",
    "SAMP_SLOT",
    "SURF_SLOT",
    "TEX_BINDLESSOFF13_32",
    "TEX_BINDLESSOFF13_47",
    "CONST_FIELD19_28",
    "CONST_FIELD19_23",
    "TEX_SLOT9_49",
    "6_31",
    "2_47",
    "TEX_BINDLESSOFF13_41",
    "TEX_BINDLESSOFF13_45",
    "FUNC_DESC32_23",
    "FUNC_DESC32_LO_23",
    "FUNC_DESC32_HI_23",
    "FUNC_DESC_32",
    "FUNC_DESC_64",
    "CONST_FIELD21_26",
    "QUERY_DESC21_37",
    "CONST_FIELD19_26",
    "CONST_FIELD21_23",
    "PCREL_IMM24_26",
    "PCREL_IMM24_23",
    "ABS32_20",
    "ABS32_LO_20",
    "ABS32_HI_20",
    "ABS24_20",
    "ABS16_20",
    "FUNC_DESC32_20",
    "FUNC_DESC32_LO_20",
    "FUNC_DESC32_HI_20",
    "CONST_FIELD19_20",
    "BINDLESSOFF13_36",
    "SURF_HEADER_INDEX",
    "INSTRUCTION64",
    "CONST_FIELD21_20",
    "ABS32_32",
    "ABS32_LO_32",
    "ABS32_HI_32",
    "ABS47_34",
    "ABS16_32",
    "ABS24_32",
    "FUNC_DESC32_32",
    "FUNC_DESC32_LO_32",
    "FUNC_DESC32_HI_32",
    "CONST_FIELD19_40",
    "BINDLESSOFF14_40",
    "CONST_FIELD21_38",
    "INSTRUCTION128",
    "YIELD_OPCODE9_0",
    "YIELD_CLEAR_PRED4_87",
    "32_LO",
    "32_HI",
    "UNUSED_CLEAR32",
    "UNUSED_CLEAR64",
    "ABS24_40",
    "ABS55_16_34",
    "8_0",
    "8_8",
    "8_16",
    "8_24",
    "8_32",
    "8_40",
    "8_48",
    "8_56",
    "G8_0",
    "G8_8",
    "G8_16",
    "G8_24",
    "G8_32",
    "G8_40",
    "G8_48",
    "G8_56",
    "FUNC_DESC_8_0",
    "FUNC_DESC_8_8",
    "FUNC_DESC_8_16",
    "FUNC_DESC_8_24",
    "FUNC_DESC_8_32",
    "FUNC_DESC_8_40",
    "FUNC_DESC_8_48",
    "FUNC_DESC_8_56",
    "ABS20_44",
    "SAMP_HEADER_INDEX_0",
    "UNIFIED",
    "UNIFIED_32",
    "UNIFIED_8_0",
    "UNIFIED_8_8",
    "UNIFIED_8_16",
    "UNIFIED_8_24",
    "UNIFIED_8_32",
    "UNIFIED_8_40",
    "UNIFIED_8_48",
    "UNIFIED_8_56",
    "UNIFIED32_LO_32",
    "UNIFIED32_HI_32",
    "ABS56_16_34",
    "CONST_FIELD22_37",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names() {
        assert_eq!(format!("{:?}", RelocationType::R_CUDA_ABS32_LO_32), "R_CUDA_ABS32_LO_32");
        assert_eq!(format!("{:?}", RelocationType(0x1003d)), "R_MERCURY(61)");
        let named = [
            (RelocationType::R_CUDA_ABS47_34, "ABS47_34"),
            (RelocationType::R_CUDA_ABS16_32, "ABS16_32"),
            (RelocationType::R_CUDA_CONST_FIELD19_40, "CONST_FIELD19_40"),
            (RelocationType::R_CUDA_CONST_FIELD21_38, "CONST_FIELD21_38"),
            (RelocationType::R_CUDA_UNUSED_CLEAR64, "UNUSED_CLEAR64"),
            (RelocationType::R_CUDA_ABS24_40, "ABS24_40"),
            (RelocationType::R_CUDA_ABS55_16_34, "ABS55_16_34"),
            (RelocationType::R_CUDA_8_0, "8_0"),
            (RelocationType::R_CUDA_G8_0, "G8_0"),
            (RelocationType::R_CUDA_FUNC_DESC_64, "FUNC_DESC_64"),
            (RelocationType::R_CUDA_FUNC_DESC32_LO_32, "FUNC_DESC32_LO_32"),
            (RelocationType::R_CUDA_FUNC_DESC32_HI_32, "FUNC_DESC32_HI_32"),
            (RelocationType::R_CUDA_FUNC_DESC_8_0, "FUNC_DESC_8_0"),
            (RelocationType::R_CUDA_UNIFIED_8_0, "UNIFIED_8_0"),
            (RelocationType::R_CUDA_TEX_HEADER_INDEX, "TEX_HEADER_INDEX"),
            (RelocationType::R_CUDA_SAMP_HEADER_INDEX, "SAMP_HEADER_INDEX"),
            (RelocationType::R_CUDA_SURF_HEADER_INDEX, "SURF_HEADER_INDEX"),
            (RelocationType::R_CUDA_SAMP_HEADER_INDEX_0, "SAMP_HEADER_INDEX_0"),
            (RelocationType::R_CUDA_UNIFIED, "UNIFIED"),
            (RelocationType::R_CUDA_UNIFIED32_LO_32, "UNIFIED32_LO_32"),
            (RelocationType::R_CUDA_UNIFIED32_HI_32, "UNIFIED32_HI_32"),
            (RelocationType::R_CUDA_ABS56_16_34, "ABS56_16_34"),
        ];
        for (relocation_type, name) in named {
            assert_eq!(relocation_type.name(), Some(name));
        }
        assert_eq!(RelocationType(0).name(), None);
        assert_eq!(RelocationType(115).name(), Some("CONST_FIELD22_37"));
    }
}
