//! What can be placed next: trees by the length of the way, by registers, and by time.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use oriole_hardware::units::UNITS;

/// Candidates of each unit with the longest way that are looked at.
const BY_REACH: usize = 4;
/// Candidates that are best for registers that are looked at.
const BY_REGISTERS: usize = 8;
/// Candidates whose operands come next that are looked at.
const BY_TIME: usize = 6;

/// Items that wait for nothing that is not placed, by their ranks.
pub(super) struct Ready {
    by_reach: [BTreeSet<(Reverse<u32>, u32)>; UNITS],
    by_registers: BTreeSet<(i32, Reverse<u32>, u32)>,
    waiting: BTreeSet<(u32, Reverse<u32>, u32)>,
    /// The change of registers by which each item is in the tree; none if it is not there.
    keys: Vec<Option<i32>>,
}

/// An item as the queue sees it.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub rank: u32,
    pub unit: usize,
    pub reach: u32,
    pub earliest: u32,
}

impl Ready {
    pub fn new(items: usize) -> Ready {
        Ready {
            by_reach: std::array::from_fn(|_| BTreeSet::new()),
            by_registers: BTreeSet::new(),
            waiting: BTreeSet::new(),
            keys: vec![None; items],
        }
    }

    /// Adds an item that changes live registers by `change`, which is none if they do not matter.
    pub fn insert(&mut self, entry: Entry, change: Option<i32>, cycle: u32) {
        if entry.earliest > cycle {
            self.waiting.insert((entry.earliest, Reverse(entry.reach), entry.rank));
        } else {
            self.by_reach[entry.unit].insert((Reverse(entry.reach), entry.rank));
        }
        self.keys[entry.rank as usize] = change;
        if let Some(change) = change {
            self.by_registers.insert((change, Reverse(entry.reach), entry.rank));
        }
    }

    pub fn remove(&mut self, entry: Entry) {
        if !self.waiting.remove(&(entry.earliest, Reverse(entry.reach), entry.rank)) {
            self.by_reach[entry.unit].remove(&(Reverse(entry.reach), entry.rank));
        }
        if let Some(key) = self.keys[entry.rank as usize].take() {
            self.by_registers.remove(&(key, Reverse(entry.reach), entry.rank));
        }
    }

    /// Gives an item its new place among registers, if it is here.
    pub fn change(&mut self, rank: u32, reach: u32, change: impl FnOnce() -> i32) {
        if let Some(key) = &mut self.keys[rank as usize] {
            let change = change();
            if change == *key {
                return;
            }
            self.by_registers.remove(&(*key, Reverse(reach), rank));
            self.by_registers.insert((change, Reverse(reach), rank));
            *key = change;
        }
    }

    /// Moves those whose operands have come.
    pub fn advance(&mut self, cycle: u32, unit: impl Fn(u32) -> usize) {
        while let Some(&(earliest, reach, rank)) = self.waiting.first() {
            if earliest > cycle {
                break;
            }
            self.waiting.pop_first();
            self.by_reach[unit(rank)].insert((reach, rank));
        }
    }

    /// Those to look at, each once.
    pub fn window(&self, window: &mut Vec<u32>) {
        window.clear();
        for tree in &self.by_reach {
            window.extend(tree.iter().take(BY_REACH).map(|&(_, rank)| rank));
        }
        window.extend(self.waiting.iter().take(BY_TIME).map(|&(_, _, rank)| rank));
        let found = window.len();
        for &(_, _, rank) in self.by_registers.iter().take(BY_REGISTERS) {
            if !window[..found].contains(&rank) {
                window.push(rank);
            }
        }
    }
}
