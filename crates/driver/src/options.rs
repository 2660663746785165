//! The settings of a compilation.

use std::sync::Arc;

use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_sched::backend::{Backend, Knobs, ScheduleMode};

use crate::hooks::Hooks;

/// Target and settings of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target architecture.
    pub target: Target,
    /// Optimization level, 0 to 3.
    pub level: u8,
    /// Whether floating-point multiplications and additions without a rounding modifier may be contracted to multiply-adds.
    pub contract: bool,
    /// Maximum number of registers per thread, from the command line; `None` if not given.
    pub max_registers: Option<u32>,
    /// Maximum number of registers per thread of device functions in a relocatable object; `None` if not given.
    pub max_function_registers: Option<u32>,
    /// Whether threads wait at every exit until errors of their memory accesses have been reported.
    pub waits_for_errors_at_exit: bool,
    /// Whether to omit the shared memory that some targets reserve for the system at the start. Shared variables then start at address 0,
    /// and code that needs the reserved memory is an error.
    pub without_shared_reservation: bool,
    /// Launch bounds from the command line.
    pub launch: LaunchOptions,
    /// Whether to write a relocatable object instead of an executable cubin.
    pub relocatable: bool,
    /// Whether to compile tools patches: functions that tools insert into other programs. The cubin is then an executable file with all
    /// device functions of the modules. These use no uniform registers, because the other program may be using them. The modules must not
    /// contain kernels, shared variables or constants.
    pub tools_patch: bool,
    /// Names of the kernels to compile; all kernels if the list is empty.
    pub entries: Vec<String>,
    /// Whether to run the IR verifier after passes and to verify the register allocation.
    pub verify: bool,
    /// The passes to run, and the dumps and measurements of passes to record.
    pub passes: PassOptions,
    /// A hardware profile that replaces the built-in model. It must be for [`Options::target`].
    pub profile: Option<Arc<Profile>>,
    /// Whether instructions are scheduled, and with which scheduler and settings.
    pub scheduling: Scheduling,
    /// The statistics and records to collect for reports.
    pub reports: Reports,
    /// The debug information to write; `None` for none. Line tables do not change the code.
    pub debug: Option<DebugInfo>,
    /// The callbacks and threads of the compilation. They do not change the result.
    pub hooks: Hooks,
}

impl Options {
    /// Returns the default options for a target: all kernels, optimization level 3.
    pub fn new(target: Target) -> Options {
        Options {
            target,
            level: 3,
            contract: true,
            max_registers: None,
            max_function_registers: None,
            waits_for_errors_at_exit: false,
            without_shared_reservation: false,
            launch: LaunchOptions::default(),
            relocatable: false,
            tools_patch: false,
            entries: Vec::new(),
            verify: cfg!(debug_assertions),
            passes: PassOptions::default(),
            profile: None,
            scheduling: Scheduling::default(),
            reports: Reports::default(),
            debug: None,
            hooks: Hooks::default(),
        }
    }

    /// Returns whether to compute the address ranges in which machine registers hold PTX registers. Debug information and `oriole explain`
    /// need them.
    pub(crate) fn needs_register_ranges(&self) -> bool {
        self.reports.decisions || self.keeps_variables()
    }

    /// Returns whether to generate code for debuggers: unoptimized, with at least one instruction for every assignment and every source
    /// line.
    pub(crate) fn is_for_debuggers(&self) -> bool {
        self.keeps_variables() && self.level == 0
    }

    /// Returns whether threads wait at every exit for errors of their memory accesses. With full debug information (`-g`) they always do,
    /// as in code of ptxas.
    pub(crate) fn waits_for_errors(&self) -> bool {
        self.waits_for_errors_at_exit || self.keeps_variables()
    }

    /// Returns whether to keep source variables in registers until the end of their scopes, for debuggers.
    pub(crate) fn keeps_variables(&self) -> bool {
        self.debug.as_ref().is_some_and(|debug| debug.kind == DebugKind::Full)
    }
}

/// The passes to run, and the dumps and measurements to record. Passes are named as in [`PASSES`](crate::PASSES).
#[derive(Clone, Default, Debug)]
pub struct PassOptions {
    /// The passes before which each function is printed into [`PassLog::dumps`](crate::PassLog::dumps).
    pub print_before: PassSelection,
    /// The passes after which each function is printed into [`PassLog::dumps`](crate::PassLog::dumps).
    pub print_after: PassSelection,
    /// Name of the last pass to run; `None` to run all. Each function is printed after it, and no cubin is built.
    pub stop_after: Option<String>,
    /// Names of optional passes that do not run.
    pub disabled: Vec<String>,
    /// Whether to measure time and size of the code for each pass, recorded in [`PassLog::runs`](crate::PassLog::runs).
    pub measure: bool,
    /// A limit on the number of times that optional passes run, to find a faulty pass; `None` without such a search. With a limit,
    /// functions are compiled one after the other.
    pub bisect: Option<BisectOptions>,
}

impl PassOptions {
    /// Returns the names of all passes that the options mention.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let printed = [&self.print_before, &self.print_after].into_iter().flat_map(|selection| match selection {
            PassSelection::These(names) => names.as_slice(),
            PassSelection::All => &[],
        });
        printed.chain(&self.stop_after).chain(&self.disabled).map(String::as_str)
    }
}

/// A set of passes, given by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PassSelection {
    /// The passes with the given names.
    These(Vec<String>),
    /// All passes.
    All,
}

impl Default for PassSelection {
    fn default() -> PassSelection {
        PassSelection::These(Vec::new())
    }
}

impl PassSelection {
    /// Returns whether the set contains a pass.
    pub fn contains(&self, pass: &str) -> bool {
        match self {
            PassSelection::These(names) => names.iter().any(|name| name == pass),
            PassSelection::All => true,
        }
    }
}

/// A limit on the number of times that optional passes run, to find the pass that breaks a program by bisection.
#[derive(Clone, Copy, Debug)]
pub struct BisectOptions {
    /// Maximum number of executions of optional passes, over all functions; `None` for no limit.
    pub limit: Option<u64>,
    /// Callback that is called with each decision before the pass runs or is skipped, so that the decisions before a crash are known.
    pub report: fn(&BisectDecision<'_>),
}

/// The decision whether an optional pass runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BisectDecision<'a> {
    /// Number of this pass execution, counted from 1. Functions are counted in source order, passes in the order of execution.
    pub number: u64,
    /// Name of the optional pass.
    pub pass: &'static str,
    /// Name of the function that is compiled.
    pub function: &'a str,
    /// Whether the pass runs; otherwise it is skipped.
    pub runs: bool,
}

impl std::fmt::Display for BisectDecision<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BisectDecision { number, pass, function, runs } = self;
        write!(f, "BISECT: {} pass ({number}) {pass} on function {function}", if *runs { "running" } else { "NOT running" })
    }
}

/// Launch bounds from the command line, for all kernels.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LaunchOptions {
    /// Maximum number of threads per block along x, y and z; `None` if not given.
    pub max_threads: Option<[u32; 3]>,
    /// Minimum number of resident blocks per multiprocessor; `None` if not given.
    pub min_blocks_per_sm: Option<u32>,
    /// Whether the launch bounds of the command line and [`Options::max_registers`] override directives in the PTX.
    pub override_directives: bool,
    /// Whether all functions are marked as with `.blocksareclusters`: the grid size of a launch is then a number of clusters.
    pub blocks_are_clusters: bool,
}

/// Whether instructions are scheduled, and in which mode (with which optimization goal).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScheduleModeChoice {
    /// The optimization level determines whether instructions are scheduled, and the mode.
    #[default]
    ByLevel,
    /// Instructions are not scheduled and keep the order of earlier passes.
    Off,
    /// Instructions are scheduled in this mode.
    On(ScheduleMode),
}

/// The choice of the scheduler backend (implementation).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackendChoice {
    /// The default backend for the kind of code ([`CodeKind::default_strategy`](crate::code_kind::CodeKind::default_strategy)).
    #[default]
    Default,
    /// The backend that ptxas uses for the target, according to its published description.
    ByTarget,
    /// The backend that the options name.
    One(Backend),
    /// All three backends are tried in all modes; the best result is kept.
    Auto,
    /// Several backends, chosen by properties of the function ([`CodeKind`](crate::code_kind::CodeKind)); the best result is kept.
    ByCode,
}

impl BackendChoice {
    /// Returns the choice of backend with this name on the command line (`--sched-backend`); `None` if there is none.
    pub fn parse(name: &str) -> Option<BackendChoice> {
        match name {
            "auto" => Some(BackendChoice::Auto),
            "by-target" => Some(BackendChoice::ByTarget),
            _ => Backend::parse(name).filter(|backend| Backend::BACKENDS_A_B_C.contains(backend)).map(BackendChoice::One),
        }
    }

    /// Returns the choice of strategy with this name on the command line (`--sched-strategy`); `None` if there is none.
    pub fn parse_strategy(name: &str) -> Option<BackendChoice> {
        match name {
            "auto" => Some(BackendChoice::ByCode),
            _ => Backend::parse(name).map(BackendChoice::One),
        }
    }
}

/// The options of the instruction schedulers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Scheduling {
    /// Whether instructions are scheduled, and the optimization goal.
    pub mode: ScheduleModeChoice,
    /// The choice of the scheduler backend.
    pub backend: BackendChoice,
    /// Tuning parameters of the scheduler backends.
    pub knobs: Knobs,
}

impl Scheduling {
    /// Returns options that turn scheduling off.
    pub fn off() -> Scheduling {
        Scheduling { mode: ScheduleModeChoice::Off, ..Scheduling::default() }
    }

    /// Returns options with which instructions are scheduled by one backend in one mode.
    pub fn by(backend: Backend, mode: ScheduleMode) -> Scheduling {
        Scheduling { mode: ScheduleModeChoice::On(mode), backend: BackendChoice::One(backend), ..Scheduling::default() }
    }
}

/// The statistics and records to collect during the compilation.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reports {
    /// Whether to collect the statistics of each function for the scheduling report.
    pub figures: bool,
    /// Whether to record the reason why the scheduler picks each instruction.
    pub trace: bool,
    /// Names of the functions to trace; all functions if the list is empty.
    pub traced_functions: Vec<String>,
    /// Whether to write an ELF note for each function into the cubin, with its numbers of instructions and registers.
    pub record: bool,
    /// Whether to record remarks of passes, the locations of PTX registers, the spill code, and the history of each instruction
    /// ([`Decisions`](crate::Decisions)).
    pub decisions: bool,
}

impl Reports {
    /// Returns whether to record the reasons for the scheduler's picks in the function with this name.
    pub(crate) fn traces(&self, function: &str) -> bool {
        self.trace && (self.traced_functions.is_empty() || self.traced_functions.iter().any(|name| name == function))
    }
}

/// The debug information to write.
#[derive(Clone, Debug)]
pub struct DebugInfo {
    /// Whether to write line tables only, or all debug sections.
    pub kind: DebugKind,
    /// The PTX text of each module, in the order of the modules.
    pub texts: Vec<Arc<[u8]>>,
}

/// The extent of the debug information to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DebugKind {
    /// Line tables only: `-lineinfo`.
    Lines,
    /// Line tables, and the debug sections of the PTX: `-g`.
    Full,
}
