//! Integer addition, subtraction, negation, absolute value, `sad`.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::minmax::{Packing, smaller_or_greater};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Selects `add` without carry.
pub(crate) fn add(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let (a, b) = (select.words(ptx.operand(1), ty)?, select.words(ptx.operand(2), ty)?);
    let sum = match (a.as_slice(), b.as_slice()) {
        (&[a0, a1], &[b0, b1]) => select.pair_sum([a0, a1], [b0, b1]).to_vec(),
        _ if matches!(ty, ScalarType::U16x2 | ScalarType::S16x2) => vec![packed_sum(select, a[0], b[0])],
        _ if ptx.has(Modifier::Sat) => vec![add_saturated(select, a[0], b[0])],
        _ => vec![select.sum(a[0], b[0])],
    };
    select.assign_words(ptx.operand(0), &sum)
}

/// Selects `sub` without borrow.
pub(crate) fn subtract(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let (a, b) = (select.words(ptx.operand(1), ty)?, select.words(ptx.operand(2), ty)?);
    let difference = match (a.as_slice(), b.as_slice()) {
        (&[a0, a1], &[b0, b1]) => select.pair_difference([a0, a1], [b0, b1]).to_vec(),
        _ if ptx.has(Modifier::Sat) => vec![subtract_saturated(select, a[0], b[0])],
        _ => vec![select.difference(a[0], b[0])],
    };
    select.assign_words(ptx.operand(0), &difference)
}

/// Emits two 16-bit additions on the halves of a word.
fn packed_sum(select: &mut Select<'_>, a: Operand, b: Operand) -> Operand {
    if select.encodes("VIADD.16x2 R0, R0, R0") {
        return select.b.define(Class::R, "VIADD.16x2 $, {}, {}", &[a, b]);
    }
    let low = select.sum(a, b);
    let upper_half = Operand::from(0xffff_0000_u32);
    let (upper_a, upper_b) = (select.bitwise_and(a, upper_half), select.bitwise_and(b, upper_half));
    let high = select.sum(upper_a, upper_b);
    select.b.define(Class::R, "PRMT $, {}, 0x7610, {}", &[low, high])
}

const GREATEST: u32 = 0x7fff_ffff;
const LEAST: u32 = 0x8000_0000;

/// Emits a signed addition whose result is clamped to the 32-bit range.
pub(crate) fn add_saturated(select: &mut Select<'_>, a: Operand, b: Operand) -> Operand {
    if select.encodes("VIADD.S32.ISAT R0, R0, R0") {
        return select.b.define(Class::R, "VIADD.S32.ISAT $, {}, {}", &[a, b]);
    }
    let sum = select.sum(a, b);
    // The sum overflows where both operands have the same sign and the sum has the other sign.
    saturated(select, [a, b, sum], 0x02, 0x40)
}

/// Emits a signed subtraction whose result is clamped to the 32-bit range.
fn subtract_saturated(select: &mut Select<'_>, a: Operand, b: Operand) -> Operand {
    if select.encodes("VIADD.S32.ISAT R0, R0, -R0") {
        let b = select.in_register(b);
        return select.b.define(Class::R, "VIADD.S32.ISAT $, {}, -{}", &[a, b]);
    }
    let difference = select.difference(a, b);
    saturated(select, [a, b, difference], 0x08, 0x10)
}

/// Replaces the last of three words (operand, operand, wrapped result) by the greatest or least number where it has overflowed.
/// `too_great` and `too_small` are truth tables over the signs of the three words: bit `4a + 2b + c`.
fn saturated(select: &mut Select<'_>, words: [Operand; 3], too_great: u32, too_small: u32) -> Operand {
    let words = words.map(|word| select.in_register(word));
    let [a, b, result] = words;
    let signs = "PLOP3.LUT $, PT, {}.SIGN, {}.SIGN, {}.SIGN, {}, 0x0";
    let above = select.b.define(Class::P, signs, &[a, b, result, too_great.into()]);
    let below = select.b.define(Class::P, signs, &[a, b, result, too_small.into()]);
    let result = select.select_by_predicate(above, GREATEST.into(), result);
    select.select_by_predicate(below, LEAST.into(), result)
}

/// Selects `neg`.
pub(crate) fn negate(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let words = select.words(ptx.operand(1), ty)?;
    let negated = match *words.as_slice() {
        [low, high] => select.pair_difference([Operand::RZ; 2], [low, high]).to_vec(),
        _ => vec![select.difference(Operand::RZ, words[0])],
    };
    select.assign_words(ptx.operand(0), &negated)
}

/// Selects `abs`.
pub(crate) fn absolute(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if ty.bits() == 64 {
        let words = select.halves(ptx.operand(1), ty)?;
        let negated = select.pair_difference([Operand::RZ; 2], words);
        let is_negative = select.compare_words("LT", true, words[1], Operand::RZ);
        let absolute = select.select_pair_by_predicate(is_negative, negated, words);
        return select.assign_words(ptx.operand(0), &absolute);
    }
    let word = select.extended(ptx.operand(1), ty)?;
    let absolute = select.b.define(Class::R, "IABS $, {}", &[word]);
    select.assign(ptx.operand(0), absolute)
}

/// Selects `sad`: `c + |a - b|`.
pub(crate) fn difference_sum(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let is_signed = ty.is_signed();
    if ty.bits() == 64 {
        let (a, b) = (select.halves(ptx.operand(1), ty)?, select.halves(ptx.operand(2), ty)?);
        let c = select.halves(ptx.operand(3), ty)?;
        let is_less = select.compare_pairs("LT", is_signed, a, b);
        let (greater, smaller) = (select.select_pair_by_predicate(is_less, b, a), select.select_pair_by_predicate(is_less, a, b));
        let difference = select.pair_difference(greater, smaller);
        let sum = select.pair_sum(difference, c);
        return select.assign_words(ptx.operand(0), &sum);
    }
    let (a, b) = (select.extended(ptx.operand(1), ty)?, select.extended(ptx.operand(2), ty)?);
    let c = select.source(ptx.operand(3), ty)?;
    let sum = if oriole_isa::Opcode::VABSDIFF.exists_on(select.target) {
        let template = if is_signed { "VABSDIFF $, {}, {}, {}" } else { "VABSDIFF.U32 $, {}, {}, {}" };
        select.b.define(Class::R, template, &[a, b, c])
    } else {
        let packing = if is_signed { Packing::Signed } else { Packing::Unsigned };
        let greater = smaller_or_greater(select, packing, true, false, a, b);
        let smaller = smaller_or_greater(select, packing, false, false, a, b);
        select.b.define(Class::R, "IADD3 $, PT, PT, {}, -{}, {}", &[greater, smaller, c])
    };
    select.assign(ptx.operand(0), sum)
}
