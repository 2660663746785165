//! Computes the score of an order: a single number in cycles, negated, so that higher is better.
//!
//! | part | weight, in cycles | stage |
//! |---|---|---|
//! | cycles: mean of the exit cycle and of the cycle in which all results are available | -1 | both |
//! | registers above the budget, all classes | -[`OVER_BUDGET_PENALTY_CYCLES`] | before register allocation |
//! | maximum number of live general registers | -64 in `reduce-reg`, otherwise -1/64 | before register allocation |
//! | cycles lost by bank conflicts | -`tree-conflict-cycles` | after register allocation |
//! | operands from the reuse cache | +`tree-conflict-cycles` / 2 | after register allocation |
//!
//! The *exit cycle* is the first cycle in which the scheduling barrier that ends the region (branch, call) can issue.
//!
//! The weights rank the goals: each register above the budget outweighs thousands of cycles, and in `ilp` the number of live registers
//! only breaks ties between orders of nearly the same length. Example in `ilp`: exit cycle 40, results in cycle 50, 30 live registers,
//! budget not exceeded: -(40 + 50) / 2 - 30/64 = -45.5.
//!
//! Issue cycles come from the clock that all backends share. After register allocation, an instruction also waits for the register banks.

use super::super::clock::Length;
use super::super::ports::{self, OrderLength};
use super::super::settings::ScheduleMode;
use super::constraint::LiveRegisters;
use super::problem::SearchProblem;

/// Penalty for each register above the budget, in cycles.
const OVER_BUDGET_PENALTY_CYCLES: f64 = 4096.0;

/// Weights, in cycles, with which the measurements of an order add up to its score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct TreeWeights {
    /// Weight of each cycle of the order's length.
    pub cycle_weight: f64,
    /// Penalty for each register above the budget, in cycles.
    pub over_budget_penalty: f64,
    /// Penalty for each live general register, in cycles.
    pub register_penalty: f64,
    /// Gain for each operand that is read from the reuse cache, in cycles.
    pub reuse_hit_gain: f64,
    /// Penalty for each cycle lost by a bank conflict, in addition to that cycle.
    pub conflict_penalty: f64,
}

impl TreeWeights {
    /// Returns the weights for the mode and the stage of a problem.
    pub(super) fn for_problem(problem: &SearchProblem<'_>) -> TreeWeights {
        let register_penalty = if problem.settings.mode == ScheduleMode::ReduceReg { 64.0 } else { 1.0 / 64.0 };
        let conflict_penalty = problem.settings.knobs.tree_conflict_cycles;
        if problem.counts_registers() {
            TreeWeights {
                cycle_weight: 1.0,
                over_budget_penalty: OVER_BUDGET_PENALTY_CYCLES,
                register_penalty,
                reuse_hit_gain: 0.0,
                conflict_penalty: 0.0,
            }
        } else {
            TreeWeights {
                cycle_weight: 1.0,
                over_budget_penalty: 0.0,
                register_penalty: 0.0,
                reuse_hit_gain: conflict_penalty / 2.0,
                conflict_penalty,
            }
        }
    }
}

/// The measurements of an order from which its score is computed: cycles, registers, conflicts.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct ScoreMeasurements {
    /// Length of the order, in cycles.
    pub length: Length,
    /// First cycle in which the scheduling barrier that ends the region can issue.
    pub exit_cycle: u32,
    /// Number of registers by which the maximum number of live registers exceeds the budget, summed over all classes; 0 after register
    /// allocation.
    pub excess: i32,
    /// Maximum number of live general registers; 0 after register allocation.
    pub peak: i32,
    /// Number of operands read from the reuse cache; 0 before register allocation.
    pub reuse_hits: u32,
    /// Number of cycles lost by bank conflicts; 0 before register allocation.
    pub conflict_cycles: u32,
}

impl ScoreMeasurements {
    /// Creates the measurements of a complete order from its length and its live registers.
    pub(super) fn new(problem: &SearchProblem<'_>, measured: OrderLength, pressure: &LiveRegisters) -> ScoreMeasurements {
        let (excess, peak) = if problem.counts_registers() { (pressure.excess(problem), pressure.peak[0]) } else { (0, 0) };
        let OrderLength { length, exit_cycle: exit, reuse_hits: hits, conflict_cycles: conflicts } = measured;
        ScoreMeasurements { length, exit_cycle: exit, excess, peak, reuse_hits: hits, conflict_cycles: conflicts }
    }

    /// Returns the score, in negated cycles. Higher is better.
    pub(super) fn score(&self, weights: &TreeWeights) -> f64 {
        let cycles = f64::from(self.exit_cycle + self.length.done) / 2.0;
        weights.reuse_hit_gain * f64::from(self.reuse_hits)
            - weights.cycle_weight * cycles
            - weights.over_budget_penalty * f64::from(self.excess)
            - weights.register_penalty * f64::from(self.peak)
            - weights.conflict_penalty * f64::from(self.conflict_cycles)
    }
}

/// Simulates the issue of a given order of nodes, and returns the measurements for its score.
pub(super) fn measure_order(problem: &SearchProblem<'_>, order: impl Iterator<Item = u32> + Clone) -> ScoreMeasurements {
    let SearchProblem { code, graph, costs, .. } = *problem;
    let mut pressure = LiveRegisters::default();
    pressure.start(problem);
    if problem.counts_registers() {
        order.clone().for_each(|node| pressure.step(problem, node));
    }
    let measured = ports::measure_order(code, graph, costs, (&problem.tails, &problem.ports), order);
    ScoreMeasurements::new(problem, measured, &pressure)
}
