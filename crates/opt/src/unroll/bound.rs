//! Counted loops with a 32-bit counter: `while (i < n) i += step`.
//!
//! With a [`LoopBound`], one test before an iteration can tell whether the next iterations are executed too, without knowing the number of
//! iterations. Take a loop that adds 3 to `i` and continues while `i < n`. From the current value `i`, the next three tests hold if `i + 9
//! < n` in unbounded arithmetic, that is, if `i < n - 9`, where `n - 9` must not wrap around. If the loop continues while `i != n`, the
//! distance `n - i` must be more than 9. If the test is false, nothing follows from it, and the loop goes on with its own test; so counters
//! may wrap around in any way.

use oriole_ir::{Class, Function, Inst, Op, Operand, OperandKind, Part, RegFile, Signs, Value};
use oriole_isa::{Opcode, Symbol};
use smallvec::SmallVec;

use super::shape::UnrollableLoop;
use crate::definitions::{Definitions, KnownWord};
use crate::known::OperandFacts;

/// Maximum number of additions to look through between the counter and its next value.
const MAX_COUNTER_ADDITIONS: usize = 8;

/// A loop that continues while `counter + offset RELATION limit` holds, such as `counter + 4 < limit`, with a loop-invariant limit.
pub(crate) struct LoopBound {
    /// The phi of the loop header that is the counter.
    pub(crate) counter: Inst,
    /// Constant added to the counter in each iteration; not zero.
    step: i32,
    /// Constant that is added to the counter before the first exit test of an iteration compares it with the limit; less `step` if
    /// `repeats_last_test`.
    offset: i32,
    /// The relation to the limit for which the loop continues: one of `LT`, `LE`, `GT`, `GE`, `NE`.
    relation: Symbol,
    /// Whether the comparison with the limit is unsigned.
    is_unsigned: bool,
    /// The loop-invariant operand that the counter is compared with.
    pub(crate) limit: Operand,
    /// The comparison that computes the exit condition.
    pub(crate) compare: Inst,
    /// Whether the guard also has to repeat the last exit test of the previous unrolled iteration; see [`LoopBound::find`].
    repeats_last_test: bool,
}

impl LoopBound {
    /// Returns the counter and the limit of a counted loop; `None` for other loops.
    pub(crate) fn find(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop) -> Option<LoopBound> {
        let condition = old_loop.condition()?;
        let compare = definitions.unguarded_definition_of(function, condition.value).filter(|&inst| old_loop.contains(inst))?;
        let data = &function.insts[compare];
        let [first, second] = function.results(compare) else { return None };
        let is_first = first.value() == Some(condition.value) && second.value().is_none();
        let (relation, is_unsigned) = match data.modifiers.as_slice() {
            [relation, Symbol::AND] => (*relation, false),
            [relation, Symbol::U32, Symbol::AND] => (*relation, true),
            _ => return None,
        };
        let &[left, right, Operand::PT] = function.sources(compare) else { return None };
        if !data.is_machine(Opcode::ISETP) || !is_first || !left.signs.is_empty() || !right.signs.is_empty() {
            return None;
        }
        let relation = if old_loop.exit_value { inverse_relation(relation)? } else { relation };
        let find = |tested: Operand, limit: Operand, relation: Symbol| {
            let (counter, offset) = match_loop_counter(function, definitions, old_loop, tested.part()?)?;
            let next = old_loop.latch_phi_source(function, counter)?.part()?;
            let (base, step) = as_base_plus_constant(function, definitions, next);
            let is_counter = Some(base.value) == function.results(counter)[0].value() && step != 0;
            let is_invariant =
                limit.value().is_none_or(|value| definitions.definition_of(value).is_some_and(|inst| !old_loop.contains(inst)));
            // An iteration of the unrolled loop skips its last exit test, so the guard of the next unrolled iteration has to imply that
            // this test holds. For `NE` the guard has to cover one more test; for the other relations the guard implies it anyway.
            let repeats_last_test = old_loop.tests_exit_at_end() && relation == Symbol::NE;
            let offset = if repeats_last_test { offset.wrapping_sub(step) } else { offset };
            let bound = LoopBound { counter, step, offset, relation, is_unsigned, limit, compare, repeats_last_test };
            (is_counter && is_invariant && bound.is_unrollable_bound(function, old_loop.tests_exit_at_end())).then_some(bound)
        };
        find(left, right, relation).or_else(|| find(right, left, mirrored_relation(relation)))
    }

    /// Returns whether the loop can be unrolled with this bound, that is, whether the guard of an unrolled iteration implies all exit tests
    /// that the iteration skips.
    fn is_unrollable_bound(&self, function: &Function, tests_exit_at_end: bool) -> bool {
        let is_word = match self.limit.kind {
            OperandKind::Integer(_) | OperandKind::Zero(RegFile::General) | OperandKind::Constant { .. } => true,
            OperandKind::Value(part) => part.count == 1 && function.values[part.value].file == RegFile::General,
            _ => false,
        };
        // With the test at the end, the last test of an unrolled iteration compares `counter + offset - step`, where `counter` is that of
        // the next unrolled iteration. The guard of the next iteration must imply this test. So the compared value must be the counter, or
        // a value that comes after it in the direction of counting.
        let least = if tests_exit_at_end { self.step } else { 0 };
        let goes_to_limit = match self.relation {
            Symbol::LT | Symbol::LE => self.step > 0 && self.offset >= least,
            Symbol::GT | Symbol::GE => self.step < 0 && self.offset <= least,
            relation => relation == Symbol::NE,
        };
        is_word && goes_to_limit
    }

    /// Returns `v` minus the present counter, where `v` is the value that the last of the next `tests` exit tests compares with the limit;
    /// `None` if the difference is too large.
    fn last_test_distance(&self, tests: u32) -> Option<i32> {
        let tests = tests + u32::from(self.repeats_last_test);
        let last_test_distance = i64::from(self.step) * i64::from(tests.checked_sub(1)?) + i64::from(self.offset);
        i32::try_from(last_test_distance)
            .ok()
            .filter(|last_test_distance| last_test_distance.unsigned_abs() < 1 << 30 && self.step.unsigned_abs() < 1 << 24)
    }

    /// Returns the limit if it is a compile-time constant; otherwise `None`.
    pub(crate) fn constant_limit(&self, function: &Function, definitions: &Definitions) -> Option<u32> {
        match self.limit.kind {
            OperandKind::Integer(number) => Some(number as u32),
            OperandKind::Zero(_) => Some(0),
            OperandKind::Value(part) => match definitions.known_content(function, part) {
                Some(KnownWord::Integer(number)) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether one guard can replace the next `tests` exit tests.
    pub(crate) fn can_replace_tests_by_guard(&self, function: &Function, definitions: &Definitions, tests: u32) -> bool {
        let Some(last_test_distance) = self.last_test_distance(tests) else { return false };
        let limit = self.constant_limit(function, definitions);
        self.relation == Symbol::NE || limit.is_none_or(|limit| self.limit_minus_distance(limit, last_test_distance).is_some())
    }

    /// Returns upper bounds of the counter's initial value and of the limit, each as a pair: the bound, and whether it is the exact value.
    pub(crate) fn start_and_limit_bounds(
        &self,
        function: &Function,
        definitions: &Definitions,
        old_loop: &UnrollableLoop,
    ) -> ((u64, bool), (u64, bool)) {
        let known = OperandFacts::new(function, definitions);
        let upper = |operand: Option<Operand>| match operand {
            Some(operand) => (known.upper_bound(&operand), known.word(&operand).is_some()),
            None => (u64::from(u32::MAX), false),
        };
        (upper(old_loop.entry_phi_source(function, self.counter)), upper(Some(self.limit)))
    }

    /// Returns an upper bound of the number of iterations from the counter's initial value to the limit; `u64::MAX` if none is known.
    /// `start` and `limit` are the results of [`LoopBound::start_and_limit_bounds`]: a bound, and whether it is the exact value.
    pub(crate) fn max_trips(&self, start: (u64, bool), limit: (u64, bool)) -> u64 {
        // The bounds limit the distance in two cases only: the counter goes up from exactly 0 (then the distance is at most the limit), or
        // it goes down to exactly 0 (then the distance is at most the initial value).
        let distance = match self.relation {
            _ if start.1 && start.0 == 0 && self.step > 0 => limit.0,
            _ if limit.1 && limit.0 == 0 && self.step < 0 => start.0,
            _ => return u64::MAX,
        };
        distance / u64::from(self.step.unsigned_abs())
    }

    /// Returns whether at most `factor - 1` iterations are left after the unrolled loop, whose guard tests `factor` iterations at once.
    /// `start` and `limit` are upper bounds of the counter's initial value and of the limit.
    ///
    /// The guard fails as soon as one of the `factor` exit tests fails. If the counter does not wrap around up to the limit and for
    /// `2 * factor` more iterations, an exit test that failed stays false in all later iterations, so the failing test is reached within
    /// the next `factor - 1` iterations. A counter that wrapped around could pass its tests again, and the remainder could be longer.
    pub(crate) fn has_short_remainder(&self, start: u64, limit: u64, factor: u32) -> bool {
        let goes_down = self.step < 0;
        let farthest = u64::from(self.step.unsigned_abs()) * 2 * u64::from(factor) + u64::from(self.offset.unsigned_abs());
        let is_ordered = self.relation != Symbol::NE && !(goes_down && self.is_unsigned);
        is_ordered && start.saturating_add(limit).saturating_add(farthest) < 1 << 30
    }

    /// Appends to `into` the test whether the loop is left at exit test number `test_index` after the counter has the value `counter`. The
    /// numbers start with 0; -1 is the last exit test before. Returns the predicate of the test, ANDed with `and`; `None` if the relation
    /// has no inverse.
    pub(crate) fn emit_exit_test(
        &self,
        function: &mut Function,
        counter: Operand,
        test_index: i64,
        and: Operand,
        into: &mut Vec<Inst>,
    ) -> Option<Operand> {
        let first = if self.repeats_last_test { self.offset.wrapping_add(self.step) } else { self.offset };
        let distance = i64::from(first) + i64::from(self.step) * test_index;
        let mut emit = InstEmitter { function, location: self.compare, into };
        let tested = emit.emit_word_sum(counter, Operand::from(distance as u32));
        Some(emit.emit_comparison(inverse_relation(self.relation)?, self.is_unsigned, tested, self.limit, and))
    }

    /// Returns `limit - last_test_distance`; `None` if that wraps around.
    fn limit_minus_distance(&self, limit: u32, last_test_distance: i32) -> Option<u32> {
        if self.is_unsigned {
            u32::try_from(i64::from(limit) - i64::from(last_test_distance)).ok()
        } else {
            i32::try_from(i64::from(limit as i32) - i64::from(last_test_distance)).ok().map(|moved| moved as u32)
        }
    }

    /// Appends to `into` the loop-invariant instructions of the guard that replaces the next `tests` exit tests. Returns the operands of
    /// the guard; `None` if the guard is not possible.
    pub(crate) fn emit_guard_operands(
        &self,
        function: &mut Function,
        definitions: &Definitions,
        tests: u32,
        into: &mut Vec<Inst>,
    ) -> Option<UnrollGuardOperands> {
        let last_test_distance = self.last_test_distance(tests)?;
        let known = self.constant_limit(function, definitions);
        let mut emit = InstEmitter { function, location: self.compare, into };
        if self.relation == Symbol::NE {
            let adjusted_limit = match known {
                Some(limit) => Operand::from(limit.wrapping_sub(self.offset as u32)),
                None => {
                    let limit = emit.move_to_register(self.limit);
                    emit.emit_word_sum(limit, Operand::from(self.offset.wrapping_neg() as u32))
                }
            };
            return Some(UnrollGuardOperands { adjusted_limit, no_wrap: Operand::PT, last_test_distance });
        }
        if let Some(limit) = known {
            return Some(UnrollGuardOperands {
                adjusted_limit: Operand::from(self.limit_minus_distance(limit, last_test_distance)?),
                no_wrap: Operand::PT,
                last_test_distance,
            });
        }
        // `limit - last_test_distance` must not wrap around. To test that, the limit is compared with the smallest limit (for a negative
        // `last_test_distance`: the largest) for which it does not.
        let smallest: i64 = if self.is_unsigned { 0 } else { i64::from(i32::MIN) };
        let largest: i64 = if self.is_unsigned { i64::from(u32::MAX) } else { i64::from(i32::MAX) };
        let (relation, edge) = if last_test_distance >= 0 {
            (Symbol::GE, smallest + i64::from(last_test_distance))
        } else {
            (Symbol::LE, largest + i64::from(last_test_distance))
        };
        let limit = emit.move_to_register(self.limit);
        let adjusted_limit = emit.emit_word_sum(limit, Operand::from(last_test_distance.wrapping_neg() as u32));
        let no_wrap = if last_test_distance == 0 {
            Operand::PT
        } else {
            emit.emit_comparison(relation, self.is_unsigned, limit, Operand::from(edge as u32), Operand::PT)
        };
        Some(UnrollGuardOperands { adjusted_limit, no_wrap, last_test_distance })
    }

    /// Appends the guard to `into`: the test whether the next exit tests hold if the counter has the value `counter`. Returns the predicate
    /// of the test. `is_first` means that the unrolled loop is about to be entered; only then `no_wrap` is tested as well.
    pub(crate) fn emit_unroll_guard(
        &self,
        function: &mut Function,
        guarded: &UnrollGuardOperands,
        counter: Operand,
        is_first: bool,
        into: &mut Vec<Inst>,
    ) -> Operand {
        let mut emit = InstEmitter { function, location: self.compare, into };
        if self.relation != Symbol::NE {
            let no_wrap = if is_first { guarded.no_wrap } else { Operand::PT };
            return emit.emit_comparison(self.relation, self.is_unsigned, counter, guarded.adjusted_limit, no_wrap);
        }
        // The distance from the first tested value to the limit must exceed the distance from the first to the last tested value; then none
        // of the tested values equals the limit.
        let distance = match (guarded.adjusted_limit.integer(), self.step > 0) {
            (Some(0), false) => counter,
            (Some(number), false) => emit.emit_word_sum(counter, Operand::from((number as u32).wrapping_neg())),
            (_, true) => emit.emit_word_sum(counter.negated(), guarded.adjusted_limit),
            (None, false) => emit.emit_word_sum(counter, guarded.adjusted_limit.negated()),
        };
        let last = guarded.last_test_distance.wrapping_sub(self.offset).unsigned_abs();
        emit.emit_comparison(Symbol::GT, true, distance, Operand::from(last), Operand::PT)
    }
}

/// The loop-invariant operands of a *guard*: one comparison before an unrolled iteration which implies that all exit tests that the
/// iteration omits would continue the loop.
pub(crate) struct UnrollGuardOperands {
    /// The operand that the counter is compared with: `limit - last_test_distance`, or for `NE` `limit - offset`.
    adjusted_limit: Operand,
    /// A predicate that is true if the computation of `adjusted_limit` did not wrap around.
    no_wrap: Operand,
    /// `v` minus the counter at the time of the guard, where `v` is the value that the last of the guarded exit tests compares with the
    /// limit.
    last_test_distance: i32,
}

/// Creates instructions and appends them to a list.
pub(super) struct InstEmitter<'a> {
    /// The function that instructions are added to.
    pub(super) function: &'a mut Function,
    /// The instruction whose source location the new instructions get.
    pub(super) location: Inst,
    /// The list that new instructions are appended to.
    pub(super) into: &'a mut Vec<Inst>,
}

impl InstEmitter<'_> {
    /// Appends an instruction with a new value as its first result and `ignored` as the other results. Returns the new value.
    pub(super) fn emit_definition(
        &mut self,
        class: Class,
        opcode: Opcode,
        modifiers: &[Symbol],
        ignored: &[Operand],
        sources: &[Operand],
    ) -> Operand {
        let value = self.function.new_value(class);
        let result = Operand::from(self.function.whole(value));
        let operands: SmallVec<[Operand; 8]> = [result].iter().chain(ignored).chain(sources).copied().collect();
        let inst = self.function.new_inst(Op::Machine(opcode), modifiers.iter().copied().collect(), None, &operands, 1 + ignored.len());
        self.function.insts[inst].location = self.function.insts[self.location].location;
        self.into.push(inst);
        result
    }

    /// Returns the operand if it is a register; otherwise appends a move to a new register and returns that.
    pub(super) fn move_to_register(&mut self, operand: Operand) -> Operand {
        if operand.value().is_some() { operand } else { self.emit_definition(Class::R, Opcode::MOV, &[], &[], &[operand]) }
    }

    /// Appends a 32-bit addition and returns the sum.
    fn emit_word_sum(&mut self, one: Operand, other: Operand) -> Operand {
        if other.integer() == Some(0) && one.signs.is_empty() {
            return one;
        }
        self.emit_definition(Class::R, Opcode::IADD3, &[], &[Operand::PT, Operand::PT], &[one, other, Operand::RZ])
    }

    /// Appends an `ISETP` and returns its predicate, the result of the comparison ANDed with `and`.
    pub(super) fn emit_comparison(&mut self, relation: Symbol, is_unsigned: bool, one: Operand, other: Operand, and: Operand) -> Operand {
        let signed = [relation, Symbol::AND];
        let unsigned = [relation, Symbol::U32, Symbol::AND];
        let modifiers: &[Symbol] = if is_unsigned { &unsigned } else { &signed };
        self.emit_definition(Class::P, Opcode::ISETP, modifiers, &[Operand::PT], &[one, other, and])
    }
}

/// If a register is the sum of a phi of the loop header and a constant, returns the phi and the constant; otherwise `None`.
fn match_loop_counter(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop, part: Part) -> Option<(Inst, i32)> {
    let (base, number) = as_base_plus_constant(function, definitions, part);
    let phi = definitions.definition_of(base.value).filter(|&inst| old_loop.is_header_phi(function, inst))?;
    (function.values[base.value].width == 1 && function.values[base.value].file == RegFile::General).then_some((phi, number))
}

/// Returns a register as the sum of another register and a constant (modulo 2^32), looking through additions of constants. The constant is
/// 0, and the register is returned itself, if no addition computes it.
pub(super) fn as_base_plus_constant(function: &Function, definitions: &Definitions, part: Part) -> (Part, i32) {
    let (mut base, mut number) = (definitions.origin(function, part), 0_i32);
    for _ in 0..MAX_COUNTER_ADDITIONS {
        let Some((next, added)) = match_addition(function, definitions, base.value) else { break };
        (base, number) = (definitions.origin(function, next), number.wrapping_add(added));
    }
    (base, number)
}

/// If `value` is computed by an addition of one register and constants, returns the register and the sum of the constants; otherwise
/// `None`.
fn match_addition(function: &Function, definitions: &Definitions, value: Value) -> Option<(Part, i32)> {
    let inst = definitions.unguarded_definition_of(function, value)?;
    let data = &function.insts[inst];
    if !data.is_machine(Opcode::IADD3) || !data.modifiers.is_empty() || function.results(inst)[0].value() != Some(value) {
        return None;
    }
    let mut register = None;
    let mut number = 0_i32;
    for source in function.sources(inst) {
        let known = match source.kind {
            OperandKind::Integer(known) => Some(known as u32),
            OperandKind::Zero(_) => Some(0),
            OperandKind::Value(part) => match definitions.known_content(function, part) {
                Some(KnownWord::Integer(known)) => Some(known),
                _ => None,
            },
            _ => None,
        };
        match (known, source.part()) {
            (Some(known), _) if source.signs == Signs::NONE => number = number.wrapping_add(known as i32),
            (Some(known), _) if source.signs == Signs::NEGATE => number = number.wrapping_sub(known as i32),
            (None, Some(part)) if register.is_none() && source.signs.is_empty() => register = Some(part),
            _ => return None,
        }
    }
    Some((register?, number))
}

/// Returns the relation that holds exactly if `relation` does not, such as `GE` for `LT`; `None` for other modifiers.
pub(crate) fn inverse_relation(relation: Symbol) -> Option<Symbol> {
    Some(match relation {
        Symbol::LT => Symbol::GE,
        Symbol::LE => Symbol::GT,
        Symbol::GT => Symbol::LE,
        Symbol::GE => Symbol::LT,
        Symbol::EQ => Symbol::NE,
        Symbol::NE => Symbol::EQ,
        _ => return None,
    })
}

/// Returns the relation for exchanged operands, such as `GT` for `LT`.
pub(super) fn mirrored_relation(relation: Symbol) -> Symbol {
    match relation {
        Symbol::LT => Symbol::GT,
        Symbol::LE => Symbol::GE,
        Symbol::GT => Symbol::LT,
        Symbol::GE => Symbol::LE,
        other => other,
    }
}
