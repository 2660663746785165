//! Instructions of tensor memory, `tcgen05`: loads, stores, copies into it, shifts, and what orders them.
//!
//! Copies, shifts and commits are instructions of the uniform datapath. Each thread executes them in PTX, so the code is a loop over the
//! threads ([`crate::each_thread`]) where more than one may be active.
//!
//! [`super::products`] has the matrix products, [`super::allocation`] the allocation of columns.

use oriole_ir::{Class, Operand, Order, RegFile, Role, Scope};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::{allocation, products};
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessSpace, OffsetRange};
use crate::ptx::Ptx;
use crate::tensor::groups::{group, keep_order};

/// Selects an instruction of tensor memory.
pub(crate) fn tensor_memory(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let groups = [Modifier::CtaGroup1, Modifier::CtaGroup2].map(|group| ptx.has(group));
    for (is_used, is_named) in select.tensor_memory.groups.iter_mut().zip(groups) {
        *is_used |= is_named;
    }
    match ptx.opcode() {
        // All accesses to tensor memory keep their order with barriers, so nothing is left to do.
        Opcode::Tcgen05FenceBeforeThreadSync | Opcode::Tcgen05FenceAfterThreadSync => Ok(()),
        // `ctrl` makes this instruction wait for all loads before it.
        Opcode::Tcgen05WaitLd => {
            select.branch_around(|select| {
                select.b.emit("NOP", &[]);
                keep_order(select);
            });
            Ok(())
        }
        Opcode::Tcgen05WaitSt => {
            select.branch_around(|select| select.write_fence("FENCE.VIEW.ASYNC.T", Order::AcquireRelease, Scope::Block));
            Ok(())
        }
        Opcode::Tcgen05Ld => load(select, ptx),
        Opcode::Tcgen05LdRed => load_and_reduce(select, ptx),
        Opcode::Tcgen05St => store(select, ptx),
        Opcode::Tcgen05Cp => copy(select, ptx),
        Opcode::Tcgen05Shift => shift(select, ptx),
        Opcode::Tcgen05Commit => commit(select, ptx),
        Opcode::Tcgen05Mma | Opcode::Tcgen05MmaSp | Opcode::Tcgen05MmaWs | Opcode::Tcgen05MmaWsSp => products::multiply(select, ptx),
        Opcode::Tcgen05Alloc => allocation::allocate(select, ptx),
        Opcode::Tcgen05Dealloc => allocation::free(select, ptx),
        Opcode::Tcgen05RelinquishAllocPermit => allocation::relinquish(select, ptx),
        _ => select.unsupported(ptx),
    }
}

/// Returns whether an instruction has the modifier with a spelling.
pub(super) fn has_spelling(ptx: &Ptx<'_>, spelling: &str) -> bool {
    ptx.form.modifiers.iter().any(|value| value.modifier.spelling() == spelling)
}

/// The instructions that a load or store becomes.
struct AccessPlan {
    /// Modifiers of the number of repetitions.
    count: String,
    /// Modifier of the shape, and the offset from the base: one instruction, or one for each half of the warp.
    parts: Vec<(&'static str, i64)>,
    base: Operand,
}

/// Reads the shape and the address of a load or store; `distance` is the operand with the distance between the columns of both halves of a
/// warp, if the shape has it.
fn accesses(select: &mut Select<'_>, ptx: &Ptx<'_>, address: ast::Operand, distance: usize) -> Result<AccessPlan, Unsupported> {
    let is_split = is_split(ptx);
    let shape = match () {
        () if is_split => "",
        () if has_spelling(ptx, "16x64b") => ".16dp64bit",
        () if has_spelling(ptx, "32x32b") => "",
        () if has_spelling(ptx, "16x128b") => ".16dp128bit",
        () if has_spelling(ptx, "16x256b") => ".16dp256bit",
        () => return select.unsupported(ptx),
    };
    let count = ["x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"].into_iter().find(|count| has_spelling(ptx, count));
    let Some(count) = count else { return select.unsupported(ptx) };
    let count = if count == "x1" { String::new() } else { format!(".{count}") };
    let address = select.address(address, AccessSpace::Shared, OffsetRange::HALF)?;
    let (base, first) = (select.low(address.base), address.offset);
    let parts = if is_split {
        let Some(distance) = select.literal(ptx.operand(distance), ScalarType::S32) else { return select.unsupported(ptx) };
        // Addresses are 32-bit numbers.
        let second = (first as i32).wrapping_add(distance as u32 as i32);
        vec![(".16dp32bit_t0_t15", first), (".16dp32bit_t16_t31", i64::from(second))]
    } else {
        vec![(shape, first)]
    };
    Ok(AccessPlan { count, parts, base })
}

/// Returns whether each half of a warp accesses its own columns.
fn is_split(ptx: &Ptx<'_>) -> bool {
    has_spelling(ptx, "16x32bx2")
}

/// Selects `tcgen05.ld`. All threads of the warp have the same address.
fn load(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let accesses = accesses(select, ptx, ptx.operand(1), 2)?;
    let elements = select.elements(ptx.operand(0));
    let class = Class::new(RegFile::General, elements.len() as u8);
    let packs = if has_spelling(ptx, "pack::16b") { ".PACK16BIT" } else { "" };
    select.branch_around(|select| {
        let base = select.in_uniform(accesses.base);
        let mut loaded: Option<Operand> = None;
        for (shape, offset) in accesses.parts {
            let template = format!("LDTM{shape}{}{packs} $, tmem[{{}}+{{}}]", accesses.count);
            let result = select.b.define(class, &template, &[base, offset.into()]);
            keep_order(select);
            // The second half of the warp is added to the registers of the first.
            keep_old(select, &loaded.into_iter().collect::<Vec<_>>());
            loaded = Some(result);
        }
        assign_registers(select, &elements, loaded)
    })
}

/// Selects `tcgen05.ld.red`, which also returns the smallest or largest of the loaded numbers of each thread.
fn load_and_reduce(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let accesses = accesses(select, ptx, ptx.operand(2), 3)?;
    let elements = select.elements(ptx.operand(0));
    let class = Class::new(RegFile::General, elements.len() as u8);
    let operation = match (ptx.has(Modifier::Max), ptx.has(Modifier::Abs)) {
        (true, false) => ".MAX",
        (true, true) => ".MAXABS",
        (false, false) => ".MIN",
        (false, true) => ".MINABS",
    };
    let ty = match ptx.ty() {
        ScalarType::F32 => ".F32",
        ScalarType::S32 => ".S32",
        _ => "",
    };
    let nan = if ptx.has(Modifier::NaN) { ".NAN" } else { "" };
    select.branch_around(|select| {
        let base = select.in_uniform(accesses.base);
        let mut results: Vec<Operand> = Vec::new();
        for (shape, offset) in accesses.parts {
            let template = format!("LDTM.STAT{shape}{}{operation}{ty}{nan} $, $, tmem[{{}}+{{}}]", accesses.count);
            let (reduced, loaded) = select.b.define_two([Class::R, class], &template, &[base, offset.into()]);
            keep_order(select);
            keep_old(select, &results);
            results = vec![reduced, loaded];
        }
        select.assign(ptx.operand(1), results[0])?;
        assign_registers(select, &elements, results.get(1).copied())
    })
}

/// Makes the results of the last instruction keep these values where the instruction does not write.
fn keep_old(select: &mut Select<'_>, old: &[Operand]) {
    let Some(&inst) = select.b.function.blocks[select.b.block()].insts.last().filter(|_| !old.is_empty()) else { return };
    let mut operands = select.b.function.operands(inst).to_vec();
    operands.extend(old.iter().zip(0..).map(|(operand, result)| operand.with_role(Role::Tied(result))));
    select.b.function.set_operands(inst, &operands, old.len());
}

/// Assigns the registers of a tuple to the elements of a vector.
fn assign_registers(select: &mut Select<'_>, elements: &[ast::Operand], tuple: Option<Operand>) -> Result<(), Unsupported> {
    for (&element, index) in elements.iter().zip(0..) {
        if let Some(tuple) = tuple {
            let register = select.register_of(tuple, index);
            select.assign(element, register)?;
        }
    }
    Ok(())
}

/// Selects `tcgen05.st`. All threads of the warp have the same address.
fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let accesses = accesses(select, ptx, ptx.operand(0), 1)?;
    let expands = if has_spelling(ptx, "unpack::16b") { ".EXPAND16BIT" } else { "" };
    let mut words = Vec::new();
    for element in select.elements(ptx.operand(if is_split(ptx) { 2 } else { 1 })) {
        let word = select.source(element, ScalarType::B32)?;
        words.push(select.in_register(word));
    }
    select.branch_around(|select| {
        let data = match words[..] {
            [single] => single,
            _ => select.b.pack(Class::new(RegFile::General, words.len() as u8), &words),
        };
        let base = select.in_uniform(accesses.base);
        for (shape, offset) in accesses.parts {
            let template = format!("STTM{shape}{}{expands} tmem[{{}}+{{}}], {{}}", accesses.count);
            select.b.emit(&template, &[base, offset.into(), data]);
            keep_order(select);
        }
        Ok(())
    })
}

/// Selects `tcgen05.cp`.
fn copy(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let shape = match () {
        () if has_spelling(ptx, "128x256b") => "",
        () if has_spelling(ptx, "4x256b") => ".4dp256bit",
        () if has_spelling(ptx, "128x128b") => ".128dp128bit",
        () if has_spelling(ptx, "warpx2::02_13") => ".2x64dp128bit_lw02_lw13",
        () if has_spelling(ptx, "warpx2::01_23") => ".2x64dp128bit_lw01_lw23",
        () if has_spelling(ptx, "warpx4") => ".4x32dp128bit",
        () => return select.unsupported(ptx),
    };
    let packed = match () {
        () if has_spelling(ptx, "b6x16_p32") => ".U6x16P32",
        () if has_spelling(ptx, "b4x16_p64") => ".U4x16P64",
        () => "",
    };
    let address = select.address(ptx.operand(0), AccessSpace::Shared, OffsetRange::ACCESS)?;
    let base = select.low(address.base);
    let descriptor = select.halves(ptx.operand(1), ScalarType::U64)?;
    let name = format!("UTCCP.T.S{}{shape}{packed}", group(ptx));
    select.for_each_thread(|select| {
        let (base, descriptor) = (select.in_uniform(base), select.in_uniforms(&descriptor));
        select.b.emit(&format!("{name} tmem[{{}}+{{}}], gdesc[{{}}]"), &[base, address.offset.into(), descriptor]);
        keep_order(select);
        Ok(())
    })
}

/// Selects `tcgen05.shift`.
fn shift(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let address = select.address(ptx.operand(0), AccessSpace::Shared, OffsetRange::ACCESS)?;
    let base = select.low(address.base);
    let name = format!("UTCSHIFT{}.DOWN", group(ptx));
    select.for_each_thread(|select| {
        let base = select.in_uniform(base);
        select.b.emit(&format!("{name} tmem[{{}}+{{}}]"), &[base, address.offset.into()]);
        keep_order(select);
        Ok(())
    })
}

/// Selects `tcgen05.commit`.
fn commit(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let barrier = select.place_in_shared(ptx.operand(0))?;
    let barrier = select.low(barrier);
    let blocks = if ptx.has(Modifier::MulticastCluster) {
        let blocks = select.source(ptx.operand(1), ScalarType::U16)?;
        Some(select.bitwise_and(blocks, Operand::from(0xffff_u32)))
    } else {
        None
    };
    let name = format!("UTCBAR{}", group(ptx));
    select.for_each_thread(|select| {
        let barrier = select.in_uniform(barrier);
        match blocks {
            Some(blocks) => {
                let blocks = select.in_uniform(blocks);
                select.b.emit(&format!("{name}.MULTICAST [{{}}], URZ, {{}}"), &[barrier, blocks]);
            }
            None => _ = select.b.emit(&format!("{name} [{{}}], URZ"), &[barrier]),
        }
        keep_order(select);
        Ok(())
    })
}
