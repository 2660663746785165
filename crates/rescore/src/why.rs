//! Explains control words: runs the analysis of `ctrl` on decoded code and describes its reasons in words.

use oriole_ctrl::flow::reasons::{Reasons, describe_stall, describe_wait, stall_first};
use oriole_ctrl::flow::waits::{Wait, WaitedEvent as Awaited};
use oriole_ctrl::flow::{Code, assign_with_reasons};
use oriole_cubin::Index;
use oriole_hardware::Hardware;
use oriole_isa::{Control, Instruction, Target, decode};

use crate::graph::{FileInfo, build};
use crate::{Obstacle, SIZE, entries, indirect_branches, relocated};

/// The explanation of one instruction's control word.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The control word that the analysis computes.
    pub control: Control,
    /// One line for each field that is not idle.
    pub lines: Vec<String>,
}

/// Explains every instruction of a function. The result does not depend on the address of the function in the file.
pub fn explain(index: &Index<'_>, function: &oriole_cubin::Function<'_>, target: Target) -> Result<Vec<Explained>, Obstacle> {
    let (words, tail) = function.code.as_chunks::<SIZE>();
    if !tail.is_empty() {
        return Err(Obstacle::NotWhole);
    }
    let read = |(at, word): (usize, &[u8; SIZE])| {
        let mut instruction = decode(u128::from_le_bytes(*word), target).ok_or(Obstacle::Unknown { at: at as u64 })?;
        instruction.operands.iter_mut().for_each(|operand| operand.reuse = false);
        Ok(instruction)
    };
    let instructions: Vec<Instruction> = words.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let branches = indirect_branches(index, function.name);
    let relocated = relocated(index, function.section);
    let file = FileInfo {
        entries: entries(index, function.section),
        indirect: &|number| branches.get(&number).cloned(),
        is_relocated: &|number| relocated.binary_search(&number).is_ok(),
    };
    let graph = build(&instructions, &file)?;
    let code = Code { instructions: &instructions, blocks: graph.blocks };
    let (controls, reasons) = assign_with_reasons(&code, &Hardware::built_in(target));
    let by_second = reasons.waits_by_second(instructions.len());
    let mut by_first: Vec<Vec<Wait>> = vec![Vec::new(); instructions.len()];
    reasons.waits.iter().for_each(|wait| by_first[wait.first as usize].push(*wait));
    let narrator = Narrator { instructions: &instructions, controls: &controls, reasons: &reasons };
    let explained = controls
        .iter()
        .enumerate()
        .map(|(number, &control)| Explained { control, lines: narrator.lines(number, &by_second[number], &by_first[number]) });
    Ok(explained.collect())
}

/// Formats the explanations.
struct Narrator<'a> {
    instructions: &'a [Instruction],
    controls: &'a [Control],
    reasons: &'a Reasons,
}

impl Narrator<'_> {
    /// Returns the mnemonic and byte offset of an instruction.
    fn name(&self, number: usize) -> String {
        format!("{} at {:#06x}", self.instructions[number].opcode.mnemonic(), number * SIZE)
    }

    /// Returns the scoreboard that a wait is for.
    fn board(&self, wait: &Wait) -> Option<u8> {
        let control = self.controls[wait.first as usize];
        if wait.part == Awaited::Results { control.write_barrier } else { control.read_barrier }
    }

    /// Returns the lines for an instruction. `kept` lists the waits that it performs, `given` the waits that other instructions perform for
    /// it.
    fn lines(&self, number: usize, kept: &[Wait], given: &[Wait]) -> Vec<String> {
        let control = self.controls[number];
        let mut lines = Vec::new();
        for wait in kept {
            if let Some(board) = self.board(wait).filter(|board| control.wait >> board & 1 == 1) {
                lines.push(format!("B{board}: {}", describe_wait(wait, &self.instructions[number], &self.name(wait.first as usize))));
            }
        }
        for (part, letter, board) in [(Awaited::Reads, 'R', control.read_barrier), (Awaited::Results, 'W', control.write_barrier)] {
            if let Some(board) = board {
                let seconds: Vec<String> =
                    given.iter().filter(|wait| wait.part == part).map(|wait| self.name(wait.second as usize)).collect();
                let for_whom = match &seconds[..] {
                    [] => "DEPBAR counts it".to_owned(),
                    [one] => format!("for {one}"),
                    [one, others @ ..] => format!("for {one} and {} more", others.len()),
                };
                lines.push(format!("{letter}{board}: {for_whom}"));
            }
        }
        let cause = self.reasons.stalls[number];
        let first = stall_first(cause).map(|first| if first == number { "this".to_owned() } else { self.name(first) });
        if control.stall != 1 || first.is_some() {
            let why = describe_stall(cause, self.instructions.get(number + 1), &first.unwrap_or_default());
            lines.push(format!("S{:02}: {why}", control.stall));
        }
        lines
    }
}
