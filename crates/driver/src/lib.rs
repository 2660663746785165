//! The compiler driver: compiles checked PTX modules into a cubin.
//!
//! [`compile`] is the main entry point. It compiles the functions in parallel, each with the passes of the table [`PASSES`], and builds the
//! cubin from the results. [`compile_with_log`] also returns records of the passes that the options request, such as the text of functions
//! after a pass.
//!
//! ```
//! use oriole_driver::{Options, compile};
//!
//! let ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
//! let checked = oriole_ptx::check(ptx, &oriole_ptx::Options::default());
//! let target = oriole_isa::Target::parse("sm_90a").unwrap();
//! let compiled = compile(&[&checked.module], &Options::new(target)).unwrap();
//! assert_eq!(&compiled.cubin[..4], b"\x7fELF");
//! assert_eq!(compiled.functions[0].name, "nothing");
//! ```

mod abi_registers;
pub mod account;
mod barrier_sites;
mod caches;
mod check;
mod clock;
mod code_kind;
mod compat;
mod compile_function;
mod compiled;
mod convention;
mod debug;
mod decisions;
mod emit;
mod error;
mod full_occupancy;
mod function_report;
mod functions;
mod history;
mod hooks;
mod images;
mod job;
mod layout;
mod link;
mod machines;
mod options;
mod parallel;
mod pass_log;
mod passes;
mod patches;
mod pipeline;
mod private_names;
mod program;
mod prologue;
mod quads;
mod register_counts;
mod registers;
mod report_data;
mod resident_blocks;
mod schedule;
mod search;
mod state;
mod variables;
mod warp_sites;
mod whole_program;

use oriole_ptx::ast::Module;

pub use account::SchedulingReport;
pub use check::check;
pub use compiled::Compiled;
pub use decisions::{DecisionRemark, Decisions, PtxRegisterLocation};
pub use error::{CompileError, ErrorCause, LimitedMemory, MemoryExcess};
pub use function_report::{FunctionReport, PerformanceRemark};
pub use history::{FormChange, InstHistory, PlaceDecision, RejectedForm, RunnerUp};
pub use hooks::{CancelFunction, Executor, Hooks, Parallelism, Progress, ProgressFunction};
pub use machines::{TargetMismatch, target_mismatch};
pub use options::{
    BackendChoice, BisectDecision, BisectOptions, DebugInfo, DebugKind, LaunchOptions, Options, PassOptions, PassSelection, Reports,
    ScheduleModeChoice, Scheduling,
};
pub use oriole_sched::backend::{Backend as ScheduleBackend, Knobs as ScheduleKnobs, ScheduleMode};
pub use pass_log::{DumpMoment, FunctionDump, IrObjectCounts, PassLog, PassRun};
pub use passes::{PASSES, Pass, PassLevels};
pub use schedule::SchedulePlan;

/// Compiles modules into one cubin. On failure returns the errors of all functions, in source order.
pub fn compile(modules: &[&Module], options: &Options) -> Result<Compiled, Vec<CompileError>> {
    compile_with_log(modules, options).0
}

/// Compiles modules into one cubin. Also returns a log with the dumps and measurements that [`Options::passes`] requests. On failure the
/// log is complete up to the pass that failed.
pub fn compile_with_log(modules: &[&Module], options: &Options) -> (Result<Compiled, Vec<CompileError>>, PassLog) {
    let refused = option_errors(modules, options);
    if refused.is_empty() { program::compile(modules, options) } else { (Err(refused), PassLog::default()) }
}

/// Returns an error for each option that is invalid or that contradicts the modules; empty if there are none.
fn option_errors(modules: &[&Module], options: &Options) -> Vec<CompileError> {
    let error = |module, what| CompileError::in_module(module, ErrorCause::Limit(what));
    if let Some(profile) = options.profile.as_ref().filter(|profile| profile.target != options.target) {
        return vec![error(0, format!("the hardware profile is for {}, not for {}", profile.target, options.target))];
    }
    let unknown = options.passes.names().filter_map(|name| Pass::find(name).err()).map(|what| error(0, what));
    let mismatches = modules.iter().enumerate().filter_map(|(number, module)| {
        let mismatch = target_mismatch(module.target, options.target)?;
        Some(error(number, format!("{} cannot run code for {}, {mismatch}", options.target, module.target)))
    });
    unknown.chain(mismatches).collect()
}
