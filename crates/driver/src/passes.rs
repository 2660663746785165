//! The list of passes, and the compilation of one function through all of them.
//!
//! Phases 97 to 110 (scheduling, register allocation, scheduling again) may run several times with different plans; the result with the
//! lowest estimated time is kept ([`schedule_and_allocate`]).

use oriole_ctrl::{control_words, serial};
use oriole_hardware::Model;
use oriole_ir::{Function, RegFile, RegisterLimits, verify, verify_allocated};
use oriole_isel::{VariableLayout, select_function};
use oriole_opt::{balance, converge, dead, fold, forward, fuse, insert_yields, legalize, merge, straighten};
use oriole_ptx::ast::{FunctionId, Module};
use oriole_regalloc::{Allocation, Environment};
use oriole_sched::function::Stats;

use crate::account::ReportData;
use crate::emit::{self, Code};
use crate::error::Fault;
use crate::functions::Facts;
use crate::schedule::{Context, Plan};
use crate::{Options, account, convention, layout, prologue, schedule};

/// A compilation step: its number in the order of phases, and the name that `--print-after` takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// Phase number.
    pub phase: u8,
    /// Name of the pass.
    pub name: &'static str,
}

macro_rules! passes {
    ($($constant:ident = $phase:literal $name:literal,)*) => {
        $(const $constant: Pass = Pass { phase: $phase, name: $name };)*
        /// All passes in order.
        pub const PASSES: &[Pass] = &[$($constant),*];
    };
}

passes! {
    SELECT = 5 "select",
    CONSTRUCT_SSA = 14 "construct-ssa",
    STRAIGHTEN = 15 "straighten",
    FUSE = 16 "fuse",
    LEGALIZE = 18 "legalize",
    FORWARD = 20 "forward",
    MERGE = 22 "merge",
    FOLD = 24 "fold",
    REMOVE_DEAD = 60 "remove-dead",
    CONVERGE = 90 "converge",
    GIVE_WAY = 92 "give-way",
    BALANCE = 94 "balance",
    PRE_SCHEDULE = 97 "pre-schedule",
    ALLOCATE = 101 "allocate",
    PROLOGUE = 104 "prologue",
    POST_SCHEDULE = 110 "post-schedule",
    LAYOUT = 112 "layout",
    SERIAL_CONTROL = 116 "serial-control",
    CONTROL = 120 "control",
    ENCODE = 122 "encode",
}

/// A compiled function.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The machine code.
    pub code: Code,
    /// Result of the register allocator. The counts of spilled bytes are in it.
    pub allocation: Allocation,
    /// Bytes of the stack frame in local memory.
    pub frame_bytes: u32,
    /// Number of named barriers.
    pub barriers: u32,
    /// Names of the functions that it calls directly.
    pub callees: Vec<String>,
    /// Prototypes of the functions that it calls through pointers.
    pub indirect_calls: Vec<String>,
    /// Names of the functions whose addresses it takes.
    pub taken_functions: Vec<String>,
    /// Whether the size of its stack frame is not known at compile time.
    pub has_dynamic_stack: bool,
    /// Names that the patches of the code refer to, by index.
    pub symbols: Vec<String>,
    /// Text of the function after the pass that `--print-after` names.
    pub dump: Option<String>,
    /// The scheduling plan used; `None` if the function was not scheduled.
    pub plan: Option<Plan>,
    /// Data for the scheduling report.
    pub report_data: ReportData,
    /// Resources that a thread block needs besides registers; `None` if the block size is not declared.
    pub launch: Option<oriole_hardware::occupancy::Launch>,
}

impl Finished {
    /// Returns whether the function calls any function.
    pub fn has_calls(&self) -> bool {
        !self.callees.is_empty() || !self.indirect_calls.is_empty()
    }
}

/// An error in a function, with the PTX statement that caused it if there is one.
pub type Failure = (Option<oriole_ptx::source::Span>, Fault);

/// A function between two passes, with everything the remaining passes need.
#[derive(Clone)]
struct FunctionState<'a> {
    function: Function,
    options: &'a Options,
    context: Context<'a>,
    dump: Option<String>,
    report_data: ReportData,
}

impl FunctionState<'_> {
    /// Runs after each pass: records the dump if this pass was requested, and verifies the IR.
    fn after(&mut self, pass: Pass) -> Result<(), Vec<Failure>> {
        if self.options.print_after.as_deref() == Some(pass.name) {
            self.dump = Some(oriole_ir::text::print(&self.function));
        }
        if self.options.verify && self.function.is_ssa {
            verify(&self.function).map_err(|report| vec![(None, Fault::Internal(format!("after {}: {report}", pass.name)))])?;
        }
        Ok(())
    }
}

/// Checks that an allocated function is well formed and stays within the register limits.
fn check_registers(after: &Function, environment: &Environment) -> Result<(), String> {
    let limit = |file| u16::try_from(environment.limit(file)).unwrap_or(u16::MAX);
    let limits = RegisterLimits {
        general: limit(RegFile::General),
        uniform: limit(RegFile::Uniform),
        predicate: limit(RegFile::Predicate),
        uniform_predicate: limit(RegFile::UniformPredicate),
        convergence: limit(RegFile::Convergence),
        scoreboard: limit(RegFile::Scoreboard),
    };
    verify_allocated(after, &limits).map_err(|report| report.to_string())
}

/// A function after phase 97: its instructions are in the order in which registers are allocated.
struct PreScheduled<'a> {
    state: FunctionState<'a>,
    plan: Option<Plan>,
    /// What the scheduler did before allocation.
    stats: Stats,
}

/// A function after phase 110: physical registers, final instruction order.
struct Scheduled<'a> {
    state: FunctionState<'a>,
    allocation: Allocation,
    plan: Option<Plan>,
}

impl Scheduled<'_> {
    /// Returns the number of bytes that spill code stores and loads.
    fn spills(&self) -> u32 {
        self.allocation.spill_store_bytes + self.allocation.spill_load_bytes
    }

    /// Returns the estimated execution time, for comparison with other schedules of the same function.
    fn time(&self) -> f64 {
        schedule::time(&self.state.function, &self.allocation, self.state.context.launch, self.state.options)
    }
}

/// Runs phases 97 to 110 with every plan to try and returns the result with the lowest estimated time. Falls back to the unscheduled order
/// if there are no plans.
///
/// For each plan two variants compete. The first keeps the occupancy of the original order. The second, `low_occupancy`, gets more
/// registers at a lower occupancy; it is only built if the first schedule estimates a gain that is worth the trial. Each schedule that is
/// built here counts as a trial; the original order that [`without_spills`] may allocate does not.
fn schedule_and_allocate<'a>(state: FunctionState<'a>, environment: &Environment) -> Result<Scheduled<'a>, Vec<Failure>> {
    let options = state.options;
    let instructions = state.function.layout.iter().map(|&block| state.function.blocks[block].insts.len()).sum();
    let mut trials = schedule::max_trials(instructions, options);
    let mut best: Option<Best<'a>> = None;
    for plan in schedule::plans(options) {
        if trials == 0 {
            break;
        }
        let offered = schedule::occupancies_to_estimate(plan, options);
        // Building the low-occupancy variant takes a trial itself, so there must be one left.
        let offered = &offered[..offered.len().min(trials - 1)];
        let pre_scheduled = schedule_before_allocation(state.clone(), Some(plan), offered, environment)?;
        trials -= 1;
        let promise = pre_scheduled.stats.tradeoff.and_then(schedule::worth_trying);
        let low_occupancy = promise.and_then(|(warps_kept, _)| {
            trials -= 1;
            let low_occupancy = schedule_before_allocation(state.clone(), Some(Plan { warps_kept, ..plan }), &[], environment);
            let low_occupancy = low_occupancy.and_then(|low_occupancy| allocate(low_occupancy, environment));
            // Spills would cost more than the extra registers gain.
            low_occupancy.ok().filter(|low_occupancy| low_occupancy.spills() == 0)
        });
        // A large estimated gain is taken without comparison: the first variant is not even allocated.
        if low_occupancy.is_none() || !promise.is_some_and(|(_, is_certain)| is_certain) {
            Best::keep_better(&mut best, without_spills(&state, plan, pre_scheduled, environment)?);
        }
        if let Some(low_occupancy) = low_occupancy {
            Best::keep_better(&mut best, low_occupancy);
        }
    }
    match best {
        Some(best) => Ok(best.scheduled),
        None => schedule_before_allocation(state, None, &[], environment).and_then(|pre_scheduled| allocate(pre_scheduled, environment)),
    }
}

/// The best schedule so far. Its time is computed when a second schedule must be compared with it.
struct Best<'a> {
    time: Option<f64>,
    scheduled: Scheduled<'a>,
}

impl<'a> Best<'a> {
    /// Keeps the schedule with the lower estimated time; of equal ones, the earlier.
    fn keep_better(best: &mut Option<Best<'a>>, other: Scheduled<'a>) {
        let Some(best) = best else {
            *best = Some(Best { time: None, scheduled: other });
            return;
        };
        let known = best.time.unwrap_or_else(|| best.scheduled.time());
        let time = other.time();
        best.time = Some(known.min(time));
        if time < known {
            best.scheduled = other;
        }
    }
}

/// Allocates registers. If the new instruction order causes spills, also allocates the original order and returns the one with fewer
/// spilled bytes, then with less estimated time.
fn without_spills<'a>(
    state: &FunctionState<'a>,
    plan: Plan,
    pre_scheduled: PreScheduled<'a>,
    environment: &Environment,
) -> Result<Scheduled<'a>, Vec<Failure>> {
    let is_new = pre_scheduled.stats.blocks > 0;
    let new = match allocate(pre_scheduled, environment) {
        Ok(new) if !is_new || new.spills() == 0 => return Ok(new),
        Ok(new) => Ok(new),
        // Not enough registers for this order; the original order may still fit.
        Err(failures) if failures.iter().all(|(_, fault)| matches!(fault, Fault::Limit(_))) => Err(failures),
        Err(failures) => return Err(failures),
    };
    let old = schedule_before_allocation(state.clone(), Some(Plan { before_allocation: false, ..plan }), &[], environment)?;
    let mut old = allocate(old, environment)?;
    match new {
        Ok(new) if new.spills() < old.spills() || new.spills() == old.spills() && new.time() <= old.time() => Ok(new),
        Ok(new) => {
            old.state.report_data.note_dropped(&new.state.report_data);
            Ok(old)
        }
        Err(_) => Ok(old),
    }
}

/// Phase 97: schedules before register allocation. `offered` lists occupancies, in percent of the warps, whose gain to estimate.
fn schedule_before_allocation<'a>(
    mut state: FunctionState<'a>,
    plan: Option<Plan>,
    offered: &[u32],
    environment: &Environment,
) -> Result<PreScheduled<'a>, Vec<Failure>> {
    let options = state.options;
    let mut stats = Stats::default();
    if let Some(plan) = plan {
        stats = schedule::before_allocation(&mut state.function, plan, offered, state.context, environment, options)
            .map_err(|error| vec![(None, Fault::Internal(error.to_string()))])?;
        if plan.before_allocation {
            state.report_data.note(PRE_SCHEDULE, &state.function, &stats);
        }
    }
    state.report_data.gather_values(&state.function, options);
    state.after(PRE_SCHEDULE)?;
    Ok(PreScheduled { state, plan, stats })
}

/// Phases 101 to 110: allocates registers, inserts prologue and epilogues, and schedules again.
fn allocate<'a>(pre_scheduled: PreScheduled<'a>, environment: &Environment) -> Result<Scheduled<'a>, Vec<Failure>> {
    let PreScheduled { mut state, plan, .. } = pre_scheduled;
    let options = state.options;
    let internal = |what: String| vec![(None, Fault::Internal(what))];
    let allocation = convention::allocate(&mut state.function, environment, options.verify)
        .map_err(|error| vec![(None, Fault::Limit(error.to_string()))])?;
    state.after(ALLOCATE)?;
    if options.verify {
        check_registers(&state.function, environment).map_err(|what| internal(format!("after allocate: {what}")))?;
    }
    convention::write_return_addresses(&mut state.function);
    convention::clear_barriers(&mut state.function, options.target);
    let has_spills = allocation.spill_store_bytes + allocation.spill_load_bytes > 0;
    prologue::run(&mut state.function, options.target, has_spills).map_err(|excess| vec![(None, Fault::TooMuch(excess))])?;
    state.after(PROLOGUE)?;
    if let Some(plan) = plan {
        let stats = schedule::after_allocation(&mut state.function, plan, state.context, environment, options)
            .map_err(|error| internal(error.to_string()))?;
        state.report_data.note(POST_SCHEDULE, &state.function, &stats);
    }
    state.after(POST_SCHEDULE)?;
    Ok(Scheduled { state, allocation, plan })
}

/// Compiles one function from PTX to machine code. `register_limit` is the number of general registers that its instructions may name.
pub fn run(
    module: &Module,
    id: FunctionId,
    variables: &VariableLayout,
    register_limit: u32,
    facts: &Facts,
    options: &Options,
) -> Result<Finished, Vec<Failure>> {
    let target = options.target;
    let internal = |what: String| vec![(None, Fault::Internal(what))];
    let selected = select_function(module, id, target, variables)
        .map_err(|errors| errors.into_iter().map(|error| (error.span, Fault::Unsupported(error.feature))).collect::<Vec<_>>())?;
    let launch = account::declared_launch(&module.functions[id], options, variables, selected.barriers);
    let context = Context { calls: &facts.calls, launch, trace: options.reports.traces(&selected.function.name) };
    let mut state = FunctionState { function: selected.function, options, context, dump: None, report_data: ReportData::default() };
    state.after(SELECT)?;

    oriole_ir::construct_ssa(&mut state.function);
    state.after(CONSTRUCT_SSA)?;
    if options.level > 0 {
        straighten::run(&mut state.function, target);
        state.after(STRAIGHTEN)?;
        fuse::run(&mut state.function, target);
        state.after(FUSE)?;
    }
    legalize::run(&mut state.function, target).map_err(|error| internal(error.to_string()))?;
    state.after(LEGALIZE)?;
    if options.level > 0 {
        forward::run(&mut state.function, target);
        state.after(FORWARD)?;
        merge::run(&mut state.function, target);
        state.after(MERGE)?;
        fold::run(&mut state.function, target);
        state.after(FOLD)?;
        forward::run(&mut state.function, target);
        dead::run(&mut state.function, target);
        state.after(REMOVE_DEAD)?;
    }
    converge::run(&mut state.function, target, &|name| facts.waiting_for_warp.contains(name) || oriole_isel::is_runtime(name));
    state.after(CONVERGE)?;
    insert_yields::run(&mut state.function, target);
    state.after(GIVE_WAY)?;
    if options.level > 0 {
        balance::run(&mut state.function, target);
        state.after(BALANCE)?;
    }

    let environment = convention::environment(&state.function, target, register_limit, selected.has_dynamic_stack);
    let Scheduled { mut state, allocation, plan, .. } = schedule_and_allocate(state, &environment)?;
    state.report_data.record_control_flow(&state.function);
    layout::run(&mut state.function);
    state.after(LAYOUT)?;
    let controls = if options.level == 0 {
        let controls = serial::assign(&state.function, target, options.profile.as_deref());
        state.after(SERIAL_CONTROL)?;
        controls
    } else {
        let model = options.profile.as_deref().map_or(&**Model::of(target), |profile| &profile.model);
        let controls = control_words::run(&mut state.function, target, model);
        state.after(CONTROL)?;
        controls
    };
    state.report_data.gather_code(&state.function, &controls, options);
    let code = emit::run(&state.function, &controls, target).map_err(internal)?;
    state.after(ENCODE)?;

    Ok(Finished {
        code,
        allocation,
        frame_bytes: state.function.frame_bytes,
        barriers: selected.barriers,
        callees: selected.callees,
        indirect_calls: selected.indirect_calls,
        taken_functions: selected.taken_functions,
        has_dynamic_stack: selected.has_dynamic_stack,
        symbols: state.function.symbols,
        dump: state.dump,
        plan,
        report_data: state.report_data,
        launch: state.context.launch,
    })
}
