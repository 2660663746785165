//! A whole program: its functions in parallel, its variables, and the file they make together.

use oriole_cubin::build::{self, CodePatch, CodeRelocation, Frame, kernel_attributes};
use oriole_cubin::info::{self, Attribute, Code, Value};
use oriole_ir::ReferenceKind;
use oriole_isel::{Home, Homes, parameter_offsets};
use oriole_ptx::ast::{Function, FunctionId, FunctionKind, Linkage, Module};
use rayon::prelude::*;

use crate::error::{CompileError, Fault};
use crate::passes::{self, Finished};
use crate::{Compiled, FunctionReport, Options};

/// A function to compile.
struct Job<'m> {
    module_number: usize,
    module: &'m Module,
    id: FunctionId,
    homes: Homes,
    parameter_bytes: u32,
    parameters: Vec<info::Parameter>,
}

impl<'m> Job<'m> {
    fn new(module_number: usize, module: &'m Module, id: FunctionId, options: &Options) -> Job<'m> {
        let function = &module.functions[id];
        let (offsets, parameter_bytes) = parameter_offsets(module, &function.parameters);
        let base = options.target.profile().parameters;
        let mut homes = Homes::default();
        let mut parameters = Vec::new();
        for (ordinal, (variable, offset)) in offsets.into_iter().enumerate() {
            homes.insert(variable, Home::Parameter(base + offset));
            let size = module.variables[variable].size_bytes().unwrap_or(8) as u16;
            parameters.push(info::Parameter::plain(ordinal as u16, offset as u16, size));
        }
        Job { module_number, module, id, homes, parameter_bytes, parameters }
    }

    fn function(&self) -> &'m Function {
        &self.module.functions[self.id]
    }

    fn name(&self) -> &'m str {
        self.module.name(self.function().name)
    }
}

/// Compiles modules into one file.
pub fn compile(modules: &[&Module], options: &Options) -> Result<Compiled, Vec<CompileError>> {
    let jobs = jobs(modules, options);
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
    let cubin = assemble(modules, &jobs, &finished, options)
        .map_err(|message| vec![CompileError { module: 0, function: String::new(), span: None, fault: Fault::Internal(message) }])?;
    let functions = jobs.iter().zip(&finished).map(|(job, function)| report(job, function, options)).collect();
    let dumps = finished.iter().filter_map(|function| function.dump.clone()).collect();
    Ok(Compiled { cubin, functions, global_bytes: 0, constant_bytes: Vec::new(), dumps })
}

fn jobs<'m>(modules: &[&'m Module], options: &Options) -> Vec<Job<'m>> {
    let mut jobs = Vec::new();
    for (number, &module) in modules.iter().enumerate() {
        for (id, function) in module.functions.iter_enumerated() {
            let is_wanted = options.entries.is_empty()
                || function.kind != FunctionKind::Entry
                || options.entries.iter().any(|entry| entry == module.name(function.name));
            if function.body.is_some() && is_wanted {
                jobs.push(Job::new(number, module, id, options));
            }
        }
    }
    jobs
}

fn report(job: &Job<'_>, function: &Finished, options: &Options) -> FunctionReport {
    let is_kernel = job.function().kind == FunctionKind::Entry;
    FunctionReport {
        name: job.name().to_owned(),
        is_kernel,
        registers: registers(function),
        barriers: function.barriers,
        stack_bytes: function.frame_bytes,
        spill_store_bytes: function.allocation.spill_store_bytes,
        spill_load_bytes: function.allocation.spill_load_bytes,
        shared_bytes: 0,
        constant_bytes: if is_kernel { options.target.profile().parameters + job.parameter_bytes } else { 0 },
        instructions: function.code.instructions,
    }
}

/// Registers of each thread that no instruction names.
pub const HIDDEN_REGISTERS: u32 = 2;

/// Registers that the hardware gives each thread.
fn registers(function: &Finished) -> u32 {
    function.allocation.registers_used.max(4) + HIDDEN_REGISTERS
}

fn assemble(modules: &[&Module], jobs: &[Job<'_>], finished: &[Finished], options: &Options) -> Result<Vec<u8>, String> {
    let Some(target) = oriole_cubin::Target::named(&options.target.to_string()) else {
        return Err(format!("no file can be written for {}", options.target));
    };
    let functions = jobs.iter().zip(finished).rev().map(|(job, function)| built(job, function, target)).collect();
    let mut module = build::Module::new(target, functions);
    module.virtual_sm = modules.first().map_or(module.virtual_sm, |module| module.target.number);
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
        linkage: if job.function().linkage == Linkage::Weak { build::Linkage::Weak } else { build::Linkage::Global },
        registers: registers(function) as u8,
        frame_size: function.frame_bytes,
        min_stack_size: function.frame_bytes,
        attributes: kernel_attributes(target, &job.parameters, extra),
        parameter_bytes: job.parameter_bytes as u16,
        relocations: relocations(function),
        frame: Frame::plain(function.code.bytes.len() as u64),
        code: function.code.bytes.clone(),
        ..build::Function::kernel(job.name())
    }
}

fn relocations(function: &Finished) -> Vec<CodeRelocation> {
    let kind = |kind| match kind {
        ReferenceKind::Low | ReferenceKind::FunctionLow => CodePatch::AddressLow,
        ReferenceKind::High | ReferenceKind::FunctionHigh => CodePatch::AddressHigh,
        ReferenceKind::Call => CodePatch::Call,
        ReferenceKind::SharedOffset => CodePatch::SharedOffset,
        ReferenceKind::ConstantOffset => CodePatch::ConstantOffset,
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
