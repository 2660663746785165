//! One instruction after the other.
//!
//! An instruction of variable latency sets a scoreboard for its results and one for the reading of its sources, and the next
//! instruction waits for both. Every other one is followed by the longest stall that can be written, which is longer than any fixed
//! latency of the machine. So no instruction issues while an earlier one of its warp has results outstanding or sources unread.
//!
//! **Before**: physical registers, blocks in their final order, branches to the next block removed.
//! **After**: each instruction has its control word. Jumps carry waits like any other instruction, so nothing is in flight on the edges
//! of the flow graph; where a block falls through, the first instruction of the next one waits.

use oriole_ir::{File, Function, Inst, Op, OperandKind, Target};
use oriole_isa::{Control, Latency, Opcode};

use crate::Controls;

/// Scoreboard for results.
const RESULTS: u8 = 0;
/// Scoreboard for sources.
const SOURCES: u8 = 1;
/// The longest stall; such instructions must let the scheduler turn to other warps.
const LONGEST_STALL: u8 = 15;
/// What the machine needs between setting a scoreboard and waiting for it.
const SCOREBOARD_STALL: u8 = 2;

/// Control words for all instructions.
pub fn assign(function: &Function, target: Target) -> Controls {
    let mut controls = Controls::new(function);
    let mut wait = 0;
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let control = control_of(function, inst, target, wait);
            wait = control.write_barrier.map_or(0, |index| 1 << index) | control.read_barrier.map_or(0, |index| 1 << index);
            controls.set(inst, control);
        }
    }
    controls
}

fn control_of(function: &Function, inst: Inst, target: Target, wait: u8) -> Control {
    let slow = Control { stall: LONGEST_STALL, stay: false, wait, ..Control::default() };
    let Op::Machine(opcode) = function.insts[inst].op else { return slow };
    if opcode.properties().latency(target) == Latency::Fixed {
        return slow;
    }
    let has_results = function.results(inst).iter().any(|operand| is_register(operand.kind)) || opcode == Opcode::FENCE;
    let has_sources = function.sources(inst).iter().any(|operand| is_register(operand.kind)) || opcode == Opcode::MEMBAR;
    if !has_results && !has_sources {
        return slow;
    }
    let is_slow = opcode == Opcode::BMOV;
    Control {
        stall: if is_slow { LONGEST_STALL } else { SCOREBOARD_STALL },
        stay: !is_slow,
        write_barrier: has_results.then_some(RESULTS),
        read_barrier: has_sources.then_some(SOURCES),
        wait,
        reuse: 0,
    }
}

/// Whether an operand is in registers that scoreboards guard; convergence barriers are not.
fn is_register(kind: OperandKind) -> bool {
    matches!(kind, OperandKind::Register { file, .. } if file != File::Convergence)
}
