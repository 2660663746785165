//! Cost model of instruction issue that all backends share, and the lower bound of a region.
//!
//! The model is an in-order pipeline that issues at most one instruction per cycle. An instruction issues when its operands are available,
//! its functional unit is free and the previous instruction has issued. It then occupies its unit for a fixed number of cycles. Pseudo
//! operations take no issue slot. On a machine with dual issue, a second instruction of another unit may issue in the same cycle.
//!
//! [`estimate`] returns the length of a given order; [`lower_bound`] returns a lower bound for every order of a region. A region whose
//! original order has the length of the lower bound needs no scheduling. Both are linear in nodes and edges.
//!
//! Example: two loads of 30 cycles, each with one dependent addition.
//!
//! ```text
//! order            issue cycles      Length::issued
//! L0 A0 L1 A1      0, 30, 31, 61     62
//! L0 L1 A0 A1      0, 1, 30, 31      32
//! lower bound                        31   (longest dependency chain: 30 cycles, plus one issue slot)
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_hardware::SchedClass;
use oriole_hardware::units::UNITS;

use crate::code::SchedCode;
use crate::graph::Graph;
use crate::resource::ResourceCosts;

/// Length of an order, in cycles from the start of the region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Length {
    /// Cycles until the last instruction has issued.
    pub issued: u32,
    /// Cycles until the last instruction has issued and all results that are read after the region are available.
    pub done: u32,
}

impl Length {
    /// Returns whether this length is better than `other`. Code after the region may wait for the issue slots or for the results, so both
    /// numbers have the same weight.
    pub(crate) fn is_shorter_than(self, other: Length) -> bool {
        self.issued + self.done < other.issued + other.done
    }

    /// Raises the length to include an instruction that issues in cycle `at` and whose results are available `tail` cycles later.
    pub(super) fn add(&mut self, at: u32, tail: u32) {
        self.issued = self.issued.max(at + 1);
        self.done = self.done.max(at + tail.max(1));
    }
}

/// State of the simulated issue pipeline while the items of an order issue one by one.
#[derive(Clone)]
pub(super) struct Clock<'a> {
    /// For each instruction class, its functional unit and the cycles for which an instruction occupies the unit.
    pub costs: &'a ResourceCosts,
    /// First cycle in which the next instruction can issue.
    pub cycle: u32,
    /// For each unit, the first cycle in which it is free.
    pub unit_free_cycles: [u32; UNITS],
    /// Completion cycles of in-flight instructions that hold a scoreboard, earliest first.
    in_flight: BinaryHeap<Reverse<u32>>,
    /// Issue cycle and class of the last instruction, if a second instruction can still issue in the same cycle (dual issue); `None`
    /// otherwise.
    pairable: Option<(u32, SchedClass)>,
}

impl<'a> Clock<'a> {
    /// Returns the state at the start of a region: cycle 0, all units free.
    pub(super) fn new(costs: &'a ResourceCosts) -> Clock<'a> {
        Clock { costs, cycle: 0, unit_free_cycles: [0; UNITS], in_flight: BinaryHeap::new(), pairable: None }
    }

    /// Issues an instruction in the first possible cycle from `earliest` on, and returns that cycle.
    pub(super) fn issue(&mut self, class: SchedClass, is_pseudo: bool, earliest: u32) -> u32 {
        if is_pseudo {
            return earliest.max(self.cycle);
        }
        let (unit, cycles) = (self.costs.unit_index(class), self.costs.cycles(class));
        if let Some(at) = self.dual_issue_cycle(class, earliest) {
            self.unit_free_cycles[unit] = at + cycles.max(1) as u32;
            self.pairable = None;
            return at;
        }
        let at = self.cycle.max(earliest).max(self.unit_free_cycles[unit]);
        self.unit_free_cycles[unit] = at + cycles.max(1) as u32;
        self.cycle = at + self.costs.issue_cycles();
        self.pairable = self.costs.dual_issue().then_some((at, class));
        at
    }

    /// Returns the issue cycle of the last instruction if another instruction, whose operands are available from cycle `earliest` on, can
    /// issue in that same cycle; `None` if it cannot, in particular on a machine without dual issue.
    pub(super) fn dual_issue_cycle(&self, class: SchedClass, earliest: u32) -> Option<u32> {
        let (at, first) = self.pairable?;
        (earliest <= at && self.unit_free_cycles[self.costs.unit_index(class)] <= at && self.costs.can_dual_issue_pair(first, class))
            .then_some(at)
    }

    /// Records an in-flight instruction that holds a scoreboard until cycle `until`.
    pub(super) fn hold_scoreboard(&mut self, until: u32) {
        while self.in_flight.peek().is_some_and(|&Reverse(done)| done <= self.cycle) {
            self.in_flight.pop();
        }
        self.in_flight.push(Reverse(until));
    }

    /// Returns the number of instructions in flight that hold a scoreboard. The number may be slightly too high.
    pub(super) fn scoreboards_in_use(&self) -> usize {
        // Only `hold_scoreboard` removes completed entries, so the count may be slightly too high.
        self.in_flight.len()
    }
}

/// Returns the length, in cycles, of an order of a region. `order` lists the positions of its items in the code, first issued first.
pub fn estimate(code: &SchedCode, graph: &Graph, costs: &ResourceCosts, order: impl Iterator<Item = usize>) -> Length {
    let mut earliest = graph.start_cycles();
    let mut left = graph.predecessor_counts().to_vec();
    let mut clock = Clock::new(costs);
    let mut length = Length::default();
    for position in order {
        let node = (position - graph.region.start) as u32;
        let item = &code.items[position];
        let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
        length.add(at, graph.tail(node));
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
    }
    length
}

/// Returns a lower bound, in cycles, for the length of every order of the region: the maximum of the critical path, the number of
/// instructions and the cycles for which the busiest unit is occupied.
pub(crate) fn lower_bound(code: &SchedCode, graph: &Graph, costs: &ResourceCosts) -> Length {
    let mut lower_bound = Length::default();
    let mut busy = [(0, 0); UNITS];
    let mut instructions = 0_u32;
    for (node, depth) in graph.depths().into_iter().take(graph.items()).enumerate() {
        lower_bound.add(depth, graph.tail(node as u32));
        let item = &code.items[graph.region.start + node];
        if item.opcode.is_some() {
            let cycles = costs.cycles(item.class).max(1) as u32;
            let (sum, longest) = &mut busy[costs.unit_index(item.class)];
            (*sum, *longest) = (*sum + cycles, cycles.max(*longest));
            instructions += 1;
        }
    }
    if costs.dual_issue() {
        instructions = instructions.div_ceil(2);
    }
    // The last instruction on a unit issues when all others have left the unit. Its own cycles on the unit come after its issue, so they do
    // not count. Any instruction of the unit may be the last one; the bound assumes the one that occupies the unit longest.
    let units = busy.iter().map(|(sum, longest)| (sum - longest) + 1).max().unwrap_or(0);
    lower_bound.issued = lower_bound.issued.max(instructions).max(if instructions > 0 { units } else { 0 });
    lower_bound.done = lower_bound.done.max(lower_bound.issued);
    lower_bound
}

/// Returns the minimum, over all orders of items that take one issue slot each, of the maximum of issue cycle plus tail, in cycles. Each
/// item in `slots` has a head (its first possible cycle) and two tails, of which the function `tail` selects one; the items are sorted by
/// head. Jackson's rule gives the optimum: in each cycle, the available item with the longest tail issues. `available` is working memory;
/// its contents are replaced.
pub(super) fn issue_slot_lower_bound(
    slots: &[(u32, u32, u32)],
    available: &mut BinaryHeap<u32>,
    tail: impl Fn(&(u32, u32, u32)) -> u32,
) -> u32 {
    // The tails of the items that can issue in `cycle`.
    available.clear();
    let (mut cycle, mut longest) = (0, 0);
    let mut later = slots.iter().peekable();
    loop {
        if available.is_empty() {
            let Some(next) = later.peek() else { return longest };
            cycle = cycle.max(next.0);
        }
        while let Some(slot) = later.next_if(|slot| slot.0 <= cycle) {
            available.push(tail(slot));
        }
        longest = longest.max(cycle + available.pop().unwrap_or(0));
        cycle += 1;
    }
}

/// Propagates the issue of `node` in cycle `at` to its successors.
///
/// Updates the first possible issue cycle (`earliest`) and the number of unscheduled predecessors (`left`) of each successor. Calls `ready`
/// for each item whose last predecessor was `node`. Joins are not issued: a join whose predecessors are all issued is released at once.
pub(super) fn release(graph: &Graph, node: u32, at: u32, earliest: &mut [u32], left: &mut [u32], ready: &mut impl FnMut(u32)) {
    for edge in graph.successors(node) {
        let to = edge.node as usize;
        earliest[to] = earliest[to].max(at + u32::from(edge.latency));
        left[to] -= 1;
        if left[to] == 0 {
            if to < graph.items() {
                ready(edge.node);
            } else {
                let at = earliest[to];
                release(graph, edge.node, at, earliest, left, ready);
            }
        }
    }
}
