//! Strategy `software-pipelining`: in a loop of one block, loads the data of the next iteration before the arithmetic of this one, and then
//! orders regions as backend B.
//!
//! A load whose result starts a long chain of arithmetic delays every iteration by its latency. The loop is split into two stages, the
//! loads and the remaining instructions, and the stages of two iterations overlap:
//!
//! ```text
//! bb0:  ...                                bb0:  ...
//!       BRA bb1                                  %7 = LDG [%a0]                prologue: the first iteration
//! bb1:  %a = PHI %a0, bb0, %b, bb1               BRA bb1
//!       %x = LDG [%a]                      bb1:  %a = PHI %a0, bb0, %b, bb1
//!       ... chain with %x ...     becomes        %x = PHI %7, bb0, %8, bb1
//!       %b = IADD %a, 4                          ... chain with %x ...
//!       %p = ISETP.LT %b, %n                     %b = IADD %a, 4
//!       @%p BRA bb1; BRA bb2                     %p = ISETP.LT %b, %n
//!                                                @%p %8 = LDG [%b]             the next iteration, if there is one
//!                                                @%p BRA bb1; BRA bb2
//! ```
//!
//! If a conditional branch leads to the loop, the load before the loop has the condition of that branch as a guard. The guard of the load
//! in the loop is the condition of the branch at its end, so exactly the same addresses are read as before; the last iteration needs no
//! epilogue. The regions are ordered afterwards: backend B moves the load up, because it depends only on the address and on the condition.
//! The result for the next iteration needs registers of its own (at most `pipeline-registers`) and a copy in each iteration. A loop that
//! the pass `unroll` has unrolled by a factor is pipelined as it is; its copies of the body then use different registers, so fewer copies
//! are needed.
//!
//! A load is moved if
//!
//! - the loop writes no memory that the load may read, and has no barrier or fence (if the loaded memory is constant while the kernel runs,
//!   this is not required); and no thread may exit or call a function inside the loop body;
//! - its address depends on registers that change from iteration to iteration only by arithmetic (at most `pipeline-address`
//!   instructions for all loads, which are computed for the next iteration instead of this one);
//! - it has a gain: the latency of the load or the length of the dependence chain after it, whichever is shorter. The largest gain of the
//!   moved loads must be at least `pipeline-gain` cycles plus one cycle for each register to copy.
//!
//! Departures from modulo scheduling (Rau 1994, "Iterative Modulo Scheduling"): there are always two stages, the initiation interval
//! results from the order of the block instead of being chosen, and copies take the place of rotating registers. Time: linear in the
//! instructions of the loops.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Guard, Inst, MemoryAccess, Op, Operand, OperandKind, Order, Part, Pseudo, RegFile, Space, Value};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::rearrange::{
    BlockTimes, ChangeReason, CodeChange, RearrangeContext, insert_before_end, is_arithmetic, result_register_count, sched_class_of,
    unguarded_weak_load,
};
use super::weighted_variant::{Variation, WeightedVariant};

/// Maximum number of instructions in a loop that is pipelined.
const MAX_LOOP_INSTRUCTIONS: usize = 1_000;

/// Loads the data of the next iteration of a one-block loop before the arithmetic of this iteration; the strategy `software-pipelining` of
/// the command line.
pub(super) const SOFTWARE_PIPELINING: WeightedVariant = WeightedVariant {
    name: "software-pipelining",
    description: "loads the data of the next iteration during this one, then as b",
    variation: Variation::Rearrange(rearrange),
};

/// Moves loads one iteration ahead in the loops of a function that consist of one block. Returns every change with its reason.
fn rearrange(function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
    change_single_block_loops(function, context, |function, single_loop, times, changes| {
        let found = choose_loads(function, single_loop, times, context);
        if !found.loads.is_empty() {
            move_loads_ahead(function, single_loop, &found, changes);
        }
    })
}

/// Calls `change` for every loop of one block, in layout order, and returns the changes that these calls append to the list. `change` may
/// change the instructions of a function, but not its control-flow graph.
pub(super) fn change_single_block_loops(
    function: &mut Function,
    context: RearrangeContext<'_>,
    mut change: impl FnMut(&mut Function, &SingleBlockLoop, &BlockTimes<'_>, &mut Vec<CodeChange>),
) -> Vec<CodeChange> {
    let flow = ControlFlow::compute(function);
    let times = BlockTimes::new(function, context);
    let mut changes = Vec::new();
    for block in function.layout.clone() {
        if let Some(single_loop) = SingleBlockLoop::find(function, &flow, block) {
            change(function, &single_loop, &times, &mut changes);
        }
    }
    changes
}

/// A loop that consists of one block, is entered from one block, and ends with a conditional branch back to its start.
pub(super) struct SingleBlockLoop {
    /// The block that is the loop.
    pub(super) block: Block,
    /// The block from which the loop is entered.
    pub(super) entry_block: Block,
    /// The condition under which `entry_block` branches to the loop; `None` if the loop is its only successor.
    pub(super) entry_guard: Option<Guard>,
    /// The condition under which another iteration follows.
    pub(super) continue_guard: Guard,
    /// For each phi of the loop, its source from `entry_block` (first iteration) and its source from the loop (next iteration).
    pub(super) phis: FxHashMap<Value, (Part, Part)>,
}

impl SingleBlockLoop {
    /// Returns the loop that a block forms; `None` if the block is not a loop of this kind, or has more than [`MAX_LOOP_INSTRUCTIONS`]
    /// instructions.
    pub(super) fn find(function: &Function, flow: &ControlFlow, block: Block) -> Option<SingleBlockLoop> {
        let [first, second] = *flow.predecessors(block) else { return None };
        let entry_block = match (first == block, second == block) {
            (true, false) => second,
            (false, true) => first,
            _ => return None,
        };
        if function.blocks[block].insts.len() > MAX_LOOP_INSTRUCTIONS {
            return None;
        }
        let entry = match function.terminators(entry_block) {
            [end] if function.insts[*end].is_machine(Opcode::BRA) => None,
            _ => Some(branch_guard(function, entry_block, block)?),
        };
        let guard = branch_guard(function, block, block)?;
        let mut phis = FxHashMap::default();
        for &phi in function.phis(block) {
            let source = |from: Block| {
                function.sources(phi).chunks_exact(2).find(|pair| pair[1].kind == OperandKind::Block(from)).and_then(|pair| pair[0].part())
            };
            if let (Some(result), Some(start), Some(next)) = (function.results(phi)[0].value(), source(entry_block), source(block)) {
                phis.insert(result, (start, next));
            }
        }
        Some(SingleBlockLoop { block, entry_block, entry_guard: entry, continue_guard: guard, phis })
    }
}

/// Returns the condition under which block `from` branches to `to`. `None` if `from` does not end with two direct branches of which exactly
/// one leads to `to`, or if the condition is not a predicate register of the thread.
pub(super) fn branch_guard(function: &Function, from: Block, to: Block) -> Option<Guard> {
    let [taken, other] = *function.terminators(from) else { return None };
    let target = |inst: Inst| match function.operands(inst) {
        [operand] if function.insts[inst].is_machine(Opcode::BRA) && function.insts[inst].modifiers.is_empty() => match operand.kind {
            OperandKind::Block(target) => Some(target),
            _ => None,
        },
        _ => None,
    };
    let (taken_to, other_to) = (target(taken)?, target(other)?);
    let guard = function.insts[taken].guard?;
    let is_thread_predicate = matches!(guard.kind, OperandKind::Value(part) if function.values[part.value].file == RegFile::Predicate);
    match (taken_to == to, other_to == to) {
        (true, false) if is_thread_predicate => Some(guard),
        (false, true) if is_thread_predicate => Some(Guard { negated: !guard.negated, ..guard }),
        _ => None,
    }
}

/// The loads of a loop that are moved one iteration ahead.
struct PipelinedLoads {
    /// The loads, in program order.
    loads: Vec<Inst>,
    /// The instructions of the loop that compute the addresses of these loads, in program order.
    address_insts: Vec<Inst>,
}

/// The contents of a loop that may prevent a load from being executed one iteration early.
#[derive(Default)]
pub(super) struct LoopConflicts {
    /// Whether the loop has an exit or a call inside the block.
    may_exit_or_call: bool,
    /// Whether the loop has a barrier, a fence, or an access that is volatile or not weak.
    has_synchronization: bool,
    /// The memory spaces that the loop writes.
    written_spaces: Vec<Space>,
}

impl LoopConflicts {
    /// Collects the exits, calls, synchronizations and writes of a block.
    pub(super) fn of_block(function: &Function, block: Block) -> LoopConflicts {
        let mut found = LoopConflicts::default();
        let insts = &function.blocks[block].insts;
        for &inst in &insts[..insts.len() - function.terminators(block).len()] {
            let data = &function.insts[inst];
            let access = data.memory.map(|id| function.accesses[id]);
            if access.is_some_and(|access| access.volatile || access.order != Order::Weak) {
                found.has_synchronization = true;
            }
            match data.op.effect() {
                Effect::None | Effect::Reads | Effect::Lanes | Effect::State => {}
                // A write whose memory access is not described may be to any space.
                Effect::Writes => found.written_spaces.push(access.map_or(Space::Generic, |access| access.space)),
                Effect::Control => found.may_exit_or_call = true,
                _ => found.has_synchronization = true,
            }
        }
        found
    }

    /// Returns whether a load with this memory access may be executed one iteration early, before the last instructions of the previous
    /// iteration.
    pub(super) fn may_load_one_iteration_early(&self, access: &MemoryAccess) -> bool {
        let may_alias = |space: &Space| *space == Space::Generic || access.space == Space::Generic || *space == access.space;
        let is_constant = access.constant && access.space == Space::Global;
        !self.may_exit_or_call && (is_constant || !self.has_synchronization && !self.written_spaces.iter().any(may_alias))
    }
}

/// Returns the arithmetic instructions of the loop on which the address of `inst` depends; `None` if the address depends on other
/// instructions of the loop, such as loads. `definitions_in_loop` has the defining instruction of each value of the loop.
pub(super) fn address_slice(
    function: &Function,
    single_loop: &SingleBlockLoop,
    definitions_in_loop: &FxHashMap<Value, Inst>,
    inst: Inst,
) -> Option<FxHashSet<Inst>> {
    let mut slice: FxHashSet<Inst> = FxHashSet::default();
    let mut work = vec![inst];
    while let Some(next) = work.pop() {
        for part in function.used(next) {
            let Some(&home) = definitions_in_loop.get(&part.value) else { continue };
            if function.insts[home].is(Pseudo::Phi) {
                single_loop.phis.get(&part.value)?;
            } else if !is_arithmetic(function, home) {
                return None;
            } else if slice.insert(home) {
                work.push(home);
            }
        }
    }
    Some(slice)
}

/// Returns the defining instruction of each value that a block defines.
pub(super) fn definitions_in_block(function: &Function, block: Block) -> FxHashMap<Value, Inst> {
    function.blocks[block].insts.iter().flat_map(|&inst| function.defined(inst).map(move |value| (value, inst))).collect()
}

/// Chooses the loads of a loop that are worth executing one iteration ahead, and the instructions that compute their addresses.
fn choose_loads(
    function: &Function,
    single_loop: &SingleBlockLoop,
    times: &BlockTimes<'_>,
    context: RearrangeContext<'_>,
) -> PipelinedLoads {
    let mut chosen = PipelinedLoads { loads: Vec::new(), address_insts: Vec::new() };
    let insts = &function.blocks[single_loop.block].insts;
    let conflicts = LoopConflicts::of_block(function, single_loop.block);
    let is_candidate =
        |inst: Inst| unguarded_weak_load(function, inst).is_some_and(|access| conflicts.may_load_one_iteration_early(access));
    if !insts.iter().any(|&inst| is_candidate(inst)) {
        return chosen;
    }
    let definitions_in_loop = definitions_in_block(function, single_loop.block);
    let heights = times.heights(function, single_loop.block);
    let mut slices: FxHashSet<Inst> = FxHashSet::default();
    let (mut registers, mut gain) = (0, 0);
    for (position, &inst) in insts.iter().enumerate().filter(|&(_, &inst)| is_candidate(inst)) {
        let Some(slice) = address_slice(function, single_loop, &definitions_in_loop, inst) else { continue };
        let latency = sched_class_of(function, inst).and_then(|class| context.model.time(class)).map_or(0, |time| u32::from(time.usual));
        let saved = latency.min(heights[position].saturating_sub(latency));
        let needed = result_register_count(function, inst);
        let union: FxHashSet<Inst> = slices.union(&slice).copied().collect();
        if registers + needed > context.knobs.pipeline_registers || union.len() > context.knobs.pipeline_address || saved == 0 {
            continue;
        }
        slices = union;
        registers += needed;
        gain = gain.max(saved);
        chosen.loads.push(inst);
    }
    // Each register of a moved load needs one copy per iteration, which is subtracted from the gain.
    if gain < context.knobs.pipeline_gain + registers as u32 {
        chosen.loads.clear();
    }
    chosen.address_insts = insts.iter().copied().filter(|inst| slices.contains(inst)).collect();
    chosen
}

/// Renames values when instructions of a loop are copied for another iteration: maps each value to its replacement in the copies.
#[derive(Clone)]
pub(super) struct ValueRenaming {
    /// For each value of the loop, the registers that replace it in the copies.
    parts: FxHashMap<Value, Part>,
}

impl ValueRenaming {
    /// Creates the mapping for copies of the next iteration if `is_next`, otherwise of the first iteration: each phi is mapped to its
    /// source.
    pub(super) fn new(single_loop: &SingleBlockLoop, is_next: bool) -> ValueRenaming {
        ValueRenaming { parts: single_loop.phis.iter().map(|(&phi, &(start, next))| (phi, if is_next { next } else { start })).collect() }
    }

    /// Returns the mapping for one iteration later: each phi is mapped to the value that the copies compute for its next iteration.
    pub(super) fn for_next_iteration(&self, single_loop: &SingleBlockLoop) -> ValueRenaming {
        let parts = single_loop.phis.iter().map(|(&phi, &(_, next))| match self.renamed_operand(OperandKind::Value(next)) {
            OperandKind::Value(part) => (phi, part),
            _ => (phi, next),
        });
        ValueRenaming { parts: parts.collect() }
    }

    /// Returns the operand kind that replaces `kind` in the copies. Operands other than values of the loop are not changed.
    pub(super) fn renamed_operand(&self, kind: OperandKind) -> OperandKind {
        match kind {
            OperandKind::Value(part) => match self.parts.get(&part.value) {
                Some(new) => OperandKind::Value(Part { value: new.value, first: new.first + part.first, count: part.count }),
                None => kind,
            },
            other => other,
        }
    }

    /// Copies an instruction for another iteration, with the given guard and with new values as results. Later copies read these values.
    pub(super) fn copy(&mut self, function: &mut Function, inst: Inst, guard: Option<Guard>) -> Inst {
        let data = function.insts[inst].clone();
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.operands(inst));
        for operand in &mut operands[data.result_count()..] {
            operand.kind = self.renamed_operand(operand.kind);
        }
        for operand in &mut operands[..data.result_count()] {
            if let OperandKind::Value(part) = operand.kind {
                let copy = function.new_value(function.values[part.value]);
                self.parts.insert(part.value, function.whole(copy));
                operand.kind = OperandKind::Value(Part { value: copy, ..part });
            }
        }
        let copy = function.new_inst(data.op, data.modifiers.clone(), guard, &operands, data.result_count());
        function.insts[copy].memory = data.memory;
        function.insts[copy].location = data.location;
        function.insts[copy].may_contract = data.may_contract;
        copy
    }
}

/// Moves the chosen loads one iteration ahead: inserts copies before the loop and at its end, and phis in place of the loads.
fn move_loads_ahead(function: &mut Function, single_loop: &SingleBlockLoop, chosen: &PipelinedLoads, changes: &mut Vec<CodeChange>) {
    let (mut first, mut next) = (ValueRenaming::new(single_loop, false), ValueRenaming::new(single_loop, true));
    let addresses: Vec<Inst> = chosen.address_insts.iter().map(|&inst| first.copy(function, inst, None)).collect();
    let loads: Vec<Inst> = chosen.loads.iter().map(|&inst| first.copy(function, inst, single_loop.entry_guard)).collect();
    changes.extend(loads.iter().map(|&inst| CodeChange {
        inst,
        from: single_loop.block,
        to: single_loop.entry_block,
        reason: ChangeReason::FirstIteration,
    }));
    insert_before_end(function, single_loop.entry_block, addresses.into_iter().chain(loads.iter().copied()));
    let next_addresses: Vec<Inst> = chosen.address_insts.iter().map(|&inst| next.copy(function, inst, None)).collect();
    let next_loads: Vec<Inst> = chosen.loads.iter().map(|&inst| next.copy(function, inst, Some(single_loop.continue_guard))).collect();
    changes.extend(next_loads.iter().map(|&inst| CodeChange {
        inst,
        from: single_loop.block,
        to: single_loop.block,
        reason: ChangeReason::NextIteration,
    }));
    insert_before_end(function, single_loop.block, next_addresses.into_iter().chain(next_loads.iter().copied()));
    // The old results become phis of the results of the two copies, so that their readers stay as they are.
    let mut phis = Vec::new();
    for ((&old, &start), &ahead) in chosen.loads.iter().zip(&loads).zip(&next_loads) {
        for at in 0..function.insts[old].result_count() {
            let result = function.results(old)[at];
            let (Some(value), Some(start), Some(ahead)) =
                (result.value(), function.results(start)[at].value(), function.results(ahead)[at].value())
            else {
                continue;
            };
            let whole = |function: &Function, value: Value| Operand::from(function.whole(value));
            let operands = [
                whole(function, value),
                whole(function, start),
                single_loop.entry_block.into(),
                whole(function, ahead),
                single_loop.block.into(),
            ];
            let phi = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &operands, 1);
            function.insts[phi].location = function.insts[old].location;
            phis.push(phi);
        }
    }
    let insts = &mut function.blocks[single_loop.block].insts;
    insts.retain(|inst| !chosen.loads.contains(inst));
    insts.splice(0..0, phis);
    remove_unread_instructions(function, single_loop.block, &chosen.address_insts);
}

/// Removes from `block` those instructions of `insts` whose results are no longer read.
fn remove_unread_instructions(function: &mut Function, block: Block, insts: &[Inst]) {
    let mut reads: FxHashMap<Value, usize> = FxHashMap::default();
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        function.used(inst).for_each(|part| *reads.entry(part.value).or_default() += 1);
    }
    let mut gone: FxHashSet<Inst> = FxHashSet::default();
    for &inst in insts.iter().rev() {
        if function.defined(inst).all(|value| reads.get(&value).is_none_or(|&count| count == 0)) {
            gone.insert(inst);
            for part in function.used(inst) {
                if let Some(count) = reads.get_mut(&part.value) {
                    *count -= 1;
                }
            }
        }
    }
    function.blocks[block].insts.retain(|inst| !gone.contains(inst));
}
