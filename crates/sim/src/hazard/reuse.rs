//! Model of the operand reuse caches.
//!
//! `.reuse` on an operand keeps the register's value in the operand's slot. The next instruction that reads the same register through the
//! same slot gets the cached value, even if the register was overwritten in between, after any number of cycles.
//!
//! A value is evicted when its slot reads a register of the same bank, even by an instruction whose guard is false (measured on an H200,
//! and ptxas relies on it). The arithmetic units share one cache, `HFMA2.MMA` has its own, and other units have none. Calls to
//! functions of the same section keep what is cached. Calls to other sections are assumed to empty the caches: their functions start, and
//! they return, with nothing cached.
//!
//! ```text
//! IADD3 R8, R4.reuse, R0, RZ    slot 0 keeps the value of R4
//! MOV   R4, R0                  overwrites R4: the cached value is stale
//! IADD3 R9, R4, R0, RZ          StaleReuse: slot 0 delivers the old R4
//! ```

use super::lanes::Mask;
use super::step::ReuseEntry;
use super::{HazardFinding, HazardRegister, HazardStep, Problem};

/// A register value that may be in a reuse cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CachedRegister {
    pub entry: ReuseEntry,
    pub register: HazardRegister,
    /// Index of the instruction that put it there.
    pub step: u32,
    /// Threads whose register was overwritten since.
    pub stale: Mask,
}

/// The possible contents of the reuse caches.
#[derive(Debug, Default)]
pub(super) struct ReuseCacheContents {
    pub kept: Vec<CachedRegister>,
}

impl ReuseCacheContents {
    /// Applies an instruction: its reads hit or replace cached values, then its writes make cached values stale.
    pub fn issue(&mut self, number: usize, step: &HazardStep, active: Mask, report: &mut dyn FnMut(HazardFinding)) {
        if self.kept.is_empty() && step.cached.is_empty() {
            return;
        }
        for &(entry, register, keep) in &step.cached {
            for kept in self.kept.iter().filter(|kept| kept.entry == entry && kept.register == register && kept.stale & active != 0) {
                report(HazardFinding { second: number, first: kept.step as usize, problem: Problem::StaleReuse { register } });
            }
            self.kept.retain(|kept| kept.entry != entry);
            if keep {
                self.kept.push(CachedRegister { entry, register, step: number as u32, stale: 0 });
            }
        }
        for write in &step.writes {
            for kept in self.kept.iter_mut().filter(|kept| kept.register == write.register) {
                kept.stale |= active;
            }
        }
    }
}

/// Joins the possible contents of two paths.
pub(super) fn merge(one: &[CachedRegister], two: &[CachedRegister]) -> Vec<CachedRegister> {
    let mut all: Vec<CachedRegister> = one.iter().chain(two).copied().collect();
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
