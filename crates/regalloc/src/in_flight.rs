//! Registers that a product of a warpgroup (`wgmma`) may still read when the next iteration of a loop starts.
//!
//! [`products`](crate::products) keeps the operands of a running product in their registers up to the end of the block. If the block
//! continues at the start of a loop, the product still runs there, until the first wait:
//!
//! ```text
//! bb1: %1 = HGMMA gdesc[..]          must not write registers of %2, or it has to wait for the product of the iteration before
//!      WARPGROUP.DEPBAR.LE gsb0, 0x0
//!      %2 = PACK ..
//!      %3 = HGMMA %2, gdesc[..]
//!      KEEP %2
//!      @%p BRA bb1
//! ```
//!
//! So operands like `%2` prefer registers that are not in use at the start of the loop and are not written before the first wait. This is
//! a preference: if no other registers are free, any will do, and `settle-products` inserts a wait.
//!
//! Copies of tensors and of blocks of memory (`UTMALDG`, `UBLKCP`) read their uniform registers late as well. Writing one of them has to wait,
//! so uniform values prefer registers that no such copy has read; there are many, and their number does not limit the occupancy.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Operand, Pseudo, Value};
use rustc_hash::FxHashMap;

use crate::hints::Hints;
use crate::products::pending_groups;
use crate::registers::{Reg, RegisterSet};

/// Maximum number of blocks between the end of a block and the start of the loop.
const MAX_STEPS: usize = 4;

/// The start of a loop that products may be running at.
struct Start {
    /// Position of the first wait for all products in the block; the number of instructions if there is none.
    wait: u32,
    /// Registers in use at the start of the block, or written before the wait.
    busy: RegisterSet,
}

/// The operands that products read across back edges, and the registers that they should not be in.
#[derive(Default)]
pub(crate) struct InFlight {
    /// By block at which a loop starts.
    starts: FxHashMap<Block, Start>,
    /// By root of a web: the block at whose start a product reads a value of the web.
    carried: FxHashMap<Value, Block>,
    /// Uniform registers that asynchronous copies have read.
    read_late: RegisterSet,
}

impl InFlight {
    /// Finds the operands that are kept at the ends of blocks and the starts of the loops that follow.
    pub fn find(function: &Function, flow: &ControlFlow, hints: &mut Hints) -> InFlight {
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
                found.carried.insert(root, start);
            }
            let insts = &function.blocks[start].insts;
            let wait = insts.iter().position(|&inst| pending_groups(function, inst) == Some(0)).unwrap_or(insts.len()) as u32;
            found.starts.insert(start, Start { wait, busy: RegisterSet::EMPTY });
        }
        found
    }

    /// Records the registers in use at the start of a block.
    pub fn enter(&mut self, block: Block, occupied: &RegisterSet) {
        if let Some(start) = self.starts.get_mut(&block) {
            start.busy = start.busy.or(occupied);
        }
    }

    /// Records that an instruction at a position of a block writes registers.
    pub fn note_written(&mut self, block: Block, position: u32, first: Reg, count: u8) {
        if let Some(start) = self.starts.get_mut(&block).filter(|start| position < start.wait) {
            start.busy.insert(first, count);
        }
    }

    /// Records that an asynchronous copy reads uniform registers.
    pub fn note_late_read(&mut self, first: Reg, count: u8) {
        self.read_late.insert(first, count);
    }

    /// Forgets which uniform registers asynchronous copies have read, because all others are in use.
    pub fn forget_late_reads(&mut self) {
        self.read_late = RegisterSet::EMPTY;
    }

    /// Returns the uniform registers that asynchronous copies have read; `None` if there are none.
    pub fn late_reads(&self) -> Option<RegisterSet> {
        (self.read_late != RegisterSet::EMPTY).then_some(self.read_late)
    }

    /// Returns the registers that a value should not be in; `None` if there are none.
    pub fn to_avoid(&self, hints: &mut Hints, value: Value) -> Option<&RegisterSet> {
        if self.carried.is_empty() {
            return None;
        }
        let (root, _) = hints.root_of(value);
        self.carried.get(&root).and_then(|start| self.starts.get(start)).map(|start| &start.busy)
    }
}

/// Returns the block at which a loop around `block` starts, if `next` leads there over blocks with a single successor.
fn loop_start(flow: &ControlFlow, block: Block, next: Block) -> Option<Block> {
    let mut next = next;
    for _ in 0..MAX_STEPS {
        if flow.position(next) <= flow.position(block) {
            return Some(next);
        }
        let [only] = flow.successors(next) else { return None };
        next = *only;
    }
    None
}
