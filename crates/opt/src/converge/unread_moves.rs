//! Deletes moves that no instruction reads any more.

use oriole_ir::{Function, Inst, Op, Pseudo, Value};
use oriole_isa::Opcode;
use rustc_hash::FxHashSet;

/// Deletes the moves that define one of `values` if no instruction reads it.
pub(crate) fn remove_unread_moves(function: &mut Function, values: &[Value]) {
    let mut unread: FxHashSet<Value> = values.iter().copied().collect();
    for part in function.layout.iter().flat_map(|&block| &function.blocks[block].insts).flat_map(|&inst| function.used(inst)) {
        unread.remove(&part.value);
    }
    let is_unread_move = |function: &Function, inst: Inst| {
        matches!(function.insts[inst].op, Op::Machine(Opcode::MOV) | Op::Pseudo(Pseudo::Copy))
            && function.defined(inst).all(|value| unread.contains(&value))
    };
    for block in function.layout.clone() {
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|&inst| !is_unread_move(function, inst));
        function.blocks[block].insts = insts;
    }
}
