//! `mma` with `.kind::`: products of floats of 4, 6 and 8 bits in any mixture, and products whose matrices have a scale for each block of
//! elements of a row of A or a column of B.
//!
//! Each is one machine instruction: `QMMA` for all formats in bytes, `OMMA` for packed 4-bit elements. A scaled product takes a uniform
//! register with the selectors, which name the threads and the bytes of their registers that hold the scales:
//!
//! ```text
//! bits 0-1  byte of the scales of A        bits 3-4  byte of the scales of B
//! bit  2    pair of threads of A           bits 5-6  thread of B
//! ```
//!
//! A sparse product takes the metadata and the scales of A in a pair of registers.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::product::{Product, class, tuple};

/// A field of the register with the selectors.
struct SelectorField {
    /// The bits of the operand that count.
    mask: u32,
    place: u32,
}

/// Returns whether a product has a meaning that only `.kind::` expresses. `.kind::f8f6f4` with two 8-bit types is the product without `.kind::`,
/// which targets without `QMMA` have too.
pub(super) fn needs_kind(ptx: &Ptx<'_>, product: &Product) -> bool {
    let is_eight_bit = |ty| matches!(ty, ScalarType::E4m3 | ScalarType::E5m2);
    let is_plain = ptx.has(Modifier::KindF8f6f4) && is_eight_bit(product.a_type) && is_eight_bit(product.b_type);
    ptx.form.modifiers.iter().any(|value| value.modifier.spelling().starts_with("kind::")) && !is_plain
}

/// Selects a product with `.kind::`, given the matrices.
pub(super) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>, product: &Product) -> Result<Vec<Operand>, Unsupported> {
    let is_sparse = ptx.has(Modifier::SpOrderedMetadata);
    let is_scaled = ptx.has(Modifier::BlockScale);
    let Some(name) = name(ptx, product, is_scaled, is_sparse) else { return select.unsupported(ptx) };
    let zeros = if is_scaled { ", R0, R0, UR0" } else { "" };
    let metadata = if is_sparse && !is_scaled { ", R0" } else { "" };
    let selector = if is_sparse { ", 0x0" } else { "" };
    if !select.encodes(&format!("{name} R0, R0, R0, R0{zeros}{metadata}{selector}")) {
        return select.unsupported(ptx);
    }
    let mut template = format!("{name} $, {{}}, {{}}, {{}}");
    let mut arguments = [&product.a, &product.b, &product.c].map(|words| tuple(select, words)).to_vec();
    let mut first = Vec::new();
    if is_sparse {
        first.push(select.single(ptx, 4)?);
    }
    if is_scaled {
        let position = if is_sparse { 6 } else { 4 };
        first.push(select.single(ptx, position)?);
        let second = select.single(ptx, position + 2)?;
        arguments.push(tuple(select, &first));
        arguments.push(select.in_register(second));
        arguments.push(selectors(select, ptx, position)?);
        // The guard of the addition is written out, so that the widths of the operands after it are those of their places.
        template.push_str(", UPT, {}, {}, {}");
    } else if is_sparse {
        arguments.push(tuple(select, &first));
        template.push_str(", {}");
    }
    template.push_str(selector);
    let width = product.c.len();
    let result = select.b.define(class(width), &template, &arguments);
    Ok((0..width).map(|index| select.register_of(result, index as u8)).collect())
}

/// Returns the mnemonic and the modifiers of a product.
fn name(ptx: &Ptx<'_>, product: &Product, is_scaled: bool, is_sparse: bool) -> Option<String> {
    let result = if product.result_type == ScalarType::F16 { ".F16" } else { ".F32" };
    let (a, b) = (type_name(product.a_type)?, type_name(product.b_type)?);
    let is_packed = ptx.has(Modifier::KindMxf4) || ptx.has(Modifier::KindMxf4nvf4);
    let mnemonic = if is_packed { "OMMA" } else { "QMMA" };
    let scaled = if is_scaled { ".SF" } else { "" };
    let sparse = if is_sparse { ".SP" } else { "" };
    let scales = match ptx.types().last() {
        Some(ScalarType::Ue8m0) if !ptx.has(Modifier::ScaleVec4X) => ".E8",
        Some(ScalarType::Ue4m3) if ptx.has(Modifier::ScaleVec4X) => ".UE4M3.4X",
        _ if is_scaled => return None,
        _ => "",
    };
    Some(format!("{mnemonic}{scaled}{sparse}.{}{result}{a}{b}{scales}", product.shape()))
}

/// Returns the name of a narrow type in a machine instruction.
fn type_name(ty: ScalarType) -> Option<&'static str> {
    Some(match ty {
        ScalarType::E4m3 => ".E4M3",
        ScalarType::E5m2 => ".E5M2",
        ScalarType::E3m2 => ".E3M2",
        ScalarType::E2m3 => ".E2M3",
        ScalarType::E2m1 => ".E2M1",
        _ => return None,
    })
}

/// Returns the uniform register with the selectors. All threads of the warp have the same ones.
fn selectors(select: &mut Select<'_>, ptx: &Ptx<'_>, position: usize) -> Result<Operand, Unsupported> {
    // More scales in a block leave fewer bytes to select.
    let byte_mask = match () {
        () if ptx.has(Modifier::ScaleVec4X) => 0,
        () if ptx.has(Modifier::KindMxf8f6f4) => 3,
        () => 2,
    };
    let fields = [
        SelectorField { mask: byte_mask, place: 0 },
        SelectorField { mask: 1, place: 2 },
        SelectorField { mask: byte_mask, place: 3 },
        SelectorField { mask: 3, place: 5 },
    ];
    let mut operands = select.elements(ptx.operand(position + 1));
    operands.extend(select.elements(ptx.operand(position + 3)));
    if operands.len() != fields.len() {
        return select.unsupported(ptx);
    }
    let mut known = 0;
    let mut variable: Option<Operand> = None;
    for (operand, field) in operands.into_iter().zip(fields) {
        if let Some(number) = select.literal(operand, ScalarType::U16) {
            known |= (number as u32 & field.mask) << field.place;
            continue;
        }
        let number = select.source(operand, ScalarType::U16)?;
        let bits = select.bitwise_and(number, Operand::from(field.mask));
        let bits = if field.place == 0 { bits } else { select.shift_left(bits, Operand::from(i64::from(field.place))) };
        variable = Some(variable.map_or(bits, |others| select.logic(0xfc, others, bits, Operand::RZ)));
    }
    let Some(variable) = variable else { return Ok(select.in_uniform(Operand::from(known))) };
    let all = select.logic(0xfc, variable, Operand::from(known), Operand::RZ);
    let all = select.in_register(all);
    Ok(select.b.define(Class::new(RegFile::Uniform, 1), "R2UR $, {}", &[all]))
}
