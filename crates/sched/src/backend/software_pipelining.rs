//! Strategy `software-pipelining`: in a loop of one block, loads the data of the next iteration before the arithmetic of this one, and then
//! orders regions as backend B.
//!
//! A load whose result starts a long chain of arithmetic delays every iteration by its latency. The loop is split into two stages, the
//! loads and the rest, and the stages of two iterations overlap:
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
//! If a branch leads to the loop, the load before the loop has the condition of that branch as a guard. The guard of the load in the loop is
//! the condition of the branch at its end, so exactly the same addresses are read as before; the last iteration needs no
//! epilogue. The regions are ordered afterwards: B moves the load up, as it depends on the address and on the condition only. The result of
//! the next iteration needs registers of its own (`pipeline-registers`) and a copy in each iteration. Iterations that the pass `unroll` has
//! joined are pipelined together, which is how registers rotate.
//!
//! A load is moved if
//!
//! - the loop writes no memory that it may read, and has no barrier or fence, unless the memory is constant while the kernel runs; and no
//!   thread may leave or call in the middle of the loop;
//! - its address depends on registers that change from iteration to iteration only by arithmetic (at most `pipeline-address`
//!   instructions for all loads, which are computed for the next iteration instead of this one);
//! - the shorter one of the latency and of the chain that follows the load is at least `pipeline-gain` cycles and a copy for each register.
//!
//! Departures from modulo scheduling: there are two stages, the initiation interval follows from the order of the block, and the
//! registers rotate by copies, or by iterations that were joined before. Time: linear in the instructions of the loops.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Guard, Inst, MemoryAccess, Op, Operand, OperandKind, Order, Part, Pseudo, RegFile, Space, Value};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::rearrange::{
    BlockTimes, Change, ChangeReason, Surroundings, class_of, insert_before_end, is_arithmetic, plain_load, result_registers,
};
use super::reason::Reason;
use super::strategy::{RegionScheduler, Strategy};
use super::weighted::WeightedScheduling;

/// Maximum number of instructions of a loop.
const LARGEST_LOOP: usize = 1_000;

/// The strategy `software-pipelining`.
pub(super) struct SoftwarePipelining;

impl Strategy for SoftwarePipelining {
    fn name(&self) -> &'static str {
        "software-pipelining"
    }

    fn description(&self) -> &'static str {
        "loads the data of the next iteration during this one, then as b"
    }

    fn reasons(&self) -> &'static [Reason] {
        WeightedScheduling.reasons()
    }

    fn scheduler(&self) -> RegionScheduler {
        WeightedScheduling.scheduler()
    }

    fn reports_register_demand(&self) -> bool {
        false
    }

    fn rearranges(&self) -> bool {
        true
    }

    fn rearrange(&self, function: &mut Function, surroundings: Surroundings<'_>) -> Vec<Change> {
        let flow = ControlFlow::compute(function);
        let times = BlockTimes::new(function, surroundings);
        let mut changes = Vec::new();
        for block in function.layout.clone() {
            let Some(shape) = LoopShape::find(function, &flow, block) else { continue };
            let found = choose(function, &shape, &times, surroundings);
            if !found.loads.is_empty() {
                pipeline(function, &shape, &found, &mut changes);
            }
        }
        changes
    }
}

/// A loop of one block with one entry, whose branch at the end decides about the next iteration.
pub(super) struct LoopShape {
    /// The block.
    pub(super) block: Block,
    /// The block before the loop.
    pub(super) before: Block,
    /// The condition under which the loop follows the block before it; `None` if it is the only successor.
    pub(super) entry: Option<Guard>,
    /// The condition of the next iteration.
    pub(super) guard: Guard,
    /// The phis of the block: the part that each has in the first and in the next iteration.
    pub(super) phis: FxHashMap<Value, (Part, Part)>,
}

impl LoopShape {
    /// Returns the shape of the loop that a block is; `None` if it is no such loop.
    pub(super) fn find(function: &Function, flow: &ControlFlow, block: Block) -> Option<LoopShape> {
        let [first, second] = *flow.predecessors(block) else { return None };
        let before = match (first == block, second == block) {
            (true, false) => second,
            (false, true) => first,
            _ => return None,
        };
        if function.blocks[block].insts.len() > LARGEST_LOOP {
            return None;
        }
        let entry = match function.terminators(before) {
            [end] if function.insts[*end].is_machine(Opcode::BRA) => None,
            _ => Some(branch_guard(function, before, block)?),
        };
        let guard = branch_guard(function, block, block)?;
        let mut phis = FxHashMap::default();
        for &phi in function.phis(block) {
            let source = |from: Block| {
                function.sources(phi).chunks_exact(2).find(|pair| pair[1].kind == OperandKind::Block(from)).and_then(|pair| pair[0].part())
            };
            if let (Some(result), Some(start), Some(next)) = (function.results(phi)[0].value(), source(before), source(block)) {
                phis.insert(result, (start, next));
            }
        }
        Some(LoopShape { block, before, entry, guard, phis })
    }
}

/// Returns the condition under which the two branches at the end of a block lead to `to`; `None` if it is no predicate of the thread.
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

/// The loads of a loop to move.
struct Chosen {
    /// The loads, in order.
    loads: Vec<Inst>,
    /// The arithmetic of their addresses in the loop, in order.
    addresses: Vec<Inst>,
}

/// The accesses of a loop that a load could conflict with.
#[derive(Default)]
pub(super) struct Conflicts {
    /// Whether threads may leave or call inside the block.
    leaves: bool,
    /// Whether threads may wait for others, or accesses are ordered.
    is_ordered: bool,
    /// The spaces that are written.
    written: Vec<Space>,
}

impl Conflicts {
    /// Collects the accesses of a block.
    pub(super) fn of(function: &Function, block: Block) -> Conflicts {
        let mut found = Conflicts::default();
        let insts = &function.blocks[block].insts;
        for &inst in &insts[..insts.len() - function.terminators(block).len()] {
            let data = &function.insts[inst];
            let access = data.memory.map(|id| function.accesses[id]);
            if access.is_some_and(|access| access.volatile || access.order != Order::Weak) {
                found.is_ordered = true;
            }
            match data.op.effect() {
                Effect::None | Effect::Reads | Effect::Lanes | Effect::State => {}
                // A write without a description may be anywhere.
                Effect::Writes => found.written.push(access.map_or(Space::Generic, |access| access.space)),
                Effect::Control => found.leaves = true,
                _ => found.is_ordered = true,
            }
        }
        found
    }

    /// Returns whether a load may be executed before the rest of the previous iteration.
    pub(super) fn allow(&self, access: &MemoryAccess) -> bool {
        let may_alias = |space: &Space| *space == Space::Generic || access.space == Space::Generic || *space == access.space;
        let is_constant = access.constant && access.space == Space::Global;
        !self.leaves && (is_constant || !self.is_ordered && !self.written.iter().any(may_alias))
    }
}

/// Returns the arithmetic in the loop that an instruction needs for its address; `None` if the address depends on anything else that changes
/// in the loop. `homes` has the defining instruction of each value of the loop.
pub(super) fn address_slice(function: &Function, shape: &LoopShape, homes: &FxHashMap<Value, Inst>, inst: Inst) -> Option<FxHashSet<Inst>> {
    let mut slice: FxHashSet<Inst> = FxHashSet::default();
    let mut work = vec![inst];
    while let Some(next) = work.pop() {
        for part in function.used(next) {
            let Some(&home) = homes.get(&part.value) else { continue };
            if function.insts[home].is(Pseudo::Phi) {
                shape.phis.get(&part.value)?;
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
pub(super) fn definitions(function: &Function, block: Block) -> FxHashMap<Value, Inst> {
    function.blocks[block].insts.iter().flat_map(|&inst| function.defined(inst).map(move |value| (value, inst))).collect()
}

/// Chooses the loads of a loop to move.
fn choose(function: &Function, shape: &LoopShape, times: &BlockTimes<'_>, surroundings: Surroundings<'_>) -> Chosen {
    let mut chosen = Chosen { loads: Vec::new(), addresses: Vec::new() };
    let insts = &function.blocks[shape.block].insts;
    let conflicts = Conflicts::of(function, shape.block);
    let is_candidate = |inst: Inst| plain_load(function, inst).is_some_and(|access| conflicts.allow(access));
    if !insts.iter().any(|&inst| is_candidate(inst)) {
        return chosen;
    }
    let homes = definitions(function, shape.block);
    let heights = times.heights(function, shape.block);
    let mut slices: FxHashSet<Inst> = FxHashSet::default();
    let (mut registers, mut gain) = (0, 0);
    for (position, &inst) in insts.iter().enumerate().filter(|&(_, &inst)| is_candidate(inst)) {
        let Some(slice) = address_slice(function, shape, &homes, inst) else { continue };
        let latency = class_of(function, inst).and_then(|class| surroundings.model.time(class)).map_or(0, |time| u32::from(time.usual));
        let saved = latency.min(heights[position].saturating_sub(latency));
        let needed = result_registers(function, inst);
        let union: FxHashSet<Inst> = slices.union(&slice).copied().collect();
        if registers + needed > surroundings.knobs.pipeline_registers || union.len() > surroundings.knobs.pipeline_address || saved == 0 {
            continue;
        }
        slices = union;
        registers += needed;
        gain = gain.max(saved);
        chosen.loads.push(inst);
    }
    // Each register is copied once in an iteration.
    if gain < surroundings.knobs.pipeline_gain + registers as u32 {
        chosen.loads.clear();
    }
    chosen.addresses = insts.iter().copied().filter(|inst| slices.contains(inst)).collect();
    chosen
}

/// Replaces the values of a loop in copies of its instructions.
#[derive(Clone)]
pub(super) struct Renaming {
    parts: FxHashMap<Value, Part>,
}

impl Renaming {
    /// Maps the phis of the loop to their values in the first iteration, or in the next one.
    pub(super) fn new(shape: &LoopShape, is_next: bool) -> Renaming {
        Renaming { parts: shape.phis.iter().map(|(&phi, &(start, next))| (phi, if is_next { next } else { start })).collect() }
    }

    /// Returns the renaming of the iteration after the one that this is for: each phi has the value that was computed for it.
    pub(super) fn advanced(&self, shape: &LoopShape) -> Renaming {
        let parts = shape.phis.iter().map(|(&phi, &(_, next))| match self.kind(OperandKind::Value(next)) {
            OperandKind::Value(part) => (phi, part),
            _ => (phi, next),
        });
        Renaming { parts: parts.collect() }
    }

    /// Returns what stands for an operand in the copies.
    pub(super) fn kind(&self, kind: OperandKind) -> OperandKind {
        match kind {
            OperandKind::Value(part) => match self.parts.get(&part.value) {
                Some(new) => OperandKind::Value(Part { value: new.value, first: new.first + part.first, count: part.count }),
                None => kind,
            },
            other => other,
        }
    }

    /// Copies an instruction with new results, which later copies read.
    pub(super) fn copy(&mut self, function: &mut Function, inst: Inst, guard: Option<Guard>) -> Inst {
        let data = function.insts[inst].clone();
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.operands(inst));
        for operand in &mut operands[data.result_count()..] {
            operand.kind = self.kind(operand.kind);
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

/// Moves the chosen loads one iteration ahead.
fn pipeline(function: &mut Function, shape: &LoopShape, chosen: &Chosen, changes: &mut Vec<Change>) {
    let (mut first, mut next) = (Renaming::new(shape, false), Renaming::new(shape, true));
    let addresses: Vec<Inst> = chosen.addresses.iter().map(|&inst| first.copy(function, inst, None)).collect();
    let loads: Vec<Inst> = chosen.loads.iter().map(|&inst| first.copy(function, inst, shape.entry)).collect();
    changes.extend(loads.iter().map(|&inst| Change { inst, from: shape.block, to: shape.before, reason: ChangeReason::FirstIteration }));
    insert_before_end(function, shape.before, addresses.into_iter().chain(loads.iter().copied()));
    let next_addresses: Vec<Inst> = chosen.addresses.iter().map(|&inst| next.copy(function, inst, None)).collect();
    let next_loads: Vec<Inst> = chosen.loads.iter().map(|&inst| next.copy(function, inst, Some(shape.guard))).collect();
    changes.extend(next_loads.iter().map(|&inst| Change { inst, from: shape.block, to: shape.block, reason: ChangeReason::NextIteration }));
    insert_before_end(function, shape.block, next_addresses.into_iter().chain(next_loads.iter().copied()));
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
            let operands =
                [whole(function, value), whole(function, start), shape.before.into(), whole(function, ahead), shape.block.into()];
            let phi = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &operands, 1);
            function.insts[phi].location = function.insts[old].location;
            phis.push(phi);
        }
    }
    let insts = &mut function.blocks[shape.block].insts;
    insts.retain(|inst| !chosen.loads.contains(inst));
    insts.splice(0..0, phis);
    remove_unread(function, shape.block, &chosen.addresses);
}

/// Removes those of the instructions of a block whose results no instruction reads any more.
fn remove_unread(function: &mut Function, block: Block, insts: &[Inst]) {
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
