//! Deletes comparisons whose result is overwritten before it is read.
//!
//! A comparison that is repeated before each of its readers ([`crate::spill`]) is not needed where it was:
//!
//! ```text
//! ISETP.LT.AND P0, PT, R4, R5, PT       deleted: P0 is overwritten, and its reader repeats the comparison
//! ISETP.LT.AND P0, PT, R6, R7, PT
//! ...
//! ISETP.LT.AND P1, PT, R4, R5, PT
//! SEL R8, R9, RZ, P1
//! ```
//!
//! Only the rest of the block is looked at, in one walk from its end; at the end of the block every predicate may be read.

use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, RegFile};

use crate::registers::{Reg, RegisterSet};

/// Deletes the comparisons of an allocated function that are not needed.
pub(crate) fn run(function: &mut Function) {
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let dead = dead_comparisons(function, block);
        if !dead.is_empty() {
            function.blocks[block].insts.retain(|inst| dead.binary_search(inst).is_err());
        }
    }
}

/// Returns the comparisons of a block whose results are overwritten before they are read, sorted.
fn dead_comparisons(function: &Function, block: Block) -> Vec<Inst> {
    let mut dead = Vec::new();
    // The predicates that are written later, and not read before.
    let mut overwritten = RegisterSet::EMPTY;
    for &inst in function.blocks[block].insts.iter().rev() {
        let data = &function.insts[inst];
        let is_unread = |result: &Operand| predicate(result.kind).is_none_or(|register| overwritten.has(register));
        if data.is_machine(Opcode::ISETP) && data.guard.is_none() && function.results(inst).iter().all(is_unread) {
            dead.push(inst);
            continue;
        }
        if data.guard.is_none() {
            function.results(inst).iter().filter_map(|result| predicate(result.kind)).for_each(|register| overwritten.insert(register, 1));
        }
        // Other instructions may read predicates without naming them, or leave the block.
        let reads_all = match data.op {
            Op::Machine(opcode) => {
                let names = function.sources(inst).iter().any(|source| matches!(source.kind, OperandKind::Name(_)));
                names || matches!(opcode, Opcode::CALL | Opcode::BRA | Opcode::EXIT | Opcode::RET)
            }
            Op::Pseudo(_) => true,
        };
        if reads_all {
            overwritten = RegisterSet::EMPTY;
        }
        let guard = data.guard.and_then(|guard| predicate(guard.kind));
        for register in function.sources(inst).iter().filter_map(|source| predicate(source.kind)).chain(guard) {
            overwritten.remove(register, 1);
        }
    }
    dead.sort_unstable();
    dead
}

/// Returns the predicate register of an operand; `None` for any other operand.
fn predicate(kind: OperandKind) -> Option<Reg> {
    match kind {
        OperandKind::Register { file: RegFile::Predicate, first, .. } => Some(Reg::new(first)),
        _ => None,
    }
}
