//! Emits spill stores, reloads and rematerialized instructions for dropped values.
//!
//! - A general value that is reloaded anywhere has a spill slot in local memory, filled by one store directly after its definition.
//! - A spilled value of another file has a *shadow*: a new SSA value of a file that is allocated later, which has the same content and is
//!   defined directly after the spilled value.
//! - A value of one register that is defined by the move of a constant is rematerialized: the move is repeated instead of a reload.
//!   This is the simplest case of Briggs, Cooper and Torczon 1992, "Rematerialization".
//!
//! Example with a predicate: the shadow `%s` is an ordinary value of the general file, which may be spilled to memory in turn.
//!
//! ```text
//! ISETP.NE.AND P0, PT, R4, RZ, PT       definition of %p, in P0
//! %s = SEL RZ, 0x1, !P0                 its store
//! ...
//! ISETP.NE.AND P3, PT, %s, RZ, PT       a reload, into P3
//! ```

use oriole_ir::{Class, Function, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::emit::Emitter;
use crate::frame::SpillFrame;
use crate::liveness::FileLiveness;
use crate::operands::register;
use crate::outcome::AllocateError;
use crate::registers::Reg;

/// Returns the register file of the shadows of values of `file`, that is, of the values that hold their spilled content.
fn spill_target_file(file: RegFile) -> RegFile {
    if file == RegFile::UniformPredicate { RegFile::Uniform } else { RegFile::General }
}

/// The spilled values, and where their contents are kept: in spill slots, or in shadows (values of another register file).
#[derive(Clone)]
pub(crate) struct SpilledValues {
    /// For each value: whether it needs a spill store after its definition, because a reload reads it from memory or from its shadow (a
    /// value of another register file).
    needs_store: IndexVec<Value, bool>,
    /// For each value: the instruction to repeat instead of a reload; `None` if the value cannot be rematerialized.
    rematerializable: IndexVec<Value, Option<Inst>>,
    /// For each spilled value of the current register file: its shadow, the value of another register file that has the same content. Empty
    /// for the general file, whose values are spilled to memory.
    shadows: FxHashMap<Value, Value>,
    /// The spill slots of general values in local memory.
    pub frame: SpillFrame,
}

impl SpilledValues {
    /// Creates the state of a function without spills. `spill_slot_owners` maps each value that shares a spill slot with others
    /// to the value that owns the slot.
    pub fn new(stack_pointer: Reg, spill_slot_owners: FxHashMap<Value, Value>) -> SpilledValues {
        SpilledValues {
            needs_store: IndexVec::new(),
            rematerializable: IndexVec::new(),
            shadows: FxHashMap::default(),
            frame: SpillFrame::new(stack_pointer, spill_slot_owners),
        }
    }

    /// Resets the state for the next register file. If `rematerializes` is true, finds the values of the register file that can be
    /// rematerialized.
    pub fn start_register_file(&mut self, function: &Function, liveness: &FileLiveness, file: RegFile, rematerializes: bool) {
        self.needs_store.clear();
        self.needs_store.resize(function.values.len(), false);
        self.rematerializable.resize(function.values.len(), None);
        self.shadows.clear();
        self.frame.start_register_file();
        for file_inst in liveness.file_insts().iter().filter(|_| rematerializes) {
            if let Some(value) = rematerializable_result(function, file_inst.inst, file) {
                self.rematerializable[value] = Some(file_inst.inst);
            }
        }
    }

    /// Records that a value is reloaded somewhere, so that it needs a spill store. Does nothing for a value that is rematerialized.
    pub fn mark_spilled(&mut self, value: Value) {
        if self.rematerializable[value].is_none() {
            self.needs_store[value] = true;
        }
    }

    /// Returns whether a value needs a spill store after its definition. A value created during the allocation of this register file, such
    /// as a shadow, needs none.
    pub fn needs_store(&self, value: Value) -> bool {
        self.needs_store.get(value).copied().unwrap_or(false)
    }

    /// Returns whether a value is rematerialized instead of reloaded.
    pub fn is_rematerializable(&self, value: Value) -> bool {
        self.rematerializable[value].is_some()
    }

    /// Returns the relative cost of dropping (evicting) a value: 1 if it is rematerialized (no memory access), 3 if it has a store already
    /// (dropping adds a load), 5 if it has none (dropping adds a store and a load).
    pub fn eviction_weight(&self, value: Value) -> u64 {
        if self.is_rematerializable(value) {
            1
        } else if self.needs_store[value] {
            3
        } else {
            5
        }
    }

    /// Returns the offset of the spill slot of a value, in bytes from the stack pointer, and records that the value needs a store because
    /// the slot is read.
    pub fn spill_slot_to_read(&mut self, value: Value, function: &mut Function) -> u32 {
        self.needs_store[value] = true;
        self.frame.spill_slot_offset(value, function)
    }

    /// Returns the shadow of a value (the value of another register file that holds its spilled content), and records that the value needs
    /// a spill store because the shadow is read. `file` is the register file of `value`.
    pub fn shadow_to_read(&mut self, value: Value, function: &mut Function, file: RegFile) -> Value {
        self.needs_store[value] = true;
        self.shadow(value, function, file)
    }

    /// Returns the shadow of a value (the value of another register file that holds its spilled content); creates it at the first call.
    /// `file` is the register file of `value`, the one being allocated.
    fn shadow(&mut self, value: Value, function: &mut Function, file: RegFile) -> Value {
        if let Some(&shadow) = self.shadows.get(&value) {
            return shadow;
        }
        let shadow = function.new_value(Class::new(spill_target_file(file), function.values[value].width));
        self.shadows.insert(value, shadow);
        shadow
    }

    /// Emits a reload of a part of a dropped (evicted) value into registers starting at `to`.
    pub fn reload(&mut self, part: Part, to: Reg, emitter: &mut Emitter<'_>) -> Result<(), AllocateError> {
        if let Some(inst) = self.rematerializable[part.value] {
            return rematerialize(inst, part, to, emitter);
        }
        if emitter.file == RegFile::General {
            let slot = self.spill_slot_to_read(part.value, emitter.function) + 4 * u32::from(part.first);
            self.frame.load(slot, to, part.count, emitter);
            return Ok(());
        }
        let shadow = self.shadow_to_read(part.value, emitter.function, emitter.file);
        for number in 0..part.count {
            emitter.emit_move(to + number, Part { value: shadow, first: part.first + number, count: 1 }.into())?;
        }
        Ok(())
    }

    /// Emits the spill store of a value, which is in consecutive registers starting at `at`.
    pub fn store(&mut self, value: Value, at: Reg, emitter: &mut Emitter<'_>) -> Result<(), AllocateError> {
        let width = emitter.function.values[value].width;
        if emitter.file == RegFile::General {
            let slot = self.frame.spill_slot_offset(value, emitter.function);
            self.frame.store(slot, at, width, emitter);
            return Ok(());
        }
        let shadow = self.shadow(value, emitter.function, emitter.file);
        let whole: Operand = emitter.function.whole(shadow).into();
        if width == 1 {
            return emitter.emit_move_to(spill_target_file(emitter.file), whole, register(emitter.file, at, 1));
        }
        // The shadow (the SSA value that has the spilled content) has one definition, so the registers of a tuple are combined by a `PACK`.
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        operands.push(whole);
        operands.extend(at.tuple(width).map(|from| register(emitter.file, from, 1)));
        let pack = emitter.function.new_inst(Op::Pseudo(Pseudo::Pack), Default::default(), None, &operands, 1);
        emitter.push(pack);
        Ok(())
    }

    /// Creates the phi of shadows (values of another register file with the spilled content) that replaces a phi without a register.
    /// Constant sources become integers of the shadows' register file.
    pub fn create_shadow_phi(&mut self, function: &mut Function, phi: Inst, file: RegFile) -> Option<Inst> {
        let value = function.operands(phi)[0].value()?;
        let shadow = self.shadow(value, function, file);
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        operands.push(function.whole(shadow).into());
        let sources: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.sources(phi));
        for pair in sources.chunks_exact(2) {
            let (source, from) = (pair[0], pair[1]);
            let kind = match source.kind {
                OperandKind::Value(part) => {
                    // Not `mark_spilled`: the phi needs the shadow even of a value that is otherwise rematerialized.
                    self.needs_store[part.value] = true;
                    OperandKind::Value(Part { value: self.shadow(part.value, function, file), ..part })
                }
                OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate) => {
                    OperandKind::Integer(i64::from(source.signs.is_empty()))
                }
                OperandKind::Zero(_) => OperandKind::Integer(0),
                other => other,
            };
            operands.push(Operand::new(kind));
            operands.push(from);
        }
        Some(function.new_inst(Op::Pseudo(Pseudo::Phi), Default::default(), None, &operands, 1))
    }
}

/// Returns the result of an instruction if it can be rematerialized, that is, if the instruction is an unguarded move of a constant into
/// one register of the register file; otherwise `None`.
fn rematerializable_result(function: &Function, inst: Inst, file: RegFile) -> Option<Value> {
    let data = &function.insts[inst];
    let cheap = match data.op {
        Op::Machine(opcode) => matches!(opcode, Opcode::MOV | Opcode::UMOV | Opcode::LDC | Opcode::ULDC | Opcode::LDCU),
        Op::Pseudo(pseudo) => pseudo == Pseudo::Copy,
    };
    let plain = |operand: &Operand| {
        matches!(operand.kind, OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Zero(_) | OperandKind::Reference(_))
    };
    if !cheap || data.guard.is_some() || data.result_count() != 1 || !function.sources(inst).iter().all(plain) {
        return None;
    }
    function.operands(inst)[0].value().filter(|&value| function.values[value].file == file && function.values[value].width == 1)
}

/// Repeats the instruction `inst`, which defines a value that can be rematerialized, with the result in register `to`.
fn rematerialize(inst: Inst, part: Part, to: Reg, emitter: &mut Emitter<'_>) -> Result<(), AllocateError> {
    let data = emitter.function.insts[inst].clone();
    if data.is(Pseudo::Copy) {
        let source = emitter.function.operands(inst)[1];
        return emitter.emit_move(to, source);
    }
    debug_assert_eq!(part.count, emitter.function.values[part.value].width, "a repeated value is read whole");
    let mut operands: SmallVec<[Operand; 4]> = SmallVec::from_slice(emitter.function.operands(inst));
    operands[0].kind = register(emitter.file, to, part.count).kind;
    let again = emitter.function.new_inst(data.op, data.modifiers, None, &operands, 1);
    emitter.function.insts[again].memory = data.memory;
    emitter.push(again);
    Ok(())
}
