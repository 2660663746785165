//! Counts live registers during a pass over a region, forward or backward.
//!
//! Register groups that the region accesses are renumbered densely, so the tables are as large as the region and not as the function.
//! Forward, the count equals that of [`crate::pressure::PressureTracker`]. Backward, a group becomes live at the first reader that the pass
//! places (the last one in issue order) and dies at its writer.
//!
//! Both directions report the items whose effect on the live registers changes with a placement, so that a ready list sorted by this effect
//! can be updated. The total time of a pass is linear in the number of operands.
//!
//! Example: `0: FADD R2, R0, R0`, `1: FADD R3, R2, R0`, with `R0` live-in and `R3` live-out.
//!
//! ```text
//! forward   live at the start: R0   0: R0, R2   1: R3       (1 is the last reader of R0 and R2)
//! backward  live at the end:   R3   1: R0, R2   0: R0       (1 writes R3 and reads R0 and R2; 0 writes R2)
//! ```

use rustc_hash::FxHashMap;

use super::view::Direction;
use crate::code::{REGISTER_CLASS_COUNT, RegisterClass, SchedCode};
use crate::graph::Graph;
use crate::pressure::{PressureCounts, PressureTracker};

/// A register group (the registers of one value) that the region accesses.
#[derive(Clone, Copy)]
struct RegionGroup {
    /// Index of the register class.
    class: u8,
    /// Number of registers in the group.
    weight: u8,
    /// Whether the group is live at the start of the region.
    live_at_start: bool,
    /// Whether the group is accessed after the region, or live at the end of the block.
    used_after_region: bool,
    /// Whether an item of the region writes the group.
    is_written: bool,
}

/// The register groups (live ranges) of a region whose registers have a budget, with the items that read and write them.
pub(in crate::backend) struct BudgetedGroups {
    /// The register groups, in order of first mention.
    groups: Vec<RegionGroup>,
    /// For each item, the start in `group_lists` of the register groups that it reads, and of those that it writes. The last entry marks
    /// the end.
    item_starts: Vec<(u32, u32)>,
    /// Register group numbers of all items, one list after the other.
    group_lists: Vec<u32>,
    /// For each register group, the index in `readers` of its first reader. The last entry marks the end.
    first_reader: Vec<u32>,
    /// Nodes of all readers, one list per register group after the other.
    readers: Vec<u32>,
    /// Number of live registers of each class at the start of the region.
    at_start: PressureCounts,
}

impl BudgetedGroups {
    /// Collects the register groups of a region. The tracker must have entered the region.
    pub(in crate::backend) fn new(code: &SchedCode, graph: &Graph, tracker: &PressureTracker) -> BudgetedGroups {
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let mut found = BudgetedGroups {
            groups: Vec::new(),
            item_starts: Vec::with_capacity(graph.items() + 1),
            group_lists: Vec::new(),
            first_reader: Vec::new(),
            readers: Vec::new(),
            at_start: tracker.live(),
        };
        for item in &code.items[graph.region.clone()] {
            let first_read = found.group_lists.len() as u32;
            found.add(code, code.read_groups(item), tracker, &mut numbers);
            let first_write = found.group_lists.len();
            found.add(code, code.written_groups(item), tracker, &mut numbers);
            for &group in &found.group_lists[first_write..] {
                found.groups[group as usize].is_written = true;
            }
            found.item_starts.push((first_read, first_write as u32));
        }
        found.item_starts.push((found.group_lists.len() as u32, 0));
        found.find_readers();
        found
    }

    /// Appends the dense numbers of the register groups `groups` to `group_lists`, except groups without a register class.
    fn add(&mut self, code: &SchedCode, groups: &[u32], tracker: &PressureTracker, numbers: &mut FxHashMap<u32, u32>) {
        for &number in groups {
            let described = code.groups()[number as usize];
            let Some(class) = described.class else { continue };
            let local = *numbers.entry(number).or_insert_with(|| {
                let (live_at_start, used_after_region) = tracker.live_and_used_after_region(number);
                self.groups.push(RegionGroup {
                    class: class as u8,
                    weight: described.weight,
                    live_at_start,
                    used_after_region,
                    is_written: false,
                });
                self.groups.len() as u32 - 1
            });
            self.group_lists.push(local);
        }
    }

    /// Fills the lists of readers of all register groups, by a counting sort over all reads.
    fn find_readers(&mut self) {
        let mut first = vec![0; self.groups.len() + 1];
        for node in 0..self.item_starts.len() as u32 - 1 {
            self.reads(node).iter().for_each(|&group| first[group as usize + 1] += 1);
        }
        for group in 0..self.groups.len() {
            first[group + 1] += first[group];
        }
        let mut next: Vec<u32> = first.clone();
        let mut readers = vec![0; first[self.groups.len()] as usize];
        for node in 0..self.item_starts.len() as u32 - 1 {
            for &group in self.reads(node) {
                readers[next[group as usize] as usize] = node;
                next[group as usize] += 1;
            }
        }
        (self.first_reader, self.readers) = (first, readers);
    }

    /// Returns the numbers of the register groups that an item reads, as indices into `groups`.
    pub(in crate::backend) fn reads(&self, node: u32) -> &[u32] {
        let (first, end) = self.item_starts[node as usize];
        &self.group_lists[first as usize..end as usize]
    }

    /// Returns the numbers of the register groups that an item writes, as indices into `groups`.
    pub(in crate::backend) fn writes(&self, node: u32) -> &[u32] {
        let (first, end) = (self.item_starts[node as usize].1, self.item_starts[node as usize + 1].0);
        &self.group_lists[first as usize..end as usize]
    }

    /// Returns, for each register group, whether it is live at the start of the region.
    pub(in crate::backend) fn live_at_start(&self) -> Vec<bool> {
        self.groups.iter().map(|group| group.live_at_start).collect()
    }

    /// Returns, for each register group, the number of items of the region that read it.
    pub(in crate::backend) fn reader_counts(&self) -> Vec<u32> {
        (0..self.groups.len() as u32).map(|group| self.readers(group).len() as u32).collect()
    }

    /// Returns, for each register group, the number of its general registers; 0 for register groups of other classes.
    pub(in crate::backend) fn general_weights(&self) -> Vec<u32> {
        let is_general = |group: &RegionGroup| group.class == RegisterClass::General as u8;
        self.groups.iter().map(|group| if is_general(group) { group.weight.into() } else { 0 }).collect()
    }

    /// Returns whether a register group is accessed after the region, or live at the end of the block.
    pub(in crate::backend) fn is_used_after(&self, group: u32) -> bool {
        self.groups[group as usize].used_after_region
    }

    /// Returns the nodes of the items that read a register group.
    fn readers(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.readers[self.first_reader[group] as usize..self.first_reader[group + 1] as usize]
    }

    /// Returns the number of live registers of each class at the start of the region.
    pub(in crate::backend) fn counts_at_start(&self) -> PressureCounts {
        self.at_start
    }

    /// Returns the number of live registers of each class at the end of the region.
    pub(in crate::backend) fn counts_at_end(&self) -> PressureCounts {
        let mut counts = self.at_start;
        for group in &self.groups {
            counts[group.class as usize] += i32::from(group.weight) * (i32::from(group.is_live_at_end()) - i32::from(group.live_at_start));
        }
        counts
    }
}

impl RegionGroup {
    /// Returns whether the group is live at the end of the region.
    fn is_live_at_end(&self) -> bool {
        self.used_after_region && (self.live_at_start || self.is_written)
    }
}

/// Counts the live registers at the current position of a scheduling pass, forward or backward.
pub(in crate::backend) struct LiveRegisterCounter<'a> {
    /// The register groups of the region.
    groups: &'a BudgetedGroups,
    /// Whether the pass goes forward or backward.
    direction: Direction,
    /// For each register group, whether it is live at the current position.
    live: Vec<bool>,
    /// For each register group, the number of readers that are not placed yet, and the exclusive-or of their nodes. With one reader left,
    /// the exclusive-or is the node of that reader; it is maintained in the forward direction only.
    unplaced_readers: Vec<(u32, u32)>,
    /// Number of live registers of each class at the current position.
    counts: PressureCounts,
    /// Maximum number of live registers of each class since the start of the pass.
    peak: PressureCounts,
}

impl Clone for LiveRegisterCounter<'_> {
    fn clone(&self) -> Self {
        LiveRegisterCounter { live: self.live.clone(), unplaced_readers: self.unplaced_readers.clone(), ..*self }
    }

    /// Copies the state of `other` into the memory of this one.
    fn clone_from(&mut self, other: &Self) {
        self.live.clone_from(&other.live);
        self.unplaced_readers.clone_from(&other.unplaced_readers);
        (self.groups, self.direction) = (other.groups, other.direction);
        (self.counts, self.peak) = (other.counts, other.peak);
    }
}

/// The changes of live registers that items would make ([`LiveRegisterCounter::change`]), each computed when it is first asked for.
pub(in crate::backend) struct KnownChanges {
    /// For each node, the change of live registers of each class; `None` if it is not known.
    changes: Vec<Option<PressureCounts>>,
}

impl KnownChanges {
    /// Creates the state in which no change is known, for a graph with this number of nodes.
    pub(in crate::backend) fn new(nodes: usize) -> KnownChanges {
        KnownChanges { changes: vec![None; nodes] }
    }

    /// Returns the change of live registers of a ready item.
    pub(in crate::backend) fn of(&mut self, node: u32, live: &LiveRegisterCounter<'_>) -> PressureCounts {
        *self.changes[node as usize].get_or_insert_with(|| live.change(node))
    }

    /// Places an item, and forgets the changes that may differ afterwards.
    pub(in crate::backend) fn step(&mut self, node: u32, live: &mut LiveRegisterCounter<'_>) {
        live.step(node, &mut |other| self.changes[other as usize] = None);
    }
}

impl<'a> LiveRegisterCounter<'a> {
    /// Creates the state at the boundary of the region at which the pass starts.
    pub(in crate::backend) fn new(groups: &'a BudgetedGroups, direction: Direction) -> LiveRegisterCounter<'a> {
        let is_live = |group: &RegionGroup| if direction == Direction::Forward { group.live_at_start } else { group.is_live_at_end() };
        let left = |group: u32| {
            let readers = groups.readers(group);
            (readers.len() as u32, readers.iter().fold(0, |sum, node| sum ^ node))
        };
        let counts = if direction == Direction::Forward { groups.at_start } else { groups.counts_at_end() };
        LiveRegisterCounter {
            groups,
            direction,
            live: groups.groups.iter().map(is_live).collect(),
            unplaced_readers: (0..groups.groups.len() as u32).map(left).collect(),
            counts,
            peak: counts,
        }
    }

    /// Returns the number of live registers of each class at the current position.
    pub(in crate::backend) fn counts(&self) -> PressureCounts {
        self.counts
    }

    /// Returns the maximum number of live registers of each class so far.
    pub(in crate::backend) fn peak(&self) -> PressureCounts {
        self.peak
    }

    /// Returns how the number of live registers of each class would change if `node` were placed next.
    pub(in crate::backend) fn change(&self, node: u32) -> PressureCounts {
        let mut change = [0; REGISTER_CLASS_COUNT];
        let mut add = |group: &RegionGroup, sign: i32| change[group.class as usize] += sign * i32::from(group.weight);
        let (reads, writes) = (self.groups.reads(node), self.groups.writes(node));
        for &number in reads {
            let group = &self.groups.groups[number as usize];
            let (live, readers) = (self.live[number as usize], self.unplaced_readers[number as usize].0);
            match self.direction {
                Direction::Forward if live && readers == 1 && !group.used_after_region => add(group, -1),
                Direction::Backward if !live => add(group, 1),
                _ => {}
            }
        }
        for &number in writes {
            let group = &self.groups.groups[number as usize];
            let live = self.live[number as usize];
            match self.direction {
                Direction::Forward if !live && (group.used_after_region || self.unplaced_readers[number as usize].0 > 0) => add(group, 1),
                Direction::Backward if live && !reads.contains(&number) => add(group, -1),
                _ => {}
            }
        }
        change
    }

    /// Makes a register group live or dead, and updates the number of live registers.
    fn set_live(&mut self, number: u32, live: bool) {
        let group = &self.groups.groups[number as usize];
        if std::mem::replace(&mut self.live[number as usize], live) != live {
            self.counts[group.class as usize] += if live { 1 } else { -1 } * i32::from(group.weight);
        }
    }

    /// Raises `peak` to the current number of live registers.
    fn update_peak(&mut self) {
        for (peak, count) in self.peak.iter_mut().zip(self.counts) {
            *peak = (*peak).max(count);
        }
    }

    /// Places an item and updates the live registers. Calls `changed` for each item for which [`LiveRegisterCounter::change`] may have a new result.
    pub(in crate::backend) fn step(&mut self, node: u32, changed: &mut impl FnMut(u32)) {
        match self.direction {
            Direction::Forward => self.step_forward(node, changed),
            Direction::Backward => self.step_backward(node, changed),
        }
    }

    /// Places an item of a forward pass and updates the live registers. Calls `changed` for each item whose effect on them may differ now.
    fn step_forward(&mut self, node: u32, changed: &mut impl FnMut(u32)) {
        let groups = self.groups;
        for &number in groups.reads(node) {
            let (readers, combined) = &mut self.unplaced_readers[number as usize];
            (*readers, *combined) = (*readers - 1, *combined ^ node);
            // When one unplaced reader is left, that reader frees the register group, so its change of live registers is different now.
            if *readers == 1 {
                changed(*combined);
            }
            if *readers == 0 && !groups.groups[number as usize].used_after_region {
                self.set_live(number, false);
            }
        }
        for &number in groups.writes(node) {
            self.set_live(number, true);
        }
        self.update_peak();
        for &number in groups.writes(node) {
            if self.unplaced_readers[number as usize].0 == 0 && !groups.groups[number as usize].used_after_region {
                self.set_live(number, false);
            }
        }
    }

    /// Places an item of a backward pass and updates the live registers. Calls `changed` for each item whose effect on them may differ now.
    fn step_backward(&mut self, node: u32, changed: &mut impl FnMut(u32)) {
        let groups = self.groups;
        // A result that no later item reads still occupies a register while the item executes, so it counts for the maximum.
        for &number in groups.writes(node) {
            self.set_live(number, true);
        }
        self.update_peak();
        for &number in groups.writes(node) {
            self.set_live(number, false);
        }
        for &number in groups.reads(node) {
            let readers = groups.readers(number);
            let left = &mut self.unplaced_readers[number as usize].0;
            *left -= 1;
            let is_first = *left as usize + 1 == readers.len();
            self.set_live(number, true);
            // The register group became live: its other readers no longer make registers live. This is reported once per group, at its
            // first placed reader, so that the time stays linear even where a group is written and read many times.
            if is_first {
                readers.iter().for_each(|&reader| changed(reader));
            }
        }
        self.update_peak();
    }
}
