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
//! values that are defined after the wait prefer the registers that operands like `%2` avoid. This is
//! only a preference: if no other registers are free, any register is used, and `settle-products` inserts a wait.
//!
//! `LDGSTS` reads its addresses when it leaves the queue of the load unit, often hundreds of cycles after it issued. A value defined soon
//! after it prefers other registers among those that are in use anyway.
//!
//! Asynchronous copies of tensors and of blocks of memory (`UTMALDG`, `UBLKCP`) read their uniform registers late as well. An instruction
//! that writes one of these registers has to wait, so uniform values prefer registers that no such copy has read. There are many uniform
//! registers, and using more of them does not lower the occupancy.

use std::collections::VecDeque;

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Operand, Pseudo, Value};
use rustc_hash::FxHashMap;

use crate::hints::Hints;
use crate::products::{is_group_end, pending_groups};
use crate::registers::{Reg, RegisterSet};

/// Maximum number of blocks between the end of the block with the matrix product and the start of the loop.
const MAX_BLOCKS_TO_LOOP: usize = 4;
/// Number of address operands of `LDGSTS` whose registers are avoided.
const MAX_RECENT_READS: usize = 16;

/// The first block of a loop at whose start matrix products may still be running.
struct LoopStart {
    /// Position in the block of the first wait for all matrix products from before the block; the number of instructions if there is
    /// none.
    wait_position: u32,
    /// Registers that are in use at the start of the block, or written before the wait.
    busy_registers: RegisterSet,
}

/// The operands that matrix products read across back edges, and the registers that these operands should not be in; also the uniform
/// registers that asynchronous copies may still read.
#[derive(Default)]
pub(crate) struct InFlight {
    /// The loop starts, by block.
    loop_starts: FxHashMap<Block, LoopStart>,
    /// For each web, given by its root, with an operand of a matrix product that runs across a back edge: the start of the loop.
    carried_webs: FxHashMap<Value, Block>,
    /// The loop start whose wait the walk has passed, while it is in that block.
    waited_block: Option<Block>,
    /// Uniform registers that asynchronous copies have read.
    late_reads: RegisterSet,
    /// General registers that the latest `LDGSTS` of the block have read: first register and number of registers, oldest first.
    recent_reads: VecDeque<(Reg, u8)>,
}

impl InFlight {
    /// Finds the operands that a `KEEP` at the end of a block keeps in registers, and the starts of the loops that follow the block.
    pub fn new(function: &Function, flow: &ControlFlow, hints: &mut Hints) -> InFlight {
        let mut found = InFlight::default();
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
            let Some(start) = flow.successors(block).iter().find_map(|&next| loop_start(flow, block, next)) else { continue };
            for value in function.sources(keep).iter().filter_map(Operand::value) {
                let (root, _) = hints.root_of(value);
                found.carried_webs.insert(root, start);
            }
            let insts = &function.blocks[start].insts;
            let wait = first_full_wait(function, insts) as u32;
            found.loop_starts.insert(start, LoopStart { wait_position: wait, busy_registers: RegisterSet::EMPTY });
        }
        found
    }

    /// Records the registers in use at the start of a block, if a loop starts there.
    pub fn note_loop_entry(&mut self, block: Block, occupied: &RegisterSet) {
        self.waited_block = None;
        if let Some(start) = self.loop_starts.get_mut(&block) {
            start.busy_registers = start.busy_registers.or(occupied);
        }
    }

    /// Records that the instruction at a position of a block writes `count` registers from `first` on.
    pub fn note_written(&mut self, block: Block, position: u32, first: Reg, count: u8) {
        let Some(start) = self.loop_starts.get_mut(&block) else { return };
        if position < start.wait_position {
            start.busy_registers.insert(first, count);
        } else {
            self.waited_block = Some(block);
        }
    }

    /// Returns the registers that values of a block which are no operands of carried products should be assigned to, so that the other
    /// registers stay free for such operands; `None` if there is no preference.
    pub fn registers_for_others(&self, block: Block) -> Option<&RegisterSet> {
        self.waited_block.filter(|&waited| waited == block).and_then(|_| self.loop_starts.get(&block)).map(|start| &start.busy_registers)
    }

    /// Records that an `LDGSTS` reads `count` general registers from `first` on.
    pub fn note_recent_read(&mut self, first: Reg, count: u8) {
        if self.recent_reads.len() == MAX_RECENT_READS {
            self.recent_reads.pop_front();
        }
        self.recent_reads.push_back((first, count));
    }

    /// Returns the general registers that the latest `LDGSTS` of the block have read; `None` if there are none.
    pub fn recent_reads(&self) -> Option<RegisterSet> {
        let mut registers = RegisterSet::EMPTY;
        self.recent_reads.iter().for_each(|&(first, count)| registers.insert(first, count));
        (!self.recent_reads.is_empty()).then_some(registers)
    }

    /// Forgets the reads of `LDGSTS`, at the start of a block.
    pub fn forget_recent_reads(&mut self) {
        self.recent_reads.clear();
    }

    /// Records that an asynchronous copy reads `count` uniform registers from `first` on.
    pub fn note_late_read(&mut self, first: Reg, count: u8) {
        self.late_reads.insert(first, count);
    }

    /// Forgets which uniform registers asynchronous copies have read. Called when no other uniform register is free.
    pub fn forget_late_reads(&mut self) {
        self.late_reads = RegisterSet::EMPTY;
    }

    /// Returns the uniform registers that asynchronous copies have read; `None` if there are none.
    pub fn late_reads(&self) -> Option<RegisterSet> {
        (self.late_reads != RegisterSet::EMPTY).then_some(self.late_reads)
    }

    /// Returns the registers that a value should not be assigned to; `None` if there are none.
    pub fn registers_to_avoid(&self, hints: &mut Hints, value: Value) -> Option<&RegisterSet> {
        if self.carried_webs.is_empty() {
            return None;
        }
        let (root, _) = hints.root_of(value);
        self.carried_webs.get(&root).and_then(|start| self.loop_starts.get(start)).map(|start| &start.busy_registers)
    }
}

/// Returns the position of the first wait after which no matrix product from before the block runs: it leaves no more groups pending than
/// have ended in the block. Returns the number of instructions if there is none.
fn first_full_wait(function: &Function, insts: &[Inst]) -> usize {
    let mut groups = 0;
    let is_full_wait = |&inst: &Inst| {
        groups += i64::from(is_group_end(function, inst));
        pending_groups(function, inst).is_some_and(|pending| pending <= groups)
    };
    insts.iter().position(is_full_wait).unwrap_or(insts.len())
}

/// Returns the first block of a loop around `block` if `next`, a successor of `block`, leads there over at most [`MAX_BLOCKS_TO_LOOP`]
/// blocks with a single successor; `None` otherwise.
fn loop_start(flow: &ControlFlow, block: Block, next: Block) -> Option<Block> {
    let mut next = next;
    for _ in 0..MAX_BLOCKS_TO_LOOP {
        if flow.position(next) <= flow.position(block) {
            return Some(next);
        }
        let [only] = flow.successors(next) else { return None };
        next = *only;
    }
    None
}
