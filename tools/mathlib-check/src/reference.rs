//! Computes exact results with integer arithmetic: quotients, square roots, sums of products, followed by one rounding.

use crate::arith::Rounding;

/// An IEEE format.
#[derive(Clone, Copy)]
pub struct Format {
    fraction_bits: u32,
    exponent_bits: u32,
}

/// f32
pub const BINARY32: Format = Format { fraction_bits: 23, exponent_bits: 8 };
/// f64
pub const BINARY64: Format = Format { fraction_bits: 52, exponent_bits: 11 };

impl Format {
    fn sign_bit(self) -> u32 {
        self.fraction_bits + self.exponent_bits
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    fn magnitude(self, bits: u64) -> u64 {
        bits & ((1 << self.sign_bit()) - 1)
    }

    fn is_negative(self, bits: u64) -> bool {
        bits >> self.sign_bit() & 1 == 1
    }

    /// Returns whether the bits are a NaN.
    pub fn is_nan(self, bits: u64) -> bool {
        self.magnitude(bits) > self.infinity()
    }

    fn is_infinite(self, bits: u64) -> bool {
        self.magnitude(bits) == self.infinity()
    }

    /// Returns whether the bits are a subnormal number.
    pub fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = self.magnitude(bits);
        magnitude != 0 && magnitude < 1 << self.fraction_bits
    }

    fn flushed(self, bits: u64, ftz: bool) -> u64 {
        if ftz && self.is_subnormal(bits) { bits & 1 << self.sign_bit() } else { bits }
    }

    /// Returns significand and exponent; the number is significand * 2^exponent.
    fn split(self, bits: u64) -> (u64, i32) {
        let magnitude = self.magnitude(bits);
        let field = (magnitude >> self.fraction_bits) as i32;
        let fraction = magnitude & ((1 << self.fraction_bits) - 1);
        let least = 1 - self.bias() - self.fraction_bits as i32;
        if field == 0 { (fraction, least) } else { (fraction | 1 << self.fraction_bits, least + field - 1) }
    }

    /// Like [`Format::split`], but with a normalized significand.
    fn split_normalized(self, bits: u64) -> (u64, i32) {
        let (significand, exponent) = self.split(bits);
        let shift = significand.leading_zeros() - (63 - self.fraction_bits);
        (significand << shift, exponent - shift as i32)
    }

    fn zero(self, negative: bool) -> u64 {
        u64::from(negative) << self.sign_bit()
    }
}

/// A number before rounding: significand * 2^exponent, and whether a smaller nonzero rest was cut off.
pub struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
    sticky: bool,
}

impl Exact {
    /// Converts a finite number of a format.
    pub fn number(format: Format, bits: u64) -> Exact {
        let (significand, exponent) = format.split(bits);
        Exact { negative: format.is_negative(bits), significand: u128::from(significand), exponent, sticky: false }
    }

    /// Computes a * b + c for finite operands of similar size. An exact zero is positive; [`Exact::round`] makes it negative when
    /// rounding down.
    #[cfg(test)]
    pub fn fma(format: Format, a: u64, b: u64, c: u64) -> Exact {
        let signed = |negative: bool, value: i128| if negative { -value } else { value };
        let ((ma, ea), (mb, eb), (mc, ec)) = (format.split(a), format.split(b), format.split(c));
        let product = signed(format.is_negative(a) != format.is_negative(b), i128::from(ma) * i128::from(mb));
        let exponent = (ea + eb).min(ec);
        let align = |value: i128, from: i32| value << (from - exponent);
        let sum = align(product, ea + eb) + align(signed(format.is_negative(c), i128::from(mc)), ec);
        Exact { negative: sum < 0, significand: sum.unsigned_abs(), exponent, sticky: false }
    }

    /// Rounds to a format. With `ftz`, a number that would be below the normal range with unlimited exponents becomes zero.
    pub fn round(&self, format: Format, mode: Rounding, ftz: bool) -> u64 {
        if self.significand == 0 {
            return format.zero(self.negative || mode == Rounding::Down);
        }
        let precision = format.fraction_bits as i32 + 1;
        let least = 1 - format.bias() - format.fraction_bits as i32;
        let width = 128 - self.significand.leading_zeros() as i32;
        let unlimited = self.exponent + width - precision;
        let reaches_normal = || unlimited == least - 1 && self.rounded_at(mode, unlimited) == 1 << precision;
        if ftz && unlimited < least && !reaches_normal() {
            return format.zero(self.negative);
        }
        let place = unlimited.max(least);
        let mut kept = self.rounded_at(mode, place);
        let mut place = place;
        if kept == 1 << precision {
            kept >>= 1;
            place += 1;
        }
        let field = if kept >> format.fraction_bits == 0 { 0 } else { (place - least + 1) as u64 };
        let sign = format.zero(self.negative);
        if field >= (1 << format.exponent_bits) - 1 {
            let to_infinity = match mode {
                Rounding::Nearest => true,
                Rounding::Zero => false,
                Rounding::Down => self.negative,
                Rounding::Up => !self.negative,
            };
            return sign | if to_infinity { format.infinity() } else { format.infinity() - 1 };
        }
        let fraction = kept as u64 & ((1 << format.fraction_bits) - 1);
        sign | field << format.fraction_bits | fraction
    }

    /// Returns the significand as a rounded multiple of 2^place.
    fn rounded_at(&self, mode: Rounding, place: i32) -> u128 {
        let shift = place - self.exponent;
        if shift <= 0 {
            assert!(!self.sticky || shift == 0, "the exact result has too few bits");
            return self.significand << -shift;
        }
        let (kept, half, below) = if shift > 127 {
            (0, false, true)
        } else {
            let kept = self.significand >> shift;
            let half = self.significand >> (shift - 1) & 1 == 1;
            let below = self.significand & ((1 << (shift - 1)) - 1) != 0;
            (kept, half, below || self.sticky)
        };
        let up = match mode {
            Rounding::Nearest => half && (below || kept & 1 == 1),
            Rounding::Zero => false,
            Rounding::Down => self.negative && (half || below),
            Rounding::Up => !self.negative && (half || below),
        };
        kept + u128::from(up)
    }
}

/// Computes a / b; `None` if the result is NaN.
pub fn divide(format: Format, a: u64, b: u64, mode: Rounding, ftz: bool) -> Option<u64> {
    let (a, b) = (format.flushed(a, ftz), format.flushed(b, ftz));
    let negative = format.is_negative(a) != format.is_negative(b);
    let (zero_a, zero_b) = (format.magnitude(a) == 0, format.magnitude(b) == 0);
    let (infinite_a, infinite_b) = (format.is_infinite(a), format.is_infinite(b));
    if format.is_nan(a) || format.is_nan(b) || zero_a && zero_b || infinite_a && infinite_b {
        return None;
    }
    if infinite_a || zero_b {
        return Some(format.zero(negative) | format.infinity());
    }
    if zero_a || infinite_b {
        return Some(format.zero(negative));
    }
    let ((ma, ea), (mb, eb)) = (format.split_normalized(a), format.split_normalized(b));
    let extra = format.fraction_bits + 4;
    let (significand, sticky) = if format.fraction_bits == 23 {
        let numerator = ma << extra;
        (u128::from(numerator / mb), !numerator.is_multiple_of(mb))
    } else {
        let numerator = u128::from(ma) << extra;
        (numerator / u128::from(mb), !numerator.is_multiple_of(u128::from(mb)))
    };
    let exact = Exact { negative, significand, exponent: ea - eb - extra as i32, sticky };
    Some(exact.round(format, mode, ftz))
}

/// Computes 1 / a.
pub fn reciprocal(format: Format, a: u64, mode: Rounding, ftz: bool) -> Option<u64> {
    divide(format, (format.bias() as u64) << format.fraction_bits, a, mode, ftz)
}

/// Computes the square root; `None` if the result is NaN.
pub fn square_root(format: Format, a: u64, mode: Rounding, ftz: bool) -> Option<u64> {
    let a = format.flushed(a, ftz);
    if format.magnitude(a) == 0 {
        return Some(a);
    }
    if format.is_nan(a) || format.is_negative(a) {
        return None;
    }
    if format.is_infinite(a) {
        return Some(a);
    }
    let (significand, exponent) = format.split_normalized(a);
    let mut shift = format.fraction_bits as i32 + 6;
    if (exponent - shift) % 2 != 0 {
        shift += 1;
    }
    let radicand = u128::from(significand) << shift;
    let root = integer_root(radicand);
    let exact = Exact { negative: false, significand: root, exponent: (exponent - shift) / 2, sticky: root * root != radicand };
    Some(exact.round(format, mode, ftz))
}

/// Returns the integer square root, rounded down.
fn integer_root(value: u128) -> u128 {
    let mut root = (value as f64).sqrt() as u128;
    root = (root + value / root) / 2;
    while root * root > value {
        root -= 1;
    }
    while (root + 1) * (root + 1) <= value {
        root += 1;
    }
    root
}
