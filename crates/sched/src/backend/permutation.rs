//! Strategy `permutation`: finds the shortest order of a small region by branch and bound, and reports whether it is proved to be the
//! shortest.
//!
//! The search issues ready items in all orders, depth first. A *partial schedule*, the items issued so far in their order, is abandoned if
//! no completion of it can be shorter than the best order so far. Lower bounds of a partial schedule:
//!
//! 1. **Slots.** Each item has a *head* (the first cycle in which it may issue, from the partial schedule and its dependences) and a *tail*
//!    (cycles from its issue to the end). With one issue slot per cycle and items that occupy it for one cycle, issuing the available item
//!    with the longest tail is optimal if the dependences are otherwise ignored (Jackson's rule), so the result is a lower bound.
//! 2. **Units.** A unit is busy for the sum of the cycles of its items, less those of the item that occupies it longest: these may come
//!    last.
//!
//! A partial schedule is also abandoned if another one has issued the same items and is at least as good in every respect: its clock, units
//! and operands are not later, and it needs no more registers. The search starts with the best of three orders: the original one, that of
//! `critical-path` and that of backend B. If that order reaches the lower bound of the region, there is no search.
//!
//! The result is optimal with respect to the shared clock: first the registers above the budget, then `issued + done` of [`Length`];
//! in mode `reduce-reg` the live registers come before the cycles. Regions of more than `permutation-size` items, and those whose search
//! does not end within `permutation-steps`, get the best order so far, and the trace says that it is not proved. Exponential in the worst
//! case; the steps bound it, and each step takes O(n log n) time for *n* items, at most 32, and linear time in the dependences.
//!
//! Example: items with their latencies, `A -4-> B`, `C -2-> D`, one unit.
//!
//! ```text
//! A C D B    issue 0 1 3 4     issued 5
//! C A D B    issue 0 1 2 5     issued 6, abandoned after C A: B has head 5 and tail 1, and 5 + 1 is not less than 5
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | search | all permutations | branch and bound with dominance | 24 items have up to 10^23 permutations |
//! | larger blocks | a heuristic | the best of the three starting orders | a search would take too long |

use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use oriole_hardware::units::UNITS;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::budget::SearchBudget;
use super::clock::{Clock, Length, issue_slot_lower_bound, lower_bound, release};
use super::critical_path::ByCriticalPath;
use super::engine::{ProposedOrder, RegionAnalysis, enter_region, excess, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::settings::ScheduleMode;
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted;
use super::weighted::registers::{BudgetedGroups, LiveRegisterCounter};
use super::weighted::view::Direction;
use crate::pressure::PressureTracker;

/// Maximum number of items of a region that can be searched: sets of items are bit masks in a 32-bit word.
const MAX_SEARCHED_ITEMS: usize = 32;
/// Maximum number of partial schedules with the same set of issued items that are kept for comparison.
const MAX_SEEN_ORDERS_PER_SET: usize = 8;

/// Finds the shortest order of a small region by branch and bound; the strategy `permutation` of the command line.
pub(super) struct Permutation;

impl Strategy for Permutation {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "permutation"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "branch and bound: the shortest order of small regions, with proof"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[Reason::Optimal, Reason::SearchEnded, Reason::TooLarge, Reason::SourceOrder]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        let mut budget = SearchBudget::default();
        Box::new(move |region, tracker| schedule(region, tracker, &mut budget))
    }

    /// Returns true: the strategy itself returns the original order where it finds no better one.
    fn falls_back_to_original(&self) -> bool {
        true
    }
}

/// Schedules a region by the strategy `permutation`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker, budget: &mut SearchBudget) -> Schedule {
    let groups = enter_region(region, tracker);
    let (proposal, search, exceeded_scarcity) = propose_order(region, groups.as_ref(), budget);
    Schedule { exceeded_scarcity, ..proposal.into_schedule(region, tracker, search) }
}

/// Returns the best order that was found, the outcome of the search, and whether some order that was tried has more live registers than the
/// scarcity threshold.
pub(super) fn propose_order(
    region: &Region<'_>,
    groups: Option<&BudgetedGroups>,
    budget: &mut SearchBudget,
) -> (ProposedOrder, SearchOutcome, bool) {
    let analysis = RegionAnalysis::new(region);
    let source = ProposedOrder::original(region, groups, Reason::SourceOrder);
    let others = [run(&analysis, groups, &mut ByCriticalPath), weighted::propose_order(region, groups)];
    let exceeds_scarcity = others.iter().any(|other| other.exceeds_scarcity(region));
    let (best, search) = propose_order_from(&analysis, groups, [&source, &others[0], &others[1]], budget);
    (best, search, exceeds_scarcity)
}

/// Returns the best order that was found, and the outcome of the search, which starts with the best of the orders `known`. The first of
/// them is the original order.
pub(super) fn propose_order_from(
    analysis: &RegionAnalysis<'_>,
    groups: Option<&BudgetedGroups>,
    known: [&ProposedOrder; 3],
    budget: &mut SearchBudget,
) -> (ProposedOrder, SearchOutcome) {
    let region = &analysis.region;
    let knobs = &region.settings.knobs;
    let items = region.graph.items();
    let [mut best, others @ ..] = known;
    for other in others {
        if objective(region, other) < objective(region, best) {
            best = other;
        }
    }
    let (order, search) = if is_shortest(region, best) {
        (best.order.clone(), SearchOutcome::Optimal)
    } else if items > knobs.permutation_size.min(MAX_SEARCHED_ITEMS) || region.costs.dual_issue() {
        // The search issues at most one instruction per cycle, so it cannot be used on machines with dual issue.
        (best.order.clone(), SearchOutcome::TooLarge)
    } else {
        let steps = budget.start(knobs, knobs.permutation_steps);
        let figures = (best.length, excess(&best.peak, region), best.peak[0]);
        let mut tree = BranchAndBound::new(analysis, groups, best.order.clone(), figures, steps);
        let ended = tree.search(budget);
        (tree.order, if ended { SearchOutcome::Optimal } else { SearchOutcome::Ended })
    };
    let is_source = order.iter().copied().eq(0..items as u32);
    let reason = match search {
        SearchOutcome::Optimal => Reason::Optimal,
        _ if is_source => Reason::SourceOrder,
        SearchOutcome::TooLarge => Reason::TooLarge,
        _ => Reason::SearchEnded,
    };
    (ProposedOrder::new(region, groups, order, reason), search)
}

/// Returns the pair that the search minimizes, compared lexicographically: the number of registers above the budget, and the sum of the
/// cycles until the last issue and until all results are available. In mode `reduce-reg` the second number is the maximum number of live
/// general registers.
fn objective(region: &Region<'_>, proposal: &ProposedOrder) -> (i32, u32) {
    let cost = proposal.cost(region);
    (cost.0, cost.1)
}

/// Returns whether an order is within the register budget and has the length of the lower bound of the region. False in mode `reduce-reg`,
/// in which the length does not decide first.
fn is_shortest(region: &Region<'_>, proposal: &ProposedOrder) -> bool {
    let bound = lower_bound(region.code, region.graph, region.costs);
    region.settings.mode != ScheduleMode::ReduceReg && proposal.excess(region) == 0 && !bound.is_shorter_than(proposal.length)
}

/// A partial schedule: the state after some items of the region have issued. Vectors are indexed by node.
struct PartialSchedule<'a, 'g> {
    /// Set of the issued items; bit n is node n.
    issued_set: u32,
    /// State of the simulated issue pipeline: current cycle, busy units.
    clock: Clock<'a>,
    /// For each node, the first cycle in which its operands are available.
    earliest: Vec<u32>,
    /// For each node, the number of predecessors that have not issued.
    unissued_predecessors: Vec<u32>,
    /// Length of the partial schedule, in cycles.
    length: Length,
    /// The live registers after the issued items; `None` if registers are not counted.
    live: Option<LiveRegisterCounter<'g>>,
}

impl Clone for PartialSchedule<'_, '_> {
    fn clone(&self) -> Self {
        PartialSchedule {
            clock: self.clock.clone(),
            earliest: self.earliest.clone(),
            unissued_predecessors: self.unissued_predecessors.clone(),
            live: self.live.clone(),
            ..*self
        }
    }

    /// Copies `other` into the memory of this one.
    fn clone_from(&mut self, other: &Self) {
        (self.issued_set, self.length) = (other.issued_set, other.length);
        self.clock.clone_from(&other.clock);
        self.earliest.clone_from(&other.earliest);
        self.unissued_predecessors.clone_from(&other.unissued_predecessors);
        self.live.clone_from(&other.live);
    }
}

/// Memory of a computation that the search repeats at each step, kept to avoid allocations.
#[derive(Default)]
struct StepScratch {
    /// For each node, the first cycle in which it can issue.
    heads: Vec<u32>,
    /// For each instruction that has not issued: its head, and its two tails ([`issue_slot_lower_bound`]).
    slots: Vec<(u32, u32, u32)>,
    /// For each instruction that can issue in the current cycle, one of its tails.
    open_tails: BinaryHeap<u32>,
}

/// The properties of a partial schedule on which the length of its completions depends. A partial schedule that is in no property better
/// than an earlier one with the same items is abandoned.
struct SeenOrder {
    /// First cycle in which the next item can issue.
    cycle: u32,
    /// For each unit, the first cycle in which it is free.
    unit_free_cycles: [u32; UNITS],
    /// Length of the partial schedule, in cycles.
    length: Length,
    /// For each node, the first cycle in which its operands are available.
    earliest: Vec<u32>,
    /// For each register class, the maximum number of live registers.
    peak: [i32; 4],
}

/// State of the branch-and-bound search of one region.
struct BranchAndBound<'a, 'g> {
    /// Critical paths and scoreboard use of the region.
    analysis: &'a RegionAnalysis<'a>,
    /// For each node, the length in cycles of the longest path from its issue to the issue of an item that depends on it.
    cycles_to_last_issue: Vec<u32>,
    /// Nodes in the best order so far.
    order: Vec<u32>,
    /// Objective of the best order so far ([`BranchAndBound::objective`]).
    best_objective: (i32, u32),
    /// Nodes in the current partial schedule.
    current_order: Vec<u32>,
    /// For each set of issued items, the partial schedules with that set that the search has reached.
    seen_orders: FxHashMap<u32, Vec<SeenOrder>>,
    /// The register groups of the region; `None` after register allocation.
    groups: Option<&'g BudgetedGroups>,
    /// Number of steps that the search may still take.
    steps_left: usize,
    /// Partial schedules that are not in use; their memory is used again.
    unused: Vec<PartialSchedule<'a, 'g>>,
    /// Memory of the computations of a step.
    scratch: StepScratch,
}

impl<'a, 'g> BranchAndBound<'a, 'g> {
    /// Creates a search of at most `steps` steps that starts with `order` as the best order. Three figures describe that order: length in
    /// cycles, number of registers above the budget, maximum number of live general registers.
    fn new(
        analysis: &'a RegionAnalysis<'a>,
        groups: Option<&'g BudgetedGroups>,
        order: Vec<u32>,
        (length, excess, registers): (Length, i32, i32),
        steps: usize,
    ) -> BranchAndBound<'a, 'g> {
        let graph = analysis.region.graph;
        let mut cycles_to_last_issue = vec![0; graph.nodes()];
        for &node in graph.order.iter().rev() {
            let below = graph.successors(node).iter().map(|edge| cycles_to_last_issue[edge.node as usize] + u32::from(edge.latency));
            cycles_to_last_issue[node as usize] = below.max().unwrap_or(0);
        }
        let mut tree = BranchAndBound {
            analysis,
            cycles_to_last_issue,
            order,
            best_objective: (0, 0),
            current_order: Vec::new(),
            seen_orders: FxHashMap::default(),
            groups,
            steps_left: steps,
            unused: Vec::new(),
            scratch: StepScratch::default(),
        };
        tree.best_objective = tree.objective(length, excess, registers);
        tree
    }

    /// Returns the pair that the search minimizes: `excess` (registers above the budget), then the cycles of `length`, issued plus done. In
    /// mode `reduce-reg` the second number has live registers in its high half and cycles in its low half. If the arguments are lower
    /// bounds, the result is a lower bound, too.
    fn objective(&self, length: Length, excess: i32, registers: i32) -> (i32, u32) {
        let is_reduced = self.analysis.region.settings.mode == ScheduleMode::ReduceReg;
        let cycles = length.issued + length.done;
        (excess, if is_reduced { (registers.max(0) as u32) << 16 | cycles.min(0xffff) } else { cycles })
    }

    /// Searches all orders. Returns true if the search was complete, so that the best order is optimal.
    fn search(&mut self, budget: &mut SearchBudget) -> bool {
        let graph = self.analysis.region.graph;
        let start = PartialSchedule {
            issued_set: 0,
            clock: Clock::new(self.analysis.region.costs),
            earliest: graph.start_cycles(),
            unissued_predecessors: graph.predecessor_counts().to_vec(),
            length: Length::default(),
            live: self.groups.map(|groups| LiveRegisterCounter::new(groups, Direction::Forward)),
        };
        self.search_completions(&start, budget).is_continue()
    }

    /// Tries all completions of a partial schedule. Returns `Break` if the budget is used up.
    fn search_completions(&mut self, partial: &PartialSchedule<'a, 'g>, budget: &mut SearchBudget) -> ControlFlow<()> {
        let analysis = self.analysis;
        let items = analysis.region.graph.items() as u32;
        if self.current_order.len() == items as usize {
            let objective = self.objective_of(partial, partial.length);
            if objective < self.best_objective {
                (self.best_objective, self.order) = (objective, self.current_order.clone());
            }
            return ControlFlow::Continue(());
        }
        let start = |node: u32| {
            let free = partial.clock.unit_free_cycles.get(analysis.unit(node)).copied().unwrap_or(0);
            partial.earliest[node as usize].max(partial.clock.cycle).max(free)
        };
        let is_ready = |&node: &u32| partial.issued_set & (1 << node) == 0 && partial.unissued_predecessors[node as usize] == 0;
        let mut ready: SmallVec<[u32; MAX_SEARCHED_ITEMS]> = (0..items).filter(is_ready).collect();
        // Items that can issue soonest and have the longest paths are tried first, so that a good order is found early and prunes the rest.
        ready.sort_unstable_by_key(|&node| (start(node), std::cmp::Reverse(analysis.heights[node as usize]), node));
        for &node in &ready {
            if self.steps_left == 0 || budget.step() {
                return ControlFlow::Break(());
            }
            self.steps_left -= 1;
            let next = self.issue(partial, node);
            let mut flow = ControlFlow::Continue(());
            if self.can_be_best(&next) && !self.is_dominated_or_record(&next) {
                self.current_order.push(node);
                flow = self.search_completions(&next, budget);
                self.current_order.pop();
            }
            self.unused.push(next);
            flow?;
        }
        ControlFlow::Continue(())
    }

    /// Returns a copy of the partial schedule in which `node` issues next.
    fn issue(&mut self, partial: &PartialSchedule<'a, 'g>, node: u32) -> PartialSchedule<'a, 'g> {
        let mut next = match self.unused.pop() {
            Some(mut next) => {
                next.clone_from(partial);
                next
            }
            None => partial.clone(),
        };
        let (graph, item) = (self.analysis.region.graph, self.analysis.item(node));
        let at = next.clock.issue(item.class, item.opcode.is_none(), next.earliest[node as usize]);
        next.issued_set |= 1 << node;
        next.length.add(at, graph.tail(node));
        if let Some(live) = &mut next.live {
            live.step(node, &mut |_| {});
        }
        release(graph, node, at, &mut next.earliest, &mut next.unissued_predecessors, &mut |_| {});
        next
    }

    /// Returns the objective that a partial schedule would have if its length were `length`.
    fn objective_of(&self, partial: &PartialSchedule<'a, 'g>, length: Length) -> (i32, u32) {
        let peak = partial.live.as_ref().map_or([0; 4], LiveRegisterCounter::peak);
        self.objective(length, excess(&peak, &self.analysis.region), peak[0])
    }

    /// Returns whether some completion of a partial schedule may have a lower objective ([`BranchAndBound::objective`]) than the best order
    /// so far: whether a lower bound of all completions is lower. The bounds that are cheap to compute come first.
    fn can_be_best(&mut self, partial: &PartialSchedule<'a, 'g>) -> bool {
        let (analysis, graph) = (self.analysis, self.analysis.region.graph);
        let items = graph.items();
        if self.objective_of(partial, partial.length) >= self.best_objective {
            return false;
        }
        let is_open = |node: u32| node as usize >= items || partial.issued_set & (1 << node) == 0;
        // The head of an item that has not issued is raised by the dependences on other items that have not issued.
        let StepScratch { heads, slots, .. } = &mut self.scratch;
        heads.clear();
        heads.extend(partial.earliest.iter().map(|&earliest| earliest.max(partial.clock.cycle)));
        for &node in graph.order.iter().filter(|&&node| is_open(node)) {
            for edge in graph.successors(node) {
                let to = edge.node as usize;
                heads[to] = heads[to].max(heads[node as usize] + u32::from(edge.latency));
            }
        }
        let mut length = partial.length;
        slots.clear();
        let mut busy = [(0, 0, u32::MAX); UNITS];
        for node in (0..items as u32).filter(|&node| is_open(node)) {
            let (to_last_issue, to_end) = (self.cycles_to_last_issue[node as usize] + 1, analysis.heights[node as usize].max(1));
            let mut head = heads[node as usize];
            if analysis.item(node).opcode.is_some() {
                let unit = analysis.unit(node);
                let cycles = analysis.region.costs.cycles(analysis.item(node).class).max(1) as u32;
                head = head.max(partial.clock.unit_free_cycles[unit]);
                let (sum, longest, first) = &mut busy[unit];
                (*sum, *longest, *first) = (*sum + cycles, cycles.max(*longest), (*first).min(head));
                slots.push((head, to_last_issue, to_end));
            }
            length.issued = length.issued.max(head + to_last_issue);
            length.done = length.done.max(head + to_end);
        }
        for (sum, longest, first) in busy.into_iter().filter(|(sum, ..)| *sum > 0) {
            length.issued = length.issued.max(first + (sum - longest) + 1);
        }
        length.done = length.done.max(length.issued);
        if self.objective_of(partial, length) >= self.best_objective {
            return false;
        }
        let StepScratch { slots, open_tails, .. } = &mut self.scratch;
        slots.sort_unstable_by_key(|slot| slot.0);
        length.issued = length.issued.max(issue_slot_lower_bound(slots, open_tails, |slot| slot.1));
        length.done = length.done.max(issue_slot_lower_bound(slots, open_tails, |slot| slot.2)).max(length.issued);
        self.objective_of(partial, length) < self.best_objective
    }

    /// Returns whether an earlier partial schedule with the same issued items is at least as good in every property ([`SeenOrder`]). If
    /// there is none, records `partial` for later comparisons.
    fn is_dominated_or_record(&mut self, partial: &PartialSchedule<'a, 'g>) -> bool {
        let cycle = partial.clock.cycle;
        let items = self.analysis.region.graph.items() as u32;
        let is_open = |node: usize| node >= items as usize || partial.issued_set & (1 << node) == 0;
        let earliest = &mut self.scratch.heads;
        earliest.clear();
        earliest.extend(partial.earliest.iter().enumerate().map(|(node, &at)| if is_open(node) { at.max(cycle) } else { 0 }));
        let free = partial.clock.unit_free_cycles.map(|free| free.max(cycle));
        let peak = partial.live.as_ref().map_or([0; 4], LiveRegisterCounter::peak);
        let seen_orders = self.seen_orders.entry(partial.issued_set).or_default();
        let dominates = |other: &SeenOrder| {
            let all = |first: &[u32], second: &[u32]| first.iter().zip(second).all(|(first, second)| first <= second);
            other.cycle <= cycle
                && other.length.issued <= partial.length.issued
                && other.length.done <= partial.length.done
                && all(&other.unit_free_cycles, &free)
                && all(&other.earliest, earliest)
                && other.peak.iter().zip(peak).all(|(other, peak)| *other <= peak)
        };
        if seen_orders.iter().any(dominates) {
            return true;
        }
        if seen_orders.len() < MAX_SEEN_ORDERS_PER_SET {
            seen_orders.push(SeenOrder { cycle, unit_free_cycles: free, length: partial.length, earliest: earliest.clone(), peak });
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::super::settings::{AllocationStage, Budget};
    use super::super::{Knobs, estimate};
    use super::*;

    /// Returns the smallest sum of issue cycles and completion cycles over all permutations that respect the dependences, by enumeration.
    fn shortest(bench: &TestRegion) -> u32 {
        /// Extends a partial schedule by each ready item in turn, and keeps the smallest sum in `best`.
        fn extend_by_each_ready_item(bench: &TestRegion, order: &mut Vec<usize>, left: &mut [u32], best: &mut u32) {
            let items = bench.graph.items();
            if order.len() == items {
                let length = estimate(&bench.code, &bench.graph, &bench.costs, order.iter().copied());
                *best = (*best).min(length.issued + length.done);
                return;
            }
            for node in 0..items {
                if left[node] > 0 || order.contains(&node) {
                    continue;
                }
                let edges = bench.graph.successors(node as u32);
                edges.iter().for_each(|edge| left[edge.node as usize] -= 1);
                order.push(node);
                extend_by_each_ready_item(bench, order, left, best);
                order.pop();
                edges.iter().for_each(|edge| left[edge.node as usize] += 1);
            }
        }
        assert_eq!(bench.graph.nodes(), bench.graph.items(), "the enumeration knows no joins");
        let mut best = u32::MAX;
        extend_by_each_ready_item(bench, &mut Vec::new(), &mut bench.graph.predecessor_counts().to_vec(), &mut best);
        best
    }

    /// Returns random straight-line code of loads, special functions, sums and products, from a linear congruential generator.
    fn random_lines(seed: u64, count: usize) -> Vec<String> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let line = |at: usize| {
            let source = |pick: u64| if at == 0 || pick == 0 { 0 } else { 10 + (pick as usize - 1) % at };
            let (first, second) = (source(next(at as u64 + 1)), source(next(at as u64 + 1)));
            let result = 10 + at;
            match next(5) {
                0 => format!("LDS R{result}, [R{first}]"),
                1 => format!("MUFU.RCP R{result}, R{first}"),
                2 => format!("DADD R{}, R{}, R2", 60 + 2 * at, 2),
                3 => format!("IMAD R{result}, R{first}, R{second}, R0"),
                _ => format!("FADD R{result}, R{first}, R{second}"),
            }
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn the_result_equals_that_of_enumeration() {
        let mut improved = 0;
        for seed in 0..60 {
            let lines = random_lines(seed, 7);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let mut bench = TestRegion::new(&lines);
            bench.settings.stage = AllocationStage::Post;
            let (schedule, _) = bench.run(&Permutation, &[], &[]);
            assert_eq!(schedule.search, SearchOutcome::Optimal, "{lines:?}");
            assert_eq!(schedule.length.issued + schedule.length.done, shortest(&bench), "{lines:#?}");
            improved += u32::from(schedule.length.is_shorter_than(bench.original_length()));
        }
        assert!(improved > 20, "{improved} of 60");
    }

    #[test]
    fn an_order_at_its_bound_is_proved_without_a_search() {
        let mut bench = TestRegion::new(&["FADD R10, R0, R1", "FADD R11, R10, R1", "FADD R12, R11, R1"]);
        bench.settings.knobs = Knobs { permutation_steps: 0, ..Knobs::default() };
        let (schedule, _) = bench.run(&Permutation, &[0, 1], &[12]);
        assert_eq!((schedule.order, schedule.search), (vec![0, 1, 2], SearchOutcome::Optimal));
    }

    /// If the search may take no steps, or the region is too large, the best starting order is used, and it is not reported as optimal.
    #[test]
    fn an_order_is_not_reported_as_optimal_without_proof() {
        let lines = random_lines(5, 20);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut bench = TestRegion::new(&lines);
        bench.settings.stage = AllocationStage::Post;
        let (best, _) = bench.run(&Permutation, &[], &[]);
        assert_eq!(best.search, SearchOutcome::Optimal);
        for (knobs, search) in [
            (Knobs { permutation_steps: 0, ..Knobs::default() }, SearchOutcome::Ended),
            (Knobs { permutation_size: 19, ..Knobs::default() }, SearchOutcome::TooLarge),
        ] {
            bench.settings.knobs = knobs;
            let (schedule, _) = bench.run(&Permutation, &[], &[]);
            if schedule.search != SearchOutcome::Optimal {
                assert_eq!(schedule.search, search);
            }
            assert!(!schedule.length.is_shorter_than(best.length));
        }
    }

    /// The shortest order of four loads and their sums has all loads in flight, but the budget allows two.
    #[test]
    fn register_excess_is_minimized_before_cycles() {
        let pairs = |at: usize| [format!("LDS R{}, [R1+{:#x}]", 10 + at, 4 * at), format!("FADD R0, R0, R{}", 10 + at)];
        let lines: Vec<String> = (0..4).flat_map(pairs).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut bench = TestRegion::new(&lines);
        let (_, many) = bench.run(&Permutation, &[0, 1], &[0]);
        bench.settings.budget = Budget { registers: [4, 6, 6, 60], scarce_above: 4 };
        let (schedule, few) = bench.run(&Permutation, &[0, 1], &[0]);
        assert_eq!((many > 4, few <= 4, schedule.search), (true, true, SearchOutcome::Optimal));
        bench.settings.mode = ScheduleMode::ReduceReg;
        let (_, fewest) = bench.run(&Permutation, &[0, 1], &[0]);
        assert_eq!(fewest, 3, "R0, R1 and one loaded value");
    }

    #[test]
    fn one_slot_bound_follows_jacksons_rule() {
        // Heads 0, 0, 1 and tails 1, 5, 7: in cycle 0 the item with tail 5 issues, in cycle 1 that with tail 7, in cycle 2 that with tail
        // 1.
        let mut open = BinaryHeap::new();
        assert_eq!(issue_slot_lower_bound(&[(0, 1, 0), (0, 5, 0), (1, 7, 0)], &mut open, |slot| slot.1), 8);
        assert_eq!(issue_slot_lower_bound(&[], &mut open, |slot| slot.1), 0);
    }
}
