//! `sched`, `regalloc`, `ctrl` on Ori: scheduling with its reasons, register allocation, control words.

use oriole_ctrl::{ControlWords, control_words, serial};
use oriole_hardware::machine::Machine;
use oriole_hardware::units::Rates;
use oriole_hardware::{Hardware, Model};
use oriole_ir::text::{print, print_inst};
use oriole_ir::{Function, RegFile, RegisterLimits, verify_allocated};
use oriole_isa::Target;
use oriole_regalloc::check::check;
use oriole_regalloc::{AllocateError, Allocation, AllocationEnvironment, allocate};
use oriole_sched::backend::{Backend, Knobs, ScheduleMode};
use oriole_sched::function::Scheduler;
use oriole_sched::report::trace;
use oriole_sched::resource::ResourceCosts;

use super::{Lines, functions, register_limit, required};
use crate::diff;
use crate::file::{Options, TestFile, TestKind};

/// Registers that the hardware allocates to a thread beyond those that its code can name. The schedules of a test do not depend on it.
const HIDDEN_REGISTERS: u32 = 2;

/// Phases of scheduling before and after register allocation.
const PHASES: (u8, u8) = (97, 110);

/// Lists the decisions of the scheduler with their reasons, and the old and the new order.
pub fn sched(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let target = required(target);
    let (machine, rates) = (Machine::of(target), Rates::of(target));
    let environment = AllocationEnvironment::new(target, register_limit(&file.options));
    let scheduler = Scheduler {
        model: Model::of(target),
        costs: &ResourceCosts::from_rates(rates, machine),
        machine,
        backend: file.options.backend.unwrap_or(Backend::B),
        mode: file.options.mode.unwrap_or(ScheduleMode::Ilp),
        knobs: Knobs::default(),
        register_limit: environment.limit(RegFile::General),
        initial_registers: None,
        hidden_registers: HIDDEN_REGISTERS,
        uniform_limit: environment.limit(RegFile::Uniform),
        calls: None,
        launch: None,
        occupancy_percent: 100,
        lower_occupancy_percents: &[],
        tries_near_source: false,
        verify: true,
        trace: true,
    };
    let mut lines = Vec::new();
    for mut function in functions(file)? {
        let before = print(&function);
        let stats = if function.is_ssa {
            scheduler.schedule_ssa_function(&mut function)
        } else {
            scheduler.schedule_allocated_function(&mut function)
        };
        let stats = stats.map_err(|error| error.to_string())?;
        let phase = if function.is_ssa { PHASES.0 } else { PHASES.1 };
        lines.extend(trace::code_changes_text(&function, phase, &stats.changes).lines().map(str::trim_end).map(str::to_owned));
        lines.extend(trace::text(&function, phase, &stats.attempts).lines().map(str::trim_end).map(str::to_owned));
        lines.extend(diff::marked(&before, &print(&function)));
    }
    Ok(lines)
}

/// Lists the allocated functions and the resources that they use. The allocation checker and the verifier must accept them.
pub fn regalloc(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let mut lines = Vec::new();
    for function in functions(file)? {
        match allocated(&function, required(target), &file.options)? {
            Ok((after, allocation)) => {
                lines.extend(print(&after).lines().map(str::to_owned));
                lines.push(usage(&allocation));
            }
            Err(error) => lines.push(format!("error: {error}")),
        }
    }
    Ok(lines)
}

/// Allocates registers. The inner error is that of the allocator, which a test may expect; the outer one says that the allocation is wrong.
pub fn allocated(before: &Function, target: Target, options: &Options) -> Result<Result<(Function, Allocation), AllocateError>, String> {
    let environment = AllocationEnvironment::new(target, register_limit(options));
    let environment = AllocationEnvironment { initial_registers: options.initial_registers, ..environment };
    let mut after = before.clone();
    let allocation = match allocate(&mut after, &environment) {
        Ok(allocation) => allocation,
        Err(error) => return Ok(Err(error)),
    };
    check(before, &after, &environment, &allocation).map_err(|error| format!("the allocation checker: {error}"))?;
    let limit = |file| environment.limit(file) as u16;
    let limits = RegisterLimits {
        general: limit(RegFile::General),
        uniform: limit(RegFile::Uniform),
        predicate: limit(RegFile::Predicate),
        uniform_predicate: limit(RegFile::UniformPredicate),
        convergence: limit(RegFile::Convergence),
        scoreboard: 6,
    };
    verify_allocated(&after, &limits).map_err(|errors| format!("the verifier: {errors}"))?;
    Ok(Ok((after, allocation)))
}

fn usage(allocation: &Allocation) -> String {
    let Allocation { registers_used, uniform_used, barriers_used, spill_store_bytes, spill_load_bytes, frame_bytes, .. } = allocation;
    format!(
        "registers {registers_used}, uniform {uniform_used}, barriers {barriers_used}; \
         spill stores {spill_store_bytes} bytes, loads {spill_load_bytes} bytes; frame {frame_bytes} bytes"
    )
}

/// Lists each instruction with its control word. `level 0` tests the control words of -O0.
pub fn ctrl(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let target = required(target);
    let mut lines = Vec::new();
    for mut function in functions(file)? {
        if function.is_ssa {
            return Err(format!("@{} is in SSA form; control words need physical registers", function.name));
        }
        let controls = match file.options.level {
            Some(0) => serial::assign(&mut function, &Hardware::built_in(target)),
            _ => control_words::run(&mut function, &Hardware::built_in(target)),
        };
        lines.extend(controlled(&function, &controls));
    }
    Ok(lines)
}

/// Returns the instructions of a function with their control words, and `reuse` with the mask of operands that stay in the reuse cache.
fn controlled(function: &Function, controls: &ControlWords) -> Vec<String> {
    let mut lines = Vec::new();
    for &block in &function.layout {
        lines.push(format!("{block:?}:"));
        for &inst in &function.blocks[block].insts {
            let control = controls.get(inst);
            let reuse = if control.reuse == 0 { String::new() } else { format!(" reuse {:#06b}", control.reuse) };
            lines.push(format!("[{control}]{reuse} {}", print_inst(function, inst)));
        }
    }
    lines
}
