//! Recognizes synchronizations of the warp.

use oriole_ir::{Function, Inst};
use oriole_isa::{Opcode, Symbol};

/// Returns whether an instruction is an unguarded `WARPSYNC` without `.EXCLUSIVE`, which would stop the threads outside of its mask.
pub(crate) fn is_plain_warpsync(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.is_machine(Opcode::WARPSYNC) && data.guard.is_none() && !data.modifiers.contains(&Symbol::EXCLUSIVE)
}
