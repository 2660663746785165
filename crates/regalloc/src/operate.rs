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
//! `COPY` and `PACK` are handled by `assemble`. They need no sources in registers: each part moves or is reloaded directly into the result.
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

use oriole_ir::{Class, File, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, Role, Value};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::AllocateError;
use crate::assign::{Assigner, NOWHERE};
use crate::hints::operand_width;
use crate::liveness::{NEVER, Touch};
use crate::moves::{Sink, register};
use crate::registers::RegisterSet;
use crate::spill::Place;

/// A value that an instruction reads. Several operands that read the same value share one `Use`.
#[derive(Clone, Copy)]
struct Use {
    value: Value,
    /// Position of the value's next use after this instruction; [`NEVER`] if it dies here.
    next: u32,
    /// First register in which the instruction reads the value; [`NOWHERE`] if only fixed operands read it.
    at: u16,
    /// Whether an operand that is not fixed, or the guard, reads the value. Such a value has to be in registers at the instruction.
    plain: bool,
}

/// A value that an instruction writes.
struct Made {
    value: Value,
    /// Position of the value's first use; [`NEVER`] if it has none.
    next: u32,
    /// Index of the result among the operands.
    operand: usize,
    /// First register of the result; [`NOWHERE`] until one is chosen.
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
struct Step {
    inst: Inst,
    /// Position of the instruction in its block.
    position: u32,
    has_tied: bool,
    has_fixed: bool,
    uses: SmallVec<[Use; 6]>,
    made: SmallVec<[Made; 2]>,
    /// Values that move before the instruction: each once, from its registers at the start of the step to its final ones.
    moved: Vec<Moved>,
    /// Dropped values that are reloaded before the instruction, with their first registers.
    reloads: SmallVec<[(Value, u16); 4]>,
    /// Live values that are dropped at the instruction, after it has read its sources, because a result overwrites their registers.
    dropped: SmallVec<[Value; 4]>,
    /// Registers of results chosen so far, and of the copies for tied results.
    taken: RegisterSet,
    /// The free registers when the step began: no value is read from them by the moves of this step.
    free_before: RegisterSet,
    /// Registers in which plain sources may be: all usable ones except those of fixed arguments, which are overwritten by the argument
    /// copies before the instruction reads its sources.
    within: RegisterSet,
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
    /// First register of the value when the step began; [`NOWHERE`] for a dropped value or a constant. The parallel copy reads all
    /// its sources first, so this stays right whatever moves later in the step.
    was_at: u16,
}

impl Step {
    fn use_of(&mut self, value: Value) -> Option<&mut Use> {
        self.uses.iter_mut().find(|used| used.value == value)
    }

    /// Whether a value must stay in registers until the instruction has read it.
    fn is_pinned(&self, value: Value) -> bool {
        self.uses.iter().any(|used| used.value == value && used.plain)
    }

    /// Whether this instruction is the last use of a value.
    fn dies(&self, value: Value) -> bool {
        self.uses.iter().any(|used| used.value == value && used.next == NEVER)
    }
}

impl Assigner<'_> {
    /// Assigns registers to the operands of an instruction, and appends the instruction to `out` after the moves and reloads it needs.
    pub(crate) fn operate(&mut self, touch: Touch, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let inst = touch.inst;
        let data = &self.function.insts[inst];
        if let Op::Pseudo(_) = data.op {
            self.may_dissolve[self.block.position()] = true;
        }
        match data.op {
            // Phis got their registers when the block was entered.
            Op::Pseudo(Pseudo::Phi) => {
                out.push(inst);
                Ok(())
            }
            Op::Pseudo(Pseudo::Copy | Pseudo::Pack) if data.guard.is_none() && !self.liveness.defined(touch).is_empty() => {
                self.assemble(touch, out)
            }
            _ => {
                let mut step = self.begin(touch);
                if step.uses.is_empty() && step.made.is_empty() && step.arguments.is_empty() && step.clobbered == RegisterSet::EMPTY {
                    out.push(inst);
                    return Ok(());
                }
                self.find_sources(&mut step)?;
                self.clear_fixed(&mut step)?;
                self.find_results(&mut step)?;
                self.finish(&step, out)
            }
        }
    }

    /// Collects the uses, results and fixed operands of an instruction.
    fn begin(&mut self, touch: Touch) -> Step {
        let Touch { inst, position, .. } = touch;
        let mut uses: SmallVec<[Use; 6]> = SmallVec::new();
        for (&value, &next) in self.liveness.used(touch).iter().zip(self.liveness.nexts_of_used(touch)) {
            if !uses.iter().any(|used| used.value == value) {
                uses.push(Use { value, next, at: NOWHERE, plain: false });
            }
        }
        // `fixed`: registers of fixed arguments. `clobbered`: registers that the instruction itself overwrites.
        let is_keep = self.function.insts[inst].is(Pseudo::Keep);
        let (mut fixed, mut clobbered) = (RegisterSet::EMPTY, RegisterSet::EMPTY);
        let mut arguments = Vec::new();
        if touch.has_fixed || is_keep {
            self.find_arguments(inst, &mut uses, &mut fixed, &mut arguments);
        } else {
            uses.iter_mut().for_each(|used| used.plain = true);
        }
        let mut made: SmallVec<[Made; 2]> = SmallVec::new();
        let mut nexts = self.liveness.nexts_of_defined(touch).iter();
        for (operand, result) in self.function.results(inst).iter().enumerate() {
            if let Some(value) = result.value().filter(|&value| self.class(value).file == self.file)
                && let Some(&next) = nexts.next()
            {
                made.push(Made { value, next, operand, at: NOWHERE, tied_copy: None });
            }
        }
        if self.function.insts[inst].is_machine(Opcode::CALL) {
            clobbered = self.env.clobbered(self.function, inst, self.file);
        }
        if touch.has_fixed {
            for result in self.function.results(inst) {
                if let (Role::Fixed(to), Some(part)) = (result.role, result.part())
                    && self.class(part.value).file == self.file
                {
                    clobbered.insert(u16::from(to), part.count);
                }
            }
        }
        Step {
            inst,
            position,
            has_tied: touch.has_tied,
            has_fixed: touch.has_fixed,
            uses,
            made,
            moved: Vec::new(),
            reloads: SmallVec::new(),
            dropped: SmallVec::new(),
            taken: RegisterSet::EMPTY,
            free_before: self.free,
            within: self.usable.without(&fixed),
            clobbered: clobbered.or(&fixed),
            arguments,
        }
    }

    /// Lists the arguments in fixed registers, adds their registers to `fixed`, and marks the values that other operands read as plain.
    /// The unfixed operands of `KEEP` only extend live ranges, so they need no register.
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
                arguments.push(Argument { to: u16::from(to), from: *source, was_at: NOWHERE });
            }
            let Some(part) = source.part().filter(|part| self.class(part.value).file == self.file) else { continue };
            if let Role::Fixed(to) = source.role {
                fixed.insert(u16::from(to), part.count);
                arguments.push(Argument { to: u16::from(to), from: *source, was_at: self.register_of[part.value.position()] });
            } else if !is_keep && let Some(used) = uses.iter_mut().find(|used| used.value == part.value) {
                used.plain = true;
            }
        }
        if let Some(used) = uses.iter_mut().find(|used| Some(used.value) == guard) {
            used.plain = true;
        }
    }

    /// The error for an instruction whose operands do not fit into the usable registers.
    fn limit(&self, step: &Step) -> AllocateError {
        AllocateError::Limit { inst: step.inst, file: self.file, available: self.env.limit(self.file) }
    }

    /// Moves a value to other registers before the instruction.
    fn relocate(&mut self, step: &mut Step, value: Value, to: u16) {
        let from = self.register_of[value.position()];
        self.take(value);
        self.put(value, to);
        self.note_move(step, value, from, to);
    }

    /// Records that a value now is in register `to`. All moves of a step are one parallel copy, so a value that moves twice keeps its
    /// first source and gets the last destination, and a value that is reloaded is reloaded into the last destination.
    fn note_move(&mut self, step: &mut Step, value: Value, from: u16, to: u16) {
        if let Some(used) = step.use_of(value).filter(|used| used.at != NOWHERE) {
            used.at = to;
        }
        if let Some(reload) = step.reloads.iter_mut().find(|reload| reload.0 == value) {
            reload.1 = to;
        } else if let Some(moved) = step.moved.iter_mut().find(|moved| moved.value == value) {
            moved.to = to;
        } else {
            step.moved.push(Moved { value, from, to });
        }
    }

    /// Brings the plain sources into registers, and finds registers for tied results.
    fn find_sources(&mut self, step: &mut Step) -> Result<(), AllocateError> {
        for number in 0..step.uses.len() {
            let used = step.uses[number];
            if !used.plain {
                continue;
            }
            let class = self.class(used.value);
            let now = self.register_of[used.value.position()];
            // A source in the register of a fixed argument has to move: the argument copy would overwrite it.
            if now != NOWHERE && step.within.has_all(now, class.width) {
                step.uses[number].at = now;
                continue;
            }
            let free = self.free.and(&step.within);
            let place = self.choose(used.value, &free).or_else(|| self.make_room(step, class));
            // Every window holds another source. `repack` places all sources and tied results at once, so the loop ends here.
            let Some(place) = place else {
                return self.repack(step);
            };
            if now == NOWHERE {
                self.put(used.value, place);
                step.reloads.push((used.value, place));
                step.uses[number].at = place;
            } else {
                step.uses[number].at = place;
                self.relocate(step, used.value, place);
            }
        }
        if !self.find_tied(step) {
            return self.repack(step);
        }
        Ok(())
    }

    /// Returns the source that is tied to a result, if there is one.
    fn tied(&self, step: &Step, made: &Made) -> Option<Operand> {
        self.function.tied_to(step.inst, made.operand).copied()
    }

    /// Returns the first register of a tied result if it can take over the registers of its source: the source dies here, has the same
    /// width, and starts at a multiple of the result's alignment.
    fn inherited(&self, step: &Step, made: &Made, tied: &Operand) -> Option<u16> {
        let part = tied.part().filter(|part| self.class(part.value).file == self.file)?;
        let used = step.uses.iter().find(|used| used.value == part.value)?;
        let place = used.at + u16::from(part.first);
        let class = self.class(made.value);
        let fits = place.is_multiple_of(u16::from(class.align)) && !step.taken.has_any(place, class.width);
        (used.next == NEVER && fits && part.count == class.width).then_some(place)
    }

    /// Chooses registers for tied results: those of the source where it dies, otherwise free ones and a copy of the source. The copy is
    /// made before the instruction, so these registers must not hold any source. Returns false if space cannot be made.
    fn find_tied(&mut self, step: &mut Step) -> bool {
        if !step.has_tied {
            return true;
        }
        for number in 0..step.made.len() {
            let Some(tied) = self.tied(step, &step.made[number]) else { continue };
            let (value, class) = (step.made[number].value, self.class(step.made[number].value));
            // `inherited` looks at `taken`, so two results never take over the same source.
            if let Some(place) = self.inherited(step, &step.made[number], &tied) {
                step.made[number].at = place;
                step.taken.insert(place, class.width);
                continue;
            }
            let free = self.free.and(&step.within).without(&step.taken);
            let Some(place) = self.choose(value, &free).or_else(|| self.make_room(step, class)) else { return false };
            step.made[number].at = place;
            step.made[number].tied_copy = Some(tied);
            step.taken.insert(place, class.width);
        }
        true
    }

    /// Frees an aligned window before the instruction: the values in it move or are dropped. Returns its first register; `None` if every
    /// window holds a source of the instruction.
    fn make_room(&mut self, step: &mut Step, class: Class) -> Option<u16> {
        let within = step.within.without(&step.taken);
        let spare = self.free.and(&within).count();
        // With enough free registers the only problem is fragmentation, and moves are cheaper than spills. The count ignores alignment,
        // so a value in the chosen window may still find no gap; the loop below drops it then.
        let (_, place) = if spare >= u32::from(class.width) {
            self.window_to_shift(class, &within, |value| !step.is_pinned(value))
        } else {
            self.cheapest_window(class, &within, step.position, |value| !step.is_pinned(value))
        }?;
        let mut window = RegisterSet::EMPTY;
        window.insert(place, class.width);
        for value in self.residents_of(&window) {
            let free = self.free.and(&step.within).without(&window).without(&step.taken);
            match self.choose(value, &free) {
                Some(to) => self.relocate(step, value, to),
                None => {
                    // A move recorded earlier in this step is not needed any more.
                    step.moved.retain(|moved| moved.value != value);
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

    /// Assigns all plain sources and tied copies anew, in decreasing order of alignment and width, each to the lowest aligned gap; drops
    /// every other value in these registers. The last resort where the sources themselves block all windows.
    ///
    /// First-fit in decreasing order leaves no unusable gap between tuples whose widths are powers of two. If it fails, the allocation
    /// fails.
    ///
    /// Example: R4 to R15 are usable; the instruction reads `%a` in R4, `%b` in R8, `%c` in R12 and the dropped quad `%q`. All three
    /// windows of four registers hold a source. `repack` gives R4:R7 to `%q`, then R8, R9 and R10 to `%a`, `%b` and `%c`.
    fn repack(&mut self, step: &mut Step) -> Result<(), AllocateError> {
        enum Item {
            Use(usize),
            Copy(usize, Operand),
        }
        // Choices that this step made for tied results are void. Moves and reloads recorded so far stay; `note_move` updates them.
        step.taken = RegisterSet::EMPTY;
        let mut items: Vec<(Class, Item)> = Vec::new();
        for (number, used) in step.uses.iter().enumerate().filter(|(_, used)| used.plain) {
            items.push((self.class(used.value), Item::Use(number)));
        }
        for (number, made) in step.made.iter_mut().enumerate() {
            made.at = NOWHERE;
            made.tied_copy = None;
            let Some(tied) = self.function.tied_to(step.inst, made.operand) else { continue };
            let dies = tied.value().is_some_and(|value| step.uses.iter().any(|used| used.value == value && used.next == NEVER));
            let aligned = tied.part().is_some_and(|part| part.first.is_multiple_of(self.function.values[made.value].align));
            // A tied source that lives on needs a copy; one that dies hands its registers over, at the end of this function.
            if !dies || !aligned {
                items.push((self.function.values[made.value], Item::Copy(number, *tied)));
            }
        }
        items.sort_by_key(|(class, _)| std::cmp::Reverse((class.align, class.width)));
        let mut open = step.within;
        let mut places: Vec<(Item, u16)> = Vec::new();
        let mut used_set = RegisterSet::EMPTY;
        for (class, item) in items {
            let Some(place) = open.places(class).lowest() else { return Err(self.limit(step)) };
            open.remove(place, class.width);
            used_set.insert(place, class.width);
            places.push((item, place));
        }
        // Take all sources out before any is put in: a source may get registers that another source still occupies.
        let origins: Vec<u16> = step.uses.iter().map(|used| self.register_of[used.value.position()]).collect();
        for (used, &origin) in step.uses.iter().zip(&origins) {
            if used.plain && origin != NOWHERE {
                self.take(used.value);
            }
        }
        for value in self.residents_of(&used_set) {
            step.moved.retain(|moved| moved.value != value);
            self.drop_value(value);
        }
        for (item, place) in places {
            match item {
                Item::Use(number) => {
                    let value = step.uses[number].value;
                    self.put(value, place);
                    step.uses[number].at = place;
                    match origins[number] {
                        NOWHERE => step.reloads.push((value, place)),
                        from if from != place => self.note_move(step, value, from, place),
                        _ => {}
                    }
                }
                Item::Copy(number, tied) => {
                    step.made[number].at = place;
                    step.made[number].tied_copy = Some(tied);
                    step.taken.insert(place, self.class(step.made[number].value).width);
                }
            }
        }
        for number in 0..step.made.len() {
            if step.made[number].at == NOWHERE
                && let Some(tied) = self.tied(step, &step.made[number])
            {
                let Some(place) = self.inherited(step, &step.made[number], &tied) else { return Err(self.limit(step)) };
                step.made[number].at = place;
                step.taken.insert(place, self.class(step.made[number].value).width);
            }
        }
        Ok(())
    }

    /// Removes live values from the registers that arguments, results and the call itself overwrite.
    fn clear_fixed(&mut self, step: &mut Step) -> Result<(), AllocateError> {
        if step.clobbered == RegisterSet::EMPTY {
            return Ok(());
        }
        // A fixed operand outside the usable registers, for instance above the register limit, cannot be served.
        let in_reach = step.clobbered.without(&self.usable);
        let beyond = step.arguments.iter().map(|argument| argument.to).chain(step.made.iter().filter_map(|made| {
            if let Role::Fixed(to) = self.function.operands(step.inst)[made.operand].role { Some(u16::from(to)) } else { None }
        }));
        if beyond.into_iter().any(|to| in_reach.has(to)) {
            return Err(self.limit(step));
        }
        for value in self.residents_of(&step.clobbered) {
            if step.dies(value) {
                continue;
            }
            let free = self.free.without(&step.clobbered).without(&step.taken);
            if let Some(to) = self.choose(value, &free) {
                self.relocate(step, value, to);
            } else if step.is_pinned(value) {
                // The instruction still reads the value here, so it leaves its registers only at the instruction.
                step.dropped.push(value);
            } else {
                step.moved.retain(|moved| moved.value != value);
                self.drop_value(value);
            }
        }
        Ok(())
    }

    /// Chooses registers for the results that are not tied: fixed ones first, then the widest first.
    fn find_results(&mut self, step: &mut Step) -> Result<(), AllocateError> {
        // Free when results are written: registers that are free now, and those of sources that die here.
        let mut after = self.free.without(&step.taken);
        for used in step.uses.iter().filter(|used| used.next == NEVER) {
            let at = self.register_of[used.value.position()];
            if at != NOWHERE {
                after.insert(at, self.class(used.value).width);
            }
        }
        after = after.without(&step.taken);
        for made in step.made.iter_mut().filter(|_| step.has_fixed) {
            if let Role::Fixed(to) = self.function.operands(step.inst)[made.operand].role {
                let width = self.function.values[made.value].width;
                made.at = u16::from(to);
                step.taken.insert(made.at, width);
                after.remove(made.at, width);
            }
        }
        let mut numbers: SmallVec<[usize; 4]> = (0..step.made.len()).filter(|&number| step.made[number].at == NOWHERE).collect();
        if numbers.len() > 1 {
            numbers.sort_by_key(|&number| std::cmp::Reverse(self.class(step.made[number].value).width));
        }
        for number in numbers {
            let value = step.made[number].value;
            let class = self.class(value);
            let place = match self.choose(value, &after) {
                Some(place) => place,
                None => self.overwrite(step, class).ok_or_else(|| self.limit(step))?,
            };
            step.made[number].at = place;
            step.taken.insert(place, class.width);
            after.remove(place, class.width);
        }
        Ok(())
    }

    /// Frees an aligned window for a result and returns its first register. A live value in the window moves before the instruction, or
    /// is dropped at the instruction. Unlike in [`Assigner::make_room`], sources may be dropped, since they are read before the result is
    /// written.
    fn overwrite(&mut self, step: &mut Step, class: Class) -> Option<u16> {
        let within = self.usable.without(&step.taken);
        let mut best: Option<(u64, u16)> = None;
        let spare = self.free.without(&step.taken).count();
        for place in within.places(class).iter() {
            let (mut cost, mut last, mut shifted) = (0, None, 0);
            for register in place..place + u16::from(class.width) {
                let occupant = self.occupant(register);
                if let Some(value) = occupant.filter(|&value| occupant != last && !step.dies(value) && !step.dropped.contains(&value)) {
                    cost += self.drop_cost(value, step.position);
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
            if step.dies(value) || step.dropped.contains(&value) {
                continue;
            }
            let free = self.free.without(&window).without(&step.taken).without(&step.clobbered);
            match self.choose(value, &free) {
                Some(to) => self.relocate(step, value, to),
                None => step.dropped.push(value),
            }
        }
        Some(place)
    }

    /// Emits the moves, the reloads and the instruction, and updates which values are in which registers.
    fn finish(&mut self, step: &Step, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let mut place = Place { out, location: self.function.insts[step.inst].location, inst: step.inst };
        let is_prepared = step.moved.is_empty() && step.arguments.is_empty() && step.reloads.is_empty() && !step.has_tied;
        if !is_prepared {
            self.emit_preparation(step, &mut place)?;
        }
        self.rewrite_operands(step);
        let is_guarded_copy = self.function.insts[step.inst].is(Pseudo::Copy) && !step.made.is_empty();
        if is_guarded_copy {
            self.emit_guarded_copy(step, &mut place)?;
        }
        place.out.push(step.inst);
        // Order: dying sources and dropped values leave their registers before the results occupy them.
        for used in &step.uses {
            self.next_use[used.value.position()] = used.next;
            self.note_use(used.value, step.position, used.next);
            if used.next == NEVER && self.register_of[used.value.position()] != NOWHERE {
                self.take(used.value);
            }
        }
        for &value in &step.dropped {
            self.drop_value(value);
        }
        for made in &step.made {
            self.put(made.value, made.at);
            self.note_definition(made.value, step.inst, step.position, made.next, made.at);
        }
        // Unused results free their registers only after all results have theirs: an instruction writes all of them.
        for made in step.made.iter().filter(|made| made.next == NEVER) {
            self.take(made.value);
        }
        if self.function.insts[step.inst].is(Pseudo::Keep) {
            // The fixed operands of `KEEP` (results of the function, callee-saved registers) have to stay in place until the block ends.
            let kept = self.usable.without(&step.within);
            self.usable = self.usable.without(&kept);
            self.free = self.free.without(&kept);
        }
        Ok(())
    }

    /// Emits the code before an instruction. The order matters: the parallel copy reads registers as they were before the step, reloads
    /// and constants then fill registers that the copy has vacated, and tied copies read sources where the instruction reads them.
    fn emit_preparation(&mut self, step: &Step, place: &mut Place<'_>) -> Result<(), AllocateError> {
        let mut moves: Vec<(u16, u16)> = Vec::new();
        for moved in &step.moved {
            let width = u16::from(self.class(moved.value).width);
            moves.extend((0..width).map(|number| (moved.to + number, moved.from + number)));
        }
        // Arguments are part of the same parallel copy: a value may be in the register of another argument.
        for argument in step.arguments.iter().filter(|argument| argument.was_at != NOWHERE) {
            let Some(part) = argument.from.part() else { continue };
            let from = argument.was_at + u16::from(part.first);
            moves.extend((0..u16::from(part.count)).map(|number| (argument.to + number, from + number)));
        }
        // A scratch register holds no value before the copy (`free_before`), none after it (`free`), and is no destination.
        let mut busy = RegisterSet::EMPTY;
        moves.iter().for_each(|&(to, _)| busy.insert(to, 1));
        let scratch = self.free.and(&step.free_before).without(&busy).lowest();
        self.emit_moves(&moves, scratch, place)?;
        for &(value, to) in &step.reloads {
            let whole = self.function.whole(value);
            self.reload(whole, to, place)?;
        }
        for argument in step.arguments.iter().filter(|argument| argument.was_at == NOWHERE) {
            match argument.from.part() {
                Some(part) => self.reload(part, argument.to, place)?,
                None => self.emit_move(argument.to, unit(&argument.from, 0), place)?,
            }
        }
        for made in &step.made {
            let Some(tied) = made.tied_copy else { continue };
            for number in 0..self.class(made.value).width {
                let from = self.unit_of(step, &tied, number);
                self.emit_move(made.at + u16::from(number), from, place)?;
            }
        }
        Ok(())
    }

    /// Returns one register of a source, in the register where the instruction reads it.
    fn unit_of(&self, step: &Step, operand: &Operand, number: u8) -> Operand {
        let in_register = |part: Part| {
            let used = step.uses.iter().find(|used| used.value == part.value && self.class(part.value).file == self.file)?;
            Some(register(self.file, used.at + u16::from(part.first + number), 1))
        };
        operand.part().and_then(in_register).unwrap_or_else(|| unit(operand, number))
    }

    /// Replaces the operands of this register file, and the guard, by physical registers.
    fn rewrite_operands(&mut self, step: &Step) {
        let file = self.file;
        let results = self.function.insts[step.inst].result_count();
        let (operands, classes) = self.function.operands_and_classes(step.inst);
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
            let made_at = |number: usize| step.made.iter().find(|made| made.operand == number).map(|made| made.at);
            // A tied source is encoded in the register of its result; a copy or the inheritance has put it there.
            let first = match operand.role {
                _ if number < results => made_at(number),
                Role::Tied(result) => made_at(usize::from(result)),
                Role::Fixed(to) => Some(u16::from(to)),
                _ => step.uses.iter().find(|used| used.value == part.value).map(|used| used.at.saturating_add(u16::from(part.first))),
            };
            if let Some(first) = first {
                operand.kind = OperandKind::Register { file, first, count: part.count };
            }
        }
        if let Some(mut guard) = self.function.insts[step.inst].guard
            && let OperandKind::Value(part) = guard.kind
            && let Some(used) = step.uses.iter().find(|used| used.value == part.value)
        {
            guard.kind = OperandKind::Register { file, first: used.at, count: 1 };
            self.function.insts[step.inst].guard = Some(guard);
        }
    }

    /// Emits a guarded copy as one guarded move for each register, and records the moves for the checker. The operands are rewritten.
    fn emit_guarded_copy(&mut self, step: &Step, place: &mut Place<'_>) -> Result<(), AllocateError> {
        let (to, source) = (step.made[0].at, self.function.operands(step.inst)[1]);
        let width = self.class(step.made[0].value).width;
        // The moves are emitted one after the other, so a partly overlapping source would be overwritten before it is read.
        let overlaps = matches!(source.kind, OperandKind::Register { file, first, count }
            if file == self.file && first != to && first < to + u16::from(width) && to < first + u16::from(count));
        if overlaps && width > 1 {
            return Err(place.unsupported("a guarded copy within a value".into()));
        }
        let first = place.out.len();
        for number in 0..width {
            let guard = self.function.insts[step.inst].guard;
            let mut sink = Sink { function: self.function, out: place.out, location: place.location, guard };
            let to = register(self.file, to + u16::from(number), 1);
            let result = self.mover.emit(&mut sink, self.file, to, unit(&source, number));
            result.map_err(|what| place.unsupported(what))?;
        }
        let written = place.out[first..].to_vec();
        if written.len() != usize::from(width) {
            return Err(place.unsupported("a guarded copy that takes two instructions".into()));
        }
        self.guarded_copies.push((step.inst, written));
        Ok(())
    }

    /// Assigns registers to an unguarded `COPY` or `PACK`. Sources need not be in registers all at once, and the result may take the
    /// registers of sources that die here, which then need no move.
    fn assemble(&mut self, touch: Touch, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let Touch { inst, position, .. } = touch;
        let mut step = self.begin(touch);
        let (value, next) = (step.made[0].value, step.made[0].next);
        let class = self.class(value);
        let sources: SmallVec<[Operand; 8]> = SmallVec::from_slice(self.function.sources(inst));
        if sources.len() > 1 && sources.iter().map(operand_width).sum::<i32>() != i32::from(class.width) {
            return Err(AllocateError::Invalid(format!("{inst:?} does not fill its result")));
        }
        let was_at: SmallVec<[u16; 8]> = sources
            .iter()
            .map(|source| match source.part().filter(|part| self.class(part.value).file == self.file) {
                Some(part) if self.register_of[part.value.position()] != NOWHERE => {
                    self.register_of[part.value.position()] + u16::from(part.first)
                }
                _ => NOWHERE,
            })
            .collect();
        // Registers that the result may take: the free ones and those of sources that die here.
        let mut after = self.free;
        for used in step.uses.iter().filter(|used| used.next == NEVER) {
            let at = self.register_of[used.value.position()];
            if at != NOWHERE {
                after.insert(at, self.class(used.value).width);
            }
        }
        let place_at = match self.place_among(class, &sources, &was_at, &after) {
            Some(place) => place,
            None => match self.choose(value, &after) {
                Some(place) => place,
                None => self.overwrite(&mut step, class).ok_or_else(|| self.limit(&step))?,
            },
        };
        step.made[0].at = place_at;
        let mut place = Place { out, location: self.function.insts[inst].location, inst };
        self.emit_assembly(&step, &sources, &was_at, &mut place)?;
        // The instruction itself stays in the list as the place of the definition: `rewrite_blocks` inserts the spill store after it
        // and deletes it.
        place.out.push(inst);
        self.function.operands_mut(inst)[0].kind = register(self.file, place_at, class.width).kind;
        for used in &step.uses {
            self.next_use[used.value.position()] = used.next;
            self.note_use(used.value, step.position, used.next);
            if used.next == NEVER && self.register_of[used.value.position()] != NOWHERE {
                self.take(used.value);
            }
        }
        step.dropped.iter().for_each(|&value| self.drop_value(value));
        self.put(value, place_at);
        self.note_definition(value, inst, position, next, place_at);
        if next == NEVER {
            self.take(value);
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
            if at != NOWHERE
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
    fn emit_assembly(&mut self, step: &Step, sources: &[Operand], was_at: &[u16], place: &mut Place<'_>) -> Result<(), AllocateError> {
        let to = step.made[0].at;
        let width = self.class(step.made[0].value).width;
        let mut moves: Vec<(u16, u16)> = Vec::new();
        for moved in &step.moved {
            let width = u16::from(self.class(moved.value).width);
            moves.extend((0..width).map(|number| (moved.to + number, moved.from + number)));
        }
        let mut offset = 0u16;
        for (source, &at) in sources.iter().zip(was_at) {
            let count = if sources.len() == 1 { u16::from(width) } else { operand_width(source) as u16 };
            if at != NOWHERE {
                moves.extend((0..count).map(|number| (to + offset + number, at + number)));
            }
            offset += count;
        }
        let mut busy = RegisterSet::EMPTY;
        moves.iter().for_each(|&(to, _)| busy.insert(to, 1));
        busy.insert(to, width);
        let scratch = self.free.and(&step.free_before).without(&busy).lowest();
        self.emit_moves(&moves, scratch, place)?;
        let mut offset = 0u16;
        for (source, &at) in sources.iter().zip(was_at) {
            let count = if sources.len() == 1 { u16::from(width) } else { operand_width(source) as u16 };
            let own = source.part().filter(|part| self.class(part.value).file == self.file);
            match own {
                Some(part) if at == NOWHERE => self.reload(part, to + offset, place)?,
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
pub(crate) fn fixed_constant_file(operand: &Operand) -> Option<File> {
    match (operand.role, operand.kind) {
        (Role::Fixed(_), OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Reference(_)) => Some(File::General),
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
