//! `MUFU`: the approximations of the special function unit.
//!
//! The exact bits of the hardware are unknown; only error bounds are published. Here every function is computed in double precision and
//! rounded once, which is within all bounds. Known properties are kept: subnormal operands and results of `f32` and `bf16` are flushed to
//! zero (except for `.TANH`), sine and cosine take their argument in turns (1.0 = full circle), and the `64H` forms read and write upper
//! words of doubles.

use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{BF16, F16, F64, Format};

use crate::sass::site::{Operands, Site};
use crate::sass::step::{Built, UnsupportedInst, compute};

use super::float::{canonical, flush};
use super::operand::{Typed, accept_with, for_active};

/// The approximated function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MufuFunction {
    Cos,
    Sin,
    Ex2,
    Lg2,
    Rcp,
    Rsq,
    Sqrt,
    Tanh,
}

const FUNCTIONS: [(&str, MufuFunction); 8] = [
    (".COS", MufuFunction::Cos),
    (".SIN", MufuFunction::Sin),
    (".EX2", MufuFunction::Ex2),
    (".LG2", MufuFunction::Lg2),
    (".RCP", MufuFunction::Rcp),
    (".RSQ", MufuFunction::Rsq),
    (".SQRT", MufuFunction::Sqrt),
    (".TANH", MufuFunction::Tanh),
];

impl MufuFunction {
    /// Evaluates the function in double precision.
    fn of(self, x: f64) -> f64 {
        match self {
            // Drop whole turns first, which is exact, so that large arguments stay accurate.
            MufuFunction::Cos => (x.fract() * std::f64::consts::TAU).cos(),
            MufuFunction::Sin => (x.fract() * std::f64::consts::TAU).sin(),
            MufuFunction::Ex2 => x.exp2(),
            MufuFunction::Lg2 => x.log2(),
            MufuFunction::Rcp => 1.0 / x,
            MufuFunction::Rsq => 1.0 / x.sqrt(),
            MufuFunction::Sqrt => x.sqrt(),
            MufuFunction::Tanh => x.tanh(),
        }
    }

    /// Evaluates the function on a single, given and returned as bits.
    fn of_single(self, bits: u32) -> u32 {
        let apply = |bits: u32| canonical(self.of(f64::from(f32::from_bits(bits))) as f32);
        if self == MufuFunction::Tanh { apply(bits) } else { flush(apply(flush(bits))) }
    }

    /// Evaluates the function on an `f16` or `bf16`, given and returned as bits.
    fn of_half(self, format: Format, bits: u32) -> u32 {
        let flush = |bits: u64| if format == BF16 && self != MufuFunction::Tanh { BF16.flush(bits) } else { bits };
        let wide = float_to_float(F64, format, flush(bits.into()), Mode::RN, Overflow::Ieee);
        let result = self.of(f64::from_bits(wide)).to_bits();
        flush(float_to_float(format, F64, result, Mode::RN, Overflow::Ieee)) as u32
    }
}

/// Returns the upper word of `1 / x` (with `root`: `1 / sqrt(x)`) for the upper word of a double `x`.
fn of_upper_word(root: bool, upper: u32) -> u32 {
    let value = f64::from_bits(u64::from(upper) << 32);
    let value = if value.is_subnormal() { 0.0_f64.copysign(value) } else { value };
    let result = if root { 1.0 / value.sqrt() } else { 1.0 / value };
    let bits = if result.is_nan() {
        // Observed on an H200.
        0x7fff_ffff << 32
    } else if result.is_subnormal() {
        result.to_bits() & 1 << 63
    } else {
        result.to_bits()
    };
    (bits >> 32) as u32
}

/// `MUFU.function d, a`: on a single, or on one or both halves of a register.
pub fn approximate(site: &Site<'_>) -> Built {
    let mut known = vec![".F16", ".BF16", ".F16x2", ".BF16x2", ".BF16_V2", ".RCP64H", ".RSQ64H"];
    known.extend(FUNCTIONS.iter().map(|&(spelling, _)| spelling));
    accept_with(site, &known, &[".H1"])?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    if let Some(root) = site.one_of(&[(".RCP64H", false), (".RSQ64H", true)]) {
        return upper_word(operands, d, root);
    }
    let function = site.one_of(&FUNCTIONS).ok_or_else(|| UnsupportedInst("an approximation without name".into()))?;
    if let Some(format) = site.one_of(&[(".F16", F16), (".BF16", BF16), (".F16x2", F16), (".BF16x2", BF16)]) {
        let both = site.has(".F16x2") || site.has(".BF16x2");
        let input = operands.input()?;
        let upper = operands.last_has(".H1");
        operands.end()?;
        let sign = format.sign_bit() as u32;
        return Ok(compute(move |warp, mask| {
            let a = warp.read(input.source);
            let one = |bits: u32| {
                let bits = if input.absolute { bits & !sign } else { bits };
                function.of_half(format, if input.negate { bits ^ sign } else { bits })
            };
            for_active(warp, mask, d, |lane| match (both, upper) {
                (true, _) => one(a[lane] & 0xffff) | one(a[lane] >> 16) << 16,
                (false, true) => one(a[lane] >> 16),
                (false, false) => one(a[lane] & 0xffff),
            });
        }));
    }
    let a = operands.single()?;
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let a = a.read(warp);
        for_active(warp, mask, d, |lane| function.of_single(a[lane]));
    }))
}

/// Builds `MUFU.RCP64H` and `MUFU.RSQ64H`. An immediate operand is an upper word too.
fn upper_word(mut operands: Operands<'_>, d: crate::sass::warp::Destination, root: bool) -> Built {
    let a = operands.single()?;
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let a = a.read(warp);
        for_active(warp, mask, d, |lane| of_upper_word(root, a[lane]));
    }))
}
