//! Matrix products in tensor memory: `tcgen05.mma` and its variants.
//!
//! `UTC*MMA a, b, d, metadata, descriptor, extra, accumulate` takes the address of the metadata of a sparse matrix (0 for a dense one) and
//! the instruction descriptor in consecutive registers. `extra` is the mask of disabled lanes, the mask of zero columns of `.ws`, or the
//! addresses of the scales of both matrices.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::groups::{group, keep_order};

/// Returns the spelling of the modifier that starts with `prefix`, without the prefix.
fn modifier_after<'m>(ptx: &Ptx<'m>, prefix: &str) -> Option<&'m str> {
    ptx.form.modifiers.iter().find_map(|value| value.modifier.spelling().strip_prefix(prefix))
}

/// Returns the whole address of an operand in tensor memory.
fn place(select: &mut Select<'_>, operand: ast::Operand) -> Result<Operand, Unsupported> {
    let address = select.place_in_shared(operand)?;
    Ok(select.low(address))
}

/// Returns the mnemonic and modifiers of a product.
fn product_name(select: &Select<'_>, ptx: &Ptx<'_>) -> Option<String> {
    let name = match modifier_after(ptx, "kind::")? {
        "f16" | "tf32" => "UTCHMMA",
        "i8" => "UTCIMMA",
        "f8f6f4" | "mxf8f6f4" => "UTCQMMA",
        "mxf4" | "mxf4nvf4" => "UTCOMMA",
        _ => return None,
    };
    let mut name = format!("{name}{}", group(ptx));
    if matches!(ptx.opcode(), Opcode::Tcgen05MmaWs | Opcode::Tcgen05MmaWsSp) {
        name.push_str(".WS");
    }
    if ptx.has(Modifier::Ashift) {
        name.push_str(".ASHIFT");
    }
    if ptx.has(Modifier::ScaleVec4X) || ptx.has(Modifier::Block16) {
        let operands = "gdesc[UR0], gdesc[UR0], tmem[UR0], tmem[UR0], idesc[UR1], tmem[UR0], UPT";
        let names = [".4X", ".BLOCK16"];
        name.push_str(names.into_iter().find(|suffix| select.encodes(&format!("{name}{suffix} {operands}")))?);
    }
    Some(name)
}

/// Returns the suffixes of the operands A and B, which say what the collector buffers keep and reuse.
fn collectors(ptx: &Ptx<'_>) -> Option<[String; 2]> {
    let Some(collector) = modifier_after(ptx, "collector::") else { return Some([String::new(), String::new()]) };
    let (buffer, usage) = collector.split_once("::")?;
    let matrix = if buffer == "a" { "A" } else { "B" };
    let mut suffix = match usage {
        "fill" => format!(".{matrix}_KEEP"),
        "use" => format!(".{matrix}_REUSE.{matrix}_KEEP"),
        "lastuse" => format!(".{matrix}_REUSE"),
        "discard" => String::new(),
        _ => return None,
    };
    match buffer {
        "a" => return Some([suffix, String::new()]),
        "b0" => {}
        "b1" => suffix.push_str(".BUFFER1"),
        "b2" => suffix.push_str(".BUFFER2"),
        "b3" => suffix.push_str(".BUFFER3"),
        _ => return None,
    }
    Some([String::new(), suffix])
}

/// The words of the operands of a product, before they are moved to uniform registers.
struct ProductOperands {
    name: String,
    suffixes: [String; 2],
    a: Vec<Operand>,
    is_a_in_memory: bool,
    b: Vec<Operand>,
    d: Operand,
    metadata: Operand,
    descriptor: Operand,
    /// Masks, or the places of scales.
    extra: Vec<Operand>,
    is_scaled: bool,
    accumulates: Operand,
    /// log2 of the divisor of D.
    scale: u64,
}

/// Selects `tcgen05.mma` and its variants.
pub(super) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let product = read(select, ptx)?;
    select.for_each_thread(|select| {
        let d = select.in_uniform(product.d);
        let (a, b) = (uniforms(select, &product.a), uniforms(select, &product.b));
        let pair = select.in_uniforms(&[product.metadata, product.descriptor]);
        let mut arguments = vec![a, b, d, pair];
        let a_space = if product.is_a_in_memory { "tmem" } else { "gdesc" };
        let [a_suffix, b_suffix] = &product.suffixes;
        let mut template = format!("{} {a_space}[{{}}]{a_suffix}, gdesc[{{}}]{b_suffix}, tmem[{{}}], tmem[{{}}], idesc[URZ]", product.name);
        if !product.extra.is_empty() {
            arguments.push(uniforms(select, &product.extra));
            template.push_str(if product.is_scaled { ", tmem[{}]" } else { ", {}" });
        }
        arguments.push(uniform_predicate(select, product.accumulates));
        template.push_str(", {}");
        if product.scale != 0 {
            template.push_str(&format!(", {:#x}", product.scale));
        }
        select.b.emit(&template, &arguments);
        keep_order(select);
        Ok(())
    })
}

/// Returns words in consecutive uniform registers.
fn uniforms(select: &mut Select<'_>, words: &[Operand]) -> Operand {
    match *words {
        [single] => select.in_uniform(single),
        _ => select.in_uniforms(words),
    }
}

/// Returns the predicate of the only active thread as a uniform predicate.
fn uniform_predicate(select: &mut Select<'_>, predicate: Operand) -> Operand {
    match predicate {
        Operand::PT => Operand::UPT,
        _ if predicate == Operand::PT.inverted_predicate() => Operand::UPT.inverted_predicate(),
        _ => select.b.define(Class::UP, "VOTEU.ANY $, {}", &[predicate]),
    }
}

/// Reads the operands of a product.
fn read(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<ProductOperands, Unsupported> {
    let (Some(name), Some(suffixes)) = (product_name(select, ptx), collectors(ptx)) else { return select.unsupported(ptx) };
    let is_sparse = matches!(ptx.opcode(), Opcode::Tcgen05MmaSp | Opcode::Tcgen05MmaWsSp);
    select.tensor_memory.multiplies_sparse |= is_sparse;
    let is_scaled = ptx.has(Modifier::BlockScale);
    let is_weight_stationary = matches!(ptx.opcode(), Opcode::Tcgen05MmaWs | Opcode::Tcgen05MmaWsSp);
    let d = place(select, ptx.operand(0))?;
    let is_a_in_memory = matches!(ptx.operand(1), ast::Operand::Bracket(_) | ast::Operand::Address(_));
    let a = if is_a_in_memory { vec![place(select, ptx.operand(1))?] } else { select.halves(ptx.operand(1), ScalarType::U64)?.to_vec() };
    let b = select.halves(ptx.operand(2), ScalarType::U64)?.to_vec();
    let mut positions = 3..;
    let mut take = || ptx.operand(positions.next().unwrap_or_default());
    let metadata = if is_sparse { place(select, take())? } else { Operand::RZ };
    let descriptor = select.source(take(), ScalarType::U32)?;
    let mut extra = Vec::new();
    let mut operand = take();
    if is_scaled {
        extra.push(place(select, operand)?);
        extra.push(place(select, take())?);
        operand = take();
    } else if select.elements(operand).len() > 1 {
        for element in select.elements(operand) {
            extra.push(select.source(element, ScalarType::B32)?);
        }
        operand = take();
    }
    let accumulates = match select.literal(operand, ScalarType::U32) {
        Some(0) => Operand::PT.inverted_predicate(),
        Some(_) => Operand::PT,
        None => select.predicate(operand)?,
    };
    let mut scale = 0;
    if let Some(&last) = positions.next().and_then(|position| ptx.operands.get(position)) {
        let literal = select.literal(last, ScalarType::U64);
        match literal {
            // A mask of no columns is left out.
            Some(0) => {}
            Some(number) if !is_weight_stationary => scale = number,
            _ if is_weight_stationary => extra.extend(select.halves(last, ScalarType::U64)?),
            _ => return select.unsupported(ptx),
        }
    }
    Ok(ProductOperands { name, suffixes, a, is_a_in_memory, b, d, metadata, descriptor, extra, is_scaled, accumulates, scale })
}
