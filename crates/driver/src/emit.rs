//! Encodes a function into machine code.
//!
//! **Before**: physical registers, final order, control words. **After**: bytes, padded as the loader requires, and the list of
//! instructions that need a relocation ([`AddressPatch`]).

use oriole_ctrl::ControlWords;
use oriole_cubin::build::SavedRule;
use oriole_cubin::info::{Mbarrier, SPARSE_MMA};
use oriole_ir::machine::{describe, machine_instruction};
use oriole_ir::{Block, Function, Inst, Location, Opcode, Operand, OperandKind, Reference, ReferenceKind, RegFile, Role, Space, Target};
use oriole_isa::{Control, INSTRUCTION_BYTES, Instruction, Memory, encode, parse};
use oriole_support::Index;

use crate::compat::CodeRequirements;
use crate::debug::location_lists::RegisterAlias;
use crate::debug::registers::RegisterRange;
use crate::history::InstHistory;
use crate::warp_sites::WarpSites;

/// Alignment of code in bytes: the code of a function is padded to a multiple of this number.
const CODE_ALIGN_BYTES: usize = 128;

/// The machine code of a function. Offsets are in bytes from its start.
#[derive(Clone, Debug, Default)]
pub struct EmittedCode {
    /// The bytes of the machine code, including padding.
    pub bytes: Vec<u8>,
    /// Byte offsets of the `EXIT` instructions.
    pub exits: Vec<u32>,
    /// Byte offsets of calls through pointers.
    pub indirect_calls: Vec<u32>,
    /// Instructions that contain an address to be filled in.
    pub patches: Vec<AddressPatch>,
    /// Bit mask of the kinds of sparse matrix-multiply instructions in the function: bit n stands for entry n of [`SPARSE_MMA`].
    pub sparse_mma_mask: u16,
    /// Whether the function has instructions that access tensor memory.
    pub accesses_tensor_memory: bool,
    /// The instructions that operate on barriers in shared memory.
    pub barrier_sites: Vec<Mbarrier>,
    /// The instructions that the threads of a warp execute together.
    pub warp_sites: WarpSites,
    /// What the code requires of a GPU, for the attributes of the file.
    pub requirements: CodeRequirements,
    /// Whether the code has convergence barriers.
    pub has_convergence_barriers: bool,
    /// Number of instructions, without padding.
    pub instructions: usize,
    /// Byte offset and source location of each instruction. Instructions at the start of the function that belong to no PTX instruction
    /// have no entry.
    pub locations: Vec<(u32, Location)>,
    /// Changes of the stack pointer, as pairs (byte offset in the code, depth in bytes): from this offset on, the stack pointer is `depth`
    /// bytes below its value at the function's entry.
    pub stack_depths: Vec<(u32, u32)>,
    /// For each point of the code, the locations of the values that callee-saved registers and the return address had at the entry, for
    /// debuggers.
    pub saved_registers: Vec<SavedRule>,
    /// The address ranges in which machine registers hold PTX registers; empty unless requested.
    pub register_ranges: Vec<RegisterRange>,
    /// The PTX statements at which location lists name a PTX register that does not hold the variable; empty unless requested.
    pub register_aliases: Vec<RegisterAlias>,
    /// Byte offsets, from the start of the function, of the instructions that access spill slots; empty unless requested.
    pub spill_code: Vec<u32>,
    /// For each instruction, in the order of the code: the passes and decisions that determined its form and position; empty unless
    /// requested.
    pub history: Vec<InstHistory>,
}

/// An instruction that contains an address which the linker or loader fills in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressPatch {
    /// Offset of the instruction in bytes from the start of the function.
    pub offset: u32,
    /// The symbol whose address the instruction contains, and which part of the address.
    pub reference: Reference,
}

/// Encodes a function. Returns an error message if an instruction has no encoding; that would be a bug of an earlier pass.
pub fn run(function: &Function, controls: &ControlWords, target: Target) -> Result<EmittedCode, String> {
    let offsets = block_byte_offsets(function);
    let following = following_locations(function);
    let mut code = EmittedCode::default();
    for (&block, following) in function.layout.iter().zip(following) {
        let insts = &function.blocks[block].insts;
        let locations = inst_locations(function, block, following);
        for (position, &inst) in insts.iter().enumerate() {
            let offset = code.bytes.len() as u32;
            code.locations.extend(locations[position].map(|location| (offset, location)));
            code.record_stack_depth(function, inst, offset);
            code.record_inst(function, inst, offset, || return_address_offset(function, &insts[position..], offset));
            if code.patches.last().is_some_and(|patch| patch.reference.kind == ReferenceKind::Incoming) {
                return Err(format!("a parameter on the stack has no place in {}", describe(function, inst)));
            }
            let encoded = || {
                let distance = |target: Block| i64::from(offsets[target.position()]) - i64::from(offset) - INSTRUCTION_BYTES as i64;
                let machine = Instruction { control: controls.get(inst), ..machine_instruction(function, inst, &distance) };
                encode(&machine, target).map_err(|error| format!("{error}; the instruction is {}", describe(function, inst)))
            };
            let word = controls.encoded(inst).map_or_else(encoded, Ok)?;
            code.bytes.extend(word.to_le_bytes());
        }
    }
    code.instructions = code.bytes.len() / INSTRUCTION_BYTES;
    append_padding(&mut code.bytes, target)?;
    Ok(code)
}

/// Returns the return address of the first call in `insts`, the remaining instructions of a block: the byte offset in the function of the
/// instruction after the call. Returns 0 if there is no call. `offset` is the byte offset of the first instruction of `insts`.
fn return_address_offset(function: &Function, insts: &[Inst], offset: u32) -> u32 {
    let is_call = |inst: &Inst| function.insts[*inst].is_machine(Opcode::CALL);
    insts.iter().position(is_call).map_or(0, |count| offset + ((count + 1) * INSTRUCTION_BYTES) as u32)
}

/// Returns the byte offsets in the function of the instructions that access spill slots.
pub fn spill_code_offsets(function: &Function) -> Vec<u32> {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let is_spill = |inst: &Inst| {
        let memory = function.insts[*inst].memory;
        memory.is_some_and(|id| function.accesses[id].space == Space::Spill)
    };
    insts.enumerate().filter(|(_, inst)| is_spill(inst)).map(|(number, _)| (number * INSTRUCTION_BYTES) as u32).collect()
}

/// Returns the offset of each block in bytes from the start of the function, by block index.
fn block_byte_offsets(function: &Function) -> Vec<u32> {
    let mut offsets = vec![0; function.blocks.len()];
    let mut at = 0;
    for &block in &function.layout {
        offsets[block.position()] = at;
        at += (function.blocks[block].insts.len() * INSTRUCTION_BYTES) as u32;
    }
    offsets
}

/// Returns the source location of an instruction; `None` if it has none.
fn own_location(function: &Function, inst: Inst) -> Option<Location> {
    Some(function.insts[inst].location).filter(|location| location.statement != 0)
}

/// Returns, for each block of the layout, the source location of the first instruction after the block that has one; `None` if there is
/// none.
fn following_locations(function: &Function) -> Vec<Option<Location>> {
    let mut next = None;
    let mut following: Vec<Option<Location>> = Vec::with_capacity(function.layout.len());
    for &block in function.layout.iter().rev() {
        following.push(next);
        next = function.blocks[block].insts.iter().find_map(|&inst| own_location(function, inst)).or(next);
    }
    following.reverse();
    following
}

/// Returns the source location of each instruction of a block. An instruction without a location gets that of the next instruction of the
/// block that has one, which it usually prepares, or else that of the previous one. In a block without any location, such as one with moves
/// before a join, all instructions get `following`, the location of the code after the block. Instructions at the start of the function,
/// before the first one with a location, get none.
fn inst_locations(function: &Function, block: Block, following: Option<Location>) -> Vec<Option<Location>> {
    let mut locations: Vec<Option<Location>> = function.blocks[block].insts.iter().map(|&inst| own_location(function, inst)).collect();
    let is_entry = function.layout.first() == Some(&block);
    let first = if is_entry { locations.iter().position(Option::is_some).unwrap_or(locations.len()) } else { 0 };
    let mut next = if locations.iter().all(Option::is_none) { following } else { None };
    for location in locations[first..].iter_mut().rev() {
        next = location.or(next);
        *location = next;
    }
    let mut previous = None;
    for location in &mut locations[first..] {
        previous = location.or(previous);
        *location = previous;
    }
    locations
}

impl EmittedCode {
    /// Records a change of the stack depth after the instruction at `offset`. A prologue or epilogue moves the stack pointer by the size of
    /// the frame. Code after a return is reached from before the epilogue, where the frame still exists.
    fn record_stack_depth(&mut self, function: &Function, inst: Inst, offset: u32) {
        let (frame, data) = (function.frame_bytes, &function.insts[inst]);
        let depth = if data.is_machine(Opcode::IADD3) {
            let is_stack_pointer = |operand: &Operand| operand.kind == OperandKind::Register { file: RegFile::General, first: 1, count: 1 };
            let moves = function.results(inst).first().is_some_and(is_stack_pointer);
            match function.sources(inst) {
                [base, by, ..] if moves && is_stack_pointer(base) => match by.kind {
                    OperandKind::Integer(by) if by == -i64::from(frame) => frame,
                    OperandKind::Integer(by) if by == i64::from(frame) => 0,
                    _ => return,
                },
                _ => return,
            }
        } else if data.is_machine(Opcode::RET) && frame > 0 && !self.stack_depths.is_empty() {
            frame
        } else {
            return;
        };
        self.stack_depths.push((offset + INSTRUCTION_BYTES as u32, depth));
    }

    /// Records the instruction at byte `offset` of the function if it is an exit or an indirect call, or contains an address to be filled
    /// in. `return_address_offset` returns the byte offset to which the next call returns; it is the address in operands that refer to the
    /// return address.
    fn record_inst(&mut self, function: &Function, inst: Inst, offset: u32, return_address_offset: impl Fn() -> u32) {
        let data = &function.insts[inst];
        if data.is_machine(Opcode::EXIT) {
            self.exits.push(offset);
        }
        self.has_convergence_barriers |= data.is_machine(Opcode::BSSY);
        let by_register = |operand: &Operand| operand.role == Role::Plain && matches!(operand.kind, OperandKind::Register { .. });
        if data.is_machine(Opcode::CALL) && function.sources(inst).iter().any(by_register) {
            self.indirect_calls.push(offset);
        }
        self.sparse_mma_mask |= sparse_mma_bit(function, inst);
        let accesses_tensor_memory = |opcode: Opcode| opcode.properties().memory == Memory::Tensor || opcode == Opcode::UTCBAR;
        self.accesses_tensor_memory |= data.op.machine().is_some_and(accesses_tensor_memory);
        self.patches.extend(function.operands(inst).iter().filter_map(|operand| match operand.kind {
            OperandKind::Reference(reference) => {
                let part = match reference.kind {
                    ReferenceKind::ReturnLow => Some(ReferenceKind::Low),
                    ReferenceKind::ReturnHigh => Some(ReferenceKind::High),
                    _ => None,
                };
                let to_here = |kind| Reference { kind, offset: return_address_offset() as i32, ..reference };
                Some(AddressPatch { offset, reference: part.map_or(reference, to_here) })
            }
            _ => None,
        }));
    }
}

/// The bit in [`EmittedCode::sparse_mma_mask`] for sparse matrix products with operands in tensor memory, which have the same opcodes as
/// dense ones.
pub const SPARSE_TENSOR_MEMORY_BIT: u16 = 1 << 6;

/// Returns the bit of a sparse matrix-multiply instruction in [`EmittedCode::sparse_mma_mask`]; 0 for other instructions.
fn sparse_mma_bit(function: &Function, inst: Inst) -> u16 {
    let data = &function.insts[inst];
    if !data.modifiers.iter().any(|modifier| modifier.spelling() == ".SP") {
        return 0;
    }
    let names = |opcode: Opcode| format!("{}.SP", opcode.mnemonic());
    let bit = data.op.machine().and_then(|opcode| SPARSE_MMA.iter().position(|&name| name == names(opcode)));
    bit.map_or(0, |bit| 1 << bit)
}

/// Appends an endless loop of one branch, because the hardware fetches instructions beyond the last one, and pads the code with `NOP`s to a
/// multiple of [`CODE_ALIGN_BYTES`] bytes.
fn append_padding(bytes: &mut Vec<u8>, target: Target) -> Result<(), String> {
    bytes.extend(encode_self_branch(target)?.to_le_bytes());
    let nop = Instruction { control: PADDING_CONTROL, ..parse("NOP").map_err(|error| error.to_string())? };
    let nop = encode(&nop, target).map_err(|error| error.to_string())?;
    while !bytes.len().is_multiple_of(CODE_ALIGN_BYTES) {
        bytes.extend(nop.to_le_bytes());
    }
    Ok(())
}

/// The control word of padding instructions, which are never executed.
const PADDING_CONTROL: Control = Control { stall: 0, stay: false, write_barrier: None, read_barrier: None, wait: 0, reuse: 0 };

/// Returns the encoding of a branch instruction that branches to itself.
fn encode_self_branch(target: Target) -> Result<u128, String> {
    let mut branch = parse("BRA 0x0").map_err(|error| error.to_string())?;
    for operand in &mut branch.operands {
        if matches!(
            operand.value,
            oriole_isa::OperandValue::Place(_) | oriole_isa::OperandValue::Integer(_) | oriole_isa::OperandValue::Relative(_)
        ) {
            operand.value = oriole_isa::OperandValue::Relative(-(INSTRUCTION_BYTES as i64));
        }
    }
    branch.control = PADDING_CONTROL;
    encode(&branch, target).map_err(|error| error.to_string())
}
