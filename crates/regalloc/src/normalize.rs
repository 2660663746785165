//! Normalizes a function for the allocator: reachable blocks only, one branch for each target, one result for each copy, and no guard on a
//! copy that keeps no old value.
//!
//! Also rejects code that the allocator cannot handle: negated registers as sources of copies, and tied operands of `PACK`.

use oriole_ir::analysis::remove_unreachable_blocks;
use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Pseudo, Role, Signs};
use smallvec::SmallVec;

use crate::outcome::AllocateError;

/// Normalizes a function. Returns an error for code that the allocator cannot handle.
pub(crate) fn run(function: &mut Function) -> Result<(), AllocateError> {
    for position in 0..function.layout.len() {
        delete_redundant_branch(function, function.layout[position]);
    }
    remove_unreachable_blocks(function);
    for position in 0..function.layout.len() {
        let block = function.layout[position];
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            check_copy_sources(function, inst)?;
            remove_unneeded_guard(function, inst);
            kept.push(inst);
            if function.insts[inst].is(Pseudo::Copy) && function.insts[inst].result_count() > 1 {
                split_copy(function, inst, &mut kept);
            }
        }
        function.blocks[block].insts = kept;
    }
    Ok(())
}

/// Deletes a guarded branch that has the same target as the unguarded branch after it.
fn delete_redundant_branch(function: &mut Function, block: Block) {
    let [first, second] = *function.terminators(block) else { return };
    let target = |inst: Inst| function.operands(inst).iter().find(|operand| matches!(operand.kind, OperandKind::Block(_))).map(|o| o.kind);
    if function.insts[first].op == function.insts[second].op && function.insts[second].guard.is_none() && target(first) == target(second) {
        let insts = &mut function.blocks[block].insts;
        insts.remove(insts.len() - 2);
    }
}

/// Returns an error if a phi, copy or pack has a source that no move can copy.
fn check_copy_sources(function: &Function, inst: Inst) -> Result<(), AllocateError> {
    let Op::Pseudo(pseudo @ (Pseudo::Phi | Pseudo::Copy | Pseudo::Pack)) = function.insts[inst].op else { return Ok(()) };
    let unsupported = |copy: &str| Err(AllocateError::Unsupported { inst, copy: copy.into() });
    for source in function.sources(inst) {
        let is_value = matches!(source.kind, OperandKind::Value(_) | OperandKind::Register { .. });
        let allowed = if is_value { Signs::NONE } else { Signs::NOT };
        if !source.signs.without(allowed).is_empty() {
            return unsupported("a copied register has a sign");
        }
        if pseudo == Pseudo::Pack && matches!(source.role, Role::Tied(_)) {
            return unsupported("a tied operand of PACK");
        }
    }
    Ok(())
}

/// Removes the guard of a copy or pack without a tied operand (an old value that is kept where the guard is false). The result is then
/// undefined where the guard is false, so the copy may be made unconditionally.
fn remove_unneeded_guard(function: &mut Function, inst: Inst) {
    let is_copy = function.insts[inst].is(Pseudo::Copy) || function.insts[inst].is(Pseudo::Pack);
    if is_copy && !function.sources(inst).iter().any(|source| matches!(source.role, Role::Tied(_))) {
        function.insts[inst].guard = None;
    }
}

/// Splits a copy with several results into copies with one result each; the new ones are appended to `after`. In SSA form no result is a
/// source of the same copy, so copying one after the other gives the same values as copying all at once.
fn split_copy(function: &mut Function, inst: Inst, after: &mut Vec<Inst>) {
    let count = function.insts[inst].result_count();
    let operands: SmallVec<[Operand; 12]> = SmallVec::from_slice(function.operands(inst));
    let data = function.insts[inst].clone();
    for number in 0..count {
        let mut own: SmallVec<[Operand; 3]> = SmallVec::new();
        own.extend([operands[number], operands[count + number]]);
        let tied = operands[2 * count..].iter().find(|operand| operand.role == Role::Tied(number as u8));
        own.extend(tied.map(|operand| operand.with_role(Role::Tied(0))));
        if number == 0 {
            function.set_operands(inst, &own, 1);
        } else {
            let new = function.new_inst(data.op, data.modifiers.clone(), data.guard, &own, 1);
            function.insts[new].location = data.location;
            after.push(new);
        }
    }
}
