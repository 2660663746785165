//! Splits the code of cubins into straight-line runs of instructions.

use std::collections::BTreeSet;

use oriole_cubin::Cubin;
use oriole_isa::{Access, Accesses, Effect, Instruction, OperandValue, RegFile, Target, accesses, decode};
use smallvec::SmallVec;

/// An instruction with its register accesses.
pub struct Step {
    pub instruction: Instruction,
    pub accesses: Accesses,
    /// Scoreboards that it waits for, by its control word or because it is a `DEPBAR`.
    pub waits: u8,
    /// For each operand, its index among the sources or among the destinations.
    pub slots: SmallVec<[u8; 6]>,
}

/// A straight-line run of instructions.
pub struct Run {
    pub steps: Vec<Step>,
}

const WORD_BYTES: usize = 16;

/// Returns the runs of all functions of a cubin.
pub fn runs(cubin: &Cubin, target: Target) -> Result<Vec<Run>, String> {
    let mut all = Vec::new();
    for function in cubin.functions() {
        let mut instructions = Vec::with_capacity(function.code.len() / WORD_BYTES);
        for (number, bytes) in function.code.chunks_exact(WORD_BYTES).enumerate() {
            let word = u128::from_le_bytes(bytes.try_into().map_err(|_| "a word of 16 bytes")?);
            let found = decode(word, target).ok_or_else(|| format!("{}: unknown word {word:#034x} at {number}", function.name))?;
            instructions.push(found);
        }
        split(instructions, &mut all);
    }
    Ok(all)
}

/// Splits the instructions of a function at the starts of runs.
fn split(instructions: Vec<Instruction>, runs: &mut Vec<Run>) {
    let starts = starts(&instructions);
    let mut steps = Vec::new();
    for (number, instruction) in instructions.into_iter().enumerate() {
        if starts.contains(&number) && !steps.is_empty() {
            runs.push(Run { steps: std::mem::take(&mut steps) });
        }
        steps.push(step(instruction));
    }
    if !steps.is_empty() {
        runs.push(Run { steps });
    }
}

/// Returns the starts of runs: branch targets, and instructions after a branch.
fn starts(instructions: &[Instruction]) -> BTreeSet<usize> {
    let mut starts = BTreeSet::new();
    for (number, instruction) in instructions.iter().enumerate() {
        for operand in &instruction.operands {
            if let OperandValue::Relative(bytes) = operand.value {
                let target = (number as i64 + 1) + bytes / WORD_BYTES as i64;
                if let Ok(target) = usize::try_from(target) {
                    starts.insert(target);
                }
            }
        }
        let mnemonic = instruction.opcode.mnemonic();
        if instruction.opcode.properties().effect == Effect::Control && !matches!(mnemonic, "BSSY" | "BREAK") {
            starts.insert(number + 1);
        }
    }
    starts
}

/// Computes accesses, waits and operand indices of an instruction.
pub fn step(instruction: Instruction) -> Step {
    let mut waits = instruction.control.wait;
    if instruction.opcode.mnemonic() == "DEPBAR" {
        for operand in &instruction.operands {
            match operand.value {
                OperandValue::Register(RegFile::Scoreboard, Some(number)) => waits |= 1 << number,
                OperandValue::Set(set) => waits |= set as u8,
                _ => {}
            }
        }
    }
    let (mut read, mut written) = (0, 0);
    let slots = instruction
        .written()
        .iter()
        .map(|&is_written| {
            let counter: &mut u8 = if is_written { &mut written } else { &mut read };
            *counter += 1;
            *counter - 1
        })
        .collect();
    let accesses = accesses(&instruction);
    Step { instruction, accesses, waits, slots }
}

impl Step {
    /// Returns the index of an access among the sources or the destinations; `None` for the guard.
    pub fn slot(&self, access: &Access) -> Option<u8> {
        access.operand().map(|operand| self.slots[operand])
    }
}
