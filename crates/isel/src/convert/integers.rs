//! `cvt` between integers.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use oriole_ptx::ast;

/// Selects integer to integer: extension or truncation; with `.sat` the value is clamped to the range of the result first.
pub(super) fn convert(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    let is_clamped = ptx.has(Modifier::Sat);
    if from.bits() == 64 {
        let wide = select.wide_source(ptx.operand(1), from)?;
        let halves = [select.low(wide), select.high(wide)];
        return from_wide(select, ptx, to, from, halves, is_clamped);
    }
    let source = select.source(ptx.operand(1), from)?;
    let source = select.in_register(source);
    let needs_all = is_clamped || to.bits() > from.bits();
    let mut word = if needs_all { extended(select, source, from) } else { source };
    if is_clamped {
        word = clamped(select, word, from.is_signed(), to);
    }
    if to.bits() == 64 {
        let may_be_negative = from.is_signed() && (to.is_signed() || !is_clamped);
        let high = if may_be_negative { sign_word(select, word) } else { Operand::RZ };
        return select.assign_halves(ptx.operand(0), word, high);
    }
    assign_integer(select, ptx.operand(0), word, to)
}

/// Returns the smallest and the greatest number of a type; 64-bit types are treated as 32-bit ones.
fn range(ty: ScalarType) -> (i64, i64) {
    let bits = ty.bits().min(32);
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Clamps a 32-bit number to the range of a type.
fn clamped(select: &mut Select<'_>, word: Operand, is_signed: bool, to: ScalarType) -> Operand {
    let (least, greatest) = range(to);
    let mut value = word;
    let sign = if is_signed { "" } else { ".U32" };
    if is_signed && least > i64::from(i32::MIN) {
        let below = select.b.define(Class::P, "ISETP.LT.AND $, PT, {}, {}, PT", &[value, least.into()]);
        value = select.b.define(Class::R, "SEL $, {}, {}, {}", &[least.into(), value, below]);
    }
    let fits = if is_signed { greatest >= i64::from(i32::MAX) } else { greatest >= i64::from(u32::MAX) };
    if !fits {
        let above = select.b.define(Class::P, &format!("ISETP.GT{sign}.AND $, PT, {{}}, {{}}, PT"), &[value, greatest.into()]);
        value = select.b.define(Class::R, "SEL $, {}, {}, {}", &[greatest.into(), value, above]);
    }
    value
}

/// Selects a conversion from a 64-bit integer.
fn from_wide(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    to: ScalarType,
    from: ScalarType,
    [low, high]: [Operand; 2],
    is_clamped: bool,
) -> Result<(), Unsupported> {
    if !is_clamped {
        if to.bits() == 64 {
            return select.assign_halves(ptx.operand(0), low, high);
        }
        return assign_integer(select, ptx.operand(0), low, to);
    }
    let negative = select.b.define(Class::P, "ISETP.LT.AND $, PT, {}, RZ, PT", &[high]);
    if to.bits() == 64 {
        // With the top bit set, an unsigned source is too large for a signed result, and a signed source is too small for an unsigned
        // result.
        let (new_low, new_high) = if from.is_signed() { (0, 0) } else { (u32::MAX, i32::MAX as u32) };
        let low = select.b.define(Class::R, "SEL $, {}, {}, {}", &[new_low.into(), low, negative]);
        let high = select.b.define(Class::R, "SEL $, {}, {}, {}", &[new_high.into(), high, negative]);
        return select.assign_halves(ptx.operand(0), low, high);
    }
    // Clamps to 32 bits with the signedness of the source first, then to the range of the result.
    let word = if from.is_signed() {
        let sign = sign_word(select, low);
        let differs = select.b.define(Class::P, "ISETP.NE.U32.AND $, PT, {}, {}, PT", &[sign, high]);
        let end = select.b.define(Class::R, "SEL $, {}, {}, {}", &[i32::MIN.into(), i32::MAX.into(), negative]);
        let signed = select.b.define(Class::R, "SEL $, {}, {}, {}", &[end, low, differs]);
        if to == ScalarType::U32 {
            // For `.u32` the numbers from 2^31 up to 2^32 - 1 are in range too.
            let great = select.b.define(Class::P, "ISETP.NE.U32.AND $, PT, {}, RZ, PT", &[high]);
            let capped = select.b.define(Class::R, "SEL $, {}, {}, {}", &[u32::MAX.into(), low, great]);
            let result = select.b.define(Class::R, "SEL $, RZ, {}, {}", &[capped, negative]);
            return assign_integer(select, ptx.operand(0), result, to);
        }
        signed
    } else {
        let great = select.b.define(Class::P, "ISETP.NE.U32.AND $, PT, {}, RZ, PT", &[high]);
        select.b.define(Class::R, "SEL $, {}, {}, {}", &[u32::MAX.into(), low, great])
    };
    let result = clamped(select, word, from.is_signed(), to);
    assign_integer(select, ptx.operand(0), result, to)
}

/// Extends an integer in the low bits of a register to 32 bits, with zeros or copies of the sign as its type requires.
pub(crate) fn extended(select: &mut Select<'_>, value: Operand, ty: ScalarType) -> Operand {
    let template = match (ty.bits(), ty.is_signed()) {
        (8, false) => "LOP3.LUT $, {}, 0xff, RZ, 0xc0, !PT",
        (8, true) => "PRMT $, {}, 0x8880, RZ",
        (16, false) => "PRMT $, {}, 0x7710, RZ",
        (16, true) => "PRMT $, {}, 0x9910, RZ",
        _ => return value,
    };
    select.b.define(Class::R, template, &[value])
}

/// Assigns an integer result of up to 32 bits, extended if the destination register is wider than the type.
pub(crate) fn assign_integer(
    select: &mut Select<'_>,
    destination: ast::Operand,
    value: Operand,
    ty: ScalarType,
) -> Result<(), Unsupported> {
    let bits = register_bits(select, destination);
    if bits <= ty.bits() {
        return select.assign(destination, value);
    }
    let whole = extended(select, value, ty);
    if bits <= 32 || !ty.is_signed() {
        return select.assign(destination, whole);
    }
    let high = sign_word(select, whole);
    select.assign_halves(destination, whole, high)
}

/// Returns a word with 32 copies of the sign bit.
pub(crate) fn sign_word(select: &mut Select<'_>, value: Operand) -> Operand {
    select.b.define(Class::R, "SHF.R.S32.HI $, RZ, 0x1f, {}", &[value])
}

/// Returns the width of a destination register in bits; 0 for other operands.
pub(crate) fn register_bits(select: &Select<'_>, operand: ast::Operand) -> u32 {
    match operand {
        ast::Operand::Register(register) | ast::Operand::Element(register, _) => select.frame.body.declaration_of(register).ty.bits(),
        _ => 0,
    }
}
