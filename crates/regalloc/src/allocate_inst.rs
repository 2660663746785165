//! Assigns registers to the operands of one instruction.
//!
//! **Input:** the registers of all live values before the instruction ([`crate::register_file`]), and the next uses of its operands.
//! **Output:** the instruction with physical registers, the moves and reloads before it, and the registers of all live values after it.
//!
//! An ordinary instruction is handled in four steps:
//!
//! 1. `choose_source_registers`: brings every source into registers. If no aligned gap is free, values that the instruction does not read
//!    are moved or dropped ([`crate::make_room`]). If that fails too, all sources are placed again ([`crate::repack`]).
//! 2. `clear_fixed_registers`: moves or drops live values in registers that the instruction overwrites: fixed arguments, fixed results,
//!    call clobbers.
//! 3. `choose_result_registers`: chooses registers for the results. The hardware reads all sources before it writes a result, so a result
//!    may get the registers of a source that dies at the instruction or is dropped there. Only asynchronous matrix products are different.
//! 4. `emit_inst` ([`crate::emit_inst`]): emits all moves as one parallel copy, then the reloads, and rewrites the operands.
//!
//! Unguarded `COPY` and `PACK` are handled by [`crate::allocate_copy`]. Their sources need not be in registers: each is moved or reloaded
//! directly into the result.
//!
//! Which value is dropped follows Belady's MIN rule, as in Braun and Hack 2009 ("Register Spilling and Live-Range Splitting for SSA-Form
//! Programs"): the one whose next use is farthest away. Departures: registers are chosen in the same walk, and not afterwards by a
//! coloring; values are tuples, so a whole aligned window of registers is freed instead of single registers; and a value that can be
//! recomputed or that already has a store is preferred ([`RegisterAssigner::eviction_cost`]).
//!
//! Example with four usable registers R4 to R7. `%a` is in R4, `%b` in R6, R5 and R7 are free, and the instruction reads the pair `%p`,
//! which was dropped earlier:
//!
//! ```text
//! %x:R = IADD3 %a, %p.0, %p.1      two registers are free, but no aligned pair
//! make_room:   windows R4:R5 (holds %a, a source: may not move) and R6:R7 (holds %b): %b moves from R6 to R5
//! reload:      %p is reloaded into R6:R7
//! emitted:     MOV R5, R6;  LDL.64 R6, [R1+8];  IADD3 R4, R4, R6, R7      (%x takes R4 if %a dies here)
//! ```
//!
//! **Fixed operands** are implemented by copies: the value stays in its register until the instruction, and the parallel copy before the
//! instruction copies it into the fixed register. Hack 2007 ("Register Allocation for Programs in SSA Form") splits the live ranges of
//! all values before such an instruction; here only values in registers that are overwritten move. This has two consequences. A source of
//! the same instruction that is not fixed must not be in the register of a fixed argument (`source_registers`). And a live value in such a
//! register, or in one that the call overwrites, has to be moved or dropped (`clear_fixed_registers`); a value that dies at the instruction
//! need not, since the parallel copy has read it.
//!
//! ```text
//! %r:R@R4 = CALL call(f), %a@R4, %b@R5      before: %a in R5, %b in R6, %c in R4; %a dies; callees keep R8 and R9
//! arguments:    R4 <- R5 (%a),  R5 <- R6 (%b)
//! clear_fixed_registers:  %c leaves R4 for R8; %b leaves R6, which the call overwrites, for R9 (without a free register it is dropped)
//! emitted:      the parallel copy R4 <- R5, R5 <- R6, R8 <- R4, R9 <- R6;  then CALL
//! ```
//!
//! **Tied operands.** The hardware reads a tied source in the register of its result (a guarded instruction keeps the old content where the
//! guard is false). If the source dies, the result inherits its registers. Otherwise the result gets other registers, and the source is
//! copied into them before the instruction (`choose_tied_registers`):
//!
//! ```text
//! @%p %x = IADD3 %a, 0x1, RZ, (else %a)     %a in R4 dies:      @P0 IADD3 R4, R4, 0x1, RZ
//!                                           %a in R4 stays live: MOV R5, R4;  @P0 IADD3 R5, R4, 0x1, RZ
//! ```
//!
//! Cost: constant for each operand that is already in suitable registers; otherwise one scan over the windows of the file.

use oriole_ir::{Inst, Op, Pseudo};
use smallvec::SmallVec;

use crate::assigner::RegisterAssigner;
use crate::inst_state::{InstAllocationState, Reload};
use crate::liveness::RegisterFileInst;
use crate::operands::operand_width;
use crate::outcome::AllocateError;
use crate::registers::RegisterSet;

impl RegisterAssigner<'_> {
    /// Assigns registers to the operands of an instruction, and appends the instruction to `out` after the moves and reloads it needs.
    pub(crate) fn allocate_inst(&mut self, file_inst: RegisterFileInst, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let inst = file_inst.inst;
        let data = &self.function.insts[inst];
        if let Op::Pseudo(_) = data.op {
            self.output.has_pseudo_ops[self.walk.block] = true;
        }
        match data.op {
            // Phis got their registers when the block was entered.
            Op::Pseudo(Pseudo::Phi) => {
                out.push(inst);
                Ok(())
            }
            Op::Pseudo(Pseudo::Copy | Pseudo::Pack) if data.guard.is_none() && !self.inputs.liveness.writes(file_inst).is_empty() => {
                self.allocate_copy(file_inst, out)
            }
            _ => {
                let mut state = self.new_inst_state(file_inst);
                if state.is_empty() {
                    out.push(inst);
                    return Ok(());
                }
                self.choose_source_registers(&mut state)?;
                self.clear_fixed_registers(&mut state)?;
                self.choose_result_registers(&mut state)?;
                self.emit_inst(&state, out)
            }
        }
    }

    /// Brings the sources that need a register into registers, and chooses registers for tied results, which share the register of a
    /// source.
    fn choose_source_registers(&mut self, state: &mut InstAllocationState) -> Result<(), AllocateError> {
        for number in 0..state.uses.len() {
            let used = state.uses[number];
            if !used.needs_register {
                continue;
            }
            let class = self.class_of(used.value);
            let now = self.registers.register_of(used.value);
            // A source in the register of a fixed argument has to move: the argument copy would overwrite it.
            if let Some(now) = now.filter(|&now| state.source_registers.has_all(now, class.width)) {
                state.uses[number].register = Some(now);
                continue;
            }
            let free = self.registers.free.and(&state.source_registers);
            let place = self.choose_registers(used.value, &free).or_else(|| self.make_room(state, class));
            // Each window (aligned run of registers) for this source holds another source. `repack` then places all sources and tied
            // results together, so no source is left to place here.
            let Some(place) = place else {
                return self.repack(state);
            };
            state.uses[number].register = Some(place);
            if now.is_some() {
                self.move_value_before_inst(state, used.value, place);
            } else {
                self.registers.occupy(used.value, place);
                state.reloads.push(Reload { value: used.value, to: place });
            }
        }
        if !self.choose_tied_registers(state) {
            return self.repack(state);
        }
        Ok(())
    }

    /// Chooses registers for tied results, those that share the register of a source: the registers of the source if it dies at the
    /// instruction, otherwise free ones into which the source is copied. The copy is made before the instruction, so these registers must
    /// not hold any source. Returns false if no aligned run of registers can be freed.
    fn choose_tied_registers(&mut self, state: &mut InstAllocationState) -> bool {
        if !state.has_tied {
            return true;
        }
        for number in 0..state.results.len() {
            let Some(tied) = self.tied_source(state, &state.results[number]) else { continue };
            let (value, class) = (state.results[number].value, self.class_of(state.results[number].value));
            // `inheritable_register` rejects registers in `result_registers`, so two results never inherit the registers of the same
            // source.
            if let Some(place) = self.inheritable_register(state, &state.results[number], &tied) {
                state.set_result_registers(number, place, class.width);
                continue;
            }
            let free = self.registers.free.and(&state.source_registers).without(&state.result_registers);
            let Some(place) = self.choose_registers(value, &free).or_else(|| self.make_room(state, class)) else { return false };
            state.set_result_registers(number, place, class.width);
            state.results[number].tied_copy = Some(tied);
        }
        true
    }

    /// Moves or drops (evicts) live values in the registers that fixed arguments, fixed results and the call itself overwrite.
    fn clear_fixed_registers(&mut self, state: &mut InstAllocationState) -> Result<(), AllocateError> {
        if state.clobbered == RegisterSet::EMPTY {
            return Ok(());
        }
        // A fixed operand is impossible if any of its registers is not usable, for instance above the register limit.
        let arguments = state.arguments.iter().map(|argument| (argument.to, operand_width(&argument.from)));
        let results = state.results.iter().filter_map(|result| Some((result.fixed?, self.class_of(result.value).width)));
        if !arguments.chain(results).all(|(to, width)| self.registers.usable.has_all(to, width)) {
            return Err(self.register_limit_error(state));
        }
        for value in self.registers.values_in_registers(&state.clobbered) {
            if state.dies(value) {
                continue;
            }
            let free = self.registers.free.without(&state.clobbered).without(&state.result_registers);
            if let Some(to) = self.choose_registers(value, &free) {
                self.move_value_before_inst(state, value, to);
            } else if state.needs_value_in_register(value) {
                // The instruction still reads the value, so the registers of the value become free only after the read.
                state.dropped.push(value);
            } else {
                self.evict_before_inst(state, value);
            }
        }
        Ok(())
    }

    /// Chooses registers for the results that are not tied to a source: first results with fixed registers, then the others, widest first.
    fn choose_result_registers(&mut self, state: &mut InstAllocationState) -> Result<(), AllocateError> {
        let mut after = self.registers_free_for_results(state);
        for number in 0..state.results.len() {
            if let Some(to) = state.results[number].fixed {
                let width = self.class_of(state.results[number].value).width;
                state.set_result_registers(number, to, width);
                after.remove(to, width);
            }
        }
        let mut numbers: SmallVec<[usize; 4]> =
            (0..state.results.len()).filter(|&number| state.results[number].register.is_none()).collect();
        if numbers.len() > 1 {
            numbers.sort_by_key(|&number| std::cmp::Reverse(self.class_of(state.results[number].value).width));
        }
        for number in numbers {
            let value = state.results[number].value;
            let class = self.class_of(value);
            let place = match self.choose_registers(value, &after) {
                Some(place) => place,
                None => self.make_room_for_result(state, class, None).ok_or_else(|| self.register_limit_error(state))?,
            };
            state.set_result_registers(number, place, class.width);
            after.remove(place, class.width);
        }
        Ok(())
    }
}
