//! Schedules blocks again that lose many cycles to bank conflicts of their registers.
//!
//! Backend B does not know the register banks. A warp then loses a cycle wherever an instruction reads two registers of one bank that are
//! not in the reuse cache: in a loop of multiply-adds up to a third of all cycles. Backend C orders such a block so that more operands are
//! in the reuse cache. Its order is taken if it has fewer conflicts and does not take longer.

use oriole_ir::Function;
use oriole_ir::analysis::{ControlFlow, Loops};

use super::{BlockScratch, ChunkCode, ScheduleError, Scheduler, Stats, split_into_chunks};
use crate::backend::{AllocationStage, Backend, Budget, ScheduleMode, measure_allocated_region};
use crate::code::products::ProductRegisters;
use crate::code::{SchedCode, from_ir, from_machine};
use crate::graph::GraphBuilder;
use crate::in_flight::InFlightResults;
use crate::pressure::{BlockLiveness, PressureTracker};

/// Minimum ratio of cycles lost by bank conflicts to instructions of a block, for the block to be scheduled again.
const MIN_CONFLICT_CYCLES_PER_INST: f64 = 0.1;
/// Maximum number of instructions of a block that is scheduled again.
const MAX_RESCHEDULED_BLOCK_INSTS: usize = 1024;

impl Scheduler<'_> {
    /// Schedules those blocks of loops again that lose many cycles to register bank conflicts. The function must be on physical registers.
    pub fn avoid_bank_conflicts(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let mut stats = Stats::default();
        let flow = ControlFlow::compute(function);
        let loops = Loops::compute(function, &flow);
        let mut builder = GraphBuilder::new(self.model, from_machine::empty().registers());
        let products = ProductRegisters::on_registers(function);
        let blocks = function.layout.clone().into_iter().filter(|&block| {
            let is_short = function.blocks[block].insts.len() <= MAX_RESCHEDULED_BLOCK_INSTS;
            is_short
                && loops.depth(block) > 0
                && self.order_cost(function, &products, &mut builder, &function.blocks[block].insts).has_many_conflicts()
        });
        let blocks: Vec<_> = blocks.collect();
        if blocks.is_empty() {
            return Ok(stats);
        }
        let other = Scheduler { backend: Backend::C, ..*self };
        let mut in_flight = InFlightResults::new(self.model, from_machine::empty().registers(), function);
        for chunk in split_into_chunks(function, other.backend.strategy().chunk_threshold_instructions()) {
            let push = |code: &mut SchedCode, inst| from_ir::push_allocated_inst(code, function, &products, inst);
            let chunk_code = ChunkCode::new(function, &chunk, from_machine::empty(), self.calls, push);
            chunk_code.find_results_of_latches(function, &flow, &mut in_flight, None);
            let mut scratch = BlockScratch {
                builder: GraphBuilder::new(self.model, chunk_code.code.registers()),
                tracker: PressureTracker::new(chunk_code.code.groups().len()),
                scheduler: other.backend.strategy().scheduler(),
                in_flight: &mut in_flight,
                carried_edges: Vec::new(),
            };
            for (block, range) in &chunk_code.blocks {
                scratch.in_flight.enter_block(function, &flow, *block, None);
                if !blocks.contains(block) {
                    scratch.in_flight.restart_block();
                    range.clone().for_each(|position| scratch.in_flight.step(&chunk_code.code, &chunk_code.code.items[position]));
                    scratch.in_flight.finish_block(&chunk_code.code, *block, range.clone());
                    continue;
                }
                scratch.tracker.enter_block(&chunk_code.code, range.clone(), BlockLiveness { live_in: &[], live_out: &[] });
                let settings = other.settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED);
                let attempt = other.schedule_regions(&chunk_code.code, range, &mut scratch, &settings);
                let old = function.blocks[*block].insts.clone();
                let new: Vec<_> = attempt.order.iter().map(|position| old[position - range.start]).collect();
                let (before, after) =
                    (self.order_cost(function, &products, &mut builder, &old), self.order_cost(function, &products, &mut builder, &new));
                let attempt = (after.conflict_cycles < before.conflict_cycles && after.cycles <= before.cycles).then_some(attempt);
                match &attempt {
                    Some(attempt) => scratch.in_flight.finish_block(&chunk_code.code, *block, attempt.order.iter().copied()),
                    None => scratch.in_flight.finish_block(&chunk_code.code, *block, range.clone()),
                }
                self.apply_order(function, &chunk_code.code, *block, range, attempt, &mut stats)?;
            }
        }
        Ok(stats)
    }

    /// Returns the estimated cost of an order of the instructions of a block: cycles, and cycles lost by bank conflicts.
    fn order_cost(
        &self,
        function: &Function,
        products: &ProductRegisters,
        builder: &mut GraphBuilder<'_>,
        insts: &[oriole_ir::Inst],
    ) -> OrderCost {
        let mut code = from_machine::empty();
        insts.iter().for_each(|&inst| from_ir::push_allocated_inst(&mut code, function, products, inst));
        let issued = code.items.iter().filter(|item| item.opcode.is_some()).count();
        let mut cost = OrderCost { instructions: issued as u32, cycles: 0, conflict_cycles: 0 };
        for region in code.regions(0..code.items.len(), MAX_RESCHEDULED_BLOCK_INSTS) {
            let graph = builder.build(&code, region);
            let found = measure_allocated_region(&code, &graph, self.costs);
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
