//! Strategy `loop-aware`: orders the body of a loop for the cycles of an iteration in the steady state.
//!
//! Other strategies minimize the length of one pass through the body. Between two iterations the pipeline does not run empty: a result that
//! the next iteration reads late may arrive late, and one that it reads first should be computed early. [`Region::carried`] has these
//! dependences. The strategy works on loops whose body is one region:
//!
//! 1. Schedule the body by backend B.
//! 2. Simulate four iterations of the order on the shared clock. The cost of the order is the number of cycles of the last three.
//! 3. From the steady state, take the cycle in which each carried operand arrives (the *start* of its reader), and the cycle by which each
//!    carried result is needed (the *tail* of its writer). Schedule again with these figures, once by backend B and once by the critical
//!    path, and continue with the better of the two orders.
//! 4. Repeat the steps 2 and 3 until an order occurs a second time, at most `loop-rounds` times. Of all orders, including the original one,
//!    the one with the lowest cost is used.
//!
//! Each round is O(n log n) for *n* items. Regions that are not the body of a loop are scheduled by backend B.
//!
//! Example: `A` reads the result of the load `L` of the previous iteration (30 cycles). The reciprocal `M` and the sum `S` are a recurrence
//! of their own, of about 22 cycles.
//!
//! ```text
//! A L M S    A waits for L of the previous iteration, and M issues after A: an iteration takes as long as the load
//! L M A S    A waits while M is in flight: an iteration takes as long as the recurrence
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | trip count | awareness of it | none: the steady state counts | the body cannot be duplicated here, so a trip count changes nothing |
//! | registers | awareness of them | the register budget comes first | as in all strategies |

use super::clock::{Clock, release};
use super::critical_path::ByCriticalPath;
use super::engine::{ProposedOrder, RegionAnalysis, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::settings::ScheduleMode;
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted;
use super::weighted::registers::BudgetedGroups;
use crate::graph::Graph;
use crate::pressure::PressureTracker;

/// Number of loop iterations that are simulated to reach the steady state. The cycles of the first iteration are not counted.
const SIMULATED_ITERATIONS: u32 = 4;

/// Orders the body of a loop for the cycles of an iteration in the steady state; the strategy `loop-aware` of the command line.
pub(super) struct LoopAware;

impl Strategy for LoopAware {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "loop-aware"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "loop bodies of one block: fewest cycles per iteration, with latencies across iterations"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[
            Reason::LoopCarried,
            Reason::SourceOrder,
            Reason::OnlyOne,
            Reason::PressureOverflow,
            Reason::WeightedRegisters,
            Reason::WeightedParallelism,
            Reason::WeightedForward,
            Reason::Position,
        ]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
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

/// Schedules a region by the strategy `loop-aware`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let (best, exceeded_scarcity) = propose_order(region, groups.as_ref());
    Schedule { exceeded_scarcity, ..best.into_schedule(region, tracker, SearchOutcome::None) }
}

/// Returns the best order of a region, and whether some order that was tried has more live registers than the scarcity threshold
/// ([`super::Budget::scarce_above`]).
pub(super) fn propose_order(region: &Region<'_>, groups: Option<&BudgetedGroups>) -> (ProposedOrder, bool) {
    let source = ProposedOrder::original(region, groups, Reason::SourceOrder);
    let first = weighted::propose_order(region, groups);
    propose_order_from(region, groups, [&source, &first])
}

/// Returns the same as [`propose_order`]. `known` has the original order and that of backend B.
pub(super) fn propose_order_from(
    region: &Region<'_>,
    groups: Option<&BudgetedGroups>,
    known: [&ProposedOrder; 2],
) -> (ProposedOrder, bool) {
    let [source, first] = known;
    let mut exceeds_scarcity = first.exceeds_scarcity(region);
    if region.carried.is_empty() {
        return (if first.improves_on(source, region) { first } else { source }.clone(), exceeds_scarcity);
    }
    let rate = |proposal: &ProposedOrder, cycles: u32| {
        let registers = proposal.peak[0];
        let (first, second) =
            if region.settings.mode == ScheduleMode::ReduceReg { (registers, cycles as i32) } else { (cycles as i32, registers) };
        // In mode `ilp` an order above the budget may win, as in all strategies; the caller then tries again with fewer registers.
        (if region.settings.mode == ScheduleMode::ReduceReg { proposal.excess(region) } else { 0 }, first, second)
    };
    let (mut best, mut best_rate) = (source.clone(), rate(source, steady_state(region, &source.order).cycles));
    let mut tried: Vec<Vec<u32>> = Vec::new();
    let (mut current, mut state) = (first.clone(), steady_state(region, &first.order));
    for round in 1.. {
        tried.push(current.order.clone());
        exceeds_scarcity |= current.exceeds_scarcity(region);
        let current_rate = rate(&current, state.cycles);
        if current_rate < best_rate {
            (best, best_rate) = (current, current_rate);
        }
        if round >= region.settings.knobs.loop_rounds {
            break;
        }
        let graph = steady_state_graph(region, &state);
        let inner = Region { graph: &graph, ..*region };
        let by_path = run(&RegionAnalysis::new(&inner), groups, &mut ByCriticalPath);
        let by_weights = weighted::propose_order(&inner, groups);
        let states = [&by_path, &by_weights].map(|proposal| steady_state(region, &proposal.order));
        let is_path_better = rate(&by_path, states[0].cycles) < rate(&by_weights, states[1].cycles);
        let [state_by_path, state_by_weights] = states;
        (current, state) = if is_path_better { (by_path, state_by_path) } else { (by_weights, state_by_weights) };
        if tried.contains(&current.order) {
            break;
        }
    }
    // The candidates were scheduled on graphs with changed starts and tails, so the length and the trace of the winner are computed again
    // on the real graph.
    let reason = if best.order.iter().copied().eq(0..region.graph.items() as u32) { Reason::SourceOrder } else { Reason::LoopCarried };
    (ProposedOrder::new(region, groups, best.order, reason), exceeds_scarcity)
}

/// Timing of an order in the steady state of its loop.
pub(super) struct SteadyState {
    /// Total number of cycles of all simulated iterations except the first.
    pub cycles: u32,
    /// For each item, its issue cycle in the last iteration but one, counted from the start of that iteration.
    issue_cycles: Vec<u32>,
    /// Number of cycles from the start of the last iteration but one to the start of the last.
    period: u32,
}

/// Issues several iterations of an order by the cost model of issue ([`Clock`]), and returns the timing of the last iterations.
pub(super) fn steady_state(region: &Region<'_>, order: &[u32]) -> SteadyState {
    let Region { code, graph, costs, carried, .. } = *region;
    let mut clock = Clock::new(costs);
    let mut previous: Vec<Option<u32>> = vec![None; graph.items()];
    let (mut first_end, mut starts) = (0, Vec::new());
    let mut issued = Vec::new();
    for iteration in 0..SIMULATED_ITERATIONS {
        let start = clock.cycle;
        starts.push(start);
        let mut earliest = vec![start; graph.nodes()];
        for edge in carried {
            if let Some(at) = previous[edge.from as usize] {
                let earliest = &mut earliest[edge.to as usize];
                *earliest = (*earliest).max(at + edge.latency);
            }
        }
        let mut left = graph.predecessor_counts().to_vec();
        let mut exit = start;
        for &node in order {
            let item = &code.items[graph.region.start + node as usize];
            let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
            previous[node as usize] = Some(at);
            exit = exit.max(at + graph.barrier_latency(node));
            release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
        }
        // The branch at the end of an iteration issues when its operands are available.
        clock.cycle = clock.cycle.max(exit) + 1;
        if iteration == 0 {
            first_end = clock.cycle;
        }
        if iteration + 2 == SIMULATED_ITERATIONS {
            issued = previous.iter().map(|at| at.map_or(0, |at| at - start)).collect();
        }
    }
    let period = starts[SIMULATED_ITERATIONS as usize - 1] - starts[SIMULATED_ITERATIONS as usize - 2];
    SteadyState { cycles: clock.cycle - first_end, issue_cycles: issued, period }
}

/// Returns a copy of the region's graph with the timing of the loop's steady state: when operands from the previous iteration arrive, and
/// by when the next iteration needs results.
fn steady_state_graph(region: &Region<'_>, state: &SteadyState) -> Graph {
    let mut starts = vec![0; region.graph.items()];
    let mut tails: Vec<u32> = vec![0; region.graph.items()];
    for edge in region.carried {
        let arrival = (state.issue_cycles[edge.from as usize] + edge.latency).saturating_sub(state.period);
        let start = &mut starts[edge.to as usize];
        *start = arrival.max(*start);
        // The reader issues `issue_cycles[edge.to]` cycles after the start of the next iteration. The rest of the latency must elapse
        // before the end of this one.
        let tail = &mut tails[edge.from as usize];
        *tail = edge.latency.saturating_sub(state.issue_cycles[edge.to as usize]).max(*tail);
    }
    region.graph.with_loop_timing(&starts, &tails)
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::super::settings::AllocationStage;
    use super::super::strategy::CarriedEdge;
    use super::*;

    /// Returns a test loop with two recurrences: item 0 reads the result of load 1 of the previous iteration; items 2 and 3 depend on each
    /// other.
    fn two_recurrences() -> TestRegion {
        let lines = ["FADD R10, R1, R1", "LDS R4, [R2]", "MUFU.RCP R5, R3", "FADD R6, R5, R1"];
        let mut bench = TestRegion::new(&lines);
        bench.settings.stage = AllocationStage::Post;
        bench.carried = vec![CarriedEdge { from: 1, to: 0, latency: 30 }, CarriedEdge { from: 3, to: 2, latency: 4 }];
        bench
    }

    #[test]
    fn a_late_operand_does_not_delay_an_independent_recurrence() {
        let bench = two_recurrences();
        let (schedule, _) = bench.run(&LoopAware, &[], &[]);
        assert!(schedule.order[0] != 0, "{:?}", schedule.order);
        assert!(schedule.picks.iter().all(|pick| pick.reason == Reason::LoopCarried));
        let region = bench.region();
        let cycles = |order: &[u32]| steady_state(&region, order).cycles;
        let nodes: Vec<u32> = schedule.order.iter().map(|&position| position as u32).collect();
        assert!(cycles(&nodes) < cycles(&[0, 1, 2, 3]), "{} and {}", cycles(&nodes), cycles(&[0, 1, 2, 3]));
    }

    /// A load whose address is its own result: an iteration takes the latency of the load, whatever else the loop contains.
    #[test]
    fn the_period_of_a_recurrence_is_its_latency() {
        let mut bench = TestRegion::new(&["LDS R4, [R4]", "FADD R10, R0, R1", "FADD R11, R10, R1"]);
        bench.carried = vec![CarriedEdge { from: 0, to: 0, latency: 33 }];
        let state = steady_state(&bench.region(), &[0, 1, 2]);
        assert_eq!((state.period, state.cycles), (33, 3 * 33));
    }

    #[test]
    fn code_without_a_loop_gets_the_order_of_the_weighted_strategy() {
        let lines = ["LDS R10, [R0]", "FADD R11, R10, R10", "LDS R20, [R1]", "FADD R21, R20, R20"];
        let bench = TestRegion::new(&lines);
        let (schedule, _) = bench.run(&LoopAware, &[0, 1], &[11, 21]);
        let (other, _) = bench.run(&weighted::WeightedScheduling, &[0, 1], &[11, 21]);
        assert_eq!(schedule.order, other.order);
        let (chain, _) = TestRegion::new(&lines[..2]).run(&LoopAware, &[0], &[11]);
        assert!(chain.picks.iter().all(|pick| pick.reason == Reason::SourceOrder));
    }
}
