//! Exact representation of floating-point numbers, and the rounding function that all operations share.
//!
//! An [`Exact`] is `significand * 2^exponent` with a sign. If a result does not fit into 128 bits, the lost part is kept as a sticky last
//! bit, which is set if any lost bit was set. Rounding depends only on whether the lost part is zero, below, at, or above one half, so the
//! sticky bit is sufficient as long as the significand has at least two more bits than the target format.
//!
//! Example: rounding 0b1011.01 (significand 0b101101, exponent -2) at last place 1 keeps 0b101 and loses 0b101, which is above one half
//! (0b100); `NearestEven` gives 0b110, that is 12.

use crate::format::{Format, Rounding, Specials};

/// A nonzero number, exact except for what its sticky bit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    pub negative: bool,
    pub exponent: i32,
    /// Never zero.
    pub significand: u128,
}

/// The value that the bits of a format represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Nan,
    Infinity { negative: bool },
    Zero { negative: bool },
    Finite(Exact),
}

/// Number of bits of a normalized significand: any product of two f64 fits, and a carry above.
const NORMALIZED_BITS: u32 = 126;

impl Number {
    /// Decodes the bits of a format.
    pub fn unpack(format: Format, bits: u64) -> Number {
        let negative = format.is_negative(bits);
        if format.is_nan(bits) {
            return Number::Nan;
        }
        if format.is_infinite(bits) {
            return Number::Infinity { negative };
        }
        let fraction = bits & format.fraction_mask();
        let biased = (bits >> format.fraction_bits & format.exponent_mask()) as i32;
        if biased == 0 && fraction == 0 {
            return Number::Zero { negative };
        }
        let hidden = if biased == 0 { 0 } else { 1 << format.fraction_bits };
        let exponent = format.least_exponent() + (biased - 1).max(0);
        Number::Finite(Exact { negative, exponent, significand: u128::from(fraction | hidden) })
    }

    /// Returns the negated number; NaN stays NaN.
    pub fn negated(self) -> Number {
        match self {
            Number::Nan => Number::Nan,
            Number::Infinity { negative } => Number::Infinity { negative: !negative },
            Number::Zero { negative } => Number::Zero { negative: !negative },
            Number::Finite(x) => Number::Finite(Exact { negative: !x.negative, ..x }),
        }
    }

    /// Returns whether the sign is negative; false for NaN.
    pub(crate) fn is_negative(self) -> bool {
        match self {
            Number::Nan => false,
            Number::Infinity { negative } | Number::Zero { negative } => negative,
            Number::Finite(x) => x.negative,
        }
    }
}

impl Exact {
    /// Returns an integer as an exact number; `None` for zero.
    pub(crate) fn from_integer(value: i128) -> Option<Exact> {
        (value != 0).then(|| Exact { negative: value < 0, exponent: 0, significand: value.unsigned_abs() })
    }

    /// Returns the same value with the leading one at a fixed position, bit `NORMALIZED_BITS - 1`.
    pub(crate) fn normalized(self) -> Exact {
        let shift = self.significand.leading_zeros() as i32 - (128 - NORMALIZED_BITS as i32);
        if shift >= 0 {
            Exact { significand: self.significand << shift, exponent: self.exponent - shift, ..self }
        } else {
            Exact { significand: shift_right_sticky(self.significand, -shift as u32), exponent: self.exponent - shift, ..self }
        }
    }

    /// Returns the exponent of the leading one: the value is in `[2^m, 2^(m+1))`.
    pub(crate) fn magnitude(self) -> i32 {
        self.exponent + 127 - self.significand.leading_zeros() as i32
    }

    /// Returns the exact product; both significands must have at most 64 bits.
    pub(crate) fn times(self, other: Exact) -> Exact {
        debug_assert!(self.significand >> 64 == 0 && other.significand >> 64 == 0);
        Exact {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }

    /// Returns the sum, with a sticky bit below 2^-124 of the larger operand; `None` if the sum is exactly zero.
    pub(crate) fn plus(self, other: Exact) -> Option<Exact> {
        let (a, b) = (self.normalized(), other.normalized());
        let (large, small) = if (a.exponent, a.significand) >= (b.exponent, b.significand) { (a, b) } else { (b, a) };
        let aligned = shift_right_sticky(small.significand, (large.exponent - small.exponent) as u32);
        let significand = if large.negative == small.negative { large.significand + aligned } else { large.significand - aligned };
        (significand != 0).then_some(Exact { significand, ..large })
    }

    /// Rounds to a format and returns the bits. Overflow gives infinity or the largest finite number as IEEE 754 specifies; formats
    /// without infinity saturate.
    pub fn round(self, format: Format, rounding: Rounding) -> u64 {
        let (least, fraction_bits) = (format.least_exponent(), format.fraction_bits as i32);
        let last_place = (self.magnitude() - fraction_bits).max(least);
        let (mut kept, _) = self.round_at(last_place, rounding);
        let mut last_place = last_place;
        if kept >> (fraction_bits + 1) != 0 {
            kept >>= 1;
            last_place += 1;
        }
        let normal = kept >> fraction_bits != 0;
        let biased = if normal { (last_place - least + 1) as u64 } else { 0 };
        let fraction = kept as u64 & format.fraction_mask();
        let exponent_limit = format.exponent_mask() + u64::from(format.specials != Specials::Ieee);
        let magnitude = biased << format.fraction_bits | fraction;
        if biased >= exponent_limit || magnitude > format.largest(false) {
            return self.overflow(format, rounding);
        }
        magnitude | format.sign_of(self.negative)
    }

    /// Returns the bits for a number beyond the range of the format.
    fn overflow(self, format: Format, rounding: Rounding) -> u64 {
        let away = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => self.negative,
            Rounding::Up => !self.negative,
        };
        match format.infinity(self.negative) {
            Some(infinity) if away => infinity,
            _ => format.largest(self.negative),
        }
    }

    /// Rounds the magnitude to an integer multiple of `2^last_place`. Returns the multiple, and whether the result is exact.
    pub(crate) fn round_at(self, last_place: i32, rounding: Rounding) -> (u128, bool) {
        let shift = last_place - self.exponent;
        if shift <= 0 {
            return (self.significand << -shift, true);
        }
        let shift = shift as u32;
        let kept = if shift > 127 { 0 } else { self.significand >> shift };
        let lost = if shift > 127 { self.significand } else { self.significand & ((1 << shift) - 1) };
        if lost == 0 {
            return (kept, true);
        }
        let against_half = if shift > 128 { std::cmp::Ordering::Less } else { lost.cmp(&(1 << (shift - 1))) };
        let up = match rounding {
            Rounding::NearestEven => against_half.is_gt() || against_half.is_eq() && kept & 1 == 1,
            Rounding::NearestAway => against_half.is_ge(),
            Rounding::Zero => false,
            Rounding::Down => self.negative,
            Rounding::Up => !self.negative,
        };
        (kept + u128::from(up), false)
    }
}

/// Shifts right; sets the last bit if any lost bit was set.
pub(crate) fn shift_right_sticky(value: u128, shift: u32) -> u128 {
    match shift {
        0 => value,
        1..=127 => value >> shift | u128::from(value & ((1 << shift) - 1) != 0),
        _ => u128::from(value != 0),
    }
}
