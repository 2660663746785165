//! Barriers in shared memory (`mbarrier`) and bulk copies (`cp.async.bulk`) of a block that is a cluster of its own.
//!
//! A bulk copy is performed as late as allowed: one that signals a barrier when a thread tests the barrier, one in a group when its thread
//! waits for the group or exits. So a kernel that forgets to wait reads the old contents.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::access::MemoryLocation;
use super::block::Block;
use super::warp::{Warp, lanes_of};
use super::{Machine, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{Bulk, Mbarrier, MbarrierKind, SHARED_WINDOW, Space};

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

/// A bulk copy that has been issued but not performed.
struct Copy {
    from: MemoryLocation,
    to: MemoryLocation,
    bytes: usize,
    barrier: Option<u64>,
    lane: usize,
    line: u32,
}

/// Copies that are waited for together.
type Group = Vec<(Copy, usize)>;

/// The barriers and pending bulk copies of a block.
#[derive(Default)]
pub(crate) struct Mbarriers {
    barriers: FxHashMap<u64, Contents>,
    /// Copies that signal a barrier.
    loads: Vec<Copy>,
    /// For each thread the copies that are in no group yet, and the groups, oldest first.
    stores: FxHashMap<u32, (Group, VecDeque<Group>)>,
}

impl Warp {
    /// Executes an instruction of the family `mbarrier`.
    pub(crate) fn mbarrier(
        &mut self,
        machine: &mut Machine<'_>,
        block: &mut Block,
        op: &Mbarrier,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let place = self.place(machine, block, lane, &op.address, line);
            let count = self.read(&machine.pool, op.count, lane);
            let fail = |warp: &Warp, machine: &mut Machine<'_>, block: &Block, message: String| {
                machine.stop(FindingKind::BadOperand, block, warp, lane, line, message)
            };
            if place.space != Space::Shared || !place.address.is_multiple_of(8) {
                return Err(fail(self, machine, block, format!("no barrier can be at {:#x}", place.address)));
            }
            let at = place.address;
            if op.kind == MbarrierKind::Init {
                let count = count & 0xffff_ffff;
                if !(1..=MOST_ARRIVALS).contains(&count) {
                    return Err(fail(self, machine, block, format!("a barrier cannot expect {count} arrivals")));
                }
                block.mbarriers.barriers.insert(at, Contents { expected: count, pending: count, transactions: 0, parity: 0 });
                continue;
            }
            if matches!(op.kind, MbarrierKind::TestState | MbarrierKind::TestParity) {
                self.complete_loads(machine, block, at)?;
            }
            if op.kind == MbarrierKind::AfterCopies {
                self.wait_copies(machine, block, 1 << lane, 0, true)?;
            }
            let Some(mut barrier) = block.mbarriers.barriers.get(&at).copied() else {
                return Err(fail(self, machine, block, format!("no barrier was initialized at {at:#x}")));
            };
            let key = SHARED_WINDOW + at;
            let thread = self.thread(lane);
            let state = barrier.parity << PARITY | barrier.pending;
            match op.kind {
                MbarrierKind::Init => {}
                MbarrierKind::Invalidate => {
                    block.mbarriers.barriers.remove(&at);
                    continue;
                }
                MbarrierKind::ExpectTransactions => barrier.transactions += i64::from(count as u32),
                MbarrierKind::CompleteTransactions => {
                    barrier.transactions -= i64::from(count as u32);
                    barrier.end_phase();
                }
                MbarrierKind::TestState | MbarrierKind::TestParity => {
                    let parity = if op.kind == MbarrierKind::TestParity { count & 1 } else { count >> PARITY };
                    let is_complete = barrier.parity != parity;
                    if is_complete && let Some(races) = &mut block.races {
                        races.strong_read(thread, key, true);
                    }
                    self.write(op.destination, lane, u64::from(is_complete));
                }
                MbarrierKind::Arrive { drops, expects, completes } => {
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
                MbarrierKind::AfterCopies => {
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
        machine: &mut Machine<'_>,
        block: &mut Block,
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
            let copy = Copy { from, to, bytes, barrier, lane, line };
            match barrier {
                Some(_) => block.mbarriers.loads.push(copy),
                None => block.mbarriers.stores.entry(self.thread(lane)).or_default().0.push((copy, index)),
            }
        }
        Ok(())
    }

    /// Makes a group of the bulk copies of each active thread.
    pub(crate) fn commit_bulk(&mut self, block: &mut Block, active: u32) {
        for lane in lanes_of(active) {
            let (open, groups) = block.mbarriers.stores.entry(self.thread(lane)).or_default();
            groups.push_back(std::mem::take(open));
        }
    }

    /// Performs the bulk copies of all groups except the last `all_but`, and with `uncommitted` also those in no group.
    pub(crate) fn wait_bulk(
        &mut self,
        machine: &mut Machine<'_>,
        block: &mut Block,
        active: u32,
        all_but: usize,
        uncommitted: bool,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let Some((open, groups)) = block.mbarriers.stores.get_mut(&self.thread(lane)) else { continue };
            let done = groups.len().saturating_sub(all_but);
            let mut due: Vec<(Copy, usize)> = groups.drain(..done).flatten().collect();
            if uncommitted {
                due.append(open);
            }
            for (copy, index) in due {
                self.do_bulk(machine, block, &copy, Some(index))?;
            }
        }
        Ok(())
    }

    /// Performs the copies that signal a barrier.
    fn complete_loads(&mut self, machine: &mut Machine<'_>, block: &mut Block, at: u64) -> Result<(), Stop> {
        let all = std::mem::take(&mut block.mbarriers.loads);
        let (due, rest): (Vec<Copy>, Vec<Copy>) = all.into_iter().partition(|copy| copy.barrier == Some(at));
        block.mbarriers.loads = rest;
        for copy in due {
            self.do_bulk(machine, block, &copy, None)?;
            if let Some(barrier) = block.mbarriers.barriers.get_mut(&at) {
                barrier.transactions -= copy.bytes as i64;
                barrier.end_phase();
            }
        }
        Ok(())
    }

    /// Performs one copy; `index` is that of an instruction which may be a reduction.
    fn do_bulk(&mut self, machine: &mut Machine<'_>, block: &mut Block, copy: &Copy, index: Option<usize>) -> Result<(), Stop> {
        let program = machine.program;
        let reduction = index.and_then(|index| match &program.code[index].action {
            crate::ptx::program::Action::Bulk(bulk) => bulk.reduction.as_ref(),
            _ => None,
        });
        let size = reduction.map_or(16, |(bytes, _)| usize::from(*bytes));
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits: u128, &byte| bits << 8 | u128::from(byte));
        for offset in (0..copy.bytes as u64).step_by(size) {
            let at = |place: MemoryLocation| MemoryLocation { address: place.address + offset, ..place };
            let (new, undefined) = self.peek(machine, block, copy.lane, at(copy.from), size, copy.line)?;
            let mut value = number(&new);
            if let Some((_, update)) = reduction {
                let (old, _) = self.peek(machine, block, copy.lane, at(copy.to), size, copy.line)?;
                value = update(number(&old), value, 0);
            }
            let bytes = value.to_le_bytes();
            self.poke(machine, block, copy.lane, at(copy.to), size, copy.line, |byte| Some((bytes[byte], undefined[byte])))?;
        }
        Ok(())
    }
}
