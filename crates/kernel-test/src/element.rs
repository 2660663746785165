//! Element types of buffers and scalar parameters.

use oriole_sem::Format;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{BF16, F16, F32, F64};

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

/// Type, name and size in bytes, in the order of the enum.
const NAMES: [(Element, &str, usize); 12] = [
    (Element::U8, "u8", 1),
    (Element::S8, "s8", 1),
    (Element::U16, "u16", 2),
    (Element::S16, "s16", 2),
    (Element::U32, "u32", 4),
    (Element::S32, "s32", 4),
    (Element::U64, "u64", 8),
    (Element::S64, "s64", 8),
    (Element::F16, "f16", 2),
    (Element::Bf16, "bf16", 2),
    (Element::F32, "f32", 4),
    (Element::F64, "f64", 8),
];

impl Element {
    /// Returns the type of a name such as `f32`.
    pub fn from_name(name: &str) -> Option<Element> {
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    fn row(self) -> &'static (Element, &'static str, usize) {
        &NAMES[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> usize {
        self.row().2
    }

    pub fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// Returns a mask of all bits of an element.
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Returns the floating-point format; `None` for integers.
    pub fn format(self) -> Option<Format> {
        match self {
            Element::F16 => Some(F16),
            Element::Bf16 => Some(BF16),
            Element::F32 => Some(F32),
            Element::F64 => Some(F64),
            _ => None,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Element::S8 | Element::S16 | Element::S32 | Element::S64)
    }

    /// Returns the elements of a buffer as bits, given its bytes (little endian).
    pub(crate) fn values_of(self, bytes: &[u8]) -> Vec<u64> {
        let value = |chunk: &[u8]| chunk.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        bytes.chunks_exact(self.bytes()).map(value).collect()
    }

    /// Returns the number that the bits represent, in decimal notation.
    pub fn number(self, bits: u64) -> String {
        match self.format() {
            Some(F32) => format!("{:?}", f32::from_bits(bits as u32)),
            Some(format) => format!("{:?}", f64::from_bits(float_to_float(F64, format, bits, Mode::RN, Overflow::Ieee))),
            None if self.is_signed() => {
                let unused = 64 - self.bits();
                ((bits << unused) as i64 >> unused).to_string()
            }
            None => bits.to_string(),
        }
    }
}
