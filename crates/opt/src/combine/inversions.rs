//! Predicates that are read inverted instead of being inverted by an instruction.
//!
//! ```text
//! %1:P = PLOP3.LUT %0, PT, PT, 0xf, 0x0
//! @%1 BRA bb1                                 becomes     @!%0 BRA bb1
//! %4 = SEL %2, %3, %1                         becomes     %4 = SEL %2, %3, !%0
//! ```
//!
//! Guards have a bit for the inversion, and so have most predicate sources. A logic operation that only copies one of its sources is looked
//! through in the same way.

use oriole_ir::{Function, Guard, Inst, Operand, OperandKind, Part, RegFile, Role, Signs};
use oriole_isa::{Opcode, Symbol};

use super::Combiner;
use super::logic::truth_table_output;
use crate::rewrite::InstDraft;

impl Combiner {
    /// Where an instruction reads a predicate that is the inverse of another one, in its guard or as a source, makes it read that other
    /// predicate inverted. Returns whether the instruction changed.
    pub(super) fn absorb_inversions(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> bool {
        let mut changed = false;
        if let Some(Guard { kind: OperandKind::Value(part), negated }) = function.insts[inst].guard
            && let Some((origin, is_inverted)) = self.match_inversion(function, part)
        {
            self.adjust_read_counts(function, inst, -1);
            function.insts[inst].guard = Some(Guard { kind: OperandKind::Value(origin), negated: negated != is_inverted });
            self.adjust_read_counts(function, inst, 1);
            changed = true;
        }
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            let operand = function.operands(inst)[at];
            let Some(part) = operand.part().filter(|_| operand.role == Role::Plain && operand.suffixes().next().is_none()) else {
                continue;
            };
            let Some((origin, is_inverted)) = self.match_inversion(function, part) else { continue };
            let mut new = InstDraft::from_inst(function, inst, opcode);
            let signs = if is_inverted { operand.signs.toggled(Signs::NOT) } else { operand.signs };
            new.operands[at] = Operand { kind: OperandKind::Value(origin), signs, ..operand };
            if let Some(new) = self.first_encodable_draft(function, inst, [new]) {
                self.replace_inst(function, inst, new, &[]);
                changed = true;
            }
        }
        changed
    }

    /// If an unguarded `PLOP3` only inverts or copies a predicate into `part`: returns that predicate, and whether it is inverted.
    fn match_inversion(&self, function: &Function, part: Part) -> Option<(Part, bool)> {
        if function.values[part.value].file != RegFile::Predicate {
            return None;
        }
        let inst = self.definitions.unguarded_definition_of(function, part.value)?;
        let data = &function.insts[inst];
        if !data.is_machine(Opcode::PLOP3) || data.modifiers.as_slice() != [Symbol::LUT] {
            return None;
        }
        let &[result, Operand::PT] = function.results(inst) else { return None };
        let &[a, b, c, table, _] = function.sources(inst) else { return None };
        let table = table.integer()? as u8;
        let mut origin = None;
        for source in [a, b, c] {
            match source.kind {
                OperandKind::Zero(RegFile::Predicate) => {}
                OperandKind::Value(read) if origin.is_none() => origin = Some(read),
                _ => return None,
            }
        }
        let origin = origin.filter(|read| read.count == 1 && function.values[read.value].file == RegFile::Predicate)?;
        let value = |bit: bool| {
            let row = [a, b, c].map(|source| (source.part().is_none() || bit) != source.signs.has(Signs::NOT));
            truth_table_output(table, row)
        };
        let is_inverted = match (value(false), value(true)) {
            (true, false) => true,
            (false, true) => false,
            _ => return None,
        };
        (result.value() == Some(part.value)).then_some((origin, is_inverted))
    }
}
