//! Lowers the register demand of a function before its register target is computed.
//!
//! The register target keeps the occupancy of the original order ([`crate::report::target`]). That order is often arbitrary: a program that
//! loads all its parameters first and uses them one by one keeps all of them live, although each could be loaded where it is read. So the
//! blocks that keep the function from a higher occupancy are ordered by the strategy `pressure` first, and the target is computed from that
//! order. If no higher occupancy is reached, all blocks keep their original order; otherwise the blocks that exceed the new target get the
//! new order.
//!
//! Example (sm_90): `vadd` of `tests/kernels/video` has 71 live registers in its original order, which allow 6 warps on a scheduler.
//! Ordered by `pressure` it has 14, so the target is the number of registers with which all 16 warps are resident.

use super::live::{LiveValues, elementwise_max, peak_registers_of_order};
use super::scratch::BlockScratch;
use super::{ChunkCode, ScheduleError, Scheduler};
use crate::backend::{AllocationStage, Backend, Budget, ScheduleMode};
use crate::check;
use crate::code::REGISTER_CLASS_COUNT;
use crate::graph::GraphBuilder;
use crate::in_flight::InFlightResults;
use crate::pressure::{PressureCounts, PressureTracker};
use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function};
use oriole_support::IndexVec;
use std::ops::Range;

/// Maximum number of instructions of a block that is reordered. Larger blocks rarely reach a higher occupancy, and reordering them takes
/// long.
const MAX_REORDERED_BLOCK_INSTS: usize = 4096;

/// An order of a block for few live registers, found by the strategy `pressure`.
struct LowPressureOrder {
    /// The block that is reordered.
    block: Block,
    /// Positions of the block's items in the code.
    range: Range<usize>,
    /// Positions of the items in the code, in the new order.
    order: Vec<usize>,
    /// Maximum number of live registers of each class in the new order.
    peak: PressureCounts,
}

impl Scheduler<'_> {
    /// Reorders blocks for few live registers if the function reaches a higher occupancy that way. `peaks` has the maximum number of live
    /// registers of each block and is updated. `live_values` returns the registers that are live at the start and at the end of a block.
    /// Returns whether the function changed.
    pub(super) fn lower_register_peaks<'m>(
        &'m self,
        function: &mut Function,
        flow: &ControlFlow,
        chunk: &ChunkCode,
        in_flight: &mut InFlightResults<'m>,
        peaks: &mut IndexVec<Block, PressureCounts>,
        live_values: impl Fn(&Function, Block) -> LiveValues,
    ) -> Result<bool, ScheduleError> {
        // Full occupancy is assumed even if this schedule may lower it, so that all schedules of a function start from the same order.
        let full = Scheduler { occupancy_percent: 100, ..*self };
        // The number of general registers that may be live at the highest occupancy.
        let most = full.register_target(0).registers;
        let old = peaks.iter().fold([0; REGISTER_CLASS_COUNT], |most, peak| elementwise_max(most, *peak));
        if old[0] <= most {
            return Ok(false);
        }
        let by_pressure = Scheduler { backend: Backend::PRESSURE, mode: ScheduleMode::ReduceReg, trace: false, ..full };
        let budget = Budget::new(ScheduleMode::Ilp, full.register_targets([0; REGISTER_CLASS_COUNT]), 0, &self.knobs);
        let settings = by_pressure.settings(by_pressure.mode, AllocationStage::Pre, budget);
        let mut scratch = BlockScratch {
            builder: GraphBuilder::new(self.model, chunk.code.registers()),
            tracker: PressureTracker::new(chunk.code.groups().len()),
            scheduler: by_pressure.backend.strategy().scheduler(),
            in_flight,
            carried_edges: Vec::new(),
        };
        let mut found: Vec<LowPressureOrder> = Vec::new();
        let mut lowered = 0;
        for (block, range) in &chunk.blocks {
            let peak = peaks[*block];
            if peak[0] > most && range.len() <= MAX_REORDERED_BLOCK_INSTS {
                scratch.in_flight.enter_block(function, flow, *block, None);
                let live = live_values(function, *block);
                scratch.tracker.enter_block(&chunk.code, range.clone(), live.as_block_liveness());
                let order = by_pressure.schedule_regions(&chunk.code, range, &mut scratch, &settings).order;
                let peak =
                    peak_registers_of_order(&chunk.code, range, &mut scratch.tracker, live.as_block_liveness(), order.iter().copied());
                found.push(LowPressureOrder { block: *block, range: range.clone(), order, peak });
                lowered = lowered.max(peak[0]);
            } else {
                lowered = lowered.max(peak[0]);
            }
        }
        let target = full.register_target(lowered);
        if target.max_for_occupancy >= full.register_target(old[0]).max_for_occupancy {
            return Ok(false);
        }
        found.retain(|new| new.peak[0] < peaks[new.block][0] && peaks[new.block][0] > target.registers);
        for new in &found {
            if self.verify {
                check::check(&chunk.code, new.range.clone(), &new.order)
                    .map_err(|violation| ScheduleError { block: new.block, violation })?;
            }
            let insts = std::mem::take(&mut function.blocks[new.block].insts);
            function.blocks[new.block].insts = new.order.iter().map(|position| insts[position - new.range.start]).collect();
            peaks[new.block] = new.peak;
        }
        Ok(!found.is_empty())
    }
}
