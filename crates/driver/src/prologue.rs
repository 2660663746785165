//! Inserts prologues and epilogues, which move the stack pointer, and save and restore callee-saved registers.
//!
//! A kernel loads its stack pointer from a constant bank and saves nothing. A device function with calls also saves its return address.
//! From the stack pointer upwards, a frame contains the parameters of calls, variables, spill slots, and saved registers. The caller's
//! frame follows, with the parameters that did not fit into registers.

use oriole_ir::{
    Function, FunctionKind, Inst, MemoryAccess, Op, Opcode, Operand, OperandKind, ReferenceKind, RegFile, Role, Space, Symbol, Target,
};
use oriole_isa::{Symbols, SystemLayout};

use crate::convention::{self, STACK_POINTER_REGISTER};
use crate::error::{LimitedMemory, MemoryExcess};

/// Frame sizes are multiples of this number of bytes, so that data that is aligned in one frame is also aligned in the frames of callees.
const FRAME_SIZE_UNIT_BYTES: u32 = 16;
/// Frame sizes of kernels without calls are multiples of this number of bytes. No other frame depends on the frame of such a kernel, so the
/// unit can be smaller than [`FRAME_SIZE_UNIT_BYTES`].
const KERNEL_FRAME_SIZE_UNIT_BYTES: u32 = 8;
/// Number of a general register that never holds a value at the start of a function or at a return, so that it can be used as a scratch
/// register there.
const SCRATCH_REGISTER: u16 = 0;

/// Inserts the prologue at the start of a function, and an epilogue before every return. Returns an error if the frame is too large for the
/// target. `has_spills` says whether the frame has spill slots.
pub fn run(function: &mut Function, target: Target, has_spills: bool) -> Result<(), MemoryExcess> {
    let is_kernel = function.kind == FunctionKind::Kernel;
    if is_kernel && !uses_stack(function) {
        return Ok(());
    }
    let (registers, barriers) = if is_kernel { (Vec::new(), Vec::new()) } else { registers_to_save(function) };
    let saved_at = function.frame_bytes.next_multiple_of(4);
    let slots = (registers.len() + barriers.len()) as u32;
    let unit = if is_kernel && !convention::has_abi_calls(function) { KERNEL_FRAME_SIZE_UNIT_BYTES } else { FRAME_SIZE_UNIT_BYTES }
        .max(function.frame_align);
    let frame = (u64::from(saved_at) + 4 * u64::from(slots)).next_multiple_of(u64::from(unit));
    let limits = &SystemLayout::of(target).limits;
    let most = if has_spills || slots > 0 { limits.frame_with_slots } else { limits.frame };
    if let Some(excess) = MemoryExcess::find(LimitedMemory::Local, frame, most, is_kernel) {
        return Err(excess);
    }
    let frame = frame as u32;
    function.frame_bytes = frame;
    resolve_incoming_parameters(function, frame);

    let mut prologue = Vec::new();
    if is_kernel {
        let initial = Operand::constant(0, SystemLayout::of(target).stack_pointer);
        prologue.push(new_machine_inst(function, Opcode::LDC, &[], &[general_operand(STACK_POINTER_REGISTER.into()), initial], 1));
    }
    add_to_stack_pointer(function, -i64::from(frame), &mut prologue);
    let mut at = saved_at;
    for &register in &registers {
        prologue.push(store_to_frame(function, at, register));
        at += 4;
    }
    for &barrier in &barriers {
        let operands = [general_operand(SCRATCH_REGISTER), register_operand(RegFile::Convergence, barrier)];
        prologue.push(new_machine_inst(function, Opcode::BMOV, &[".32", ".CLEAR"], &operands, 1));
        prologue.push(store_to_frame(function, at, SCRATCH_REGISTER));
        at += 4;
    }
    let entry = function.entry();
    function.blocks[entry].insts.splice(0..0, prologue);
    for block in function.layout.clone() {
        let insts = &function.blocks[block].insts;
        let Some(position) = insts.iter().position(|&inst| function.insts[inst].is_machine(Opcode::RET)) else { continue };
        let mut epilogue = Vec::new();
        let mut at = saved_at;
        for &register in &registers {
            epilogue.push(load_from_frame(function, at, register));
            at += 4;
        }
        for &barrier in &barriers {
            epilogue.push(load_from_frame(function, at, SCRATCH_REGISTER));
            let operands = [register_operand(RegFile::Convergence, barrier), general_operand(SCRATCH_REGISTER)];
            epilogue.push(new_machine_inst(function, Opcode::BMOV, &[".32"], &operands, 1));
            at += 4;
        }
        add_to_stack_pointer(function, i64::from(frame), &mut epilogue);
        let location = function.insts[function.blocks[block].insts[position]].location;
        epilogue.iter().for_each(|&inst| function.insts[inst].location = location);
        function.blocks[block].insts.splice(position..position, epilogue);
    }
    Ok(())
}

/// Returns an operand that names one register of a register file.
fn register_operand(file: RegFile, first: u16) -> Operand {
    Operand::new(OperandKind::Register { file, first, count: 1 })
}

/// Returns an operand that names one general register.
fn general_operand(first: u16) -> Operand {
    register_operand(RegFile::General, first)
}

/// Creates a machine instruction. The first `results` operands are its results.
fn new_machine_inst(function: &mut Function, opcode: Opcode, modifiers: &[&str], operands: &[Operand], results: usize) -> Inst {
    let symbols: Symbols = modifiers.iter().filter_map(|modifier| Symbol::find(modifier)).collect();
    function.new_inst(Op::Machine(opcode), symbols, None, operands, results)
}

/// Appends an instruction that adds `by` bytes to the stack pointer.
fn add_to_stack_pointer(function: &mut Function, by: i64, list: &mut Vec<Inst>) {
    if by != 0 {
        let pointer = general_operand(STACK_POINTER_REGISTER.into());
        let operands = [pointer, Operand::PT, Operand::PT, pointer, by.into(), Operand::RZ];
        list.push(new_machine_inst(function, Opcode::IADD3, &[], &operands, 3));
    }
}

/// Returns the operands of a frame address: stack pointer plus `offset` bytes.
fn frame_address(offset: u32) -> [Operand; 3] {
    let bracket = |operand: Operand| operand.with_role(Role::Bracket(0));
    let opening = Operand::new(OperandKind::Address(Symbol::NAME_));
    [opening, bracket(general_operand(STACK_POINTER_REGISTER.into())), bracket(Operand::from(offset))]
}

/// Creates a store of a general register to the frame at `offset` bytes from the stack pointer.
fn store_to_frame(function: &mut Function, offset: u32, register: u16) -> Inst {
    let [opening, base, offset] = frame_address(offset);
    let inst = new_machine_inst(function, Opcode::STL, &[], &[opening, base, offset, general_operand(register)], 0);
    mark_as_spill_access(function, inst);
    inst
}

/// Creates a load of a general register from the frame at `offset` bytes from the stack pointer.
fn load_from_frame(function: &mut Function, offset: u32, register: u16) -> Inst {
    let [opening, base, offset] = frame_address(offset);
    let inst = new_machine_inst(function, Opcode::LDL, &[], &[general_operand(register), opening, base, offset], 1);
    mark_as_spill_access(function, inst);
    inst
}

/// Marks a load or store as an access to a spill slot.
fn mark_as_spill_access(function: &mut Function, inst: Inst) {
    let access = function.accesses.push(MemoryAccess::weak(Space::Spill, 4));
    function.insts[inst].memory = Some(access);
}

/// Returns the registers that the prologue has to save, as (general registers, convergence barriers): the callee-saved ones that a function
/// writes, and those of the return address if the function has calls ([`convention::save_return_address_in_frame`]).
fn registers_to_save(function: &Function) -> (Vec<u16>, Vec<u16>) {
    let has_calls = convention::has_abi_calls(function);
    let is_saved = |register: u16| convention::is_callee_saved(register) || has_calls && convention::is_return_address(register);
    let (mut registers, mut barriers) = (Vec::new(), Vec::new());
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    for operand in insts.flat_map(|&inst| function.results(inst)) {
        let OperandKind::Register { file, first, count } = operand.kind else { continue };
        let written = first..first + u16::from(count);
        match file {
            RegFile::General => registers.extend(written.filter(|&register| is_saved(register))),
            RegFile::Convergence => barriers.extend(written.filter(|&barrier| convention::is_callee_saved_barrier(barrier))),
            _ => {}
        }
    }
    for list in [&mut registers, &mut barriers] {
        list.sort_unstable();
        list.dedup();
    }
    (registers, barriers)
}

/// Replaces references to parameters on the caller's stack by offsets from the stack pointer. These parameters are located after this
/// function's frame, whose size in bytes is `frame`.
fn resolve_incoming_parameters(function: &mut Function, frame: u32) {
    for block in function.layout.clone() {
        for inst in function.blocks[block].insts.clone() {
            for operand in function.operands_mut(inst) {
                if let OperandKind::Reference(reference) = operand.kind
                    && reference.kind == ReferenceKind::Incoming
                {
                    operand.kind = OperandKind::Integer(i64::from(frame) + i64::from(reference.offset));
                }
            }
        }
    }
}

/// Returns whether a kernel needs a stack pointer: it has a frame or calls, or an instruction names the stack pointer.
fn uses_stack(function: &Function) -> bool {
    let pointer = general_operand(STACK_POINTER_REGISTER.into());
    let is_stack_pointer = |operand: &Operand| operand.kind == pointer.kind;
    let uses = |inst: &Inst| function.operands(*inst).iter().any(is_stack_pointer);
    function.frame_bytes > 0
        || convention::has_abi_calls(function)
        || function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(uses))
}
