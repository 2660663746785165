//! Allocates registers again, with a lower limit, if slightly fewer registers would allow one more resident thread block.
//!
//! The allocator prefers low registers, but tuples need consecutive aligned registers, so it may use more registers than are live at once.
//! That costs time where it lowers the number of resident blocks. Example: a kernel with 256 threads per block uses 132 registers, of which
//! at most 114 are live at once. On an H200 one block is resident with 132 registers, two with 128. The second allocation must not spill,
//! and may have only a few more moves. If it fails, the search schedules for fewer live registers ([`register_target_for_more_blocks`]).
//! If the block size is not declared, the same applies to the number of resident warps.

use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_ir::{Function, FunctionKind};
use oriole_regalloc::{Allocation, AllocationEnvironment, HIDDEN_REGISTERS};

use oriole_sched::score::Score;

use crate::convention;
use crate::state::FunctionState;

/// If an allocation exceeds the register limit for one more resident thread block by at most this number of registers, an allocation within
/// that limit is tried. It is also tried if the live registers fit below the limit. A larger excess is rarely due to the alignment of
/// tuples alone.
const MAX_EXCESS_REGISTERS: u32 = 16;
/// The counterpart of [`MAX_EXCESS_REGISTERS`], in registers, for kernels that do not declare the size of their blocks. It is smaller,
/// because for them the limits are those for one more warp on each scheduler, which are often only 8 registers apart: with 16, almost every
/// allocation of up to 96 registers would be repeated.
const MAX_EXCESS_REGISTERS_UNDECLARED: u32 = 6;
/// Assumed number of registers that cannot be used because of gaps between aligned tuples.
const TUPLE_GAP_REGISTERS: u32 = 8;
/// In an allocation for more resident blocks, one additional instruction is acceptable for each group of this number of instructions.
const INSTRUCTIONS_PER_EXTRA_MOVE: usize = 64;

/// Minimum fraction of the estimated time that one more resident thread block must be able to save for a schedule with fewer registers to be
/// built. Where issue slots or functional units take most of the time, more blocks save nothing.
const MIN_POSSIBLE_SAVING: f64 = 0.003;

/// Returns whether the allocation of a function that is not allocated yet may need more registers than its register target (the number up
/// to which the occupancy stays the same), because of gaps between tuples. Every scheduled kernel that declares its block size may.
pub fn may_exceed_register_target(state: &FunctionState<'_>) -> bool {
    // The number of registers of a kernel that follows `setmaxnreg` is fixed.
    if state.input.register_counts.is_some() {
        return false;
    }
    if state.launch.is_some() {
        return state.plan.is_some();
    }
    let stats = &state.schedule_stats;
    stats.target.is_some_and(|target| stats.live_after + (HIDDEN_REGISTERS + TUPLE_GAP_REGISTERS) as i32 > target.max_for_occupancy)
}

/// Allocates registers for `before`, the function before allocation, so that more thread blocks are resident than with the allocation
/// `found`, which has `instructions` instructions. Returns the allocated function and its allocation; `None` if that would need spills or
/// many more instructions.
pub fn allocate(before: &Function, found: &Allocation, instructions: usize, state: &FunctionState<'_>) -> Option<(Function, Allocation)> {
    if before.kind != FunctionKind::Kernel || found.spill_store_bytes + found.spill_load_bytes > 0 {
        return None;
    }
    let limit = register_limit_of_function(found.registers_used, state)?;
    let limit = limit.checked_sub(HIDDEN_REGISTERS).filter(|&limit| limit >= convention::MIN_ALLOCATABLE_REGISTERS)?;
    // With more live registers than that the allocation has spills.
    if state.schedule_stats.live_after > limit as i32 {
        return None;
    }
    let environment = convention::environment(before, state.input.hardware, limit, state.selection.has_dynamic_stack);
    let environment = AllocationEnvironment { forbids_spills: true, ..environment };
    let mut function = before.clone();
    let allocation = convention::allocate(&mut function, &environment, state.input.options.verify).ok()?;
    is_at_most_slightly_longer(&function, instructions).then_some((function, allocation))
}

/// Returns the maximum number of live registers with which one more thread block would be resident, if the number of registers of an
/// allocated function is only a little above the limit for that; otherwise `None`.
pub fn register_target_for_more_blocks(state: &FunctionState<'_>) -> Option<i32> {
    let may_change = state.function.kind == FunctionKind::Kernel && state.input.register_counts.is_none() && state.spill_bytes() == 0;
    let allocation = state.allocation.as_ref().filter(|_| may_change)?;
    let limit = register_limit_of_function(allocation.registers_used, state)?;
    i32::try_from(limit.checked_sub(HIDDEN_REGISTERS + TUPLE_GAP_REGISTERS)?).ok().filter(|&target| target > 0)
}

/// Returns whether a schedule with `live` live registers cannot reach the limit for which [`register_target_for_more_blocks`] returned
/// `target`.
pub fn exceeds_limit_for_more_blocks(live: i32, target: i32) -> bool {
    live > target + TUPLE_GAP_REGISTERS as i32
}

/// Returns whether more resident thread blocks could shorten the estimated time of the allocated function `found`, if the lower limit on its
/// registers, for which [`register_target_for_more_blocks`] returned `target`, cost nothing. `score` estimates the time of a function with
/// a number of registers.
pub fn could_save_time(target: i32, found: &Allocation, score: impl Fn(u32) -> Score) -> bool {
    let limit = target as u32 + TUPLE_GAP_REGISTERS;
    score(limit).value() < (1.0 - MIN_POSSIBLE_SAVING) * score(found.registers_used).value()
}

/// Returns whether the schedule `more_blocks` needs fewer registers than `found`, so that more thread blocks are resident, and has no
/// spills and at most a few more instructions.
pub fn has_more_resident_blocks(more_blocks: &FunctionState<'_>, found: &FunctionState<'_>) -> bool {
    let registers = |state: &FunctionState<'_>| state.allocation.as_ref().map_or(u32::MAX, |allocation| allocation.registers_used);
    more_blocks.spill_bytes() == 0
        && registers(more_blocks) < registers(found)
        && register_target_for_more_blocks(more_blocks) != register_target_for_more_blocks(found)
        && is_at_most_slightly_longer(&more_blocks.function, found.function.inst_count())
}

/// Returns whether a function has at most a few more instructions than `instructions`: one more for every [`INSTRUCTIONS_PER_EXTRA_MOVE`].
pub fn is_at_most_slightly_longer(function: &Function, instructions: usize) -> bool {
    function.inst_count() <= instructions + instructions / INSTRUCTIONS_PER_EXTRA_MOVE
}

/// Returns the maximum number of registers per thread with which more thread blocks of a function are resident, if an allocation with
/// `registers_used` registers exceeds it only slightly, or if the registers that are live at once fit below it; otherwise `None`. If the
/// block size is not declared, blocks with one warp on each scheduler are assumed.
fn register_limit_of_function(registers_used: u32, state: &FunctionState<'_>) -> Option<u32> {
    let machine = state.input.hardware.machine;
    let one_warp_per_scheduler = LaunchResources { threads: machine.schedulers * machine.threads_per_warp, ..LaunchResources::default() };
    let max_excess = if state.launch.is_some() { MAX_EXCESS_REGISTERS } else { MAX_EXCESS_REGISTERS_UNDECLARED };
    let launch = state.launch.unwrap_or(one_warp_per_scheduler);
    let live = u32::try_from(state.schedule_stats.live_after).ok().filter(|&live| live > 0 && state.launch.is_some());
    let live = live.map(|live| live + HIDDEN_REGISTERS + TUPLE_GAP_REGISTERS);
    register_limit_for_more_blocks(registers_used + HIDDEN_REGISTERS, live, &launch, machine, max_excess)
}

/// Returns the maximum number of registers per thread with which more thread blocks are resident, if `registers` exceeds it by at most
/// `max_excess`, or if `live`, the number of registers needed by the values that are live at once, does not exceed it; otherwise `None`.
fn register_limit_for_more_blocks(
    registers: u32,
    live: Option<u32>,
    launch: &LaunchResources,
    machine: &Machine,
    max_excess: u32,
) -> Option<u32> {
    let cliffs = launch.register_cliffs(machine).ok()?;
    let below = cliffs.iter().rfind(|cliff| cliff.most < registers)?;
    (registers - below.most <= max_excess || live.is_some_and(|live| live <= below.most)).then_some(below.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the register limit for one more resident thread block on sm_90; `None` if `registers` exceeds it by too much.
    fn limit(registers: u32, launch: &LaunchResources) -> Option<u32> {
        register_limit_for_more_blocks(registers, None, launch, Machine::named("sm_90").unwrap(), MAX_EXCESS_REGISTERS)
    }

    /// A multiprocessor has 65,536 registers: two blocks of 256 threads fit with 128 registers per thread, three with 80 (registers come in
    /// units of eight).
    #[test]
    fn limit_allows_one_more_resident_block() {
        let launch = LaunchResources { threads: 256, ..LaunchResources::default() };
        assert_eq!(limit(132, &launch), Some(128));
        assert_eq!(limit(144, &launch), Some(128));
        assert_eq!(limit(145, &launch), None);
        assert_eq!(limit(128, &launch), None);
        assert_eq!(limit(96, &launch), Some(80));
    }

    /// 148 registers exceed 128 by 20, but only 120 are needed at once. If 130 are needed at once, no lower limit is tried.
    #[test]
    fn live_registers_justify_a_larger_excess() {
        let launch = LaunchResources { threads: 256, ..LaunchResources::default() };
        let limit = |live| register_limit_for_more_blocks(148, Some(live), &launch, Machine::named("sm_90").unwrap(), MAX_EXCESS_REGISTERS);
        assert_eq!((limit(120), limit(128), limit(130)), (Some(128), Some(128), None));
    }

    #[test]
    fn other_resources_may_limit_the_blocks() {
        let launch = LaunchResources { threads: 256, static_shared: 48 << 10, dynamic_shared: 100 << 10, ..LaunchResources::default() };
        assert_eq!(limit(132, &launch), None);
    }
}
