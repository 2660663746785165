//! Assigns registers to the operands of one instruction.
//!
//! **Input:** the registers of all live values before the instruction (`register_of`, `free`, `occupant` of [`Assigner`]), and the
//! next-use positions of its operands. **Output:** the instruction with physical registers, the moves and reloads before it, and the
//! registers of all live values after it.
//!
//! An ordinary instruction is handled in four steps:
//!
//! 1. `find_sources`: every source is brought into registers. If no aligned gap is free, values that the instruction does not read are
//!    moved or dropped (`make_room`). If that fails too, all sources are packed anew (`repack`).
//! 2. `clear_fixed`: live values leave the registers that the instruction overwrites: fixed arguments, fixed results, call clobbers.
//! 3. `find_results`: results get registers. The hardware reads all sources before it writes a result, so a result may take the
//!    registers of a source that dies here or that is dropped here.
//! 4. `finish`: emits all moves as one parallel copy, then the reloads, and rewrites the operands.
//!
//! `COPY` and `PACK` are handled by `allocate_copy`. They need no sources in registers: each part moves or is reloaded directly into the
//! result.
//!
//! Which value is dropped follows Belady's MIN rule, as in Braun and Hack 2009 ("Register Spilling and Live-Range Splitting for SSA-Form
//! Programs"): the one whose next use is farthest away. Departures: registers are chosen in the same walk, and not afterwards by a
//! coloring; values are tuples, so a whole aligned window of registers is freed instead of single registers; and a value that can be
//! recomputed or that already has a store is preferred ([`Assigner::drop_cost`]).
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
//! Cost: constant for each operand that is already in place; one scan over the windows of the file where space has to be made.

use oriole_ir::{Class, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role, Value};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::AllocateError;
use crate::assign::{Assigner, NO_REGISTER};
use crate::hints::operand_width;
use crate::liveness::{FileInst, NEVER};
use crate::moves::{Move, Sink, register};
use crate::registers::RegisterSet;
use crate::spill::EmitPoint;

/// A value that an instruction reads. Several operands that read the same value share one `Use`.
#[derive(Clone, Copy)]
struct Use {
    value: Value,
    /// Position of the value's next use after this instruction; [`NEVER`] if it dies here.
    next: u32,
    /// First register in which the instruction reads the value; [`NO_REGISTER`] if only fixed operands read it.
    at: u16,
    /// Whether an operand that is not fixed, or the guard, reads the value. Such a value has to be in registers at the instruction.
    needs_register: bool,
}

/// A value that an instruction writes.
struct ResultState {
    value: Value,
    /// Position of the value's first use; [`NEVER`] if it has none.
    next: u32,
    /// Index of the result among the operands.
    operand: usize,
    /// First register of the result; [`NO_REGISTER`] until one is chosen.
    at: u16,
    /// The tied source that has to be copied into `at` before the instruction. `None` if the result takes over the registers of its
    /// tied source, or if it has none.
    tied_copy: Option<Operand>,
}

/// A value that changes its registers before the instruction.
struct Moved {
    value: Value,
    from: u16,
    to: u16,
}

/// The decisions made so far for one instruction. Nothing is emitted before [`Assigner::finish`].
struct InstState {
    inst: Inst,
    /// Position of the instruction in its block.
    position: u32,
    has_tied: bool,
    has_fixed: bool,
    uses: SmallVec<[Use; 6]>,
    results: SmallVec<[ResultState; 2]>,
    /// Values that move before the instruction: each once, from its registers when this state was created to its final ones.
    moved: Vec<Moved>,
    /// Dropped values that are reloaded before the instruction, with their first registers.
    reloads: SmallVec<[(Value, u16); 4]>,
    /// Live values that are dropped at the instruction, after it has read its sources, because a result overwrites their registers.
    dropped: SmallVec<[Value; 4]>,
    /// Registers of results chosen so far, and of the copies for tied results.
    taken: RegisterSet,
    /// The free registers when this state was created: the moves before the instruction read no value from them.
    free_before: RegisterSet,
    /// Registers in which sources that need a register may be: all usable ones except those of fixed arguments, which are overwritten by
    /// the argument copies before the instruction reads its sources.
    source_registers: RegisterSet,
    /// Registers that the instruction or its argument copies overwrite: fixed arguments, fixed results, call clobbers.
    clobbered: RegisterSet,
    arguments: Vec<Argument>,
}

/// A source that has to be in a fixed register when the instruction executes.
struct Argument {
    /// The fixed register, the first one of a tuple.
    to: u16,
    /// The source: a value of the file, or a constant.
    from: Operand,
    /// First register of the value when the state was created; [`NO_REGISTER`] for a dropped value or a constant. The parallel copy reads
    /// all its sources first, so this stays right whatever moves later.
    was_at: u16,
}

impl InstState {
    fn use_of(&mut self, value: Value) -> Option<&mut Use> {
        self.uses.iter_mut().find(|used| used.value == value)
    }

    /// Whether a value must stay in registers until the instruction has read it.
    fn is_pinned(&self, value: Value) -> bool {
        self.uses.iter().any(|used| used.value == value && used.needs_register)
    }

    /// Whether this instruction is the last use of a value.
    fn dies(&self, value: Value) -> bool {
        self.uses.iter().any(|used| used.value == value && used.next == NEVER)
    }
}

impl Assigner<'_> {
    /// Assigns registers to the operands of an instruction, and appends the instruction to `out` after the moves and reloads it needs.
    pub(crate) fn allocate_inst(&mut self, file_inst: FileInst, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let inst = file_inst.inst;
        let data = &self.function.insts[inst];
        if let Op::Pseudo(_) = data.op {
            self.has_pseudo[self.block.position()] = true;
        }
        match data.op {
            // Phis got their registers when the block was entered.
            Op::Pseudo(Pseudo::Phi) => {
                out.push(inst);
                Ok(())
            }
            Op::Pseudo(Pseudo::Copy | Pseudo::Pack) if data.guard.is_none() && !self.liveness.defined(file_inst).is_empty() => {
                self.allocate_copy(file_inst, out)
            }
            _ => {
                let mut state = self.begin(file_inst);
                if state.uses.is_empty() && state.results.is_empty() && state.arguments.is_empty() && state.clobbered == RegisterSet::EMPTY
                {
                    out.push(inst);
                    return Ok(());
                }
                self.find_sources(&mut state)?;
                self.clear_fixed(&mut state)?;
                self.find_results(&mut state)?;
                self.finish(&state, out)
            }
        }
    }

    /// Collects the uses, results and fixed operands of an instruction.
    fn begin(&mut self, file_inst: FileInst) -> InstState {
        let FileInst { inst, position, .. } = file_inst;
        let mut uses: SmallVec<[Use; 6]> = SmallVec::new();
        for (&value, &next) in self.liveness.used(file_inst).iter().zip(self.liveness.nexts_of_used(file_inst)) {
            if !uses.iter().any(|used| used.value == value) {
                uses.push(Use { value, next, at: NO_REGISTER, needs_register: false });
            }
        }
        // `fixed`: registers of fixed arguments. `clobbered`: registers that the instruction itself overwrites.
        let is_keep = self.function.insts[inst].is(Pseudo::Keep);
        let (mut fixed, mut clobbered) = (RegisterSet::EMPTY, RegisterSet::EMPTY);
        let mut arguments = Vec::new();
        if file_inst.has_fixed || is_keep {
            self.find_arguments(inst, &mut uses, &mut fixed, &mut arguments);
        } else {
            uses.iter_mut().for_each(|used| used.needs_register = true);
        }
        let mut results: SmallVec<[ResultState; 2]> = SmallVec::new();
        let mut nexts = self.liveness.nexts_of_defined(file_inst).iter();
        for (operand, result) in self.function.results(inst).iter().enumerate() {
            if let Some(value) = result.value().filter(|&value| self.class(value).file == self.file)
                && let Some(&next) = nexts.next()
            {
                results.push(ResultState { value, next, operand, at: NO_REGISTER, tied_copy: None });
            }
        }
        if self.function.insts[inst].is_machine(Opcode::CALL) {
            clobbered = self.env.clobbered(self.function, inst, self.file);
        }
        if file_inst.has_fixed {
            for result in self.function.results(inst) {
                if let (Role::Fixed(to), Some(part)) = (result.role, result.part())
                    && self.class(part.value).file == self.file
                {
                    clobbered.insert(u16::from(to), part.count);
                }
            }
        }
        InstState {
            inst,
            position,
            has_tied: file_inst.has_tied,
            has_fixed: file_inst.has_fixed,
            uses,
            results,
            moved: Vec::new(),
            reloads: SmallVec::new(),
            dropped: SmallVec::new(),
            taken: RegisterSet::EMPTY,
            free_before: self.free,
            source_registers: self.usable.without(&fixed),
            clobbered: clobbered.or(&fixed),
            arguments,
        }
    }

    /// Lists the arguments in fixed registers, adds their registers to `fixed`, and sets `needs_register` of the values that other operands
    /// read. The unfixed operands of `KEEP` only extend live ranges, so they need no register.
    fn find_arguments(&self, inst: Inst, uses: &mut SmallVec<[Use; 6]>, fixed: &mut RegisterSet, arguments: &mut Vec<Argument>) {
        let guard = self.function.insts[inst]
            .guard
            .and_then(|guard| if let OperandKind::Value(part) = guard.kind { Some(part.value) } else { None });
        let is_keep = self.function.insts[inst].is(Pseudo::Keep);
        for source in self.function.sources(inst) {
            if let (Role::Fixed(to), Some(file)) = (source.role, fixed_constant_file(source))
                && file == self.file
            {
                fixed.insert(u16::from(to), 1);
                arguments.push(Argument { to: u16::from(to), from: *source, was_at: NO_REGISTER });
            }
            let Some(part) = source.part().filter(|part| self.class(part.value).file == self.file) else { continue };
            if let Role::Fixed(to) = source.role {
                fixed.insert(u16::from(to), part.count);
                arguments.push(Argument { to: u16::from(to), from: *source, was_at: self.register_of[part.value.position()] });
            } else if !is_keep && let Some(used) = uses.iter_mut().find(|used| used.value == part.value) {
                used.needs_register = true;
            }
        }
        if let Some(used) = uses.iter_mut().find(|used| Some(used.value) == guard) {
            used.needs_register = true;
        }
    }

    /// The error for an instruction whose operands do not fit into the usable registers.
    fn limit(&self, state: &InstState) -> AllocateError {
        AllocateError::Limit { inst: state.inst, file: self.file, available: self.env.limit(self.file) }
    }

    /// Moves a value to other registers before the instruction.
    fn relocate(&mut self, state: &mut InstState, value: Value, to: u16) {
        let from = self.register_of[value.position()];
        self.vacate(value);
        self.occupy(value, to);
        self.note_move(state, value, from, to);
    }

    /// Records that a value now is in register `to`. All moves before an instruction are one parallel copy, so a value that moves twice
    /// keeps its first source and gets the last destination, and a value that is reloaded is reloaded into the last destination.
    fn note_move(&mut self, state: &mut InstState, value: Value, from: u16, to: u16) {
        if let Some(used) = state.use_of(value).filter(|used| used.at != NO_REGISTER) {
            used.at = to;
        }
        if let Some(reload) = state.reloads.iter_mut().find(|reload| reload.0 == value) {
            reload.1 = to;
        } else if let Some(moved) = state.moved.iter_mut().find(|moved| moved.value == value) {
            moved.to = to;
        } else {
            state.moved.push(Moved { value, from, to });
        }
    }

    /// Brings the sources that need a register into registers, and finds registers for tied results.
    fn find_sources(&mut self, state: &mut InstState) -> Result<(), AllocateError> {
        for number in 0..state.uses.len() {
            let used = state.uses[number];
            if !used.needs_register {
                continue;
            }
            let class = self.class(used.value);
            let now = self.register_of[used.value.position()];
            // A source in the register of a fixed argument has to move: the argument copy would overwrite it.
            if now != NO_REGISTER && state.source_registers.has_all(now, class.width) {
                state.uses[number].at = now;
                continue;
            }
            let free = self.free.and(&state.source_registers);
            let place = self.choose(used.value, &free).or_else(|| self.make_room(state, class));
            // Every window holds another source. `repack` places all sources and tied results at once, so the loop ends here.
            let Some(place) = place else {
                return self.repack(state);
            };
            if now == NO_REGISTER {
                self.occupy(used.value, place);
                state.reloads.push((used.value, place));
                state.uses[number].at = place;
            } else {
                state.uses[number].at = place;
                self.relocate(state, used.value, place);
            }
        }
        if !self.find_tied(state) {
            return self.repack(state);
        }
        Ok(())
    }

    /// Returns the source that is tied to a result, if there is one.
    fn tied(&self, state: &InstState, result: &ResultState) -> Option<Operand> {
        self.function.tied_to(state.inst, result.operand).copied()
    }

    /// Returns the first register of a tied result if it can take over the registers of its source: the source dies here, has the same
    /// width, and starts at a multiple of the result's alignment.
    fn inherited(&self, state: &InstState, result: &ResultState, tied: &Operand) -> Option<u16> {
        let part = tied.part().filter(|part| self.class(part.value).file == self.file)?;
        let used = state.uses.iter().find(|used| used.value == part.value)?;
        let place = used.at + u16::from(part.first);
        let class = self.class(result.value);
        let fits = place.is_multiple_of(u16::from(class.align)) && !state.taken.has_any(place, class.width);
        (used.next == NEVER && fits && part.count == class.width).then_some(place)
    }

    /// Chooses registers for tied results: those of the source where it dies, otherwise free ones and a copy of the source. The copy is
    /// made before the instruction, so these registers must not hold any source. Returns false if space cannot be made.
    fn find_tied(&mut self, state: &mut InstState) -> bool {
        if !state.has_tied {
            return true;
        }
        for number in 0..state.results.len() {
            let Some(tied) = self.tied(state, &state.results[number]) else { continue };
            let (value, class) = (state.results[number].value, self.class(state.results[number].value));
            // `inherited` looks at `taken`, so two results never take over the same source.
            if let Some(place) = self.inherited(state, &state.results[number], &tied) {
                state.results[number].at = place;
                state.taken.insert(place, class.width);
                continue;
            }
            let free = self.free.and(&state.source_registers).without(&state.taken);
            let Some(place) = self.choose(value, &free).or_else(|| self.make_room(state, class)) else { return false };
            state.results[number].at = place;
            state.results[number].tied_copy = Some(tied);
            state.taken.insert(place, class.width);
        }
        true
    }

    /// Frees an aligned window before the instruction: the values in it move or are dropped. Returns its first register; `None` if every
    /// window holds a source of the instruction.
    fn make_room(&mut self, state: &mut InstState, class: Class) -> Option<u16> {
        let within = state.source_registers.without(&state.taken);
        let spare = self.free.and(&within).count();
        // With enough free registers the only problem is fragmentation, and moves are cheaper than spills. The count ignores alignment,
        // so a value in the chosen window may still find no gap; the loop below drops it then.
        let (_, place) = if spare >= u32::from(class.width) {
            self.window_to_shift(class, &within, |value| !state.is_pinned(value))
        } else {
            self.cheapest_window(class, &within, state.position, |value| !state.is_pinned(value))
        }?;
        let mut window = RegisterSet::EMPTY;
        window.insert(place, class.width);
        for value in self.residents_of(&window) {
            let free = self.free.and(&state.source_registers).without(&window).without(&state.taken);
            match self.choose(value, &free) {
                Some(to) => self.relocate(state, value, to),
                None => {
                    // A move recorded earlier for this instruction is not needed any more.
                    state.moved.retain(|moved| moved.value != value);
                    self.drop_value(value);
                }
            }
        }
        Some(place)
    }

    /// Returns the window whose values are the fewest registers wide in total, as (that number, first register); the lowest window among
    /// equals. A window with a value that may not move is left out. `None` if no window is left.
    fn window_to_shift(&self, class: Class, within: &RegisterSet, may_move: impl Fn(Value) -> bool) -> Option<(u64, u16)> {
        let mut best: Option<(u64, u16)> = None;
        for place in within.places(class).iter() {
            let mut cost = 0;
            let mut last = None;
            let mut allowed = true;
            for register in place..place + u16::from(class.width) {
                let occupant = self.occupant(register);
                if let Some(value) = occupant.filter(|_| occupant != last) {
                    allowed &= may_move(value);
                    cost += u64::from(self.class(value).width);
                }
                last = occupant;
            }
            if allowed && best.is_none_or(|(lowest, _)| cost < lowest) {
                best = Some((cost, place));
            }
        }
        best
    }

    /// Returns the values that occupy a register of a set, widest first: wide values are harder to place, so they choose first.
    fn residents_of(&self, set: &RegisterSet) -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        for register in set.iter() {
            if let Some(value) = self.occupant(register).filter(|value| !found.contains(value)) {
                found.push(value);
            }
        }
        found.sort_by_key(|&value| (std::cmp::Reverse(self.class(value).width), value));
        found
    }

    /// Assigns all sources that need a register and tied copies anew, in decreasing order of alignment and width, each to the lowest
    /// aligned gap; drops every other value in these registers. The last resort where the sources themselves block all windows.
    ///
    /// First-fit in decreasing order leaves no unusable gap between tuples whose widths are powers of two. If it fails, the allocation
    /// fails.
    ///
    /// Example: R4 to R15 are usable; the instruction reads `%a` in R4, `%b` in R8, `%c` in R12 and the dropped quad `%q`. All three
    /// windows of four registers hold a source. `repack` gives R4:R7 to `%q`, then R8, R9 and R10 to `%a`, `%b` and `%c`.
    fn repack(&mut self, state: &mut InstState) -> Result<(), AllocateError> {
        enum Item {
            Use(usize),
            Copy(usize, Operand),
        }
        // Choices made so far for tied results are void. Moves and reloads recorded so far stay; `note_move` updates them.
        state.taken = RegisterSet::EMPTY;
        let mut items: Vec<(Class, Item)> = Vec::new();
        for (number, used) in state.uses.iter().enumerate().filter(|(_, used)| used.needs_register) {
            items.push((self.class(used.value), Item::Use(number)));
        }
        for (number, result) in state.results.iter_mut().enumerate() {
            result.at = NO_REGISTER;
            result.tied_copy = None;
            let Some(tied) = self.function.tied_to(state.inst, result.operand) else { continue };
            let dies = tied.value().is_some_and(|value| state.uses.iter().any(|used| used.value == value && used.next == NEVER));
            let aligned = tied.part().is_some_and(|part| part.first.is_multiple_of(self.function.values[result.value].align));
            // A tied source that lives on needs a copy; one that dies hands its registers over, at the end of this function.
            if !dies || !aligned {
                items.push((self.function.values[result.value], Item::Copy(number, *tied)));
            }
        }
        items.sort_by_key(|(class, _)| std::cmp::Reverse((class.align, class.width)));
        let mut open = state.source_registers;
        let mut places: Vec<(Item, u16)> = Vec::new();
        let mut used_set = RegisterSet::EMPTY;
        for (class, item) in items {
            let Some(place) = open.places(class).lowest() else { return Err(self.limit(state)) };
            open.remove(place, class.width);
            used_set.insert(place, class.width);
            places.push((item, place));
        }
        // Take all sources out before any is put in: a source may get registers that another source still occupies.
        let origins: Vec<u16> = state.uses.iter().map(|used| self.register_of[used.value.position()]).collect();
        for (used, &origin) in state.uses.iter().zip(&origins) {
            if used.needs_register && origin != NO_REGISTER {
                self.vacate(used.value);
            }
        }
        for value in self.residents_of(&used_set) {
            state.moved.retain(|moved| moved.value != value);
            self.drop_value(value);
        }
        for (item, place) in places {
            match item {
                Item::Use(number) => {
                    let value = state.uses[number].value;
                    self.occupy(value, place);
                    state.uses[number].at = place;
                    match origins[number] {
                        NO_REGISTER => state.reloads.push((value, place)),
                        from if from != place => self.note_move(state, value, from, place),
                        _ => {}
                    }
                }
                Item::Copy(number, tied) => {
                    state.results[number].at = place;
                    state.results[number].tied_copy = Some(tied);
                    state.taken.insert(place, self.class(state.results[number].value).width);
                }
            }
        }
        for number in 0..state.results.len() {
            if state.results[number].at == NO_REGISTER
                && let Some(tied) = self.tied(state, &state.results[number])
            {
                let Some(place) = self.inherited(state, &state.results[number], &tied) else { return Err(self.limit(state)) };
                state.results[number].at = place;
                state.taken.insert(place, self.class(state.results[number].value).width);
            }
        }
        Ok(())
    }

    /// Removes live values from the registers that arguments, results and the call itself overwrite.
    fn clear_fixed(&mut self, state: &mut InstState) -> Result<(), AllocateError> {
        if state.clobbered == RegisterSet::EMPTY {
            return Ok(());
        }
        // A fixed operand outside the usable registers, for instance above the register limit, cannot be served.
        let out_of_reach = state.clobbered.without(&self.usable);
        let fixed_registers = state.arguments.iter().map(|argument| argument.to).chain(state.results.iter().filter_map(|result| {
            if let Role::Fixed(to) = self.function.operands(state.inst)[result.operand].role { Some(u16::from(to)) } else { None }
        }));
        if fixed_registers.into_iter().any(|to| out_of_reach.has(to)) {
            return Err(self.limit(state));
        }
        for value in self.residents_of(&state.clobbered) {
            if state.dies(value) {
                continue;
            }
            let free = self.free.without(&state.clobbered).without(&state.taken);
            if let Some(to) = self.choose(value, &free) {
                self.relocate(state, value, to);
            } else if state.is_pinned(value) {
                // The instruction still reads the value here, so it leaves its registers only at the instruction.
                state.dropped.push(value);
            } else {
                state.moved.retain(|moved| moved.value != value);
                self.drop_value(value);
            }
        }
        Ok(())
    }

    /// Chooses registers for the results that are not tied: fixed ones first, then the widest first.
    fn find_results(&mut self, state: &mut InstState) -> Result<(), AllocateError> {
        // Free when results are written: registers that are free now, and those of sources that die here.
        let mut after = self.free.without(&state.taken);
        for used in state.uses.iter().filter(|used| used.next == NEVER) {
            let at = self.register_of[used.value.position()];
            if at != NO_REGISTER {
                after.insert(at, self.class(used.value).width);
            }
        }
        after = after.without(&state.taken);
        for result in state.results.iter_mut().filter(|_| state.has_fixed) {
            if let Role::Fixed(to) = self.function.operands(state.inst)[result.operand].role {
                let width = self.function.values[result.value].width;
                result.at = u16::from(to);
                state.taken.insert(result.at, width);
                after.remove(result.at, width);
            }
        }
        let mut numbers: SmallVec<[usize; 4]> =
            (0..state.results.len()).filter(|&number| state.results[number].at == NO_REGISTER).collect();
        if numbers.len() > 1 {
            numbers.sort_by_key(|&number| std::cmp::Reverse(self.class(state.results[number].value).width));
        }
        for number in numbers {
            let value = state.results[number].value;
            let class = self.class(value);
            let place = match self.choose(value, &after) {
                Some(place) => place,
                None => self.make_room_for_result(state, class).ok_or_else(|| self.limit(state))?,
            };
            state.results[number].at = place;
            state.taken.insert(place, class.width);
            after.remove(place, class.width);
        }
        Ok(())
    }

    /// Frees an aligned window for a result and returns its first register. A live value in the window moves before the instruction, or
    /// is dropped at the instruction. Unlike in [`Assigner::make_room`], sources may be dropped, since they are read before the result is
    /// written.
    fn make_room_for_result(&mut self, state: &mut InstState, class: Class) -> Option<u16> {
        let within = self.usable.without(&state.taken);
        let mut best: Option<(u64, u16)> = None;
        let spare = self.free.without(&state.taken).count();
        for place in within.places(class).iter() {
            let (mut cost, mut last, mut shifted) = (0, None, 0);
            for register in place..place + u16::from(class.width) {
                let occupant = self.occupant(register);
                if let Some(value) = occupant.filter(|&value| occupant != last && !state.dies(value) && !state.dropped.contains(&value)) {
                    cost += self.drop_cost(value, state.position);
                    shifted += u32::from(self.class(value).width);
                }
                last = occupant;
            }
            // All values of the window probably find a free place. Moving a register costs 1; the drop costs above are at least 16, so
            // moves of fewer than 16 registers are preferred to any drop.
            if shifted <= spare {
                cost = u64::from(shifted);
            }
            if best.is_none_or(|(lowest, _)| cost < lowest) {
                best = Some((cost, place));
            }
        }
        let (_, place) = best?;
        let mut window = RegisterSet::EMPTY;
        window.insert(place, class.width);
        for value in self.residents_of(&window) {
            if state.dies(value) || state.dropped.contains(&value) {
                continue;
            }
            let free = self.free.without(&window).without(&state.taken).without(&state.clobbered);
            match self.choose(value, &free) {
                Some(to) => self.relocate(state, value, to),
                None => state.dropped.push(value),
            }
        }
        Some(place)
    }

    /// Emits the moves, the reloads and the instruction, and updates which values are in which registers.
    fn finish(&mut self, state: &InstState, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let mut place = EmitPoint { out, location: self.function.insts[state.inst].location, inst: state.inst };
        let needs_preparation = !state.moved.is_empty() || !state.arguments.is_empty() || !state.reloads.is_empty() || state.has_tied;
        if needs_preparation {
            self.emit_preparation(state, &mut place)?;
        }
        self.rewrite_operands(state);
        let is_guarded_copy = self.function.insts[state.inst].is(Pseudo::Copy) && !state.results.is_empty();
        if is_guarded_copy {
            self.emit_guarded_copy(state, &mut place)?;
        }
        place.out.push(state.inst);
        // Order: dying sources and dropped values leave their registers before the results occupy them.
        for used in &state.uses {
            self.next_use[used.value.position()] = used.next;
            self.note_use(used.value, state.position, used.next);
            if used.next == NEVER && self.register_of[used.value.position()] != NO_REGISTER {
                self.vacate(used.value);
            }
        }
        for &value in &state.dropped {
            self.drop_value(value);
        }
        for result in &state.results {
            self.occupy(result.value, result.at);
            self.note_definition(result.value, state.inst, state.position, result.next, result.at);
        }
        // Unused results free their registers only after all results have theirs: an instruction writes all of them.
        for result in state.results.iter().filter(|result| result.next == NEVER) {
            self.vacate(result.value);
        }
        if self.function.insts[state.inst].is(Pseudo::Keep) {
            // The fixed operands of `KEEP` (results of the function, callee-saved registers) have to stay in place until the block ends.
            let kept = self.usable.without(&state.source_registers);
            self.usable = self.usable.without(&kept);
            self.free = self.free.without(&kept);
        }
        Ok(())
    }

    /// Emits the code before an instruction. The order matters: the parallel copy reads registers as they were when `state` was created,
    /// reloads and constants then fill registers that the copy has vacated, and tied copies read sources where the instruction reads them.
    fn emit_preparation(&mut self, state: &InstState, place: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        let mut moves: Vec<Move> = Vec::new();
        for moved in &state.moved {
            let width = u16::from(self.class(moved.value).width);
            moves.extend((0..width).map(|number| Move { to: moved.to + number, from: moved.from + number }));
        }
        // Arguments are part of the same parallel copy: a value may be in the register of another argument.
        for argument in state.arguments.iter().filter(|argument| argument.was_at != NO_REGISTER) {
            let Some(part) = argument.from.part() else { continue };
            let from = argument.was_at + u16::from(part.first);
            moves.extend((0..u16::from(part.count)).map(|number| Move { to: argument.to + number, from: from + number }));
        }
        // A scratch register holds no value before the copy (`free_before`), none after it (`free`), and is no destination.
        let mut busy = RegisterSet::EMPTY;
        moves.iter().for_each(|one| busy.insert(one.to, 1));
        let scratch = self.free.and(&state.free_before).without(&busy).lowest();
        self.emit_moves(&moves, scratch, place)?;
        for &(value, to) in &state.reloads {
            let whole = self.function.whole(value);
            self.reload(whole, to, place)?;
        }
        for argument in state.arguments.iter().filter(|argument| argument.was_at == NO_REGISTER) {
            match argument.from.part() {
                Some(part) => self.reload(part, argument.to, place)?,
                None => self.emit_move(argument.to, unit(&argument.from, 0), place)?,
            }
        }
        for result in &state.results {
            let Some(tied) = result.tied_copy else { continue };
            for number in 0..self.class(result.value).width {
                let from = self.unit_of(state, &tied, number);
                self.emit_move(result.at + u16::from(number), from, place)?;
            }
        }
        Ok(())
    }

    /// Returns one register of a source, in the register where the instruction reads it.
    fn unit_of(&self, state: &InstState, operand: &Operand, number: u8) -> Operand {
        let in_register = |part: Part| {
            let used = state.uses.iter().find(|used| used.value == part.value && self.class(part.value).file == self.file)?;
            Some(register(self.file, used.at + u16::from(part.first + number), 1))
        };
        operand.part().and_then(in_register).unwrap_or_else(|| unit(operand, number))
    }

    /// Replaces the operands of this register file, and the guard, by physical registers.
    fn rewrite_operands(&mut self, state: &InstState) {
        let file = self.file;
        let results = self.function.insts[state.inst].result_count();
        let (operands, classes) = self.function.operands_and_classes(state.inst);
        for (number, operand) in operands.iter_mut().enumerate() {
            let OperandKind::Value(part) = operand.kind else {
                if let (Role::Fixed(to), true) = (operand.role, fixed_constant_file(operand) == Some(file)) {
                    operand.kind = OperandKind::Register { file, first: u16::from(to), count: 1 };
                }
                continue;
            };
            if classes[part.value].file != file {
                continue;
            }
            let made_at = |number: usize| state.results.iter().find(|result| result.operand == number).map(|result| result.at);
            // A tied source is encoded in the register of its result; a copy or the inheritance has put it there.
            let first = match operand.role {
                _ if number < results => made_at(number),
                Role::Tied(result) => made_at(usize::from(result)),
                Role::Fixed(to) => Some(u16::from(to)),
                _ => state.uses.iter().find(|used| used.value == part.value).map(|used| used.at.saturating_add(u16::from(part.first))),
            };
            if let Some(first) = first {
                operand.kind = OperandKind::Register { file, first, count: part.count };
            }
        }
        if let Some(mut guard) = self.function.insts[state.inst].guard
            && let OperandKind::Value(part) = guard.kind
            && let Some(used) = state.uses.iter().find(|used| used.value == part.value)
        {
            guard.kind = OperandKind::Register { file, first: used.at, count: 1 };
            self.function.insts[state.inst].guard = Some(guard);
        }
    }

    /// Emits a guarded copy as one guarded move for each register, and records the moves for the checker. The operands are rewritten.
    fn emit_guarded_copy(&mut self, state: &InstState, place: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        let (to, source) = (state.results[0].at, self.function.operands(state.inst)[1]);
        let width = self.class(state.results[0].value).width;
        // The moves are emitted one after the other, so a partly overlapping source would be overwritten before it is read.
        let overlaps = matches!(source.kind, OperandKind::Register { file, first, count }
            if file == self.file && first != to && first < to + u16::from(width) && to < first + u16::from(count));
        if overlaps && width > 1 {
            return Err(place.unsupported("a guarded copy within a value".into()));
        }
        let first = place.out.len();
        for number in 0..width {
            let guard = self.function.insts[state.inst].guard;
            let mut sink = Sink { function: self.function, out: place.out, location: place.location, guard };
            let to = register(self.file, to + u16::from(number), 1);
            let result = self.mover.emit(&mut sink, self.file, to, unit(&source, number));
            result.map_err(|what| place.unsupported(what))?;
        }
        let written = place.out[first..].to_vec();
        if written.len() != usize::from(width) {
            return Err(place.unsupported("a guarded copy that takes two instructions".into()));
        }
        self.guarded_copies.push((state.inst, written));
        Ok(())
    }

    /// Assigns registers to an unguarded `COPY` or `PACK`. Sources need not be in registers all at once, and the result may take the
    /// registers of sources that die here, which then need no move.
    fn allocate_copy(&mut self, file_inst: FileInst, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let FileInst { inst, position, .. } = file_inst;
        let mut state = self.begin(file_inst);
        let (value, next) = (state.results[0].value, state.results[0].next);
        let class = self.class(value);
        let sources: SmallVec<[Operand; 8]> = SmallVec::from_slice(self.function.sources(inst));
        if sources.len() > 1 && sources.iter().map(operand_width).sum::<i32>() != i32::from(class.width) {
            return Err(AllocateError::Invalid(format!("{inst:?} does not fill its result")));
        }
        let was_at: SmallVec<[u16; 8]> = sources
            .iter()
            .map(|source| match source.part().filter(|part| self.class(part.value).file == self.file) {
                Some(part) if self.register_of[part.value.position()] != NO_REGISTER => {
                    self.register_of[part.value.position()] + u16::from(part.first)
                }
                _ => NO_REGISTER,
            })
            .collect();
        // Registers that the result may take: the free ones and those of sources that die here.
        let mut after = self.free;
        for used in state.uses.iter().filter(|used| used.next == NEVER) {
            let at = self.register_of[used.value.position()];
            if at != NO_REGISTER {
                after.insert(at, self.class(used.value).width);
            }
        }
        let place_at = match self.place_among(class, &sources, &was_at, &after) {
            Some(place) => place,
            None => match self.choose(value, &after) {
                Some(place) => place,
                None => self.make_room_for_result(&mut state, class).ok_or_else(|| self.limit(&state))?,
            },
        };
        state.results[0].at = place_at;
        let mut place = EmitPoint { out, location: self.function.insts[inst].location, inst };
        self.emit_copy(&state, &sources, &was_at, &mut place)?;
        // The instruction itself stays in the list as the place of the definition: `rewrite_blocks` inserts the spill store after it
        // and deletes it.
        place.out.push(inst);
        self.function.operands_mut(inst)[0].kind = register(self.file, place_at, class.width).kind;
        for used in &state.uses {
            self.next_use[used.value.position()] = used.next;
            self.note_use(used.value, state.position, used.next);
            if used.next == NEVER && self.register_of[used.value.position()] != NO_REGISTER {
                self.vacate(used.value);
            }
        }
        state.dropped.iter().for_each(|&value| self.drop_value(value));
        self.occupy(value, place_at);
        self.note_definition(value, inst, position, next, place_at);
        if next == NEVER {
            self.vacate(value);
        }
        Ok(())
    }

    /// Returns the first register of the window in which the most registers of the sources already are at their offsets; `None` if no
    /// source suggests a window that is free.
    ///
    /// Example: `PACK %a, %b` with `%a` in R4 and `%b` in R7, both dying: `%a` suggests R4:R5 and `%b` suggests R6:R7. A window is only
    /// taken if all of it is free or held by dying sources.
    fn place_among(&mut self, class: Class, sources: &[Operand], was_at: &[u16], after: &RegisterSet) -> Option<u16> {
        let mut offset = 0;
        let mut wishes: SmallVec<[(u16, i32); 8]> = SmallVec::new();
        for (source, &at) in sources.iter().zip(was_at) {
            let width = operand_width(source);
            if at != NO_REGISTER
                && let Some(place) = at.checked_sub(offset)
                && place.is_multiple_of(u16::from(class.align))
                && after.has_all(place, class.width)
            {
                match wishes.iter_mut().find(|wish| wish.0 == place) {
                    Some(wish) => wish.1 += width,
                    None => wishes.push((place, width)),
                }
            }
            offset += width as u16;
        }
        wishes.iter().max_by_key(|wish| wish.1).map(|wish| wish.0)
    }

    /// Emits a `COPY` or `PACK`: sources in registers, and values that move away, as one parallel copy; then reloads of dropped sources;
    /// then constants and sources of other register files.
    fn emit_copy(
        &mut self,
        state: &InstState,
        sources: &[Operand],
        was_at: &[u16],
        place: &mut EmitPoint<'_>,
    ) -> Result<(), AllocateError> {
        let to = state.results[0].at;
        let width = self.class(state.results[0].value).width;
        let mut moves: Vec<Move> = Vec::new();
        for moved in &state.moved {
            let width = u16::from(self.class(moved.value).width);
            moves.extend((0..width).map(|number| Move { to: moved.to + number, from: moved.from + number }));
        }
        let mut offset = 0u16;
        for (source, &at) in sources.iter().zip(was_at) {
            let count = if sources.len() == 1 { u16::from(width) } else { operand_width(source) as u16 };
            if at != NO_REGISTER {
                moves.extend((0..count).map(|number| Move { to: to + offset + number, from: at + number }));
            }
            offset += count;
        }
        let mut busy = RegisterSet::EMPTY;
        moves.iter().for_each(|one| busy.insert(one.to, 1));
        busy.insert(to, width);
        let scratch = self.free.and(&state.free_before).without(&busy).lowest();
        self.emit_moves(&moves, scratch, place)?;
        let mut offset = 0u16;
        for (source, &at) in sources.iter().zip(was_at) {
            let count = if sources.len() == 1 { u16::from(width) } else { operand_width(source) as u16 };
            let own = source.part().filter(|part| self.class(part.value).file == self.file);
            match own {
                Some(part) if at == NO_REGISTER => self.reload(part, to + offset, place)?,
                Some(_) => {}
                None => {
                    for number in 0..count {
                        self.emit_move(to + offset + number, unit(source, number as u8), place)?;
                    }
                }
            }
            offset += count;
        }
        Ok(())
    }
}

/// Returns the register file of a fixed operand that is a constant and has to be copied into its register; `None` for other operands.
pub(crate) fn fixed_constant_file(operand: &Operand) -> Option<RegFile> {
    match (operand.role, operand.kind) {
        (Role::Fixed(_), OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Reference(_)) => Some(RegFile::General),
        (Role::Fixed(_), OperandKind::Zero(file)) => Some(file),
        _ => None,
    }
}

/// Returns register `number` of an operand, counted from 0, as an operand of one register. An integer is 64 bits wide: register 0 has the
/// low half, register 1 the high half, further registers are zero. Constants in banks are 4 bytes apart.
pub(crate) fn unit(operand: &Operand, number: u8) -> Operand {
    let kind = match operand.kind {
        OperandKind::Value(part) => OperandKind::Value(Part { value: part.value, first: part.first + number, count: 1 }),
        OperandKind::Register { file, first, .. } => OperandKind::Register { file, first: first + u16::from(number), count: 1 },
        OperandKind::Integer(bits) if number == 0 && i32::try_from(bits).is_err() => OperandKind::Integer(bits & 0xffff_ffff),
        OperandKind::Integer(bits) if number > 0 => OperandKind::Integer(if number == 1 { bits >> 32 & 0xffff_ffff } else { 0 }),
        OperandKind::Constant { bank, offset } => OperandKind::Constant { bank, offset: offset + 4 * u32::from(number) },
        other => other,
    };
    Operand { kind, role: Role::Plain, ..*operand }
}
