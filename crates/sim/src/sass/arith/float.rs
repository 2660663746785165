//! Single precision: `FADD`, `FMUL`, `FFMA`, `FMNMX`, `FMNMX3`, the packed `FADD2`, `FMUL2`, `FFMA2`, the mixed `FHADD`, `FHFMA`, and
//! their uniform twins.
//!
//! To nearest, the host's arithmetic is that of the hardware up to the bits of NaNs; `.FTZ` flushes what is tiny after rounding, which
//! only differs from flushing the rounded result at the least normal number, where the reference decides. Other roundings are the
//! reference's.

use oriole_isa::Value;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{self, Extreme, ExtremeMode, Mode};
use oriole_sem::format::{BF16, F16, F32, F64, Format, Rounding};

use crate::sass::site::{Input, Operands, Site};
use crate::sass::step::{Action, Built, Unsupported, compute};
use crate::sass::warp::{Lanes, Place, Warp, WideLanes, WideSource, lanes_of};

use super::operand::{Single, Typed, accept, accept_with, float_mode, for_active};

const NAN: u32 = 0x7fff_ffff;
const MAGNITUDE: u32 = 0x7fff_ffff;
const LEAST_NORMAL: u32 = 0x0080_0000;

/// Bits of a result; every NaN is the one the hardware gives.
#[inline]
pub fn canonical(value: f32) -> u32 {
    if value.is_nan() { NAN } else { value.to_bits() }
}

#[inline]
pub fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & !MAGNITUDE } else { bits }
}

/// What an operation does with one lane.
pub trait Operation<const N: usize>: Copy + Send + Sync + 'static {
    /// To nearest, on the host.
    fn native(operands: [f32; N]) -> f32;
    /// In any mode, by the reference.
    fn exact(operands: [u64; N], mode: Mode) -> u64;
}

#[derive(Clone, Copy)]
pub struct Add;
#[derive(Clone, Copy)]
pub struct Multiply;
#[derive(Clone, Copy)]
pub struct Fused;

impl Operation<2> for Add {
    #[inline]
    fn native([a, b]: [f32; 2]) -> f32 {
        a + b
    }
    fn exact([a, b]: [u64; 2], mode: Mode) -> u64 {
        float::add(F32, a, b, mode)
    }
}

impl Operation<2> for Multiply {
    #[inline]
    fn native([a, b]: [f32; 2]) -> f32 {
        a * b
    }
    fn exact([a, b]: [u64; 2], mode: Mode) -> u64 {
        float::mul(F32, a, b, mode)
    }
}

impl Operation<3> for Fused {
    #[inline]
    fn native([a, b, c]: [f32; 3]) -> f32 {
        a.mul_add(b, c)
    }
    fn exact([a, b, c]: [u64; 3], mode: Mode) -> u64 {
        float::fma(F32, a, b, c, mode)
    }
}

/// The result of one lane to nearest with `.FTZ` and `.SAT`.
#[inline]
fn nearest<const N: usize, O: Operation<N>, const FTZ: bool, const SAT: bool>(operands: [u32; N]) -> u32 {
    let operands = if FTZ { operands.map(flush) } else { operands };
    let mut result = canonical(O::native(operands.map(f32::from_bits)));
    if FTZ && result & MAGNITUDE <= LEAST_NORMAL {
        result = if result & MAGNITUDE == LEAST_NORMAL {
            O::exact(operands.map(u64::from), Mode::RN.ftz(true)) as u32
        } else {
            result & !MAGNITUDE
        };
    }
    if SAT { Mode::RN.sat(true).clamp(F32, result.into()) as u32 } else { result }
}

/// `d = operation(inputs)`; `zeroing` says that zero times anything is zero.
fn action<const N: usize, O: Operation<N>>(d: Place, inputs: [Single; N], mode: Mode, zeroing: bool) -> Action {
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

const MODES: [&str; 6] = [".FTZ", ".RM", ".RP", ".RZ", ".SAT", ".FMZ"];
const SCALES: [(&str, i32); 6] = [(".D8", -3), (".D4", -2), (".D2", -1), (".M2", 1), (".M4", 2), (".M8", 3)];

/// `.FMZ` flushes too.
fn mode_and_zeroing(site: &Site<'_>) -> (Mode, bool) {
    let zeroing = site.has(".FMZ");
    let mode = float_mode(site);
    (mode.ftz(mode.ftz || zeroing), zeroing)
}

fn inputs<const N: usize>(operands: &mut Operands<'_>) -> Result<[Single; N], Unsupported> {
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

/// `FMUL d, a, b`; `.D2` to `.M8` scale the product before it is rounded.
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
            // Exact: the product has 48 bits.
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

/// `FMNMX d, a, b, p`: a minimum where `p` holds, else a maximum. With `.XORSIGN` magnitudes are compared.
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

#[inline]
fn least_or_greatest(a: u32, b: u32, is_min: bool, mode: ExtremeMode) -> u32 {
    float::min_max(F32, if is_min { Extreme::Min } else { Extreme::Max }, a.into(), b.into(), mode) as u32
}

/// With `.XORSIGN` both operands stand in bars, and the sign comes from what is inside.
fn of_extreme(input: Input, mode: ExtremeMode) -> Result<Single, Unsupported> {
    if !mode.xorsign_abs {
        return Single::of(input);
    }
    if !input.absolute || input.negate {
        return Err(Unsupported("`.XORSIGN` of other operands than magnitudes".into()));
    }
    Single::of(Input { absolute: false, ..input })
}

/// `FMNMX3 d, a, b, c, p`
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

/// Two singles in a pair of registers.
#[derive(Clone, Copy)]
struct Pair {
    source: WideSource,
    swapped: bool,
    keep: u64,
    flip: u64,
}

impl Pair {
    fn of(operands: &mut Operands<'_>) -> Result<Pair, Unsupported> {
        let is_literal = matches!(operands.peek().map(|operand| &operand.value), Some(Value::Float(..)));
        let mut input = operands.wide_input()?;
        if let (true, WideSource::Immediate(bits)) = (is_literal, input.source) {
            input.source = WideSource::Immediate(bits << 32 | bits & 0xffff_ffff);
        } else if !operands.last_has(".HI_LO") && !operands.last_has(".LO_HI") {
            return Err(Unsupported("one single for both halves of a pair".into()));
        }
        let both = |on: bool| if on { 0x8000_0000_8000_0000 } else { 0 };
        Ok(Pair { source: input.source, swapped: operands.last_has(".LO_HI"), keep: !both(input.absolute), flip: both(input.negate) })
    }

    fn read(self, warp: &Warp) -> WideLanes {
        warp.read_wide(self.source).map(|value| {
            let value = (value & self.keep) ^ self.flip;
            if self.swapped { value.rotate_left(32) } else { value }
        })
    }
}

/// `FADD2 d, a, b`, `FMUL2 d, a, b`, `FFMA2 d, a, b, c`: the two halves of pairs.
pub fn pairs<const N: usize, O: Operation<N>>(site: &Site<'_>) -> Built {
    accept_with(site, &MODES, &[".F32x2", ".HI_LO", ".LO_HI"])?;
    let (mode, zeroing) = mode_and_zeroing(site);
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let mut inputs = [Pair::of(&mut operands)?; N];
    for input in &mut inputs[1..] {
        *input = Pair::of(&mut operands)?;
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

/// `FHADD d, a, b` and `FHFMA d, a, b, c`: halves in front, a single last.
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

/// A half of a register, as a single.
#[derive(Clone, Copy)]
struct Half {
    input: Input,
    upper: bool,
    format: Format,
}

impl Half {
    fn of(operands: &mut Operands<'_>, format: Format) -> Result<Half, Unsupported> {
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
