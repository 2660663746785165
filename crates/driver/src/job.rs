//! The functions to compile, with their variables, launch bounds and register limits.

use oriole_cubin::info;
use oriole_cubin::target::FileTraits;
use oriole_hardware::machine::Machine;
use oriole_isa::Target;
use oriole_isel::{Layout, VariableLayout, VariableLocation};
use oriole_ptx::ast::{Function, FunctionId, FunctionKind, LaunchBounds, Module, Parameter};

use crate::debug::variables::{FunctionVariables, VariableRegisters, variable_registers};
use crate::functions::FunctionIndex;
use crate::options::Options;
use crate::register_counts::{IgnoredBecause, RegisterCountChanges, decide_for_kernel};
use crate::registers::{HIDDEN_REGISTERS, RegisterLimit};
use crate::{functions, parallel, registers, variables};

/// A function to compile, with its variables, launch bounds and register limits.
pub struct FunctionJob<'m> {
    /// Index of the module among those compiled together.
    pub module_number: usize,
    /// The module that contains the function.
    pub module: &'m Module,
    /// The function in the module.
    pub id: FunctionId,
    /// The locations of the function's variables and parameters.
    pub variables: VariableLayout,
    /// The PTX registers that hold source variables, if the compiler keeps those for debuggers.
    pub debug_variables: FunctionVariables,
    /// Kernel parameters, as the cubin describes them; empty for a function that has no parameters in constant bank 0.
    pub parameters: Vec<info::Parameter>,
    /// Launch bounds from the directives of the PTX. For kernels, bounds from the command line are added.
    pub bounds: LaunchBounds,
    /// Maximum number of registers per thread, including the hidden ones ([`HIDDEN_REGISTERS`]).
    pub limit: RegisterLimit,
    /// Maximum number of general registers that instructions may name; in a kernel that follows `setmaxnreg`, in any part of it.
    pub register_limit: u32,
    /// How the function treats `setmaxnreg`.
    pub register_counts: RegisterCountChanges,
}

impl<'m> FunctionJob<'m> {
    /// Creates the job for a function. The register limits are set later.
    pub fn new(module_number: usize, module: &'m Module, id: FunctionId, layout: &Layout, target: Target) -> FunctionJob<'m> {
        let bounds = module.functions[id].bounds.clone();
        let (limit, register_limit) = (RegisterLimit { registers: 0, warnings: Vec::new() }, 0);
        let variables = layout.variables_of(module, id, target);
        let traits = FileTraits::of(target);
        let mut parameters = Vec::new();
        for (ordinal, parameter) in module.functions[id].parameters.iter().enumerate() {
            let Parameter::Variable(variable) = *parameter else { continue };
            if let Some(kind) = variables::image_kind(module.variables[variable].ty) {
                parameters.push(info::Parameter::image(ordinal as u16, kind.parameter_space()));
            } else if let Some(VariableLocation::Parameter(offset)) = variables.get(variable) {
                let size = module.variables[variable].size_bytes().unwrap_or(8) as u16;
                let mut description = info::Parameter::plain(ordinal as u16, *offset as u16, size);
                if let (Some(pointer), Some(traits)) = (module.variables[variable].pointer, traits) {
                    description.log_alignment = pointer.align.map_or(0, u64::ilog2) as u8;
                    description.space = variables::pointer_space(pointer, traits);
                }
                parameters.push(description);
            }
        }
        let debug_variables = FunctionVariables::default();
        let register_counts = RegisterCountChanges::Ignored(IgnoredBecause::Function);
        FunctionJob { module_number, module, id, variables, debug_variables, parameters, bounds, limit, register_limit, register_counts }
    }

    /// Returns the PTX function.
    pub fn function(&self) -> &'m Function {
        &self.module.functions[self.id]
    }

    /// Returns the name of the function.
    pub fn name(&self) -> &'m str {
        self.module.name(self.function().name)
    }

    /// Returns whether the function is a kernel.
    pub fn is_kernel(&self) -> bool {
        self.function().kind == FunctionKind::Entry
    }
}

/// Returns a job for each function to compile, with its register limits.
pub fn create_jobs<'m>(
    modules: &[&'m Module],
    indices: &[FunctionIndex<'_>],
    layouts: &[Layout],
    options: &Options,
    machine: &Machine,
) -> Vec<FunctionJob<'m>> {
    let has_callers_elsewhere = options.relocatable || options.tools_patch || modules.len() > 1;
    let (mut jobs, mut fewest) = (Vec::new(), Vec::new());
    for (number, &module) in modules.iter().enumerate() {
        let wanted = functions::reachable_functions(&indices[number], options, has_callers_elsewhere);
        let mut debug_variables = if options.keeps_variables() { variable_registers(module) } else { VariableRegisters::default() };
        let new = |&id: &FunctionId| {
            let fewest = functions::min_registers_for_calls(module, &module.functions[id], options.target);
            (FunctionJob::new(number, module, id, &layouts[number], options.target), fewest)
        };
        for (job, registers) in parallel::map_short_jobs(&options.hooks.parallelism, &wanted, new) {
            jobs.push(FunctionJob { debug_variables: debug_variables.remove(&job.id).unwrap_or_default(), ..job });
            fewest.push(registers);
        }
    }
    set_register_limits(&mut jobs, &fewest, options, machine);
    jobs
}

/// Sets the register limits of all jobs. A device function runs with the registers of the kernel that calls it, so its limit is at most the
/// lowest limit of all kernels of the program. `fewest` has, for each job, the minimum number of registers that the function's calls need.
fn set_register_limits(jobs: &mut [FunctionJob<'_>], fewest: &[u32], options: &Options, machine: &Machine) {
    for job in jobs.iter_mut() {
        if job.is_kernel() {
            job.bounds = registers::complete_launch_bounds(&job.bounds, options);
        }
        job.limit = registers::register_limit(job.name(), &job.bounds, options, machine);
        if job.is_kernel() {
            job.register_counts = decide_for_kernel(job.module, job.function(), &job.bounds, &job.limit, options);
        }
    }
    ignore_counts_below_needs_of_callees(jobs, fewest);
    let by_option = options.max_function_registers.filter(|_| options.relocatable).unwrap_or(u32::MAX);
    let of_functions = jobs.iter().filter(|job| job.is_kernel()).map(registers_for_callees).min().unwrap_or(u32::MAX);
    for (job, &fewest) in jobs.iter_mut().zip(fewest) {
        let limit = match job.register_counts.followed() {
            Some(counts) => counts.most.min(registers::MAX_REGISTER_LIMIT),
            None if job.is_kernel() => job.limit.registers,
            None => job.limit.registers.min(of_functions).min(by_option),
        };
        // A tools patch (code that a tool inserts into another program) runs with the registers of that program, so its limit is not
        // raised.
        job.register_limit = if options.tools_patch { limit - HIDDEN_REGISTERS } else { (limit - HIDDEN_REGISTERS).max(fewest) };
    }
}

/// Returns the number of registers per thread that a kernel provides for the functions that it calls: everywhere in the kernel if it
/// follows `setmaxnreg`.
fn registers_for_callees(kernel: &FunctionJob<'_>) -> u32 {
    let calls = functions::has_calls(kernel.module, kernel.function());
    kernel.register_counts.followed().filter(|_| calls).map_or(kernel.limit.registers, |counts| counts.least)
}

/// Ignores `setmaxnreg` in kernels with calls if some function of the program may need more registers than one part of the kernel has.
fn ignore_counts_below_needs_of_callees(jobs: &mut [FunctionJob<'_>], fewest: &[u32]) {
    let functions = jobs.iter().zip(fewest).filter(|(job, _)| !job.is_kernel());
    let Some(needed) = functions.map(|(_, &fewest)| fewest + HIDDEN_REGISTERS).max() else { return };
    for job in jobs.iter_mut().filter(|job| functions::has_calls(job.module, job.function())) {
        if job.register_counts.followed().is_some_and(|counts| counts.least < needed) {
            job.register_counts = RegisterCountChanges::Ignored(IgnoredBecause::Calls);
        }
    }
}
