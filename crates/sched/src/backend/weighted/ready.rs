//! The ready list of backend B: queues sorted by critical path, by change of live registers, and by arrival time of operands.
//!
//! A step compares the first few entries of each queue only, and in most regions few items are ready at once. Therefore a [`SortedQueue`] keeps
//! its first entries in a short sorted vector and the rest in a balanced tree. Insertion and removal take O(log n) time, and with few
//! ready items the tree stays empty.

use std::collections::BTreeSet;

use oriole_hardware::units::UNITS;

/// Number of items per unit that are compared in a step: those with the longest critical paths.
pub(super) const CANDIDATES_BY_CRITICAL_PATH: usize = 4;
/// Number of items that are compared in a step because they free the most registers.
const CANDIDATES_BY_REGISTERS: usize = 8;
/// Number of items with operands in flight that are compared in a step: those whose operands arrive first.
const CANDIDATES_BY_ARRIVAL: usize = 6;

/// Maximum length of the sorted vector of a [`SortedQueue`], in entries.
const MAX_SORTED_ENTRIES: usize = 24;
/// The sorted vector is refilled from the tree when it has fewer entries than this. At least as large as each of the numbers of candidates
/// above, so that [`SortedQueue::first`] always finds enough entries in the vector.
const MIN_SORTED_ENTRIES: usize = 8;

/// A priority queue with ordered access to its first entries.
///
/// Invariants: every entry of `list` is smaller than every entry of `tree`; if `tree` is not empty, `list` has at least
/// [`MIN_SORTED_ENTRIES`] entries.
struct SortedQueue<T> {
    /// The smallest entries of the queue, in ascending order.
    list: Vec<T>,
    /// The entries that are not in `list`.
    tree: BTreeSet<T>,
}

impl<T: Ord + Copy> SortedQueue<T> {
    /// Returns an empty queue.
    fn new() -> SortedQueue<T> {
        SortedQueue { list: Vec::new(), tree: BTreeSet::new() }
    }

    /// Inserts an entry at its place in the sorted order.
    fn insert(&mut self, entry: T) {
        if self.list.capacity() == 0 {
            self.list.reserve(MAX_SORTED_ENTRIES + 1);
        }
        let at = self.list.partition_point(|other| *other < entry);
        // The entry sorts after every entry of the vector, so it may also belong after some entries of the tree.
        if at == self.list.len() && !self.tree.is_empty() {
            self.tree.insert(entry);
            return;
        }
        self.list.insert(at, entry);
        if self.list.len() > MAX_SORTED_ENTRIES
            && let Some(last) = self.list.pop()
        {
            self.tree.insert(last);
        }
    }

    /// Removes an entry and returns whether the queue contained it.
    fn remove(&mut self, entry: T) -> bool {
        let Ok(at) = self.list.binary_search(&entry) else { return self.tree.remove(&entry) };
        self.list.remove(at);
        if self.list.len() < MIN_SORTED_ENTRIES {
            while self.list.len() < MAX_SORTED_ENTRIES
                && let Some(next) = self.tree.pop_first()
            {
                self.list.push(next);
            }
        }
        true
    }

    /// Returns the first `count` entries, or all if there are fewer. `count` must be at most [`MIN_SORTED_ENTRIES`].
    fn first(&self, count: usize) -> &[T] {
        &self.list[..count.min(self.list.len())]
    }
}

/// Sort key of an item: longer critical path first, then lower rank. The upper half holds the complement of the critical path in cycles,
/// the lower half the rank.
type SortKey = u64;

/// Returns the sort key of an item with this critical path (in cycles) and this rank.
fn sort_key(critical_path: u32, rank: u32) -> SortKey {
    u64::from(!critical_path) << 32 | u64::from(rank)
}

/// Returns the rank that a sort key contains.
fn rank_of(sort_key: SortKey) -> u32 {
    sort_key as u32
}

/// The ready list: the items whose predecessors in the direction of the pass are all placed.
///
/// A ready item is in either `by_critical_path` or `waiting`, and before register allocation also in `by_registers`.
pub(super) struct ReadyList {
    /// For each unit, the items with available operands, by critical path.
    by_critical_path: [SortedQueue<SortKey>; UNITS],
    /// The units whose queue in `by_critical_path` has items, one bit each.
    units_with_items: u32,
    /// All ready items, by the change of live general registers if the item is placed next; items that free the most come first.
    by_registers: SortedQueue<(i32, SortKey)>,
    /// Items that cannot be placed yet, by the first cycle in which they can be placed.
    waiting: SortedQueue<(u32, SortKey)>,
    /// For each rank, the register change that is the key of the item in `by_registers`; `None` if the item is not there.
    register_keys: Vec<Option<i32>>,
}

/// An item of the ready list, with its sort criteria.
#[derive(Clone, Copy)]
pub(super) struct ReadyEntry {
    /// Position in the original order, in the direction of the pass.
    pub rank: u32,
    /// Index of the unit of the item's class, whose queue holds the item; pseudo operations have a class, too.
    pub unit: usize,
    /// Length in cycles of the longest dependence path from the item to the boundary of the region that the pass reaches last: the end of
    /// the region in a forward pass, its start in a backward pass.
    pub critical_path: u32,
    /// First cycle in which the item can be placed.
    pub earliest: u32,
}

impl ReadyList {
    /// Creates an empty ready list for a region of `items` items.
    pub(super) fn new(items: usize) -> ReadyList {
        ReadyList {
            by_critical_path: std::array::from_fn(|_| SortedQueue::new()),
            units_with_items: 0,
            by_registers: SortedQueue::new(),
            waiting: SortedQueue::new(),
            register_keys: vec![None; items],
        }
    }

    /// Inserts an item; `cycle` is the current cycle. `change` is its change of live general registers; `None` after register allocation.
    pub(super) fn insert(&mut self, entry: ReadyEntry, change: Option<i32>, cycle: u32) {
        let sort_key = sort_key(entry.critical_path, entry.rank);
        if entry.earliest > cycle {
            self.waiting.insert((entry.earliest, sort_key));
        } else {
            self.insert_available(entry.unit, sort_key);
        }
        self.register_keys[entry.rank as usize] = change;
        if let Some(change) = change {
            self.by_registers.insert((change, sort_key));
        }
    }

    /// Removes an item. The entry must have the values of its insertion.
    pub(super) fn remove(&mut self, entry: ReadyEntry) {
        let sort_key = sort_key(entry.critical_path, entry.rank);
        let queue = &mut self.by_critical_path[entry.unit];
        if !queue.remove(sort_key) {
            self.waiting.remove((entry.earliest, sort_key));
        } else if queue.list.is_empty() {
            self.units_with_items &= !(1 << entry.unit);
        }
        if let Some(key) = self.register_keys[entry.rank as usize].take() {
            self.by_registers.remove((key, sort_key));
        }
    }

    /// Returns whether an item is in the ready list. Before register allocation only: afterwards the answer is always no.
    pub(super) fn contains(&self, rank: u32) -> bool {
        self.register_keys[rank as usize].is_some()
    }

    /// Updates the change of live general registers of a ready item.
    pub(super) fn update_register_change(&mut self, rank: u32, critical_path: u32, change: i32) {
        if let Some(key) = &mut self.register_keys[rank as usize]
            && *key != change
        {
            let sort_key = sort_key(critical_path, rank);
            self.by_registers.remove((*key, sort_key));
            self.by_registers.insert((change, sort_key));
            *key = change;
        }
    }

    /// Moves the waiting items that can be placed in `cycle` into the queue of their unit. `unit` maps a rank to the index of its unit.
    pub(super) fn move_arrived_items(&mut self, cycle: u32, unit: impl Fn(u32) -> usize) {
        while let Some(&(earliest, sort_key)) = self.waiting.first(1).first() {
            if earliest > cycle {
                break;
            }
            self.waiting.remove((earliest, sort_key));
            self.insert_available(unit(rank_of(sort_key)), sort_key);
        }
    }

    /// Inserts an item whose operands are available into the queue of its unit.
    fn insert_available(&mut self, unit: usize, sort_key: SortKey) {
        self.by_critical_path[unit].insert(sort_key);
        self.units_with_items |= 1 << unit;
    }

    /// Replaces the contents of `window` by the ranks of the candidates to compare, each once: `per_unit` of each unit, at most
    /// [`CANDIDATES_BY_CRITICAL_PATH`], and those of the other queues.
    pub(super) fn window(&self, window: &mut Vec<u32>, per_unit: usize) {
        window.clear();
        let mut units = self.units_with_items;
        while units != 0 {
            let queue = &self.by_critical_path[units.trailing_zeros() as usize];
            units &= units - 1;
            window.extend(queue.first(per_unit).iter().map(|&sort_key| rank_of(sort_key)));
        }
        window.extend(self.waiting.first(CANDIDATES_BY_ARRIVAL).iter().map(|&(_, sort_key)| rank_of(sort_key)));
        let found = window.len();
        for &(_, sort_key) in self.by_registers.first(CANDIDATES_BY_REGISTERS) {
            if !window[..found].contains(&rank_of(sort_key)) {
                window.push(rank_of(sort_key));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a queue with a sorted set that has many more entries than the vector of the queue holds.
    #[test]
    fn queue_returns_entries_in_sorted_order() {
        let (mut queue, mut plain) = (SortedQueue::new(), BTreeSet::new());
        let mut state = 1_u32;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let entry = state >> 20;
            if step / 1000 % 2 == 0 && plain.insert(entry) {
                queue.insert(entry);
            } else {
                assert_eq!(queue.remove(entry), plain.remove(&entry));
            }
            let expected: Vec<u32> = plain.iter().take(CANDIDATES_BY_REGISTERS).copied().collect();
            assert_eq!(queue.first(CANDIDATES_BY_REGISTERS), expected, "step {step}");
        }
    }
}
