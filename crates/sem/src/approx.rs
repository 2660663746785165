//! Reference values of the approximate functions, for which the PTX manual specifies an error bound.
//!
//! These are the only functions that use native floating-point arithmetic: they are computed in f64 and rounded once, which is far more
//! precise than the bounds. Domain errors give NaN.

use crate::convert::{Overflow, float_to_float};
use crate::float::Mode;
use crate::format::{F64, Format};

/// The approximate functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApproxFunction {
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
    Rsqrt,
    Sqrt,
    Rcp,
}

/// Returns the value of the function rounded to nearest in the operand's format. With `ftz` subnormal operands and results become zero.
pub fn evaluate(function: ApproxFunction, format: Format, bits: u64, ftz: bool) -> u64 {
    let bits = if ftz { format.flush(bits) } else { bits };
    let x = f64::from_bits(float_to_float(F64, format, bits, Mode::RN, Overflow::Ieee));
    let y = match function {
        ApproxFunction::Sin => x.sin(),
        ApproxFunction::Cos => x.cos(),
        ApproxFunction::Lg2 => x.log2(),
        ApproxFunction::Ex2 => x.exp2(),
        ApproxFunction::Tanh => x.tanh(),
        ApproxFunction::Rsqrt => 1.0 / x.sqrt(),
        ApproxFunction::Sqrt => x.sqrt(),
        ApproxFunction::Rcp => 1.0 / x,
    };
    let result = float_to_float(format, F64, y.to_bits(), Mode::RN, Overflow::Ieee);
    if ftz { format.flush(result) } else { result }
}

/// Returns the value as f64, for range checks.
pub fn value(format: Format, bits: u64) -> f64 {
    f64::from_bits(float_to_float(F64, format, bits, Mode::RN, Overflow::Ieee))
}
