//! Guards asynchronous copies of tensors and blocks of memory, and initializations of barriers, by uniform predicates, instead of branches.
//!
//! One thread of a warp starts such a copy, so the copy is in a block that a branch on an elected thread leads to. (Any condition will
//! do.) The branch ends a block, which hides no latency any more, and it keeps the loop around it from carrying values in uniform
//! registers. But the copy is an instruction of the uniform datapath: the warp as a whole executes it. So where the warp is converged and
//! all threads have the same operands, the vote whether any thread wants the copy is a sufficient guard:
//!
//! ```text
//! bb0: WARPSYNC.ALL                              bb0: WARPSYNC.ALL
//!      %1:P, URZ = ELECT PT                           %1:P, URZ = ELECT PT
//!      @!%1 BRA bb2                                   %2:UR = R2UR %0
//!      BRA bb1                                        ..
//! bb1: %2:UR = R2UR %0              becomes           %5:UP = VOTEU.ANY %1
//!      ..                                             @%5 UTMALDG.2D [%3], [%4]
//!      UTMALDG.2D [%3], [%4]                     bb2: ..
//!      BRA bb2
//! bb2: ..
//! ```
//!
//! The same holds for `mbarrier.init` (`SYNCS.EXCH`): writing the state of a new barrier once or several times has the same effect. The
//! fence before it stays without a guard, as in ptxas' code.
//!
//! **Conditions.** The warp is sure to be converged at the branch, if the branches that are replaced do not count. The guarded block has
//! only instructions of these kinds and computations without another effect, and each value that it reads is the same in all threads.
//!
//! Cost: linear in the size of the function, apart from the analyses, which are computed only if the function has such a block, and at most
//! [`MAX_ROUNDS`] times.

use oriole_ir::analysis::{ControlFlow, Threads, Uniformity};
use oriole_ir::{Block, Class, Function, FunctionKind, Guard, Inst, Op, Operand, OperandKind, Pseudo, RegFile, Role, Target, machine};
use oriole_isa::{Effect, Opcode, Symbol, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashSet;

use crate::converge::{CfgAnalyses, WarpConvergence, divergent_blocks};
use crate::definitions::Definitions;
use crate::if_convert::match_convertible_branch;
use crate::{dead, straighten};

/// Replaces branches around asynchronous copies and initializations of barriers by guards in uniform predicates. `threads` is the shape
/// of the thread blocks. Returns the number of branches replaced.
pub fn run(function: &mut Function, target: Target, threads: Threads) -> usize {
    let has_copy = |block: &Block| function.blocks[*block].insts.iter().any(|&inst| acts_for_warp(function, inst));
    if function.kind != FunctionKind::Kernel || !function.layout.iter().any(has_copy) {
        return 0;
    }
    dead::run(function, target);
    let flow = ControlFlow::compute(function);
    let found = |&block: &Block| ElectedBranch::find(function, &flow, block, target);
    let mut candidates: Vec<ElectedBranch> = function.layout.iter().filter_map(found).collect();
    if candidates.is_empty() {
        return 0;
    }
    let uniformity = CfgAnalyses::compute(function, &flow).uniformity(function, &flow, threads);
    let divergent = divergent_blocks(function, &flow, &uniformity);
    candidates.retain(|branch| branch.reads_uniform_values(function, &uniformity));
    retain_converged(function, &flow, &divergent, &mut candidates);
    for branch in &candidates {
        branch.replace_by_guard(function);
    }
    if !candidates.is_empty() {
        let removed: FxHashSet<Block> = candidates.iter().map(|branch| branch.arm).collect();
        function.layout.retain(|block| !removed.contains(block));
        straighten::run(function, target);
    }
    candidates.len()
}

/// Limit on the number of times that the convergence of a function is computed.
const MAX_ROUNDS: usize = 8;

/// Keeps the branches at which the warp is converged if all branches that are kept are replaced; none if [`MAX_ROUNDS`] do not suffice to
/// find them.
fn retain_converged(function: &Function, flow: &ControlFlow, divergent: &[Block], candidates: &mut Vec<ElectedBranch>) {
    let definitions = Definitions::compute(function);
    for _ in 0..MAX_ROUNDS {
        let replaced: FxHashSet<Block> = candidates.iter().map(|branch| branch.block).collect();
        let others: Vec<Block> = divergent.iter().copied().filter(|block| !replaced.contains(block)).collect();
        let divergence = WarpConvergence { flow, divergent: &others, regions: &[] }.divergence(function, &definitions);
        let before = candidates.len();
        candidates.retain(|branch| !divergence.ends[branch.block.position()]);
        if candidates.len() == before {
            return;
        }
    }
    candidates.clear();
}

/// Returns whether an instruction, which has no guard yet, is executed once for all threads of a warp: whether it starts an asynchronous
/// copy of a tensor or of a block of memory, or initializes a barrier.
fn acts_for_warp(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_copy = matches!(data.op.machine(), Some(Opcode::UTMALDG | Opcode::UTMASTG | Opcode::UTMAREDG | Opcode::UTMAPF | Opcode::UBLKCP));
    let writes_state = || {
        let has_exchange = data.modifiers.iter().any(|modifier| modifier.spelling() == ".EXCH");
        data.is_machine(Opcode::SYNCS) && has_exchange && function.defined(inst).next().is_none()
    };
    data.guard.is_none() && (is_copy || writes_state())
}

/// Returns whether the target can encode an instruction with a guard in a uniform predicate.
fn takes_uniform_guard(function: &Function, inst: Inst, target: Target) -> bool {
    let data = &function.insts[inst];
    let guard = Guard { kind: OperandKind::Zero(RegFile::UniformPredicate), negated: false };
    let Op::Machine(opcode) = data.op else { return false };
    machine::operands_fit(function, opcode, &data.modifiers, Some(guard), function.operands(inst), target)
}

/// Returns whether an instruction is a fence for accesses of asynchronous copies. Executing it more often than asked for has no effect.
fn is_async_fence(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.guard.is_none() && data.is_machine(Opcode::FENCE)
}

/// A branch around a block that starts asynchronous copies or initializes barriers.
struct ElectedBranch {
    /// The block that ends in the branch.
    block: Block,
    /// The block with the copies, which is executed by the threads whose guard holds.
    arm: Block,
    /// The block after both.
    join: Block,
    /// The condition under which a thread executes `arm`.
    condition: Guard,
}

impl ElectedBranch {
    /// Finds the branch at the end of a block: `None` unless it goes around a block of instructions for the whole warp, fences and
    /// computations.
    fn find(function: &Function, flow: &ControlFlow, block: Block, target: Target) -> Option<ElectedBranch> {
        let branch = match_convertible_branch(function, flow, block)?;
        let (arm, negated) = match (branch.taken_arm, branch.other_arm) {
            (Some(arm), None) => (arm, branch.guard.negated),
            (None, Some(arm)) => (arm, !branch.guard.negated),
            _ => return None,
        };
        let insts = &function.blocks[arm].insts;
        let body = &insts[..insts.len() - 1];
        let acts = body.iter().any(|&inst| acts_for_warp(function, inst));
        let is_plain = |&inst: &Inst| acts_for_warp(function, inst) || is_async_fence(function, inst) || is_computation(function, inst);
        let has_phis = !function.phis(branch.join).is_empty();
        let condition = Guard { negated, ..branch.guard };
        let takes_guard = |&inst: &Inst| !acts_for_warp(function, inst) || takes_uniform_guard(function, inst, target);
        (acts && body.iter().all(is_plain) && body.iter().all(takes_guard) && !has_phis).then_some(ElectedBranch {
            block,
            arm,
            join: branch.join,
            condition,
        })
    }

    /// Returns whether every value that the copies and computations read is the same in all threads of a warp. Values that the block itself
    /// computes are not in general registers, or depend on such values only.
    fn reads_uniform_values(&self, function: &Function, uniformity: &Uniformity) -> bool {
        let insts = &function.blocks[self.arm].insts;
        insts.iter().all(|&inst| function.used(inst).all(|part| !uniformity.is_divergent(part.value)))
    }

    /// Moves the instructions of the arm to the end of the block, with a uniform guard on the copies.
    fn replace_by_guard(&self, function: &mut Function) {
        let mut moved = std::mem::take(&mut function.blocks[self.arm].insts);
        let jump = moved.pop();
        let kept = function.blocks[self.block].insts.len() - function.terminators(self.block).len();
        let ends = function.blocks[self.block].insts.split_off(kept);
        let vote = function.new_value(Class::UP);
        let operands = [Operand::from(function.whole(vote)), condition_operand(self.condition)];
        let guard = Guard { kind: OperandKind::Value(function.whole(vote)), negated: false };
        let voting = function.new_inst(Op::Machine(Opcode::VOTEU), Symbols::from_iter([Symbol::ANY]), None, &operands, 1);
        function.insts[voting].location = function.insts[ends[0]].location;
        function.blocks[self.block].insts.push(voting);
        for &inst in &moved {
            if acts_for_warp(function, inst) {
                function.insts[inst].guard = Some(guard);
            }
        }
        function.blocks[self.block].insts.extend(moved);
        if let Some(jump) = jump {
            debug_assert!(matches!(function.operands(jump), [only] if only.kind == OperandKind::Block(self.join)));
            function.blocks[self.block].insts.push(jump);
        }
    }
}

/// Returns a guard as the source operand of an instruction.
fn condition_operand(guard: Guard) -> Operand {
    let operand = Operand::new(guard.kind);
    if guard.negated { operand.inverted_predicate() } else { operand }
}

/// Returns whether an instruction has no guard and no effect but its results, or copies the value of a thread to a uniform register.
fn is_computation(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_own = |operand: &Operand| matches!(operand.role, Role::Plain | Role::Bracket(_));
    let is_uniform =
        function.defined(inst).all(|value| matches!(function.values[value].file, RegFile::Uniform | RegFile::UniformPredicate));
    let is_pure = match data.op {
        Op::Pseudo(pseudo) => matches!(pseudo, Pseudo::Copy | Pseudo::Pack),
        Op::Machine(opcode) => opcode == Opcode::R2UR || opcode.properties().effect == Effect::None,
    };
    data.guard.is_none() && is_uniform && is_pure && function.operands(inst).iter().all(is_own)
}
