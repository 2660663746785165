//! Barriers in shared memory (`mbarrier`), bulk copies (`cp.async.bulk`) and asynchronous stores (`st.async`, `red.async`) of a cluster.
//!
//! A bulk copy is performed as late as allowed: one that signals a barrier when a thread tests the barrier, one in a group when its thread
//! waits for the group or exits. So a kernel that forgets to wait reads the old contents.

use std::collections::VecDeque;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::access::{Bytes, MemoryLocation};
use super::block::PtxBlock;
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{
    Bulk, PtxAction, PtxMbarrier, PtxMbarrierKind, PtxSource, PtxSpace, RANK_BITS, RANK_SHIFT, SHARED_WINDOW, StoreAsync, Update,
};
use crate::tensor_map::{self, TensorMap};

/// Largest number of arrivals that a barrier can expect.
const MOST_ARRIVALS: u64 = (1 << 20) - 1;
/// Position of the parity in the state that an arrival returns. The lower bits are the pending arrivals.
const PARITY: u32 = 63;

/// The contents of a barrier.
#[derive(Clone, Copy)]
struct Contents {
    expected: u64,
    pending: u64,
    transactions: i64,
    parity: u64,
}

impl Contents {
    fn end_phase(&mut self) {
        if self.pending == 0 && self.transactions == 0 {
            self.parity ^= 1;
            self.pending = self.expected;
        }
    }
}

/// The data of a copy.
#[derive(Clone)]
pub(super) enum CopyData {
    At(MemoryLocation),
    /// A part of a tensor. In a store, `to` is the place in shared memory.
    Tensor(Rc<TensorPart>),
    /// The value of an asynchronous store, and its undefined bits.
    Value(Bytes, Bytes),
}

/// A part of a tensor: a box, or columns of pixels.
pub(super) struct TensorPart {
    pub(super) map: TensorMap,
    pub(super) coordinates: Vec<i32>,
    /// Offsets in the dimensions of an image.
    pub(super) offsets: Vec<u32>,
    /// The operation of a reduction.
    pub(super) operation: Option<tensor_map::ReductionOperation>,
}

/// A bulk copy that has been issued but not performed.
#[derive(Clone)]
pub(super) struct PendingBulkCopy {
    pub(super) from: CopyData,
    pub(super) to: MemoryLocation,
    pub(super) bytes: usize,
    pub(super) barrier: Option<u64>,
    pub(super) lane: usize,
    pub(super) line: u32,
    /// Index of the instruction.
    pub(super) index: usize,
    /// The thread that issued it, which the race checker counts in all blocks.
    pub(super) issuer: u32,
}

/// Copies that are waited for together.
type CopyGroup = Vec<PendingBulkCopy>;

/// The barriers and pending bulk copies of a cluster. Addresses have the rank of the block.
#[derive(Default)]
pub(crate) struct Mbarriers {
    barriers: FxHashMap<u64, Contents>,
    /// Copies that signal a barrier.
    loads: Vec<PendingBulkCopy>,
    /// For each thread of a block with a rank the copies that are in no group yet, and the groups, oldest first.
    stores: FxHashMap<(u32, u32), (CopyGroup, VecDeque<CopyGroup>)>,
}

impl PtxWarp {
    /// Executes an instruction of the family `mbarrier`.
    pub(crate) fn mbarrier(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        op: &PtxMbarrier,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let place = self.place(machine, block, lane, &op.address, line);
            let count = self.read(&machine.pool, op.count, lane);
            let fail = |warp: &PtxWarp, machine: &mut LaunchState<'_>, block: &PtxBlock, message: String| {
                machine.stop(FindingKind::BadOperand, block, warp, lane, line, message)
            };
            if place.space != PtxSpace::Shared || !place.address.is_multiple_of(8) {
                return Err(fail(self, machine, block, format!("no barrier can be at {:#x}", place.address)));
            }
            let at = place.address;
            if op.kind == PtxMbarrierKind::Init {
                let count = count & 0xffff_ffff;
                if !(1..=MOST_ARRIVALS).contains(&count) {
                    return Err(fail(self, machine, block, format!("a barrier cannot expect {count} arrivals")));
                }
                block.mbarriers.barriers.insert(at, Contents { expected: count, pending: count, transactions: 0, parity: 0 });
                continue;
            }
            if matches!(op.kind, PtxMbarrierKind::TestState | PtxMbarrierKind::TestParity) {
                self.complete_loads(machine, block, at)?;
            }
            if op.kind == PtxMbarrierKind::AfterCopies {
                self.wait_copies(machine, block, 1 << lane, 0, true)?;
            }
            let Some(mut barrier) = block.mbarriers.barriers.get(&at).copied() else {
                return Err(fail(self, machine, block, format!("no barrier was initialized at {at:#x}")));
            };
            let key = SHARED_WINDOW + at;
            let thread = self.thread(lane);
            let state = barrier.parity << PARITY | barrier.pending;
            match op.kind {
                PtxMbarrierKind::Init => {}
                PtxMbarrierKind::Invalidate => {
                    block.mbarriers.barriers.remove(&at);
                    continue;
                }
                PtxMbarrierKind::ExpectTransactions => barrier.transactions += i64::from(count as u32),
                PtxMbarrierKind::CompleteTransactions => {
                    barrier.transactions -= i64::from(count as u32);
                    barrier.end_phase();
                }
                PtxMbarrierKind::TestState | PtxMbarrierKind::TestParity => {
                    let parity = if op.kind == PtxMbarrierKind::TestParity { count & 1 } else { count >> PARITY };
                    let is_complete = barrier.parity != parity;
                    if is_complete && let Some(races) = &mut block.races {
                        races.strong_read(thread, key, true);
                    }
                    self.write(op.destination, lane, u64::from(is_complete));
                }
                PtxMbarrierKind::Arrive { drops, expects, completes } => {
                    let arrivals = if expects { 1 } else { count & 0xffff_ffff };
                    if expects {
                        barrier.transactions += i64::from(count as u32);
                    }
                    if arrivals > barrier.pending || !completes && arrivals == barrier.pending {
                        let message = format!("{arrivals} arrivals at a barrier that waits for {}", barrier.pending);
                        return Err(fail(self, machine, block, message));
                    }
                    if drops {
                        barrier.expected = barrier.expected.saturating_sub(arrivals);
                    }
                    barrier.pending -= arrivals;
                    barrier.end_phase();
                    if let Some(races) = &mut block.races {
                        races.strong_write(thread, key, true);
                    }
                    self.write(op.destination, lane, state);
                }
                // Without `.noinc` the arrival is one that the phase does not expect, so nothing remains to be counted.
                PtxMbarrierKind::AfterCopies => {
                    if count != 0 {
                        if barrier.pending == 0 {
                            return Err(fail(self, machine, block, "an arrival at a barrier that waits for none".to_owned()));
                        }
                        barrier.pending -= 1;
                        barrier.end_phase();
                    }
                    if let Some(races) = &mut block.races {
                        races.strong_write(thread, key, true);
                    }
                }
            }
            block.mbarriers.barriers.insert(at, barrier);
        }
        Ok(())
    }

    /// Issues a bulk copy for each active thread.
    pub(crate) fn start_bulk(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        bulk: &Bulk,
        active: u32,
        line: u32,
        index: usize,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let to = self.place(machine, block, lane, &bulk.to, line);
            let from = self.place(machine, block, lane, &bulk.from, line);
            let bytes = self.read(&machine.pool, bulk.bytes, lane) as u32 as usize;
            let barrier = bulk.barrier.as_ref().map(|address| self.place(machine, block, lane, address, line).address);
            if !bytes.is_multiple_of(16) || !to.address.is_multiple_of(16) || !from.address.is_multiple_of(16) {
                let message = format!("{bytes} bytes from {:#x} to {:#x} are no multiples of 16", from.address, to.address);
                return Err(machine.stop(FindingKind::Misaligned, block, self, lane, line, message));
            }
            let issuer = self.issuer(machine, block, lane);
            let copy = |to, barrier| PendingBulkCopy { from: CopyData::At(from), to, bytes, barrier, lane, line, index, issuer };
            let Some(barrier) = barrier else {
                self.start_grouped(machine, block, copy(to, None));
                continue;
            };
            self.start_load(machine, block, &copy(to, Some(barrier)), bulk.blocks)?;
        }
        Ok(())
    }

    /// Issues a copy that signals a barrier, to one block or to those of a mask.
    pub(super) fn start_load(
        &self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        copy: &PendingBulkCopy,
        blocks: Option<PtxSource>,
    ) -> Result<(), Stop> {
        let Some(blocks) = blocks else {
            self.begin_copy(machine, block, copy);
            block.mbarriers.loads.push(copy.clone());
            return Ok(());
        };
        let blocks = self.read(&machine.pool, blocks, copy.lane) & 0xffff;
        if blocks == 0 || blocks >> machine.cluster_blocks != 0 {
            let message = format!("the mask {blocks:#x} is none of the {} blocks of the cluster", machine.cluster_blocks);
            return Err(machine.stop(FindingKind::BadOperand, block, self, copy.lane, copy.line, message));
        }
        // Data and signal go to the same offsets in each of the blocks.
        for rank in (0..16_u64).filter(|rank| blocks >> rank & 1 == 1) {
            let in_block = |address: u64| address & !RANK_BITS | rank << RANK_SHIFT;
            let to = MemoryLocation { address: in_block(copy.to.address), ..copy.to };
            let copy = PendingBulkCopy { to, barrier: copy.barrier.map(in_block), ..copy.clone() };
            self.begin_copy(machine, block, &copy);
            block.mbarriers.loads.push(copy);
        }
        Ok(())
    }

    /// Issues a copy that belongs to a group of its thread.
    pub(super) fn start_grouped(&self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, copy: PendingBulkCopy) {
        self.begin_copy(machine, block, &copy);
        block.mbarriers.stores.entry((block.rank, self.thread(copy.lane))).or_default().0.push(copy);
    }

    /// Issues an asynchronous store or reduction for each active thread.
    pub(crate) fn start_store_async(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        store: &StoreAsync,
        active: u32,
        line: u32,
        index: usize,
    ) -> Result<(), Stop> {
        let size = usize::from(store.element_bytes);
        for lane in lanes_of(active) {
            let to = self.place(machine, block, lane, &store.to, line);
            let barrier = self.place(machine, block, lane, &store.barrier, line).address;
            let bytes = size * store.values.len();
            if !to.address.is_multiple_of(bytes as u64) {
                let message = format!("the address {:#x} is no multiple of {bytes}", to.address);
                return Err(machine.stop(FindingKind::Misaligned, block, self, lane, line, message));
            }
            let [mut value, mut undefined] = [Bytes::new(), Bytes::new()];
            for &source in &store.values {
                value.extend_from_slice(&self.read(&machine.pool, source, lane).to_le_bytes()[..size]);
                undefined.extend_from_slice(&self.read_undefined(source, lane).to_le_bytes()[..size]);
            }
            let issuer = self.issuer(machine, block, lane);
            let from = CopyData::Value(value, undefined);
            let copy = PendingBulkCopy { from, to, bytes, barrier: Some(barrier), lane, line, index, issuer };
            self.begin_copy(machine, block, &copy);
            block.mbarriers.loads.push(copy);
        }
        Ok(())
    }

    /// Makes a group of the bulk copies of each active thread.
    pub(crate) fn commit_bulk(&mut self, block: &mut PtxBlock, active: u32) {
        for lane in lanes_of(active) {
            let (open, groups) = block.mbarriers.stores.entry((block.rank, self.thread(lane))).or_default();
            groups.push_back(std::mem::take(open));
        }
    }

    /// Performs the bulk copies of all groups except the last `all_but`, and with `uncommitted` also those in no group.
    pub(crate) fn wait_bulk(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        active: u32,
        all_but: usize,
        uncommitted: bool,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let Some((open, groups)) = block.mbarriers.stores.get_mut(&(block.rank, self.thread(lane))) else { continue };
            let done = groups.len().saturating_sub(all_but);
            let mut due: Vec<PendingBulkCopy> = groups.drain(..done).flatten().collect();
            if uncommitted {
                due.append(open);
            }
            for copy in due {
                self.do_bulk(machine, block, &copy)?;
            }
        }
        Ok(())
    }

    /// Lets the bulk copies of all groups except the last `all_but` read their sources, which may then be overwritten. Stores of parts of
    /// tensors are performed as a whole.
    pub(crate) fn wait_bulk_reads(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        active: u32,
        all_but: usize,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let thread = (block.rank, self.thread(lane));
            let Some((_, groups)) = block.mbarriers.stores.get_mut(&thread) else { continue };
            let due = groups.len().saturating_sub(all_but);
            let mut read: Vec<CopyGroup> = groups.drain(..due).collect();
            for group in &mut read {
                for mut copy in std::mem::take(group) {
                    match copy.from {
                        CopyData::At(from) => {
                            self.end_copy(machine, block, &copy);
                            let (bytes, undefined) = self.peek(machine, block, lane, from, copy.bytes, copy.line)?;
                            copy.from = CopyData::Value(bytes, undefined);
                            group.push(copy);
                        }
                        CopyData::Value(..) => group.push(copy),
                        CopyData::Tensor(_) => self.do_bulk(machine, block, &copy)?,
                    }
                }
            }
            if let Some((_, groups)) = block.mbarriers.stores.get_mut(&thread) {
                read.into_iter().rev().for_each(|group| groups.push_front(group));
            }
        }
        Ok(())
    }

    /// Performs the copies that signal a barrier.
    fn complete_loads(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, at: u64) -> Result<(), Stop> {
        let all = std::mem::take(&mut block.mbarriers.loads);
        let (due, rest): (Vec<PendingBulkCopy>, Vec<PendingBulkCopy>) = all.into_iter().partition(|copy| copy.barrier == Some(at));
        block.mbarriers.loads = rest;
        for copy in due {
            self.do_bulk(machine, block, &copy)?;
            if let Some(races) = &mut block.races {
                races.complete_async(copy.issuer, SHARED_WINDOW + at);
            }
            if let Some(barrier) = block.mbarriers.barriers.get_mut(&at) {
                barrier.transactions -= copy.bytes as i64;
                barrier.end_phase();
            }
        }
        Ok(())
    }

    /// Performs one copy.
    fn do_bulk(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, copy: &PendingBulkCopy) -> Result<(), Stop> {
        self.end_copy(machine, block, copy);
        if let CopyData::Tensor(part) = &copy.from {
            return self.copy_part(machine, block, copy, part);
        }
        let program = machine.program;
        let (size, update): (usize, Option<&Update>) = match &program.code[copy.index].action {
            PtxAction::Bulk(bulk) => bulk.reduction.as_ref().map_or((16, None), |(bytes, update)| (usize::from(*bytes), Some(update))),
            PtxAction::StoreAsync(store) => (usize::from(store.element_bytes), store.update.as_ref()),
            _ => (16, None),
        };
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits: u128, &byte| bits << 8 | u128::from(byte));
        for offset in (0..copy.bytes as u64).step_by(size) {
            let at = |place: MemoryLocation| MemoryLocation { address: place.address + offset, ..place };
            let (new, undefined) = match &copy.from {
                CopyData::At(from) => self.peek(machine, block, copy.lane, at(*from), size, copy.line)?,
                CopyData::Tensor(_) => continue,
                CopyData::Value(value, undefined) => {
                    let range = offset as usize..offset as usize + size;
                    (Bytes::from_slice(&value[range.clone()]), Bytes::from_slice(&undefined[range]))
                }
            };
            let mut value = number(&new);
            if let Some(update) = update {
                let (old, _) = self.peek(machine, block, copy.lane, at(copy.to), size, copy.line)?;
                value = update(number(&old), value, 0);
            }
            let bytes = value.to_le_bytes();
            self.poke(machine, block, copy.lane, at(copy.to), size, copy.line, |byte| Some((bytes[byte], undefined[byte])))?;
        }
        Ok(())
    }
}
