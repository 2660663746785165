//! Single and double precision: arithmetic, approximations, minimum and maximum, signs, classification.
//!
//! An operation that the machine supports is one instruction. IEEE division and square roots, and approximations that keep subnormal
//! numbers, are library functions. Adding a negative zero (`FADD x, -RZ`) leaves every value unchanged; this is used to apply a sign
//! operand modifier, and to flush subnormals with `.FTZ`.

use oriole_ir::{Class, Opcode as Machine, Operand};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::float_modifiers::{allow_contraction, negated_if_sub, rounding, suffix};
use crate::half;
use crate::ptx::Ptx;

/// Returns whether the floating-point handlers select instructions of this type.
pub(crate) fn is_float(ty: ScalarType) -> bool {
    use ScalarType::{Bf16, Bf16x2, F16, F16x2, F32, F32x2, F64};
    matches!(ty, F16 | F16x2 | Bf16 | Bf16x2 | F32 | F32x2 | F64)
}

/// Selects `add`, `sub`, `mul`.
pub(crate) fn arithmetic(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    match ty {
        ScalarType::F64 => {
            let (a, b) = (select.wide_source(ptx.operand(1), ty)?, select.wide_source(ptx.operand(2), ty)?);
            let template = format!("{}{} $, {{}}, {{}}", if ptx.opcode() == Opcode::Mul { "DMUL" } else { "DADD" }, rounding(ptx));
            let result = select.b.define(Class::R2, &template, &[a, negated_if_sub(ptx, b)]);
            allow_contraction(select, ptx);
            select.assign(ptx.operand(0), result)
        }
        ScalarType::F32x2 => pairwise(select, ptx),
        ScalarType::F32 if ptx.has(Modifier::F16) || ptx.has(Modifier::Bf16) => mixed_precision(select, ptx),
        ScalarType::F32 => {
            let (a, b) = (select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?);
            let template = format!("{}{} $, {{}}, {{}}", single_name(ptx), suffix(ptx));
            let result = select.b.define(Class::R, &template, &[a, negated_if_sub(ptx, b)]);
            allow_contraction(select, ptx);
            select.assign(ptx.operand(0), result)
        }
        _ => half::arithmetic(select, ptx),
    }
}

fn single_name(ptx: &Ptx<'_>) -> &'static str {
    match ptx.opcode() {
        Opcode::Mul => "FMUL",
        Opcode::Fma | Opcode::Mad => "FFMA",
        _ => "FADD",
    }
}

/// Selects `fma`, `mad`.
pub(crate) fn fused(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    match ty {
        ScalarType::F64 => {
            let sources =
                [select.wide_source(ptx.operand(1), ty)?, select.wide_source(ptx.operand(2), ty)?, select.wide_source(ptx.operand(3), ty)?];
            let result = select.b.define(Class::R2, &format!("DFMA{} $, {{}}, {{}}, {{}}", rounding(ptx)), &sources);
            select.assign(ptx.operand(0), result)
        }
        ScalarType::F32x2 => pairwise(select, ptx),
        ScalarType::F32 if ptx.has(Modifier::F16) || ptx.has(Modifier::Bf16) => mixed_precision(select, ptx),
        ScalarType::F32 => {
            let sources = [select.source(ptx.operand(1), ty)?, select.source(ptx.operand(2), ty)?, select.source(ptx.operand(3), ty)?];
            let result = select.b.define(Class::R, &format!("FFMA{} $, {{}}, {{}}, {{}}", suffix(ptx)), &sources);
            select.assign(ptx.operand(0), result)
        }
        _ => half::fused(select, ptx),
    }
}

/// Selects an operation on two singles: one instruction on machines that have it, otherwise two.
fn pairwise(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut sources = Vec::new();
    for position in 1..ptx.operands.len() {
        sources.push(select.wide_source(ptx.operand(position), ScalarType::B64)?);
    }
    if let Some(last) = sources.last_mut() {
        *last = negated_if_sub(ptx, *last);
    }
    let name = single_name(ptx);
    let holes = |suffix: &str| vec![format!("{{}}{suffix}"); sources.len()].join(", ");
    if Machine::FADD2.exists_on(select.target) {
        let template = format!("{name}2{} $, {}", suffix(ptx), holes(".F32x2.HI_LO"));
        let result = select.b.define(Class::R2, &template, &sources);
        allow_contraction(select, ptx);
        return select.assign(ptx.operand(0), result);
    }
    let template = format!("{name}{} $, {}", suffix(ptx), holes(""));
    let halves: Vec<Operand> = (0..2)
        .map(|index| {
            let parts: Vec<Operand> = sources.iter().map(|source| select.register_of(*source, index)).collect();
            let half = select.b.define(Class::R, &template, &parts);
            allow_contraction(select, ptx);
            half
        })
        .collect();
    select.assign_halves(ptx.operand(0), halves[0], halves[1])
}

/// Selects an operation whose factors or first summand are in half precision, and whose last source and result are in single precision.
fn mixed_precision(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let narrow = if ptx.has(Modifier::Bf16) { ScalarType::Bf16 } else { ScalarType::F16 };
    let format = if narrow == ScalarType::Bf16 { ".BF16" } else { "" };
    let last = ptx.operands.len() - 1;
    let mut sources = Vec::new();
    for position in 1..last {
        let source = select.source(ptx.operand(position), narrow)?;
        sources.push(select.in_register(source));
    }
    let summand = select.source(ptx.operand(last), ScalarType::F32)?;
    sources.push(negated_if_sub(ptx, summand));
    let result = if Machine::FHADD.exists_on(select.target) {
        let name = if ptx.opcode() == Opcode::Fma { "FHFMA" } else { "FHADD" };
        let holes = vec!["{}"; sources.len()].join(", ");
        select.b.define(Class::R, &format!("{name}{format}{} $, {holes}", suffix(ptx)), &sources)
    } else {
        let widened: Vec<Operand> = sources[..sources.len() - 1]
            .iter()
            .map(|&source| half::to_single(select, source, narrow))
            .chain([sources[sources.len() - 1]])
            .collect();
        let holes = vec!["{}"; widened.len()].join(", ");
        select.b.define(Class::R, &format!("{}{} $, {holes}", single_name(ptx), suffix(ptx)), &widened)
    };
    select.assign(ptx.operand(0), result)
}

/// Selects `abs`, `neg`.
pub(crate) fn sign(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let change = |operand: Operand| if ptx.opcode() == Opcode::Abs { operand.absolute() } else { operand.negated() };
    match ty {
        ScalarType::F64 => {
            let source = select.wide_source(ptx.operand(1), ty)?;
            let high = select.high(source);
            let (table, mask) = if ptx.opcode() == Opcode::Abs { (0xc0, 0x7fff_ffff_u32) } else { (0x3c, 0x8000_0000) };
            let template = format!("LOP3.LUT $, {{}}, {{}}, RZ, {table:#x}, !PT");
            let changed = select.b.define(Class::R, &template, &[high, mask.into()]);
            let low = select.low(source);
            select.assign_halves(ptx.operand(0), low, changed)
        }
        ScalarType::F32 => {
            let source = select.source(ptx.operand(1), ty)?;
            let source = select.in_register(source);
            let result = select.b.define(Class::R, &format!("FADD{} $, {{}}, -RZ", suffix(ptx)), &[change(source)]);
            select.assign(ptx.operand(0), result)
        }
        _ => half::sign(select, ptx),
    }
}

/// Emits the minimum or the maximum of two doubles. Returns the halves of the result. `DSETP.MIN` and `DSETP.MAX` compute two predicates:
/// whether the result is the first operand, and whether both operands are NaN; then the result is the second one with the bit of quiet NaNs
/// set. `has_number` says that one of the operands is known to be a number.
pub(crate) fn extremum_double(select: &mut Select<'_>, is_minimum: bool, [a, b]: [Operand; 2], has_number: bool) -> [Operand; 2] {
    const QUIET: u32 = 1 << 19;
    let name = if is_minimum { "MIN" } else { "MAX" };
    let (takes_first, both_nan) = select.b.define_two([Class::P, Class::P], &format!("DSETP.{name}.AND $, $, {{}}, {{}}, PT"), &[a, b]);
    let mut half = |index: u8| {
        let halves = [select.register_of(a, index), select.register_of(b, index), takes_first];
        select.b.define(Class::R, "SEL $, {}, {}, {}", &halves)
    };
    let (low, high) = (half(0), half(1));
    if has_number {
        return [low, high];
    }
    let quiet = select.b.define(Class::R, "LOP3.LUT $, {}, {}, RZ, 0xfc, !PT", &[select.high(b), QUIET.into()]);
    [low, select.b.define(Class::R, "SEL $, {}, {}, {}", &[quiet, high, both_nan])]
}

/// Selects `min`, `max`.
pub(crate) fn min_max(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    match ty {
        ScalarType::F64 => {
            let is_number = |bits: u64| !f64::from_bits(bits).is_nan();
            let has_number = [1, 2].into_iter().any(|position| select.literal(ptx.operand(position), ty).is_some_and(is_number));
            let arguments = [select.wide_source(ptx.operand(1), ty)?, select.wide_source(ptx.operand(2), ty)?];
            let [low, high] = extremum_double(select, ptx.opcode() == Opcode::Min, arguments, has_number);
            select.assign_halves(ptx.operand(0), low, high)
        }
        ScalarType::F32 => {
            let mut sources = Vec::new();
            for position in 1..ptx.operands.len() {
                let source = select.source(ptx.operand(position), ty)?;
                sources.push(if ptx.has(Modifier::Abs) { select.in_register(source).absolute() } else { source });
            }
            let result = extremum_single(select, ptx, &sources);
            select.assign(ptx.operand(0), result)
        }
        _ => half::min_max(select, ptx),
    }
}

/// Emits the minimum or maximum of two or three singles.
fn extremum_single(select: &mut Select<'_>, ptx: &Ptx<'_>, sources: &[Operand]) -> Operand {
    let which = if ptx.opcode() == Opcode::Min { "PT" } else { "!PT" };
    let ftz = if ptx.has(Modifier::Ftz) { ".FTZ" } else { "" };
    let nan = if ptx.has(Modifier::NaN) { ".NAN" } else { "" };
    let xorsign = if ptx.has(Modifier::Xorsign) { ".XORSIGN" } else { "" };
    if sources.len() == 3 && Machine::FMNMX3.exists_on(select.target) {
        return select.b.define(Class::R, &format!("FMNMX3{ftz}{nan} $, {{}}, {{}}, {{}}, {which}"), sources);
    }
    let template = format!("FMNMX{ftz}{nan}{xorsign} $, {{}}, {{}}, {which}");
    sources[1..].iter().fold(sources[0], |result, &source| select.b.define(Class::R, &template, &[result, source]))
}

/// Selects `copysign`: the sign of the first source, the other bits of the second.
pub(crate) fn copy_sign(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    const SIGN: u32 = 0x8000_0000;
    // The table 0xb8 computes `(magnitude & !SIGN) | (sign & SIGN)`.
    let template = "LOP3.LUT $, {}, {}, {}, 0xb8, !PT";
    if ptx.ty() == ScalarType::F64 {
        let (sign, magnitude) =
            (select.wide_source(ptx.operand(1), ScalarType::F64)?, select.wide_source(ptx.operand(2), ScalarType::F64)?);
        let high = select.b.define(Class::R, template, &[select.high(magnitude), SIGN.into(), select.high(sign)]);
        let low = select.low(magnitude);
        return select.assign_halves(ptx.operand(0), low, high);
    }
    let (sign, magnitude) = (select.source(ptx.operand(1), ScalarType::F32)?, select.source(ptx.operand(2), ScalarType::F32)?);
    let result = select.b.define(Class::R, template, &[magnitude, SIGN.into(), sign]);
    select.assign(ptx.operand(0), result)
}

/// Selects `div`.
pub(crate) fn divide(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if let Some(reciprocal) = constant_reciprocal(select, ptx) {
        let dividend = select.source(ptx.operand(1), ty)?;
        let quotient = select.b.define(Class::R, &format!("FMUL{} $, {{}}, {{}}", suffix(ptx)), &[dividend, reciprocal.to_bits().into()]);
        select.b.allow_contraction();
        return select.assign(ptx.operand(0), quotient);
    }
    let arguments = [select.source_of_any_width(ptx.operand(1), ty)?, select.source_of_any_width(ptx.operand(2), ty)?];
    let result = select.expand_repeated(&library_name("div", ptx), ptx, &arguments)?;
    select.assign(ptx.operand(0), result[0])
}

/// Returns the rounded reciprocal of the divisor of `div.approx.f32` and `div.full.f32`, if the divisor is a literal with a normal reciprocal. The
/// product with it is within 1.5 units in the last place of the quotient; PTX allows 2. ptxas multiplies by the same number.
fn constant_reciprocal(select: &Select<'_>, ptx: &Ptx<'_>) -> Option<f32> {
    /// The largest number whose reciprocal is normal: 2^126.
    const LARGEST: f32 = f32::from_bits(0x7e80_0000);
    let is_approximate = ptx.has(Modifier::Approx) || ptx.has(Modifier::Full);
    let bits = select.literal(ptx.operand(2), ScalarType::F32).filter(|_| is_approximate && ptx.ty() == ScalarType::F32)?;
    let divisor = f32::from_bits(bits as u32);
    (divisor.is_normal() && divisor.abs() <= LARGEST).then(|| 1.0 / divisor)
}

/// Selects `rcp`, `sqrt`, `rsqrt`, `sin`, `cos`, `lg2`, `ex2`, `tanh`.
pub(crate) fn function(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    match ty {
        ScalarType::F64 => double_function(select, ptx),
        ScalarType::F32 => {
            let source = select.source(ptx.operand(1), ty)?;
            let result = single_function(select, ptx, source)?;
            select.assign(ptx.operand(0), result)
        }
        _ => half::function(select, ptx),
    }
}

/// Emits an approximation or an exact function of a single; returns the result.
fn single_function(select: &mut Select<'_>, ptx: &Ptx<'_>, source: Operand) -> Result<Operand, Unsupported> {
    /// 1 / (2 * pi): the arguments of `MUFU.SIN` and `MUFU.COS` are in turns, not in radians.
    const PER_TURN: u32 = 0x3e22_f983;
    let (name, unit) = match ptx.opcode() {
        Opcode::Sin | Opcode::Cos => {
            let turns = select.b.define(Class::R, "FMUL.RZ $, {}, {}", &[source, PER_TURN.into()]);
            let template = if ptx.opcode() == Opcode::Sin { "MUFU.SIN $, {}" } else { "MUFU.COS $, {}" };
            return Ok(select.b.define(Class::R, template, &[turns]));
        }
        Opcode::Tanh => return Ok(select.b.define(Class::R, "MUFU.TANH $, {}", &[source])),
        Opcode::Rcp => ("rcp", "RCP"),
        Opcode::Sqrt => ("sqrt", "SQRT"),
        Opcode::Rsqrt => ("rsqrt", "RSQ"),
        Opcode::Lg2 => ("lg2", "LG2"),
        Opcode::Ex2 => ("ex2", "EX2"),
        _ => return select.unsupported(ptx),
    };
    if ptx.has(Modifier::Approx) && ptx.has(Modifier::Ftz) {
        return Ok(select.b.define(Class::R, &format!("MUFU.{unit} $, {{}}"), &[source]));
    }
    select.expand_repeated(&library_name(name, ptx), ptx, &[source]).map(|results| results[0])
}

/// Selects a function of a double. The approximations compute the upper half only; the lower half of the result is zero.
fn double_function(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let source = select.wide_source(ptx.operand(1), ScalarType::F64)?;
    let (name, unit) = match ptx.opcode() {
        Opcode::Rcp => ("rcp", "MUFU.RCP64H $, {}"),
        Opcode::Sqrt => ("sqrt", ""),
        Opcode::Rsqrt => ("rsqrt", "MUFU.RSQ64H $, {}"),
        _ => return select.unsupported(ptx),
    };
    if ptx.has(Modifier::Approx) && ptx.has(Modifier::Ftz) {
        let high = select.b.define(Class::R, unit, &[select.high(source)]);
        return select.assign_halves(ptx.operand(0), Operand::RZ, high);
    }
    let result = select.expand_repeated(&library_name(name, ptx), ptx, &[source])?;
    select.assign(ptx.operand(0), result[0])
}

/// Returns the name of a library function: operation, rounding or precision, `ftz`, type; for example `div_rn_ftz_f32`.
fn library_name(operation: &str, ptx: &Ptx<'_>) -> String {
    let kinds = [Modifier::Approx, Modifier::Full, Modifier::Rn, Modifier::Rz, Modifier::Rm, Modifier::Rp];
    let kind = kinds.into_iter().find(|&kind| ptx.has(kind)).map_or("rn", |kind| kind.spelling().trim_start_matches('.'));
    let ftz = if ptx.has(Modifier::Ftz) { "_ftz" } else { "" };
    format!("{operation}_{kind}{ftz}_{}", ptx.ty().spelling())
}

/// Selects `testp`.
pub(crate) fn test_class(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let is_double = ptx.ty() == ScalarType::F64;
    let source = select.source_of_any_width(ptx.operand(1), ptx.ty())?;
    let top = if is_double { select.high(source) } else { source };
    let magnitude = select.b.define(Class::R, "LOP3.LUT $, {}, 0x7fffffff, RZ, 0xc0, !PT", &[top]);
    let low = select.low(source);
    let (infinity, normal) = if is_double { (0x7ff0_0000_u32, 0x10_0000_u32) } else { (0x7f80_0000, 0x80_0000) };
    // Emits a comparison of the magnitude with a bound whose lower 32 bits are zero.
    let mut compare = |operator: &str, bound: u32, and: Operand| {
        if !is_double {
            let template = format!("ISETP.{operator}.U32.AND $, PT, {{}}, {{}}, {{}}");
            return select.b.define(Class::P, &template, &[magnitude, bound.into(), and]);
        }
        let template = format!("ISETP.{operator}.U32.AND $, PT, {{}}, RZ, PT");
        let lower = select.b.define(Class::P, &template, &[low]);
        let template = format!("ISETP.{operator}.U32.AND.EX $, PT, {{}}, {{}}, {{}}, {{}}");
        select.b.define(Class::P, &template, &[magnitude, bound.into(), and, lower])
    };
    let result = if ptx.has(Modifier::Finite) {
        compare("LT", infinity, Operand::PT)
    } else if ptx.has(Modifier::Infinite) {
        compare("EQ", infinity, Operand::PT)
    } else if ptx.has(Modifier::Number) {
        compare("LE", infinity, Operand::PT)
    } else if ptx.has(Modifier::Notanumber) {
        compare("GT", infinity, Operand::PT)
    } else if ptx.has(Modifier::Normal) {
        // `testp.normal` also holds for zero.
        let below = compare("LT", infinity, Operand::PT);
        let is_large = compare("GE", normal, below);
        let is_zero = compare("EQ", 0, Operand::PT);
        select.b.define(Class::P, "PLOP3.LUT $, PT, {}, {}, PT, 0xa8, 0x0", &[is_large, is_zero])
    } else {
        let below = compare("LT", normal, Operand::PT);
        compare("GT", 0, below)
    };
    select.assign(ptx.operand(0), result)
}
