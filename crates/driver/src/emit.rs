//! Encoding: laid-out code to machine words.
//!
//! **Before**: physical registers, final order, control words. **After**: bytes, padded as the loader wants them, with the places
//! that the loader patches ([`Patch`]).

use oriole_ctrl::Controls;
use oriole_ir::{Block, Function, Inst, Opcode, Operand, OperandKind, Reference, ReferenceKind, Role, Target};
use oriole_isa::{Control, Instruction, encode, parse};
use oriole_opt::machine::{describe, machine_instruction};
use oriole_support::Index;

/// Bytes of an instruction.
pub const INSTRUCTION_BYTES: usize = 16;
/// Code is padded to a multiple of this.
const CODE_ALIGN: usize = 128;

/// The code of a function.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Machine code.
    pub bytes: Vec<u8>,
    /// Offsets of `EXIT`.
    pub exits: Vec<u32>,
    /// Offsets of calls through pointers.
    pub indirect_calls: Vec<u32>,
    /// Places that need an address.
    pub patches: Vec<Patch>,
    /// How many instructions there are, padding excluded.
    pub instructions: usize,
    /// Offset of each instruction with a source location.
    pub locations: Vec<(u32, oriole_ir::Location)>,
}

/// An address to be filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patch {
    /// Offset of the instruction.
    pub offset: u32,
    /// What it refers to.
    pub reference: Reference,
}

/// Encodes a function.
pub fn run(function: &Function, controls: &Controls, target: Target) -> Result<Code, String> {
    let offsets = block_offsets(function);
    let mut code = Code::default();
    for &block in &function.layout {
        let insts = &function.blocks[block].insts;
        for (position, &inst) in insts.iter().enumerate() {
            let offset = code.bytes.len() as u32;
            code.note(function, inst, offset, || behind_call(function, &insts[position..], offset));
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
    pad(&mut code.bytes, target)?;
    Ok(code)
}

/// The offset of what follows the next call, from an instruction at `offset` on.
fn behind_call(function: &Function, insts: &[Inst], offset: u32) -> u32 {
    let is_call = |inst: &Inst| function.insts[*inst].is_machine(Opcode::CALL);
    insts.iter().position(is_call).map_or(0, |count| offset + ((count + 1) * INSTRUCTION_BYTES) as u32)
}

fn block_offsets(function: &Function) -> Vec<u32> {
    let mut offsets = vec![0; function.blocks.len()];
    let mut at = 0;
    for &block in &function.layout {
        offsets[block.position()] = at;
        at += (function.blocks[block].insts.len() * INSTRUCTION_BYTES) as u32;
    }
    offsets
}

impl Code {
    /// `behind_call` finds the offset of what follows the next call.
    fn note(&mut self, function: &Function, inst: Inst, offset: u32, behind_call: impl Fn() -> u32) {
        let data = &function.insts[inst];
        if data.is_machine(Opcode::EXIT) {
            self.exits.push(offset);
        }
        let by_register = |operand: &Operand| operand.role == Role::Plain && matches!(operand.kind, OperandKind::Register { .. });
        if data.is_machine(Opcode::CALL) && function.sources(inst).iter().any(by_register) {
            self.indirect_calls.push(offset);
        }
        if data.location.statement != 0 {
            self.locations.push((offset, data.location));
        }
        self.patches.extend(function.operands(inst).iter().filter_map(|operand| match operand.kind {
            OperandKind::Reference(reference) => {
                let part = match reference.kind {
                    ReferenceKind::ReturnLow => Some(ReferenceKind::Low),
                    ReferenceKind::ReturnHigh => Some(ReferenceKind::High),
                    _ => None,
                };
                let to_here = |kind| Reference { kind, offset: behind_call() as i32, ..reference };
                Some(Patch { offset, reference: part.map_or(reference, to_here) })
            }
            _ => None,
        }));
    }
}

/// An endless loop behind the last instruction, as the hardware fetches ahead, and nothing up to the alignment.
fn pad(bytes: &mut Vec<u8>, target: Target) -> Result<(), String> {
    bytes.extend(self_branch(target)?.to_le_bytes());
    let nop = Instruction { control: IDLE, ..parse("NOP").map_err(|error| error.to_string())? };
    let nop = encode(&nop, target).map_err(|error| error.to_string())?;
    while !bytes.len().is_multiple_of(CODE_ALIGN) {
        bytes.extend(nop.to_le_bytes());
    }
    Ok(())
}

/// The control word of what is never executed.
const IDLE: Control = Control { stall: 0, stay: false, write_barrier: None, read_barrier: None, wait: 0, reuse: 0 };

/// A branch to itself.
fn self_branch(target: Target) -> Result<u128, String> {
    let mut branch = parse("BRA 0x0").map_err(|error| error.to_string())?;
    for operand in &mut branch.operands {
        if matches!(operand.value, oriole_isa::Value::Place(_) | oriole_isa::Value::Integer(_) | oriole_isa::Value::Relative(_)) {
            operand.value = oriole_isa::Value::Relative(-(INSTRUCTION_BYTES as i64));
        }
    }
    branch.control = IDLE;
    encode(&branch, target).map_err(|error| error.to_string())
}
