//! The search over schedules: runs the passes from scheduling to the final order of instructions (phases 97 to 110 of the table) with
//! each plan to try, and keeps the result with the lowest estimated time.
//!
//! For each plan up to three variants are compared. The first keeps the occupancy of the original order. The second, `low_occupancy`, gets
//! more registers at a lower occupancy; it is only built if the scheduler estimates a sufficient gain while it builds the first one. The
//! third is built if slightly fewer registers than the first one needs would allow one more resident thread block ([`resident_blocks`]), some
//! order may have so few live registers, and the estimate says that one more block could save time.
//! For straight-line kernels with few loads, the second variant is replaced by one for full occupancy ([`full_occupancy`]).
//! Each schedule that is built here counts as a trial; the orders that [`allocate_avoiding_spills`] may allocate instead of one that spills
//! do not.
//!
//! Example: with the default options there is one plan. Its schedule at full occupancy is built. If the scheduler estimates that half of
//! the warps would save 5 % of the time, a second schedule for half of the warps is built and allocated too, and
//! [`schedule::schedule_score`] decides.

use oriole_ir::RegFile;
use oriole_sched::backend::{Backend, ScheduleMode};
use oriole_sched::score::Score;

use crate::error::{ErrorCause, FunctionError};
use crate::full_occupancy;
use crate::pass_log::instruction_count;
use crate::passes::Stage;
use crate::pipeline::run_stage;
use crate::resident_blocks;
use crate::schedule::{self, SchedulePlan};
use crate::state::FunctionState;

/// Schedules and allocates a function with every scheduling plan to try, and keeps the best result. If there are no plans, only allocates
/// registers.
pub fn run(state: &mut FunctionState<'_>) -> Result<(), Vec<FunctionError>> {
    match find_best_schedule(state)? {
        Some(best) => *state = *best,
        None => {
            run_stage(Stage::Schedule, state)?;
            run_stage(Stage::Allocate, state)?;
        }
    }
    Ok(())
}

/// Schedules and allocates a function with every scheduling plan to try. Returns the best result; `None` if there are no plans. The states
/// are boxed, because a dozen of them on the stack take ten pages of memory.
fn find_best_schedule<'a>(state: &FunctionState<'a>) -> Result<Option<Box<FunctionState<'a>>>, Vec<FunctionError>> {
    let options = state.options();
    // The environment of the allocator is computed here once, so that all copies of the state share it.
    state.environment();
    let mut trials = schedule::max_schedule_trials(instruction_count(&state.function), options);
    let mut best: Option<BestSchedule<'a>> = None;
    for plan in schedule::plans(&state.function, options, state.input.hardware) {
        if trials == 0 {
            break;
        }
        let prefers_full_occupancy = full_occupancy::is_full_occupancy_preferred(state);
        let is_occupancy_fixed = prefers_full_occupancy || state.input.register_counts.is_some();
        let occupancies_to_estimate = if is_occupancy_fixed { &[] } else { schedule::occupancies_to_estimate(plan, options) };
        // The schedule for a lower occupancy counts as a trial, so a trial must be left for it.
        let occupancies_to_estimate = &occupancies_to_estimate[..occupancies_to_estimate.len().min(trials - 1)];
        let scheduled = schedule(state, plan, occupancies_to_estimate)?;
        trials -= 1;
        let estimate = scheduled.schedule_stats.tradeoff.and_then(schedule::choose_reduced_occupancy);
        let low_occupancy = estimate.and_then(|(occupancy_percent, _)| {
            trials -= 1;
            let low_occupancy = schedule(state, SchedulePlan { occupancy_percent, ..plan }, &[]).and_then(allocate);
            // A schedule for a lower occupancy that spills is discarded: the spills would cost more than the extra registers save.
            low_occupancy.ok().filter(|low_occupancy| low_occupancy.spill_bytes() == 0)
        });
        // If the estimated gain of the lower occupancy is large, its schedule is used without comparison: the first schedule is not even
        // allocated.
        if low_occupancy.is_none() || !estimate.is_some_and(|(_, is_certain)| is_certain) {
            let allocated = allocate_avoiding_spills(state, plan, scheduled)?;
            // If a schedule with slightly fewer live registers would make one more thread block resident, build that schedule too.
            let register_target = (trials > 0).then(|| register_target_for_more_blocks(&allocated)).flatten();
            let more_blocks = register_target.and_then(|target| {
                trials -= 1;
                let plan = SchedulePlan { register_target: Some(target), ..plan };
                let more_blocks = schedule(state, plan, &[]).ok()?;
                if resident_blocks::exceeds_limit_for_more_blocks(more_blocks.schedule_stats.live_after, target) {
                    return None;
                }
                let more_blocks = allocate(more_blocks).ok()?;
                resident_blocks::has_more_resident_blocks(&more_blocks, &allocated).then_some(more_blocks)
            });
            let few_registers =
                if prefers_full_occupancy && trials > 0 { full_occupancy::plan_for_more_warps(plan, &allocated) } else { None };
            let full_occupancy = few_registers.and_then(|plan| {
                trials -= 1;
                let full_occupancy = schedule(state, plan, &[]).and_then(allocate).ok()?;
                full_occupancy::is_better_with_more_warps(&full_occupancy, &allocated, score).then_some(full_occupancy)
            });
            BestSchedule::keep_better(&mut best, full_occupancy.unwrap_or(allocated));
            if let Some(more_blocks) = more_blocks {
                BestSchedule::keep_better(&mut best, more_blocks);
            }
        }
        if let Some(low_occupancy) = low_occupancy {
            BestSchedule::keep_better(&mut best, low_occupancy);
        }
    }
    Ok(best.map(|best| best.state))
}

/// The best schedule so far. The time of the schedule is only computed when another one is compared with it.
struct BestSchedule<'a> {
    /// The score of the schedule, an estimate of its execution time ([`estimated_time`]); `None` if not computed yet.
    time: Option<f64>,
    /// The function with this schedule, after register allocation.
    state: Box<FunctionState<'a>>,
}

impl<'a> BestSchedule<'a> {
    /// Replaces `best` by the schedule `other` if there is none yet, or if `other` has a lower estimated time.
    fn keep_better(best: &mut Option<BestSchedule<'a>>, other: Box<FunctionState<'a>>) {
        let Some(best) = best else {
            *best = Some(BestSchedule { time: None, state: other });
            return;
        };
        let known = best.time.unwrap_or_else(|| estimated_time(&best.state));
        let time = estimated_time(&other);
        best.time = Some(known.min(time));
        if time < known {
            best.state = other;
        }
    }
}

/// Returns the maximum number of live registers of a schedule that would make one more thread block resident, if such a schedule may exist
/// and may be faster than `allocated`.
fn register_target_for_more_blocks(allocated: &FunctionState<'_>) -> Option<i32> {
    let target = resident_blocks::register_target_for_more_blocks(allocated)?;
    if resident_blocks::exceeds_limit_for_more_blocks(allocated.schedule_stats.least_live, target) {
        return None;
    }
    let score = schedule::score_by_registers(&allocated.function, allocated.schedule_context());
    let could_save_time = resident_blocks::could_save_time(target, allocated.allocation.as_ref()?, score);
    could_save_time.then_some(target)
}

/// Returns the estimated execution time of an allocated function, for comparison with other schedules of the same function.
fn estimated_time(state: &FunctionState<'_>) -> f64 {
    score(state).map_or(f64::INFINITY, Score::value)
}

/// Returns the score of an allocated function; `None` before allocation.
fn score(state: &FunctionState<'_>) -> Option<Score> {
    let allocation = state.allocation.as_ref()?;
    Some(schedule::schedule_score(&state.function, allocation, state.schedule_context()))
}

/// Numbers of registers by which the register target (maximum number of live registers) is lowered, one after the other, if an order spills
/// although there are enough registers for its live values: tuples need aligned gaps, and results must not overwrite operands that are
/// still read.
const REGISTER_TARGET_REDUCTIONS: [i32; 3] = [2, 4, 8];

/// Strategies whose instruction orders are allocated if all other orders cause spills. Which order of a function spills least cannot be
/// told from its number of live registers: a loop whose accumulator tuples find no aligned place stores and loads whole tuples. For
/// example, an attention kernel with 128 columns and four warps has 360 bytes of spill stores in the order for few registers, and 64 in
/// that of `pressure`.
const BACKENDS_TRIED_ON_SPILLS: [Backend; 2] = [Backend::PRESSURE, Backend::NEAR_SOURCE];

/// Allocates registers for `scheduled`. Spills in the parts of a kernel that has given up registers there are accepted: other orders of the
/// whole kernel would cost more time in its other parts. If the order causes other spills, tries orders with fewer live registers. If these spill too,
/// the original order of `state` is allocated as well. As long as the best result spills, an order for few registers is tried and, unless
/// the function is large, the orders of [`BACKENDS_TRIED_ON_SPILLS`]. Returns the allocation with the least estimated spill traffic; among
/// equals, the one with less estimated time.
fn allocate_avoiding_spills<'a>(
    state: &FunctionState<'a>,
    plan: SchedulePlan,
    scheduled: Box<FunctionState<'a>>,
) -> Result<Box<FunctionState<'a>>, Vec<FunctionError>> {
    let is_new = scheduled.schedule_stats.blocks > 0;
    let live = scheduled.schedule_stats.live_after;
    let new = match allocate(scheduled) {
        Ok(new) if !is_new || new.spill_bytes() == 0 || new.spills_with_few_registers_only() => return Ok(new),
        Ok(new) => Some(new),
        // There are not enough registers for the new order; an allocation of the original order may still be possible.
        Err(failures) if failures.iter().all(|failure| matches!(failure.fault, ErrorCause::Limit(_))) => None,
        Err(failures) => return Err(failures),
    };
    let registers = state.environment().limit(RegFile::General) as i32;
    if live <= registers
        && let Some(fitting) = REGISTER_TARGET_REDUCTIONS.into_iter().find_map(|fewer| {
            let plan = SchedulePlan { register_target: Some(registers - fewer), ..plan };
            schedule(state, plan, &[]).and_then(allocate).ok().filter(|allocated| allocated.spill_bytes() == 0)
        })
    {
        return Ok(fitting);
    }
    let old = allocate(schedule(state, SchedulePlan { before_allocation: false, ..plan }, &[])?)?;
    let best = new.map_or_else(|| old.clone(), |new| pick_less_spill_traffic(new, &old));
    if plan.mode == ScheduleMode::ReduceReg || best.spill_bytes() == 0 {
        return Ok(best);
    }
    let few_registers = SchedulePlan { mode: ScheduleMode::ReduceReg, ..plan };
    let is_small = schedule::max_schedule_trials(instruction_count(&state.function), state.options()) > 1;
    let others = BACKENDS_TRIED_ON_SPILLS.iter().filter(|&&backend| is_small && backend != plan.backend);
    let plans = std::iter::once(few_registers).chain(others.map(|&backend| SchedulePlan { backend, ..plan }));
    Ok(plans.fold(best, |best, plan| match best.spill_bytes() {
        0 => best,
        _ => match schedule(state, plan, &[]).and_then(allocate) {
            Ok(other) => pick_less_spill_traffic(best, &other),
            Err(_) => best,
        },
    }))
}

/// Returns the better one of two allocations of a function: `first`, unless `second` has less spill traffic, or the same and less estimated
/// time.
fn pick_less_spill_traffic<'a>(first: Box<FunctionState<'a>>, second: &FunctionState<'a>) -> Box<FunctionState<'a>> {
    let traffic = [first.spill_traffic(), second.spill_traffic()];
    if traffic[0] < traffic[1] || traffic[0] == traffic[1] && estimated_time(&first) <= estimated_time(second) {
        return first;
    }
    let mut kept = Box::new(second.clone());
    kept.report_data.note_discarded_schedule(&first.report_data);
    kept
}

/// Returns a copy of the function, scheduled before register allocation. `occupancies_to_estimate` are the lower occupancies for which the
/// scheduler estimates the time that they save, in percent of the resident warps of the original order.
fn schedule<'a>(
    state: &FunctionState<'a>,
    plan: SchedulePlan,
    occupancies_to_estimate: &'static [u32],
) -> Result<Box<FunctionState<'a>>, Vec<FunctionError>> {
    let mut state = Box::new(state.clone());
    state.plan = Some(plan);
    state.occupancies_to_estimate = occupancies_to_estimate;
    run_stage(Stage::Schedule, &mut state)?;
    Ok(state)
}

/// Allocates registers for a function, and schedules it again after allocation.
fn allocate(mut state: Box<FunctionState<'_>>) -> Result<Box<FunctionState<'_>>, Vec<FunctionError>> {
    run_stage(Stage::Allocate, &mut state)?;
    Ok(state)
}
