//! Bulk copies: `UBLKCP`, `UBLKRED`, `UBLKPF`, parts of tensors: `UTMALDG`, `UTMASTG`, `UTMAREDG`, the groups of `UTMACMDFLUSH`, and asynchronous stores: `STAS`, `REDAS`.
//!
//! A copy is performed as late as the program allows, so that code that does not wait for it reads the old contents. A copy that signals a
//! barrier is performed when a thread tests the barrier; a copy in a group when its warp waits for the group (`DEPBAR`), or when the block
//! ends. In a random order of threads every copy is performed at once, so that code that writes the source after the copy, or reads the
//! destination before it, is noticed as well.

use std::sync::Arc;

use oriole_isa::{Opcode, OperandValue, RegFile};

use super::atomic::{UpdateFunction, async_update, bulk_update};
use super::fault::Fault;
use super::mbarrier;
use super::memory::space::{self, Space};
use super::site::Site;
use super::step::{Action, Built, access};
use super::warp::{Row, ThreadIndices, Warp, lanes_of};
use super::world::World;
use crate::tensor_map::{self, MAP_BYTES, TensorMap, corner_bits};

/// Alignment of a box in shared memory, in bytes.
const BOX_ALIGNMENT: u64 = 128;
/// Bytes of the unit in which sizes are given.
pub(super) const UNIT: usize = 16;

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyEnd {
    Global(u64),
    /// An offset in the shared memory of the block with this slot.
    Shared(usize, u64),
    /// The value of an asynchronous store.
    Value([u8; UNIT]),
}

/// A part of a tensor: a box, or columns of pixels.
pub(super) struct CopiedPart {
    pub(super) map: TensorMap,
    pub(super) coordinates: Vec<i32>,
    /// Offsets in the dimensions of an image.
    pub(super) offsets: Vec<u32>,
    /// The operation of a reduction.
    pub(super) operation: Option<tensor_map::ReductionOperation>,
}

/// What a copy signals when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionSignal {
    /// The barrier at this offset in the shared memory of the block with this slot.
    Barrier(usize, u64),
    /// The end of a group of the warp with this number; `None` until the group is complete.
    Group { slot: usize, warp: u32, group: Option<u64> },
}

/// A copy that has been issued but not performed.
pub struct BulkCopy {
    pub(super) from: CopyEnd,
    pub(super) to: CopyEnd,
    pub(super) bytes: usize,
    pub(super) signal: CompletionSignal,
    /// Element size and operation of a reduction.
    pub(super) reduction: Option<Arc<BulkReduction>>,
    /// The box of a tensor copy, whose other side is in shared memory at `to`, for stores at `from`.
    pub(super) tile: Option<Arc<CopiedPart>>,
}

/// An operation on elements of a number of bytes.
pub struct BulkReduction {
    bytes: usize,
    update: UpdateFunction,
}

/// The copies that have been issued but not performed, oldest first.
#[derive(Default)]
pub struct BulkCopies {
    pending: Vec<BulkCopy>,
    /// Number of groups that have been completed so far.
    groups: u64,
    /// Whether copies are performed when they are issued.
    eager: bool,
}

impl BulkCopies {
    /// Makes a list without copies; with `eager`, copies are performed when they are issued.
    pub fn new(eager: bool) -> BulkCopies {
        BulkCopies { eager, ..BulkCopies::default() }
    }
}

/// Builds the action of an instruction of this family; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::UBLKCP | Opcode::UBLKRED => copy(site),
        Opcode::STAS | Opcode::REDAS => store_async(site),
        Opcode::UTMALDG | Opcode::UTMASTG | Opcode::UTMAREDG => tensor_copy(site),
        Opcode::UBLKPF | Opcode::UTMAPF | Opcode::UTMACCTL => Ok(Action::Nothing),
        Opcode::UTMACMDFLUSH => Ok(access(|warp, world, _| {
            end_group(world, warp);
            Ok(())
        })),
        Opcode::DEPBAR if site.has(".LE") => wait(site),
        _ => return None,
    })
}

/// Takes an address in brackets, which is one uniform register, and returns its row.
fn uniform_row(site: &Site<'_>, operand: &OperandValue) -> Result<Row, super::step::UnsupportedInst> {
    let OperandValue::Address(address) = operand else { return Err(site.unsupported("a copy without an address")) };
    let registers: Vec<_> = address.parts.iter().flat_map(|part| &part.registers).collect();
    match registers[..] {
        [register] if register.file == RegFile::Uniform => Ok(Row::source(register.number)),
        _ => Err(site.unsupported("the address of this copy")),
    }
}

/// Builds a copy.
fn copy(site: &Site<'_>) -> Built {
    if site.has(".DST_G_BYTE_MASK") {
        return Err(site.unsupported("a copy of some bytes"));
    }
    let is_multicast = site.has(".MULTICAST");
    let mut operands = site.operands();
    let to = uniform_row(site, &operands.take()?.value)?;
    let from = uniform_row(site, &operands.take()?.value)?;
    let size = operands.input()?.source;
    let reduction = match site.opcode() {
        Opcode::UBLKRED => {
            let (bytes, update) = bulk_update(site)?;
            Some(Arc::new(BulkReduction { bytes, update }))
        }
        _ => None,
    };
    // The first of the two letters is the destination.
    let letters = site.instruction.modifiers.iter().map(|symbol| symbol.spelling()).filter(|name| matches!(*name, ".S" | ".G"));
    let letters: Vec<&str> = letters.collect();
    let (to_shared, from_shared) = match letters[..] {
        [".S", ".G"] => (true, false),
        [".G", ".S"] => (false, true),
        [".S", ".S"] => (true, true),
        _ => return Err(site.unsupported("a copy from global to global memory")),
    };
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let lane = mask.trailing_zeros() as usize;
        let identity = &warp.identity;
        let operand = warp.read(size)[lane];
        let bytes = (operand as usize & 0xffff) * UNIT;
        let shared = |row: Row| space::in_cluster(identity, u64::from(warp.uniform(row))).map_err(Fault::of_warp);
        let place = |row: Row, is_shared: bool| match is_shared {
            true => shared(row).map(|(slot, offset)| CopyEnd::Shared(slot, offset)),
            false => Ok(CopyEnd::Global(warp.uniform_wide(row))),
        };
        let (source, target) = (place(from, from_shared)?, place(to, to_shared)?);
        let signal = match to_shared {
            true => shared(to.plus(1)).map(|(slot, offset)| CompletionSignal::Barrier(slot, offset))?,
            false => CompletionSignal::Group { slot: identity.slot, warp: identity.warp, group: None },
        };
        // The instruction executes once, whatever the number of active threads.
        let copy = |to, signal| BulkCopy { from: source, to, bytes, signal, reduction: reduction.clone(), tile: None };
        match is_multicast {
            true => issue_to_blocks(identity, world, operand >> 16, (target, signal), copy),
            false => issue(world, copy(target, signal)),
        }
        .map_err(Fault::of_warp)
    }))
}

/// Issues a copy to each block of a mask. Data and signal go to the same offsets in each of the blocks.
pub(super) fn issue_to_blocks(
    identity: &ThreadIndices,
    world: &mut World<'_>,
    blocks: u32,
    target: (CopyEnd, CompletionSignal),
    copy: impl Fn(CopyEnd, CompletionSignal) -> BulkCopy,
) -> Result<(), String> {
    if blocks >> identity.cluster_slots.len() != 0 {
        return Err(format!("a copy to the blocks {blocks:#x} of a cluster of {}", identity.cluster_slots.len()));
    }
    let (CopyEnd::Shared(_, to), CompletionSignal::Barrier(_, barrier)) = target else {
        return Err("a copy to global memory of several blocks".to_owned());
    };
    lanes_of(blocks).try_for_each(|rank| {
        let slot = identity.cluster_slots[rank];
        issue(world, copy(CopyEnd::Shared(slot, to), CompletionSignal::Barrier(slot, barrier)))
    })
}

/// The operations of `UTMAREDG`.
const TENSOR_OPERATIONS: [(&str, tensor_map::ReductionOperation); 8] = [
    (".ADD", tensor_map::ReductionOperation::Add),
    (".MIN", tensor_map::ReductionOperation::Min),
    (".MAX", tensor_map::ReductionOperation::Max),
    (".INC", tensor_map::ReductionOperation::Increment),
    (".DEC", tensor_map::ReductionOperation::Decrement),
    (".AND", tensor_map::ReductionOperation::And),
    (".OR", tensor_map::ReductionOperation::Or),
    (".XOR", tensor_map::ReductionOperation::Xor),
];

/// Builds `UTMALDG [tuple], [map]`, `UTMASTG [tuple], [map]` and `UTMAREDG [tuple], [map]`. The tuple of uniform registers has the place in
/// shared memory, for loads the barrier to signal, and the coordinates; a further register has the offsets of `.IM2COL` in its lower half
/// and the mask of blocks of a multicast in its upper half.
fn tensor_copy(site: &Site<'_>) -> Built {
    let dimensions = [(".1D", 1), (".2D", 2), (".3D", 3), (".4D", 4), (".5D", 5)];
    let dimensions: u16 = site.one_of(&dimensions).ok_or_else(|| site.unsupported("the dimensions of this copy"))?;
    let others = [".W", ".W128", ".GATHER4", ".SCATTER4", ".2CTA"];
    if others.iter().any(|mode| site.has(mode)) {
        return Err(site.unsupported("a tensor copy of this mode"));
    }
    let is_load = site.opcode() == Opcode::UTMALDG;
    let is_multicast = site.has(".MULTICAST");
    let is_columns = site.has(".IM2COL");
    let operation = match site.opcode() {
        Opcode::UTMAREDG => Some(site.one_of(&TENSOR_OPERATIONS).ok_or_else(|| site.unsupported("the operation of this reduction"))?),
        _ => None,
    };
    let mut operands = site.operands();
    let tuple = uniform_row(site, &operands.take()?.value)?;
    let map = uniform_row(site, &operands.take()?.value)?;
    let extra = if is_multicast || is_columns && is_load { Some(operands.input()?.source) } else { None };
    let first_coordinate = tuple.plus(if is_load { 2 } else { 1 });
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let lane = mask.trailing_zeros() as usize;
        let address = warp.uniform_wide(map);
        let map = read_map(warp, world, lane, address).map_err(Fault::of_warp)?;
        let coordinates: Vec<i32> = (0..dimensions).map(|dimension| warp.uniform(first_coordinate.plus(dimension)) as i32).collect();
        map.check(&coordinates, is_columns, is_load).map_err(Fault::of_warp)?;
        let extra = extra.map_or(0, |extra| warp.read(extra)[lane]);
        let offsets = if is_columns && is_load { offsets_in(extra, usize::from(dimensions) - 2) } else { Vec::new() };
        let identity = &warp.identity;
        let shared = |row: Row| space::in_cluster(identity, u64::from(warp.uniform(row))).map_err(Fault::of_warp);
        let (slot, offset) = shared(tuple)?;
        let signal = match is_load {
            true => shared(tuple.plus(1)).map(|(slot, offset)| CompletionSignal::Barrier(slot, offset))?,
            false => CompletionSignal::Group { slot: identity.slot, warp: identity.warp, group: None },
        };
        let bytes = map.box_bytes() as usize;
        let tile = Arc::new(CopiedPart { map, coordinates, offsets, operation });
        // The place in shared memory is the target of a load and the source of a store; the other side is in the tensor map.
        let copy = |to, signal| BulkCopy { from: to, to, bytes, signal, reduction: None, tile: Some(Arc::clone(&tile)) };
        let target = (CopyEnd::Shared(slot, offset), signal);
        match is_multicast {
            true => issue_to_blocks(identity, world, extra >> 16, target, copy),
            false => issue(world, copy(target.0, target.1)),
        }
        .map_err(Fault::of_warp)
    }))
}

/// Reads the tensor map at a generic address.
pub(super) fn read_map(warp: &mut Warp, world: &mut World<'_>, lane: usize, address: u64) -> Result<TensorMap, String> {
    let mut bytes = [0; MAP_BYTES];
    for (number, piece) in bytes.chunks_exact_mut(UNIT).enumerate() {
        let place = Space::Generic.locate(address + (number * UNIT) as u64, world.map);
        space::read(warp, world, lane, place, piece)?;
    }
    TensorMap::decode(&bytes)
}

/// Returns the offsets in the dimensions of an image that the lower half of a register has.
fn offsets_in(register: u32, dimensions: usize) -> Vec<u32> {
    let bits = corner_bits(dimensions);
    (0..dimensions as u32).map(|dimension| (register & 0xffff) >> (bits * dimension) & ((1 << bits) - 1)).collect()
}

/// Copies a part of a tensor: to shared memory if a barrier is signaled, else from there.
fn perform_tile(world: &mut World<'_>, copy: &BulkCopy, tile: &CopiedPart) -> Result<(), String> {
    let CopyEnd::Shared(slot, start) = copy.to else { return Err("a tensor copy without a place in shared memory".to_owned()) };
    if !start.is_multiple_of(BOX_ALIGNMENT) {
        return Err(format!("a box at {start:#x} of shared memory is not aligned to {BOX_ALIGNMENT} bytes"));
    }
    let size = tile.map.piece_bytes();
    let is_load = matches!(copy.signal, CompletionSignal::Barrier(..));
    tile.map.visit(&tile.coordinates, &tile.offsets, start, |shared, global| {
        let shared = CopyEnd::Shared(slot, shared);
        let mut value = tile.map.outside();
        let value = &mut value[..size];
        match (global, is_load) {
            (None, false) => {}
            (None, true) => unit_of(world, shared, 0, size)?.copy_from_slice(value),
            (Some(address), true) => {
                value.copy_from_slice(unit_of(world, CopyEnd::Global(address), 0, size)?);
                tile.map.convert(value);
                unit_of(world, shared, 0, size)?.copy_from_slice(value);
            }
            (Some(address), false) => {
                value.copy_from_slice(unit_of(world, shared, 0, size)?);
                let target = unit_of(world, CopyEnd::Global(address), 0, size)?;
                match tile.operation {
                    None => target.copy_from_slice(value),
                    Some(operation) => tile.map.reduce(operation, target, value)?,
                }
            }
        }
        Ok(())
    })
}

/// Issues a copy.
pub(super) fn issue(world: &mut World<'_>, copy: BulkCopy) -> Result<(), String> {
    if world.copies.eager {
        return perform(world, &copy);
    }
    world.copies.pending.push(copy);
    Ok(())
}

/// Builds `STAS [d], value` and `REDAS [d], value`: a pair of registers has the address and that of the barrier to signal.
fn store_async(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let OperandValue::Address(address) = &operands.take()?.value else { return Err(site.unsupported("a store without an address")) };
    // The zero register of the uniform file is part of the address.
    let registers = address.parts.iter().flat_map(|part| &part.registers).filter(|register| register.number.is_some());
    let registers: Vec<_> = registers.collect();
    let offset = address.parts.iter().find_map(|part| part.offset).unwrap_or(0);
    let pair = match registers[..] {
        [register] if register.file == RegFile::General => Row::source(register.number),
        _ => return Err(site.unsupported("the address of this store")),
    };
    let (bytes, reduction) = match site.opcode() {
        Opcode::REDAS => {
            let (bytes, update) = async_update(site)?;
            (bytes, Some(Arc::new(BulkReduction { bytes, update })))
        }
        _ => (site.one_of(&[(".64", 8), (".128", 16)]).unwrap_or(4), None),
    };
    let words = (bytes / 4) as u16;
    let value = operands.rows(words)?;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        for lane in lanes_of(mask) {
            let fail = |what| Fault::of(lane, what);
            let mut data = [0; UNIT];
            for (at, bytes) in (0..words).zip(data.chunks_exact_mut(4)) {
                bytes.copy_from_slice(&warp.row(value.plus(at))[lane].to_le_bytes());
            }
            let word = |row: Row| u64::from(warp.row(row)[lane]);
            let address = word(pair).wrapping_add_signed(offset) & 0xffff_ffff;
            let (slot, start) = space::in_cluster(&warp.identity, address).map_err(fail)?;
            let (barrier_slot, barrier) = space::in_cluster(&warp.identity, word(pair.plus(1))).map_err(fail)?;
            let signal = CompletionSignal::Barrier(barrier_slot, barrier);
            let to = CopyEnd::Shared(slot, start);
            let reduction = reduction.clone();
            issue(world, BulkCopy { from: CopyEnd::Value(data), to, bytes, signal, reduction, tile: None }).map_err(fail)?;
        }
        Ok(())
    }))
}

/// Makes a group of the warp's copies that are in none yet.
fn end_group(world: &mut World<'_>, of: &Warp) {
    world.copies.groups += 1;
    let number = world.copies.groups;
    for copy in &mut world.copies.pending {
        if let CompletionSignal::Group { slot, warp, group: group @ None } = &mut copy.signal
            && (*slot, *warp) == (of.identity.slot, of.identity.warp)
        {
            *group = Some(number);
        }
    }
}

/// `DEPBAR.LE SB, n`: performs the copies of all groups of the warp but the last `n`.
fn wait(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    operands.take()?;
    let left = operands.input()?.source;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let left = warp.read(left)[mask.trailing_zeros() as usize] as usize;
        let of = (warp.identity.slot, warp.identity.warp);
        let number = |copy: &BulkCopy| match copy.signal {
            CompletionSignal::Group { slot, warp, group } if (slot, warp) == of => group,
            _ => None,
        };
        let mut groups: Vec<u64> = world.copies.pending.iter().filter_map(number).collect();
        groups.dedup();
        let Some(&last) = groups.len().checked_sub(left + 1).and_then(|at| groups.get(at)) else { return Ok(()) };
        perform_where(world, |copy| number(copy).is_some_and(|group| group <= last)).map_err(Fault::of_warp)
    }))
}

/// Performs the copies that signal a barrier.
pub fn perform_for_barrier(world: &mut World<'_>, slot: usize, barrier: u64) -> Result<(), String> {
    if world.copies.pending.is_empty() {
        return Ok(());
    }
    perform_where(world, |copy| copy.signal == CompletionSignal::Barrier(slot, barrier))
}

/// Performs all copies of a block that ends.
pub fn perform_all(world: &mut World<'_>, ending: usize) -> Result<(), String> {
    perform_where(world, |copy| match copy.signal {
        CompletionSignal::Barrier(slot, _) | CompletionSignal::Group { slot, .. } => slot == ending,
    })
}

/// Performs the selected copies, oldest first.
fn perform_where(world: &mut World<'_>, is_due: impl Fn(&BulkCopy) -> bool) -> Result<(), String> {
    let (due, rest): (Vec<BulkCopy>, Vec<BulkCopy>) = std::mem::take(&mut world.copies.pending).into_iter().partition(|copy| is_due(copy));
    world.copies.pending = rest;
    due.iter().try_for_each(|copy| perform(world, copy))
}

/// Performs one copy.
fn perform(world: &mut World<'_>, copy: &BulkCopy) -> Result<(), String> {
    let size = copy.bytes.min(UNIT);
    let pieces = match &copy.tile {
        Some(tile) => {
            perform_tile(world, copy, tile)?;
            0
        }
        None => copy.bytes,
    };
    for offset in (0..pieces).step_by(UNIT) {
        let mut unit = [0; UNIT];
        match copy.from {
            CopyEnd::Value(value) => unit = value,
            from => unit.copy_from_slice(unit_of(world, from, offset, UNIT)?),
        }
        let unit = &unit[..size];
        let target = unit_of(world, copy.to, offset, size)?;
        match copy.reduction.as_deref() {
            None => target.copy_from_slice(unit),
            Some(BulkReduction { bytes, update }) => {
                for (old, new) in target.chunks_exact_mut(*bytes).zip(unit.chunks_exact(*bytes)) {
                    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits: u128, &byte| bits << 8 | u128::from(byte));
                    let result = update(number(old), number(new), 0);
                    old.copy_from_slice(&result.to_le_bytes()[..*bytes]);
                }
            }
        }
    }
    if let CompletionSignal::Barrier(slot, offset) = copy.signal {
        let bytes = copy.bytes as i64;
        mbarrier::change(world, slot, offset, |barrier| {
            barrier.add_transactions(-bytes);
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns `bytes` bytes of memory, at most a unit.
fn unit_of<'w>(world: &'w mut World<'_>, place: CopyEnd, offset: usize, bytes: usize) -> Result<&'w mut [u8], String> {
    match place {
        CopyEnd::Global(address) => {
            let address = address + offset as u64;
            world.memory.write(address, bytes).map_err(|fault| format!("a copy accesses {bytes} bytes at {:#x}", fault.address))
        }
        CopyEnd::Shared(slot, start) => {
            let start = start as usize + offset;
            let memory = &mut world.shared[slot];
            let is_aligned = start.is_multiple_of(bytes);
            let found = memory.get_mut(start..start + bytes).filter(|_| is_aligned);
            found.ok_or_else(|| format!("a copy accesses {bytes} bytes at {start:#x} of shared memory"))
        }
        CopyEnd::Value(_) => Err("a store to a value".to_owned()),
    }
}
