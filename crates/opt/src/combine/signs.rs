//! Absorbs negations and absolute values into the sign modifiers of the operands that read them.

use oriole_ir::{Function, Inst, Operand, OperandKind, RegFile, Role, Signs};
use oriole_isa::{Opcode, Symbol};

use super::{CombineRule, Combiner};
use crate::rewrite::InstDraft;

/// The bits of -0.0.
const MINUS_ZERO_BITS: u32 = 1 << 31;

impl Combiner {
    /// Replaces sources computed as `value + -0` by that value with its operand modifiers (negation, absolute value). Adding -0 changes no
    /// value except that NaNs become quiet and, with `.FTZ`, subnormal numbers become zero; the reader does both itself. Returns the rule
    /// that was applied; `None` if nothing changed.
    pub(super) fn absorb_sign_changes(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> Option<CombineRule> {
        if function.insts[inst].modifiers.contains(&Symbol::XORSIGN) {
            return None;
        }
        let mut applied = None;
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            let operand = function.operands(inst)[at];
            let Some((source, sum)) = self.match_negated_or_absolute(function, inst, &operand) else { continue };
            let mut new = InstDraft::from_inst(function, inst, opcode);
            new.operands[at] = Operand { signs: compose_sign_modifiers(operand.signs, source.signs), kind: source.kind, ..operand };
            if let Some(new) = self.first_encodable_draft(function, inst, [new]) {
                self.replace_inst(function, inst, new, &[sum]);
                applied = Some(CombineRule::Sign);
            }
        }
        applied
    }

    /// Matches an operand of `reader` that is a negated or absolute value, computed by an `FADD` of -0. Returns the value with the
    /// modifiers of that `FADD`, and the `FADD`.
    fn match_negated_or_absolute(&self, function: &Function, reader: Inst, operand: &Operand) -> Option<(Operand, Inst)> {
        if operand.role != Role::Plain {
            return None;
        }
        let flushes = function.insts[reader].modifiers.contains(&Symbol::FTZ);
        let sum = self.defining_inst(function, operand, Opcode::FADD, &[]).or_else(|| {
            let sum = self.defining_inst(function, operand, Opcode::FADD, &[Symbol::FTZ])?;
            Some(sum).filter(|_| flushes)
        })?;
        let [first, second] = *function.sources(sum) else { return None };
        let source = if is_minus_zero(&second) {
            first
        } else if is_minus_zero(&first) {
            second
        } else {
            return None;
        };
        let is_register = source.part().is_some_and(|part| part.count == 1 && function.values[part.value].file == RegFile::General);
        (is_register && source.suffixes().next().is_none()).then_some((source, sum))
    }
}

/// Returns whether an operand is -0.0.
fn is_minus_zero(operand: &Operand) -> bool {
    match operand.kind {
        OperandKind::Zero(RegFile::General) => operand.signs == Signs::NEGATE,
        OperandKind::Integer(bits) => bits as u32 == MINUS_ZERO_BITS && operand.signs.is_empty(),
        _ => false,
    }
}

/// Returns the composition of two sets of operand modifiers (negation, absolute value): `inner` is applied first, then `outer`.
pub(crate) fn compose_sign_modifiers(outer: Signs, inner: Signs) -> Signs {
    if outer.has(Signs::ABSOLUTE) { outer } else { outer.toggled(inner) }
}
