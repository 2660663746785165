//! The functions that the rows of the pass table refer to. Each calls its pass with the arguments that the pass needs, and stores the
//! results in the [`FunctionState`].

use std::collections::BTreeSet;
use std::sync::Arc;

use oriole_ctrl::{control_words, serial, tune_yields};
use oriole_ir::analysis::Threads;
use oriole_ir::{Function, RegFile, RegisterLimits, verify_allocated};
use oriole_isel::{SelectOptions, Selected, select_function_with};
use oriole_opt as opt;
use oriole_opt::converge::CalleeFacts;
use oriole_ptx::source::Span;
use oriole_regalloc::{AllocateError, AllocationEnvironment};

use crate::compat::CodeRequirements;
use crate::debug::{assignments, joins, registers, saved_registers, variables};
use crate::error::{ErrorCause, FunctionError};
use crate::registers::{HIDDEN_REGISTERS, has_one_dimension};
use crate::state::{FunctionState, Selection};
use crate::{barrier_sites, convention, emit, layout, patches, prologue, report_data, resident_blocks, schedule, warp_sites};

/// The result of a pass: nothing, or the errors that stop the compilation of the function.
type PassOutcome = Result<(), Vec<FunctionError>>;

/// Returns an error that reports a bug of the compiler with this message.
fn internal_error(message: impl ToString) -> Vec<FunctionError> {
    vec![FunctionError::from(ErrorCause::Internal(message.to_string()))]
}

/// Defines the functions of passes without a result to store. The pass table describes these passes.
macro_rules! simple_passes {
    ($($name:ident($state:ident) = $call:expr;)*) => {$(
        pub(super) fn $name($state: &mut FunctionState<'_>) -> PassOutcome {
            $call;
            Ok(())
        }
    )*};
}

simple_passes! {
    uniform_handles(state) = opt::uniform_handles::run(&mut state.function);
    forward_stores(state) = opt::forward_stores::run(&mut state.function);
    gather_stores(state) = opt::gather_stores::run(&mut state.function);
    drop_copies(state) = opt::drop_copies::run(&mut state.function);
    guard_copies(state) = opt::guard_copies::run(&mut state.function);
    straighten(state) = opt::straighten::run(&mut state.function, state.input.options.target);
    fuse(state) = opt::fuse::run(&mut state.function, state.input.options.target);
    split_index(state) = opt::split_index::run(&mut state.function, state.input.options.target);
    forward(state) = opt::forward::run(&mut state.function, state.input.options.target);
    merge(state) = opt::merge::run(&mut state.function, state.input.options.target);
    hoist(state) = opt::hoist::run(&mut state.function, state.input.options.target);
    narrow(state) = opt::narrow::run(&mut state.function, state.input.options.target);
    join_phis(state) = opt::join_phis::run(&mut state.function, state.input.options.target);
    share_constants(state) = opt::share_constants::run(&mut state.function, state.input.options.target);
    constant_phis(state) = opt::constant_phis::run(&mut state.function, state.input.options.target);
    constant_handles(state) = opt::constant_handles::run(&mut state.function, state.input.options.target);
    remove_dead_code(state) = opt::dead::run(&mut state.function, state.input.options.target);
    reduce(state) = opt::reduce::run(&mut state.function, state.input.options.target);
    aggregate(state) = opt::aggregate::run(&mut state.function, state.input.options.target);
    sync_diverged(state) = opt::sync_diverged::run(&mut state.function, state.input.options.target);
    insert_yields(state) = opt::insert_yields::run(&mut state.function, state.input.options.target);
    share_products(state) = opt::share_products::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    share_tuples(state) = opt::share_tuples::run(&mut state.function, state.input.options.target);
    simplify(state) = opt::simplify::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    tie_loads(state) = opt::tie_loads::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    halves(state) = opt::halves::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    guard_sums(state) = opt::guard_sums::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
    uniform_numbers(state) = opt::uniform_numbers::run(&mut state.function, &mut state.input.caches.encodability.borrow_mut());
}

/// Pass `select`: selects machine instructions for the PTX instructions.
pub(super) fn select(state: &mut FunctionState<'_>) -> PassOutcome {
    let input = state.input;
    let unsupported = |error: oriole_isel::Unsupported| FunctionError { span: error.span, fault: ErrorCause::Unsupported(error.feature) };
    let fewest_registers = input.register_counts.map_or(input.register_limit, |counts| counts.least - HIDDEN_REGISTERS);
    let options = SelectOptions {
        follows_register_counts: input.register_counts.is_some(),
        waits_for_errors: input.options.waits_for_errors(),
        without_descriptors: input.options.tools_patch,
        calls_slow_paths: convention::may_call_slow_paths(fewest_registers, input.options),
        without_shared_reservation: input.options.without_shared_reservation,
    };
    let Selected {
        function,
        barriers,
        callees,
        indirect_calls,
        taken_functions,
        has_dynamic_stack,
        tensor_memory,
        reads_reserved_shared,
        ignored_register_counts,
        locals_start,
        registers,
    } = select_function_with(&mut input.caches.select.borrow_mut(), input.module, input.id, input.variables, options)
        .map_err(|errors| errors.into_iter().map(unsupported).collect::<Vec<_>>())?;
    state.launch = report_data::declared_launch_resources(&input.module.functions[input.id], input.options, input.variables, barriers);
    state.function = function;
    let for_debuggers = input.options.is_for_debuggers();
    if for_debuggers {
        joins::run(&mut state.function);
        assignments::run(&mut state.function, &registers);
    }
    if input.options.needs_register_ranges() {
        state.register_definitions = registers::definitions(&state.function, &registers, for_debuggers);
    }
    if !input.debug_variables.is_empty() {
        state.register_aliases =
            variables::keep_variables_readable(&mut state.function, input.module, input.id, &registers, input.debug_variables);
    }
    let selection = Selection {
        barriers,
        callees,
        indirect_calls,
        taken_functions,
        has_dynamic_stack,
        tensor_memory,
        reads_reserved_shared,
        ignored_register_counts,
        locals_start,
    };
    state.selection = Arc::new(selection);
    Ok(())
}

/// Pass `construct-ssa`: gives each value one definition.
pub(super) fn construct_ssa(state: &mut FunctionState<'_>) -> PassOutcome {
    oriole_ir::construct_ssa(&mut state.function);
    Ok(())
}

/// Pass `contract`: joins floating-point multiplications and additions into multiply-adds, unless --fmad=false.
pub(super) fn contract(state: &mut FunctionState<'_>) -> PassOutcome {
    run_contraction_with(state, opt::contract::RequiredLegality::Any)
}

/// Pass `contract-again`: joins floating-point multiplications and additions into multiply-adds where unrolling brought them together.
pub(super) fn contract_again(state: &mut FunctionState<'_>) -> PassOutcome {
    run_contraction_with(state, opt::contract::RequiredLegality::Encodable)?;
    // No later pass reads the contraction marks on instructions.
    opt::contract::clear_contraction_marks(&mut state.function);
    Ok(())
}

/// Joins floating-point multiplications and additions into multiply-adds, unless the options forbid it. `legality` says whether the new
/// instructions must be encodable.
fn run_contraction_with(state: &mut FunctionState<'_>, legality: opt::contract::RequiredLegality) -> PassOutcome {
    if state.options().contract {
        let encodability = &mut state.input.caches.encodability.borrow_mut();
        opt::contract::run_and_record_alternatives(&mut state.function, encodability, legality, &mut state.alternatives);
    }
    Ok(())
}

/// Pass `legalize`: rewrites every instruction into one that can be encoded for the target.
pub(super) fn legalize(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::legalize::run(&mut state.function, encodability).map(|_| ()).map_err(internal_error)
}

/// Pass `vector-loads`: joins loads of neighbouring words of shared memory into vector loads.
pub(super) fn vector_loads(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    opt::vector_loads::run_and_record_remarks(&mut state.function, target, &mut state.pass_remarks);
    Ok(())
}

/// Pass `unroll`: replaces short loops by copies of their body, one for each iteration, and unrolls others partly.
pub(super) fn unroll(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::unroll::run_and_record_remarks(&mut state.function, state.input.hardware, &mut state.pass_remarks);
    Ok(())
}

/// Pass `fold`: replaces registers with known contents by constant operands, and moves constant additions into address offsets.
pub(super) fn fold(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::fold::run_and_record_alternatives(&mut state.function, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `combine`: replaces each logic tree and each sum of products or shifts by one instruction, and folds negations and absolute values
/// into the instructions that read them.
pub(super) fn combine(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::combine::run_and_record_alternatives(&mut state.function, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `uniform`: moves the computation of operands that must be in uniform registers to the uniform datapath.
pub(super) fn uniform(state: &mut FunctionState<'_>) -> PassOutcome {
    let threads = threads_of(state);
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::uniform::run_and_record_alternatives(&mut state.function, encodability, threads, &mut state.alternatives);
    Ok(())
}

/// Pass `stagger-products`: divides groups of warpgroup matrix products into smaller ones, so that products overlap with arithmetic.
pub(super) fn stagger_products(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::stagger_products::run(&mut state.function, state.input.register_limit);
    Ok(())
}

/// Pass `if-convert`: replaces short branches by guarded instructions.
pub(super) fn if_convert(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::if_convert::run_and_record_remarks(&mut state.function, state.input.hardware, &mut state.pass_remarks);
    Ok(())
}

/// Returns the shape of the thread blocks that execute the function.
fn threads_of(state: &FunctionState<'_>) -> Threads {
    let bounds = &state.input.module.functions[state.input.id].bounds;
    if has_one_dimension(bounds) { Threads::InOneDimension } else { Threads::InAnyShape }
}

/// Pass `peel-waits`: tests a barrier in memory once before the loop that waits for it.
pub(super) fn peel_waits(state: &mut FunctionState<'_>) -> PassOutcome {
    let threads = threads_of(state);
    opt::peel_waits::run(&mut state.function, threads);
    Ok(())
}

/// Pass `guard-elected`: replaces branches of an elected thread around asynchronous copies by guards.
pub(super) fn guard_elected(state: &mut FunctionState<'_>) -> PassOutcome {
    let (target, threads) = (state.target(), threads_of(state));
    opt::guard_elected::run(&mut state.function, target, threads);
    Ok(())
}

/// Returns the names of the functions that a function calls directly.
fn called_functions(function: &Function) -> BTreeSet<String> {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    insts.filter_map(|&inst| function.callee(inst).map(str::to_owned)).collect()
}

/// Pass `drop-divergence-tests`: removes tests for a diverged warp, and the functions that only a diverged warp would call.
pub(super) fn drop_divergence_tests(state: &mut FunctionState<'_>) -> PassOutcome {
    let (target, threads) = (state.target(), threads_of(state));
    let before = called_functions(&state.function);
    if opt::drop_divergence_tests::run(&mut state.function, target, threads) > 0 {
        let after = called_functions(&state.function);
        Arc::make_mut(&mut state.selection).callees.retain(|name| after.contains(name) || !before.contains(name));
    }
    Ok(())
}

/// Pass `converge`: inserts convergence barriers around divergent branches.
pub(super) fn converge(state: &mut FunctionState<'_>) -> PassOutcome {
    let (target, facts) = (state.target(), &state.input.facts);
    if oriole_isel::is_slow_path(&state.function.name) {
        // Callers have a convergence barrier around the call, so the function needs none. A barrier that the function used would be
        // unusable in all callers.
        return Ok(());
    }
    let waits_for_whole_warp =
        |name: &str| facts.functions_waiting_for_warp.contains(name) || oriole_isel::is_runtime(name) && !oriole_isel::is_slow_path(name);
    let has_warp_operations = |name: &str| !oriole_isel::is_runtime(name) && facts.may_have_warp_operations(name);
    // A patch of a tool is inserted into other code, whose uniform registers it must not write. The threads meet in the runtime functions.
    let may_meet = !state.input.options.tools_patch && !oriole_isel::is_runtime(&state.function.name);
    let callees = CalleeFacts { waits_for_whole_warp: &waits_for_whole_warp, has_warp_operations: &has_warp_operations, may_meet };
    let threads = threads_of(state);
    let stats = opt::converge::run(&mut state.function, target, callees, threads);
    if !stats.callees.is_empty() {
        Arc::make_mut(&mut state.selection).callees.extend(stats.callees);
    }
    Ok(())
}

/// Pass `balance`: makes the less busy unit execute additions, shifts and FP16 multiply-adds that two units can execute.
pub(super) fn balance(state: &mut FunctionState<'_>) -> PassOutcome {
    let encodability = &mut state.input.caches.encodability.borrow_mut();
    opt::balance::run_and_record_alternatives(&mut state.function, state.input.hardware, encodability, &mut state.alternatives);
    Ok(())
}

/// Pass `pre-schedule`: reorders instructions within blocks, before register allocation.
pub(super) fn pre_schedule(state: &mut FunctionState<'_>) -> PassOutcome {
    let Some(plan) = state.plan.filter(|plan| plan.before_allocation) else { return Ok(()) };
    let (context, environment, offered) = (state.schedule_context(), state.environment(), state.occupancies_to_estimate);
    let stats = schedule::before_allocation(&mut state.function, plan, offered, context, &environment, state.input.options);
    state.schedule_stats = stats.map_err(internal_error)?;
    let with_trace = state.options().reports.traces(&state.function.name);
    state.report_data.note_schedule(schedule::PHASE_BEFORE_ALLOCATION, &state.function, &state.schedule_stats, with_trace);
    state.history.note_schedule(schedule::PHASE_BEFORE_ALLOCATION, &state.schedule_stats);
    Ok(())
}

/// Pass `allocate`: assigns physical registers and inserts spill code.
pub(super) fn allocate(state: &mut FunctionState<'_>) -> PassOutcome {
    let (environment, options) = (state.environment(), state.input.options);
    registers::retain_valid_definitions(&state.function, &mut state.register_definitions);
    state.report_data.gather_statistics_before_allocation(&state.function, options, state.input.hardware);
    // A second allocation is worth its time only for a scheduled kernel that may need more registers than the register target, the number
    // up to which the occupancy stays the same.
    let before = resident_blocks::may_exceed_register_target(state).then(|| state.function.clone());
    let allocation = convention::allocate(&mut state.function, &environment, options.verify)
        .map_err(|error| vec![limit_error(&state.function, &error)])?;
    let instructions = state.function.inst_count();
    let improved = before.and_then(|before| resident_blocks::allocate(&before, &allocation, instructions, state));
    let mut allocation = match improved {
        Some((function, for_more_blocks)) => {
            state.function = function;
            for_more_blocks
        }
        None => allocation,
    };
    // The number with which a kernel starts that changes it does not depend on its code: the numbers of all warps of a block are related.
    if let Some(counts) = state.input.register_counts {
        allocation.registers_used = counts.initial - HIDDEN_REGISTERS;
    }
    state.allocation = Some(allocation);
    if options.verify {
        check_register_limits(&state.function, &environment).map_err(|what| internal_error(format!("after allocate: {what}")))?;
    }
    Ok(())
}

/// Returns the error for a function that could not be allocated, at the PTX statement of the instruction that needs too many registers.
fn limit_error(function: &Function, error: &AllocateError) -> FunctionError {
    let (what, span) = match *error {
        AllocateError::Limit { inst, file, available } => {
            let start = function.insts[inst].location.statement.checked_sub(1);
            let name = function.insts[inst].op.mnemonic();
            let what = format!("{name} needs more {} registers at once than the {available} that may be used here", file.prefix());
            (what, start.map(|start| Span::new(start, start + 1)))
        }
        _ => (error.to_string(), None),
    };
    FunctionError { span, fault: ErrorCause::Limit(what) }
}

/// Checks that an allocated function is well formed and stays within the register limits.
fn check_register_limits(after: &Function, environment: &AllocationEnvironment) -> Result<(), String> {
    let limit = |file| u16::try_from(environment.limit(file)).unwrap_or(u16::MAX);
    let limits = RegisterLimits {
        general: limit(RegFile::General),
        uniform: limit(RegFile::Uniform),
        predicate: limit(RegFile::Predicate),
        uniform_predicate: limit(RegFile::UniformPredicate),
        convergence: limit(RegFile::Convergence),
        scoreboard: limit(RegFile::Scoreboard),
    };
    verify_allocated(after, &limits).map_err(|report| report.to_string())
}

/// Pass `store-return`: makes the prologue of a function with calls save the return address in the frame.
pub(super) fn save_return_address(state: &mut FunctionState<'_>) -> PassOutcome {
    convention::save_return_address_in_frame(&mut state.function);
    Ok(())
}

/// Pass `return-addresses`: inserts instructions that write the return address before each call, and the instructions of texture fetches by
/// quads (four threads).
pub(super) fn insert_return_addresses(state: &mut FunctionState<'_>) -> PassOutcome {
    convention::write_return_addresses(&mut state.function);
    Ok(())
}

/// Pass `clear-barriers`: inserts instructions that clear callee-saved convergence barriers, where the target needs that.
pub(super) fn clear_barriers(state: &mut FunctionState<'_>) -> PassOutcome {
    let target = state.target();
    convention::clear_barriers(&mut state.function, target);
    Ok(())
}

/// Pass `prologue`: sets up the stack pointer, and saves and restores registers.
pub(super) fn insert_prologue(state: &mut FunctionState<'_>) -> PassOutcome {
    let (target, has_spills) = (state.target(), state.spill_bytes() > 0);
    prologue::run(&mut state.function, target, has_spills).map_err(|excess| vec![FunctionError::from(ErrorCause::TooMuch(excess))])
}

/// Pass `balance-moves`: makes the less busy unit execute copies of registers.
pub(super) fn balance_moves(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::balance::run_on_register_moves(&mut state.function, state.input.hardware, &mut state.input.caches.encodability.borrow_mut());
    Ok(())
}

/// Pass `post-schedule`: reorders instructions within blocks, after register allocation.
pub(super) fn post_schedule(state: &mut FunctionState<'_>) -> PassOutcome {
    let Some(plan) = state.plan else { return Ok(()) };
    let (context, environment) = (state.schedule_context(), state.environment());
    let stats =
        schedule::after_allocation(&mut state.function, plan, context, &environment, state.input.options).map_err(internal_error)?;
    let with_trace = state.options().reports.traces(&state.function.name);
    state.report_data.note_schedule(schedule::PHASE_AFTER_ALLOCATION, &state.function, &stats, with_trace);
    state.history.note_schedule(schedule::PHASE_AFTER_ALLOCATION, &stats);
    Ok(())
}

/// Pass `idle-instructions`: inserts instructions without an effect that ptxas puts into all code for certain GPUs.
pub(super) fn idle_instructions(state: &mut FunctionState<'_>) -> PassOutcome {
    opt::idle_instructions::run(&mut state.function, state.input.hardware.machine);
    Ok(())
}

/// Pass `layout`: removes branches to the next block.
pub(super) fn lay_out(state: &mut FunctionState<'_>) -> PassOutcome {
    state.report_data.record_control_flow(&state.function);
    let keeps_lines = state.options().is_for_debuggers();
    layout::run(&mut state.function, keeps_lines);
    Ok(())
}

/// Pass `settle-products`: inserts waits and fences for the registers of warpgroup matrix products.
pub(super) fn settle_products(state: &mut FunctionState<'_>) -> PassOutcome {
    state.remarks = opt::settle_products::run(&mut state.function);
    Ok(())
}

/// Pass `serial-control`: computes control words with which each instruction completes before the next one issues (-O0).
pub(super) fn assign_serializing_control_words(state: &mut FunctionState<'_>) -> PassOutcome {
    state.controls = Some(serial::assign(&mut state.function, state.input.hardware));
    Ok(())
}

/// Pass `control`: computes the control words: stalls, scoreboards, yields and register reuse.
pub(super) fn control(state: &mut FunctionState<'_>) -> PassOutcome {
    if state.plan.is_some_and(|plan| plan.backend.strategy().tunes_yields()) {
        let warps = state
            .allocation
            .as_ref()
            .map_or(1, |allocation| schedule::resident_warps(allocation, state.launch, state.input.hardware.machine));
        let tuned = tune_yields::run(&mut state.function, state.input.hardware, warps);
        if state.schedule_context().trace {
            state.report_data.trace.push_str(&format!("phase 120: {}\n", tuned.note));
        }
        state.controls = Some(tuned.controls);
        return Ok(());
    }
    state.controls = Some(control_words::run(&mut state.function, state.input.hardware));
    Ok(())
}

/// Pass `encode`: encodes the instructions as machine code.
pub(super) fn encode(state: &mut FunctionState<'_>) -> PassOutcome {
    let Some(controls) = &state.controls else { return Err(internal_error("no control words were computed")) };
    state.report_data.gather_final_statistics(&state.function, controls, state.input.hardware);
    if state.options().tools_patch {
        patches::check(&state.function).map_err(|failure| vec![failure])?;
    }
    let mut code = emit::run(&state.function, controls, state.input.options.target).map_err(internal_error)?;
    code.barrier_sites = barrier_sites::run(&state.function, &barrier_sites::statements(state.input.module, state.input.id));
    code.warp_sites = warp_sites::run(&state.function, state.input.module, state.input.id);
    code.requirements = CodeRequirements::of(&state.function, state.input.module, state.input.id);
    code.register_aliases = std::mem::take(&mut state.register_aliases);
    code.register_ranges = registers::ranges(&state.function, &state.register_definitions);
    // In a function that moves its stack pointer at run time, saved registers have no constant offsets from the stack pointer.
    if !state.selection.has_dynamic_stack {
        code.saved_registers = saved_registers::caller_register_rules(&state.function);
    }
    if state.options().reports.decisions {
        code.spill_code = emit::spill_code_offsets(&state.function);
        code.history = state.history.finish(&state.function, &state.alternatives);
    }
    state.code = Some(code);
    Ok(())
}
