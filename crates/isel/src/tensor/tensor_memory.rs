//! Instructions of tensor memory, `tcgen05`: copies into it, stores, shifts, and what orders them.
//!
//! Copies, shifts and commits are instructions of the uniform datapath. Each thread executes them in PTX, so the code is a loop over the
//! threads ([`crate::each_thread`]) where more than one may be active.
//!
//! Loads, products and the allocation of tensor memory are not supported.

use oriole_ir::{Class, MemoryAccess, Operand, Order, RegFile, Scope, Space};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::memory::{AccessSpace, OffsetRange};
use crate::ptx::Ptx;
use crate::select::Select;

/// Selects an instruction of tensor memory.
pub(crate) fn tensor_memory(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    // Kernels declare that they use tensor memory; a function does not know its callers.
    let is_declared = !matches!(ptx.opcode(), Opcode::Tcgen05St | Opcode::Tcgen05WaitSt) && !is_fence(ptx.opcode());
    if is_declared && !select.is_kernel {
        return Err(Unsupported::new("an instruction of tensor memory in a device function"));
    }
    match ptx.opcode() {
        // All accesses to tensor memory keep their order with barriers, so nothing is left to do.
        opcode if is_fence(opcode) => Ok(()),
        Opcode::Tcgen05WaitSt => {
            select.branch_around(|select| select.write_fence("FENCE.VIEW.ASYNC.T", Order::AcquireRelease, Scope::Block));
            Ok(())
        }
        Opcode::Tcgen05St => store(select, ptx),
        Opcode::Tcgen05Cp => copy(select, ptx),
        Opcode::Tcgen05Shift => shift(select, ptx),
        Opcode::Tcgen05Commit => commit(select, ptx),
        _ => select.unsupported(ptx),
    }
}

/// Returns whether an opcode orders accesses to tensor memory with barriers.
fn is_fence(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Tcgen05FenceBeforeThreadSync | Opcode::Tcgen05FenceAfterThreadSync)
}

/// Describes the last instruction as an access that keeps its order with all others.
fn keep_order(select: &mut Select<'_>) {
    let access =
        MemoryAccess { order: Order::AcquireRelease, scope: Scope::Cluster, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) };
    select.b.describe(access);
}

/// Returns the modifier of instructions that work for two blocks.
fn group(ptx: &Ptx<'_>) -> &'static str {
    if ptx.has(Modifier::CtaGroup2) { ".2CTA" } else { "" }
}

/// Returns whether an instruction has the modifier with a spelling.
fn has_spelling(ptx: &Ptx<'_>, spelling: &str) -> bool {
    ptx.form.modifiers.iter().any(|value| value.modifier.spelling() == spelling)
}

/// Selects `tcgen05.st`. All threads of the warp have the same address.
fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let is_split = has_spelling(ptx, "16x32bx2");
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
    let expands = if has_spelling(ptx, "unpack::16b") { ".EXPAND16BIT" } else { "" };
    let address = select.address(ptx.operand(0), AccessSpace::Shared, OffsetRange::HALF)?;
    let (base, first) = (select.low(address.base), address.offset);
    // Each half of the warp has its own columns: (modifier, offset).
    let parts = if is_split {
        let Some(distance) = select.literal(ptx.operand(1), ScalarType::S32) else { return select.unsupported(ptx) };
        let second = first + i64::from(distance as u32 as i32);
        if i32::try_from(second).is_err() {
            return select.unsupported(ptx);
        }
        vec![(".16dp32bit_t0_t15", first), (".16dp32bit_t16_t31", second)]
    } else {
        vec![(shape, first)]
    };
    let mut words = Vec::new();
    for element in select.elements(ptx.operand(if is_split { 2 } else { 1 })) {
        let word = select.source(element, ScalarType::B32)?;
        words.push(select.in_register(word));
    }
    select.branch_around(|select| {
        let data = match words[..] {
            [single] => single,
            _ => select.b.pack(Class::new(RegFile::General, words.len() as u8), &words),
        };
        let base = select.in_uniform(base);
        for (shape, offset) in parts {
            select.b.emit(&format!("STTM{shape}{count}{expands} tmem[{{}}+{{}}], {{}}"), &[base, offset.into(), data]);
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
