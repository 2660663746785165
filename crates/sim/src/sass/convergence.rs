//! Convergence barriers: which threads of a warp wait for each other.
//!
//! A `B` register is a mask with one bit per thread, shared by all threads of the warp. The rules were measured on an H200 with small
//! assembler programs that read masks, votes and clocks:
//!
//! - `BSSY` adds the active threads to the mask; `BREAK` removes them.
//! - `BMOV.CLEAR` empties the register, whichever threads are in the mask. A move into the register replaces the whole mask by the value of
//!   the first active thread.
//! - `BSYNC` has no effect on threads that are not in the mask. Threads in the mask wait until every other thread of the mask also waits
//!   there, has exited, has yielded (`YIELD`, `NANOSLEEP`) or is at a `WARPSYNC`. Then the waiting threads continue, each after its own
//!   `BSYNC`; threads at the same instruction form one group. The register is emptied, so threads that yielded will not wait at it later.
//! - Moves do not release waiting threads. Threads that wait at a register emptied by other threads continue when the next thread waits,
//!   exits or yields.
//! - Threads that wait for each other at different registers do not deadlock: if all other threads of the warp wait too or have yielded, the
//!   last ones to arrive continue.
//!
//! So these barriers make threads reconverge where possible, and never block them forever, whatever the masks contain. Masks can be wrong:
//! a function saves its caller's register with `BMOV.CLEAR` and restores it at the end, and if threads yield in between, other threads may
//! have left the region of the mask by then. ptxas generates such functions too.
//!
//! One departure: if threads wait for the same register at different instructions, and no thread has yielded or moved a register, an H200
//! continues all of them after the last thread's instruction. No compiler generates such code.

use super::warp::{LANES, Mask, first};

/// Number of convergence barriers of a warp.
pub const BARRIERS: usize = 16;

/// The convergence barriers of a warp.
#[derive(Clone, Debug, Default)]
pub struct Convergence {
    masks: [Mask; BARRIERS],
}

impl Convergence {
    /// Returns the threads that wait for each other at a register.
    pub fn members(&self, barrier: usize) -> Mask {
        self.masks[barrier]
    }

    /// `BSSY`: adds threads to the mask.
    pub fn add(&mut self, barrier: usize, threads: Mask) {
        self.masks[barrier] |= threads;
    }

    /// `BREAK`: removes threads from the mask.
    pub fn remove(&mut self, barrier: usize, threads: Mask) {
        self.masks[barrier] &= !threads;
    }

    /// Empties the mask: for `BMOV.CLEAR`, and when the waiting threads are released.
    pub fn clear(&mut self, barrier: usize) {
        self.masks[barrier] = 0;
    }

    /// Sets the mask to the value of the first thread of `threads`.
    pub fn restore(&mut self, barrier: usize, threads: Mask, values: &[u32; LANES]) {
        self.masks[barrier] = values[first(threads)];
    }

    /// Copies one register to another.
    pub fn copy(&mut self, from: usize, to: usize) {
        self.masks[to] = self.masks[from];
    }

    /// Returns the threads of `waiting` (those that wait at the register) that may continue. `elsewhere` are threads that need not be
    /// waited for.
    pub fn complete(&self, barrier: usize, waiting: Mask, elsewhere: Mask) -> Mask {
        match self.masks[barrier] {
            0 => waiting,
            members if members & !waiting & !elsewhere == 0 => waiting & members,
            _ => 0,
        }
    }
}
