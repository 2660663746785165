//! Schedules one block: finds an order of its regions within a register budget, and applies it.

use super::live::{LiveValues, elementwise_max, peak_registers_of_order};
use super::scratch::BlockScratch;
use super::{ScheduleError, Scheduler, Stats};
use crate::backend::{self, AllocationStage, Backend, Budget, CarriedEdge, Knobs, Region, ScheduleMode, SearchOutcome, Settings};
use crate::carried::carried_edges;
use crate::check::{self};
use crate::code::SchedCode;
use crate::in_flight::InFlightResults;
use crate::occupancy_tradeoff::BlockOutcome;
use crate::pressure::{PressureCounts, PressureTracker};
use crate::report::trace::{AttemptVerdict, TracedRegion};
use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function};
use std::ops::Range;

/// Number of general registers by which the budget of the strategy `near-source` is smaller than the register target, if the original order
/// needs more registers than exist. These registers are a reserve for the gaps that aligned register tuples leave.
const SPARE_REGISTERS: i32 = 8;

/// An order near the old one replaces that of the backend if it saves at least one in this number of cycles.
const CYCLES_PER_SAVED_CYCLE: u64 = 20;

/// Maximum number of times that a block is scheduled with a smaller budget because its order exceeded the budget by little.
const MAX_SMALLER_BUDGETS: usize = 2;

/// A new order of a block, with its estimated time.
pub(super) struct BlockOrder {
    /// Positions of the items in the code, in the new order.
    pub(super) order: Vec<usize>,
    /// Estimated cycles of the old order.
    pub(super) cycles_before: u64,
    /// Estimated cycles of the new order.
    pub(super) cycles: u64,
    /// Lower bound on the cycles of any order.
    pub(super) lower_bound_cycles: u64,
    /// Whether an order that the backend tried has more live general registers than [`Budget::scarce_above`], so that a larger budget may
    /// give a faster order.
    exceeded_scarcity: bool,
    /// Number of regions whose order was proved to be the shortest, and number of regions that were searched without such a proof.
    pub(super) proved_and_unproved: (usize, usize),
    /// The decisions of each region, if they are traced.
    pub(super) regions: Vec<TracedRegion>,
}

/// The result of the search for an order of a block within a register budget.
pub(super) struct BudgetSearchResult {
    /// The new order. `None` if every order that was tried needs too many registers.
    pub(super) attempt: Option<BlockOrder>,
    /// Estimated cycles of the new order, or of the old order if there is no new one.
    pub(super) cycles: u64,
    /// Lower bound on the cycles of any order.
    pub(super) lower_bound_cycles: u64,
    /// Maximum number of live registers of each class in the new order; `None` if there is no new order.
    pub(super) peak: Option<PressureCounts>,
    /// Whether the budget limited an order that was tried, so that a larger budget may give a faster order.
    pub(super) wanted_more_registers: bool,
    /// All attempts for the trace, each with its mode, its regions and its verdict; empty unless tracing is on.
    pub(super) traced_attempts: Vec<(ScheduleMode, Vec<TracedRegion>, AttemptVerdict)>,
}

impl Scheduler<'_> {
    /// Schedules a block with at most `max_live` live registers of each class. Returns its estimated cycles and its maximum number of live
    /// registers.
    pub(super) fn schedule_with_budget(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        max_live: PressureCounts,
    ) -> BlockOutcome {
        let untraced = Scheduler { trace: false, ..*self };
        let settings = untraced.settings(self.mode, AllocationStage::Pre, Budget::new(self.mode, max_live, 0, &self.knobs));
        scratch.tracker.enter_block(code, range.clone(), live.as_block_liveness());
        let attempt = untraced.schedule_regions(code, range, scratch, &settings);
        let peak = peak_registers_of_order(code, range, &mut scratch.tracker, live.as_block_liveness(), attempt.order.iter().copied());
        BlockOutcome { cycles: attempt.cycles, peak: peak[0] }
    }

    /// Searches for an order of a block within a register target. `old_peak` is the number of registers of each class that the old order
    /// needs; the new order may need as many. An order within the target is searched first if the old order needs more general registers
    /// than exist, so that it would spill, or more than the user requested. If that fails and the old order would spill, an order near it
    /// with fewer registers is searched.
    pub(super) fn find_block_order(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        target: PressureCounts,
        old_peak: PressureCounts,
    ) -> BudgetSearchResult {
        let max_live = elementwise_max(target, old_peak);
        let mut traced_attempts = Vec::new();
        let would_spill = old_peak[0] > self.register_limit as i32;
        if would_spill || self.knobs.register_target.is_some_and(|requested| old_peak[0] > requested) {
            let mut within_target = max_live;
            within_target[0] = target[0];
            let found = self.find_order_within_budget(code, range, scratch, live, within_target);
            if found.attempt.is_some() {
                return found;
            }
            traced_attempts = found.traced_attempts;
            if would_spill && let Some(mut found) = self.find_near_source_order(code, range, scratch, live, target, old_peak) {
                found.traced_attempts.splice(0..0, traced_attempts);
                return found;
            }
        }
        let mut found = self.find_order_within_budget(code, range, scratch, live, max_live);
        if self.tries_near_source
            && found.wanted_more_registers
            && let Some(near_source) = self.find_faster_near_source_order(code, range, scratch, live, max_live, &found)
        {
            if let Some((.., verdict)) = found.traced_attempts.last_mut() {
                *verdict = AttemptVerdict::Slower { cycles: found.cycles, replaced_by: near_source.cycles };
            }
            traced_attempts.append(&mut found.traced_attempts);
            // With more registers the backend's own order would be used, so the cycles of that order, not those of the faster one, tell
            // whether more registers would save time.
            found = BudgetSearchResult { cycles: found.cycles, ..near_source };
        }
        found.traced_attempts.splice(0..0, traced_attempts);
        found
    }

    /// Searches for an order of a block near its old order ([`Backend::NEAR_SOURCE`]) that fits into the same budget as the order `found`
    /// and saves at least one in [`CYCLES_PER_SAVED_CYCLE`] of its cycles. Returns `None` if there is none. Where the budget limits the
    /// order, the backend keeps few registers live by finishing one chain of dependent instructions after the other, and stalls between
    /// them; near the old order the same registers often suffice for several chains at a time.
    fn find_faster_near_source_order(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        max_live: PressureCounts,
        found: &BudgetSearchResult,
    ) -> Option<BudgetSearchResult> {
        let is_faster = |cycles: u64| cycles + found.cycles / CYCLES_PER_SAVED_CYCLE <= found.cycles;
        if !is_faster(found.lower_bound_cycles) {
            return None;
        }
        let (attempt, peak) = self.order_near_source(code, range, scratch, live, Budget::new(self.mode, max_live, 0, &self.knobs));
        let fits = peak.iter().zip(max_live).all(|(peak, max)| *peak <= max);
        (fits && is_faster(attempt.cycles)).then(|| BudgetSearchResult::near_source(attempt, peak, found.wanted_more_registers, self.trace))
    }

    /// Orders a block by [`Backend::NEAR_SOURCE`]. Returns the order and its maximum number of live registers of each class.
    fn order_near_source(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        budget: Budget,
    ) -> (BlockOrder, PressureCounts) {
        let near_source = Scheduler { backend: Backend::NEAR_SOURCE, mode: ScheduleMode::Ilp, ..*self };
        let settings = near_source.settings(near_source.mode, AllocationStage::Pre, budget);
        scratch.tracker.enter_block(code, range.clone(), live.as_block_liveness());
        let usual = std::mem::replace(&mut scratch.scheduler, near_source.backend.strategy().scheduler());
        let attempt = near_source.schedule_regions(code, range, scratch, &settings);
        scratch.scheduler = usual;
        let peak = peak_registers_of_order(code, range, &mut scratch.tracker, live.as_block_liveness(), attempt.order.iter().copied());
        (attempt, peak)
    }

    /// Searches for an order of a block near its old order ([`Backend::NEAR_SOURCE`]). Returns `None` if the order that is found does not
    /// need fewer general registers than the old one, or if it needs more registers of another class than both the target and the old
    /// order.
    fn find_near_source_order(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        target: PressureCounts,
        old_peak: PressureCounts,
    ) -> Option<BudgetSearchResult> {
        let budget = Budget::new(ScheduleMode::Ilp, target, SPARE_REGISTERS, &self.knobs);
        let (attempt, peak) = self.order_near_source(code, range, scratch, live, budget);
        let fits = (1..peak.len()).all(|class| peak[class] <= target[class].max(old_peak[class]));
        (fits && peak[0] < old_peak[0]).then(|| BudgetSearchResult::near_source(attempt, peak, false, self.trace))
    }

    /// Searches for an order of a block that needs at most `max_live` registers of each class: first in the mode of the pass; if that order
    /// exceeds the budget by little, with smaller budgets; then in the mode `reduce-reg`.
    fn find_order_within_budget(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        max_live: PressureCounts,
    ) -> BudgetSearchResult {
        let (mut traced_attempts, mut is_tight, mut cycles_before, mut lower_bound_cycles) = (Vec::new(), false, 0, 0);
        let mut smaller_budgets = 0;
        let fallback = (ScheduleMode::ReduceReg, Knobs { tighten_by: Some(0), ..self.knobs });
        // A stack of attempts to make. Each has a mode, parameters, and a number of registers by which the budget is reduced.
        let mut attempts = vec![(fallback.0, fallback.1, 0), (self.mode, self.knobs, 0)];
        while let Some((mode, knobs, committed)) = attempts.pop() {
            let settings = self.settings(mode, AllocationStage::Pre, Budget::new(mode, max_live, committed, &knobs));
            scratch.tracker.enter_block(code, range.clone(), live.as_block_liveness());
            let mut attempt = self.schedule_regions(code, range, scratch, &settings);
            let found = peak_registers_of_order(code, range, &mut scratch.tracker, live.as_block_liveness(), attempt.order.iter().copied());
            is_tight |= mode != ScheduleMode::ReduceReg && (attempt.exceeded_scarcity || found[0] > settings.budget.scarce_above);
            let fits = found.iter().zip(max_live).all(|(found, max)| *found <= max);
            if self.trace {
                let verdict =
                    if fits { AttemptVerdict::Taken } else { AttemptVerdict::TooManyRegisters { found: found[0], allowed: max_live[0] } };
                traced_attempts.push((mode, std::mem::take(&mut attempt.regions), verdict));
            }
            if fits {
                return BudgetSearchResult {
                    cycles: attempt.cycles,
                    lower_bound_cycles: attempt.lower_bound_cycles,
                    attempt: Some(attempt),
                    peak: Some(found),
                    wanted_more_registers: is_tight,
                    traced_attempts,
                };
            }
            // An order that exceeds the budget by a few registers usually fits if it is scheduled with a budget that is smaller by that
            // number of registers, or by twice as many. If that fails, the mode `reduce-reg` accepts more cycles to save registers.
            let excess = found[0] - max_live[0];
            let is_small = (1..=max_live[0] / 4).contains(&excess);
            if mode != ScheduleMode::ReduceReg && is_small && smaller_budgets < MAX_SMALLER_BUDGETS {
                attempts.push((mode, knobs, (2 * committed).max(committed + excess + 1)));
                smaller_budgets += 1;
            }
            (is_tight, cycles_before, lower_bound_cycles) = (true, attempt.cycles_before, attempt.lower_bound_cycles);
        }
        BudgetSearchResult {
            attempt: None,
            cycles: cycles_before,
            lower_bound_cycles,
            peak: None,
            wanted_more_registers: is_tight,
            traced_attempts,
        }
    }

    /// Returns the dependences of a block on its previous execution, if the strategy uses them and the block is a loop with one region;
    /// otherwise none. `sources` creates a function that maps a register that is read at the start of the block to the register that holds
    /// this value at the end of the previous execution.
    pub(super) fn carried_dependences<F: Fn(u32) -> Option<u32>>(
        &self,
        code: &SchedCode,
        (block, range): (Block, &Range<usize>),
        flow: &ControlFlow,
        sources: impl FnOnce() -> F,
    ) -> Vec<CarriedEdge> {
        let strategy = self.backend.strategy();
        if !strategy.uses_carried_edges() || !flow.successors(block).contains(&block) {
            return Vec::new();
        }
        match &code.regions(range.clone(), strategy.max_region_instructions())[..] {
            [region] => carried_edges(code, region.clone(), self.model, sources()),
            _ => Vec::new(),
        }
    }

    /// Schedules the regions of a block one after the other, and returns the resulting order of the whole block. A region whose new order
    /// is not faster keeps its old order, unless the mode is `reduce-reg`.
    pub(super) fn schedule_regions(
        &self,
        code: &SchedCode,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        settings: &Settings,
    ) -> BlockOrder {
        let BlockScratch { builder, tracker, scheduler, in_flight, carried_edges } = scratch;
        in_flight.restart_block();
        let strategy = self.backend.strategy();
        let mut attempt = BlockOrder {
            order: Vec::with_capacity(range.len()),
            cycles_before: 0,
            cycles: 0,
            lower_bound_cycles: 0,
            exceeded_scarcity: false,
            proved_and_unproved: (0, 0),
            regions: Vec::new(),
        };
        for region in code.regions(range.clone(), strategy.max_region_instructions()) {
            (attempt.order.len() + range.start..region.start).for_each(|barrier| attempt.add_barrier(code, barrier, tracker, in_flight));
            let graph = builder.build_with_in_flight_results(code, region.clone(), &|register| in_flight.cycles_until_result(register));
            let before = backend::estimate(code, &graph, self.costs, region.clone());
            attempt.cycles_before += u64::from(before.issued);
            // The new order is used without a comparison of cycles in two cases: the mode saves registers rather than cycles, or the
            // backend itself returns the old order if it finds no better one.
            let always_use = settings.mode == ScheduleMode::ReduceReg || strategy.falls_back_to_original();
            // Even if no order can be faster, the backend must run if the caller needs its report on whether more registers would have
            // helped.
            let needs_register_report = settings.stage == AllocationStage::Pre && strategy.reports_register_demand();
            let lower_bound = backend::lower_bound(code, &graph, self.costs);
            attempt.lower_bound_cycles += u64::from(lower_bound.issued);
            // The old order is at its lower bound, so no order is faster. Only the register pressure has to be tracked.
            if !always_use && !needs_register_report && !self.trace && !lower_bound.is_shorter_than(before) {
                attempt.cycles += u64::from(before.issued);
                tracker.enter_region(code, region.clone());
                region.clone().for_each(|position| tracker.step(code, &code.items[position]));
                attempt.add_region(code, region, in_flight);
                continue;
            }
            let schedule = scheduler(&Region { code, graph: &graph, costs: self.costs, settings, carried: carried_edges }, tracker);
            let is_better = always_use || schedule.length.is_shorter_than(before);
            attempt.exceeded_scarcity |= schedule.exceeded_scarcity;
            match schedule.search {
                SearchOutcome::None => {}
                SearchOutcome::Optimal => attempt.proved_and_unproved.0 += 1,
                SearchOutcome::Ended | SearchOutcome::TooLarge => attempt.proved_and_unproved.1 += 1,
            }
            attempt.cycles += u64::from(if is_better { schedule.length.issued } else { before.issued });
            if self.trace {
                let start = region.start - range.start;
                attempt.regions.push(TracedRegion::new(&schedule, range.start, start, before, is_better));
            }
            if is_better {
                attempt.add_region(code, schedule.order, in_flight);
            } else {
                attempt.add_region(code, region, in_flight);
            }
        }
        (attempt.order.len() + range.start..range.end).for_each(|barrier| attempt.add_barrier(code, barrier, tracker, in_flight));
        attempt
    }

    /// Applies the new order to the block and updates the statistics. Without an attempt, the block keeps its old order. Returns the old
    /// positions of the items in their new order; empty if the order has not changed.
    pub(super) fn apply_order(
        &self,
        function: &mut Function,
        code: &SchedCode,
        block: Block,
        range: &Range<usize>,
        attempt: Option<BlockOrder>,
        stats: &mut Stats,
    ) -> Result<Vec<usize>, ScheduleError> {
        let Some(attempt) = attempt else { return Ok(Vec::new()) };
        if self.verify {
            check::check(code, range.clone(), &attempt.order).map_err(|violation| ScheduleError { block, violation })?;
        }
        stats.cycles_before += attempt.cycles_before;
        stats.cycles_after += attempt.cycles;
        stats.proved_and_unproved =
            (stats.proved_and_unproved.0 + attempt.proved_and_unproved.0, stats.proved_and_unproved.1 + attempt.proved_and_unproved.1);
        if attempt.order.iter().copied().eq(range.clone()) {
            return Ok(Vec::new());
        }
        stats.blocks += 1;
        let old = std::mem::take(&mut function.blocks[block].insts);
        function.blocks[block].insts = attempt.order.iter().map(|position| old[position - range.start]).collect();
        Ok(attempt.order)
    }
}

impl BudgetSearchResult {
    /// Describes an order of [`Backend::NEAR_SOURCE`] that is used.
    fn near_source(mut attempt: BlockOrder, peak: PressureCounts, wanted_more_registers: bool, trace: bool) -> BudgetSearchResult {
        let regions = std::mem::take(&mut attempt.regions);
        BudgetSearchResult {
            cycles: attempt.cycles,
            lower_bound_cycles: attempt.lower_bound_cycles,
            attempt: Some(attempt),
            peak: Some(peak),
            wanted_more_registers,
            traced_attempts: if trace { vec![(ScheduleMode::Ilp, regions, AttemptVerdict::Taken)] } else { Vec::new() },
        }
    }
}

impl BlockOrder {
    /// Appends the items of a region, in their new order, to the order of the block, and updates the results in flight.
    fn add_region(&mut self, code: &SchedCode, order: impl IntoIterator<Item = usize>, in_flight: &mut InFlightResults<'_>) {
        let start = self.order.len();
        self.order.extend(order);
        self.order[start..].iter().for_each(|&position| in_flight.step(code, &code.items[position]));
    }

    /// Appends a scheduling barrier to the order of the block, and updates the register pressure and the results in flight.
    fn add_barrier(&mut self, code: &SchedCode, barrier: usize, tracker: &mut PressureTracker, in_flight: &mut InFlightResults<'_>) {
        tracker.step_barrier(code, barrier);
        self.add_region(code, [barrier], in_flight);
    }
}
