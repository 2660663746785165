//! Bounds: every control field has a value that the hardware implements.
//!
//! The fields are taken from the encoded word, not from the decoder. Proved for each instruction:
//!
//! - a stall of 12 cycles or more comes with yield. Without yield the hardware continues after one or two cycles (measured on an H200;
//!   `stall-ignored`);
//! - the two bits above the reuse flags, which belong to no field, are zero (`beyond-control`).
//!
//! Note: a branch, call, return, exit or `BSYNC` with a stall of less than five cycles (`flow-too-short`), unless it is the long pause of
//! stall 0 with yield. None of 60,000 in ptxas' code has one; an H200 executed calls with a stall of three and returns with two correctly.

use oriole_isa::{Control, Instruction, Opcode};

use super::{FindingSink, Section};

/// Longest stall, in cycles, that the hardware honours without yield.
const LONGEST_ALONE: u8 = 11;
/// Bits of a word above the control fields.
const ABOVE_CONTROL: u128 = !0 << 126;
/// Usual minimum stall of branches, in cycles.
const LEAST_OF_JUMPS: u8 = 5;

/// Checks the control fields of each instruction.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    for (number, &word) in section.words.iter().enumerate() {
        let control = Control::of(word);
        if control.stall > LONGEST_ALONE && control.stay {
            let message = format!("stalls {} cycles without yield, which the hardware does not do", control.stall);
            sink.hazard("stall-ignored", number, message);
        }
        if word & ABOVE_CONTROL != 0 {
            sink.hazard("beyond-control", number, "has bits set above the control part");
        }
        sink.count(2);
    }
    for (number, instruction) in section.instructions() {
        if let Some(least) = least_stall(instruction) {
            sink.count(1);
            if instruction.control.stall < least {
                let message = format!("stalls {} cycles; jumps stall {least} at least", instruction.control.stall);
                sink.note("flow-too-short", number, message);
            }
        }
    }
}

/// Returns the usual minimum stall of an instruction in cycles; `None` if any stall is usual.
fn least_stall(instruction: &Instruction) -> Option<u8> {
    let is_pause = instruction.control.stall == 0 && !instruction.control.stay;
    let jumps = match instruction.opcode {
        Opcode::BRA | Opcode::BRX | Opcode::BRXU | Opcode::BSYNC | Opcode::EXIT | Opcode::RET => true,
        // A guarded call may fall through; the code after it has its own stalls.
        Opcode::CALL => instruction.guard.is_always(),
        _ => false,
    };
    (jumps && !is_pause).then_some(LEAST_OF_JUMPS)
}
