//! Emits spill stores, reloads and rematerialized instructions for dropped values.
//!
//! - A general value that is reloaded anywhere has a spill slot in local memory, filled by one store directly after its definition.
//! - A value of another file has a *shadow*: a new SSA value of a file that is allocated later, defined directly after the definition.
//! - A value that one instruction without register operands computes is rematerialized: the instruction is repeated instead of a reload.
//!   This is the simplest case of Briggs, Cooper and Torczon 1992, "Rematerialization".
//!
//! Example for predicates: the shadow `%s` is an ordinary value of the general file, which may be spilled to memory in turn.
//!
//! ```text
//! ISETP.NE.AND P0, PT, R4, RZ, PT       definition of %p, in P0
//! %s = SEL RZ, 0x1, !P0                 its store
//! ...
//! ISETP.NE.AND P3, PT, %s, RZ, PT       a reload, into P3
//! ```

use oriole_ir::{Class, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Value};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::AllocateError;
use crate::assign::Assigner;
use crate::moves::{Move, Sink, register};

/// Returns the register file of the shadows of a file's values.
fn shadow_file(file: RegFile) -> RegFile {
    if file == RegFile::UniformPredicate { RegFile::Uniform } else { RegFile::General }
}

impl Assigner<'_> {
    /// Finds the values to rematerialize: defined by an unguarded move of a constant into one register.
    pub(crate) fn find_repeatable(&mut self) {
        for file_inst in self.liveness.file_insts() {
            let inst = file_inst.inst;
            let data = &self.function.insts[inst];
            let cheap = match data.op {
                Op::Machine(opcode) => matches!(opcode, Opcode::MOV | Opcode::UMOV | Opcode::LDC | Opcode::ULDC | Opcode::LDCU),
                Op::Pseudo(pseudo) => pseudo == Pseudo::Copy,
            };
            let plain = |operand: &Operand| {
                matches!(
                    operand.kind,
                    OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Zero(_) | OperandKind::Reference(_)
                )
            };
            if cheap
                && data.guard.is_none()
                && data.result_count() == 1
                && self.function.sources(inst).iter().all(plain)
                && let Some(value) = self.function.operands(inst)[0].value()
                && self.function.values[value].file == self.file
                && self.function.values[value].width == 1
            {
                self.repeatable[value.position()] = Some(inst);
            }
        }
    }

    /// Marks a value as reloaded somewhere, so that it gets a store; values that are rematerialized need none.
    pub(crate) fn mark_spilled(&mut self, value: Value) {
        if self.repeatable[value.position()].is_none() {
            self.needs_store[value.position()] = true;
        }
    }

    /// Returns the byte offset of a value's spill slot in the frame; creates the slot at the first call.
    pub(crate) fn slot(&mut self, value: Value) -> u32 {
        if let Some(&offset) = self.slots.get(&value) {
            return offset;
        }
        let class = self.function.values[value];
        let align = 4 * u32::from(class.align.min(4));
        let offset = self.function.frame_bytes.next_multiple_of(align);
        self.function.frame_bytes = offset + 4 * u32::from(class.width);
        self.function.frame_align = self.function.frame_align.max(align);
        self.slots.insert(value, offset);
        offset
    }

    /// Returns the shadow of a value; creates it at the first call.
    pub(crate) fn shadow(&mut self, value: Value) -> Value {
        if let Some(&shadow) = self.shadows.get(&value) {
            return shadow;
        }
        let class = self.function.values[value];
        let shadow = self.function.new_value(Class::new(shadow_file(self.file), class.width));
        self.shadows.insert(value, shadow);
        shadow
    }

    /// Emits a reload of a part of a dropped value into registers from `to` on.
    pub(crate) fn reload(&mut self, part: Part, to: u16, sink_at: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        if let Some(inst) = self.repeatable[part.value.position()] {
            return self.repeat(inst, part, to, sink_at);
        }
        self.needs_store[part.value.position()] = true;
        if self.file == RegFile::General {
            let slot = self.slot(part.value) + 4 * u32::from(part.first);
            self.transfer(false, slot, to, part.count, sink_at);
            return Ok(());
        }
        let shadow = self.shadow(part.value);
        for number in 0..part.count {
            let from = Part { value: shadow, first: part.first + number, count: 1 }.into();
            self.emit_move(to + u16::from(number), from, sink_at)?;
        }
        Ok(())
    }

    /// Emits the instruction that computes a value again, with the result in register `to`.
    fn repeat(&mut self, inst: Inst, part: Part, to: u16, place: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        let data = self.function.insts[inst].clone();
        if data.is(Pseudo::Copy) {
            let source = self.function.operands(inst)[1];
            return self.emit_move(to, source, place);
        }
        debug_assert_eq!(part.count, self.function.values[part.value].width, "a repeated value is read whole");
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::from_slice(self.function.operands(inst));
        operands[0].kind = register(self.file, to, part.count).kind;
        let again = self.function.new_inst(data.op, data.modifiers, None, &operands, 1);
        self.function.insts[again].location = place.location;
        self.function.insts[again].memory = data.memory;
        place.out.push(again);
        Ok(())
    }

    /// Emits the spill store of a value, which is in the register where it was defined.
    pub(crate) fn store(&mut self, value: Value, place: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        let at = self.defined_in[value.position()];
        let width = self.function.values[value].width;
        if self.file == RegFile::General {
            let slot = self.slot(value);
            self.transfer(true, slot, at, width, place);
            return Ok(());
        }
        let shadow = self.shadow(value);
        if width == 1 {
            let to = self.function.whole(shadow).into();
            let from = register(self.file, at, 1);
            let mut sink = Sink { function: self.function, out: place.out, location: place.location, guard: None };
            return self.mover.emit(&mut sink, shadow_file(self.file), to, from).map_err(|what| place.unsupported(what));
        }
        // A shadow has one definition, so a tuple is collected by a pack.
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        operands.push(self.function.whole(shadow).into());
        operands.extend((0..width).map(|number| register(self.file, at + u16::from(number), 1)));
        let pack = self.function.new_inst(Op::Pseudo(Pseudo::Pack), Default::default(), None, &operands, 1);
        self.function.insts[pack].location = place.location;
        place.out.push(pack);
        Ok(())
    }

    /// Emits the phi of shadow values that replaces a phi without a register. Constant sources become integers of the shadows' file.
    pub(crate) fn shadow_phi(&mut self, phi: Inst, out: &mut Vec<Inst>) {
        let Some(value) = self.function.operands(phi)[0].value() else { return };
        let shadow = self.shadow(value);
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        operands.push(self.function.whole(shadow).into());
        let sources: SmallVec<[Operand; 8]> = SmallVec::from_slice(self.function.sources(phi));
        for pair in sources.chunks_exact(2) {
            let (source, from) = (pair[0], pair[1]);
            let kind = match source.kind {
                OperandKind::Value(part) => {
                    // Not `mark_spilled`: the phi needs the shadow even of a value that is otherwise rematerialized.
                    self.needs_store[part.value.position()] = true;
                    OperandKind::Value(Part { value: self.shadow(part.value), ..part })
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
        let inst = self.function.new_inst(Op::Pseudo(Pseudo::Phi), Default::default(), None, &operands, 1);
        out.push(inst);
    }

    /// Emits a move of one register or constant into register `to` of the file.
    pub(crate) fn emit_move(&mut self, to: u16, from: Operand, place: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        let to = register(self.file, to, 1);
        let mut sink = Sink { function: self.function, out: place.out, location: place.location, guard: None };
        self.mover.emit(&mut sink, self.file, to, from).map_err(|what| place.unsupported(what))
    }

    /// Emits a parallel copy between registers of the file. See [`crate::moves`] for `scratch`.
    pub(crate) fn emit_moves(&mut self, moves: &[Move], scratch: Option<u16>, place: &mut EmitPoint<'_>) -> Result<(), AllocateError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut sink = Sink { function: self.function, out: place.out, location: place.location, guard: None };
        self.mover.emit_parallel(&mut sink, self.file, moves, scratch).map_err(|what| place.unsupported(what))
    }
}

/// The list to which spill code and moves are appended.
pub(crate) struct EmitPoint<'a> {
    pub out: &'a mut Vec<Inst>,
    /// Source location of the new instructions.
    pub location: oriole_ir::Location,
    /// The instruction that needs the code, for error messages.
    pub inst: Inst,
}

impl EmitPoint<'_> {
    /// Returns the error for a copy that no instruction can make.
    pub fn unsupported(&self, what: String) -> AllocateError {
        AllocateError::Unsupported { inst: self.inst, what }
    }
}
