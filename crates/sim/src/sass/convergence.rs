//! Convergence barriers: which threads of a warp wait for each other.
//!
//! A `B` register is a mask with one bit for each thread, and instructions change the bits of active threads. That is not all, because a
//! function uses registers that its caller has in use: threads that call it save the register with `BMOV.CLEAR`, set it for themselves,
//! wait, and restore it, while others of the caller's mask wait elsewhere, perhaps for these. So the bits that threads set after they have saved
//! a register belong to another **use** of it than those before. `BSYNC` waits for the threads of its own use only, and for those
//! that have saved it and will come back.
//!
//! That a GPU keeps uses apart is inferred. Random programs hung here without this rule (8 of seeds 20001 to 21061), while an H200 runs them
//! to their end. How it does so was not measured: `BMOV.CLEAR` may as well clear the bits of all threads, which comes to
//! the same as long as diverged threads are not in such functions by turns. So code that needs uses apart in all orders passes here,
//! and might not there.

use super::warp::{LANES, Mask, lanes_of};

/// Convergence barriers of a warp.
pub const BARRIERS: usize = 16;

/// Which use of a register threads take part in.
type Use = u32;

/// The convergence barriers of a warp.
#[derive(Clone, Debug)]
pub struct Convergence {
    registers: [Register; BARRIERS],
    /// What each thread has saved, the last one last.
    saved: [Vec<Saved>; LANES],
    uses: Use,
}

#[derive(Clone, Copy, Debug)]
struct Register {
    bits: Mask,
    uses: [Use; LANES],
}

/// A register that a thread has moved elsewhere.
#[derive(Clone, Copy, Debug)]
struct Saved {
    value: Mask,
    /// The register, if the thread was in its mask and is no longer.
    left: Option<usize>,
    in_use: Use,
}

impl Default for Convergence {
    fn default() -> Convergence {
        let register = Register { bits: 0, uses: [0; LANES] };
        Convergence { registers: [register; BARRIERS], saved: Default::default(), uses: 0 }
    }
}

impl Convergence {
    /// `BSSY`
    pub fn add(&mut self, barrier: usize, threads: Mask) {
        self.registers[barrier].bits |= threads;
    }

    /// `BREAK`, and `BMOV.CLEAR` whose result nobody wants.
    pub fn remove(&mut self, barrier: usize, threads: Mask) {
        self.registers[barrier].bits &= !threads;
    }

    /// The register as each of some threads sees it, which may set it again later.
    pub fn save(&mut self, barrier: usize, threads: Mask, clear: bool) -> [u32; LANES] {
        let register = self.registers[barrier];
        let mut values = [0; LANES];
        for lane in lanes_of(threads) {
            let in_use = register.uses[lane];
            let value = register.bits & register.members(in_use);
            let left = (clear && value >> lane & 1 == 1).then_some(barrier);
            values[lane] = value;
            let saved = &mut self.saved[lane];
            if saved.last().is_none_or(|last| clear || last.value != value || last.in_use != in_use) {
                saved.push(Saved { value, left, in_use });
            }
        }
        if clear {
            self.uses += 1;
            let register = &mut self.registers[barrier];
            register.bits &= !threads;
            for lane in lanes_of(threads) {
                register.uses[lane] = self.uses;
            }
        }
        values
    }

    /// Sets a register to what each of some threads says; to the use that it belonged to, if it was saved.
    pub fn restore(&mut self, barrier: usize, threads: Mask, values: &[u32; LANES]) {
        let register = &mut self.registers[barrier];
        for lane in lanes_of(threads) {
            register.bits = register.bits & !(1 << lane) | values[lane] & 1 << lane;
            if let Some(at) = self.saved[lane].iter().rposition(|saved| saved.value == values[lane]) {
                register.uses[lane] = self.saved[lane][at].in_use;
                self.saved[lane].truncate(at);
            }
        }
    }

    /// Copies one register to another.
    pub fn copy(&mut self, from: usize, to: usize, threads: Mask, clear: bool) {
        let source = self.registers[from];
        let target = &mut self.registers[to];
        target.bits = target.bits & !threads | source.bits & threads;
        for lane in lanes_of(threads) {
            target.uses[lane] = source.uses[lane];
        }
        if clear {
            self.remove(from, threads);
        }
    }

    /// The threads among those that wait at a register that need not wait longer; `elsewhere` are those that nobody waits for.
    pub fn complete(&self, barrier: usize, waiting: Mask, elsewhere: Mask) -> Mask {
        let register = &self.registers[barrier];
        let mut rest = waiting;
        let mut free = 0;
        while rest != 0 {
            let in_use = register.uses[rest.trailing_zeros() as usize];
            let members = register.members(in_use);
            let here = members & waiting;
            let missing = (register.bits & members | self.away(barrier, in_use)) & !here & !elsewhere;
            if missing == 0 {
                free |= here;
            }
            rest &= !here;
        }
        free
    }

    /// Threads that take part in a use and have saved the register since.
    fn away(&self, barrier: usize, in_use: Use) -> Mask {
        let is_away = |lane: usize| self.saved[lane].iter().any(|saved| saved.left == Some(barrier) && saved.in_use == in_use);
        (0..LANES).filter(|&lane| is_away(lane)).fold(0, |mask, lane| mask | 1 << lane)
    }
}

impl Register {
    /// The threads whose bits belong to a use.
    fn members(&self, in_use: Use) -> Mask {
        (0..LANES).filter(|&lane| self.uses[lane] == in_use).fold(0, |mask, lane| mask | 1 << lane)
    }
}
