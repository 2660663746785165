//! Registers that are live while a pass goes through a region, in either direction.
//!
//! The groups that the region touches get dense numbers, so that tables are as large as the region. Forward counts exactly as
//! [`crate::pressure::Tracker`] does. Backward, a group begins to live with its first reader from the end and dies with its writer.

use rustc_hash::FxHashMap;

use super::view::Direction;
use crate::code::{Code, REGISTER_CLASSES};
use crate::graph::Graph;
use crate::pressure::{Counts, Tracker};

/// Registers that live and die together.
#[derive(Clone, Copy)]
struct Group {
    class: u8,
    weight: u8,
    live_at_start: bool,
    wanted_later: bool,
    is_written: bool,
}

/// What the items of a region read and write, of what is counted.
pub(super) struct Groups {
    groups: Vec<Group>,
    /// For each item where its groups begin: those it reads, then those it writes.
    items: Vec<(u32, u32)>,
    lists: Vec<u32>,
    /// For each group where its readers begin.
    first_reader: Vec<u32>,
    readers: Vec<u32>,
    at_start: Counts,
}

impl Groups {
    /// Those of a region that the tracker has entered.
    pub fn new(code: &Code, graph: &Graph, tracker: &Tracker) -> Groups {
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let mut found = Groups {
            groups: Vec::new(),
            items: Vec::with_capacity(graph.items() + 1),
            lists: Vec::new(),
            first_reader: Vec::new(),
            readers: Vec::new(),
            at_start: tracker.live(),
        };
        for item in &code.items[graph.region.clone()] {
            let first_read = found.lists.len() as u32;
            found.add(code, code.read_groups(item), tracker, &mut numbers);
            let first_write = found.lists.len();
            found.add(code, code.written_groups(item), tracker, &mut numbers);
            for &group in &found.lists[first_write..] {
                found.groups[group as usize].is_written = true;
            }
            found.items.push((first_read, first_write as u32));
        }
        found.items.push((found.lists.len() as u32, 0));
        found.find_readers();
        found
    }

    fn add(&mut self, code: &Code, groups: &[u32], tracker: &Tracker, numbers: &mut FxHashMap<u32, u32>) {
        for &number in groups {
            let described = code.groups()[number as usize];
            let Some(class) = described.class else { continue };
            let local = *numbers.entry(number).or_insert_with(|| {
                let (live_at_start, wanted_later) = tracker.at_region_ends(number);
                self.groups.push(Group { class: class as u8, weight: described.weight, live_at_start, wanted_later, is_written: false });
                self.groups.len() as u32 - 1
            });
            self.lists.push(local);
        }
    }

    fn find_readers(&mut self) {
        let mut first = vec![0; self.groups.len() + 1];
        for node in 0..self.items.len() as u32 - 1 {
            self.reads(node).iter().for_each(|&group| first[group as usize + 1] += 1);
        }
        for group in 0..self.groups.len() {
            first[group + 1] += first[group];
        }
        let mut next: Vec<u32> = first.clone();
        let mut readers = vec![0; first[self.groups.len()] as usize];
        for node in 0..self.items.len() as u32 - 1 {
            for &group in self.reads(node) {
                readers[next[group as usize] as usize] = node;
                next[group as usize] += 1;
            }
        }
        (self.first_reader, self.readers) = (first, readers);
    }

    fn reads(&self, node: u32) -> &[u32] {
        let (first, end) = self.items[node as usize];
        &self.lists[first as usize..end as usize]
    }

    fn writes(&self, node: u32) -> &[u32] {
        let (first, end) = (self.items[node as usize].1, self.items[node as usize + 1].0);
        &self.lists[first as usize..end as usize]
    }

    fn readers(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.readers[self.first_reader[group] as usize..self.first_reader[group + 1] as usize]
    }

    /// Registers that are live at the start.
    pub fn at_start(&self) -> Counts {
        self.at_start
    }

    /// Registers that are live at the end.
    pub fn at_end(&self) -> Counts {
        let mut counts = self.at_start;
        for group in &self.groups {
            counts[group.class as usize] += i32::from(group.weight) * (i32::from(group.is_live_at_end()) - i32::from(group.live_at_start));
        }
        counts
    }
}

impl Group {
    fn is_live_at_end(&self) -> bool {
        self.wanted_later && (self.live_at_start || self.is_written)
    }
}

/// Live registers at the place that a pass has come to.
pub(super) struct Live<'a> {
    groups: &'a Groups,
    direction: Direction,
    live: Vec<bool>,
    /// Readers of each group that the pass has not come to, and their numbers combined: of one reader it is the number.
    left: Vec<(u32, u32)>,
    now: Counts,
    peak: Counts,
}

impl<'a> Live<'a> {
    pub fn new(groups: &'a Groups, direction: Direction) -> Live<'a> {
        let is_live = |group: &Group| if direction == Direction::Forward { group.live_at_start } else { group.is_live_at_end() };
        let left = |group: u32| {
            let readers = groups.readers(group);
            (readers.len() as u32, readers.iter().fold(0, |sum, node| sum ^ node))
        };
        let now = if direction == Direction::Forward { groups.at_start } else { groups.at_end() };
        Live {
            groups,
            direction,
            live: groups.groups.iter().map(is_live).collect(),
            left: (0..groups.groups.len() as u32).map(left).collect(),
            now,
            peak: now,
        }
    }

    /// Registers that are live now.
    pub fn now(&self) -> Counts {
        self.now
    }

    /// The most that were.
    pub fn peak(&self) -> Counts {
        self.peak
    }

    /// How the number of live registers would change by an item.
    pub fn change(&self, node: u32) -> Counts {
        let mut change = [0; REGISTER_CLASSES];
        let mut add = |group: &Group, sign: i32| change[group.class as usize] += sign * i32::from(group.weight);
        let (reads, writes) = (self.groups.reads(node), self.groups.writes(node));
        for &number in reads {
            let group = &self.groups.groups[number as usize];
            let (live, readers) = (self.live[number as usize], self.left[number as usize].0);
            match self.direction {
                Direction::Forward if live && readers == 1 && !group.wanted_later => add(group, -1),
                Direction::Backward if !live => add(group, 1),
                _ => {}
            }
        }
        for &number in writes {
            let group = &self.groups.groups[number as usize];
            let live = self.live[number as usize];
            match self.direction {
                Direction::Forward if !live && (group.wanted_later || self.left[number as usize].0 > 0) => add(group, 1),
                Direction::Backward if live && !reads.contains(&number) => add(group, -1),
                _ => {}
            }
        }
        change
    }

    fn set(&mut self, number: u32, live: bool) {
        let group = &self.groups.groups[number as usize];
        if std::mem::replace(&mut self.live[number as usize], live) != live {
            self.now[group.class as usize] += if live { 1 } else { -1 } * i32::from(group.weight);
        }
    }

    fn note_peak(&mut self) {
        for (peak, now) in self.peak.iter_mut().zip(self.now) {
            *peak = (*peak).max(now);
        }
    }

    /// Counts an item in. `changed` hears of items whose change is another one now.
    pub fn step(&mut self, node: u32, changed: &mut impl FnMut(u32)) {
        match self.direction {
            Direction::Forward => self.step_forward(node, changed),
            Direction::Backward => self.step_backward(node, changed),
        }
    }

    fn step_forward(&mut self, node: u32, changed: &mut impl FnMut(u32)) {
        let groups = self.groups;
        for &number in groups.reads(node) {
            let (readers, combined) = &mut self.left[number as usize];
            (*readers, *combined) = (*readers - 1, *combined ^ node);
            if *readers == 1 {
                changed(*combined);
            }
            if *readers == 0 && !groups.groups[number as usize].wanted_later {
                self.set(number, false);
            }
        }
        for &number in groups.writes(node) {
            self.set(number, true);
        }
        self.note_peak();
        for &number in groups.writes(node) {
            if self.left[number as usize].0 == 0 && !groups.groups[number as usize].wanted_later {
                self.set(number, false);
            }
        }
    }

    fn step_backward(&mut self, node: u32, changed: &mut impl FnMut(u32)) {
        let groups = self.groups;
        for &number in groups.writes(node) {
            self.set(number, true);
        }
        self.note_peak();
        for &number in groups.writes(node) {
            self.set(number, false);
        }
        for &number in groups.reads(node) {
            let readers = groups.readers(number);
            let left = &mut self.left[number as usize].0;
            *left -= 1;
            let is_first = *left as usize + 1 == readers.len();
            self.set(number, true);
            // Each group once, so that the whole stays linear where a register is written again and again.
            if is_first {
                readers.iter().for_each(|&reader| changed(reader));
            }
        }
        self.note_peak();
    }
}
