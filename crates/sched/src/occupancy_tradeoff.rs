//! Estimates whether a schedule with more registers and lower occupancy would be faster.
//!
//! The normal register budget is the largest one that does not reduce the number of resident warps. A larger budget can shorten the
//! schedule, but fewer warps are resident to hide latencies. An exact answer needs register allocation and post-RA scheduling of the
//! whole function for each budget, which multiplies the compile time, and most functions gain next to nothing.
//!
//! Therefore only some *blocks* are scheduled again, once per budget: those that wanted more registers and that are not yet at their lower
//! bound ([`BlockCosts::can_save_cycles`]), and only if the function would gain enough with all of them at their lower bounds
//! ([`OccupancyTradeoff::may_pay`]). Each budget corresponds to a percentage of the resident warps that must stay resident. The cycles and the
//! register peak of all blocks give an estimated [`Score`] per budget; [`OccupancyTradeoff::best_larger_budget`] compares the scores.
//!
//! Example (one block, executed once; the score starts at one cycle):
//!
//! ```text
//! budget     live registers  warps  block cycles  alone  shared          value
//! 100%       30              16     99            100    1 + 99/16 = 7.2  26.8
//!  50%       60               8     39             40    1 + 39/8  = 5.9  15.3   saves 43%: worth trying
//! ```

use crate::pressure::PressureCounts;
use crate::score::Score;

/// Estimated cost of one block under one register budget.
struct BlockEstimate {
    /// Estimated number of executions of the block per execution of the function.
    executions: f64,
    /// Cycles of one execution by a lone warp.
    cycles: f64,
    /// Number of cycles for which one execution keeps its busiest unit busy, or its number of instructions if that is larger.
    busiest_unit_cycles: f64,
}

/// Minimum saving, as a fraction (0 to 1) of a block's cycles, for which the block is scheduled again with more registers.
const MIN_SAVED_CYCLES_FRACTION: f64 = 0.02;

/// A larger register budget is worth trying only if the cycles of a lone warp divided by the number of resident warps are at most this
/// fraction of those of the normal budget. That the warps share the units does not count here. Example: half as many warps, each in 0.7 of
/// the time, have the ratio 0.7 / 0.5 = 1.4. More warps then hide latency better than more registers do.
const MAX_LATENCY_RATIO: f64 = 0.9;

/// A block that was scheduled under the normal budget.
#[derive(Clone, Copy)]
pub(crate) struct BlockCosts {
    /// Estimated number of executions of the block per execution of the function.
    pub executions: f64,
    /// Number of cycles for which one execution keeps its busiest unit busy, or its number of instructions if that is larger.
    pub busiest_unit_cycles: f64,
    /// The outcome under the normal budget.
    pub normal: BlockOutcome,
    /// A lower bound of the cycles of any order, if the block wanted more registers than the budget allows; otherwise `None`.
    pub lower_bound: Option<u64>,
}

impl BlockCosts {
    /// Returns whether more registers could save at least [`MIN_SAVED_CYCLES_FRACTION`] of the cycles of the block.
    pub(crate) fn can_save_cycles(&self) -> bool {
        self.lower_bound.is_some_and(|bound| self.normal.cycles as f64 * (1.0 - MIN_SAVED_CYCLES_FRACTION) > bound as f64)
    }

    /// Returns the cycles of all executions by a lone warp if one execution takes this number of cycles.
    fn total(&self, cycles: u64) -> f64 {
        self.executions * (cycles as f64).max(self.busiest_unit_cycles)
    }
}

/// The estimates of all blocks under one register budget.
struct BudgetEstimate {
    /// Percentage of the warps resident with the original order that stay resident with this budget.
    occupancy_percent: u32,
    /// The budget: maximum number of live registers of each class.
    allowed: PressureCounts,
    /// Maximum number of live general registers over all blocks.
    peak: i32,
    /// The estimate of each block.
    blocks: Vec<BlockEstimate>,
}

impl BudgetEstimate {
    /// Creates the estimate of a budget, to which no block has been added yet.
    fn new(occupancy_percent: u32, allowed: PressureCounts) -> BudgetEstimate {
        BudgetEstimate { occupancy_percent, allowed, peak: 0, blocks: Vec::new() }
    }

    /// Returns the estimated [`Score`] of the function with `warps` resident warps per warp scheduler.
    fn score(&self, warps: u32) -> Score {
        let mut score = Score { alone: 1.0, shared: 1.0 };
        for block in &self.blocks {
            let alone = block.cycles.max(block.busiest_unit_cycles);
            score.add(block.executions, alone, block.busiest_unit_cycles, warps);
        }
        score
    }
}

/// Result of scheduling one block under one budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockOutcome {
    /// Estimated cycles until the last instruction of the block is issued.
    pub cycles: u64,
    /// Maximum number of live general registers.
    pub peak: i32,
}

/// A larger register budget that is estimated to make the function faster, although fewer warps are resident.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReducedOccupancy {
    /// Percentage of the warps resident with the original order that stay resident with this budget.
    pub occupancy_percent: u32,
    /// Estimated saving, as a fraction (0 to 1) of the score of the normal budget.
    pub saved: f64,
}

/// Estimates of a function under its normal register budget and under larger ones.
pub(crate) struct OccupancyTradeoff {
    /// The normal budget, with which the function is scheduled.
    normal_budget: BudgetEstimate,
    /// Larger budgets with lower occupancy.
    larger_budgets: Vec<BudgetEstimate>,
}

impl OccupancyTradeoff {
    /// Creates the estimates of a function to which no block has been added yet. A budget is a pair: percentage of the warps that stay
    /// resident, and maximum number of live registers of each class.
    ///
    /// Budgets in `others` that allow no more general registers than `normal` are dropped.
    pub(crate) fn new(normal: (u32, PressureCounts), others: impl Iterator<Item = (u32, PressureCounts)>) -> OccupancyTradeoff {
        let others = others.filter(|(_, allowed)| allowed[0] > normal.1[0]);
        OccupancyTradeoff {
            normal_budget: BudgetEstimate::new(normal.0, normal.1),
            larger_budgets: others.map(|(warps, allowed)| BudgetEstimate::new(warps, allowed)).collect(),
        }
    }

    /// Returns whether a larger budget may pay off: with the blocks that want more registers at their lower bounds, and all warps resident,
    /// it would hide latency well enough ([`MAX_LATENCY_RATIO`]). `blocks` are the blocks of the function, or those of a part of a large
    /// one.
    pub(crate) fn may_pay(&self, blocks: &[BlockCosts]) -> bool {
        let least = |block: &BlockCosts| match block.lower_bound {
            Some(bound) if block.can_save_cycles() => block.total(bound),
            _ => block.total(block.normal.cycles),
        };
        let normal: f64 = blocks.iter().map(|block| block.total(block.normal.cycles)).sum();
        !self.larger_budgets.is_empty() && blocks.iter().map(least).sum::<f64>() <= MAX_LATENCY_RATIO * normal
    }

    /// Adds the estimates of a block under all budgets.
    ///
    /// If `wants_more_registers` is set, `schedule_with` is called once per larger budget to schedule the block under that budget; otherwise
    /// the outcome under the normal budget is used for all budgets.
    pub(crate) fn add(
        &mut self,
        block: BlockCosts,
        wants_more_registers: bool,
        mut schedule_with: impl FnMut(PressureCounts) -> BlockOutcome,
    ) {
        let BlockCosts { executions, busiest_unit_cycles, normal, .. } = block;
        let note = |budget: &mut BudgetEstimate, outcome: BlockOutcome| {
            budget.peak = budget.peak.max(outcome.peak);
            budget.blocks.push(BlockEstimate { executions, cycles: outcome.cycles as f64, busiest_unit_cycles });
        };
        for budget in &mut self.larger_budgets {
            // List scheduling is a heuristic, so a larger budget can give a longer schedule. The outcome with fewer cycles is used.
            let outcome = if wants_more_registers { schedule_with(budget.allowed) } else { normal };
            note(budget, if outcome.cycles < normal.cycles { outcome } else { normal });
        }
        note(&mut self.normal_budget, normal);
    }

    /// Returns the larger budget with the lowest score, or `None` if no larger budget has a lower score than the normal one. A larger
    /// budget must hide latency better with fewer warps than the normal one does with more ([`MAX_LATENCY_RATIO`]).
    ///
    /// `warps` maps a number of live general registers to the number of resident warps per warp scheduler.
    pub(crate) fn best_larger_budget(&self, warps: impl Fn(i32) -> u32) -> Option<ReducedOccupancy> {
        // Returns two numbers: the score in cycles, and the cycles of a lone warp divided by the number of resident warps. The second
        // number ignores that the warps share the units.
        let rate = |budget: &BudgetEstimate| {
            let warps = warps(budget.peak);
            let score = budget.score(warps);
            (score.value(), score.alone / f64::from(warps.max(1)))
        };
        let (normal, normal_latency) = rate(&self.normal_budget);
        let best = self
            .larger_budgets
            .iter()
            .map(|budget| (budget.occupancy_percent, rate(budget)))
            .filter(|(_, (_, latency))| *latency <= MAX_LATENCY_RATIO * normal_latency)
            .map(|(occupancy_percent, (value, _))| (occupancy_percent, value))
            .min_by(|one, other| one.1.total_cmp(&other.1))?;
        (best.1 < normal).then(|| ReducedOccupancy { occupancy_percent: best.0, saved: 1.0 - best.1 / normal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced_occupancy(normal: BlockOutcome, other: BlockOutcome, warps: impl Fn(i32) -> u32) -> Option<ReducedOccupancy> {
        let block = BlockCosts { executions: 1.0, busiest_unit_cycles: 4.0, normal, lower_bound: Some(other.cycles) };
        let mut tradeoff = OccupancyTradeoff::new((100, [32, 6, 6, 50]), [(50, [64, 6, 6, 50])].into_iter());
        tradeoff.add(block, true, |_| other);
        tradeoff.best_larger_budget(warps)
    }

    /// With the larger budget, a lone warp takes 40 cycles instead of 100. With all resident warps, the latency is 39/8 cycles per warp (eight
    /// warps) instead of 99/16 (sixteen warps); the unit is busy for four cycles in both cases.
    #[test]
    fn lower_occupancy_that_pays_off_is_found() {
        let (normal, other) = (BlockOutcome { cycles: 99, peak: 30 }, BlockOutcome { cycles: 39, peak: 60 });
        let found = reduced_occupancy(normal, other, |peak| if peak > 32 { 8 } else { 16 }).expect("it saves time");
        let shared = |latency: f64| 1.0 + (latency.powi(4) + 4.0_f64.powi(4)).powf(0.25);
        let expected = 1.0_f64 - ((1.0_f64 + 39.0) * shared(39.0 / 8.0) / ((1.0 + 99.0) * shared(99.0 / 16.0))).sqrt();
        assert_eq!(found.occupancy_percent, 50);
        assert!((found.saved - expected).abs() < 1e-9, "{} {expected}", found.saved);
    }

    /// A lone warp takes 0.64 of the time. But with 9 resident warps instead of 16, the time per warp is 0.64 * 16 / 9 = 1.14 times as long
    /// as before.
    #[test]
    fn latency_that_more_warps_hide_better_is_no_reason() {
        let (normal, other) = (BlockOutcome { cycles: 1043, peak: 30 }, BlockOutcome { cycles: 666, peak: 51 });
        assert_eq!(reduced_occupancy(normal, other, |peak| if peak > 32 { 9 } else { 16 }), None);
        assert!(reduced_occupancy(normal, other, |peak| if peak > 32 { 12 } else { 16 }).is_some());
    }

    /// A block of a loop takes 100 cycles and another block 50. With all warps resident, the function must get down to 0.9 of its cycles.
    #[test]
    fn budgets_are_tried_only_if_the_lower_bounds_save_enough() {
        let tradeoff = OccupancyTradeoff::new((100, [32, 6, 6, 50]), [(50, [64, 6, 6, 50])].into_iter());
        let block = |executions, cycles, lower_bound| BlockCosts {
            executions,
            busiest_unit_cycles: 20.0,
            normal: BlockOutcome { cycles, peak: 30 },
            lower_bound,
        };
        let in_loop = |bound| block(10.0, 100, Some(bound));
        assert!(tradeoff.may_pay(&[in_loop(89)]));
        assert!(!tradeoff.may_pay(&[in_loop(91)]));
        // 890 + 50 cycles of 1050 are 0.895, 890 + 500 of 1500 are 0.927.
        assert!(tradeoff.may_pay(&[in_loop(89), block(1.0, 50, None)]));
        assert!(!tradeoff.may_pay(&[in_loop(89), block(10.0, 50, None)]));
        let without_larger_budgets = OccupancyTradeoff::new((100, [32, 6, 6, 50]), [].into_iter());
        assert!(!without_larger_budgets.may_pay(&[in_loop(50)]));
    }

    #[test]
    fn lower_occupancy_that_costs_more_is_rejected() {
        let (normal, other) = (BlockOutcome { cycles: 100, peak: 30 }, BlockOutcome { cycles: 95, peak: 60 });
        assert_eq!(reduced_occupancy(normal, other, |peak| if peak > 32 { 8 } else { 16 }), None);
    }
}
