//! Removes loops that execute a texture or surface instruction for one handle at a time, if all threads of the warp have the same handle. Stores by
//! the copy engine and initializations of barriers in memory have the same kind of loop, over all of their operands.
//!
//! Where an instruction takes the handle of a texture or surface from a uniform register, instruction selection emits a loop that executes
//! the instruction once for each different handle in the warp, unless the PTX register shows that there is only one. After SSA construction
//! more handles are known to be uniform: a register that is assigned several times, a handle that is loaded from a uniform address, a phi
//! at a uniform branch. In each such loop the comparison of a thread's handle with the handle of one of the threads is always true:
//!
//! ```text
//! bb1:
//!     %4:UR = R2UR %1                              %4:UR = R2UR %1
//!     %5:P, PT = ISETP.EQ.U32.AND %1, %4, PT       %5:P, PT = ISETP.EQ.U32.AND %1, %4, PT
//!     @%5 RZ, %6:R = TEX ... %4          becomes   RZ, %6:R = TEX ... %4
//!     @!%5 BRA bb1
//!     BRA bb2                                      BRA bb2
//! ```
//!
//! A handle that is a word of a constant bank, such as a kernel parameter, is then loaded into the uniform register directly, with `ULDC`.
//!
//! A weak load from a uniform address counts as uniform, as in the code of ptxas; volatile and ordered loads do not.
//!
//! **Before** and **after**: SSA. The comparison is left to dead-code elimination. The cost is that of the uniformity analysis, in
//! functions that have such comparisons.

use oriole_ir::analysis::{ControlFlow, Uniformity};
use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Role, Value};
use oriole_isa::Opcode;
use oriole_support::BitSet;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};

/// Removes the loops over the texture and surface handles of a warp if the handle is the same in all threads. Returns the number of loops
/// removed.
pub fn run(function: &mut Function) -> usize {
    let copies = copies_to_uniform(function);
    let has_comparison =
        |&block: &Block| function.blocks[block].insts.iter().any(|&inst| match_self_comparison(function, &copies, inst).is_some());
    if copies.is_empty() || !function.layout.iter().any(has_comparison) {
        return 0;
    }
    let flow = ControlFlow::compute(function);
    let uniformity = Uniformity::compute_without_races(function, &flow);
    let always_true = find_true_comparisons(function, &copies, &uniformity);
    load_constant_handles(function, &copies, &always_true);
    let mut removed = 0;
    for block in function.layout.clone() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        let mut lost: SmallVec<[Block; 1]> = SmallVec::new();
        for inst in insts {
            let truth = function.insts[inst].guard.and_then(|guard| match guard.kind {
                OperandKind::Value(part) if always_true.contains(part.value) => Some(!guard.negated),
                _ => None,
            });
            match truth {
                Some(false) if function.insts[inst].is_machine(Opcode::BRA) => lost.extend(branch_targets(function, inst)),
                Some(true) => {
                    drop_true_guard(function, inst);
                    kept.push(inst);
                }
                _ => kept.push(inst),
            }
        }
        function.blocks[block].insts = kept;
        for next in lost {
            remove_phi_sources_of_edge(function, block, next);
            removed += 1;
        }
    }
    removed
}

/// Returns a map from the result of each unguarded `R2UR` (copy to a uniform register) to its source.
fn copies_to_uniform(function: &Function) -> FxHashMap<Value, OperandKind> {
    let mut copies = FxHashMap::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let data = &function.insts[inst];
            if data.is_machine(Opcode::R2UR)
                && data.guard.is_none()
                && data.modifiers.is_empty()
                && let [result, source] = function.operands(inst)
                && let Some(value) = result.value()
                && source.signs.is_empty()
            {
                copies.insert(value, source.kind);
            }
        }
    }
    copies
}

/// Matches a test whether an operand equals its own copy in a uniform register. Returns the operand, and the predicate that the result of
/// the test is ANDed with; `None` for other instructions.
fn match_self_comparison(function: &Function, copies: &FxHashMap<Value, OperandKind>, inst: Inst) -> Option<(Operand, Operand)> {
    let data = &function.insts[inst];
    let is_equality = || data.modifiers.iter().map(|modifier| modifier.spelling()).eq([".EQ", ".U32", ".AND"]);
    if !data.is_machine(Opcode::ISETP) || data.guard.is_some() || !is_equality() {
        return None;
    }
    let &[word, uniform, joined] = function.sources(inst) else { return None };
    let is_copy = uniform.value().and_then(|value| copies.get(&value)) == Some(&word.kind);
    (is_copy && word.signs.is_empty() && uniform.signs.is_empty()).then_some((word, joined))
}

/// For each comparison of `always_true`, if the compared handle is a copy of a constant-bank word, replaces the `R2UR` that copies the
/// handle by a load of that word into the uniform register.
fn load_constant_handles(function: &mut Function, copies: &FxHashMap<Value, OperandKind>, always_true: &BitSet<Value>) {
    let definitions = Definitions::compute(function);
    let mut words: FxHashMap<Value, OperandKind> = FxHashMap::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let is_true = || function.results(inst)[0].value().is_some_and(|value| always_true.contains(value));
            if let Some((word, _)) = match_self_comparison(function, copies, inst).filter(|_| is_true())
                && let Some(part) = word.part()
                && let Some(KnownWord::Constant { bank, offset }) = definitions.known_content(function, part)
                && let Some(uniform) = function.sources(inst)[1].value()
            {
                words.insert(uniform, OperandKind::Constant { bank, offset });
            }
        }
    }
    for inst in function.layout.iter().flat_map(|&block| function.blocks[block].insts.clone()).collect::<Vec<Inst>>() {
        if function.insts[inst].is_machine(Opcode::R2UR)
            && let Some(word) = function.operands(inst)[0].value().and_then(|value| words.get(&value))
        {
            function.insts[inst].op = Op::Machine(Opcode::ULDC);
            function.operands_mut(inst)[1] = Operand::new(*word);
        }
    }
}

/// Returns the predicates that are always true because they compare a value that is the same in all threads with its own copy in a uniform
/// register.
fn find_true_comparisons(function: &Function, copies: &FxHashMap<Value, OperandKind>, uniformity: &Uniformity) -> BitSet<Value> {
    let mut found = BitSet::new(function.values.len());
    // The comparisons of several words of one handle follow each other in one block, so one walk in order finds them all.
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let Some((word, joined)) = match_self_comparison(function, copies, inst) else { continue };
            let is_joined_true =
                joined.signs.is_empty() && (joined == Operand::PT || joined.value().is_some_and(|value| found.contains(value)));
            if let Some(result) = function.results(inst)[0].value()
                && is_joined_true
                && uniformity.is_uniform_operand(&word)
            {
                found.insert(result);
            }
        }
    }
    found
}

/// Removes a guard that always holds, and the tied operands, which are only used where the guard does not hold.
fn drop_true_guard(function: &mut Function, inst: Inst) {
    function.insts[inst].guard = None;
    let result_count = function.insts[inst].result_count();
    let kept: SmallVec<[Operand; 8]> =
        function.operands(inst).iter().filter(|operand| !matches!(operand.role, Role::Tied(_))).copied().collect();
    function.set_operands(inst, &kept, result_count);
}

/// Returns the blocks that a branch can go to.
fn branch_targets(function: &Function, inst: Inst) -> SmallVec<[Block; 1]> {
    let block_of = |operand: &Operand| if let OperandKind::Block(block) = operand.kind { Some(block) } else { None };
    function.operands(inst).iter().filter_map(block_of).collect()
}

/// After a branch from `from` to `to` was deleted: removes the sources of the phis of `to` for the predecessor `from`, unless another
/// branch of `from` still goes to `to`.
fn remove_phi_sources_of_edge(function: &mut Function, from: Block, to: Block) {
    if function.terminators(from).iter().any(|&inst| branch_targets(function, inst).contains(&to)) {
        return;
    }
    for phi in function.phis(to).to_vec() {
        let mut kept: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.results(phi));
        for pair in function.sources(phi).chunks_exact(2).filter(|pair| pair[1].kind != OperandKind::Block(from)) {
            kept.extend_from_slice(pair);
        }
        function.set_operands(phi, &kept, 1);
    }
}
