//! The pass table: every step of the compilation of a function, in order.
//!
//! [`pipeline`](crate::pipeline) runs the rows; no pass runs outside the table. The rows of the stages [`Stage::Schedule`] and
//! [`Stage::Allocate`] run once for each scheduling plan that the [`search`](crate::search) tries, all others once for each function.
//!
//! A row of the table refers to a function in this file that calls the pass with its arguments and stores its results in the
//! [`FunctionState`]. Timing, printing and verification are done by the pipeline.

use std::fmt;
use std::sync::Arc;

use oriole_ctrl::{control_words, serial, tune_yields};
use oriole_ir::{Function, RegFile, RegisterLimits, verify_allocated};
use oriole_isel::{SelectOptions, Selected, select_function_with};
use oriole_opt as opt;
use oriole_regalloc::Environment;

use crate::debug::{assignments, joins, registers, saved_registers, variables};
use crate::error::{Failure, Fault};
use crate::state::{FunctionState, Selection};
use crate::{convention, emit, layout, patches, prologue, report_data, resident_blocks, schedule};

/// A step of the compilation of a function: a row of the pass table.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Phase number. Phases are numbered in the order of execution, with gaps.
    pub phase: u8,
    /// Name of the pass on the command line.
    pub name: &'static str,
    /// The optimization levels at which the pass runs.
    pub levels: Levels,
    /// Whether the code is correct without the pass, so that bisection may skip it.
    pub is_optional: bool,
    /// Description of the pass in one line, for help texts.
    pub description: &'static str,
    /// The stage that the pass belongs to.
    pub(crate) stage: Stage,
    /// The function that runs the pass.
    pub(crate) run: for<'a> fn(&mut FunctionState<'a>) -> Result<(), Vec<Failure>>,
}

/// The optimization levels at which a pass runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Levels {
    /// All levels.
    All,
    /// This level and higher ones.
    AtLeast(u8),
    /// Only this level.
    Only(u8),
    /// The levels at which functions are scheduled, or any level if the options request scheduling.
    Scheduled,
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Levels::All => write!(f, "-O0 to -O3"),
            Levels::AtLeast(level) => write!(f, "-O{level} to -O3"),
            Levels::Only(level) => write!(f, "-O{level}"),
            Levels::Scheduled => write!(f, "-O{} to -O3, or --sched-mode", schedule::MIN_LEVEL),
        }
    }
}

/// A contiguous part of the pass table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Selection and optimization. Runs once.
    Optimize,
    /// Scheduling before register allocation. Runs once for each scheduling plan.
    Schedule,
    /// Register allocation up to the final order of instructions. Runs once for each schedule that the search compares.
    Allocate,
    /// Control words and machine code. Runs once.
    Emit,
}

impl Stage {
    /// Returns whether the passes of the stage run once for each scheduling plan.
    pub fn is_searched(self) -> bool {
        matches!(self, Stage::Schedule | Stage::Allocate)
    }
}

macro_rules! passes {
    ($($phase:literal $name:literal, $levels:expr, $necessity:ident, $stage:ident, $run:path, $description:literal;)*) => {
        /// All passes in order.
        pub const PASSES: &[Pass] = &[$(Pass {
            phase: $phase,
            name: $name,
            levels: $levels,
            is_optional: is_optional!($necessity),
            description: $description,
            stage: Stage::$stage,
            run: $run,
        }),*];
    };
}

macro_rules! is_optional {
    (optional) => {
        true
    };
    (required) => {
        false
    };
}

use Levels::{All, AtLeast, Only, Scheduled};

passes! {
    5   "select",           All,        required, Optimize, select,           "selects machine instructions for the PTX instructions";
    14  "construct-ssa",    All,        required, Optimize, construct_ssa,    "gives each value one definition";
    15  "straighten",       AtLeast(1), optional, Optimize, straighten,       "merges blocks that always follow each other";
    16  "simplify",         AtLeast(1), optional, Optimize, simplify,         "drops integer arithmetic on known halves, and forms funnel shifts";
    17  "contract",         AtLeast(1), optional, Optimize, contract,         "joins floating-point products and sums into multiply-adds, unless --fmad=false";
    18  "fuse",             AtLeast(1), optional, Optimize, fuse,             "forms multiply-adds of 64-bit addresses";
    19  "split-index",      AtLeast(1), optional, Optimize, split_index,      "moves the constant part of an array index to the offset of the access";
    20  "legalize",         All,        required, Optimize, legalize,         "makes every instruction encodable on the target";
    21  "tie-loads",        AtLeast(1), optional, Optimize, tie_loads,        "lets guarded vector loads write over the old values";
    22  "forward",          AtLeast(1), optional, Optimize, forward,          "copy propagation: replaces reads of a copy by reads of the copied value";
    23  "narrow",           AtLeast(1), optional, Optimize, narrow,           "computes only the lower half of 64-bit numbers whose upper half is not read";
    24  "hoist",            AtLeast(2), optional, Optimize, hoist,            "moves computations and loads that do not change in a loop before the loop";
    25  "merge",            AtLeast(1), optional, Optimize, merge,            "common-subexpression elimination along the dominator tree";
    26  "unroll",           AtLeast(2), optional, Optimize, unroll,           "replaces short loops by their iterations, and joins iterations of others";
    27  "contract-again",   AtLeast(2), optional, Optimize, contract_again,   "the same for products and sums that unrolling brought together";
    28  "simplify-again",   AtLeast(1), optional, Optimize, simplify,         "the same for what unrolling made known";
    29  "fold",             AtLeast(1), optional, Optimize, fold,             "folds constants into instructions, and constant additions into address offsets";
    30  "join-phis",        AtLeast(1), optional, Optimize, join_phis,        "joins the phis of the registers of a matrix accumulator";
    31  "combine",          AtLeast(1), optional, Optimize, combine,          "combines logic trees, sums of products and shifts, and signs into one instruction";
    32  "forward-stores",   AtLeast(2), optional, Optimize, forward_stores,   "forwards stored words to loads, and removes repeated loads and overwritten stores";
    33  "vector-loads",     AtLeast(2), optional, Optimize, vector_loads,     "joins loads of neighbouring words of shared memory";
    34  "forward-again",    AtLeast(1), optional, Optimize, forward,          "copy propagation in the code that merge and fold left";
    60  "remove-dead",      AtLeast(1), optional, Optimize, remove_dead,      "dead-code elimination";
    62  "uniform",          AtLeast(1), optional, Optimize, uniform,          "computes operands in uniform registers in the uniform datapath";
    64  "if-convert",       AtLeast(1), optional, Optimize, if_convert,       "replaces short branches by guarded instructions";
    65  "guard-sums",       AtLeast(1), optional, Optimize, guard_sums,       "adds numbers that depend on a predicate under a guard";
    66  "reduce",           AtLeast(1), optional, Optimize, reduce,           "replaces atomic operations whose old value is not read by reductions and counters";
    67  "aggregate",        AtLeast(2), optional, Optimize, aggregate,        "lets one thread perform the atomic operations of a warp on one address";
    68  "uniform-numbers",  AtLeast(2), optional, Optimize, uniform_numbers,  "keeps doubles that are read repeatedly in uniform registers";
    69  "share-constants",  AtLeast(2), optional, Optimize, share_constants,  "loads the constants of a loop before the loop";
    90  "converge",         All,        required, Optimize, converge,         "inserts convergence barriers around divergent branches";
    92  "give-way",         All,        required, Optimize, insert_yields,         "inserts YIELD into loops that may wait for other threads";
    94  "balance",          AtLeast(1), optional, Optimize, balance,          "moves additions, shifts and multiply-adds of halves to the less busy unit";
    96  "store-return",     All,        required, Optimize, store_return,     "leaves the return address of a function with calls to the prologue";
    97  "pre-schedule",     Scheduled,  optional, Schedule, pre_schedule,     "reorders instructions within blocks, before register allocation";
    101 "allocate",         All,        required, Allocate, allocate,         "assigns physical registers, spills";
    102 "return-addresses", All,        required, Allocate, return_addresses, "writes return addresses before calls, and the instructions of texture fetches by quads";
    103 "clear-barriers",   All,        required, Allocate, clear_barriers,   "clears callee-saved convergence barriers, where the target needs that";
    104 "prologue",         All,        required, Allocate, insert_prologue,  "sets up the stack pointer, and saves and restores registers";
    106 "balance-moves",    AtLeast(2), optional, Allocate, balance_moves,    "moves copies of registers to the less busy unit";
    110 "post-schedule",    Scheduled,  optional, Allocate, post_schedule,    "reorders instructions within blocks, after register allocation";
    111 "guard-copies",     All,        required, Emit,     guard_copies,     "inserts idle shared loads before asynchronous copies";
    112 "settle-products",  All,        required, Emit,     settle_products,  "inserts waits and fences for the registers of warpgroup matrix products";
    113 "layout",           All,        required, Emit,     lay_out,          "removes branches to the next block";
    114 "idle-instructions", All,       required, Emit,     idle_instructions, "inserts instructions without an effect that all code for a machine has";
    116 "serial-control",   Only(0),    required, Emit,     serial_control,   "computes control words that run one instruction after the other";
    120 "control",          AtLeast(1), required, Emit,     control,          "computes stalls, scoreboards, yields and register reuse";
    122 "encode",           All,        required, Emit,     encode,           "encodes the instructions";
}

impl Pass {
    /// Returns the pass with this name. The error is a message that suggests a name, if one is similar.
    pub fn find(name: &str) -> Result<&'static Pass, String> {
        PASSES.iter().find(|pass| pass.name == name).ok_or_else(|| {
            let nearest = oriole_support::closest(name, PASSES.iter().map(|pass| pass.name));
            let suggestion = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            format!("no pass is called `{name}`{suggestion}")
        })
    }

    /// Returns the passes of a stage.
    pub(crate) fn of_stage(stage: Stage) -> &'static [Pass] {
        let first = PASSES.partition_point(|pass| pass.stage < stage);
        let end = PASSES.partition_point(|pass| pass.stage <= stage);
        &PASSES[first..end]
    }

    /// Returns whether the pass is part of the compilation of a function, according to the optimization level and the scheduling plan.
    pub(crate) fn is_enabled(&self, state: &FunctionState<'_>) -> bool {
        let level = state.options().level;
        match self.levels {
            Levels::All => true,
            Levels::AtLeast(least) => level >= least,
            Levels::Only(only) => level == only,
            Levels::Scheduled => state.plan.is_some(),
        }
    }
}

/// The result of a pass: nothing, or the errors that stop the compilation of the function.
type PassOutcome = Result<(), Vec<Failure>>;

/// Returns an internal error of the compiler with this message.
fn internal_error(message: impl ToString) -> Vec<Failure> {
    vec![Failure::from(Fault::Internal(message.to_string()))]
}

/// Pass `select`: selects machine instructions for the PTX instructions.
fn select(state: &mut FunctionState<'_>) -> PassOutcome {
    let input = state.input;
    let unsupported = |error: oriole_isel::Unsupported| Failure { span: error.span, fault: Fault::Unsupported(error.feature) };
    let options = SelectOptions { waits_for_errors: input.options.waits_for_errors(), without_descriptors: input.options.tools_patch };
    let Selected {
        function,
        barriers,
        callees,
        indirect_calls,
        taken_functions,
        has_dynamic_stack,
        tensor_memory,
        ignored_register_counts,
        locals_start,
        registers,
    } = select_function_with(&mut input.caches.select.borrow_mut(), input.module, input.id, input.variables, options)
        .map_err(|errors| errors.into_iter().map(unsupported).collect::<Vec<_>>())?;
    state.launch = report_data::declared_launch(&input.module.functions[input.id], input.options, input.variables, barriers);
    state.function = function;
    let for_debuggers = input.options.is_for_debuggers();
    if for_debuggers {
        joins::run(&mut state.function);
        assignments::run(&mut state.function, &registers);
    }
    if input.options.has_register_ranges() {
        state.register_definitions = registers::definitions(&state.function, &registers, for_debuggers);
    }
    if !input.debug_variables.is_empty() {
        state.register_aliases = variables::keep_readable(&mut state.function, input.module, input.id, &registers, input.debug_variables);
    }
    let selection = Selection {
        barriers,
        callees,
        indirect_calls,
        taken_functions,
        has_dynamic_stack,
        tensor_memory,
        ignored_register_counts,
        locals_start,
    };
    state.selection = Arc::new(selection);
    Ok(())
}

/// Pass `construct-ssa`: gives each value one definition.
fn construct_ssa(state: &mut FunctionState<'_>) -> PassOutcome {
    oriole_ir::construct_ssa(&mut state.function);
    Ok(())
}

/// Pass `straighten`: merges blocks that always follow each other.
fn straighten(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::straighten::run(&mut state.function, target);
    Ok(())
}

/// Passes `simplify` and `simplify-again`: simplify integer instructions with operands known at compile time, and form funnel shifts.
fn simplify(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::simplify::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    Ok(())
}

/// Pass `contract`: joins floating-point products and sums into multiply-adds, unless --fmad=false.
fn contract(state: &mut FunctionState<'_>) -> PassOutcome {
    contract_with(state, opt::contract::Legality::Any)
}

/// Pass `contract-again`: joins floating-point products and sums that unrolling brought together.
fn contract_again(state: &mut FunctionState<'_>) -> PassOutcome {
    contract_with(state, opt::contract::Legality::Encodable)?;
    // No later pass reads the contraction marks on instructions.
    opt::contract::clear_marks(&mut state.function);
    Ok(())
}

/// Runs contraction, unless the options forbid it; `legality` says whether its results must be encodable.
fn contract_with(state: &mut FunctionState<'_>, legality: opt::contract::Legality) -> PassOutcome {
    if state.options().contract {
        let encodability = &mut state.input.caches.encodability.borrow_mut();
        opt::contract::run_with_alternatives(&mut state.function, encodability, legality, &mut state.alternatives);
    }
    Ok(())
}

/// Pass `fuse`: forms multiply-adds of 64-bit addresses.
fn fuse(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::fuse::run(&mut state.function, target);
    Ok(())
}

/// Pass `split-index`: moves the constant part of an array index to the offset of the access.
fn split_index(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::split_index::run(&mut state.function, target);
    Ok(())
}

/// Pass `legalize`: makes every instruction encodable on the target.
fn legalize(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::legalize::run(&mut state.function, encodability).map(|_| ()).map_err(internal_error)
}

/// Passes `forward` and `forward-again`: copy propagation: replaces reads of a copy by reads of the copied value.
fn forward(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::forward::run(&mut state.function, target);
    Ok(())
}

/// Pass `merge`: common-subexpression elimination along the dominator tree.
fn merge(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::merge::run(&mut state.function, target);
    Ok(())
}

/// Pass `hoist`: moves computations and loads that do not change in a loop before the loop.
fn hoist(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::hoist::run(&mut state.function, target);
    Ok(())
}

/// Pass `narrow`: computes only the lower half of 64-bit values whose upper half is not read.
fn narrow(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::narrow::run(&mut state.function, target);
    Ok(())
}

/// Pass `forward-stores`: forwards stored words to loads, and removes repeated loads and overwritten stores.
fn forward_stores(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::forward_stores::run(&mut state.function);
    Ok(())
}

/// Pass `vector-loads`: joins loads of neighbouring words of shared memory.
fn vector_loads(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::vector_loads::run_with_remarks(&mut state.function, target, &mut state.pass_remarks);
    Ok(())
}

/// Pass `unroll`: replaces short loops by their iterations, and joins iterations of others.
fn unroll(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::unroll::run_with_remarks(&mut state.function, state.input.hardware, &mut state.pass_remarks);
    Ok(())
}

/// Pass `fold`: folds constants into instructions, and constant additions into address offsets.
fn fold(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::fold::run_with_alternatives(&mut state.function, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `tie-loads`: makes guarded vector loads write into the registers of the old values.
fn tie_loads(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::tie_loads::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    Ok(())
}

/// Pass `combine`: replaces each logic tree and each sum of products or shifts by one instruction, and folds negations and absolute values
/// into the instructions that read them.
fn combine(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::combine::run_with_alternatives(&mut state.function, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `join-phis`: joins the phis of the registers of a matrix accumulator.
fn join_phis(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::join_phis::run(&mut state.function, target);
    Ok(())
}

/// Pass `uniform`: computes operands that must be in uniform registers on the uniform datapath.
fn uniform(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::uniform::run_with_alternatives(&mut state.function, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `guard-sums`: replaces `x + (p ? n : 0)` by a guarded addition.
fn guard_sums(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::guard_sums::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    Ok(())
}

/// Pass `uniform-numbers`: keeps doubles that are read repeatedly in uniform registers.
fn uniform_numbers(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::uniform_numbers::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    Ok(())
}

/// Pass `share-constants`: loads the constants of a loop before the loop.
fn share_constants(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::share_constants::run(&mut state.function, target);
    Ok(())
}

/// Pass `remove-dead`: dead-code elimination.
fn remove_dead(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::dead::run(&mut state.function, target);
    Ok(())
}

/// Pass `if-convert`: replaces short branches by guarded instructions.
fn if_convert(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::if_convert::run_with_remarks(&mut state.function, state.input.hardware, &mut state.pass_remarks);
    Ok(())
}

/// Pass `reduce`: replaces atomic operations whose old value is not read by reductions and counters.
fn reduce(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::reduce::run(&mut state.function, target);
    Ok(())
}

/// Pass `aggregate`: lets one thread perform the atomic operations of a warp on one address.
fn aggregate(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::aggregate::run(&mut state.function, target);
    Ok(())
}

/// Pass `converge`: inserts convergence barriers around divergent branches.
fn converge(state: &mut FunctionState<'_>) -> PassOutcome {
    let (target, waiting_for_warp) = (state.target(), &state.input.facts.waiting_for_warp);
    let may_wait = |name: &str| waiting_for_warp.contains(name) || oriole_isel::is_runtime(name);
    opt::converge::run(&mut state.function, target, &may_wait);
    Ok(())
}

/// Pass `give-way`: inserts YIELD into loops that may wait for other threads.
fn insert_yields(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::insert_yields::run(&mut state.function, target);
    Ok(())
}

/// Pass `balance`: moves additions, shifts and FP16 multiply-adds to the less busy unit.
fn balance(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::balance::run_with_alternatives(&mut state.function, state.input.hardware, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `pre-schedule`: reorders instructions within blocks, before register allocation.
fn pre_schedule(state: &mut FunctionState<'_>) -> PassOutcome {
    let Some(plan) = state.plan.filter(|plan| plan.before_allocation) else { return Ok(()) };
    let (context, environment, offered) = (state.schedule_context(), state.environment(), state.occupancies_to_estimate);
    let stats = schedule::before_allocation(&mut state.function, plan, offered, context, &environment, state.input.options);
    state.schedule_stats = stats.map_err(internal_error)?;
    let with_trace = state.options().reports.traces(&state.function.name);
    state.report_data.note_schedule(schedule::PHASE_BEFORE_ALLOCATION, &state.function, &state.schedule_stats, with_trace);
    state.history.note_schedule(schedule::PHASE_BEFORE_ALLOCATION, &state.schedule_stats);
    Ok(())
}

/// Pass `allocate`: assigns physical registers and inserts spill code.
fn allocate(state: &mut FunctionState<'_>) -> PassOutcome {
    let (environment, options) = (state.environment(), state.input.options);
    registers::retain_valid(&state.function, &mut state.register_definitions);
    state.report_data.gather_values(&state.function, options, state.input.hardware);
    // Only a scheduled kernel with a known block size is worth a second allocation.
    let before = (state.plan.is_some() && state.launch.is_some()).then(|| state.function.clone());
    let allocation = convention::allocate(&mut state.function, &environment, options.verify)
        .map_err(|error| vec![Failure::from(Fault::Limit(error.to_string()))])?;
    let instructions = state.function.inst_count();
    let improved = before.and_then(|before| resident_blocks::allocate(&before, &allocation, instructions, state));
    state.allocation = Some(match improved {
        Some((function, for_more_blocks)) => {
            state.function = function;
            for_more_blocks
        }
        None => allocation,
    });
    if options.verify {
        check_registers(&state.function, &environment).map_err(|what| internal_error(format!("after allocate: {what}")))?;
    }
    Ok(())
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

/// Pass `store-return`: leaves the return address of a function with calls to the prologue.
fn store_return(state: &mut FunctionState<'_>) -> PassOutcome {
    convention::store_return_address(&mut state.function);
    Ok(())
}

/// Pass `return-addresses`: writes return addresses before calls, and the instructions of texture fetches by quads.
fn return_addresses(state: &mut FunctionState<'_>) -> PassOutcome {
    convention::write_return_addresses(&mut state.function);
    Ok(())
}

/// Pass `clear-barriers`: clears callee-saved convergence barriers, where the target needs that.
fn clear_barriers(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    convention::clear_barriers(&mut state.function, target);
    Ok(())
}

/// Pass `prologue`: sets up the stack pointer, and saves and restores registers.
fn insert_prologue(state: &mut FunctionState<'_>) -> PassOutcome {
    let (target, has_spills) = (state.target(), state.spill_bytes() > 0);
    prologue::run(&mut state.function, target, has_spills).map_err(|excess| vec![Failure::from(Fault::TooMuch(excess))])
}

/// Pass `balance-moves`: moves copies of registers to the less busy unit.
fn balance_moves(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::balance::run_moves(&mut state.function, state.input.hardware, &mut state.input.caches.encodability.borrow_mut());
    Ok(())
}

/// Pass `post-schedule`: reorders instructions within blocks, after register allocation.
fn post_schedule(state: &mut FunctionState<'_>) -> PassOutcome {
    let Some(plan) = state.plan else { return Ok(()) };
    let (context, environment) = (state.schedule_context(), state.environment());
    let stats =
        schedule::after_allocation(&mut state.function, plan, context, &environment, state.input.options).map_err(internal_error)?;
    let with_trace = state.options().reports.traces(&state.function.name);
    state.report_data.note_schedule(schedule::PHASE_AFTER_ALLOCATION, &state.function, &stats, with_trace);
    state.history.note_schedule(schedule::PHASE_AFTER_ALLOCATION, &stats);
    Ok(())
}

/// Pass `guard-copies`: inserts idle shared loads before asynchronous copies.
fn guard_copies(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::guard_copies::run(&mut state.function);
    Ok(())
}

/// Pass `idle-instructions`: inserts instructions without an effect that all code for a machine has.
fn idle_instructions(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::idle_instructions::run(&mut state.function, state.input.hardware.machine);
    Ok(())
}

/// Pass `layout`: removes branches to the next block.
fn lay_out(state: &mut FunctionState<'_>) -> PassOutcome {
    state.report_data.record_control_flow(&state.function);
    let keeps_lines = state.options().is_for_debuggers();
    layout::run(&mut state.function, keeps_lines);
    Ok(())
}

/// Pass `settle-products`: inserts waits and fences for the registers of warpgroup matrix products.
fn settle_products(state: &mut FunctionState<'_>) -> PassOutcome {
    state.remarks = opt::settle_products::run(&mut state.function);
    Ok(())
}

/// Pass `serial-control`: computes control words that run one instruction after the other.
fn serial_control(state: &mut FunctionState<'_>) -> PassOutcome {
    state.controls = Some(serial::assign(&mut state.function, state.input.hardware));
    Ok(())
}

/// Pass `control`: computes stalls, scoreboards, yields and register reuse.
fn control(state: &mut FunctionState<'_>) -> PassOutcome {
    if state.plan.is_some_and(|plan| plan.backend.strategy().tunes_yields()) {
        let warps = state
            .allocation
            .as_ref()
            .map_or(1, |allocation| schedule::resident_warps(allocation, state.launch, state.input.hardware.machine));
        let tuned = tune_yields::run(&mut state.function, state.input.hardware, warps);
        if state.schedule_context().trace {
            state.report_data.trace.push_str(&format!("phase 120: {}\n", tuned.note));
        }
        state.controls = Some(tuned.controls);
        return Ok(());
    }
    state.controls = Some(control_words::run(&mut state.function, state.input.hardware));
    Ok(())
}

/// Pass `encode`: encodes the instructions.
fn encode(state: &mut FunctionState<'_>) -> PassOutcome {
    let Some(controls) = &state.controls else { return Err(internal_error("no control words were computed")) };
    state.report_data.gather_code(&state.function, controls, state.input.hardware);
    if state.options().tools_patch {
        patches::check(&state.function).map_err(|failure| vec![failure])?;
    }
    let mut code = emit::run(&state.function, controls, state.input.options.target).map_err(internal_error)?;
    code.register_aliases = std::mem::take(&mut state.register_aliases);
    code.register_ranges = registers::ranges(&state.function, &state.register_definitions);
    // The frame of a function that moves its stack pointer at run time has no constant offsets.
    if !state.selection.has_dynamic_stack {
        code.saved_registers = saved_registers::rules(&state.function);
    }
    if state.options().reports.decisions {
        code.spill_code = emit::spill_code(&state.function);
        code.history = state.history.finish(&state.function, &state.alternatives);
    }
    state.code = Some(code);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stages must be in order for [`Pass::of_stage`]. Names and phases must be unique: users identify passes by name, reports identify
    /// them by phase.
    #[test]
    fn passes_are_in_order_and_unique() {
        assert!(PASSES.is_sorted_by(|one, next| one.phase < next.phase && one.stage <= next.stage));
        for (position, pass) in PASSES.iter().enumerate() {
            assert!(PASSES[..position].iter().all(|other| other.name != pass.name), "two passes are called {}", pass.name);
            assert!(!pass.name.is_empty() && pass.name != "all" && pass.name != "help", "{} is reserved", pass.name);
            assert!(pass.description.len() < 90 && !pass.description.is_empty(), "{}", pass.name);
        }
        let stages = [Stage::Optimize, Stage::Schedule, Stage::Allocate, Stage::Emit];
        assert_eq!(stages.iter().map(|&stage| Pass::of_stage(stage).len()).sum::<usize>(), PASSES.len());
    }

    /// The phases of the scheduling reports are those of the table.
    #[test]
    fn reports_name_the_phases_of_the_table() {
        assert_eq!(Pass::find("pre-schedule").unwrap().phase, schedule::PHASE_BEFORE_ALLOCATION);
        assert_eq!(Pass::find("post-schedule").unwrap().phase, schedule::PHASE_AFTER_ALLOCATION);
    }

    #[test]
    fn misspelt_names_get_a_suggestion() {
        assert_eq!(Pass::find("legalise").unwrap_err(), "no pass is called `legalise`; did you mean `legalize`?");
        assert_eq!(Pass::find("vectorize").unwrap_err(), "no pass is called `vectorize`");
    }
}
