//! Strategy `near-source`: few live registers, in an order near the original one.
//!
//! The backends choose among all ready items. Where many chains are ready at once, as in the exponentials and sums between the two matrix
//! products of attention, they start too many of them, and the code spills. The original order is often better, except for two
//! habits of compilers, which this strategy corrects:
//!
//! - a value is computed long before its first use, although its operands are live until that use in any case: the item that computes it is
//!   *deferred* to the use;
//! - an item that frees more registers than it takes comes long after its operands are computed: it moves up to where it is ready.
//!
//! The result is the *base order*. A list scheduler then reorders it for fewer stalls. It chooses only among the items of a window, which
//! starts at the first item that is not placed, so the number of live registers stays near that of the base order. Several sizes of the
//! window are tried. The order with the smallest excess over the register budget wins; of equal ones, the shortest.
//!
//! Example: eight elements are scaled (`M1` to `M8`), and the maximum of the products is computed (`X1` to `X7`). The elements themselves
//! are read again later.
//!
//! ```text
//! original order   M1 M2 M3 M4 M5 M6 M7 M8 X1 X2 X3 ..    8 products live beside the elements
//! base order       M1 M2 X1 M3 X2 M4 X3 ..                2 products live
//! window of 4      M1 M2 M3 M4 X1 M5 X2 ..                4 products live, and no stalls
//! ```
//!
//! The base order takes O(n log n) time for *n* items, the list scheduler O(n) for each size of the window.

use std::collections::BTreeSet;

use super::clock::{Clock, release};
use super::critical_path::ByCriticalPath;
use super::engine::{ProposedOrder, RegionAnalysis, engine_reasons, enter_region, peak_of_order, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::registers::{BudgetedGroups, LiveRegisterCounter};
use super::weighted::view::Direction;
use crate::code::OrderEffect;
use crate::pressure::PressureTracker;

/// Sizes, in items, of the window of the list scheduler; all are tried. The window starts at the first item that is not placed.
const WINDOW_ITEM_COUNTS: [u32; 6] = [256, 128, 64, 32, 16, 8];
/// Maximum number of passes that improve the base order. Each pass sees the live ranges that the one before it changed.
const MAX_BASE_ORDER_PASSES: usize = 3;

/// Keeps few registers live, in an order near the original one; the strategy `near-source` of the command line.
pub(super) struct NearSource;

impl Strategy for NearSource {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "near-source"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "moves few items away from the original order: for code that would spill otherwise"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![Cost, DependencyCycle, MakesReady, NearSource, SourceOrder]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
    }

    /// Returns true: the strategy itself returns the original order where it finds no better one.
    fn falls_back_to_original(&self) -> bool {
        true
    }
}

/// Schedules a region by the strategy `near-source`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let mut best = ProposedOrder::original(region, groups.as_ref(), Reason::SourceOrder);
    let mut keep_better = |new: ProposedOrder| {
        if new.cost(region) < best.cost(region) {
            best = new;
        }
    };
    match &groups {
        Some(groups) => {
            let proposal = |order: Vec<u32>| ProposedOrder::new(region, Some(groups), order, Reason::NearSource);
            let base = base_order(region, groups);
            let mut largest_distance = u32::MAX;
            for window in WINDOW_ITEM_COUNTS {
                // If with the larger window all ready items lay within this smaller one at every step, both windows give the same order.
                if window > largest_distance {
                    continue;
                }
                let order;
                (order, largest_distance) = windowed_order(region, groups, &base, window);
                keep_better(proposal(order));
            }
            keep_better(proposal(base));
        }
        None => keep_better(run(&RegionAnalysis::new(region), None, &mut ByCriticalPath)),
    }
    best.into_schedule(region, tracker, SearchOutcome::None)
}

/// Returns the base order: the original one with items moved to where fewer registers are live.
fn base_order(region: &Region<'_>, groups: &BudgetedGroups) -> Vec<u32> {
    let mut order: Vec<u32> = (0..region.graph.items() as u32).collect();
    for _ in 0..MAX_BASE_ORDER_PASSES {
        let new = BaseOrder::new(region, groups, &order).build(&order);
        if peak_of_order(Some(groups), &new)[0] >= peak_of_order(Some(groups), &order)[0] {
            break;
        }
        order = new;
    }
    order
}

/// Returns for each node whether it should be deferred to its first use. It should if it has no effect besides its results, the next item
/// does not use them, and they take more registers than the operands whose live ranges would become longer.
fn deferred_nodes(region: &Region<'_>, groups: &BudgetedGroups, order: &[u32]) -> Vec<bool> {
    const NO_READ: u32 = u32::MAX;
    let weights = groups.general_weights();
    // For each register group, two positions in `order`: its first reader among the items after the current one, and its last reader. The
    // loop visits the items from the last to the first.
    let (mut next_read, mut last_read) = (vec![NO_READ; weights.len()], vec![NO_READ; weights.len()]);
    let mut first_uses = vec![NO_READ; region.graph.nodes()];
    for (position, &node) in order.iter().enumerate().rev() {
        first_uses[node as usize] = groups.writes(node).iter().map(|&group| next_read[group as usize]).min().unwrap_or(NO_READ);
        for &group in groups.reads(node) {
            let last = &mut last_read[group as usize];
            *last = if *last == NO_READ { position as u32 } else { *last };
            next_read[group as usize] = position as u32;
        }
    }
    let mut deferred = vec![false; region.graph.nodes()];
    for (position, &node) in order.iter().enumerate() {
        let first_use = first_uses[node as usize];
        let item = &region.code.items[region.graph.region.start + node as usize];
        if item.effect != OrderEffect::None || first_use == NO_READ || first_use <= position as u32 + 1 {
            continue;
        }
        let taken: u32 = groups.writes(node).iter().map(|&group| weights[group as usize]).sum();
        let is_extended = |group: u32| !groups.is_used_after(group) && last_read[group as usize] < first_use;
        let extended: u32 = groups.reads(node).iter().filter(|&&group| is_extended(group)).map(|&group| weights[group as usize]).sum();
        deferred[node as usize] = taken > extended;
    }
    deferred
}

/// State of a pass that builds the base order. Vectors are indexed by node.
struct BaseOrder<'a> {
    /// The region that is ordered.
    region: &'a Region<'a>,
    /// For each node, whether it is deferred: placed directly before the first item that uses its results.
    deferred: Vec<bool>,
    /// For each node, its predecessors in the dependency graph.
    predecessors: Vec<Vec<u32>>,
    /// For each node, the number of predecessors that are not placed yet.
    left: Vec<u32>,
    /// For each node, whether it is placed.
    placed: Vec<bool>,
    /// Counts the live registers after the placed items.
    live: LiveRegisterCounter<'a>,
    /// Items to examine again, because they became ready or because their effect on the live registers changed.
    changed: Vec<u32>,
    /// Nodes of the items placed so far, in their new order.
    order: Vec<u32>,
}

impl<'a> BaseOrder<'a> {
    /// Creates the state of a pass, before any item is placed.
    fn new(region: &'a Region<'a>, groups: &'a BudgetedGroups, order: &[u32]) -> BaseOrder<'a> {
        let graph = region.graph;
        let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); graph.nodes()];
        for node in 0..graph.nodes() as u32 {
            graph.successors(node).iter().for_each(|edge| predecessors[edge.node as usize].push(node));
        }
        BaseOrder {
            region,
            deferred: deferred_nodes(region, groups, order),
            predecessors,
            left: graph.predecessor_counts().to_vec(),
            placed: vec![false; graph.nodes()],
            live: LiveRegisterCounter::new(groups, Direction::Forward),
            changed: Vec::new(),
            order: Vec::with_capacity(graph.items()),
        }
    }

    /// Places all items, and returns the new order; `old` is the order that the pass improves.
    fn build(mut self, old: &[u32]) -> Vec<u32> {
        for &node in old {
            if !self.deferred[node as usize] {
                self.place_with_predecessors(node);
            }
        }
        old.iter().for_each(|&node| self.place_with_predecessors(node));
        self.order
    }

    /// Places a node, after those of its predecessors that are not placed.
    fn place_with_predecessors(&mut self, node: u32) {
        let mut stack = vec![node];
        while let Some(&top) = stack.last() {
            if self.placed[top as usize] {
                stack.pop();
            } else if self.left[top as usize] == 0 {
                stack.pop();
                self.place(top);
                self.place_items_that_free_registers();
            } else {
                let missing = self.predecessors[top as usize].iter().copied().filter(|&before| !self.placed[before as usize]);
                stack.extend(missing);
            }
        }
    }

    /// Places the items of `changed` that are ready, are not deferred and reduce the number of live general registers. Also places the
    /// ready joins, which have no instruction.
    fn place_items_that_free_registers(&mut self) {
        while let Some(node) = self.changed.pop() {
            let index = node as usize;
            let is_join = index >= self.region.graph.items();
            if self.placed[index] || self.left[index] > 0 {
                continue;
            }
            if is_join || !self.deferred[index] && self.live.change(node)[0] < 0 {
                self.place(node);
            }
        }
    }

    /// Places a node, whose predecessors must be placed, and updates its successors and the live registers.
    fn place(&mut self, node: u32) {
        self.placed[node as usize] = true;
        if (node as usize) < self.region.graph.items() {
            let changed = &mut self.changed;
            self.live.step(node, &mut |other| changed.push(other));
            self.order.push(node);
        }
        for edge in self.region.graph.successors(node) {
            self.left[edge.node as usize] -= 1;
            self.changed.push(edge.node);
        }
    }
}

/// Reorders a base order for fewer stalls. Each step chooses among the ready items of a window of `window` items, which starts at the first
/// item of the base order that is not placed. Returns the new order, and the largest distance, in the base order, of a ready item from the
/// start of the window.
fn windowed_order(region: &Region<'_>, groups: &BudgetedGroups, base: &[u32], window: u32) -> (Vec<u32>, u32) {
    let Region { code, graph, costs, settings, .. } = *region;
    let item = |node: u32| &code.items[graph.region.start + node as usize];
    let mut ranks = vec![0_u32; graph.items()];
    base.iter().enumerate().for_each(|(rank, &node)| ranks[node as usize] = rank as u32);
    let (mut earliest, mut left, mut clock) = (graph.start_cycles(), graph.predecessor_counts().to_vec(), Clock::new(costs));
    let mut live = LiveRegisterCounter::new(groups, Direction::Forward);
    let mut ready: BTreeSet<u32> = base.iter().filter(|&&node| left[node as usize] == 0).map(|&node| ranks[node as usize]).collect();
    let mut order: Vec<u32> = Vec::with_capacity(graph.items());
    let mut largest_distance = 0;
    // The first item of the base order that is not placed is always ready: its predecessors come before it.
    while let Some(&first) = ready.first() {
        largest_distance = largest_distance.max(ready.last().map_or(0, |last| last - first));
        let cost = |rank: u32| {
            let node = base[rank as usize];
            let counts = live.counts();
            let change = live.change(node);
            let excess: i32 = (0..counts.len())
                .map(|class| if change[class] > 0 { (counts[class] + change[class] - settings.budget.registers[class]).max(0) } else { 0 })
                .sum();
            let unit = costs.unit_index(item(node).class);
            let free = clock.unit_free_cycles.get(unit).copied().filter(|_| item(node).opcode.is_some()).unwrap_or(0);
            let stall = earliest[node as usize].max(free).saturating_sub(clock.cycle);
            (excess, if excess > 0 { 0 } else { stall }, rank)
        };
        let mut best = cost(first);
        for &rank in ready.range(first + 1..first.saturating_add(window)) {
            // No later item is better than one that issues without a stall and without exceeding the budget.
            if (best.0, best.1) == (0, 0) {
                break;
            }
            best = best.min(cost(rank));
        }
        let rank = best.2;
        let node = base[rank as usize];
        ready.remove(&rank);
        live.step(node, &mut |_| {});
        let at = clock.issue(item(node).class, item(node).opcode.is_none(), earliest[node as usize]);
        release(graph, node, at, &mut earliest, &mut left, &mut |next| _ = ready.insert(ranks[next as usize]));
        order.push(node);
    }
    (order, largest_distance)
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::*;

    /// Eight elements are scaled for their maximum and read again afterwards. The products move to the comparisons that read them.
    #[test]
    fn products_move_to_their_readers() {
        let mut lines: Vec<String> = (0..8).map(|at| format!("FMUL R{}, R{}, R0", 20 + at, 1 + at)).collect();
        lines.push("FMNMX R40, R20, R21, !PT".into());
        lines.extend((2..8).map(|at| format!("FMNMX R40, R40, R{}, !PT", 20 + at)));
        lines.extend((0..8).map(|at| format!("FFMA R{}, R{}, R0, R40", 1 + at, 1 + at)));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut bench = TestRegion::new(&lines);
        bench.settings.budget.registers[0] = 12;
        let live_in: Vec<u16> = (0..9).collect();
        let (_, peak) = bench.run(&NearSource, &live_in, &[1, 2, 3, 4, 5, 6, 7, 8]);
        // R0 to R8 are live throughout, R40 from the first comparison on. Originally all eight products are live as well: 17 registers.
        assert!(peak <= 12, "{peak} registers");
    }

    /// Each conversion comes as soon as the sums have read its two operands: from then on it frees a register.
    #[test]
    fn conversions_come_as_soon_as_they_free_registers() {
        let lines = [
            "MUFU.EX2 R10, R1",
            "MUFU.EX2 R11, R2",
            "MUFU.EX2 R12, R3",
            "MUFU.EX2 R13, R4",
            "F2FP.F16.F32.PACK_AB R20, R10, R11",
            "F2FP.F16.F32.PACK_AB R21, R12, R13",
            "FADD R0, R0, R10",
            "FADD R0, R0, R11",
            "FADD R0, R0, R12",
            "FADD R0, R0, R13",
        ];
        let mut bench = TestRegion::new(&lines);
        bench.settings.budget.registers[0] = 5;
        let (schedule, peak) = bench.run(&NearSource, &[0, 1, 2, 3, 4], &[0, 20, 21]);
        assert_eq!(schedule.order.len(), lines.len());
        assert!(peak <= 6, "{peak} registers");
    }
}
