//! Integer `min` and `max`, also on packed 16-bit halves.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// The contents of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Signed,
    Unsigned,
    SignedHalves,
    UnsignedHalves,
}

/// Selects `min`, `max`.
pub(crate) fn min_max(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let is_max = ptx.opcode() == Opcode::Max;
    let has_relu = ptx.has(Modifier::Relu);
    if ty.bits() == 64 {
        let (a, b) = (select.halves(ptx.operand(1), ty)?, select.halves(ptx.operand(2), ty)?);
        let comparison = if is_max { "GT" } else { "LT" };
        let takes_first = select.compare_pairs(comparison, ty.is_signed(), a, b);
        let chosen = select.select_pair_by_predicate(takes_first, a, b);
        return select.assign_words(ptx.operand(0), &chosen);
    }
    let packing = match ty {
        ScalarType::S16x2 => Packing::SignedHalves,
        ScalarType::U16x2 => Packing::UnsignedHalves,
        _ if ty.is_signed() => Packing::Signed,
        _ => Packing::Unsigned,
    };
    let (a, b) = (select.extended(ptx.operand(1), ty)?, select.extended(ptx.operand(2), ty)?);
    let chosen = smaller_or_greater(select, packing, is_max, has_relu, a, b);
    select.assign(ptx.operand(0), chosen)
}

/// Emits the minimum or maximum of two words or of their halves; with `relu` a negative result becomes zero.
pub(crate) fn smaller_or_greater(select: &mut Select<'_>, packing: Packing, is_max: bool, relu: bool, a: Operand, b: Operand) -> Operand {
    let which = if is_max { "!PT" } else { "PT" };
    let names_sign = select.encodes("VIMNMX.S32 R0, R0, R0, PT");
    let ty = match packing {
        Packing::Signed if names_sign => ".S32",
        Packing::Signed => "",
        Packing::Unsigned => ".U32",
        Packing::SignedHalves => ".S16x2",
        Packing::UnsignedHalves => ".U16x2",
    };
    let clamp = if relu { ".RELU" } else { "" };
    if select.encodes("VIMNMX R0, PT, PT, R0, R0, PT") {
        return select.b.define(Class::R, &format!("VIMNMX{ty}{clamp} $, PT, PT, {{}}, {{}}, {which}"), &[a, b]);
    }
    if names_sign || select.encodes("VIMNMX R0, R0, R0, PT") {
        return select.b.define(Class::R, &format!("VIMNMX{ty}{clamp} $, {{}}, {{}}, {which}"), &[a, b]);
    }
    match packing {
        Packing::Signed | Packing::Unsigned => {
            let chosen = one_of_words(select, packing, is_max, a, b);
            if relu { one_of_words(select, Packing::Signed, true, chosen, Operand::RZ) } else { chosen }
        }
        Packing::SignedHalves | Packing::UnsignedHalves => by_halves(select, packing, is_max, relu, a, b),
    }
}

/// Emits the minimum or maximum of two words with `IMNMX`, or with a comparison if the target does not have it.
fn one_of_words(select: &mut Select<'_>, packing: Packing, is_max: bool, a: Operand, b: Operand) -> Operand {
    let ty = if packing == Packing::Unsigned { ".U32" } else { "" };
    if select.encodes("IMNMX R0, R0, R0, PT") {
        let which = if is_max { "!PT" } else { "PT" };
        return select.b.define(Class::R, &format!("IMNMX{ty} $, {{}}, {{}}, {which}"), &[a, b]);
    }
    let comparison = if is_max { "GT" } else { "LT" };
    let takes_first = select.b.define(Class::P, &format!("ISETP.{comparison}{ty}.AND $, PT, {{}}, {{}}, PT"), &[a, b]);
    select.b.define(Class::R, "SEL $, {}, {}, {}", &[a, b, takes_first])
}

/// Emits the operation on each 16-bit half separately, for targets without packed instructions.
fn by_halves(select: &mut Select<'_>, packing: Packing, is_max: bool, relu: bool, a: Operand, b: Operand) -> Operand {
    let (single, bytes) = match packing {
        Packing::SignedHalves => (Packing::Signed, [0x9910_u32, 0xbb32]),
        _ => (Packing::Unsigned, [0x7710, 0x7732]),
    };
    let halves = bytes.map(|bytes| {
        let [a, b] = [a, b].map(|word| select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, bytes.into()]));
        smaller_or_greater(select, single, is_max, relu, a, b)
    });
    select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &halves)
}
