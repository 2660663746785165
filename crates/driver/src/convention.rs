//! The calling convention where registers are concerned: what calls change, what functions give back, return addresses.
//!
//! `docs/abi.md` says how this was found.

use oriole_ir::{File, Function, FunctionKind, Inst, Op, Opcode, Operand, OperandKind, Reference, ReferenceKind, Role, Symbol, Target};
use oriole_isa::Symbols;
use oriole_isel::{DYNAMIC_STACK, FIRST_LOST, KEPT_STACK, LOST, LOST_PREDICATES, RETURN_ADDRESS, is_runtime, runtime_names};
use oriole_regalloc::{AllocateError, Allocation, Clobbers, Environment, RegisterSet};

/// Uniform registers from this one on are kernels' own: functions do not touch them.
const FIRST_KERNEL_UNIFORM: u16 = 36;
/// Convergence barriers from this one on survive calls.
const FIRST_KEPT_BARRIER: u16 = 6;
/// From this register on, the upper four of every eight survive calls.
const FIRST_MIXED: u16 = 32;
/// General registers that a function, and whoever calls one, has at least.
pub const FEWEST_REGISTERS: u32 = 22;

/// General registers that fixed operands of calls name.
pub const FEWEST_TO_ALLOCATE: u32 = 24;

/// Whether a general register has its old value after a call. The return address is set for every call.
pub fn is_kept(register: u16) -> bool {
    match register {
        2 | 16..=31 => !is_return_address(register),
        FIRST_MIXED.. => register % 8 >= 4,
        _ => false,
    }
}

fn is_return_address(register: u16) -> bool {
    (u16::from(RETURN_ADDRESS)..u16::from(RETURN_ADDRESS) + 2).contains(&register)
}

/// Whether a convergence barrier is as before after a call.
pub fn is_kept_barrier(barrier: u16) -> bool {
    barrier >= FIRST_KEPT_BARRIER
}

/// Whether a function calls something that may use all registers a function may.
pub fn calls_something(function: &Function) -> bool {
    let is_call = |inst: Inst| function.insts[inst].is_machine(Opcode::CALL) && !function.callee(inst).is_some_and(is_runtime);
    function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(|&inst| is_call(inst)))
}

/// What functions of the runtime change.
fn runtime_clobbers() -> Clobbers {
    let mut general = set(FIRST_LOST..FIRST_LOST + LOST, |_| true);
    general.insert(u16::from(RETURN_ADDRESS), 2);
    Clobbers { general, predicates: set(0..LOST_PREDICATES, |_| true), ..Clobbers::NONE }
}

/// The registers for a function of the runtime.
fn runtime_environment(target: Target, limit: u32) -> Environment {
    let mut environment = Environment::new(target, limit);
    let lost = runtime_clobbers();
    environment.reserved = Clobbers {
        general: set(0..256, |register| !lost.general.has(register)),
        predicates: set(0..8, |register| !lost.predicates.has(register)),
        ..Clobbers::ALL
    };
    environment
}

/// The registers for a function.
pub fn environment(function: &Function, target: Target, limit: u32, has_dynamic_stack: bool) -> Environment {
    if is_runtime(&function.name) {
        return runtime_environment(target, limit);
    }
    let mut environment = Environment::new(target, limit);
    environment.known = runtime_names().map(|name| (name.to_owned(), runtime_clobbers())).collect();
    let calls = calls_something(function);
    let is_kernel = function.kind == FunctionKind::Kernel;
    if is_kernel && !calls {
        return environment;
    }
    environment.clobbers = Clobbers { general: set(0..256, |register| !is_kept(register)), ..Clobbers::ALL };
    environment.clobbers.barriers = set(0..FIRST_KEPT_BARRIER, |_| true);
    if calls {
        // Threads wait at barriers while others call: those that calls change would be no use.
        environment.reserved.barriers = environment.clobbers.barriers;
    }
    if is_kernel {
        environment.clobbers.uniform = set(0..FIRST_KERNEL_UNIFORM, |_| true);
        // Threads that do not take part in a call run at other places meanwhile: what they find in uniform registers must be
        // what functions do not touch.
        environment.reserved.uniform = environment.clobbers.uniform;
    } else {
        environment.uniform_registers = u32::from(FIRST_KERNEL_UNIFORM);
    }
    if has_dynamic_stack && calls {
        environment.reserved.general.insert(u16::from(KEPT_STACK), 1);
    }
    environment
}

/// Allocates registers. A function that calls nothing gets by without those that its caller wants back, if it can.
///
/// `verify` has the result checked.
pub fn allocate(function: &mut Function, environment: &Environment, verify: bool) -> Result<Allocation, AllocateError> {
    if function.kind == FunctionKind::Device && !calls_something(function) && !is_runtime(&function.name) {
        let mut modest = environment.clone();
        modest.reserved.general = set(0..256, |register| is_kept(register) || register >= FIRST_MIXED);
        let mut attempt = function.clone();
        let found = allocate_checked(&mut attempt, &modest, verify);
        if let Ok(allocation) = found
            && attempt.frame_bytes == function.frame_bytes
        {
            *function = attempt;
            return Ok(allocation);
        }
    }
    allocate_checked(function, environment, verify)
}

fn allocate_checked(function: &mut Function, environment: &Environment, verify: bool) -> Result<Allocation, AllocateError> {
    let before = verify.then(|| function.clone());
    let allocation = oriole_regalloc::allocate(function, environment)?;
    if let Some(before) = before {
        let found = oriole_regalloc::check::check(&before, function, environment, &allocation);
        found.map_err(|error| AllocateError::Invalid(format!("the checker refuses the allocation: {error}")))?;
    }
    Ok(allocation)
}

fn set(range: std::ops::Range<u16>, is_member: impl Fn(u16) -> bool) -> RegisterSet {
    let mut set = RegisterSet::EMPTY;
    range.filter(|&register| is_member(register)).for_each(|register| set.insert(register, 1));
    set
}

fn register(first: u8, count: u8) -> Operand {
    Operand::new(OperandKind::Register { file: File::General, first: u16::from(first), count })
}

/// Puts the return address, and the stack pointer where it is not a fixed one, into their registers before each call.
///
/// **Before**: physical registers. **After**: the return address belongs to the operands of every call.
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
            let location = function.insts[inst].location;
            let write = |function: &mut Function, to: u8, from: Operand, list: &mut Vec<Inst>| {
                let written = function.new_inst(Op::Machine(Opcode::MOV), Symbols::new(), None, &[register(to, 1), from], 1);
                function.insts[written].location = location;
                list.push(written);
            };
            let is_dynamic = function.sources(inst).iter().any(|source| source.role == Role::Fixed(DYNAMIC_STACK));
            if is_dynamic {
                write(function, KEPT_STACK, register(STACK_POINTER, 1), &mut with_addresses);
                write(function, STACK_POINTER, register(DYNAMIC_STACK, 1), &mut with_addresses);
            }
            for (half, kind) in [(0, ReferenceKind::ReturnLow), (1, ReferenceKind::ReturnHigh)] {
                let reference = Reference { symbol, offset: 0, kind };
                write(function, RETURN_ADDRESS + half, reference.into(), &mut with_addresses);
            }
            let mut operands = function.operands(inst).to_vec();
            operands.push(register(RETURN_ADDRESS, 2).with_role(Role::Fixed(RETURN_ADDRESS)));
            let results = function.insts[inst].result_count();
            function.set_operands(inst, &operands, results);
            with_addresses.push(inst);
            if is_dynamic {
                write(function, STACK_POINTER, register(KEPT_STACK, 1), &mut with_addresses);
            }
        }
        function.blocks[block].insts = with_addresses;
    }
}

/// On targets of the first kind, clears barriers that survive calls before they are set.
pub fn clear_barriers(function: &mut Function, target: Target) {
    if target.has(Opcode::REDUX) {
        return;
    }
    for block in function.layout.clone() {
        for position in (0..function.blocks[block].insts.len()).rev() {
            let inst = function.blocks[block].insts[position];
            let set = function.results(inst).first().map(|result| result.kind);
            let Some(OperandKind::Register { file: File::Convergence, first, .. }) = set else { continue };
            if function.insts[inst].is_machine(Opcode::BSSY) && is_kept_barrier(first) {
                let barrier = function.results(inst)[0];
                let symbols: Symbols = [".32", ".CLEAR"].iter().filter_map(|modifier| Symbol::find(modifier)).collect();
                let clear = function.new_inst(Op::Machine(Opcode::BMOV), symbols, None, &[Operand::RZ, barrier], 1);
                function.insts[clear].location = function.insts[inst].location;
                function.blocks[block].insts.insert(position, clear);
            }
        }
    }
}

/// The stack pointer.
pub const STACK_POINTER: u8 = 1;
