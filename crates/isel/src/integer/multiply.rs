//! Integer products: low, high and wide ones, 24-bit products, dot products of small integers.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

use super::add::add_saturated;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::words::WordPair;

/// The part of a product that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProductPart {
    Low,
    High,
    Whole,
}

impl ProductPart {
    pub(super) fn of(ptx: &Ptx<'_>) -> ProductPart {
        if ptx.has(Modifier::Wide) {
            ProductPart::Whole
        } else if ptx.has(Modifier::Hi) {
            ProductPart::High
        } else {
            ProductPart::Low
        }
    }
}

/// Selects `mul`.
pub(crate) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let product = product(select, ptx, ProductPart::of(ptx))?;
    select.assign_words(ptx.operand(0), &product)
}

/// Selects `mad` without carry.
pub(crate) fn multiply_add(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let sum = match (ProductPart::of(ptx), ty.bits()) {
        (ProductPart::Low, 16 | 32) => {
            let [a, b, c] = [select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?, select.source(ptx.operand(3), ty)?];
            vec![multiply_words(select, a, b, c)]
        }
        (ProductPart::Whole, 16) => {
            let (a, b) = (select.extended(ptx.operand(1), ty)?, select.extended(ptx.operand(2), ty)?);
            let c = select.source(ptx.operand(3), ScalarType::B32)?;
            vec![multiply_words(select, a, b, c)]
        }
        (ProductPart::Whole, _) => {
            let (a, b) = (select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?);
            let c = select.wide_source(ptx.operand(3), ScalarType::B64)?;
            let sum = whole(select, ty.is_signed(), a, b, c);
            return select.assign(ptx.operand(0), sum);
        }
        (ProductPart::Low, _) => {
            let (a, b) = (select.halves(ptx.operand(1), ty)?, select.halves(ptx.operand(2), ty)?);
            let c = select.wide_source(ptx.operand(3), ty)?;
            low_of_pairs(select, a, b, c).to_vec()
        }
        (ProductPart::High, _) => {
            let product = product(select, ptx, ProductPart::High)?;
            let c = select.words(ptx.operand(3), ty)?;
            match (product.as_slice(), c.as_slice()) {
                (&[p0, p1], &[c0, c1]) => select.pair_sum([p0, p1], [c0, c1]).to_vec(),
                _ if ptx.has(Modifier::Sat) => vec![add_saturated(select, product[0], c[0])],
                _ => vec![select.sum(product[0], c[0])],
            }
        }
    };
    select.assign_words(ptx.operand(0), &sum)
}

/// Emits the product of operands 1 and 2 and returns the words of the wanted part, low word first.
pub(super) fn product(select: &mut Select<'_>, ptx: &Ptx<'_>, part: ProductPart) -> Result<Vec<Operand>, Unsupported> {
    let ty = ptx.ty();
    let is_signed = ty.is_signed();
    if ty.bits() == 64 {
        let (a, b) = (select.halves(ptx.operand(1), ty)?, select.halves(ptx.operand(2), ty)?);
        let words = match part {
            ProductPart::Low => low_of_pairs(select, a, b, Operand::RZ),
            _ => high_of_pairs(select, is_signed, a, b),
        };
        return Ok(words.to_vec());
    }
    if ty.bits() == 16 {
        if part == ProductPart::Low {
            let (a, b) = (select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?);
            return Ok(vec![multiply_words(select, a, b, Operand::RZ)]);
        }
        let (a, b) = (select.extended(ptx.operand(1), ty)?, select.extended(ptx.operand(2), ty)?);
        let product = multiply_words(select, a, b, Operand::RZ);
        return Ok(vec![if part == ProductPart::High { select.shift_right(product, 16.into(), is_signed) } else { product }]);
    }
    let (a, b) = (select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?);
    Ok(match part {
        ProductPart::Low => vec![multiply_words(select, a, b, Operand::RZ)],
        ProductPart::High => vec![high_of_words(select, is_signed, a, b)],
        ProductPart::Whole => {
            let product = whole(select, is_signed, a, b, Operand::RZ);
            vec![select.low(product), select.high(product)]
        }
    })
}

/// Emits `a * b + c` modulo 2^32.
pub(super) fn multiply_words(select: &mut Select<'_>, a: Operand, b: Operand, c: Operand) -> Operand {
    select.b.define(Class::R, "IMAD $, {}, {}, {}", &[a, b, c])
}

/// Emits the upper word of a 32x32-bit product. Not all targets have `IMAD.HI`.
pub(super) fn high_of_words(select: &mut Select<'_>, is_signed: bool, a: Operand, b: Operand) -> Operand {
    if !select.encodes("IMAD.HI R0, R0, R0, RZ") {
        let product = whole(select, is_signed, a, b, Operand::RZ);
        return select.high(product);
    }
    let template = if is_signed { "IMAD.HI $, {}, {}, RZ" } else { "IMAD.HI.U32 $, {}, {}, RZ" };
    select.b.define(Class::R, template, &[a, b])
}

/// Emits `a * b + c`, where `a` and `b` are words and `c` and the result are pairs.
fn whole(select: &mut Select<'_>, is_signed: bool, a: Operand, b: Operand, c: Operand) -> Operand {
    let template = if is_signed { "IMAD.WIDE $, {}, {}, {}" } else { "IMAD.WIDE.U32 $, {}, {}, {}" };
    select.b.define(Class::R2, template, &[a, b, c])
}

/// Emits `a * b + c` modulo 2^64, where `c` is a pair of registers or `RZ`. The product of the two upper words does not contribute.
pub(super) fn low_of_pairs(select: &mut Select<'_>, a: WordPair, b: WordPair, c: Operand) -> WordPair {
    let low = whole(select, false, a[0], b[0], c);
    let crossed = multiply_words(select, a[0], b[1], select.high(low));
    [select.low(low), multiply_words(select, a[1], b[0], crossed)]
}

/// Emits the upper half of a 64x64-bit product.
pub(super) fn high_of_pairs(select: &mut Select<'_>, is_signed: bool, a: WordPair, b: WordPair) -> WordPair {
    // Unsigned: a1*b1*2^64 + (a1*b0 + a0*b1)*2^32 + a0*b0. The sum in the middle may have 65 bits; `overflow` is the 65th.
    let crossed = whole(select, false, a[1], b[0], Operand::RZ);
    let (crossed, overflow) = select.b.define_two([Class::R2, Class::P], "IMAD.WIDE.U32 $, $, {}, {}, {}", &[a[0], b[1], crossed]);
    let low = whole(select, false, a[0], b[0], Operand::RZ);
    let above = select.b.define(Class::R, "IADD3.X $, PT, PT, RZ, RZ, RZ, {}, !PT", &[overflow]);
    let addend = select.b.pack(Class::R2, &[select.high(crossed), above]);
    let (_, carry) = select.b.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, {}, RZ", &[select.high(low), select.low(crossed)]);
    let high = select.b.define(Class::R2, "IMAD.WIDE.U32.X $, {}, {}, {}, {}", &[a[1], b[1], addend, carry]);
    let mut words = [select.low(high), select.high(high)];
    if is_signed {
        // The unsigned product counts a negative factor as 2^64 too large, so its upper half is too large by the other factor.
        for (factor, other) in [(a, b), (b, a)] {
            let mask = select.sign_mask(factor[1]);
            let excess = other.map(|word| select.bitwise_and(word, mask));
            words = select.pair_difference(words, excess);
        }
    }
    words
}

/// Returns both sources of a 24-bit product, extended from 24 to 32 bits.
fn factors_24(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<[Operand; 2], Unsupported> {
    let ty = ptx.ty();
    let template = if ty.is_signed() { "SGXT $, {}, 0x18" } else { "PRMT $, {}, 0x7210, RZ" };
    let sources = [select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?];
    Ok(sources.map(|source| select.b.define(Class::R, template, &[source])))
}

/// Emits bits 16 to 47 of a 24-bit product.
fn high_24(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<Operand, Unsupported> {
    let [a, b] = factors_24(select, ptx)?;
    let product = whole(select, ptx.ty().is_signed(), a, b, Operand::RZ);
    Ok(select.b.define(Class::R, "PRMT $, {}, 0x5432, {}", &[select.low(product), select.high(product)]))
}

/// Selects `mul24`.
pub(crate) fn multiply_24(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let product = if ptx.has(Modifier::Hi) {
        high_24(select, ptx)?
    } else {
        let [a, b] = factors_24(select, ptx)?;
        multiply_words(select, a, b, Operand::RZ)
    };
    select.assign(ptx.operand(0), product)
}

/// Selects `mad24`.
pub(crate) fn multiply_add_24(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let c = select.source(ptx.operand(3), ptx.ty())?;
    let sum = if ptx.has(Modifier::Hi) {
        let product = high_24(select, ptx)?;
        if ptx.has(Modifier::Sat) { add_saturated(select, product, c) } else { select.sum(product, c) }
    } else {
        let [a, b] = factors_24(select, ptx)?;
        multiply_words(select, a, b, c)
    };
    select.assign(ptx.operand(0), sum)
}

/// Selects `dp4a`, `dp2a`.
pub(crate) fn dot_product(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let sign = |slot| if ptx.form.scalar_type(slot).is_some_and(ScalarType::is_signed) { 'S' } else { 'U' };
    let (a_sign, b_sign) = (sign(Slot::Atype), sign(Slot::Btype));
    let template = match (ptx.opcode(), ptx.has(Modifier::Hi)) {
        (Opcode::Dp4a, _) => format!("IDP.4A.{a_sign}8.{b_sign}8 $, {{}}, {{}}, {{}}"),
        (_, true) => format!("IDP.2A.HI.{a_sign}16.{b_sign}8 $, {{}}, {{}}, {{}}"),
        (_, false) => format!("IDP.2A.LO.{a_sign}16.{b_sign}8 $, {{}}, {{}}, {{}}"),
    };
    let mut sources = [Operand::RZ; 3];
    for (number, source) in sources.iter_mut().enumerate() {
        *source = select.source(ptx.operand(number + 1), ScalarType::B32)?;
    }
    let sum = select.b.define(Class::R, &template, &sources);
    select.assign(ptx.operand(0), sum)
}
