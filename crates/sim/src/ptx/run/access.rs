//! Memory accesses of threads: spaces, bounds, alignment, uninitialized bytes.

use smallvec::SmallVec;

use super::block::PtxBlock;
use super::races::{Race, SharedAccess};
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::memory::{AccessFault, FaultKind};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{
    CONSTANT_WINDOW, LOCAL_WINDOW, Load, MatrixKind, MatrixTransfer, PARAMETER_WINDOW, PtxAddress, PtxAtomic, PtxSpace, RANK_SHIFT,
    SHARED_WINDOW, Store, WINDOW_BYTES,
};

/// The bytes of an access.
pub(crate) type Bytes = SmallVec<[u8; 32]>;

/// A memory space and an address in it. In clusters of several blocks, the upper bits of an address in shared memory are the rank of the
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLocation {
    pub(crate) space: PtxSpace,
    pub(crate) address: u64,
}

impl MemoryLocation {
    /// Resolves an address; a generic one is resolved by the window it is in.
    pub(crate) fn of(space: PtxSpace, address: u64) -> MemoryLocation {
        match space {
            PtxSpace::Generic => {}
            PtxSpace::SharedCluster => return MemoryLocation { space: PtxSpace::Shared, address },
            _ => return MemoryLocation { space, address },
        }
        let windows = [
            (PtxSpace::Shared, SHARED_WINDOW),
            (PtxSpace::Local, LOCAL_WINDOW),
            (PtxSpace::Constant, CONSTANT_WINDOW),
            (PtxSpace::Parameter, PARAMETER_WINDOW),
        ];
        let found = windows.into_iter().find(|(_, start)| address.wrapping_sub(*start) < WINDOW_BYTES);
        found.map_or(MemoryLocation { space: PtxSpace::Global, address }, |(space, start)| MemoryLocation {
            space,
            address: address - start,
        })
    }

    fn space_name(self) -> &'static str {
        match self.space {
            PtxSpace::Generic | PtxSpace::Global => "global",
            PtxSpace::Shared | PtxSpace::SharedCluster => "shared",
            PtxSpace::Local => "local",
            PtxSpace::Constant => "constant",
            PtxSpace::Parameter => "parameter",
        }
    }

    /// Returns the key of a location in the race checker's table of synchronizing locations; shared and global ones never collide.
    fn key(self) -> u64 {
        if self.space == PtxSpace::Shared { SHARED_WINDOW + self.address } else { self.address }
    }
}

/// Returns why an access to a memory of `size` bytes is invalid; `None` if it is valid.
fn refusal(place: MemoryLocation, bytes: usize, size: usize) -> Option<(FindingKind, String)> {
    let MemoryLocation { address, .. } = place;
    let space = place.space_name();
    if address.checked_add(bytes as u64).is_none_or(|end| end > size as u64) {
        let message = format!("{bytes} bytes at {address:#x} are not inside of the {size} bytes of {space} memory");
        return Some((FindingKind::OutOfBounds, message));
    }
    if bytes.is_power_of_two() && !address.is_multiple_of(bytes as u64) {
        return Some((FindingKind::Misaligned, format!("the address {address:#x} in {space} memory is no multiple of {bytes}")));
    }
    None
}

/// Describes an access to the shared memory of a block that is not there.
fn no_block(rank: u32) -> String {
    format!("the access is to shared memory of block {rank} of the cluster, which does not exist or has ended")
}

/// Describes a fault of global memory.
fn global_refusal(fault: &AccessFault) -> (FindingKind, String) {
    let AccessFault { address, bytes, kind, near } = fault;
    let near = match near {
        Some((name, offset)) => format!(", {offset} bytes after the start of {name}"),
        None => String::new(),
    };
    match kind {
        FaultKind::Misaligned => (FindingKind::Misaligned, format!("the address {address:#x}{near} is no multiple of {bytes}")),
        FaultKind::OutOfBounds => {
            (FindingKind::OutOfBounds, format!("{bytes} bytes at {address:#x}{near} are in no allocation of global memory"))
        }
    }
}

impl PtxWarp {
    /// Computes the location a thread accesses.
    pub(crate) fn place(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        address: &PtxAddress,
        line: u32,
    ) -> MemoryLocation {
        if machine.options.undefined_values && self.read_undefined(address.base, lane) != 0 {
            machine.uninitialized(block, self, lane, line, "the address of this access was never written");
        }
        let frame = if address.in_frame { u64::from(self.local_base[lane]) } else { 0 };
        let base = self.read(&machine.pool, address.base, lane);
        let sum = base.wrapping_add_signed(address.offset).wrapping_add(frame);
        // Shared and local memory have addresses of 32 bits: a register may hold -64 if the offset is 64 or more.
        let wraps = matches!(address.space, PtxSpace::Shared | PtxSpace::SharedCluster | PtxSpace::Local) && u32::try_from(base).is_ok();
        let place = MemoryLocation::of(address.space, if wraps { u64::from(sum as u32) } else { sum });
        // An address without a rank is in the block of the thread.
        match place.address >> RANK_SHIFT {
            rank if address.space != PtxSpace::Shared || machine.cluster_blocks == 1 || rank == u64::from(block.rank) => place,
            0 => MemoryLocation { address: place.address | u64::from(block.rank) << RANK_SHIFT, ..place },
            rank => {
                let message = format!("the address is in block {rank} of the cluster; this needs an access to `.shared::cluster`");
                machine.report(FindingKind::OutOfBounds, block, self, lane, line, rank, message);
                place
            }
        }
    }

    /// Reads memory: returns the bytes, and for each byte the mask of its undefined bits.
    pub(crate) fn peek(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        mut place: MemoryLocation,
        bytes: usize,
        line: u32,
    ) -> Result<(Bytes, Bytes), Stop> {
        let mut start = place.address as usize;
        let (contents, undefined): (&[u8], &[u8]) = match place.space {
            PtxSpace::Global | PtxSpace::Generic => match machine.memory.read(place.address, bytes) {
                Ok(found) => return Ok((Bytes::from_slice(found), Bytes::from_elem(0, bytes))),
                Err(fault) => {
                    let (kind, message) = global_refusal(&fault);
                    return Err(machine.stop(kind, block, self, lane, line, message));
                }
            },
            PtxSpace::Shared | PtxSpace::SharedCluster => {
                let (rank, offset) = machine.shared_place(place.address);
                let owner = match machine.peer(rank) {
                    _ if rank == block.rank => block,
                    Some(peer) if !peer.has_ended => peer,
                    _ => {
                        let message = no_block(rank);
                        return Err(machine.stop(FindingKind::OutOfBounds, block, self, lane, line, message));
                    }
                };
                (place.address, start) = (offset, offset as usize);
                (&owner.shared.bytes, &owner.shared.undefined)
            }
            PtxSpace::Local => {
                let (local, top) = (&self.locals[lane], self.local_top[lane] as usize);
                (&local.bytes[..top], &local.undefined[..top])
            }
            PtxSpace::Constant => (machine.constants, &[]),
            PtxSpace::Parameter => (&machine.parameters, &[]),
        };
        if let Some((kind, message)) = refusal(place, bytes, contents.len()) {
            return Err(machine.stop(kind, block, self, lane, line, message));
        }
        let found = Bytes::from_slice(&contents[start..start + bytes]);
        let undefined = undefined.get(start..start + bytes).map_or_else(|| Bytes::from_elem(0, bytes), Bytes::from_slice);
        Ok((found, undefined))
    }

    /// Writes memory. `write` returns for each byte its new value and undefined bits, or `None` to keep it.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn poke(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        lane: usize,
        place: MemoryLocation,
        bytes: usize,
        line: u32,
        write: impl Fn(usize) -> Option<(u8, u8)>,
    ) -> Result<(), Stop> {
        let start = place.address as usize;
        let (contents, undefined): (&mut [u8], &mut [u8]) = match place.space {
            PtxSpace::Global | PtxSpace::Generic => match machine.memory.write(place.address, bytes) {
                Ok(found) => (found, &mut []),
                Err(fault) => {
                    let (kind, message) = global_refusal(&fault);
                    return Err(machine.stop(kind, block, self, lane, line, message));
                }
            },
            PtxSpace::Shared | PtxSpace::SharedCluster => {
                let (rank, offset) = machine.shared_place(place.address);
                let size = match machine.peer(rank) {
                    _ if rank == block.rank => block.shared.bytes.len(),
                    Some(peer) if !peer.has_ended => peer.shared.bytes.len(),
                    _ => return Err(machine.stop(FindingKind::OutOfBounds, block, self, lane, line, no_block(rank))),
                };
                if let Some((kind, message)) = refusal(MemoryLocation { address: offset, ..place }, bytes, size) {
                    return Err(machine.stop(kind, block, self, lane, line, message));
                }
                let owner = if rank == block.rank { &mut *block } else { machine.peer_mut(rank).unwrap_or(block) };
                let range = offset as usize..offset as usize + bytes;
                (&mut owner.shared.bytes[range.clone()], &mut owner.shared.undefined[range])
            }
            PtxSpace::Local => {
                let (all, undefined): (&mut [u8], &mut [u8]) = {
                    let (local, top) = (&mut self.locals[lane], self.local_top[lane] as usize);
                    (&mut local.bytes[..top], &mut local.undefined[..top])
                };
                if let Some((kind, message)) = refusal(place, bytes, all.len()) {
                    return Err(machine.stop(kind, block, self, lane, line, message));
                }
                (&mut all[start..start + bytes], &mut undefined[start..start + bytes])
            }
            PtxSpace::Constant | PtxSpace::Parameter => {
                let message = format!("{} memory cannot be written", place.space_name());
                return Err(machine.stop(FindingKind::ReadOnly, block, self, lane, line, message));
            }
        };
        for (byte, target) in contents.iter_mut().enumerate() {
            if let Some((value, undefined_bits)) = write(byte) {
                *target = value;
                if let Some(mask) = undefined.get_mut(byte) {
                    *mask = undefined_bits;
                }
            }
        }
        Ok(())
    }

    /// Executes a load for the active threads.
    pub(crate) fn load(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        load: &Load,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let size = usize::from(load.element_bytes);
        let bytes = size * load.destinations.len();
        for lane in lanes_of(active) {
            let place = self.place(machine, block, lane, &load.address, line);
            let (contents, undefined) = self.peek(machine, block, lane, place, bytes, line)?;
            if block.races.is_some() {
                let access = SharedAccess { thread: self.thread(lane), line, strong: load.ordering.strong, is_write: false };
                self.check_race(machine, block, lane, place, access, &contents);
                if let Some(races) = block.races.as_mut().filter(|_| load.ordering.strong) {
                    races.strong_read(access.thread, place.key(), load.ordering.acquire);
                }
            }
            for (number, destination) in load.destinations.iter().enumerate() {
                let Some(destination) = *destination else { continue };
                let first = number * size;
                let value = little(&contents[first..first + size.min(8)]);
                let mut unknown = little(&undefined[first..first + size.min(8)]);
                let value = extended(value, size, load.sign_bits);
                if load.sign_bits != 0 && unknown != 0 {
                    unknown = u64::MAX;
                }
                self.write_with(destination, lane, value, unknown);
                if size == 16 {
                    let upper = first + 8..first + 16;
                    self.write_with(destination + 1, lane, little(&contents[upper.clone()]), little(&undefined[upper]));
                }
            }
        }
        Ok(())
    }

    /// Executes a store for the active threads.
    pub(crate) fn store(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        store: &Store,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let size = usize::from(store.element_bytes);
        let bytes = size * store.values.len();
        for lane in lanes_of(active) {
            let place = self.place(machine, block, lane, &store.address, line);
            let mut contents = Bytes::from_elem(0, bytes);
            let mut undefined = Bytes::from_elem(0, bytes);
            for (number, value) in store.values.iter().enumerate() {
                let Some(low) = *value else { continue };
                let halves = [low, store.upper[number]];
                for (half, source) in halves.into_iter().take(size.div_ceil(8)).enumerate() {
                    let (first, count) = (number * size + 8 * half, size.min(8));
                    let bits = self.read(&machine.pool, source, lane).to_le_bytes();
                    contents[first..first + count].copy_from_slice(&bits[..count]);
                    let unknown = self.read_undefined(source, lane).to_le_bytes();
                    undefined[first..first + count].copy_from_slice(&unknown[..count]);
                }
            }
            if place.space == PtxSpace::Global && machine.options.undefined_values && undefined.iter().any(|&bits| bits != 0) {
                machine.uninitialized(block, self, lane, line, "the value that is stored was never written");
            }
            let is_written = |byte: usize| store.values[byte / size].is_some();
            if block.races.is_some() {
                let access = SharedAccess { thread: self.thread(lane), line, strong: store.ordering.strong, is_write: true };
                self.check_race(machine, block, lane, place, access, &contents);
                if let Some(races) = block.races.as_mut().filter(|_| store.ordering.strong) {
                    races.strong_write(access.thread, place.key(), store.ordering.release);
                }
            }
            self.poke(machine, block, lane, place, bytes, line, |byte| is_written(byte).then(|| (contents[byte], undefined[byte])))?;
        }
        Ok(())
    }

    /// Executes an atomic for the active threads, one after another.
    pub(crate) fn atomic(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        atomic: &PtxAtomic,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let size = usize::from(atomic.element_bytes);
        let bytes = size * atomic.operands.len();
        for lane in lanes_of(active) {
            let place = self.place(machine, block, lane, &atomic.address, line);
            let (old, old_undefined) = self.peek(machine, block, lane, place, bytes, line)?;
            if block.races.is_some() {
                let access = SharedAccess { thread: self.thread(lane), line, strong: true, is_write: true };
                self.check_race(machine, block, lane, place, access, &old);
                if let Some(races) = block.races.as_mut() {
                    races.strong_read(access.thread, place.key(), atomic.ordering.acquire);
                    races.strong_write(access.thread, place.key(), atomic.ordering.release);
                }
            }
            let update = atomic.update_global.as_ref().filter(|_| place.space == PtxSpace::Global).unwrap_or(&atomic.update);
            let mut new = Bytes::from_elem(0, bytes);
            let mut results: SmallVec<[(u128, u64); 8]> = SmallVec::new();
            let mut unknown = old_undefined.iter().any(|&bits| bits != 0);
            for (number, operands) in atomic.operands.iter().enumerate() {
                let [value, second] = operands.map(|[low, high]| {
                    let low_bits = u128::from(self.read(&machine.pool, low, lane));
                    cut(low_bits | u128::from(self.read(&machine.pool, high, lane)) << 64, size)
                });
                let mask = if size >= 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
                unknown |= operands.iter().flatten().any(|&source| self.read_undefined(source, lane) & mask != 0);
                let before = wide(&old[number * size..(number + 1) * size]);
                let after = update(before, value, second);
                new[number * size..(number + 1) * size].copy_from_slice(&after.to_le_bytes()[..size]);
                results.push((before, if old_undefined.iter().any(|&bits| bits != 0) { u64::MAX } else { 0 }));
            }
            if unknown && machine.options.undefined_values {
                machine.uninitialized(block, self, lane, line, "an operand or the memory of this atomic operation was never written");
            }
            self.poke(machine, block, lane, place, bytes, line, |byte| Some((new[byte], 0)))?;
            for (destination, (before, unknown)) in atomic.destinations.iter().zip(results) {
                let Some(slot) = *destination else { continue };
                self.write_with(slot, lane, before as u64, unknown);
                if size == 16 {
                    self.write_with(slot + 1, lane, (before >> 64) as u64, unknown);
                }
            }
        }
        Ok(())
    }

    /// Executes `ldmatrix`, `stmatrix` or `movmatrix` on 8 × 8 matrices of 16-bit elements. Thread `8 * m + r` has the address of row `r`
    /// of matrix `m`; register `m` of thread `t` holds the elements `2 * (t % 4)` and the next one of row `t / 4`.
    pub(crate) fn matrix(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        matrix: &MatrixTransfer,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        self.require_all_lanes(machine, block, active, line)?;
        let count = matrix.registers.len().max(matrix.destinations.len());
        for number in 0..count {
            // Elements by row and column as in memory, with their undefined bits.
            let mut elements = [[(0_u16, 0_u16); 8]; 8];
            if matrix.kind == MatrixKind::Load {
                for (row, elements) in elements.iter_mut().enumerate() {
                    let lane = 8 * number + row;
                    let place = self.place(machine, block, lane, &matrix.address, line);
                    let (contents, undefined) = self.peek(machine, block, lane, place, 16, line)?;
                    if block.races.is_some() {
                        let access = SharedAccess { thread: self.thread(lane), line, strong: false, is_write: false };
                        self.check_race(machine, block, lane, place, access, &contents);
                    }
                    for (column, element) in elements.iter_mut().enumerate() {
                        let pair = 2 * column..2 * column + 2;
                        *element = (little(&contents[pair.clone()]) as u16, little(&undefined[pair]) as u16);
                    }
                }
            } else {
                for lane in 0..32 {
                    let source = matrix.registers[number];
                    let (value, unknown) = (self.read(&machine.pool, source, lane), self.read_undefined(source, lane));
                    for half in 0..2 {
                        let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                        let (row, column) =
                            if matrix.transposed && matrix.kind == MatrixKind::Store { (column, row) } else { (row, column) };
                        elements[row][column] = ((value >> (16 * half)) as u16, (unknown >> (16 * half)) as u16);
                    }
                }
            }
            if matrix.kind == MatrixKind::Store {
                for (row, elements) in elements.iter().enumerate() {
                    let lane = 8 * number + row;
                    let place = self.place(machine, block, lane, &matrix.address, line);
                    let bytes: Bytes = elements.iter().flat_map(|(value, _)| value.to_le_bytes()).collect();
                    let undefined: Bytes = elements.iter().flat_map(|(_, unknown)| unknown.to_le_bytes()).collect();
                    if block.races.is_some() {
                        let access = SharedAccess { thread: self.thread(lane), line, strong: false, is_write: true };
                        self.check_race(machine, block, lane, place, access, &bytes);
                    }
                    self.poke(machine, block, lane, place, 16, line, |byte| Some((bytes[byte], undefined[byte])))?;
                }
                continue;
            }
            for lane in 0..32 {
                let half = |half: usize| {
                    let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                    if matrix.transposed { elements[column][row] } else { elements[row][column] }
                };
                let [low, high] = [half(0), half(1)];
                let value = u64::from(low.0) | u64::from(high.0) << 16;
                let unknown = u64::from(low.1) | u64::from(high.1) << 16;
                self.write_with(matrix.destinations[number], lane, value, unknown);
            }
        }
        Ok(())
    }

    /// Passes an access to the race checker and reports the race it finds, if any.
    pub(crate) fn check_race(
        &self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        lane: usize,
        place: MemoryLocation,
        access: SharedAccess,
        contents: &[u8],
    ) {
        if place.space != PtxSpace::Shared {
            return;
        }
        let (rank, start) = machine.shared_place(place.address);
        let start = start as usize;
        let memory = if rank == block.rank { Some(&block.shared) } else { machine.peer(rank).map(|peer| &peer.shared) };
        let Some(old) = memory.and_then(|memory| memory.bytes.get(start..start + contents.len())) else { return };
        let changes = access.is_write && (access.strong || old != contents);
        let Some(races) = &mut block.races else { return };
        if let Some(conflict) = races.async_conflict(rank, start, contents.len(), access.is_write) {
            return self.report_conflict(machine, block, lane, access, conflict);
        }
        let race = races.access(rank, start, contents.len(), access, changes);
        if access.is_write {
            races.note_store(rank, start, contents.len());
        }
        self.report_race(machine, block, lane, access, race);
    }

    /// Reports a race of an access to shared memory, if there is one.
    pub(super) fn report_race(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        access: SharedAccess,
        race: Option<Race>,
    ) {
        let Some(races) = &block.races else { return };
        if let Some(race) = race {
            let (other_rank, thread) = races.rank_and_thread(race.thread);
            let other = machine.thread_index(thread);
            let of_block = if other_rank == block.rank { String::new() } else { format!(" of block {other_rank} of the cluster") };
            let verb = |is_write: bool| if is_write { "writes" } else { "reads" };
            let message = format!(
                "{} shared memory at {:#x}, which thread ({},{},{}){of_block} {} in line {} without a barrier between",
                verb(access.is_write),
                race.address,
                other[0],
                other[1],
                other[2],
                verb(race.is_write),
                race.line,
            );
            machine.report(FindingKind::Race, block, self, lane, access.line, u64::from(race.line), message);
        }
    }
}

/// Returns bytes as a little-endian number.
pub(super) fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Returns up to 16 bytes as a little-endian number.
fn wide(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// Truncates a value to a number of bytes.
fn cut(value: u128, bytes: usize) -> u128 {
    if bytes >= 16 { value } else { value & ((1 << (8 * bytes)) - 1) }
}

/// Sign-extends a value of `bytes` bytes to `sign_bits` bits; 0 leaves it unchanged.
fn extended(value: u64, bytes: usize, sign_bits: u8) -> u64 {
    if sign_bits == 0 {
        return value;
    }
    let unused = 64 - 8 * bytes as u32;
    let wide = ((value << unused) as i64 >> unused) as u64;
    wide & (u64::MAX >> (64 - u32::from(sign_bits.min(64))))
}
