//! Combines additions with the sums, products and left shifts that they add.

use oriole_ir::{Function, Inst, Operand, OperandKind, RegFile, Role, Signs, Value};
use oriole_isa::{Opcode, Symbol};
use smallvec::{SmallVec, smallvec};

use super::{CombineRule, Combiner, new_draft};
use crate::known::{LUT_OR, OperandFacts};
use crate::legalize::order;
use crate::rewrite::InstDraft;

/// Maximum number of instructions that read a 64-bit left shift which is to be absorbed into them. The shift is only saved if all of them
/// absorb it.
const MAX_SHIFT_READERS: u32 = 2;

/// The summands of an addition, without zero registers.
pub(super) type Summands = SmallVec<[Operand; 5]>;

impl Combiner {
    /// Combines an addition with the computation of one of its summands. Returns the rule that was applied; `None` if nothing changed.
    pub(super) fn combine_sum(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        if function.insts[inst].guard.is_some() {
            return None;
        }
        if function.insts[inst].modifiers.as_slice() == [Symbol::X] {
            return self.combine_wide_shifted_sum(function, inst).or_else(|| self.combine_wide_sum(function, inst));
        }
        let has_carry = function.results(inst).iter().skip(1).any(|result| result.value().is_some());
        let summands = summands(function, inst).filter(|_| !has_carry)?;
        let rules = [
            Combiner::combine_product_sum,
            Combiner::combine_product_difference,
            Combiner::combine_shifted_sum,
            Combiner::combine_right_shifted_sum,
            Combiner::combine_funnel_shifted_sum,
            Combiner::combine_sum_of_sum,
        ];
        rules.into_iter().find_map(|rule| (0..summands.len()).find_map(|at| rule(self, function, inst, &summands, at)))
    }

    /// Combines `a * b + c` into one `IMAD`, where summand number `at` is the product. Returns the rule that was applied; `None` if nothing
    /// changed.
    fn combine_product_sum(&mut self, function: &mut Function, inst: Inst, summands: &Summands, at: usize) -> Option<CombineRule> {
        let other = *other_summand(summands, at)?;
        let product = self.absorbable_inst(function, inst, &summands[at], Opcode::IMAD, &[])?;
        let [a, b, addend] = *function.sources(product) else { return None };
        let is_plain = [a, b, other, summands[at]].iter().all(|operand| operand.signs.is_empty());
        if !is_plain || addend != Operand::RZ {
            return None;
        }
        let result = function.results(inst)[0];
        self.replace_with_encodable_sum(function, inst, new_draft(Opcode::IMAD, &[], result, &[a, b, other]), product)?;
        Some(CombineRule::ProductSum)
    }

    /// Combines `c - a * n` with a constant factor `n` into one `IMAD`, which computes `a * -n + c`. Summand number `at` is the product. A
    /// left shift by `k` bits is a product with `2^k`. Returns the rule that was applied; `None` if nothing changed.
    fn combine_product_difference(&mut self, function: &mut Function, inst: Inst, summands: &Summands, at: usize) -> Option<CombineRule> {
        let other = *other_summand(summands, at)?;
        if summands[at].signs != Signs::NEGATE || !other.signs.is_empty() {
            return None;
        }
        let subtrahend = summands[at].with_signs(Signs::NONE);
        let (product, a, factor) =
            if let Some(shift) = self.absorbable_inst(function, inst, &subtrahend, Opcode::SHF, &[Symbol::L, Symbol::U32]) {
                let (a, distance) = match_left_shift(function, shift)?;
                (shift, a, 1_u32 << distance.integer()?)
            } else {
                let product = self.absorbable_inst(function, inst, &subtrahend, Opcode::IMAD, &[])?;
                let &[a, b, Operand::RZ] = function.sources(product) else { return None };
                (product, a, b.integer().filter(|_| b.signs.is_empty())? as u32)
            };
        if !a.signs.is_empty() {
            return None;
        }
        let result = function.results(inst)[0];
        let draft = new_draft(Opcode::IMAD, &[], result, &[a, factor.wrapping_neg().into(), other]);
        self.replace_with_encodable_sum(function, inst, draft, product)?;
        Some(CombineRule::ProductDifference)
    }

    /// Combines `(a >> n) + b` into one `LEA.HI`, where summand number `at` is the shift. `LEA.HI` shifts a pair of words to the left and
    /// adds its upper word. The pair is `a` extended to 64 bits, with zeros or with its sign (`.SX32`), and `(pair << (32 - n)) >> 32` is
    /// `a >> n`. Returns the rule that was applied; `None` if nothing changed.
    fn combine_right_shifted_sum(&mut self, function: &mut Function, inst: Inst, summands: &Summands, at: usize) -> Option<CombineRule> {
        let other = *other_summand(summands, at)?;
        if !other.signs.is_empty() || !summands[at].signs.is_empty() {
            return None;
        }
        let (shift, is_signed) = [(Symbol::U32, false), (Symbol::S32, true)].into_iter().find_map(|(ty, is_signed)| {
            Some((self.absorbable_inst(function, inst, &summands[at], Opcode::SHF, &[Symbol::R, ty, Symbol::HI])?, is_signed))
        })?;
        let &[Operand::RZ, distance, a] = function.sources(shift) else { return None };
        let OperandKind::Integer(number @ 1..=31) = distance.kind else { return None };
        if !a.signs.is_empty() || a.part().is_none() {
            return None;
        }
        let distance = Operand::from(32 - number as u32);
        let result = function.results(inst)[0];
        let (modifiers, operands): (&[Symbol], _) = if is_signed {
            (&[Symbol::HI, Symbol::SX32], smallvec![result, Operand::PT, a, other, distance])
        } else {
            (&[Symbol::HI], smallvec![result, Operand::PT, a, other, Operand::RZ, distance])
        };
        let draft = InstDraft { opcode: Opcode::LEA, modifiers: modifiers.iter().copied().collect(), operands, result_count: 2 };
        let draft = self.first_encodable_draft(function, inst, [draft])?;
        self.replace_inst(function, inst, draft, &[shift]);
        Some(CombineRule::RightShiftedSum)
    }

    /// Combines the sum of `b` and a funnel shift of a pair of words by a known distance into one `LEA.HI`, where summand number `at` is
    /// the shift. A rotation is a funnel shift of a pair of equal words. `LEA.HI` shifts to the left; the lower word of a pair shifted to
    /// the right by `n` is the upper word of the pair shifted to the left by `32 - n`. Returns the rule that was applied; `None` if nothing
    /// changed.
    fn combine_funnel_shifted_sum(&mut self, function: &mut Function, inst: Inst, summands: &Summands, at: usize) -> Option<CombineRule> {
        let other = *other_summand(summands, at)?;
        if !other.signs.is_empty() || !summands[at].signs.is_empty() {
            return None;
        }
        const TO_THE_LEFT: &[Symbol] = &[Symbol::L, Symbol::W, Symbol::U32, Symbol::HI];
        const TO_THE_RIGHT: &[Symbol] = &[Symbol::R, Symbol::W, Symbol::U32];
        let (shift, is_left) = [(TO_THE_LEFT, true), (TO_THE_RIGHT, false)].into_iter().find_map(|(modifiers, is_left)| {
            Some((self.absorbable_inst(function, inst, &summands[at], Opcode::SHF, modifiers)?, is_left))
        })?;
        let &[low, distance, high] = function.sources(shift) else { return None };
        let OperandKind::Integer(number @ 1..=31) = distance.kind else { return None };
        if !low.signs.is_empty() || !high.signs.is_empty() {
            return None;
        }
        let distance = Operand::from(if is_left { number as u32 } else { 32 - number as u32 });
        let operands = smallvec![function.results(inst)[0], Operand::PT, low, other, high, distance];
        let draft = InstDraft { opcode: Opcode::LEA, modifiers: [Symbol::HI].into_iter().collect(), operands, result_count: 2 };
        let draft = self.first_encodable_draft(function, inst, [draft])?;
        self.replace_inst(function, inst, draft, &[shift]);
        Some(CombineRule::FunnelShiftedSum)
    }

    /// Combines `(a << n) + b` into one `LEA`, where summand number `at` is the shift. Returns the rule that was applied; `None` if nothing
    /// changed.
    fn combine_shifted_sum(&mut self, function: &mut Function, inst: Inst, summands: &Summands, at: usize) -> Option<CombineRule> {
        let other = *other_summand(summands, at)?;
        let shift = self.absorbable_inst(function, inst, &summands[at], Opcode::SHF, &[Symbol::L, Symbol::U32])?;
        let (a, distance) = match_left_shift(function, shift)?;
        let is_plain = [a, other, summands[at]].iter().all(|operand| operand.signs.is_empty());
        if !is_plain {
            return None;
        }
        let operands = smallvec![function.results(inst)[0], Operand::PT, a, other, distance];
        let lea = InstDraft { opcode: Opcode::LEA, modifiers: [].into_iter().collect(), operands, result_count: 2 };
        let lea = self.first_encodable_draft(function, inst, [lea])?;
        self.replace_inst(function, inst, lea, &[shift]);
        Some(CombineRule::ShiftedSum)
    }

    /// Combines `(a << n) | b` into one `LEA` if `b` has at most `n` bits, so that the disjunction is the sum. Returns the rule that was
    /// applied;
    /// `None` if nothing changed.
    pub(super) fn combine_shift_with_lower_bits(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        let &[first, second, Operand::RZ, table, never] = function.sources(inst) else { return None };
        let is_disjunction = table.integer() == Some(LUT_OR) && never == Operand::PT.inverted_predicate();
        let has_one_result = function.results(inst)[1..].iter().all(|result| result.value().is_none());
        if !is_disjunction || !has_one_result || function.insts[inst].guard.is_some() {
            return None;
        }
        [(first, second), (second, first)].into_iter().find_map(|(shifted, lower)| {
            let shift = self.absorbable_inst(function, inst, &shifted, Opcode::SHF, &[Symbol::L, Symbol::U32])?;
            let (a, distance) = match_left_shift(function, shift)?;
            let number = distance.integer().filter(|number| (1..=31).contains(number))?;
            let is_plain = [a, lower, shifted].iter().all(|operand| operand.signs.is_empty());
            let bound = OperandFacts::new(function, &self.definitions).upper_bound(&lower);
            if !is_plain || bound >= 1 << number {
                return None;
            }
            let operands = smallvec![function.results(inst)[0], Operand::PT, a, lower, distance];
            let lea = InstDraft { opcode: Opcode::LEA, modifiers: [].into_iter().collect(), operands, result_count: 2 };
            let lea = self.first_encodable_draft(function, inst, [lea])?;
            self.replace_inst(function, inst, lea, &[shift]);
            Some(CombineRule::ShiftedSum)
        })
    }

    /// Combines `(a + b) + c` into one `IADD3`, where summand number `at` is the inner sum; constants are added up. Returns the rule that
    /// was applied; `None` if nothing changed.
    fn combine_sum_of_sum(&mut self, function: &mut Function, inst: Inst, summands: &Summands, at: usize) -> Option<CombineRule> {
        let inner = self.absorbable_inst(function, inst, &summands[at], Opcode::IADD3, &[])?;
        let mut all: Summands = summands.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, term)| *term).collect();
        let signs = summands[at].signs;
        all.extend(self::summands(function, inner)?.into_iter().map(|term| term.with_signs(term.signs.toggled(signs))));
        let (numbers, mut sources): (Summands, Summands) = all.into_iter().partition(|term| term.integer().is_some());
        let number = numbers.iter().fold(0_u32, |sum, term| {
            let number = term.integer().unwrap_or_default() as u32;
            if term.signs.has(Signs::NEGATE) { sum.wrapping_sub(number) } else { sum.wrapping_add(number) }
        });
        if number != 0 {
            sources.push(Operand::from(number));
        }
        // An IADD3 with two negated summands has an encoding, but an H200 reports it as an illegal instruction.
        if sources.len() > 3 || sources.iter().filter(|term| term.signs.has(Signs::NEGATE)).count() > 1 {
            return None;
        }
        sources.resize(3, Operand::RZ);
        let result = function.results(inst)[0];
        self.replace_with_encodable_sum(function, inst, new_draft(Opcode::IADD3, &[], result, &sources), inner)?;
        Some(CombineRule::Sum)
    }

    /// Overwrites the addition `inst` with a draft, with the sources in an order that the target can encode. Returns `None` and changes
    /// nothing if there is no such order.
    fn replace_with_encodable_sum(&mut self, function: &mut Function, inst: Inst, draft: InstDraft, absorbed: Inst) -> Option<()> {
        let found = self.first_encodable_draft(function, inst, order::equivalent_source_orders(&draft))?;
        self.replace_inst(function, inst, found, &[absorbed]);
        Some(())
    }

    /// Combines `(a << n) + b` in 64 bits into two `LEA`, where `upper` is the addition of the upper halves. Returns the rule that was
    /// applied; `None` if nothing changed.
    fn combine_wide_shifted_sum(&mut self, function: &mut Function, upper: Inst) -> Option<CombineRule> {
        let ([upper_result, ..], [.., carry, never]) = (function.results(upper), function.sources(upper)) else { return None };
        let (upper_result, carry) = (*upper_result, *carry);
        if *never != Operand::PT.inverted_predicate()
            || !carry.signs.is_empty()
            || function.results(upper)[1..].iter().any(|p| p.value().is_some())
        {
            return None;
        }
        let lower = self.definitions.unguarded_definition_of(function, carry.value()?)?;
        let data = &function.insts[lower];
        let writes_carry = function.results(lower).get(1).and_then(Operand::value) == carry.value();
        let has_other_carry = function.results(lower).iter().skip(2).any(|result| result.value().is_some());
        if !data.is_machine(Opcode::IADD3) || !data.modifiers.is_empty() || !writes_carry || has_other_carry {
            return None;
        }
        let [low_terms, high_terms] = [summands(function, lower)?, summands(function, upper)?];
        let (WideShift { low: a, high: above, distance, insts }, base, upper_base) = (0..2).find_map(|at| {
            let base = *other_summand(&low_terms, at)?;
            (0..high_terms.len()).find_map(|upper_at| {
                // A 32-bit summand that is extended with zeros adds nothing to the upper word.
                let upper_base = if high_terms.len() == 1 { Operand::RZ } else { *other_summand(&high_terms, upper_at)? };
                let shift = self.match_wide_shift(function, &low_terms[at], &high_terms[upper_at])?;
                Some((shift, base, upper_base))
            })
        })?;
        if !base.signs.is_empty() || !upper_base.signs.is_empty() {
            return None;
        }
        let operands = smallvec![function.results(lower)[0], function.results(lower)[1], a, base, distance];
        let low = InstDraft { opcode: Opcode::LEA, modifiers: [].into_iter().collect(), operands, result_count: 2 };
        let high = new_draft(Opcode::LEA, &[Symbol::HI, Symbol::X], upper_result, &[a, upper_base, above, distance, carry]);
        let high_with_carry = {
            let mut operands = high.operands.clone();
            operands.insert(1, Operand::PT);
            InstDraft { operands, result_count: 2, ..high.clone() }
        };
        if !self.encodability.is_encodable(function, lower, &low) {
            return None;
        }
        let high = self.first_encodable_draft(function, upper, [high, high_with_carry])?;
        self.replace_inst(function, lower, low, &[]);
        self.replace_inst(function, upper, high, &insts);
        Some(CombineRule::WideShiftedSum)
    }

    /// Returns the operands of the 64-bit left shift by 1 to 31 bits whose result has the halves `low` and `high`; `None` if there is no
    /// such shift, or if it has too many readers.
    fn match_wide_shift(&self, function: &Function, low: &Operand, high: &Operand) -> Option<WideShift> {
        if !low.signs.is_empty() || !high.signs.is_empty() {
            return None;
        }
        let lower = self.defining_inst(function, low, Opcode::SHF, &[Symbol::L, Symbol::U32])?;
        let upper = self.defining_inst(function, high, Opcode::SHF, &[Symbol::L, Symbol::U64, Symbol::HI])?;
        let (a, distance) = match_left_shift(function, lower)?;
        let [low_bits, upper_distance, above] = *function.sources(upper) else { return None };
        let same_bits = self.resolve_copies(function, &low_bits) == self.resolve_copies(function, &a);
        let is_plain = [a, low_bits, above].iter().all(|operand| operand.signs.is_empty());
        let few_readers = [lower, upper].iter().all(|&inst| {
            let value: Option<Value> = function.results(inst)[0].value();
            value.is_some_and(|value| self.reads[oriole_support::Index::position(value)] <= MAX_SHIFT_READERS)
        });
        let is_match = same_bits && is_plain && few_readers && upper_distance == distance;
        is_match.then_some(WideShift { low: a, high: above, distance, insts: [lower, upper] })
    }
}

/// A 64-bit left shift that is computed by two instructions.
struct WideShift {
    /// The lower half of the shifted value.
    low: Operand,
    /// The upper half of the shifted value.
    high: Operand,
    /// Number of bits to shift by, 1 to 31.
    distance: Operand,
    /// The instructions that compute the lower and the upper half of the result.
    insts: [Inst; 2],
}

/// Returns the shifted value and the distance in bits of a 32-bit left shift by 1 to 31 bits; `None` for other instructions.
fn match_left_shift(function: &Function, inst: Inst) -> Option<(Operand, Operand)> {
    let [a, distance, zero] = *function.sources(inst) else { return None };
    let is_shift = matches!(distance.kind, OperandKind::Integer(1..=31)) && zero == Operand::RZ && a.part().is_some();
    is_shift.then_some((a, distance))
}

/// Returns the summands of an `IADD3` without zero registers; `None` if one has an operand modifier other than negation (bitwise NOT,
/// absolute value), or if one is a tied operand (the old value of the result).
pub(super) fn summands(function: &Function, inst: Inst) -> Option<Summands> {
    let sources = function.sources(inst);
    let is_sum = |operand: &Operand| {
        operand.role == Role::Plain && operand.signs.without(Signs::NEGATE).is_empty() && operand.suffixes().next().is_none()
    };
    let count = if function.insts[inst].modifiers.is_empty() { 3 } else { 5 };
    let summands = sources.get(..3).filter(|summands| summands.iter().all(is_sum) && sources.len() == count)?;
    Some(summands.iter().copied().filter(|operand| operand.kind != OperandKind::Zero(RegFile::General)).collect())
}

/// Of two summands, returns the one that is not number `at`; `None` unless there are exactly two summands.
fn other_summand(summands: &Summands, at: usize) -> Option<&Operand> {
    match summands.as_slice() {
        [first, second] => Some(if at == 0 { second } else { first }),
        _ => None,
    }
}
