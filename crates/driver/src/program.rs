//! Compiles whole programs.
//!
//! Steps of [`compile`]: rename private symbols of the same name, lay out the variables of each module, choose the functions to compile and
//! their register limits, check memory limits, compile the functions in parallel, add the runtime functions that the code calls, check for
//! unresolved names, and build the cubin ([`link`](crate::link)).

use std::collections::BTreeSet;

use oriole_cubin::FileTraits;
use oriole_hardware::Hardware;
use oriole_isa::SystemLayout;
use oriole_isel::{Layout, Linking};
use oriole_ptx::ast::{Module, Statement};
use oriole_ptx::source::Span;
use oriole_ptx::types::StateSpace;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::caches::CachePool;
use crate::compile_function::{FinishedFunction, FunctionOutcome, compile_function};
use crate::compiled::Compiled;
use crate::error::{CompileError, ErrorCause, FunctionError, LimitedMemory, MemoryExcess};
use crate::functions::{FunctionFacts, FunctionIndex};
use crate::hooks::ProgressTracker;
use crate::job::{self, FunctionJob};
use crate::link;
use crate::options::Options;
use crate::pass_log::{BisectCounter, PassLog, PassRecorder};
use crate::state::FunctionInput;
use crate::whole_program::ProgramCompilation;
use crate::{convention, functions, parallel, private_names};

/// Compiles modules into one cubin. Also returns the requested records of the passes.
pub fn compile(modules: &[&Module], options: &Options) -> (Result<Compiled, Vec<CompileError>>, PassLog) {
    let mut log = PassLog::default();
    let result = compile_program(modules, options, &mut log);
    (result, log)
}

/// Compiles modules into one cubin. Appends the requested records of the passes to `log`.
fn compile_program(modules: &[&Module], options: &Options, log: &mut PassLog) -> Result<Compiled, Vec<CompileError>> {
    if FileTraits::of(options.target).is_none() {
        return Err(vec![CompileError::in_program(ErrorCause::Unsupported(format!("a file for {}", options.target)))]);
    }
    let hardware = &Hardware::new(options.target, options.profile.as_deref());
    let distinct = private_names::with_distinct_names(modules);
    let modules: &[&Module] = &distinct.iter().map(|module| &**module).collect::<Vec<_>>();
    let mut layouts = lay_out_variables(modules, options)?;
    let mut indices: Vec<FunctionIndex<'_>> = modules.iter().map(|module| FunctionIndex::new(module)).collect();
    let mut jobs = job::create_jobs(modules, &indices, &layouts, options, hardware.machine);
    let excesses = memory_limit_errors(&jobs, &layouts, options);
    if !excesses.is_empty() {
        return Err(excesses);
    }
    let bisect = options.passes.bisect.map(BisectCounter::new);
    let tracker = ProgressTracker::new(&options.hooks);
    let caches = &CachePool::new(options.target);
    let settings = SharedInputs { options, hardware, tracker: &tracker, bisect: bisect.as_ref(), caches };
    let mut results = CompilationResults { finished: Vec::new(), callees: BTreeSet::new(), errors: Vec::new(), log };
    results.compile(&jobs, &indices, settings);
    let (modules, layouts) = (&mut modules.to_vec(), &mut layouts);
    if results.errors.is_empty() {
        let first = jobs.len();
        add_runtime_functions(modules, layouts, &mut jobs, &results.callees, options)?;
        indices.extend(modules[indices.len()..].iter().map(|module| FunctionIndex::new(module)));
        results.compile(&jobs[first..], &indices, settings);
    }
    let CompilationResults { finished, mut errors, .. } = results;
    if tracker.check_cancelled().is_err() || errors.iter().any(|error| error.fault == ErrorCause::Cancelled) {
        return Err(vec![CompileError::in_program(ErrorCause::Cancelled)]);
    }
    if options.passes.stop_after.is_some() {
        return if errors.is_empty() { Ok(Compiled::default()) } else { Err(errors) };
    }
    if !options.relocatable {
        errors.extend(unresolved_function_errors(&indices, &jobs, &finished));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let linked =
        link::link(&ProgramCompilation { modules, indices: &indices, layouts, jobs: &jobs, finished: &finished }, options, hardware);
    parallel::free_results(&options.hooks.parallelism, finished.len(), finished);
    linked
}

/// Returns the source position to report if a function uses too much of a memory space: its first variable in that space, or else its first
/// statement. `None` if it has neither.
fn memory_use_position(job: &FunctionJob<'_>, memory: LimitedMemory) -> Option<Span> {
    let body = job.function().body.as_deref()?;
    let space = match memory {
        LimitedMemory::Shared => StateSpace::Shared,
        _ => StateSpace::Local,
    };
    let is_there = |statement: &Statement| matches!(*statement, Statement::Variable(id) if job.module.variables[id].space == space);
    let declared = body.statements.iter().position(is_there).and_then(|number| body.position(number));
    declared.or_else(|| (0..body.statements.len()).find_map(|number| body.position(number)))
}

/// Returns an error for every memory limit of the target that is exceeded, in ptxas' order: functions from the last to the first, then the
/// whole program.
fn memory_limit_errors(jobs: &[FunctionJob<'_>], layouts: &[Layout], options: &Options) -> Vec<CompileError> {
    let limits = &SystemLayout::of(options.target).limits;
    let mut errors = Vec::new();
    for job in jobs.iter().rev() {
        let (variables, is_kernel) = (&job.variables, job.is_kernel());
        // The shared variables of a device function are counted in the kernels from which the function is reachable.
        let shared = if is_kernel { variables.shared_bytes } else { 0 };
        let found = [
            MemoryExcess::find(LimitedMemory::Parameter, variables.packed_parameter_bytes, limits.parameters, is_kernel),
            MemoryExcess::find(LimitedMemory::Shared, shared, limits.static_shared_of(options.target), is_kernel),
            MemoryExcess::find(LimitedMemory::Local, variables.frame_bytes, limits.frame, is_kernel),
        ];
        errors.extend(found.into_iter().flatten().map(|excess| {
            let failure = FunctionError { span: memory_use_position(job, excess.memory), fault: ErrorCause::TooMuch(excess) };
            CompileError::in_function(job.module_number, job.name(), failure)
        }));
    }
    let constants = layouts.last().map_or(0, |layout| layout.constants_end);
    let excess = MemoryExcess::find(LimitedMemory::Constant, constants, limits.constants, false);
    errors.extend(excess.map(|excess| CompileError::in_program(ErrorCause::TooMuch(excess))));
    errors
}

/// The inputs that all functions of a compilation share.
#[derive(Clone, Copy)]
struct SharedInputs<'a> {
    /// Target and settings of the compilation.
    options: &'a Options,
    /// The hardware model of the target, with the changes of the user's hardware profile.
    hardware: &'a Hardware<'a>,
    /// Counts finished functions and calls the callbacks of the caller.
    tracker: &'a ProgressTracker<'a>,
    /// Counts the executions of optional passes; `None` without bisection.
    bisect: Option<&'a BisectCounter>,
    /// Caches for instruction selection, and a cache that knows which instructions the target can encode.
    caches: &'a CachePool,
}

/// The results of compiling functions: the compiled functions, their errors, and the records of the passes, each in the order of the jobs.
struct CompilationResults<'a> {
    /// The compiled functions.
    finished: Vec<FinishedFunction>,
    /// Names of all functions that the compiled functions call directly.
    callees: BTreeSet<String>,
    /// The errors of the functions that could not be compiled.
    errors: Vec<CompileError>,
    /// The records of the passes, to which those of each function are appended.
    log: &'a mut PassLog,
}

impl CompilationResults<'_> {
    /// Compiles functions and adds their results to this struct. The functions are compiled in parallel, except for bisection, which needs
    /// a fixed order of pass executions.
    fn compile(&mut self, jobs: &[FunctionJob<'_>], indices: &[FunctionIndex<'_>], settings: SharedInputs<'_>) {
        let SharedInputs { options, hardware, tracker, bisect, caches } = settings;
        let mut facts: FxHashMap<usize, FunctionFacts> = FxHashMap::default();
        for job in jobs {
            facts.entry(job.module_number).or_insert_with(|| FunctionFacts::new(&indices[job.module_number]));
        }
        let size = |job: &FunctionJob<'_>| job.function().body.as_ref().map_or(0, |body| body.instructions.len());
        let run = |job: &FunctionJob<'_>| {
            let recorder = PassRecorder::new(&options.passes, tracker, bisect);
            let &FunctionJob { module, id, ref variables, ref debug_variables, register_limit, register_counts, .. } = job;
            let facts = &facts[&job.module_number];
            let outcome = caches.with_idle_caches(|caches| {
                let input = FunctionInput {
                    module,
                    id,
                    variables,
                    debug_variables,
                    register_limit,
                    register_counts: register_counts.followed(),
                    facts,
                    options,
                    hardware,
                    recorder,
                    caches,
                };
                compile_function(input)
            });
            tracker.finish_function(job.name(), size(job));
            outcome
        };
        tracker.add_to_total_work(jobs.len(), jobs.iter().map(size).sum());
        let outcomes = match bisect {
            Some(_) => jobs.iter().map(run).collect(),
            None => parallel::map_in_parallel(tracker.parallelism(), jobs, size, run),
        };
        for (job, FunctionOutcome { result, callees, log }) in jobs.iter().zip(outcomes) {
            self.callees.extend(callees);
            self.log.append(log);
            match result {
                Ok(function) => self.finished.extend(function),
                Err(failures) => self
                    .errors
                    .extend(failures.into_iter().map(|failure| CompileError::in_function(job.module_number, job.name(), failure))),
            }
        }
    }
}

/// Adds jobs for the runtime functions (library functions of the compiler) that the compiled functions call.
fn add_runtime_functions(
    modules: &mut Vec<&Module>,
    layouts: &mut Vec<Layout>,
    jobs: &mut Vec<FunctionJob<'_>>,
    called: &BTreeSet<String>,
    options: &Options,
) -> Result<(), Vec<CompileError>> {
    for (module, id) in called.iter().filter_map(|name| oriole_isel::runtime_function(name)) {
        let number = modules.len();
        let layout = Layout::new(module, Linking::Whole)
            .map_err(|error| vec![CompileError::in_module(number, ErrorCause::Internal(error.feature))])?;
        let register_limit = if options.tools_patch { convention::MIN_ABI_REGISTERS } else { convention::MIN_ALLOCATABLE_REGISTERS };
        jobs.push(FunctionJob { register_limit, ..FunctionJob::new(number, module, id, &layout, options.target) });
        modules.push(module);
        layouts.push(layout);
    }
    Ok(())
}

/// Assigns offsets to the variables of all modules. In the constant banks, the variables of each module follow those of the previous one.
fn lay_out_variables(modules: &[&Module], options: &Options) -> Result<Vec<Layout>, Vec<CompileError>> {
    let linking = if options.relocatable || options.tools_patch { Linking::Relocatable } else { Linking::Whole };
    let unsupported = |module, feature| vec![CompileError::in_module(module, ErrorCause::Unsupported(feature))];
    let mut layouts: Vec<Layout> = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        let layout = Layout::after(layouts.last(), module, linking).map_err(|error| unsupported(number, error.feature))?;
        layouts.push(layout);
    }
    Layout::resolve_constants(&mut layouts, modules);
    Layout::place_common_images(&mut layouts, modules, options.target);
    let bank_bytes = layouts.last().map_or(0, |layout| layout.constants_end);
    layouts.iter_mut().for_each(|layout| layout.bank_bytes = bank_bytes);
    Ok(layouts)
}

/// Returns an error for every function that is used but not defined.
fn unresolved_function_errors(indices: &[FunctionIndex<'_>], jobs: &[FunctionJob<'_>], finished: &[FinishedFunction]) -> Vec<CompileError> {
    let compiled: FxHashSet<&str> = jobs.iter().map(FunctionJob::name).collect();
    let is_known = |name: &str| functions::is_driver_function(name) || oriole_isel::is_runtime(name) || compiled.contains(name);
    let mut errors = Vec::new();
    for (job, function) in jobs.iter().zip(finished) {
        for name in function.selection.callees.iter().chain(&function.selection.taken_functions).filter(|name| !is_known(name)) {
            let failure = FunctionError::from(ErrorCause::Unresolved(name.clone()));
            errors.push(CompileError::in_function(job.module_number, job.name(), failure));
        }
    }
    for (number, index) in indices.iter().enumerate() {
        for name in index.address_taken_by_variables().into_iter().filter(|name| !is_known(name)) {
            errors.push(CompileError::in_module(number, ErrorCause::Unresolved(name.to_owned())));
        }
    }
    errors
}
