//! Bit operations: bit fields, population count, leading zeros, reversal, masks.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::words::WordPair;

/// Selects `popc`.
pub(crate) fn count(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let words = select.words(ptx.operand(1), ptx.ty())?;
    let counts: Vec<Operand> = words.into_iter().map(|word| select.b.define(Class::R, "POPC $, {}", &[word])).collect();
    let sum = match *counts.as_slice() {
        [low, high] => select.sum(low, high),
        _ => counts[0],
    };
    select.assign(ptx.operand(0), sum)
}

/// Selects `clz`.
pub(crate) fn leading_zeros(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let word = |select: &mut Select<'_>, word: Operand| {
        let position = select.b.define(Class::R, "FLO.U32 $, {}", &[word]);
        select.difference(31.into(), position)
    };
    let zeros = if ty.bits() == 64 {
        let [low, high] = select.halves(ptx.operand(1), ty)?;
        let is_short = select.compare_words("EQ", false, high, Operand::RZ);
        let upper = word(select, high);
        let lower = word(select, low);
        let lower = select.sum(lower, 32.into());
        select.select_by_predicate(is_short, lower, upper)
    } else {
        let source = select.source(ptx.operand(1), ty)?;
        word(select, source)
    };
    select.assign(ptx.operand(0), zeros)
}

/// Selects `bfind`: the position of the highest bit that differs from the sign, or with `.shiftamt` its distance from the top bit; all
/// ones if there is no such bit.
pub(crate) fn find_highest(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let from_top = ptx.has(Modifier::Shiftamt);
    let suffix = if from_top { ".SH" } else { "" };
    if ty.bits() == 32 {
        let sign = if ty.is_signed() { "" } else { ".U32" };
        let source = select.source(ptx.operand(1), ty)?;
        let source = select.in_register(source);
        let position = select.b.define(Class::R, &format!("FLO{sign}{suffix} $, {{}}"), &[source]);
        return select.assign(ptx.operand(0), position);
    }
    let mut words: WordPair = select.halves(ptx.operand(1), ty)?;
    if ty.is_signed() {
        let mask = select.sign_mask(words[1]);
        words = words.map(|word| select.logic(0x3c, word, mask, Operand::RZ));
    }
    let [low, high] = words;
    let template = format!("FLO.U32{suffix} $, {{}}");
    let (in_low, in_high) = (select.b.define(Class::R, &template, &[low]), select.b.define(Class::R, &template, &[high]));
    let is_short = select.compare_words("EQ", false, high, Operand::RZ);
    let position = if from_top {
        let shifted = select.sum(in_low, 32.into());
        let is_zero = select.compare_words("EQ", false, low, Operand::RZ);
        let in_low = select.select_by_predicate(is_zero, u32::MAX.into(), shifted);
        select.select_by_predicate(is_short, in_low, in_high)
    } else {
        let shifted = select.sum(in_high, 32.into());
        select.select_by_predicate(is_short, in_low, shifted)
    };
    select.assign(ptx.operand(0), position)
}

/// Selects `fns`.
pub(crate) fn find_nth(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut arguments = [Operand::RZ; 3];
    for (number, argument) in arguments.iter_mut().enumerate() {
        let source = select.source(ptx.operand(number + 1), ScalarType::B32)?;
        *argument = select.in_register(source);
    }
    let results = select.expand("fns_b32", &arguments)?;
    select.assign(ptx.operand(0), results[0])
}

/// Selects `brev`.
pub(crate) fn reverse(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let words = select.words(ptx.operand(1), ptx.ty())?;
    let reversed: Vec<Operand> = words.into_iter().rev().map(|word| select.b.define(Class::R, "BREV $, {}", &[word])).collect();
    select.assign_words(ptx.operand(0), &reversed)
}

/// Returns the lower 8 bits of a bit position or length.
fn byte(select: &mut Select<'_>, operand: ast::Operand) -> Result<Operand, Unsupported> {
    match select.literal(operand, ScalarType::U32) {
        Some(number) => Ok(Operand::from(number as u32 & 0xff)),
        None => {
            let word = select.source(operand, ScalarType::U32)?;
            Ok(select.bitwise_and(word, 0xff.into()))
        }
    }
}

/// Selects `bfe`.
pub(crate) fn extract(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let (position, length) = (byte(select, ptx.operand(2))?, byte(select, ptx.operand(3))?);
    if ty.bits() == 32 {
        let source = select.source(ptx.operand(1), ty)?;
        let shifted = select.shift_right(source, position, ty.is_signed());
        let template = if ty.is_signed() { "SGXT $, {}, {}" } else { "SGXT.U32 $, {}, {}" };
        let field = select.b.define(Class::R, template, &[shifted, length]);
        return select.assign(ptx.operand(0), field);
    }
    // 64 bits: shifts the field down, then up to the top bit and down again, which extends the field.
    let words = select.halves(ptx.operand(1), ty)?;
    let shifted = select.pair_shift_right(words, position, ty.is_signed());
    let unused = match length.integer() {
        Some(length) => Operand::from(64 - length.min(64)),
        None => {
            let is_long = select.compare_words("GT", false, length, 64.into());
            let clamped = select.select_by_predicate(is_long, 64.into(), length);
            select.difference(64.into(), clamped)
        }
    };
    let raised = select.pair_shift_left(shifted, unused);
    let field = select.pair_shift_right(raised, unused, ty.is_signed());
    select.assign_words(ptx.operand(0), &field)
}

/// Selects `bfi`.
pub(crate) fn insert(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let (position, length) = (byte(select, ptx.operand(3))?, byte(select, ptx.operand(4))?);
    // The bits of the first operand where the mask (second operand) is set, those of the third elsewhere.
    const FIRST_WHERE_SECOND: u8 = 0xe2;
    if ty.bits() == 32 {
        let (field, into) = (select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?);
        let shifted = select.shift_left(field, position);
        let mask = select.b.define(Class::R, "BMSK $, {}, {}", &[position, length]);
        let result = select.logic(FIRST_WHERE_SECOND, shifted, mask, into);
        return select.assign(ptx.operand(0), result);
    }
    let (field, into) = (select.halves(ptx.operand(1), ty)?, select.halves(ptx.operand(2), ty)?);
    let ones = select.pair_shift_left([1.into(), Operand::RZ], length);
    let ones = select.pair_sum(ones, [u32::MAX.into(), u32::MAX.into()]);
    let mask = select.pair_shift_left(ones, position);
    let shifted = select.pair_shift_left(field, position);
    let result = [0, 1].map(|word| select.logic(FIRST_WHERE_SECOND, shifted[word], mask[word], into[word]));
    select.assign_words(ptx.operand(0), &result)
}

/// Selects `szext`.
pub(crate) fn extend_from(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let template = match (ptx.has(Modifier::Wrap), ptx.ty().is_signed()) {
        (false, true) => "SGXT $, {}, {}",
        (false, false) => "SGXT.U32 $, {}, {}",
        (true, true) => "SGXT.W $, {}, {}",
        (true, false) => "SGXT.W.U32 $, {}, {}",
    };
    two_sources(select, ptx, template)
}

/// Selects `bmsk`.
pub(crate) fn mask(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let template = if ptx.has(Modifier::Wrap) { "BMSK.W $, {}, {}" } else { "BMSK $, {}, {}" };
    two_sources(select, ptx, template)
}

/// Selects an instruction with two 32-bit sources.
fn two_sources(select: &mut Select<'_>, ptx: &Ptx<'_>, template: &str) -> Result<(), Unsupported> {
    let (a, b) = (select.source(ptx.operand(1), ScalarType::B32)?, select.source(ptx.operand(2), ScalarType::B32)?);
    let result = select.b.define(Class::R, template, &[a, b]);
    select.assign(ptx.operand(0), result)
}
