//! Absorbs negations and absolute values of doubles into the sign modifiers of the operands that read them.
//!
//! ```text
//! %1 = LOP3.LUT %0[1], 0x80000000, RZ, 0x3c, !PT
//! %2:R2 = PACK %0[0], %1
//! %4:R2 = DADD %2, %3                         becomes     %4:R2 = DADD -%0, %3
//! ```
//!
//! `neg.f64` and `abs.f64` are selected as logic operations on the upper word. A source of a double-precision instruction has the same two
//! operations as modifiers, which act on the sign bit alone, so the bits that the instruction sees are the same.

use oriole_ir::{Function, Inst, Operand, OperandKind, Part, RegFile, Role, Signs};
use oriole_isa::{Opcode, Symbol};

use super::signs::compose_sign_modifiers;
use super::{CombineRule, Combiner};
use crate::rewrite::{InstDraft, single_register};

/// The sign bit in the upper word of a double.
const HIGH_WORD_SIGN_BIT: u32 = 1 << 31;

impl Combiner {
    /// Where a source is a double whose sign bit a logic operation has changed, reads the original double with operand modifiers (negation,
    /// absolute value) instead. Returns the rule that was applied; `None` if nothing changed.
    pub(super) fn absorb_double_sign_changes(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> Option<CombineRule> {
        let mut applied = None;
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            let operand = function.operands(inst)[at];
            let Some((part, signs)) = self.match_negated_or_absolute_double(function, &operand) else { continue };
            let mut new = InstDraft::from_inst(function, inst, opcode);
            new.operands[at] = Operand { signs: compose_sign_modifiers(operand.signs, signs), kind: OperandKind::Value(part), ..operand };
            if let Some(new) = self.first_encodable_draft(function, inst, [new]) {
                self.replace_inst(function, inst, new, &[]);
                applied = Some(CombineRule::WideSign);
            }
        }
        applied
    }

    /// If a source is a double whose sign bit was changed by a logic operation, returns the original double and the operand modifiers
    /// (negation, absolute value) with the same effect; otherwise `None`.
    fn match_negated_or_absolute_double(&self, function: &Function, operand: &Operand) -> Option<(Part, Signs)> {
        let part = operand.part().filter(|part| part.count == 2 && operand.role == Role::Plain && operand.suffixes().next().is_none())?;
        if function.values[part.value].file != RegFile::General {
            return None;
        }
        let (low, changed) =
            (self.definitions.origin(function, single_register(part, 0)), self.definitions.origin(function, single_register(part, 1)));
        let inst = self.definitions.unguarded_definition_of(function, changed.value)?;
        let data = &function.insts[inst];
        if !data.is_machine(Opcode::LOP3) || data.modifiers.as_slice() != [Symbol::LUT] {
            return None;
        }
        let is_only = function.results(inst).iter().skip(1).all(|result| result.value().is_none());
        let is_first = function.results(inst).first().and_then(Operand::value) == Some(changed.value);
        let &[high, mask, Operand::RZ, table, _] = function.sources(inst) else { return None };
        let signs = match (mask.integer()? as u32, table.integer()? as u8) {
            (HIGH_WORD_SIGN_BIT, 0x3c) => Signs::NEGATE,
            (mask, 0xc0) if mask == !HIGH_WORD_SIGN_BIT => Signs::ABSOLUTE,
            (HIGH_WORD_SIGN_BIT, 0xfc) => Signs::ABSOLUTE.with(Signs::NEGATE),
            _ => return None,
        };
        let high = self.definitions.origin(function, high.part().filter(|_| high.signs.is_empty())?);
        let is_pair = high.value == low.value && high.first == low.first + 1 && low.first.is_multiple_of(2);
        let is_aligned = function.values[low.value].align >= 2;
        (is_only && is_first && is_pair && is_aligned).then_some((Part { count: 2, ..low }, signs))
    }
}
