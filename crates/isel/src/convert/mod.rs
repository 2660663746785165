//! Handlers of `cvt` and `cvt.pack`.

mod floats;
mod integers;
mod mixed;

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// Selects `cvt`.
pub(crate) fn convert(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut types = ptx.form.modifiers.iter().filter_map(|value| value.modifier.scalar_type());
    let (Some(to), Some(from)) = (types.next(), types.next()) else { return select.unsupported(ptx) };
    let (to, from) = (ptx.form.scalar_type(Slot::Dtype).unwrap_or(to), ptx.form.scalar_type(Slot::Atype).unwrap_or(from));
    match (is_float(to), is_float(from)) {
        (false, false) if is_integer(to) && is_integer(from) => integers::convert(select, ptx, to, from),
        (true, false) if is_integer(from) => mixed::to_float(select, ptx, to, from),
        (false, true) if is_integer(to) => mixed::to_integer(select, ptx, to, from),
        (true, true) => floats::convert(select, ptx, to, from),
        _ => floats::packed(select, ptx, to, from),
    }
}

fn is_float(ty: ScalarType) -> bool {
    matches!(ty, ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 | ScalarType::F64)
}

fn is_integer(ty: ScalarType) -> bool {
    use ScalarType::{S8, S16, S32, S64, U8, U16, U32, U64};
    matches!(ty, U8 | S8 | U16 | S16 | U32 | S32 | U64 | S64)
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
fn assign_integer(select: &mut Select<'_>, destination: ast::Operand, value: Operand, ty: ScalarType) -> Result<(), Unsupported> {
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
fn register_bits(select: &Select<'_>, operand: ast::Operand) -> u32 {
    match operand {
        ast::Operand::Register(register) | ast::Operand::Element(register, _) => select.frame.body.declaration_of(register).ty.bits(),
        _ => 0,
    }
}

/// Clamps a floating-point result to the range from 0 to 1 if the instruction has `.sat`; a NaN becomes 0.
fn saturated(select: &mut Select<'_>, ptx: &Ptx<'_>, value: Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
    if !ptx.has(Modifier::Sat) {
        return Ok(value);
    }
    Ok(match ty {
        ScalarType::F64 => {
            let zero = select.wide_number(0);
            let one = select.wide_number(1.0_f64.to_bits());
            let positive = select.expand("max_f64", &[value, zero])?[0];
            select.expand("min_f64", &[positive, one])?[0]
        }
        ScalarType::F32 => select.b.define(Class::R, "FADD.SAT $, {}, RZ", &[value]),
        ScalarType::Bf16 => return Err(Unsupported::new("saturation of bf16")),
        _ => select.b.define(Class::R, "HADD2.SAT $, {}.H0_H0, -RZ.H0_H0", &[value]),
    })
}

/// Selects `cvt.pack`: clamps two integers to a narrow type and puts them above the lower bits of a third operand.
pub(crate) fn pack(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(to) = ptx.form.scalar_type(Slot::Dtype).or_else(|| ptx.form.modifiers.iter().find_map(|value| value.modifier.scalar_type()))
    else {
        return select.unsupported(ptx);
    };
    let mut sources = [Operand::RZ; 3];
    for (source, position) in sources.iter_mut().zip(1..ptx.operands.len()) {
        *source = select.source(ptx.operand(position), ScalarType::S32)?;
    }
    sources[2] = select.in_register(sources[2]);
    // For elements of 2 or 4 bits, the instruction names the lowest bit position of the new elements.
    let suffix = match to.bits() {
        2 => ".28",
        4 => ".24",
        _ => "",
    };
    let template = format!("I2IP.{}.S32.SAT $, {{}}, {{}}, {{}}{suffix}", to.spelling().to_uppercase());
    let value = select.b.define(Class::R, &template, &sources);
    select.assign(ptx.operand(0), value)
}
