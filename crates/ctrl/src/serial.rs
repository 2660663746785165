//! Phase 116, -O0: computes control words with which each instruction completes before the next one issues.
//!
//! An instruction of variable latency sets one scoreboard for its results and one for the reads of its sources, and the next instruction
//! waits for both. Every other instruction has the longest stall that can be encoded, 15 cycles. So no instruction issues while an earlier
//! one of its warp has results outstanding or sources unread. After an instruction of fixed latency that needs more than the longest stall
//! (`HMMA`, up to 24 cycles), `NOP`s are inserted.
//!
//! Whether a latency is variable is a property of the opcode. A user's hardware profile may change that for a class; where it differs from
//! the built-in model, the profile decides.
//!
//! The published description of ptxas sets no scoreboards at -O0. Then no instruction would wait for loads, so this module sets them.
//!
//! **Before**: physical registers, blocks in their final order, branches to the next block removed. **After**: each instruction has its
//! control word. Branches wait like any other instruction, so nothing is in flight on a branch edge; where a block falls through, the first
//! instruction of the next block waits.

use oriole_hardware::model::SCOREBOARD_STALL;
use oriole_hardware::{Classes, Hardware, Model, SchedClass, Waits};
use oriole_ir::machine::machine_instruction;
use oriole_ir::{Function, Inst, Op, OperandKind, RegFile};
use oriole_isa::{Control, Latency, Opcode, Pipe, Symbol, Symbols, find_form};

use crate::ControlWords;

/// Index of the scoreboard that signals that results are written (the write barrier).
const RESULT_SCOREBOARD: u8 = 0;
/// Index of the scoreboard that signals that sources are read (the read barrier).
const SOURCE_SCOREBOARD: u8 = 1;
/// The longest stall that can be encoded, in cycles. The hardware stalls that long only if the yield bit is set.
const LONGEST_STALL_CYCLES: u8 = 15;

/// Computes the control words of all instructions for -O0, so that each instruction completes before the next one issues. Inserts `NOP`s
/// after instructions whose latency is longer than the longest stall.
pub fn assign(function: &mut Function, hardware: &Hardware<'_>) -> ControlWords {
    let assigner = SerialControlAssigner { hardware };
    assigner.insert_nops(function);
    let mut controls = ControlWords::new(function);
    // Bit mask of the scoreboards that the previous instruction in the layout sets.
    let mut wait = 0;
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let control = assigner.control_of(function, inst, wait);
            wait = control.write_barrier.map_or(0, |index| 1 << index) | control.read_barrier.map_or(0, |index| 1 << index);
            controls.set(inst, control);
        }
    }
    controls
}

/// Computes control words for -O0, with the latencies of the target or of the user's hardware profile.
struct SerialControlAssigner<'a> {
    /// The target, its model and the user's hardware profile.
    hardware: &'a Hardware<'a>,
}

impl SerialControlAssigner<'_> {
    /// Inserts `NOP`s, each of which stalls as long as possible, after instructions whose fixed latency is longer than one stall.
    fn insert_nops(&self, function: &mut Function) {
        for block in function.layout.clone() {
            for position in (0..function.blocks[block].insts.len()).rev() {
                let inst = function.blocks[block].insts[position];
                for _ in 0..self.nops_after(function, inst) {
                    let nop = function.new_inst(Op::Machine(Opcode::NOP), Symbols::new(), None, &[], 0);
                    function.insts[nop].location = function.insts[inst].location;
                    function.blocks[block].insts.insert(position + 1, nop);
                }
            }
        }
    }

    /// Returns the number of `NOP`s, each with the longest stall, to insert after an instruction so that its fixed latency has passed.
    fn nops_after(&self, function: &Function, inst: Inst) -> u8 {
        let instruction = &function.insts[inst];
        let Op::Machine(opcode) = instruction.op else { return 0 };
        // Only matrix-multiply instructions have a fixed latency that is longer than the longest stall.
        if opcode.properties().pipe != Pipe::Tensor || self.needed_scoreboards(opcode, &instruction.modifiers).results {
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
        // Asynchronous matrix products set no scoreboards: `WARPGROUP.DEPBAR` waits for them.
        if opcode.is_warpgroup_product() {
            return slow;
        }
        let waits = self.needed_scoreboards(opcode, &instruction.modifiers);
        // These two write no register, but signal their completion through a scoreboard. `LDGDEPBAR` is complete when the asynchronous
        // copies before it are.
        let signals = matches!(opcode, Opcode::FENCE | Opcode::LDGDEPBAR);
        let has_results = signals || function.results(inst).iter().any(|operand| is_scoreboard_register(operand.kind));
        let has_sources = function.sources(inst).iter().any(|operand| is_scoreboard_register(operand.kind)) || opcode == Opcode::MEMBAR;
        let sets_sources = waits.sources && has_sources && self.can_set_read_barrier(function, inst);
        let sets_results = waits.results && has_results;
        if !sets_results && !sets_sources {
            return slow;
        }
        // Only the longest stall protects results or sources for which the instruction sets no scoreboard. `BMOV` needs the longest stall
        // too.
        let is_slow = opcode == Opcode::BMOV || sets_results != has_results || sets_sources != has_sources;
        Control {
            stall: if is_slow { self.longest_stall() } else { waits.stall },
            stay: !is_slow,
            write_barrier: sets_results.then_some(RESULT_SCOREBOARD),
            read_barrier: sets_sources.then_some(SOURCE_SCOREBOARD),
            wait,
            reuse: 0,
        }
    }

    /// Returns whether the encoding of an instruction can name a read barrier, the scoreboard that signals that sources are read.
    fn can_set_read_barrier(&self, function: &Function, inst: Inst) -> bool {
        let mut instruction = machine_instruction(function, inst, &|_| 0);
        instruction.form = find_form(&instruction, self.hardware.target);
        instruction.may_set_read_barrier()
    }

    /// Returns the longest stall in cycles: 15, or less if the user's hardware profile says so.
    fn longest_stall(&self) -> u8 {
        u8::try_from(self.hardware.machine.max_stall).map_or(LONGEST_STALL_CYCLES, |most| most.min(LONGEST_STALL_CYCLES))
    }

    /// Returns whether the results and whether the sources of an instruction need a scoreboard, and the stall, in cycles, of an instruction
    /// that sets a scoreboard.
    fn needed_scoreboards(&self, opcode: Opcode, modifiers: &[Symbol]) -> Waits {
        let is_variable = opcode.properties().latency(self.hardware.target) == Latency::Variable;
        let usual = Waits { results: is_variable, sources: is_variable, stall: SCOREBOARD_STALL };
        match self.hardware.replaced_model {
            Some(known) => {
                let class = Classes::get().of(opcode, modifiers);
                waits_changed_by_profile(self.hardware.model, known, class, self.longest_stall()).unwrap_or(usual)
            }
            None => usual,
        }
    }
}

/// Returns which scoreboards an instruction class needs according to the user's `model`, if that differs from the built-in model `known`
/// for the class; otherwise `None`. A class with a changed fixed latency that exceeds the longest stall uses scoreboards instead of stalls.
fn waits_changed_by_profile(model: &Model, known: &Model, class: SchedClass, longest_stall: u8) -> Option<Waits> {
    let said = model.waits(class);
    if said != known.waits(class) {
        return Some(said);
    }
    let need = model.longest_need(class);
    let is_too_long = need > longest_stall && need != known.longest_need(class);
    is_too_long.then_some(Waits { results: true, sources: true, ..said })
}

/// Returns whether an operand is a register that scoreboards protect: one of any register file except convergence barriers.
fn is_scoreboard_register(kind: OperandKind) -> bool {
    matches!(kind, OperandKind::Register { file, .. } if file != RegFile::Convergence)
}
