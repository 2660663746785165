//! The registers, moves and reloads chosen for one instruction, before any code is emitted for it.

use oriole_ir::{Inst, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role, Value};
use smallvec::SmallVec;

use crate::assigner::RegisterAssigner;
use crate::liveness::{NextUse, RegisterFileInst};
use crate::operands::{file_of_fixed_constant, operand_width, part_in_file};
use crate::outcome::AllocateError;
use crate::registers::{Reg, RegisterSet};

/// A value that an instruction reads. Several operands that read the same value share one `ValueUse`.
#[derive(Clone, Copy)]
pub(crate) struct ValueUse {
    /// The value that is read.
    pub value: Value,
    /// The value's next use after this instruction; [`NextUse::NEVER`] if it dies here.
    pub next_use: NextUse,
    /// First register in which the instruction reads the value; `None` until one is chosen, and if only operands in fixed registers read
    /// it.
    pub register: Option<Reg>,
    /// Whether an operand that is not bound to a fixed register, or the guard, reads the value. Such a value has to be in registers at the
    /// instruction.
    pub needs_register: bool,
}

/// A value that an instruction writes.
pub(crate) struct ResultState {
    /// The value that is written.
    pub value: Value,
    /// The value's first use; [`NextUse::NEVER`] if it has none.
    pub next_use: NextUse,
    /// Index of the result in the instruction's operand list.
    pub operand: usize,
    /// First register that the calling convention or the instruction prescribes for the result; `None` if any register is allowed.
    pub fixed: Option<Reg>,
    /// First register of the result; `None` until one is chosen.
    pub register: Option<Reg>,
    /// The source tied to this result (it shares the result's register) that has to be copied into `register` before the instruction.
    /// `None` if the result inherits the registers of its tied source, or if it has no tied source.
    pub tied_copy: Option<Operand>,
}

impl ResultState {
    /// Returns the first register of the result. Panics before it is chosen.
    pub fn chosen_register(&self) -> Reg {
        self.register.expect("every result has registers")
    }
}

/// A value that is moved to other registers before the instruction.
pub(crate) struct MovedValue {
    /// The value that moves.
    pub value: Value,
    /// First register of the value before the move.
    pub from: Reg,
    /// First register of the value after the move.
    pub to: Reg,
}

/// An evicted value that is reloaded before the instruction.
pub(crate) struct Reload {
    /// The value that is reloaded.
    pub value: Value,
    /// First register that the value is reloaded into.
    pub to: Reg,
}

/// A source that has to be in fixed registers when the instruction executes.
pub(crate) struct FixedArgument {
    /// The first of the fixed registers.
    pub to: Reg,
    /// The source: a value of the register file being allocated, or a constant.
    pub from: Operand,
    /// First register of the value before the instruction; `None` for an evicted value or a constant. The parallel copy before the
    /// instruction reads all its sources before it writes, so this register stays valid if the value is also moved.
    pub initial_register: Option<Reg>,
}

/// The registers, moves and reloads chosen so far for one instruction. Nothing is emitted before [`RegisterAssigner::emit_inst`].
pub(crate) struct InstAllocationState {
    /// The instruction whose operands get registers.
    pub inst: Inst,
    /// Position of the instruction in its block.
    pub position: u32,
    /// Whether the instruction has tied operands (a source that shares the register of a result) in any register file.
    pub has_tied: bool,
    /// Values in the register file being allocated that the instruction reads, each once.
    pub uses: SmallVec<[ValueUse; 6]>,
    /// The results of the instruction in the register file being allocated.
    pub results: SmallVec<[ResultState; 2]>,
    /// Values that move before the instruction. Each is listed once, from its registers before the instruction to its final ones.
    pub moved: Vec<MovedValue>,
    /// Evicted values that are reloaded before the instruction.
    pub reloads: SmallVec<[Reload; 4]>,
    /// Live values that are evicted at the instruction, after it has read its sources, because a result overwrites their registers.
    pub dropped: SmallVec<[Value; 4]>,
    /// Single registers of tuples that the instruction reads for the last time, while other registers of the tuples are still needed.
    pub released_parts: SmallVec<[Part; 2]>,
    /// Registers that have been chosen for results so far, including those that tied sources are copied into.
    pub result_registers: RegisterSet,
    /// Registers that were free before any register was chosen for the instruction.
    pub free_before: RegisterSet,
    /// Registers in which sources without a fixed register may be: all usable ones except those of fixed arguments, because the copies of
    /// the arguments overwrite these before the instruction reads its sources.
    pub source_registers: RegisterSet,
    /// Registers that the instruction or the copies of its arguments overwrite: those of fixed arguments, fixed results and call clobbers.
    pub clobbered: RegisterSet,
    /// The sources that have to be in fixed registers when the instruction executes.
    pub arguments: Vec<FixedArgument>,
}

impl InstAllocationState {
    /// Returns the use of a value; `None` if the instruction does not read it.
    pub fn use_of(&self, value: Value) -> Option<&ValueUse> {
        self.uses.iter().find(|used| used.value == value)
    }

    /// Returns whether a value must be in registers when the instruction executes, because an operand without a fixed register reads it.
    pub fn needs_value_in_register(&self, value: Value) -> bool {
        self.use_of(value).is_some_and(|used| used.needs_register)
    }

    /// Returns whether this instruction is the last use of a value.
    pub fn dies(&self, value: Value) -> bool {
        self.use_of(value).is_some_and(|used| used.next_use.is_never())
    }

    /// Returns whether the registers of a value become free at the instruction, after it has been read: the value dies or is dropped.
    pub fn frees_registers_of(&self, value: Value) -> bool {
        self.dies(value) || self.dropped.contains(&value)
    }

    /// Returns whether the instruction reads and writes no register of the register file being allocated.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty() && self.results.is_empty() && self.arguments.is_empty() && self.clobbered == RegisterSet::EMPTY
    }

    /// Records that a value moves from register `from` to `to` before the instruction. All these moves are one parallel copy. So a value
    /// that moves twice gets one move from its first source to its last destination, and a value that is reloaded is reloaded into its last
    /// destination.
    pub fn note_move(&mut self, value: Value, from: Reg, to: Reg) {
        if let Some(used) = self.uses.iter_mut().find(|used| used.value == value && used.register.is_some()) {
            used.register = Some(to);
        }
        if let Some(reload) = self.reloads.iter_mut().find(|reload| reload.value == value) {
            reload.to = to;
        } else if let Some(moved) = self.moved.iter_mut().find(|moved| moved.value == value) {
            moved.to = to;
        } else {
            self.moved.push(MovedValue { value, from, to });
        }
    }

    /// Records that result `number` gets `width` registers starting at `at`.
    pub fn set_result_registers(&mut self, number: usize, at: Reg, width: u8) {
        self.results[number].register = Some(at);
        self.result_registers.insert(at, width);
    }
}

impl RegisterAssigner<'_> {
    /// Collects the values that an instruction reads and writes, and its operands in fixed registers. No register is chosen yet.
    pub(crate) fn new_inst_state(&mut self, file_inst: RegisterFileInst) -> InstAllocationState {
        let inst = file_inst.inst;
        let mut uses: SmallVec<[ValueUse; 6]> = SmallVec::new();
        for read in self.inputs.liveness.reads(file_inst) {
            if !uses.iter().any(|used| used.value == read.value) {
                uses.push(ValueUse { value: read.value, next_use: read.next_use, register: None, needs_register: false });
            }
        }
        let mut arguments = Vec::new();
        if file_inst.has_fixed || self.function.insts[inst].is(Pseudo::Keep) {
            self.find_arguments(inst, &mut uses, &mut arguments);
        } else {
            uses.iter_mut().for_each(|used| used.needs_register = true);
        }
        let results = self.find_result_states(file_inst);
        // `fixed`: registers of fixed arguments. `clobbered`: registers that the instruction itself overwrites.
        let (mut fixed, mut clobbered) = (RegisterSet::EMPTY, RegisterSet::EMPTY);
        arguments.iter().for_each(|argument| fixed.insert(argument.to, operand_width(&argument.from)));
        if self.function.insts[inst].is_machine(Opcode::CALL) {
            clobbered = self.inputs.env.clobbered_by(self.function, inst, self.inputs.file);
        }
        for result in &results {
            result.fixed.into_iter().for_each(|to| clobbered.insert(to, self.class_of(result.value).width));
        }
        InstAllocationState {
            inst,
            position: file_inst.position,
            has_tied: file_inst.has_tied,
            uses,
            results,
            moved: Vec::new(),
            reloads: SmallVec::new(),
            dropped: SmallVec::new(),
            released_parts: SmallVec::from_slice(self.inputs.dead_parts.parts_read_last_by(inst)),
            result_registers: RegisterSet::EMPTY,
            free_before: self.registers.free,
            source_registers: self.registers.usable.without(&fixed),
            clobbered: clobbered.or(&fixed),
            arguments,
        }
    }

    /// Lists the results of the instruction that belong to the register file being allocated.
    fn find_result_states(&self, file_inst: RegisterFileInst) -> SmallVec<[ResultState; 2]> {
        let mut found = SmallVec::new();
        let mut writes = self.inputs.liveness.writes(file_inst).iter();
        for (operand, result) in self.function.results(file_inst.inst).iter().enumerate() {
            if let Some(value) = result.value().filter(|&value| self.is_in_current_file(value))
                && let Some(written) = writes.next()
            {
                let fixed = if let Role::Fixed(to) = result.role { Some(Reg::from(to)) } else { None };
                found.push(ResultState { value, next_use: written.next_use, operand, fixed, register: None, tied_copy: None });
            }
        }
        found
    }

    /// Lists the arguments in fixed registers, and sets `needs_register` of the values that other operands read. Operands of `KEEP` without
    /// a fixed register only extend live ranges, so they need no register.
    fn find_arguments(&self, inst: Inst, uses: &mut SmallVec<[ValueUse; 6]>, arguments: &mut Vec<FixedArgument>) {
        let is_keep = self.function.insts[inst].is(Pseudo::Keep);
        let mut require = |value: Value| uses.iter_mut().filter(|used| used.value == value).for_each(|used| used.needs_register = true);
        for source in self.function.sources(inst) {
            let part = part_in_file(self.function, source, self.inputs.file);
            match source.role {
                Role::Fixed(to) if part.is_some() || file_of_fixed_constant(source) == Some(self.inputs.file) => {
                    let initial_register = part.and_then(|part| self.registers.register_of(part.value));
                    arguments.push(FixedArgument { to: Reg::from(to), from: *source, initial_register });
                }
                Role::Fixed(_) => {}
                _ if is_keep => {}
                _ => part.into_iter().for_each(|part| require(part.value)),
            }
        }
        if let Some(guard) = self.function.insts[inst].guard
            && let OperandKind::Value(part) = guard.kind
        {
            require(part.value);
        }
    }

    /// Returns the error for an instruction whose operands do not fit into the usable registers.
    pub(crate) fn register_limit_error(&self, state: &InstAllocationState) -> AllocateError {
        let available = match self.inputs.file {
            RegFile::General => self.inputs.block_limits.limit_of(self.walk.block),
            file => self.inputs.env.limit(file),
        };
        AllocateError::Limit { inst: state.inst, file: self.inputs.file, available }
    }

    /// Returns the source that is tied to a result (it shares the register of the result); `None` if there is none.
    pub(crate) fn tied_source(&self, state: &InstAllocationState, result: &ResultState) -> Option<Operand> {
        self.function.tied_to(state.inst, result.operand).copied()
    }

    /// Returns the first register of the source `tied` if the result can take over the registers of the source: the source dies at the
    /// instruction, has the width of the result, starts at a multiple of the result's alignment, and no other result has these registers.
    /// Otherwise returns `None`.
    pub(crate) fn inheritable_register(&self, state: &InstAllocationState, result: &ResultState, tied: &Operand) -> Option<Reg> {
        let part = part_in_file(self.function, tied, self.inputs.file)?;
        let used = state.use_of(part.value)?;
        let place = used.register? + part.first;
        let class = self.class_of(result.value);
        let fits = place.is_aligned(class.align) && !state.result_registers.has_any(place, class.width);
        (used.next_use.is_never() && fits && part.count == class.width).then_some(place)
    }

    /// Returns whether an instruction may write its result before it has read all sources: asynchronous matrix products (`wgmma`) do.
    pub(crate) fn writes_while_reading(&self, state: &InstAllocationState) -> bool {
        self.function.insts[state.inst].op.machine().is_some_and(Opcode::is_warpgroup_product)
    }

    /// Records that a value moves to the registers starting at `to` before the instruction.
    pub(crate) fn move_value_before_inst(&mut self, state: &mut InstAllocationState, value: Value, to: Reg) {
        if let Some(from) = self.registers.vacate(value) {
            self.registers.occupy(value, to);
            state.note_move(value, from, to);
        }
    }

    /// Drops (evicts) a value before the instruction. If a move of the value was recorded for this instruction, the move is removed.
    pub(crate) fn evict_before_inst(&mut self, state: &mut InstAllocationState, value: Value) {
        state.moved.retain(|moved| moved.value != value);
        self.evict_value(value);
    }

    /// Returns the registers that are free when the instruction writes its results: those that are free already, and those of sources, or
    /// parts of sources, that the instruction reads for the last time. Registers already chosen for results are left out. So are the
    /// sources of an asynchronous matrix product, because it may write before it has read them.
    pub(crate) fn registers_free_for_results(&self, state: &InstAllocationState) -> RegisterSet {
        let mut after = self.registers.free;
        if self.writes_while_reading(state) {
            return after.without(&state.result_registers);
        }
        for register in state.released_parts.iter().filter_map(|&part| self.registers.register_of_part(part)) {
            after.insert(register, 1);
        }
        for used in state.uses.iter().filter(|used| used.next_use.is_never()) {
            after = after.or(&self.registers.occupied_by(used.value));
        }
        after.without(&state.result_registers)
    }
}
