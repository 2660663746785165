//! Helpers that append the instructions of warp aggregation: votes, shuffles, selections and sums.

use oriole_ir::{Class, Function, Guard, Op, Operand, Part, Role};
use oriole_isa::{Opcode, Symbol};
use smallvec::SmallVec;

use crate::rewrite::InstPrelude;

/// Clamp and segment operand of a `SHFL` that may read from any thread of the warp.
const SHUFFLE_WHOLE_WARP: i64 = 0x1f;

/// Creates a value of a register class, and returns it as an operand.
pub(super) fn new_value_operand(function: &mut Function, class: Class) -> Operand {
    let value = function.new_value(class);
    function.whole(value).into()
}

/// Returns the predicate of a guard as an operand, inverted if the guard is negated.
pub(super) fn guard_as_predicate_operand(guard: Guard) -> Operand {
    let operand = Operand::new(guard.kind);
    if guard.negated { operand.inverted_predicate() } else { operand }
}

/// Appends to `prelude` an instruction with a new predicate as its first result, and `PT` (unused) as the second; returns the predicate.
pub(super) fn emit_predicate_definition(
    prelude: &mut InstPrelude,
    function: &mut Function,
    opcode: Opcode,
    modifiers: &[Symbol],
    sources: &[Operand],
) -> Operand {
    let result = new_value_operand(function, Class::P);
    let operands: SmallVec<[Operand; 8]> = [result, Operand::PT].into_iter().chain(sources.iter().copied()).collect();
    prelude.push(function, Op::Machine(opcode), modifiers, &operands, 2);
    result
}

/// Appends to `prelude` a test whether `a` equals `b`, combined with the predicate `other` by the operation `combination`; returns the
/// resulting predicate.
pub(super) fn emit_equality_test(
    prelude: &mut InstPrelude,
    function: &mut Function,
    combination: Symbol,
    a: Operand,
    b: Operand,
    other: Operand,
) -> Operand {
    emit_predicate_definition(prelude, function, Opcode::ISETP, &[Symbol::EQ, Symbol::U32, combination], &[a, b, other])
}

/// Appends a `VOTE` and returns its result: the mask of the active threads in which the guard holds.
pub(super) fn emit_ballot(prelude: &mut InstPrelude, function: &mut Function, guard: Option<Guard>) -> Operand {
    let result = new_value_operand(function, Class::R);
    let vote = guard.map_or(Operand::PT, guard_as_predicate_operand);
    prelude.push(function, Op::Machine(Opcode::VOTE), &[Symbol::ANY], &[result, Operand::PT, vote], 2);
    result
}

/// Appends a `SEL`, whose result is `a` where the condition holds and `b` elsewhere; returns the result.
pub(super) fn emit_select(prelude: &mut InstPrelude, function: &mut Function, a: Operand, b: Operand, condition: Operand) -> Operand {
    prelude.emit_definition(function, Class::R, Opcode::SEL, &[], &[a, b, condition])
}

/// Appends an `IADD3` of three 32-bit operands to `prelude`; returns the sum.
pub(super) fn emit_sum(prelude: &mut InstPrelude, function: &mut Function, terms: [Operand; 3]) -> Operand {
    let result = new_value_operand(function, Class::R);
    let operands = [result, Operand::PT, Operand::PT, terms[0], terms[1], terms[2]];
    prelude.push(function, Op::Machine(Opcode::IADD3), &[], &operands, 3);
    result
}

/// Appends a `SHFL` that reads a 32-bit register of the thread with lane number `lane`; returns the value read.
pub(super) fn emit_shuffle(prelude: &mut InstPrelude, function: &mut Function, source: Part, lane: Operand) -> Operand {
    let result = new_value_operand(function, Class::R);
    let operands = [Operand::PT, result, source.into(), lane, SHUFFLE_WHOLE_WARP.into()];
    prelude.push(function, Op::Machine(Opcode::SHFL), &[Symbol::IDX], &operands, 2);
    result
}

/// Appends an addition of `value` in this thread and `value` in the thread whose lane number is lower by `distance`; returns the sum. In a
/// thread without such a neighbour the result is its own `value`.
pub(super) fn emit_add_from_lower_lane(prelude: &mut InstPrelude, function: &mut Function, value: Operand, distance: i64) -> Operand {
    let [exists, below] = [Class::P, Class::R].map(|class| new_value_operand(function, class));
    prelude.push(function, Op::Machine(Opcode::SHFL), &[Symbol::UP], &[exists, below, value, distance.into(), 0_i64.into()], 2);
    // The predicate result of `SHFL.UP` says whether there is a thread with that lane number. If there is none, the sum must not change:
    // the addition is guarded, and its result is tied to the old sum.
    let prefix_sum = emit_sum(prelude, function, [value, below, Operand::RZ]);
    if let Some(&inst) = prelude.insts.last() {
        let mut operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
        operands.push(value.with_role(Role::Tied(0)));
        function.set_operands(inst, &operands, 3);
        function.insts[inst].guard = Some(Guard { kind: exists.kind, negated: false });
    }
    prefix_sum
}
