//! Schedules functions: before register allocation on SSA values, and afterwards (phase 110) on physical registers.
//!
//! Each block is scheduled separately, region by region ([`Code::regions`]). The new order of a region is used only if it is estimated to
//! be faster than the old order. Before register allocation there is a second condition, for the whole block: the new order must not need
//! more registers than the register target or than the old order. Otherwise the block is scheduled again in the mode that reduces
//! registers, and if that does not fit either, the block keeps its old order. If the old order needs more registers than there are, orders
//! within the target are tried first.
//!
//! **Register target.** Registers that do not reduce occupancy are free, so the target is the largest number of registers with which as
//! many warps stay resident as with the old order ([`crate::report::target`]). More registers are worth it only if the schedule is enough
//! faster to make up for the lost warps: the caller can request a schedule that keeps only a percentage of the warps
//! ([`Scheduler::occupancy_percent`]) and compare the two by [`crate::score`]. [`Stats::tradeoff`] predicts whether such a schedule is
//! worth trying ([`crate::occupancy_tradeoff`]).

mod conflicts;

use std::ops::Range;

use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::Launch;
use oriole_ir::analysis::{ControlFlow, Liveness, Loops};
use oriole_ir::{Block, Function, Inst};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use crate::backend::{
    self, AllocationStage, Backend, Budget, CarriedEdge, ChangeReason, CodeChange, Knobs, RearrangeContext, Region, RegionScheduler,
    ScheduleMode, Search, Settings, has_late_accesses,
};
use crate::calls::CallCosts;
use crate::carried::carried_edges;
use crate::check::{self, OrderViolation};
use crate::code::products::ProductRegisters;
use crate::code::{Code, REGISTER_CLASSES, from_ir, from_machine};
use crate::graph::Builder;
use crate::in_flight::{InFlightResults, phi_registers};
use crate::occupancy_tradeoff::{BlockOutcome, OccupancyTradeoff, ReducedOccupancy, can_save};
use crate::pressure::{BlockLiveness, Counts, PressureTracker};
use crate::report::target::{Bounds, RegisterTarget};
use crate::report::trace::{AttemptVerdict, TracedAttempt, TracedRegion};
use crate::resource::Costs;
use crate::score::LOOP_MODEL;

/// Number of predicate registers of a thread, and of uniform predicate registers of a warp.
const PREDICATES: i32 = 7;

/// The scheduling pass: the hardware to schedule for, and the options.
#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    /// The latency model of the target.
    pub model: &'a Model,
    /// For each latency class: its functional unit, and the cycles for which an instruction keeps the unit busy.
    pub costs: &'a Costs,
    /// Limits of the multiprocessor.
    pub machine: &'a Machine,
    /// The scheduling algorithm for a region.
    pub backend: Backend,
    /// The optimization goal.
    pub mode: ScheduleMode,
    /// Numeric parameters of the schedulers.
    pub knobs: Knobs,
    /// Maximum number of general registers that the code may name.
    pub register_limit: u32,
    /// General registers that the hardware allocates to a thread beyond those that its code can name.
    pub hidden_registers: u32,
    /// Maximum number of uniform registers that the code may name.
    pub uniform_limit: u32,
    /// Estimated execution times of called functions; `None` if they are unknown.
    pub calls: Option<&'a CallCosts>,
    /// Resources of a thread block besides registers; `None` if the block size is not declared.
    pub launch: Option<Launch>,
    /// Percentage of the warps resident with the original order that must stay resident; 100 keeps the occupancy.
    pub occupancy_percent: u32,
    /// Smaller values of `occupancy_percent` that the caller would accept for a faster schedule.
    pub lower_occupancy_percents: &'a [u32],
    /// Whether to verify every new order with [`crate::check`].
    pub verify: bool,
    /// Whether to record the reason of every scheduling decision.
    pub trace: bool,
}

/// Statistics of a scheduling pass over a function.
#[derive(Clone, Default, Debug)]
pub struct Stats {
    /// Number of blocks with a new order.
    pub blocks: usize,
    /// Estimated cycles before the pass, each block executed once. Blocks that keep their old order for lack of registers do not count.
    pub cycles_before: u64,
    /// Estimated cycles of the same blocks after the pass.
    pub cycles_after: u64,
    /// Maximum number of live general registers before the pass; 0 after register allocation.
    pub live_before: i32,
    /// Maximum number of live general registers after the pass; 0 after register allocation.
    pub live_after: i32,
    /// Number of regions whose order was searched and proved to be the shortest, and number of regions that were searched without such a
    /// proof.
    pub proved_and_unproved: (usize, usize),
    /// The reduced-occupancy budget that pays off, if any.
    pub tradeoff: Option<ReducedOccupancy>,
    /// The register target. `None` after register allocation.
    pub target: Option<RegisterTarget>,
    /// What the strategy changed before it ordered the regions: instructions moved between blocks, or removed.
    pub changes: Vec<CodeChange>,
    /// Every attempt at a block with the reasons of its decisions, if [`Scheduler::trace`] is set.
    pub attempts: Vec<TracedAttempt>,
}

/// The error for an illegal new order, which the checker found. It is a bug in the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleError {
    /// The block with the illegal order.
    pub block: Block,
    /// The violated constraint.
    pub violation: OrderViolation,
}

impl std::fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the new order of {:?} is wrong: {}", self.block, self.violation)
    }
}

impl std::error::Error for ScheduleError {}

/// Returns the blocks of a function, divided into chunks of at most `largest` instructions; a larger block is a chunk of its own. Tables
/// are sized by chunk, not by function, to bound memory.
fn chunks(function: &Function, largest: usize) -> Vec<Vec<Block>> {
    let mut chunks: Vec<Vec<Block>> = Vec::new();
    let mut size = 0_usize;
    for &block in &function.layout {
        let length = function.blocks[block].insts.len();
        if chunks.is_empty() || size.saturating_add(length) > largest {
            chunks.push(Vec::new());
            size = 0;
        }
        size += length;
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(block);
        }
    }
    chunks
}

/// The items of one chunk of blocks, and the range of items of each block.
struct ChunkCode {
    /// The items of all blocks of the chunk.
    code: Code,
    /// The blocks, each with the range of its items.
    blocks: Vec<(Block, Range<usize>)>,
}

impl ChunkCode {
    /// Builds the items of a chunk; `push` appends the item of one instruction.
    fn new(function: &Function, blocks: &[Block], mut code: Code, calls: Option<&CallCosts>, push: impl Fn(&mut Code, Inst)) -> ChunkCode {
        let mut ranges = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let start = code.items.len();
            for &inst in &function.blocks[block].insts {
                let call = calls.zip(function.callee(inst)).and_then(|(calls, callee)| calls.cycles(callee));
                code.calls.extend(call.map(|cycles| (code.items.len() as u32, cycles)));
                push(&mut code, inst);
            }
            ranges.push((block, start..code.items.len()));
        }
        ChunkCode { code, blocks: ranges }
    }

    /// Walks the blocks that end with a back edge, in their original order, to find the results in flight along the back edges: the loop
    /// headers are scheduled before these blocks.
    fn walk_latches(
        &self,
        function: &Function,
        flow: &ControlFlow,
        in_flight: &mut InFlightResults<'_>,
        numbers: Option<&from_ir::ValueNumbers>,
    ) {
        for (block, range) in &self.blocks {
            let is_back_edge = |to: &Block| flow.position(*to) <= flow.position(*block);
            if flow.successors(*block).iter().any(is_back_edge) {
                in_flight.enter_block(function, flow, *block, numbers);
                in_flight.finish_block(&self.code, *block, range.clone());
            }
        }
    }
}

/// Working state that is reused from block to block, to avoid allocations.
struct BlockScratch<'a, 'm> {
    /// Builds dependency graphs.
    builder: Builder<'m>,
    /// Counts live registers.
    tracker: PressureTracker,
    /// The scheduler of the backend, which is called for each region.
    scheduler: RegionScheduler,
    /// The results that are in flight at the current position.
    in_flight: &'a mut InFlightResults<'m>,
    /// Dependences of the current block on its previous execution, if its only region is the body of a loop.
    carried: Vec<CarriedEdge>,
}

/// A new order of a block, with its estimated time.
struct BlockOrder {
    /// Positions in the code, in the new order.
    order: Vec<usize>,
    /// Estimated cycles of the old order.
    cycles_before: u64,
    /// Estimated cycles of the new order.
    cycles: u64,
    /// Lower bound on the cycles of any order.
    lower_bound_cycles: u64,
    /// Whether the backend reported that more registers would have given a faster order.
    exceeded_scarcity: bool,
    /// Number of regions whose order was proved to be the shortest, and number of regions that were searched without such a proof.
    proved_and_unproved: (usize, usize),
    /// The decisions of each region, if they are traced.
    regions: Vec<TracedRegion>,
}

/// The result of the search for an order of a block within a register budget.
struct BudgetSearch {
    /// The new order. `None` if every order that was tried needs too many registers.
    attempt: Option<BlockOrder>,
    /// Estimated cycles of the new order, or of the old order if there is no new one.
    cycles: u64,
    /// Lower bound on the cycles of any order.
    lower_bound_cycles: u64,
    /// Maximum number of live registers of each class in the new order; `None` if there is no new order.
    peak: Option<Counts>,
    /// Whether the backend would have used more registers than allowed; then a larger budget may give a faster order.
    wanted_more_registers: bool,
    /// All attempts, for the trace; empty unless tracing is on.
    traced_attempts: Vec<(ScheduleMode, Vec<TracedRegion>, AttemptVerdict)>,
}

impl Scheduler<'_> {
    /// Schedules a function on SSA values, before register allocation, and returns statistics.
    pub fn run_on_values(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let changes = self.rearrange(function);
        let flow = ControlFlow::compute(function);
        let liveness = Liveness::compute(function, &flow);
        let numbers = from_ir::ValueNumbers::new(function);
        let products = ProductRegisters::on_values(function, &numbers);
        let mut tracker = PressureTracker::new(numbers.empty().groups().len());
        let chunk_code_of = |function: &Function, chunk: &[Block]| {
            ChunkCode::new(function, chunk, numbers.empty(), self.calls, |code, inst| {
                from_ir::push_values(code, &numbers, function, &products, inst);
            })
        };
        let chunks = chunks(function, self.backend.strategy().chunk_threshold());
        let mut old_peaks: IndexVec<Block, Counts> = IndexVec::filled(function.blocks.len(), [0; REGISTER_CLASSES]);
        let mut only_chunk_code = None;
        let mut in_flight = InFlightResults::new(self.model, numbers.empty().registers(), function);
        for chunk in &chunks {
            let chunk_code = chunk_code_of(function, chunk);
            chunk_code.walk_latches(function, &flow, &mut in_flight, Some(&numbers));
            for (block, range) in &chunk_code.blocks {
                let live = LiveValues::of_block(function, &numbers, &liveness, *block);
                old_peaks[*block] = peak_pressure(&chunk_code.code, range, &mut tracker, live.as_liveness(), range.clone());
            }
            // The items of a single chunk are kept for the second pass. Those of several chunks are built again, to bound memory.
            only_chunk_code = Some(chunk_code).filter(|_| chunks.len() == 1);
        }
        let old = old_peaks.iter().fold([0; REGISTER_CLASSES], |most, peak| elementwise_max(most, *peak));
        let target = self.targets(old);
        let mut stats = Stats { live_before: old[0], target: Some(self.register_target(old[0])), changes, ..Stats::default() };
        let loops = if self.lower_occupancy_percents.is_empty() { None } else { Some(Loops::compute(function, &flow)) };
        let budgets = self
            .lower_occupancy_percents
            .iter()
            .map(|&occupancy_percent| (occupancy_percent, Scheduler { occupancy_percent, ..*self }.targets(old)));
        let mut tradeoff = OccupancyTradeoff::new((self.occupancy_percent, target), budgets);
        for chunk in &chunks {
            let chunk_code = only_chunk_code.take().unwrap_or_else(|| chunk_code_of(function, chunk));
            let mut scratch = BlockScratch {
                builder: Builder::new(self.model, chunk_code.code.registers()),
                tracker: PressureTracker::new(chunk_code.code.groups().len()),
                scheduler: self.backend.strategy().scheduler(),
                in_flight: &mut in_flight,
                carried: Vec::new(),
            };
            for (block, range) in &chunk_code.blocks {
                scratch.in_flight.enter_block(function, &flow, *block, Some(&numbers));
                scratch.carried = self.carried_dependences(&chunk_code.code, (*block, range), &flow, || {
                    let sources: FxHashMap<u32, u32> = phi_registers(function, *block, *block, &numbers).collect();
                    move |register| sources.get(&register).copied()
                });
                let old = old_peaks[*block];
                let live = LiveValues::of_block(function, &numbers, &liveness, *block);
                let found = self.find_order(&chunk_code.code, range, &mut scratch, &live, target, old);
                stats.live_after = stats.live_after.max(found.peak.unwrap_or(old)[0]);
                if let Some(loops) = &loops {
                    let own = BlockOutcome { cycles: found.cycles, peak: found.peak.unwrap_or(old)[0] };
                    let with =
                        |allowed| self.schedule_with_budget(&chunk_code.code, range, &mut scratch, &live, elementwise_max(allowed, old));
                    let wants_more = found.wanted_more_registers && can_save(found.cycles, found.lower_bound_cycles);
                    tradeoff.add(
                        LOOP_MODEL.executions(loops.depth(*block)),
                        &chunk_code.code.items[range.clone()],
                        self.costs,
                        own,
                        wants_more,
                        with,
                    );
                }
                let insts = &function.blocks[*block].insts;
                let traced_attempts = found.traced_attempts.into_iter();
                stats
                    .attempts
                    .extend(traced_attempts.map(|(mode, regions, verdict)| TracedAttempt::new(*block, insts, mode, regions, verdict)));
                match &found.attempt {
                    Some(attempt) => scratch.in_flight.finish_block(&chunk_code.code, *block, attempt.order.iter().copied()),
                    None => scratch.in_flight.finish_block(&chunk_code.code, *block, range.clone()),
                }
                self.apply_order(function, &chunk_code.code, *block, range, found.attempt, &mut stats)?;
            }
        }
        stats.tradeoff = tradeoff.best_larger_budget(|live| Scheduler { occupancy_percent: 100, ..*self }.register_target(live).warps);
        Ok(stats)
    }

    /// Runs the strategy's changes to the function as a whole ([`Strategy::rearrange`]). Drops all changes if the changed code needs more
    /// registers than the target allows. Returns the changes for the trace.
    fn rearrange(&self, function: &mut Function) -> Vec<CodeChange> {
        let strategy = self.backend.strategy();
        if !strategy.rearranges() || has_late_accesses(function) {
            return Vec::new();
        }
        let original = function.clone();
        let mut changes = strategy.rearrange(function, RearrangeContext { model: self.model, costs: self.costs, knobs: &self.knobs });
        if changes.is_empty() {
            return changes;
        }
        let old = peak_of_function(&original);
        let allowed = elementwise_max(self.targets(old), old);
        if peak_of_function(function).iter().zip(allowed).any(|(found, allowed)| *found > allowed) {
            *function = original;
            changes.truncate(1);
            changes[0].reason = ChangeReason::TooManyRegisters;
        }
        changes
    }

    /// Schedules a block with at most `allowed` registers of each class. Returns its estimated cycles and its maximum number of live
    /// registers.
    fn schedule_with_budget(
        &self,
        code: &Code,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        allowed: Counts,
    ) -> BlockOutcome {
        let untraced = Scheduler { trace: false, ..*self };
        let settings = untraced.settings(self.mode, AllocationStage::Pre, Budget::new(self.mode, allowed, 0, &self.knobs));
        scratch.tracker.enter_block(code, range.clone(), live.as_liveness());
        let attempt = untraced.schedule_regions(code, range, scratch, &settings);
        let peak = peak_pressure(code, range, &mut scratch.tracker, live.as_liveness(), attempt.order.iter().copied());
        BlockOutcome { cycles: attempt.cycles, peak: peak[0] }
    }

    /// Searches for an order of a block within a register target. `old` is the number of registers of each class that the old order needs;
    /// the new order may need as many. If the old order needs more general registers than exist, it would spill, so an order within the
    /// target is searched first.
    fn find_order(
        &self,
        code: &Code,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        target: Counts,
        old: Counts,
    ) -> BudgetSearch {
        let allowed = elementwise_max(target, old);
        let mut traced_attempts = Vec::new();
        if old[0] > self.register_limit as i32 {
            let mut without_spills = allowed;
            without_spills[0] = target[0];
            let found = self.find_within_budget(code, range, scratch, live, without_spills);
            if found.attempt.is_some() {
                return found;
            }
            traced_attempts = found.traced_attempts;
        }
        let mut found = self.find_within_budget(code, range, scratch, live, allowed);
        found.traced_attempts.splice(0..0, traced_attempts);
        found
    }

    /// Searches for an order of a block that needs at most `allowed` registers of each class: first in the mode of the pass, then in
    /// `reduce-reg`.
    fn find_within_budget(
        &self,
        code: &Code,
        range: &Range<usize>,
        scratch: &mut BlockScratch<'_, '_>,
        live: &LiveValues,
        allowed: Counts,
    ) -> BudgetSearch {
        let (mut traced_attempts, mut is_tight, mut cycles_before, mut lower_bound_cycles) = (Vec::new(), false, 0, 0);
        let modes = [(self.mode, self.knobs), (ScheduleMode::ReduceReg, Knobs { tighten_by: Some(0), ..self.knobs })];
        for (mode, knobs) in modes {
            let settings = self.settings(mode, AllocationStage::Pre, Budget::new(mode, allowed, 0, &knobs));
            scratch.tracker.enter_block(code, range.clone(), live.as_liveness());
            let mut attempt = self.schedule_regions(code, range, scratch, &settings);
            let found = peak_pressure(code, range, &mut scratch.tracker, live.as_liveness(), attempt.order.iter().copied());
            is_tight |= mode != ScheduleMode::ReduceReg && (attempt.exceeded_scarcity || found[0] > settings.budget.scarce_above);
            let fits = found.iter().zip(allowed).all(|(found, allowed)| *found <= allowed);
            if self.trace {
                let verdict =
                    if fits { AttemptVerdict::Taken } else { AttemptVerdict::TooManyRegisters { found: found[0], allowed: allowed[0] } };
                traced_attempts.push((mode, std::mem::take(&mut attempt.regions), verdict));
            }
            if fits {
                return BudgetSearch {
                    cycles: attempt.cycles,
                    lower_bound_cycles: attempt.lower_bound_cycles,
                    attempt: Some(attempt),
                    peak: Some(found),
                    wanted_more_registers: is_tight,
                    traced_attempts,
                };
            }
            (is_tight, cycles_before, lower_bound_cycles) = (true, attempt.cycles_before, attempt.lower_bound_cycles);
        }
        BudgetSearch {
            attempt: None,
            cycles: cycles_before,
            lower_bound_cycles,
            peak: None,
            wanted_more_registers: is_tight,
            traced_attempts,
        }
    }

    /// Schedules a function on physical registers (phase 110), and returns statistics.
    pub fn run_on_registers(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let mut stats = Stats::default();
        let flow = ControlFlow::compute(function);
        let products = ProductRegisters::on_registers(function);
        let mut in_flight = InFlightResults::new(self.model, from_machine::empty().registers(), function);
        for chunk in chunks(function, self.backend.strategy().chunk_threshold()) {
            let push = |code: &mut Code, inst: Inst| from_ir::push_allocated(code, function, &products, inst);
            let chunk_code = ChunkCode::new(function, &chunk, from_machine::empty(), self.calls, push);
            chunk_code.walk_latches(function, &flow, &mut in_flight, None);
            let mut scratch = BlockScratch {
                builder: Builder::new(self.model, chunk_code.code.registers()),
                tracker: PressureTracker::new(chunk_code.code.groups().len()),
                scheduler: self.backend.strategy().scheduler(),
                in_flight: &mut in_flight,
                carried: Vec::new(),
            };
            for (block, range) in &chunk_code.blocks {
                scratch.in_flight.enter_block(function, &flow, *block, None);
                scratch.carried = self.carried_dependences(&chunk_code.code, (*block, range), &flow, || Some);
                scratch.tracker.enter_block(&chunk_code.code, range.clone(), BlockLiveness { live_in: &[], live_out: &[] });
                // Registers are already assigned, so an order cannot save any.
                let mode = if self.mode == ScheduleMode::ReduceReg { ScheduleMode::Ilp } else { self.mode };
                let settings = self.settings(mode, AllocationStage::Post, Budget::UNLIMITED);
                let mut attempt = self.schedule_regions(&chunk_code.code, range, &mut scratch, &settings);
                if self.trace {
                    let (insts, regions) = (&function.blocks[*block].insts, std::mem::take(&mut attempt.regions));
                    stats.attempts.push(TracedAttempt::new(*block, insts, mode, regions, AttemptVerdict::Taken));
                }
                scratch.in_flight.finish_block(&chunk_code.code, *block, attempt.order.iter().copied());
                self.apply_order(function, &chunk_code.code, *block, range, Some(attempt), &mut stats)?;
            }
        }
        Ok(stats)
    }

    /// Returns the dependences of a block on its previous execution, if the strategy asks for them and the block is a loop with one region.
    /// `sources` creates a function that maps a register that is read at the start of the block to the register that holds this value at
    /// the end of the previous execution.
    fn carried_dependences<F: Fn(u32) -> Option<u32>>(
        &self,
        code: &Code,
        (block, range): (Block, &Range<usize>),
        flow: &ControlFlow,
        sources: impl FnOnce() -> F,
    ) -> Vec<CarriedEdge> {
        let strategy = self.backend.strategy();
        if !strategy.uses_loop_edges() || !flow.successors(block).contains(&block) {
            return Vec::new();
        }
        match &code.regions(range.clone(), strategy.longest_region())[..] {
            [region] => carried_edges(code, region.clone(), self.model, sources()),
            _ => Vec::new(),
        }
    }

    /// Returns the settings of a scheduling run with a mode, a stage and a budget.
    fn settings(&self, mode: ScheduleMode, stage: AllocationStage, budget: Budget) -> Settings {
        Settings { mode, stage, budget, knobs: self.knobs, trace: self.trace }
    }

    /// Returns the register target, with its derivation, for a function with at most `live` live general registers.
    pub fn register_target(&self, live: i32) -> RegisterTarget {
        let bounds = Bounds {
            launch: self.launch,
            alignment_gaps: self.knobs.register_gaps,
            reserved: self.hidden_registers as i32,
            limit: self.register_limit as i32,
            occupancy_percent: self.occupancy_percent,
            requested: self.knobs.register_target,
        };
        RegisterTarget::new(live, self.machine, &bounds)
    }

    /// Returns the register target of each class, for an original order with at most `live` live registers.
    fn targets(&self, live: Counts) -> Counts {
        [self.register_target(live[0]).registers, PREDICATES - 1, PREDICATES - 1, self.uniform_limit as i32 - 8]
    }

    /// Schedules the regions of a block, and returns the order of the block. A region whose new order is not faster keeps its old order.
    fn schedule_regions(&self, code: &Code, range: &Range<usize>, scratch: &mut BlockScratch<'_, '_>, settings: &Settings) -> BlockOrder {
        let BlockScratch { builder, tracker, scheduler, in_flight, carried } = scratch;
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
        for region in code.regions(range.clone(), strategy.longest_region()) {
            (attempt.order.len() + range.start..region.start).for_each(|barrier| attempt.add_barrier(code, barrier, tracker, in_flight));
            let graph = builder.build_after(code, region.clone(), &|register| in_flight.cycles_until(register));
            let before = backend::estimate(code, &graph, self.costs, region.clone());
            attempt.cycles_before += u64::from(before.issued);
            // The new order is used without comparison in two cases: the mode saves registers rather than cycles, or the backend itself
            // returns the old order if it finds no better one.
            let always_use = settings.mode == ScheduleMode::ReduceReg || strategy.falls_back_to_original();
            // The backend must run even if no order can be faster, if the caller needs its report whether registers were scarce.
            let needs_register_report = settings.stage == AllocationStage::Pre && strategy.reports_register_demand();
            let lower_bound = backend::lower_bound(code, &graph, self.costs);
            attempt.lower_bound_cycles += u64::from(lower_bound.issued);
            // The old order is at its lower bound: no order is faster. Only the register pressure has to be tracked.
            if !always_use && !needs_register_report && !self.trace && !lower_bound.is_shorter_than(before) {
                attempt.cycles += u64::from(before.issued);
                tracker.enter_region(code, region.clone());
                region.clone().for_each(|position| tracker.step(code, &code.items[position]));
                attempt.add_region(code, region, in_flight);
                continue;
            }
            let schedule = scheduler(&Region { code, graph: &graph, costs: self.costs, settings, carried }, tracker);
            let is_better = always_use || schedule.length.is_shorter_than(before);
            attempt.exceeded_scarcity |= schedule.exceeded_scarcity;
            match schedule.search {
                Search::None => {}
                Search::Optimal => attempt.proved_and_unproved.0 += 1,
                Search::Ended | Search::TooLarge => attempt.proved_and_unproved.1 += 1,
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

    /// Applies the new order to the block and updates the statistics. Without an attempt, the block keeps its old order.
    fn apply_order(
        &self,
        function: &mut Function,
        code: &Code,
        block: Block,
        range: &Range<usize>,
        attempt: Option<BlockOrder>,
        stats: &mut Stats,
    ) -> Result<(), ScheduleError> {
        let Some(attempt) = attempt else { return Ok(()) };
        if self.verify {
            check::check(code, range.clone(), &attempt.order).map_err(|violation| ScheduleError { block, violation })?;
        }
        stats.cycles_before += attempt.cycles_before;
        stats.cycles_after += attempt.cycles;
        stats.proved_and_unproved =
            (stats.proved_and_unproved.0 + attempt.proved_and_unproved.0, stats.proved_and_unproved.1 + attempt.proved_and_unproved.1);
        if attempt.order.iter().copied().eq(range.clone()) {
            return Ok(());
        }
        stats.blocks += 1;
        let old = std::mem::take(&mut function.blocks[block].insts);
        function.blocks[block].insts = attempt.order.iter().map(|position| old[position - range.start]).collect();
        Ok(())
    }
}

impl BlockOrder {
    /// Appends the items of a region to the order.
    fn add_region(&mut self, code: &Code, order: impl IntoIterator<Item = usize>, in_flight: &mut InFlightResults<'_>) {
        let start = self.order.len();
        self.order.extend(order);
        self.order[start..].iter().for_each(|&position| in_flight.step(code, &code.items[position]));
    }

    /// Appends a scheduling barrier to the order and updates the register pressure.
    fn add_barrier(&mut self, code: &Code, barrier: usize, tracker: &mut PressureTracker, in_flight: &mut InFlightResults<'_>) {
        tracker.step_barrier(code, barrier);
        self.add_region(code, [barrier], in_flight);
    }
}

/// Register groups of the values that are live at the start of a block, phi results included, and at its end.
pub(crate) struct LiveValues {
    /// Register groups that are live at the start.
    at_start: Vec<u32>,
    /// Register groups that are live at the end.
    at_end: Vec<u32>,
}

impl LiveValues {
    /// Returns the register groups that are live at the start and the end of a block.
    pub(crate) fn of_block(function: &Function, numbers: &from_ir::ValueNumbers, liveness: &Liveness, block: Block) -> LiveValues {
        let groups = |value: oriole_ir::Value| numbers.groups_of_value(value);
        let phis = function.phis(block).iter().flat_map(|&phi| function.defined(phi));
        LiveValues {
            at_start: liveness.live_in(block).iter().copied().chain(phis).flat_map(groups).collect(),
            at_end: liveness.live_out(block).iter().copied().flat_map(groups).collect(),
        }
    }

    /// Returns the lists for the pressure tracker.
    pub(crate) fn as_liveness(&self) -> BlockLiveness<'_> {
        BlockLiveness { live_in: &self.at_start, live_out: &self.at_end }
    }
}

/// Returns the maximum number of live registers of each class in a function in SSA form, in its current order.
fn peak_of_function(function: &Function) -> Counts {
    let flow = ControlFlow::compute(function);
    let liveness = Liveness::compute(function, &flow);
    let numbers = from_ir::ValueNumbers::new(function);
    let products = ProductRegisters::on_values(function, &numbers);
    let mut tracker = PressureTracker::new(numbers.empty().groups().len());
    let mut peak = [0; REGISTER_CLASSES];
    for &block in &function.layout {
        let mut code = numbers.empty();
        function.blocks[block].insts.iter().for_each(|&inst| from_ir::push_values(&mut code, &numbers, function, &products, inst));
        let range = 0..code.items.len();
        let live = LiveValues::of_block(function, &numbers, &liveness, block);
        peak = elementwise_max(peak, peak_pressure(&code, &range, &mut tracker, live.as_liveness(), range.clone()));
    }
    peak
}

/// Returns the elementwise maximum, by register class.
fn elementwise_max(first: Counts, second: Counts) -> Counts {
    std::array::from_fn(|class| first[class].max(second[class]))
}

/// Returns the maximum number of live registers of each class in a block, for a given order.
fn peak_pressure(
    code: &Code,
    range: &Range<usize>,
    tracker: &mut PressureTracker,
    liveness: BlockLiveness<'_>,
    order: impl Iterator<Item = usize>,
) -> Counts {
    tracker.enter_block(code, range.clone(), liveness);
    tracker.enter_region(code, range.clone());
    for position in order {
        tracker.step(code, &code.items[position]);
    }
    tracker.peak()
}
