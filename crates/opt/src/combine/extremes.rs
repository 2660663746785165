//! Combines a minimum or maximum with the minimum, maximum or sum that is one of its sources, into one three-operand instruction.

use oriole_ir::{Function, Inst, Operand, OperandKind, RegFile};
use oriole_isa::{Opcode, Symbol};
use smallvec::{SmallVec, smallvec};

use super::sums::summands;
use super::{CombineRule, Combiner, new_draft};
use crate::rewrite::InstDraft;

impl Combiner {
    /// Combines a minimum or maximum with the computation of one of its sources. Returns the rule that was applied; `None` if nothing
    /// changed.
    pub(super) fn combine_min_max(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        let ([a, b], predicate) = min_max_operands(function, inst)?;
        // Only one source can be an immediate. A zero is replaced by the zero register, so that the other source can be the immediate.
        let [a, b] = [a, b].map(|source| if source.integer() == Some(0) { Operand::RZ } else { source });
        let modifiers = function.insts[inst].modifiers.clone();
        let result = function.results(inst)[0];
        for (source, other) in [(a, b), (b, a)] {
            let (drafts, absorbed) = if let Some(inner) = self.absorbable_inst(function, inst, &source, Opcode::VIMNMX, &modifiers)
                && let Some(([x, y], of_inner)) = min_max_operands(function, inner)
                && of_inner == predicate
            {
                let three = |a: Operand, b: Operand, c: Operand| new_draft(Opcode::VIMNMX3, &modifiers, result, &[a, b, c, predicate]);
                let drafts: SmallVec<[InstDraft; 6]> = smallvec![
                    three(x, y, other),
                    three(x, other, y),
                    three(other, x, y),
                    three(other, y, x),
                    three(y, other, x),
                    three(y, x, other)
                ];
                (drafts, inner)
            } else if let Some(sum) = self.absorbable_inst(function, inst, &source, Opcode::IADD3, &[])
                && let Some([x, y]) = summands(function, sum).and_then(|summands| <[Operand; 2]>::try_from(summands.as_slice()).ok())
            {
                let sum_with = |a: Operand, b: Operand| new_draft(Opcode::VIADDMNMX, &modifiers, result, &[a, b, other, predicate]);
                (smallvec![sum_with(x, y), sum_with(y, x)], sum)
            } else {
                continue;
            };
            if let Some(found) = self.first_encodable_draft(function, inst, drafts) {
                self.replace_inst(function, inst, found, &[absorbed]);
                return Some(CombineRule::Extreme);
            }
        }
        None
    }
}

/// Returns the two sources of a 32-bit minimum or maximum (`VIMNMX`), and the predicate that chooses between minimum and maximum; `None`
/// for other instructions and for sources with operand modifiers.
fn min_max_operands(function: &Function, inst: Inst) -> Option<([Operand; 2], Operand)> {
    let data = &function.insts[inst];
    let &[a, b, predicate] = function.sources(inst) else { return None };
    let is_word = matches!(data.modifiers.as_slice(), [] | [Symbol::U32] | [Symbol::S32]);
    let is_choice = predicate.kind == OperandKind::Zero(RegFile::Predicate);
    let is_single = function.results(inst).iter().skip(1).all(|result| result.value().is_none());
    let is_plain = [a, b].iter().all(|source| source.signs.is_empty() && source.suffixes().next().is_none());
    (data.is_machine(Opcode::VIMNMX) && data.guard.is_none() && is_word && is_choice && is_single && is_plain)
        .then_some(([a, b], predicate))
}
