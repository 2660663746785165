//! Registers that are live, counted as a schedule grows.
//!
//! A [`Tracker`] goes with a block from its start to its end. A group of registers becomes live when it is written, or is live from the
//! start; it dies with its last reader in the region unless something behind the region wants it. Each step costs time in proportion to
//! the item's operands, and so does the question what a step would change ([`Tracker::change`]).

use std::ops::Range;

use crate::code::{Code, Item, REGISTER_CLASSES};

/// A number for each [`crate::code::RegisterClass`].
pub type Counts = [i32; REGISTER_CLASSES];

#[derive(Clone, Copy, Default)]
struct State {
    live: bool,
    /// Wanted behind the region.
    wanted_later: bool,
    /// Items of the region that read it and are not scheduled yet.
    readers: u32,
    /// The last item of the block that touches it, plus one; beyond the block's end if it is live there.
    last_touch: u32,
}

/// Live registers at the current place.
#[derive(Clone)]
pub struct Tracker {
    states: Vec<State>,
    /// Groups whose state is not blank.
    known: Vec<u32>,
    live: Counts,
    peak: Counts,
}

/// What is live at the ends of a block.
#[derive(Clone, Copy, Debug)]
pub struct Borders<'a> {
    /// Groups that are live at its start.
    pub live_in: &'a [u32],
    /// Groups that are live at its end.
    pub live_out: &'a [u32],
}

impl Tracker {
    /// A tracker for code with so many groups.
    pub fn new(groups: usize) -> Tracker {
        let zero = [0; REGISTER_CLASSES];
        Tracker { states: vec![State::default(); groups], known: Vec::new(), live: zero, peak: zero }
    }

    fn state(&mut self, group: u32) -> &mut State {
        let state = &mut self.states[group as usize];
        if !state.live && state.last_touch == 0 {
            self.known.push(group);
        }
        state
    }

    /// Goes to the start of a block.
    pub fn enter_block(&mut self, code: &Code, block: Range<usize>, borders: Borders<'_>) {
        for group in self.known.drain(..) {
            self.states[group as usize] = State::default();
        }
        self.live = [0; REGISTER_CLASSES];
        for position in block.clone() {
            let item = &code.items[position];
            for &group in code.read_groups(item).iter().chain(code.written_groups(item)) {
                self.state(group).last_touch = position as u32 + 1;
            }
        }
        for &group in borders.live_out {
            self.state(group).last_touch = u32::MAX;
        }
        for &group in borders.live_in {
            if !self.state(group).live {
                self.states[group as usize].live = true;
                self.count(code, group, 1);
            }
        }
        self.peak = self.live;
    }

    /// Goes to the start of a region of the block.
    pub fn enter_region(&mut self, code: &Code, region: Range<usize>) {
        for position in region.clone() {
            let item = &code.items[position];
            for &group in code.read_groups(item) {
                self.states[group as usize].readers = 0;
            }
        }
        for position in region.clone() {
            let item = &code.items[position];
            for &group in code.read_groups(item) {
                self.states[group as usize].readers += 1;
            }
            for &group in code.read_groups(item).iter().chain(code.written_groups(item)) {
                let state = &mut self.states[group as usize];
                state.wanted_later = state.last_touch > region.end as u32;
            }
        }
    }

    /// Whether a group is live where the tracker stands, and whether something behind the region wants it.
    pub(crate) fn at_region_ends(&self, group: u32) -> (bool, bool) {
        let state = &self.states[group as usize];
        (state.live, state.wanted_later)
    }

    fn count(&mut self, code: &Code, group: u32, sign: i32) {
        let group = code.groups()[group as usize];
        if let Some(class) = group.class {
            self.live[class as usize] += sign * i32::from(group.weight);
        }
    }

    /// How the number of live registers would change by an item.
    pub fn change(&self, code: &Code, item: &Item) -> Counts {
        let mut change = [0; REGISTER_CLASSES];
        let mut add = |group: u32, sign: i32| {
            let group = code.groups()[group as usize];
            if let Some(class) = group.class {
                change[class as usize] += sign * i32::from(group.weight);
            }
        };
        for &group in code.read_groups(item) {
            let state = &self.states[group as usize];
            if state.live && state.readers == 1 && !state.wanted_later {
                add(group, -1);
            }
        }
        for &group in code.written_groups(item) {
            let state = &self.states[group as usize];
            if !state.live && (state.wanted_later || state.readers > 0) {
                add(group, 1);
            }
        }
        change
    }

    /// Counts an item in.
    pub fn step(&mut self, code: &Code, item: &Item) {
        for &group in code.read_groups(item) {
            let state = &mut self.states[group as usize];
            state.readers = state.readers.saturating_sub(1);
            if state.live && state.readers == 0 && !state.wanted_later {
                state.live = false;
                self.count(code, group, -1);
            }
        }
        for &group in code.written_groups(item) {
            if !std::mem::replace(&mut self.states[group as usize].live, true) {
                self.count(code, group, 1);
            }
        }
        for (peak, live) in self.peak.iter_mut().zip(self.live) {
            *peak = (*peak).max(live);
        }
        for &group in code.written_groups(item) {
            let state = &mut self.states[group as usize];
            if state.readers == 0 && !state.wanted_later {
                state.live = false;
                self.count(code, group, -1);
            }
        }
    }

    /// What is known of a group at the start of a region: whether it is live, whether it is wanted behind the region, and how many items of
    /// the region read it.
    pub fn at_region_start(&self, group: u32) -> (bool, bool, u32) {
        let state = &self.states[group as usize];
        (state.live, state.wanted_later, state.readers)
    }

    /// Goes over what is not scheduled: items of the block outside of regions.
    pub fn pass(&mut self, code: &Code, position: usize) {
        self.enter_region(code, position..position + 1);
        let item = code.items[position];
        self.step(code, &item);
    }

    /// Registers that are live now.
    pub fn live(&self) -> Counts {
        self.live
    }

    /// The most that were live since the start of the block.
    pub fn peak(&self) -> Counts {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{RegisterClass, from_machine};
    use oriole_isa::{File, parse};

    fn code(lines: &[&str]) -> Code {
        from_machine::code(&lines.iter().map(|line| parse(line).unwrap()).collect::<Vec<_>>())
    }

    fn general(number: u16) -> u32 {
        from_machine::register(File::General, number).unwrap()
    }

    /// Counted by hand: R0 and R1 live in, R9 live out.
    #[test]
    fn live_registers_are_counted_step_by_step() {
        let code = code(&["FADD R2, R0, R1", "FADD R3, R2, R0", "FMUL R9, R3, R3", "FADD R4, R9, R9"]);
        let mut tracker = Tracker::new(code.groups().len());
        let borders = Borders { live_in: &[general(0), general(1)], live_out: &[general(9)] };
        tracker.enter_block(&code, 0..4, borders);
        tracker.enter_region(&code, 0..4);
        let class = RegisterClass::General as usize;
        let mut seen = Vec::new();
        for item in &code.items {
            let change = tracker.change(&code, item)[class];
            tracker.step(&code, item);
            seen.push((change, tracker.live()[class]));
        }
        // The last result is wanted by nobody.
        assert_eq!(seen, [(0, 2), (-1, 1), (0, 1), (0, 1)]);
        assert_eq!(tracker.peak()[class], 2);
    }

    #[test]
    fn what_later_regions_want_stays_live() {
        let code = code(&["FADD R2, R0, R1", "FADD R3, R2, R0", "FADD R4, R2, R3"]);
        let mut tracker = Tracker::new(code.groups().len());
        tracker.enter_block(&code, 0..3, Borders { live_in: &[general(0), general(1)], live_out: &[] });
        tracker.enter_region(&code, 0..2);
        tracker.step(&code, &code.items[0]);
        tracker.step(&code, &code.items[1]);
        assert_eq!(tracker.live()[RegisterClass::General as usize], 2);
        tracker.enter_region(&code, 2..3);
        tracker.step(&code, &code.items[2]);
        assert_eq!(tracker.live()[RegisterClass::General as usize], 0);
    }
}
