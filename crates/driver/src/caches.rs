//! What the compilation of one function leaves for the next functions on the same thread. It saves time and does not change the code.

use std::cell::RefCell;

use oriole_isel::SelectCaches;
use oriole_opt::legalize::EncodabilityCache;
use oriole_support::Target;

/// The caches of one thread, for one target.
pub struct Caches {
    /// Templates, encodings and library functions of instruction selection.
    pub select: RefCell<SelectCaches>,
    /// Shapes of instructions that the target encodes.
    pub encodability: RefCell<EncodabilityCache>,
}

impl Caches {
    /// Returns empty caches for a target.
    pub fn new(target: Target) -> Caches {
        Caches { select: RefCell::new(SelectCaches::new(target)), encodability: RefCell::new(EncodabilityCache::new(target)) }
    }
}
