//! Guards asynchronous copies of tensors and blocks of memory by uniform predicates, instead of branches.
//!
//! One thread of a warp starts such a copy, so the copy is in a block that a branch on an elected thread leads to. The branch ends a block,
//! which hides no latency any more, and it keeps the loop around it from carrying values in uniform registers. But the copy is an
//! instruction of the uniform datapath: the warp as a whole executes it. So where the warp is converged and all threads have the same
//! operands, the vote whether any thread wants the copy is a sufficient guard:
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
//! **Conditions.** The warp is sure to be converged at the branch: after a `WARPSYNC` of all threads in the same block, in a block that all
//! threads of the warp execute. The guarded block has only copies of this kind and computations without another effect, and each value
//! that it reads is the same in all threads.
//!
//! Cost: linear in the size of the function, apart from the analyses, which are computed only if the function has such a block.

use oriole_ir::analysis::{ControlFlow, Dominators, Loops, PostDominators, Uniformity};
use oriole_ir::{Block, Class, Function, FunctionKind, Guard, Inst, Op, Operand, OperandKind, Pseudo, RegFile, Role, Target, machine};
use oriole_isa::{Effect, Opcode, Symbol, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashSet;

use crate::converge::WarpConvergence;
use crate::if_convert::match_convertible_branch;
use crate::straighten;

/// Replaces branches around asynchronous copies by guards in uniform predicates. Returns the number of branches replaced.
pub(super) fn run(function: &mut Function, target: Target) -> usize {
    let has_copy = |block: &Block| function.blocks[*block].insts.iter().any(|&inst| is_async_copy(function, inst));
    if function.kind != FunctionKind::Kernel || !function.layout.iter().any(has_copy) {
        return 0;
    }
    let flow = ControlFlow::compute(function);
    let candidates: Vec<ElectedBranch> = function.layout.iter().filter_map(|&block| ElectedBranch::find(function, &flow, block)).collect();
    if candidates.is_empty() {
        return 0;
    }
    let dominators = Dominators::compute(function, &flow);
    let post_dominators = PostDominators::compute(function, &flow);
    let loops = Loops::compute(function, &flow);
    let uniformity = Uniformity::compute_with(function, &flow, &dominators, &post_dominators, &loops);
    let divergent = divergent_blocks(function, &flow, &uniformity);
    let partial = WarpConvergence { flow: &flow, divergent: &divergent, regions: &[] }.partial_blocks(function);
    let mut removed: FxHashSet<Block> = FxHashSet::default();
    for branch in candidates {
        if !partial[branch.block.position()] && branch.reads_uniform_values(function, &uniformity) {
            branch.replace_by_guard(function, target);
            removed.insert(branch.arm);
        }
    }
    if !removed.is_empty() {
        function.layout.retain(|block| !removed.contains(block));
        straighten::run(function, target);
    }
    removed.len()
}

/// Returns the blocks that end in a branch which threads of one warp may take differently.
pub(super) fn divergent_blocks(function: &Function, flow: &ControlFlow, uniformity: &Uniformity) -> Vec<Block> {
    let branches: FxHashSet<Inst> = uniformity.divergent_branches().iter().copied().collect();
    let is_divergent = |block: &Block| function.terminators(*block).iter().any(|end| branches.contains(end));
    flow.reverse_post_order().iter().copied().filter(is_divergent).collect()
}

/// Returns whether an instruction starts an asynchronous copy of a tensor or of a block of memory, and has no guard yet.
fn is_async_copy(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_copy = matches!(data.op.machine(), Some(Opcode::UTMALDG | Opcode::UTMASTG | Opcode::UTMAREDG | Opcode::UTMAPF | Opcode::UBLKCP));
    is_copy && data.guard.is_none()
}

/// A branch around a block that starts asynchronous copies.
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
    /// Finds the branch at the end of a block: `None` unless it goes around a block of asynchronous copies and computations, and follows a
    /// `WARPSYNC` of all threads.
    fn find(function: &Function, flow: &ControlFlow, block: Block) -> Option<ElectedBranch> {
        let branch = match_convertible_branch(function, flow, block)?;
        let (arm, negated) = match (branch.taken_arm, branch.other_arm) {
            (Some(arm), None) => (arm, branch.guard.negated),
            (None, Some(arm)) => (arm, !branch.guard.negated),
            _ => return None,
        };
        let insts = &function.blocks[arm].insts;
        let body = &insts[..insts.len() - 1];
        let has_copy = body.iter().any(|&inst| is_async_copy(function, inst));
        let is_plain = body.iter().all(|&inst| is_async_copy(function, inst) || is_computation(function, inst));
        let converged = is_converged_at_end(function, block) && function.phis(branch.join).is_empty();
        let condition = Guard { negated, ..branch.guard };
        (has_copy && is_plain && converged).then_some(ElectedBranch { block, arm, join: branch.join, condition })
    }

    /// Returns whether every value that the copies and computations read is the same in all threads of a warp. Values that the block itself
    /// computes are not in general registers, or depend on such values only.
    fn reads_uniform_values(&self, function: &Function, uniformity: &Uniformity) -> bool {
        let insts = &function.blocks[self.arm].insts;
        insts.iter().all(|&inst| function.used(inst).all(|part| !uniformity.is_divergent(part.value)))
    }

    /// Moves the instructions of the arm to the end of the block, with a uniform guard on the copies.
    fn replace_by_guard(&self, function: &mut Function, target: Target) {
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
            if is_async_copy(function, inst) {
                function.insts[inst].guard = Some(guard);
                debug_assert!(machine::is_encodable(function, inst, target), "a copy takes a uniform guard");
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

/// Returns whether a warp of which all threads execute the block is converged at the end of the block: after a `WARPSYNC` of all threads
/// nothing in the block separates them.
fn is_converged_at_end(function: &Function, block: Block) -> bool {
    let insts = &function.blocks[block].insts;
    let is_synchronization = |&inst: &Inst| {
        let data = &function.insts[inst];
        data.is_machine(Opcode::WARPSYNC)
            && data.guard.is_none()
            && data.modifiers.as_slice() == [Symbol::ALL]
            && function.operands(inst).is_empty()
    };
    let Some(at) = insts.iter().rposition(is_synchronization) else { return false };
    insts[at + 1..].iter().all(|&inst| !function.insts[inst].is_machine(Opcode::CALL) && !function.insts[inst].is_machine(Opcode::WARPSYNC))
}
