//! The register part of the calling convention: caller-saved and callee-saved registers, and return addresses.
//!
//! `docs/abi.md` describes how the convention was found.

use oriole_hardware::Hardware;
use oriole_ir::{
    Function, FunctionKind, Inst, Op, Opcode, Operand, OperandKind, Pseudo, Reference, ReferenceKind, RegFile, Role, Symbol, Target,
};
use oriole_isa::{Symbols, SystemLayout, TextureHandle};
use oriole_isel::{DYNAMIC_STACK, QuadFetch, RETURN_ADDRESS, RuntimeClobbers, SAVED_STACK_POINTER, is_runtime};
use oriole_regalloc::{AllocateError, Allocation, AllocationEnvironment, Clobbers, Reg, RegisterSet};

pub use crate::abi_registers::STACK_POINTER_REGISTER;
use crate::options::Options;
use crate::quads;

/// Number of the first uniform register that only kernels write; device functions write only registers with lower numbers.
const FIRST_KERNEL_ONLY_UNIFORM_REGISTER: u16 = 36;
/// Number of the first callee-saved convergence barrier; all higher ones are callee-saved too.
const FIRST_CALLEE_SAVED_BARRIER: u16 = 6;
/// Number of the first general register of the range in which the upper four of every eight registers are callee-saved.
const FIRST_PARTLY_CALLEE_SAVED_REG: u16 = 32;
/// Minimum number of general registers that a launch provides for a device function or a function with calls.
pub const MIN_ABI_REGISTERS: u32 = 22;

/// Minimum number of general registers for the register allocator in a function with calls by address, which need a pair of registers
/// besides the fixed ones, and in a runtime function.
pub const MIN_ALLOCATABLE_REGISTERS: u32 = 24;

/// Minimum register limit of a function that calls functions for slow paths. With fewer registers the fixed registers of a call might cause
/// spills that the same code without a call does not need.
const MIN_REGISTERS_FOR_SLOW_PATHS: u32 = 40;

/// Returns whether a function with this register limit calls functions for slow paths (rare cases of an operation). Otherwise each use gets
/// its own copy of the slow path.
pub fn may_call_slow_paths(register_limit: u32, options: &Options) -> bool {
    options.level > 0 && !options.tools_patch && register_limit >= MIN_REGISTERS_FOR_SLOW_PATHS
}

/// Returns whether a general register is callee-saved. The registers of the return address are not, because every call overwrites them;
/// [`save_return_address_in_frame`] decides where a function with calls keeps its own return address.
pub fn is_callee_saved(register: u16) -> bool {
    match register {
        2 | 16..=31 => !is_return_address(register),
        FIRST_PARTLY_CALLEE_SAVED_REG.. => register % 8 >= 4,
        _ => false,
    }
}

/// Returns whether a general register holds half of the return address when a function starts and returns.
pub fn is_return_address(register: u16) -> bool {
    (u16::from(RETURN_ADDRESS)..u16::from(RETURN_ADDRESS) + 2).contains(&register)
}

/// Removes the return address from the SSA values of a device function with calls, so that the prologue saves it in the frame with the
/// callee-saved registers. As a value it would be live across every call, in two callee-saved registers, which the prologue would have to
/// save instead. Also, debuggers find callers only if the return address is in the frame.
///
/// A function whose only callees are runtime functions keeps the value: it may be in registers that those functions do not clobber.
///
/// **Before and after**: SSA form.
pub fn save_return_address_in_frame(function: &mut Function) {
    if function.kind == FunctionKind::Kernel || is_runtime(&function.name) || !has_abi_calls(function) {
        return;
    }
    for block in function.layout.clone() {
        for inst in function.blocks[block].insts.clone() {
            let data = &function.insts[inst];
            if !data.is(Pseudo::Entry) && !data.is(Pseudo::Keep) {
                continue;
            }
            let is_other = |operand: &&Operand| operand.role != Role::Fixed(RETURN_ADDRESS);
            let operands: Vec<Operand> = function.operands(inst).iter().filter(is_other).copied().collect();
            let results = function.results(inst).iter().filter(is_other).count();
            function.set_operands(inst, &operands, results);
        }
    }
}

/// Returns whether a convergence barrier is callee-saved.
pub fn is_callee_saved_barrier(barrier: u16) -> bool {
    barrier >= FIRST_CALLEE_SAVED_BARRIER
}

/// Returns whether a function calls a function that follows the general calling convention. Runtime functions, and texture fetches that the
/// four threads of a quad perform together, do not: they clobber only a few registers.
pub fn has_abi_calls(function: &Function) -> bool {
    let is_special = |name: &str| is_runtime(name) || QuadFetch::parse(name).is_some();
    let is_call = |inst: Inst| function.insts[inst].is_machine(Opcode::CALL) && !function.callee(inst).is_some_and(is_special);
    function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(|&inst| is_call(inst)))
}

/// Returns the registers that a runtime function (a library function of the compiler) clobbers.
fn runtime_clobbers(name: &str) -> Clobbers {
    let RuntimeClobbers { first, count, predicates, first_uniform, uniform } = RuntimeClobbers::of(name);
    let mut general = register_set_where(first..first + count, |_| true);
    general.insert(Reg::from(RETURN_ADDRESS), 2);
    let uniform = register_set_where(first_uniform..first_uniform + uniform, |_| true);
    Clobbers { general, predicates: register_set_where(0..predicates, |_| true), uniform, ..Clobbers::NONE }
}

/// Returns the registers that a texture fetch by the four threads of a quad overwrites.
fn quad_fetch_clobbers() -> Clobbers {
    let results = u16::from(QuadFetch::ABSENT)..u16::from(QuadFetch::COMPONENTS) + 4;
    let mut general = register_set_where(results, |_| true);
    general.insert(Reg::from(QuadFetch::FIRST_SCRATCH), QuadFetch::SCRATCH_COUNT);
    Clobbers { general, predicates: register_set_where(0..u16::from(QuadFetch::PREDICATES), |_| true), ..Clobbers::NONE }
}

/// Returns the environment for allocating registers in a runtime function (a library function of the compiler), which may use exactly the
/// registers that it may clobber. `limit` is the maximum number of general registers.
fn runtime_environment(name: &str, hardware: &Hardware<'_>, limit: u32) -> AllocationEnvironment {
    let mut environment = AllocationEnvironment::new_for_machine(hardware.machine, hardware.target, limit);
    let clobbered = runtime_clobbers(name);
    environment.reserved = Clobbers {
        general: register_set_where(0..256, |register| !clobbered.general.has(Reg::new(register))),
        predicates: register_set_where(0..8, |register| !clobbered.predicates.has(Reg::new(register))),
        uniform: register_set_where(0..64, |register| !clobbered.uniform.has(Reg::new(register))),
        ..Clobbers::ALL
    };
    environment
}

/// Returns the environment for allocating registers in a function: the registers that it may use, and those that its calls overwrite.
/// `limit` is the maximum number of general registers.
pub fn environment(function: &Function, hardware: &Hardware<'_>, limit: u32, has_dynamic_stack: bool) -> AllocationEnvironment {
    if is_runtime(&function.name) {
        return runtime_environment(&function.name, hardware, limit);
    }
    let mut environment = AllocationEnvironment::new_for_machine(hardware.machine, hardware.target, limit);
    let called = function.symbols.iter().filter(|name| is_runtime(name));
    environment.known_callees = called.map(|name| (name.clone(), runtime_clobbers(name))).collect();
    let fetches = function.symbols.iter().filter(|name| QuadFetch::parse(name).is_some());
    environment.known_callees.extend(fetches.map(|name| (name.clone(), quad_fetch_clobbers())));
    if SystemLayout::of(hardware.target).texture_handle == TextureHandle::General {
        // Convergence barriers belong to the warp: while some threads of the warp fetch a texture by quads, other threads may execute any
        // function.
        environment.reserved.barriers.insert(Reg::from(QuadFetch::BARRIER), 1);
    }
    let calls = has_abi_calls(function);
    let is_kernel = function.kind == FunctionKind::Kernel;
    if is_kernel && !calls {
        return environment;
    }
    environment.clobbers = Clobbers { general: register_set_where(0..256, |register| !is_callee_saved(register)), ..Clobbers::ALL };
    environment.clobbers.barriers = register_set_where(0..FIRST_CALLEE_SAVED_BARRIER, |_| true);
    if calls {
        // While some threads of a warp wait on a convergence barrier, others may execute a call, so barriers that calls clobber cannot be
        // used.
        environment.reserved.barriers = environment.reserved.barriers.or(&environment.clobbers.barriers);
    }
    if is_kernel {
        environment.clobbers.uniform = register_set_where(0..FIRST_KERNEL_ONLY_UNIFORM_REGISTER, |_| true);
        // Threads of the warp that do not execute a call may execute other code of the kernel meanwhile. Uniform registers are shared by
        // the whole warp, so a kernel may only use those that device functions do not write.
        environment.reserved.uniform = environment.clobbers.uniform;
    } else {
        environment.uniform_registers = u32::from(FIRST_KERNEL_ONLY_UNIFORM_REGISTER);
    }
    if has_dynamic_stack && calls {
        environment.reserved.general.insert(Reg::from(SAVED_STACK_POINTER), 1);
    }
    environment
}

/// Allocates registers. For a device function without calls, first tries an allocation without callee-saved registers, so that none have to
/// be saved; that allocation is discarded if it spills.
///
/// If `verify` is true, runs the verifier of allocations on the result.
pub fn allocate(function: &mut Function, environment: &AllocationEnvironment, verify: bool) -> Result<Allocation, AllocateError> {
    if function.kind == FunctionKind::Device && !has_abi_calls(function) && !is_runtime(&function.name) {
        let mut caller_saved_only = environment.clone();
        caller_saved_only.reserved.general =
            register_set_where(0..256, |register| is_callee_saved(register) || register >= FIRST_PARTLY_CALLEE_SAVED_REG);
        let mut attempt = function.clone();
        let found = allocate_and_verify(&mut attempt, &caller_saved_only, verify);
        if let Ok(allocation) = found
            && attempt.frame_bytes == function.frame_bytes
        {
            *function = attempt;
            return Ok(allocation);
        }
    }
    allocate_and_verify(function, environment, verify)
}

/// Allocates registers and, if `verify` is true, runs the verifier of allocations on the result.
fn allocate_and_verify(function: &mut Function, environment: &AllocationEnvironment, verify: bool) -> Result<Allocation, AllocateError> {
    let before = verify.then(|| function.clone());
    let allocation = oriole_regalloc::allocate(function, environment)?;
    if let Some(before) = before {
        let found = oriole_regalloc::check::check(&before, function, environment, &allocation);
        found.map_err(|error| AllocateError::Invalid(format!("the checker refuses the allocation: {error}")))?;
    }
    Ok(allocation)
}

/// Returns the registers with numbers in `range` for which `is_member` is true.
fn register_set_where(range: std::ops::Range<u16>, is_member: impl Fn(u16) -> bool) -> RegisterSet {
    let mut set = RegisterSet::EMPTY;
    range.filter(|&register| is_member(register)).for_each(|register| set.insert(Reg::new(register), 1));
    set
}

/// Returns an operand of `count` general registers starting at number `first`.
fn general_operand(first: u8, count: u8) -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::General, first: u16::from(first), count })
}

/// Before each call, inserts moves that write the return address and, in a function with a dynamic stack, the callee's stack pointer. Each
/// call that represents a texture fetch by the threads of a quad is replaced by the instructions of the fetch.
///
/// **Before**: physical registers. **After**: the return address is an operand of every call.
pub fn write_return_addresses(function: &mut Function) {
    let own = function.name.clone();
    for block in function.layout.clone() {
        let has_call = function.blocks[block].insts.iter().any(|&inst| function.insts[inst].is_machine(Opcode::CALL));
        if !has_call {
            continue;
        }
        let symbol = function.symbol(&own);
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut with_addresses: Vec<Inst> = Vec::with_capacity(insts.len() + 4);
        for inst in insts {
            if !function.insts[inst].is_machine(Opcode::CALL) {
                with_addresses.push(inst);
                continue;
            }
            if let Some(fetch) = function.callee(inst).and_then(QuadFetch::parse) {
                quads::expand_quad_fetch(function, inst, fetch, &mut with_addresses);
                continue;
            }
            let location = function.insts[inst].location;
            let write = |function: &mut Function, to: u8, from: Operand, list: &mut Vec<Inst>| {
                let written = function.new_inst(Op::Machine(Opcode::MOV), Symbols::new(), None, &[general_operand(to, 1), from], 1);
                function.insts[written].location = location;
                list.push(written);
            };
            // The caller's own stack pointer is kept in a callee-saved register across the call.
            let is_dynamic = function.sources(inst).iter().any(|source| source.role == Role::Fixed(DYNAMIC_STACK));
            if is_dynamic {
                write(function, SAVED_STACK_POINTER, general_operand(STACK_POINTER_REGISTER, 1), &mut with_addresses);
                write(function, STACK_POINTER_REGISTER, general_operand(DYNAMIC_STACK, 1), &mut with_addresses);
            }
            for (half, kind) in [(0, ReferenceKind::ReturnLow), (1, ReferenceKind::ReturnHigh)] {
                let reference = Reference { symbol, offset: 0, kind };
                write(function, RETURN_ADDRESS + half, reference.into(), &mut with_addresses);
            }
            let mut operands = function.operands(inst).to_vec();
            operands.push(general_operand(RETURN_ADDRESS, 2).with_role(Role::Fixed(RETURN_ADDRESS)));
            let results = function.insts[inst].result_count();
            function.set_operands(inst, &operands, results);
            with_addresses.push(inst);
            if is_dynamic {
                write(function, STACK_POINTER_REGISTER, general_operand(SAVED_STACK_POINTER, 1), &mut with_addresses);
            }
        }
        function.blocks[block].insts = with_addresses;
    }
}

/// On targets before sm_80 (those without `REDUX`), inserts an instruction that clears each callee-saved convergence barrier before the
/// `BSSY` that sets it, as ptxas does on sm_75.
pub fn clear_barriers(function: &mut Function, target: Target) {
    if Opcode::REDUX.exists_on(target) {
        return;
    }
    for block in function.layout.clone() {
        for position in (0..function.blocks[block].insts.len()).rev() {
            let inst = function.blocks[block].insts[position];
            let set = function.results(inst).first().map(|result| result.kind);
            let Some(OperandKind::Register { file: RegFile::Convergence, first, .. }) = set else { continue };
            if function.insts[inst].is_machine(Opcode::BSSY) && is_callee_saved_barrier(first) {
                let barrier = function.results(inst)[0];
                let symbols: Symbols = [".32", ".CLEAR"].iter().filter_map(|modifier| Symbol::find(modifier)).collect();
                let clear = function.new_inst(Op::Machine(Opcode::BMOV), symbols, None, &[Operand::RZ, barrier], 1);
                function.insts[clear].location = function.insts[inst].location;
                function.blocks[block].insts.insert(position, clear);
            }
        }
    }
}
