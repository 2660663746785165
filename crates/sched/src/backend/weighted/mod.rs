//! Backend B: a forward and a backward list scheduling pass; the priority of a candidate is a weighted sum.
//!
//! A region is scheduled twice. The **forward pass** places instructions from the first to the last and yields an order and the issue cycle
//! of each instruction. The **backward pass** places instructions from the last to the first: the dependency graph and the score are
//! mirrored, and the issue cycles of the forward pass are an additional criterion. Both orders are then issued on the common clock
//! ([`super::clock`]). The one that exceeds the register budget less wins; if both exceed it equally, the shorter one wins (in `reduce-reg`,
//! the one with fewer live registers). The backward pass is skipped if it cannot find a better order: the forward order has the length of
//! the lower bound and, before register allocation, as few registers as any order.
//!
//! **The score** of a candidate is a sum of three dimensionless parts ([`score`]); higher is better:
//!
//! | part | weight | measure |
//! |---|---|---|
//! | registers | `pressure-weight`, 1.8 | registers freed minus registers taken, each times the price of a register |
//! | parallelism | 1 - 1.8, absolute value 0.8 | penalty for a short critical path, for stall cycles, for lack of a scoreboard |
//! | forward | `forward-weight`, 3.2 | late issue in the forward pass (backward pass only), times the slope |
//! | | 1 - 3.2, absolute value 2.2 | penalty for stall cycles (both passes), times the slope |
//!
//! The *register range* is the budget minus the registers that are live at the start or at the end of the region, whichever is more: no
//! order can use fewer. The *slope* is 1 / range. In `ilp` and `dyn-batch` the *price* of a register grows with the registers in use, from
//! 0 at the lower end of the range to the slope at the upper end. Above the scarcity threshold ([`super::Budget::scarce_above`]), and
//! always in `reduce-reg`, the price of a general register is 1, which outweighs all parallelism. After register allocation the price is 0.
//!
//! **Example**, forward pass in `ilp`: budget 40 registers, 8 of them live at the start, so the range is 32 and the threshold 38. The
//! longest critical path is 40 cycles. L is a load with a critical path of 40 cycles that takes a register; A is an addition with a
//! critical path of 4 cycles that frees a register. Both can issue now. The penalty of A for its short path is 0.5 * (1 - 4/40) = 0.45.
//! With 24 live registers, (24 - 8) / 32 = 0.5 of the range is in use:
//!
//! ```text
//! live registers  price             score of L        score of A                   winner
//! 24              0.5 / 32 = 0.016  -1.8 * 0.016      1.8 * 0.016 - 0.8 * 0.45     L: -0.03 against -0.33
//! 39              1                 -1.8 * 1          1.8 * 1 - 0.8 * 0.45         A: 1.44 against -1.8
//! ```
//!
//! **Ready list** ([`ready`]): one queue per unit, sorted by critical path; one sorted by the change of live registers; one sorted by
//! arrival time for items whose operands are in flight. A bounded number of entries of each is compared per step, so scheduling *n* items
//! takes O(n log n) time.
//!
//! **Results that leave the region.** A result that the scheduling barrier at the end of the region reads, usually the predicate of a
//! branch, must be available when that barrier issues; all others are needed some cycles later ([`view::LiveOutTails`]). The length of an
//! order includes the cycles until the barrier can issue.
//!
//! **Departures from the description of ptxas**, which is terse here:
//!
//! | topic | description | here | why |
//! |---|---|---|---|
//! | ILP weight | -0.8, "penalizes moves that reduce available parallelism" | absolute value, times the loss | else losses are rewarded |
//! | slopes | divide ILP weight and backward penalty by the range | divide register price and forward part | balances the parts |
//! | range | registers of the machine | budget minus the live registers at the ends of the region | no order uses fewer |
//! | weights | given to the backward pass | used in both passes | the forward order must respect registers, too |
//! | the two orders | not specified | the shorter one on the common clock, within the budget | one measure for both |
//! | balance | registers first | registers first in `reduce-reg` or when scarce; otherwise parallelism first | all backends have these modes |
//! | units | not specified | one queue per unit | a busy unit would hide candidates for other units |
//! | FNV-1a tables | for instructions | dense vectors | nodes are numbered without gaps |

mod pass;
mod ready;
pub(super) mod registers;
mod score;
pub(super) mod view;

use super::clock::{Clock, Length, lower_bound, release};
use super::engine::ProposedOrder;
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision};
use super::settings::{AllocationStage, ScheduleMode, Settings};
use super::strategy::{Region, RegionScheduler, Strategy};
use crate::code::SchedCode;
use crate::graph::Graph;
use crate::pressure::{PressureCounts, PressureTracker};
use crate::resource::ResourceCosts;
use pass::{PassResult, SchedulingPass, UnitUse};
use registers::{BudgetedGroups, LiveRegisterCounter};
use score::ScoreWeights;
use view::{DirectedGraph, Direction, LiveOutTails};

/// Backend B: forward and backward list scheduling with a weighted score.
pub(super) struct WeightedScheduling;

impl Strategy for WeightedScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "b"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "weighted, forward and backward"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[
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

    /// Returns false: if no order of a region can be faster than the original one, the caller may skip this strategy there.
    fn reports_register_demand(&self) -> bool {
        false
    }

    /// Returns true: `--sched-backend auto` tries the strategy on every function.
    fn is_tried_by_auto(&self) -> bool {
        true
    }
}

/// Schedules a region and returns the schedule. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let Region { code, graph, settings, .. } = *region;
    tracker.enter_region(code, graph.region.clone());
    let counts_registers = settings.stage == AllocationStage::Pre;
    let groups = counts_registers.then(|| BudgetedGroups::new(code, graph, tracker));
    let best = better_pass_order(region, groups.as_ref());
    for &position in &best.order {
        tracker.step(code, &code.items[position]);
    }
    best.into_schedule(settings)
}

/// Returns backend B's order of a region, so that a caller can compare it with the orders of other strategies. `groups` is `None` after
/// register allocation.
pub(super) fn propose_order(region: &Region<'_>, groups: Option<&BudgetedGroups>) -> ProposedOrder {
    let best = better_pass_order(region, groups);
    let peak = best.peak;
    let schedule = best.into_schedule(region.settings);
    let order = schedule.order.iter().map(|position| (position - region.graph.region.start) as u32).collect();
    ProposedOrder { order, picks: schedule.picks, length: schedule.length, peak }
}

/// Runs the forward and the backward pass, and returns the better of the two orders.
fn better_pass_order(region: &Region<'_>, groups: Option<&BudgetedGroups>) -> PassOrder {
    let Region { code, graph, costs, settings, .. } = *region;
    let weights = ScoreWeights::new(settings, groups);
    let live_out_tails = LiveOutTails::find(code, graph);
    let work = UnitUse::of_region(code, graph, costs);
    let forward =
        SchedulingPass::new(DirectedGraph::forward(graph, &live_out_tails), (&work, costs.scoreboards()), settings, &weights, groups, None)
            .run();
    let forward = PassOrder::new(code, graph, costs, groups, &live_out_tails, forward);
    // Shortcut: a backward pass cannot improve an order that has the length of the lower bound and the fewest registers.
    if !settings.trace
        && groups.is_none_or(|groups| forward.has_fewest_registers(groups, settings))
        && forward.is_shortest(code, graph, costs)
    {
        forward
    } else {
        let cycles = Some(&forward.cycles[..]);
        let backward = SchedulingPass::new(
            DirectedGraph::backward(graph, &live_out_tails),
            (&work, costs.scoreboards()),
            settings,
            &weights,
            groups,
            cycles,
        )
        .run();
        let backward = PassOrder::new(code, graph, costs, groups, &live_out_tails, backward);
        if backward.is_better_than(&forward, settings) { backward } else { forward }
    }
}

/// The order of one pass, with its issue cycles by the cost model that all backends share ([`Clock`]).
struct PassOrder {
    /// Positions of the items in the code, in the new order.
    order: Vec<usize>,
    /// The decisions in issue order; empty if tracing is off.
    picks: Vec<ScheduleDecision>,
    /// Length of the order, in cycles.
    length: Length,
    /// Cycles until the scheduling barrier at the end of the region can issue.
    exit_cycle: u32,
    /// Maximum number of live registers of each class; 0 after register allocation.
    peak: PressureCounts,
    /// For each node, its issue cycle.
    cycles: Vec<u32>,
}

impl PassOrder {
    /// Simulates the issue of the order of a pass by the cost model that all backends share, and counts its live registers.
    fn new(
        code: &SchedCode,
        graph: &Graph,
        costs: &ResourceCosts,
        groups: Option<&BudgetedGroups>,
        live_out_tails: &LiveOutTails,
        found: PassResult,
    ) -> PassOrder {
        let PassResult { order, picks } = found;
        let mut clock = Clock::new(costs);
        let mut earliest = graph.start_cycles();
        let mut left = graph.predecessor_counts().to_vec();
        let mut cycles = vec![0; graph.items()];
        let mut length = Length::default();
        for &node in &order {
            let item = &code.items[graph.region.start + node as usize];
            let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
            cycles[node as usize] = at;
            length.add(at, graph.tail(node));
            let scoreboards = graph.successors(node).iter().filter(|edge| edge.scoreboard);
            if let Some(latency) = scoreboards.map(|edge| edge.latency).max() {
                clock.hold_scoreboard(at + u32::from(latency));
            }
            release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
        }
        let peak = groups.map_or([0; 4], |groups| {
            let mut live = LiveRegisterCounter::new(groups, Direction::Forward);
            order.iter().for_each(|&node| live.step(node, &mut |_| {}));
            live.peak()
        });
        let read_at = |&node: &u32| cycles[node as usize] + live_out_tails.tails[node as usize];
        let exit_cycle = live_out_tails.read_by_exit.iter().map(read_at).max().unwrap_or(0).max(length.issued);
        let order = order.iter().map(|&node| graph.region.start + node as usize).collect();
        PassOrder { order, picks, length, exit_cycle, peak, cycles }
    }

    /// Returns whether the order has the length of the lower bound, so that no order is shorter.
    fn is_shortest(&self, code: &SchedCode, graph: &Graph, costs: &ResourceCosts) -> bool {
        let lower_bound = lower_bound(code, graph, costs);
        self.exit_cycle + self.length.done <= lower_bound.issued + lower_bound.done
    }

    /// Returns whether no order needs fewer registers: the budget is not exceeded, and the maximum number of live general registers is the
    /// number at the start or at the end of the region.
    fn has_fewest_registers(&self, groups: &BudgetedGroups, settings: &Settings) -> bool {
        self.peak[0] <= groups.counts_at_start()[0].max(groups.counts_at_end()[0]) && self.excess(settings) == 0
    }

    /// Returns the number of registers by which the maximum number of live registers exceeds the budget, summed over all classes.
    fn excess(&self, settings: &Settings) -> i32 {
        self.peak.iter().zip(settings.budget.registers).map(|(peak, budget)| (peak - budget).max(0)).sum()
    }

    /// Returns whether this order is better than `other`. The number of registers above the budget decides first, then cycles, then live
    /// registers; in mode `reduce-reg` live registers come before cycles.
    fn is_better_than(&self, other: &PassOrder, settings: &Settings) -> bool {
        let excess = self.excess(settings).cmp(&other.excess(settings));
        let registers = self.peak[0].cmp(&other.peak[0]);
        let cycles = (self.exit_cycle + self.length.done).cmp(&(other.exit_cycle + other.length.done));
        let later = if settings.mode == ScheduleMode::ReduceReg { registers.then(cycles) } else { cycles.then(registers) };
        excess.then(later).is_lt()
    }

    /// Converts the order to a schedule. If decisions are traced, fills in their issue cycles.
    fn into_schedule(mut self, settings: &Settings) -> Schedule {
        if settings.trace {
            let first = self.order.iter().copied().min().unwrap_or(0);
            for pick in &mut self.picks {
                pick.cycle = self.cycles[pick.picked - first];
            }
        }
        Schedule { order: self.order, length: self.length, picks: self.picks, ..Schedule::default() }
    }
}

#[cfg(test)]
mod tests;
