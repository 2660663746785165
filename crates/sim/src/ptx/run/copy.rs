//! Asynchronous copies from global to shared memory (`cp.async`).
//!
//! A copy is performed as late as allowed: when its thread waits for it, or exits. So a kernel that forgets to wait reads the old contents.

use std::collections::VecDeque;

use super::access::MemoryLocation;
use super::block::PtxBlock;
use super::races::SharedAccess;
use super::start_async::AsyncAccess;
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::CopyAsync;

/// A copy that has been issued but not performed.
#[derive(Clone, Copy)]
struct PendingCopy {
    to: MemoryLocation,
    from: MemoryLocation,
    bytes: usize,
    /// Number of bytes read; the rest is filled with zeros.
    source_bytes: usize,
    line: u32,
}

/// The pending copies of a thread.
#[derive(Default)]
pub(crate) struct PendingCopies {
    /// Copies that are in no group yet.
    open: Vec<PendingCopy>,
    /// Committed groups, oldest first.
    groups: VecDeque<Vec<PendingCopy>>,
}

impl PtxWarp {
    /// Issues copies for the active threads.
    pub(crate) fn start_copies(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        copy: &CopyAsync,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let bytes = usize::from(copy.bytes);
        for lane in lanes_of(active) {
            let to = self.place(machine, block, lane, &copy.to, line);
            let from = self.place(machine, block, lane, &copy.from, line);
            if !from.address.is_multiple_of(bytes as u64) {
                let message = format!("the address {:#x} is no multiple of {bytes}", from.address);
                return Err(machine.stop(FindingKind::Misaligned, block, self, lane, line, message));
            }
            let operands = [copy.source_bytes, copy.ignored];
            if operands.into_iter().flatten().any(|source| self.read_undefined(source, lane) & 1 != 0) {
                machine.uninitialized(block, self, lane, line, "an operand of this copy was never written");
            }
            let wanted = copy.source_bytes.map_or(bytes, |source| self.read(&machine.pool, source, lane) as u32 as usize);
            if wanted > bytes {
                let message = format!("{wanted} bytes of the source are more than the {bytes} that are copied");
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
            let is_ignored = copy.ignored.is_some_and(|source| self.read(&machine.pool, source, lane) & 1 != 0);
            let source_bytes = if is_ignored { 0 } else { wanted };
            self.begin_access(machine, block, lane, AsyncAccess { place: to, bytes, is_write: true, strong: false, line }, false);
            self.copies[lane].open.push(PendingCopy { to, from, bytes, source_bytes, line });
        }
        Ok(())
    }

    /// Makes a group of the pending copies of each thread.
    pub(crate) fn commit_copies(&mut self, active: u32) {
        for lane in lanes_of(active) {
            let copies = &mut self.copies[lane];
            copies.groups.push_back(std::mem::take(&mut copies.open));
        }
    }

    /// Performs the copies of all groups except the last `all_but`, and with `uncommitted` also those in no group.
    pub(crate) fn wait_copies(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        active: u32,
        all_but: usize,
        uncommitted: bool,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let copies = &mut self.copies[lane];
            let done = copies.groups.len().saturating_sub(all_but);
            let mut due: Vec<PendingCopy> = copies.groups.drain(..done).flatten().collect();
            if uncommitted {
                due.append(&mut copies.open);
            }
            for copy in due {
                self.do_copy(machine, block, lane, copy)?;
            }
        }
        Ok(())
    }

    /// Performs one copy.
    fn do_copy(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, lane: usize, copy: PendingCopy) -> Result<(), Stop> {
        let PendingCopy { to, from, bytes, source_bytes, line } = copy;
        self.end_access(machine, block, to, bytes, true);
        let mut contents = vec![0; bytes];
        for (number, byte) in contents.iter_mut().take(source_bytes).enumerate() {
            let place = MemoryLocation { address: from.address + number as u64, ..from };
            *byte = self.peek(machine, block, lane, place, 1, line)?.0[0];
        }
        if block.races.is_some() {
            let access = SharedAccess { thread: self.thread(lane), line, strong: false, is_write: true };
            self.check_race(machine, block, lane, to, access, &contents);
        }
        self.poke(machine, block, lane, to, bytes, line, |byte| Some((contents[byte], 0)))
    }
}
