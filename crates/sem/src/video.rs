//! Video instructions: scalar ones on parts of words, and SIMD ones on halves or bytes of words.
//!
//! Sources are extended to exact integers. Saturation and a secondary minimum or maximum see the exact result of the primary operation;
//! what is written is reduced modulo `2^bits`.

use crate::compare::Comparison;
use crate::int::Int;

/// The part of a word that a scalar instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    pub first_bit: u32,
    pub bits: u32,
}

impl BitRange {
    pub const WORD: BitRange = BitRange { first_bit: 0, bits: 32 };

    /// Returns the part that a selector names: `b0` to `b3`, `h0`, `h1`.
    pub fn of_selector(selector: &str) -> Option<BitRange> {
        let bits = match selector.get(..1)? {
            "b" => 8,
            "h" => 16,
            _ => return None,
        };
        let number: u32 = selector[1..].parse().ok()?;
        (number < 32 / bits).then_some(BitRange { first_bit: number * bits, bits })
    }

    /// Returns the value of this part of a word, extended by the sign if the type is signed.
    pub fn read(self, word: u64, signed: bool) -> i128 {
        Int { bits: self.bits, signed }.value(word >> self.first_bit)
    }

    /// Returns the word with this part replaced.
    pub fn insert(self, word: u64, value: u64) -> u64 {
        let mask = (Int { bits: self.bits, signed: false }).mask() << self.first_bit;
        (word & !mask | value << self.first_bit & mask) & 0xffff_ffff
    }
}

/// The primary operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add,
    Subtract,
    AbsoluteDifference,
    Minimum,
    Maximum,
    /// Average, rounded to the nearest integer, halves away from zero.
    Average,
    Compare(Comparison),
    /// Shift by at most 32 (`.clamp`), or by the amount modulo 32 (`.wrap`).
    ShiftLeft {
        wrap: bool,
    },
    ShiftRight {
        wrap: bool,
    },
}

impl Operation {
    /// Returns the intermediate result, a number of at most 34 bits.
    fn apply(self, a: i128, b: i128) -> i128 {
        let amount = |wrap: bool| if wrap { b & 31 } else { b.min(32) };
        match self {
            Operation::Add => a + b,
            Operation::Subtract => a - b,
            Operation::AbsoluteDifference => (a - b).abs(),
            Operation::Minimum => a.min(b),
            Operation::Maximum => a.max(b),
            Operation::Average => (a + b + i128::from(a + b >= 0)) >> 1,
            Operation::Compare(comparison) => i128::from(comparison.holds(Some(a.cmp(&b)))),
            // The manual declares the intermediate result as `.s34`.
            Operation::ShiftLeft { wrap } => Int { bits: 34, signed: true }.value((a << amount(wrap)) as u64),
            Operation::ShiftRight { wrap } => a >> amount(wrap),
        }
    }
}

/// What happens to the result of a scalar instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secondary {
    None,
    /// Writes the result into a part of the third operand.
    Merge(BitRange),
    Add,
    Minimum,
    Maximum,
}

/// A scalar video instruction other than `vmad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    pub operation: Operation,
    /// Whether destination, first and second source are signed.
    pub signed: [bool; 3],
    /// The parts of the two sources.
    pub parts: [BitRange; 2],
    pub saturate: bool,
    pub secondary: Secondary,
}

impl Scalar {
    /// Computes the result from the three sources.
    pub fn apply(&self, a: u64, b: u64, c: u64) -> u64 {
        let exact = self.operation.apply(self.parts[0].read(a, self.signed[1]), self.parts[1].read(b, self.signed[2]));
        let word = Int { bits: 32, signed: self.signed[0] };
        let bits = if let Secondary::Merge(part) = self.secondary { part.bits } else { 32 };
        let kept = Int { bits, ..word };
        let result = if self.saturate { exact.clamp(kept.least(), kept.greatest()) } else { exact };
        match self.secondary {
            Secondary::None => word.wrap(result),
            Secondary::Merge(part) => part.insert(c, word.wrap(result)),
            Secondary::Add => word.wrap(result + word.value(c)),
            Secondary::Minimum => word.wrap(result.min(word.value(c))),
            Secondary::Maximum => word.wrap(result.max(word.value(c))),
        }
    }
}

/// `vmad`: the sum of a product and a number, shifted right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiplyAdd {
    /// Whether each of the two factors is signed.
    pub signed: [bool; 2],
    pub parts: [BitRange; 2],
    /// Whether exactly one of the factors is negated.
    pub negate_product: bool,
    pub negate_addend: bool,
    /// `.po`: adds one.
    pub plus_one: bool,
    /// 0, 7 or 15.
    pub shift: u32,
    pub saturate: bool,
}

impl MultiplyAdd {
    /// Computes the result.
    pub fn apply(&self, a: u64, b: u64, c: u64) -> u64 {
        let signed = self.signed[0] || self.signed[1] || self.negate_product || self.negate_addend;
        let word = Int { bits: 32, signed };
        let product = self.parts[0].read(a, self.signed[0]) * self.parts[1].read(b, self.signed[1]);
        let product = if self.negate_product { -product } else { product };
        let addend = if self.negate_addend { -word.value(c) } else { word.value(c) };
        let result = (product + addend + i128::from(self.plus_one)) >> self.shift;
        if self.saturate { word.clamp(result) } else { word.wrap(result) }
    }
}

/// A SIMD video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd {
    pub operation: Operation,
    /// 2 for halves, 4 for bytes.
    pub lanes: usize,
    /// Whether destination, first and second source are signed.
    pub signed: [bool; 3],
    /// Number of the element that each source reads in each lane. The elements of the first source word are counted before those of the
    /// second: halves are numbered 0 to 3, bytes 0 to 7.
    pub selected: [[u32; 4]; 2],
    pub saturate: bool,
    /// Adds the results to the third operand instead of merging them into it.
    pub accumulate: bool,
    /// The lanes that take part.
    pub mask: [bool; 4],
}

impl Simd {
    /// Returns the elements that a selector names, `h10` or `b3210`, the one of lane 0 first. The last digit is that of lane 0.
    pub fn elements(selector: &str) -> [u32; 4] {
        let mut elements = [0; 4];
        for (element, digit) in elements.iter_mut().zip(selector[1..].chars().rev()) {
            *element = digit.to_digit(10).unwrap_or(0);
        }
        elements
    }

    /// Returns the lanes that a mask names, such as `h10` or `b320`.
    pub fn lanes_of(mask: &str) -> [bool; 4] {
        let mut lanes = [false; 4];
        for lane in mask[1..].chars().filter_map(|digit| digit.to_digit(4)) {
            lanes[lane as usize] = true;
        }
        lanes
    }

    /// Computes the result from the three sources.
    pub fn apply(&self, a: u64, b: u64, c: u64) -> u64 {
        let bits = 32 / self.lanes as u32;
        let both = (b & 0xffff_ffff) << 32 | a & 0xffff_ffff;
        let kept = Int { bits, signed: self.signed[0] };
        let mut result = c & 0xffff_ffff;
        for lane in (0..self.lanes).filter(|&lane| self.mask[lane]) {
            let read = |source: usize| Int { bits, signed: self.signed[source + 1] }.value(both >> (bits * self.selected[source][lane]));
            let exact = self.operation.apply(read(0), read(1));
            let exact = if self.saturate { exact.clamp(kept.least(), kept.greatest()) } else { exact };
            result = if self.accumulate {
                Int { bits: 32, signed: false }.wrap(i128::from(result) + exact)
            } else {
                BitRange { first_bit: bits * lane as u32, bits }.insert(result, kept.wrap(exact))
            };
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(operation: Operation, signed: [bool; 3]) -> Scalar {
        Scalar { operation, signed, parts: [BitRange::WORD; 2], saturate: false, secondary: Secondary::None }
    }

    #[test]
    fn scalar_results_are_clamped_to_the_destination() {
        let add = Scalar { saturate: true, ..scalar(Operation::Add, [false, false, false]) };
        assert_eq!(add.apply(0xffff_ffff, 1, 0), 0xffff_ffff);
        let mixed = Scalar { signed: [true, false, true], ..add };
        assert_eq!(mixed.apply(0xffff_ffff, 0xffff_fff0, 0), 0x7fff_ffff);
        let byte = Scalar { secondary: Secondary::Merge(BitRange { first_bit: 8, bits: 8 }), ..mixed };
        assert_eq!(byte.apply(0, 0xffff_fe00, 0x1122_3344), 0x1122_8044);
    }

    #[test]
    fn secondary_operations_see_the_exact_result() {
        let sum = Scalar { secondary: Secondary::Minimum, ..scalar(Operation::Add, [true, false, false]) };
        assert_eq!(sum.apply(0xffff_ffff, 1, 5), 5, "the sum is 2^32");
        let greatest = Scalar { secondary: Secondary::Maximum, ..scalar(Operation::Maximum, [true, true, false]) };
        assert_eq!(greatest.apply(1, 0xffff_ffff, 3), 0xffff_ffff);
    }

    #[test]
    fn parts_are_extended_by_their_own_type() {
        let parts = [BitRange::of_selector("b3").unwrap(), BitRange::of_selector("h0").unwrap()];
        let difference = Scalar { parts, ..scalar(Operation::AbsoluteDifference, [false, true, false]) };
        assert_eq!(difference.apply(0x8000_0000, 0x0000_ffff, 0), 128 + 0xffff);
        assert_eq!(BitRange::of_selector("h2"), None);
    }

    #[test]
    fn shifts_keep_34_bits() {
        let shift = Scalar { saturate: true, ..scalar(Operation::ShiftLeft { wrap: false }, [false, false, false]) };
        assert_eq!(shift.apply(1, 32, 0), 0xffff_ffff);
        assert_eq!(shift.apply(2, 32, 0), 0, "bit 33 is the sign of the intermediate result");
        let right = scalar(Operation::ShiftRight { wrap: false }, [true, true, false]);
        assert_eq!(right.apply(0x8000_0000, 200, 0), 0xffff_ffff);
    }

    #[test]
    fn products_are_exact_before_the_shift() {
        let plain = MultiplyAdd {
            signed: [false; 2],
            parts: [BitRange::WORD; 2],
            negate_product: false,
            negate_addend: false,
            plus_one: true,
            shift: 15,
            saturate: true,
        };
        assert_eq!(plain.apply(0xffff_ffff, 0xffff_ffff, 0xffff_ffff), 0xffff_ffff);
        assert_eq!(plain.apply(1 << 15, 3, 0x7fff), 4);
        let negated = MultiplyAdd { negate_product: true, plus_one: false, ..plain };
        assert_eq!(negated.apply(0xffff_ffff, 0xffff_ffff, 0), 0x8000_0000);
    }

    #[test]
    fn lanes_are_selected_masked_and_accumulated() {
        let add = Simd {
            operation: Operation::Add,
            lanes: 2,
            signed: [true; 3],
            selected: [Simd::elements("h10"), Simd::elements("h32")],
            saturate: false,
            accumulate: false,
            mask: Simd::lanes_of("h1"),
        };
        assert_eq!(add.apply(0x0001_0002, 0x0010_0020, 0xaaaa_bbbb), 0x0011_bbbb);
        let sum = Simd { accumulate: true, mask: Simd::lanes_of("h10"), ..add };
        assert_eq!(sum.apply(0xffff_0002, 0x0000_0020, 5), 5 + 0x22 - 1);
        let average = Simd { operation: Operation::Average, lanes: 4, selected: [[0, 1, 2, 3], [4, 5, 6, 7]], mask: [true; 4], ..add };
        assert_eq!(average.apply(0xff00_03fd, 0x0000_0400, 0), 0xff00_04fe);
    }
}
