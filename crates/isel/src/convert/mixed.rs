//! Between integers and floating point.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::{assign_integer, saturated};
use crate::error::Unsupported;
use crate::float::rounding;
use crate::ptx::Ptx;
use crate::select::{Select, class_of};

/// The format as the machine spells it; single precision has no name.
pub(super) fn format_name(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::F16 => ".F16",
        ScalarType::Bf16 => ".BF16",
        ScalarType::F64 => ".F64",
        _ => "",
    }
}

/// The integer type as the machine spells it; 32 bits with sign have no name.
fn integer_name(ty: ScalarType) -> String {
    if ty == ScalarType::S32 { String::new() } else { format!(".{}", ty.spelling().to_uppercase()) }
}

/// Integer to float.
pub(super) fn to_float(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    let source = select.any(ptx.operand(1), from)?;
    let source = if from.bits() <= 32 { select.in_register(source) } else { source };
    let packed = format!("I2FP.F32.{}{}", from.spelling().to_uppercase(), rounding(ptx));
    let is_word = from.bits() == 32 && to == ScalarType::F32;
    let name = if is_word && select.encodes(&format!("{packed} R0, R1")) {
        packed
    } else {
        format!("I2F{}{}{}", format_name(to), integer_name(from), rounding(ptx))
    };
    let value = select.b.define(class_of(to), &format!("{name} $, {{}}"), &[source]);
    let value = saturated(select, ptx, value, to)?;
    select.assign(ptx.operand(0), value)
}

/// How a float is rounded to an integral value.
pub(super) fn integral_rounding(ptx: &Ptx<'_>) -> &'static str {
    if ptx.has(Modifier::Rzi) {
        ".TRUNC"
    } else if ptx.has(Modifier::Rmi) {
        ".FLOOR"
    } else if ptx.has(Modifier::Rpi) {
        ".CEIL"
    } else {
        ""
    }
}

/// Float to integer. Values beyond the range become its nearest end. What is no number becomes 0, except that double precision and
/// 64-bit integers give the number with only the top bit.
pub(super) fn to_integer(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    let source: Operand = select.any(ptx.operand(1), from)?;
    let source = if from.bits() <= 32 { select.in_register(source) } else { source };
    let ftz = if ptx.has(Modifier::Ftz) { ".FTZ" } else { "" };
    let nan_to_zero = if from != ScalarType::F64 && to.bits() < 64 { ".NTZ" } else { "" };
    let template = format!("F2I{ftz}{}{}{}{nan_to_zero} $, {{}}", integer_name(to), format_name(from), integral_rounding(ptx));
    let class = if to.bits() == 64 { Class::R2 } else { Class::R };
    let value = select.b.define(class, &template, &[source]);
    if to.bits() == 64 {
        return select.assign(ptx.operand(0), value);
    }
    assign_integer(select, ptx.operand(0), value, to)
}
