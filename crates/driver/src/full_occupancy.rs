//! Prefers full occupancy for straight-line kernels with few loads.
//!
//! More registers let a warp interleave more independent instructions. That hides two kinds of latency: that of loads, of which more are in
//! flight, and that of arithmetic. Resident warps hide the latter as well, because another warp issues meanwhile. So in a kernel without
//! loops that hardly loads, registers beyond those of full occupancy shorten the time of a lone warp only. Example: `vadd` of
//! `tests/kernels/video` has 264 instructions and three loads. With 94 registers, five warps are resident on each scheduler; with 32
//! registers, 16. A lone warp takes 1.3 times as long with 32, but the estimate for all resident warps is bound by the issue slots.
//!
//! The search therefore builds a schedule for as many registers as all warps can have, and keeps it unless its score is clearly worse.

use oriole_ir::analysis::{ControlFlow, Loops};
use oriole_ir::{Function, FunctionKind};
use oriole_isa::{Effect, Memory};
use oriole_regalloc::HIDDEN_REGISTERS;

use crate::resident_blocks::is_at_most_slightly_longer;
use crate::state::FunctionState;

/// Minimum number of instructions for each load of a kernel with few loads.
const INSTRUCTIONS_PER_LOAD: usize = 48;
/// Maximum ratio of the estimated times with full and with lower occupancy.
const MAX_TIME_RATIO: f64 = 1.06;

/// Returns whether full occupancy is preferred for a kernel: it has no loops and few loads, and does not declare the size of its blocks.
pub fn is_preferred_for(state: &FunctionState<'_>) -> bool {
    state.function.kind == FunctionKind::Kernel && state.launch.is_none() && has_few_loads(&state.function) && has_no_loops(&state.function)
}

/// Returns the maximum number of live registers with which all warps are resident, if an allocated function has more registers; otherwise
/// `None`.
pub fn register_target(allocated: &FunctionState<'_>) -> Option<i32> {
    let allocation = allocated.allocation.as_ref().filter(|_| allocated.spill_bytes() == 0)?;
    let limit = allocated.input.hardware.machine.registers_at_full_occupancy();
    let target = i32::try_from(limit.checked_sub(HIDDEN_REGISTERS)?).ok()?;
    (allocation.registers_used + HIDDEN_REGISTERS > limit && target > 0).then_some(target)
}

/// Returns whether the schedule `full` is to be kept instead of `found`: it has fewer registers, no spills, at most a few more
/// instructions, and hardly more estimated time. `time` estimates the time of a schedule.
pub fn is_kept(full: &FunctionState<'_>, found: &FunctionState<'_>, time: impl Fn(&FunctionState<'_>) -> f64) -> bool {
    let registers = |state: &FunctionState<'_>| state.allocation.as_ref().map_or(u32::MAX, |allocation| allocation.registers_used);
    full.spill_bytes() == 0
        && registers(full) < registers(found)
        && is_at_most_slightly_longer(&full.function, found.function.inst_count())
        && time(full) <= MAX_TIME_RATIO * time(found)
}

/// Returns whether no block is in a loop.
fn has_no_loops(function: &Function) -> bool {
    let loops = Loops::compute(function, &ControlFlow::compute(function));
    function.layout.iter().all(|&block| loops.depth(block) == 0)
}

/// Returns whether few instructions read memory other than constant banks.
fn has_few_loads(function: &Function) -> bool {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let loads = insts.filter(|&&inst| {
        let properties = function.insts[inst].op.machine().map(|opcode| opcode.properties());
        properties.is_some_and(|found| matches!(found.effect, Effect::Reads | Effect::Updates) && found.memory != Memory::Constant)
    });
    loads.count() * INSTRUCTIONS_PER_LOAD <= function.inst_count()
}
