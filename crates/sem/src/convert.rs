//! Conversions between all types, with the semantics of `cvt`.

use crate::exact::{Exact, Number};
use crate::float::Mode;
use crate::format::{F32, F64, Format, Rounding, TF32};
use crate::int::Int;

/// The treatment of values beyond the destination's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Infinity, or the largest finite number, depending on the rounding mode.
    Ieee,
    /// `.satfinite`: the largest finite number with the same sign. NaN becomes the canonical NaN.
    SatFinite,
}

/// Converts float to float. `.ftz` applies to f32 operands and f32 results only.
pub fn float_to_float(to: Format, from: Format, bits: u64, mode: Mode, overflow: Overflow) -> u64 {
    let bits = if mode.ftz && from == F32 { F32.flush(bits) } else { bits };
    let value = Number::unpack(from, bits);
    let flush = Mode { ftz: mode.ftz && to == F32, ..mode };
    let result = flush.finish(to, value);
    let finite_only = overflow == Overflow::SatFinite && to.is_infinite(result);
    if finite_only { flush.clamp(to, to.largest(to.is_negative(result))) } else { result }
}

/// Converts f32 to tf32 as it is held in a register: the lower 13 bits are zero, also for the canonical NaN (observed on an H200).
pub fn tf32_register(bits: u64, mode: Mode, overflow: Overflow) -> u64 {
    float_to_float(TF32, F32, bits, mode, overflow) << (F32.fraction_bits - TF32.fraction_bits)
}

/// Rounds to an integral value in the same format (`cvt.rni.f32.f32` and the like).
pub fn to_integral(format: Format, bits: u64, mode: Mode) -> u64 {
    let bits = if mode.ftz && format == F32 { F32.flush(bits) } else { bits };
    let result = match Number::unpack(format, bits) {
        Number::Finite(x) if x.exponent >= 0 => bits & format.mask(),
        Number::Finite(x) => {
            let (magnitude, _) = x.round_at(0, mode.rounding);
            let negative = x.negative;
            if magnitude == 0 {
                format.zero(negative)
            } else {
                Exact { negative, exponent: 0, significand: magnitude }.round(format, Rounding::Zero)
            }
        }
        other => Mode::RN.finish(format, other),
    };
    mode.clamp(format, result)
}

/// Converts float to integer, clamped to the destination's range. As the manual specifies, NaN gives 0, or only the top bit set if the
/// source is f64 or the destination has 64 bits.
pub fn float_to_int(to: Int, from: Format, bits: u64, rounding: Rounding, ftz: bool) -> u64 {
    let bits = if ftz && from == F32 { F32.flush(bits) } else { bits };
    match Number::unpack(from, bits) {
        Number::Nan if from == F64 || to.bits == 64 => 1 << (to.bits - 1),
        Number::Nan | Number::Zero { .. } => 0,
        Number::Infinity { negative } => to.clamp(if negative { i128::MIN } else { i128::MAX }),
        Number::Finite(x) if x.magnitude() > 100 => to.clamp(if x.negative { i128::MIN } else { i128::MAX }),
        Number::Finite(x) => {
            let (magnitude, _) = x.round_at(0, rounding);
            to.clamp(if x.negative { -(magnitude as i128) } else { magnitude as i128 })
        }
    }
}

/// Converts integer to float.
pub fn int_to_float(to: Format, from: Int, bits: u64, mode: Mode) -> u64 {
    let value = Exact::from_integer(from.value(bits)).map_or(Number::Zero { negative: false }, Number::Finite);
    mode.finish(to, value)
}

/// Converts integer to integer: truncates or extends; with `saturate` clamps.
pub fn int_to_int(to: Int, from: Int, bits: u64, saturate: bool) -> u64 {
    let value = from.value(bits);
    if saturate { to.clamp(value) } else { to.wrap(value) }
}

/// The exponent bias of ue8m0, the format of scale factors: eight bits of exponent, no sign, no fraction.
const UE8M0_BIAS: i32 = 127;
/// The NaN of ue8m0.
const UE8M0_NAN: u64 = 0xff;
/// The largest number of ue8m0.
const UE8M0_LARGEST: u64 = 0xfe;

/// Converts float to ue8m0. The sign is ignored; a value below the smallest power of two becomes that power.
pub fn to_ue8m0(from: Format, bits: u64, rounding: Rounding, overflow: Overflow) -> u64 {
    let too_large = if overflow == Overflow::SatFinite { UE8M0_LARGEST } else { UE8M0_NAN };
    match Number::unpack(from, bits) {
        Number::Nan => UE8M0_NAN,
        Number::Infinity { .. } => too_large,
        Number::Zero { .. } => 0,
        Number::Finite(x) => {
            let (_, is_power) = x.round_at(x.magnitude(), Rounding::Zero);
            let power = x.magnitude() + i32::from(rounding == Rounding::Up && !is_power);
            let code = power + UE8M0_BIAS;
            if code > UE8M0_LARGEST as i32 { too_large } else { code.max(0) as u64 }
        }
    }
}

/// Converts ue8m0 to a float format, which must have the exponent range of f32.
pub fn from_ue8m0(to: Format, bits: u64) -> u64 {
    if bits & 0xff == UE8M0_NAN {
        return to.canonical_nan();
    }
    let exponent = (bits & 0xff) as i32 - UE8M0_BIAS;
    Exact { negative: false, exponent, significand: 1 }.round(to, Rounding::Zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::BF16;

    fn scale(x: f32, rounding: Rounding) -> u64 {
        to_ue8m0(F32, u64::from(x.to_bits()), rounding, Overflow::SatFinite)
    }

    #[test]
    fn scale_factors_are_powers_of_two() {
        for (x, down, up) in [(1.0, 127, 127), (1.5, 127, 128), (-4.0, 129, 129), (0.0, 0, 0), (3.0e38, 254, 254), (1.0e-44, 0, 0)] {
            assert_eq!((scale(x, Rounding::Zero), scale(x, Rounding::Up)), (down, up), "{x}");
        }
        assert_eq!(scale(f32::NAN, Rounding::Up), 0xff);
        assert_eq!(scale(f32::INFINITY, Rounding::Up), 0xfe);
        assert_eq!(to_ue8m0(F32, u64::from(f32::INFINITY.to_bits()), Rounding::Up, Overflow::Ieee), 0xff);
    }

    #[test]
    fn scale_factors_come_back() {
        assert_eq!([0, 1, 127, 254, 255].map(|code| from_ue8m0(BF16, code)), [0x0040, 0x0080, 0x3f80, 0x7f00, 0x7fff]);
        for code in 0..255 {
            assert_eq!(to_ue8m0(BF16, from_ue8m0(BF16, code), Rounding::Zero, Overflow::SatFinite), code);
        }
    }
}
