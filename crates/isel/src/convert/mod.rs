//! Handlers of `cvt` and `cvt.pack`.

mod floats;
pub(crate) mod integers;
mod mixed;

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Slot;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

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
