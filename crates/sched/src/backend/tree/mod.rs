//! Backend C: computes several list schedules of a region and keeps the one with the best score.
//!
//! ```text
//! region ─▶ problem ─▶ identical region in the cache? ─────yes────┐
//!              │no                                                 │
//!              ▼                                                   ▼
//!           attempts: plan ─▶ search ─▶ score ─▶ commit? ─────▶ order
//!              ▲                 │
//!              └── stall cycles ─┘
//! ```
//!
//! **Evaluate, then commit.** The score of the original order ([`score`]) is the first threshold. Each attempt schedules the whole region
//! by its own plan ([`search`]). An attempt is committed (becomes the best order so far) only if its score is above the threshold, and its
//! score becomes the new threshold. The stall cycles of an attempt raise priorities in the next one. An attempt that would give the order
//! of the previous one is skipped. After register allocation, the attempts end early when an order without bank conflicts reaches the lower
//! bound (critical path, units, number of instructions).
//!
//! **Results that leave the region.** The scheduling barrier that ends a region, usually a branch or a call, reads some results: a branch
//! its predicate, a call its arguments. The score counts the cycles until that barrier can issue ([`Graph::barrier_latency`]). All other
//! results that leave the region are assumed to be read by an instruction of the same class as their producer ([`Graph::typical_tail`]).
//! With the latency to the slowest possible reader, every addition would look as urgent as the predicate of the branch.
//!
//! **Attempt plans** differ in the priority, which is the first key of the ordered trees:
//!
//! 1. critical path from the item to the end of the region, in cycles;
//! 2. the same, where the path also includes the stall cycles of each item in the previous attempt;
//! 3. the original order: an item is passed over only if it would stall or is rejected;
//! 4. critical path in steps of 16 cycles: small differences do not change the original order;
//! 5. all further attempts: as 2, and before register allocation a register costs twice as many cycles as in the attempt before.
//!
//! After an attempt that exceeded the register budget, the next plan also doubles the cost of a register and lowers the number of live
//! registers from which on they are scarce.
//!
//! **Modes** set the weights of the score: `reduce-reg` minimizes live registers first and cycles second; `ilp` minimizes cycles within the
//! budget; `dyn-batch` is `ilp` with matrix products issued in batches.
//!
//! **Stages.** Before register allocation, live registers are counted against the budget ([`constraint`]). After register allocation, the
//! search models the read ports of the register file: bank conflicts, the operand reuse cache, and consecutive writes of one register.
//!
//! **Example.** The loads L0 and L1 take 30 cycles. The additions A0 and A1, whose results leave the region, take 4. The original order
//! is `L0 A0 L1 A1`:
//!
//! ```text
//! attempt               order        issue cycles   issued  done  score = -(issued + done) / 2
//! original order        L0 A0 L1 A1  0, 30, 31, 61  62      65    -63.5   threshold
//! plan 1 (34 34 4 4)    L0 L1 A0 A1  0, 1, 30, 31   32      35    -33.5   committed, new threshold
//! plan 2 (62 34 32 4)   L0 L1 A0 A1  0, 1, 30, 31   32      35    -33.5   not better: not committed
//! ```
//!
//! The numbers after the plan are the priorities of L0, L1, A0 and A1. In plan 1, A0 stalls for 28 cycles; plan 2 adds these to the
//! critical path of A0 and L0. The lower bound (31 issued, 34 done) is not reached, so the other plans are tried as well.
//!
//! **Cost.** An attempt takes O(n log n) time for *n* items. The number of attempts is at most `tree-alternatives`, and smaller for large
//! regions, so that all attempts together place at most `tree-work` instructions; one attempt is always made.
//!
//! **Departures from the description of ptxas.**
//!
//! | topic | description | here | why |
//! |---|---|---|---|
//! | tree | one red-black tree | one `BTreeSet` per unit, first entries compared | same order; items of busy units are skipped |
//! | contents of the tree | all instructions of the block | ready items only | an item must not issue before its predecessors |
//! | rejections | a rejected item is left out of the schedule | it returns to its tree before the next step | every item must be issued |
//! | priority | a number of unknown origin | the plans above | the origin is not described |
//! | score | sums of (priority - 2) x latency and latency x weight | cycles, registers, operands | those sums are equal for all orders |
//! | threshold | a constant | the best score so far, initially that of the original order | only better orders are of interest |
//! | three operands of one bank | forbidden | cost cycles | legal on the hardware |
//! | cost of callees | recursion over predecessors | [`crate::calls::CallCosts`]: results that arrive during a call cost nothing | |
//! | validator | modes 5 and 6 | the two stages | the description says no more about them |
//! | between blocks | a separate pass | none | nothing moves between blocks |

mod cache;
mod constraint;
mod problem;
mod score;
mod search;

use super::clock::{Clock, release};
use super::engine::{ProposedOrder, issue_cycles};
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::registers::BudgetedGroups;
use crate::pressure::PressureTracker;
use cache::OrderCache;
use problem::SearchProblem;
use score::{ScoreMeasurements, TreeWeights};
use search::{AttemptPlan, AttemptResult};

/// In the fourth plan, the priority of an item is its critical path in cycles divided by this number and rounded down, so that smaller
/// differences do not count.
const COARSE_PRIORITY_STEP: i32 = 16;
/// Maximum priority. Half of the range of `i32`, so that small adjustments of a priority cannot overflow.
const MAX_PRIORITY: u32 = i32::MAX as u32 / 2;

/// Backend C: several list schedules, of which the best is kept.
pub(super) struct TreeScheduling;

impl Strategy for TreeScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "c"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "ordered trees, several attempts"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[
            Reason::OnlyOne,
            Reason::Batch,
            Reason::Position,
            Reason::Priority,
            Reason::ResultLatency,
            Reason::RejectedForWait,
            Reason::RejectedForRegisters,
            Reason::RejectedForWrite,
            Reason::LeastCost,
            Reason::Ports,
            Reason::SourceOrder,
            Reason::Remembered,
        ]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        let mut cached_orders = OrderCache::default();
        Box::new(move |region, tracker| schedule(region, tracker, &mut cached_orders))
    }

    /// Returns true: the strategy itself returns the original order where it finds no better one.
    fn falls_back_to_original(&self) -> bool {
        true
    }

    /// Returns true: `--sched-backend auto` tries the strategy on every function.
    fn is_tried_by_auto(&self) -> bool {
        true
    }
}

/// Schedules a region, or takes its order from `cached_orders` if an identical region was scheduled before.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker, cached_orders: &mut OrderCache) -> Schedule {
    let Region { code, graph, costs, settings, .. } = *region;
    tracker.enter_region(code, graph.region.clone());
    let problem = SearchProblem::new(code, graph, costs, settings, tracker);
    let signature = (problem.items() <= cache::MAX_CACHED_ITEMS).then(|| problem.signature());
    let known = signature.as_ref().and_then(|signature| cached_orders.find(signature));
    let (order, picks, exceeded_scarcity) = match known {
        Some((order, exceeded_scarcity)) => (order.to_vec(), trace_with_one_reason(&problem, order, Reason::Remembered), exceeded_scarcity),
        None => {
            let (order, picks, exceeded_scarcity) = best_of_all_attempts(&problem);
            if let Some(signature) = signature {
                cached_orders.add_order(signature, &order, exceeded_scarcity, settings.knobs.tree_solutions);
            }
            (order, picks, exceeded_scarcity)
        }
    };
    Schedule { exceeded_scarcity, ..replay_on_shared_clock(&problem, &order, picks, tracker) }
}

/// Returns backend C's order of a region, so that a caller can compare it with the orders of other strategies. The tracker must have
/// entered the region, and stays at its start.
pub(super) fn propose_order(region: &Region<'_>, groups: Option<&BudgetedGroups>, tracker: &PressureTracker) -> ProposedOrder {
    let problem = SearchProblem::new(region.code, region.graph, region.costs, region.settings, tracker);
    let (order, picks, _) = best_of_all_attempts(&problem);
    let cycles = if picks.is_empty() { Vec::new() } else { issue_cycles(region, &order) };
    let picks = picks.into_iter().zip(cycles).map(|(pick, cycle)| ScheduleDecision { cycle, ..pick }).collect();
    ProposedOrder { picks, ..ProposedOrder::new(region, groups, order, Reason::SourceOrder) }
}

/// Returns a trace that gives the same reason for all items and no second-best candidates; empty if tracing is off.
fn trace_with_one_reason(problem: &SearchProblem<'_>, order: &[u32], reason: Reason) -> Vec<ScheduleDecision> {
    if !problem.settings.trace {
        return Vec::new();
    }
    order.iter().map(|&node| ScheduleDecision { picked: problem.position(node), runner_up: None, reason, cycle: 0 }).collect()
}

/// Makes all attempts (list schedules with different plans) for a region. Returns the best order as nodes, its trace, and whether some
/// attempt had more live registers than the scarcity threshold.
fn best_of_all_attempts(problem: &SearchProblem<'_>) -> (Vec<u32>, Vec<ScheduleDecision>, bool) {
    let mut exceeded_scarcity = false;
    let weights = TreeWeights::for_problem(problem);
    let source: Vec<u32> = (0..problem.items() as u32).collect();
    let mut threshold = score::measure_order(problem, source.iter().copied()).score(&weights);
    let mut best: Option<(AttemptPlan, Vec<u32>)> = None;
    let plans = AttemptPlanner::new(problem);
    let mut last: Option<(AttemptPlan, AttemptResult)> = None;
    for number in 0..plans.max_attempts() {
        let plan = plans.plan(number, last.as_ref().map(|(plan, result)| (plan, result)));
        if let Some((previous, result)) = &mut last
            && plan.gives_order_of(previous, result)
        {
            *previous = plan;
            continue;
        }
        let result = search::run_attempt(problem, &plan, &plans.latency_keys, false);
        let score = result.measurements.score(&weights);
        exceeded_scarcity |= result.measurements.peak > problem.settings.budget.scarce_above;
        if score > threshold {
            threshold = score;
            best = Some((plan.clone(), result.order.clone()));
        }
        let is_provably_best = plans.is_provably_best(&result.measurements);
        last = Some((plan, result));
        if is_provably_best {
            break;
        }
    }
    match best {
        // No attempt was better than the original order.
        None => {
            let picks = trace_with_one_reason(problem, &source, Reason::SourceOrder);
            (source, picks, exceeded_scarcity)
        }
        Some((plan, order)) => {
            // The search is deterministic: a second run with tracing gives the same order. So the other attempts need no trace.
            let picks =
                if problem.settings.trace { search::run_attempt(problem, &plan, &plans.latency_keys, true).picks } else { Vec::new() };
            (order, picks, exceeded_scarcity)
        }
    }
}

/// Creates the plan (priorities and register costs) of each attempt for a region.
struct AttemptPlanner<'p> {
    /// The region to schedule, with the data that the search reads.
    problem: &'p SearchProblem<'p>,
    /// Critical path from each node to the end of the region, in cycles.
    heights: Vec<u32>,
    /// For each item, the second key of the ordered trees: result latency in cycles, plus a fraction that grows with the number of
    /// successors.
    latency_keys: Vec<f64>,
    /// Lower bound of the number of cycles until the last item has issued.
    min_issued: u32,
    /// Lower bound of the number of cycles until all results are available.
    min_done: u32,
}

impl<'p> AttemptPlanner<'p> {
    /// Computes critical paths, result latencies and lower bounds of a region.
    fn new(problem: &'p SearchProblem<'p>) -> AttemptPlanner<'p> {
        let graph = problem.graph;
        let heights = heights(problem, &[]);
        let latency = |node: u32| {
            let edges = graph.successors(node);
            let longest = edges.iter().map(|edge| edge.latency).max().unwrap_or(0);
            // Among items of equal latency, the one with more successors makes more items ready.
            f64::from(u32::from(longest).max(problem.tails[node as usize])) + edges.len() as f64 / 1024.0
        };
        let latency_keys = (0..graph.items() as u32).map(latency).collect();
        // Lower bound by units: the last item on a unit issues when all others have left the unit; its own cycles come after its issue.
        let mut usage = [(0_u32, 0_u32); problem::NO_UNIT];
        let mut real = 0;
        for (item, &unit) in problem.code.items[graph.region.clone()].iter().zip(&problem.units) {
            if let Some((sum, most)) = usage.get_mut(usize::from(unit)) {
                let cycles = problem.costs.cycles(item.class).max(1) as u32;
                (*sum, *most) = (*sum + cycles, cycles.max(*most));
                real += 1;
            }
        }
        let of_units = usage.iter().map(|(sum, most)| sum - most + 1).max().unwrap_or(0);
        let deepest = graph.depths()[..graph.items()].iter().copied().max().unwrap_or(0) + 1;
        let least_done = heights.iter().copied().max().unwrap_or(0);
        AttemptPlanner { problem, min_issued: deepest.max(of_units).max(real), min_done: least_done, heights, latency_keys }
    }

    /// Returns the maximum number of attempts: fewer for larger regions, at least one.
    fn max_attempts(&self) -> usize {
        let knobs = &self.problem.settings.knobs;
        (knobs.tree_work / self.problem.items().max(1)).min(knobs.tree_alternatives).max(1)
    }

    /// Returns whether an order with these measurements reaches the lower bounds, so that no order can have a better score. Before register
    /// allocation the answer is always no, because an order of the same length may need fewer registers.
    fn is_provably_best(&self, measurements: &ScoreMeasurements) -> bool {
        let is_short = measurements.exit_cycle <= self.min_issued && measurements.length.done <= self.min_done;
        is_short && measurements.conflict_cycles == 0 && !self.problem.counts_registers()
    }

    /// Returns the plan of attempt `number`, counted from 0; `last` is the previous attempt. The module header lists the plans.
    fn plan(&self, number: usize, last: Option<(&AttemptPlan, &AttemptResult)>) -> AttemptPlan {
        let settings = self.problem.settings;
        let priority = |height: u32| height.min(MAX_PRIORITY) as i32;
        let priorities: Vec<i32> = match (number, last) {
            (2, _) => (0..self.problem.graph.nodes() as i32).map(|node| -node).collect(),
            (3, _) => self.heights.iter().map(|&height| priority(height) / COARSE_PRIORITY_STEP).collect(),
            (0, _) | (_, None) => self.heights.iter().map(|&height| priority(height)).collect(),
            (_, Some((_, result))) => heights(self.problem, &result.stall_cycles).into_iter().map(priority).collect(),
        };
        let register_cycles = settings.knobs.tree_register_cycles;
        match last {
            // The previous attempt exceeded the budget: lower the scarcity threshold by the excess, but by at most a quarter.
            Some((plan, result)) if result.measurements.excess > 0 => AttemptPlan {
                priorities,
                register_cycles: plan.register_cycles * 2.0,
                scarce_above: plan.scarce_above - result.measurements.excess.min(plan.scarce_above / 4),
            },
            Some((plan, _)) if number > 3 => {
                AttemptPlan { priorities, register_cycles: plan.register_cycles * 2.0, scarce_above: settings.budget.scarce_above }
            }
            _ => AttemptPlan { priorities, register_cycles, scarce_above: settings.budget.scarce_above },
        }
    }
}

/// Returns the critical path from each node to the end of the region, in cycles.
///
/// `added` has, for each item, cycles to add to its paths, for example the stall cycles before it in an attempt: the item and everything
/// that it depends on become more urgent. Empty means no addition.
fn heights(problem: &SearchProblem<'_>, added: &[u32]) -> Vec<u32> {
    let graph = problem.graph;
    let mut heights = vec![0_u32; graph.nodes()];
    // Reverse topological order: all successors of a node are done before the node.
    for &node in graph.order.iter().rev() {
        let below = graph.successors(node).iter().map(|edge| heights[edge.node as usize].saturating_add(edge.latency.into()));
        let tail = problem.tails.get(node as usize).copied().unwrap_or_default();
        let more = added.get(node as usize).copied().unwrap_or_default();
        heights[node as usize] = below.max().unwrap_or(0).max(tail).saturating_add(more);
    }
    heights
}

/// Simulates the issue of an order by the cost model that all backends share ([`Clock`]), and returns the order as a schedule with issue
/// cycles.
///
/// The search models register banks in addition, so its cycles cannot be compared with those of other backends.
fn replay_on_shared_clock(
    problem: &SearchProblem<'_>,
    order: &[u32],
    mut picks: Vec<ScheduleDecision>,
    tracker: &mut PressureTracker,
) -> Schedule {
    let graph = problem.graph;
    let mut earliest = graph.start_cycles();
    let mut left = graph.predecessor_counts().to_vec();
    let mut clock = Clock::new(problem.costs);
    let mut schedule = Schedule { order: Vec::with_capacity(order.len()), ..Schedule::default() };
    for (number, &node) in order.iter().enumerate() {
        let position = problem.position(node);
        let item = &problem.code.items[position];
        let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
        schedule.length.add(at, graph.tail(node));
        let until = graph.successors(node).iter().filter(|edge| edge.scoreboard).map(|edge| at + u32::from(edge.latency)).max();
        until.into_iter().for_each(|until| clock.hold_scoreboard(until));
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
        tracker.step(problem.code, item);
        schedule.order.push(position);
        if let Some(pick) = picks.get_mut(number) {
            pick.cycle = at;
        }
    }
    schedule.picks = picks;
    schedule
}

#[cfg(test)]
mod tests;
