//! Assigns registers to unguarded `COPY` and `PACK`.
//!
//! Unlike those of other instructions, their sources need not be in registers: each source is moved or reloaded directly into its place in
//! the result. The result may get the registers of sources that die here, which then need no move.

use oriole_ir::{Class, Inst, Operand, RegFile};
use smallvec::SmallVec;

use crate::assigner::RegisterAssigner;
use crate::inst_state::InstAllocationState;
use crate::liveness::RegisterFileInst;
use crate::moves::Move;
use crate::operands::{is_zero, operand_width, part_in_file, register, single_register_of_operand};
use crate::outcome::AllocateError;
use crate::registers::{Reg, RegisterSet};

/// A source of a copy, or of a pack (which builds a tuple from several sources).
struct CopySource {
    /// The source operand.
    operand: Operand,
    /// Index of the first register of the result that the source fills, counted from 0.
    offset: u8,
    /// Number of registers that the source fills.
    width: u8,
    /// First register of the source before the instruction; `None` if it is a dropped value, a constant, or of another register file.
    initial_register: Option<Reg>,
}

impl RegisterAssigner<'_> {
    /// Assigns registers to an unguarded `COPY` or `PACK`, and emits its moves.
    pub(crate) fn allocate_copy(&mut self, file_inst: RegisterFileInst, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let inst = file_inst.inst;
        let mut state = self.new_inst_state(file_inst);
        let value = state.results[0].value;
        let class = self.class_of(value);
        let sources = self.sources_of_copy(inst, class)?;
        let available = self.registers_free_for_results(&state);
        // A divided accumulator gets its home registers, where most of its pieces already are ([`crate::accumulators`]).
        let home = self.accumulators.home_register_of(value).filter(|_| sources.len() > 1);
        let home = home.filter(|&home| self.registers.usable.has_all(home, class.width));
        let place = match home {
            Some(home) => available.has_all(home, class.width).then_some(home),
            None => window_with_fewest_moves(class, &sources, &available).or_else(|| self.choose_registers(value, &available)),
        };
        let place = match place {
            Some(place) => place,
            None => self.make_room_for_result(&mut state, class, home).ok_or_else(|| self.register_limit_error(&state))?,
        };
        // In a chain of descriptors (tuples of uniform registers that describe memory objects), each one is packed from parts of the
        // previous one. If this descriptor did not get the registers of the previous one, the following descriptors prefer the registers of
        // this one.
        if self.inputs.file == RegFile::Uniform && sources.len() > 1 {
            self.hints.note_register(value, place);
        }
        state.results[0].register = Some(place);
        self.emit_copy(&state, &sources, out)?;
        // The instruction itself stays in the list to mark the definition: `rewrite_blocks` inserts the spill store after it and deletes
        // it.
        out.push(inst);
        self.function.operands_mut(inst)[0].kind = register(self.inputs.file, place, class.width).kind;
        self.update_occupied_registers(&state);
        Ok(())
    }

    /// Lists the sources of a copy or pack whose result has register class `class`. Returns an error if the sources do not fill the result.
    fn sources_of_copy(&self, inst: Inst, class: Class) -> Result<SmallVec<[CopySource; 8]>, AllocateError> {
        let operands = self.function.sources(inst);
        if operands.len() > 1 && operands.iter().map(|source| u32::from(operand_width(source))).sum::<u32>() != u32::from(class.width) {
            return Err(AllocateError::Invalid(format!("{inst:?} does not fill its result")));
        }
        let mut offset = 0;
        let sources = operands.iter().map(|operand| {
            // A copy with a single source fills the whole result from it. The width of a constant source is known only from the result.
            let width = if operands.len() == 1 { class.width } else { operand_width(operand) };
            let part = part_in_file(self.function, operand, self.inputs.file);
            let initial_register = part.and_then(|part| Some(self.registers.register_of(part.value)? + part.first));
            let source = CopySource { operand: *operand, offset, width, initial_register };
            offset += width;
            source
        });
        Ok(sources.collect())
    }

    /// Emits a `COPY` or `PACK`: first one parallel copy of the sources in registers and of the values that the result displaces, then
    /// reloads of evicted sources, then constants and sources of other register files.
    fn emit_copy(&mut self, state: &InstAllocationState, sources: &[CopySource], out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let to = state.results[0].chosen_register();
        let mut moves = self.moves_before_inst(state);
        for source in sources {
            if let Some(at) = source.initial_register {
                moves.extend(Move::tuple(to + source.offset, at, source.width));
            }
        }
        let mut result = RegisterSet::EMPTY;
        result.insert(to, self.class_of(state.results[0].value).width);
        let scratch = self.find_scratch_register(state, &moves, result);
        let mut emitter = self.inputs.emitter(self.function, out, state.inst);
        emitter.emit_parallel_copy(&moves, scratch)?;
        let mut number = 0;
        while let Some(source) = sources.get(number) {
            number += 1;
            if source.initial_register.is_some() {
                continue;
            }
            let is_pair_of_zeros = is_single_zero_register(source) && sources.get(number).is_some_and(is_single_zero_register);
            if is_pair_of_zeros && emitter.emit_pair_clear(to + source.offset) {
                number += 1;
                continue;
            }
            match part_in_file(emitter.function, &source.operand, emitter.file) {
                Some(part) => self.spills.reload(part, to + source.offset, &mut emitter)?,
                None => {
                    for unit_number in 0..source.width {
                        emitter.emit_move(to + source.offset + unit_number, single_register_of_operand(&source.operand, unit_number))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a source is the constant zero and fills one register.
fn is_single_zero_register(source: &CopySource) -> bool {
    source.width == 1 && is_zero(&source.operand)
}

/// Returns the first register of the window (aligned consecutive registers) for the result in which the most source registers already are
/// at their places. Each source in registers suggests the window in which it would not move. `None` if no suggested window is in
/// `available`, the registers that are free or held by dying sources.
///
/// Example: `PACK %a, %b` with `%a` in R4 and `%b` in R7, both dying: `%a` suggests R4:R5 and `%b` suggests R6:R7. If another value is in
/// R5 and R6 is free, R6:R7 is chosen, and only `%a` moves.
fn window_with_fewest_moves(class: Class, sources: &[CopySource], available: &RegisterSet) -> Option<Reg> {
    let mut suggestions: SmallVec<[(Reg, u32); 8]> = SmallVec::new();
    for source in sources {
        let place = source.initial_register.and_then(|at| at.checked_sub(source.offset));
        let Some(place) = place.filter(|place| place.is_aligned(class.align) && available.has_all(*place, class.width)) else { continue };
        match suggestions.iter_mut().find(|hinted_register| hinted_register.0 == place) {
            Some(hinted_register) => hinted_register.1 += u32::from(operand_width(&source.operand)),
            None => suggestions.push((place, u32::from(operand_width(&source.operand)))),
        }
    }
    suggestions.iter().max_by_key(|hinted_register| hinted_register.1).map(|hinted_register| hinted_register.0)
}
