//! Strategy `barrier-coalescence`: removes barriers and fences that repeat an earlier one of the same block, and then orders regions as
//! backend B.
//!
//! **Barriers.** `BAR.SYNC n` for all threads of the thread block is redundant if another `BAR.SYNC n` comes before it without a memory
//! access in between: nothing happens between the two that a thread could have to wait for. It is removed only if every thread of the
//! thread block executes the same barriers: threads may match different `BAR` instructions of different branches, and one of those threads
//! could access memory between its two barriers. So barriers are removed only from kernels without calls, and only if no barrier with
//! the same number may be in code that only some threads of the thread block execute: between a branch that threads may take differently
//! and its reconvergence point, or under a guard.
//!
//! **Fences.** `MEMBAR`, `ERRBAR`, `CGAERRBAR` and `CCTL.IVALL` order accesses before them with accesses after them. A fence that comes
//! after one of the same kind and of the same or a larger scope, without an access in between, orders nothing.
//!
//! ```text
//! BAR.SYNC 0x0                        BAR.SYNC 0x0
//! %3 = IADD3 %1, %2, RZ    becomes    %3 = IADD3 %1, %2, RZ
//! BAR.SYNC 0x0                        %4 = LDS [%3]
//! %4 = LDS [%3]
//! ```
//!
//! Time: linear in the number of instructions; for barriers, times the number of branches that depend on the data of a thread.

use oriole_ir::analysis::{ControlFlow, PostDominators};
use oriole_ir::{Block, Function, FunctionKind, Inst, Op, OperandKind, Pseudo};
use oriole_isa::{Effect, Opcode, Symbol};
use oriole_support::BitSet;

use super::rearrange::{ChangeReason, CodeChange, RearrangeContext};
use super::weighted_variant::{Variation, WeightedVariant};

/// The scope modifiers of `MEMBAR`, smallest scope first.
const FENCE_SCOPES: [&str; 3] = ["CTA", "GPU", "SYS"];

/// Removes barriers and fences that repeat an earlier one of the same block; the strategy `barrier-coalescence` of the command line.
pub(super) const BARRIER_COALESCENCE: WeightedVariant = WeightedVariant {
    name: "barrier-coalescence",
    description: "removes repeated barriers and fences, then as b",
    variation: Variation::Rearrange(rearrange),
};

/// Removes redundant barriers and fences from a function. Returns every removed instruction as a change with its reason.
fn rearrange(function: &mut Function, _: RearrangeContext<'_>) -> Vec<CodeChange> {
    let mut changes = Vec::new();
    let mut split: Option<Vec<Inst>> = None;
    for block in function.layout.clone() {
        let mut barrier: Option<i64> = None;
        let mut fences: Vec<Inst> = Vec::new();
        let mut removed: Vec<(Inst, ChangeReason)> = Vec::new();
        for &inst in &function.blocks[block].insts {
            if let Some(number) = thread_block_barrier_number(function, inst) {
                // The barriers that only some threads execute, and the calls, are computed at the first repeated barrier of the function,
                // because most functions have none.
                let is_same = |function: &Function, split: &mut Option<Vec<Inst>>| {
                    let split = split.get_or_insert_with(|| divergent_barriers_and_calls(function));
                    function.kind == FunctionKind::Kernel && !split.iter().any(|&other| may_use_barrier_number(function, other, number))
                };
                if barrier == Some(number) && is_same(function, &mut split) {
                    removed.push((inst, ChangeReason::RepeatedBarrier));
                }
                barrier = Some(number);
                fences.clear();
            } else if is_fence(function, inst) {
                barrier = None;
                if fences.iter().any(|&earlier| is_at_least_as_strong_fence(function, earlier, inst)) {
                    removed.push((inst, ChangeReason::RepeatedFence));
                } else {
                    fences.push(inst);
                }
            } else if !keeps_barriers_redundant(function, inst) {
                barrier = None;
                fences.clear();
            }
        }
        function.blocks[block].insts.retain(|inst| !removed.iter().any(|(gone, _)| gone == inst));
        changes.extend(removed.into_iter().map(|(inst, reason)| CodeChange { inst, from: block, to: block, reason }));
    }
    changes
}

/// Returns the barrier number of an unguarded `BAR.SYNC` that waits for all threads of the thread block; `None` for other instructions.
fn thread_block_barrier_number(function: &Function, inst: Inst) -> Option<i64> {
    let data = &function.insts[inst];
    let is_plain = data.is_machine(Opcode::BAR) && data.modifiers.first() == Some(&Symbol::SYNC) && data.guard.is_none();
    match function.operands(inst) {
        [number] if is_plain => number.integer(),
        // A `BAR.SYNC` without a thread count waits for all threads of the thread block.
        [number, threads] if is_plain && threads.integer() == Some(0) => number.integer(),
        _ => None,
    }
}

/// Returns whether a barrier or a call may make threads wait at, or arrive at, the barrier `number`.
fn may_use_barrier_number(function: &Function, inst: Inst, number: i64) -> bool {
    thread_block_barrier_number(function, inst).is_none_or(|other| other == number)
}

/// Returns whether an instruction is a fence that this strategy compares with others: an unguarded `MEMBAR`, `ERRBAR`, `CGAERRBAR` or
/// `CCTL.IVALL`.
fn is_fence(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_invalidation = data.is_machine(Opcode::CCTL) && data.modifiers.as_slice().iter().map(|name| name.spelling()).eq(["IVALL"]);
    let is_fence = matches!(data.op, Op::Machine(Opcode::MEMBAR | Opcode::ERRBAR | Opcode::CGAERRBAR)) || is_invalidation;
    is_fence && data.guard.is_none() && function.operands(inst).is_empty()
}

/// Returns whether the fence `earlier` orders at least the accesses that the fence `later` orders: it has the same opcode, and the same or
/// a larger scope.
fn is_at_least_as_strong_fence(function: &Function, earlier: Inst, later: Inst) -> bool {
    let (first, second) = (&function.insts[earlier], &function.insts[later]);
    if first.op != second.op {
        return false;
    }
    let scope = |inst: Inst| {
        let [kind, scope] = function.insts[inst].modifiers.as_slice() else { return None };
        Some((*kind, FENCE_SCOPES.iter().position(|&name| name == scope.spelling())?))
    };
    match (scope(earlier), scope(later)) {
        (Some((kind, large)), Some((other, small))) if first.is_machine(Opcode::MEMBAR) => kind == other && large >= small,
        _ => first.modifiers == second.modifiers,
    }
}

/// Returns whether two equal barriers or fences stay redundant with this instruction between them: it accesses no memory that is written,
/// and synchronizes at most the threads of its warp.
fn keeps_barriers_redundant(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    match data.op.effect() {
        Effect::None => true,
        Effect::Reads => matches!(data.op, Op::Machine(Opcode::LDC | Opcode::ULDC | Opcode::LDCU)),
        _ => data.is_machine(Opcode::WARPSYNC) || data.is_machine(Opcode::S2R),
    }
}

/// Returns the barriers that only some threads of a thread block may execute: those between a branch whose condition may differ among the
/// threads and its reconvergence point, guarded barriers, and those that are not a `BAR.SYNC` for all threads. Also returns all calls,
/// because the callee may execute such barriers.
fn divergent_barriers_and_calls(function: &Function) -> Vec<Inst> {
    let flow = ControlFlow::compute(function);
    let post_dominators = PostDominators::compute(function, &flow);
    let mut differs: BitSet<oriole_ir::Value> = BitSet::new(function.values.len());
    // The blocks that some threads may execute more often than others, or not at all.
    let mut split: BitSet<Block> = BitSet::new(function.blocks.len());
    let mut seen: BitSet<Block> = BitSet::new(function.blocks.len());
    loop {
        let mut is_changed = false;
        for &block in flow.reverse_post_order() {
            for &inst in &function.blocks[block].insts {
                // In a block that only some threads reach, the result of a phi may depend on the path that the thread took; so may the
                // result of a phi at the reconvergence point.
                let is_different = function.used(inst).any(|part| differs.contains(part.value))
                    || !is_uniform_in_thread_block(function, inst)
                    || function.insts[inst].is(Pseudo::Phi)
                        && flow.predecessors(block).iter().any(|&from| split.contains(from) || seen.contains(from));
                if is_different {
                    function.defined(inst).for_each(|value| is_changed |= differs.insert(value));
                }
            }
            let is_branch = |inst: Inst| {
                let data = &function.insts[inst];
                let guard = data.guard.is_some_and(|guard| matches!(guard.kind, OperandKind::Value(part) if differs.contains(part.value)));
                guard || data.is_machine(Opcode::BRX) && function.used(inst).any(|part| differs.contains(part.value))
            };
            if !seen.contains(block) && function.terminators(block).iter().any(|&inst| is_branch(inst)) {
                seen.insert(block);
                is_changed = true;
                let join = post_dominators.immediate(block);
                let mut work: Vec<Block> = flow.successors(block).to_vec();
                let mut visited: BitSet<Block> = BitSet::new(function.blocks.len());
                while let Some(next) = work.pop() {
                    if Some(next) != join && visited.insert(next) {
                        split.insert(next);
                        work.extend(flow.successors(next));
                    }
                }
            }
        }
        if !is_changed {
            break;
        }
    }
    let is_synchronization = |inst: Inst| {
        let data = &function.insts[inst];
        let is_call = data.op.effect() == Effect::Control
            && !matches!(data.op, Op::Machine(Opcode::BRA | Opcode::BRX | Opcode::EXIT | Opcode::BSSY | Opcode::BSYNC | Opcode::BREAK));
        data.is_machine(Opcode::BAR) || is_call
    };
    let blocks = function.layout.iter().filter(|&&block| flow.is_reachable(block));
    let insts = blocks.flat_map(|&block| function.blocks[block].insts.iter().map(move |&inst| (block, inst)));
    // Calls, guarded barriers and barriers with other operands are included wherever they are, because some threads may skip a barrier
    // there.
    insts
        .filter(|&(block, inst)| {
            is_synchronization(inst)
                && (split.contains(block) || function.insts[inst].guard.is_some() || thread_block_barrier_number(function, inst).is_none())
        })
        .map(|(_, inst)| inst)
        .collect()
}

/// Returns whether an instruction gives all threads of a thread block the same results if their sources are the same.
fn is_uniform_in_thread_block(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    match data.op {
        Op::Pseudo(pseudo) => pseudo != Pseudo::Entry,
        Op::Machine(opcode) => match opcode.properties().effect {
            Effect::None => data.guard.is_none(),
            Effect::Reads => matches!(opcode, Opcode::LDC | Opcode::ULDC | Opcode::LDCU),
            Effect::State => function
                .sources(inst)
                .iter()
                .all(|source| matches!(source.kind, OperandKind::Name(name) if name.spelling().starts_with("SR_CTAID") || name.spelling() == "SR_NTID")),
            _ => false,
        },
    }
}
