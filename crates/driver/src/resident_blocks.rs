//! Schedules and allocates registers again, with a lower limit, where a few registers too many cost a resident thread block.
//!
//! The allocator uses low registers first, but tuples need aligned neighbours, so the highest register may lie above the number of
//! registers that are live at once. That matters where the number of resident blocks falls. Example: 132 registers of a kernel with 256
//! threads per block leave room for one block on an H200, 128 for two, and 114 are live at once. The second allocation must not spill, and
//! may need only a few more moves. If it fails, the search schedules for fewer live registers ([`target_for_more_blocks`]).

use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::Launch;
use oriole_ir::{Function, FunctionKind};
use oriole_regalloc::{Allocation, HIDDEN_REGISTERS};

use crate::convention;
use crate::state::FunctionState;

/// Registers above the limit for one more block, at most. A larger excess is rarely due to the alignment of tuples alone.
const MAX_EXCESS: u32 = 16;
/// Registers that stay free between aligned tuples.
const TUPLE_GAPS: u32 = 8;
/// An allocation for more blocks may have one more instruction for this many that the function has anyway.
const INSTRUCTIONS_PER_MOVE: usize = 64;

/// Returns an allocation of `before`, the function before allocation, with which more blocks are resident than with `found`.
/// `instructions` is the number of instructions that `found` needs.
pub fn allocate(before: &Function, found: &Allocation, instructions: usize, state: &FunctionState<'_>) -> Option<(Function, Allocation)> {
    if before.kind != FunctionKind::Kernel || found.spill_store_bytes + found.spill_load_bytes > 0 {
        return None;
    }
    let limit = limit_for_more_blocks(found.registers_used + HIDDEN_REGISTERS, &state.launch?, state.input.hardware.machine)?;
    let limit = limit.checked_sub(HIDDEN_REGISTERS).filter(|&limit| limit >= convention::MIN_TO_ALLOCATE)?;
    let environment = convention::environment(before, state.input.hardware, limit, state.selection.has_dynamic_stack);
    let mut function = before.clone();
    let allocation = convention::allocate(&mut function, &environment, state.input.options.verify).ok()?;
    let has_spills = allocation.spill_store_bytes + allocation.spill_load_bytes > 0;
    (!has_spills && is_little_longer(&function, instructions)).then_some((function, allocation))
}

/// Returns how many registers may be live in a schedule with which one more block is resident, if the registers of an allocated function
/// exceed the limit for it by little.
pub fn target_for_more_blocks(state: &FunctionState<'_>) -> Option<i32> {
    let allocation = state.allocation.as_ref().filter(|_| state.function.kind == FunctionKind::Kernel && state.spill_bytes() == 0)?;
    let registers = allocation.registers_used + HIDDEN_REGISTERS;
    let limit = limit_for_more_blocks(registers, &state.launch?, state.input.hardware.machine)?;
    i32::try_from(limit.checked_sub(HIDDEN_REGISTERS + TUPLE_GAPS)?).ok().filter(|&target| target > 0)
}

/// Returns whether a schedule for more blocks has them, without spills and with few more instructions.
pub fn is_improvement(more_blocks: &FunctionState<'_>, found: &FunctionState<'_>) -> bool {
    let registers = |state: &FunctionState<'_>| state.allocation.as_ref().map_or(u32::MAX, |allocation| allocation.registers_used);
    more_blocks.spill_bytes() == 0
        && registers(more_blocks) < registers(found)
        && target_for_more_blocks(more_blocks) != target_for_more_blocks(found)
        && is_little_longer(&more_blocks.function, found.function.inst_count())
}

/// Returns whether a function has at most a few more instructions than the given number.
fn is_little_longer(function: &Function, instructions: usize) -> bool {
    function.inst_count() <= instructions + instructions / INSTRUCTIONS_PER_MOVE
}

/// Returns the most registers with which more blocks are resident, if `registers` exceeds them by little.
fn limit_for_more_blocks(registers: u32, launch: &Launch, machine: &Machine) -> Option<u32> {
    let cliffs = launch.register_cliffs(machine).ok()?;
    let below = cliffs.iter().rfind(|cliff| cliff.most < registers)?;
    (registers - below.most <= MAX_EXCESS).then_some(below.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(registers: u32, launch: &Launch) -> Option<u32> {
        limit_for_more_blocks(registers, launch, Machine::named("sm_90").unwrap())
    }

    /// A multiprocessor has 65,536 registers: two blocks of 256 threads fit with 128 registers, three with 80 (in units of eight).
    #[test]
    fn the_limit_is_that_of_one_more_block() {
        let launch = Launch { threads: 256, ..Launch::default() };
        assert_eq!(limit(132, &launch), Some(128));
        assert_eq!(limit(144, &launch), Some(128));
        assert_eq!(limit(145, &launch), None);
        assert_eq!(limit(128, &launch), None);
        assert_eq!(limit(96, &launch), Some(80));
    }

    #[test]
    fn other_resources_may_limit_the_blocks() {
        let launch = Launch { threads: 256, static_shared: 48 << 10, dynamic_shared: 100 << 10, ..Launch::default() };
        assert_eq!(limit(132, &launch), None);
    }
}
