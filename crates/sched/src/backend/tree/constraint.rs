//! Resource limits beyond dependences: live registers before register allocation, register file ports after it.
//!
//! [`Pressure`] counts live registers exactly as [`crate::pressure::Tracker`] does, on the renumbered registers of a problem.
//!
//! [`PortState`] models the read ports of the register file. There are two banks; an even and an odd register are in different banks. Each
//! bank delivers one register per cycle. The operand reuse cache keeps the register that was last read through each operand slot; a read
//! of the same register through the same slot needs no bank. The state also knows whether two consecutive instructions would write the same
//! register, which the search avoids.
//!
//! Example:
//!
//! ```text
//! instruction             cache hits   bank reads (even, odd)   extra cycles
//! FFMA R8, R2, R4, R6     -            3, 0                     2: three registers of the even bank
//! FFMA R9, R2, R4, R7     R2 and R4    0, 1                     0
//! FFMA R10, R4, R2, R7    R7           2, 0                     1: R2 and R4 are in other slots than before
//! ```

use super::problem::{BANKS, Group, NO_REGISTER, Problem, SLOTS};
use crate::code::REGISTER_CLASSES;
use crate::pressure::Counts;

/// Maximum number of instructions between the one that leaves a register in the reuse cache and the one that uses it.
const REUSE_DISTANCE: u32 = 3;
/// Issue distance, in cycles, from which on another warp is assumed to issue in between. Its operands replace the contents of the reuse
/// cache.
const YIELDING_GAP: u32 = 3;

/// Number of live registers while an order grows.
#[derive(Clone, Default)]
pub(super) struct Pressure {
    /// Current state of each register group of the region.
    groups: Vec<Group>,
    /// Live registers of each class at the current position.
    pub live: Counts,
    /// Maximum of `live` since the start of the region.
    pub peak: Counts,
}

impl Pressure {
    /// Resets the state to the start of the region.
    pub fn start(&mut self, problem: &Problem<'_>) {
        self.groups.clear();
        self.groups.extend_from_slice(&problem.groups);
        self.live = problem.live;
        self.peak = problem.live;
    }

    /// Returns how the number of live registers of each class would change if `node` were issued next.
    pub fn change(&self, problem: &Problem<'_>, node: u32) -> Counts {
        let mut change = [0; REGISTER_CLASSES];
        let mut add = |group: &Group, sign: i32| {
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

    /// Adds `sign` times the size of a group to the live registers of its class.
    fn count(&mut self, group: usize, sign: i32) {
        let Group { class, weight, .. } = self.groups[group];
        if let Some(class) = class {
            self.live[class as usize] += sign * i32::from(weight);
        }
    }

    /// Issues `node`: frees operands that die, then makes results live, then frees results that have no readers.
    pub fn step(&mut self, problem: &Problem<'_>, node: u32) {
        for &group in problem.read_groups(node) {
            let state = &mut self.groups[group as usize];
            state.readers = state.readers.saturating_sub(1);
            if state.live && state.readers == 0 && !state.used_after_region {
                state.live = false;
                self.count(group as usize, -1);
            }
        }
        for &group in problem.written_groups(node) {
            if !std::mem::replace(&mut self.groups[group as usize].live, true) {
                self.count(group as usize, 1);
            }
        }
        for (peak, live) in self.peak.iter_mut().zip(self.live) {
            *peak = (*peak).max(live);
        }
        for &group in problem.written_groups(node) {
            let state = &mut self.groups[group as usize];
            if state.readers == 0 && !state.used_after_region {
                state.live = false;
                self.count(group as usize, -1);
            }
        }
    }

    /// Returns the number of registers above the budget after an item with this `change`, summed over the classes of which it takes any.
    pub fn overflow(&self, problem: &Problem<'_>, change: &Counts) -> i32 {
        let budget = &problem.settings.budget.registers;
        let over = |class: usize| if change[class] > 0 { (self.live[class] + change[class] - budget[class]).max(0) } else { 0 };
        (0..REGISTER_CLASSES).map(over).sum()
    }

    /// Returns the maximum number of live registers above the budget so far, summed over all classes.
    pub fn excess(&self, problem: &Problem<'_>) -> i32 {
        let budget = &problem.settings.budget.registers;
        self.peak.iter().zip(budget).map(|(peak, budget)| (peak - budget).max(0)).sum()
    }
}

/// State of the register file ports while an order is issued.
#[derive(Clone)]
pub(super) struct PortState {
    /// Register in each slot of the reuse cache ([`NO_REGISTER`] for empty), and the sequence number of the instruction that left it there.
    kept: [(u16, u32); SLOTS],
    /// First cycle in which the banks can deliver the operands of another instruction.
    pub free: u32,
    /// First general register that the previous instruction writes; [`NO_REGISTER`] if it writes none.
    last_written: u16,
    /// Issue cycle of the previous instruction.
    last_issue: u32,
    /// Number of instructions issued so far.
    issued: u32,
    /// Number of operands that the reuse cache delivered.
    pub hits: u32,
    /// Cycles lost by bank conflicts.
    pub conflicts: u32,
}

impl Default for PortState {
    fn default() -> PortState {
        PortState { kept: [(NO_REGISTER, 0); SLOTS], free: 0, last_written: NO_REGISTER, last_issue: 0, issued: 0, hits: 0, conflicts: 0 }
    }
}

impl PortState {
    /// Returns whether another warp would issue before an instruction that issues in cycle `at`, and replace the reuse cache.
    fn loses_reuse_cache(&self, at: u32) -> bool {
        // Cycles spent waiting for the banks do not count: the warp keeps its turn while the banks deliver.
        at + 1 >= (self.last_issue + 1).max(self.free) + YIELDING_GAP
    }

    /// Returns the reuse cache hits of an item that issues next, in cycle `at`, and the extra cycles of its bank conflicts.
    pub fn operands(&self, problem: &Problem<'_>, node: u32, at: u32) -> (u32, u32) {
        let ports = &problem.ports[node as usize];
        let mut reads = ports.reads;
        let mut hits = 0;
        if ports.cached && !self.loses_reuse_cache(at) {
            for (&register, &(kept, by)) in ports.slots.iter().zip(&self.kept) {
                if register != NO_REGISTER && register == kept && self.issued - by <= REUSE_DISTANCE {
                    hits += 1;
                    let bank = &mut reads[usize::from(register) % BANKS];
                    *bank = bank.saturating_sub(1);
                }
            }
        }
        let busy = reads.into_iter().max().unwrap_or(0);
        (hits, u32::from(busy).saturating_sub(1))
    }

    /// Returns whether an item writes the same general register as the previous instruction.
    pub fn writes_again(&self, problem: &Problem<'_>, node: u32) -> bool {
        let written = problem.ports[node as usize].written;
        written != NO_REGISTER && written == self.last_written
    }

    /// Issues `node` in cycle `at`.
    pub fn step(&mut self, problem: &Problem<'_>, node: u32, at: u32) {
        let (hits, busy) = self.operands(problem, node, at);
        let ports = &problem.ports[node as usize];
        if self.loses_reuse_cache(at) {
            self.kept = [(NO_REGISTER, 0); SLOTS];
        }
        self.hits += hits;
        self.conflicts += busy;
        if ports.reads_banks() {
            self.free = at + 1 + busy;
        }
        self.issued += 1;
        if ports.cached {
            for (slot, &register) in ports.slots.iter().enumerate().filter(|(_, register)| **register != NO_REGISTER) {
                // A guarded instruction may not execute, so it leaves nothing in the cache; its slots are lost all the same.
                self.kept[slot] = (if ports.keeps { register } else { NO_REGISTER }, self.issued);
            }
        }
        // A cached copy of a register that is overwritten is stale.
        if ports.written != NO_REGISTER {
            for kept in self.kept.iter_mut().filter(|kept| kept.0 == ports.written) {
                kept.0 = NO_REGISTER;
            }
        }
        self.last_written = ports.written;
        self.last_issue = at;
    }
}
