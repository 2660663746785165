//! The compiler driver: compiles checked PTX modules into a cubin.
//!
//! [`compile`] is the whole interface. It selects, optimizes, allocates and encodes each function separately and in parallel ([`passes`]
//! has the list of steps), and builds the file from the results ([`image`]).
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

pub mod account;
mod convention;
mod emit;
mod error;
mod functions;
mod image;
mod layout;
mod machines;
mod parallel;
mod passes;
mod prologue;
mod registers;
mod schedule;
mod variables;

use std::sync::Arc;

use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_ptx::ast::Module;

pub use account::{Reports, SchedulingReport};
pub use error::{CompileError, Excess, Fault, LimitedMemory};
pub use machines::{TargetMismatch, target_mismatch};
pub use oriole_sched::backend::{Backend as ScheduleBackend, Knobs as ScheduleKnobs, Mode as ScheduleMode};
pub use passes::{PASSES, Pass};
pub use registers::LaunchOptions;
pub use schedule::{BackendChoice, ModeChoice, Plan, Scheduling};

/// Target and settings of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target architecture.
    pub target: Target,
    /// Optimization level, 0 to 3.
    pub level: u8,
    /// Maximum number of registers per thread, from the command line.
    pub max_registers: Option<u32>,
    /// Launch bounds from the command line.
    pub launch: LaunchOptions,
    /// Whether to write a relocatable object instead of an executable one.
    pub relocatable: bool,
    /// Names of the kernels to compile; all kernels if the list is empty.
    pub entries: Vec<String>,
    /// Whether to run the IR verifier and the allocation checker after the passes.
    pub verify: bool,
    /// Name of the pass after which each function is printed into [`Compiled::dumps`].
    pub print_after: Option<String>,
    /// A hardware profile that replaces the built-in model. It must be for [`Options::target`].
    pub profile: Option<Arc<Profile>>,
    /// Whether and how instructions are scheduled.
    pub scheduling: Scheduling,
    /// What to report about scheduling.
    pub reports: Reports,
}

impl Options {
    /// Returns the default options for a target: all kernels, optimization level 3.
    pub fn new(target: Target) -> Options {
        Options {
            target,
            level: 3,
            max_registers: None,
            launch: LaunchOptions::default(),
            relocatable: false,
            entries: Vec::new(),
            verify: cfg!(debug_assertions),
            print_after: None,
            profile: None,
            scheduling: Scheduling::default(),
            reports: Reports::default(),
        }
    }
}

/// The result of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The bytes of the cubin file.
    pub cubin: Vec<u8>,
    /// Resource usage of each function, in source order.
    pub functions: Vec<FunctionReport>,
    /// Total size of the global variables in bytes.
    pub global_bytes: u64,
    /// Constant banks that belong to the module: bank number and size in bytes.
    pub constant_bytes: Vec<(u8, u64)>,
    /// The text of each function after the pass [`Options::print_after`].
    pub dumps: Vec<String>,
    /// What scheduling did with each function, in the order of [`Compiled::functions`].
    pub scheduling: Vec<SchedulingReport>,
}

/// Resource usage of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionReport {
    /// Name of the function.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Registers per thread.
    pub registers: u32,
    /// Number of named barriers.
    pub barriers: u32,
    /// Bytes of the stack frame in local memory, including spill slots.
    pub stack_bytes: u32,
    /// Bytes that spill stores write.
    pub spill_store_bytes: u32,
    /// Bytes that spill loads read.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory, without the part that the system reserves.
    pub shared_bytes: u32,
    /// Bytes of constant bank 0 up to the end of the last parameter; 0 for a function that is not a kernel.
    pub constant_bytes: u32,
    /// Number of machine instructions, without padding.
    pub instructions: usize,
    /// The scheduling plan used; `None` if the function was not scheduled.
    pub plan: Option<Plan>,
    /// Warnings for the user in ptxas' words, for example about ignored launch bounds.
    pub warnings: Vec<String>,
}

/// Compiles modules into one file. On failure returns the errors of all functions, in source order.
pub fn compile(modules: &[&Module], options: &Options) -> Result<Compiled, Vec<CompileError>> {
    if let Some(profile) = options.profile.as_ref().filter(|profile| profile.target != options.target) {
        let what = format!("the hardware profile is for {}, not for {}", profile.target, options.target);
        return Err(vec![CompileError { module: 0, function: String::new(), span: None, fault: Fault::Limit(what) }]);
    }
    let machine = oriole_ptx::target::Target::parse(&options.target.to_string());
    let refused = modules.iter().enumerate().filter_map(|(number, module)| {
        let what = match machine.and_then(|machine| target_mismatch(module.target, machine)) {
            Some(mismatch) => format!("{} cannot run code for {}, {mismatch}", options.target, module.target),
            None => return None,
        };
        Some(CompileError { module: number, function: String::new(), span: None, fault: Fault::Limit(what) })
    });
    let refused: Vec<CompileError> = refused.collect();
    if refused.is_empty() { image::compile(modules, options) } else { Err(refused) }
}
