//! The ready list: those whose operands are there, and those whose operands come later.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Candidates with the longest way to the end that are looked at.
const BY_HEIGHT: usize = 16;
/// Candidates that come first in the source that are looked at.
const BY_POSITION: usize = 12;
/// Candidates whose operands come next that are looked at.
const BY_TIME: usize = 8;

/// Instructions that depend on nothing that is not scheduled.
#[derive(Default)]
pub(super) struct Ready {
    by_height: BTreeSet<(Reverse<u32>, u32)>,
    by_position: BTreeSet<u32>,
    /// Those that would have to wait for their operands, by when these come.
    waiting: BTreeSet<(u32, u32)>,
}

impl Ready {
    pub fn insert(&mut self, node: u32, earliest: u32, height: u32, cycle: u32) {
        if earliest > cycle {
            self.waiting.insert((earliest, node));
        } else {
            self.by_height.insert((Reverse(height), node));
            self.by_position.insert(node);
        }
    }

    pub fn remove(&mut self, node: u32, earliest: u32, height: u32) {
        if !self.waiting.remove(&(earliest, node)) {
            self.by_height.remove(&(Reverse(height), node));
            self.by_position.remove(&node);
        }
    }

    /// Moves those whose operands have come.
    pub fn advance(&mut self, cycle: u32, heights: &[u32]) {
        while let Some(&(earliest, node)) = self.waiting.first() {
            if earliest > cycle {
                break;
            }
            self.waiting.pop_first();
            self.by_height.insert((Reverse(heights[node as usize]), node));
            self.by_position.insert(node);
        }
    }

    /// Those to look at, each once.
    pub fn window(&self, window: &mut Vec<u32>) {
        window.clear();
        window.extend(self.by_height.iter().take(BY_HEIGHT).map(|&(_, node)| node));
        let tall = window.len();
        if self.by_position.len() > tall {
            for &node in self.by_position.iter().take(BY_POSITION) {
                if !window[..tall].contains(&node) {
                    window.push(node);
                }
            }
        }
        window.extend(self.waiting.iter().take(BY_TIME).map(|&(_, node)| node));
    }
}
