//! Floating-point arithmetic, correctly rounded in every rounding mode and format.

use crate::exact::{Exact, Number};
use crate::format::{Format, Rounding};

/// The modifiers of a floating-point instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    pub rounding: Rounding,
    /// `.ftz`: subnormal operands and results become zeros of the same sign.
    pub ftz: bool,
    /// `.sat`: results are clamped to [0, 1]; NaN becomes +0.
    pub sat: bool,
    /// `.relu`: negative results become +0; NaN stays NaN.
    pub relu: bool,
}

impl Mode {
    /// Returns a mode with this rounding and no other modifier.
    pub const fn new(rounding: Rounding) -> Mode {
        Mode { rounding, ftz: false, sat: false, relu: false }
    }

    /// Rounding to nearest even, without other modifiers.
    pub const RN: Mode = Mode::new(Rounding::NearestEven);

    pub const fn ftz(self, ftz: bool) -> Mode {
        Mode { ftz, ..self }
    }

    pub const fn sat(self, sat: bool) -> Mode {
        Mode { sat, ..self }
    }

    pub const fn relu(self, relu: bool) -> Mode {
        Mode { relu, ..self }
    }

    /// Decodes an operand, flushed if the mode says so.
    fn unpack(self, format: Format, bits: u64) -> Number {
        Number::unpack(format, if self.ftz { format.flush(bits) } else { bits })
    }

    /// Rounds a result to a format, and applies flushing and clamping.
    ///
    /// With `.ftz` a result is flushed if it is below the smallest normal number after rounding to the format's precision with unbounded
    /// exponent range; IEEE 754 calls this "tininess detected after rounding". Observed on an H200: `fma.rn.ftz` gives 2^-126 for 2^-126 -
    /// 2^-252, and `mul.rn.ftz` gives zero for 2^-126 - 2^-150.
    pub fn finish(self, format: Format, value: Number) -> u64 {
        let bits = match value {
            Number::Nan => format.canonical_nan(),
            Number::Infinity { negative } => format.infinity(negative).unwrap_or(format.largest(negative)),
            Number::Zero { negative } => format.zero(negative),
            Number::Finite(x) if self.ftz && self.is_tiny(format, x) => format.zero(x.negative),
            Number::Finite(x) => x.round(format, self.rounding),
        };
        self.clamp(format, bits)
    }

    /// Returns whether a number is below the smallest normal number after rounding with unbounded exponent range.
    fn is_tiny(self, format: Format, x: Exact) -> bool {
        let fraction_bits = format.fraction_bits as i32;
        let (kept, _) = x.round_at(x.magnitude() - fraction_bits, self.rounding);
        let carried = kept >> (fraction_bits + 1) != 0;
        x.magnitude() + i32::from(carried) < 1 - format.bias()
    }

    /// Applies `.sat` and `.relu` to a rounded result.
    pub fn clamp(self, format: Format, bits: u64) -> u64 {
        let nan = format.is_nan(bits);
        if self.sat && (nan || format.is_negative(bits)) || self.relu && !nan && format.is_negative(bits) {
            0
        } else if self.sat && bits > format.one() {
            format.one()
        } else {
            bits
        }
    }
}

/// Returns the exact product.
pub(crate) fn product(a: Number, b: Number) -> Number {
    let negative = a.is_negative() != b.is_negative();
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity { .. }, Number::Zero { .. }) | (Number::Zero { .. }, Number::Infinity { .. }) => Number::Nan,
        (Number::Infinity { .. }, _) | (_, Number::Infinity { .. }) => Number::Infinity { negative },
        (Number::Zero { .. }, _) | (_, Number::Zero { .. }) => Number::Zero { negative },
        (Number::Finite(x), Number::Finite(y)) => Number::Finite(x.times(y)),
    }
}

/// Returns the sum; `rounding` determines the sign of an exact zero.
fn sum(a: Number, b: Number, rounding: Rounding) -> Number {
    let zero_of_sum = Number::Zero { negative: rounding == Rounding::Down };
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity { negative: x }, Number::Infinity { negative: y }) if x != y => Number::Nan,
        (Number::Infinity { .. }, _) => a,
        (_, Number::Infinity { .. }) => b,
        (Number::Zero { negative: x }, Number::Zero { negative: y }) => {
            if x == y {
                a
            } else {
                zero_of_sum
            }
        }
        (Number::Zero { .. }, _) => b,
        (_, Number::Zero { .. }) => a,
        (Number::Finite(x), Number::Finite(y)) => x.plus(y).map_or(zero_of_sum, Number::Finite),
    }
}

/// Computes `a + b`.
pub fn add(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    mode.finish(format, sum(mode.unpack(format, a), mode.unpack(format, b), mode.rounding))
}

/// Computes `a - b`.
pub fn sub(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    mode.finish(format, sum(mode.unpack(format, a), mode.unpack(format, b).negated(), mode.rounding))
}

/// Computes `a * b`.
pub fn mul(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    mode.finish(format, product(mode.unpack(format, a), mode.unpack(format, b)))
}

/// Computes `a * b + c` with one rounding.
pub fn fma(format: Format, a: u64, b: u64, c: u64, mode: Mode) -> u64 {
    let ab = product(mode.unpack(format, a), mode.unpack(format, b));
    mode.finish(format, sum(ab, mode.unpack(format, c), mode.rounding))
}

/// Number of quotient bits beyond the precision of the operands. The numerator has 53 + 72 bits, which fit into 128.
const QUOTIENT_SHIFT: u32 = 72;

/// Returns the quotient, with a sticky bit.
fn quotient(a: Number, b: Number) -> Number {
    let negative = a.is_negative() != b.is_negative();
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity { .. }, Number::Infinity { .. }) | (Number::Zero { .. }, Number::Zero { .. }) => Number::Nan,
        (Number::Infinity { .. }, _) | (_, Number::Zero { .. }) => Number::Infinity { negative },
        (Number::Zero { .. }, _) | (_, Number::Infinity { .. }) => Number::Zero { negative },
        (Number::Finite(x), Number::Finite(y)) => {
            let lift = x.significand.leading_zeros() - (128 - 53);
            let numerator = x.significand << (lift + QUOTIENT_SHIFT);
            let (quotient, remainder) = (numerator / y.significand, numerator % y.significand);
            let significand = quotient << 1 | u128::from(remainder != 0);
            let exponent = x.exponent - (lift + QUOTIENT_SHIFT) as i32 - y.exponent - 1;
            Number::Finite(Exact { negative, exponent, significand })
        }
    }
}

/// Computes `a / b`.
pub fn div(format: Format, a: u64, b: u64, mode: Mode) -> u64 {
    mode.finish(format, quotient(mode.unpack(format, a), mode.unpack(format, b)))
}

/// Computes `1 / a`.
pub fn rcp(format: Format, a: u64, mode: Mode) -> u64 {
    div(format, format.one(), a, mode)
}

/// Computes the square root; NaN for negative numbers, -0 for -0.
pub fn sqrt(format: Format, a: u64, mode: Mode) -> u64 {
    let root = match mode.unpack(format, a) {
        Number::Finite(x) if x.negative => Number::Nan,
        Number::Infinity { negative: true } => Number::Nan,
        Number::Finite(x) => {
            let x = x.normalized();
            let (significand, exponent) =
                if x.exponent % 2 == 0 { (x.significand, x.exponent) } else { (x.significand << 1, x.exponent - 1) };
            let root = significand.isqrt();
            let inexact = root * root != significand;
            Number::Finite(Exact { negative: false, exponent: exponent / 2 - 1, significand: root << 1 | u128::from(inexact) })
        }
        other => other,
    };
    mode.finish(format, root)
}

/// Clears the sign bit. PTX leaves the result for NaN unspecified.
pub fn abs(format: Format, a: u64, ftz: bool) -> u64 {
    (if ftz { format.flush(a) } else { a & format.mask() }) & !format.sign_bit()
}

/// Inverts the sign bit. PTX leaves the result for NaN unspecified.
pub fn neg(format: Format, a: u64, ftz: bool) -> u64 {
    (if ftz { format.flush(a) } else { a & format.mask() }) ^ format.sign_bit()
}

/// Computes `copysign d, a, b`: the magnitude of `b` with the sign of `a`.
pub fn copysign(format: Format, a: u64, b: u64) -> u64 {
    a & format.sign_bit() | b & (format.sign_bit() - 1)
}

/// Selects the operation of [`min_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    Min,
    Max,
}

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtremeMode {
    pub ftz: bool,
    /// `.NaN`: the result is NaN if an operand is NaN. Otherwise the result is the operand that is a number.
    pub nan: bool,
    /// `.xorsign.abs`: compares magnitudes; the sign of the result is the exclusive or of the operands' signs.
    pub xorsign_abs: bool,
}

/// Computes `min` or `max`; -0 is less than +0.
pub fn min_max(format: Format, which: Extreme, a: u64, b: u64, mode: ExtremeMode) -> u64 {
    let prepare = |x: u64| {
        let x = if mode.ftz { format.flush(x) } else { x & format.mask() };
        if mode.xorsign_abs { x & !format.sign_bit() } else { x }
    };
    let sign = if mode.xorsign_abs { (a ^ b) & format.sign_bit() } else { 0 };
    let (x, y) = (prepare(a), prepare(b));
    match (format.is_nan(x), format.is_nan(y)) {
        (true, true) => format.canonical_nan(),
        (true, false) | (false, true) if mode.nan => format.canonical_nan(),
        (true, false) => y | sign,
        (false, true) => x | sign,
        (false, false) => {
            let first = match which {
                Extreme::Min => order_key(format, x) <= order_key(format, y),
                Extreme::Max => order_key(format, x) >= order_key(format, y),
            };
            (if first { x } else { y }) | sign
        }
    }
}

/// Returns an integer that orders numbers by value, with -0 below +0.
pub fn order_key(format: Format, bits: u64) -> i64 {
    let magnitude = (bits & (format.sign_bit() - 1)) as i64;
    if format.is_negative(bits) { -magnitude - 1 } else { magnitude }
}
