//! `cvt` between integers and floating-point numbers.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::{Select, class_of};
use crate::convert::integers::assign_integer;
use crate::error::Unsupported;
use crate::float;
use crate::float_modifiers::rounding;
use crate::ptx::Ptx;

/// Returns the machine's name of a format; single precision has none.
pub(super) fn format_name(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::F16 => ".F16",
        ScalarType::Bf16 => ".BF16",
        ScalarType::F64 => ".F64",
        _ => "",
    }
}

/// Returns the machine's name of an integer type; `.s32` has none.
fn integer_name(ty: ScalarType) -> String {
    if ty == ScalarType::S32 { String::new() } else { format!(".{}", ty.spelling().to_uppercase()) }
}

/// Selects integer to float.
pub(super) fn to_float(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    let source = select.source_of_any_width(ptx.operand(1), from)?;
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

/// Returns the modifier for rounding a float to an integral value; rounding to nearest even has none.
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

/// Selects float to integer. A value out of range becomes the nearest number in range. A NaN becomes 0, except that conversions from f64
/// or to 64-bit integers give the number with only the top bit set.
pub(super) fn to_integer(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    let source: Operand = select.source_of_any_width(ptx.operand(1), from)?;
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

/// Clamps a floating-point result to the range from 0 to 1 if the instruction has `.sat`; a NaN becomes 0.
pub(crate) fn saturated(select: &mut Select<'_>, ptx: &Ptx<'_>, value: Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
    if !ptx.has(Modifier::Sat) {
        return Ok(value);
    }
    Ok(match ty {
        ScalarType::F64 => {
            let zero = select.wide_number(0);
            let one = select.wide_number(1.0_f64.to_bits());
            let halves = float::extremum_double(select, false, [value, zero], true);
            let positive = select.b.pack(Class::R2, &halves);
            let halves = float::extremum_double(select, true, [positive, one], true);
            select.b.pack(Class::R2, &halves)
        }
        ScalarType::F32 => select.b.define(Class::R, "FADD.SAT $, {}, RZ", &[value]),
        ScalarType::Bf16 => return Err(Unsupported::new("saturation of bf16")),
        _ => select.b.define(Class::R, "HADD2.SAT $, {}.H0_H0, -RZ.H0_H0", &[value]),
    })
}
