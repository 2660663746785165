//! What an order must respect beyond dependences, and what is better avoided.
//!
//! Before allocation: live registers, counted on the region's own numbers ([`Pressure`]). After it: the ports of the register file
//! ([`PortState`]): two banks that deliver a register a cycle each, a cache that keeps the last register of each slot, and a cycle between
//! two writes of one register.

use super::problem::{BANKS, Group, NONE, Problem, SLOTS};
use crate::code::REGISTER_CLASSES;
use crate::pressure::Counts;

/// Instructions behind which a slot of the cache is no longer used.
const REUSE_DISTANCE: u32 = 3;
/// A gap of so many cycles lets another warp issue, and its operands take the cache.
const YIELDING_GAP: u32 = 3;

/// Registers that are live, as an order grows.
#[derive(Clone, Default)]
pub(super) struct Pressure {
    groups: Vec<Group>,
    pub live: Counts,
    pub peak: Counts,
}

impl Pressure {
    pub fn start(&mut self, problem: &Problem<'_>) {
        self.groups.clear();
        self.groups.extend_from_slice(&problem.groups);
        self.live = problem.live;
        self.peak = problem.live;
    }

    /// How the number of live registers would change by an item.
    pub fn change(&self, problem: &Problem<'_>, node: u32) -> Counts {
        let mut change = [0; REGISTER_CLASSES];
        let mut add = |group: &Group, sign: i32| {
            if let Some(class) = group.class {
                change[class as usize] += sign * i32::from(group.weight);
            }
        };
        for &group in problem.read_groups(node) {
            let group = &self.groups[group as usize];
            if group.live && group.readers == 1 && !group.wanted_later {
                add(group, -1);
            }
        }
        for &group in problem.written_groups(node) {
            let group = &self.groups[group as usize];
            if !group.live && (group.wanted_later || group.readers > 0) {
                add(group, 1);
            }
        }
        change
    }

    fn count(&mut self, group: usize, sign: i32) {
        let Group { class, weight, .. } = self.groups[group];
        if let Some(class) = class {
            self.live[class as usize] += sign * i32::from(weight);
        }
    }

    pub fn step(&mut self, problem: &Problem<'_>, node: u32) {
        for &group in problem.read_groups(node) {
            let state = &mut self.groups[group as usize];
            state.readers = state.readers.saturating_sub(1);
            if state.live && state.readers == 0 && !state.wanted_later {
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
            if state.readers == 0 && !state.wanted_later {
                state.live = false;
                self.count(group as usize, -1);
            }
        }
    }

    /// Registers beyond the budget that an item would take, of all classes.
    pub fn overflow(&self, problem: &Problem<'_>, change: &Counts) -> i32 {
        let budget = &problem.settings.budget.registers;
        let over = |class: usize| if change[class] > 0 { (self.live[class] + change[class] - budget[class]).max(0) } else { 0 };
        (0..REGISTER_CLASSES).map(over).sum()
    }

    /// Registers beyond the budget at the worst place so far.
    pub fn excess(&self, problem: &Problem<'_>) -> i32 {
        let budget = &problem.settings.budget.registers;
        self.peak.iter().zip(budget).map(|(peak, budget)| (peak - budget).max(0)).sum()
    }
}

/// The register file's ports as an order is issued.
#[derive(Clone)]
pub(super) struct PortState {
    /// The register in each slot of the cache, and the number of the instruction that left it there.
    kept: [(u16, u32); SLOTS],
    /// When the banks have delivered.
    pub free: u32,
    last_written: u16,
    last_issue: u32,
    issued: u32,
    /// Operands that came from the cache.
    pub hits: u32,
    /// Cycles in which one bank alone delivered.
    pub conflicts: u32,
}

impl Default for PortState {
    fn default() -> PortState {
        PortState { kept: [(NONE, 0); SLOTS], free: 0, last_written: NONE, last_issue: 0, issued: 0, hits: 0, conflicts: 0 }
    }
}

impl PortState {
    /// Whether the warp waits so long for a cycle that another one gets its turn. What waits for banks does not give way.
    fn gives_way(&self, at: u32) -> bool {
        at + 1 >= (self.last_issue + 1).max(self.free) + YIELDING_GAP
    }

    /// Operands of an item that come from the cache if it is issued next, and cycles for which its banks are busy beyond the first.
    pub fn operands(&self, problem: &Problem<'_>, node: u32, at: u32) -> (u32, u32) {
        let ports = &problem.ports[node as usize];
        let mut reads = ports.reads;
        let mut hits = 0;
        if ports.cached && !self.gives_way(at) {
            for (&register, &(kept, by)) in ports.slots.iter().zip(&self.kept) {
                if register != NONE && register == kept && self.issued - by <= REUSE_DISTANCE {
                    hits += 1;
                    let bank = &mut reads[usize::from(register) % BANKS];
                    *bank = bank.saturating_sub(1);
                }
            }
        }
        let busy = reads.into_iter().max().unwrap_or(0);
        (hits, u32::from(busy).saturating_sub(1))
    }

    /// Whether it writes what the instruction before writes.
    pub fn writes_again(&self, problem: &Problem<'_>, node: u32) -> bool {
        let written = problem.ports[node as usize].written;
        written != NONE && written == self.last_written
    }

    pub fn step(&mut self, problem: &Problem<'_>, node: u32, at: u32) {
        let (hits, busy) = self.operands(problem, node, at);
        let ports = &problem.ports[node as usize];
        if self.gives_way(at) {
            self.kept = [(NONE, 0); SLOTS];
        }
        self.hits += hits;
        self.conflicts += busy;
        if ports.reads_banks() {
            self.free = at + 1 + busy;
        }
        self.issued += 1;
        if ports.cached {
            for (slot, &register) in ports.slots.iter().enumerate().filter(|(_, register)| **register != NONE) {
                self.kept[slot] = (if ports.keeps { register } else { NONE }, self.issued);
            }
        }
        if ports.written != NONE {
            for kept in self.kept.iter_mut().filter(|kept| kept.0 == ports.written) {
                kept.0 = NONE;
            }
        }
        self.last_written = ports.written;
        self.last_issue = at;
    }
}
