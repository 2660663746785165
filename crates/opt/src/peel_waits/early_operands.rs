//! Computes operands in uniform registers before a wait, instead of after it.
//!
//! ```text
//! bb0: BRA bb1                                bb0: %2:UR = UIADD3 %1, 0x4000, URZ
//! bb1: .. wait ..                                  BRA bb1
//! bb2: %2:UR = UIADD3 %1, 0x4000, URZ         bb1: .. wait ..
//!      .. HGMMA gdesc[%2] ..         becomes  bb2: .. HGMMA gdesc[%2] ..
//! ```
//!
//! Only computations without another effect move, and at most [`MAX_MOVED`] of them for each wait. The warp has to be converged before the
//! loop: where parts of a warp execute it at different times, one part could overwrite the uniform registers of another one.

use oriole_ir::analysis::{ControlFlow, Threads};
use oriole_ir::{Block, Function, Inst, Op, Pseudo, RegFile, Value};
use oriole_isa::Effect;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::converge::{CfgAnalyses, WarpConvergence, divergent_blocks};
use crate::definitions::Definitions;

/// Limit on the number of instructions that move before one wait: they need registers while the warp waits.
const MAX_MOVED: usize = 16;

/// Moves the computations of operands of the first instructions after the loops before the loops. `loops` has the blocks before and after
/// each loop.
pub(super) fn run(function: &mut Function, flow: &ControlFlow, loops: &[(Block, Block)], threads: Threads) {
    let moved: Vec<(Block, Block, Vec<Inst>)> = loops
        .iter()
        .filter(|&&(_, after)| flow.predecessors(after).len() == 1)
        .map(|&(before, after)| (before, after, operands_of_first_reader(function, after)))
        .filter(|(_, _, insts)| !insts.is_empty())
        .collect();
    if moved.is_empty() {
        return;
    }
    let uniformity = CfgAnalyses::compute(function, flow).uniformity(function, flow, threads);
    let divergent = divergent_blocks(function, flow, &uniformity);
    let definitions = Definitions::compute(function);
    let divergence = WarpConvergence { flow, divergent: &divergent, regions: &[] }.divergence(function, &definitions);
    for (before, after, insts) in moved {
        if divergence.ends[before.position()] {
            continue;
        }
        let is_moved: FxHashSet<Inst> = insts.iter().copied().collect();
        function.blocks[after].insts.retain(|inst| !is_moved.contains(inst));
        let at = function.blocks[before].insts.len() - 1;
        function.blocks[before].insts.splice(at..at, insts);
    }
}

/// Returns the instructions of a block that compute operands of its first instruction with an effect that reads uniform registers, in
/// their order; only those that need nothing else from the block.
fn operands_of_first_reader(function: &Function, block: Block) -> Vec<Inst> {
    let insts = &function.blocks[block].insts;
    let is_uniform = |value: Value| matches!(function.values[value].file, RegFile::Uniform | RegFile::UniformPredicate);
    let reads_uniform = |inst: Inst| function.used(inst).any(|part| is_uniform(part.value));
    let Some(reader) = insts.iter().position(|&inst| !is_computation(function, inst) && reads_uniform(inst)) else { return Vec::new() };
    let defining: FxHashMap<Value, Inst> =
        insts[..reader].iter().flat_map(|&inst| function.defined(inst).map(move |value| (value, inst))).collect();
    let mut needed: FxHashSet<Inst> = FxHashSet::default();
    let mut work: Vec<Inst> = vec![insts[reader]];
    while let Some(inst) = work.pop() {
        for inst in function.used(inst).filter_map(|part| defining.get(&part.value).copied()) {
            if needed.insert(inst) {
                work.push(inst);
            }
        }
    }
    let mut moved: Vec<Inst> = Vec::new();
    let mut stays: FxHashSet<Value> = FxHashSet::default();
    for &inst in &insts[..reader] {
        let is_independent = function.used(inst).all(|part| !stays.contains(&part.value));
        if needed.contains(&inst) && is_computation(function, inst) && is_independent && moved.len() < MAX_MOVED {
            moved.push(inst);
        } else {
            stays.extend(function.defined(inst));
        }
    }
    moved
}

/// Returns whether an instruction only computes its results from its operands.
fn is_computation(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_pure = match data.op {
        Op::Machine(opcode) => opcode.properties().effect == Effect::None,
        Op::Pseudo(pseudo) => matches!(pseudo, Pseudo::Copy | Pseudo::Pack),
    };
    is_pure && data.guard.is_none()
}
