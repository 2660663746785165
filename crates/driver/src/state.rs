//! The state of a function between two passes.

use std::cell::OnceCell;
use std::sync::Arc;

use oriole_ctrl::ControlWords;
use oriole_hardware::Hardware;
use oriole_hardware::occupancy::LaunchResources;
use oriole_ir::analysis::{ControlFlow, LoopModel, Loops, RegisterCounts};
use oriole_ir::{Block, Function, FunctionKind, Inst, Location, Space};
use oriole_isa::Target;
use oriole_isel::VariableLayout;
use oriole_opt::alternatives::Alternatives;
use oriole_opt::remarks::Remarks;
use oriole_opt::settle_products::ProductSyncRemark;
use oriole_ptx::ast::{self, FunctionId, Module};
use oriole_regalloc::{Allocation, AllocationEnvironment};
use oriole_sched::function::Stats;

use crate::caches::Caches;
use crate::convention;
use crate::debug::location_lists::RegisterAlias;
use crate::debug::registers::WordDefinition;
use crate::debug::variables::FunctionVariables;
use crate::emit::EmittedCode;
use crate::functions::FunctionFacts;
use crate::history::History;
use crate::options::Options;
use crate::pass_log::{FunctionDump, PassRecorder};
use crate::register_counts::FollowedCounts;
use crate::report_data::ReportData;
use crate::schedule::{self, SchedulePlan};

/// The inputs of the compilation of one function.
pub struct FunctionInput<'a> {
    /// The PTX module that contains the function.
    pub module: &'a Module,
    /// The index of the function in the module.
    pub id: FunctionId,
    /// The locations of the function's variables and parameters.
    pub variables: &'a VariableLayout,
    /// The PTX registers that hold source variables, if they are kept for debuggers.
    pub debug_variables: &'a FunctionVariables,
    /// Maximum number of general registers that the function's instructions may name.
    pub register_limit: u32,
    /// The numbers of registers in the parts of a kernel that follows `setmaxnreg`.
    pub register_counts: Option<FollowedCounts>,
    /// Properties of the functions of the module that are known before they are compiled.
    pub facts: &'a FunctionFacts,
    /// Target and settings of the compilation.
    pub options: &'a Options,
    /// The hardware model of the target.
    pub hardware: &'a Hardware<'a>,
    /// Measures the passes of the function if the options request that.
    pub recorder: PassRecorder<'a>,
    /// Caches for instruction selection and encodability, filled by functions that were compiled earlier.
    pub caches: &'a Caches,
}

impl FunctionInput<'_> {
    /// Returns the name of the function.
    pub fn name(&self) -> &str {
        self.module.name(self.module.functions[self.id].name)
    }
}

/// Results of instruction selection besides the code.
#[derive(Clone, Default, Debug)]
pub struct Selection {
    /// Number of named barriers (`barrier`, `bar`) that the function uses.
    pub barriers: u32,
    /// Names of the functions that the function calls directly.
    pub callees: Vec<String>,
    /// Prototypes of the functions that the function calls through pointers.
    pub indirect_calls: Vec<String>,
    /// Names of the functions whose addresses the function takes.
    pub taken_functions: Vec<String>,
    /// Whether the size of the function's stack frame is not known at compile time.
    pub has_dynamic_stack: bool,
    /// How the function uses tensor memory.
    pub tensor_memory: oriole_isel::TensorMemoryUse,
    /// Whether the function reads special registers about the shared memory that the system reserves.
    pub reads_reserved_shared: bool,
    /// Source locations of the `setmaxnreg` instructions that were ignored.
    pub ignored_register_counts: Vec<Location>,
    /// Offset of the local variables in the stack frame, in bytes.
    pub locals_start: u32,
}

/// A function between two passes, with the results of earlier passes that later passes need. A field is empty before the pass that sets it.
///
/// The search over schedules copies the state once for each scheduling plan, so large parts that do not change are shared.
#[derive(Clone)]
pub struct FunctionState<'a> {
    /// The inputs of the compilation of the function.
    pub input: &'a FunctionInput<'a>,
    /// The code of the function in the IR; empty before instruction selection.
    pub function: Function,
    /// Results of instruction selection besides the code.
    pub selection: Arc<Selection>,
    /// Resources that a thread block needs besides registers; `None` if the block size is not declared. Set by instruction selection.
    pub launch: Option<LaunchResources>,
    /// The scheduling plan (backend, mode, occupancy); `None` if the function is not scheduled. Set by the search over schedules.
    pub plan: Option<SchedulePlan>,
    /// Lower occupancies for which the scheduler estimates the time that they save, in percent of the resident warps of the original order.
    /// Set by the search over schedules.
    pub occupancies_to_estimate: &'static [u32],
    /// Statistics of scheduling before register allocation.
    pub schedule_stats: Stats,
    /// Result of the register allocator; `None` before the pass `allocate`.
    pub allocation: Option<Allocation>,
    /// The control words; `None` before they are computed.
    pub controls: Option<ControlWords>,
    /// The machine code; `None` before the pass `encode`.
    pub code: Option<EmittedCode>,
    /// Remarks about waits and fences that had to be inserted for asynchronous matrix products.
    pub remarks: Vec<ProductSyncRemark>,
    /// Remarks about changes that passes made or rejected; empty unless requested.
    pub pass_remarks: Remarks,
    /// Other forms of instructions that passes considered and rejected; empty unless requested.
    pub alternatives: Alternatives,
    /// The passes and decisions that determined the form and position of each instruction; empty unless requested.
    pub history: History,
    /// For each 32-bit word of a PTX register: the instruction result that holds it. Set by instruction selection; empty unless requested.
    pub register_definitions: Vec<WordDefinition>,
    /// The statements of the PTX at which a location list of the debug information names another PTX register than the one that holds the
    /// variable; each with both registers.
    pub register_aliases: Vec<RegisterAlias>,
    /// Data for the scheduling report.
    pub report_data: ReportData,
    /// The text of the function before and after the passes that the options name.
    pub dumps: Vec<FunctionDump>,
    /// Whether the last pass that the options allow has run, so that the compilation stops.
    pub is_stopped: bool,
    /// The registers that the function may use; computed at the first call of [`FunctionState::environment`].
    environment: OnceCell<Arc<AllocationEnvironment>>,
}

impl<'a> FunctionState<'a> {
    /// Returns the state of a function before the first pass.
    pub fn new(input: &'a FunctionInput<'a>) -> FunctionState<'a> {
        let kind = match input.module.functions[input.id].kind {
            ast::FunctionKind::Entry => FunctionKind::Kernel,
            ast::FunctionKind::Function => FunctionKind::Device,
        };
        FunctionState {
            input,
            function: Function::new(input.name(), kind),
            selection: Arc::default(),
            launch: None,
            plan: None,
            occupancies_to_estimate: &[],
            schedule_stats: Stats::default(),
            allocation: None,
            controls: None,
            code: None,
            remarks: Vec::new(),
            pass_remarks: if input.options.reports.decisions { Remarks::recording() } else { Remarks::default() },
            alternatives: if input.options.reports.decisions { Alternatives::recording() } else { Alternatives::default() },
            history: History::new(input.options.reports.decisions),
            register_definitions: Vec::new(),
            register_aliases: Vec::new(),
            report_data: ReportData::default(),
            dumps: Vec::new(),
            is_stopped: false,
            environment: OnceCell::new(),
        }
    }

    /// Deletes the instructions of the function that are in no block, so that copies of the function are smaller. Does nothing if requested
    /// records refer to instructions by number.
    pub fn delete_unused_insts(&mut self) {
        if !self.options().reports.decisions && self.register_definitions.is_empty() {
            self.function.delete_unused_insts();
        }
    }

    /// Returns the options of the compilation.
    pub fn options(&self) -> &'a Options {
        self.input.options
    }

    /// Returns the target that the function is compiled for.
    pub fn target(&self) -> Target {
        self.input.options.target
    }

    /// Returns the registers that the function may use. They are computed at the first call, which must be before register allocation, and
    /// copies of the state share them.
    pub fn environment(&self) -> Arc<AllocationEnvironment> {
        let compute = || {
            let has_dynamic_stack = self.selection.has_dynamic_stack;
            let environment = convention::environment(&self.function, self.input.hardware, self.input.register_limit, has_dynamic_stack);
            let initial_registers = self.input.register_counts.map(|counts| counts.initial);
            let keeps_variables = self.input.options.is_for_debuggers();
            Arc::new(AllocationEnvironment { keeps_variables, initial_registers, ..environment })
        };
        Arc::clone(self.environment.get_or_init(compute))
    }

    /// Returns the properties of the function that scheduling depends on.
    pub fn schedule_context(&self) -> schedule::ScheduleContext<'a> {
        let input = self.input;
        schedule::ScheduleContext {
            hardware: input.hardware,
            calls: &input.facts.calls,
            launch: self.launch,
            trace: input.options.reports.traces(&self.function.name) || input.options.reports.decisions,
        }
    }

    /// Returns the sum of the sizes in bytes of all spill stores and loads in the code, each counted once.
    pub fn spill_bytes(&self) -> u32 {
        self.allocation.as_ref().map_or(0, |allocation| allocation.spill_store_bytes + allocation.spill_load_bytes)
    }

    /// Returns whether the kernel follows `setmaxnreg`, and all its spill code is in parts that have fewer registers than others.
    pub fn spills_with_few_registers_only(&self) -> bool {
        let Some(counts) = self.input.register_counts else { return false };
        let function = &self.function;
        let found = RegisterCounts::compute(function, &ControlFlow::compute(function), counts.initial);
        let is_spill = |&inst: &Inst| function.insts[inst].memory.is_some_and(|access| function.accesses[access].space == Space::Spill);
        let has_all_registers = |block: &&Block| found.in_block(**block) == counts.most;
        !function.layout.iter().filter(has_all_registers).any(|&block| function.blocks[block].insts.iter().any(is_spill))
    }

    /// Returns the estimated number of bytes that spill code stores and loads in one execution of the function, with ten iterations of each
    /// loop.
    pub fn spill_traffic(&self) -> f64 {
        let function = &self.function;
        let loops = Loops::compute(function, &ControlFlow::compute(function));
        let bytes_of = |block: Block| -> u32 {
            let accesses = function.blocks[block].insts.iter().filter_map(|&inst| function.insts[inst].memory);
            let spills = accesses.map(|access| &function.accesses[access]).filter(|access| access.space == Space::Spill);
            spills.map(|access| u32::from(access.bytes)).sum()
        };
        let traffic = |&block: &Block| f64::from(bytes_of(block)) * LoopModel::TEN_ITERATIONS.executions(loops.depth(block));
        function.layout.iter().map(traffic).sum()
    }
}
