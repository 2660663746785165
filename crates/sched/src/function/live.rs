//! The registers that are live in a block of SSA code, and their maximum number for an order of the block.

use crate::code::products::ProductRegisters;
use crate::code::{OrderEffect, REGISTER_CLASS_COUNT, SchedCode, from_ir};
use crate::pressure::{BlockLiveness, PressureCounts, PressureTracker};
use oriole_ir::analysis::{ControlFlow, Liveness};
use oriole_ir::{Block, Function};
use std::ops::Range;

/// Register groups of the values that are live at the start of a block, phi results included, and at its end.
pub(crate) struct LiveValues {
    /// Register groups that are live at the start.
    groups_at_start: Vec<u32>,
    /// Register groups that are live at the end.
    groups_at_end: Vec<u32>,
}

impl LiveValues {
    /// Returns the register groups that are live at the start and the end of a block.
    pub(crate) fn of_block(function: &Function, numbers: &from_ir::ValueNumbers, liveness: &Liveness, block: Block) -> LiveValues {
        let groups = |value: oriole_ir::Value| numbers.groups_of_value(value);
        let phis = function.phis(block);
        let (live_in, live_out) = (liveness.live_in(block), liveness.live_out(block));
        let mut groups_at_start = Vec::with_capacity(live_in.len() + phis.len());
        groups_at_start.extend(live_in.iter().copied().flat_map(groups));
        groups_at_start.extend(phis.iter().flat_map(|&phi| function.defined(phi)).flat_map(groups));
        let mut groups_at_end = Vec::with_capacity(live_out.len());
        groups_at_end.extend(live_out.iter().copied().flat_map(groups));
        LiveValues { groups_at_start, groups_at_end }
    }

    /// Returns references to both lists, in the form that the pressure tracker takes.
    pub(crate) fn as_block_liveness(&self) -> BlockLiveness<'_> {
        BlockLiveness { live_in: &self.groups_at_start, live_out: &self.groups_at_end }
    }
}

/// Returns the maximum number of live registers of each class in a function in SSA form, in its current order.
pub(super) fn peak_registers_of_function(function: &Function) -> PressureCounts {
    let flow = ControlFlow::compute(function);
    let liveness = Liveness::compute(function, &flow);
    let numbers = from_ir::ValueNumbers::new(function);
    let products = ProductRegisters::find_in_ssa_code(function, &numbers);
    let mut tracker = PressureTracker::new(numbers.empty().groups().len());
    let mut peak = [0; REGISTER_CLASS_COUNT];
    for &block in &function.layout {
        let mut code = numbers.empty();
        function.blocks[block].insts.iter().for_each(|&inst| from_ir::push_ssa_inst(&mut code, &numbers, function, &products, inst));
        let range = 0..code.items.len();
        let live = LiveValues::of_block(function, &numbers, &liveness, block);
        peak = elementwise_max(peak, peak_registers_of_order(&code, &range, &mut tracker, live.as_block_liveness(), range.clone()));
    }
    peak
}

/// Returns, for each register class, the larger of two counts.
pub(super) fn elementwise_max(first: PressureCounts, second: PressureCounts) -> PressureCounts {
    std::array::from_fn(|class| first[class].max(second[class]))
}

/// Returns the maximum number of live registers of each class in a block, for a given order.
pub(super) fn peak_registers_of_order(
    code: &SchedCode,
    range: &Range<usize>,
    tracker: &mut PressureTracker,
    liveness: BlockLiveness<'_>,
    order: impl Iterator<Item = usize>,
) -> PressureCounts {
    tracker.enter_block(code, range.clone(), liveness);
    tracker.enter_region(code, range.clone());
    for position in order {
        tracker.step(code, &code.items[position]);
    }
    tracker.peak()
}

/// Returns two facts about a block in its current order: the maximum number of live registers of each class, and the maximum number of general
/// registers that are live after a scheduling barrier or at the end of the block, which is the same in every order of the block.
pub(super) fn live_registers_of_block(
    code: &SchedCode,
    range: &Range<usize>,
    tracker: &mut PressureTracker,
    liveness: BlockLiveness<'_>,
) -> (PressureCounts, i32) {
    tracker.enter_block(code, range.clone(), liveness);
    tracker.enter_region(code, range.clone());
    let mut least = 0;
    for item in &code.items[range.clone()] {
        tracker.step(code, item);
        if item.effect == OrderEffect::SchedBarrier {
            least = least.max(tracker.live()[0]);
        }
    }
    (tracker.peak(), least.max(tracker.live()[0]))
}
