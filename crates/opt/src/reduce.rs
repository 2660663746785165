//! Turns atomic operations into cheaper instructions if no instruction reads the old value.
//!
//! ```text
//! PT, RZ = ATOMG.E.ADD.STRONG.GPU desc[%1][%0.64], %2      REDG.E.ADD.STRONG.GPU desc[%1][%0.64], %2
//! RZ = ATOMS.ADD [%3+0x4], 1                               RZ = ATOMS.POPC.INC.32 [%3+URZ+0x4]
//! ```
//!
//! A reduction (`RED`, `REDG`) returns nothing, so the thread does not wait for the memory. `ATOMS.POPC.INC` adds the number of threads
//! that access the same address, in one memory operation instead of one per thread.
//!
//! **Before** and **after**: SSA, legal instructions; results that nothing reads are `RZ` and `PT`. The cost is linear.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Role, Target, machine};
use oriole_isa::{Opcode, Symbol, Symbols};
use smallvec::SmallVec;

use crate::dead;
use crate::definitions::Definitions;
use crate::known::OperandFacts;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of `ATOMG` instructions replaced by reductions (`RED`, `REDG`).
    pub reductions: usize,
    /// Number of `ATOMS` instructions replaced by `ATOMS.POPC.INC`.
    pub counters: usize,
}

/// In a whole function, turns atomic operations into cheaper instructions if no instruction reads the old value.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let mut stats = Stats::default();
    let is_candidate = |function: &Function, inst: Inst| {
        let is_atomic = matches!(function.insts[inst].op, Op::Machine(Opcode::ATOMG | Opcode::ATOMS));
        is_atomic && function.results(inst).iter().all(|result| matches!(result.kind, OperandKind::Zero(_)))
    };
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts).copied();
    let candidates: Vec<Inst> = insts.filter(|&inst| is_candidate(function, inst)).collect();
    if candidates.is_empty() {
        return stats;
    }
    let definitions = Definitions::compute(function);
    for inst in candidates {
        match function.insts[inst].op {
            Op::Machine(Opcode::ATOMG) => stats.reductions += usize::from(replace_by_reduction(function, inst, target)),
            _ => stats.counters += usize::from(replace_by_counter_atomic(function, &definitions, inst, target)),
        }
    }
    // The instruction that loads the constant 1 may be dead now.
    if stats.counters > 0 {
        dead::run(function, target);
    }
    stats
}

/// Turns an `ATOMG` without a written result into a reduction (`RED`, `REDG`), if the target has one for this operation. Returns whether
/// the instruction was replaced.
fn replace_by_reduction(function: &mut Function, inst: Inst, target: Target) -> bool {
    let opcode = if Opcode::REDG.exists_on(target) { Opcode::REDG } else { Opcode::RED };
    let modifiers = Symbols::from_slice(&function.insts[inst].modifiers);
    if modifiers.iter().any(|&modifier| matches!(modifier, Symbol::CAS | Symbol::EXCH)) {
        return false;
    }
    overwrite_if_encodable(function, inst, opcode, modifiers, function.sources(inst).iter().copied().collect(), 0, target)
}

/// Turns an `ATOMS` that adds 1, or increments without a limit, into `ATOMS.POPC.INC`. Returns whether the instruction was replaced.
fn replace_by_counter_atomic(function: &mut Function, definitions: &Definitions, inst: Inst, target: Target) -> bool {
    let mut operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
    let Some(value) = operands.pop().filter(|operand| operand.role == Role::Plain) else { return false };
    let constant = OperandFacts::new(function, definitions).word(&value);
    let counts = match *function.insts[inst].modifiers {
        [Symbol::ADD] => constant == Some(1),
        [Symbol::INC] => constant == Some(u32::MAX),
        _ => false,
    };
    let Some(base) = operands.iter().position(|operand| operand.role == Role::Bracket(0)) else { return false };
    if !counts {
        return false;
    }
    operands.insert(base + 1, Operand::URZ.with_role(Role::Bracket(0)));
    let modifiers = Symbols::from_slice(&[Symbol::POPC, Symbol::INC, Symbol::_32]);
    overwrite_if_encodable(function, inst, Opcode::ATOMS, modifiers, operands, 1, target)
}

/// Overwrites an instruction with a new opcode, modifiers and operands if the target can encode the result. Returns whether it was
/// overwritten.
fn overwrite_if_encodable(
    function: &mut Function,
    inst: Inst,
    opcode: Opcode,
    modifiers: Symbols,
    operands: SmallVec<[Operand; 8]>,
    result_count: usize,
    target: Target,
) -> bool {
    let fits = machine::operands_fit(function, opcode, &modifiers, function.insts[inst].guard, &operands, target);
    if fits {
        function.insts[inst].op = Op::Machine(opcode);
        function.insts[inst].modifiers = modifiers;
        function.set_operands(inst, &operands, result_count);
    }
    fits
}
