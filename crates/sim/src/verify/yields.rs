//! Yield plausibility: yield is set where it must be, and not where it would lose a reuse-cache operand.
//!
//! Yield is mostly a hint to the warp scheduler. Proved for each instruction:
//!
//! - an instruction that keeps an operand in the reuse cache does not yield, because another warp's instruction would evict it
//!   (`reuse-given-up`);
//! - a stall of 0 comes with yield: without yield it means two cycles and not zero (`zero-stall-stays`).
//!
//! Neither occurs in two million instructions from ptxas. Notes: a stall of 0 with yield, which is a long pause, on an instruction that has
//! no ordering effect (`long-pause`); and a branch to itself without yield (`spin-stays`). The one after the end of code yields, but ptxas
//! writes endless loops of programs without it (250 in cuSPARSE).

use oriole_isa::{Effect, Opcode, OperandValue};

use super::section::INSTRUCTION_BYTES;
use super::{FindingSink, Section};

/// Checks the yield bit of each instruction.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    for (number, instruction) in section.instructions() {
        let control = instruction.control;
        sink.count(1);
        if !control.stay && instruction.operands.iter().any(|operand| operand.reuse) {
            sink.hazard("reuse-given-up", number, "keeps an operand for the next instruction, but lets another warp come between");
        }
        if control.stall == 0 && control.stay {
            sink.hazard("zero-stall-stays", number, "stalls 0 cycles without yield, which lasts two");
        }
        let effect = instruction.opcode.properties().effect;
        let orders =
            matches!(effect, Effect::Control | Effect::Barrier | Effect::Fence | Effect::Other) || instruction.opcode == Opcode::NOP;
        if control.stall == 0 && !control.stay && !orders {
            sink.note("long-pause", number, "stalls 0 cycles with yield, which is a long pause");
        }
        let to_itself =
            |value: &OperandValue| matches!(value, OperandValue::Relative(distance) if *distance == -(INSTRUCTION_BYTES as i64));
        let is_spin = instruction.opcode == Opcode::BRA && instruction.operands.iter().any(|operand| to_itself(&operand.value));
        if is_spin && control.stay && !section.is_patched(number) {
            sink.note("spin-stays", number, "branches to itself without letting other warps run");
        }
    }
}
