//! Integer minima and maxima, sums of packed integers, and dot products: `IMNMX`, `VIMNMX`, `VIMNMX3`, `VIADDMNMX`, `VIADD`, `VABSDIFF`,
//! `VABSDIFF4`, `IDP`.
//!
//! A register holds one integer of 32 bits, two of 16 or four of 8 bits ([`PackedLayout`]); every operation works element by element.

use oriole_sem::int::{Int, S8, S16, S32, S64, U8, U16, U32, U64};

use crate::sass::site::Site;
use crate::sass::step::{Action, Built, UnsupportedInst, compute};
use crate::sass::warp::{Destination, PredicateSource};

use super::operand::{Integer, Typed, accept, binary, chosen, ternary};

/// The element type of a register, and thereby the number of its elements.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackedLayout {
    element: Int,
}

impl PackedLayout {
    const WORD: PackedLayout = PackedLayout { element: S32 };

    /// Decodes the element type from the modifiers; 32 bits, signed, if none is named.
    fn of(site: &Site<'_>) -> PackedLayout {
        let element = site.one_of(&[
            (".U32", U32),
            (".S32", S32),
            (".32", S32),
            (".U16x2", U16),
            (".S16x2", S16),
            (".16x2", S16),
            (".U8x4", U8),
            (".S8x4", S8),
        ]);
        element.map_or(PackedLayout::WORD, |element| PackedLayout { element })
    }

    /// Applies `f` to each pair of elements; results are truncated to the element size.
    #[inline]
    fn map2(self, a: u32, b: u32, f: impl Fn(i64, i64) -> i64) -> u32 {
        let bits = self.element.bits;
        (0..32 / bits).fold(0, |result, index| {
            let at = index * bits;
            let value = f(self.element_at(a, at), self.element_at(b, at));
            result | (value as u32 & (u32::MAX >> (32 - bits))) << at
        })
    }

    /// Returns the element at bit offset `at`, sign- or zero-extended.
    #[inline]
    fn element_at(self, register: u32, at: u32) -> i64 {
        let unused = 32 - self.element.bits;
        let top = register << (unused - at);
        if self.element.signed { i64::from(top as i32 >> unused) } else { i64::from(top >> unused) }
    }
}

/// All modifiers of the `VI*` instructions; the first seven apply to minima and maxima.
const TYPES: [&str; 10] = [".U32", ".S32", ".U16x2", ".S16x2", ".U8x4", ".S8x4", ".RELU", ".32", ".16x2", ".ISAT"];

/// Makes the action: the minimum if the predicate is true, else the maximum, and with `.RELU` at least zero.
fn extreme(site: &Site<'_>, d: Destination, a: Integer, b: Integer, is_min: PredicateSource) -> Action {
    let (layout, relu) = (PackedLayout::of(site), site.has(".RELU"));
    match (layout.element.bits, layout.element.signed, relu) {
        (32, true, false) => chosen(d, a, b, is_min, |a, b| (a as i32).min(b as i32) as u32, |a, b| (a as i32).max(b as i32) as u32),
        (32, false, false) => chosen(d, a, b, is_min, u32::min, u32::max),
        _ => {
            let floor = if relu { 0 } else { i64::MIN };
            let min = move |a, b| layout.map2(a, b, |a, b| a.min(b).max(floor));
            let max = move |a, b| layout.map2(a, b, |a, b| a.max(b).max(floor));
            chosen(d, a, b, is_min, min, max)
        }
    }
}

/// `IMNMX d, a, b, p`; newer targets add two destination predicates and one source predicate.
pub fn min_max(site: &Site<'_>) -> Built {
    accept(site, &[".U32", ".U64", ".S64"])?;
    let wide = site.one_of(&[(".U64", U64), (".S64", S64)]);
    let mut operands = site.operands();
    operands.unused_predicates(2)?;
    let Some(kind) = wide else {
        let d = operands.destination()?;
        let (a, b) = (operands.integer()?, operands.integer()?);
        let is_min = operands.predicate()?;
        rejects_false(&mut operands)?;
        return Ok(extreme(site, d, a, b, is_min));
    };
    let d = operands.wide_destination(2)?;
    let (a, b) = (operands.wide_integer()?, operands.wide_integer()?);
    let is_min = operands.predicate()?;
    rejects_false(&mut operands)?;
    Ok(compute(move |warp, mask| {
        let (a, b, is_min) = (a.read(warp), b.read(warp), warp.read_predicate(is_min));
        let values: [u64; 32] = std::array::from_fn(|lane| {
            let (a, b) = (a[lane], b[lane]);
            let a_is_less = if kind.signed { (a as i64) < b as i64 } else { a < b };
            if a_is_less == (is_min >> lane & 1 == 1) { a } else { b }
        });
        warp.write_wide(d, mask, &values);
    }))
}

/// Takes the last predicate of the newer `IMNMX`, which must be `!PT`; other values are not supported.
fn rejects_false(operands: &mut crate::sass::site::Operands<'_>) -> Result<(), UnsupportedInst> {
    if operands.left() == 0 {
        return Ok(());
    }
    let operand = operands.take()?;
    let is_constant = matches!(operand.value, oriole_isa::OperandValue::Register(_, None));
    if is_constant && operand.not { Ok(()) } else { Err(UnsupportedInst("a minimum with a second predicate".into())) }
}

/// `VIMNMX d, [p, p,] a, b, p`: minimum or maximum. The predicates say for the lower and the upper half whether the result is that of `a`, as
/// in ptxas' code for the intrinsic functions `__vibmax_s16x2` and `__vibmin_u16x2` of CUDA; no compiler was seen to use them for other types.
pub fn video_min_max(site: &Site<'_>) -> Built {
    accept(site, &TYPES[..7])?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    let taken = operands.carries::<2>()?;
    let (a, b) = (operands.integer()?, operands.integer()?);
    let is_min = operands.predicate()?;
    operands.end()?;
    if taken.iter().all(Option::is_none) {
        return Ok(extreme(site, d, a, b, is_min));
    }
    let layout = PackedLayout::of(site);
    if layout.element.bits != 16 || site.has(".RELU") {
        return Err(UnsupportedInst("a predicate that says which source was taken, for numbers that are not halves".into()));
    }
    Ok(compute(move |warp, mask| {
        let (a, b, is_min) = (a.read(warp), b.read(warp), warp.read_predicate(is_min));
        let choose = |lane: usize, a: i64, b: i64| if is_min >> lane & 1 == 1 { a.min(b) } else { a.max(b) };
        let values: [u32; 32] = std::array::from_fn(|lane| layout.map2(a[lane], b[lane], |a, b| choose(lane, a, b)));
        warp.write(d, mask, &values);
        for (at, place) in [0, 16].into_iter().zip(taken) {
            let is_first = |lane: &usize| layout.element_at(values[*lane], at) == layout.element_at(a[*lane], at);
            let result = (0..32).filter(is_first).fold(0, |result, lane| result | 1 << lane);
            if let Some(place) = place {
                warp.write_predicate(place, mask, result);
            }
        }
    }))
}

/// `VIMNMX3 d, a, b, c, p`: minimum or maximum of three; `VIADDMNMX d, a, b, c, p`: of `a + b` and `c`.
pub fn video_min_max3(site: &Site<'_>, adds: bool) -> Built {
    accept(site, &TYPES[..7])?;
    let (layout, relu) = (PackedLayout::of(site), site.has(".RELU"));
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer_elements(layout)?, operands.integer()?];
    let is_min = operands.predicate()?;
    operands.end()?;
    let floor = if relu { 0 } else { i64::MIN };
    Ok(compute(move |warp, mask| {
        let [a, b, c] = inputs.map(|input| input.read(warp));
        let is_min = warp.read_predicate(is_min);
        let values: [u32; 32] = std::array::from_fn(|lane| {
            let choose = |a: i64, b: i64| if is_min >> lane & 1 == 1 { a.min(b) } else { a.max(b) };
            let first = layout.map2(a[lane], b[lane], |a, b| if adds { a.wrapping_add(b) } else { choose(a, b) });
            layout.map2(first, c[lane], |first, c| choose(first, c).max(floor))
        });
        warp.write(d, mask, &values);
    }))
}

/// Takes operands whose negation would apply to each element.
trait Elements {
    /// Takes an integer operand; a negated operand of several elements is not supported.
    fn integer_elements(&mut self, layout: PackedLayout) -> Result<Integer, UnsupportedInst>;
}

impl Elements for crate::sass::site::Operands<'_> {
    fn integer_elements(&mut self, layout: PackedLayout) -> Result<Integer, UnsupportedInst> {
        let input = self.input()?;
        if input.negate && layout.element.bits != 32 {
            return Err(UnsupportedInst("a negated operand of packed numbers".into()));
        }
        Integer::of(input)
    }
}

/// `VIADD d, a, b`: sum per element, wrapping, or clamped with `.ISAT`.
pub fn video_add(site: &Site<'_>) -> Built {
    accept(site, &TYPES)?;
    let layout = PackedLayout::of(site);
    let saturates = site.has(".ISAT");
    if saturates && (site.has(".32") || site.has(".16x2")) {
        return Err(UnsupportedInst("a clamped sum of numbers without signedness".into()));
    }
    let mut operands = site.operands();
    let d = operands.destination()?;
    let (a, b) = (operands.input()?, operands.input()?);
    operands.end()?;
    if layout.element.bits == 32 && !saturates {
        return Ok(binary(d, Integer::of(a)?, Integer::of(b)?, u32::wrapping_add));
    }
    let signs = [a, b].map(|input| if input.negate { -1 } else { 1 });
    let [a, b] = [a, b].map(|input| crate::sass::site::Input { negate: false, ..input });
    let (least, greatest) = (layout.element.least() as i64, layout.element.greatest() as i64);
    Ok(binary(d, Integer::of(a)?, Integer::of(b)?, move |a, b| {
        layout.map2(a, b, |a, b| {
            let sum = a * signs[0] + b * signs[1];
            if saturates { sum.clamp(least, greatest) } else { sum }
        })
    }))
}

/// `VABSDIFF d, a, b, c`: `|a - b| + c`.
pub fn difference(site: &Site<'_>) -> Built {
    accept(site, &[".U32"])?;
    let signed = !site.has(".U32");
    let mut operands = site.operands();
    let d = operands.destination()?;
    operands.unused_predicates(1)?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    operands.end()?;
    Ok(if signed {
        ternary(d, inputs, |a, b, c| (a as i32).abs_diff(b as i32).wrapping_add(c))
    } else {
        ternary(d, inputs, |a, b, c| a.abs_diff(b).wrapping_add(c))
    })
}

/// `VABSDIFF4 d, a, b, c`: absolute differences of bytes; `.ACC` sums them and `c`.
pub fn differences(site: &Site<'_>) -> Built {
    accept(site, &[".U8", ".ACC"])?;
    let layout = PackedLayout { element: if site.has(".U8") { U8 } else { S8 } };
    let mut operands = site.operands();
    let d = operands.destination()?;
    operands.unused_predicates(1)?;
    let inputs = [operands.integer()?, operands.integer()?];
    let c = operands.input()?;
    operands.end()?;
    let difference = move |a: u32, b: u32| layout.map2(a, b, |a, b| (a - b).abs());
    if site.has(".ACC") {
        let [a, b] = inputs;
        return Ok(ternary(d, [a, b, Integer::of(c)?], move |a, b, c| {
            difference(a, b).to_le_bytes().iter().fold(c, |sum, &byte| sum.wrapping_add(u32::from(byte)))
        }));
    }
    if c.source != crate::sass::warp::Source::General(crate::sass::warp::Row::source(None)) {
        return Err(UnsupportedInst("differences of bytes that are merged with a third operand".into()));
    }
    Ok(binary(d, inputs[0], inputs[1], difference))
}

/// `IDP.4A d, a, b, c`, `IDP.2A.LO`, `IDP.2A.HI`: dot products of 8-bit (and 16-bit) elements, plus `c`.
pub fn dot(site: &Site<'_>) -> Built {
    accept(site, &[".4A", ".2A", ".LO", ".HI", ".U8", ".S8", ".U16", ".S16"])?;
    let upper = site.has(".HI");
    let types: Vec<Int> = site
        .instruction
        .modifiers
        .iter()
        .filter_map(|symbol| match symbol.spelling() {
            ".U8" => Some(U8),
            ".S8" => Some(S8),
            ".U16" => Some(U16),
            ".S16" => Some(S16),
            _ => None,
        })
        .collect();
    let [a_type, b_type] = types[..] else { return Err(UnsupportedInst("a dot product of unknown types".into())) };
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    operands.end()?;
    Ok(if site.has(".4A") {
        ternary(d, inputs, move |a, b, c| a_type.dp4a(b_type, a.into(), b.into(), c.into()) as u32)
    } else {
        ternary(d, inputs, move |a, b, c| a_type.dp2a(b_type, a.into(), b.into(), c.into(), upper) as u32)
    })
}
