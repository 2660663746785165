//! Compiles whole programs: the functions in parallel, then the variables, and the cubin with all of them.
//!
//! Steps of [`compile`]: lay out the variables of each module, choose the functions to compile and their register limits, check memory
//! limits, compile the functions, add the runtime functions that the code calls, check for unresolved names, and build the file.

use std::collections::BTreeSet;

use oriole_cubin::build::{self, CodePatch, CodeRelocation, Frame, function_attributes, kernel_attributes};
use oriole_cubin::info::{self, Attribute, Code, Value};
use oriole_ir::ReferenceKind;
use oriole_isel::{Layout, Linking, VariableLayout, VariableLocation};
use oriole_ptx::ast::{Function, FunctionId, FunctionKind, LaunchBounds, Module, Parameter, Statement};
use oriole_ptx::source::Span;
use oriole_ptx::types::StateSpace;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::account::{self, SchedulingReport};
use crate::compile_function::{Finished, Outcome, compile_function};
use crate::compiled::{Compiled, FunctionReport};
use crate::error::{CompileError, Excess, Failure, Fault, LimitedMemory};
use crate::functions::{Facts, Index};
use crate::options::Options;
use crate::pass_log::{BisectCounter, PassLog, Recorder};
use crate::registers::{HIDDEN_REGISTERS, Limit};
use crate::state::Input;
use crate::{convention, functions, parallel, registers, schedule, variables};

/// A function to compile.
struct Job<'m> {
    module_number: usize,
    module: &'m Module,
    id: FunctionId,
    variables: VariableLayout,
    /// Kernel parameters for the file; empty for a function without parameters in constant bank 0.
    parameters: Vec<info::Parameter>,
    /// Launch bounds; for kernels those of the command line are merged in.
    bounds: LaunchBounds,
    /// Maximum number of registers per thread, including the hidden ones.
    limit: Limit,
    /// Maximum number of general registers that instructions may name.
    register_limit: u32,
}

impl<'m> Job<'m> {
    /// Returns the job for a function. The register limits are set later.
    fn new(module_number: usize, module: &'m Module, id: FunctionId, layout: &Layout) -> Job<'m> {
        let bounds = module.functions[id].bounds.clone();
        let (limit, register_limit) = (Limit { registers: 0, warnings: Vec::new() }, 0);
        let variables = layout.variables_of(module, id);
        let mut parameters = Vec::new();
        for (ordinal, parameter) in module.functions[id].parameters.iter().enumerate() {
            if let Parameter::Variable(variable) = *parameter
                && let Some(VariableLocation::Parameter(offset)) = variables.get(variable)
            {
                let size = module.variables[variable].size_bytes().unwrap_or(8) as u16;
                parameters.push(info::Parameter::plain(ordinal as u16, *offset as u16, size));
            }
        }
        Job { module_number, module, id, variables, parameters, bounds, limit, register_limit }
    }

    fn function(&self) -> &'m Function {
        &self.module.functions[self.id]
    }

    fn name(&self) -> &'m str {
        self.module.name(self.function().name)
    }

    fn is_kernel(&self) -> bool {
        self.function().kind == FunctionKind::Entry
    }
}

/// Compiles modules into one file. Also returns what was recorded about the passes.
pub fn compile(modules: &[&Module], options: &Options) -> (Result<Compiled, Vec<CompileError>>, PassLog) {
    let mut log = PassLog::default();
    let result = compile_program(modules, options, &mut log);
    (result, log)
}

/// Compiles modules into one file. Appends what is recorded about the passes to `log`.
fn compile_program(modules: &[&Module], options: &Options, log: &mut PassLog) -> Result<Compiled, Vec<CompileError>> {
    if oriole_cubin::Target::named(&options.target.to_string()).is_none() {
        let fault = Fault::Unsupported(format!("a file for {}", options.target));
        return Err(vec![CompileError { module: 0, function: String::new(), span: None, fault }]);
    }
    let mut layouts = layouts(modules, options)?;
    let mut indices: Vec<Index<'_>> = modules.iter().map(|module| Index::of(module)).collect();
    let mut jobs = jobs(modules, &indices, &layouts, options);
    let excesses = excesses(&jobs, &layouts, options);
    if !excesses.is_empty() {
        return Err(excesses);
    }
    let bisect = options.passes.bisect.map(BisectCounter::new);
    let mut results = Results { finished: Vec::new(), callees: BTreeSet::new(), errors: Vec::new(), log };
    results.compile(&jobs, &indices, options, bisect.as_ref());
    let (modules, layouts) = (&mut modules.to_vec(), &mut layouts);
    if results.errors.is_empty() {
        let first = jobs.len();
        add_runtime(modules, layouts, &mut jobs, &results.callees)?;
        indices.extend(modules[indices.len()..].iter().map(|module| Index::of(module)));
        results.compile(&jobs[first..], &indices, options, bisect.as_ref());
    }
    let Results { finished, mut errors, .. } = results;
    if options.passes.stop_after.is_some() {
        return if errors.is_empty() { Ok(Compiled::default()) } else { Err(errors) };
    }
    if !options.relocatable {
        errors.extend(unresolved(&indices, &jobs, &finished));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    link(modules, &indices, layouts, &jobs, &finished, options)
}

/// Builds the file from the compiled functions, and the reports about them.
fn link(
    modules: &[&Module],
    indices: &[Index<'_>],
    layouts: &[Layout],
    jobs: &[Job<'_>],
    finished: &[Finished],
    options: &Options,
) -> Result<Compiled, Vec<CompileError>> {
    let internal = |message: String| vec![CompileError { module: 0, function: String::new(), span: None, fault: Fault::Internal(message) }];
    let failed = |fault| vec![CompileError { module: 0, function: String::new(), span: None, fault }];
    let file = file(modules, indices, layouts, jobs, finished, options).map_err(failed)?;
    let mut settled: FxHashMap<&str, &build::Function> = FxHashMap::default();
    for function in &file.functions {
        settled.entry(&function.name).or_insert(function);
    }
    let reports = jobs.iter().zip(finished).map(|(job, function)| report(job, function, settled.get(job.name()).copied(), options));
    let functions: Vec<FunctionReport> = reports.collect();
    let scheduling = finished.iter().zip(&functions).map(|(function, report)| SchedulingReport::new(function, report, options)).collect();
    let mut cubin = file.build().map_err(|error| internal(error.to_string()))?;
    if options.reports.record {
        functions.iter().for_each(|function| account::add_record(&mut cubin, function));
    }
    let cubin = cubin.write().map_err(|error| internal(error.to_string()))?;
    let global_bytes =
        layouts.iter().flat_map(|layout| &layout.globals).fold(0_u64, |total, variable| total.saturating_add(variable.bytes));
    let constants: u64 = layouts.iter().map(|layout| layout.constant_bytes).sum();
    let addresses: u64 = layouts.iter().map(|layout| 8 * layout.addresses.len() as u64).sum();
    let banks = [(oriole_isel::CONSTANT_BANK, constants), (oriole_isel::ADDRESS_BANK, addresses)];
    let constant_bytes = banks.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    Ok(Compiled { cubin, functions, global_bytes, constant_bytes, scheduling })
}

/// Returns a source position for a message about a memory that a function uses: its first variable in that memory, or else its first
/// statement.
fn place_of(job: &Job<'_>, memory: LimitedMemory) -> Option<Span> {
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
fn excesses(jobs: &[Job<'_>], layouts: &[Layout], options: &Options) -> Vec<CompileError> {
    let limits = &options.target.profile().limits;
    let mut errors = Vec::new();
    for job in jobs.iter().rev() {
        let (variables, is_kernel) = (&job.variables, job.is_kernel());
        // The shared variables of a device function count in the kernels that reach the function.
        let shared = if is_kernel { variables.shared_bytes } else { 0 };
        let found = [
            Excess::find(LimitedMemory::Parameter, variables.parameter_bytes, limits.parameters, is_kernel),
            Excess::find(LimitedMemory::Shared, shared, limits.static_shared, is_kernel),
            Excess::find(LimitedMemory::Local, variables.frame_bytes, limits.frame, is_kernel),
        ];
        errors.extend(found.into_iter().flatten().map(|excess| CompileError {
            module: job.module_number,
            function: job.name().to_owned(),
            span: place_of(job, excess.memory),
            fault: Fault::TooMuch(excess),
        }));
    }
    let constants = layouts.iter().fold(0_u64, |total, layout| total.saturating_add(layout.constant_bytes));
    let excess = Excess::find(LimitedMemory::Constant, constants, limits.constants, false);
    let of_program = |excess| CompileError { module: 0, function: String::new(), span: None, fault: Fault::TooMuch(excess) };
    errors.extend(excess.map(of_program));
    errors
}

/// The compiled functions, their errors, and what was recorded about the passes, each in the order of the jobs.
struct Results<'a> {
    finished: Vec<Finished>,
    /// Names of all functions that are called directly.
    callees: BTreeSet<String>,
    errors: Vec<CompileError>,
    log: &'a mut PassLog,
}

impl Results<'_> {
    /// Compiles functions and adds the results. The functions are compiled in parallel, except for bisection, which numbers the passes in
    /// the order in which they run.
    fn compile(&mut self, jobs: &[Job<'_>], indices: &[Index<'_>], options: &Options, bisect: Option<&BisectCounter>) {
        let mut facts: FxHashMap<usize, Facts> = FxHashMap::default();
        for job in jobs {
            facts.entry(job.module_number).or_insert_with(|| Facts::of(&indices[job.module_number]));
        }
        let size = |job: &Job<'_>| job.function().body.as_ref().map_or(0, |body| body.instructions.len());
        let run = |job: &Job<'_>| {
            let recorder = Recorder::new(&options.passes, bisect);
            let &Job { module, id, ref variables, register_limit, .. } = job;
            compile_function(Input { module, id, variables, register_limit, facts: &facts[&job.module_number], options, recorder })
        };
        let outcomes = if bisect.is_some() { jobs.iter().map(run).collect() } else { parallel::map(jobs, size, run) };
        for (job, Outcome { result, callees, log }) in jobs.iter().zip(outcomes) {
            self.callees.extend(callees);
            self.log.append(log);
            match result {
                Ok(function) => self.finished.extend(function),
                Err(failures) => self.errors.extend(failures.into_iter().map(|Failure { span, fault }| CompileError {
                    module: job.module_number,
                    function: job.name().to_owned(),
                    span,
                    fault,
                })),
            }
        }
    }
}

/// Adds jobs for the runtime functions that the compiled functions call.
fn add_runtime(
    modules: &mut Vec<&Module>,
    layouts: &mut Vec<Layout>,
    jobs: &mut Vec<Job<'_>>,
    called: &BTreeSet<String>,
) -> Result<(), Vec<CompileError>> {
    let ids: Vec<FunctionId> = called.iter().filter_map(|name| oriole_isel::runtime_function(name)).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let (number, module) = (modules.len(), oriole_isel::runtime());
    let layout = Layout::new(module, Linking::Whole).map_err(|error| {
        vec![CompileError { module: number, function: String::new(), span: None, fault: Fault::Internal(error.feature) }]
    })?;
    jobs.extend(ids.into_iter().map(|id| Job { register_limit: convention::MIN_TO_ALLOCATE, ..Job::new(number, module, id, &layout) }));
    modules.push(module);
    layouts.push(layout);
    Ok(())
}

/// Assigns places to the variables of all modules. Only one module may have variables in the module's constant banks.
fn layouts(modules: &[&Module], options: &Options) -> Result<Vec<Layout>, Vec<CompileError>> {
    let linking = if options.relocatable { Linking::Relocatable } else { Linking::Whole };
    let unsupported =
        |module, feature| vec![CompileError { module, function: String::new(), span: None, fault: Fault::Unsupported(feature) }];
    let mut layouts: Vec<Layout> = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        let layout = Layout::new(module, linking).map_err(|error| unsupported(number, error.feature))?;
        let has_banks = |layout: &Layout| !layout.addresses.is_empty() || layout.constant_bytes > 0;
        if has_banks(&layout) && layouts.iter().any(has_banks) {
            return Err(unsupported(number, "module variables in more than one input".into()));
        }
        layouts.push(layout);
    }
    Ok(layouts)
}

/// Returns the functions to compile with their register limits.
fn jobs<'m>(modules: &[&'m Module], indices: &[Index<'_>], layouts: &[Layout], options: &Options) -> Vec<Job<'m>> {
    let has_callers_elsewhere = options.relocatable || modules.len() > 1;
    let mut jobs = Vec::new();
    for (number, &module) in modules.iter().enumerate() {
        let wanted = functions::reachable_functions(&indices[number], options, has_callers_elsewhere);
        jobs.extend(wanted.into_iter().map(|id| Job::new(number, module, id, &layouts[number])));
    }
    limit_registers(&mut jobs, options);
    jobs
}

/// Sets the register limits. A device function runs with the registers of the kernel that calls it, so its limit is at most the lowest
/// limit of the file's kernels.
fn limit_registers(jobs: &mut [Job<'_>], options: &Options) {
    let machine = schedule::hardware_model(options).1;
    for job in jobs.iter_mut() {
        if job.is_kernel() {
            job.bounds = registers::bounds(&job.bounds, options);
        }
        job.limit = registers::limit(job.name(), &job.bounds, options, machine);
    }
    let of_functions = jobs.iter().filter(|job| job.is_kernel()).map(|job| job.limit.registers).min().unwrap_or(u32::MAX);
    for job in jobs {
        let limit = if job.is_kernel() { job.limit.registers } else { job.limit.registers.min(of_functions) };
        let fewest = if job.is_kernel() && !functions::has_calls(job.module, job.function()) { 0 } else { convention::MIN_TO_ALLOCATE };
        job.register_limit = (limit - HIDDEN_REGISTERS).max(fewest);
    }
}

/// Returns an error for every function that is used but not defined.
fn unresolved(indices: &[Index<'_>], jobs: &[Job<'_>], finished: &[Finished]) -> Vec<CompileError> {
    let compiled: FxHashSet<&str> = jobs.iter().map(Job::name).collect();
    let is_known = |name: &str| functions::is_driver_function(name) || oriole_isel::is_runtime(name) || compiled.contains(name);
    let mut errors = Vec::new();
    for (job, function) in jobs.iter().zip(finished) {
        for name in function.selection.callees.iter().chain(&function.selection.taken_functions).filter(|name| !is_known(name)) {
            let fault = Fault::Unresolved(name.clone());
            errors.push(CompileError { module: job.module_number, function: job.name().to_owned(), span: None, fault });
        }
    }
    for (number, index) in indices.iter().enumerate() {
        for name in index.address_taken_by_variables().into_iter().filter(|name| !is_known(name)) {
            errors.push(CompileError { module: number, function: String::new(), span: None, fault: Fault::Unresolved(name.to_owned()) });
        }
    }
    errors
}

/// Returns the number of bytes of constant bank 0 that a kernel launch fills: the system's part and the parameters.
fn constant_bytes(job: &Job<'_>, options: &Options) -> u32 {
    options.target.profile().parameters_start(job.variables.parameter_bytes) + job.variables.parameter_bytes as u32
}

/// Returns the resource usage of a function. `settled` is the function in the file, with resources of its callees included.
fn report(job: &Job<'_>, function: &Finished, settled: Option<&build::Function>, options: &Options) -> FunctionReport {
    FunctionReport {
        name: job.name().to_owned(),
        is_kernel: job.is_kernel(),
        registers: settled.map_or(0, |settled| u32::from(settled.registers)),
        barriers: settled.map_or(function.selection.barriers, |settled| u32::from(settled.barriers())),
        stack_bytes: function.frame_bytes,
        spill_store_bytes: function.allocation.spill_store_bytes,
        spill_load_bytes: function.allocation.spill_load_bytes,
        shared_bytes: job.variables.shared_bytes as u32,
        constant_bytes: if job.is_kernel() { constant_bytes(job, options) } else { 0 },
        instructions: function.code.instructions,
        plan: function.plan,
        warnings: if job.is_kernel() { job.limit.warnings.clone() } else { Vec::new() },
    }
}

/// Returns the number of registers to allocate per thread at launch.
fn registers(job: &Job<'_>, function: &Finished) -> u32 {
    let fewest = if function.has_calls() || !job.is_kernel() { convention::MIN_REGISTERS } else { MIN_KERNEL_REGISTERS };
    function.allocation.registers_used.max(fewest) + HIDDEN_REGISTERS
}

/// Minimum number of general registers of a kernel.
const MIN_KERNEL_REGISTERS: u32 = 4;

/// Collects functions, variables and external symbols into the description of the file.
fn file(
    modules: &[&Module],
    indices: &[Index<'_>],
    layouts: &[Layout],
    jobs: &[Job<'_>],
    finished: &[Finished],
    options: &Options,
) -> Result<build::Module, Fault> {
    let Some(target) = oriole_cubin::Target::named(&options.target.to_string()) else {
        return Err(Fault::Internal(format!("no file can be written for {}", options.target)));
    };
    let mut functions: Vec<build::Function> = Vec::new();
    for (job, function) in jobs.iter().zip(finished).rev() {
        let index = &indices[job.module_number];
        let built = to_build_function(job, function, index, &layouts[job.module_number], target, options);
        if options.relocatable {
            functions.extend(index.aliases(job.function().name).map(|alias| copy_named(&built, alias.to_owned())));
        }
        functions.push(built);
    }
    let mut module = build::Module::new(target, functions);
    module.virtual_sm = modules.first().map_or(module.virtual_sm, |module| module.target.number);
    if options.relocatable {
        module.file_type = oriole_cubin::FileType::Relocatable;
    }
    for ((source, index), layout) in modules.iter().zip(indices).zip(layouts) {
        if options.relocatable {
            variables::add_shared(&mut module, source, layout);
        }
        variables::add(&mut module, source, index, layout)?;
    }
    add_externs(&mut module, indices, jobs, finished);
    mark_taken(&mut module, indices);
    if !options.relocatable {
        module.settle_calls();
        mark_unknown_stacks(&mut module);
    }
    Ok(module)
}

/// Adds symbols for functions that are used here and defined elsewhere.
fn add_externs(file: &mut build::Module, indices: &[Index<'_>], jobs: &[Job<'_>], finished: &[Finished]) {
    let mut used: Vec<(&Index<'_>, &str)> = Vec::new();
    for (job, function) in jobs.iter().zip(finished) {
        let names = function.selection.callees.iter().chain(&function.selection.taken_functions);
        used.extend(names.map(|name| (&indices[job.module_number], name.as_str())));
    }
    for index in indices {
        used.extend(index.address_taken_by_variables().into_iter().map(|name| (index, name)));
    }
    let mut known: FxHashSet<&str> = file.functions.iter().map(|function| function.name.as_str()).collect();
    known.extend(file.externs.iter().map(|external| external.name.as_str()));
    let added: Vec<build::Extern> =
        used.into_iter().filter(|(_, name)| known.insert(name)).map(|(index, name)| index.external(name)).collect();
    file.externs.extend(added);
}

/// Marks the stack size as unknown for kernels whose call graph cannot be followed statically.
fn mark_unknown_stacks(file: &mut build::Module) {
    for kernel in file.functions.iter_mut().filter(|function| function.is_kernel && function.min_stack_size == build::UNKNOWN_STACK) {
        for attribute in kernel.attributes.iter_mut().filter(|attribute| attribute.code == Code::CRS_STACK_SIZE) {
            *attribute = Attribute::words(Code::CRS_STACK_SIZE, [u32::MAX]);
        }
    }
}

/// Marks the functions whose addresses are taken by code or by initial values of variables.
fn mark_taken(file: &mut build::Module, indices: &[Index<'_>]) {
    let mut taken: FxHashSet<String> = file.functions.iter().flat_map(|function| function.takes_address_of.iter().cloned()).collect();
    taken.extend(indices.iter().flat_map(Index::address_taken_by_variables).map(str::to_owned));
    for function in file.functions.iter_mut().filter(|function| taken.contains(&function.name)) {
        function.is_address_taken = true;
    }
    for external in file.externs.iter_mut().filter(|external| taken.contains(&external.name)) {
        external.is_address_taken = true;
    }
}

/// Returns a compiled function in the form that the file builder takes.
fn to_build_function(
    job: &Job<'_>,
    function: &Finished,
    index: &Index<'_>,
    layout: &Layout,
    target: &'static oriole_cubin::Target,
    options: &Options,
) -> build::Function {
    let bounds = &job.bounds;
    let code_size = function.code.bytes.len() as u64;
    let mut extra = Vec::new();
    if job.is_kernel() || !function.code.exits.is_empty() {
        extra.push(Attribute::words(Code::EXIT_INSTR_OFFSETS, function.code.exits.clone()));
    }
    if job.is_kernel() && (function.has_calls() || function.selection.has_dynamic_stack) {
        extra.push(Attribute::words(Code::CRS_STACK_SIZE, [0]));
    }
    if function.selection.barriers > 0 {
        extra.push(Attribute::new(Code::NUM_BARRIERS, Value::Byte(function.selection.barriers as u8)));
    }
    let sizes = |sizes: &[u32]| [0, 1, 2].map(|axis| sizes.get(axis).copied().unwrap_or(1));
    if let Some(threads) = &bounds.max_threads {
        extra.push(Attribute::words(Code::MAX_THREADS, sizes(threads)));
    }
    if let Some(threads) = &bounds.required_threads {
        extra.push(Attribute::words(Code::REQNTID, sizes(threads)));
    }
    if job.is_kernel() {
        extra.push(Attribute::new(Code::MAXREG_COUNT, Value::Half(job.limit.registers as u16)));
    }
    build::Function {
        linkage: variables::linkage(job.function().linkage, job.is_kernel()),
        shared: shared(job, layout),
        registers: registers(job, function) as u8,
        frame_size: function.frame_bytes,
        min_stack_size: function.frame_bytes,
        attributes: if job.is_kernel() { kernel_attributes(target, &job.parameters, extra) } else { function_attributes(target, extra) },
        parameter_bytes: job.variables.parameter_bytes as u16,
        relocations: relocations(function, options),
        externs: function
            .selection
            .callees
            .iter()
            .filter(|name| !oriole_isel::is_runtime(name) && !index.is_defined(name))
            .cloned()
            .collect(),
        calls: function.selection.callees.clone(),
        indirect_calls: function.selection.indirect_calls.clone(),
        takes_address_of: function.selection.taken_functions.clone(),
        prototype: (!job.is_kernel()).then(|| oriole_isel::prototype(job.module, &job.function().returns, &job.function().parameters)),
        frame: if job.is_kernel() { Frame::plain(code_size) } else { Frame::function(code_size) },
        code: function.code.bytes.clone(),
        ..if job.is_kernel() { build::Function::kernel(job.name()) } else { build::Function::device(job.name()) }
    }
}

/// Copies a function under another name: the linker requires separate code for every visible alias.
fn copy_named(function: &build::Function, name: String) -> build::Function {
    let mut copy = build::Function { name, linkage: build::Linkage::Global, ..function.clone() };
    for relocation in copy.relocations.iter_mut().filter(|relocation| relocation.symbol == function.name) {
        relocation.symbol.clone_from(&copy.name);
    }
    copy
}

/// Returns the size and variables of a function's shared memory, or `None` if it has no section for it.
fn shared(job: &Job<'_>, layout: &Layout) -> Option<build::Shared> {
    if layout.linking == Linking::Relocatable {
        let variables = if job.is_kernel() { variables::kernel_shared(job.module, layout, job.function()) } else { Vec::new() };
        let size = variables.iter().fold(0_u64, |end, variable| {
            end.checked_next_multiple_of(variable.alignment).unwrap_or(u64::MAX).saturating_add(variable.size)
        });
        let alignment = variables.iter().map(|variable| variable.alignment).max()?;
        return Some(build::Shared { size, alignment, variables });
    }
    let variables = &job.variables;
    (job.is_kernel() && (variables.shared_bytes > 0 || variables.uses_dynamic_shared)).then(|| build::Shared {
        size: variables.shared_bytes,
        alignment: u64::from(variables.shared_align.max(1)),
        variables: Vec::new(),
    })
}

/// Returns the relocations of a function's code, sorted by offset.
fn relocations(function: &Finished, options: &Options) -> Vec<CodeRelocation> {
    let kind = |kind| match kind {
        ReferenceKind::Low | ReferenceKind::ReturnLow | ReferenceKind::Incoming => CodePatch::AddressLow,
        ReferenceKind::High | ReferenceKind::ReturnHigh => CodePatch::AddressHigh,
        ReferenceKind::FunctionLow => CodePatch::FunctionLow,
        ReferenceKind::FunctionHigh => CodePatch::FunctionHigh,
        ReferenceKind::SharedOffset => CodePatch::SharedOffset,
        ReferenceKind::ConstantOffset => CodePatch::ConstantOffset,
        ReferenceKind::Call => CodePatch::Call,
    };
    let indirect = function.code.indirect_calls.iter().filter(|_| options.relocatable).map(|&offset| CodeRelocation {
        offset: u64::from(offset),
        kind: CodePatch::IndirectCall,
        symbol: UNIFIED_TABLE.into(),
        addend: 0,
    });
    let patches = function.code.patches.iter();
    let mut relocations: Vec<CodeRelocation> = patches
        .map(|patch| CodeRelocation {
            offset: u64::from(patch.offset),
            kind: kind(patch.reference.kind),
            symbol: function.symbols[patch.reference.symbol as usize].clone(),
            addend: i64::from(patch.reference.offset),
        })
        .chain(indirect)
        .collect();
    relocations.sort_by_key(|relocation| relocation.offset);
    relocations
}

/// The symbol that indirect calls of relocatable files refer to: the linker's offset of the unified function table.
const UNIFIED_TABLE: &str = "__UFT_OFFSET";
