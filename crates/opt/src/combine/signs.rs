//! Absorbs negations and absolute values into the sign modifiers of the operands that read them.

use oriole_ir::{Function, Inst, Operand, OperandKind, RegFile, Role, Signs};
use oriole_isa::{Opcode, Symbol};

use super::{CombineRule, Combiner};
use crate::rewrite::InstDraft;

/// The bits of -0.0.
const MINUS_ZERO_BITS: u32 = 1 << 31;
/// The bits of -1.0.
const MINUS_ONE_BITS: u32 = 0xbf80_0000;

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

    /// Replaces a selection of a word whose sign was changed by an `FSEL` of the word itself with operand modifiers (negation, absolute value).
    /// `FSEL` changes no other bit, also of NaNs. The sign is changed by a logic operation, by an addition of -0 or by a product with -1; the
    /// bits of a NaN differ from those after the latter two, which no rule of PTX fixes. Returns the rule that was applied; `None` if nothing
    /// changed.
    pub(super) fn absorb_signs_into_selection(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        if !function.insts[inst].modifiers.is_empty() {
            return None;
        }
        let mut applied = None;
        for number in 0..2 {
            let operand = *function.sources(inst).get(number)?;
            let found =
                self.match_changed_sign_bit(function, &operand).or_else(|| self.match_negated_or_absolute(function, inst, &operand));
            let Some((source, change)) = found.filter(|&(_, change)| self.is_absorbable(function, inst, change)) else { continue };
            let mut new = InstDraft::from_inst(function, inst, Opcode::FSEL);
            let at = new.result_count + number;
            new.operands[at] = Operand { signs: compose_sign_modifiers(operand.signs, source.signs), kind: source.kind, ..operand };
            if let Some(new) = self.first_encodable_draft(function, inst, [new]) {
                self.replace_inst(function, inst, new, &[change]);
                applied = Some(CombineRule::SelectedSign);
            }
        }
        applied
    }

    /// Matches an operand that is a word whose sign bit a logic operation flipped, cleared or set. Returns the word with the
    /// operand modifiers of the same effect, and the logic operation.
    fn match_changed_sign_bit(&self, function: &Function, operand: &Operand) -> Option<(Operand, Inst)> {
        let change = self.defining_inst(function, operand, Opcode::LOP3, &[Symbol::LUT])?;
        let &[word, mask, Operand::RZ, table, _] = function.sources(change) else { return None };
        let signs = match (mask.integer()? as u32, table.integer()? as u8) {
            (MINUS_ZERO_BITS, 0x3c) => Signs::NEGATE,
            (mask, 0xc0) if mask == !MINUS_ZERO_BITS => Signs::ABSOLUTE,
            (MINUS_ZERO_BITS, 0xfc) => Signs::ABSOLUTE.with(Signs::NEGATE),
            _ => return None,
        };
        let is_register = word.part().is_some_and(|part| part.count == 1 && function.values[part.value].file == RegFile::General);
        (is_register && word.signs.is_empty()).then_some((Operand { signs, ..word }, change))
    }

    /// Matches an operand of `reader` that is a negated or absolute value, computed by an `FADD` of -0 or by an `FMUL` by -1. Returns the
    /// value with the modifiers of the same effect, and the `FADD` or `FMUL`.
    fn match_negated_or_absolute(&self, function: &Function, reader: Inst, operand: &Operand) -> Option<(Operand, Inst)> {
        if operand.role != Role::Plain {
            return None;
        }
        let flushes = function.insts[reader].modifiers.contains(&Symbol::FTZ);
        let defining = |opcode| {
            self.defining_inst(function, operand, opcode, &[]).or_else(|| {
                let inst = self.defining_inst(function, operand, opcode, &[Symbol::FTZ])?;
                Some(inst).filter(|_| flushes)
            })
        };
        let (sum, source) = if let Some(sum) = defining(Opcode::FADD) {
            let [first, second] = *function.sources(sum) else { return None };
            (sum, if is_minus_zero(&second) { first } else { Some(second).filter(|_| is_minus_zero(&first))? })
        } else {
            let product = defining(Opcode::FMUL)?;
            let [first, second] = *function.sources(product) else { return None };
            let is_minus_one = second.signs.is_empty() && second.integer().is_some_and(|bits| bits as u32 == MINUS_ONE_BITS);
            (product, Some(first).filter(|_| is_minus_one).map(|first| Operand { signs: first.signs.toggled(Signs::NEGATE), ..first })?)
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
