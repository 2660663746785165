//! Replacement of a field of a tensor map (`tensormap.replace`).

use super::UNIT;
#[cfg(test)]
use super::{MAP_BYTES, word};

/// A field that `tensormap.replace` changes; fields with one value for each dimension have the number of the dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapField {
    GlobalAddress,
    /// The number of dimensions minus one.
    Rank,
    BoxSize(u8),
    Size(u8),
    /// The stride of the dimension after this one, in bytes.
    Stride(u8),
    ElementStride(u8),
    ElementType,
    Interleave,
    Swizzle,
    SwizzleAtomicity,
    FillMode,
}

/// Changes of a 32-bit word of a map: its offset, the mask of the bits that change, and their values.
pub(crate) type WordChange = (usize, u32, u32);

/// Returns a change of `bits` bits of the word at an offset.
fn bits(offset: usize, shift: u32, bits: u32, value: u64) -> WordChange {
    let mask = (((1_u64 << bits) - 1) << shift) as u32;
    (offset, mask, ((value << shift) as u32) & mask)
}

/// Offset of the word with the modes.
const MODES: usize = 0x08;

impl MapField {
    /// Returns the changes of words that give the field a new value. The sizes and element strides of a map are stored minus one, strides
    /// in units of 16 bytes.
    pub(crate) fn changes(self, value: u64) -> Vec<WordChange> {
        let less_one = u64::from((value as u32).wrapping_sub(1));
        match self {
            MapField::GlobalAddress => vec![bits(0, 0, 32, value & 0xffff_ffff), bits(4, 0, 32, value >> 32)],
            MapField::Rank => vec![bits(MODES, 4, 3, value)],
            MapField::BoxSize(0) => vec![bits(0x34, 24, 8, less_one)],
            MapField::BoxSize(number) => vec![bits(0x38, 8 * (u32::from(number) - 1), 8, less_one)],
            MapField::Size(number) => vec![bits(0x20 + 4 * usize::from(number), 0, 32, less_one)],
            MapField::Stride(number) => {
                let units = value / UNIT;
                let number = usize::from(number);
                vec![bits(0x0c + 4 * number, 0, 32, units & 0xffff_ffff), bits(0x1c, 4 * number as u32, 4, units >> 32)]
            }
            MapField::ElementStride(number) => vec![bits(0x34, 3 * u32::from(number), 3, less_one)],
            // The types of `tf32` are those of single precision with a bit of its own, which no replacement clears.
            MapField::ElementType => match value {
                11 | 12 => vec![bits(MODES, 16, 1, 1), bits(MODES, 7, 4, value - 4)],
                13.. => vec![bits(MODES, 7, 4, value - 2)],
                _ => vec![bits(MODES, 7, 4, value)],
            },
            MapField::Interleave => vec![bits(MODES, 11, 2, value)],
            MapField::Swizzle => vec![bits(MODES, 13, 2, value), bits(MODES, 22, 1, value >> 2)],
            MapField::SwizzleAtomicity => vec![bits(MODES, 19, 3, value)],
            MapField::FillMode => vec![bits(MODES, 15, 1, value)],
        }
    }
}

/// Applies a change to a map.
#[cfg(test)]
fn apply(map: &mut [u8; MAP_BYTES], (offset, mask, value): WordChange) {
    let new = word(map, offset) as u32 & !mask | value;
    map[offset..offset + 4].copy_from_slice(&new.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::TensorMap;
    use super::*;
    use oriole_kernel_test as kernel_test;

    /// Returns the encoded map of a kernel test's parameter.
    fn map(text: &str, address: u64) -> [u8; MAP_BYTES] {
        let header =
            format!("// kernel-test 1\n// kernel: k\n// param a: u32[4096] = index\n// param m: {text} = a\n// expect a: exact = ?*4096\n");
        let test = kernel_test::parse(&header).unwrap();
        let kernel_test::ParameterValue::TensorMap(map) = &test.parameters[1].value else { panic!("no tensor map") };
        TensorMap::encode(map, address).try_into().unwrap()
    }

    /// A map of which all fields were replaced is the map that was encoded with these values.
    #[test]
    fn replaced_fields_are_those_of_a_map_that_is_encoded() {
        let wanted = map("tensormap u16 64x16x4 box 32x8x2 step 1x2x3 swizzle 64 fill nan", 0x12_3456_7890);
        let mut found = map("tensormap u32 16x32 box 8x4 swizzle 32", 0x1000);
        let fields = [
            (MapField::GlobalAddress, 0x12_3456_7890),
            (MapField::Rank, 2),
            (MapField::ElementType, 1),
            (MapField::Size(0), 64),
            (MapField::Size(1), 16),
            (MapField::Size(2), 4),
            (MapField::BoxSize(0), 32),
            (MapField::BoxSize(1), 8),
            (MapField::BoxSize(2), 2),
            (MapField::Stride(0), 128),
            (MapField::Stride(1), 2048),
            (MapField::ElementStride(0), 1),
            (MapField::ElementStride(1), 2),
            (MapField::ElementStride(2), 3),
            (MapField::Swizzle, 2),
            (MapField::FillMode, 1),
        ];
        for (field, value) in fields {
            field.changes(value).into_iter().for_each(|change| apply(&mut found, change));
        }
        assert_eq!(TensorMap::decode(&found), TensorMap::decode(&wanted));
        assert_eq!(found, wanted);
    }

    #[test]
    fn strides_have_36_bits_and_tf32_a_bit_of_its_own() {
        assert_eq!(MapField::Stride(2).changes(0x12_3456_7890), [(0x14, u32::MAX, 0x2345_6789), (0x1c, 0xf00, 0x100)]);
        assert_eq!(MapField::ElementType.changes(12), [(0x08, 0x1_0000, 0x1_0000), (0x08, 0x780, 8 << 7)]);
        assert_eq!(MapField::Interleave.changes(2), [(0x08, 0x1800, 0x1000)]);
    }
}
