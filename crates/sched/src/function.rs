//! Schedules functions: before register allocation on SSA values, and afterwards (phase 110) on physical registers.
//!
//! Each block is scheduled separately, region by region ([`SchedCode::regions`]). The new order of a region is used only if it is estimated
//! to be faster than the old order. Before register allocation there is a second condition, for the whole block: the new order must not
//! need more registers than the register target or than the old order. Otherwise the block is scheduled again with a smaller budget, then
//! in the mode that reduces registers, and if that does not fit either, the block keeps its old order. If the old order needs more
//! registers than there are, orders within the target are tried first.
//!
//! **Register target.** Registers that do not reduce occupancy cost nothing, so the target is the largest number of registers with which as
//! many warps stay resident as with the old order ([`crate::report::target`]). If an order for few registers has a higher occupancy than
//! the old order, it replaces the old order first ([`few_registers`]). A schedule with more registers than the target must be faster by
//! enough to make up for the lost warps: the caller can request a schedule that keeps only a percentage of the warps
//! ([`Scheduler::occupancy_percent`]) and compare the two by [`crate::score`]. [`Stats::tradeoff`] predicts whether such a schedule is
//! worth trying ([`crate::occupancy_tradeoff`]).

mod block;
mod conflicts;
mod few_registers;
mod live;
mod scratch;

use crate::backend::{
    AllocationStage, Backend, Budget, ChangeReason, CodeChange, Knobs, RearrangeContext, ScheduleMode, Settings, has_late_register_accesses,
};
use crate::calls::CallCosts;
use crate::check::OrderViolation;
use crate::code::products::ProductRegisters;
use crate::code::{REGISTER_CLASS_COUNT, SchedCode, from_ir, from_machine};
use crate::graph::GraphBuilder;
use crate::in_flight::{InFlightResults, phi_registers};
use crate::occupancy_tradeoff::{BlockCosts, BlockOutcome, OccupancyTradeoff, ReducedOccupancy};
use crate::pressure::{BlockLiveness, PressureCounts, PressureTracker};
use crate::report::target::{RegisterTarget, RegisterTargetBounds};
use crate::report::trace::{AttemptVerdict, TracedAttempt};
use crate::resource::ResourceCosts;
use crate::score::{LOOP_MODEL, busiest_unit_cycles};
use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_ir::analysis::{ControlFlow, Liveness, Loops, RegisterCounts};
use oriole_ir::{Block, Function, Inst};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;
use std::ops::Range;

use live::{elementwise_max, live_registers_of_block, peak_registers_of_function};
use scratch::BlockScratch;

pub(crate) use live::LiveValues;

/// Number of predicate registers of a thread, and of uniform predicate registers of a warp.
const PREDICATE_REGISTER_COUNT: i32 = 7;

/// The scheduling pass: the hardware to schedule for, and the options.
#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    /// The latency model of the target.
    pub model: &'a Model,
    /// For each latency class: its functional unit, and the cycles for which an instruction keeps the unit busy.
    pub costs: &'a ResourceCosts,
    /// Limits of the multiprocessor.
    pub machine: &'a Machine,
    /// The scheduling algorithm for a region.
    pub backend: Backend,
    /// The optimization goal: few registers, hidden latencies, or batches of matrix products.
    pub mode: ScheduleMode,
    /// Numeric parameters of the schedulers.
    pub knobs: Knobs,
    /// Maximum number of general registers that the code may name. In a function that changes the number of registers, that in any part of
    /// it.
    pub register_limit: u32,
    /// Number of registers of a thread where the function starts, with the hidden ones, if the function changes this number.
    pub initial_registers: Option<u32>,
    /// General registers that the hardware allocates to a thread beyond those that its code can name.
    pub hidden_registers: u32,
    /// Maximum number of uniform registers that the code may name.
    pub uniform_limit: u32,
    /// Estimated execution times of called functions; `None` if they are unknown.
    pub calls: Option<&'a CallCosts>,
    /// Resources of a thread block besides registers; `None` if the block size is not declared.
    pub launch: Option<LaunchResources>,
    /// Percentage of the warps resident with the original order that must stay resident with the new one; 100 keeps the occupancy.
    pub occupancy_percent: u32,
    /// Smaller values of `occupancy_percent` that the caller would accept for a faster schedule.
    pub lower_occupancy_percents: &'a [u32],
    /// Whether to try [`Backend::NEAR_SOURCE`] as well for blocks whose order the register budget limits, before register allocation.
    pub tries_near_source: bool,
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
    /// Maximum number of general registers that are live at a place which no instruction crosses: a scheduling barrier or the end of a
    /// block. No order needs fewer registers. 0 after register allocation.
    pub least_live: i32,
    /// Number of regions whose order was searched and proved to be the shortest, and number of regions that were searched without such a
    /// proof.
    pub proved_and_unproved: (usize, usize),
    /// The larger register budget, at lower occupancy, that is estimated to make the function faster; `None` if there is none.
    pub tradeoff: Option<ReducedOccupancy>,
    /// The register target. `None` after register allocation.
    pub target: Option<RegisterTarget>,
    /// The changes that the strategy made before it ordered the regions: instructions moved between blocks, removed or added.
    pub changes: Vec<CodeChange>,
    /// Every attempt at a block with the reasons of its decisions, if [`Scheduler::trace`] is set.
    pub attempts: Vec<TracedAttempt>,
}

/// The error that the checker found the new order of a block to be illegal. It is caused by a bug in the scheduler.
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

/// Divides the blocks of a function into chunks of at most `largest` instructions, and returns the chunks; a larger block is a chunk of its
/// own. Tables are sized by chunk, not by function, to bound memory.
fn split_into_chunks(function: &Function, largest: usize) -> Vec<Vec<Block>> {
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
    code: SchedCode,
    /// The blocks, each with the range of its items.
    blocks: Vec<(Block, Range<usize>)>,
}

impl ChunkCode {
    /// Builds the items of a chunk of blocks. `push` appends the item of one instruction to the code.
    fn new(
        function: &Function,
        blocks: &[Block],
        mut code: SchedCode,
        calls: Option<&CallCosts>,
        push: impl Fn(&mut SchedCode, Inst),
    ) -> ChunkCode {
        let mut ranges = Vec::with_capacity(blocks.len());
        code.reserve(blocks.iter().map(|&block| function.blocks[block].insts.len()).sum());
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

    /// Walks the blocks that end with a back edge (latches), in their original order, to find the results in flight along the back edges.
    /// These are needed early, because a loop header is scheduled before the latch.
    fn find_results_of_latches(
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

impl Scheduler<'_> {
    /// Schedules a function on SSA values, before register allocation, and returns statistics.
    pub fn schedule_ssa_function(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let changes = self.rearrange(function);
        let flow = ControlFlow::compute(function);
        let liveness = Liveness::compute(function, &flow);
        let numbers = from_ir::ValueNumbers::new(function);
        let products = ProductRegisters::find_in_ssa_code(function, &numbers);
        let mut tracker = PressureTracker::new(numbers.empty().groups().len());
        let chunk_code_of = |function: &Function, chunk: &[Block]| {
            ChunkCode::new(function, chunk, numbers.empty(), self.calls, |code, inst| {
                from_ir::push_ssa_inst(code, &numbers, function, &products, inst);
            })
        };
        let chunks = split_into_chunks(function, self.backend.strategy().chunk_threshold_instructions());
        let mut old_peaks: IndexVec<Block, PressureCounts> = IndexVec::filled(function.blocks.len(), [0; REGISTER_CLASS_COUNT]);
        let (mut only_chunk_code, mut least_live) = (None, 0);
        let mut in_flight = InFlightResults::new(self.model, numbers.empty().registers(), function);
        for chunk in &chunks {
            let chunk_code = chunk_code_of(function, chunk);
            chunk_code.find_results_of_latches(function, &flow, &mut in_flight, Some(&numbers));
            for (block, range) in &chunk_code.blocks {
                let live = LiveValues::of_block(function, &numbers, &liveness, *block);
                let (peak, least) = live_registers_of_block(&chunk_code.code, range, &mut tracker, live.as_block_liveness());
                old_peaks[*block] = peak;
                least_live = least_live.max(least);
            }
            // The items of a single chunk are kept for the second pass. Those of several chunks are built again, to bound memory.
            only_chunk_code = Some(chunk_code).filter(|_| chunks.len() == 1);
        }
        let live_before = old_peaks.iter().map(|peak| peak[0]).max().unwrap_or(0);
        let counts = self.initial_registers.map(|initial| RegisterCounts::compute(function, &flow, initial));
        // The number of registers of a function that changes it is fixed, so fewer registers do not raise the occupancy.
        if let Some(chunk_code) = &only_chunk_code
            && counts.is_none()
        {
            let live_values = |function: &Function, block| LiveValues::of_block(function, &numbers, &liveness, block);
            if self.lower_register_peaks(function, &flow, chunk_code, &mut in_flight, &mut old_peaks, live_values)? {
                only_chunk_code = None;
            }
        }
        let old = old_peaks.iter().fold([0; REGISTER_CLASS_COUNT], |most, peak| elementwise_max(most, *peak));
        let target = self.register_targets(old);
        let mut stats = Stats { live_before, least_live, target: Some(self.register_target(old[0])), changes, ..Stats::default() };
        let loops = if self.lower_occupancy_percents.is_empty() { None } else { Some(Loops::compute(function, &flow)) };
        let budgets = self
            .lower_occupancy_percents
            .iter()
            .map(|&occupancy_percent| (occupancy_percent, Scheduler { occupancy_percent, ..*self }.register_targets(old)));
        let mut tradeoff = OccupancyTradeoff::new((self.occupancy_percent, target), budgets);
        for chunk in &chunks {
            let chunk_code = only_chunk_code.take().unwrap_or_else(|| chunk_code_of(function, chunk));
            let mut scratch = BlockScratch {
                builder: GraphBuilder::new(self.model, chunk_code.code.registers()),
                tracker: PressureTracker::new(chunk_code.code.groups().len()),
                scheduler: self.backend.strategy().scheduler(),
                in_flight: &mut in_flight,
                carried_edges: Vec::new(),
            };
            let enter_block = |scratch: &mut BlockScratch<'_, '_>, function: &Function, block: Block, range: &Range<usize>| {
                scratch.in_flight.enter_block(function, &flow, block, Some(&numbers));
                scratch.carried_edges = self.carried_dependences(&chunk_code.code, (block, range), &flow, || {
                    let sources: FxHashMap<u32, u32> = phi_registers(function, block, block, &numbers).collect();
                    move |register| sources.get(&register).copied()
                });
            };
            let mut outcomes: Vec<BlockCosts> = Vec::new();
            for (block, range) in &chunk_code.blocks {
                enter_block(&mut scratch, function, *block, range);
                let old = old_peaks[*block];
                let live = LiveValues::of_block(function, &numbers, &liveness, *block);
                let (scheduler, target) = self.for_block(counts.as_ref(), *block, target);
                let found = scheduler.find_block_order(&chunk_code.code, range, &mut scratch, &live, target, old);
                stats.live_after = stats.live_after.max(found.peak.unwrap_or(old)[0]);
                if let Some(loops) = &loops {
                    outcomes.push(BlockCosts {
                        executions: LOOP_MODEL.executions(loops.depth(*block)),
                        busiest_unit_cycles: busiest_unit_cycles(&chunk_code.code.items[range.clone()], self.costs),
                        normal: BlockOutcome { cycles: found.cycles, peak: found.peak.unwrap_or(old)[0] },
                        lower_bound: found.wanted_more_registers.then_some(found.lower_bound_cycles),
                    });
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
            let may_pay = tradeoff.may_pay(&outcomes);
            for ((block, range), outcome) in chunk_code.blocks.iter().zip(outcomes) {
                let wants_more = may_pay && outcome.can_save_cycles();
                if wants_more {
                    enter_block(&mut scratch, function, *block, range);
                }
                tradeoff.add(outcome, wants_more, |allowed| {
                    let live = LiveValues::of_block(function, &numbers, &liveness, *block);
                    self.schedule_with_budget(&chunk_code.code, range, &mut scratch, &live, elementwise_max(allowed, old_peaks[*block]))
                });
            }
        }
        stats.tradeoff = tradeoff.best_larger_budget(|live| Scheduler { occupancy_percent: 100, ..*self }.register_target(live).warps);
        Ok(stats)
    }

    /// Lets the strategy change the function before its regions are ordered ([`Strategy::rearrange`]), and returns the changes for the
    /// trace. All changes are undone if the changed code needs more registers than both the target and the original code.
    fn rearrange(&self, function: &mut Function) -> Vec<CodeChange> {
        let strategy = self.backend.strategy();
        if !strategy.may_rearrange() || has_late_register_accesses(function) {
            return Vec::new();
        }
        let original = function.clone();
        let mut changes = strategy.rearrange(function, RearrangeContext { model: self.model, costs: self.costs, knobs: &self.knobs });
        if changes.is_empty() {
            return changes;
        }
        let old = peak_registers_of_function(&original);
        let allowed = elementwise_max(self.register_targets(old), old);
        if peak_registers_of_function(function).iter().zip(allowed).any(|(found, allowed)| *found > allowed) {
            *function = original;
            changes.truncate(1);
            changes[0].reason = ChangeReason::TooManyRegisters;
        }
        changes
    }

    /// Schedules a function on physical registers (phase 110), and returns statistics.
    pub fn schedule_allocated_function(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        self.schedule_allocated_blocks(function).map(|(stats, _)| stats)
    }

    /// Schedules a function on physical registers (phase 110). Then schedules a second time the blocks of loops that lose many cycles to
    /// bank conflicts of their registers ([`conflicts`]). Returns statistics.
    pub fn schedule_allocated_function_avoiding_bank_conflicts(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let (mut stats, chunk_code) = self.schedule_allocated_blocks(function)?;
        stats.blocks += self.avoid_bank_conflicts(function, chunk_code)?.blocks;
        Ok(stats)
    }

    /// Schedules each block of a function on physical registers. Returns statistics, and the items of the function in their new order if
    /// the function is a single chunk.
    fn schedule_allocated_blocks(&self, function: &mut Function) -> Result<(Stats, Option<ChunkCode>), ScheduleError> {
        let mut stats = Stats::default();
        let flow = ControlFlow::compute(function);
        let products = ProductRegisters::find_in_allocated_code(function);
        let mut in_flight = InFlightResults::new(self.model, from_machine::empty().registers(), function);
        let chunks = split_into_chunks(function, self.backend.strategy().chunk_threshold_instructions());
        let mut only_chunk_code = None;
        for chunk in &chunks {
            let mut chunk_code = self.allocated_chunk_code(function, &products, chunk);
            chunk_code.find_results_of_latches(function, &flow, &mut in_flight, None);
            let mut scratch = BlockScratch {
                builder: GraphBuilder::new(self.model, chunk_code.code.registers()),
                tracker: PressureTracker::new(chunk_code.code.groups().len()),
                scheduler: self.backend.strategy().scheduler(),
                in_flight: &mut in_flight,
                carried_edges: Vec::new(),
            };
            let ChunkCode { code, blocks } = &mut chunk_code;
            for (block, range) in blocks {
                scratch.in_flight.enter_block(function, &flow, *block, None);
                scratch.carried_edges = self.carried_dependences(code, (*block, range), &flow, || Some);
                scratch.tracker.enter_block(code, range.clone(), BlockLiveness { live_in: &[], live_out: &[] });
                // Registers are already assigned, so no order can save any: the mode that reduces registers is replaced.
                let mode = if self.mode == ScheduleMode::ReduceReg { ScheduleMode::Ilp } else { self.mode };
                let settings = self.settings(mode, AllocationStage::Post, Budget::UNLIMITED);
                let mut attempt = self.schedule_regions(code, range, &mut scratch, &settings);
                if self.trace {
                    let (insts, regions) = (&function.blocks[*block].insts, std::mem::take(&mut attempt.regions));
                    stats.attempts.push(TracedAttempt::new(*block, insts, mode, regions, AttemptVerdict::Taken));
                }
                scratch.in_flight.finish_block(code, *block, attempt.order.iter().copied());
                let order = self.apply_order(function, code, *block, range, Some(attempt), &mut stats)?;
                code.reorder(range.clone(), &order);
            }
            only_chunk_code = Some(chunk_code).filter(|_| chunks.len() == 1);
        }
        Ok((stats, only_chunk_code))
    }

    /// Returns the items of a chunk of blocks on physical registers.
    fn allocated_chunk_code(&self, function: &Function, products: &ProductRegisters, chunk: &[Block]) -> ChunkCode {
        let push = |code: &mut SchedCode, inst: Inst| from_ir::push_allocated_inst(code, function, products, inst);
        ChunkCode::new(function, chunk, from_machine::empty(), self.calls, push)
    }

    /// Returns the settings of a scheduling run with a mode, a stage and a budget.
    fn settings(&self, mode: ScheduleMode, stage: AllocationStage, budget: Budget) -> Settings {
        Settings { mode, stage, budget, knobs: self.knobs, warps_in_step: self.warps_in_step(), trace: self.trace }
    }

    /// Returns the number of warps of a thread block that share a hardware scheduler; 1 if the size of the block is not declared. If
    /// barriers synchronize these warps, they run the same code at nearly the same time.
    fn warps_in_step(&self) -> u32 {
        let threads = self.launch.map_or(1, |launch| launch.threads);
        threads.div_ceil(self.machine.threads_per_warp * self.machine.schedulers).max(1)
    }

    /// Returns this scheduler and its register targets for a block. A block of a function that changes its number of registers may use the
    /// registers that it has there, because they are allocated in any case.
    fn for_block(&self, counts: Option<&RegisterCounts>, block: Block, targets: PressureCounts) -> (Self, PressureCounts) {
        let Some(counts) = counts else { return (*self, targets) };
        let register_limit = counts.in_block(block).saturating_sub(self.hidden_registers).min(self.register_limit);
        let available = (register_limit as i32 - self.knobs.register_gaps).max(1);
        let general = self.knobs.register_target.map_or(available, |requested| requested.min(available));
        let [_, rest @ ..] = targets;
        let mut of_block = [general; REGISTER_CLASS_COUNT];
        of_block[1..].copy_from_slice(&rest);
        (Scheduler { register_limit, ..*self }, of_block)
    }

    /// Returns the register target, with its derivation, for a function with at most `live` live general registers.
    pub fn register_target(&self, live: i32) -> RegisterTarget {
        let bounds = RegisterTargetBounds {
            launch: self.launch,
            alignment_gaps: self.knobs.register_gaps,
            reserved: self.hidden_registers as i32,
            limit: self.register_limit as i32,
            occupancy_percent: self.occupancy_percent,
            requested: self.knobs.register_target,
        };
        RegisterTarget::new(live, self.machine, &bounds)
    }

    /// Returns the register target of each register class, for an original order with at most `live` live registers. One predicate register
    /// of each kind and eight uniform registers are kept as a reserve.
    fn register_targets(&self, live: PressureCounts) -> PressureCounts {
        [self.register_target(live[0]).registers, PREDICATE_REGISTER_COUNT - 1, PREDICATE_REGISTER_COUNT - 1, self.uniform_limit as i32 - 8]
    }
}
