//! Handler of `mov`: moves, and packing and unpacking of vectors.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::Slot;
use oriole_ptx::types::ScalarType;

use crate::context::{Select, class_of};
use crate::error::Unsupported;
use crate::operands::COMPONENTS;
use crate::ptx::Ptx;

/// Selects `mov`.
pub(crate) fn mov(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if ptx.get(Slot::Vec).is_some() {
        return vector(select, ptx, ty);
    }
    let (destinations, sources) = (select.elements(ptx.operand(0)), select.elements(ptx.operand(1)));
    match (&destinations[..], &sources[..]) {
        (&[destination], &[source]) if ty == ScalarType::Pred => {
            let predicate = select.predicate(source)?;
            let predicate = select.materialized_predicate(predicate);
            select.assign(destination, predicate)
        }
        (&[destination], &[source]) => {
            let value = select.source_of_any_width(source, ty)?;
            let value = if value.value().is_none() { select.in_register(value) } else { value };
            select.assign(destination, value)
        }
        (&[destination], elements) => {
            let packed = pack(select, ty, elements)?;
            select.assign(destination, packed)
        }
        (elements, _) => unpack(select, ty, elements, ptx.operand(1)),
    }
}

/// Selects `mov.v2` and `mov.v4`. All elements are copied before the first is assigned, since the vectors may overlap.
fn vector(select: &mut Select<'_>, ptx: &Ptx<'_>, ty: ScalarType) -> Result<(), Unsupported> {
    let destinations = lanes(select, ptx.operand(0));
    let sources = lanes(select, ptx.operand(1));
    let mut values = Vec::new();
    for source in sources {
        let value = select.source_of_any_width(source, ty)?;
        values.push(snapshot(select, value));
    }
    for (destination, value) in destinations.into_iter().zip(values) {
        select.assign(destination, value)?;
    }
    Ok(())
}

/// Copies a value into new registers, so that later assignments to the variable do not change the copy.
fn snapshot(select: &mut Select<'_>, value: Operand) -> Operand {
    let count = value.part().map_or(1, |part| part.count);
    let words: Vec<Operand> = (0..count).map(|word| select.b.define(Class::R, "MOV $, {}", &[select.register_of(value, word)])).collect();
    if words.len() == 1 { words[0] } else { select.b.pack(Class::new(oriole_ir::RegFile::General, count), &words) }
}

/// Returns the elements of a vector in braces, of a vector register, or of a vector special register such as `%tid`.
fn lanes(select: &Select<'_>, operand: ast::Operand) -> Vec<ast::Operand> {
    match operand {
        ast::Operand::Special(special) => COMPONENTS.map(|component| ast::Operand::Special(special.with_component(component))).to_vec(),
        _ => select.elements(operand),
    }
}

/// Packs elements into one value, the first element in the lowest bits.
fn pack(select: &mut Select<'_>, ty: ScalarType, elements: &[ast::Operand]) -> Result<Operand, Unsupported> {
    let bits = ty.bits() / elements.len() as u32;
    if bits == 64 {
        let mut words = Vec::new();
        for &element in elements {
            words.extend(select.halves(element, ScalarType::B64)?);
        }
        return Ok(joined(select, ty, &words));
    }
    let element_type = match bits {
        8 => ScalarType::B8,
        16 => ScalarType::B16,
        _ => ScalarType::B32,
    };
    let mut parts = Vec::new();
    for &element in elements {
        parts.push(select.source(element, element_type)?);
    }
    if bits == 8 {
        parts = parts.chunks(2).map(|pair| select.b.define(Class::R, "PRMT $, {}, 0x40, {}", pair)).collect();
    }
    if bits <= 16 && parts.len() > 1 {
        parts = parts.chunks(2).map(|pair| select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", pair)).collect();
    }
    Ok(joined(select, ty, &parts))
}

/// Joins 32-bit words into one value of type `ty`.
fn joined(select: &mut Select<'_>, ty: ScalarType, words: &[Operand]) -> Operand {
    let words: Vec<Operand> = words.iter().map(|&word| select.in_register(word)).collect();
    if words.len() == 1 { words[0] } else { select.b.pack(class_of(ty), &words) }
}

/// Splits a value into its elements, the first from the lowest bits, and assigns them. `_` as an element discards it.
fn unpack(select: &mut Select<'_>, ty: ScalarType, elements: &[ast::Operand], source: ast::Operand) -> Result<(), Unsupported> {
    let value = select.source_of_any_width(source, ty)?;
    let value = if value.value().is_none() { select.in_register(value) } else { value };
    let bits = ty.bits() / elements.len() as u32;
    let mut parts = Vec::new();
    for (number, &element) in elements.iter().enumerate() {
        if element == ast::Operand::Sink {
            parts.push(Operand::RZ);
            continue;
        }
        let first_bit = number as u32 * bits;
        let word = select.register_of(value, (first_bit / 32) as u8);
        parts.push(match bits {
            8 => {
                let bytes = 0x7770 + first_bit % 32 / 8;
                select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, bytes.into()])
            }
            16 if !first_bit.is_multiple_of(32) => select.b.define(Class::R, "PRMT $, {}, 0x7732, RZ", &[word]),
            64 => {
                let high = select.register_of(value, (first_bit / 32) as u8 + 1);
                select.b.pack(Class::R2, &[word, high])
            }
            _ => word,
        });
    }
    for (&element, part) in elements.iter().zip(parts) {
        select.assign(element, part)?;
    }
    Ok(())
}
