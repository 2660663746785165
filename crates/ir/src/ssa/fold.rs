//! Folds guarded copies into the instructions that compute the copied values.
//!
//! Instruction selection computes into a temporary and assigns the temporary: `@p x = IADD3 a, b`, `@p d = COPY x (else old)`. If `x` has
//! no other use and `old` is defined before the computation, `@p d = IADD3 a, b (else old)` is equivalent and needs no move. One pass,
//! linear in the size of the function.

use oriole_support::IndexVec;
use smallvec::SmallVec;

use crate::function::Function;
use crate::ids::{Block, Inst, Value};
use crate::instruction::{Op, Pseudo};
use crate::operand::{Operand, OperandKind, Part, Role, Signs};

/// The definition of a value: block, position in the block, instruction, and result number.
#[derive(Clone, Copy)]
struct DefinitionSite {
    block: Block,
    position: u32,
    inst: Inst,
    result: u8,
}

/// The definition and the number of uses of each value.
struct CopyFolder {
    definitions: IndexVec<Value, Option<DefinitionSite>>,
    use_counts: IndexVec<Value, u32>,
}

/// Folds all guarded copies for which that is possible.
pub(super) fn fold_guarded_copies(function: &mut Function) {
    let has_copies = |block: &Block| function.blocks[*block].insts.iter().any(|&inst| guarded_copy(function, inst).is_some());
    let blocks: Vec<Block> = function.layout.iter().copied().filter(has_copies).collect();
    if blocks.is_empty() {
        return;
    }
    let mut folder =
        CopyFolder { definitions: IndexVec::filled(function.values.len(), None), use_counts: IndexVec::filled(function.values.len(), 0) };
    for &block in &function.layout {
        for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
            for (result, operand) in function.results(inst).iter().enumerate() {
                if let Some(value) = operand.value() {
                    folder.definitions[value] = Some(DefinitionSite { block, position: position as u32, inst, result: result as u8 });
                }
            }
            for part in function.used(inst) {
                folder.use_counts[part.value] += 1;
            }
        }
    }
    for block in blocks {
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|&inst| !folder.fold(function, block, inst));
        function.blocks[block].insts = insts;
    }
}

impl CopyFolder {
    /// Folds a copy into the instruction that computes its source. Returns whether it did.
    fn fold(&mut self, function: &mut Function, block: Block, copy: Inst) -> bool {
        let Some((result, source, old)) = guarded_copy(function, copy) else { return false };
        let Some(definition) = self.definitions[source.value] else { return false };
        let inst = definition.inst;
        let data = &function.insts[inst];
        let is_plain = matches!(data.op, Op::Machine(_)) || data.is(Pseudo::Copy);
        let is_same_guard = data.guard == function.insts[copy].guard;
        let is_tied = function.tied_to(inst, usize::from(definition.result)).is_some();
        let is_fixed = matches!(function.results(inst)[usize::from(definition.result)].role, Role::Fixed(_));
        if definition.block != block || !is_plain || !is_same_guard || is_tied || is_fixed || self.use_counts[source.value] != 1 {
            return false;
        }
        // The definition moves up to the computation, so the old value must be defined before that.
        let is_old_there = |old: DefinitionSite| old.block != block || old.position < definition.position;
        if source != function.whole(source.value)
            || function.values[source.value] != function.values[result.value]
            || !self.definitions[old.value].is_some_and(is_old_there)
        {
            return false;
        }
        let mut operands: SmallVec<[Operand; 12]> = function.operands(inst).into();
        operands[usize::from(definition.result)].kind = OperandKind::Value(result);
        operands.push(Operand::from(old).with_role(Role::Tied(definition.result)));
        let results = function.insts[inst].result_count();
        function.set_operands(inst, &operands, results);
        self.definitions[result.value] = Some(definition);
        self.use_counts[source.value] = 0;
        true
    }
}

/// Returns the result, source and old value of `@p d = COPY x (else old)`; `None` for other instructions.
fn guarded_copy(function: &Function, inst: Inst) -> Option<(Part, Part, Part)> {
    let data = &function.insts[inst];
    if !data.is(Pseudo::Copy) || data.guard.is_none() {
        return None;
    }
    let [result, source, tied] = function.operands(inst) else { return None };
    let is_plain = source.signs == Signs::NONE && source.suffixes().next().is_none();
    let (Role::Tied(0), true) = (tied.role, is_plain) else { return None };
    Some((result.part()?, source.part()?, tied.part()?))
}
