//! Combines two 64-bit additions into one 64-bit sum of three numbers.
//!
//! ```text
//! %6:R, %7:P, PT = IADD3 %0, %2, RZ
//! %8:R, PT, PT = IADD3.X %1, %3, RZ, %7, !PT
//! %9:R, %10:P, PT = IADD3 %6, %4, RZ                    becomes   %9:R, %10:P, %12:P = IADD3 %0, %2, %4
//! %11:R, PT, PT = IADD3.X %8, %5, RZ, %10, !PT                    %11:R, PT, PT = IADD3.X %1, %3, %5, %10, %12
//! ```
//!
//! The sum of three 32-bit words carries at most twice: the first carry says whether it carries at least once, the second whether it
//! carries twice.
//!
//! One of the three numbers may be subtracted. `-b` counts as `2^32 - b` in the sum of the lower halves, which is `~b + 1`, and the upper
//! half is `~b`, so the carries are those of the two operations together:
//!
//! ```text
//! %6:R, %7:P, PT = IADD3.X %0, ~%2, RZ, PT, !PT
//! %8:R, PT, PT = IADD3.X %1, ~%3, RZ, %7, !PT
//! %9:R, %10:P, PT = IADD3 %6, %4, RZ                    becomes   %9:R, %10:P, %12:P = IADD3 %0, -%2, %4
//! %11:R, PT, PT = IADD3.X %8, %5, RZ, %10, !PT                    %11:R, PT, PT = IADD3.X %1, ~%3, %5, %10, %12
//! ```
//!
//! A difference that is subtracted, `c - (a - b)`, is `c - a + b`.

use oriole_ir::{Class, Function, Inst, Operand, Role, Signs, Value};
use oriole_isa::{Opcode, Symbol, Symbols};
use oriole_support::Index;
use smallvec::{SmallVec, smallvec};

use super::sums::Summands;
use super::{CombineRule, Combiner};
use crate::legalize::order;
use crate::rewrite::InstDraft;

/// A 64-bit sum, computed by two additions of 32 bits.
struct WideSum {
    /// The addition of the lower halves, which writes the carry.
    lower: Inst,
    /// The addition of the upper halves, which reads the carry.
    upper: Inst,
}

impl Combiner {
    /// Combines two dependent 64-bit sums into one of three summands. `upper` adds the upper halves of the outer sum. Returns the rule that
    /// was applied; `None` if nothing changed.
    pub(super) fn combine_wide_sum(&mut self, function: &mut Function, upper: Inst) -> Option<CombineRule> {
        let outer = self.match_wide_sum(function, upper)?;
        let [lower_terms, upper_terms] = [lower_summands(function, outer.lower)?, upper_summands(function, outer.upper)?];
        let (inner, lower_sources, upper_sources) = (0..lower_terms.len()).find_map(|lower_at| {
            (0..upper_terms.len()).find_map(|upper_at| {
                let (lower_term, upper_term) = (lower_terms[lower_at], upper_terms[upper_at]);
                let upper_sum = upper_term.with_signs(Signs::NONE);
                let inner_upper = self.absorbable_inst(function, upper, &upper_sum, Opcode::IADD3, &[Symbol::X])?;
                let inner = self.match_wide_sum(function, inner_upper)?;
                let is_lower = self.absorbable_sum(function, outer.lower, &lower_term) == Some(inner.lower);
                let mut terms = [lower_summands(function, inner.lower)?, upper_summands(function, inner.upper)?];
                if (lower_term.signs, upper_term.signs) == (Signs::NEGATE, Signs::INVERT) {
                    terms = [exchange_signs(&terms[0], Signs::NEGATE)?, exchange_signs(&terms[1], Signs::INVERT)?];
                } else if (lower_term.signs, upper_term.signs) != (Signs::NONE, Signs::NONE) {
                    return None;
                }
                let lower = replace_summand(&lower_terms, lower_at, &terms[0])?;
                let upper = replace_summand(&upper_terms, upper_at, &terms[1])?;
                // An IADD3 with two negated summands has an encoding, but an H200 reports some of them as illegal instructions.
                let is_one_negated = |terms: &[Operand; 3]| terms.iter().filter(|term| !term.signs.is_empty()).count() <= 1;
                (is_lower && is_one_negated(&lower) && is_one_negated(&upper)).then_some((inner, lower, upper))
            })
        })?;
        let [sum, carry, ..] = *function.results(outer.lower) else { return None };
        let twice: Value = function.new_value(Class::P);
        let twice = Operand::from(function.whole(twice));
        let modifiers = Symbols::new();
        let operands = [sum, carry, twice].into_iter().chain(lower_sources).collect();
        let lower = InstDraft { opcode: Opcode::IADD3, modifiers, operands, result_count: 3 };
        let results: SmallVec<[Operand; 3]> = function.results(outer.upper).iter().copied().collect();
        let result_count = results.len();
        let modifiers = function.insts[outer.upper].modifiers.clone();
        let operands = results.into_iter().chain(upper_sources).chain([carry, twice]).collect();
        let upper = InstDraft { opcode: Opcode::IADD3, modifiers, operands, result_count };
        let lower = self.first_encodable_draft(function, outer.lower, order::equivalent_source_orders(&lower))?;
        let upper = self.first_encodable_draft(function, outer.upper, order::equivalent_source_orders(&upper))?;
        self.reads.resize(function.values.len(), 0);
        if let Some(value) = twice.value() {
            self.definitions.set_definition(value, outer.lower);
        }
        self.replace_inst(function, outer.lower, lower, &[]);
        self.replace_inst(function, outer.upper, upper, &[inner.upper, inner.lower]);
        Some(CombineRule::WideSum)
    }

    /// Returns the 64-bit sum whose upper halves `upper` adds. `None` if `upper` is another instruction, if one of the two additions is
    /// guarded, or if another instruction reads the carry.
    fn match_wide_sum(&self, function: &Function, upper: Inst) -> Option<WideSum> {
        let [_, _, _, carry, never] = function.sources(upper) else { return None };
        let is_upper = *never == Operand::PT.inverted_predicate() && carry.signs.is_empty();
        let has_carry_out = function.results(upper).iter().skip(1).any(|result| result.value().is_some());
        if !is_upper || has_carry_out || function.results(upper).len() != 3 || function.insts[upper].guard.is_some() {
            return None;
        }
        let lower = self.definitions.unguarded_definition_of(function, carry.value()?)?;
        let [_, first, second] = *function.results(lower) else { return None };
        let is_lower = function.insts[lower].is_machine(Opcode::IADD3);
        let is_carry = first.value() == carry.value() && second.value().is_none();
        let is_near = self.inst_blocks[lower.position()] == self.inst_blocks[upper.position()];
        let is_only_reader = self.reads[carry.value()?.position()] == 1;
        (is_lower && is_carry && is_near && is_only_reader).then_some(WideSum { lower, upper })
    }

    /// Returns the `IADD3` that computes a source, if it is in the block of `reader` and `reader` is the only instruction that reads the
    /// source. The `IADD3` may write a carry too.
    fn absorbable_sum(&self, function: &Function, reader: Inst, source: &Operand) -> Option<Inst> {
        let register = self.register(function, source)?;
        let inst = self.definitions.unguarded_definition_of(function, register.value)?;
        let is_first = function.results(inst).first().and_then(Operand::value) == Some(register.value);
        let is_near = self.inst_blocks[inst.position()] == self.inst_blocks[reader.position()];
        let is_only_reader = self.reads[register.value.position()] == 1;
        (function.insts[inst].is_machine(Opcode::IADD3) && is_first && is_near && is_only_reader).then_some(inst)
    }
}

/// Returns the summands of an addition of lower halves, without zero registers. A difference may be written in two ways: `IADD3 a, -b, RZ`,
/// which is returned, and `IADD3.X a, ~b, RZ, PT, !PT` with a carry input that is always set. Their sums and carries are the same, because
/// `-b` counts as `~b + 1` also where `b` is zero. A zero register with a sign is a summand too, because a negated zero produces a carry.
fn lower_summands(function: &Function, lower: Inst) -> Option<Summands> {
    let (expected, terms) = match function.sources(lower) {
        [terms @ .., Operand::PT, never] if *never == Operand::PT.inverted_predicate() => (Signs::INVERT, terms),
        terms => (Signs::NEGATE, terms),
    };
    let has_carry_in = terms.len() < function.sources(lower).len();
    let modifiers: &[Symbol] = if has_carry_in { &[Symbol::X] } else { &[] };
    let is_complete = !has_carry_in || terms.iter().filter(|term| term.signs == Signs::INVERT).count() == 1;
    let terms = signed_summands(terms, expected).filter(|_| is_complete && function.insts[lower].modifiers.as_slice() == modifiers)?;
    Some(terms.into_iter().map(|term| if term.signs.is_empty() { term } else { term.with_signs(Signs::NEGATE) }).collect())
}

/// Returns the summands of an addition of upper halves, without zero registers; the upper half of a number that is subtracted is inverted.
fn upper_summands(function: &Function, upper: Inst) -> Option<Summands> {
    signed_summands(function.sources(upper).get(..3)?, Signs::INVERT)
}

/// Returns summands without zero registers that have no sign; `None` unless there are three and each has no sign or `sign`.
fn signed_summands(terms: &[Operand], sign: Signs) -> Option<Summands> {
    let is_summand =
        |term: &Operand| term.role == Role::Plain && (term.signs.is_empty() || term.signs == sign) && term.suffixes().next().is_none();
    let is_sum = terms.len() == 3 && terms.iter().all(is_summand);
    is_sum.then(|| terms.iter().copied().filter(|&term| term != Operand::RZ).collect())
}

/// Returns one half of `b - a` for one half of the difference `a - b`, in which `b` has the sign `sign`; `None` if the summands are not a
/// difference of two numbers.
fn exchange_signs(terms: &Summands, sign: Signs) -> Option<Summands> {
    let (subtracted, added): (Summands, Summands) = terms.iter().copied().partition(|term| term.signs == sign);
    match (subtracted.as_slice(), added.as_slice()) {
        ([b], []) => Some(smallvec![b.with_signs(Signs::NONE), Operand::RZ.with_signs(sign)]),
        ([b], [a]) => Some(smallvec![b.with_signs(Signs::NONE), a.with_signs(sign)]),
        _ => None,
    }
}

/// Returns the summands of an outer sum in which summand number `at` is replaced by the summands of the inner sum, filled up to three with
/// zeros; `None` if there are more than three.
fn replace_summand(outer: &Summands, at: usize, inner: &Summands) -> Option<[Operand; 3]> {
    let others = outer.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, term)| *term);
    let mut all: Summands = inner.iter().copied().chain(others).collect();
    let is_short = all.len() <= 3;
    all.resize(3, Operand::RZ);
    is_short.then(|| [all[0], all[1], all[2]])
}
