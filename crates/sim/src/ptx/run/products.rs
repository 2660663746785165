//! Checks of the matrix products of a warpgroup in flight (`wgmma.mma_async`): until `wgmma.wait_group`, a product may read its matrices in
//! shared memory and read and write its registers.
//!
//! The interpreter computes a product when it is issued, so an access that comes too early does not change results; it is reported.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::LaunchState;
use super::block::PtxBlock;
use super::races::SharedAccess;
use super::warp::PtxWarp;
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{GroupMatrix, GroupProduct, PtxAction, PtxOp, RegisterSlot};

/// Bytes of the pieces in which products read shared memory.
const PIECE: usize = 16;

/// Products that are waited for together.
#[derive(Default)]
struct ProductGroup {
    /// Places of the pieces of shared memory that they read: rank of the block and offset.
    pieces: Vec<(u32, usize)>,
    /// Rows of the register file that they write, and those that they read.
    written: Vec<u32>,
    read: Vec<u32>,
}

/// A register in flight.
#[derive(Clone, Copy, Default)]
struct RegisterUse {
    /// Number of products that write it.
    writes: u32,
    /// Number of products that read it only.
    reads: u32,
    /// Line of the last product.
    line: u32,
}

/// The products of a warp that have not been waited for.
#[derive(Default)]
pub(crate) struct GroupProducts {
    /// Products that are in no group yet.
    open: ProductGroup,
    /// Committed groups, oldest first.
    groups: VecDeque<ProductGroup>,
    /// Registers in flight by their rows.
    registers: FxHashMap<u32, RegisterUse>,
}

impl GroupProducts {
    /// Returns whether some registers are in flight.
    #[inline]
    pub(crate) fn are_in_flight(&self) -> bool {
        !self.registers.is_empty()
    }

    /// Makes a group of the products so far (`wgmma.commit_group`).
    pub(crate) fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// Ends the products of all groups except the last `all_but` (`wgmma.wait_group`).
    pub(crate) fn wait(&mut self, block: &mut PtxBlock, all_but: usize) {
        let done = self.groups.len().saturating_sub(all_but);
        for group in self.groups.drain(..done) {
            if let Some(races) = &mut block.races {
                group.pieces.iter().for_each(|&(rank, start)| races.end_async(rank, start, PIECE, false));
            }
            for (rows, is_write) in [(group.written, true), (group.read, false)] {
                for row in rows {
                    let Some(register) = self.registers.get_mut(&row) else { continue };
                    let count = if is_write { &mut register.writes } else { &mut register.reads };
                    *count -= 1;
                    if register.writes + register.reads == 0 {
                        self.registers.remove(&row);
                    }
                }
            }
        }
    }
}

impl PtxWarp {
    /// Records a product, which has read the `pieces` of shared memory, as in flight. Reports pieces that are not ready.
    pub(super) fn start_product(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        product: &GroupProduct,
        mut pieces: Vec<u64>,
        line: u32,
    ) {
        if block.races.is_none() {
            return;
        }
        pieces.sort_unstable();
        pieces.dedup();
        for address in pieces {
            let (rank, start) = machine.shared_place(address);
            let start = start as usize;
            let Some(races) = &mut block.races else { return };
            let conflict = races.async_conflict(rank, start, PIECE, false);
            let unfenced = races.unfenced_store(rank, start, PIECE);
            let unordered = races.unordered_write(rank, start, self.thread(0));
            races.begin_async(rank, start, PIECE, false, line);
            self.products.open.pieces.push((rank, start));
            if let Some(conflict) = conflict {
                let access = SharedAccess { thread: self.thread(0), line, strong: false, is_write: false };
                self.report_conflict(machine, block, 0, access, conflict);
            } else if let Some(write) = unordered {
                let message =
                    format!("reads shared memory at {start:#x}, which another thread writes in line {write} without a barrier between");
                machine.report(FindingKind::Race, block, self, 0, line, u64::from(write), message);
            }
            if let Some(store) = unfenced {
                self.report_unfenced(machine, block, 0, line, store);
            }
        }
        let row = |slot: RegisterSlot| self.base[0] + slot;
        let written: Vec<u32> = product.destinations.iter().map(|&slot| row(slot)).collect();
        let read: Vec<u32> = match &product.a {
            GroupMatrix::Registers(registers) => registers.iter().filter_map(|source| source.place().ok()).map(row).collect(),
            GroupMatrix::Shared { .. } => Vec::new(),
        };
        for (rows, is_write) in [(&written, true), (&read, false)] {
            for &row in rows {
                let register = self.products.registers.entry(row).or_default();
                *(if is_write { &mut register.writes } else { &mut register.reads }) += 1;
                register.line = line;
            }
        }
        self.products.open.written.extend(written);
        self.products.open.read.extend(read);
    }

    /// Reports an instruction that accesses a register in flight.
    pub(super) fn check_products(&self, machine: &mut LaunchState<'_>, block: &PtxBlock, op: &PtxOp, active: u32) {
        let lane = active.trailing_zeros() as usize;
        for (slot, is_write) in accessed_registers(&op.action) {
            let Some(register) = self.products.registers.get(&(self.base[lane] + slot)) else { continue };
            if register.writes > 0 || is_write {
                let verb = if is_write { "writes" } else { "reads" };
                let other = if register.writes > 0 { "write" } else { "read" };
                let message = format!(
                    "{verb} a register that the matrix product in line {} may still {other}; `wgmma.wait_group` comes later",
                    register.line
                );
                machine.report(FindingKind::RegisterInFlight, block, self, lane, op.line, u64::from(register.line), message);
            }
        }
    }
}

/// Returns the registers that computations, loads, stores and moves of matrices access, and whether they write them.
fn accessed_registers(action: &PtxAction) -> SmallVec<[(RegisterSlot, bool); 8]> {
    let mut found = SmallVec::new();
    match action {
        PtxAction::Compute { destination, sources, .. } => {
            found.push((*destination, true));
            found.extend(sources.iter().filter_map(|source| Some((source.place().ok()?, false))));
        }
        PtxAction::Load(load) => found.extend(load.destinations.iter().flatten().map(|&slot| (slot, true))),
        PtxAction::Store(store) => {
            found.extend(store.values.iter().flatten().chain(&store.upper).filter_map(|source| Some((source.place().ok()?, false))));
        }
        PtxAction::Matrix(matrix) => {
            found.extend(matrix.registers.iter().filter_map(|source| Some((source.place().ok()?, false))));
            found.extend(matrix.destinations.iter().map(|&slot| (slot, true)));
        }
        PtxAction::StoreAsync(store) => found.extend(store.values.iter().filter_map(|source| Some((source.place().ok()?, false)))),
        _ => {}
    }
    found
}
