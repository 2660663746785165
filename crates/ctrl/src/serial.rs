//! One instruction after the other.
//!
//! An instruction of variable latency sets a scoreboard for its results and one for the reading of its sources, and the next
//! instruction waits for both. Every other one is followed by the longest stall that can be written, which is longer than any fixed
//! latency of the machine. So no instruction issues while an earlier one of its warp has results outstanding or sources unread.
//!
//! Which latencies are variable is a property of the instruction. A hardware profile from a user may say otherwise for a class: what it
//! changes, and only that, goes before.
//!
//! **Before**: physical registers, blocks in their final order, branches to the next block removed.
//! **After**: each instruction has its control word. Jumps carry waits like any other instruction, so nothing is in flight on the edges
//! of the flow graph; where a block falls through, the first instruction of the next one waits.

use oriole_hardware::model::SCOREBOARD_STALL;
use oriole_hardware::{Class, Classes, Model, Profile, Waits};
use oriole_ir::{File, Function, Inst, Op, OperandKind, Target};
use oriole_isa::{Control, Latency, Opcode, Symbol};

use crate::Controls;

/// Scoreboard for results.
const RESULTS: u8 = 0;
/// Scoreboard for sources.
const SOURCES: u8 = 1;
/// The longest stall; such instructions must let the scheduler turn to other warps.
const LONGEST_STALL: u8 = 15;

/// Control words for all instructions; `profile` is one that the user gave.
pub fn assign(function: &Function, target: Target, profile: Option<&Profile>) -> Controls {
    let mut controls = Controls::new(function);
    let machine = Machine { target, profile: profile.map(|profile| (profile, &**Model::of(target))) };
    let mut wait = 0;
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let control = machine.control_of(function, inst, wait);
            wait = control.write_barrier.map_or(0, |index| 1 << index) | control.read_barrier.map_or(0, |index| 1 << index);
            controls.set(inst, control);
        }
    }
    controls
}

/// What is known about the machine.
struct Machine<'a> {
    target: Target,
    /// What the user says, and the model that this is compared with.
    profile: Option<(&'a Profile, &'a Model)>,
}

impl Machine<'_> {
    fn control_of(&self, function: &Function, inst: Inst, wait: u8) -> Control {
        let slow = Control { stall: self.longest_stall(), stay: false, wait, ..Control::default() };
        let instruction = &function.insts[inst];
        let Op::Machine(opcode) = instruction.op else { return slow };
        let waits = self.waits(opcode, &instruction.modifiers);
        let has_results = function.results(inst).iter().any(|operand| is_register(operand.kind)) || opcode == Opcode::FENCE;
        let has_sources = function.sources(inst).iter().any(|operand| is_register(operand.kind)) || opcode == Opcode::MEMBAR;
        let (sets_results, sets_sources) = (waits.results && has_results, waits.sources && has_sources);
        if !sets_results && !sets_sources {
            return slow;
        }
        // Without a scoreboard on both sides, time must pass for the other.
        let is_slow = opcode == Opcode::BMOV || sets_results != has_results || sets_sources != has_sources;
        Control {
            stall: if is_slow { self.longest_stall() } else { waits.stall },
            stay: !is_slow,
            write_barrier: sets_results.then_some(RESULTS),
            read_barrier: sets_sources.then_some(SOURCES),
            wait,
            reuse: 0,
        }
    }

    fn longest_stall(&self) -> u8 {
        let said = self.profile.and_then(|(profile, _)| u8::try_from(profile.machine.max_stall).ok());
        said.map_or(LONGEST_STALL, |most| most.min(LONGEST_STALL))
    }

    /// What an instruction does with scoreboards.
    fn waits(&self, opcode: Opcode, modifiers: &[Symbol]) -> Waits {
        let is_variable = opcode.properties().latency(self.target) == Latency::Variable;
        let usual = Waits { results: is_variable, sources: is_variable, stall: SCOREBOARD_STALL };
        match self.profile {
            Some((profile, known)) => {
                let class = Classes::get().of(opcode, modifiers);
                changed(&profile.model, known, class, self.longest_stall()).unwrap_or(usual)
            }
            None => usual,
        }
    }
}

/// What a model says about a class, if that is not what is known: other waits, or a fixed latency that no stall covers.
fn changed(model: &Model, known: &Model, class: Class, longest_stall: u8) -> Option<Waits> {
    let said = model.waits(class);
    if said != known.waits(class) {
        return Some(said);
    }
    let need = model.longest_need(class);
    let is_too_long = need > longest_stall && need != known.longest_need(class);
    is_too_long.then_some(Waits { results: true, sources: true, ..said })
}

/// Whether an operand is in registers that scoreboards guard; convergence barriers are not.
fn is_register(kind: OperandKind) -> bool {
    matches!(kind, OperandKind::Register { file, .. } if file != File::Convergence)
}
