//! Finds registers that an asynchronous instruction may still read, so that values are not assigned to them.
//!
//! [`products`](crate::products) keeps the operands of a running matrix product (`wgmma`) in their registers up to the end of the block. If
//! the block branches back to the start of a loop, the product still runs there, until the first wait:
//!
//! ```text
//! bb1: %1 = HGMMA gdesc[..]          must not write registers of %2, or it has to wait for the HGMMA of the previous iteration
//!      WARPGROUP.DEPBAR.LE gsb0, 0x0
//!      %2 = PACK ..
//!      %3 = HGMMA %2, gdesc[..]
//!      KEEP %2
//!      @%p BRA bb1
//! ```
//!
//! So operands like `%2` prefer registers that are not in use at the start of the loop and are not written before the first wait; other
//! values that are defined after the wait prefer the registers that operands like `%2` avoid. This is only a preference: if no other
//! registers are free, any register is used, and `settle-products` inserts a wait.
//!
//! `LDGSTS` reads its addresses when it leaves the queue of the load unit, often hundreds of cycles after it issued. A value that is
//! defined soon after an `LDGSTS` prefers registers that the `LDGSTS` does not read, among those that the function uses anyway.
//!
//! Asynchronous copies of tensors and of blocks of memory (`UTMALDG`, `UBLKCP`) read their uniform registers late as well. An instruction
//! that writes one of these registers has to wait, so uniform values prefer registers that no such copy has read. There are many uniform
//! registers, and using more of them does not lower the occupancy.

use std::collections::VecDeque;

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Operand, Pseudo, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use crate::hints::CoalescingHints;
use crate::products::first_wait_for_all_products;
use crate::registers::{Reg, RegisterSet};

/// Maximum number of blocks to follow from the block with a matrix product to the start of the loop, counting the first block of the loop.
const MAX_BLOCKS_TO_LOOP_START: usize = 4;
/// Number of general registers that must be free in a loop of several blocks. With fewer, operands of matrix products that run into the
/// next iteration are not kept in separate registers.
const MIN_FREE_REGISTERS_IN_LOOP: u32 = 16;
/// Maximum number of blocks between the start of a loop and the first wait for matrix products in it.
const MAX_BLOCKS_TO_WAIT: usize = 8;
/// Maximum number of address operands of recent `LDGSTS` instructions whose registers are avoided.
const MAX_RECENT_LDGSTS_READS: usize = 16;

/// A block at the start of a loop in which matrix products of the previous iteration may still be running.
#[derive(Clone)]
struct LoopStartBlock {
    /// The first block of the loop.
    start: Block,
    /// Position in the block of the first wait for all matrix products that were started before the block; the number of instructions if
    /// there is none.
    wait_position: u32,
}

/// The operands that matrix products read across back edges, and the registers that these operands should not be in. Also the registers
/// that asynchronous copies (`UTMALDG`, `UBLKCP`, `LDGSTS`) may still read.
#[derive(Clone, Default)]
pub(crate) struct InFlightReads {
    /// For each block between the start of a loop and the first wait for matrix products in the loop: the start of the loop, and the
    /// position of the wait.
    loop_blocks: FxHashMap<Block, LoopStartBlock>,
    /// For each loop, given by its first block: the registers that are in use at its start, or written before its first wait for matrix
    /// products.
    busy_registers: FxHashMap<Block, RegisterSet>,
    /// For each web (set of related values, given by its root) with an operand of a matrix product that runs across a back edge: the first
    /// block of the loop.
    carried_webs: FxHashMap<Value, Block>,
    /// The current block, if the allocator has passed a wait for matrix products in it; otherwise `None`.
    waited_block: Option<Block>,
    /// Uniform registers that asynchronous copies have read, and may still be reading.
    async_copy_reads: RegisterSet,
    /// General registers that the latest `LDGSTS` (asynchronous copies to shared memory) of the block have read: first register and number
    /// of registers, oldest first.
    ldgsts_reads: VecDeque<(Reg, u8)>,
}

impl InFlightReads {
    /// Finds the operands of matrix products that a `KEEP` (a pseudo operation that extends live ranges) keeps in registers up to the end
    /// of a block, and the starts of the loops that the block branches back to. `pressure` is the largest number of registers that are live
    /// at once in each block, `usable` the number of usable registers.
    pub fn new(
        function: &Function,
        flow: &ControlFlow,
        pressure: &IndexVec<Block, u32>,
        usable: u32,
        hints: &mut CoalescingHints,
    ) -> InFlightReads {
        let mut found = InFlightReads::default();
        let kept_at_end = |block: Block| {
            let insts = &function.blocks[block].insts;
            let end = insts.len().checked_sub(function.terminators(block).len() + 1)?;
            Some(insts[end]).filter(|&inst| function.insts[inst].is(Pseudo::Keep))
        };
        if !flow.reverse_post_order().iter().any(|&block| kept_at_end(block).is_some()) {
            return found;
        }
        for &block in flow.reverse_post_order() {
            let Some(keep) = kept_at_end(block) else { continue };
            let Some(start) = flow.successors(block).iter().find_map(|&next| find_loop_start(flow, block, next)) else { continue };
            let inside = blocks_up_to_wait(function, flow, start);
            // Where registers are scarce, keeping the operands in separate registers would cost moves in every block up to the wait.
            let most = inside.iter().map(|&(inside, _)| pressure[inside]).chain([pressure[block]]).max().unwrap_or(0);
            if inside.len() > 1 && most + MIN_FREE_REGISTERS_IN_LOOP > usable {
                continue;
            }
            for value in function.sources(keep).iter().filter_map(Operand::value) {
                let (root, _) = hints.root_of(value);
                found.carried_webs.insert(root, start);
            }
            if found.busy_registers.insert(start, RegisterSet::EMPTY).is_none() {
                for (inside, wait_position) in inside {
                    found.loop_blocks.entry(inside).or_insert(LoopStartBlock { start, wait_position });
                }
            }
        }
        found
    }

    /// If a loop starts at `block`, records the registers that are in use at its start.
    pub fn record_registers_at_loop_start(&mut self, block: Block, occupied: &RegisterSet) {
        self.waited_block = None;
        if let Some(busy) = self.busy_registers.get_mut(&block) {
            *busy = busy.or(occupied);
        }
    }

    /// Records that the instruction at a position of a block writes `count` registers starting at `first`. A position after the wait for
    /// matrix products shows that the wait has been passed.
    pub fn record_written_registers(&mut self, block: Block, position: u32, first: Reg, count: u8) {
        let Some(inside) = self.loop_blocks.get(&block) else { return };
        if position >= inside.wait_position {
            self.waited_block = Some(block);
        } else if let Some(busy) = self.busy_registers.get_mut(&inside.start) {
            busy.insert(first, count);
        }
    }

    /// Returns the registers that a block should use for all values except operands of matrix products that run into the next iteration, so
    /// that the other registers stay free for such operands; `None` if there is no preference.
    pub fn registers_for_non_operands(&self, block: Block) -> Option<&RegisterSet> {
        let inside = self.waited_block.filter(|&waited| waited == block).and_then(|_| self.loop_blocks.get(&block))?;
        self.busy_registers.get(&inside.start)
    }

    /// Records that an `LDGSTS` (asynchronous copy to shared memory) reads `count` general registers starting at `first`.
    pub fn record_ldgsts_read(&mut self, first: Reg, count: u8) {
        if self.ldgsts_reads.len() == MAX_RECENT_LDGSTS_READS {
            self.ldgsts_reads.pop_front();
        }
        self.ldgsts_reads.push_back((first, count));
    }

    /// Returns the general registers that the latest `LDGSTS` (asynchronous copies to shared memory) of the block have read; `None` if
    /// there are none.
    pub fn ldgsts_reads(&self) -> Option<RegisterSet> {
        let mut registers = RegisterSet::EMPTY;
        self.ldgsts_reads.iter().for_each(|&(first, count)| registers.insert(first, count));
        (!self.ldgsts_reads.is_empty()).then_some(registers)
    }

    /// Forgets the registers that `LDGSTS` instructions have read. Called at the start of a block.
    pub fn forget_ldgsts_reads(&mut self) {
        self.ldgsts_reads.clear();
    }

    /// Records that an asynchronous copy reads `count` uniform registers starting at `first`; it may do so long after its issue.
    pub fn record_async_copy_read(&mut self, first: Reg, count: u8) {
        self.async_copy_reads.insert(first, count);
    }

    /// Forgets which uniform registers asynchronous copies have read. Called when no other uniform register is free.
    pub fn forget_async_copy_reads(&mut self) {
        self.async_copy_reads = RegisterSet::EMPTY;
    }

    /// Returns the uniform registers that asynchronous copies have read and may still be reading; `None` if there are none.
    pub fn async_copy_reads(&self) -> Option<RegisterSet> {
        (self.async_copy_reads != RegisterSet::EMPTY).then_some(self.async_copy_reads)
    }

    /// Returns the registers that should not be assigned to a value, because a matrix product still reads the value while instructions of
    /// the next iteration use these registers; `None` if no such product reads the value.
    pub fn registers_to_avoid(&self, hints: &mut CoalescingHints, value: Value) -> Option<&RegisterSet> {
        if self.carried_webs.is_empty() {
            return None;
        }
        let (root, _) = hints.root_of(value);
        self.carried_webs.get(&root).and_then(|start| self.busy_registers.get(start))
    }
}

/// Returns the blocks that may be executed between the start of a loop and the first wait for matrix products in it, at most
/// [`MAX_BLOCKS_TO_WAIT`]. Each block comes with the position of its wait, or its number of instructions if it has none.
fn blocks_up_to_wait(function: &Function, flow: &ControlFlow, start: Block) -> Vec<(Block, u32)> {
    let mut found: Vec<(Block, u32)> = Vec::new();
    let mut open = vec![start];
    while let Some(block) = open.pop() {
        if found.len() == MAX_BLOCKS_TO_WAIT || found.iter().any(|&(known, _)| known == block) {
            continue;
        }
        let insts = &function.blocks[block].insts;
        let wait = first_wait_for_all_products(function, insts);
        found.push((block, wait as u32));
        if wait == insts.len() {
            open.extend(flow.successors(block).iter().rev().filter(|&&next| flow.position(next) > flow.position(block)));
        }
    }
    found
}

/// Returns the first block of a loop around `block` if the successor `next` of `block` is that first block, or leads to it through fewer
/// than [`MAX_BLOCKS_TO_LOOP_START`] blocks with a single successor; `None` otherwise.
fn find_loop_start(flow: &ControlFlow, block: Block, next: Block) -> Option<Block> {
    let mut next = next;
    for _ in 0..MAX_BLOCKS_TO_LOOP_START {
        if flow.position(next) <= flow.position(block) {
            return Some(next);
        }
        let [only] = flow.successors(next) else { return None };
        next = *only;
    }
    None
}
