//! Counted loops with a counter of 32 or 64 bits, with one interface for both.

use oriole_ir::{Function, Inst, Operand};

use super::bound::LoopBound;
use super::shape::UnrollableLoop;
use super::wide::WideLoopBound;
use crate::definitions::Definitions;

/// The counter and the limit of a counted loop, by the width of the counter.
pub(super) enum CountedLoop {
    /// The counter has 32 bits.
    Narrow(LoopBound),
    /// The counter has 64 bits.
    Wide(WideLoopBound),
}

impl CountedLoop {
    /// Returns the counter and the limit of a loop that counts with 32 or 64 bits; `None` for other loops.
    pub(super) fn find(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop) -> Option<CountedLoop> {
        let narrow = LoopBound::find(function, definitions, old_loop).map(CountedLoop::Narrow);
        narrow.or_else(|| WideLoopBound::find(function, definitions, old_loop).map(CountedLoop::Wide))
    }

    /// Returns the phi that defines the counter.
    pub(super) fn counter(&self) -> Inst {
        match self {
            CountedLoop::Narrow(bound) => bound.counter,
            CountedLoop::Wide(bound) => bound.counter,
        }
    }

    /// Returns the instructions that compute the exit condition from the counter; the last one writes the predicate.
    pub(super) fn compares(&self) -> &[Inst] {
        match self {
            CountedLoop::Narrow(bound) => std::slice::from_ref(&bound.compare),
            CountedLoop::Wide(bound) => &bound.compares,
        }
    }

    /// Returns whether one guard can replace the next `tests` exit tests.
    pub(super) fn can_replace_tests_by_guard(&self, function: &Function, definitions: &Definitions, tests: u32) -> bool {
        match self {
            CountedLoop::Narrow(bound) => bound.can_replace_tests_by_guard(function, definitions, tests),
            CountedLoop::Wide(_) => true,
        }
    }

    /// Returns an upper bound of the number of iterations; `u64::MAX` if none is known.
    pub(super) fn max_trips(&self, function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop) -> u64 {
        let CountedLoop::Narrow(bound) = self else { return u64::MAX };
        let (start, limit) = bound.start_and_limit_bounds(function, definitions, old_loop);
        bound.max_trips(start, limit)
    }

    /// Returns whether it is certain that at most `factor - 1` iterations are left after the unrolled loop.
    pub(super) fn has_short_remainder(
        &self,
        function: &Function,
        definitions: &Definitions,
        old_loop: &UnrollableLoop,
        factor: u32,
    ) -> bool {
        let CountedLoop::Narrow(bound) = self else { return false };
        let (start, limit) = bound.start_and_limit_bounds(function, definitions, old_loop);
        bound.has_short_remainder(start.0, limit.0, factor)
    }

    /// Emits two guards, each of which tests whether the next `tests` exit tests of the old loop hold: one for the counter value `start`,
    /// appended to `before`, and one for the counter value `next`, appended to `end`. Returns the predicates of both; `None` if such a
    /// guard is not possible.
    pub(super) fn emit_both_unroll_guards(
        &self,
        function: &mut Function,
        definitions: &Definitions,
        tests: u32,
        (start, before): (Operand, &mut Vec<Inst>),
        (next, end): (Operand, &mut Vec<Inst>),
    ) -> Option<(Operand, Operand)> {
        match self {
            CountedLoop::Narrow(bound) => {
                let guarded = bound.emit_guard_operands(function, definitions, tests, before)?;
                let first = bound.emit_unroll_guard(function, &guarded, start, true, before);
                Some((first, bound.emit_unroll_guard(function, &guarded, next, false, end)))
            }
            CountedLoop::Wide(bound) => {
                let (start, next) = (start.part()?, next.part()?);
                let guarded = bound.emit_guard_operands(function, tests, before);
                let first = bound.emit_unroll_guard(function, &guarded, start, tests, true, before);
                Some((first, bound.emit_unroll_guard(function, &guarded, next, tests, false, end)))
            }
        }
    }
}
