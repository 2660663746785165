//! Phase 116, -O0: computes control words that execute one instruction after the other.
//!
//! An instruction of variable latency sets one scoreboard for its results and one for the reads of its sources, and the next instruction
//! waits for both. Every other instruction has the longest stall that can be encoded, 15 cycles. So no instruction issues while an earlier
//! one of its warp has results outstanding or sources unread. After an instruction of fixed latency that needs more than the longest stall
//! (`HMMA`, up to 24 cycles) there are `NOP`s.
//!
//! Whether a latency is variable is a property of the opcode. A user's hardware profile may change that for a class; where it differs from
//! the built-in model, the profile decides.
//!
//! The published description of ptxas sets no scoreboards at -O0. Loads would then never be waited for, so this departs from it.
//!
//! **Before**: physical registers, blocks in their final order, branches to the next block removed. **After**: each instruction has its
//! control word. Branches wait like any other instruction, so nothing is in flight on a branch edge; where a block falls through, the first
//! instruction of the next block waits.

use oriole_hardware::model::SCOREBOARD_STALL;
use oriole_hardware::{Class, Classes, Hardware, Model, Waits};
use oriole_ir::machine::machine_instruction;
use oriole_ir::{Function, Inst, Op, OperandKind, RegFile};
use oriole_isa::{Control, Latency, Opcode, Pipe, Symbol, Symbols, find_form};

use crate::Controls;

/// Scoreboard for results.
const RESULTS: u8 = 0;
/// Scoreboard for sources.
const SOURCES: u8 = 1;
/// The longest stall in cycles. It only lasts that long if the instruction yields.
const LONGEST_STALL: u8 = 15;

/// Returns the control words of all instructions, and inserts `NOP`s after those that need more than one stall.
pub fn assign(function: &mut Function, hardware: &Hardware<'_>) -> Controls {
    let machine = Machine { hardware };
    machine.insert_delays(function);
    let mut controls = Controls::new(function);
    // The scoreboards that the previous instruction in the layout sets.
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

/// The target, and the user's changes to its model.
struct Machine<'a> {
    hardware: &'a Hardware<'a>,
}

impl Machine<'_> {
    /// Inserts `NOP`s, each of which stalls as long as possible, after instructions whose fixed latency is longer than one stall.
    fn insert_delays(&self, function: &mut Function) {
        for block in function.layout.clone() {
            for position in (0..function.blocks[block].insts.len()).rev() {
                let inst = function.blocks[block].insts[position];
                for _ in 0..self.delays(function, inst) {
                    let nop = function.new_inst(Op::Machine(Opcode::NOP), Symbols::new(), None, &[], 0);
                    function.insts[nop].location = function.insts[inst].location;
                    function.blocks[block].insts.insert(position + 1, nop);
                }
            }
        }
    }

    /// Returns the number of `NOP`s that an instruction needs after it.
    fn delays(&self, function: &Function, inst: Inst) -> u8 {
        let instruction = &function.insts[inst];
        let Op::Machine(opcode) = instruction.op else { return 0 };
        // Only products of matrices have results of fixed latency that one stall does not cover.
        if opcode.properties().pipe != Pipe::Tensor || self.waits(opcode, &instruction.modifiers).results {
            return 0;
        }
        let need = self.hardware.model.longest_need(Classes::get().of(opcode, &instruction.modifiers));
        // The instruction and each `NOP` have a stall count of `longest_stall` cycles.
        need.div_ceil(self.longest_stall()).saturating_sub(1)
    }

    /// Returns the control word of an instruction; `wait` is the mask of scoreboards that the previous instruction sets.
    fn control_of(&self, function: &Function, inst: Inst, wait: u8) -> Control {
        let slow = Control { stall: self.longest_stall(), stay: false, wait, ..Control::default() };
        let instruction = &function.insts[inst];
        let Op::Machine(opcode) = instruction.op else { return slow };
        // A `WARPGROUP.DEPBAR` waits for the products of a warpgroup; they have no scoreboards.
        if opcode.is_warpgroup_product() {
            return slow;
        }
        let waits = self.waits(opcode, &instruction.modifiers);
        // `LDGDEPBAR` sets its scoreboard when the copies before it are complete, so the next instruction waits for them.
        let signals = matches!(opcode, Opcode::FENCE | Opcode::LDGDEPBAR);
        let has_results = signals || function.results(inst).iter().any(|operand| is_register(operand.kind));
        let has_sources = function.sources(inst).iter().any(|operand| is_register(operand.kind)) || opcode == Opcode::MEMBAR;
        let sets_sources = waits.sources && has_sources && self.may_signal_reads(function, inst);
        let sets_results = waits.results && has_results;
        if !sets_results && !sets_sources {
            return slow;
        }
        // Results or sources without a scoreboard of their own need the longest stall; so does `BMOV`.
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

    /// Returns whether the encoding of an instruction has a scoreboard for its reads.
    fn may_signal_reads(&self, function: &Function, inst: Inst) -> bool {
        let mut instruction = machine_instruction(function, inst, &|_| 0);
        instruction.form = find_form(&instruction, self.hardware.target);
        instruction.may_set_read_barrier()
    }

    /// Returns the longest stall in cycles: 15, or less if the user's profile says so.
    fn longest_stall(&self) -> u8 {
        u8::try_from(self.hardware.machine.max_stall).map_or(LONGEST_STALL, |most| most.min(LONGEST_STALL))
    }

    /// Returns whether the results and sources of an instruction need scoreboards.
    fn waits(&self, opcode: Opcode, modifiers: &[Symbol]) -> Waits {
        let is_variable = opcode.properties().latency(self.hardware.target) == Latency::Variable;
        let usual = Waits { results: is_variable, sources: is_variable, stall: SCOREBOARD_STALL };
        match self.hardware.replaced_model {
            Some(known) => {
                let class = Classes::get().of(opcode, modifiers);
                changed(self.hardware.model, known, class, self.longest_stall()).unwrap_or(usual)
            }
            None => usual,
        }
    }
}

/// Returns the scoreboards that a class needs according to the user's `model`, if they differ from the built-in model `known`. A fixed
/// latency that is longer than the longest stall is covered by scoreboards. `None` if nothing relevant differs.
fn changed(model: &Model, known: &Model, class: Class, longest_stall: u8) -> Option<Waits> {
    let said = model.waits(class);
    if said != known.waits(class) {
        return Some(said);
    }
    let need = model.longest_need(class);
    let is_too_long = need > longest_stall && need != known.longest_need(class);
    is_too_long.then_some(Waits { results: true, sources: true, ..said })
}

/// Returns whether an operand is a register that scoreboards protect: any but convergence barriers.
fn is_register(kind: OperandKind) -> bool {
    matches!(kind, OperandKind::Register { file, .. } if file != RegFile::Convergence)
}
