//! Checks of asynchronous copies: the order of a copy and earlier accesses when the copy is issued, and accesses while it is in flight.

use smallvec::SmallVec;

use super::LaunchState;
use super::access::MemoryLocation;
use super::block::PtxBlock;
use super::mbarrier::{CopyData, PendingBulkCopy};
use super::races::{AsyncConflict, SharedAccess};
use super::warp::PtxWarp;
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{PtxAction, PtxSpace, RANK_BYTES};

/// An access of an asynchronous operation to shared memory.
#[derive(Clone, Copy)]
pub(super) struct AsyncAccess {
    pub(super) place: MemoryLocation,
    pub(super) bytes: usize,
    pub(super) is_write: bool,
    /// Whether the access is atomic, so that it does not race with others of its kind.
    pub(super) strong: bool,
    pub(super) line: u32,
}

impl PtxWarp {
    /// Returns the number by which the race checker knows a thread: its number in all blocks of the cluster.
    pub(super) fn issuer(&self, machine: &LaunchState<'_>, block: &PtxBlock, lane: usize) -> u32 {
        block.rank * machine.threads() + self.thread(lane)
    }

    /// Records the start of a bulk copy, and reports earlier accesses that are not ordered before it.
    pub(super) fn begin_copy(&self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, copy: &PendingBulkCopy) {
        if block.races.is_none() {
            return;
        }
        let is_reduction = matches!(&machine.program.code[copy.index].action, PtxAction::StoreAsync(store) if store.update.is_some());
        for (place, bytes, is_write) in shared_parts(copy) {
            let access = AsyncAccess { place, bytes, is_write, strong: is_reduction, line: copy.line };
            self.begin_access(machine, block, copy.lane, access, true);
        }
    }

    /// Records the end of a bulk copy.
    pub(super) fn end_copy(&self, machine: &LaunchState<'_>, block: &mut PtxBlock, copy: &PendingBulkCopy) {
        if block.races.is_some() {
            shared_parts(copy).into_iter().for_each(|(place, bytes, is_write)| self.end_access(machine, block, place, bytes, is_write));
        }
    }

    /// Records the start of an asynchronous access. `is_ordered` is whether the access may begin at once, so that earlier accesses must be
    /// ordered before it, and whether it is one of the asynchronous proxy.
    pub(super) fn begin_access(
        &self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        lane: usize,
        access: AsyncAccess,
        is_ordered: bool,
    ) {
        let AsyncAccess { place, bytes, is_write, strong, line } = access;
        if place.space != PtxSpace::Shared {
            return;
        }
        let (rank, start) = machine.shared_place(place.address);
        let start = start as usize;
        let memory = if rank == block.rank { Some(&block.shared) } else { machine.peer(rank).map(|peer| &peer.shared) };
        // Accesses outside of memory are reported when they are performed.
        let is_inside = memory.is_some_and(|memory| start + bytes <= memory.bytes.len());
        let Some(races) = block.races.as_mut().filter(|_| is_inside) else { return };
        let as_shared = SharedAccess { thread: self.thread(lane), line, strong, is_write };
        let conflict = races.async_conflict(rank, start, bytes, is_write).filter(|_| !strong);
        let unfenced = races.unfenced_store(rank, start, bytes).filter(|_| is_ordered && !is_write);
        let race = if is_ordered { races.access(rank, start, bytes, as_shared, true) } else { None };
        races.begin_async(rank, start, bytes, is_write, line);
        if let Some(conflict) = conflict {
            self.report_conflict(machine, block, lane, as_shared, conflict);
        } else if race.is_some() {
            self.report_race(machine, block, lane, as_shared, race);
        }
        if let Some(store) = unfenced {
            self.report_unfenced(machine, block, lane, line, store);
        }
    }

    /// Records the end of an asynchronous access.
    pub(super) fn end_access(&self, machine: &LaunchState<'_>, block: &mut PtxBlock, place: MemoryLocation, bytes: usize, is_write: bool) {
        if let Some(races) = block.races.as_mut().filter(|_| place.space == PtxSpace::Shared) {
            let (rank, start) = machine.shared_place(place.address);
            races.end_async(rank, start as usize, bytes, is_write);
        }
    }

    /// Reports an access to memory that an operation in flight reads or writes.
    pub(super) fn report_conflict(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        access: SharedAccess,
        conflict: AsyncConflict,
    ) {
        let verb = if access.is_write { "writes" } else { "reads" };
        let other = if conflict.is_write { "write" } else { "read" };
        let message = format!(
            "{verb} shared memory at {:#x}, which the asynchronous operation in line {} may still {other}",
            conflict.address, conflict.line
        );
        machine.report(FindingKind::AsyncAccess, block, self, lane, access.line, u64::from(conflict.line), message);
    }

    /// Reports an asynchronous read of a store that the asynchronous proxy may not see.
    pub(super) fn report_unfenced(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        line: u32,
        (address, store_line): (usize, u32),
    ) {
        let message = format!(
            "reads shared memory at {address:#x}, which line {store_line} wrote; without `fence.proxy.async` after the store it may read the old contents"
        );
        machine.report(FindingKind::MissingProxyFence, block, self, lane, line, u64::from(store_line), message);
    }
}

/// Returns the parts of shared memory that a copy accesses: place, bytes, and whether it writes them.
fn shared_parts(copy: &PendingBulkCopy) -> SmallVec<[(MemoryLocation, usize, bool); 2]> {
    let mut parts: SmallVec<[(MemoryLocation, usize, bool); 2]> = SmallVec::new();
    match &copy.from {
        CopyData::At(from) => parts.extend([(*from, copy.bytes, false), (copy.to, copy.bytes, true)]),
        CopyData::Value(..) => parts.push((copy.to, copy.bytes, true)),
        CopyData::Tensor(part) => {
            let is_load = copy.barrier.is_some();
            let rank = copy.to.address & !(RANK_BYTES - 1);
            let size = part.map.piece_bytes();
            let mut pieces: Vec<u64> = Vec::new();
            let collected: Result<(), ()> = part.map.visit(&part.coordinates, &part.offsets, copy.to.address - rank, |shared, _| {
                pieces.push(rank + shared);
                Ok(())
            });
            debug_assert!(collected.is_ok());
            pieces.sort_unstable();
            // Neighbouring pieces are one part.
            for run in pieces.chunk_by(|one, next| *next == one + size as u64) {
                let place = MemoryLocation { address: run[0], ..copy.to };
                parts.push((place, run.len() * size, is_load));
            }
        }
    }
    parts.retain(|part| part.0.space == PtxSpace::Shared);
    parts
}
