//! `vmad`: the sum of a product of up to 64 bits and a word, shifted right and clamped.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::{VideoOperand, VideoWord, clamped_pair, signedness};
use crate::context::Select;
use crate::error::Unsupported;
use crate::integer::{Packing, smaller_or_greater};
use crate::ptx::Ptx;
use crate::words::WordPair;

/// Upper word of 2^62 - 2^32.
const LARGE_UPPER_WORD: u32 = 0x3fff_ffff;

/// Selects `vmad`.
pub(crate) fn multiply_add(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let operands: Vec<VideoOperand<'_>> = ptx.operands.iter().map(|&operand| VideoOperand::read(select, operand)).collect();
    let [_, a_is_signed, b_is_signed] = signedness(ptx);
    let sources = [operands[1].source(select, a_is_signed)?, operands[2].source(select, b_is_signed)?];
    let addend = select.source(operands[3].operand, ScalarType::U32)?;
    let negates_product = operands[1].is_negated != operands[2].is_negated;
    let negates_addend = operands[3].is_negated;
    let is_signed = a_is_signed || b_is_signed || negates_product || negates_addend;
    let shift: u32 = match ptx.get(Slot::Scale) {
        Some(Modifier::Shr7) => 7,
        Some(Modifier::Shr15) => 15,
        _ => 0,
    };
    let mut product = product(select, sources);
    let is_large =
        is_signed && ptx.has(Modifier::Sat) && !(sources[0].fits_signed && sources[1].fits_signed) && !a_is_signed && !b_is_signed;
    if is_large {
        // An unsigned product of 2^62 and more would have no room for a sign. It makes the result the greatest or least number, also after
        // a shift by 15, and so does any product from 2^62 - 2^32 on.
        product[1] = smaller_or_greater(select, Packing::Unsigned, false, false, product[1], LARGE_UPPER_WORD.into());
    }
    let extension = if is_signed { select.sign_mask(addend) } else { Operand::RZ };
    let addend = [addend, extension];
    let mut sum = if negates_product {
        sum(select, addend, product, true, false)
    } else {
        sum(select, product, addend, negates_addend, ptx.has(Modifier::Po))
    };
    if shift > 0 {
        sum = shifted_right(select, sum, shift, is_signed);
    }
    let result = if ptx.has(Modifier::Sat) { clamped(select, sum, is_signed) } else { sum[0] };
    select.assign(operands[0].operand, result)
}

/// Emits the lower 64 bits of the product.
fn product(select: &mut Select<'_>, [a, b]: [VideoWord; 2]) -> WordPair {
    let multiply = |select: &mut Select<'_>, template: &str, a: Operand, b: Operand| {
        let whole = select.b.define(Class::R2, template, &[a, b]);
        [select.low(whole), select.high(whole)]
    };
    if a.fits_signed && b.fits_signed {
        return multiply(select, "IMAD.WIDE $, {}, {}, RZ", a.word, b.word);
    }
    let [low, high] = multiply(select, "IMAD.WIDE.U32 $, {}, {}, RZ", a.word, b.word);
    if a.fits_unsigned && b.fits_unsigned {
        return [low, high];
    }
    // A negative factor was read as the number that is 2^32 greater.
    let (signed, unsigned) = if a.fits_unsigned { (b.word, a.word) } else { (a.word, b.word) };
    let sign = select.sign_mask(signed);
    let excess = select.bitwise_and(sign, unsigned);
    [low, select.difference(high, excess)]
}

/// Emits `a + b`, `a - b` or `a + b + 1` of 64-bit numbers.
fn sum(select: &mut Select<'_>, a: WordPair, b: WordPair, subtract: bool, plus_one: bool) -> WordPair {
    if !plus_one && select.encodes("IADD.64 R0, R0, -R0") {
        let [a, b] = [a, b].map(|words| select.b.pack(Class::R2, &words));
        let template = if subtract { "IADD.64 $, {}, -{}" } else { "IADD.64 $, {}, {}" };
        let sum = select.b.define(Class::R2, template, &[a, b]);
        return [select.low(sum), select.high(sum)];
    }
    let invert = if subtract { "~" } else { "" };
    let carry = if subtract || plus_one { Operand::PT } else { Operand::PT.inverted_predicate() };
    let template = format!("IADD3.X $, $, PT, {{}}, {invert}{{}}, RZ, {{}}, !PT");
    let (low, carry) = select.b.define_two([Class::R, Class::P], &template, &[a[0], b[0], carry]);
    let template = format!("IADD3.X $, PT, PT, {{}}, {invert}{{}}, RZ, {{}}, !PT");
    let high = select.b.define(Class::R, &template, &[a[1], b[1], carry]);
    [low, high]
}

/// Shifts a 64-bit number to the right.
fn shifted_right(select: &mut Select<'_>, [low, high]: WordPair, shift: u32, is_signed: bool) -> WordPair {
    let lower = select.b.define(Class::R, "SHF.R.U64 $, {}, {}, {}", &[low, shift.into(), high]);
    [lower, select.shift_right(high, shift.into(), is_signed)]
}

/// Emits the nearest 32-bit number of a 64-bit number.
fn clamped(select: &mut Select<'_>, number: WordPair, is_signed: bool) -> Operand {
    if is_signed {
        return clamped_pair(select, number, true);
    }
    let fits = select.compare_words("EQ", false, number[1], Operand::RZ);
    select.select_by_predicate(fits, number[0], u32::MAX.into())
}
