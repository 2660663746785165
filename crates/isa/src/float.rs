//! Converts floating-point immediates to and from the text that nvdisasm prints.
//!
//! Finite numbers have twenty significant digits in the style of C's `%.20g`. From 10⁹ on they have an exponent and twenty digits
//! after the point, trailing zeros included. Infinities and NaNs are printed as `+INF`, `+QNAN`, `+SNAN` and their negatives.

use std::fmt::Write;

use half::{bf16, f16};

use crate::table::NumberFormat;

/// From this magnitude on nvdisasm prints an exponent.
const LARGE: f64 = 1e9;

/// The kind of number that the bits encode.
enum FloatClass {
    Finite(f64),
    Infinite,
    QuietNan,
    SignalingNan,
}

/// Returns the number of fraction bits and of exponent bits of a format.
fn layout(format: NumberFormat) -> (u32, u32) {
    match format {
        NumberFormat::F16 => (10, 5),
        NumberFormat::Bf16 => (7, 8),
        NumberFormat::F64High => (20, 11),
        _ => (23, 8),
    }
}

/// Decodes the bits of a format.
fn classify(format: NumberFormat, bits: u64) -> FloatClass {
    let (fraction_bits, exponent_bits) = layout(format);
    let exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    let fraction = bits & ((1 << fraction_bits) - 1);
    if exponent == (1 << exponent_bits) - 1 {
        return match (fraction, fraction >> (fraction_bits - 1)) {
            (0, _) => FloatClass::Infinite,
            (_, 1) => FloatClass::QuietNan,
            _ => FloatClass::SignalingNan,
        };
    }
    FloatClass::Finite(match format {
        NumberFormat::F16 => f16::from_bits(bits as u16).to_f64(),
        NumberFormat::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        NumberFormat::F64High => f64::from_bits(bits << 32),
        _ => f64::from(f32::from_bits(bits as u32)),
    })
}

fn is_negative(format: NumberFormat, bits: u64) -> bool {
    let (fraction_bits, exponent_bits) = layout(format);
    bits >> (fraction_bits + exponent_bits) & 1 == 1
}

/// Appends the text of a number.
pub(crate) fn write(out: &mut String, format: NumberFormat, bits: u64) {
    let sign = if is_negative(format, bits) { '-' } else { '+' };
    let _ = match classify(format, bits) {
        FloatClass::Finite(value) => return write_finite(out, value),
        FloatClass::Infinite => write!(out, "{sign}INF"),
        FloatClass::QuietNan => write!(out, "{sign}QNAN"),
        FloatClass::SignalingNan => write!(out, "{sign}SNAN"),
    };
}

/// Appends a finite number in nvdisasm's format.
fn write_finite(out: &mut String, value: f64) {
    if value == 0.0 {
        out.push_str(if value.is_sign_negative() { "-0" } else { "0" });
        return;
    }
    let digits = if value.abs() >= LARGE { 20 } else { 19 };
    let text = format!("{value:.digits$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value.abs() >= LARGE {
        let _ = write!(out, "{mantissa}e+{exponent:02}");
    } else if exponent < -4 {
        let _ = write!(out, "{}e-{:02}", mantissa.trim_end_matches('0').trim_end_matches('.'), -exponent);
    } else {
        let decimals = (19 - exponent).max(0) as usize;
        let fixed = format!("{value:.decimals$}");
        out.push_str(if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.') } else { &fixed });
    }
}

/// Returns the encoding of the number nearest to `value`.
pub(crate) fn bits(format: NumberFormat, value: f64) -> u64 {
    match format {
        NumberFormat::F16 => u64::from(f16::from_f64(value).to_bits()),
        NumberFormat::Bf16 => u64::from(bf16::from_f64(value).to_bits()),
        NumberFormat::F64High => value.to_bits() >> 32,
        _ => u64::from((value as f32).to_bits()),
    }
}

/// Returns the encoding of a NaN whose text shows no payload. nvdisasm does not print payloads; these are the encodings that ptxas writes
/// most often: 0x7fffffff for `+QNAN`, 0xffc00000 for `-QNAN`, and 0x7ff80000 and 0xfff80000 for the upper half of a double.
pub(crate) fn nan(format: NumberFormat, negative: bool, quiet: bool) -> u64 {
    let (fraction_bits, exponent_bits) = layout(format);
    let sign = u64::from(negative) << (fraction_bits + exponent_bits);
    let exponent = ((1u64 << exponent_bits) - 1) << fraction_bits;
    let (first, all) = (1u64 << (fraction_bits - 1), (1u64 << fraction_bits) - 1);
    let fraction = match quiet {
        true if negative || format == NumberFormat::F64High => first,
        true => all,
        false => all & !first,
    };
    sign | exponent | fraction
}

/// Returns whether parsing the printed text gives other bits than `bits`. That is so for NaNs with any payload but that of [`nan`].
pub(crate) fn loses_payload(format: NumberFormat, bits: u64) -> bool {
    let quiet = match classify(format, bits) {
        FloatClass::QuietNan => true,
        FloatClass::SignalingNan => false,
        FloatClass::Finite(_) | FloatClass::Infinite => return false,
    };
    bits != nan(format, is_negative(format, bits), quiet)
}
