//! Single precision: `FADD`, `FMUL`, `FFMA`, `FMNMX`, `FMNMX3`, the packed `FADD2`, `FMUL2`, `FFMA2`, the mixed-precision `FHADD`, `FHFMA`,
//! and their uniform forms.
//!
//! Rounding to nearest uses the host's arithmetic, which equals the hardware's except for NaN payloads. `.FTZ` flushes results that are
//! subnormal after rounding to 24 bits with unbounded exponent. This differs from flushing the host's result only if that result is the
//! smallest normal number; then the reference in `oriole_sem` decides. Directed rounding computes in double precision rounded to odd
//! ([`fused_odd`]), or uses the reference.

use oriole_isa::OperandValue;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{self, Extreme, ExtremeMode, Mode};
use oriole_sem::format::{BF16, F16, F32, F64, Format, Rounding};

use crate::sass::site::{self, Input, Operands, Site};
use crate::sass::step::{Action, Built, UnsupportedInst, compute};
use crate::sass::warp::{Destination, Lanes, Source, Warp, WideLanes, WideSource, lanes_of};

use super::operand::{Single, Typed, accept, accept_with, float_mode, for_active};

/// The NaN that the hardware returns.
const NAN: u32 = 0x7fff_ffff;
/// All bits except the sign.
const MAGNITUDE: u32 = 0x7fff_ffff;
/// Bits of the smallest normal single, 2^-126.
const LEAST_NORMAL: u32 = 0x0080_0000;

/// Returns the bits of a result, with every NaN replaced by the hardware's.
#[inline]
pub fn canonical(value: f32) -> u32 {
    if value.is_nan() { NAN } else { value.to_bits() }
}

/// Flushes a subnormal single to zero of the same sign.
#[inline]
pub fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & !MAGNITUDE } else { bits }
}

/// An arithmetic operation with `N` operands.
pub trait FloatOperation<const N: usize>: Copy + Send + Sync + 'static {
    /// Computes the result rounded to nearest, with the host's arithmetic.
    fn native(operands: [f32; N]) -> f32;
    /// Returns operands `[x, y, z]` such that the result is `x * y + z`.
    fn fused(operands: [f32; N]) -> [f64; 3];
    /// Computes the result in any mode, with the reference.
    fn exact(operands: [u64; N], mode: Mode) -> u64;
}

#[derive(Clone, Copy)]
pub struct Add;
#[derive(Clone, Copy)]
pub struct Multiply;
#[derive(Clone, Copy)]
pub struct Fused;

impl FloatOperation<2> for Add {
    #[inline]
    fn native([a, b]: [f32; 2]) -> f32 {
        a + b
    }
    #[inline]
    fn fused([a, b]: [f32; 2]) -> [f64; 3] {
        [a.into(), 1.0, b.into()]
    }
    fn exact([a, b]: [u64; 2], mode: Mode) -> u64 {
        float::add(F32, a, b, mode)
    }
}

impl FloatOperation<2> for Multiply {
    #[inline]
    fn native([a, b]: [f32; 2]) -> f32 {
        a * b
    }
    #[inline]
    fn fused([a, b]: [f32; 2]) -> [f64; 3] {
        [a.into(), b.into(), 0.0]
    }
    fn exact([a, b]: [u64; 2], mode: Mode) -> u64 {
        float::mul(F32, a, b, mode)
    }
}

impl FloatOperation<3> for Fused {
    #[inline]
    fn native([a, b, c]: [f32; 3]) -> f32 {
        a.mul_add(b, c)
    }
    #[inline]
    fn fused(operands: [f32; 3]) -> [f64; 3] {
        operands.map(f64::from)
    }
    fn exact([a, b, c]: [u64; 3], mode: Mode) -> u64 {
        float::fma(F32, a, b, c, mode)
    }
}

/// Computes one lane, rounded to nearest, with `.FTZ` and `.SAT`.
#[inline]
fn nearest<const N: usize, O: FloatOperation<N>, const FTZ: bool, const SAT: bool>(operands: [u32; N]) -> u32 {
    let operands = if FTZ { operands.map(flush) } else { operands };
    let mut result = canonical(O::native(operands.map(f32::from_bits)));
    // The host rounded with bounded exponent. Only for exactly the smallest normal number is it unclear whether the value was subnormal.
    if FTZ && result & MAGNITUDE <= LEAST_NORMAL {
        result = if result & MAGNITUDE == LEAST_NORMAL {
            O::exact(operands.map(u64::from), Mode::RN.ftz(true)) as u32
        } else {
            result & !MAGNITUDE
        };
    }
    if SAT { Mode::RN.sat(true).clamp(F32, result.into()) as u32 } else { result }
}

/// Computes `x * y + z` of singles or halves in double precision, rounded to odd: if the sum is inexact, the last bit is set. Rounding the
/// result once more to a narrower format then equals rounding the exact value once (Boldo and Melquiond 2008). The product of two singles
/// is exact in double precision; the error of the sum is computed with Knuth's TwoSum.
#[inline]
pub fn fused_odd([x, y, z]: [f64; 3]) -> f64 {
    // 24-bit by 24-bit: exact in 53 bits.
    let product = x * y;
    let sum = product + z;
    let of_z = sum - product;
    let lost = (product - (sum - of_z)) + (z - of_z);
    if lost == 0.0 || !sum.is_finite() || lost.is_nan() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // `sum` is even and inexact: of the two neighbours around the exact value, take the odd one.
    let outward = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if outward { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// Computes one lane with directed rounding. Zero results (whose sign depends on the mode), non-finite and flushed results are left to the
/// reference.
#[inline]
fn directed<const N: usize, O: FloatOperation<N>>(operands: [u32; N], mode: Mode) -> u32 {
    let operands = if mode.ftz { operands.map(flush) } else { operands };
    let value = fused_odd(O::fused(operands.map(f32::from_bits)));
    let nearest = value as f32;
    let (bits, back) = (nearest.to_bits(), f64::from(nearest));
    let is_small = bits & MAGNITUDE <= LEAST_NORMAL;
    if value == 0.0 || !value.is_finite() || mode.ftz && is_small {
        return O::exact(operands.map(u64::from), mode) as u32;
    }
    // `nearest` may be one unit on the wrong side of `value`; step back towards the requested direction.
    let negative = value < 0.0;
    let (inward, outward) = match mode.rounding {
        Rounding::Down => (!negative && back > value, negative && back > value),
        Rounding::Up => (negative && back < value, !negative && back < value),
        _ => (back.abs() > value.abs(), false),
    };
    let bits = bits + u32::from(outward) - u32::from(inward);
    if mode.sat { mode.clamp(F32, bits.into()) as u32 } else { bits }
}

/// Makes the action `d = operation(inputs)`; with `zeroing` (`.FMZ`) a zero factor makes the product zero, even times infinity or NaN.
fn action<const N: usize, O: FloatOperation<N>>(d: Destination, inputs: [Single; N], mode: Mode, zeroing: bool) -> Action {
    let whole = |f: fn([u32; N]) -> u32| {
        compute(move |warp, mask| {
            let operands = inputs.map(|input| input.read(warp));
            let values: Lanes = std::array::from_fn(|lane| f(std::array::from_fn(|index| operands[index][lane])));
            warp.write(d, mask, &values);
        })
    };
    match (mode.rounding, zeroing, mode.ftz, mode.sat) {
        (Rounding::NearestEven, false, false, false) => compute(move |warp, mask| {
            let operands = inputs.map(|input| input.read(warp));
            let values: Lanes =
                std::array::from_fn(|lane| canonical(O::native(std::array::from_fn(|index| f32::from_bits(operands[index][lane])))));
            warp.write(d, mask, &values);
        }),
        (Rounding::NearestEven, false, true, false) => whole(nearest::<N, O, true, false>),
        (Rounding::NearestEven, false, false, true) => whole(nearest::<N, O, false, true>),
        (Rounding::NearestEven, false, true, true) => whole(nearest::<N, O, true, true>),
        (_, false, _, _) => compute(move |warp, mask| {
            let operands = inputs.map(|input| input.read(warp));
            for_active(warp, mask, d, |lane| directed::<N, O>(std::array::from_fn(|index| operands[index][lane]), mode));
        }),
        _ => compute(move |warp, mask| {
            let operands = inputs.map(|input| input.read(warp));
            for_active(warp, mask, d, |lane| {
                let mut values: [u64; N] = std::array::from_fn(|index| operands[index][lane].into());
                if zeroing && values[..2].iter().any(|&factor| F32.is_zero(F32.flush(factor))) {
                    values[..2].fill(0);
                }
                O::exact(values, mode) as u32
            });
        }),
    }
}

/// Modifiers of single-precision arithmetic; the first five apply to sums.
const MODES: [&str; 6] = [".FTZ", ".RM", ".RP", ".RZ", ".SAT", ".FMZ"];
/// Scales of a product, as powers of two.
const SCALES: [(&str, i32); 6] = [(".D8", -3), (".D4", -2), (".D2", -1), (".M2", 1), (".M4", 2), (".M8", 3)];

/// Returns the rounding mode, and whether `.FMZ` is set, which also flushes subnormals.
fn mode_and_zeroing(site: &Site<'_>) -> (Mode, bool) {
    let zeroing = site.has(".FMZ");
    let mode = float_mode(site);
    (mode.ftz(mode.ftz || zeroing), zeroing)
}

/// Takes `N` single-precision operands, which must be the last ones.
fn inputs<const N: usize>(operands: &mut Operands<'_>) -> Result<[Single; N], UnsupportedInst> {
    let mut inputs = [operands.single()?; N];
    for input in &mut inputs[1..] {
        *input = operands.single()?;
    }
    operands.end()?;
    Ok(inputs)
}

/// `FADD d, a, b`
pub fn add(site: &Site<'_>) -> Built {
    accept(site, &MODES[..5])?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    Ok(action::<2, Add>(d, inputs(&mut operands)?, float_mode(site), false))
}

/// `FMUL d, a, b`; `.D8` to `.M8` scale the product before it is rounded.
pub fn multiply(site: &Site<'_>) -> Built {
    let mut known = MODES.to_vec();
    known.extend(SCALES.iter().map(|&(spelling, _)| spelling));
    accept(site, &known)?;
    let (mode, zeroing) = mode_and_zeroing(site);
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = inputs::<2>(&mut operands)?;
    let Some(scale) = site.one_of(&SCALES) else {
        return Ok(action::<2, Multiply>(d, inputs, mode, zeroing));
    };
    let factor = 2_f64.powi(scale);
    Ok(compute(move |warp, mask| {
        let [a, b] = inputs.map(|input| input.read(warp));
        for_active(warp, mask, d, |lane| {
            let [a, b] = [a[lane], b[lane]].map(|value| if mode.ftz { flush(value) } else { value });
            let is_zero = zeroing && (a & MAGNITUDE == 0 || b & MAGNITUDE == 0);
            // Exact in double precision: the product has 48 bits.
            let product = if is_zero { 0.0 } else { f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b)) * factor };
            float_to_float(F32, F64, product.to_bits(), mode, Overflow::Ieee) as u32
        });
    }))
}

/// `FFMA d, a, b, c`
pub fn fused(site: &Site<'_>) -> Built {
    accept(site, &MODES)?;
    let (mode, zeroing) = mode_and_zeroing(site);
    let mut operands = site.operands();
    let d = operands.destination()?;
    Ok(action::<3, Fused>(d, inputs(&mut operands)?, mode, zeroing))
}

/// `FMNMX d, a, b, p`: the minimum where `p` is true, else the maximum. With `.XORSIGN`, magnitudes are compared and the sign is the xor of
/// both.
pub fn extreme(site: &Site<'_>) -> Built {
    accept(site, &[".FTZ", ".NAN", ".XORSIGN"])?;
    let mode = ExtremeMode { ftz: site.has(".FTZ"), nan: site.has(".NAN"), xorsign_abs: site.has(".XORSIGN") };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let [a, b] = [operands.input()?, operands.input()?].map(|input| of_extreme(input, mode));
    let (a, b) = (a?, b?);
    let is_min = operands.predicate()?;
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let (a, b, is_min) = (a.read(warp), b.read(warp), warp.read_predicate(is_min));
        for_active(warp, mask, d, |lane| least_or_greatest(a[lane], b[lane], is_min >> lane & 1 == 1, mode));
    }))
}

/// Returns the minimum or maximum of two singles.
#[inline]
fn least_or_greatest(a: u32, b: u32, is_min: bool, mode: ExtremeMode) -> u32 {
    let is_number = |x: u32| x & MAGNITUDE <= 0x7f80_0000;
    if !mode.xorsign_abs && is_number(a) && is_number(b) {
        let [a, b] = if mode.ftz { [flush(a), flush(b)] } else { [a, b] };
        // Map bits to integers that are ordered like the numbers, with -0 below +0.
        let key = |x: u32| (x ^ ((x as i32 >> 31) as u32 >> 1)) as i32;
        return if (key(a) <= key(b)) == is_min { a } else { b };
    }
    float::min_max(F32, if is_min { Extreme::Min } else { Extreme::Max }, a.into(), b.into(), mode) as u32
}

/// Takes an operand of `FMNMX`. With `.XORSIGN` both register operands are written as `|x|`, but their signs are still used.
fn of_extreme(input: Input, mode: ExtremeMode) -> Result<Single, UnsupportedInst> {
    if !mode.xorsign_abs {
        return Single::of(input);
    }
    let is_bare = !input.absolute && !matches!(input.source, Source::Immediate(_));
    if is_bare || input.negate {
        return Err(UnsupportedInst("`.XORSIGN` of other operands than magnitudes".into()));
    }
    Single::of(Input { absolute: false, ..input })
}

/// `FMNMX3 d, a, b, c, p`: minimum or maximum of three.
pub fn extreme3(site: &Site<'_>) -> Built {
    accept(site, &[".FTZ", ".NAN"])?;
    let mode = ExtremeMode { ftz: site.has(".FTZ"), nan: site.has(".NAN"), xorsign_abs: false };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.single()?, operands.single()?, operands.single()?];
    let is_min = operands.predicate()?;
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let [a, b, c] = inputs.map(|input| input.read(warp));
        let is_min = warp.read_predicate(is_min);
        for_active(warp, mask, d, |lane| {
            let is_min = is_min >> lane & 1 == 1;
            least_or_greatest(least_or_greatest(a[lane], b[lane], is_min, mode), c[lane], is_min, mode)
        });
    }))
}

/// The registers of an operand of two singles.
#[derive(Clone, Copy)]
enum PairSource {
    /// A single for each half.
    Two(WideSource),
    /// One single for both halves: `R6.F32`, or a number.
    Both(Source),
}

/// An operand of two singles.
#[derive(Clone, Copy)]
struct SinglePair {
    source: PairSource,
    /// Whether the halves are exchanged (`.LO_HI`).
    swapped: bool,
    /// Bits to keep: clears signs for `|x|`.
    keep: u64,
    /// Bits to flip: sets signs for `-x`.
    flip: u64,
}

impl SinglePair {
    fn of(operands: &mut Operands<'_>) -> Result<SinglePair, UnsupportedInst> {
        let next = operands.peek();
        let is_literal = matches!(next.map(|operand| &operand.value), Some(OperandValue::Float(..)));
        let is_single = next.is_some_and(|operand| site::suffixes(operand).any(|suffix| suffix == ".F32"));
        let (source, absolute, negate) = if is_literal || is_single {
            let input = operands.input()?;
            (PairSource::Both(input.source), input.absolute, input.negate)
        } else {
            let input = operands.wide_input()?;
            (PairSource::Two(input.source), input.absolute, input.negate)
        };
        let both = |on: bool| if on { 0x8000_0000_8000_0000 } else { 0 };
        Ok(SinglePair { source, swapped: operands.last_has(".LO_HI"), keep: !both(absolute), flip: both(negate) })
    }

    fn read(self, warp: &Warp) -> WideLanes {
        let values = match self.source {
            PairSource::Two(source) => warp.read_wide(source),
            PairSource::Both(source) => warp.read(source).map(|value| u64::from(value) << 32 | u64::from(value)),
        };
        values.map(|value| {
            let value = (value & self.keep) ^ self.flip;
            if self.swapped { value.rotate_left(32) } else { value }
        })
    }
}

/// `FADD2 d, a, b`, `FMUL2 d, a, b`, `FFMA2 d, a, b, c`: the operation on both halves of register pairs.
pub fn pairs<const N: usize, O: FloatOperation<N>>(site: &Site<'_>) -> Built {
    accept_with(site, &MODES, &[".F32", ".F32x2", ".HI_LO", ".LO_HI"])?;
    let (mode, zeroing) = mode_and_zeroing(site);
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let mut inputs = [SinglePair::of(&mut operands)?; N];
    for input in &mut inputs[1..] {
        *input = SinglePair::of(&mut operands)?;
    }
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let operands = inputs.map(|input| input.read(warp));
        let mut values: WideLanes = [0; 32];
        for lane in lanes_of(mask) {
            for shift in [0, 32] {
                let mut parts: [u64; N] = std::array::from_fn(|index| operands[index][lane] >> shift & 0xffff_ffff);
                if zeroing && parts[..2].iter().any(|&factor| F32.is_zero(F32.flush(factor))) {
                    parts[..2].fill(0);
                }
                values[lane] |= O::exact(parts, mode) << shift;
            }
        }
        warp.write_wide(d, mask, &values);
    }))
}

/// `FHADD d, a, b` and `FHFMA d, a, b, c`: the last operand is a single, the others are halves.
pub fn mixed(site: &Site<'_>, factors: usize) -> Built {
    accept_with(site, &[".BF16", ".RM", ".RP", ".RZ", ".SAT"], &[".H1"])?;
    let format = if site.has(".BF16") { BF16 } else { F16 };
    let mode = float_mode(site);
    let mut operands = site.operands();
    let d = operands.destination()?;
    let mut halves = Vec::new();
    for _ in 0..factors {
        halves.push(Half::of(&mut operands, format)?);
    }
    let c = operands.single()?;
    operands.end()?;
    let halves: [Half; 2] = [halves[0], *halves.last().unwrap_or(&halves[0])];
    Ok(compute(move |warp, mask| {
        let [a, b] = halves.map(|half| half.read(warp));
        let c = c.read(warp);
        for_active(warp, mask, d, |lane| {
            let (a, b, c) = (a[lane].into(), b[lane].into(), c[lane].into());
            (if factors == 1 { float::add(F32, a, c, mode) } else { float::fma(F32, a, b, c, mode) }) as u32
        });
    }))
}

/// A 16-bit operand that is converted to a single.
#[derive(Clone, Copy)]
struct Half {
    input: Input,
    upper: bool,
    format: Format,
}

impl Half {
    fn of(operands: &mut Operands<'_>, format: Format) -> Result<Half, UnsupportedInst> {
        let input = operands.input()?;
        Ok(Half { input, upper: operands.last_has(".H1"), format })
    }

    fn read(self, warp: &Warp) -> Lanes {
        warp.read(self.input.source).map(|value| {
            let half = u64::from(if self.upper { value >> 16 } else { value & 0xffff });
            let single = float_to_float(F32, self.format, half, Mode::RN, Overflow::Ieee) as u32;
            let magnitude = if self.input.absolute { single & MAGNITUDE } else { single };
            if self.input.negate { magnitude ^ !MAGNITUDE } else { magnitude }
        })
    }
}
