//! Convergence barriers: which threads of a warp wait for each other.
//!
//! A `B` register is a mask with one bit for each thread, and all threads of a warp share it. So it is on an H200 (small programs in
//! assembler text that read masks, votes and clocks):
//!
//! - `BSSY` adds the active threads to the mask, `BREAK` takes them out.
//! - `BMOV.CLEAR` empties the register, whoever is in it. A move into the register replaces the whole mask by what the first active thread says.
//! - `BSYNC` is nothing for threads that are not in the mask. Others wait until all of the mask do, have ended, have given way (`YIELD`,
//!   `NANOSLEEP`) or are at a `WARPSYNC`. They go on where they are, those at the same place together, and the register is
//!   empty: who gave way will not wait later.
//! - Moves wake nobody. Who waits at a register that somebody else has emptied goes on when the next thread waits, ends or gives way.
//! - Threads that wait for each other at different registers do not wait forever: who comes last goes on.
//!
//! So these barriers bring threads together where they can and never hold them up for good, whatever masks say. Masks do go wrong: a
//! function saves a register of its caller with `BMOV.CLEAR` and restores it in the end, and if threads give way in between, others may have
//! left the region by then that the mask was for. ptxas' functions do the same.
//!
//! One thing is different here: where threads wait for the same register at different instructions and nobody has given way or
//! moved a register, an H200 lets all of them go on behind the last one's. No compiler makes such code.

use super::warp::{LANES, Mask, first};

/// Convergence barriers of a warp.
pub const BARRIERS: usize = 16;

/// The convergence barriers of a warp.
#[derive(Clone, Debug, Default)]
pub struct Convergence {
    masks: [Mask; BARRIERS],
}

impl Convergence {
    /// The threads that wait for each other at a register.
    pub fn members(&self, barrier: usize) -> Mask {
        self.masks[barrier]
    }

    /// `BSSY`
    pub fn add(&mut self, barrier: usize, threads: Mask) {
        self.masks[barrier] |= threads;
    }

    /// `BREAK`
    pub fn remove(&mut self, barrier: usize, threads: Mask) {
        self.masks[barrier] &= !threads;
    }

    /// `BMOV.CLEAR`, and what happens when threads go on.
    pub fn clear(&mut self, barrier: usize) {
        self.masks[barrier] = 0;
    }

    /// Sets a register to what the first of some threads says.
    pub fn restore(&mut self, barrier: usize, threads: Mask, values: &[u32; LANES]) {
        self.masks[barrier] = values[first(threads)];
    }

    /// Copies one register to another.
    pub fn copy(&mut self, from: usize, to: usize) {
        self.masks[to] = self.masks[from];
    }

    /// The threads among those that wait at a register that need not wait longer; `elsewhere` are those that nobody waits for.
    pub fn complete(&self, barrier: usize, waiting: Mask, elsewhere: Mask) -> Mask {
        match self.masks[barrier] {
            0 => waiting,
            members if members & !waiting & !elsewhere == 0 => waiting & members,
            _ => 0,
        }
    }
}
