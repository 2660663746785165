//! Yield plausibility: the scheduler may turn to other warps where it must, and keeps what it was told to keep.
//!
//! The yield bit is a hint, so little of it can be wrong. What can be, proved for each instruction:
//!
//! - an operand that stays in the reuse cache asks the scheduler to stay with the warp; yield gives that up (`reuse-given-up`);
//! - a stall of zero is a special case of the hardware: with yield a long pause, without it two cycles and not none
//!   (`zero-stall-stays`);
//! - a branch to itself, where code ends that must not go on, lets other warps run (`spin-stays`).
//!
//! None of these three is in two million instructions that ptxas made. Odd, but harmless: the long pause of stall zero at an instruction
//! that orders nothing (`long-pause`).

use oriole_isa::{Effect, Opcode, Value};

use super::section::INSTRUCTION_BYTES;
use super::{Ledger, Section};

pub(super) fn verify(section: &Section<'_>, ledger: &mut Ledger) {
    for (number, instruction) in section.instructions() {
        let control = instruction.control;
        ledger.count(1);
        if !control.stay && instruction.operands.iter().any(|operand| operand.reuse) {
            ledger.wrong("reuse-given-up", number, "keeps an operand for the next instruction, but lets another warp come between");
        }
        if control.stall == 0 && control.stay {
            ledger.wrong("zero-stall-stays", number, "stalls 0 cycles without yield, which lasts two");
        }
        let effect = instruction.opcode.properties().effect;
        let orders =
            matches!(effect, Effect::Control | Effect::Barrier | Effect::Fence | Effect::Other) || instruction.opcode == Opcode::NOP;
        if control.stall == 0 && !control.stay && !orders {
            ledger.note("long-pause", number, "stalls 0 cycles with yield, which is a long pause");
        }
        let to_itself = |value: &Value| matches!(value, Value::Relative(distance) if *distance == -(INSTRUCTION_BYTES as i64));
        let is_spin = instruction.opcode == Opcode::BRA && instruction.operands.iter().any(|operand| to_itself(&operand.value));
        if is_spin && control.stay && !section.is_patched(number) {
            ledger.wrong("spin-stays", number, "branches to itself without letting other warps run");
        }
    }
}
