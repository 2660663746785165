//! What can be placed next: queues by the length of the way, by registers, and by time.
//!
//! Of a queue only the first few are looked at, and most regions have few that are ready. So a queue keeps its first entries in a short sorted
//! list and only what is beyond them in a balanced tree ([`Queue`]): a step costs the same however wide the region is, and little where it is narrow.

use std::collections::BTreeSet;

use oriole_hardware::units::UNITS;

/// Candidates of each unit with the longest way that are looked at.
const BY_REACH: usize = 4;
/// Candidates that are best for registers that are looked at.
const BY_REGISTERS: usize = 8;
/// Candidates whose operands come next that are looked at.
const BY_TIME: usize = 6;

/// Entries that a queue keeps in its list.
const LIST: usize = 24;
/// With fewer of them the list is filled from the tree.
const SHORTEST_LIST: usize = 8;

/// Entries in ascending order.
struct Queue<T> {
    /// The first of them.
    list: Vec<T>,
    /// Those behind.
    tree: BTreeSet<T>,
}

impl<T: Ord + Copy> Queue<T> {
    fn new() -> Queue<T> {
        Queue { list: Vec::new(), tree: BTreeSet::new() }
    }

    fn insert(&mut self, entry: T) {
        let at = self.list.partition_point(|other| *other < entry);
        if at == self.list.len() && !self.tree.is_empty() {
            self.tree.insert(entry);
            return;
        }
        self.list.insert(at, entry);
        if self.list.len() > LIST
            && let Some(last) = self.list.pop()
        {
            self.tree.insert(last);
        }
    }

    /// Takes an entry out; says whether it was there.
    fn remove(&mut self, entry: T) -> bool {
        let Ok(at) = self.list.binary_search(&entry) else { return self.tree.remove(&entry) };
        self.list.remove(at);
        if self.list.len() < SHORTEST_LIST {
            while self.list.len() < LIST
                && let Some(next) = self.tree.pop_first()
            {
                self.list.push(next);
            }
        }
        true
    }

    /// The first entries, as far as anybody looks.
    fn first(&self, count: usize) -> &[T] {
        &self.list[..count.min(self.list.len())]
    }
}

/// Rank and reach as one number: those that reach further come first, then those of lower rank.
type Place = u64;

fn place(reach: u32, rank: u32) -> Place {
    u64::from(!reach) << 32 | u64::from(rank)
}

fn rank(place: Place) -> u32 {
    place as u32
}

/// Items that wait for nothing that is not placed, by their ranks.
pub(super) struct Ready {
    by_reach: [Queue<Place>; UNITS],
    by_registers: Queue<(i32, Place)>,
    waiting: Queue<(u32, Place)>,
    /// The change of registers by which each item is in the queue; none if it is not there.
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
            by_reach: std::array::from_fn(|_| Queue::new()),
            by_registers: Queue::new(),
            waiting: Queue::new(),
            keys: vec![None; items],
        }
    }

    /// Adds an item that changes live registers by `change`, which is none if they do not matter.
    pub fn insert(&mut self, entry: Entry, change: Option<i32>, cycle: u32) {
        let place = place(entry.reach, entry.rank);
        if entry.earliest > cycle {
            self.waiting.insert((entry.earliest, place));
        } else {
            self.by_reach[entry.unit].insert(place);
        }
        self.keys[entry.rank as usize] = change;
        if let Some(change) = change {
            self.by_registers.insert((change, place));
        }
    }

    pub fn remove(&mut self, entry: Entry) {
        let place = place(entry.reach, entry.rank);
        if !self.by_reach[entry.unit].remove(place) {
            self.waiting.remove((entry.earliest, place));
        }
        if let Some(key) = self.keys[entry.rank as usize].take() {
            self.by_registers.remove((key, place));
        }
    }

    /// Whether an item is here.
    pub fn has(&self, rank: u32) -> bool {
        self.keys[rank as usize].is_some()
    }

    /// Gives an item that is here its new place among registers.
    pub fn change(&mut self, rank: u32, reach: u32, change: i32) {
        if let Some(key) = &mut self.keys[rank as usize]
            && *key != change
        {
            let place = place(reach, rank);
            self.by_registers.remove((*key, place));
            self.by_registers.insert((change, place));
            *key = change;
        }
    }

    /// Moves those whose operands have come.
    pub fn advance(&mut self, cycle: u32, unit: impl Fn(u32) -> usize) {
        while let Some(&(earliest, place)) = self.waiting.first(1).first() {
            if earliest > cycle {
                break;
            }
            self.waiting.remove((earliest, place));
            self.by_reach[unit(rank(place))].insert(place);
        }
    }

    /// Those to look at, each once.
    pub fn window(&self, window: &mut Vec<u32>) {
        window.clear();
        for queue in &self.by_reach {
            window.extend(queue.first(BY_REACH).iter().map(|&place| rank(place)));
        }
        window.extend(self.waiting.first(BY_TIME).iter().map(|&(_, place)| rank(place)));
        let found = window.len();
        for &(_, place) in self.by_registers.first(BY_REGISTERS) {
            if !window[..found].contains(&rank(place)) {
                window.push(rank(place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain sorted list, with many more entries than the list holds.
    #[test]
    fn a_queue_is_in_order_whatever_comes_and_goes() {
        let (mut queue, mut plain) = (Queue::new(), BTreeSet::new());
        let mut state = 1_u32;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let entry = state >> 20;
            if step / 1000 % 2 == 0 && plain.insert(entry) {
                queue.insert(entry);
            } else {
                assert_eq!(queue.remove(entry), plain.remove(&entry));
            }
            let expected: Vec<u32> = plain.iter().take(BY_REGISTERS).copied().collect();
            assert_eq!(queue.first(BY_REGISTERS), expected, "step {step}");
        }
    }
}
