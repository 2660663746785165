//! Strategy `global`: moves instructions between blocks where that is safe, and then orders regions as backend B.
//!
//! **Upward.** An instruction moves from a block to the end of its immediate dominator *D*. Blocks are visited from the leaves of the
//! dominator tree to its root, so an instruction may move up several times. Of the blocks that *D* immediately dominates, those that are
//! executed most often are visited first.
//!
//! - Arithmetic, reads of constant banks and reads of invariant special registers cannot fault. Such an instruction moves if *D* has an
//!   idle issue slot and no operand is computed by a variable-latency instruction of *D*, whose result would arrive late.
//! - A load moves only if exactly the same threads execute it as before, and if no store, barrier, fence, call or exit is in between.
//!   Either *D* ends with a branch to the block, whose condition becomes the guard of the load, or all threads that execute *D* also
//!   execute the block. The instructions that compute its address move with it. No load moves out of a loop (pass `hoist` does that).
//!
//! **Downward.** If a block has no idle issue slot, its arithmetic moves down to the successor that alone needs the results.
//!
//! ```text
//! bb0:  %1 = S2R SR_TID.X                  bb0:  %1 = S2R SR_TID.X
//!       %2 = ISETP.LT %1, %n                     %3 = IMAD.WIDE %i, 0x4, %b     fills a stall
//!       @%2 BRA bb1; BRA bb2      becomes        %2 = ISETP.LT %1, %n
//! bb1:  %3 = IMAD.WIDE %i, 0x4, %b               @%2 %4 = LDG [%3]              starts earlier
//!       %4 = LDG [%3]                            @%2 BRA bb1; BRA bb2
//!       ...                                bb1:  ...
//! ```
//!
//! Instructions move up only from blocks that are executed as often as *D*; otherwise they would be executed more often than before and
//! take issue slots of other warps. A block counts as executed as often as *D* if only a branch to the end of the kernel skips it. Nothing
//! moves into a loop, and no instruction that writes uniform registers or predicates moves: diverged threads share the former, and there
//! are only seven of the latter. Results that move occupy registers for longer, so `global-registers` limits them for each block *D*; the
//! caller drops all changes of a function if they would lower the occupancy. Time: linear in instructions, times the depth of the dominator
//! tree in the worst case.
//!
//! The description of ptxas names a global strategy that "moves instructions across basic blocks" and says no more about it.

use oriole_ir::analysis::{BlockFrequencies, ControlFlow, DefUse, Divergence, Dominators, Liveness, Loops, PostDominators};
use oriole_ir::{Block, Function, Guard, Inst, Op, OperandKind, Pseudo, Value};
use oriole_isa::{Effect, Opcode};
use oriole_support::IndexVec;
use rustc_hash::FxHashSet;

use super::rearrange::{
    BlockTimes, ChangeReason, CodeChange, RearrangeContext, insert_before_end, is_speculatable, reads_thread_registers,
    result_register_count, sched_class_of, unguarded_weak_load,
};
use super::software_pipelining::branch_guard;
use super::weighted_variant::{Variation, WeightedVariant};
use crate::score::LOOP_MODEL;

/// Maximum number of blocks on the paths from an immediate dominator to the block that are searched for stores. If there are more, no load
/// moves up.
const MAX_SEARCHED_BLOCKS_BETWEEN: usize = 8;

/// Maximum number of instructions in a function that this strategy changes. Each move takes time linear in the size of two blocks.
const MAX_FUNCTION_INSTRUCTIONS: usize = 20_000;

/// Moves instructions between blocks where that is safe; the strategy `global` of the command line.
pub(super) const GLOBAL: WeightedVariant = WeightedVariant {
    name: "global",
    description: "moves instructions between blocks, then as b",
    variation: Variation::Rearrange(rearrange),
};

/// Moves instructions of a function down, then up, between blocks. Returns every move as a change with its reason.
fn rearrange(function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
    if function.inst_count() > MAX_FUNCTION_INSTRUCTIONS {
        return Vec::new();
    }
    let mut changes = sink(function, context);
    changes.extend(hoist(function, context));
    changes
}

/// The block and the instruction that define each value; kept up to date while instructions move.
struct DefinitionPlaces {
    /// For each value, the block of its defining instruction; `None` if no instruction defines it.
    blocks: IndexVec<Value, Option<Block>>,
    /// For each value, its defining instruction; `None` if no instruction defines it.
    defining_insts: IndexVec<Value, Option<Inst>>,
}

impl DefinitionPlaces {
    /// Collects the definitions of all values of a function.
    fn new(function: &Function) -> DefinitionPlaces {
        let mut definitions = DefinitionPlaces {
            blocks: IndexVec::filled(function.values.len(), None),
            defining_insts: IndexVec::filled(function.values.len(), None),
        };
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                for value in function.defined(inst) {
                    (definitions.blocks[value], definitions.defining_insts[value]) = (Some(block), Some(inst));
                }
            }
        }
        definitions
    }
}

/// Which of the threads that execute a block *D* also execute another block, whose immediate dominator is *D*.
#[derive(Clone, Copy)]
enum ReachingThreads {
    /// Not known, or memory may be written between the two blocks.
    Unknown,
    /// All threads that execute *D*.
    All,
    /// The threads for which this guard is true.
    Guarded(Guard),
}

/// Moves instructions up to the immediate dominators of their blocks. Returns every move with its reason.
fn hoist(function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let post_dominators = PostDominators::compute(function, &flow);
    let loops = Loops::compute(function, &flow);
    let frequencies = BlockFrequencies::compute(function, &flow, &loops, LOOP_MODEL, Divergence::Never);
    let times = BlockTimes::new(function, context);
    let mut definitions = DefinitionPlaces::new(function);
    let mut changes = Vec::new();
    for &above in dominators.preorder().iter().rev() {
        let mut below: Vec<Block> = dominators.children(above).to_vec();
        if below.is_empty() || function.terminators(above).is_empty() {
            continue;
        }
        below.sort_by(|a, b| frequencies.total[*b].total_cmp(&frequencies.total[*a]));
        let mut idle_slots = times.idle_slots(function, above);
        let mut registers = context.knobs.global_registers;
        let is_likely = |block: Block| {
            let others = flow.successors(above).iter().filter(|&&other| other != block && !dominators.dominates(block, other));
            // A branch to the end of the kernel, such as that of threads beyond the number of elements, is rarely taken.
            let mut others = others.filter(|&&other| !consists_of_exit(function, other));
            frequencies.total[block] >= frequencies.total[above] || flow.successors(above).contains(&block) && others.next().is_none()
        };
        let is_candidate = |block: &Block| loops.depth(above) <= loops.depth(*block) && is_likely(*block);
        for block in below.into_iter().filter(is_candidate).collect::<Vec<Block>>() {
            // A load that is moved out of a loop would be executed once, although the loop may change the loaded word.
            let is_same_loop = loops.innermost(above) == loops.innermost(block);
            let reaching =
                if is_same_loop { reaching_threads(function, &flow, &post_dominators, above, block) } else { ReachingThreads::Unknown };
            let found = choose_instructions_to_hoist(
                function,
                &dominators,
                &definitions,
                (above, block),
                reaching,
                context,
                (&mut idle_slots, &mut registers),
            );
            move_to_dominator(function, &mut definitions, (above, block), reaching, &found, &mut changes);
        }
    }
    changes
}

/// Returns whether a block consists of an `EXIT` only.
fn consists_of_exit(function: &Function, block: Block) -> bool {
    matches!(function.blocks[block].insts[..], [end] if function.insts[end].is_machine(Opcode::EXIT))
}

/// Returns which threads of the block `above` also execute the block `below`, which `above` immediately dominates. The result decides
/// whether loads may move, so it is [`ReachingThreads::Unknown`] also if memory may be written between the two blocks.
fn reaching_threads(
    function: &Function,
    flow: &ControlFlow,
    post_dominators: &PostDominators,
    above: Block,
    below: Block,
) -> ReachingThreads {
    if flow.predecessors(below) == [above] {
        let is_jump = matches!(function.terminators(above), [end] if function.insts[*end].is_machine(Opcode::BRA));
        return if is_jump {
            ReachingThreads::All
        } else {
            branch_guard(function, above, below).map_or(ReachingThreads::Unknown, ReachingThreads::Guarded)
        };
    }
    if !post_dominators.dominates(below, above) || above == below {
        return ReachingThreads::Unknown;
    }
    let mut between: Vec<Block> = Vec::new();
    let mut work: Vec<Block> = flow.successors(above).to_vec();
    while let Some(block) = work.pop() {
        if block == below || between.contains(&block) {
            continue;
        }
        // A back edge means a loop between the two blocks. If it does not terminate, some threads do not reach `below`.
        let is_backward = flow.successors(block).iter().any(|&to| flow.position(to) <= flow.position(block));
        let may_cross_all = function.blocks[block]
            .insts
            .iter()
            .all(|&inst| may_be_crossed_by_load(function, inst) || is_branch_or_reconvergence(function, inst));
        if between.len() == MAX_SEARCHED_BLOCKS_BETWEEN || is_backward || !may_cross_all || block == above {
            return ReachingThreads::Unknown;
        }
        between.push(block);
        work.extend(flow.successors(block));
    }
    ReachingThreads::All
}

/// Returns whether a load may move up across an instruction: the instruction writes no memory, and no thread waits, exits or calls a
/// function there.
fn may_be_crossed_by_load(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_weak = data.memory.is_none_or(|id| {
        let access = &function.accesses[id];
        !access.volatile && access.order == oriole_ir::Order::Weak
    });
    is_weak && matches!(data.op.effect(), Effect::None | Effect::Reads | Effect::Lanes) && !data.is(Pseudo::Entry)
}

/// Returns whether an instruction is a direct branch, or sets up or reaches a reconvergence point (`BSSY`, `BSYNC`).
fn is_branch_or_reconvergence(function: &Function, inst: Inst) -> bool {
    matches!(function.insts[inst].op, Op::Machine(Opcode::BRA | Opcode::BSSY | Opcode::BSYNC))
}

/// Chooses the instructions of `block` to move up to its dominator `above`, each with its reason. `idle_slots` is the number of idle issue
/// slots of `above`, `registers` the number of registers that moved results may still occupy; both are reduced by the chosen instructions.
fn choose_instructions_to_hoist(
    function: &Function,
    dominators: &Dominators,
    definitions: &DefinitionPlaces,
    (above, block): (Block, Block),
    reaching: ReachingThreads,
    context: RearrangeContext<'_>,
    (idle_slots, registers): (&mut u32, &mut usize),
) -> Vec<(Inst, ChangeReason)> {
    let mut chosen: Vec<(Inst, ChangeReason)> = Vec::new();
    let mut chosen_insts: FxHashSet<Inst> = FxHashSet::default();
    // The speculatable instructions whose operands are available at the end of `above`, in program order.
    let mut candidates: Vec<Inst> = Vec::new();
    let mut is_candidate: FxHashSet<Inst> = FxHashSet::default();
    let is_above =
        |value: Value| definitions.blocks[value].is_some_and(|home| home == above || home != block && dominators.dominates(home, above));
    let mut may_load = !matches!(reaching, ReachingThreads::Unknown);
    let mut loads = context.knobs.global_loads;
    let terminators = function.terminators(block).len();
    let body = &function.blocks[block].insts[..function.blocks[block].insts.len() - terminators];
    for &inst in body {
        // Instructions after a call are not moved: their results would be live across the call, and would have to be saved and restored.
        if function.insts[inst].op.effect() == Effect::Control && !is_branch_or_reconvergence(function, inst) {
            break;
        }
        let is_available = function
            .used(inst)
            .all(|part| is_above(part.value) || definitions.defining_insts[part.value].is_some_and(|inst| is_candidate.contains(&inst)));
        if is_available && is_speculatable(function, inst) {
            candidates.push(inst);
            is_candidate.insert(inst);
        } else if is_available && may_load && loads > 0 && unguarded_weak_load(function, inst).is_some() {
            let mut slice: Vec<Inst> = Vec::new();
            let mut work = vec![inst];
            while let Some(next) = work.pop() {
                for part in function.used(next) {
                    let source = definitions.defining_insts[part.value].filter(|source| is_candidate.contains(source));
                    if let Some(source) = source.filter(|source| !chosen_insts.contains(source) && !slice.contains(source)) {
                        slice.push(source);
                        work.push(source);
                    }
                }
            }
            let needed: usize = slice.iter().chain([&inst]).map(|&inst| result_register_count(function, inst)).sum();
            if needed <= *registers {
                *registers -= needed;
                loads -= 1;
                for address in slice {
                    chosen.push((address, ChangeReason::AddressOfLoad));
                    chosen_insts.insert(address);
                    *idle_slots = idle_slots.saturating_sub(1);
                }
                chosen.push((inst, ChangeReason::StartsLoad));
                chosen_insts.insert(inst);
            }
        }
        may_load &= may_be_crossed_by_load(function, inst) || is_branch_or_reconvergence(function, inst);
    }
    // The result of a variable-latency instruction of `above` itself arrives late: an instruction that reads it at the end of `above` would
    // delay the branch.
    let is_late = |value: Value| {
        let inst = definitions.defining_insts[value].filter(|_| definitions.blocks[value] == Some(above));
        inst.and_then(|inst| sched_class_of(function, inst)).is_some_and(|class| context.model.time(class).is_some())
    };
    for inst in candidates {
        if chosen_insts.contains(&inst) {
            continue;
        }
        let needed = result_register_count(function, inst);
        let is_early = function.used(inst).all(|part| {
            is_above(part.value) && !is_late(part.value)
                || definitions.defining_insts[part.value].is_some_and(|source| chosen_insts.contains(&source))
        });
        // A copy or a pack takes no issue slot; it moves only together with an instruction that needs it.
        let is_machine = function.insts[inst].op.machine().is_some();
        if is_early && is_machine && *idle_slots > 0 && needed <= *registers {
            *idle_slots -= 1;
            *registers -= needed;
            chosen.push((inst, ChangeReason::FillsStall));
            chosen_insts.insert(inst);
        }
    }
    chosen
}

/// Moves the chosen instructions of `block` to the end of its dominator `above`, guards loads where needed, and appends the moves to
/// `changes`.
fn move_to_dominator(
    function: &mut Function,
    definitions: &mut DefinitionPlaces,
    (above, block): (Block, Block),
    reaching: ReachingThreads,
    chosen: &[(Inst, ChangeReason)],
    changes: &mut Vec<CodeChange>,
) {
    if chosen.is_empty() {
        return;
    }
    let reasons: rustc_hash::FxHashMap<Inst, ChangeReason> = chosen.iter().copied().collect();
    let (moved, kept): (Vec<Inst>, Vec<Inst>) = function.blocks[block].insts.iter().partition(|inst| reasons.contains_key(inst));
    function.blocks[block].insts = kept;
    for &inst in &moved {
        let reason = reasons[&inst];
        if let (ChangeReason::StartsLoad, ReachingThreads::Guarded(guard)) = (reason, reaching) {
            function.insts[inst].guard = Some(guard);
        }
        for value in function.defined(inst) {
            definitions.blocks[value] = Some(above);
        }
        changes.push(CodeChange { inst, from: block, to: above, reason });
    }
    insert_before_end(function, above, moved);
}

/// Moves instructions down from blocks without idle issue slots, if their results are read only in one successor of the block or in blocks
/// that this successor dominates. Returns every move with its reason.
fn sink(function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let loops = Loops::compute(function, &flow);
    let uses = DefUse::compute(function);
    let liveness = Liveness::compute(function, &flow);
    let times = BlockTimes::new(function, context);
    let mut definitions: IndexVec<Inst, Option<Block>> = IndexVec::filled(function.insts.len(), None);
    for &block in &function.layout {
        function.blocks[block].insts.iter().for_each(|&inst| definitions[inst] = Some(block));
    }
    let mut changes = Vec::new();
    for &block in dominators.preorder() {
        let below: Vec<Block> = flow
            .successors(block)
            .iter()
            .copied()
            .filter(|&to| flow.predecessors(to) == [block] && loops.depth(to) <= loops.depth(block))
            .collect();
        if flow.successors(block).len() < 2 || below.is_empty() || times.idle_slots(function, block) > 0 {
            continue;
        }
        let mut moved: Vec<(Inst, Block)> = Vec::new();
        for &inst in function.blocks[block].insts.iter().rev() {
            if !is_speculatable(function, inst) || !reads_thread_registers(function, inst) || function.insts[inst].op.machine().is_none() {
                continue;
            }
            // The block in which each reader needs the result; a phi reads at the end of a predecessor.
            let mut readers = function.defined(inst).flat_map(|value| uses.uses(value)).map(|found| match found.operand {
                Some(at) if function.insts[found.inst].is(Pseudo::Phi) => {
                    match function.operands(found.inst).get(at as usize + 1).map(|operand| operand.kind) {
                        Some(OperandKind::Block(from)) => Some(from),
                        _ => None,
                    }
                }
                _ => definitions[found.inst],
            });
            let Some(Some(first)) = readers.next() else { continue };
            let Some(&to) = below.iter().find(|&&to| dominators.dominates(to, first)) else { continue };
            if !readers.all(|reader| reader.is_some_and(|reader| dominators.dominates(to, reader))) {
                continue;
            }
            // Moving down frees the registers of the results in the block, but extends the live ranges of sources that are not live-out;
            // these must not need more registers.
            let mut sources: Vec<Value> = function.used(inst).map(|part| part.value).collect();
            sources.sort_unstable();
            sources.dedup();
            let longer: usize = sources
                .iter()
                .filter(|&&value| !liveness.is_live_out(block, value))
                .map(|&value| usize::from(function.values[value].width))
                .sum();
            if longer <= result_register_count(function, inst) {
                moved.push((inst, to));
                definitions[inst] = Some(to);
            }
        }
        for &(inst, to) in &moved {
            function.blocks[block].insts.retain(|&other| other != inst);
            let at = function.phis(to).len();
            // `moved` lists the instructions from the last to the first, so inserting each one at the front restores their order.
            function.blocks[to].insts.insert(at, inst);
            changes.push(CodeChange { inst, from: block, to, reason: ChangeReason::OnlyReadBelow });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use oriole_hardware::machine::Machine;
    use oriole_hardware::units::Rates;
    use oriole_ir::text::{parse, print};
    use oriole_isa::Target;

    use super::super::Knobs;
    use super::*;
    use crate::resource::ResourceCosts;

    fn rearranged(text: &str) -> (String, Vec<ChangeReason>) {
        let target = Target::parse("sm_90a").unwrap();
        let costs = ResourceCosts::from_rates(Rates::of(target), Machine::of(target));
        let mut function = parse(text).unwrap().remove(0);
        let context = RearrangeContext { model: oriole_hardware::Model::of(target), costs: &costs, knobs: &Knobs::default() };
        let changes = rearrange(&mut function, context);
        oriole_ir::verify(&function).expect("the result is well formed");
        (print(&function), changes.into_iter().map(|change| change.reason).collect())
    }

    /// A store between the branch and the load keeps the load in its block. The arithmetic of its address still moves, and fills the stall
    /// after the `S2R`.
    #[test]
    fn a_load_does_not_cross_a_store() {
        let text = "func kernel @f ssa {\nbb0:\n    %0:R, %1:R2, %6:R = ENTRY\n    %2:R = S2R SR_TID.X\n    %3:P, PT = ISETP.LT.AND %2, %0, PT\n    @%3 BRA bb1\n    BRA bb2\nbb1:\n    STG.E desc[URZ][%1.64], %2 !global.4\n    %4:R2 = IMAD.WIDE %6, 0x4, %1\n    %5:R = LDG.E desc[URZ][%4.64] !global.4\n    STG.E desc[URZ][%1.64+0x4], %5 !global.4\n    BRA bb2\nbb2:\n    EXIT\n}";
        let (after, reasons) = rearranged(text);
        assert_eq!(reasons, [ChangeReason::FillsStall], "{after}");
    }

    #[test]
    fn a_load_moves_under_the_condition_of_the_branch() {
        let text = "func kernel @f ssa {\nbb0:\n    %0:R, %1:R2 = ENTRY\n    %2:R = S2R SR_TID.X\n    %3:P, PT = ISETP.LT.AND %2, %0, PT\n    @%3 BRA bb2\n    BRA bb1\nbb1:\n    %4:R2 = IMAD.WIDE %2, 0x4, %1\n    %5:R = LDG.E desc[URZ][%4.64] !global.4\n    STG.E desc[URZ][%4.64], %5 !global.4\n    BRA bb2\nbb2:\n    EXIT\n}";
        let (after, reasons) = rearranged(text);
        assert_eq!(reasons, [ChangeReason::AddressOfLoad, ChangeReason::StartsLoad], "{after}");
        assert!(after.contains("@!%3 %5:R = LDG.E") || after.contains("%5:R = @!%3 LDG.E"), "{after}");
    }
}
