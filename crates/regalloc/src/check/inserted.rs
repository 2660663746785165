//! Propagation of demands over instructions that the allocator inserted: moves, spill loads and stores, swaps, and rematerialized
//! instructions.

use oriole_ir::{Inst, Opcode, Operand, OperandKind, RegFile, Signs};

use super::checker::AllocationChecker;
use super::demands::{
    CheckError, Demands, LocationContent, TrackedLocation, constant_content, demand, error, is_true_predicate, is_zero_register_operand,
};
use crate::registers::Reg;

/// The source of an inserted move: another location, or a constant.
pub(super) enum MoveSource {
    /// A register or spill slot.
    Location(TrackedLocation),
    /// A constant, given by the content that the destination gets.
    LocationContent(LocationContent),
}

/// A move of one register or 4-byte word, as (destination, source).
pub(super) type InsertedMove = (TrackedLocation, MoveSource);

impl AllocationChecker<'_> {
    /// Propagates demands (the content that each location must have) backward over an instruction that the allocator inserted. Returns an
    /// error unless it is a branch of a new block, an unguarded move, a spill load or store, or a rematerialized instruction.
    pub(super) fn propagate_over_inserted(&self, inst: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        let data = &self.new.insts[inst];
        if data.is_machine(Opcode::BRA) {
            return Ok(());
        }
        if data.guard.is_some() {
            return error(format!("{inst:?} was put in with a guard"));
        }
        let no_move =
            || CheckError { message: format!("{inst:?}, {:?} {:?}, was put in and is no move", data.op, self.new.operands(inst)) };
        for (to, from) in self.as_moves(inst).ok_or_else(no_move)? {
            let Some(wanted) = demands.remove(&to) else { continue };
            match from {
                MoveSource::Location(at) => demand(demands, at, wanted, || format!("by {inst:?}"))?,
                MoveSource::LocationContent(found) if found == wanted || self.is_rematerialized(inst, wanted) => {}
                MoveSource::LocationContent(found) => {
                    return error(format!("{inst:?} puts {found:?} into {to:?} where {wanted:?} is wanted"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether an inserted instruction rematerializes the value `wanted`: it has the operation and the constant sources of the
    /// value's definition.
    fn is_rematerialized(&self, inst: Inst, wanted: LocationContent) -> bool {
        let LocationContent::ValueRegister(value, 0) = wanted else { return false };
        let Some(&(definition, 0)) = self.definitions.get(&value) else { return false };
        let (old, new) = (&self.old.insts[definition], &self.new.insts[inst]);
        let sources = self.old.sources(definition);
        old.guard.is_none()
            && old.op == new.op
            && old.modifiers == new.modifiers
            && sources == self.new.sources(inst)
            && sources.iter().all(|source| !matches!(source.kind, OperandKind::Value(_) | OperandKind::Register { .. }))
    }

    /// Returns the first single-register move that an inserted instruction makes, as (destination, source); `None` if it is not a move.
    pub(super) fn as_move(&self, inst: Inst) -> Option<InsertedMove> {
        self.as_moves(inst)?.into_iter().next()
    }

    /// Returns the single-register moves that an inserted instruction makes, as (destination, source); `None` if it is not a move.
    fn as_moves(&self, inst: Inst) -> Option<Vec<InsertedMove>> {
        let operands = self.new.operands(inst);
        let modifiers: Vec<&str> = self.new.insts[inst].modifiers.iter().map(|modifier| modifier.spelling()).collect();
        let opcode = self.new.insts[inst].op.machine()?;
        let source = match opcode {
            _ if is_move_opcode(opcode) && operands.len() == 2 => operands[1],
            Opcode::BMOV if operands.len() == 2 && modifiers == [".32"] => operands[1],
            Opcode::PLOP3 | Opcode::UPLOP3
                if modifiers == [".LUT"] && is_true_predicate(&operands[1]) && operands[5].integer() == Some(0x80) =>
            {
                let sources: Vec<&Operand> = operands[2..5].iter().filter(|operand| !is_true_predicate(operand)).collect();
                match sources[..] {
                    [] => operands[2],
                    [one] => *one,
                    _ => return None,
                }
            }
            Opcode::SEL | Opcode::USEL
                if modifiers.is_empty() && is_zero_register_operand(&operands[1]) && operands[2].integer() == Some(1) =>
            {
                let flipped = operands[3];
                flipped.with_signs(flipped.signs.toggled(Signs::NOT))
            }
            Opcode::ISETP | Opcode::UISETP
                if modifiers == [".NE", ".AND"]
                    && is_true_predicate(&operands[1])
                    && is_zero_register_operand(&operands[3])
                    && is_true_predicate(&operands[4]) =>
            {
                operands[2]
            }
            Opcode::CS2R if modifiers.is_empty() => return as_pair_clearing_moves(operands),
            Opcode::LDL | Opcode::STL => return self.as_spill_moves(opcode, operands, &modifiers),
            _ => return None,
        };
        let OperandKind::Register { file, first, count: 1 } = operands[0].kind else { return None };
        let is_partial = is_move_opcode(opcode) && !modifiers.is_empty();
        let from = match source.kind {
            // An instruction with a modifier, such as `LDC.U8`, copies only a part of its source, so it is no move. It may still be a
            // rematerialized instruction.
            _ if is_partial => MoveSource::LocationContent(LocationContent::ConstantOperand(OperandKind::Undefined)),
            OperandKind::Register { file, first, count: 1 } if source.signs.is_empty() => {
                MoveSource::Location(TrackedLocation::Register(file, Reg::new(first)))
            }
            _ => MoveSource::LocationContent(constant_content(&source, 0)?),
        };
        Some(vec![(TrackedLocation::Register(file, Reg::new(first)), from)])
    }

    /// Returns the moves between registers and slots that a spill load or store makes; `None` if it is misaligned or outside of the spill
    /// slots.
    fn as_spill_moves(&self, opcode: Opcode, operands: &[Operand], modifiers: &[&str]) -> Option<Vec<InsertedMove>> {
        let width: u16 = match modifiers {
            [] => 1,
            [".64"] => 2,
            [".128"] => 4,
            _ => return None,
        };
        let (data, address) = if opcode == Opcode::LDL { (operands.first()?, &operands[1..]) } else { (operands.last()?, &operands[..3]) };
        let OperandKind::Register { file: RegFile::General, first, count } = data.kind else { return None };
        let base = OperandKind::Register { file: RegFile::General, first: self.env.stack_pointer.number(), count: 1 };
        let offset = address.get(2)?.integer()?;
        let in_frame = offset >= i64::from(self.old.frame_bytes) && offset + i64::from(4 * width) <= i64::from(self.new.frame_bytes);
        let aligned = first.is_multiple_of(width) && offset % i64::from(4 * width) == 0;
        if address[1].kind != base || u16::from(count) != width || !in_frame || !aligned {
            return None;
        }
        let moves = (0..width).map(|word| {
            let (register, slot) =
                (TrackedLocation::Register(RegFile::General, Reg::new(first + word)), TrackedLocation::Slot(offset + 4 * i64::from(word)));
            if opcode == Opcode::LDL { (register, MoveSource::Location(slot)) } else { (slot, MoveSource::Location(register)) }
        });
        Some(moves.collect())
    }

    /// Returns the two registers that the three exclusive ors ending at position `at` swap; `None` if there is no such sequence.
    pub(super) fn as_swap(&self, insts: &[Inst], at: usize) -> Option<(TrackedLocation, TrackedLocation)> {
        let three = [
            self.as_exclusive_or(insts[at])?,
            self.as_exclusive_or(*insts.get(at.checked_sub(1)?)?)?,
            self.as_exclusive_or(*insts.get(at.checked_sub(2)?)?)?,
        ];
        let (a, b) = three[0];
        (three == [(a, b), (b, a), (a, b)]).then_some((a, b))
    }

    /// Returns the operands of an inserted exclusive or of two registers, as (destination and first source, second source); `None` for
    /// other instructions.
    fn as_exclusive_or(&self, inst: Inst) -> Option<(TrackedLocation, TrackedLocation)> {
        let data = &self.new.insts[inst];
        if self.is_old[inst] || data.guard.is_some() || data.modifiers.iter().any(|modifier| modifier.spelling() != ".LUT") {
            return None;
        }
        let operands = self.new.operands(inst);
        let (to, a, b, table) = match data.op.machine()? {
            Opcode::LOP3 | Opcode::ULOP3 if is_zero_register_operand(&operands[3]) => {
                (operands[0], operands[1], operands[2], (&operands[4], 0x3c))
            }
            Opcode::PLOP3 | Opcode::UPLOP3 if is_true_predicate(&operands[4]) => {
                (operands[0], operands[2], operands[3], (&operands[5], 0x28))
            }
            _ => return None,
        };
        if to.kind != a.kind || table.0.integer() != Some(table.1) || !a.signs.is_empty() || !b.signs.is_empty() {
            return None;
        }
        match (a.kind, b.kind) {
            (OperandKind::Register { file, first, count: 1 }, OperandKind::Register { file: same, first: other, count: 1 })
                if same == file =>
            {
                Some((TrackedLocation::Register(file, Reg::new(first)), TrackedLocation::Register(file, Reg::new(other))))
            }
            _ => None,
        }
    }
}

/// Returns the two moves of a `CS2R` that sets two registers to zero; `None` if the `CS2R` reads a special register other than `SRZ`, which
/// is zero.
fn as_pair_clearing_moves(operands: &[Operand]) -> Option<Vec<InsertedMove>> {
    let (OperandKind::Register { file, first, count: 2 }, OperandKind::Name(name)) = (operands[0].kind, operands[1].kind) else {
        return None;
    };
    let zero = |register: u16| {
        Some((TrackedLocation::Register(file, Reg::new(register)), MoveSource::LocationContent(constant_content(&Operand::RZ, 0)?)))
    };
    (name.spelling() == "SRZ").then(|| Some(vec![zero(first)?, zero(first + 1)?])).flatten()
}

/// Returns whether an opcode copies a register or a constant to a register.
fn is_move_opcode(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::MOV | Opcode::UMOV | Opcode::R2UR | Opcode::LDC | Opcode::ULDC | Opcode::LDCU)
}
