//! The ready list of backend A, and the window of candidates that is compared at each step.
//!
//! An item is ready when all its predecessors have issued. Its operands may still be in flight: such items are kept apart, sorted by the
//! cycle in which the operands arrive. Insertion, removal and the next window take O(log n) time.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Number of items with available operands that are compared in a step: those with the longest critical paths.
const CANDIDATES_BY_HEIGHT: usize = 16;
/// Number of items with available operands that are compared in a step: those that come first in the original order.
const CANDIDATES_BY_POSITION: usize = 12;
/// Number of items with operands in flight that are compared in a step: those whose operands arrive first.
const CANDIDATES_BY_ARRIVAL: usize = 8;

/// The ready list: items whose predecessors have all issued, by node number.
#[derive(Default)]
pub(super) struct ReadySet {
    /// Items with available operands, each with its critical path to the end of the region in cycles. The longest path comes first.
    by_height: BTreeSet<(Reverse<u32>, u32)>,
    /// The items of `by_height`, in the original order.
    by_position: BTreeSet<u32>,
    /// Items with operands in flight, each with the cycle in which its operands arrive. The earliest cycle comes first.
    waiting: BTreeSet<(u32, u32)>,
}

impl ReadySet {
    /// Inserts an item whose operands arrive in cycle `earliest`; `cycle` is the current cycle.
    pub(super) fn insert(&mut self, node: u32, earliest: u32, height: u32, cycle: u32) {
        if earliest > cycle {
            self.waiting.insert((earliest, node));
        } else {
            self.by_height.insert((Reverse(height), node));
            self.by_position.insert(node);
        }
    }

    /// Removes an item. `earliest` and `height` must be the values of its insertion.
    pub(super) fn remove(&mut self, node: u32, earliest: u32, height: u32) {
        if !self.waiting.remove(&(earliest, node)) {
            self.by_height.remove(&(Reverse(height), node));
            self.by_position.remove(&node);
        }
    }

    /// Moves the items whose operands have arrived by `cycle` from `waiting` to the items with available operands.
    pub(super) fn move_arrived_items(&mut self, cycle: u32, heights: &[u32]) {
        while let Some(&(earliest, node)) = self.waiting.first() {
            if earliest > cycle {
                break;
            }
            self.waiting.pop_first();
            self.by_height.insert((Reverse(heights[node as usize]), node));
            self.by_position.insert(node);
        }
    }

    /// Replaces the contents of `window` by the nodes of the candidates to compare in this step, each once.
    pub(super) fn window(&self, window: &mut Vec<u32>) {
        window.clear();
        window.extend(self.by_height.iter().take(CANDIDATES_BY_HEIGHT).map(|&(_, node)| node));
        let tall = window.len();
        // If `by_height` fits into the window as a whole, then `by_position` has the same items and adds none.
        if self.by_position.len() > tall {
            for &node in self.by_position.iter().take(CANDIDATES_BY_POSITION) {
                if !window[..tall].contains(&node) {
                    window.push(node);
                }
            }
        }
        window.extend(self.waiting.iter().take(CANDIDATES_BY_ARRIVAL).map(|&(_, node)| node));
    }
}
