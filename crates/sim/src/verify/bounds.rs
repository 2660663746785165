//! Bounds: every control field holds something that the hardware does.
//!
//! The fields are read from the bits of the word, not from what the decoder made of them. Proved for each instruction:
//!
//! - a stall of 12 cycles or more comes with leave to turn to another warp. Without it the hardware goes on after one or two cycles, as
//!   if the stall were not there (measured on an H200; `stall-ignored`);
//! - the two bits above the reuse flags, which belong to no field, are zero (`beyond-control`).
//!
//! Odd, but harmless as far as is known: a branch, call, return, exit or `BSYNC` that stalls fewer than five cycles and does not pause
//! (stall zero with yield). None of 60,000 in ptxas' code does; an H200 took calls of three and returns of two (`flow-too-short`).

use oriole_isa::{Control, Instruction, Opcode};

use super::{Ledger, Section};

/// From here on a stall needs leave to turn to another warp.
const LONGEST_ALONE: u8 = 11;
/// Bits of a word above the control part.
const ABOVE_CONTROL: u128 = !0 << 126;
/// What jumps stall at least.
const LEAST_OF_JUMPS: u8 = 5;

pub(super) fn verify(section: &Section<'_>, ledger: &mut Ledger) {
    for (number, &word) in section.words.iter().enumerate() {
        let control = Control::of(word);
        if control.stall > LONGEST_ALONE && control.stay {
            let message = format!("stalls {} cycles without yield, which the hardware does not do", control.stall);
            ledger.wrong("stall-ignored", number, message);
        }
        if word & ABOVE_CONTROL != 0 {
            ledger.wrong("beyond-control", number, "has bits set above the control part");
        }
        ledger.count(2);
    }
    for (number, instruction) in section.instructions() {
        if let Some(least) = least_stall(instruction) {
            ledger.count(1);
            if instruction.control.stall < least {
                let message = format!("stalls {} cycles; jumps stall {least} at least", instruction.control.stall);
                ledger.note("flow-too-short", number, message);
            }
        }
    }
}

/// Cycles that an instruction stalls at least; none for those that may stall any time.
fn least_stall(instruction: &Instruction) -> Option<u8> {
    let is_pause = instruction.control.stall == 0 && !instruction.control.stay;
    let jumps = match instruction.opcode {
        Opcode::BRA | Opcode::BRX | Opcode::BRXU | Opcode::BSYNC | Opcode::EXIT | Opcode::RET => true,
        // Behind a call that a guard may skip lies code that waits for itself.
        Opcode::CALL => instruction.guard.is_always(),
        _ => false,
    };
    (jumps && !is_pause).then_some(LEAST_OF_JUMPS)
}
