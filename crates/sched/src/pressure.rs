//! Counts live registers incrementally while a schedule grows.
//!
//! Input: a block with its live-in and live-out register groups, and its items in any order that a scheduler chooses inside each region.
//! Output: the number of live registers of each class after each item, and the maximum so far.
//!
//! A register group (the registers of one value, which become live and dead together) becomes live when it is written; a live-in group is
//! live from the start of the block. It dies at its last reader inside the region, unless an item after the region accesses it or it is
//! live-out. Which reader is the last depends on the chosen order, so the tracker keeps a count of unscheduled readers per group.
//! [`PressureTracker::step`] and [`PressureTracker::change`] take time linear in the number of the item's operands.
//!
//! Example: `R0` and `R1` are live-in, `R9` is live-out.
//!
//! ```text
//! item               change  live after  reason
//! FADD R2, R0, R1     0      R0 R2       last read of R1 frees one register, R2 takes one
//! FADD R3, R2, R0    -1      R3          last reads of R0 and R2
//! FMUL R9, R3, R3     0      R9
//! FADD R4, R9, R9     0      R9          R4 has no reader: it occupies a register during this item only
//! ```
//!
//! If an item after the region only writes the group, the old value is dead before that write, but the group still counts as live. So the
//! count on physical registers is an upper bound.

use std::ops::Range;

use crate::code::{Item, REGISTER_CLASS_COUNT, SchedCode};

/// A number of registers for each [`crate::code::RegisterClass`].
pub type PressureCounts = [i32; REGISTER_CLASS_COUNT];

/// Liveness of one register group (the registers of one value, which become live and dead together).
#[derive(Clone, Copy, Default)]
struct GroupState {
    /// Whether the group is live at the current position.
    live: bool,
    /// Whether an item of the block after the current region accesses the group, or the group is live-out.
    used_after_region: bool,
    /// Number of unscheduled items of the region that read the group.
    readers: u32,
    /// Position in the code, plus one, of the last item of the block that reads or writes the group; `u32::MAX` if the group is live-out; 0
    /// if no item accesses it.
    last_access: u32,
}

/// Counts the live registers of each class while the items of a block are scheduled one by one.
#[derive(Clone)]
pub struct PressureTracker {
    /// For each register group, its liveness.
    states: Vec<GroupState>,
    /// Register groups whose state may differ from the default and must be reset for the next block.
    touched_groups: Vec<u32>,
    /// Number of registers of each class that are live at the current position.
    live: PressureCounts,
    /// Maximum of `live` since the start of the block.
    peak: PressureCounts,
}

/// Register groups that are live at the start and at the end of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockLiveness<'a> {
    /// Register groups that are live at the start of the block.
    pub live_in: &'a [u32],
    /// Register groups that are live at the end of the block.
    pub live_out: &'a [u32],
}

impl PressureTracker {
    /// Creates a tracker for code with `groups` register groups.
    pub fn new(groups: usize) -> PressureTracker {
        let zero = [0; REGISTER_CLASS_COUNT];
        PressureTracker { states: vec![GroupState::default(); groups], touched_groups: Vec::new(), live: zero, peak: zero }
    }

    /// Returns the state of a register group for changes, and records that the state must be reset for the next block.
    fn state(&mut self, group: u32) -> &mut GroupState {
        let state = &mut self.states[group as usize];
        if !state.live && state.last_access == 0 {
            self.touched_groups.push(group);
        }
        state
    }

    /// Resets the tracker to the start of a block. Takes time linear in the operands of this block and of the previous one.
    pub fn enter_block(&mut self, code: &SchedCode, block: Range<usize>, liveness: BlockLiveness<'_>) {
        for group in self.touched_groups.drain(..) {
            self.states[group as usize] = GroupState::default();
        }
        self.live = [0; REGISTER_CLASS_COUNT];
        for position in block.clone() {
            let item = &code.items[position];
            for &group in code.read_groups(item).iter().chain(code.written_groups(item)) {
                self.state(group).last_access = position as u32 + 1;
            }
        }
        for &group in liveness.live_out {
            self.state(group).last_access = u32::MAX;
        }
        for &group in liveness.live_in {
            if !self.state(group).live {
                self.states[group as usize].live = true;
                self.add_to_live(code, group, 1);
            }
        }
        self.peak = self.live;
    }

    /// Prepares the tracker for a region of the block. The current position must be the start of that region.
    pub(crate) fn enter_region(&mut self, code: &SchedCode, region: Range<usize>) {
        // Two loops: the first clears the reader counts of all register groups of the region, the second counts the readers. In one loop, a
        // later reader of a register group would clear its count again.
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
                state.used_after_region = state.last_access > region.end as u32;
            }
        }
    }

    /// Returns two flags of a register group: whether it is live at the current position, and whether it is accessed after the region or
    /// live-out.
    pub(crate) fn live_and_used_after_region(&self, group: u32) -> (bool, bool) {
        let state = &self.states[group as usize];
        (state.live, state.used_after_region)
    }

    /// Adds `sign` times the number of registers of a group to the number of live registers of its class.
    fn add_to_live(&mut self, code: &SchedCode, group: u32, sign: i32) {
        let group = code.groups()[group as usize];
        if let Some(class) = group.class {
            self.live[class as usize] += sign * i32::from(group.weight);
        }
    }

    /// Returns how the number of live registers of each class would change if `item` were scheduled next.
    pub fn change(&self, code: &SchedCode, item: &Item) -> PressureCounts {
        let mut change = [0; REGISTER_CLASS_COUNT];
        let mut add = |group: u32, sign: i32| {
            let group = code.groups()[group as usize];
            if let Some(class) = group.class {
                change[class as usize] += sign * i32::from(group.weight);
            }
        };
        for &group in code.read_groups(item) {
            let state = &self.states[group as usize];
            if state.live && state.readers == 1 && !state.used_after_region {
                add(group, -1);
            }
        }
        for &group in code.written_groups(item) {
            let state = &self.states[group as usize];
            if !state.live && (state.used_after_region || state.readers > 0) {
                add(group, 1);
            }
        }
        change
    }

    /// Schedules `item` at the current position and updates the live registers and their maximum.
    pub fn step(&mut self, code: &SchedCode, item: &Item) {
        // Operands that die here are freed before results become live: a result may get the register of such an operand.
        for &group in code.read_groups(item) {
            let state = &mut self.states[group as usize];
            state.readers = state.readers.saturating_sub(1);
            if state.live && state.readers == 0 && !state.used_after_region {
                state.live = false;
                self.add_to_live(code, group, -1);
            }
        }
        for &group in code.written_groups(item) {
            if !std::mem::replace(&mut self.states[group as usize].live, true) {
                self.add_to_live(code, group, 1);
            }
        }
        for (peak, live) in self.peak.iter_mut().zip(self.live) {
            *peak = (*peak).max(live);
        }
        // A result without readers occupies a register while the item executes, so it counts for the maximum and is freed after it.
        for &group in code.written_groups(item) {
            let state = &mut self.states[group as usize];
            if state.readers == 0 && !state.used_after_region {
                state.live = false;
                self.add_to_live(code, group, -1);
            }
        }
    }

    /// Returns three facts about a register group: whether it is live at the current position, whether it is accessed after the region or
    /// live-out, and the number of unscheduled items of the region that read it.
    pub(crate) fn liveness_and_reader_count(&self, group: u32) -> (bool, bool, u32) {
        let state = &self.states[group as usize];
        (state.live, state.used_after_region, state.readers)
    }

    /// Schedules an item that is outside all regions, as a region of its own. Such items are scheduling barriers, which never move.
    pub fn step_barrier(&mut self, code: &SchedCode, position: usize) {
        self.enter_region(code, position..position + 1);
        let item = code.items[position];
        self.step(code, &item);
    }

    /// Returns the number of live registers of each class at the current position.
    pub fn live(&self) -> PressureCounts {
        self.live
    }

    /// Returns the maximum number of live registers of each class since the start of the block.
    pub fn peak(&self) -> PressureCounts {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{RegisterClass, from_machine};
    use oriole_isa::{RegFile, parse};

    /// Returns the items of instructions on physical registers that are given as text.
    fn code(lines: &[&str]) -> SchedCode {
        from_machine::code(&lines.iter().map(|line| parse(line).unwrap()).collect::<Vec<_>>())
    }

    /// Returns the register group of a general register.
    fn general(number: u16) -> u32 {
        from_machine::register(RegFile::General, number).unwrap()
    }

    /// The example in the module header, counted by hand: `R0` and `R1` are live-in, `R9` is live-out.
    #[test]
    fn live_registers_are_counted_step_by_step() {
        let code = code(&["FADD R2, R0, R1", "FADD R3, R2, R0", "FMUL R9, R3, R3", "FADD R4, R9, R9"]);
        let mut tracker = PressureTracker::new(code.groups().len());
        let liveness = BlockLiveness { live_in: &[general(0), general(1)], live_out: &[general(9)] };
        tracker.enter_block(&code, 0..4, liveness);
        tracker.enter_region(&code, 0..4);
        let class = RegisterClass::General as usize;
        let mut seen = Vec::new();
        for item in &code.items {
            let change = tracker.change(&code, item)[class];
            tracker.step(&code, item);
            seen.push((change, tracker.live()[class]));
        }
        // R4, the last result, has no reader.
        assert_eq!(seen, [(0, 2), (-1, 1), (0, 1), (0, 1)]);
        assert_eq!(tracker.peak()[class], 2);
    }

    #[test]
    fn registers_used_after_the_region_stay_live() {
        let code = code(&["FADD R2, R0, R1", "FADD R3, R2, R0", "FADD R4, R2, R3"]);
        let mut tracker = PressureTracker::new(code.groups().len());
        tracker.enter_block(&code, 0..3, BlockLiveness { live_in: &[general(0), general(1)], live_out: &[] });
        tracker.enter_region(&code, 0..2);
        tracker.step(&code, &code.items[0]);
        tracker.step(&code, &code.items[1]);
        assert_eq!(tracker.live()[RegisterClass::General as usize], 2);
        tracker.enter_region(&code, 2..3);
        tracker.step(&code, &code.items[2]);
        assert_eq!(tracker.live()[RegisterClass::General as usize], 0);
    }
}
