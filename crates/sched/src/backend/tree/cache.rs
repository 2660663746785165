//! Solutions that were found: regions that look alike get the same order.
//!
//! Two regions look alike if all that the search looks at is the same: dependences with latencies, classes, how registers live, and after
//! allocation which operands share banks and slots, whatever the registers are called. That is the region's *signature*; a hash of
//! it finds the solution, and the whole signature is compared. So a solution that is taken from here is the one that a search would find, and unrolled
//! code is searched once.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

/// Regions above this size are not kept: they hardly come twice, and their signatures are long.
pub(super) const LARGEST: usize = 4096;
/// Words of signatures that are kept, at most.
const MOST_WORDS: usize = 16 << 20;

struct Solution {
    signature: Box<[u32]>,
    order: Box<[u32]>,
    wants_registers: bool,
    next: Option<u32>,
}

/// Orders of regions that were scheduled before.
#[derive(Default)]
pub struct Solutions {
    first: FxHashMap<u64, u32>,
    all: Vec<Solution>,
    words: usize,
    /// How often a region was found.
    pub hits: usize,
}

fn hash(signature: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    signature.hash(&mut hasher);
    hasher.finish()
}

impl Solutions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn find(&mut self, signature: &[u32]) -> Option<(&[u32], bool)> {
        let mut at = self.first.get(&hash(signature)).copied();
        while let Some(number) = at {
            let solution = &self.all[number as usize];
            if *solution.signature == *signature {
                self.hits += 1;
                let found = &self.all[number as usize];
                return Some((&found.order, found.wants_registers));
            }
            at = solution.next;
        }
        None
    }

    /// Keeps a solution, if `most` is not reached.
    pub(super) fn keep(&mut self, signature: Vec<u32>, order: &[u32], wants_registers: bool, most: usize) {
        let words = signature.len() + order.len();
        if self.all.len() >= most || self.words + words > MOST_WORDS {
            return;
        }
        self.words += words;
        let next = self.first.insert(hash(&signature), self.all.len() as u32);
        self.all.push(Solution { signature: signature.into(), order: order.into(), wants_registers, next });
    }
}
