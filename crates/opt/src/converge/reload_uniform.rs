//! Loads uniform registers again after control flow in functions other than kernels.
//!
//! Threads of a diverged warp may be in different functions, and all functions write the same uniform registers: while some threads wait in one
//! function, others may overwrite its values in another one. Kernels keep theirs in registers that functions do not write. A function cannot
//! keep any across an instruction where threads take turns. So it computes values again in each block that reads them, which is possible for
//! constants and words of constant banks (ptxas keeps them in general registers and has `R2UR` in each block):
//!
//! ```text
//! bb0:  %1:UR2 = ULDC.64 c[0x0][0x208]        bb0:  ...
//! bb1:  %3:R = LDG.E desc[%1][%2.64]  becomes bb1:  %5:UR2 = ULDC.64 c[0x0][0x208] ; %3:R = LDG.E desc[%5][%2.64]
//! bb2:  STG.E desc[%1][%2.64], %4             bb2:  %6:UR2 = ULDC.64 c[0x0][0x208] ; STG.E desc[%6][%2.64], %4
//! ```

use oriole_ir::{Block, Function, FunctionKind, Inst, Op, Operand, OperandKind, Pseudo, Value};
use oriole_isa::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::shared_values::SharedUniformValues;

/// Computes shared uniform values again in each block that reads them; see the module comment. Does nothing in kernels.
pub(super) fn reload_uniform_values(function: &mut Function) {
    if function.kind == FunctionKind::Kernel {
        return;
    }
    let shared = SharedUniformValues::find(function);
    let read_by_phis: FxHashSet<Value> = function
        .layout
        .iter()
        .flat_map(|&block| function.phis(block))
        .flat_map(|&inst| function.used(inst))
        .map(|part| part.value)
        .collect();
    let mut definitions: FxHashMap<Value, (Block, Inst)> = shared
        .definitions()
        .filter(|&(value, _, inst)| is_repeatable(function, inst) && !read_by_phis.contains(&value))
        .map(|(value, block, inst)| (value, (block, inst)))
        .collect();
    if definitions.is_empty() {
        return;
    }
    for block in function.layout.clone() {
        reload_in_block(function, block, &definitions);
    }
    let read: FxHashSet<Value> = function
        .layout
        .iter()
        .flat_map(|&block| &function.blocks[block].insts)
        .flat_map(|&inst| function.used(inst))
        .map(|part| part.value)
        .collect();
    definitions.retain(|value, _| !read.contains(value));
    for (block, inst) in definitions.into_values() {
        function.blocks[block].insts.retain(|&other| other != inst);
    }
}

/// Computes the values again before their first readers in a block other than the one that defines them.
fn reload_in_block(function: &mut Function, block: Block, definitions: &FxHashMap<Value, (Block, Inst)>) {
    let mut copies: FxHashMap<Value, Value> = FxHashMap::default();
    let mut insts: Vec<Inst> = Vec::new();
    for inst in std::mem::take(&mut function.blocks[block].insts) {
        if function.insts[inst].is(Pseudo::Keep) {
            // The values need not be kept for readers in other blocks any more.
            let is_other = |operand: &&Operand| operand.value().is_none_or(|value| !definitions.contains_key(&value));
            let operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().filter(is_other).copied().collect();
            if !operands.is_empty() {
                function.set_operands(inst, &operands, 0);
                insts.push(inst);
            }
            continue;
        }
        let used: SmallVec<[Value; 4]> = function.used(inst).map(|part| part.value).collect();
        for value in used {
            let Some(&(_, definition)) = definitions.get(&value).filter(|&&(definer, _)| definer != block) else { continue };
            let copy = *copies.entry(value).or_insert_with(|| {
                let copy = function.new_value(function.values[value]);
                insts.push(repeat(function, definition, copy));
                copy
            });
            for source in function.sources_mut(inst) {
                if let OperandKind::Value(part) = &mut source.kind
                    && part.value == value
                {
                    part.value = copy;
                }
            }
        }
        insts.push(inst);
    }
    function.blocks[block].insts = insts;
}

/// Returns whether an instruction has the same result wherever it is executed.
fn is_repeatable(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_load = matches!(data.op, Op::Machine(Opcode::ULDC | Opcode::LDCU | Opcode::UMOV));
    is_load && data.guard.is_none() && function.used(inst).next().is_none() && function.results(inst).len() == 1
}

/// Creates a copy of an instruction that defines `copy` instead of its result.
fn repeat(function: &mut Function, inst: Inst, copy: Value) -> Inst {
    let mut operands: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.operands(inst));
    operands[0] = Operand::from(function.whole(copy));
    let data = &function.insts[inst];
    let (op, modifiers, location, memory) = (data.op, data.modifiers.clone(), data.location, data.memory);
    let new = function.new_inst(op, modifiers, None, &operands, 1);
    function.insts[new].location = location;
    function.insts[new].memory = memory;
    new
}
