//! A whole program: its functions in parallel, its variables, and the file they make together.

use oriole_cubin::build::{self, CodePatch, CodeRelocation, Frame, function_attributes, kernel_attributes};
use oriole_cubin::info::{self, Attribute, Code, Value};
use oriole_ir::ReferenceKind;
use oriole_isel::{Home, Homes, Layout, Linking};
use oriole_ptx::ast::{Function, FunctionId, FunctionKind, Module, Parameter};
use rayon::prelude::*;

use crate::error::{CompileError, Fault};
use crate::passes::{self, Finished};
use crate::variables;
use crate::{Compiled, FunctionReport, Options};

/// A function to compile.
struct Job<'m> {
    module_number: usize,
    module: &'m Module,
    id: FunctionId,
    homes: Homes,
    parameters: Vec<info::Parameter>,
}

impl<'m> Job<'m> {
    fn new(module_number: usize, module: &'m Module, id: FunctionId, layout: &Layout) -> Job<'m> {
        let homes = layout.homes(module, id);
        let mut parameters = Vec::new();
        for (ordinal, parameter) in module.functions[id].parameters.iter().enumerate() {
            if let Parameter::Variable(variable) = *parameter
                && let Some(Home::Parameter(offset)) = homes.get(variable)
            {
                let size = module.variables[variable].size_bytes().unwrap_or(8) as u16;
                parameters.push(info::Parameter::plain(ordinal as u16, *offset as u16, size));
            }
        }
        Job { module_number, module, id, homes, parameters }
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

/// Compiles modules into one file.
pub fn compile(modules: &[&Module], options: &Options) -> Result<Compiled, Vec<CompileError>> {
    let layouts = layouts(modules, options)?;
    let jobs = jobs(modules, &layouts, options);
    let results: Vec<_> = jobs.par_iter().map(|job| passes::run(job.module, job.id, &job.homes, options)).collect();
    let mut finished = Vec::new();
    let mut errors = Vec::new();
    for (job, result) in jobs.iter().zip(results) {
        match result {
            Ok(function) => finished.push(function),
            Err(failures) => errors.extend(failures.into_iter().map(|(span, fault)| CompileError {
                module: job.module_number,
                function: job.name().to_owned(),
                span,
                fault,
            })),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let internal = |message: String| vec![CompileError { module: 0, function: String::new(), span: None, fault: Fault::Internal(message) }];
    let cubin = assemble(modules, &layouts, &jobs, &finished, options).map_err(internal)?;
    let functions = jobs.iter().zip(&finished).map(|(job, function)| report(job, function, options)).collect();
    let dumps = finished.iter().filter_map(|function| function.dump.clone()).collect();
    let global_bytes = layouts.iter().flat_map(|layout| &layout.globals).map(|variable| variable.bytes).sum();
    let constants: u64 = layouts.iter().map(|layout| u64::from(layout.constant_bytes)).sum();
    let addresses: u64 = layouts.iter().map(|layout| 8 * layout.addresses.len() as u64).sum();
    let banks = [(oriole_isel::CONSTANT_BANK, constants), (oriole_isel::ADDRESS_BANK, addresses)];
    let constant_bytes = banks.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    Ok(Compiled { cubin, functions, global_bytes, constant_bytes, dumps })
}

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

fn jobs<'m>(modules: &[&'m Module], layouts: &[Layout], options: &Options) -> Vec<Job<'m>> {
    let mut jobs = Vec::new();
    for (number, &module) in modules.iter().enumerate() {
        for (id, function) in module.functions.iter_enumerated() {
            let is_wanted = options.entries.is_empty()
                || function.kind != FunctionKind::Entry
                || options.entries.iter().any(|entry| entry == module.name(function.name));
            if function.body.is_some() && is_wanted {
                jobs.push(Job::new(number, module, id, &layouts[number]));
            }
        }
    }
    jobs
}

fn report(job: &Job<'_>, function: &Finished, options: &Options) -> FunctionReport {
    FunctionReport {
        name: job.name().to_owned(),
        is_kernel: job.is_kernel(),
        registers: registers(function),
        barriers: function.barriers,
        stack_bytes: function.frame_bytes,
        spill_store_bytes: function.allocation.spill_store_bytes,
        spill_load_bytes: function.allocation.spill_load_bytes,
        shared_bytes: job.homes.shared_bytes,
        constant_bytes: if job.is_kernel() { options.target.profile().parameters + job.homes.parameter_bytes } else { 0 },
        instructions: function.code.instructions,
    }
}

/// Registers of each thread that no instruction names.
pub const HIDDEN_REGISTERS: u32 = 2;

/// Registers that the hardware gives each thread.
fn registers(function: &Finished) -> u32 {
    function.allocation.registers_used.max(4) + HIDDEN_REGISTERS
}

fn assemble(
    modules: &[&Module],
    layouts: &[Layout],
    jobs: &[Job<'_>],
    finished: &[Finished],
    options: &Options,
) -> Result<Vec<u8>, String> {
    let Some(target) = oriole_cubin::Target::named(&options.target.to_string()) else {
        return Err(format!("no file can be written for {}", options.target));
    };
    let functions = jobs.iter().zip(finished).rev().map(|(job, function)| built(job, function, target)).collect();
    let mut module = build::Module::new(target, functions);
    module.virtual_sm = modules.first().map_or(module.virtual_sm, |module| module.target.number);
    if options.relocatable {
        module.file_type = oriole_cubin::FileType::Relocatable;
    }
    for (source, layout) in modules.iter().zip(layouts) {
        variables::add(&mut module, source, layout);
    }
    module.build().and_then(|cubin| cubin.write()).map_err(|error| error.to_string())
}

fn built(job: &Job<'_>, function: &Finished, target: &'static oriole_cubin::Target) -> build::Function {
    let bounds = &job.function().bounds;
    let mut extra = vec![Attribute::words(Code::EXIT_INSTR_OFFSETS, function.code.exits.clone())];
    if function.barriers > 0 {
        extra.push(Attribute::new(Code::NUM_BARRIERS, Value::Byte(function.barriers as u8)));
    }
    let sizes = |sizes: &[u32]| [0, 1, 2].map(|axis| sizes.get(axis).copied().unwrap_or(1));
    if let Some(threads) = &bounds.required_threads {
        extra.push(Attribute::words(Code::REQNTID, sizes(threads)));
    } else if let Some(threads) = &bounds.max_threads {
        extra.push(Attribute::words(Code::MAX_THREADS, sizes(threads)));
    }
    build::Function {
        linkage: variables::linkage(job.function().linkage, job.is_kernel()),
        shared: shared(job),
        registers: registers(function) as u8,
        frame_size: function.frame_bytes,
        min_stack_size: function.frame_bytes,
        attributes: if job.is_kernel() { kernel_attributes(target, &job.parameters, extra) } else { function_attributes(target, extra) },
        parameter_bytes: job.homes.parameter_bytes as u16,
        relocations: relocations(function),
        frame: Frame::plain(function.code.bytes.len() as u64),
        code: function.code.bytes.clone(),
        ..if job.is_kernel() { build::Function::kernel(job.name()) } else { build::Function::device(job.name()) }
    }
}

fn shared(job: &Job<'_>) -> Option<build::Shared> {
    let homes = &job.homes;
    (homes.shared_bytes > 0 || homes.uses_dynamic_shared).then(|| build::Shared {
        size: u64::from(homes.shared_bytes),
        alignment: u64::from(homes.shared_align.max(1)),
        variables: Vec::new(),
    })
}

fn relocations(function: &Finished) -> Vec<CodeRelocation> {
    let kind = |kind| match kind {
        ReferenceKind::Low => CodePatch::AddressLow,
        ReferenceKind::High => CodePatch::AddressHigh,
        ReferenceKind::FunctionLow => CodePatch::FunctionLow,
        ReferenceKind::FunctionHigh => CodePatch::FunctionHigh,
        ReferenceKind::SharedOffset => CodePatch::SharedOffset,
        ReferenceKind::ConstantOffset => CodePatch::ConstantOffset,
        ReferenceKind::Call => CodePatch::Call,
    };
    let patches = function.code.patches.iter();
    patches
        .map(|patch| CodeRelocation {
            offset: u64::from(patch.offset),
            kind: kind(patch.reference.kind),
            symbol: function.symbols[patch.reference.symbol as usize].clone(),
            addend: i64::from(patch.reference.offset),
        })
        .collect()
}
