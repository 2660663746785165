//! Explains control words: runs the analysis of `ctrl` on decoded code and describes its reasons in words.

use oriole_ctrl::flow::reasons::{StallAndWaitReasons, describe_stall, describe_wait, stall_origin};
use oriole_ctrl::flow::stalls::{StallCause, StallPart};
use oriole_ctrl::flow::waits::{Wait, WaitedEvent as Awaited};
use oriole_cubin::CubinIndex;
use oriole_hardware::Hardware;
use oriole_isa::{Control, Instruction, Target};

use crate::analysis::{Analysis, analyze};
use crate::{SIZE, UnchangedReason};

/// The explanation of one instruction's control word.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The control word that the analysis computes.
    pub control: Control,
    /// One line for each field that is not idle.
    pub lines: Vec<String>,
}

/// Explains every instruction of a function. The result does not depend on the address of the function in the file.
pub fn explain(index: &CubinIndex<'_>, function: &oriole_cubin::Function<'_>, target: Target) -> Result<Vec<Explained>, UnchangedReason> {
    let Analysis { instructions, controls, reasons, .. } = analyze(index, function, &Hardware::built_in(target))?;
    let by_second = reasons.waits_by_waiting_inst(instructions.len());
    let mut by_first: Vec<Vec<Wait>> = vec![Vec::new(); instructions.len()];
    reasons.waits.iter().for_each(|wait| by_first[wait.first as usize].push(*wait));
    let narrator = ExplanationFormatter { instructions: &instructions, controls: &controls, reasons: &reasons };
    let explained = controls
        .iter()
        .enumerate()
        .map(|(number, &control)| Explained { control, lines: narrator.lines(number, &by_second[number], &by_first[number]) });
    Ok(explained.collect())
}

/// Formats the explanations.
struct ExplanationFormatter<'a> {
    instructions: &'a [Instruction],
    controls: &'a [Control],
    reasons: &'a StallAndWaitReasons,
}

impl ExplanationFormatter<'_> {
    /// Returns the mnemonic and byte offset of an instruction.
    fn name(&self, number: usize) -> String {
        format!("{} at {:#06x}", self.instructions[number].opcode.mnemonic(), number * SIZE)
    }

    /// Returns the scoreboard that a wait is for.
    fn board(&self, wait: &Wait) -> Option<u8> {
        let control = self.controls[wait.first as usize];
        if wait.event == Awaited::Results { control.write_barrier } else { control.read_barrier }
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
                    given.iter().filter(|wait| wait.event == part).map(|wait| self.name(wait.second as usize)).collect();
                let for_whom = match &seconds[..] {
                    [] => "DEPBAR counts it".to_owned(),
                    [one] => format!("for {one}"),
                    [one, others @ ..] => format!("for {one} and {} more", others.len()),
                };
                lines.push(format!("{letter}{board}: {for_whom}"));
            }
        }
        let parts = &self.reasons.stalls[number];
        let added: Vec<&StallPart> = parts.iter().filter(|part| part.cause != StallCause::MinimumStall).collect();
        if added.is_empty() && control.stall != 1 {
            lines.push(format!("S{:02}: always", control.stall));
        }
        lines.extend(added.into_iter().map(|part| format!("S{:02}: {}", control.stall, self.stall_part(number, part))));
        lines
    }

    /// Describes a part of the stall of an instruction.
    fn stall_part(&self, number: usize, part: &StallPart) -> String {
        let second = part.second as usize;
        let second_name = if second == number + 1 { "the next".to_owned() } else { self.name(second) };
        let first =
            stall_origin(part.cause).map_or_else(String::new, |first| if first == number { "this".to_owned() } else { self.name(first) });
        describe_stall(part.cause, self.instructions.get(second), &second_name, &first)
    }
}
