//! Conversions of one number: `F2F`, `F2I`, `I2F`, `I2FP`, `FRND`, `I2I`, and their uniform forms.
//!
//! The formats are modifiers; a missing one is `f32` or `s32`. Narrow integers are sign- or zero-extended to the whole register; halves are
//! zero-extended.

use oriole_sem::convert::{self, Overflow, float_to_float, float_to_int, int_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{BF16, F16, F32, F64, Format, Rounding};
use oriole_sem::int::{Int, S8, S16, S32, S64, U8, U16, U32, U64};

use crate::sass::site::{Operands, Site};
use crate::sass::step::{Action, Built, UnsupportedInst, compute};
use crate::sass::warp::{Destination, Source, Warp, WideLanes, WideSource};

use super::float::canonical;
use super::operand::{Typed, accept, accept_with, float_mode, for_active, for_active_wide, unary};

/// Floating-point formats by modifier.
const FORMATS: [(&str, Format); 4] = [(".F16", F16), (".BF16", BF16), (".F32", F32), (".F64", F64)];
/// Integer types by modifier.
const INTEGERS: [(&str, Int); 8] =
    [(".U8", U8), (".S8", S8), (".U16", U16), (".S16", S16), (".U32", U32), (".S32", S32), (".U64", U64), (".S64", S64)];
const FLOAT_ROUNDINGS: [&str; 4] = [".RM", ".RP", ".RZ", ".FTZ"];
const INTEGER_ROUNDINGS: [&str; 4] = [".FLOOR", ".CEIL", ".TRUNC", ".FTZ"];

/// Returns the modifiers of a table and further ones.
fn known<T>(tables: &[(&'static str, T)], others: &[&'static str]) -> Vec<&'static str> {
    tables.iter().map(|&(spelling, _)| spelling).chain(others.iter().copied()).collect()
}

/// A floating-point operand of any format, with its sign modifiers applied.
#[derive(Clone, Copy)]
struct FloatOperand {
    /// Register of a 32-bit or narrower operand; `source` is used for doubles only.
    source: WideSource,
    narrow: Source,
    format: Format,
    /// Bit offset of the operand in its register: 16 for `.H1`.
    shift: u32,
    absolute: bool,
    negate: bool,
}

impl FloatOperand {
    fn of(operands: &mut Operands<'_>, format: Format) -> Result<FloatOperand, UnsupportedInst> {
        let zero = (WideSource::Immediate(0), Source::Immediate(0));
        let (source, narrow, absolute, negate) = if format == F64 {
            let input = operands.wide_input()?;
            (input.source, zero.1, input.absolute, input.negate)
        } else {
            let input = operands.input()?;
            (zero.0, input.source, input.absolute, input.negate)
        };
        let shift = if operands.last_has(".H1") { 16 } else { 0 };
        Ok(FloatOperand { source, narrow, format, shift, absolute, negate })
    }

    fn read(self, warp: &Warp) -> WideLanes {
        let values = if self.format == F64 { warp.read_wide(self.source) } else { warp.read(self.narrow).map(u64::from) };
        let sign = self.format.sign_bit();
        values.map(|value| {
            let value = value >> self.shift & self.format.mask();
            let value = if self.absolute { value & !sign } else { value };
            if self.negate { value ^ sign } else { value }
        })
    }
}

/// Makes the action `d = f(a)`; `wide` if the result has 64 bits.
fn converted(d: Destination, wide: bool, a: FloatOperand, f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Action {
    compute(move |warp, mask| {
        let a = a.read(warp);
        if wide {
            for_active_wide(warp, mask, d, |lane| f(a[lane]));
        } else {
            for_active(warp, mask, d, |lane| f(a[lane]) as u32);
        }
    })
}

/// Takes the destination register or pair.
fn place(operands: &mut Operands<'_>, wide: bool) -> Result<Destination, UnsupportedInst> {
    operands.wide_destination(if wide { 2 } else { 1 })
}

/// `F2F.to.from d, a`: converts between floating-point formats.
pub fn float_to_float_of(site: &Site<'_>) -> Built {
    accept_with(site, &known(&FORMATS, &FLOAT_ROUNDINGS), &[".H1"])?;
    let find = |spelling: &str| FORMATS.iter().find(|(name, _)| *name == spelling).map(|&(_, format)| format);
    let formats: Vec<Format> = site.instruction.modifiers.iter().filter_map(|symbol| find(symbol.spelling())).collect();
    let [to, from] = formats[..] else { return Err(UnsupportedInst("a conversion of floats without both formats".into())) };
    let mode = float_mode(site);
    let mut operands = site.operands();
    let d = place(&mut operands, to == F64)?;
    let a = FloatOperand::of(&mut operands, from)?;
    operands.end()?;
    Ok(match (to == F64, to == F32 && from == F64, mode == Mode::RN) {
        (true, _, _) if from == F32 && !mode.ftz => {
            converted(d, true, a, |bits| super::double::canonical(f64::from(f32::from_bits(bits as u32))))
        }
        (_, true, true) => converted(d, false, a, |bits| canonical(f64::from_bits(bits) as f32).into()),
        (wide, _, _) => converted(d, wide, a, move |bits| float_to_float(to, from, bits, mode, Overflow::Ieee)),
    })
}

/// `FRND d, a`: rounds to an integral value of the same format.
pub fn round(site: &Site<'_>) -> Built {
    accept_with(site, &known(&FORMATS, &INTEGER_ROUNDINGS), &[".H1"])?;
    let format = site.one_of(&FORMATS).unwrap_or(F32);
    let mode = float_mode(site);
    let mut operands = site.operands();
    let d = place(&mut operands, format == F64)?;
    let a = FloatOperand::of(&mut operands, format)?;
    operands.end()?;
    Ok(converted(d, format == F64, a, move |bits| convert::to_integral(format, bits, mode)))
}

/// `F2I.to.from d, a`: converts to an integer, clamped to its range. NaN becomes the top bit of the type, or zero with `.NTZ`.
pub fn float_to_integer(site: &Site<'_>) -> Built {
    let mut accepted = known(&FORMATS, &INTEGER_ROUNDINGS);
    accepted.extend(known(&INTEGERS, &[".NTZ"]));
    accept_with(site, &accepted, &[".H1"])?;
    let (from, to) = (site.one_of(&FORMATS).unwrap_or(F32), site.one_of(&INTEGERS).unwrap_or(S32));
    let (mode, nan_is_zero) = (float_mode(site), site.has(".NTZ"));
    let mut operands = site.operands();
    let d = place(&mut operands, to.bits == 64)?;
    let a = FloatOperand::of(&mut operands, from)?;
    operands.end()?;
    // The top bit of the type, extended to the register like other results.
    let nan = if nan_is_zero { 0 } else { to.value(1 << (to.bits - 1)) as u64 };
    if (from, to, mode.rounding, nan_is_zero) == (F32, S32, Rounding::Zero, true) {
        return Ok(converted(d, false, a, |bits| u64::from(f32::from_bits(bits as u32) as i32 as u32)));
    }
    Ok(converted(d, to.bits == 64, a, move |bits| {
        if from.is_nan(bits) { nan } else { to.value(float_to_int(to, from, bits, mode.rounding, mode.ftz)) as u64 }
    }))
}

/// An integer operand: a register or pair, or the byte or half of a register that its suffix selects.
#[derive(Clone, Copy)]
struct IntegerOperand {
    source: WideSource,
    narrow: Source,
    kind: Int,
    shift: u32,
}

impl IntegerOperand {
    fn of(operands: &mut Operands<'_>, kind: Int) -> Result<IntegerOperand, UnsupportedInst> {
        let (source, narrow, signs) = if kind.bits == 64 {
            let input = operands.wide_input()?;
            (input.source, Source::Immediate(0), input.negate || input.absolute || input.invert)
        } else {
            let input = operands.input()?;
            (WideSource::Immediate(0), input.source, input.negate || input.absolute || input.invert)
        };
        if signs {
            return Err(UnsupportedInst("a sign in front of an integer that is converted".into()));
        }
        let shifts = [(".B1", 8), (".B2", 16), (".B3", 24), (".H1", 16)];
        let shift = shifts.iter().find(|(suffix, _)| operands.last_has(suffix)).map_or(0, |&(_, shift)| shift);
        Ok(IntegerOperand { source, narrow, kind, shift })
    }

    fn read(self, warp: &Warp) -> WideLanes {
        let values = if self.kind.bits == 64 { warp.read_wide(self.source) } else { warp.read(self.narrow).map(u64::from) };
        values.map(|value| value >> self.shift & self.kind.mask())
    }
}

/// `I2F.to.from d, a` and `I2FP.F32.from d, a`: converts an integer to floating point.
pub fn integer_to_float(site: &Site<'_>) -> Built {
    let mut accepted = known(&FORMATS, &FLOAT_ROUNDINGS[..3]);
    accepted.extend(known(&INTEGERS, &[]));
    accept_with(site, &accepted, &[".B1", ".B2", ".B3", ".H1"])?;
    let (to, from) = (site.one_of(&FORMATS).unwrap_or(F32), site.one_of(&INTEGERS).unwrap_or(S32));
    let mode = float_mode(site);
    let mut operands = site.operands();
    let d = place(&mut operands, to == F64)?;
    let a = IntegerOperand::of(&mut operands, from)?;
    operands.end()?;
    let nearest = mode == Mode::RN && to == F32;
    Ok(compute(move |warp, mask| {
        let a = a.read(warp);
        match (to == F64, nearest) {
            (true, _) => for_active_wide(warp, mask, d, |lane| int_to_float(to, from, a[lane], mode)),
            (false, true) => for_active(warp, mask, d, |lane| (from.value(a[lane]) as f32).to_bits()),
            (false, false) => for_active(warp, mask, d, |lane| int_to_float(to, from, a[lane], mode) as u32),
        }
    }))
}

/// `I2I.to.S32.SAT d, a`: clamps to a narrower integer type.
pub fn integer_to_integer(site: &Site<'_>) -> Built {
    accept(site, &[".U8", ".S8", ".U16", ".S16", ".S32", ".SAT"])?;
    let to = site.one_of(&INTEGERS[..4]).ok_or_else(|| UnsupportedInst("an integer conversion without type".into()))?;
    let (least, greatest) = (to.least() as i32, to.greatest() as i32);
    let mut operands = site.operands();
    let d = operands.destination()?;
    let a = operands.integer()?;
    operands.end()?;
    Ok(unary(d, a, move |value| (value as i32).clamp(least, greatest) as u32))
}
