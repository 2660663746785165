//! Packing conversions: `F2FP` between formats of 4, 6, 8, 16 and 32 bits, `I2IP`, `F2IP`.
//!
//! Two results are packed next to each other, the result of the first operand above that of the second. `MERGE_C` places the new bits below
//! the lower half of a third operand (with `.H1`: below its upper half).

use oriole_sem::convert::{Overflow, float_to_float, float_to_int, tf32_register};
use oriole_sem::float::Mode;
use oriole_sem::format::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, Format, Rounding, TF32};
use oriole_sem::int::{Int, S8, S16, U8, U16};

use crate::sass::site::{Input, Operands, Site};
use crate::sass::step::{Action, Built, UnsupportedInst, compute};
use crate::sass::warp::{Destination, Row, Source};

use super::half::narrow;
use super::operand::{Integer, Typed, accept_with, float_mode, for_active, ternary};

/// A number format of `F2FP`: a float, or an exponent without sign and fraction (`ue8m0`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packed {
    Float(Format),
    Scale,
}

const FORMATS: [(&str, Packed); 10] = [
    (".F32", Packed::Float(F32)),
    (".F16", Packed::Float(F16)),
    (".BF16", Packed::Float(BF16)),
    (".TF32", Packed::Float(TF32)),
    (".E4M3", Packed::Float(E4M3)),
    (".E5M2", Packed::Float(E5M2)),
    (".E2M3", Packed::Float(E2M3)),
    (".E3M2", Packed::Float(E3M2)),
    (".E2M1", Packed::Float(E2M1)),
    (".E8", Packed::Scale),
];

impl Packed {
    /// Returns the number of bits of a packed element; 6-bit formats occupy 8 bits.
    fn bits(self) -> u32 {
        match self {
            Packed::Float(format) if format == E2M1 => 4,
            Packed::Float(format) if format.width() > 16 => 32,
            Packed::Float(format) if format.width() == 16 => 16,
            _ => 8,
        }
    }
}

/// The conversion of one element.
#[derive(Clone, Copy)]
struct Conversion {
    to: Packed,
    from: Packed,
    mode: Mode,
    overflow: Overflow,
}

impl Conversion {
    /// Converts one element.
    fn apply(self, bits: u32) -> u32 {
        let bits = u64::from(bits);
        (match (self.to, self.from) {
            (Packed::Float(to), Packed::Float(F32)) if to == TF32 => tf32_register(bits, self.mode, self.overflow),
            (Packed::Float(to), Packed::Float(from)) => float_to_float(to, from, bits & from.mask(), self.mode, self.overflow),
            (Packed::Scale, Packed::Float(from)) => {
                let single = float_to_float(F32, from, bits, Mode::RN, Overflow::Ieee) as u32;
                u64::from(scale_of(single, self.mode.rounding == Rounding::Up, self.overflow == Overflow::SatFinite))
            }
            (Packed::Float(_), Packed::Scale) => u64::from(scale_to_bf16(bits as u8)),
            (Packed::Scale, Packed::Scale) => bits,
        }) as u32
    }
}

/// Converts the magnitude of a single to `ue8m0`, rounded up or towards zero. The format has no infinity: it becomes NaN, or with `finite`
/// the largest value.
fn scale_of(single: u32, up: bool, finite: bool) -> u8 {
    let magnitude = single & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0xff;
    }
    // Subnormals are below 2^-126. The smallest scale is 2^-127 = bits 0x0040_0000; larger subnormals round up to 2^-126.
    let (exponent, inexact) = match magnitude >> 23 {
        0 => (0, magnitude > 0x0040_0000),
        exponent => (exponent, magnitude & 0x7f_ffff != 0),
    };
    match exponent + u32::from(up && inexact) {
        255.. => {
            if finite {
                0xfe
            } else {
                0xff
            }
        }
        exponent => exponent as u8,
    }
}

/// Converts `ue8m0` to `bf16`; exact.
fn scale_to_bf16(scale: u8) -> u16 {
    match scale {
        0xff => 0x7fff,
        0 => 0x0040,
        exponent => u16::from(exponent) << 7,
    }
}

/// `F2FP`: packs or unpacks one or two elements, and merges them with a third operand.
pub fn floats(site: &Site<'_>) -> Built {
    let mut known: Vec<&str> = FORMATS.iter().map(|&(spelling, _)| spelling).collect();
    known.extend([".SATFINITE", ".RELU", ".RZ", ".RP", ".PACK_AB", ".PACK_B", ".PACK_AB_MERGE_C", ".UNPACK_B", ".UNPACK_B_MERGE_C"]);
    known.push(".MERGE_C");
    accept_with(site, &known, &[".H1", ".B1", ".B2", ".B3"])?;
    let find = |spelling: &str| FORMATS.iter().find(|(name, _)| *name == spelling).map(|&(_, format)| format);
    let formats: Vec<Packed> = site.instruction.modifiers.iter().filter_map(|symbol| find(symbol.spelling())).collect();
    let (to, from) = match formats[..] {
        [to, from] => (to, from),
        [to] => (to, Packed::Float(F32)),
        [] => (Packed::Float(F16), Packed::Float(F32)),
        _ => return Err(UnsupportedInst("a conversion of more than two formats".into())),
    };
    let overflow = if site.has(".SATFINITE") { Overflow::SatFinite } else { Overflow::Ieee };
    let conversion = Conversion { to, from, mode: float_mode(site), overflow };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let unpacks = site.has(".UNPACK_B") || site.has(".UNPACK_B_MERGE_C");
    let merges = site.has(".MERGE_C") || site.has(".PACK_AB_MERGE_C") || site.has(".UNPACK_B_MERGE_C");
    let takes_two = site.has(".PACK_AB") || site.has(".PACK_AB_MERGE_C");
    let a = if takes_two { Some(plain(&mut operands)?) } else { None };
    let b = plain(&mut operands)?;
    let shift = suffix_shift(&operands);
    let c = if merges { Some((plain(&mut operands)?, suffix_shift(&operands))) } else { None };
    operands.end()?;
    if let (Some(a), None, Packed::Float(F32), Rounding::NearestEven, Packed::Float(to)) = (a, c, from, conversion.mode.rounding, to)
        && to.width() == 16
        && shift == 0
    {
        let (mode, finite) = (conversion.mode, overflow == Overflow::SatFinite);
        return Ok(if to == BF16 { two_halves::<true>(d, a, b, mode, finite) } else { two_halves::<false>(d, a, b, mode, finite) });
    }
    let width = to.bits();
    // Number of bits produced; merging is only implemented for 16 of them.
    let new_bits = if takes_two || unpacks { 2 * width } else { width };
    if let Some((source, _)) = c
        && new_bits != 16
        && source != Source::General(Row::source(None))
    {
        return Err(UnsupportedInst("small numbers merged with a third operand".into()));
    }
    if unpacks && new_bits > 32 {
        return Err(UnsupportedInst("a pair of numbers that is wider than a register".into()));
    }
    let from_width = from.bits();
    let from_mask = u32::MAX >> (32 - from_width.min(32));
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.map(|a| warp.read(a)), warp.read(b));
        let c = c.map(|(source, shift)| (warp.read(source), shift));
        for_active(warp, mask, d, |lane| {
            let lower = b[lane] >> shift;
            let new = if unpacks {
                conversion.apply(lower & from_mask) | conversion.apply(lower >> (from_width % 32) & from_mask) << width
            } else {
                let upper = a.map_or(0, |a| conversion.apply(a[lane]));
                conversion.apply(lower) | upper.checked_shl(width).unwrap_or(0)
            };
            c.map_or(new, |(c, shift)| new | (c[lane] >> shift) << 16)
        });
    }))
}

/// Makes the action of the most frequent case: two singles to two halves, rounded to nearest.
fn two_halves<const BF: bool>(d: Destination, a: Source, b: Source, mode: Mode, finite: bool) -> Action {
    let to = if BF { BF16 } else { F16 };
    compute(move |warp, mask| {
        let (a, b) = (warp.read(a), warp.read(b));
        let one = |bits: u32| {
            let nearest = u64::from(narrow::<BF>(f32::from_bits(bits).into()));
            let nearest = if finite && to.is_infinite(nearest) { to.largest(to.is_negative(nearest)) } else { nearest };
            (if mode.relu { mode.clamp(to, nearest) } else { nearest }) as u32
        };
        for_active(warp, mask, d, |lane| one(b[lane]) | one(a[lane]) << 16);
    })
}

/// Takes an operand without sign modifiers.
fn plain(operands: &mut Operands<'_>) -> Result<Source, UnsupportedInst> {
    let Input { source, negate, absolute, invert } = operands.input()?;
    if negate || absolute || invert {
        return Err(UnsupportedInst("a sign in front of a number that is packed".into()));
    }
    Ok(source)
}

/// Returns the bit offset of the byte or half that the last operand's suffix selects.
fn suffix_shift(operands: &Operands<'_>) -> u32 {
    [(".B1", 8), (".B2", 16), (".B3", 24), (".H1", 16)].iter().find(|(suffix, _)| operands.last_has(suffix)).map_or(0, |&(_, shift)| shift)
}

const U2: Int = Int { bits: 2, signed: false };
const S2: Int = Int { bits: 2, signed: true };
const U4: Int = Int { bits: 4, signed: false };
const S4: Int = Int { bits: 4, signed: true };
const INTEGERS: [(&str, Int); 8] =
    [(".U2", U2), (".S2", S2), (".U4", U4), (".S4", S4), (".U8", U8), (".S8", S8), (".U16", U16), (".S16", S16)];

/// `I2IP.type.S32.SAT d, a, b, c`: two clamped integers, below as many low bits of `c` as fit.
pub fn integers(site: &Site<'_>) -> Built {
    let mut known: Vec<&str> = INTEGERS.iter().map(|&(spelling, _)| spelling).collect();
    known.extend([".S32", ".SAT"]);
    accept_with(site, &known, &[".H1", ".24", ".28"])?;
    let to = site.one_of(&INTEGERS).ok_or_else(|| UnsupportedInst("packed integers without type".into()))?;
    let clamps = site.has(".SAT");
    let mut operands = site.operands();
    let d = operands.destination()?;
    let (a, b) = (operands.integer()?, operands.integer()?);
    let c = operands.integer()?;
    // `.24` and `.28` state how many bits of the third operand remain; other sizes use its lower half (with `.H1`: its upper half).
    let is_expected = match to.bits {
        2 => operands.last_has(".28"),
        4 => operands.last_has(".24"),
        _ => true,
    };
    let shift = if operands.last_has(".H1") { 16 } else { 0 };
    operands.end()?;
    if !is_expected {
        return Err(UnsupportedInst("packed integers of a third operand with another place".into()));
    }
    let one = move |value: u32| {
        let value = i128::from(value as i32);
        (if clamps { to.clamp(value) } else { to.wrap(value) }) as u32
    };
    Ok(packed(d, [a, b, c], to.bits, shift, one))
}

/// Makes the action: two new elements below the low bits of `c`.
fn packed(d: Destination, inputs: [Integer; 3], bits: u32, shift: u32, one: impl Fn(u32) -> u32 + Send + Sync + 'static) -> Action {
    ternary(d, inputs, move |a, b, c| one(b) | one(a) << bits | (c >> shift).checked_shl(2 * bits).unwrap_or(0))
}

/// `F2IP.type.F32 d, a, b, c`: two singles converted to bytes, below the lower half of `c`.
pub fn floats_to_integers(site: &Site<'_>) -> Built {
    accept_with(site, &[".U8", ".S8", ".F32", ".TRUNC", ".NTZ"], &[".H1"])?;
    let to = if site.has(".U8") { U8 } else { S8 };
    let (rounding, nan_is_zero) = (float_mode(site).rounding, site.has(".NTZ"));
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    let shift = suffix_shift(&operands);
    operands.end()?;
    let nan = if nan_is_zero { 0 } else { 0x80 };
    let one = move |bits: u32| {
        if F32.is_nan(bits.into()) { nan } else { float_to_int(to, F32, bits.into(), rounding, false) as u32 }
    };
    Ok(packed(d, inputs, to.bits, shift, one))
}
