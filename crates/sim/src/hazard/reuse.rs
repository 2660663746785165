//! The reuse caches: `.reuse` at an operand keeps the value that went through its slot, and the next instruction that reads the same
//! register through the same slot takes it from there, even if the register has been overwritten since, however long ago.
//!
//! The value stays until the slot is used again with a register of the same bank, also by an instruction whose guard does not hold (measured
//! on an H200, and ptxas relies on it). Arithmetic units share a cache, `HFMA2.MMA` has one of its own, and the others have none. Calls empty
//! them here: functions begin and go on after a call with nothing kept.

use super::lanes::Mask;
use super::step::Entry;
use super::{Finding, Problem, Register, Step};

/// A register that may be in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    pub entry: Entry,
    pub register: Register,
    /// Whose value it is, by number.
    pub step: u32,
    /// The threads whose register was overwritten since.
    pub stale: Mask,
}

/// Entries with what may be in them.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub kept: Vec<Kept>,
}

impl Cache {
    /// An instruction reads and then writes.
    pub fn issue(&mut self, number: usize, step: &Step, active: Mask, report: &mut dyn FnMut(Finding)) {
        if self.kept.is_empty() && step.cached.is_empty() {
            return;
        }
        for &(entry, register, keep) in &step.cached {
            for kept in self.kept.iter().filter(|kept| kept.entry == entry && kept.register == register && kept.stale & active != 0) {
                report(Finding { second: number, first: kept.step as usize, problem: Problem::StaleReuse { register } });
            }
            self.kept.retain(|kept| kept.entry != entry);
            if keep {
                self.kept.push(Kept { entry, register, step: number as u32, stale: 0 });
            }
        }
        for write in &step.writes {
            for kept in self.kept.iter_mut().filter(|kept| kept.register == write.register) {
                kept.stale |= active;
            }
        }
    }
}

/// What may be kept if one or the other is the case.
pub(super) fn merge(one: &[Kept], two: &[Kept]) -> Vec<Kept> {
    let mut all: Vec<Kept> = one.iter().chain(two).copied().collect();
    all.sort_unstable();
    all.dedup_by(|later, earlier| {
        let same = (later.entry, later.register, later.step) == (earlier.entry, earlier.register, earlier.step);
        if same {
            earlier.stale |= later.stale;
        }
        same
    });
    all
}
