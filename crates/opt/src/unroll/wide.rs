//! Counted loops with a 64-bit counter: a register pair whose halves are added with a carry and compared one after the other.
//!
//! ```text
//! %i:R2 = PHI %0, bb0, %n, bb1
//! %l, %c:P = IADD3 %i[0], 0x1, RZ ; %h = IADD3.X %i[1], 0x0, RZ, %c, !PT ; %n:R2 = PACK %l, %h
//! %q:P = ISETP.LT.U32.AND %l, %limit_low, PT
//! %p:P = ISETP.LT.AND.EX %h, %limit_high, PT, %q
//! ```
//!
//! [`bound`](super::bound) explains why the guard of an unrolled iteration is correct; with 64 bits the reasons are the same.

use oriole_ir::{Class, Function, Inst, Operand, OperandKind, Part, RegFile, Signs};
use oriole_isa::{Opcode, Symbol};

use super::bound::{InstEmitter, inverse_relation, mirrored_relation};
use super::shape::UnrollableLoop;
use crate::definitions::{Definitions, KnownWord};
use crate::rewrite::single_register;

/// Maximum number of additions to look through between the counter and its next value.
const MAX_COUNTER_ADDITIONS: usize = 8;

/// The lower and the upper half of a 64-bit operand.
type WidePair = (Operand, Operand);

/// A loop that continues while `counter + offset RELATION limit` holds, in 64 bits and with a loop-invariant limit.
pub(super) struct WideLoopBound {
    /// The phi of the loop header that is the counter.
    pub(super) counter: Inst,
    /// Constant added to the counter in each iteration; not zero.
    step: i64,
    /// Constant that is added to the counter before the first exit test of an iteration compares it with the limit; less `step` if
    /// `repeats_last_test`.
    offset: i64,
    /// The relation to the limit for which the loop continues: one of `LT`, `LE`, `GT`, `GE`, `NE`.
    relation: Symbol,
    /// Whether the comparison with the limit is unsigned.
    is_unsigned: bool,
    /// The loop-invariant operand that the counter is compared with.
    limit: WidePair,
    /// The instruction that compares the lower halves, and the one that compares the upper halves.
    pub(super) compares: [Inst; 2],
    /// Whether the guard also has to repeat the last exit test of the previous unrolled iteration.
    repeats_last_test: bool,
}

/// The loop-invariant operands of a *guard*: one comparison before an unrolled iteration which implies that all exit tests that the
/// iteration omits would continue the loop.
pub(super) struct WideUnrollGuardOperands {
    /// The operand that the counter is compared with: the limit minus a constant.
    adjusted_limit: WidePair,
    /// A predicate that is true if the computation of `adjusted_limit` did not wrap around.
    no_wrap: Operand,
}

impl WideLoopBound {
    /// Returns the counter and the limit of a loop with a 64-bit counter; `None` for other loops.
    pub(super) fn find(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop) -> Option<WideLoopBound> {
        let condition = old_loop.condition()?;
        let upper = defining_comparison(function, definitions, old_loop, condition)?;
        let (relation, is_unsigned) = match function.insts[upper].modifiers.as_slice() {
            [relation, Symbol::AND, Symbol::EX] => (*relation, false),
            [relation, Symbol::U32, Symbol::AND, Symbol::EX] => (*relation, true),
            _ => return None,
        };
        let &[left_high, right_high, Operand::PT, low] = function.sources(upper) else { return None };
        let lower = defining_comparison(function, definitions, old_loop, low.part().filter(|_| low.signs.is_empty())?)?;
        let &[left_low, right_low, Operand::PT] = function.sources(lower) else { return None };
        if function.insts[lower].modifiers.as_slice() != [relation, Symbol::U32, Symbol::AND] {
            return None;
        }
        let relation = if old_loop.exit_value { inverse_relation(relation)? } else { relation };
        let find = |tested: WidePair, limit: WidePair, relation: Symbol| {
            let plain = |operand: Operand| operand.part().filter(|part| part.count == 1 && operand.signs.is_empty());
            let (counter, offset) = as_base_plus_constant(function, definitions, (plain(tested.0)?, plain(tested.1)?))?;
            let phi = definitions.definition_of(counter).filter(|&inst| old_loop.is_header_phi(function, inst))?;
            let next = old_loop.latch_phi_source(function, phi)?.part()?;
            let (base, step) = as_base_plus_constant(function, definitions, (single_register(next, 0), single_register(next, 1)))?;
            let repeats_last_test = old_loop.tests_exit_at_end() && relation == Symbol::NE;
            let offset = if repeats_last_test { offset.wrapping_sub(step) } else { offset };
            let compares = [lower, upper];
            let bound = WideLoopBound { counter: phi, step, offset, relation, is_unsigned, limit, compares, repeats_last_test };
            let is_invariant_half = [limit.0, limit.1].iter().all(|half| is_invariant_half(function, definitions, old_loop, half));
            (base == counter && is_invariant_half && bound.is_unrollable_bound(old_loop.tests_exit_at_end())).then_some(bound)
        };
        find((left_low, left_high), (right_low, right_high), relation)
            .or_else(|| find((right_low, right_high), (left_low, left_high), mirrored_relation(relation)))
    }

    /// Returns whether the loop can be unrolled with this bound, that is, whether the guard of an unrolled iteration implies all exit tests
    /// that the iteration skips.
    fn is_unrollable_bound(&self, tests_exit_at_end: bool) -> bool {
        let least = if tests_exit_at_end { self.step } else { 0 };
        let goes_to_limit = match self.relation {
            Symbol::LT | Symbol::LE => self.step > 0 && self.offset >= least,
            Symbol::GT | Symbol::GE => self.step < 0 && self.offset <= least,
            relation => relation == Symbol::NE,
        };
        goes_to_limit && self.step != 0 && self.step.unsigned_abs() < 1 << 24 && self.offset.unsigned_abs() < 1 << 26
    }

    /// Returns `v` minus the present counter, where `v` is the value that the last of the next `tests` exit tests compares with the limit.
    fn last_test_distance(&self, tests: u32) -> i64 {
        self.step * i64::from(tests + u32::from(self.repeats_last_test) - 1) + self.offset
    }

    /// Appends to `into` the loop-invariant instructions of the guard that replaces the next `tests` exit tests. Returns the operands of
    /// the guard.
    pub(super) fn emit_guard_operands(&self, function: &mut Function, tests: u32, into: &mut Vec<Inst>) -> WideUnrollGuardOperands {
        let last_test_distance = self.last_test_distance(tests);
        let mut emit = InstEmitter { function, location: self.compares[1], into };
        let limit = (emit.move_to_register(self.limit.0), emit.move_to_register(self.limit.1));
        if self.relation == Symbol::NE {
            return WideUnrollGuardOperands {
                adjusted_limit: emit_wide_constant_addition(&mut emit, limit, -self.offset),
                no_wrap: Operand::PT,
            };
        }
        // `limit - last_test_distance` did not wrap around if it is below the limit for a positive `last_test_distance`, and above it for a
        // negative one.
        let adjusted_limit = emit_wide_constant_addition(&mut emit, limit, -last_test_distance);
        let side = if last_test_distance > 0 { Symbol::LT } else { Symbol::GT };
        let no_wrap = if last_test_distance == 0 {
            Operand::PT
        } else {
            emit_wide_comparison(&mut emit, side, self.is_unsigned, adjusted_limit, limit, Operand::PT)
        };
        WideUnrollGuardOperands { adjusted_limit, no_wrap }
    }

    /// Appends the guard to `into`: the test whether the next `tests` exit tests hold if the counter has the value `counter`. Returns the
    /// predicate of the test. `is_first` means that the unrolled loop is about to be entered; only then `no_wrap` is tested as well.
    pub(super) fn emit_unroll_guard(
        &self,
        function: &mut Function,
        guarded: &WideUnrollGuardOperands,
        counter: Part,
        tests: u32,
        is_first: bool,
        into: &mut Vec<Inst>,
    ) -> Operand {
        let last = self.last_test_distance(tests).wrapping_sub(self.offset).unsigned_abs() as u32;
        let mut emit = InstEmitter { function, location: self.compares[1], into };
        let counter = (Operand::from(single_register(counter, 0)), Operand::from(single_register(counter, 1)));
        if self.relation != Symbol::NE {
            let no_wrap = if is_first { guarded.no_wrap } else { Operand::PT };
            return emit_wide_comparison(&mut emit, self.relation, self.is_unsigned, counter, guarded.adjusted_limit, no_wrap);
        }
        let (from, to) = if self.step > 0 { (counter, guarded.adjusted_limit) } else { (guarded.adjusted_limit, counter) };
        let distance = emit_wide_subtraction(&mut emit, to, from);
        emit_wide_comparison(&mut emit, Symbol::GT, true, distance, (Operand::from(last), Operand::RZ), Operand::PT)
    }
}

/// Returns the unguarded comparison in the loop that computes `predicate` as its only result; `None` if another instruction computes it.
fn defining_comparison(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop, predicate: Part) -> Option<Inst> {
    let inst = definitions.unguarded_definition_of(function, predicate.value).filter(|&inst| old_loop.contains(inst))?;
    let [first, second] = function.results(inst) else { return None };
    let is_first = first.value() == Some(predicate.value) && second.value().is_none();
    let is_plain = function.sources(inst).iter().all(|source| source.signs.is_empty());
    (function.insts[inst].is_machine(Opcode::ISETP) && is_first && is_plain).then_some(inst)
}

/// Returns whether one 32-bit half of a limit does not change in the loop.
fn is_invariant_half(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop, half: &Operand) -> bool {
    match half.kind {
        OperandKind::Integer(_) | OperandKind::Zero(RegFile::General) | OperandKind::Constant { .. } => true,
        OperandKind::Value(part) => {
            let is_outside = definitions.definition_of(part.value).is_some_and(|inst| !old_loop.contains(inst));
            is_outside && part.count == 1 && function.values[part.value].file == RegFile::General
        }
        _ => false,
    }
}

/// Returns a 64-bit number, given by its halves, as the sum of a value of two registers and a constant, looking through additions of
/// constants. `None` if the halves do not come from such a value.
pub(super) fn as_base_plus_constant(
    function: &Function,
    definitions: &Definitions,
    halves: (Part, Part),
) -> Option<(oriole_ir::Value, i64)> {
    let origins = |halves: (Part, Part)| (definitions.origin(function, halves.0), definitions.origin(function, halves.1));
    let (mut halves, mut number) = (origins(halves), 0_i64);
    for _ in 0..MAX_COUNTER_ADDITIONS {
        let Some((next, added)) = match_addition(function, definitions, halves) else { break };
        (halves, number) = (origins(next), number.wrapping_add(added));
    }
    let (low, high) = halves;
    let is_whole = low.value == high.value && (low.first, high.first) == (0, 1) && function.values[low.value].width == 2;
    is_whole.then_some((low.value, number))
}

/// If a 64-bit number, given by its halves, is computed by an addition of a constant, returns the halves of the other summand and the
/// constant; otherwise `None`.
fn match_addition(function: &Function, definitions: &Definitions, (low, high): (Part, Part)) -> Option<((Part, Part), i64)> {
    let (lower, upper) =
        (definitions.unguarded_definition_of(function, low.value)?, definitions.unguarded_definition_of(function, high.value)?);
    let is_sum = |inst: Inst, modifiers: &[Symbol], value| {
        let data = &function.insts[inst];
        let is_first = function.results(inst).first().and_then(Operand::value) == Some(value);
        data.is_machine(Opcode::IADD3) && data.modifiers.as_slice() == modifiers && is_first
    };
    if !is_sum(lower, &[], low.value) || !is_sum(upper, &[Symbol::X], high.value) {
        return None;
    }
    let carry = function.results(lower).get(1).and_then(Operand::value)?;
    let (&[a, b, c], &[d, e, f, carry_in, other]) = (function.sources(lower), function.sources(upper)) else { return None };
    if carry_in.value() != Some(carry) || !carry_in.signs.is_empty() || other != Operand::PT.inverted_predicate() {
        return None;
    }
    let (base_low, number_low) = match_register_and_constant(function, definitions, [a, b, c])?;
    let (base_high, number_high) = match_register_and_constant(function, definitions, [d, e, f])?;
    Some(((base_low, base_high), (u64::from(number_high) << 32 | u64::from(number_low)) as i64))
}

/// Matches three summands of which one is a register and the others are constants, at most one of them nonzero. Returns the register and
/// the sum of the constants.
fn match_register_and_constant(function: &Function, definitions: &Definitions, summands: [Operand; 3]) -> Option<(Part, u32)> {
    let (mut register, mut number) = (None, 0);
    for summand in summands.iter() {
        let known = match summand.kind {
            _ if summand.signs != Signs::NONE => return None,
            OperandKind::Integer(known) => Some(known as u32),
            OperandKind::Zero(RegFile::General) => Some(0),
            OperandKind::Value(part) => match definitions.known_content(function, part) {
                Some(KnownWord::Integer(known)) => Some(known),
                _ => None,
            },
            _ => return None,
        };
        match (known, summand.part()) {
            (Some(0), _) => {}
            (Some(known), _) if number == 0 => number = known,
            (None, Some(part)) if register.is_none() => register = Some(part),
            _ => return None,
        }
    }
    Some((register?, number))
}

/// Emits the 64-bit addition `base + constant`, and returns the sum; `base` itself if the constant is 0.
fn emit_wide_constant_addition(emit: &mut InstEmitter<'_>, base: WidePair, constant: i64) -> WidePair {
    if constant == 0 {
        return base;
    }
    let words = (Operand::from(constant as u32), Operand::from((constant >> 32) as u32));
    emit_wide_sum(emit, base, words)
}

/// Emits the 64-bit subtraction `from - subtrahend`, and returns the difference. Adds the negated lower half and, with its carry, the
/// inverted upper half.
fn emit_wide_subtraction(emit: &mut InstEmitter<'_>, from: WidePair, subtrahend: WidePair) -> WidePair {
    emit_wide_sum(emit, from, (subtrahend.0.negated(), subtrahend.1.with_signs(Signs::INVERT)))
}

/// Emits a 64-bit addition and returns the sum.
fn emit_wide_sum(emit: &mut InstEmitter<'_>, one: WidePair, other: WidePair) -> WidePair {
    let carry = emit.function.new_value(Class::P);
    let carry = Operand::from(emit.function.whole(carry));
    let low = emit.emit_definition(Class::R, Opcode::IADD3, &[], &[carry, Operand::PT], &[one.0, other.0, Operand::RZ]);
    let sources = [one.1, other.1, Operand::RZ, carry, Operand::PT.inverted_predicate()];
    let high = emit.emit_definition(Class::R, Opcode::IADD3, &[Symbol::X], &[Operand::PT, Operand::PT], &sources);
    (low, high)
}

/// Emits a 64-bit comparison, and returns its predicate, ANDed with `and`.
fn emit_wide_comparison(
    emit: &mut InstEmitter<'_>,
    relation: Symbol,
    is_unsigned: bool,
    one: WidePair,
    other: WidePair,
    and: Operand,
) -> Operand {
    let low = emit.emit_comparison(relation, true, one.0, other.0, Operand::PT);
    let signed = [relation, Symbol::AND, Symbol::EX];
    let unsigned = [relation, Symbol::U32, Symbol::AND, Symbol::EX];
    let modifiers: &[Symbol] = if is_unsigned { &unsigned } else { &signed };
    emit.emit_definition(Class::P, Opcode::ISETP, modifiers, &[Operand::PT], &[one.1, other.1, and, low])
}
