//! Caches the orders of regions, so that identical regions are scheduled once.
//!
//! The key is the *signature* of a region ([`super::problem::SearchProblem::signature`]): everything that the search reads, with registers
//! renumbered. It contains the dependency graph with latencies, instruction classes, liveness of registers, and after register allocation
//! the banks and operand slots. The cache is a hash table with chaining; a hit requires equality of the whole signature. So a cached order
//! is exactly the order that a search would return. Unrolled code gains most: its copies differ in register names only.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

/// Maximum number of items of a cached region. Larger regions are hardly ever repeated, and their signatures are long.
pub(super) const MAX_CACHED_ITEMS: usize = 4096;
/// Maximum total size of signatures and orders in the cache, in 32-bit words.
pub(super) const MAX_CACHED_WORDS: usize = 16 << 20;

/// A cached region with its order.
struct CachedOrder {
    /// The signature of the region.
    signature: Box<[u32]>,
    /// The best order, as nodes of the dependency graph.
    order: Box<[u32]>,
    /// Whether some order that was tried has more live registers than the scarcity threshold.
    exceeded_scarcity: bool,
    /// Index of the next cached order whose signature has the same hash; `None` at the end of the chain.
    next: Option<u32>,
}

/// The cache: the best orders of the regions that were scheduled before.
#[derive(Default)]
pub(super) struct OrderCache {
    /// For each hash of a signature, the index of the cached order that was added last with that hash.
    newest_with_hash: FxHashMap<u64, u32>,
    /// All cached orders, in the sequence in which they were added.
    cached_orders: Vec<CachedOrder>,
    /// Size of all signatures and orders, in 32-bit words.
    words: usize,
    /// Number of cache hits.
    pub hits: usize,
}

/// Returns the hash of a signature.
fn hash(signature: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    signature.hash(&mut hasher);
    hasher.finish()
}

impl OrderCache {
    /// Returns the number of cached regions.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cached_orders.len()
    }

    /// Returns the cached order of the region with this signature, and whether some order that was tried had more live registers than the
    /// scarcity threshold; `None` if the region is not cached.
    pub(super) fn find(&mut self, signature: &[u32]) -> Option<(&[u32], bool)> {
        let mut at = self.newest_with_hash.get(&hash(signature)).copied();
        while let Some(number) = at {
            let solution = &self.cached_orders[number as usize];
            if *solution.signature == *signature {
                self.hits += 1;
                let found = &self.cached_orders[number as usize];
                return Some((&found.order, found.exceeded_scarcity));
            }
            at = solution.next;
        }
        None
    }

    /// Adds the order of the region with this signature, unless the cache has `max_orders` orders already or would exceed
    /// [`MAX_CACHED_WORDS`].
    pub(super) fn add_order(&mut self, signature: Vec<u32>, order: &[u32], exceeded_scarcity: bool, max_orders: usize) {
        let words = signature.len() + order.len();
        if self.cached_orders.len() >= max_orders || self.words + words > MAX_CACHED_WORDS {
            return;
        }
        self.words += words;
        let next = self.newest_with_hash.insert(hash(&signature), self.cached_orders.len() as u32);
        self.cached_orders.push(CachedOrder { signature: signature.into(), order: order.into(), exceeded_scarcity, next });
    }
}
