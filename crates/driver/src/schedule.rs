//! Chooses the scheduling plans of a function, and calls the scheduler before and after register allocation.
//!
//! A [`SchedulePlan`] is a choice of scheduler backend and mode. Usually a function has one plan: the one that the options give, or one with
//! the backend that was fastest in measurements for this kind of code. With the backend `auto`, the [`search`](crate::search) runs register
//! allocation and phase 110 for several plans, and keeps the result with the best [`Score`]. The number of plans to try depends only on the
//! options and the function, never on elapsed time, so that the same input gives the same bytes.
//!
//! **Occupancy.** Before allocation, the register budget keeps as many warps resident as the original order would. If that budget is too
//! small for some basic block, and more registers are estimated to save enough time ([`MIN_SAVING_FRACTION`]), a second schedule is built
//! that keeps only three quarters or half of the warps. The schedule with the better score is kept. If the estimated saving is large
//! ([`CERTAIN_SAVING_FRACTION`]) and the second schedule needs no spills, the first one is discarded without a comparison.
//!
//! **Spills.** Whether a budget was sufficient is known only after allocation. If a new order needs spills although its live registers fit,
//! orders with slightly lower register targets are tried. If all of them spill, the original order is allocated as well and, if that spills
//! too, an order for few registers and those of two other strategies. The one with the least spill traffic is kept, where each loop around
//! a spill multiplies its bytes by ten; if they are equal, the one with the better score.

use oriole_hardware::Hardware;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_ir::{Function, RegFile};
use oriole_regalloc::{Allocation, AllocationEnvironment};
use oriole_sched::backend::{Backend, Knobs, ScheduleMode};
use oriole_sched::calls::CallCosts;
use oriole_sched::function::{ScheduleError, Scheduler, Stats};
use oriole_sched::occupancy_tradeoff::ReducedOccupancy;
use oriole_sched::resource::ResourceCosts;
use oriole_sched::score::{Score, ScoredBlocks};

use crate::code_kind::{CodeKind, DEFAULT_BACKEND};
use crate::options::{BackendChoice, Options, ScheduleModeChoice, Scheduling};
use crate::registers::HIDDEN_REGISTERS;

/// Lowest optimization level at which code is scheduled.
pub const MIN_SCHEDULED_LEVEL: u8 = 2;

/// Phase number of scheduling before register allocation.
pub const PHASE_BEFORE_ALLOCATION: u8 = 97;
/// Phase number of scheduling after register allocation.
pub const PHASE_AFTER_ALLOCATION: u8 = 110;

/// Lower occupancies to try where registers are scarce, in percent of the resident warps of the original order.
const LOWER_OCCUPANCY_PERCENTS: [u32; 2] = [50, 75];

/// A schedule at a lower occupancy is built if it is estimated to save at least this fraction of the execution time.
const MIN_SAVING_FRACTION: f64 = 0.02;
/// A schedule at a lower occupancy is used without a comparison if it is estimated to save at least this fraction of the execution time.
const CERTAIN_SAVING_FRACTION: f64 = 0.15;

/// Maximum number of steps in which the scheduler searches for better orders of a function, if the options name no strategy. The searches
/// then take at most about as long as the other strategies that `combined` compares.
const DEFAULT_SEARCH_STEPS: usize = 2_000;

/// A choice of backend, mode and occupancy with which to schedule a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulePlan {
    /// The scheduler backend.
    pub backend: Backend,
    /// The scheduling mode (optimization goal).
    pub mode: ScheduleMode,
    /// Whether to schedule before register allocation (phase 97 of the pipeline).
    pub before_allocation: bool,
    /// Whether to schedule after register allocation (phase 110).
    pub after_allocation: bool,
    /// Percentage of the resident warps of the original order that the register budget must keep.
    pub occupancy_percent: u32,
    /// Maximum number of live registers, to make more thread blocks resident or to avoid spills; `None` if the occupancy alone determines
    /// the number.
    pub register_target: Option<i32>,
}

impl SchedulePlan {
    /// Returns a plan that schedules before and after register allocation and keeps the occupancy of the original order.
    fn new(backend: Backend, mode: ScheduleMode) -> SchedulePlan {
        SchedulePlan { backend, mode, before_allocation: true, after_allocation: true, occupancy_percent: 100, register_target: None }
    }
}

/// Properties of a function and its target that scheduling depends on.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleContext<'a> {
    /// The hardware model of the target.
    pub hardware: &'a Hardware<'a>,
    /// Estimated execution times, in cycles, of the functions that the function calls.
    pub calls: &'a CallCosts,
    /// Resources that a thread block needs besides registers; `None` if the block size is not declared.
    pub launch: Option<LaunchResources>,
    /// Whether to record the reason why the scheduler picks each instruction.
    pub trace: bool,
}

/// Returns the scheduling plans (choices of backend and mode) to try for a function, in order; empty if it is not scheduled.
pub fn plans(function: &Function, options: &Options, hardware: &Hardware<'_>) -> Vec<SchedulePlan> {
    let Scheduling { mode, backend, .. } = options.scheduling;
    let mode = match mode {
        ScheduleModeChoice::Off => return Vec::new(),
        ScheduleModeChoice::ByLevel if options.level < MIN_SCHEDULED_LEVEL => return Vec::new(),
        ScheduleModeChoice::ByLevel => None,
        ScheduleModeChoice::On(mode) => Some(mode),
    };
    let usual = mode.unwrap_or(ScheduleMode::Ilp);
    match backend {
        BackendChoice::Default => vec![SchedulePlan::new(CodeKind::of_function(function).default_strategy(options.level), usual)],
        BackendChoice::ByTarget => vec![published_plan(hardware.machine, usual)],
        BackendChoice::One(backend) => vec![SchedulePlan::new(backend, usual)],
        BackendChoice::Auto => {
            let modes = mode.map_or(&[ScheduleMode::Ilp, ScheduleMode::ReduceReg, ScheduleMode::DynBatch][..], |mode| match mode {
                ScheduleMode::Ilp => &[ScheduleMode::Ilp],
                ScheduleMode::ReduceReg => &[ScheduleMode::ReduceReg],
                ScheduleMode::DynBatch => &[ScheduleMode::DynBatch],
            });
            let all = modes.iter().flat_map(|&mode| Backend::tried_by_auto().map(move |backend| SchedulePlan::new(backend, mode)));
            all.collect()
        }
        BackendChoice::ByCode => {
            let kind = CodeKind::of_function(function);
            kind.strategies(options.level).into_iter().map(|strategy| SchedulePlan::new(strategy, usual)).collect()
        }
    }
}

/// Returns the lower occupancies for which the scheduler estimates the time that they save, in percent of the resident warps of the
/// original order; empty if the plan allows none.
pub fn occupancies_to_estimate(plan: SchedulePlan, options: &Options) -> &'static [u32] {
    let may_pay = plan.mode != ScheduleMode::ReduceReg && options.scheduling.knobs.register_target.is_none();
    if may_pay { &LOWER_OCCUPANCY_PERCENTS } else { &[] }
}

/// Decides from an estimate whether to build a schedule at reduced occupancy. Returns that occupancy, in percent of the resident warps of
/// the original order, and whether its schedule is used without a comparison with the one at full occupancy. `None` if the estimated
/// saving, a fraction of the execution time, is too small.
pub fn choose_reduced_occupancy(estimate: ReducedOccupancy) -> Option<(u32, bool)> {
    (estimate.saved >= MIN_SAVING_FRACTION).then_some((estimate.occupancy_percent, estimate.saved >= CERTAIN_SAVING_FRACTION))
}

/// Returns the maximum number of schedules to try for a function with this number of instructions.
pub fn max_schedule_trials(instructions: usize, options: &Options) -> usize {
    1 + options.scheduling.knobs.auto_budget / instructions.max(1)
}

/// Returns the plan that the published description of ptxas has for a target: its backend, and scheduling after register allocation (phase
/// 110) only on targets for which the description has it.
fn published_plan(machine: &Machine, mode: ScheduleMode) -> SchedulePlan {
    let backend = Backend::parse(machine.page_scheduler).unwrap_or(DEFAULT_BACKEND);
    SchedulePlan { after_allocation: machine.page_post_schedule != 0, ..SchedulePlan::new(backend, mode) }
}

/// Creates a scheduler for the plan, calls `run` with it, and returns the result of `run`. `occupancies_to_estimate` are the lower
/// occupancies for which the scheduler estimates the time that they save, in percent of the resident warps of the original order.
fn with_scheduler(
    plan: SchedulePlan,
    context: ScheduleContext<'_>,
    environment: &AllocationEnvironment,
    options: &Options,
    occupancies_to_estimate: &[u32],
    run: impl FnOnce(&Scheduler<'_>) -> Result<Stats, ScheduleError>,
) -> Result<Stats, ScheduleError> {
    let &Hardware { model, machine, rates, .. } = context.hardware;
    let knobs = options.scheduling.knobs;
    let search_steps = match options.scheduling.backend {
        BackendChoice::Default => knobs.search_steps.min(DEFAULT_SEARCH_STEPS),
        _ => knobs.search_steps,
    };
    run(&Scheduler {
        model,
        costs: &ResourceCosts::from_rates(rates, machine),
        machine,
        backend: plan.backend,
        mode: plan.mode,
        knobs: Knobs { register_target: knobs.register_target.or(plan.register_target), search_steps, ..knobs },
        register_limit: environment.limit(RegFile::General),
        initial_registers: environment.initial_registers,
        hidden_registers: HIDDEN_REGISTERS,
        uniform_limit: environment.limit(RegFile::Uniform),
        calls: Some(context.calls),
        launch: context.launch,
        occupancy_percent: plan.occupancy_percent,
        lower_occupancy_percents: occupancies_to_estimate,
        tries_near_source: is_default_plan(plan, options),
        verify: options.verify,
        trace: context.trace,
    })
}

/// Returns whether a plan has the default backend because the options name none.
fn is_default_plan(plan: SchedulePlan, options: &Options) -> bool {
    options.scheduling.backend == BackendChoice::Default && plan.backend == DEFAULT_BACKEND && plan.mode == ScheduleMode::Ilp
}

/// Schedules a function before register allocation (phase 97 of the pipeline), and returns statistics. For each occupancy in
/// `occupancies_to_estimate`, in percent of the resident warps of the original order, the scheduler also estimates the time that the
/// additional registers would save.
pub fn before_allocation(
    function: &mut Function,
    plan: SchedulePlan,
    occupancies_to_estimate: &[u32],
    context: ScheduleContext<'_>,
    environment: &AllocationEnvironment,
    options: &Options,
) -> Result<Stats, ScheduleError> {
    if !plan.before_allocation {
        return Ok(Stats::default());
    }
    with_scheduler(plan, context, environment, options, occupancies_to_estimate, |scheduler| scheduler.schedule_ssa_function(function))
}

/// Schedules a function after register allocation (phase 110), and returns statistics.
pub fn after_allocation(
    function: &mut Function,
    plan: SchedulePlan,
    context: ScheduleContext<'_>,
    environment: &AllocationEnvironment,
    options: &Options,
) -> Result<Stats, ScheduleError> {
    if options.scheduling.knobs.post_schedule.map_or(!plan.after_allocation, |wanted| wanted == 0) {
        return Ok(Stats::default());
    }
    with_scheduler(plan, context, environment, options, &[], |scheduler| {
        // Unless the options name a backend, the default backend also avoids bank conflicts. The strategy `combined` already compares
        // orders by them.
        if is_default_plan(plan, options) {
            scheduler.schedule_allocated_function_avoiding_bank_conflicts(function)
        } else {
            scheduler.schedule_allocated_function(function)
        }
    })
}

/// Returns the score of a scheduled function, an estimate of its execution time for comparison with other schedules of the same function.
pub fn schedule_score(function: &Function, allocation: &Allocation, context: ScheduleContext<'_>) -> Score {
    score_by_registers(function, context)(allocation.registers_used)
}

/// Returns a function from a number of registers, which determines the number of resident warps, to the score that a scheduled function would
/// have if it used this number.
pub fn score_by_registers(function: &Function, context: ScheduleContext<'_>) -> impl Fn(u32) -> Score {
    let &Hardware { model, machine, rates, .. } = context.hardware;
    let times = ScoredBlocks::of_function(function, model, &ResourceCosts::from_rates(rates, machine));
    move |registers| times.score(warps_with_registers(registers, context.launch, machine))
}

/// Returns the number of resident warps per hardware scheduler with the registers of an allocation.
pub fn resident_warps(allocation: &Allocation, launch: Option<LaunchResources>, machine: &Machine) -> u32 {
    warps_with_registers(allocation.registers_used, launch, machine)
}

/// Returns the number of resident warps per hardware scheduler of a function that uses this number of registers.
fn warps_with_registers(registers_used: u32, launch: Option<LaunchResources>, machine: &Machine) -> u32 {
    let registers = registers_used + HIDDEN_REGISTERS;
    if let Some(found) = resident_warps_of_blocks(registers, launch, machine) {
        return found;
    }
    let registers = registers.next_multiple_of((machine.register_unit / machine.threads_per_warp).max(1));
    (machine.registers_per_scheduler() / machine.threads_per_warp / registers).min(machine.warps_per_scheduler())
}

/// Returns the number of resident warps per hardware scheduler with this number of registers per thread, given that only whole thread
/// blocks can be resident; `None` if the block size is not declared.
fn resident_warps_of_blocks(registers: u32, launch: Option<LaunchResources>, machine: &Machine) -> Option<u32> {
    let found = LaunchResources { registers, ..launch? }.occupancy(machine).ok()?;
    Some(found.warps.div_ceil(machine.schedulers))
}
