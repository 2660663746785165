//! `cvt` between floating-point formats.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::mixed::{format_name, integral_rounding};
use crate::context::{Select, class_of};
use crate::convert::mixed::saturated;
use crate::error::Unsupported;
use crate::float_modifiers::rounding;
use crate::half;
use crate::ptx::Ptx;

/// Selects a conversion of one number between f16, bf16, f32 and f64.
pub(super) fn convert(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    use ScalarType::{Bf16, F16, F32, F64};
    let source = select.source_of_any_width(ptx.operand(1), from)?;
    let source = if from.bits() <= 32 { select.in_register(source) } else { source };
    let is_flushed = ptx.has(Modifier::Ftz);
    let value = match (to, from) {
        (to, from) if to == from => same_format(select, ptx, source, to),
        (F32, F16) => half::to_single(select, source, F16),
        (F32, Bf16) if !is_flushed => half::to_single(select, source, Bf16),
        (F64, F32) if is_flushed => {
            let flushed = select.b.define(Class::R, "FADD.FTZ $, {}, -RZ", &[source]);
            select.b.define(Class::R2, "F2F.F64.F32 $, {}", &[flushed])
        }
        (F32, F64) if is_flushed => {
            let kind = rounding(ptx).trim_start_matches('.').to_lowercase();
            let kind = if kind.is_empty() { "rn".to_owned() } else { kind };
            select.expand(&format!("cvt_{kind}_ftz_f32_f64"), &[source])?[0]
        }
        (F16 | Bf16, F32) => narrowed(select, ptx, source, to),
        _ => {
            let ftz = if is_flushed { ".FTZ" } else { "" };
            let template = format!("F2F{ftz}{}{}{} $, {{}}", full_name(to), full_name(from), rounding(ptx));
            select.b.define(class_of(to), &template, &[source])
        }
    };
    let value = saturated(select, ptx, value, to)?;
    select.assign(ptx.operand(0), value)
}

/// Returns the name of the format in `F2F`, which also spells `.F32`.
fn full_name(ty: ScalarType) -> &'static str {
    if ty == ScalarType::F32 { ".F32" } else { format_name(ty) }
}

/// Selects a conversion without change of format: rounds to an integral value, flushes subnormals, or copies.
fn same_format(select: &mut Select<'_>, ptx: &Ptx<'_>, source: Operand, ty: ScalarType) -> Operand {
    let is_rounded = [Modifier::Rni, Modifier::Rzi, Modifier::Rmi, Modifier::Rpi].into_iter().any(|mode| ptx.has(mode));
    let ftz = if ptx.has(Modifier::Ftz) { ".FTZ" } else { "" };
    if is_rounded {
        let template = format!("FRND{ftz}{}{} $, {{}}", format_name(ty), integral_rounding(ptx));
        return select.b.define(class_of(ty), &template, &[source]);
    }
    if ftz.is_empty() { source } else { select.b.define(Class::R, "FADD.FTZ $, {}, -RZ", &[source]) }
}

/// Converts single precision to f16 or bf16.
fn narrowed(select: &mut Select<'_>, ptx: &Ptx<'_>, source: Operand, to: ScalarType) -> Operand {
    let is_special = ptx.has(Modifier::Relu) || ptx.has(Modifier::Satfinite);
    let is_directed = ptx.has(Modifier::Rm) || ptx.has(Modifier::Rp);
    let is_flushed = ptx.has(Modifier::Ftz) && to == ScalarType::Bf16;
    if oriole_ir::Opcode::F2FP.exists_on(select.target) && !is_directed && !is_flushed {
        let template = format!("{} $, RZ, {{}}", packing_name(select, ptx, to));
        return select.b.define(Class::R, &template, &[source]);
    }
    let mut source = if is_special { finite(select, source) } else { source };
    if ptx.has(Modifier::Ftz) && to == ScalarType::F16 {
        // With rounding away from zero a subnormal source would become the smallest half; so subnormals are flushed before the conversion.
        source = select.b.define(Class::R, "FADD.FTZ $, {}, -RZ", &[source]);
    }
    let ftz = if is_flushed { ".FTZ" } else { "" };
    let template = format!("F2F{ftz}{}.F32{} $, {{}}", format_name(to), rounding(ptx));
    select.b.define(Class::R, &template, &[source])
}

/// Clamps a single to the range of finite f16 numbers; a NaN stays a NaN.
fn finite(select: &mut Select<'_>, source: Operand) -> Operand {
    // 65504, the largest finite f16, as f32.
    const GREATEST: u32 = 0x477f_e000;
    const LEAST: u32 = 0xc77f_e000;
    let capped = select.b.define(Class::R, "FMNMX $, {}, {}, PT", &[source, GREATEST.into()]);
    let clamped = select.b.define(Class::R, "FMNMX $, {}, {}, !PT", &[capped, LEAST.into()]);
    let is_number = select.b.define(Class::P, "FSETP.NUM.AND $, PT, {}, {}, PT", &[source, source]);
    select.b.define(Class::R, "FSEL $, {}, {}, {}", &[clamped, source, is_number])
}

/// Returns the instruction that rounds two singles to halves. Newer targets require both formats in the name.
fn packing_name(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType) -> String {
    let mut name = String::from("F2FP");
    if ptx.has(Modifier::Satfinite) {
        name.push_str(".SATFINITE");
    }
    if ptx.has(Modifier::Relu) {
        name.push_str(".RELU");
    }
    let names_both = select.encodes("F2FP.F16.F32.PACK_AB R0, R1, R2");
    let format = match (half::is_bf16(to), names_both) {
        (true, true) => ".BF16.F32",
        (true, false) => ".BF16",
        (false, true) => ".F16.F32",
        (false, false) => "",
    };
    format!("{name}{format}.PACK_AB{}", rounding(ptx))
}

/// Selects a conversion to or from packed formats and formats narrower than 16 bits.
pub(super) fn packed(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<(), Unsupported> {
    use ScalarType::{Bf16x2, E2m1x2, E2m3x2, E3m2x2, E4m3x2, E5m2x2, F16x2, F32, Tf32, Ue8m0x2};
    if ptx.has(Modifier::Rs) {
        let value = stochastic(select, ptx, to, from)?;
        return select.assign(ptx.operand(0), value);
    }
    let relu = if ptx.has(Modifier::Relu) { ".RELU" } else { "" };
    let value = match (to, from) {
        (F16x2 | Bf16x2, F32) => {
            let sources = [select.source(ptx.operand(1), F32)?, select.source(ptx.operand(2), F32)?];
            let template = format!("{} $, {{}}, {{}}", packing_name(select, ptx, to));
            select.b.define(Class::R, &template, &sources)
        }
        (Tf32, F32) => to_tf32(select, ptx)?,
        (E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | E2m1x2, F32) => {
            let sources = [select.source(ptx.operand(1), F32)?, select.source(ptx.operand(2), F32)?];
            let template = format!("F2FP.SATFINITE{relu}.{}.F32.PACK_AB_MERGE_C $, {{}}, {{}}, RZ", element_name(to));
            select.b.define(Class::R, &template, &sources)
        }
        (E4m3x2 | E5m2x2, F16x2) => {
            let source = select.source(ptx.operand(1), from)?;
            let template = format!("F2FP.SATFINITE{relu}.{}.F16.UNPACK_B_MERGE_C $, {{}}, RZ", element_name(to));
            select.b.define(Class::R, &template, &[source])
        }
        (F16x2, E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | E2m1x2) => {
            let source = select.source(ptx.operand(1), from)?;
            let template = format!("F2FP{relu}.F16.{}.UNPACK_B $, {{}}", element_name(from));
            select.b.define(Class::R, &template, &[source])
        }
        (Ue8m0x2, F32) => {
            let sources = [select.source(ptx.operand(1), F32)?, select.source(ptx.operand(2), F32)?];
            let template = format!("F2FP{}.E8.F32.PACK_AB_MERGE_C{} $, {{}}, {{}}, RZ", saturation(ptx), rounding(ptx));
            select.b.define(Class::R, &template, &sources)
        }
        (Ue8m0x2, Bf16x2) => {
            let source = select.source(ptx.operand(1), from)?;
            let template = format!("F2FP{}.E8.BF16.UNPACK_B_MERGE_C{} $, {{}}, RZ", saturation(ptx), rounding(ptx));
            select.b.define(Class::R, &template, &[source])
        }
        (Bf16x2, Ue8m0x2) => {
            let source = select.source(ptx.operand(1), from)?;
            select.b.define(Class::R, "F2FP.BF16.E8.UNPACK_B $, {}", &[source])
        }
        _ => return select.unsupported(ptx),
    };
    select.assign(ptx.operand(0), value)
}

/// Selects stochastic rounding (`.rs`); the last operand holds the random bits. A conversion of four elements is two instructions. The
/// third source of the first one holds the random bits, that of the second one the result of the first.
fn stochastic(select: &mut Select<'_>, ptx: &Ptx<'_>, to: ScalarType, from: ScalarType) -> Result<Operand, Unsupported> {
    use ScalarType::{B32, Bf16x2, E2m1x4, E2m3x4, E3m2x4, E4m3x4, E5m2x4, F16x2, F32};
    match (to, from) {
        (F16x2 | Bf16x2, F32) => {
            let sources = [select.source(ptx.operand(1), F32)?, select.source(ptx.operand(2), F32)?, select.source(ptx.operand(3), B32)?];
            let template = format!("{}.RS $, {{}}, {{}}, {{}}", packing_name(select, ptx, to));
            Ok(select.b.define(Class::R, &template, &sources))
        }
        (E4m3x4 | E5m2x4 | E2m3x4 | E3m2x4 | E2m1x4, F32) => {
            let relu = if ptx.has(Modifier::Relu) { ".RELU" } else { "" };
            let template = format!("F2FP.SATFINITE{relu}.{}.F32.PACK_AB_MERGE_C.RS $, {{}}, {{}}, {{}}", element_name(to));
            let mut merged = select.source(ptx.operand(2), B32)?;
            for pair in select.elements(ptx.operand(1)).chunks_exact(2) {
                let sources = [select.source(pair[0], F32)?, select.source(pair[1], F32)?, merged];
                merged = select.b.define(Class::R, &template, &sources);
            }
            Ok(merged)
        }
        _ => select.unsupported(ptx),
    }
}

/// Returns the modifier for `.satfinite`; empty if the instruction does not have it.
fn saturation(ptx: &Ptx<'_>) -> &'static str {
    if ptx.has(Modifier::Satfinite) { ".SATFINITE" } else { "" }
}

/// Returns the element format of a packed type, for example `E4M3` for `e4m3x2`.
fn element_name(ty: ScalarType) -> String {
    let name = ty.spelling();
    name.split_once('x').map_or(name, |(element, _)| element).to_uppercase()
}

/// Selects a conversion from f32 to tf32.
fn to_tf32(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<Operand, Unsupported> {
    // The largest finite tf32 number.
    const GREATEST: u32 = 0x7f7f_e000;
    let source = select.source(ptx.operand(1), ScalarType::F32)?;
    if !ptx.has(Modifier::Rna) {
        let saturation = saturation(ptx);
        let relu = if ptx.has(Modifier::Relu) { ".RELU" } else { "" };
        let template = format!("F2FP{saturation}{relu}.TF32.F32.PACK_B{} $, {{}}", rounding(ptx));
        return Ok(select.b.define(Class::R, &template, &[source]));
    }
    let rounded = select.expand("cvt_rna_tf32_f32", &[source])?[0];
    if !ptx.has(Modifier::Satfinite) {
        return Ok(rounded);
    }
    let magnitude = select.b.define(Class::R, "LOP3.LUT $, {}, 0x7fffffff, RZ, 0xc0, !PT", &[rounded]);
    let is_infinite = select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, 0x7f800000, PT", &[magnitude]);
    let greatest = select.b.define(Class::R, "LOP3.LUT $, {}, 0x80000000, {}, 0xea, !PT", &[rounded, GREATEST.into()]);
    Ok(select.b.define(Class::R, "SEL $, {}, {}, {}", &[greatest, rounded, is_infinite]))
}
