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

use super::clock::{Clock, release};
use super::critical_path::ByCriticalPath;
use super::engine::{ProposedOrder, RegionAnalysis, engine_reasons, enter_region, peak_of_order, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::registers::{BudgetedGroups, KnownChanges, LiveRegisterCounter};
use super::weighted::view::Direction;
use crate::code::OrderEffect;
use crate::graph::Predecessors;
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
    predecessors: Predecessors,
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
        BaseOrder {
            region,
            deferred: deferred_nodes(region, groups, order),
            predecessors: Predecessors::new(graph),
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
                let missing = self.predecessors.of(top).iter().copied().filter(|&before| !self.placed[before as usize]);
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
    // For each rank, the unit of the item; `None` for a pseudo operation.
    let units: Vec<Option<u8>> = base.iter().map(|&node| item(node).opcode.map(|_| costs.unit_index(item(node).class) as u8)).collect();
    let (mut earliest, mut left, mut clock) = (graph.start_cycles(), graph.predecessor_counts().to_vec(), Clock::new(costs));
    let mut live = LiveRegisterCounter::new(groups, Direction::Forward);
    let mut changes = KnownChanges::new(graph.nodes());
    let mut ready = RankSet::new(base.len());
    base.iter().filter(|&&node| left[node as usize] == 0).for_each(|&node| ready.insert(ranks[node as usize]));
    let mut order: Vec<u32> = Vec::with_capacity(graph.items());
    let mut largest_distance = 0;
    // The first item of the base order that is not placed is always ready: its predecessors come before it.
    while let Some(first) = ready.first() {
        largest_distance = largest_distance.max(ready.last() - first);
        let counts = live.counts();
        let mut cost = |rank: u32| {
            let node = base[rank as usize];
            let change = changes.of(node, &live);
            let excess: i32 = (0..counts.len())
                .map(|class| if change[class] > 0 { (counts[class] + change[class] - settings.budget.registers[class]).max(0) } else { 0 })
                .sum();
            let free = units[rank as usize].and_then(|unit| clock.unit_free_cycles.get(usize::from(unit)).copied()).unwrap_or(0);
            let stall = earliest[node as usize].max(free).saturating_sub(clock.cycle);
            (excess, if excess > 0 { 0 } else { stall }, rank)
        };
        let mut best = cost(first);
        let mut next = first;
        // No later item is better than one that issues without a stall and without exceeding the budget.
        while (best.0, best.1) != (0, 0)
            && let Some(rank) = ready.next_after(next).filter(|&rank| rank - first < window)
        {
            best = best.min(cost(rank));
            next = rank;
        }
        let rank = best.2;
        let node = base[rank as usize];
        ready.remove(rank);
        changes.step(node, &mut live);
        let at = clock.issue(item(node).class, item(node).opcode.is_none(), earliest[node as usize]);
        release(graph, node, at, &mut earliest, &mut left, &mut |next| ready.insert(ranks[next as usize]));
        order.push(node);
    }
    (order, largest_distance)
}

/// A set of ranks (positions in the base order), one bit each, whose smallest member only grows.
struct RankSet {
    words: Vec<u64>,
    /// Index of the first word that may have members.
    first_word: usize,
    /// Index of the last word that may have members.
    last_word: usize,
}

impl RankSet {
    /// Creates an empty set of ranks below `bound`.
    fn new(bound: usize) -> RankSet {
        RankSet { words: vec![0; bound.div_ceil(64)], first_word: 0, last_word: 0 }
    }

    /// Adds a rank, which must not be less than the smallest rank that was in the set when [`RankSet::first`] was called last.
    fn insert(&mut self, rank: u32) {
        let word = rank as usize / 64;
        self.words[word] |= 1 << (rank % 64);
        self.last_word = self.last_word.max(word);
    }

    fn remove(&mut self, rank: u32) {
        self.words[rank as usize / 64] &= !(1 << (rank % 64));
    }

    /// Returns the smallest rank; `None` if the set is empty.
    fn first(&mut self) -> Option<u32> {
        while *self.words.get(self.first_word)? == 0 {
            self.first_word += 1;
        }
        Some((self.first_word * 64) as u32 + self.words[self.first_word].trailing_zeros())
    }

    /// Returns the greatest rank of a set that is not empty.
    fn last(&mut self) -> u32 {
        while self.words[self.last_word] == 0 {
            self.last_word -= 1;
        }
        (self.last_word * 64) as u32 + 63 - self.words[self.last_word].leading_zeros()
    }

    /// Returns the smallest rank that is greater than `rank`; `None` if there is none.
    fn next_after(&self, rank: u32) -> Option<u32> {
        let (mut word, mut bits) = (rank as usize / 64, !1 << (rank % 64));
        while word <= self.last_word {
            if let found @ 1.. = self.words[word] & bits {
                return Some((word * 64) as u32 + found.trailing_zeros());
            }
            (word, bits) = (word + 1, !0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::engine::testing::TestRegion;
    use super::*;

    #[test]
    fn a_set_of_ranks_finds_its_members_in_order() {
        let (mut set, mut plain, mut state) = (RankSet::new(500), BTreeSet::new(), 1_u32);
        (0..40).for_each(|rank| _ = (set.insert(rank), plain.insert(rank)));
        while let Some(&first) = plain.first() {
            assert_eq!((set.first(), Some(&set.last())), (Some(first), plain.last()));
            for rank in first..500 {
                assert_eq!(set.next_after(rank), plain.range(rank + 1..).next().copied(), "after {rank}");
            }
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let removed = plain.iter().nth((state >> 8) as usize % plain.len()).copied().unwrap_or(first);
            set.remove(removed);
            plain.remove(&removed);
            let added = first + (state >> 20) % 70;
            if plain.len() < 60 && added < 500 && added > first {
                set.insert(added);
                plain.insert(added);
            }
        }
        assert_eq!(set.first(), None);
    }

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
