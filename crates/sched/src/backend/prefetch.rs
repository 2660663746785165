//! Strategy `prefetch`: in a loop of one block, prefetches the lines that later iterations load, and then orders regions as backend B.
//!
//! If an iteration is shorter than the latency of memory, loading one iteration ahead ([`super::software_pipelining`]) does not hide that
//! latency. A prefetch (`CCTL.PF1`) needs no registers for its result, so it can be several iterations ahead:
//!
//! ```text
//! bb1:  %i = PHI %z, bb0, %j, bb1           bb1:  %i = PHI %z, bb0, %j, bb1
//!       %a = IMAD.WIDE %i, 0x80, %b               %a = IMAD.WIDE %i, 0x80, %b
//!       %x = LDG [%a]                             %x = LDG [%a]
//!       ...                         becomes       ...
//!       %j = IADD3 %i, 1                          %j = IADD3 %i, 1
//!       %p = ISETP.LT %j, %n                      %p = ISETP.LT %j, %n
//!       @%p BRA bb1                               %k = IADD3 %j, 1                   two iterations ahead
//!                                                 %q = ISETP.LT %k, %n, %p           if both are executed
//!                                                 %c = IMAD.WIDE %k, 0x80, %b
//!                                                 @%q CCTL.E.PF1 [%c]
//!                                                 @%p BRA bb1
//! ```
//!
//! The distance is the latency of the load divided by the cycles of an iteration, at most `prefetch-distance`. The counters and the
//! condition of the loop are computed for the iterations in between, and the conditions are ANDed. So only addresses that a later iteration
//! loads are prefetched, and the prefetch cannot fault. For a loop whose condition is not of the form above the distance is 1, and the
//! condition of the loop is the guard. At most `prefetch-lines` lines are prefetched in an iteration.
//!
//! The first-level cache is not coherent: a line must not be fetched before a synchronization that precedes the load. So only loads are
//! prefetched that [`super::software_pipelining`] could move: loads of memory that is constant while the kernel runs, and loads in loops
//! that do not synchronize and do not write memory that the loads may read.
//!
//! The description of ptxas says that its strategy "inserts and schedules memory prefetch instructions".

use oriole_ir::{Function, Guard, Inst, MemoryAccess, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Space, Value};
use oriole_isa::{Opcode, Symbol, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};

use super::rearrange::{
    BlockTimes, ChangeReason, CodeChange, RearrangeContext, insert_before_end, is_arithmetic, sched_class_of, unguarded_weak_load,
};
use super::software_pipelining::{
    LoopConflicts, SingleBlockLoop, ValueRenaming, address_slice, change_single_block_loops, definitions_in_block,
};
use super::weighted_variant::{Variation, WeightedVariant};

/// Size of a cache line, in bytes.
const CACHE_LINE_BYTES: i64 = 128;

/// Prefetches the lines that later iterations of a one-block loop load; the strategy `prefetch` of the command line.
pub(super) const PREFETCH: WeightedVariant = WeightedVariant {
    name: "prefetch",
    description: "prefetches the lines that later iterations load, then as b",
    variation: Variation::Rearrange(rearrange),
};

/// Inserts prefetches into the loops of a function that consist of one block. Returns every inserted prefetch as a change with its reason.
fn rearrange(function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
    change_single_block_loops(function, context, |function, single_loop, times, changes| {
        let Some(plan) = PrefetchPlan::find(function, single_loop, times, context) else { return };
        let block = single_loop.block;
        for inst in plan.apply(function, single_loop) {
            changes.push(CodeChange { inst, from: block, to: block, reason: ChangeReason::LaterIteration });
        }
    })
}

/// The prefetches to insert into a loop.
struct PrefetchPlan {
    /// The address of each cache line to prefetch: a base value and a constant offset in bytes.
    lines: Vec<(Part, i64)>,
    /// The instructions of the loop that compute the bases, in program order.
    address_insts: Vec<Inst>,
    /// Number of iterations from a prefetch to the load that it is for.
    distance: u32,
    /// The instructions that compute the loop-carried values and the loop condition of the next iteration, in program order; empty if the
    /// distance is 1.
    next_iteration_insts: Vec<Inst>,
}

impl PrefetchPlan {
    /// Chooses the cache lines to prefetch in a loop, and the distance in iterations. `None` if no load of the loop can be prefetched, or
    /// if the addresses take too many instructions (knob `pipeline-address`).
    fn find(
        function: &Function,
        single_loop: &SingleBlockLoop,
        times: &BlockTimes<'_>,
        context: RearrangeContext<'_>,
    ) -> Option<PrefetchPlan> {
        let insts = &function.blocks[single_loop.block].insts;
        let definitions_in_loop = definitions_in_block(function, single_loop.block);
        let conflicts = LoopConflicts::of_block(function, single_loop.block);
        let mut slices: FxHashSet<Inst> = FxHashSet::default();
        let mut lines: Vec<(Part, i64)> = Vec::new();
        let mut latency = 0;
        for &inst in insts {
            if lines.len() >= context.knobs.prefetch_lines {
                break;
            }
            let Some(access) = unguarded_weak_load(function, inst)
                .filter(|access| access.space == Space::Global && conflicts.may_load_one_iteration_early(access))
            else {
                continue;
            };
            let Some((base, offset)) = base_and_offset_of_load(function, inst) else { continue };
            // The line of an address that does not change stays in the cache after the first load, so it needs no prefetch.
            let Some(slice) =
                address_slice(function, single_loop, &definitions_in_loop, inst).filter(|_| definitions_in_loop.contains_key(&base.value))
            else {
                continue;
            };
            if access.bytes == 0
                || lines.iter().any(|&(known, at)| known == base && at.div_euclid(CACHE_LINE_BYTES) == offset.div_euclid(CACHE_LINE_BYTES))
            {
                continue;
            }
            slices.extend(slice);
            lines.push((base, offset));
            let usual = sched_class_of(function, inst).and_then(|class| context.model.time(class)).map_or(0, |time| u32::from(time.usual));
            latency = latency.max(usual);
        }
        if lines.is_empty() || slices.len() > context.knobs.pipeline_address {
            return None;
        }
        // Estimated cycles of an iteration whose loads hit the cache: the critical path without the latency of the loads, and at least one
        // cycle for each instruction.
        let longest = times.heights(function, single_loop.block).into_iter().max().unwrap_or(0);
        let iteration = longest.saturating_sub(latency).max(insts.len() as u32);
        let wanted = latency.div_ceil(iteration.max(1)).clamp(1, context.knobs.prefetch_distance.max(1));
        let steps = next_iteration_insts(function, single_loop, &definitions_in_loop, &slices)
            .filter(|steps| steps.len() <= context.knobs.pipeline_address);
        let (distance, next_iteration_insts) = match steps {
            Some(steps) if wanted > 1 => (wanted, steps),
            _ => (1, Vec::new()),
        };
        let address_insts = insts.iter().copied().filter(|inst| slices.contains(inst)).collect();
        Some(PrefetchPlan { lines, address_insts, distance, next_iteration_insts })
    }

    /// Inserts the prefetches, and the instructions that compute their addresses and guards, before the branch at the end of the loop.
    /// Returns the prefetches.
    fn apply(&self, function: &mut Function, single_loop: &SingleBlockLoop) -> Vec<Inst> {
        let mut insts = Vec::new();
        let mut renaming = ValueRenaming::new(single_loop, true);
        let mut guard = single_loop.continue_guard;
        for _ in 1..self.distance {
            let mut next = renaming.clone();
            for &inst in &self.next_iteration_insts {
                let copy = next.copy(function, inst, None);
                if function.insts[copy].is_machine(Opcode::ISETP) {
                    // The last source of `ISETP.AND` is a predicate that is ANDed with the comparison: all iterations in between must be
                    // executed.
                    if let (Some(last), OperandKind::Value(joined)) = (function.sources_mut(copy).last_mut(), guard.kind) {
                        *last = Operand::from(joined);
                    }
                    if let Some(result) = function.results(copy)[0].value() {
                        guard = Guard { kind: OperandKind::Value(function.whole(result)), negated: false };
                    }
                }
                insts.push(copy);
            }
            renaming = next.for_next_iteration(single_loop);
        }
        for &inst in &self.address_insts {
            insts.push(renaming.copy(function, inst, None));
        }
        let mut prefetches = Vec::new();
        for &(base, offset) in &self.lines {
            let word = OperandKind::Address(Symbol::NAME_);
            let base = Operand::new(renaming.renamed_operand(OperandKind::Value(base))).with_role(Role::Bracket(0));
            let operands = [Operand::new(word), base, Operand::from(offset).with_role(Role::Bracket(0))];
            let modifiers = Symbols::from_slice(&[Symbol::E, Symbol::PF1]);
            let inst = function.new_inst(Op::Machine(Opcode::CCTL), modifiers, Some(guard), &operands, 0);
            function.insts[inst].memory = Some(function.accesses.push(MemoryAccess::weak(Space::Generic, 0)));
            prefetches.push(inst);
        }
        insts.extend(&prefetches);
        insert_before_end(function, single_loop.block, insts);
        prefetches
    }
}

/// Returns the base and the constant offset in bytes of the address of a global load, if the base is a 64-bit register pair and no other
/// register is added; `None` otherwise.
fn base_and_offset_of_load(function: &Function, inst: Inst) -> Option<(Part, i64)> {
    let terms: Vec<&Operand> = function.sources(inst).iter().filter(|operand| operand.role == Role::Bracket(1)).collect();
    let base = terms.first().and_then(|base| base.part())?;
    let is_pair = base.count == 2 && function.values[base.value].file == RegFile::General;
    match terms[1..] {
        [] if is_pair => Some((base, 0)),
        [offset] if is_pair => Some((base, offset.integer()?)),
        _ => None,
    }
}

/// Returns the instructions that must be repeated for each iteration between a prefetch and its load, in program order: those that compute
/// the next values of the phis on which the address instructions `slices` and the loop condition depend, and the comparison that is the
/// loop condition. `None` if the loop condition is not a single comparison of values that arithmetic computes.
fn next_iteration_insts(
    function: &Function,
    single_loop: &SingleBlockLoop,
    definitions_in_loop: &FxHashMap<Value, Inst>,
    slices: &FxHashSet<Inst>,
) -> Option<Vec<Inst>> {
    let OperandKind::Value(condition) = single_loop.continue_guard.kind else { return None };
    let compare = *definitions_in_loop.get(&condition.value)?;
    let data = &function.insts[compare];
    let is_joined = data.modifiers.last() == Some(&Symbol::AND) && function.sources(compare).last() == Some(&Operand::PT);
    let is_plain = data.is_machine(Opcode::ISETP) && data.guard.is_none() && function.results(compare)[0].value() == Some(condition.value);
    if single_loop.continue_guard.negated || !is_joined || !is_plain || function.results(compare)[1].value().is_some() {
        return None;
    }
    let mut found: FxHashSet<Inst> = FxHashSet::default();
    let mut phis: FxHashSet<Value> = FxHashSet::default();
    let mut work: Vec<Part> = slices.iter().chain([&compare]).flat_map(|&inst| function.used(inst)).collect();
    let mut followed: FxHashSet<Value> = FxHashSet::default();
    while let Some(part) = work.pop() {
        let Some(&home) = definitions_in_loop.get(&part.value).filter(|_| followed.insert(part.value)) else { continue };
        if function.insts[home].is(Pseudo::Phi) {
            let &(_, next) = single_loop.phis.get(&part.value)?;
            phis.insert(part.value);
            // The value that the phi has in the next iteration is computed by arithmetic of this iteration, or is another phi.
            work.push(next);
        } else if is_arithmetic(function, home) {
            found.insert(home);
            work.extend(function.used(home));
        } else {
            return None;
        }
    }
    // Only instructions that the phis or the condition need are repeated for each iteration in between. Those that only compute addresses
    // are copied once.
    let mut needed: FxHashSet<Inst> = FxHashSet::default();
    let mut work: Vec<Part> =
        phis.iter().filter_map(|phi| single_loop.phis.get(phi)).map(|&(_, next)| next).chain(function.used(compare)).collect();
    while let Some(part) = work.pop() {
        if let Some(&home) = definitions_in_loop.get(&part.value)
            && found.contains(&home)
            && needed.insert(home)
        {
            work.extend(function.used(home));
        }
    }
    needed.insert(compare);
    let insts: &[Inst] = &function.blocks[single_loop.block].insts;
    Some(insts.iter().copied().filter(|inst| needed.contains(inst)).collect())
}
