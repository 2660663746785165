//! The weighted sum.

use super::registers::Groups;
use super::{Mode, Settings};
use crate::code::REGISTER_CLASSES;
use crate::pressure::Counts;

use super::super::Reason;

/// A range for what does not depend on registers, when there is no budget: the registers of a thread.
const WHOLE_FILE: f64 = 256.0;
/// Cycles of waiting that count for half of all.
const LONG_WAIT: f64 = 16.0;
/// The share of a crowded scoreboard.
const CROWDED: f64 = 1.0 / 16.0;

/// Weights for a region.
pub(super) struct Weights {
    pressure: f64,
    parallelism: f64,
    forward: f64,
    penalty: f64,
    /// The lower end of the range.
    least: Counts,
    /// One divided by the range.
    slopes: [f64; REGISTER_CLASSES],
    /// From here on a register counts whole.
    scarce: Counts,
    budget: Counts,
}

/// What is measured of a candidate.
#[derive(Clone, Copy)]
pub(super) struct Measures {
    /// How it changes live registers.
    pub change: Counts,
    /// What it loses because its way to the end of the pass is shorter than the longest ([`Weights::lost`]).
    pub lost: f64,
    /// Cycles until it can be placed, beyond those until the first can.
    pub wait: u32,
    /// It wants a scoreboard where there is none left.
    pub crowds: bool,
    /// How late it comes in the forward order, as a share of its length.
    pub forward: f64,
}

/// A candidate's score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Score {
    /// Registers beyond the budget that it would need.
    overflow: i32,
    registers: f64,
    parallelism: f64,
    forward: f64,
    sum: f64,
}

impl Weights {
    pub fn new(settings: &Settings, groups: Option<&Groups>) -> Weights {
        let (pressure, forward) = (settings.knobs.pressure_weight, settings.knobs.forward_weight);
        let ends = groups.map_or([[0; REGISTER_CLASSES]; 2], |groups| [groups.at_start(), groups.at_end()]);
        let least: Counts = std::array::from_fn(|class| ends[0][class].max(ends[1][class]));
        let budget = settings.budget.registers;
        let slopes = std::array::from_fn(|class| 1.0 / f64::from((budget[class] - least[class]).max(1)));
        let mut scarce: Counts = std::array::from_fn(|class| budget[class] - budget[class] / 16);
        scarce[0] = settings.budget.reduced;
        if settings.mode == Mode::ReduceReg {
            scarce[0] = i32::MIN;
        }
        Weights { pressure, parallelism: (1.0 - pressure).abs(), forward, penalty: (1.0 - forward).abs(), least, slopes, scarce, budget }
    }

    /// What a register of each class counts when so many are live.
    pub fn prices(&self, live: Counts) -> [f64; REGISTER_CLASSES] {
        std::array::from_fn(|class| {
            if live[class] > self.scarce[class] {
                return 1.0;
            }
            let used = f64::from((live[class] - self.least[class]).max(0)) * self.slopes[class];
            used.min(1.0) * self.slopes[class]
        })
    }

    pub fn score(&self, measures: &Measures, live: Counts, prices: &[f64; REGISTER_CLASSES]) -> Score {
        let change = measures.change;
        let over = |class: usize| (live[class] + change[class] - self.budget[class]).max(0);
        let overflow = (0..REGISTER_CLASSES).filter(|&class| change[class] > 0).map(over).sum();
        let registers: f64 = change.iter().zip(prices).map(|(&change, price)| f64::from(change) * price).sum();
        let wait = f64::from(measures.wait);
        let waiting = if measures.wait > 0 { 0.5 + 0.5 * wait / (wait + LONG_WAIT) } else { 0.0 };
        let lost = measures.lost + waiting + if measures.crowds { CROWDED } else { 0.0 };
        let secondary = self.slopes[0].max(1.0 / WHOLE_FILE);
        let (registers, parallelism) = (-self.pressure * registers, -self.parallelism * lost);
        let forward = secondary * (self.forward * measures.forward - self.penalty * waiting);
        Score { overflow, registers, parallelism, forward, sum: registers + parallelism + forward }
    }

    /// What a candidate loses whose way to the end is this share of the longest.
    pub fn lost(reach: f64) -> f64 {
        0.5 * (1.0 - reach)
    }
}

impl Score {
    /// Whether it is better than another; none if they are equal.
    pub fn beats(&self, other: &Score) -> Option<bool> {
        let order = other.overflow.cmp(&self.overflow).then(self.sum.total_cmp(&other.sum));
        order.is_ne().then_some(order.is_gt())
    }

    /// Why it is better than another.
    pub fn reason(&self, other: &Score) -> Reason {
        if self.overflow != other.overflow {
            return Reason::PressureOverflow;
        }
        if self.sum == other.sum {
            return Reason::Position;
        }
        let parts = [
            (self.registers - other.registers, Reason::WeightedRegisters),
            (self.parallelism - other.parallelism, Reason::WeightedParallelism),
            (self.forward - other.forward, Reason::WeightedForward),
        ];
        parts.into_iter().max_by(|first, second| first.0.total_cmp(&second.0)).map_or(Reason::Position, |part| part.1)
    }
}
