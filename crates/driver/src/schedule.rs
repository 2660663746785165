//! Scheduling in the list of passes: before registers are allocated, and afterwards.
//!
//! Before allocation the budget keeps as many warps resident as the old order would. What allocation makes of it is known only when it is
//! done: if the new order needs spills or costs occupancy, the old one is allocated as well, and the better of the two stays.

use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::units::Rates;
use oriole_ir::{File, Function};
use oriole_regalloc::{AllocateError, Allocation, Environment};
use oriole_sched::backend::{Backend, Knobs, Mode};
use oriole_sched::function::{ScheduleError, Scheduler, Stats};
use oriole_sched::resource::Costs;

use crate::image::HIDDEN_REGISTERS;
use crate::{Options, convention};

/// From this level on code is scheduled.
const LEAST_LEVEL: u8 = 2;

/// Whether and how instructions are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduling {
    /// As the optimization level says.
    #[default]
    ByLevel,
    /// They stay in the order of selection.
    Off,
    /// They are scheduled.
    On(Mode),
}

/// The mode that the options ask for.
fn mode(options: &Options) -> Option<Mode> {
    match options.scheduling {
        Scheduling::ByLevel => (options.level >= LEAST_LEVEL).then_some(Mode::Ilp),
        Scheduling::Off => None,
        Scheduling::On(mode) => Some(mode),
    }
}

fn with_scheduler(
    mode: Mode,
    environment: &Environment,
    options: &Options,
    run: impl FnOnce(&Scheduler<'_>) -> Result<Stats, ScheduleError>,
) -> Result<Stats, ScheduleError> {
    let (model, machine, rates) = match options.profile.as_deref() {
        Some(profile) => (&profile.model, &profile.machine, &profile.rates),
        None => (&**Model::of(options.target), Machine::of(options.target), Rates::of(options.target)),
    };
    run(&Scheduler {
        model,
        costs: &Costs::from_rates(rates, machine),
        machine,
        backend: Backend::A,
        mode,
        knobs: Knobs::default(),
        register_limit: environment.limit(File::General),
        hidden_registers: HIDDEN_REGISTERS,
        uniform_limit: environment.limit(File::Uniform),
        calls: None,
        verify: options.verify,
        trace: false,
    })
}

/// Schedules before allocation. Gives back the function in its old order, if there is a new one.
pub fn before_allocation(function: &mut Function, environment: &Environment, options: &Options) -> Result<Option<Function>, ScheduleError> {
    let Some(mode) = mode(options) else { return Ok(None) };
    let old = function.clone();
    let stats = with_scheduler(mode, environment, options, |scheduler| scheduler.run_on_values(function))?;
    Ok((stats.blocks > 0).then_some(old))
}

/// Allocates the new order, or the old one if that comes out better.
pub fn allocate(
    function: &mut Function,
    old: Option<Function>,
    environment: &Environment,
    options: &Options,
) -> Result<Allocation, AllocateError> {
    let Some(mut old) = old else { return convention::allocate(function, environment, options.verify) };
    let found = convention::allocate(function, environment, options.verify);
    if let Ok(allocation) = &found
        && allocation.spill_store_bytes == 0
        && warps(allocation, options) >= most_warps(options)
    {
        return found;
    }
    let before = convention::allocate(&mut old, environment, options.verify);
    let badness = |allocation: &Allocation| {
        (allocation.spill_store_bytes + allocation.spill_load_bytes, std::cmp::Reverse(warps(allocation, options)))
    };
    match (&found, before) {
        (Ok(new), Ok(before)) if badness(&before) < badness(new) => {
            *function = old;
            Ok(before)
        }
        (Err(_), Ok(before)) => {
            *function = old;
            Ok(before)
        }
        _ => found,
    }
}

/// Warps of a scheduler that stay resident with so many registers.
fn warps(allocation: &Allocation, options: &Options) -> u32 {
    let machine = Machine::of(options.target);
    let registers = (allocation.registers_used + HIDDEN_REGISTERS).next_multiple_of(8);
    (machine.registers_per_scheduler() / 32 / registers).min(most_warps(options))
}

fn most_warps(options: &Options) -> u32 {
    Machine::of(options.target).warps_per_scheduler()
}

/// Schedules after allocation: phase 110.
pub fn after_allocation(function: &mut Function, environment: &Environment, options: &Options) -> Result<(), ScheduleError> {
    if let Some(mode) = mode(options) {
        with_scheduler(mode, environment, options, |scheduler| scheduler.run_on_registers(function))?;
    }
    Ok(())
}
