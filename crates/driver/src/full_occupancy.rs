//! Prefers full occupancy for straight-line kernels with few loads.
//!
//! More registers let a warp interleave more independent instructions. That hides two kinds of latency: that of loads, of which more are in
//! flight, and that of arithmetic. Resident warps hide the latter as well, because another warp issues meanwhile. So in a kernel without
//! loops that hardly loads, registers beyond those of full occupancy shorten the time of a lone warp only. Example: `vadd` of
//! `tests/kernels/video` has 264 instructions and three loads. With 94 registers, five warps are resident on each scheduler; with 18
//! registers, 16. A lone warp takes 1.16 times as long with 18, but the estimate for all resident warps is bound by the issue slots.
//!
//! The search therefore builds a schedule for few registers (mode `reduce-reg`), and keeps it if it is not slower with all warps resident
//! and not much slower with one warp.

use oriole_ir::analysis::{ControlFlow, Loops};
use oriole_ir::{Function, FunctionKind};
use oriole_isa::{Effect, Memory, Opcode};
use oriole_regalloc::HIDDEN_REGISTERS;
use oriole_sched::backend::ScheduleMode;
use oriole_sched::score::Score;

use crate::resident_blocks::is_at_most_slightly_longer;
use crate::schedule::SchedulePlan;
use crate::state::FunctionState;

/// Minimum number of instructions for each load in a kernel that counts as having few loads.
const MIN_INSTRUCTIONS_PER_LOAD: usize = 48;
/// Maximum number of instructions of a kernel for which full occupancy is preferred; longer kernels were not studied.
const MAX_KERNEL_INSTRUCTIONS: usize = 1024;
/// Maximum ratio of the estimated time of a lone warp with the schedule for full occupancy to its estimated time with the other schedule.
/// Above this ratio the other schedule is kept.
const MAX_LONE_WARP_RATIO: f64 = 1.4;

/// Returns whether full occupancy is preferred for a function: it is a kernel of at most [`MAX_KERNEL_INSTRUCTIONS`] instructions with few
/// loads and no loops, does not declare the size of its blocks, and does not follow `setmaxnreg`.
pub fn is_full_occupancy_preferred(state: &FunctionState<'_>) -> bool {
    let function = &state.function;
    let is_short_kernel = function.kind == FunctionKind::Kernel && function.inst_count() <= MAX_KERNEL_INSTRUCTIONS;
    is_short_kernel && state.input.register_counts.is_none() && state.launch.is_none() && has_few_loads(function) && has_no_loops(function)
}

/// Returns a scheduling plan with which more warps are resident: `plan` in the mode for few registers. `None` if all warps can already be
/// resident with the registers of `allocated`, the function allocated with `plan`, or if `allocated` has spills.
pub fn plan_for_more_warps(plan: SchedulePlan, allocated: &FunctionState<'_>) -> Option<SchedulePlan> {
    let allocation = allocated.allocation.as_ref().filter(|_| allocated.spill_bytes() == 0)?;
    let limit = allocated.input.hardware.machine.registers_at_full_occupancy();
    (allocation.registers_used + HIDDEN_REGISTERS > limit).then_some(SchedulePlan { mode: ScheduleMode::ReduceReg, ..plan })
}

/// Returns whether the schedule `more_warps` is better than `found`: it has fewer registers, no spills, at most a few more instructions, is
/// not slower with all warps resident, and not much slower with one warp. `score` estimates both times of a schedule, in cycles.
pub fn is_better_with_more_warps(
    more_warps: &FunctionState<'_>,
    found: &FunctionState<'_>,
    score: impl Fn(&FunctionState<'_>) -> Option<Score>,
) -> bool {
    let registers = |state: &FunctionState<'_>| state.allocation.as_ref().map_or(u32::MAX, |allocation| allocation.registers_used);
    more_warps.spill_bytes() == 0
        && registers(more_warps) < registers(found)
        && is_at_most_slightly_longer(&more_warps.function, found.function.inst_count())
        && score(more_warps)
            .zip(score(found))
            .is_some_and(|(new, old)| new.shared <= old.shared && new.alone <= MAX_LONE_WARP_RATIO * old.alone)
}

/// Returns whether no block of a function is in a loop.
fn has_no_loops(function: &Function) -> bool {
    let loops = Loops::compute(function, &ControlFlow::compute(function));
    function.layout.iter().all(|&block| loops.depth(block) == 0)
}

/// Returns whether at most one instruction in [`MIN_INSTRUCTIONS_PER_LOAD`] reads memory other than constant banks.
fn has_few_loads(function: &Function) -> bool {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let loads = insts.filter(|&&inst| {
        let properties = function.insts[inst].op.machine().map(Opcode::properties);
        properties.is_some_and(|found| matches!(found.effect, Effect::Reads | Effect::Updates) && found.memory != Memory::Constant)
    });
    loads.count() * MIN_INSTRUCTIONS_PER_LOAD <= function.inst_count()
}
