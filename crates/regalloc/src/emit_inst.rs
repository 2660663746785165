//! Emits the code for one instruction as [`InstAllocationState`] describes it, and updates which values are in which registers.

use oriole_ir::{Inst, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role};
use oriole_isa::Pipe;

use crate::assigner::RegisterAssigner;
use crate::inst_state::InstAllocationState;
use crate::moves::Move;
use crate::operands::{file_of_fixed_constant, register, single_register_of_operand};
use crate::outcome::AllocateError;
use crate::registers::{Reg, RegisterSet};

impl RegisterAssigner<'_> {
    /// Emits the moves, the reloads and the instruction, and updates which values are in which registers.
    pub(crate) fn emit_inst(&mut self, state: &InstAllocationState, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let needs_preparation = !state.moved.is_empty() || !state.arguments.is_empty() || !state.reloads.is_empty() || state.has_tied;
        if needs_preparation {
            self.emit_code_before_inst(state, out)?;
        }
        self.rewrite_operands(state);
        if self.inputs.env.keeps_variables && self.function.insts[state.inst].is(Pseudo::Keep) {
            self.replace_kept_by_shadows(state.inst);
        }
        if self.function.insts[state.inst].is(Pseudo::Copy) && !state.results.is_empty() {
            self.emit_guarded_copy(state, out)?;
        }
        out.push(state.inst);
        self.update_occupied_registers(state);
        if self.function.insts[state.inst].is(Pseudo::Keep) {
            // The fixed operands of `KEEP` (results of the function, callee-saved registers) have to stay in their registers until the
            // block ends.
            self.registers.pin_registers(&self.registers.usable.without(&state.source_registers));
        }
        Ok(())
    }

    /// Frees the registers of dying and dropped values, then marks the registers of the results as occupied. The order matters, because a
    /// result may get the registers of a dying or dropped value.
    pub(crate) fn update_occupied_registers(&mut self, state: &InstAllocationState) {
        let opcode = self.function.insts[state.inst].op.machine();
        let reads_late = self.inputs.file == RegFile::Uniform && opcode.is_some_and(is_async_copy);
        let is_queued = self.inputs.file == RegFile::General && opcode == Some(Opcode::LDGSTS);
        for used in &state.uses {
            if let Some(at) = self.registers.register_of(used.value).filter(|_| reads_late) {
                self.in_flight.record_async_copy_read(at, self.function.values[used.value].width);
            }
            if let Some(at) = self.registers.register_of(used.value).filter(|_| is_queued) {
                self.in_flight.record_ldgsts_read(at, self.function.values[used.value].width);
            }
            self.walk.note_use(used.value, state.position, used.next_use);
            if used.next_use.is_never() {
                self.registers.vacate(used.value);
            }
        }
        for &part in &state.released_parts {
            self.registers.release_part(part);
        }
        for &value in &state.dropped {
            self.evict_value(value);
        }
        for result in &state.results {
            self.registers.occupy(result.value, result.chosen_register());
            self.walk.note_definition(result.value, state.inst, state.position, result.next_use, result.chosen_register());
            self.in_flight.record_written_registers(
                self.walk.block,
                state.position,
                result.chosen_register(),
                self.function.values[result.value].width,
            );
        }
        // The registers of unused results are freed only after all results have registers, because the instruction writes all of them.
        for result in state.results.iter().filter(|result| result.next_use.is_never()) {
            self.registers.vacate(result.value);
        }
    }

    /// Returns the moves of the values that change their registers before an instruction.
    pub(crate) fn moves_before_inst(&self, state: &InstAllocationState) -> Vec<Move> {
        let moved = state.moved.iter();
        moved.flat_map(|moved| Move::tuple(moved.to, moved.from, self.class_of(moved.value).width)).collect()
    }

    /// Returns a scratch register for the parallel copy before an instruction: a register that holds no value before the copy and none
    /// after it, is not a destination of the copy, and is not in `also_busy`. `None` if there is none.
    pub(crate) fn find_scratch_register(&self, state: &InstAllocationState, moves: &[Move], also_busy: RegisterSet) -> Option<Reg> {
        let mut busy = also_busy;
        moves.iter().for_each(|one| busy.insert(one.to, 1));
        self.registers.free.and(&state.free_before).without(&busy).lowest()
    }

    /// Emits the code before an instruction. The order matters: the parallel copy reads registers as they were when `state` was created;
    /// reloads and constants then fill registers that the copy has vacated; copies of tied sources read the registers in which the
    /// instruction reads its sources.
    ///
    /// Example: the call reads `%a` in the fixed register R4 and `%b` in R5. `%a` is in R5 and `%b` in R4, and `%c` stays live in R6, which
    /// the call overwrites. The parallel copy is R4 <- R5, R5 <- R4, R16 <- R6. Executed one after the other, the first two moves would
    /// give both arguments the same content.
    fn emit_code_before_inst(&mut self, state: &InstAllocationState, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let mut moves = self.moves_before_inst(state);
        // Copies of arguments are part of the same parallel copy, because an argument may be in the fixed register of another argument.
        for argument in &state.arguments {
            if let (Some(part), Some(initial_register)) = (argument.from.part(), argument.initial_register) {
                moves.extend(Move::tuple(argument.to, initial_register + part.first, part.count));
            }
        }
        let scratch = self.find_scratch_register(state, &moves, RegisterSet::EMPTY);
        let file = self.inputs.file;
        let mut emitter = self.inputs.emitter(self.function, out, state.inst);
        emitter.emit_parallel_copy(&moves, scratch)?;
        for reload in &state.reloads {
            let whole = emitter.function.whole(reload.value);
            self.spills.reload(whole, reload.to, &mut emitter)?;
        }
        for argument in state.arguments.iter().filter(|argument| argument.initial_register.is_none()) {
            match argument.from.part() {
                Some(part) => self.spills.reload(part, argument.to, &mut emitter)?,
                None => emitter.emit_move(argument.to, single_register_of_operand(&argument.from, 0))?,
            }
        }
        for result in &state.results {
            let Some(tied) = result.tied_copy else { continue };
            for number in 0..emitter.function.values[result.value].width {
                emitter.emit_move(result.chosen_register() + number, source_register(state, &tied, number, file))?;
            }
        }
        Ok(())
    }

    /// Replaces the operands of an instruction that belong to the current register file, and its guard, by physical registers.
    fn rewrite_operands(&mut self, state: &InstAllocationState) {
        let file = self.inputs.file;
        let results = self.function.insts[state.inst].result_count();
        let (operands, classes) = self.function.operands_and_classes(state.inst);
        for (number, operand) in operands.iter_mut().enumerate() {
            let OperandKind::Value(part) = operand.kind else {
                if let (Role::Fixed(to), true) = (operand.role, file_of_fixed_constant(operand) == Some(file)) {
                    operand.kind = register(file, Reg::from(to), 1).kind;
                }
                continue;
            };
            if classes[part.value].file != file {
                continue;
            }
            let made_at = |number: usize| state.results.iter().find(|result| result.operand == number).and_then(|result| result.register);
            // A tied source is in the register of its result, either by a copy or because the result inherited its register. An operand of
            // `KEEP` that is not fixed has no register and stays a value, since `KEEP` is deleted at the end.
            let first = match operand.role {
                _ if number < results => made_at(number),
                Role::Tied(result) => made_at(usize::from(result)),
                Role::Fixed(to) => Some(Reg::from(to)),
                _ => state.use_of(part.value).and_then(|used| used.register).map(|at| at + part.first),
            };
            if let Some(first) = first {
                operand.kind = register(file, first, part.count).kind;
            }
        }
        if let Some(guard) = &mut self.function.insts[state.inst].guard
            && let OperandKind::Value(part) = guard.kind
            && let Some(at) = state.use_of(part.value).and_then(|used| used.register)
        {
            guard.kind = register(file, at, 1).kind;
        }
    }

    /// Replaces the operands of a `KEEP` that are in no register by their shadows, values of another register file with the same content.
    /// General values have spill slots instead.
    fn replace_kept_by_shadows(&mut self, keep: Inst) {
        let file = self.inputs.file;
        for number in 0..self.function.operands(keep).len() {
            let OperandKind::Value(part) = self.function.operands(keep)[number].kind else { continue };
            if file != RegFile::General && self.function.values[part.value].file == file {
                let shadow = self.spills.shadow_to_read(part.value, self.function, file);
                self.function.operands_mut(keep)[number].kind = OperandKind::Value(self.function.whole(shadow));
                self.inputs.liveness.forget_operand_files(keep);
            }
        }
    }

    /// Emits a guarded copy as one guarded move for each register, and records the moves for the checker. The operands of the copy must
    /// already be physical registers.
    fn emit_guarded_copy(&mut self, state: &InstAllocationState, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let (to, source) = (state.results[0].chosen_register(), self.function.operands(state.inst)[1]);
        let width = self.class_of(state.results[0].value).width;
        let guard = self.function.insts[state.inst].guard;
        let first = out.len();
        let mut emitter = self.inputs.emitter(self.function, out, state.inst);
        emitter.guard = guard;
        // The moves are emitted one after the other, so a partly overlapping source would be overwritten before it is read.
        if width > 1 && overlaps_partly(&source, emitter.file, to, width) {
            return Err(emitter.unsupported_error("a guarded copy within a value"));
        }
        for number in 0..width {
            emitter.emit_move(to + number, single_register_of_operand(&source, number))?;
        }
        let written = emitter.out[first..].to_vec();
        if written.len() != usize::from(width) {
            return Err(emitter.unsupported_error("a guarded copy that takes two instructions"));
        }
        self.output.guarded_copies.push((state.inst, written));
        Ok(())
    }
}

/// Returns whether a source is in registers of register file `file` that partly overlap the `width` registers starting at `to`: they
/// overlap, but start at another register.
fn overlaps_partly(source: &Operand, file: RegFile, to: Reg, width: u8) -> bool {
    let OperandKind::Register { file: source_file, first, count } = source.kind else { return false };
    let first = Reg::new(first);
    source_file == file && first != to && first < to + width && to < first + count
}

/// Returns register `number` of a source, counted from 0, as an operand: the physical register in which the instruction reads it. Constants
/// and sources of other register files are not replaced by physical registers.
fn source_register(state: &InstAllocationState, operand: &Operand, number: u8, file: RegFile) -> Operand {
    let in_register = |part: Part| Some(register(file, state.use_of(part.value)?.register? + part.first + number, 1));
    operand.part().and_then(in_register).unwrap_or_else(|| single_register_of_operand(operand, number))
}

/// Returns whether an instruction starts an asynchronous copy, which reads its uniform registers late.
fn is_async_copy(opcode: Opcode) -> bool {
    opcode.properties().pipe == Pipe::Async
}
