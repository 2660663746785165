//! What the compilation of one function leaves for later ones. It saves time and does not change the code.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use oriole_isel::SelectCaches;
use oriole_opt::legalize::EncodabilityCache;
use oriole_support::Target;

/// Caches for one target. One function at a time uses them.
pub struct Caches {
    /// Templates, encodings and library functions of instruction selection.
    pub select: RefCell<SelectCaches>,
    /// Shapes of instructions that the target encodes.
    pub encodability: RefCell<EncodabilityCache>,
}

impl Caches {
    /// Returns empty caches for a target.
    fn new(target: Target) -> Caches {
        Caches { select: RefCell::new(SelectCaches::new(target)), encodability: RefCell::new(EncodabilityCache::new(target)) }
    }
}

/// The caches of a compilation: as many as functions are compiled at the same time.
pub struct CachePool {
    target: Target,
    idle: Mutex<Vec<Caches>>,
}

impl CachePool {
    /// Returns a pool for a target.
    pub fn new(target: Target) -> CachePool {
        CachePool { target, idle: Mutex::default() }
    }

    /// Calls `run` with caches that no other function uses. The caches are dropped if `run` panics.
    pub fn with<R>(&self, run: impl FnOnce(&Caches) -> R) -> R {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().pop();
        let caches = known.unwrap_or_else(|| Caches::new(self.target));
        let result = run(&caches);
        idle().push(caches);
        result
    }
}
