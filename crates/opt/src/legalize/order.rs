//! Enumerates equivalent orders of the sources of an instruction.

use oriole_ir::OperandKind;
use oriole_isa::{Opcode, RegFile, Symbol};
use smallvec::SmallVec;

use crate::rewrite::InstDraft;

/// Returns the draft itself, followed by one draft for each pair of sources that can be swapped without changing the result.
pub(crate) fn equivalent_source_orders(draft: &InstDraft) -> SmallVec<[InstDraft; 4]> {
    let mut found: SmallVec<[InstDraft; 4]> = SmallVec::new();
    found.push(draft.clone());
    let sources = draft.plain_source_positions();
    let swapped = |first: usize, second: usize| -> Option<InstDraft> {
        let (first, second) = (*sources.get(first)?, *sources.get(second)?);
        let mut changed = draft.clone();
        changed.operands.swap(first, second);
        Some(changed)
    };
    for &(first, second) in draft.opcode.properties().commute {
        found.extend(swapped(usize::from(first), usize::from(second)));
    }
    match draft.opcode {
        Opcode::IADD3 => found.extend(
            [(1, 2), (0, 2)]
                .into_iter()
                .filter_map(|(first, second)| swapped(first, second).filter(|changed| are_iadd3_modifiers_encodable(changed, &sources))),
        ),
        Opcode::ISETP | Opcode::FSETP | Opcode::DSETP | Opcode::HSETP2 | Opcode::UISETP => {
            found.extend(swapped(0, 1).and_then(with_mirrored_relation));
        }
        Opcode::FMNMX | Opcode::IMNMX | Opcode::VIMNMX if has_no_predicate_result(draft) => found.extend(swapped(0, 1)),
        Opcode::SEL | Opcode::FSEL | Opcode::USEL => found.extend(swapped(0, 1).and_then(|mut changed| {
            let predicate = *sources.get(2)?;
            changed.operands[predicate] = changed.operands[predicate].inverted_predicate();
            Some(changed)
        })),
        Opcode::LOP3 => found.extend([(0, 1), (1, 2), (0, 2)].into_iter().filter_map(|(first, second)| {
            let mut changed = swapped(first, second)?;
            let table = sources.iter().copied().skip(3).find(|&at| changed.operands[at].integer().is_some())?;
            let old = changed.operands[table].integer()? as u8;
            changed.operands[table].kind = OperandKind::Integer(i64::from(truth_table_after_swap(old, first, second)));
            Some(changed)
        })),
        _ => {}
    }
    found
}

/// Returns whether the encoding of `IADD3` allows the operand modifiers of a draft: at most one of the first two sources may be negated or
/// inverted. `sources` has the operand numbers of the sources.
fn are_iadd3_modifiers_encodable(draft: &InstDraft, sources: &[usize]) -> bool {
    let has_sign = |at: usize| sources.get(at).is_some_and(|&at| !draft.operands[at].signs.is_empty());
    !(has_sign(0) && has_sign(1))
}

/// Returns whether a minimum or maximum writes no predicate. The predicate result says which source is the result, so it would depend on
/// the order of the sources.
fn has_no_predicate_result(draft: &InstDraft) -> bool {
    draft.operands[..draft.result_count].iter().skip(1).all(|result| result.kind == OperandKind::Zero(RegFile::Predicate))
}

/// Replaces the relation of a comparison whose sources were swapped by the mirrored one, such as `GT` for `LT`; `None` if that is not
/// possible.
fn with_mirrored_relation(mut draft: InstDraft) -> Option<InstDraft> {
    // An extended (64-bit) comparison continues a comparison of the low halves, whose sources keep their order. A result of a minimum or
    // maximum says whether it is the first source.
    if draft.has(Symbol::EX) || draft.has(Symbol::MIN) || draft.has(Symbol::MAX) {
        return None;
    }
    for modifier in &mut draft.modifiers {
        *modifier = match *modifier {
            Symbol::LT => Symbol::GT,
            Symbol::GT => Symbol::LT,
            Symbol::LE => Symbol::GE,
            Symbol::GE => Symbol::LE,
            Symbol::LTU => Symbol::GTU,
            Symbol::GTU => Symbol::LTU,
            Symbol::LEU => Symbol::GEU,
            Symbol::GEU => Symbol::LEU,
            other => other,
        };
    }
    Some(draft)
}

/// Returns the truth table of a `LOP3` after its sources number `first` and `second` were swapped, so that the result stays the same.
/// Source 0 selects bit 2 of the table's index, source 2 bit 0.
pub(crate) fn truth_table_after_swap(table: u8, first: usize, second: usize) -> u8 {
    let (first, second) = (2 - first, 2 - second);
    (0..8_u8).fold(0, |swapped, index| {
        let (a, b) = (index >> first & 1, index >> second & 1);
        let source = index & !(1 << first) & !(1 << second) | a << second | b << first;
        swapped | (table >> source & 1) << index
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_table_changes_with_the_source_order() {
        let (a, b, c) = (0xf0, 0xcc, 0xaa);
        assert_eq!(truth_table_after_swap(a, 0, 1), b);
        assert_eq!(truth_table_after_swap(b, 1, 2), c);
        assert_eq!(truth_table_after_swap(a & !c, 0, 2), c & !a);
        assert_eq!(truth_table_after_swap(a & b | c, 0, 1), a & b | c);
    }

    /// The second result of a maximum tells which source is the result, so the sources may be swapped only if that result is not written.
    #[test]
    fn maximum_with_a_predicate_result_keeps_its_operand_order() {
        let text = "func kernel @maximum ssa {
bb0:
    %0:R, %1:R = ENTRY
    %2:R, PT = VIMNMX %0, %1, !PT
    %3:R, %4:P = VIMNMX %0, %1, !PT
    EXIT
}";
        let function = oriole_ir::text::parse(text).unwrap().remove(0);
        let orders_of = |number: usize| {
            let inst = function.blocks[function.entry()].insts[number];
            equivalent_source_orders(&InstDraft::from_inst(&function, inst, Opcode::VIMNMX)).len()
        };
        assert_eq!((orders_of(1), orders_of(2)), (2, 1));
    }
}
