//! Scheduling in the list of passes: who schedules, before registers are allocated and afterwards.
//!
//! A [`Plan`] names a backend and a mode. Usually there is one plan for a function, by the options or by what was measured to be best; with
//! `auto` several are carried through allocation and phase 110, and the one with the best [`score`] stays. How many are tried depends on the
//! size of the function and nothing else, so that the same input gives the same bytes.
//!
//! Before allocation the budget keeps as many warps resident as the old order would. Where that was too few registers for some block, and more of
//! them promise to save enough of the function's time ([`LEAST_PROMISE`]), the schedule that keeps three quarters or half of the warps is made as well,
//! and the best score stays: registers beyond the cliff must pay. Where much is promised ([`SURE_PROMISE`]) only that one is made, if it needs no spills. What allocation makes of a budget is known only when it is done: if a new order
//! needs spills, the old one is allocated as well; fewer spills win, then the better score.

use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::Launch;
use oriole_hardware::units::Rates;
use oriole_ir::{File, Function};
use oriole_regalloc::{Allocation, Environment};
use oriole_sched::backend::tree::CallCosts;
use oriole_sched::backend::{Backend, Knobs, Mode};
use oriole_sched::function::{ScheduleError, Scheduler, Stats};
use oriole_sched::offer::Promise;
use oriole_sched::resource::Costs;
use oriole_sched::score::score;

use crate::Options;
use crate::image::HIDDEN_REGISTERS;

/// From this level on code is scheduled.
const LEAST_LEVEL: u8 = 2;

/// Shares of resident warps that are tried where registers are scarce.
const WARPS_KEPT: [u32; 2] = [50, 75];

/// The share of its time that a function must save by estimate before it is worth while to try what pays with warps.
const LEAST_PROMISE: f64 = 0.02;
/// From here on the estimate is not compared with what costs no warps.
const SURE_PROMISE: f64 = 0.15;

/// Who schedules where nobody says so: what came out best on a GPU (docs/scheduling.md).
const USUAL: Backend = Backend::B;

/// Whether and what for instructions are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ModeChoice {
    /// As the optimization level says.
    #[default]
    ByLevel,
    /// They stay in the order of selection.
    Off,
    /// They are scheduled for this.
    On(Mode),
}

/// Who schedules them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackendChoice {
    /// The one that was measured to be best.
    #[default]
    Usual,
    /// The one that the description names for the target.
    ByTarget,
    /// This one.
    One(Backend),
    /// Several; the best stays.
    Auto,
}

impl BackendChoice {
    /// The choice of a name on the command line.
    pub fn parse(name: &str) -> Option<BackendChoice> {
        match name {
            "auto" => Some(BackendChoice::Auto),
            "by-target" => Some(BackendChoice::ByTarget),
            _ => Backend::parse(name).map(BackendChoice::One),
        }
    }
}

/// How instructions are scheduled.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Scheduling {
    /// What for.
    pub mode: ModeChoice,
    /// By whom.
    pub backend: BackendChoice,
    /// Figures of the backends.
    pub knobs: Knobs,
}

impl Scheduling {
    /// Not at all.
    pub fn off() -> Scheduling {
        Scheduling { mode: ModeChoice::Off, ..Scheduling::default() }
    }

    /// By one backend, for one purpose.
    pub fn by(backend: Backend, mode: Mode) -> Scheduling {
        Scheduling { mode: ModeChoice::On(mode), backend: BackendChoice::One(backend), ..Scheduling::default() }
    }
}

/// Who schedules a function, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The backend.
    pub backend: Backend,
    /// The mode.
    pub mode: Mode,
    /// Whether there is a new order before allocation too.
    pub before_allocation: bool,
    /// Whether phase 110 schedules.
    pub after_allocation: bool,
    /// The share of resident warps, in percent, that its registers must leave.
    pub warps_kept: u32,
}

impl Plan {
    fn new(backend: Backend, mode: Mode) -> Plan {
        Plan { backend, mode, before_allocation: true, after_allocation: true, warps_kept: 100 }
    }
}

/// What is special about a function.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// How long the functions that it calls take, about.
    pub calls: &'a CallCosts,
    /// What a block of threads needs besides registers, if its size is declared.
    pub launch: Option<Launch>,
    /// Whether to record why each instruction is picked.
    pub trace: bool,
}

/// The plans for a function, in the order in which they are tried.
pub fn plans(options: &Options) -> Vec<Plan> {
    let Scheduling { mode, backend, .. } = options.scheduling;
    let mode = match mode {
        ModeChoice::Off => return Vec::new(),
        ModeChoice::ByLevel if options.level < LEAST_LEVEL => return Vec::new(),
        ModeChoice::ByLevel => None,
        ModeChoice::On(mode) => Some(mode),
    };
    let usual = mode.unwrap_or(Mode::Ilp);
    match backend {
        BackendChoice::Usual => vec![Plan::new(USUAL, usual)],
        BackendChoice::ByTarget => vec![described(options, usual)],
        BackendChoice::One(backend) => vec![Plan::new(backend, usual)],
        BackendChoice::Auto => {
            let modes = mode.map_or(&[Mode::Ilp, Mode::ReduceReg, Mode::DynBatch][..], |mode| match mode {
                Mode::Ilp => &[Mode::Ilp],
                Mode::ReduceReg => &[Mode::ReduceReg],
                Mode::DynBatch => &[Mode::DynBatch],
            });
            let all = modes.iter().flat_map(|&mode| Backend::ALL.into_iter().map(move |backend| Plan::new(backend, mode)));
            all.collect()
        }
    }
}

/// Shares of the warps that a plan may be given up for, those first that promise most.
pub fn warps_offered(plan: Plan, options: &Options) -> &'static [u32] {
    let may_pay = plan.mode != Mode::ReduceReg && options.scheduling.knobs.register_target.is_none();
    if may_pay { &WARPS_KEPT } else { &[] }
}

/// The share of the warps that is worth a trial, and whether that is the only one.
pub fn worth(promise: Promise) -> Option<(u32, bool)> {
    (promise.saved >= LEAST_PROMISE).then_some((promise.warps_kept, promise.saved >= SURE_PROMISE))
}

/// Trials of a function of so many instructions.
pub fn most_trials(instructions: usize, options: &Options) -> usize {
    1 + options.scheduling.knobs.auto_budget / instructions.max(1)
}

/// What the description does for a target: its backend, and phase 110 only where the machine installs a hook for it.
fn described(options: &Options, mode: Mode) -> Plan {
    let machine = Machine::of(options.target);
    let backend = Backend::parse(machine.page_scheduler).unwrap_or(USUAL);
    Plan { after_allocation: machine.page_post_schedule != 0, ..Plan::new(backend, mode) }
}

fn with_scheduler(
    plan: Plan,
    context: Context<'_>,
    environment: &Environment,
    options: &Options,
    warps_offered: &[u32],
    run: impl FnOnce(&Scheduler<'_>) -> Result<Stats, ScheduleError>,
) -> Result<Stats, ScheduleError> {
    let (model, machine, rates) = figures(options);
    run(&Scheduler {
        model,
        costs: &Costs::from_rates(rates, machine),
        machine,
        backend: plan.backend,
        mode: plan.mode,
        knobs: options.scheduling.knobs,
        register_limit: environment.limit(File::General),
        hidden_registers: HIDDEN_REGISTERS,
        uniform_limit: environment.limit(File::Uniform),
        calls: Some(context.calls),
        launch: context.launch,
        warps_kept: plan.warps_kept,
        warps_offered,
        verify: options.verify,
        trace: context.trace,
    })
}

/// The figures of the machine.
pub fn figures(options: &Options) -> (&Model, &Machine, &Rates) {
    match options.profile.as_deref() {
        Some(profile) => (&profile.model, &profile.machine, &profile.rates),
        None => (&**Model::of(options.target), Machine::of(options.target), Rates::of(options.target)),
    }
}

/// Schedules before allocation. With an offer it is found out what more registers promise.
pub fn before_allocation(
    function: &mut Function,
    plan: Plan,
    warps_offered: &[u32],
    context: Context<'_>,
    environment: &Environment,
    options: &Options,
) -> Result<Stats, ScheduleError> {
    if !plan.before_allocation {
        return Ok(Stats::default());
    }
    with_scheduler(plan, context, environment, options, warps_offered, |scheduler| scheduler.run_on_values(function))
}

/// Schedules after allocation: phase 110.
pub fn after_allocation(
    function: &mut Function,
    plan: Plan,
    context: Context<'_>,
    environment: &Environment,
    options: &Options,
) -> Result<Stats, ScheduleError> {
    if options.scheduling.knobs.post_schedule.map_or(!plan.after_allocation, |wanted| wanted == 0) {
        return Ok(Stats::default());
    }
    with_scheduler(plan, context, environment, options, &[], |scheduler| scheduler.run_on_registers(function))
}

/// How long a scheduled function takes, to be compared with other schedules of it.
pub fn time(function: &Function, allocation: &Allocation, launch: Option<Launch>, options: &Options) -> f64 {
    let (model, machine, rates) = figures(options);
    score(function, model, &Costs::from_rates(rates, machine), warps(allocation, launch, options)).value()
}

/// Warps of a scheduler that stay resident with so many registers.
fn warps(allocation: &Allocation, launch: Option<Launch>, options: &Options) -> u32 {
    let machine = figures(options).1;
    let registers = allocation.registers_used + HIDDEN_REGISTERS;
    if let Some(found) = in_blocks(registers, launch, machine) {
        return found;
    }
    let registers = registers.next_multiple_of((machine.register_unit / machine.threads_per_warp).max(1));
    (machine.registers_per_scheduler() / machine.threads_per_warp / registers).min(machine.warps_per_scheduler())
}

/// Warps of a scheduler in whole blocks, where the size of a block is declared.
fn in_blocks(registers: u32, launch: Option<Launch>, machine: &Machine) -> Option<u32> {
    let found = Launch { registers, ..launch? }.occupancy(machine).ok()?;
    Some(found.warps.div_ceil(machine.schedulers))
}
