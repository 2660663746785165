//! `wgmma`: matrix products of a warpgroup (four warps), which read matrices from shared memory and run in the background.
//!
//! A product is one machine instruction (`HGMMA`, `QGMMA`, `IGMMA`, `BGMMA`). Its accumulator is one wide value that is updated in place,
//! and the descriptors of the matrices are in four uniform registers, A before B. `WARPGROUP.ARRIVE` is the fence before the first product
//! that reads a register, and `WARPGROUP.DEPBAR` waits until at most a number of groups of products are pending.
//!
//! A group ends with a product that names the counter `gsb0`. Here the end of a group is a product without operands; `settle-products`
//! joins it with the last product of the group where it can.
//!
//! Of a sparse matrix A (`.sp`) half of the elements are stored; a register with metadata and a selector follow the accumulator.

use oriole_ir::{Class, MemoryAccess, Operand, Part, RegFile, Role, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::product;

/// Largest number of pending groups that `WARPGROUP.DEPBAR` can name.
const MAX_PENDING_GROUPS: u64 = 7;
/// Largest alignment of an accumulator, in registers: ptxas aligns wide accumulators to eight.
const MAX_ALIGNMENT: u8 = 8;

/// The operands of a product after the matrices, all known at compile time except for the predicate.
struct Scales {
    /// The predicate under which the accumulator is added; `None` if it always is.
    adds: Option<Operand>,
    /// Whether exactly one of the matrices is negated.
    negates: bool,
    transposes_a: bool,
    transposes_b: bool,
}

/// Selects `wgmma.mma_async` and `wgmma.mma_async.sp`.
pub(crate) fn multiply_in_group(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| product(select, ptx))
}

fn product(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(name) = name(ptx) else { return select.unsupported(ptx) };
    let scales = scales(select, ptx)?;
    let accumulator = select.elements(ptx.operand(0));
    let width = accumulator.len() as u8;
    let class = Class { align: width.next_power_of_two().min(MAX_ALIGNMENT), ..Class::new(RegFile::General, width) };
    let b = descriptor(select, ptx.operand(2))?;
    let transposed_b = if scales.transposes_b { ".tnspB" } else { "" };
    let mut arguments = Vec::new();
    let matrices = if is_matrix_in_registers(select, ptx.operand(1)) {
        let a = product::fragment(select, ptx.operand(1), ScalarType::B32)?;
        arguments.push(product::tuple(select, &a));
        // The descriptor of B is in the upper half of the four registers; the lower half is not read.
        arguments.push(select.b.pack(Class::new(RegFile::Uniform, 4), &[b, b].concat()));
        format!("{}{{}}, gdesc[{{}}]{transposed_b}", if scales.negates { "-" } else { "" })
    } else {
        let a = descriptor(select, ptx.operand(1))?;
        arguments.push(select.b.pack(Class::new(RegFile::Uniform, 4), &[a, b].concat()));
        let transposed_a = if scales.transposes_a { ".tnspA" } else { "" };
        format!("gdesc[{{}}]{}{transposed_a}{transposed_b}", if scales.negates { ".negA" } else { "" })
    };
    // Without the accumulator, nothing is read from its registers.
    let never = Operand::UPT.inverted_predicate();
    let (start, adds) = match scales.adds {
        Some(adds) if adds == Operand::PT.inverted_predicate() => (Operand::RZ, never),
        Some(adds) => (accumulated(select, &accumulator, class)?, in_uniform_predicate(select, adds)),
        None => (accumulated(select, &accumulator, class)?, Operand::UPT),
    };
    arguments.extend([start, adds]);
    let mut template = format!("{name} $, {matrices}, {{}}, {{}}");
    if is_sparse(ptx) {
        let metadata = select.single(ptx, 3)?;
        let Some(selector) = select.literal(ptx.operand(4), ScalarType::U32) else { return select.unsupported(ptx) };
        arguments.push(select.in_register(metadata));
        template.push_str(&format!(", {{}}, {selector:#x}"));
    }
    let result = select.b.define(class, &template, &arguments);
    tie_accumulator(select, start);
    select.b.describe(MemoryAccess::weak(Space::Shared, 0));
    for (index, destination) in accumulator.into_iter().enumerate() {
        select.assign(destination, select.register_of(result, index as u8))?;
    }
    Ok(())
}

/// Returns the mnemonic and modifiers of a product; `None` if it is not supported.
fn name(ptx: &Ptx<'_>) -> Option<String> {
    let [_, columns, depth] = ptx.matrix_shape()?;
    let types = ptx.types();
    let [d, a, b] = types[..] else { return None };
    let shape = format!("{}64x{columns}x{depth}", if is_sparse(ptx) { "SP." } else { "" });
    let result = if d == ScalarType::F16 { ".F16" } else { ".F32" };
    Some(match a {
        ScalarType::F16 => format!("HGMMA.{shape}{result}"),
        ScalarType::Bf16 => format!("HGMMA.{shape}{result}.BF16"),
        ScalarType::Tf32 => format!("HGMMA.{shape}{result}.TF32"),
        ScalarType::E4m3 | ScalarType::E5m2 => format!("QGMMA.{shape}{result}{}{}", type_name(a)?, type_name(b)?),
        ScalarType::S8 | ScalarType::U8 => {
            let clamps = if ptx.has(Modifier::Satfinite) { ".SAT" } else { "" };
            format!("IGMMA.{shape}{}{}{clamps}", type_name(a)?, type_name(b)?)
        }
        ScalarType::B1 => format!("BGMMA.{shape}.AND.POPC"),
        _ => return None,
    })
}

/// Returns the name of an 8-bit type in a machine instruction.
fn type_name(ty: ScalarType) -> Option<&'static str> {
    Some(match ty {
        ScalarType::E4m3 => ".E4M3",
        ScalarType::E5m2 => ".E5M2",
        ScalarType::S8 => ".S8",
        ScalarType::U8 => ".U8",
        _ => return None,
    })
}

/// Returns whether the matrix A is given by registers and not by a descriptor.
fn is_matrix_in_registers(select: &Select<'_>, operand: ast::Operand) -> bool {
    select.elements(operand).len() > 1
}

/// Returns whether the matrix A is sparse.
fn is_sparse(ptx: &Ptx<'_>) -> bool {
    ptx.form.opcode == Opcode::WgmmaMmaAsyncSp
}

/// Reads the operands after the matrices, and after the metadata and the selector of a sparse matrix.
fn scales(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<Scales, Unsupported> {
    let first = if is_sparse(ptx) { 5 } else { 3 };
    let adds = match select.literal(ptx.operand(first), ScalarType::U32) {
        Some(0) => Some(Operand::PT.inverted_predicate()),
        Some(_) => None,
        None => Some(select.predicate(ptx.operand(first))?),
    };
    let literal = |select: &Select<'_>, position: usize| {
        ptx.operands.get(position).and_then(|&operand| select.literal(operand, ScalarType::S32)).map(|bits| bits as i32)
    };
    let is_negative = |number: Option<i32>| number.is_some_and(|number| number < 0);
    // Negating both matrices changes no product.
    let negates = is_negative(literal(select, first + 1)) != is_negative(literal(select, first + 2));
    let flags: Vec<bool> = (first + 3..ptx.operands.len()).map(|position| literal(select, position) == Some(1)).collect();
    let (transposes_a, transposes_b) = match flags[..] {
        [a, b] => (a, b),
        [b] => (false, b),
        _ => (false, false),
    };
    Ok(Scales { adds, negates, transposes_a, transposes_b })
}

/// Returns the two halves of a matrix descriptor in uniform registers. All threads of the warp have the same descriptor.
fn descriptor(select: &mut Select<'_>, operand: ast::Operand) -> Result<[Operand; 2], Unsupported> {
    let halves = select.halves(operand, ScalarType::U64)?;
    Ok(halves.map(|half| match half.integer() {
        Some(_) => select.b.define(Class::UR, "UMOV $, {}", &[half]),
        None => select.b.define(Class::UR, "R2UR $, {}", &[half]),
    }))
}

/// Returns the accumulator as one wide value.
fn accumulated(select: &mut Select<'_>, accumulator: &[ast::Operand], class: Class) -> Result<Operand, Unsupported> {
    let mut words = Vec::with_capacity(accumulator.len());
    for &element in accumulator {
        words.push(select.source(element, ScalarType::B32)?);
    }
    Ok(select.b.pack(class, &words))
}

/// Returns a predicate, which is the same in all threads of the warp, as a uniform predicate.
fn in_uniform_predicate(select: &mut Select<'_>, predicate: Operand) -> Operand {
    match predicate {
        Operand::PT => Operand::UPT,
        _ => select.b.define(Class::UP, "VOTEU.ANY $, {}", &[predicate]),
    }
}

/// Ties the accumulator of the last instruction to its result: both are in the same registers.
fn tie_accumulator(select: &mut Select<'_>, accumulator: Operand) {
    let Some(Part { value, .. }) = accumulator.part() else { return };
    let Some(&inst) = select.b.function.blocks[select.b.block()].insts.last() else { return };
    for operand in select.b.function.sources_mut(inst) {
        if operand.value() == Some(value) {
            operand.role = Role::Tied(0);
        }
    }
}

/// Selects `wgmma.fence`.
pub(crate) fn arrive(select: &mut Select<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| _ = select.b.emit("WARPGROUP.ARRIVE", &[]));
    Ok(())
}

/// Selects `wgmma.commit_group`: a product without operands that ends the group.
pub(crate) fn commit_products(select: &mut Select<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| {
        select.b.emit("HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0", &[]);
        select.b.describe(MemoryAccess { volatile: true, ..MemoryAccess::weak(Space::Shared, 0) });
    });
    Ok(())
}

/// Selects `wgmma.wait_group`.
pub(crate) fn wait_for_products(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(pending) = select.literal(ptx.operand(0), ScalarType::U32) else { return select.unsupported(ptx) };
    let pending = Operand::from(pending.min(MAX_PENDING_GROUPS) as i64);
    select.branch_around(|select| _ = select.b.emit("WARPGROUP.DEPBAR.LE gsb0, {}", &[pending]));
    Ok(())
}
