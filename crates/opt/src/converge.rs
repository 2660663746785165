//! Inserts convergence barriers, which make the threads of a diverged warp wait for each other at the reconvergence point.
//!
//! `BSSY B, after` records the active threads in barrier register `B`. `BSYNC B` makes a thread wait until all recorded threads that have
//! not exited are at the `BSYNC`. As in ptxas' code, `BSSY` names the instruction after the `BSYNC`. The reconvergence block is therefore
//! split in two: the first half keeps the phis and ends with the `BSYNC`, the second half has the rest.
//!
//! ```text
//! bb0:  @P0 BRA bb2 ; BRA bb1                bb0:  B = BSSY bb4 ; @P0 BRA bb2 ; BRA bb1
//! bb1:  ... ; BRA bb3                        bb1:  ... ; BRA bb3
//! bb2:  ... ; BRA bb3            becomes     bb2:  ... ; BRA bb3
//! bb3:  x = PHI ... ; rest                   bb3:  x = PHI ... ; BSYNC B ; BRA bb4
//!                                            bb4:  rest
//! ```
//!
//! **Placement.** The reconvergence point *P* of a divergent branch is its immediate post-dominator. All branches with the same *P* share
//! one barrier. The barrier is set at *D*, the nearest common dominator of these branches, hoisted out of every loop that does not contain
//! *P*: threads leave such a loop in different iterations and wait after it. For example, a loop `bb1` with the divergent branch `bb1 ->
//! bb1, bb2` has its `BSSY` in the block before the loop and its `BSYNC` in `bb2`.
//!
//! A barrier is inserted only if every thread that executes the `BSSY` executes the `BSYNC` exactly once, and no other thread executes it:
//!
//! - *D* dominates *P*: no thread waits on a barrier that it has not set;
//! - *P* post-dominates *D*: every thread that sets the barrier waits on it, unless it exits;
//! - every loop that contains *P* contains *D*: no thread waits twice after setting the barrier once;
//! - no path leads from *D* back to *D* around *P*: no thread sets the barrier twice before it waits.
//!
//! If the reconvergence point is a loop header, the edges that enter the loop and the back edges first get separate blocks to reconverge
//! in. A loop whose back edges are partly before and partly after a reconvergence point becomes two nested loops
//! ([`split_loops_with_shared_header`]), so that the barrier can be set before the inner one. A region that still violates a condition gets
//! no barrier. That only costs time: operations that need the whole warp have their own `WARPSYNC`.
//!
//! There is no barrier in two more cases. Threads that would only exit together need not wait for each other. Threads also must not wait
//! for threads that may be blocked inside the region until the whole warp arrives (`barrier` without `.aligned`): the blocked threads may
//! need the waiting ones to reach their next barrier, which would be a deadlock.
//!
//! **Literature.** Reconvergence at the immediate post-dominator follows Fung, Sham, Yuan and Aamodt 2007 ("Dynamic Warp Formation and
//! Scheduling for Efficient GPU Control Flow"). There, a hardware stack stores the reconvergence points. The differences follow from the
//! barrier registers that replace the stack since Volta: branches with the same reconvergence point share a barrier, the barrier is set
//! once before a loop and not once in each iteration, and a region that violates a condition above may be left without one. Regions in
//! which threads may be blocked until the whole warp arrives get none, because of the deadlocks that ElTantawy and Aamodt 2016 ("MIMD
//! Synchronization on SIMT Architectures") describe: a thread that waits for reconvergence may be the one that another thread spins for.
//!
//! **Limits.** The hardware has 16 barrier registers, and barrier registers are never spilled. Where regions are nested deeper than
//! [`MAX_NESTED_BARRIERS`], the outermost ones get no barrier.
//!
//! **Synchronizations.** The pass also knows at which instructions a warp may be diverged, and inserts and deletes `WARPSYNC` instructions
//! accordingly ([`synchronization`]). Shuffles and the like that threads may execute together at different instructions become calls where the
//! warp is diverged ([`meeting`]). Where threads of a diverged warp may overwrite uniform registers that others read, it keeps the values
//! alive ([`shared_uniform`]), and functions other than kernels load them again ([`reload_uniform`]).
//!
//! No later pass may merge the two halves of a split block or move code between them. The cost is one graph search per region in the worst
//! case, otherwise linear in the size of the function.

use std::collections::{BTreeMap, BTreeSet};

use oriole_ir::analysis::{ControlFlow, Dominators, Loops, PostDominators, Threads, Uniformity};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, Target};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::FxHashSet;

use crate::insert_yields;
use crate::redirect_edges::redirect_edges;

mod callees;
mod diverged_branch;
mod meeting;
mod region;
mod reload_uniform;
mod shared_uniform;
mod shared_values;
mod split;
mod synchronization;
mod unread_moves;
mod warpsync;

pub use callees::CalleeFacts;
pub(crate) use diverged_branch::{DivergedBranches, new_machine_inst};
use meeting::Meetings;
use region::ConvergenceRegion;
use reload_uniform::reload_uniform_values;
use shared_uniform::keep_shared_uniform_values;
use split::move_rest_of_block;
pub(crate) use synchronization::{WarpConvergence, divergence_test_target};
pub(crate) use unread_moves::remove_unread_moves;
pub(crate) use warpsync::is_plain_warpsync;

/// Maximum number of convergence barriers that are live at one point of the program; the hardware has two more.
pub const MAX_NESTED_BARRIERS: usize = 14;

/// Number of changes that the pass made to a function.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of regions that got a convergence barrier.
    pub barriers: usize,
    /// Number of reconvergence points without a barrier, plus the number of divergent branches whose paths never meet again.
    pub skipped: usize,
    /// Names of functions of the compiler that the pass inserted calls of, in which threads of a diverged warp meet.
    pub callees: BTreeSet<String>,
}

/// Inserts convergence barriers, and inserts and deletes `WARPSYNC` instructions. `threads` is the shape of the thread blocks.
pub fn run(function: &mut Function, target: Target, callees: CalleeFacts<'_>, threads: Threads) -> Stats {
    let mut stats = Stats::default();
    let mut flow = ControlFlow::compute(function);
    let without_divergence = |function: &mut Function, flow: &ControlFlow| {
        let meetings = synchronize(function, target, &WarpConvergence { flow, divergent: &[], regions: &[] }, callees);
        let callees = meetings.replace(function, target);
        reload_uniform_values(function);
        Stats { callees, ..Stats::default() }
    };
    if !may_have_divergent_branches(function, &flow) {
        return without_divergence(function, &flow);
    }
    let mut analyses = CfgAnalyses::compute(function, &flow);
    let divergent = divergent_blocks(function, &flow, &analyses.uniformity(function, &flow, threads));
    // Splitting headers adds blocks but no branches with a condition, so `divergent` stays valid; `flow` and `analyses` are computed again.
    if split_loop_headers(function, &flow, &analyses, &divergent) {
        flow = ControlFlow::compute(function);
        analyses = CfgAnalyses::compute(function, &flow);
    }
    if split_loops_with_shared_header(function, &flow, &analyses, &divergent) {
        flow = ControlFlow::compute(function);
        analyses = CfgAnalyses::compute(function, &flow);
    }
    if divergent.is_empty() {
        return without_divergence(function, &flow);
    }
    let mut regions = find_convergence_regions(function, &flow, &analyses, &divergent, &mut stats);
    let gathering: FxHashSet<Block> = flow
        .reverse_post_order()
        .iter()
        .copied()
        .filter(|&block| calls_whole_warp_wait(function, block, callees.waits_for_whole_warp))
        .collect();
    let found = regions.len();
    // A barrier around a call that waits for the whole warp could deadlock: see the module comment.
    regions.retain(|region| gathering.is_empty() || !region_passes_through(&flow, *region, &gathering));
    stats.skipped += found - regions.len();
    stats.barriers = regions.len();
    let waiting: FxHashSet<Block> = insert_yields::waiting_loop_headers(function, &analyses.loops).into_iter().collect();
    let reliable: Vec<ConvergenceRegion> =
        regions.iter().copied().filter(|region| always_reconverges(function, &flow, &waiting, *region)).collect();
    let meetings = synchronize(function, target, &WarpConvergence { flow: &flow, divergent: &divergent, regions: &reliable }, callees);
    insert_convergence_barriers(function, &regions);
    stats.callees = meetings.replace(function, target);
    reload_uniform_values(function);
    stats
}

/// Makes the changes that depend on where the warp may be diverged: inserts and deletes `WARPSYNC` instructions, and keeps values in uniform
/// registers alive. Returns the operations that threads may execute together at different instructions.
fn synchronize(function: &mut Function, target: Target, convergence: &WarpConvergence<'_>, callees: CalleeFacts<'_>) -> Meetings {
    let meetings = convergence.update_warpsyncs(function, target, callees);
    keep_shared_uniform_values(function, convergence);
    meetings
}

/// Analyses of the control-flow graph that all steps of the pass use.
pub(crate) struct CfgAnalyses {
    /// The dominator tree.
    dominators: Dominators,
    /// The post-dominator tree.
    post_dominators: PostDominators,
    /// The natural loops.
    loops: Loops,
}

impl CfgAnalyses {
    /// Computes the analyses of a function.
    pub(crate) fn compute(function: &Function, flow: &ControlFlow) -> CfgAnalyses {
        CfgAnalyses {
            dominators: Dominators::compute(function, flow),
            post_dominators: PostDominators::compute(function, flow),
            loops: Loops::compute(function, flow),
        }
    }

    /// Computes the uniformity of all values, for blocks of threads of this shape.
    pub(crate) fn uniformity(&self, function: &Function, flow: &ControlFlow, threads: Threads) -> Uniformity {
        Uniformity::compute_for_threads(function, flow, &self.dominators, &self.post_dominators, &self.loops, threads)
    }
}

/// Returns whether any block ends in an instruction that reads a value: a guarded branch, or a branch through a register (`BRX`). If none
/// does, no warp can diverge, and the analyses are not needed.
fn may_have_divergent_branches(function: &Function, flow: &ControlFlow) -> bool {
    let has_condition = |block: &Block| function.terminators(*block).iter().any(|&inst| function.used(inst).next().is_some());
    flow.reverse_post_order().iter().any(has_condition)
}

/// Returns the blocks that end in a branch which threads of one warp may take differently, in reverse post order.
pub(crate) fn divergent_blocks(function: &Function, flow: &ControlFlow, uniformity: &Uniformity) -> Vec<Block> {
    // The analysis lists branches in reverse post order too, so one pass over both lists is enough.
    let mut branches = uniformity.divergent_branches().iter().peekable();
    let mut diverges = |block: &Block| {
        let before = branches.len();
        while branches.next_if(|branch| function.terminators(*block).contains(branch)).is_some() {}
        branches.len() < before
    };
    flow.reverse_post_order().iter().copied().filter(|block| diverges(block)).collect()
}

/// Where divergent paths meet at a loop header, inserts separate blocks for the paths to meet in: one on the edges that enter the loop, one
/// on the back edges. Returns whether the function was changed. The header itself cannot be the exit of a region: a branch before the loop
/// is not inside the loop, and a branch inside the loop does not dominate the header.
fn split_loop_headers(function: &mut Function, flow: &ControlFlow, analyses: &CfgAnalyses, divergent: &[Block]) -> bool {
    let CfgAnalyses { post_dominators, loops, .. } = analyses;
    let meetings: BTreeSet<Block> = divergent.iter().filter_map(|&branch| post_dominators.immediate(branch)).collect();
    let mut changed = false;
    for header in meetings {
        let Some(around) = loops.innermost(header).filter(|&around| loops.get(around).header == header) else { continue };
        // An irreducible loop has more than one entry block, so the header does not see all entering edges.
        if loops.get(around).is_irreducible {
            continue;
        }
        let mut predecessors: Vec<Block> = flow.predecessors(header).iter().copied().filter(|&block| flow.is_reachable(block)).collect();
        predecessors.sort_unstable();
        predecessors.dedup();
        let (inside, outside): (Vec<Block>, Vec<Block>) = predecessors.into_iter().partition(|&block| loops.contains(around, block));
        // An edge that is alone in its group needs no new block.
        for group in [inside, outside].into_iter().filter(|group| group.len() > 1) {
            redirect_edges(function, header, &group);
            changed = true;
        }
    }
    changed
}

/// Turns a loop with several back edges into two nested loops, if threads repeat a part of the loop for different numbers of iterations and
/// then meet in the rest of the loop. Returns whether the function was changed.
///
/// ```text
/// bb1:  ... ; @P0 BRA bb2 ; BRA bb3         bb4:  BRA bb1                   (the new header of the outer loop)
/// bb2:  ... ; BRA bb1             becomes   bb1:  ... ; @P0 BRA bb2 ; BRA bb3
/// bb3:  ... ; @P1 BRA bb1 ; EXIT            bb2:  ... ; BRA bb1
///                                           bb3:  ... ; @P1 BRA bb4 ; EXIT
/// ```
///
/// Threads that take the branch in `bb1` meet the others in `bb3`. A barrier cannot be set in `bb1`, which threads execute several times
/// before they reach `bb3`; it can be set in `bb4`, which they execute once. The inner loop has the back edges that are reachable without
/// passing the meeting point. A loop in which threads may wait for each other is not changed: a thread that others wait for must not be
/// stopped at the meeting point.
fn split_loops_with_shared_header(function: &mut Function, flow: &ControlFlow, analyses: &CfgAnalyses, divergent: &[Block]) -> bool {
    let CfgAnalyses { post_dominators, loops, .. } = analyses;
    let mut seen: FxHashSet<Block> = FxHashSet::default();
    for &branch in divergent {
        let (Some(meeting), Some(around)) = (post_dominators.immediate(branch), loops.innermost(branch)) else { continue };
        let header = loops.get(around).header;
        let is_candidate = meeting != header && loops.contains(around, meeting) && !loops.get(around).is_irreducible;
        if !is_candidate
            || seen.contains(&header)
            || !post_dominators.dominates(meeting, header)
            || may_wait_in_blocks(function, loops.blocks(around))
        {
            continue;
        }
        let before = reachable_without_passing(flow, header, meeting);
        let mut predecessors: Vec<Block> = flow.predecessors(header).iter().copied().filter(|&block| flow.is_reachable(block)).collect();
        predecessors.sort_unstable();
        predecessors.dedup();
        let (inner, outer): (Vec<Block>, Vec<Block>) = predecessors.into_iter().partition(|block| before.contains(block));
        // Without a back edge after the meeting point, the barrier already can be set before the loop.
        if !inner.is_empty() && outer.iter().any(|&block| loops.contains(around, block)) {
            seen.insert(header);
            redirect_edges(function, header, &outer);
        }
    }
    !seen.is_empty()
}

/// Returns the blocks that can be reached from `start` without passing `end`; `start` is included if it is not `end`.
fn reachable_without_passing(flow: &ControlFlow, start: Block, end: Block) -> FxHashSet<Block> {
    let mut seen: FxHashSet<Block> = FxHashSet::default();
    let mut work: Vec<Block> = vec![start];
    while let Some(block) = work.pop() {
        if block != end && seen.insert(block) {
            work.extend(flow.successors(block));
        }
    }
    seen
}

/// Returns whether threads may wait for each other in `blocks`, because these contain atomic or strong memory accesses, barriers or calls.
fn may_wait_in_blocks(function: &Function, blocks: &[Block]) -> bool {
    let waits = |inst: Inst| {
        let data = &function.insts[inst];
        let is_strong_access = data.memory.is_some_and(|id| insert_yields::is_strong_access(&function.accesses[id]));
        let is_call = data.is_machine(Opcode::CALL) && !function.calls_slow_path(inst);
        is_strong_access || matches!(data.op.effect(), Effect::Updates | Effect::Barrier) || is_call
    };
    blocks.iter().any(|&block| function.blocks[block].insts.iter().any(|&inst| waits(inst)))
}

/// Returns the regions that get a barrier, by the placement rules of the module comment. Adds the number of regions that get none to
/// `stats.skipped`.
fn find_convergence_regions(
    function: &Function,
    flow: &ControlFlow,
    analyses: &CfgAnalyses,
    divergent: &[Block],
    stats: &mut Stats,
) -> Vec<ConvergenceRegion> {
    let CfgAnalyses { dominators, post_dominators, loops } = analyses;
    // Maps each reconvergence point to the nearest common dominator of the branches that reconverge there.
    let mut entries: BTreeMap<Block, Block> = BTreeMap::new();
    for &branch in divergent {
        // No post-dominator: the paths end at different exits, or one of them never ends.
        let Some(exit) = post_dominators.immediate(branch) else {
            stats.skipped += 1;
            continue;
        };
        let entry = entries.entry(exit).or_insert(branch);
        *entry = common_dominator(dominators, *entry, branch);
    }
    let mut regions = Vec::new();
    for (exit, entry) in entries {
        let entry = hoist_out_of_loops(dominators, loops, entry, exit);
        // Tests the conditions of the module comment. If the innermost loop around the exit contains the entry, the outer loops do too.
        let is_sound = |entry: Block| {
            let in_same_loop = loops.innermost(exit).is_none_or(|around| loops.contains(around, entry));
            entry != exit
                && !only_exits(function, exit)
                && dominators.dominates(entry, exit)
                && post_dominators.dominates(exit, entry)
                && in_same_loop
        };
        // The graph search comes last because it is the expensive test. If the entry is in no loop, no path leads back to it.
        let is_sound = |entry: Block| is_sound(entry) && (loops.innermost(entry).is_none() || !can_reenter_before_exit(flow, entry, exit));
        match entry.filter(|&entry| is_sound(entry)) {
            Some(entry) => regions.push(ConvergenceRegion { entry, exit }),
            None => stats.skipped += 1,
        }
    }
    limit_region_nesting(dominators, regions, stats)
}

/// Returns whether a block calls a function that blocks until all threads of the warp have called it.
fn calls_whole_warp_wait(function: &Function, block: Block, waits_for_whole_warp: &dyn Fn(&str) -> bool) -> bool {
    function.blocks[block]
        .insts
        .iter()
        .any(|&inst| function.insts[inst].is_machine(Opcode::CALL) && function.callee(inst).is_some_and(waits_for_whole_warp))
}

/// Returns whether a path from the entry of a region to its exit contains one of `blocks`.
fn region_passes_through(flow: &ControlFlow, region: ConvergenceRegion, blocks: &FxHashSet<Block>) -> bool {
    let mut seen: FxHashSet<Block> = FxHashSet::default();
    let mut work: Vec<Block> = flow.successors(region.entry).to_vec();
    while let Some(block) = work.pop() {
        if block != region.exit && seen.insert(block) {
            if blocks.contains(&block) {
                return true;
            }
            work.extend(flow.successors(block));
        }
    }
    false
}

/// Returns whether all threads that enter a region together are sure to be converged after its barrier. They are not if threads that wait
/// at the `BSYNC` may be released early: by a `YIELD`, which each loop header in `waiting` gets, or by a thread that has to wait inside the
/// region, at a `WARPSYNC` or a `BAR`. (Seen on sm_90a: with a `WARPSYNC` of some threads in one arm, the threads of the other arm passed
/// the `BSYNC`.) So the result is false for a region that contains such a loop, a call or such an instruction. Other loops do no harm:
/// threads that leave them in different iterations wait for each other, and ptxas relies on that too.
fn always_reconverges(function: &Function, flow: &ControlFlow, waiting: &FxHashSet<Block>, region: ConvergenceRegion) -> bool {
    let mut seen: FxHashSet<Block> = FxHashSet::default();
    let mut work: Vec<Block> = flow.successors(region.entry).to_vec();
    while let Some(block) = work.pop() {
        if block == region.exit || !seen.insert(block) {
            continue;
        }
        let waits = |&inst: &Inst| insert_yields::may_wait_for_threads_at(function, inst);
        if waiting.contains(&block) || function.blocks[block].insts.iter().any(waits) {
            return false;
        }
        work.extend(flow.successors(block));
    }
    true
}

/// Returns whether a block does nothing but exit.
fn only_exits(function: &Function, block: Block) -> bool {
    let insts = &function.blocks[block].insts[function.phis(block).len()..];
    matches!(insts, [inst] if function.insts[*inst].is_machine(Opcode::EXIT))
}

/// Returns whether a path leads from the entry of a region back to the entry without passing the exit. The loop analysis cannot answer
/// this: natural loops with the same header are one loop there, and the exit may be on only one of their back edges.
fn can_reenter_before_exit(flow: &ControlFlow, entry: Block, exit: Block) -> bool {
    let mut seen: FxHashSet<Block> = FxHashSet::default();
    let mut work: Vec<Block> = flow.successors(entry).to_vec();
    while let Some(block) = work.pop() {
        if block == entry {
            return true;
        }
        if block != exit && seen.insert(block) {
            work.extend(flow.successors(block));
        }
    }
    false
}

/// Returns the nearest common dominator of two blocks in the dominator tree.
fn common_dominator(dominators: &Dominators, mut one: Block, mut other: Block) -> Block {
    while one != other {
        // The deeper block cannot dominate the other one, so it is the one to move up the tree.
        if dominators.depth(one) < dominators.depth(other) {
            std::mem::swap(&mut one, &mut other);
        }
        let Some(above) = dominators.immediate(one) else { return one };
        one = above;
    }
    one
}

/// Returns the nearest dominator of `entry`, or `entry` itself, such that every loop around it also contains `exit`; `None` if there is
/// none.
fn hoist_out_of_loops(dominators: &Dominators, loops: &Loops, mut entry: Block, exit: Block) -> Option<Block> {
    while let Some(around) = loops.innermost(entry).filter(|&around| !loops.contains(around, exit)) {
        let above = dominators.immediate(loops.get(around).header)?;
        // The dominator of the header of an irreducible loop may be inside the loop; moving up the dominator tree would then not leave the
        // loop.
        if loops.contains(around, above) {
            return None;
        }
        entry = above;
    }
    Some(entry)
}

/// Removes the outermost regions where more than [`MAX_NESTED_BARRIERS`] regions are nested, and returns the rest. A region is open from
/// its entry to its exit. Since its entry dominates its exit, one preorder walk of the dominator tree visits both ends. The open regions of
/// a block are the open regions of its immediate dominator, minus the region that ends at the block, plus the regions that start there.
fn limit_region_nesting(dominators: &Dominators, regions: Vec<ConvergenceRegion>, stats: &mut Stats) -> Vec<ConvergenceRegion> {
    // The common case: too few regions to exceed the limit.
    if regions.len() <= MAX_NESTED_BARRIERS {
        return regions;
    }
    let mut opened: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    let mut closed: BTreeMap<Block, usize> = BTreeMap::new();
    for (number, region) in regions.iter().enumerate() {
        opened.entry(region.entry).or_default().push(number);
        closed.insert(region.exit, number);
    }
    for numbers in opened.values_mut() {
        // Of two regions with the same entry, the one whose exit is deeper in the dominator tree contains the other. The containing region
        // comes first.
        numbers.sort_by_key(|&number| std::cmp::Reverse(dominators.depth(regions[number].exit)));
    }
    let mut dropped = vec![false; regions.len()];
    let mut open: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    for &block in dominators.preorder() {
        let mut here = dominators.immediate(block).and_then(|above| open.get(&above).cloned()).unwrap_or_default();
        here.retain(|&number| !dropped[number] && closed.get(&block) != Some(&number));
        here.extend(opened.get(&block).into_iter().flatten());
        while here.len() > MAX_NESTED_BARRIERS {
            // `here` lists the open regions from the outermost to the innermost.
            dropped[here.remove(0)] = true;
        }
        open.insert(block, here);
    }
    stats.skipped += dropped.iter().filter(|&&dropped| dropped).count();
    regions.into_iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(region, _)| region).collect()
}

/// For every region, inserts a `BSSY` before the terminators of the entry block, and a `BSYNC` at the exit, which is split into two blocks.
fn insert_convergence_barriers(function: &mut Function, regions: &[ConvergenceRegion]) {
    let mut waits: BTreeMap<Block, (Block, Operand)> = BTreeMap::new();
    for region in regions {
        let after = function.new_block();
        let value = function.new_value(Class::B);
        let barrier = Operand::from(function.whole(value));
        waits.insert(region.exit, (after, barrier));
        let set = function.new_inst(Op::Machine(Opcode::BSSY), Symbols::new(), None, &[barrier, after.into()], 1);
        let first = function.terminators(region.entry)[0];
        function.insts[set].location = function.insts[first].location;
        let insts = &mut function.blocks[region.entry].insts;
        let at = insts.iter().position(|&inst| inst == first).unwrap_or(insts.len());
        insts.insert(at, set);
    }
    // The second half of a block directly follows the first, so that the branch between them becomes a fall-through.
    let layout = std::mem::take(&mut function.layout);
    for block in layout {
        function.layout.push(block);
        if let Some(&(after, barrier)) = waits.get(&block) {
            split_region_exit(function, block, after, barrier);
            function.layout.push(after);
        }
    }
}

/// Moves everything after the phis of `block` to `after`, and ends `block` with the `BSYNC` and a branch to `after`.
fn split_region_exit(function: &mut Function, block: Block, after: Block, barrier: Operand) {
    let phis = function.phis(block).len();
    move_rest_of_block(function, block, phis, after);
    let location = function.blocks[after].insts.first().map(|&inst| function.insts[inst].location).unwrap_or_default();
    let wait = function.new_inst(Op::Machine(Opcode::BSYNC), Symbols::new(), None, &[barrier], 0);
    let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[after.into()], 0);
    for inst in [wait, branch] {
        function.insts[inst].location = location;
        function.blocks[block].insts.push(inst);
    }
}
