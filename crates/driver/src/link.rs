//! Links compiled functions: combines them with the variables of the modules, and writes the cubin.

use oriole_cubin::FileTraits;
use oriole_cubin::build::{self, CodePatch, CodeRelocation, FrameInfo, function_attributes, kernel_attributes_with};
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue, Mbarrier, MbarrierKind};
use oriole_hardware::Hardware;
use oriole_ir::{Reference, ReferenceKind};
use oriole_isel::{Layout, Linking, QuadFetch};
use oriole_ptx::ast::{Body, Form, FunctionKind, LaunchBounds};
use oriole_ptx::table::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::account::{self, SchedulingReport};
use crate::compat::CodeRequirements;
use crate::compile_function::FinishedFunction;
use crate::compiled::Compiled;
use crate::decisions::Decisions;
use crate::emit;
use crate::error::{CompileError, ErrorCause};
use crate::function_report::{FunctionReport, PerformanceRemark};
use crate::functions::{FunctionIndex, is_driver_function};
use crate::job::FunctionJob;
use crate::options::Options;
use crate::register_counts::RegisterCountChanges;
use crate::registers::HIDDEN_REGISTERS;
use crate::warp_sites::WarpSites;
use crate::whole_program::ProgramCompilation;
use crate::{convention, debug, images, parallel, patches, variables};

/// Builds the cubin from the compiled functions of a program. Returns it with the reports about the functions.
pub fn link(program: &ProgramCompilation<'_>, options: &Options, hardware: &Hardware<'_>) -> Result<Compiled, Vec<CompileError>> {
    let failed = |fault| vec![CompileError::in_program(fault)];
    let internal = |message| failed(ErrorCause::Internal(message));
    let file = describe_cubin(program, options).map_err(failed)?;
    let &ProgramCompilation { layouts, jobs, finished, .. } = program;
    let mut linked_function: FxHashMap<&str, &build::Function> = FxHashMap::default();
    for function in &file.functions {
        linked_function.entry(&function.name).or_insert(function);
    }
    let reports =
        jobs.iter().zip(finished).map(|(job, function)| function_report(job, function, linked_function.get(job.name()).copied(), options));
    let functions: Vec<FunctionReport> = reports.collect();
    let scheduling =
        finished.iter().zip(&functions).map(|(function, report)| SchedulingReport::new(function, report, options, hardware)).collect();
    let recorded = jobs.iter().zip(finished).zip(&functions).filter(|_| options.reports.decisions);
    let decisions = recorded.map(|((job, function), report)| Decisions::new(job, function, report)).collect();
    let run = |count, task: &(dyn Fn(usize) + Sync)| {
        let numbers: Vec<usize> = (0..count).collect();
        parallel::map_short_jobs(&options.hooks.parallelism, &numbers, |&number| task(number));
    };
    let mut cubin = file.build_with(&run).map_err(|error| internal(error.to_string()))?;
    if options.reports.record {
        functions.iter().for_each(|function| account::add_scheduling_note(&mut cubin, function));
    }
    let bytes = cubin.write_with(&run).map_err(|error| internal(error.to_string()))?;
    parallel::free_results(&options.hooks.parallelism, functions.len(), (file, cubin));
    let global_bytes =
        layouts.iter().flat_map(|layout| &layout.globals).fold(0_u64, |total, variable| total.saturating_add(variable.bytes));
    let constants: u64 = layouts.iter().map(|layout| layout.constants_end).max().unwrap_or(0);
    let addresses: u64 = layouts.iter().map(|layout| 8 * layout.addresses.len() as u64).sum();
    let banks = [(oriole_isel::CONSTANT_BANK, constants), (oriole_isel::ADDRESS_BANK, addresses)];
    let constant_bytes = banks.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    Ok(Compiled { cubin: bytes, functions, global_bytes, constant_bytes, scheduling, decisions })
}

/// Returns the number of bytes of constant bank 0 that a kernel launch fills: those reserved by the system, the parameters, and the handles
/// of textures, samplers and surfaces.
fn constant_bytes(job: &FunctionJob<'_>) -> u32 {
    let end = job.variables.parameters_start + job.variables.parameter_bytes as u32;
    end.max(images::end_of_image_handle_words(job))
}

/// Returns the resource usage of a function. `linked_function` is the function in the cubin, where resources of its callees are included;
/// `None` if the cubin does not contain it.
fn function_report(
    job: &FunctionJob<'_>,
    function: &FinishedFunction,
    linked_function: Option<&build::Function>,
    options: &Options,
) -> FunctionReport {
    FunctionReport {
        name: job.name().to_owned(),
        is_kernel: job.is_kernel(),
        registers: linked_function.map_or(0, |linked_function| u32::from(linked_function.registers)),
        barriers: linked_function.map_or(function.selection.barriers, |linked_function| u32::from(linked_function.barriers())),
        stack_bytes: function.frame_bytes,
        spill_store_bytes: function.allocation.spill_store_bytes,
        spill_load_bytes: function.allocation.spill_load_bytes,
        shared_bytes: job.variables.shared_bytes as u32,
        constant_bytes: if job.is_kernel() { constant_bytes(job) } else { 0 },
        instructions: function.code.instructions,
        plan: function.plan,
        warnings: if job.is_kernel() { job.limit.warnings.clone() } else { Vec::new() },
        remarks: performance_remarks(job, function, options),
    }
}

/// Returns the performance remarks about a function, without duplicates. At -O0 there are none about inserted waits: unoptimized code
/// copies values after each instruction, so waits are expected.
fn performance_remarks(job: &FunctionJob<'_>, function: &FinishedFunction, options: &Options) -> Vec<PerformanceRemark> {
    let mut remarks: Vec<PerformanceRemark> = Vec::new();
    if let RegisterCountChanges::Ignored(reason) = job.register_counts {
        let ignored = function.selection.ignored_register_counts.iter();
        remarks.extend(ignored.map(|&location| PerformanceRemark::ignored_setmaxnreg_remark(job.module_number, location, reason)));
    }
    for remark in function.remarks.iter().filter(|_| options.level > 0) {
        let remark = PerformanceRemark::new(job.module_number, remark);
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
}

/// Returns the number of registers that a launch allocates per thread, including the two that the hardware adds to those that instructions
/// name.
fn launch_registers(job: &FunctionJob<'_>, function: &FinishedFunction) -> u32 {
    let fewest = if function.has_calls() || !job.is_kernel() { convention::MIN_ABI_REGISTERS } else { MIN_KERNEL_REGISTERS };
    function.allocation.registers_used.max(fewest) + HIDDEN_REGISTERS
}

/// Minimum number of general registers that a launch allocates per thread of a kernel.
const MIN_KERNEL_REGISTERS: u32 = 4;

/// Returns the description of the cubin (functions, variables and external symbols) from which it is written.
fn describe_cubin(program: &ProgramCompilation<'_>, options: &Options) -> Result<build::Module, ErrorCause> {
    let &ProgramCompilation { modules, indices, layouts, jobs, finished } = program;
    let Some(traits) = FileTraits::of(options.target) else {
        return Err(ErrorCause::Internal(format!("no file can be written for {}", options.target)));
    };
    let mut functions: Vec<build::Function> = Vec::new();
    let compiled: Vec<(&FunctionJob<'_>, &FinishedFunction)> = jobs.iter().zip(finished).rev().collect();
    let describe = |&(job, function): &(&FunctionJob<'_>, &FinishedFunction)| to_build_function(job, function, program, &traits, options);
    let described = parallel::map_short_jobs(&options.hooks.parallelism, &compiled, describe);
    for ((job, _), built) in compiled.into_iter().zip(described) {
        let index = &indices[job.module_number];
        if options.relocatable {
            functions.extend(index.aliases(job.function().name).map(|alias| copy_with_name(&built, alias.to_owned())));
        }
        functions.push(built);
    }
    let mut module = build::Module::new(traits, functions);
    let requirements = finished.iter().map(|function| function.code.requirements);
    module.compat = requirements.reduce(CodeRequirements::both).unwrap_or_default().attributes();
    module.asks_image_types = jobs.iter().any(|job| has_instruction(job, &[Opcode::Istypep]));
    module.waits_for_errors_at_exit = options.waits_for_errors();
    module.without_shared_reservation = options.without_shared_reservation;
    module.virtual_sm = modules.first().map_or(module.virtual_sm, |module| module.target.number());
    if options.relocatable {
        module.file_type = oriole_cubin::FileType::Relocatable;
    }
    for ((source, index), layout) in modules.iter().zip(indices).zip(layouts) {
        if options.relocatable {
            variables::add_shared_variables(&mut module, source, layout);
        }
        variables::add_variables(&mut module, source, index, layout)?;
    }
    remove_resolved_externals(&mut module);
    if !options.relocatable {
        variables::define_unresolved_variables(&mut module, modules)?;
    }
    images::add_image_references(&mut module, program);
    add_external_functions(&mut module, indices, jobs, finished);
    mark_address_taken_functions(&mut module, indices);
    debug::add_debug_sections(&mut module, program, options)?;
    if finished.iter().any(|function| function.selection.tensor_memory.allocates) {
        let name = oriole_isel::TENSOR_MEMORY_RECORD;
        module.reserved_variables.push(build::ReservedVariable { name, size: TENSOR_MEMORY_RECORD_BYTES, alignment: 1 });
    }
    if !options.relocatable {
        module.settle_calls();
        mark_unknown_stack_sizes(&mut module);
    }
    add_quad_fetch_stack(&mut module, finished);
    check_tensor_memory_use(&module)?;
    if options.without_shared_reservation {
        check_shared_reservation(jobs, finished)?;
    }
    if options.tools_patch {
        patches::check_patch_calls(finished.iter().map(|function| &*function.selection))?;
    }
    Ok(module)
}

/// Removes duplicates from the cubin's external variables, and those that a module of the program defines.
fn remove_resolved_externals(file: &mut build::Module) {
    let mut known: FxHashSet<String> = file.variables.iter().map(|variable| variable.name.clone()).collect();
    file.externs.retain(|external| known.insert(external.name.clone()));
}

/// Adds external symbols for functions that the program uses but does not define.
fn add_external_functions(
    file: &mut build::Module,
    indices: &[FunctionIndex<'_>],
    jobs: &[FunctionJob<'_>],
    finished: &[FinishedFunction],
) {
    let mut used: Vec<(&FunctionIndex<'_>, &str)> = Vec::new();
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
        used.into_iter().filter(|(_, name)| known.insert(name)).map(|(index, name)| index.extern_function(name)).collect();
    file.externs.extend(added);
}

/// If a function of the program fetches textures by quads (four neighbouring threads of a warp), increases the stack sizes of all
/// functions, where known: threads that do not take part in a fetch may be in any function, and their registers are kept below its stack
/// pointer meanwhile.
fn add_quad_fetch_stack(file: &mut build::Module, finished: &[FinishedFunction]) {
    if finished.iter().any(|function| function.symbols.iter().any(|name| QuadFetch::parse(name).is_some())) {
        for function in file.functions.iter_mut().filter(|function| function.min_stack_size != build::UNKNOWN_STACK) {
            function.min_stack_size += QuadFetch::SAVED_BYTES;
        }
    }
}

/// Marks the stack size as unknown for kernels with recursive or indirect calls, whose stack depth cannot be computed.
fn mark_unknown_stack_sizes(file: &mut build::Module) {
    for kernel in file.functions.iter_mut().filter(|function| function.is_kernel && function.min_stack_size == build::UNKNOWN_STACK) {
        for attribute in kernel.attributes.iter_mut().filter(|attribute| attribute.code == AttributeCode::CRS_STACK_SIZE) {
            *attribute = Attribute::words(AttributeCode::CRS_STACK_SIZE, [u32::MAX]);
        }
    }
}

/// Marks the functions whose addresses are taken by code or by initial values of variables.
fn mark_address_taken_functions(file: &mut build::Module, indices: &[FunctionIndex<'_>]) {
    let mut taken: FxHashSet<String> = file.functions.iter().flat_map(|function| function.takes_address_of.iter().cloned()).collect();
    taken.extend(indices.iter().flat_map(FunctionIndex::address_taken_by_variables).map(str::to_owned));
    for function in file.functions.iter_mut().filter(|function| taken.contains(&function.name)) {
        function.is_address_taken = true;
    }
    for external in file.externs.iter_mut().filter(|external| taken.contains(&external.name)) {
        external.is_address_taken = true;
    }
}

/// Returns the attributes that tell the CUDA driver how to form clusters of thread blocks.
fn cluster_attributes(bounds: &LaunchBounds, options: &Options) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    if let Some(rank) = bounds.max_cluster_rank {
        attributes.push(Attribute::words(AttributeCode::MAX_CLUSTER_RANK, [rank]));
    }
    if bounds.blocks_are_clusters || options.launch.blocks_are_clusters {
        attributes.push(Attribute::new(AttributeCode::BLOCKS_ARE_CLUSTERS, AttributeValue::Flag));
    }
    if bounds.explicit_cluster {
        attributes.push(Attribute::new(AttributeCode::EXPLICIT_CLUSTER, AttributeValue::Flag));
    }
    if let Some(blocks) = &bounds.required_cluster {
        attributes.push(Attribute::words(AttributeCode::CTA_PER_CLUSTER, sizes_padded_to_three(blocks)));
    }
    attributes
}

/// Returns whether the PTX code of a function has an instruction with one of these opcodes.
fn has_instruction(job: &FunctionJob<'_>, opcodes: &[Opcode]) -> bool {
    // Instructions share their forms, so a look at the forms of the module is enough for most modules.
    let is_wanted = |form: &Form| opcodes.contains(&form.opcode);
    let has = |body: &Body| body.instructions.iter().any(|instruction| is_wanted(&job.module.forms[instruction.form]));
    job.module.forms.iter().any(is_wanted) && job.function().body.as_deref().is_some_and(has)
}

/// Returns whether a function calls functions of the same file.
fn calls_inside(function: &FinishedFunction, options: &Options) -> bool {
    let is_inside = |name: &String| oriole_isel::is_runtime(name) || !options.relocatable && !is_driver_function(name);
    function.selection.callees.iter().any(is_inside) || !options.relocatable && !function.selection.indirect_calls.is_empty()
}

/// Returns the byte offsets of the calls of functions that the CUDA driver provides, in an executable file.
fn system_call_offsets(function: &FinishedFunction, options: &Options) -> Vec<u32> {
    let is_system_call = |patch: &&emit::AddressPatch| {
        let Reference { kind, symbol, .. } = patch.reference;
        kind == ReferenceKind::Call && is_driver_function(&function.symbols[symbol as usize])
    };
    let calls = function.code.patches.iter().filter(|_| !options.relocatable).filter(is_system_call);
    calls.map(|patch| patch.offset).collect()
}

/// Returns the attributes that list the operations on barriers in shared memory, for debugging tools.
fn barrier_attributes(sites: &[Mbarrier]) -> Vec<Attribute> {
    if sites.is_empty() {
        return Vec::new();
    }
    let initialized = sites.iter().filter(|site| site.kind == MbarrierKind::INIT).count() as u16;
    vec![
        Attribute::new(AttributeCode::MBARRIER_INSTR_OFFSETS, AttributeValue::Mbarriers(sites.to_vec())),
        Attribute::new(AttributeCode::NUM_MBARRIERS, AttributeValue::Half(initialized)),
    ]
}

/// The register of the mask of threads in `EIATTR_COOP_GROUP_MASK_REGIDS`, where the mask is constant or in no register.
const NO_MASK_REGISTER: u32 = u32::MAX;

/// Returns the attributes that list the instructions that threads of a warp execute together, for debugging tools.
fn warp_attributes(sites: &WarpSites) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    if !sites.of_compiler.is_empty() {
        attributes.push(Attribute::words(AttributeCode::INT_WARP_WIDE_INSTR_OFFSETS, sites.of_compiler.clone()));
    }
    if !sites.of_program.is_empty() {
        attributes.push(Attribute::words(AttributeCode::COOP_GROUP_MASK_REGIDS, vec![NO_MASK_REGISTER; sites.of_program.len()]));
        attributes.push(Attribute::words(AttributeCode::COOP_GROUP_INSTR_OFFSETS, sites.of_program.clone()));
    }
    attributes
}

/// Returns the sizes along x, y and z that a directive such as `.maxntid` gives; a size that the directive omits is 1.
fn sizes_padded_to_three(sizes: &[u32]) -> [u32; 3] {
    [0, 1, 2].map(|axis| sizes.get(axis).copied().unwrap_or(1))
}

/// Converts a compiled function to the form in which the cubin builder takes functions.
fn to_build_function(
    job: &FunctionJob<'_>,
    function: &FinishedFunction,
    program: &ProgramCompilation<'_>,
    traits: &FileTraits,
    options: &Options,
) -> build::Function {
    let (index, layout) = (&program.indices[job.module_number], &program.layouts[job.module_number]);
    let bounds = &job.bounds;
    let code_size = function.code.bytes.len() as u64;
    let mut extra = Vec::new();
    if job.is_kernel() || !function.code.exits.is_empty() {
        extra.push(Attribute::words(AttributeCode::EXIT_INSTR_OFFSETS, function.code.exits.clone()));
    }
    if function.code.has_convergence_barriers || job.is_kernel() && calls_inside(function, options) {
        extra.push(Attribute::words(AttributeCode::CRS_STACK_SIZE, [0]));
    }
    if has_instruction(job, &[Opcode::WmmaLoad, Opcode::WmmaStore, Opcode::WmmaMma]) {
        extra.push(Attribute::new(AttributeCode::WMMA_USED, AttributeValue::Flag));
    }
    let system_calls = system_call_offsets(function, options);
    if !system_calls.is_empty() {
        extra.push(Attribute::words(AttributeCode::SYSCALL_OFFSETS, system_calls));
    }
    if function.selection.barriers > 0 {
        extra.push(Attribute::new(AttributeCode::NUM_BARRIERS, AttributeValue::Byte(function.selection.barriers as u8)));
    }
    if function.selection.reads_reserved_shared && !function.selection.tensor_memory.allocates {
        extra.push(Attribute::new(AttributeCode::RESERVED_SMEM_USED, AttributeValue::Flag));
    }
    extra.extend(barrier_attributes(&function.code.barrier_sites));
    extra.extend(warp_attributes(&function.code.warp_sites));
    extra.extend(tensor_memory_use(function).attributes());
    if options.tools_patch {
        extra.push(Attribute::new(AttributeCode::TOOLS_PATCH_FUNC, AttributeValue::Flag));
    }
    let mut sparse_mma_mask = function.code.sparse_mma_mask;
    if function.selection.tensor_memory.multiplies_sparse {
        sparse_mma_mask |= emit::SPARSE_TENSOR_MEMORY_BIT;
    }
    if sparse_mma_mask != 0 && traits.has_sparse_mma_mask() {
        extra.push(Attribute::new(AttributeCode::SPARSE_MMA_MASK, AttributeValue::Half(sparse_mma_mask)));
    }
    if let Some(threads) = &bounds.max_threads {
        extra.push(Attribute::words(AttributeCode::MAX_THREADS, sizes_padded_to_three(threads)));
    }
    if let Some(threads) = &bounds.required_threads {
        extra.push(Attribute::words(AttributeCode::REQNTID, sizes_padded_to_three(threads)));
    }
    extra.extend(cluster_attributes(bounds, options));
    if options.relocatable && traits.names_image_banks() {
        extra.extend(images::relocatable_bank_attributes(function));
    }
    if job.is_kernel() {
        extra.extend(images::image_bank_attributes(job, program, options.target));
        extra.push(Attribute::new(AttributeCode::MAXREG_COUNT, AttributeValue::Half(job.limit.registers as u16)));
    }
    build::Function {
        linkage: variables::linkage(job.function().linkage),
        shared: shared_memory(job, layout),
        registers: launch_registers(job, function) as u8,
        frame_size: function.frame_bytes,
        min_stack_size: function.frame_bytes,
        attributes: if job.is_kernel() {
            kernel_attributes_with(traits, &job.parameters, job.variables.has_large_parameters, extra)
        } else {
            function_attributes(traits, extra)
        },
        image_words: if job.is_kernel() { images::driver_filled_image_words(job, program) } else { Vec::new() },
        image_parameters: images::image_reference_parameters(job),
        parameter_bytes: job.variables.parameter_bytes as u16,
        has_large_parameters: job.variables.has_large_parameters,
        relocations: relocations(function, index, options),
        externs: listed_externs(function, index),
        calls: function.selection.callees.clone(),
        indirect_calls: function.selection.indirect_calls.clone(),
        takes_address_of: taken_functions(function, job, index),
        prototype: (!job.is_kernel() && !options.tools_patch)
            .then(|| oriole_isel::prototype(job.module, &job.function().returns, &job.function().parameters)),
        frame: if job.is_kernel() { FrameInfo::plain(code_size) } else { FrameInfo::function(code_size) }
            .with_rules(&function.code.stack_depths, &function.code.saved_registers),
        code: function.code.bytes.clone(),
        ..if job.is_kernel() { build::Function::kernel(job.name()) } else { build::Function::device(job.name()) }
    }
}

/// Returns the names that the attribute `EIATTR_EXTERNS` of a function has: functions of other files that it calls or whose addresses it
/// takes, and the kernels whose addresses it takes, wherever they are defined.
fn listed_externs(function: &FinishedFunction, index: &FunctionIndex<'_>) -> Vec<String> {
    let selection = &function.selection;
    let is_elsewhere = |name: &str| !oriole_isel::is_runtime(name) && !index.is_defined(name);
    let is_listed = |name: &str| is_elsewhere(name) || index.kind(name) == Some(FunctionKind::Entry);
    let called = selection.callees.iter().filter(|name| is_elsewhere(name));
    let taken = selection.taken_functions.iter().filter(|name| is_listed(name) && !selection.callees.contains(name));
    called.chain(taken).cloned().collect()
}

/// Returns the names of the functions whose addresses a function takes, in its code or by reading a variable, each once.
fn taken_functions(function: &FinishedFunction, job: &FunctionJob<'_>, index: &FunctionIndex<'_>) -> Vec<String> {
    let mut names = function.selection.taken_functions.clone();
    let mut known: FxHashSet<String> = names.iter().cloned().collect();
    let read = index.address_taken_through_variables(job.function());
    names.extend(read.into_iter().filter(|name| known.insert((*name).to_owned())).map(str::to_owned));
    names
}

/// Returns how a compiled function uses tensor memory, in the form that the cubin builder takes.
fn tensor_memory_use(function: &FinishedFunction) -> build::TensorMemory {
    let selected = function.selection.tensor_memory;
    let count = if function.code.accesses_tensor_memory { TENSOR_MEMORY_INIT_COUNT } else { 0 };
    build::TensorMemory { groups: selected.groups, allocates: selected.allocates, count }
}

/// Value of the attribute `EIATTR_VRC_CTA_INIT_COUNT` for a function that accesses tensor memory.
const TENSOR_MEMORY_INIT_COUNT: u8 = 0x80;

/// Size in bytes of the reserved variable that records the allocated tensor memory.
const TENSOR_MEMORY_RECORD_BYTES: u64 = 32;

/// Returns an error, as ptxas does, if a function needs the shared memory that is not reserved ([`Options::without_shared_reservation`]).
fn check_shared_reservation(jobs: &[FunctionJob<'_>], finished: &[FinishedFunction]) -> Result<(), ErrorCause> {
    let needs_it = |function: &FinishedFunction| function.selection.tensor_memory.allocates || function.selection.reads_reserved_shared;
    match jobs.iter().zip(finished).find(|(_, function)| needs_it(function)) {
        Some((job, _)) => Err(ErrorCause::Limit(format!("Function '{}' uses reserved shared memory when not allowed.", job.name()))),
        None => Ok(()),
    }
}

/// Returns an error, as ptxas does, if a function uses tensor memory both for one thread block and for a pair of blocks.
fn check_tensor_memory_use(module: &build::Module) -> Result<(), ErrorCause> {
    match module.functions.iter().find(|function| function.tensor_memory().groups == [true; 2]) {
        Some(function) => Err(ErrorCause::Limit(format!(
            "function '{}' uses single CTA (.cta_group::1) and CTA pair granularity (.cta_group::2); that is not allowed",
            function.name
        ))),
        None => Ok(()),
    }
}

/// Returns a copy of a function with another name: the linker requires separate code for every visible alias.
fn copy_with_name(function: &build::Function, name: String) -> build::Function {
    let mut copy = build::Function { name, linkage: build::Linkage::Global, ..function.clone() };
    for relocation in copy.relocations.iter_mut().filter(|relocation| relocation.symbol == function.name) {
        relocation.symbol.clone_from(&copy.name);
    }
    copy
}

/// Returns the size and variables of a function's shared memory; `None` if it needs no shared-memory section in the cubin.
fn shared_memory(job: &FunctionJob<'_>, layout: &Layout) -> Option<build::Shared> {
    if layout.linking == Linking::Relocatable {
        let variables = if job.is_kernel() { variables::kernel_shared_variables(job.module, layout, job.function()) } else { Vec::new() };
        let size = variables.iter().fold(0_u64, |end, variable| {
            end.checked_next_multiple_of(variable.alignment).unwrap_or(u64::MAX).saturating_add(variable.size)
        });
        let alignment = variables.iter().map(|variable| variable.alignment).max()?;
        return Some(build::Shared { size, alignment, variables });
    }
    let variables = &job.variables;
    (job.is_kernel() && (variables.shared_bytes > 0 || variables.may_have_dynamic_shared)).then(|| build::Shared {
        size: variables.shared_bytes,
        alignment: u64::from(variables.shared_align.max(1)),
        variables: Vec::new(),
    })
}

/// Returns the relocations of a function's code, sorted by their offsets in the code.
fn relocations(function: &FinishedFunction, index: &FunctionIndex<'_>, options: &Options) -> Vec<CodeRelocation> {
    let is_kernel = |symbol: u32| index.kind(&function.symbols[symbol as usize]) == Some(FunctionKind::Entry);
    let kind = |reference: Reference| match reference.kind {
        ReferenceKind::Low | ReferenceKind::ReturnLow | ReferenceKind::Incoming => CodePatch::AddressLow,
        ReferenceKind::High | ReferenceKind::ReturnHigh => CodePatch::AddressHigh,
        ReferenceKind::FunctionLow if is_kernel(reference.symbol) => CodePatch::KernelLow,
        ReferenceKind::FunctionHigh if is_kernel(reference.symbol) => CodePatch::KernelHigh,
        ReferenceKind::FunctionLow => CodePatch::FunctionLow,
        ReferenceKind::FunctionHigh => CodePatch::FunctionHigh,
        ReferenceKind::SharedOffset => CodePatch::SharedOffset,
        ReferenceKind::ConstantOffset => CodePatch::ConstantOffset,
        ReferenceKind::Call => CodePatch::Call,
        ReferenceKind::DriverNumber => CodePatch::DriverNumber,
        ReferenceKind::ImageWord => CodePatch::ConstantLoad,
    };
    let indirect = function.code.indirect_calls.iter().filter(|_| options.relocatable).map(|&offset| CodeRelocation {
        offset: u64::from(offset),
        kind: CodePatch::IndirectCall,
        symbol: UNIFIED_FUNCTION_TABLE_SYMBOL.into(),
        addend: 0,
    });
    let patches = function.code.patches.iter();
    let mut relocations: Vec<CodeRelocation> = patches
        .map(|patch| CodeRelocation {
            offset: u64::from(patch.offset),
            kind: kind(patch.reference),
            symbol: function.symbols[patch.reference.symbol as usize].clone(),
            addend: i64::from(patch.reference.offset),
        })
        .chain(indirect)
        .collect();
    relocations.sort_by_key(|relocation| relocation.offset);
    relocations
}

/// Name of the symbol that indirect calls in relocatable files refer to. The linker sets it to the offset of the unified function table.
const UNIFIED_FUNCTION_TABLE_SYMBOL: &str = "__UFT_OFFSET";
