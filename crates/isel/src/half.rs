//! Half precision (f16, bf16): one number, or two in a register.
//!
//! The machine computes on two halves at once. A single half is read from the low half of a register (`.H0_H0`), and the upper half of the
//! result is ignored. PTX has bf16 addition and multiplication only on targets whose `HADD2` and `HMUL2` support bf16 (sm_90 and later).

use oriole_ir::{Class, Operand, Signs, Symbol};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::float_modifiers::{allow_contraction, negated_if_sub};
use crate::ptx::Ptx;

fn is_packed(ty: ScalarType) -> bool {
    matches!(ty, ScalarType::F16x2 | ScalarType::Bf16x2)
}

pub(crate) fn is_bf16(ty: ScalarType) -> bool {
    matches!(ty, ScalarType::Bf16 | ScalarType::Bf16x2)
}

/// Returns a source; for a single half, the low half.
fn source(select: &mut Select<'_>, ptx: &Ptx<'_>, position: usize) -> Result<Operand, Unsupported> {
    let ty = ptx.ty();
    let value = select.source(ptx.operand(position), ty)?;
    let value = select.in_register(value);
    Ok(if is_packed(ty) { value } else { value.with_suffix(Symbol::H0_H0) })
}

/// Returns the modifiers in the order of the machine's syntax: format first.
fn suffix(ptx: &Ptx<'_>) -> String {
    let mut text = String::new();
    for (is_there, spelling) in [
        (is_bf16(ptx.ty()), ".BF16_V2"),
        (ptx.has(Modifier::Oob), ".OOB"),
        (ptx.has(Modifier::Ftz), ".FTZ"),
        (ptx.has(Modifier::Relu), ".RELU"),
        (ptx.has(Modifier::Sat), ".SAT"),
    ] {
        if is_there {
            text.push_str(spelling);
        }
    }
    text
}

/// Selects `add`, `sub`, `mul`.
pub(crate) fn arithmetic(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let a = source(select, ptx, 1)?;
    let b = negated_if_sub(ptx, source(select, ptx, 2)?);
    let name = if ptx.opcode() == Opcode::Mul { "HMUL2" } else { "HADD2" };
    let result = select.b.define(Class::R, &format!("{name}{} $, {{}}, {{}}", suffix(ptx)), &[a, b]);
    allow_contraction(select, ptx);
    select.assign(ptx.operand(0), result)
}

/// Selects `fma`.
pub(crate) fn fused(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let sources = [source(select, ptx, 1)?, source(select, ptx, 2)?, source(select, ptx, 3)?];
    let result = select.b.define(Class::R, &format!("HFMA2{} $, {{}}, {{}}, {{}}", suffix(ptx)), &sources);
    select.assign(ptx.operand(0), result)
}

/// Selects `abs`, `neg`: changes the sign bits; `.ftz` adds a negative zero afterwards to flush subnormals.
pub(crate) fn sign(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let value = select.source(ptx.operand(1), ptx.ty())?;
    let template =
        if ptx.opcode() == Opcode::Abs { "LOP3.LUT $, {}, 0x7fff7fff, RZ, 0xc0, !PT" } else { "LOP3.LUT $, {}, 0x80008000, RZ, 0x3c, !PT" };
    let mut result = select.b.define(Class::R, template, &[value]);
    if ptx.has(Modifier::Ftz) {
        let zero = Operand::RZ.with_signs(Signs::NEGATE).with_suffix(Symbol::H0_H0);
        result = select.b.define(Class::R, "HADD2.FTZ $, {}, {}", &[result, zero]);
    }
    select.assign(ptx.operand(0), result)
}

/// Selects `min`, `max`.
pub(crate) fn min_max(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (mut a, mut b) = (source(select, ptx, 1)?, source(select, ptx, 2)?);
    if ptx.has(Modifier::Abs) {
        (a, b) = (a.absolute(), b.absolute());
    }
    let mut name = String::from("HMNMX2");
    for (is_there, spelling) in [
        (is_bf16(ptx.ty()), ".BF16_V2"),
        (ptx.has(Modifier::Ftz), ".FTZ"),
        (ptx.has(Modifier::NaN), ".NAN"),
        (ptx.has(Modifier::Xorsign), ".XORSIGN"),
    ] {
        if is_there {
            name.push_str(spelling);
        }
    }
    let which = if ptx.opcode() == Opcode::Min { "PT" } else { "!PT" };
    let result = select.b.define(Class::R, &format!("{name} $, {{}}, {{}}, {which}"), &[a, b]);
    select.assign(ptx.operand(0), result)
}

/// Selects `tanh`, `ex2`.
pub(crate) fn function(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let unit = match ptx.opcode() {
        Opcode::Tanh => "TANH",
        Opcode::Ex2 => "EX2",
        _ => return select.unsupported(ptx),
    };
    let format = if is_bf16(ty) { "BF16" } else { "F16" };
    let value = select.source(ptx.operand(1), ty)?;
    let value = select.in_register(value);
    let template = format!("MUFU.{unit}.{format} $, {{}}");
    let low = select.b.define(Class::R, &template, &[value]);
    if !is_packed(ty) {
        return select.assign(ptx.operand(0), low);
    }
    let high = select.b.define(Class::R, &template, &[value.with_suffix(Symbol::H1)]);
    let both = select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[low, high]);
    select.assign(ptx.operand(0), both)
}

/// Converts a half in the low bits of a register to single precision, which represents every half exactly.
pub(crate) fn to_single(select: &mut Select<'_>, value: Operand, ty: ScalarType) -> Operand {
    if is_bf16(ty) {
        return select.b.define(Class::R, "IMAD.U32 $, {}, 0x10000, RZ", &[value]);
    }
    let zero = Operand::RZ.with_signs(Signs::NEGATE).with_suffix(Symbol::H0_H0);
    select.b.define(Class::R, "HADD2.F32 $, {}, {}", &[zero, value.with_suffix(Symbol::H0_H0)])
}
