//! The list of passes, and the compilation of one function through all of them.
//!
//! Phases 97 to 110 (scheduling, register allocation, scheduling again) may run several times with different plans; the result with the
//! lowest estimated time is kept ([`scheduled`]).

use oriole_ctrl::{control_words, serial};
use oriole_hardware::Model;
use oriole_ir::{File, Function, RegisterLimits, verify, verify_allocated};
use oriole_isel::{Homes, select_function};
use oriole_opt::{balance, converge, dead, fold, forward, fuse, insert_yields, legalize, merge, straighten};
use oriole_ptx::ast::{FunctionId, Module};
use oriole_regalloc::{Allocation, Environment};
use oriole_sched::function::Stats;

use crate::account::Account;
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
    pub account: Account,
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
struct Way<'a> {
    function: Function,
    options: &'a Options,
    context: Context<'a>,
    dump: Option<String>,
    account: Account,
}

impl Way<'_> {
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
        general: limit(File::General),
        uniform: limit(File::Uniform),
        predicate: limit(File::Predicate),
        uniform_predicate: limit(File::UniformPredicate),
        convergence: limit(File::Convergence),
        scoreboard: limit(File::Scoreboard),
    };
    verify_allocated(after, &limits).map_err(|report| report.to_string())
}

/// A function after phase 97: its instructions are in the order in which registers are allocated.
struct Ordered<'a> {
    way: Way<'a>,
    plan: Option<Plan>,
    /// What the scheduler did before allocation.
    stats: Stats,
}

/// A function after phase 110: physical registers, final instruction order.
struct Scheduled<'a> {
    way: Way<'a>,
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
        schedule::time(&self.way.function, &self.allocation, self.way.context.launch, self.way.options)
    }
}

/// Runs phases 97 to 110 with every plan to try and returns the result with the lowest estimated time. Falls back to the unscheduled order
/// if there are no plans.
///
/// For each plan two variants compete. The first keeps the occupancy of the original order. The second, `dearer`, gets more registers at a
/// lower occupancy; it is only built if the first schedule estimates a gain that is worth the trial. Each schedule that is built here
/// counts as a trial; the original order that [`without_spills`] may allocate does not.
fn scheduled<'a>(way: Way<'a>, environment: &Environment) -> Result<Scheduled<'a>, Vec<Failure>> {
    let options = way.options;
    let instructions = way.function.layout.iter().map(|&block| way.function.blocks[block].insts.len()).sum();
    let mut trials = schedule::most_trials(instructions, options);
    let mut best: Option<Best<'a>> = None;
    for plan in schedule::plans(options) {
        if trials == 0 {
            break;
        }
        let offered = schedule::warps_offered(plan, options);
        // Building the low-occupancy variant takes a trial itself, so there must be one left.
        let offered = &offered[..offered.len().min(trials - 1)];
        let ordered = order(way.clone(), Some(plan), offered, environment)?;
        trials -= 1;
        let promise = ordered.stats.tradeoff.and_then(schedule::worth);
        let dearer = promise.and_then(|(warps_kept, _)| {
            trials -= 1;
            let dearer = order(way.clone(), Some(Plan { warps_kept, ..plan }), &[], environment);
            let dearer = dearer.and_then(|dearer| allocate(dearer, environment));
            // Spills would cost more than the extra registers gain.
            dearer.ok().filter(|dearer| dearer.spills() == 0)
        });
        // A large estimated gain is taken without comparison: the first variant is not even allocated.
        if dearer.is_none() || !promise.is_some_and(|(_, is_sure)| is_sure) {
            Best::challenge(&mut best, without_spills(&way, plan, ordered, environment)?);
        }
        if let Some(dearer) = dearer {
            Best::challenge(&mut best, dearer);
        }
    }
    match best {
        Some(best) => Ok(best.scheduled),
        None => order(way, None, &[], environment).and_then(|ordered| allocate(ordered, environment)),
    }
}

/// The best schedule so far. Its time is computed when a second schedule must be compared with it.
struct Best<'a> {
    time: Option<f64>,
    scheduled: Scheduled<'a>,
}

impl<'a> Best<'a> {
    /// Keeps the schedule with the lower estimated time; of equal ones, the earlier.
    fn challenge(best: &mut Option<Best<'a>>, other: Scheduled<'a>) {
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
fn without_spills<'a>(way: &Way<'a>, plan: Plan, ordered: Ordered<'a>, environment: &Environment) -> Result<Scheduled<'a>, Vec<Failure>> {
    let is_new = ordered.stats.blocks > 0;
    let new = match allocate(ordered, environment) {
        Ok(new) if !is_new || new.spills() == 0 => return Ok(new),
        Ok(new) => Ok(new),
        // Not enough registers for this order; the original order may still fit.
        Err(failures) if failures.iter().all(|(_, fault)| matches!(fault, Fault::Limit(_))) => Err(failures),
        Err(failures) => return Err(failures),
    };
    let old = order(way.clone(), Some(Plan { before_allocation: false, ..plan }), &[], environment)?;
    let mut old = allocate(old, environment)?;
    match new {
        Ok(new) if new.spills() < old.spills() || new.spills() == old.spills() && new.time() <= old.time() => Ok(new),
        Ok(new) => {
            old.way.account.note_dropped(&new.way.account);
            Ok(old)
        }
        Err(_) => Ok(old),
    }
}

/// Phase 97: schedules before register allocation. `offered` lists occupancies, in percent of the warps, whose gain to estimate.
fn order<'a>(mut way: Way<'a>, plan: Option<Plan>, offered: &[u32], environment: &Environment) -> Result<Ordered<'a>, Vec<Failure>> {
    let options = way.options;
    let mut stats = Stats::default();
    if let Some(plan) = plan {
        stats = schedule::before_allocation(&mut way.function, plan, offered, way.context, environment, options)
            .map_err(|error| vec![(None, Fault::Internal(error.to_string()))])?;
        if plan.before_allocation {
            way.account.note(PRE_SCHEDULE, &way.function, &stats);
        }
    }
    way.account.gather_values(&way.function, options);
    way.after(PRE_SCHEDULE)?;
    Ok(Ordered { way, plan, stats })
}

/// Phases 101 to 110: allocates registers, inserts prologue and epilogues, and schedules again.
fn allocate<'a>(ordered: Ordered<'a>, environment: &Environment) -> Result<Scheduled<'a>, Vec<Failure>> {
    let Ordered { mut way, plan, .. } = ordered;
    let options = way.options;
    let internal = |what: String| vec![(None, Fault::Internal(what))];
    let allocation = convention::allocate(&mut way.function, environment, options.verify)
        .map_err(|error| vec![(None, Fault::Limit(error.to_string()))])?;
    way.after(ALLOCATE)?;
    if options.verify {
        check_registers(&way.function, environment).map_err(|what| internal(format!("after allocate: {what}")))?;
    }
    convention::write_return_addresses(&mut way.function);
    convention::clear_barriers(&mut way.function, options.target);
    let has_spills = allocation.spill_store_bytes + allocation.spill_load_bytes > 0;
    prologue::run(&mut way.function, options.target, has_spills).map_err(|excess| vec![(None, Fault::TooMuch(excess))])?;
    way.after(PROLOGUE)?;
    if let Some(plan) = plan {
        let stats = schedule::after_allocation(&mut way.function, plan, way.context, environment, options)
            .map_err(|error| internal(error.to_string()))?;
        way.account.note(POST_SCHEDULE, &way.function, &stats);
    }
    way.after(POST_SCHEDULE)?;
    Ok(Scheduled { way, allocation, plan })
}

/// Compiles one function from PTX to machine code. `register_limit` is the number of general registers that its instructions may name.
pub fn run(
    module: &Module,
    id: FunctionId,
    homes: &Homes,
    register_limit: u32,
    facts: &Facts,
    options: &Options,
) -> Result<Finished, Vec<Failure>> {
    let target = options.target;
    let internal = |what: String| vec![(None, Fault::Internal(what))];
    let selected = select_function(module, id, target, homes)
        .map_err(|errors| errors.into_iter().map(|error| (error.span, Fault::Unsupported(error.feature))).collect::<Vec<_>>())?;
    let launch = account::declared_launch(&module.functions[id], options, homes, selected.barriers);
    let context = Context { calls: &facts.calls, launch, trace: options.reports.traces(&selected.function.name) };
    let mut way = Way { function: selected.function, options, context, dump: None, account: Account::default() };
    way.after(SELECT)?;

    oriole_ir::construct_ssa(&mut way.function);
    way.after(CONSTRUCT_SSA)?;
    if options.level > 0 {
        straighten::run(&mut way.function, target);
        way.after(STRAIGHTEN)?;
        fuse::run(&mut way.function, target);
        way.after(FUSE)?;
    }
    legalize::run(&mut way.function, target).map_err(|error| internal(error.to_string()))?;
    way.after(LEGALIZE)?;
    if options.level > 0 {
        forward::run(&mut way.function, target);
        way.after(FORWARD)?;
        merge::run(&mut way.function, target);
        way.after(MERGE)?;
        fold::run(&mut way.function, target);
        way.after(FOLD)?;
        forward::run(&mut way.function, target);
        dead::run(&mut way.function, target);
        way.after(REMOVE_DEAD)?;
    }
    converge::run(&mut way.function, target, &|name| facts.gathering.contains(name) || oriole_isel::is_runtime(name));
    way.after(CONVERGE)?;
    insert_yields::run(&mut way.function, target);
    way.after(GIVE_WAY)?;
    if options.level > 0 {
        balance::run(&mut way.function, target);
        way.after(BALANCE)?;
    }

    let environment = convention::environment(&way.function, target, register_limit, selected.has_dynamic_stack);
    let Scheduled { mut way, allocation, plan, .. } = scheduled(way, &environment)?;
    way.account.take_shape(&way.function);
    layout::run(&mut way.function);
    way.after(LAYOUT)?;
    let controls = if options.level == 0 {
        let controls = serial::assign(&way.function, target, options.profile.as_deref());
        way.after(SERIAL_CONTROL)?;
        controls
    } else {
        let model = options.profile.as_deref().map_or(&**Model::of(target), |profile| &profile.model);
        let controls = control_words::run(&mut way.function, target, model);
        way.after(CONTROL)?;
        controls
    };
    way.account.gather_code(&way.function, &controls, options);
    let code = emit::run(&way.function, &controls, target).map_err(internal)?;
    way.after(ENCODE)?;

    Ok(Finished {
        code,
        allocation,
        frame_bytes: way.function.frame_bytes,
        barriers: selected.barriers,
        callees: selected.callees,
        indirect_calls: selected.indirect_calls,
        taken_functions: selected.taken_functions,
        has_dynamic_stack: selected.has_dynamic_stack,
        symbols: way.function.symbols,
        dump: way.dump,
        plan,
        account: way.account,
        launch: way.context.launch,
    })
}
