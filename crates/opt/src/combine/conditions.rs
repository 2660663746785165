//! Combines a comparison with the logic operation that reads its predicate.
//!
//! ```text
//! %2:P = FSETP.LT.AND %0, %1, PT
//! %4:P = PLOP3.LUT %2, %3, PT, 0xc0, 0x0      becomes     %4:P = FSETP.LT.AND %0, %1, %3
//! ```
//!
//! A comparison can compute the AND, OR or XOR of its own result and another predicate, and invert either of them. To invert its own
//! result, its relation is replaced by the opposite one, which for floating-point operands is true for NaN if the original one is false.

use oriole_ir::{Function, Inst, Operand, OperandKind, RegFile, Role, Signs};
use oriole_isa::{Opcode, Symbol};

use super::logic::truth_table_output;
use super::{CombineRule, Combiner};
use crate::rewrite::InstDraft;

impl Combiner {
    /// Combines a logic operation on two predicates with the comparison that computes one of them. Returns the rule that was applied;
    /// `None` if nothing changed.
    pub(super) fn combine_comparison_with_logic(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        let data = &function.insts[inst];
        let &[result, Operand::PT] = function.results(inst) else { return None };
        let &[a, b, Operand::PT, table, _] = function.sources(inst) else { return None };
        if data.guard.is_some() || data.modifiers.as_slice() != [Symbol::LUT] || result.value().is_none() {
            return None;
        }
        let is_predicate = |operand: &Operand| {
            let is_register = operand.part().is_some_and(|part| function.values[part.value].file == RegFile::Predicate);
            is_register && operand.role == Role::Plain && operand.suffixes().next().is_none()
        };
        if !is_predicate(&a) || !is_predicate(&b) || a.value() == b.value() {
            return None;
        }
        let table = table.integer()? as u8;
        // Tries the second predicate first, because it is more often the one that is computed directly before the logic operation.
        for (tested, other, is_swapped) in [(b, a, true), (a, b, false)] {
            // Evaluates the truth table for one value of each predicate. If an operand is inverted, the inversion is included.
            let value = |tested_bit: bool, other_bit: bool| {
                let (tested_bit, other_bit) = (tested_bit != tested.signs.has(Signs::NOT), other_bit != other.signs.has(Signs::NOT));
                let (a, b) = if is_swapped { (other_bit, tested_bit) } else { (tested_bit, other_bit) };
                truth_table_output(table, [a, b, true])
            };
            let Some((operation, inverts_test, inverts_other)) = match_predicate_operation(value) else { continue };
            let Some(compare) = self.absorbable_comparison(function, inst, &tested) else { continue };
            let Some(draft) = compare_with_predicate_operation(function, compare, result, operation, inverts_test, inverts_other, &other)
            else {
                continue;
            };
            if self.encodability.is_encodable(function, inst, &draft) {
                self.replace_inst(function, inst, draft, &[compare]);
                return Some(CombineRule::Condition);
            }
        }
        None
    }

    /// Returns the comparison in the same block that computes a predicate, if `reader` is the only reader and the comparison is not
    /// combined with another predicate yet.
    fn absorbable_comparison(&self, function: &Function, reader: Inst, source: &Operand) -> Option<Inst> {
        let value = source.value()?;
        let inst = self.definitions.unguarded_definition_of(function, value)?;
        let opcode = function.insts[inst].op.machine()?;
        let is_comparison = matches!(opcode, Opcode::ISETP | Opcode::FSETP | Opcode::DSETP);
        let &[first, Operand::PT] = function.results(inst) else { return None };
        // The first result of `DSETP.MIN` and `DSETP.MAX` is no comparison.
        if function.insts[inst].modifiers.iter().any(|modifier| matches!(*modifier, Symbol::MIN | Symbol::MAX)) {
            return None;
        }
        let is_alone = function.insts[inst].modifiers.contains(&Symbol::AND) && function.sources(inst).get(2) == Some(&Operand::PT);
        let is_near = self.inst_blocks[oriole_support::Index::position(inst)] == self.inst_blocks[oriole_support::Index::position(reader)];
        let is_only = self.reads[oriole_support::Index::position(value)] == 1;
        (is_comparison && first.value() == Some(value) && is_alone && is_near && is_only).then_some(inst)
    }
}

/// Expresses `value`, a function of the result of a comparison and another predicate, as one `AND`, `OR` or `XOR`. Returns the operation,
/// whether the result of the comparison is inverted first, and whether the other predicate is; `None` if no such operation exists.
fn match_predicate_operation(value: impl Fn(bool, bool) -> bool) -> Option<(Symbol, bool, bool)> {
    let inversions = [(false, false), (false, true), (true, false), (true, true)];
    for join in [Symbol::AND, Symbol::OR, Symbol::XOR] {
        let operation = |a: bool, b: bool| match join {
            Symbol::AND => a && b,
            Symbol::OR => a || b,
            _ => a != b,
        };
        for (test, other) in inversions {
            let agrees = |(a, b): (bool, bool)| value(a, b) == operation(a != test, b != other);
            if inversions.into_iter().all(agrees) {
                return Some((join, test, other));
            }
        }
    }
    None
}

/// Returns a draft of `compare` that writes `result` and is combined with `other` by `operation`. If `inverts_test`, the draft
/// tests the opposite relation; if `inverts_other`, it reads the inverse of `other`.
fn compare_with_predicate_operation(
    function: &Function,
    compare: Inst,
    result: Operand,
    operation: Symbol,
    inverts_test: bool,
    inverts_other: bool,
    other: &Operand,
) -> Option<InstDraft> {
    let opcode = function.insts[compare].op.machine()?;
    let mut draft = InstDraft::from_inst(function, compare, opcode);
    draft.operands[0] = result;
    let and = draft.modifiers.iter().position(|&modifier| modifier == Symbol::AND)?;
    draft.modifiers[and] = operation;
    if inverts_test {
        // The comparison of the upper words of a 64-bit value reads the predicate of the lower words, which would have to be inverted too.
        if draft.has(Symbol::EX) {
            return None;
        }
        draft.modifiers[0] = if opcode == Opcode::ISETP {
            opposite_integer_relation(draft.modifiers[0])?
        } else {
            opposite_float_relation(draft.modifiers[0])?
        };
    }
    let OperandKind::Value(part) = other.kind else { return None };
    let signs = if inverts_other { Signs::NOT } else { Signs::NONE };
    draft.operands[4] = Operand::from(part).with_signs(signs);
    Some(draft)
}

/// Returns the relation that holds exactly if an integer relation does not, such as `GE` for `LT`; `None` for other modifiers.
fn opposite_integer_relation(relation: Symbol) -> Option<Symbol> {
    crate::unroll::bound::inverse_relation(relation)
}

/// Returns the relation that holds exactly if a floating-point relation does not: for an ordered relation the opposite unordered one, such
/// as `GEU` for `LT`. `None` for other modifiers.
fn opposite_float_relation(relation: Symbol) -> Option<Symbol> {
    let pairs = [
        (Symbol::LT, Symbol::GEU),
        (Symbol::LE, Symbol::GTU),
        (Symbol::GT, Symbol::LEU),
        (Symbol::GE, Symbol::LTU),
        (Symbol::EQ, Symbol::NEU),
        (Symbol::NE, Symbol::EQU),
        (Symbol::NUM, Symbol::NAN),
    ];
    let found = pairs.into_iter().find(|pair| pair.0 == relation || pair.1 == relation)?;
    Some(if found.0 == relation { found.1 } else { found.0 })
}
