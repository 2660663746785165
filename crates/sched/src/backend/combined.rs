//! Strategy `combined`: schedules each region by several strategies and keeps the shortest order.
//!
//! | region | strategies |
//! |---|---|
//! | every one | backend B, backend C, `critical-path`, `latency` |
//! | at most 512 items | also `backtracking` |
//! | at most `permutation-size` items | also `permutation` |
//! | the body of a loop | also `loop-aware`; the cycles per iteration decide |
//! | two or more matrix products | also `tensor` |
//! | one slow arithmetic unit takes most of the time | also `busy-unit` |
//! | before register allocation: in mode `reduce-reg`, or if some order exceeds the scarcity threshold | also `pressure` |
//!
//! Orders are compared by registers above the budget, then by cycles, then by registers; in mode `reduce-reg` registers come before cycles.
//! The cycles of an order are the sum of two numbers: the cycles until the region can be left, and those until its results are available.
//! After register allocation they include cycles lost by bank conflicts. Where `busy-unit` applies, the warps of a thread block that share
//! a hardware scheduler are assumed to run in step ([`Settings`](super::Settings)). The original order takes part and wins ties.
//!
//! Two tests save time. Before register allocation, except in mode `reduce-reg`, a region whose original order is at its lower bound and fits
//! into the budget is not scheduled. After register allocation, the search ends if the original order or that of backend B or C is at the
//! lower bound; this test is left out for warps in step. Neither test is made for loop bodies. Otherwise the time is the sum of the times of
//! the strategies, about ten times that of backend B.
//!
//! The description of ptxas has a "combined pass for complex code patterns" and says no more about it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::backtracking::{self, Backtracking};
use super::budget::SearchBudget;
use super::busy_unit::{self, BusyUnit};
use super::clock::lower_bound;
use super::critical_path::{ByCriticalPath, CriticalPath};
use super::engine::{OrderMeter, ProposedOrder, RegionAnalysis, enter_region, run};
use super::latency::{ByMemoryPath, LatencyScheduling};
use super::loop_aware::{self, LoopAware, steady_state};
use super::permutation::{self, Permutation};
use super::pressure::{self, PressureScheduling};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::settings::{AllocationStage, ScheduleMode};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::tensor::{self, TensorScheduling};
use super::tree::{self, TreeScheduling};
use super::weighted::{self, WeightedScheduling};
use crate::pressure::PressureTracker;

/// Maximum number of items of a region for which every strategy is tried. On larger regions `backtracking` is left out.
const MAX_ITEMS_FOR_ALL_STRATEGIES: usize = 512;

/// Indices of orders in the list of those that are compared: the original order, that of backend B, and that of `critical-path`.
const SOURCE: usize = 0;
const WEIGHTED: usize = 1;
const CRITICAL_PATH: usize = 3;

/// The strategies whose orders are compared.
const COMPARED_STRATEGIES: [&dyn Strategy; 10] = [
    &WeightedScheduling,
    &TreeScheduling,
    &CriticalPath,
    &LatencyScheduling,
    &Backtracking,
    &Permutation,
    &LoopAware,
    &TensorScheduling,
    &PressureScheduling,
    &BusyUnit,
];

/// Schedules each region by several strategies and keeps the shortest order; the strategy `combined` of the command line.
pub(super) struct Combined;

impl Strategy for Combined {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "combined"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "the best of several strategies for each region"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        static REASONS: LazyLock<Vec<Reason>> = LazyLock::new(|| {
            let found: BTreeSet<Reason> =
                COMPARED_STRATEGIES.iter().flat_map(|member| member.reasons()).copied().chain([Reason::SourceOrder]).collect();
            found.into_iter().collect()
        });
        &REASONS
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

    /// Returns true: the strategy uses the dependences on the previous iteration.
    fn uses_carried_edges(&self) -> bool {
        true
    }
}

/// Schedules a region by the strategy `combined`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker, budget: &mut SearchBudget) -> Schedule {
    let groups = enter_region(region, tracker);
    let groups = groups.as_ref();
    let source = ProposedOrder::original(region, groups, Reason::SourceOrder);
    let reduces = region.settings.mode == ScheduleMode::ReduceReg;
    let is_at_bound = source.excess(region) == 0
        && region.settings.stage == AllocationStage::Pre
        && !reduces
        && region.carried.is_empty()
        && !lower_bound(region.code, region.graph, region.costs).is_shorter_than(source.length);
    if is_at_bound {
        return source.into_schedule(region, tracker, SearchOutcome::Optimal);
    }
    let by_unit = busy_unit::propose_order(region, groups);
    // Where a slow unit takes most of the time, it matters which issue slots an order leaves to other warps.
    let warps = if by_unit.is_some() { region.settings.warps_in_step } else { 1 };
    let costs = region.costs.in_step(warps);
    let in_step = Region { costs: &costs, ..*region };
    let meter = OrderMeter::new(&in_step);
    // After register allocation an order that takes no longer than the lower bound is the best one: registers do not count.
    let bound = (region.settings.stage == AllocationStage::Post && region.carried.is_empty() && warps == 1).then(|| meter.lower_bound());
    let is_shortest = |proposal: &ProposedOrder| bound.is_some_and(|bound| meter.exit_plus_done_cycles(&proposal.order) <= bound);
    let mut proposals = vec![source];
    if !is_shortest(&proposals[SOURCE]) {
        proposals.push(weighted::propose_order(region, groups));
    }
    if !is_shortest(&proposals[proposals.len() - 1]) {
        proposals.push(tree::propose_order(region, groups, tracker));
    }
    if let Some(shortest) = proposals.pop_if(|last| is_shortest(last)) {
        return shortest.into_schedule(region, tracker, SearchOutcome::None);
    }
    let analysis = RegionAnalysis::new(region);
    let items = region.graph.items();
    proposals.push(run(&analysis, groups, &mut ByCriticalPath));
    proposals.push(run(&analysis, groups, &mut ByMemoryPath::new(region)));
    proposals.extend(tensor::order_by_products(region, groups));
    proposals.extend(by_unit);
    if !region.carried.is_empty() {
        proposals.push(loop_aware::propose_order_from(region, groups, [&proposals[SOURCE], &proposals[WEIGHTED]]).0);
    }
    if items <= MAX_ITEMS_FOR_ALL_STRATEGIES {
        proposals.push(backtracking::propose_order(&analysis, groups, budget));
    }
    let exceeded_scarcity = proposals.iter().any(|proposal| proposal.exceeds_scarcity(region));
    if let Some(groups) = groups.filter(|_| reduces || exceeded_scarcity) {
        proposals.push(pressure::backward_order(region, groups));
    }
    let mut optimum = None;
    if items <= region.settings.knobs.permutation_size {
        let known = [&proposals[SOURCE], &proposals[CRITICAL_PATH], &proposals[WEIGHTED]];
        let (proposal, search) = permutation::propose_order_from(&analysis, groups, known, budget);
        optimum = (search == SearchOutcome::Optimal).then(|| proposal.cost(region));
        proposals.push(proposal);
    }
    let rate = |proposal: &ProposedOrder| {
        // Orders of a loop body are compared by the cycles of an iteration in the steady state, other orders by the length of one pass.
        let cycles = if region.carried.is_empty() {
            meter.exit_plus_done_cycles(&proposal.order)
        } else {
            steady_state(&in_step, &proposal.order).cycles
        };
        let registers = proposal.peak[0].max(0) as u32;
        let (first, second) = if reduces { (registers, cycles) } else { (cycles, registers) };
        (proposal.excess(region), first, second)
    };
    let mut best = (SOURCE, rate(&proposals[SOURCE]));
    for index in SOURCE + 1..proposals.len() {
        // Strategies often find the same order; it is rated once.
        if proposals[..index].iter().any(|known| known.order == proposals[index].order) {
            continue;
        }
        let rated = rate(&proposals[index]);
        if rated < best.1 {
            best = (index, rated);
        }
    }
    let best = proposals.swap_remove(best.0);
    // The strategy `permutation` proves that its order is the shortest by the cost model of issue alone. Another order may have won because
    // of register banks or the cycles per iteration.
    let is_optimal = optimum.is_some_and(|optimum| (best.cost(region).0, best.cost(region).1) <= (optimum.0, optimum.1));
    let search = if is_optimal { SearchOutcome::Optimal } else { SearchOutcome::None };
    Schedule { exceeded_scarcity, ..best.into_schedule(region, tracker, search) }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::*;

    #[test]
    fn combined_is_at_most_as_long_as_each_strategy() {
        let lines = [
            "FADD R10, R0, R1",
            "MUFU.RCP R20, R0",
            "FADD R21, R20, R1",
            "MUFU.RCP R11, R10",
            "FADD R12, R11, R1",
            "LDS R30, [R2]",
            "FADD R31, R30, R12",
        ];
        let bench = TestRegion::new(&lines);
        let length = |strategy: &dyn Strategy| bench.run(strategy, &[0, 1, 2], &[21, 31]).0.length;
        let combined = length(&Combined);
        let others: [&dyn Strategy; 4] = [&CriticalPath, &LatencyScheduling, &Permutation, &WeightedScheduling];
        assert!(others.into_iter().all(|other| !length(other).is_shorter_than(combined)), "{combined:?}");
        assert!(combined.is_shorter_than(bench.original_length()));
    }

    #[test]
    fn an_order_at_its_lower_bound_is_kept() {
        let lines = ["FADD R10, R0, R1", "FADD R11, R10, R1", "FADD R12, R11, R1"];
        let (schedule, _) = TestRegion::new(&lines).run(&Combined, &[0, 1], &[12]);
        assert_eq!(schedule.order, [0, 1, 2]);
        assert!(schedule.picks.iter().all(|pick| pick.reason == Reason::SourceOrder));
    }
}
