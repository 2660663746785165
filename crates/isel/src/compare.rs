//! Comparisons and selections of every type: `setp`, `set`, `selp`, `slct`.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// The comparison of a `setp` or `set` instruction.
struct ComparisonForm {
    /// The type of the sources.
    ty: ScalarType,
    /// The machine's modifier for the relation.
    relation: &'static str,
    /// `.FTZ` or nothing.
    flush: &'static str,
    /// The operation that combines the result with the predicate `with`: `AND`, `OR` or `XOR`.
    operation: &'static str,
    /// The predicate to combine the result with; PT if there is none.
    with: Operand,
}

impl ComparisonForm {
    /// Reads the comparison from the modifiers of an instruction.
    fn of(select: &mut Select<'_>, ptx: &Ptx<'_>, ty: ScalarType) -> Result<ComparisonForm, Unsupported> {
        let Some(relation) = ptx.get(Slot::Cmp).and_then(relation) else { return select.unsupported(ptx) };
        let operation = match ptx.get(Slot::Bool) {
            Some(Modifier::Or) => "OR",
            Some(Modifier::Xor) => "XOR",
            _ => "AND",
        };
        let with = if ptx.get(Slot::Bool).is_some() { select.predicate(ptx.operand(3))? } else { Operand::PT };
        let flush = if ptx.has(Modifier::Ftz) { ".FTZ" } else { "" };
        Ok(ComparisonForm { ty, relation, flush, operation, with })
    }

    /// Emits the comparison of two sources of up to 64 bits; returns the predicate.
    fn predicate(&self, select: &mut Select<'_>, a: ast::Operand, b: ast::Operand) -> Result<Operand, Unsupported> {
        let &ComparisonForm { ty, relation, flush, operation, with } = self;
        match ty {
            ScalarType::F32 => {
                let sources = [select.source(a, ty)?, select.source(b, ty)?, with];
                let template = format!("FSETP.{relation}{flush}.{operation} $, PT, {{}}, {{}}, {{}}");
                Ok(select.b.define(Class::P, &template, &sources))
            }
            ScalarType::F64 => {
                let sources = [select.wide_source(a, ty)?, select.wide_source(b, ty)?, with];
                let template = format!("DSETP.{relation}.{operation} $, PT, {{}}, {{}}, {{}}");
                Ok(select.b.define(Class::P, &template, &sources))
            }
            ScalarType::F16 | ScalarType::Bf16 => {
                let sources = [select.source(a, ty)?, select.source(b, ty)?, with];
                let format = self.half_format();
                let template = format!("HSETP2{format}.{relation}{flush}.{operation} $, PT, {{}}.H0_H0, {{}}.H0_H0, {{}}");
                Ok(select.b.define(Class::P, &template, &sources))
            }
            _ if ty.bits() == 64 => {
                let (a, b) = (select.halves(a, ty)?, select.halves(b, ty)?);
                Ok(select.compare_pairs_and(relation, ty.is_signed(), a, b, operation, with))
            }
            _ => {
                let (a, b) = (select.extended(a, ty)?, select.extended(b, ty)?);
                Ok(select.compare_words_and(relation, ty.is_signed(), a, b, operation, with))
            }
        }
    }

    fn half_format(&self) -> &'static str {
        if matches!(self.ty, ScalarType::Bf16 | ScalarType::Bf16x2) { ".BF16_V2" } else { "" }
    }
}

/// Returns the machine's modifier for a relation. PTX has separate names for unsigned relations; the machine takes the signedness from the
/// type modifier.
fn relation(modifier: Modifier) -> Option<&'static str> {
    Some(match modifier {
        Modifier::Eq => "EQ",
        Modifier::Ne => "NE",
        Modifier::Lt | Modifier::Lo => "LT",
        Modifier::Le | Modifier::Ls => "LE",
        Modifier::Gt | Modifier::Hi => "GT",
        Modifier::Ge | Modifier::Hs => "GE",
        Modifier::Equ => "EQU",
        Modifier::Neu => "NEU",
        Modifier::Ltu => "LTU",
        Modifier::Leu => "LEU",
        Modifier::Gtu => "GTU",
        Modifier::Geu => "GEU",
        Modifier::Num => "NUM",
        Modifier::Nan => "NAN",
        _ => return None,
    })
}

/// Returns the types among an instruction's modifiers, in order.
fn types(ptx: &Ptx<'_>) -> impl DoubleEndedIterator<Item = ScalarType> {
    let types: Vec<ScalarType> = ptx.form.modifiers.iter().filter_map(|value| value.modifier.scalar_type()).collect();
    types.into_iter()
}

fn is_packed(ty: ScalarType) -> bool {
    matches!(ty, ScalarType::F16x2 | ScalarType::Bf16x2)
}

/// Selects `setp`.
pub(crate) fn set_predicate(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let comparison = ComparisonForm::of(select, ptx, ptx.ty())?;
    let (first, second) = select.split_pair(ptx.operand(0));
    if is_packed(comparison.ty) {
        let sources = [select.source(ptx.operand(1), comparison.ty)?, select.source(ptx.operand(2), comparison.ty)?, comparison.with];
        let ComparisonForm { relation, flush, operation, .. } = comparison;
        let format = comparison.half_format();
        let template = format!("HSETP2{format}.{relation}{flush}.{operation} $, $, {{}}, {{}}, {{}}");
        let (low, high) = select.b.define_two([Class::P, Class::P], &template, &sources);
        select.assign(first, low)?;
        return select.assign(second, high);
    }
    let holds = comparison.predicate(select, ptx.operand(1), ptx.operand(2))?;
    // The second result is `BoolOp(!comparison, with)`. It can be computed from the first result: where `with` alone decides, both results
    // are equal; elsewhere the second is the inverse of the first.
    let opposite = match (second, comparison.operation) {
        (ast::Operand::Sink, _) => None,
        (_, "AND") => Some(select.predicate_logic(0b0010, holds, comparison.with)),
        (_, "OR") => Some(select.predicate_logic(0b1011, holds, comparison.with)),
        _ => Some(select.predicate_logic(0b0011, holds, Operand::PT)),
    };
    select.assign(first, holds)?;
    opposite.map_or(Ok(()), |opposite| select.assign(second, opposite))
}

/// Selects `set`.
pub(crate) fn set(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (Some(to), Some(from)) = (types(ptx).next(), types(ptx).next_back()) else { return select.unsupported(ptx) };
    let comparison = ComparisonForm::of(select, ptx, from)?;
    if is_packed(from) {
        let sources = [select.source(ptx.operand(1), from)?, select.source(ptx.operand(2), from)?, comparison.with];
        let ComparisonForm { relation, flush, operation, .. } = comparison;
        let (format, one) = (comparison.half_format(), if is_packed(to) { ".BF" } else { "" });
        let template = format!("HSET2{format}{one}.{relation}{flush}.{operation} $, {{}}, {{}}, {{}}");
        let halves = select.b.define(Class::R, &template, &sources);
        return select.assign(ptx.operand(0), halves);
    }
    let holds = comparison.predicate(select, ptx.operand(1), ptx.operand(2))?;
    let one: u32 = match to {
        ScalarType::F32 => 1.0_f32.to_bits(),
        ScalarType::F16 => half::f16::ONE.to_bits().into(),
        ScalarType::Bf16 => half::bf16::ONE.to_bits().into(),
        _ => u32::MAX,
    };
    let result = select.select_by_predicate(holds, one.into(), Operand::RZ);
    select.assign(ptx.operand(0), result)
}

/// Selects `selp`.
pub(crate) fn select_by_predicate(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let predicate = select.predicate(ptx.operand(3))?;
    choose(select, ptx, ptx.ty(), predicate)
}

/// Selects `slct`: the first source where the third is greater than or equal to zero, otherwise the second.
pub(crate) fn select_by_sign(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (Some(ty), Some(by)) = (types(ptx).next(), types(ptx).next_back()) else { return select.unsupported(ptx) };
    let sign = select.source(ptx.operand(3), by)?;
    let template = match (by, ptx.has(Modifier::Ftz)) {
        (ScalarType::F32, true) => "FSETP.GE.FTZ.AND $, PT, {}, RZ, PT",
        (ScalarType::F32, false) => "FSETP.GE.AND $, PT, {}, RZ, PT",
        _ => "ISETP.GE.AND $, PT, {}, RZ, PT",
    };
    let predicate = select.b.define(Class::P, template, &[sign]);
    choose(select, ptx, ty, predicate)
}

/// Emits the selection between operands 1 and 2.
fn choose(select: &mut Select<'_>, ptx: &Ptx<'_>, ty: ScalarType, predicate: Operand) -> Result<(), Unsupported> {
    let (a, b) = (select.words(ptx.operand(1), ty)?, select.words(ptx.operand(2), ty)?);
    let words: Vec<Operand> = a.into_iter().zip(b).map(|(a, b)| select.select_by_predicate(predicate, a, b)).collect();
    select.assign_words(ptx.operand(0), &words)
}
