//! Bitwise logic, shifts, byte permutation.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Selects `and`, `or`, `xor`.
pub(crate) fn binary(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if ty == ScalarType::Pred {
        let (a, b) = (select.predicate(ptx.operand(1))?, select.predicate(ptx.operand(2))?);
        let table = match ptx.opcode() {
            Opcode::And => 0b1000,
            Opcode::Or => 0b1110,
            _ => 0b0110,
        };
        let result = select.predicate_logic(table, a, b);
        return select.assign(ptx.operand(0), result);
    }
    let table = match ptx.opcode() {
        Opcode::And => 0xc0,
        Opcode::Or => 0xfc,
        _ => 0x3c,
    };
    let (a, b) = (select.words(ptx.operand(1), ty)?, select.words(ptx.operand(2), ty)?);
    let words: Vec<Operand> = a.into_iter().zip(b).map(|(a, b)| select.logic(table, a, b, Operand::RZ)).collect();
    select.assign_words(ptx.operand(0), &words)
}

/// Selects `not`.
pub(crate) fn invert(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if ty == ScalarType::Pred {
        let source = select.predicate(ptx.operand(1))?;
        let result = select.predicate_logic(0b0011, source, Operand::PT);
        return select.assign(ptx.operand(0), result);
    }
    let words = select.words(ptx.operand(1), ty)?;
    let words: Vec<Operand> = words.into_iter().map(|word| select.logic(0x33, Operand::RZ, word, Operand::RZ)).collect();
    select.assign_words(ptx.operand(0), &words)
}

/// Selects `cnot`: 1 where the source is zero, 0 elsewhere.
pub(crate) fn is_zero(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let word = if ty.bits() == 64 {
        let [low, high] = select.halves(ptx.operand(1), ty)?;
        select.logic(0xfc, low, high, Operand::RZ)
    } else {
        select.extended(ptx.operand(1), ty)?
    };
    let is_zero = select.compare_words("EQ", false, word, Operand::RZ);
    let result = select.b.define(Class::R, "SEL $, RZ, 0x1, !{}", &[is_zero]);
    select.assign(ptx.operand(0), result)
}

/// Selects `lop3`.
pub(crate) fn any_of_three(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut sources = [Operand::RZ; 3];
    for (number, source) in sources.iter_mut().enumerate() {
        *source = select.source(ptx.operand(number + 1), ScalarType::B32)?;
    }
    let [a, b, c] = sources;
    let table = select.literal(ptx.operand(4), ScalarType::U32).unwrap_or(0) as u8;
    if !ptx.has(Modifier::Or) && !ptx.has(Modifier::And) {
        let result = select.logic(table, a, b, c);
        return select.assign(ptx.operand(0), result);
    }
    let (word, predicate) = select.split_pair(ptx.operand(0));
    let with = select.predicate(ptx.operand(5))?;
    let template = if ptx.has(Modifier::And) { "LOP3.LUT.PAND $, $, {}, {}, {}, {}, {}" } else { "LOP3.LUT $, $, {}, {}, {}, {}, {}" };
    let arguments = [a, b, c, u32::from(table).into(), with];
    let (is_set, result) = select.b.define_two([Class::P, Class::R], template, &arguments);
    select.assign(word, result)?;
    select.assign(predicate, is_set)
}

/// Returns the amount of a shift. Constants are clamped to the width, as the machine clamps register operands.
fn amount(select: &mut Select<'_>, operand: ast::Operand, width: u32) -> Result<Operand, Unsupported> {
    match select.literal(operand, ScalarType::U32) {
        Some(number) => Ok(Operand::from((number as u32).min(width))),
        None => select.source(operand, ScalarType::U32),
    }
}

/// Selects `shl`.
pub(crate) fn shift_left(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let amount = amount(select, ptx.operand(2), ty.bits())?;
    let words = if ty.bits() == 64 {
        let words = select.halves(ptx.operand(1), ty)?;
        select.pair_shift_left(words, amount).to_vec()
    } else {
        let word = select.source(ptx.operand(1), ty)?;
        vec![select.shift_left(word, amount)]
    };
    select.assign_words(ptx.operand(0), &words)
}

/// Selects `shr`.
pub(crate) fn shift_right(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let amount = amount(select, ptx.operand(2), ty.bits())?;
    let words = if ty.bits() == 64 {
        let words = select.halves(ptx.operand(1), ty)?;
        select.pair_shift_right(words, amount, ty.is_signed()).to_vec()
    } else {
        let word = select.extended(ptx.operand(1), ty)?;
        vec![select.shift_right(word, amount, ty.is_signed())]
    };
    select.assign_words(ptx.operand(0), &words)
}

/// Selects `shf`.
pub(crate) fn funnel_shift(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (low, high) = (select.source(ptx.operand(1), ScalarType::B32)?, select.source(ptx.operand(2), ScalarType::B32)?);
    let wraps = ptx.has(Modifier::Wrap);
    let amount = match select.literal(ptx.operand(3), ScalarType::U32) {
        Some(number) if wraps => Operand::from(number as u32 % 32),
        _ => amount(select, ptx.operand(3), 32)?,
    };
    let template = match (ptx.has(Modifier::L), wraps) {
        (true, false) => "SHF.L.U32.HI $, {}, {}, {}",
        (true, true) => "SHF.L.W.U32.HI $, {}, {}, {}",
        (false, false) => "SHF.R.U32 $, {}, {}, {}",
        (false, true) => "SHF.R.W.U32 $, {}, {}, {}",
    };
    let result = select.b.define(Class::R, template, &[low, amount, high]);
    select.assign(ptx.operand(0), result)
}

/// Selects `prmt`.
pub(crate) fn permute_bytes(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let modes = [
        (Modifier::F4e, "PRMT.F4E $, {}, {}, {}"),
        (Modifier::B4e, "PRMT.B4E $, {}, {}, {}"),
        (Modifier::Rc8, "PRMT.RC8 $, {}, {}, {}"),
        (Modifier::Ecl, "PRMT.ECL $, {}, {}, {}"),
        (Modifier::Ecr, "PRMT.ECR $, {}, {}, {}"),
        (Modifier::Rc16, "PRMT.RC16 $, {}, {}, {}"),
    ];
    let template = modes.into_iter().find(|&(mode, _)| ptx.has(mode)).map_or("PRMT $, {}, {}, {}", |(_, template)| template);
    let mut sources = [Operand::RZ; 3];
    for (number, source) in sources.iter_mut().enumerate() {
        *source = select.source(ptx.operand(number + 1), ScalarType::B32)?;
    }
    let [a, b, bytes] = sources;
    let result = select.b.define(Class::R, template, &[a, bytes, b]);
    select.assign(ptx.operand(0), result)
}
