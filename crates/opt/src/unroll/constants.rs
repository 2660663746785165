//! Counts the instructions of a loop body whose results become compile-time constants in every copy when the loop is unrolled fully.
//!
//! They depend on counters and constants only. A counter is a phi of the header with a constant initial value, whose value for the next
//! iteration is computed from counters and constants too.
//!
//! ```text
//! bb1:  %i = PHI %zero, bb0, %j, bb1        %zero = MOV 0
//!       %k = PHI %address, bb0, %l, bb1     %address is not known
//!       %s = IMAD %i, %i, RZ                counted
//!       %f = I2FP.F32.S32 %s                counted
//!       %x = LDS [%k] ; %y = FMUL %x, %f    not counted
//!       %j = IADD3 %i, 0x1, RZ              not counted: it computes only the counter
//! ```

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Pseudo, Value};
use oriole_isa::Opcode;
use rustc_hash::FxHashSet;

use super::shape::UnrollableLoop;
use crate::definitions::{Definitions, KnownWord};
use crate::fold;

/// Returns the number of instructions of a loop body whose results become constants, without those that only compute counters and the exit
/// condition.
pub(super) fn count_constant_insts(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop) -> usize {
    let insts = || old_loop.blocks.iter().flat_map(|&block| &function.blocks[block].insts).copied();
    let phis: Vec<Inst> = insts().filter(|&inst| old_loop.is_header_phi(function, inst)).collect();
    let result_of = |phi: Inst| function.results(phi)[0].value();
    let is_initially_constant = |phi: Inst| {
        let initial = old_loop.entry_phi_source(function, phi).and_then(|source| source.part());
        initial.is_some_and(|part| part.count == 1 && definitions.known_content(function, part).is_some_and(KnownWord::is_integer))
    };
    let mut counters: Vec<Inst> = phis.into_iter().filter(|&phi| is_initially_constant(phi)).collect();
    loop {
        let mut constants: FxHashSet<Value> = counters.iter().filter_map(|&phi| result_of(phi)).collect();
        let folded: Vec<Inst> = insts().filter(|&inst| add_if_constant(function, definitions, inst, &mut constants)).collect();
        let is_counter = |&phi: &Inst| {
            let next = old_loop.latch_phi_source(function, phi);
            next.is_some_and(|next| is_constant(function, definitions, &next, &constants))
        };
        let count = counters.len();
        counters.retain(is_counter);
        if counters.len() == count {
            return if counters.is_empty() {
                0
            } else {
                folded.len() - count_loop_control(function, definitions, old_loop, &folded, &counters)
            };
        }
    }
}

/// Returns the number of `folded` instructions that only compute counters and the exit condition.
fn count_loop_control(
    function: &Function,
    definitions: &Definitions,
    old_loop: &UnrollableLoop,
    folded: &[Inst],
    counters: &[Inst],
) -> usize {
    let next = counters.iter().filter_map(|&phi| old_loop.latch_phi_source(function, phi)?.value());
    let control: FxHashSet<Inst> =
        next.chain(old_loop.condition().map(|part| part.value)).filter_map(|value| definitions.definition_of(value)).collect();
    folded.iter().filter(|inst| control.contains(inst)).count()
}

/// Adds the results of an instruction to `constants` if they become constants. Returns whether the instruction is folded then; copies and
/// moves are not counted.
fn add_if_constant(function: &Function, definitions: &Definitions, inst: Inst, constants: &mut FxHashSet<Value>) -> bool {
    let data = &function.insts[inst];
    let is_copy = matches!(data.op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack) | Op::Machine(Opcode::MOV));
    let is_evaluated = data.op.machine().is_some_and(fold::evaluates);
    if data.guard.is_some() || !(is_copy || is_evaluated) {
        return false;
    }
    if !function.sources(inst).iter().all(|source| is_constant(function, definitions, source, constants)) {
        return false;
    }
    constants.extend(function.defined(inst));
    is_evaluated
}

/// Returns whether an operand is a compile-time constant in every copy of the body.
fn is_constant(function: &Function, definitions: &Definitions, operand: &Operand, constants: &FxHashSet<Value>) -> bool {
    match operand.kind {
        OperandKind::Integer(_) | OperandKind::Zero(_) => true,
        OperandKind::Value(part) => {
            constants.contains(&part.value)
                || part.count == 1 && definitions.known_content(function, part).is_some_and(KnownWord::is_integer)
        }
        _ => false,
    }
}
