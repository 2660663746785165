//! Dot products as the tensor cores compute them.
//!
//! A tensor core adds several products and the accumulator in one step. Found by experiment on an H200 (`docs/tensor-arithmetic.md`):
//!
//! 1. The products are exact. Subnormal operands count with their value.
//! 2. All addends are aligned to the largest exponent among them and truncated (towards zero) after a fixed number of fraction bits. The
//!    exponent of a product is the sum of its operands' exponents, although the product of two significands may be 2 or more. The exponent
//!    to which addends are aligned is at least -133.
//! 3. The aligned addends are summed exactly.
//! 4. The sum is truncated to f32, or rounded to nearest even to f16. A sum beyond the range is infinity. Zero is always +0.
//!
//! Example with 2 fraction bits: 8 + 1.75 + 1.75. All addends are aligned to the exponent of 8, which is 3, so the last place has the value
//! 2: 1.75 becomes 0 twice, and the sum is 8, not 11.5.

use crate::convert::{Overflow, float_to_float};
use crate::exact::{Exact, Number};
use crate::float::{self, Mode};
use crate::format::{F16, F32, Format, Rounding};

/// The least exponent to which addends are aligned. Products of bf16 or tf32 may be smaller.
const LEAST_EXPONENT: i32 = -133;

/// How a generation of tensor cores sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCore {
    /// Bits of each operand row that one step multiplies: 256 are 16 products of f16, or 8 of tf32.
    pub step_bits: u32,
    /// Fraction bits that an addend keeps below the largest exponent.
    pub fraction_bits: u32,
}

/// Turing: four f16 products in one step, no extra bits (published measurements of a T4, not verified here).
pub const TURING: TensorCore = TensorCore { step_bits: 64, fraction_bits: 23 };
/// Ampere and Ada: eight f16 products in one step, one extra bit (published measurements of an A100, not verified here).
pub const AMPERE: TensorCore = TensorCore { step_bits: 128, fraction_bits: 24 };
/// Hopper: measured on an H200. Later targets are assumed to be equal.
pub const HOPPER: TensorCore = TensorCore { step_bits: 256, fraction_bits: 25 };
/// The 8-bit formats of Hopper's `wgmma`, measured on an H200. Those of Ada's and Blackwell's `mma` are assumed to be equal.
pub const EIGHT_BIT: TensorCore = TensorCore { step_bits: 256, fraction_bits: 13 };

/// The format of accumulator and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulator {
    /// f32, truncated.
    Single,
    /// f32 of which only as many fraction bits are kept as addends have ([`EIGHT_BIT`]).
    ShortSingle,
    /// f16, rounded to nearest even.
    Half,
}

impl Accumulator {
    /// Returns the format of the bits.
    pub const fn format(self) -> Format {
        match self {
            Accumulator::Single | Accumulator::ShortSingle => F32,
            Accumulator::Half => F16,
        }
    }
}

/// The sum of the addends that are not finite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    None,
    Infinity { negative: bool },
    Nan,
}

impl Special {
    fn and(self, number: Number) -> Special {
        match (self, number) {
            (Special::Nan, _) | (_, Number::Nan) => Special::Nan,
            (Special::Infinity { negative: a }, Number::Infinity { negative: b }) if a != b => Special::Nan,
            (_, Number::Infinity { negative }) => Special::Infinity { negative },
            (special, _) => special,
        }
    }
}

/// A finite addend and its exponent for the alignment.
struct Addend {
    value: Exact,
    exponent: i32,
}

/// Returns the exponent field of a number as a power of two; subnormal numbers have that of the smallest normal number.
fn exponent(value: Exact, format: Format) -> i32 {
    value.exponent + format.fraction_bits as i32
}

impl TensorCore {
    /// Returns `c` plus the dot product of `a` and `b`, in as many steps as the tensor core takes, from the first element on.
    /// `element_bits` is the size of an element in a register: 32 for tf32.
    pub fn dot(self, formats: [Format; 2], element_bits: u32, a: &[u64], b: &[u64], c: u64, accumulator: Accumulator) -> u64 {
        let step = (self.step_bits / element_bits) as usize;
        a.chunks(step).zip(b.chunks(step)).fold(c, |c, (a, b)| self.step(formats, a, b, c, accumulator))
    }

    /// Returns the result of one step.
    fn step(self, [a_format, b_format]: [Format; 2], a: &[u64], b: &[u64], c: u64, accumulator: Accumulator) -> u64 {
        let format = accumulator.format();
        let mut special = Special::None;
        let mut addends: Vec<Addend> = Vec::with_capacity(a.len() + 1);
        for (&a, &b) in a.iter().zip(b) {
            let (a, b) = (Number::unpack(a_format, a), Number::unpack(b_format, b));
            let product = float::product(a, b);
            special = special.and(product);
            if let (Number::Finite(a), Number::Finite(b), Number::Finite(value)) = (a, b, product) {
                addends.push(Addend { value, exponent: exponent(a, a_format) + exponent(b, b_format) });
            }
        }
        let c = Number::unpack(format, c);
        special = special.and(c);
        if let Number::Finite(value) = c {
            addends.push(Addend { value, exponent: exponent(value, format) });
        }
        match special {
            Special::Nan => format.canonical_nan(),
            Special::Infinity { negative } => format.infinity(negative).unwrap_or_else(|| format.canonical_nan()),
            Special::None => self.sum(&addends, accumulator),
        }
    }

    /// Aligns, sums and rounds finite addends.
    fn sum(self, addends: &[Addend], accumulator: Accumulator) -> u64 {
        let Some(largest) = addends.iter().map(|addend| addend.exponent).max() else { return 0 };
        let last_place = largest.max(LEAST_EXPONENT) - self.fraction_bits as i32;
        let aligned = |addend: &Addend| {
            let (magnitude, _) = addend.value.round_at(last_place, Rounding::Zero);
            if addend.value.negative { -(magnitude as i128) } else { magnitude as i128 }
        };
        let total: i128 = addends.iter().map(aligned).sum();
        let Some(total) = Exact::from_integer(total) else { return 0 };
        let total = Exact { exponent: last_place, ..total };
        let format = accumulator.format();
        let bits = match accumulator {
            Accumulator::Single => truncated(total),
            Accumulator::ShortSingle => {
                let place = total.magnitude() - self.fraction_bits as i32;
                let (significand, _) = total.round_at(place, Rounding::Zero);
                truncated(Exact { significand, exponent: place, ..total })
            }
            Accumulator::Half => total.round(F16, Rounding::NearestEven),
        };
        if format.is_zero(bits) { 0 } else { bits }
    }
}

/// Truncates to f32; a number beyond the range becomes infinity.
fn truncated(value: Exact) -> u64 {
    let is_too_large = value.magnitude() > F32.bias();
    match F32.infinity(value.negative) {
        Some(infinity) if is_too_large => infinity,
        _ => value.round(F32, Rounding::Zero),
    }
}

/// Returns `c` plus the dot product of two rows of 8-bit floats as `mma.sync` computes it on Hopper, which has no such instruction. The
/// operands are converted to f16. In each group of four elements the first two belong to a first dot product and the last two to a second
/// one, which starts with the result of the first. `c` is added at the end, rounded to nearest even.
pub fn eight_bit_by_halves(formats: [Format; 2], a: &[u64], b: &[u64], c: u64, accumulator: Accumulator) -> u64 {
    let part = |row: &[u64], first: usize| -> Vec<u64> {
        row.iter().copied().enumerate().filter(|(index, _)| index % 4 / 2 == first).map(|(_, element)| element).collect()
    };
    let [a_format, b_format] = formats;
    let converted = |format: Format, row: Vec<u64>| -> Vec<u64> {
        row.into_iter().map(|element| float_to_float(F16, format, element, Mode::RN, Overflow::Ieee)).collect()
    };
    let half = |first: usize, start: u64| {
        let (a, b) = (converted(a_format, part(a, first)), converted(b_format, part(b, first)));
        HOPPER.dot([F16, F16], 16, &a, &b, start, accumulator)
    };
    let total = half(1, half(0, 0));
    float::add(accumulator.format(), c, total, Mode::RN)
}
