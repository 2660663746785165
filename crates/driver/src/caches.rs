//! Caches that the functions of a compilation share. They save time and do not change the code.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use oriole_isel::SelectCaches;
use oriole_opt::legalize::EncodabilityCache;
use oriole_support::Target;

/// Caches for one target. Only one function at a time is compiled with them.
pub struct Caches {
    /// Templates, encodings and library functions of instruction selection.
    pub select: RefCell<SelectCaches>,
    /// Instruction shapes (opcode, modifiers, operand kinds) for which encodability on the target is known.
    pub encodability: RefCell<EncodabilityCache>,
}

impl Caches {
    /// Returns empty caches for a target.
    fn new(target: Target) -> Caches {
        Caches { select: RefCell::new(SelectCaches::new(target)), encodability: RefCell::new(EncodabilityCache::new(target)) }
    }
}

/// The caches of a compilation: as many [`Caches`] as functions are compiled at the same time.
pub struct CachePool {
    /// The GPU architecture that code is compiled for.
    target: Target,
    /// The caches that no running compilation of a function is using.
    idle_caches: Mutex<Vec<Caches>>,
}

impl CachePool {
    /// Returns a pool without caches for a target; caches are created when they are needed.
    pub fn new(target: Target) -> CachePool {
        CachePool { target, idle_caches: Mutex::default() }
    }

    /// Calls `run` with caches that no other compilation of a function uses at the same time, and returns its result. If `run` panics, the
    /// caches are not used again.
    pub fn with_idle_caches<R>(&self, run: impl FnOnce(&Caches) -> R) -> R {
        let idle = || self.idle_caches.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().pop();
        let caches = known.unwrap_or_else(|| Caches::new(self.target));
        let result = run(&caches);
        idle().push(caches);
        result
    }
}
