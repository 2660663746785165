//! `vmad`: the sum of a product of up to 66 bits and a word, shifted right and clamped.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::{VideoOperand, VideoWord, clamped_pair, signedness};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::words::WordPair;

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
    let product = product(select, sources);
    // A third word is needed for the sign of a number between 2^63 and 2^64.
    let is_large =
        is_signed && ptx.has(Modifier::Sat) && !(sources[0].fits_signed && sources[1].fits_signed) && !a_is_signed && !b_is_signed;
    let count = if is_large { 3 } else { 2 };
    let extension = if is_signed { select.sign_mask(addend) } else { Operand::RZ };
    let addend = &[addend, extension, extension][..count];
    let product = &[product[0], product[1], Operand::RZ][..count];
    let mut sum = if negates_product {
        chain(select, addend, product, true, false)
    } else {
        chain(select, product, addend, negates_addend, ptx.has(Modifier::Po))
    };
    if shift > 0 {
        shift_words(select, &mut sum, shift, is_signed);
    }
    let result = if ptx.has(Modifier::Sat) { clamped(select, &sum, is_signed) } else { sum[0] };
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

/// Emits `a + b`, `a - b` or `a + b + 1` of numbers with several words.
fn chain(select: &mut Select<'_>, a: &[Operand], b: &[Operand], subtract: bool, plus_one: bool) -> Vec<Operand> {
    let invert = if subtract { "~" } else { "" };
    let mut carry = if subtract || plus_one { Operand::PT } else { Operand::PT.inverted_predicate() };
    let mut words = Vec::new();
    let template = format!("IADD3.X $, $, PT, {{}}, {invert}{{}}, RZ, {{}}, !PT");
    for (&a, &b) in a.iter().zip(b) {
        let (word, next) = select.b.define_two([Class::R, Class::P], &template, &[a, b, carry]);
        words.push(word);
        carry = next;
    }
    words
}

/// Shifts a number with several words to the right.
fn shift_words(select: &mut Select<'_>, words: &mut [Operand], shift: u32, is_signed: bool) {
    for number in 0..words.len() {
        words[number] = match words.get(number + 1) {
            Some(&above) => select.b.define(Class::R, "SHF.R.U64 $, {}, {}, {}", &[words[number], shift.into(), above]),
            None => select.shift_right(words[number], shift.into(), is_signed),
        };
    }
}

/// Emits the nearest 32-bit number.
fn clamped(select: &mut Select<'_>, words: &[Operand], is_signed: bool) -> Operand {
    match *words {
        [low, high, top] => {
            let sign = select.sign_mask(low);
            let fits = select.compare_words("EQ", false, high, sign);
            let fits = select.compare_words_and("EQ", false, top, sign, "AND", fits);
            let top_sign = select.sign_mask(top);
            let limit = select.logic(0x3c, top_sign, 0x7fff_ffff_u32.into(), Operand::RZ);
            select.select_by_predicate(fits, low, limit)
        }
        _ if is_signed => clamped_pair(select, [words[0], words[1]], true),
        _ => {
            let fits = select.compare_words("EQ", false, words[1], Operand::RZ);
            select.select_by_predicate(fits, words[0], u32::MAX.into())
        }
    }
}
