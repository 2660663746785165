//! Counts live registers before register allocation, exactly as [`crate::pressure::PressureTracker`] does, on the renumbered registers of a
//! [`SearchProblem`] (the region to schedule).

use super::problem::{LiveGroup, SearchProblem};
use crate::code::REGISTER_CLASS_COUNT;
use crate::pressure::PressureCounts;

/// Counts the live registers at the current position of an order that grows item by item.
#[derive(Clone, Default)]
pub(super) struct LiveRegisters {
    /// Current state of each register group of the region.
    groups: Vec<LiveGroup>,
    /// Number of live registers of each class at the current position.
    pub live: PressureCounts,
    /// Maximum of `live` since the start of the region.
    pub peak: PressureCounts,
}

impl LiveRegisters {
    /// Resets the live registers to those at the start of the region.
    pub(super) fn start(&mut self, problem: &SearchProblem<'_>) {
        self.groups.clear();
        self.groups.extend_from_slice(&problem.groups);
        self.live = problem.live;
        self.peak = problem.live;
    }

    /// Returns how the number of live registers of each class would change if `node` were issued next.
    pub(super) fn change(&self, problem: &SearchProblem<'_>, node: u32) -> PressureCounts {
        let mut change = [0; REGISTER_CLASS_COUNT];
        let mut add = |group: &LiveGroup, sign: i32| {
            if let Some(class) = group.class {
                change[class as usize] += sign * i32::from(group.weight);
            }
        };
        for &group in problem.read_groups(node) {
            let group = &self.groups[group as usize];
            if group.live && group.readers == 1 && !group.used_after_region {
                add(group, -1);
            }
        }
        for &group in problem.written_groups(node) {
            let group = &self.groups[group as usize];
            if !group.live && (group.used_after_region || group.readers > 0) {
                add(group, 1);
            }
        }
        change
    }

    /// Adds `sign` times the number of registers of a group to the number of live registers of its class.
    fn add_to_live(&mut self, group: usize, sign: i32) {
        let LiveGroup { class, weight, .. } = self.groups[group];
        if let Some(class) = class {
            self.live[class as usize] += sign * i32::from(weight);
        }
    }

    /// Updates the live registers for `node`, which issues: frees operands that die, then makes results live, then frees results that have
    /// no readers.
    pub(super) fn step(&mut self, problem: &SearchProblem<'_>, node: u32) {
        for &group in problem.read_groups(node) {
            let state = &mut self.groups[group as usize];
            state.readers = state.readers.saturating_sub(1);
            if state.live && state.readers == 0 && !state.used_after_region {
                state.live = false;
                self.add_to_live(group as usize, -1);
            }
        }
        for &group in problem.written_groups(node) {
            if !std::mem::replace(&mut self.groups[group as usize].live, true) {
                self.add_to_live(group as usize, 1);
            }
        }
        for (peak, live) in self.peak.iter_mut().zip(self.live) {
            *peak = (*peak).max(live);
        }
        for &group in problem.written_groups(node) {
            let state = &mut self.groups[group as usize];
            if state.readers == 0 && !state.used_after_region {
                state.live = false;
                self.add_to_live(group as usize, -1);
            }
        }
    }

    /// Returns the number of registers above the budget after an item that changes the live registers by `change`, summed over the classes
    /// of which it takes registers.
    pub(super) fn excess_after(&self, problem: &SearchProblem<'_>, change: &PressureCounts) -> i32 {
        let budget = &problem.settings.budget.registers;
        let over = |class: usize| if change[class] > 0 { (self.live[class] + change[class] - budget[class]).max(0) } else { 0 };
        (0..REGISTER_CLASS_COUNT).map(over).sum()
    }

    /// Returns the number of registers by which the maximum number of live registers so far exceeds the budget, summed over all classes.
    pub(super) fn excess(&self, problem: &SearchProblem<'_>) -> i32 {
        let budget = &problem.settings.budget.registers;
        self.peak.iter().zip(budget).map(|(peak, budget)| (peak - budget).max(0)).sum()
    }
}
