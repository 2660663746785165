//! Resolves relocations like the driver's loader.

use oriole_cubin::Cubin;
use oriole_cubin::relocation::{Relocation, RelocationType};
use oriole_cubin::section::{Content, SectionKind};

use super::fault::{ErrorKind, SassError};
use super::load::{AssignedLocation, ReferenceWord, Sections};
use super::world::Map;
use crate::image::HEADER_BITS;

/// The bits of the number of a texture header in a handle.
const HEADER_MASK: u32 = (1 << HEADER_BITS) - 1;

/// Applies every relocation of code, constants and variables.
pub(super) fn apply(cubin: &Cubin, sections: &mut Sections) -> Result<(), SassError> {
    let Some(map) = cubin.target().map(Map::new) else { return Ok(()) };
    for section in cubin.sections() {
        let Content::Relocations(relocations) = &section.content else { continue };
        let patched = section.info as usize;
        let is_loaded = matches!(
            cubin.section(patched).map(oriole_cubin::section::Section::kind),
            Some(SectionKind::Text(_) | SectionKind::Constant(..) | SectionKind::Global)
        );
        if !is_loaded || section.name.starts_with(".nv.merc") {
            continue;
        }
        for relocation in relocations {
            if let Some(field) = ReferenceField::of(relocation.relocation_type) {
                let name = cubin.symbols().get(relocation.symbol as usize).map(|symbol| symbol.name.clone()).unwrap_or_default();
                sections.references.push(ReferenceWord { section: patched, offset: relocation.offset, name, field });
                continue;
            }
            one(cubin, sections, &map, patched, relocation)?;
        }
    }
    Ok(())
}

/// The part of a word that a texture, sampler or surface reference fills in when a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceField {
    /// The number of the texture header in the lower 20 bits, and that of the sampler of the texture above.
    Image,
    /// The number of a separate sampler, in the upper 12 bits.
    UpperSampler,
    /// The number of a separate sampler, in the whole word.
    Sampler,
}

impl ReferenceField {
    /// Returns the field of a relocation type; `None` for relocations of addresses.
    fn of(kind: RelocationType) -> Option<ReferenceField> {
        match kind {
            RelocationType::R_CUDA_TEX_HEADER_INDEX | RelocationType::R_CUDA_SURF_HEADER_INDEX => Some(ReferenceField::Image),
            RelocationType::R_CUDA_SAMP_HEADER_INDEX => Some(ReferenceField::UpperSampler),
            RelocationType::R_CUDA_SAMP_HEADER_INDEX_0 => Some(ReferenceField::Sampler),
            _ => None,
        }
    }

    /// Returns a word with the field replaced by a handle.
    pub(super) fn put(self, word: u32, handle: u32) -> u32 {
        match self {
            // A relocation of a separate sampler may have filled in the upper bits.
            ReferenceField::Image if word >> HEADER_BITS != 0 => word & !HEADER_MASK | handle & HEADER_MASK,
            ReferenceField::Image | ReferenceField::Sampler => handle,
            ReferenceField::UpperSampler => word & HEADER_MASK | handle << HEADER_BITS,
        }
    }
}

/// Applies one relocation to section `patched`.
fn one(cubin: &Cubin, sections: &mut Sections, map: &Map, patched: usize, relocation: &Relocation) -> Result<(), SassError> {
    let located = sections.symbol(cubin, relocation.symbol as usize)?;
    let kind = relocation.relocation_type;
    let bad = |what: &str| {
        let name = cubin.symbols().get(relocation.symbol as usize).map_or("", |symbol| symbol.name.as_str());
        SassError::new(ErrorKind::Load, format!("relocation {kind:?} of `{name}` at {:#x}: {what}", relocation.offset))
    };
    let is_generic = kind.name().is_some_and(|name| name.starts_with('G'));
    let address = match located {
        AssignedLocation::At(address) => address,
        AssignedLocation::Constant(offset) if is_generic => map.constant_window + offset,
        AssignedLocation::Shared(offset) if is_generic => map.shared_window + offset,
        AssignedLocation::Constant(offset) | AssignedLocation::Shared(offset) => offset,
        AssignedLocation::Nowhere => return Err(bad("the symbol is nowhere")),
    };
    let field = RelocatedBits::of(kind).ok_or_else(|| bad("not known"))?;
    let bytes = sections.bytes[patched].as_mut().ok_or_else(|| bad("the section has no bytes"))?;
    let start = usize::try_from(relocation.offset).map_err(|_| bad("outside the section"))?;
    let bytes = bytes.get_mut(start..start + field.bytes).ok_or_else(|| bad("outside the section"))?;
    let old = bytes.iter().rev().fold(0u128, |value, &byte| value << 8 | u128::from(byte));
    let addend = match relocation.addend {
        Some(addend) => addend as u64,
        None => field.get(old),
    };
    let new = field.put(old, address.wrapping_add(addend));
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (new >> (8 * at)) as u8;
    }
    Ok(())
}

/// The bits of a section that a relocation type replaces by bits of an address.
struct RelocatedBits {
    /// Number of bytes read and written.
    bytes: usize,
    /// Number of low address bits that are dropped.
    shift: u32,
    /// Bit runs (lowest bit, width) that receive the address bits, least significant first; none clears all bytes.
    runs: &'static [(u32, u32)],
}

impl RelocatedBits {
    /// Returns the field of a relocation type; `None` for unsupported types.
    fn of(kind: RelocationType) -> Option<RelocatedBits> {
        let data = |bytes, shift, runs| Some(RelocatedBits { bytes, shift, runs });
        let word = |shift, runs| Some(RelocatedBits { bytes: 16, shift, runs });
        match kind.name()? {
            "32" | "G32" | "FUNC_DESC_32" | "UNIFIED_32" => data(4, 0, &[(0, 32)]),
            "64" | "G64" | "FUNC_DESC_64" | "UNIFIED" => data(8, 0, &[(0, 64)]),
            "32_LO" => data(4, 0, &[(0, 32)]),
            "32_HI" => data(4, 32, &[(0, 32)]),
            "UNUSED_CLEAR32" => data(4, 0, &[]),
            "UNUSED_CLEAR64" => data(8, 0, &[]),
            "ABS32_32" | "ABS32_LO_32" | "FUNC_DESC32_32" | "FUNC_DESC32_LO_32" | "UNIFIED32_LO_32" => word(0, &[(32, 32)]),
            "ABS32_HI_32" | "FUNC_DESC32_HI_32" | "UNIFIED32_HI_32" => word(32, &[(32, 32)]),
            "ABS47_34" => word(2, &[(34, 47)]),
            "ABS55_16_34" => word(2, &[(16, 8), (34, 47)]),
            "ABS56_16_34" => word(2, &[(16, 8), (34, 48)]),
            "ABS16_32" => word(0, &[(32, 16)]),
            "ABS24_32" => word(0, &[(32, 24)]),
            "ABS24_40" => word(0, &[(40, 24)]),
            "ABS20_44" => word(0, &[(44, 20)]),
            "CONST_FIELD19_40" => word(2, &[(40, 14)]),
            "CONST_FIELD21_38" => word(0, &[(38, 16)]),
            "CONST_FIELD22_37" => word(0, &[(37, 17)]),
            name => {
                let byte = ["G8_", "8_", "UNIFIED_8_", "FUNC_DESC_8_"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
                Some(RelocatedBits { bytes: 1, shift: byte.parse().ok()?, runs: &[(0, 8)] })
            }
        }
    }

    /// Extracts the field's value, which is the addend if the relocation has none.
    fn get(&self, word: u128) -> u64 {
        let mut value = 0;
        let mut at = 0;
        for &(low, width) in self.runs {
            value |= ((word >> low) & ((1 << width) - 1)) << at;
            at += width;
        }
        (value << self.shift) as u64
    }

    /// Replaces the field's bits by those of `value`.
    fn put(&self, word: u128, value: u64) -> u128 {
        let mut word = if self.runs.is_empty() { 0 } else { word };
        let mut rest = u128::from(value >> self.shift);
        for &(low, width) in self.runs {
            let mask = ((1u128 << width) - 1) << low;
            word = word & !mask | (rest << low) & mask;
            rest >>= width;
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_gives_back_what_it_was_given() {
        let call = RelocatedBits::of(RelocationType::R_CUDA_ABS55_16_34).unwrap();
        let word = call.put(!0, 0x7d00_1234_5670);
        assert_eq!(call.get(word), 0x7d00_1234_5670);
        assert_eq!(word & 0xffff, 0xffff);
        let high = RelocatedBits::of(RelocationType::R_CUDA_ABS32_HI_32).unwrap();
        assert_eq!(high.put(0, 0x7d00_1234_5670) >> 32, 0x7d00);
    }
}
