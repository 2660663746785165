//! Strategy `tensor`: orders regions with matrix products.
//!
//! A matrix product occupies the tensor unit for several cycles and its result takes tens of cycles. Three rules keep the unit busy; the
//! name in parentheses is the reason in a trace:
//!
//! - consecutive products accumulate into different registers, so that none waits for the one before (`OtherAccumulator`);
//! - the loads of the next operands (`LDSM`, `LDS`, `LDGSTS`) are spread between the products, one after every `tensor-spacing` products,
//!   instead of all before them or all after them; loads before the first product are not held back (`LoadSpacing`);
//! - a product that can issue goes before other arithmetic (`Batch`).
//!
//! Among products that are equal by these rules, the longer critical path decides. The waits for asynchronous copies (`LDGDEPBAR`,
//! `DEPBAR`) are neither products nor loads, so they come after the products that can issue. O(n log n) for *n* items. Regions with fewer
//! than two products are scheduled by backend B. The order is used if it is shorter than the original one on the shared clock.
//!
//! Example: two accumulators, `P0 P1` and `Q0 Q1`, and two loads (`LDGSTS`) that can issue after `P0`.
//!
//! ```text
//! original   P0 P1 Q0 Q1 L0 L1      P1 waits for P0, Q1 for Q0
//! tensor     P0 Q0 L0 P1 Q1 L1      products alternate, a load after every second one
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | products | `HMMA`, `BMMA`, `BGMMA` | everything on the tensor unit | warp-group products overlap with other code in the same way |
//! | grouping | consecutive products | consecutive, with loads in between | the load unit is idle otherwise |

use oriole_hardware::units::Unit;
use oriole_isa::Opcode;

use super::engine::{Candidate, MAX_CRITERIA, Priority, ProposedOrder, RegionAnalysis, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted;
use super::weighted::registers::BudgetedGroups;
use crate::code::OrderEffect;
use crate::pressure::PressureTracker;

/// Minimum number of matrix products in a region for which this strategy changes the order.
const MIN_MATRIX_PRODUCTS: usize = 2;

/// The priority function: fewer stall cycles, then loads that are due, then matrix products, then matrix products with another accumulator,
/// then the longer critical path.
struct ByMatrixProducts {
    /// Number of matrix products to issue between two loads.
    products_per_load: u32,
    /// Number of matrix products issued since the last load.
    products_since_load: u32,
    /// Step at which the last matrix product issued, counted from 1; 0 if none has issued.
    last_product_step: u32,
}

/// Returns whether an item is a matrix product.
fn is_matrix_product(analysis: &RegionAnalysis<'_>, node: u32) -> bool {
    analysis.unit(node) == Unit::Tensor.index()
}

/// Returns whether an item counts as a load: a memory access with a scoreboard that an item of the region waits for, or an asynchronous
/// copy to shared memory (`LDGSTS`). Such items are assumed to load operands of later matrix products.
fn is_load(analysis: &RegionAnalysis<'_>, node: u32) -> bool {
    let item = analysis.item(node);
    matches!(item.effect, OrderEffect::Access(_)) && (analysis.sets_scoreboard[node as usize] || item.opcode == Some(Opcode::LDGSTS))
}

impl Priority for ByMatrixProducts {
    const CRITERION_REASONS: &'static [Reason] =
        &[Reason::Cost, Reason::LoadSpacing, Reason::Batch, Reason::OtherAccumulator, Reason::DependencyCycle];

    /// Returns the value of each criterion for a candidate; higher values win.
    fn criterion_values(&self, analysis: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA] {
        let (product, load) = (is_matrix_product(analysis, candidate.node), is_load(analysis, candidate.node));
        // A load is due after `products_per_load` matrix products; until then matrix products come first. Before the first one, loads are
        // always due.
        let is_due = self.last_product_step == 0 || self.products_since_load >= self.products_per_load;
        let place = i64::from(load && is_due) - i64::from(load && !is_due);
        // If the latest predecessor of a matrix product is the previous matrix product, it is assumed to read its result, so that both have
        // the same accumulator.
        let alternates = !product || candidate.last_predecessor_step == 0 || candidate.last_predecessor_step != self.last_product_step;
        [-i64::from(candidate.stall), place, product.into(), alternates.into(), candidate.height.into()]
    }

    /// After a candidate has issued, updates the number of matrix products since the last load and the step of the last matrix product.
    fn on_issue(&mut self, analysis: &RegionAnalysis<'_>, candidate: &Candidate) {
        if is_matrix_product(analysis, candidate.node) {
            (self.products_since_load, self.last_product_step) = (self.products_since_load + 1, candidate.step);
        } else if is_load(analysis, candidate.node) {
            self.products_since_load = 0;
        }
    }
}

/// Orders regions with matrix products so that the tensor unit stays busy; the strategy `tensor` of the command line.
pub(super) struct TensorScheduling;

impl Strategy for TensorScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "tensor"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "matrix products: alternates accumulators and spreads loads between products"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[
            Reason::OnlyOne,
            Reason::PressureOverflow,
            Reason::Registers,
            Reason::Position,
            Reason::Cost,
            Reason::LoadSpacing,
            Reason::Batch,
            Reason::OtherAccumulator,
            Reason::DependencyCycle,
            Reason::SourceOrder,
            Reason::WeightedRegisters,
            Reason::WeightedParallelism,
            Reason::WeightedForward,
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
}

/// Schedules a region by the strategy `tensor`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let source = ProposedOrder::original(region, groups.as_ref(), Reason::SourceOrder);
    let new = order_by_products(region, groups.as_ref()).unwrap_or_else(|| weighted::propose_order(region, groups.as_ref()));
    let exceeded_scarcity = new.exceeds_scarcity(region);
    let best = if new.improves_on(&source, region) { new } else { source };
    Schedule { exceeded_scarcity, ..best.into_schedule(region, tracker, SearchOutcome::None) }
}

/// Returns the order by the priority [`ByMatrixProducts`]; `None` if the region has fewer than [`MIN_MATRIX_PRODUCTS`] matrix products.
pub(super) fn order_by_products(region: &Region<'_>, groups: Option<&BudgetedGroups>) -> Option<ProposedOrder> {
    let analysis = RegionAnalysis::new(region);
    let products = (0..region.graph.items() as u32).filter(|&node| is_matrix_product(&analysis, node)).count();
    let spacing = region.settings.knobs.tensor_spacing;
    (products >= MIN_MATRIX_PRODUCTS)
        .then(|| run(&analysis, groups, &mut ByMatrixProducts { products_per_load: spacing, products_since_load: 0, last_product_step: 0 }))
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::super::settings::AllocationStage;
    use super::*;

    /// Creates a test region for scheduling after register allocation.
    fn test_region(lines: &[&str]) -> TestRegion {
        let mut test_region = TestRegion::new(lines);
        test_region.settings.stage = AllocationStage::Post;
        test_region
    }

    #[test]
    fn products_of_two_accumulators_alternate() {
        let lines = [
            "HMMA.16816.F32 R4, R20, R24, R4",
            "HMMA.16816.F32 R4, R28, R32, R4",
            "HMMA.16816.F32 R8, R20, R36, R8",
            "HMMA.16816.F32 R8, R28, R38, R8",
        ];
        let test_region = test_region(&lines);
        let (schedule, _) = test_region.run(&TensorScheduling, &[], &[]);
        assert_eq!(schedule.order, [0, 2, 1, 3]);
        assert!(schedule.length.is_shorter_than(test_region.original_length()));
    }

    #[test]
    fn loads_are_spread_between_products() {
        let product = |at: usize| format!("HMMA.16816.F32 R{}, R100, R104, R{}", 4 + 4 * at, 4 + 4 * at);
        let mut lines: Vec<String> = (0..6).map(product).collect();
        lines.extend((0..3).map(|at| format!("LDS R{}, [R1+{:#x}]", 200 + at, 4 * at)));
        lines.extend((0..3).map(|at| format!("FADD R{}, R{}, R2", 210 + at, 200 + at)));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (schedule, _) = test_region(&lines).run(&TensorScheduling, &[], &[]);
        let loads: Vec<usize> = (6..9).filter_map(|load| schedule.order.iter().position(|&position| position == load)).collect();
        assert!(loads.windows(2).all(|pair| pair[1] > pair[0] + 1), "no two loads are adjacent: {:?}", schedule.order);
    }

    #[test]
    fn code_without_products_gets_the_order_of_backend_b() {
        let lines = ["LDS R10, [R0]", "FADD R11, R10, R10", "LDS R20, [R1]", "FADD R21, R20, R20"];
        let test_region = test_region(&lines);
        let (schedule, _) = test_region.run(&TensorScheduling, &[], &[]);
        let (other, _) = test_region.run(&weighted::WeightedScheduling, &[], &[]);
        assert_eq!(schedule.order, other.order);
    }
}
