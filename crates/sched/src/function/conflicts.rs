//! Schedules a second time the blocks that lose many cycles to bank conflicts of their registers.
//!
//! Backend B does not know the register banks. A warp then loses a cycle wherever an instruction reads two registers of one bank that are
//! not in the reuse cache: in a loop of multiply-adds up to a third of all cycles. Backend C orders such a block so that more operands are
//! in the reuse cache. Its order is used if it loses fewer cycles to conflicts and does not take longer in all.

use std::ops::Range;

use oriole_ir::Function;
use oriole_ir::analysis::{ControlFlow, Loops};
use rustc_hash::FxHashMap;

use super::{BlockScratch, ChunkCode, ScheduleError, Scheduler, Stats, split_into_chunks};
use crate::backend::{AllocationStage, Backend, Budget, ScheduleMode, measure_allocated_region};
use crate::code::products::ProductRegisters;
use crate::code::{SchedCode, from_machine};
use crate::graph::GraphBuilder;
use crate::in_flight::InFlightResults;
use crate::pressure::{BlockLiveness, PressureTracker};

/// Minimum ratio of cycles lost by bank conflicts to instructions of a block, for the block to be scheduled again.
const MIN_CONFLICT_CYCLES_PER_INST: f64 = 0.1;
/// Maximum number of instructions of a block that is scheduled again.
const MAX_RESCHEDULED_BLOCK_INSTS: usize = 1024;

impl Scheduler<'_> {
    /// Schedules a second time the blocks of loops that lose many cycles to register bank conflicts. The function must be on physical
    /// registers. `only_chunk_code` has the items of the function in their current order, if the caller has built them as a single chunk.
    pub(super) fn avoid_bank_conflicts(&self, function: &mut Function, only_chunk_code: Option<ChunkCode>) -> Result<Stats, ScheduleError> {
        let mut stats = Stats::default();
        let flow = ControlFlow::compute(function);
        let loops = Loops::compute(function, &flow);
        if function.layout.iter().all(|&block| loops.depth(block) == 0) {
            return Ok(stats);
        }
        let mut builder = GraphBuilder::new(self.model, from_machine::empty().registers());
        let products = ProductRegisters::find_in_allocated_code(function);
        let other = Scheduler { backend: Backend::C, ..*self };
        let chunks = split_into_chunks(function, other.backend.strategy().chunk_threshold_instructions());
        let is_single_chunk = chunks.len() == 1;
        let mut only_chunk_code = only_chunk_code.filter(|_| is_single_chunk);
        let mut in_flight = InFlightResults::new(self.model, from_machine::empty().registers(), function);
        for chunk in chunks {
            let mut chunk_code = only_chunk_code.take().unwrap_or_else(|| self.allocated_chunk_code(function, &products, &chunk));
            let costs: FxHashMap<_, _> = chunk_code
                .blocks
                .iter()
                .filter(|(block, range)| loops.depth(*block) > 0 && range.len() <= MAX_RESCHEDULED_BLOCK_INSTS)
                .map(|(block, range)| (*block, self.order_cost(&chunk_code.code, &mut builder, range)))
                .filter(|(_, cost)| cost.has_many_conflicts())
                .collect();
            if costs.is_empty() && is_single_chunk {
                break;
            }
            let mut scratch = BlockScratch {
                builder: GraphBuilder::new(self.model, chunk_code.code.registers()),
                tracker: PressureTracker::new(chunk_code.code.groups().len()),
                scheduler: other.backend.strategy().scheduler(),
                in_flight: &mut in_flight,
                carried_edges: Vec::new(),
            };
            chunk_code.find_results_of_latches(function, &flow, scratch.in_flight, None);
            let ChunkCode { code, blocks } = &mut chunk_code;
            for (block, range) in blocks {
                scratch.in_flight.enter_block(function, &flow, *block, None);
                let Some(before) = costs.get(block) else {
                    scratch.in_flight.restart_block();
                    range.clone().for_each(|position| scratch.in_flight.step(code, &code.items[position]));
                    scratch.in_flight.finish_block(code, *block, range.clone());
                    continue;
                };
                scratch.tracker.enter_block(code, range.clone(), BlockLiveness { live_in: &[], live_out: &[] });
                let settings = other.settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED);
                let attempt = other.schedule_regions(code, range, &mut scratch, &settings);
                let old_items = code.items[range.clone()].to_vec();
                code.reorder(range.clone(), &attempt.order);
                let after = self.order_cost(code, &mut builder, range);
                code.items[range.clone()].copy_from_slice(&old_items);
                let attempt = (after.conflict_cycles < before.conflict_cycles && after.cycles <= before.cycles).then_some(attempt);
                match &attempt {
                    Some(attempt) => scratch.in_flight.finish_block(code, *block, attempt.order.iter().copied()),
                    None => scratch.in_flight.finish_block(code, *block, range.clone()),
                }
                self.apply_order(function, code, *block, range, attempt, &mut stats)?;
            }
        }
        Ok(stats)
    }

    /// Returns the estimated cost of the current order of the items of a block: cycles, and cycles lost by bank conflicts.
    fn order_cost(&self, code: &SchedCode, builder: &mut GraphBuilder<'_>, range: &Range<usize>) -> OrderCost {
        let issued = code.items[range.clone()].iter().filter(|item| item.opcode.is_some()).count();
        let mut cost = OrderCost { instructions: issued as u32, cycles: 0, conflict_cycles: 0 };
        for region in code.regions(range.clone(), MAX_RESCHEDULED_BLOCK_INSTS) {
            let graph = builder.build(code, region);
            let found = measure_allocated_region(code, &graph, self.costs);
            cost.cycles += found.exit_cycle.max(found.length.issued);
            cost.conflict_cycles += found.conflict_cycles;
        }
        cost
    }
}

/// Estimated cost of one order of a block.
struct OrderCost {
    /// Number of instructions.
    instructions: u32,
    /// Number of cycles of one execution by a lone warp.
    cycles: u32,
    /// Number of cycles lost by bank conflicts.
    conflict_cycles: u32,
}

impl OrderCost {
    /// Returns whether the cycles lost by bank conflicts are at least [`MIN_CONFLICT_CYCLES_PER_INST`] of the number of instructions.
    fn has_many_conflicts(&self) -> bool {
        f64::from(self.conflict_cycles) >= MIN_CONFLICT_CYCLES_PER_INST * f64::from(self.instructions)
    }
}
