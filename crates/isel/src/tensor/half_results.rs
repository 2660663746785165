//! Matrices of f16 results: conversion from and to f32, and `.satfinite`.

use oriole_ir::{Class, Operand};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::half;

/// Bits of infinity.
pub(super) const INFINITY: u32 = 0x7f80_0000;

pub(super) const HALF_INFINITY: u32 = 0x7c00;

/// Replaces infinities in a result by the greatest numbers, and NaN by zero: `.satfinite` of floats, which PTX had up to version 6.4. ptxas
/// 13.0 does so on sm_75 only; for later targets it ignores the modifier.
pub(super) fn finite(select: &mut Select<'_>, word: Operand, ty: ScalarType) -> Operand {
    let word = select.in_register(word);
    if ty == ScalarType::F32 {
        return finite_number(select, word, INFINITY, i32::MAX as u32);
    }
    let low = select.bitwise_and(word, 0xffff_u32.into());
    let high = select.shift_right(word, 16_u32.into(), false);
    let [low, high] = [low, high].map(|half| finite_number(select, half, HALF_INFINITY, i16::MAX as u32));
    select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[low, high])
}

/// Replaces an infinity by the number before it, and NaN by zero. `magnitude` masks the sign.
pub(super) fn finite_number(select: &mut Select<'_>, number: Operand, infinity: u32, magnitude: u32) -> Operand {
    let size = select.bitwise_and(number, magnitude.into());
    let greatest = select.difference(number, 1_u32.into());
    let is_infinity = select.compare_words("EQ", false, size, infinity.into());
    let clamped = select.select_by_predicate(is_infinity, greatest, number);
    let is_nan = select.compare_words("GT", false, size, infinity.into());
    select.select_by_predicate(is_nan, Operand::RZ, clamped)
}

/// Converts pairs of halves to singles.
pub(super) fn widened(select: &mut Select<'_>, pairs: &[Operand]) -> Vec<Operand> {
    let mut singles = Vec::new();
    for &pair in pairs {
        let pair = select.in_register(pair);
        let upper = select.b.define(Class::R, "PRMT $, {}, 0x7732, RZ", &[pair]);
        singles.extend([pair, upper].map(|half| half::to_single(select, half, ScalarType::F16)));
    }
    singles
}

/// Converts singles to pairs of halves, rounded to the nearest.
pub(super) fn narrowed(select: &mut Select<'_>, singles: &[Operand]) -> Vec<Operand> {
    let pack = ["F2FP.F16.F32.PACK_AB", "F2FP.PACK_AB"].into_iter().find(|name| select.encodes(&format!("{name} R0, R1, R2")));
    let mut pairs = Vec::new();
    for pair in singles.chunks(2) {
        let (low, high) = (pair[0], pair[1]);
        pairs.push(match pack {
            Some(name) => select.b.define(Class::R, &format!("{name} $, {{}}, {{}}"), &[high, low]),
            None => {
                let [low, high] = [low, high].map(|single| select.b.define(Class::R, "F2F.F16.F32 $, {}", &[single]));
                select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[low, high])
            }
        });
    }
    pairs
}
