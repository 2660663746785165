//! The score of a candidate: a weighted sum of register pressure, parallelism and the forward order.
//!
//! The header of the parent module defines the terms (range, slope, price) and has an example. With `w` stall cycles beyond the shortest
//! stall of the step:
//!
//! ```text
//! waiting     = 0 if w = 0, otherwise 0.5 + 0.5 * w / (w + 16)
//! registers   = -pressure-weight * sum over the classes of (change of live registers * price)
//! parallelism = -|1 - pressure-weight| * (0.5 * (1 - path / longest path) + waiting + 1/16 if scoreboards are short)
//! forward     = slope * (forward-weight * cycle in the forward order / its length - |1 - forward-weight| * waiting)
//! score       = registers + parallelism + forward
//! ```
//!
//! Exceeding the register budget is compared before the score ([`CandidateScore::beats`]).

use super::super::reason::Reason;
use super::super::settings::{ScheduleMode, Settings};
use super::registers::BudgetedGroups;
use crate::code::REGISTER_CLASS_COUNT;
use crate::pressure::PressureCounts;

/// Maximum register range (budget minus registers that are live anyway) from which the slope of the term `forward` is computed. Without a
/// budget the range is unlimited; the slope, 1 / range, and with it the term would then be 0.
const MAX_REGISTER_RANGE: f64 = 256.0;
/// Number of stall cycles for which the growing part of the stall penalty, `w / (w + HALF_PENALTY_STALL_CYCLES)`, is half of its maximum.
const HALF_PENALTY_STALL_CYCLES: f64 = 16.0;
/// Penalty in the part `parallelism` of the score, which has no unit, for a candidate that makes a shortage of scoreboards worse.
const SCOREBOARD_PENALTY: f64 = 1.0 / 16.0;

/// The weights of the parts of a candidate's score, and thresholds for the price of a register, for one region.
pub(super) struct ScoreWeights {
    /// Weight of the part `registers` of the score.
    pressure_weight: f64,
    /// Weight of the part `parallelism` of the score.
    parallelism_weight: f64,
    /// Weight of the issue cycle in the forward order, in the part `forward` of the score.
    forward_weight: f64,
    /// Weight of stall cycles, in the part `forward` of the score.
    stall_weight: f64,
    /// For each register class, the registers that are live at the start or at the end of the region, whichever is more: the lower end of
    /// the register range.
    least_live: PressureCounts,
    /// For each register class, 1 / register range. The range is the budget minus `least_live`.
    slopes: [f64; REGISTER_CLASS_COUNT],
    /// For each register class, the number of live registers above which the price of a register is 1.
    scarce_above: PressureCounts,
    /// Maximum number of live registers of each class.
    budget: PressureCounts,
}

/// The measures of a candidate from which its score is computed.
#[derive(Clone, Copy)]
pub(super) struct ScoreMeasures {
    /// Change of the number of live registers of each class if the candidate is placed next.
    pub pressure_change: PressureCounts,
    /// Penalty for a critical path shorter than the longest one ([`ScoreWeights::path_penalty`]).
    pub path_penalty: f64,
    /// Stall cycles of the candidate minus the shortest stall of all candidates.
    pub extra_stall: u32,
    /// Whether all scoreboards are in use and the candidate makes this worse (forward) or does not relieve it (backward).
    pub worsens_scoreboard_shortage: bool,
    /// Issue cycle in the forward order as a fraction (0 to 1) of the last issue cycle; 0 in the forward pass.
    pub forward_position: f64,
}

/// Score of a candidate, with its parts for the trace. The default is that of a candidate without competitors.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct CandidateScore {
    /// Number of registers above the budget, summed over the classes of which the candidate takes registers.
    excess: i32,
    /// The term `registers` of the score: registers freed minus registers taken, times the price of a register and its weight.
    register_term: f64,
    /// The term `parallelism` of the score: negated penalties for a short critical path, stall cycles and missing scoreboards.
    parallelism_term: f64,
    /// The term `forward` of the score: issue cycle in the forward order, minus a penalty for stall cycles.
    forward_term: f64,
    /// Sum of the three parts.
    sum: f64,
}

impl ScoreWeights {
    /// Computes the weights of a region; `groups` is `None` after register allocation.
    pub(super) fn new(settings: &Settings, groups: Option<&BudgetedGroups>) -> ScoreWeights {
        let (pressure, forward) = (settings.knobs.pressure_weight, settings.knobs.forward_weight);
        let ends = groups.map_or([[0; REGISTER_CLASS_COUNT]; 2], |groups| [groups.counts_at_start(), groups.counts_at_end()]);
        let least_live: PressureCounts = std::array::from_fn(|class| ends[0][class].max(ends[1][class]));
        let budget = settings.budget.registers;
        let slopes = std::array::from_fn(|class| 1.0 / f64::from((budget[class] - least_live[class]).max(1)));
        let mut scarce_above: PressureCounts = std::array::from_fn(|class| budget[class] - budget[class] / 16);
        scarce_above[0] = settings.budget.scarce_above;
        if settings.mode == ScheduleMode::ReduceReg {
            scarce_above[0] = i32::MIN;
        }
        ScoreWeights {
            pressure_weight: pressure,
            parallelism_weight: (1.0 - pressure).abs(),
            forward_weight: forward,
            stall_weight: (1.0 - forward).abs(),
            least_live,
            slopes,
            scarce_above,
            budget,
        }
    }

    /// Returns, for each register class, the price of a register (its dimensionless cost in the score) when `live` registers are live.
    pub(super) fn register_prices(&self, live: PressureCounts) -> [f64; REGISTER_CLASS_COUNT] {
        std::array::from_fn(|class| {
            if live[class] > self.scarce_above[class] {
                return 1.0;
            }
            let used = f64::from((live[class] - self.least_live[class]).max(0)) * self.slopes[class];
            used.min(1.0) * self.slopes[class]
        })
    }

    /// Returns the score of a candidate from its measures. `live` is the number of live registers of each class, `register_prices` the
    /// price of a register of each class at that number.
    pub(super) fn score(
        &self,
        measures: &ScoreMeasures,
        live: PressureCounts,
        register_prices: &[f64; REGISTER_CLASS_COUNT],
    ) -> CandidateScore {
        let change = measures.pressure_change;
        let over = |class: usize| (live[class] + change[class] - self.budget[class]).max(0);
        let excess = (0..REGISTER_CLASS_COUNT).filter(|&class| change[class] > 0).map(over).sum();
        let registers: f64 = change.iter().zip(register_prices).map(|(&change, price)| f64::from(change) * price).sum();
        let wait = f64::from(measures.extra_stall);
        // One stall cycle costs more than the largest penalty for a short critical path (0.5), so an item that can issue now is preferred.
        let waiting = if measures.extra_stall > 0 { 0.5 + 0.5 * wait / (wait + HALF_PENALTY_STALL_CYCLES) } else { 0.0 };
        let lost = measures.path_penalty + waiting + if measures.worsens_scoreboard_shortage { SCOREBOARD_PENALTY } else { 0.0 };
        let secondary = self.slopes[0].max(1.0 / MAX_REGISTER_RANGE);
        let (register_term, parallelism_term) = (-self.pressure_weight * registers, -self.parallelism_weight * lost);
        let forward_term = secondary * (self.forward_weight * measures.forward_position - self.stall_weight * waiting);
        CandidateScore { excess, register_term, parallelism_term, forward_term, sum: register_term + parallelism_term + forward_term }
    }

    /// Returns the penalty for a critical path that is the fraction `critical_path` (0 to 1) of the longest one.
    pub(super) fn path_penalty(critical_path: f64) -> f64 {
        0.5 * (1.0 - critical_path)
    }
}

impl CandidateScore {
    /// Returns whether this score is better than `other`; `None` if they are equal. The lower number of registers above the budget decides
    /// first, then the higher sum.
    pub(super) fn beats(&self, other: &CandidateScore) -> Option<bool> {
        let order = other.excess.cmp(&self.excess).then(self.sum.total_cmp(&other.sum));
        order.is_ne().then_some(order.is_gt())
    }

    /// Returns the reason why this score is better than `other`: the register budget, or the part of the score that contributes most to the
    /// advantage; [`Reason::Position`] if both scores are equal.
    pub(super) fn reason(&self, other: &CandidateScore) -> Reason {
        if self.excess != other.excess {
            return Reason::PressureOverflow;
        }
        if self.sum == other.sum {
            return Reason::Position;
        }
        let parts = [
            (self.register_term - other.register_term, Reason::WeightedRegisters),
            (self.parallelism_term - other.parallelism_term, Reason::WeightedParallelism),
            (self.forward_term - other.forward_term, Reason::WeightedForward),
        ];
        parts.into_iter().max_by(|first, second| first.0.total_cmp(&second.0)).map_or(Reason::Position, |part| part.1)
    }
}
