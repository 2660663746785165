//! Half precision, two numbers per register: `HADD2`, `HMUL2`, `HFMA2`, `HMNMX2`, `HSET2`, `HSETP2`, in `f16` and `bf16`.
//!
//! An operand may use one of its halves for both (`.H0_H0`, `.H1_H1`). Sums and products of halves are computed in double precision and
//! rounded once to the half. A fused multiply-add is computed in double precision rounded to odd ([`fused_odd`]), so that the final
//! rounding equals a single rounding.

use oriole_isa::OperandValue;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{self, Extreme, ExtremeMode, Mode};
use oriole_sem::format::{BF16, F16, F32, Format, Rounding};

use crate::sass::site::{Input, Operands, Site, suffixes};
use crate::sass::step::{Action, Built, UnsupportedInst, compute, mask_of};
use crate::sass::warp::{Destination, Lanes, Source, Warp};

use super::compare::{ComparisonResult, accept_comparison, holds, relation};
use super::float::{canonical, fused_odd};
use super::operand::{Typed, accept_with, float_mode, for_active};

/// Operand suffixes; the last one applies to sums only.
const SWIZZLES: [&str; 4] = [".H0_H0", ".H1_H1", ".H0_NH1", ".F32"];

/// An operand of two halves, with sign modifiers and swizzle.
#[derive(Clone, Copy)]
struct Halves {
    source: Source,
    /// For each half of the result, the bit offset of its operand in the register.
    shifts: [u32; 2],
    /// Bits to keep of each half: all but the sign for `|x|`.
    keep: u32,
    /// Bits to flip in each half.
    flips: [u32; 2],
    /// Whether the register holds a single, which is truncated to a half (used for `cvt.rz.f16.f32`).
    single: bool,
}

/// Sign bit of a half.
const SIGN: u32 = 0x8000;

impl Halves {
    /// Takes an operand; two literals in a row are the halves of one immediate.
    fn of(operands: &mut Operands<'_>) -> Result<Halves, UnsupportedInst> {
        let is_literal = |operands: &Operands<'_>| matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Float(..)));
        let first_is_literal = is_literal(operands);
        let Input { mut source, negate, absolute, invert } = operands.input()?;
        if invert {
            return Err(UnsupportedInst("a complement as an operand of halves".into()));
        }
        let single = operands.last_has(".F32");
        // The upper half is `H0` and the lower one is `-H1`: a complex number, with its real part in the lower half, times i. ptxas writes it for
        // a difference and a sum that it puts into one instruction.
        let times_i = operands.last_has(".H0_NH1");
        let shifts = match (operands.last_has(".H0_H0"), operands.last_has(".H1_H1")) {
            (true, _) => [0, 0],
            (_, true) => [16, 16],
            _ if single => [0, 0],
            _ if times_i => [16, 0],
            _ => [0, 16],
        };
        if let (true, Source::Immediate(upper)) = (first_is_literal, source) {
            // Immediates are written upper half first; a single one is used for both halves.
            let lower = match (is_literal(operands), operands.peek().map(|operand| &operand.value)) {
                (true, Some(&OperandValue::Float(_, bits))) => {
                    operands.take()?;
                    bits as u32
                }
                _ => upper,
            };
            source = Source::Immediate(upper << 16 | lower & 0xffff);
        }
        let flip = if negate { SIGN } else { 0 };
        let keep = if absolute { SIGN - 1 } else { 0xffff };
        Ok(Halves { source, shifts, keep, flips: [flip ^ if times_i { SIGN } else { 0 }, flip], single })
    }

    /// Returns the lower halves and the upper halves of all threads.
    #[inline]
    fn read(self, warp: &Warp) -> [Lanes; 2] {
        let mut values = warp.read(self.source);
        if self.single {
            let cut = Mode::new(Rounding::Zero);
            values = values.map(|value| float_to_float(F16, F32, value.into(), cut, Overflow::Ieee) as u32);
        }
        [0, 1].map(|index| values.map(|value| (value >> self.shifts[index] & self.keep) ^ self.flips[index]))
    }
}

/// Returns the format that the modifiers name.
fn format(site: &Site<'_>) -> Format {
    if site.has(".BF16_V2") { BF16 } else { F16 }
}

/// Returns `bf16` or `f16`; resolved at compile time.
const fn chosen<const BF: bool>() -> Format {
    if BF { BF16 } else { F16 }
}

/// Converts a half to a single; exact.
#[inline]
fn widen<const BF: bool>(bits: u32) -> f32 {
    if BF {
        f32::from_bits(bits << 16)
    } else {
        let (sign, magnitude) = ((bits & SIGN) << 16, bits & (SIGN - 1));
        if magnitude >= 0x7c00 {
            f32::from_bits(sign | 0x7f80_0000 | (magnitude & 0x3ff) << 13)
        } else {
            // Shifting the fraction into place leaves an exponent too small by the difference of the biases; a multiplication corrects it.
            const BIAS_DIFFERENCE: u32 = (127 + 112) << 23;
            f32::from_bits(magnitude << 13 | sign) * f32::from_bits(BIAS_DIFFERENCE)
        }
    }
}

/// Rounds a double to a half, to nearest, ties to even.
#[inline]
pub fn narrow<const BF: bool>(value: f64) -> u32 {
    let format = chosen::<BF>();
    if value.is_nan() {
        return format.canonical_nan() as u32;
    }
    let bias = (1 << (format.exponent_bits - 1)) - 1;
    // Exponent of the result; subnormal results all have the smallest one.
    let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(1 - bias);
    let place = exponent - format.fraction_bits as i32;
    let unit = |power: i32| f64::from_bits(((1023 + power) as u64) << 52);
    if !(-1000..=1000).contains(&place) {
        return format.infinity(value < 0.0).unwrap_or(0) as u32;
    }
    // A double near 2^52 has no fraction bits, so the sum is rounded to an integer, which its low bits contain.
    let units = (value.abs() * unit(-place) + unit(52)).to_bits() & ((1 << 52) - 1);
    // A carry out of the fraction correctly increments the exponent field above it.
    let biased = (exponent + bias) as u64;
    let hidden = 1 << format.fraction_bits;
    let magnitude = if units < hidden { units } else { (biased << format.fraction_bits) + (units - hidden) };
    let infinity = format.infinity(false).unwrap_or(0);
    let sign = if value.is_sign_negative() { SIGN } else { 0 };
    magnitude.min(infinity) as u32 | sign
}

/// The arithmetic operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HalfOperation {
    Add,
    Multiply,
    Fused,
}

impl HalfOperation {
    /// Computes one half with the host's arithmetic, rounded to nearest.
    #[inline]
    fn native<const BF: bool>(self, operands: [u32; 3]) -> u32 {
        let [x, y, z] = operands.map(|bits| f64::from(widen::<BF>(bits)));
        narrow::<BF>(match self {
            HalfOperation::Add => x + y,
            HalfOperation::Multiply => x * y,
            HalfOperation::Fused => fused_odd([x, y, z]),
        })
    }

    /// Computes one half in any mode, with the reference.
    fn exact(self, format: Format, [a, b, c]: [u32; 3], mode: Mode) -> u32 {
        let (a, b, c) = (a.into(), b.into(), c.into());
        (match self {
            HalfOperation::Add => float::add(format, a, b, mode),
            HalfOperation::Multiply => float::mul(format, a, b, mode),
            HalfOperation::Fused => float::fma(format, a, b, c, mode),
        }) as u32
    }
}

/// Rejects single-precision operands, which are implemented only for sums of `f16`.
fn refuse_singles(site: &Site<'_>, kind: HalfOperation) -> Result<(), UnsupportedInst> {
    let has_single = site.instruction.operands.iter().flat_map(suffixes).any(|suffix| suffix == ".F32");
    if has_single && (kind != HalfOperation::Add || format(site) != F16) {
        return Err(UnsupportedInst(format!("a single as an operand of {}", site.opcode().mnemonic())));
    }
    Ok(())
}

/// `HADD2 d, a, b`, `HMUL2 d, a, b`, `HFMA2 d, a, b, c`. `.MMA` selects another execution unit and does not change the result. With `.OOB`,
/// a factor with all bits set makes the result zero.
pub fn arithmetic(site: &Site<'_>, kind: HalfOperation) -> Built {
    accept_with(site, &[".BF16_V2", ".F32", ".FTZ", ".FMZ", ".OOB", ".SAT", ".RELU", ".MMA"], &SWIZZLES)?;
    refuse_singles(site, kind)?;
    let format = format(site);
    let zeroing = site.has(".FMZ");
    let mode = float_mode(site);
    let mode = mode.ftz(mode.ftz || zeroing);
    let drops = site.has(".OOB");
    let mut operands = site.operands();
    let d = operands.destination()?;
    if site.has(".F32") {
        return to_single(site, operands, d, kind);
    }
    let (a, b) = (Halves::of(&mut operands)?, Halves::of(&mut operands)?);
    let c = if kind == HalfOperation::Fused { Halves::of(&mut operands)? } else { b };
    operands.unused_predicates(1)?;
    operands.end()?;
    if !mode.ftz && !drops {
        let inputs = [a, b, c];
        return Ok(if format == BF16 { nearest::<true>(d, inputs, kind, mode) } else { nearest::<false>(d, inputs, kind, mode) });
    }
    Ok(compute(move |warp, mask| {
        let [a, b, c] = [a, b, c].map(|input| input.read(warp));
        for_active(warp, mask, d, |lane| {
            let one = |half: usize| {
                let [mut x, mut y, z] = [a[half][lane], b[half][lane], c[half][lane]];
                if drops && (x == 0xffff || y == 0xffff) {
                    return 0;
                }
                let is_zero = |value: u32| format.is_zero(format.flush(value.into()));
                if zeroing && (is_zero(x) || is_zero(y)) {
                    (x, y) = (0, 0);
                }
                kind.exact(format, [x, y, z], mode)
            };
            one(0) | one(1) << 16
        });
    }))
}

/// Makes the action for modes that do not flush subnormals.
fn nearest<const BF: bool>(d: Destination, inputs: [Halves; 3], kind: HalfOperation, mode: Mode) -> Action {
    let clamps = mode.sat || mode.relu;
    compute(move |warp, mask| {
        let [a, b, c] = inputs.map(|input| input.read(warp));
        for_active(warp, mask, d, |lane| {
            let one = |half: usize| {
                let result = kind.native::<BF>([a[half][lane], b[half][lane], c[half][lane]]);
                if clamps { mode.clamp(chosen::<BF>(), result.into()) as u32 } else { result }
            };
            one(0) | one(1) << 16
        });
    })
}

/// `HADD2.F32 d, a, b`: the sum of the lower halves, as a single.
fn to_single(site: &Site<'_>, mut operands: Operands<'_>, d: Destination, kind: HalfOperation) -> Built {
    if kind != HalfOperation::Add || format(site) != F16 {
        return Err(UnsupportedInst(format!("{} with a single as result", site.opcode().mnemonic())));
    }
    let (a, b) = (Halves::of(&mut operands)?, Halves::of(&mut operands)?);
    operands.end()?;
    let mode = float_mode(site);
    Ok(compute(move |warp, mask| {
        let ([a, _], [b, _]) = (a.read(warp), b.read(warp));
        if mode == Mode::RN {
            let values: Lanes = std::array::from_fn(|lane| canonical(widen::<false>(a[lane]) + widen::<false>(b[lane])));
            return warp.write(d, mask, &values);
        }
        for_active(warp, mask, d, |lane| {
            let [a, b] = [a[lane], b[lane]].map(|half| float_to_float(F32, F16, half.into(), Mode::RN, Overflow::Ieee));
            float::add(F32, a, b, mode) as u32
        });
    }))
}

/// `HMNMX2 d, a, b, p`: minimum of each half where `p` is true, else maximum.
pub fn extreme(site: &Site<'_>) -> Built {
    accept_with(site, &[".BF16_V2", ".FTZ", ".NAN", ".XORSIGN"], &SWIZZLES[..3])?;
    let format = format(site);
    let mode = ExtremeMode { ftz: site.has(".FTZ"), nan: site.has(".NAN"), xorsign_abs: site.has(".XORSIGN") };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let mut inputs = [Halves::of(&mut operands)?, Halves::of(&mut operands)?];
    let is_min = operands.predicate()?;
    operands.end()?;
    if mode.xorsign_abs {
        // Both operands are written as `|x|`, but their signs are still used.
        for input in &mut inputs {
            if input.keep == 0xffff || input.flips != [0, 0] {
                return Err(UnsupportedInst("`.XORSIGN` of other operands than magnitudes".into()));
            }
            input.keep = 0xffff;
        }
    }
    Ok(compute(move |warp, mask| {
        let [a, b] = inputs.map(|input| input.read(warp));
        let is_min = warp.read_predicate(is_min);
        for_active(warp, mask, d, |lane| {
            let which = if is_min >> lane & 1 == 1 { Extreme::Min } else { Extreme::Max };
            let one = |half: usize| float::min_max(format, which, a[half][lane].into(), b[half][lane].into(), mode) as u32;
            one(0) | one(1) << 16
        });
    }))
}

/// `HSET2 d, a, b, p`: writes all ones, or 1.0 with `.BF`, to each half for which the comparison is true.
pub fn set(site: &Site<'_>) -> Built {
    accept_comparison(site, &[".BF16_V2", ".BF", ".FTZ"])?;
    let (relation, join) = relation(site)?;
    let (format, ftz) = (format(site), site.has(".FTZ"));
    let yes = if site.has(".BF") { format.one() as u32 } else { 0xffff };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let (a, b) = (Halves::of(&mut operands)?, Halves::of(&mut operands)?);
    let other = operands.predicate()?;
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let (a, b, other) = (a.read(warp), b.read(warp), warp.read_predicate(other));
        let results = [0, 1].map(|half| {
            let result = mask_of(|lane| holds(relation, format, a[half][lane].into(), b[half][lane].into(), ftz));
            join.of(result, other)
        });
        let values: Lanes = std::array::from_fn(|lane| {
            let one = |half: usize| if results[half] >> lane & 1 == 1 { yes } else { 0 };
            one(0) | one(1) << 16
        });
        warp.write(d, mask, &values);
    }))
}

/// `HSETP2 p, q, a, b, r`: `p` is the comparison of the lower halves, `q` of the upper ones; with `.H_AND`, `p` is true if both are.
pub fn set_predicates(site: &Site<'_>) -> Built {
    accept_comparison(site, &[".BF16_V2", ".H_AND", ".FTZ"])?;
    let (relation, join) = relation(site)?;
    let (format, ftz, joined) = (format(site), site.has(".FTZ"), site.has(".H_AND"));
    let mut operands = site.operands();
    let place = operands.predicate_destination()?;
    if joined {
        operands.clone().unused_predicates(1)?;
    }
    let places = [place, operands.predicate_destination()?];
    let (a, b) = (Halves::of(&mut operands)?, Halves::of(&mut operands)?);
    let outcome = ComparisonResult { places, join, other: operands.predicate()? };
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.read(warp), b.read(warp));
        let results = [0, 1].map(|half| mask_of(|lane| holds(relation, format, a[half][lane].into(), b[half][lane].into(), ftz)));
        let results = if joined { [results[0] & results[1], 0] } else { results };
        outcome.write_both(warp, mask, results);
    }))
}
