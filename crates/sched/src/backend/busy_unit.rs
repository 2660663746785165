//! Strategy `busy-unit`: starts the slowest unit of a region early and keeps it busy.
//!
//! Between the two matrix products of attention, a warp computes the maximum of each of two rows, one exponential for each element, and the
//! sums of the exponentials. Each exponential occupies its unit for eight cycles, and these cycles are most of the time of the region.
//! Critical paths do not show that: the maxima of both rows have paths of the same length, so a list scheduler alternates between the rows,
//! and the unit stays idle until both maxima are known. It is better to compute the maximum of one row first, and that of the second row
//! during the exponentials of the first. `M0` and `M1` are steps of the maxima of the rows 0 and 1, `E0` and `E1` exponentials:
//!
//! ```text
//! M0 M1 M0 M1 M0 M1 ..  E0 E1 E0 E1 E0 E1 ..        alternating: the unit waits for both maxima
//! M0 M0 M0 ..  E0 M1 E0 M1 E0 M1 .. E1 E1 E1 ..     one row after the other: the unit waits for one of them
//! ```
//!
//! The algorithm has three steps:
//!
//! 1. **Order of the unit.** The items of the busiest unit are divided into groups. The first group starts with the item that needs the
//!    fewest items before it; all items that need only a few more ([`MAX_EXTRA_ITEMS_IN_GROUP`]) belong to the same group. The next group
//!    is found in the same way, without the items that earlier groups need. Within a group, the longest critical path comes first; each
//!    direct successor counts as one more cycle.
//! 2. **Heights.** The height of an item is its critical path to the end of the region. An item of the unit gets at least the height of the
//!    next item of the unit plus the cycles that it occupies the unit. The heights of its predecessors rise accordingly.
//! 3. **List schedule** by these heights, as in `critical-path`.
//!
//! **Warps in step.** The warps of a thread block that synchronize at barriers run the same code at nearly the same time. An issue slot
//! that a lone warp leaves empty is then used by another warp, and an instruction that could wait delays the other warp if it takes this
//! slot. The list schedule therefore counts issue slots and unit cycles once for each warp of the block that shares the hardware scheduler
//! ([`ResourceCosts::in_step`]).
//!
//! **Waits.** A warp issues in order, so waiting for a result of the unit delays all items of the unit after the wait. Readers are
//! therefore placed as if results of the unit took [`READER_LATENCY_FACTOR`] times as long (times the number of warps in step), if other
//! items are ready.
//!
//! O(n log n) for *n* items; the number of groups is limited ([`MAX_UNIT_ITEM_GROUPS`]).

use std::cmp::Reverse;

use oriole_hardware::units::{UNITS, Unit};

use super::critical_path::ByCriticalPath;
use super::engine::{ProposedOrder, RegionAnalysis, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::registers::BudgetedGroups;
use super::weighted::{self, WeightedScheduling};
use crate::graph::{Graph, Predecessors};
use crate::pressure::PressureTracker;

/// Minimum number of items that the busiest unit executes. Regions with fewer are scheduled by backend B.
const MIN_BUSIEST_UNIT_ITEMS: usize = 8;
/// Minimum number of cycles that an item occupies the busiest unit. A faster unit is rarely idle for lack of a better order.
const MIN_UNIT_CYCLES_PER_ITEM: u32 = 4;
/// Readers of a result of the busiest unit are placed as if the latency of that result were this many times as long. With several warps in
/// step, the latency is also multiplied by their number.
const READER_LATENCY_FACTOR: u32 = 2;
/// An item of the busiest unit joins a group if it needs at most this number of items that the first item of the group does not need.
const MAX_EXTRA_ITEMS_IN_GROUP: u32 = 4;
/// Maximum number of groups into which the items of the busiest unit are divided. Finding a group takes time linear in the size of the
/// region.
const MAX_UNIT_ITEM_GROUPS: usize = 16;

/// List scheduling that keeps the slowest unit busy; the strategy `busy-unit` of the command line.
pub(super) struct BusyUnit;

impl Strategy for BusyUnit {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "busy-unit"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "starts the slowest unit early and keeps it busy; regions without such a unit as b"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[
            Reason::OnlyOne,
            Reason::PressureOverflow,
            Reason::WeightedRegisters,
            Reason::WeightedParallelism,
            Reason::WeightedForward,
            Reason::Position,
            Reason::BusyUnit,
        ];
        debug_assert!(WeightedScheduling.reasons().iter().all(|reason| REASONS.contains(reason)));
        REASONS
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
    }

    /// Returns false: if no order of a region can be faster than the original one, the caller may skip this strategy there.
    fn reports_register_demand(&self) -> bool {
        false
    }
}

/// Schedules a region by the strategy `busy-unit`. The tracker must be at the start of the region, and is at its end afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let found = propose_order(region, groups.as_ref()).unwrap_or_else(|| weighted::propose_order(region, groups.as_ref()));
    found.into_schedule(region, tracker, SearchOutcome::None)
}

/// Returns the order of a region by the strategy `busy-unit`; `None` if no unit determines the length of the region ([`busiest_unit`]).
pub(super) fn propose_order(region: &Region<'_>, groups: Option<&BudgetedGroups>) -> Option<ProposedOrder> {
    let warps = region.settings.warps_in_step;
    let costs = region.costs.in_step(warps);
    let in_step = Region { costs: &costs, ..*region };
    let analysis = RegionAnalysis::new(&in_step);
    let unit = busiest_unit(&analysis)?;
    let graph = region.graph.with_longer_latencies(READER_LATENCY_FACTOR * warps, |node| analysis.unit(node) == unit);
    let in_step = Region { graph: &graph, ..in_step };
    let mut analysis = RegionAnalysis::new(&in_step);
    let order = order_items_of_unit(&analysis, unit);
    raise_heights(&mut analysis, &order);
    let found = run(&analysis, groups, &mut ByCriticalPath);
    // The length is measured again for a lone warp, as for all other orders.
    Some(ProposedOrder::new(region, groups, found.order, Reason::BusyUnit))
}

/// Returns the index of the unit that determines the length of a region: the cycles for which items occupy it are at least half of the
/// issue cycles of the region, it executes at least [`MIN_BUSIEST_UNIT_ITEMS`] items, and each occupies it for at least
/// [`MIN_UNIT_CYCLES_PER_ITEM`] cycles on average. `None` if there is no such unit. Only arithmetic units are considered; for memory
/// accesses and matrix products there are other strategies.
fn busiest_unit(analysis: &RegionAnalysis<'_>) -> Option<usize> {
    let costs = analysis.region.costs;
    let mut uses = [(0_usize, 0_u32); UNITS];
    let mut slots = 0;
    for node in 0..analysis.region.graph.items() as u32 {
        let unit = analysis.unit(node);
        if unit < UNITS {
            uses[unit] = (uses[unit].0 + 1, uses[unit].1 + costs.cycles(analysis.item(node).class).max(0) as u32);
            slots += costs.issue_cycles();
        }
    }
    let arithmetic = [Unit::Alu, Unit::Fma, Unit::Double, Unit::Special].map(Unit::index);
    let slow = |&unit: &usize| {
        let (items, cycles) = uses[unit];
        items >= MIN_BUSIEST_UNIT_ITEMS && cycles >= MIN_UNIT_CYCLES_PER_ITEM * items as u32 * costs.issue_cycles() && cycles * 2 >= slots
    };
    arithmetic.into_iter().filter(slow).max_by_key(|&unit| (uses[unit].1, Reverse(unit)))
}

/// Returns the items that a unit executes, in the order in which they should issue.
fn order_items_of_unit(analysis: &RegionAnalysis<'_>, unit: usize) -> Vec<u32> {
    let graph = analysis.region.graph;
    let predecessors = Predecessors::new(graph);
    // An item whose result many items read delays all of them if it comes last.
    let urgency = |node: u32| Reverse(analysis.heights[node as usize] + graph.successors(node).len() as u32);
    let mut left: Vec<u32> = (0..graph.items() as u32).filter(|&node| analysis.unit(node) == unit).collect();
    left.sort_by_key(|&node| (urgency(node), node));
    let mut order = Vec::with_capacity(left.len());
    let mut needed = vec![false; graph.nodes()];
    for _ in 0..MAX_UNIT_ITEM_GROUPS {
        let unmarked_node_counts = predecessors.unmarked_node_counts(graph, &needed);
        let Some(&first) = left.iter().min_by_key(|&&node| unmarked_node_counts[node as usize]) else { break };
        predecessors.mark_with_predecessors(first, &mut needed);
        let unmarked_node_counts = predecessors.unmarked_node_counts(graph, &needed);
        let (group, others): (Vec<u32>, Vec<u32>) =
            left.iter().partition(|&&node| unmarked_node_counts[node as usize] <= MAX_EXTRA_ITEMS_IN_GROUP);
        group.iter().for_each(|&node| predecessors.mark_with_predecessors(node, &mut needed));
        order.extend(group);
        left = others;
    }
    order.extend(left);
    order
}

/// Raises heights (critical paths to the end of the region, in cycles). `order` lists the items of the busiest unit. Each gets at least the
/// height of the next one plus the cycles for which it occupies the unit; the heights of all predecessors are raised accordingly.
fn raise_heights(analysis: &mut RegionAnalysis<'_>, order: &[u32]) {
    let graph = analysis.region.graph;
    let mut below = 0;
    for &node in order.iter().rev() {
        let cycles = analysis.region.costs.cycles(analysis.item(node).class).max(0) as u32;
        let height = &mut analysis.heights[node as usize];
        *height = (*height).max(below + cycles);
        below = *height;
    }
    for &node in graph.order.iter().rev() {
        let above = graph.successors(node).iter().map(|edge| analysis.heights[edge.node as usize] + u32::from(edge.latency));
        let height = above.max().unwrap_or(0);
        analysis.heights[node as usize] = analysis.heights[node as usize].max(height);
    }
}

impl Predecessors {
    /// Sets `needed` for a node and for all nodes that it depends on, directly or indirectly.
    fn mark_with_predecessors(&self, node: u32, needed: &mut [bool]) {
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut needed[node as usize], true) {
                stack.extend(self.of(node).iter().filter(|&&from| !needed[from as usize]));
            }
        }
    }

    /// Returns, for each node, an upper bound of the number of nodes that must still be issued before its result is available: the node and
    /// those that it depends on, except the nodes in `needed`, which earlier chosen items need anyway. A node that is reached on several
    /// paths counts once for each path; so the time is linear in the number of edges.
    fn unmarked_node_counts(&self, graph: &Graph, needed: &[bool]) -> Vec<u32> {
        let mut counts = vec![0_u32; graph.nodes()];
        for &node in graph.order.iter().filter(|&&node| !needed[node as usize]) {
            let before = self.of(node).iter().fold(0_u32, |sum, &from| sum.saturating_add(counts[from as usize]));
            counts[node as usize] = before.saturating_add(1);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::*;

    /// Returns test code that sums each of two rows of eight elements, subtracts the sum from each element, and computes the exponentials.
    fn test_code_of_two_rows() -> Vec<String> {
        let mut lines = Vec::new();
        for row in [0, 100] {
            lines.push(format!("FADD R{}, R{}, R{}", row + 40, row, row + 1));
            lines.extend((2..8).map(|at| format!("FADD R{}, R{}, R{}", row + 40, row + 40, row + at)));
        }
        for at in 0..8 {
            for row in [0, 100] {
                lines.push(format!("FADD R{}, R{}, -R{}", row + 20 + at, row + at, row + 40));
                lines.push(format!("MUFU.EX2 R{}, R{}", row + 20 + at, row + 20 + at));
            }
        }
        lines
    }

    /// Returns the row ('0' or '1') of each exponential in an order, as a string.
    fn rows(lines: &[String], order: &[usize]) -> String {
        let text = |&at: &usize| lines[at].strip_prefix("MUFU.EX2 R").map(|rest| if rest.starts_with('1') { '1' } else { '0' });
        order.iter().filter_map(text).collect()
    }

    #[test]
    fn the_exponentials_of_one_row_come_first() {
        let lines = test_code_of_two_rows();
        let bench = TestRegion::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let live_in: Vec<u16> = (0..8).chain(100..108).collect();
        let live_out: Vec<u16> = (20..28).chain(120..128).collect();
        let (schedule, _) = bench.run(&BusyUnit, &live_in, &live_out);
        assert_eq!(rows(&lines, &schedule.order), "0000000011111111");
        let (usual, _) = bench.run(&WeightedScheduling, &live_in, &live_out);
        assert!(!usual.length.is_shorter_than(schedule.length), "{:?} {:?}", usual.length, schedule.length);
        assert!(schedule.picks.iter().all(|pick| pick.reason == Reason::BusyUnit));
    }

    /// For a lone warp, the sums of the second row fill the stalls between the sums of the first row. With four warps in step they come
    /// after the first exponential, because these stalls are left to the other warps.
    #[test]
    fn warps_in_step_leave_stalls_to_each_other() {
        let lines = test_code_of_two_rows();
        let mut bench = TestRegion::new(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let sums_before_first_exponential = |bench: &TestRegion| {
            let (schedule, _) = bench.run(&BusyUnit, &[], &[]);
            let first = schedule.order.iter().position(|&at| lines[at].starts_with("MUFU")).unwrap();
            schedule.order[..first].iter().filter(|&&at| lines[at].starts_with("FADD R140")).count()
        };
        let alone = sums_before_first_exponential(&bench);
        bench.settings.warps_in_step = 4;
        let in_step = sums_before_first_exponential(&bench);
        assert_eq!((alone, in_step), (7, 0));
    }

    #[test]
    fn a_region_without_a_slow_unit_is_ordered_as_by_b() {
        let lines = ["LDS R10, [R0]", "FADD R11, R10, R10", "LDS R20, [R1]", "FADD R21, R20, R20", "MUFU.RCP R30, R2"];
        let bench = TestRegion::new(&lines);
        let (schedule, _) = bench.run(&BusyUnit, &[0, 1, 2], &[11, 21, 30]);
        let (other, _) = bench.run(&WeightedScheduling, &[0, 1, 2], &[11, 21, 30]);
        assert_eq!(schedule.order, other.order);
    }
}
