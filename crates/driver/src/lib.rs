//! The compiler: checked PTX in, a cubin out.
//!
//! [`compile`] is the whole interface. It selects, optimizes, allocates, and encodes each function on its own, functions in parallel
//! ([`passes`] lists the steps on one screen), and puts the results together ([`image`]).
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
pub mod rescore;
mod schedule;
mod variables;

use std::sync::Arc;

use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_ptx::ast::Module;

pub use account::{Reports, SchedulingReport};
pub use error::{CompileError, Fault};
pub use machines::{Obstacle, obstacle};
pub use oriole_sched::backend::{Backend as ScheduleBackend, Knobs as ScheduleKnobs, Mode as ScheduleMode};
pub use passes::{PASSES, Pass};
pub use registers::LaunchOptions;
pub use schedule::{BackendChoice, ModeChoice, Plan, Scheduling};

/// What to compile for, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target.
    pub target: Target,
    /// Optimization level, 0 to 3.
    pub level: u8,
    /// Limit of registers for each thread, from the command line.
    pub max_registers: Option<u32>,
    /// Launch bounds from the command line.
    pub launch: LaunchOptions,
    /// A relocatable object instead of an executable one.
    pub relocatable: bool,
    /// Kernels to compile; all if there are none.
    pub entries: Vec<String>,
    /// Verify the code after each pass.
    pub verify: bool,
    /// The pass after which each function is printed into [`Compiled::dumps`].
    pub print_after: Option<String>,
    /// Figures of the machine that go before the built-in ones. It must be for [`Options::target`].
    pub profile: Option<Arc<Profile>>,
    /// Whether and how instructions are scheduled.
    pub scheduling: Scheduling,
    /// What to tell about it.
    pub reports: Reports,
}

impl Options {
    /// Everything, optimized, for a target.
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
    /// The bytes of the file.
    pub cubin: Vec<u8>,
    /// What each function needs, in the order of the source.
    pub functions: Vec<FunctionReport>,
    /// Bytes of global variables.
    pub global_bytes: u64,
    /// Constant banks that belong to the module, with their sizes.
    pub constant_bytes: Vec<(u8, u64)>,
    /// Functions as text, where [`Options::print_after`] asked for it.
    pub dumps: Vec<String>,
    /// What scheduling did with each function, in the order of [`Compiled::functions`].
    pub scheduling: Vec<SchedulingReport>,
}

/// What a function needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionReport {
    /// Its name.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Registers of each thread.
    pub registers: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of local memory, spills included.
    pub stack_bytes: u32,
    /// Bytes stored by spills.
    pub spill_store_bytes: u32,
    /// Bytes loaded by spills.
    pub spill_load_bytes: u32,
    /// Static shared memory, what the system reserves excluded.
    pub shared_bytes: u32,
    /// Bytes of constant bank 0 up to the last parameter.
    pub constant_bytes: u32,
    /// Number of machine instructions.
    pub instructions: usize,
    /// Who scheduled it, if somebody did.
    pub plan: Option<Plan>,
    /// What the user should know: launch bounds that are ignored, in ptxas' words.
    pub warnings: Vec<String>,
}

/// Compiles modules into one file. All errors of all functions come back, in the order of the source.
pub fn compile(modules: &[&Module], options: &Options) -> Result<Compiled, Vec<CompileError>> {
    if let Some(profile) = options.profile.as_ref().filter(|profile| profile.target != options.target) {
        let what = format!("the hardware profile is for {}, not for {}", profile.target, options.target);
        return Err(vec![CompileError { module: 0, function: String::new(), span: None, fault: Fault::Limit(what) }]);
    }
    let machine = oriole_ptx::target::Target::parse(&options.target.to_string());
    let refused = modules.iter().enumerate().filter_map(|(number, module)| {
        let what = match machine.and_then(|machine| obstacle(module.target, machine)) {
            Some(obstacle) => format!("{} cannot run code for {}, {obstacle}", options.target, module.target),
            None => return None,
        };
        Some(CompileError { module: number, function: String::new(), span: None, fault: Fault::Limit(what) })
    });
    let refused: Vec<CompileError> = refused.collect();
    if refused.is_empty() { image::compile(modules, options) } else { Err(refused) }
}
