//! Synchronizations of the warp: inserts a `WARPSYNC` where an instruction needs the whole warp, and deletes those that are redundant.
//!
//! A `WARPSYNC` is redundant where the warp is converged: in code that no divergent branch and no call leads to, after another `WARPSYNC`
//! of all threads, and after the barrier of a region that a converged warp enters, if no thread can wait for others inside the region. A
//! redundant `WARPSYNC` that also orders memory (`bar.warp.sync`) becomes a `NOP`. Matrix instructions need the whole warp (flag `whole
//! warp` of the instruction table); where the warp may be diverged, a `WARPSYNC` is inserted before them.
//!
//! A `WARPSYNC` of some threads is an illegal instruction for a thread that is not in its mask. In PTX, a shuffle or vote with that mask in
//! such a thread is undefined. Programs do so nevertheless (a shuffle with the mask 0xffff that all 32 threads execute); without the
//! redundant `WARPSYNC` it works in converged code, as in ptxas' code. Where the warp may be diverged, the pass `sync-diverged`
//! tests whether it is.
//!
//! `.EXCLUSIVE` stops the threads outside of the mask, for instructions that combine the values of all active threads (`REDUX`). After a
//! `WARPSYNC` with a constant mask only the threads of the mask are active together, so the modifier is dropped; ptxas omits it too. It is
//! needed for masks in registers: threads with different masks may execute the instruction together.

use std::collections::BTreeMap;

use oriole_ir::analysis::{ControlFlow, PostDominators};
use oriole_ir::{Block, Function, FunctionKind, Inst, Op, Operand, OperandKind, Target};
use oriole_isa::{Effect, Opcode, SharedWindow, Symbol, Symbols, SystemLayout};
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::callees::CalleeFacts;
use super::meeting::Meetings;
use super::region::ConvergenceRegion;
use super::warpsync::is_plain_warpsync;
use crate::definitions::Definitions;
use crate::known::OperandFacts;

/// The branches at which warps diverge, and the regions after which they are converged again.
pub(crate) struct WarpConvergence<'a> {
    /// The control-flow graph of the function.
    pub(crate) flow: &'a ControlFlow,
    /// The blocks that end in a branch which threads of one warp may take differently.
    pub(crate) divergent: &'a [Block],
    /// The regions after whose barrier all threads that entered the region together are sure to be converged.
    pub(crate) regions: &'a [ConvergenceRegion],
}

/// Where a warp may be diverged.
pub(crate) struct WarpDivergence {
    /// For each block, whether a warp may be diverged when it enters the block.
    pub(crate) starts: Vec<bool>,
    /// For each block, whether a warp may be diverged before the branch at its end.
    pub(crate) ends: Vec<bool>,
}

impl WarpConvergence<'_> {
    /// Inserts a `WARPSYNC` where an instruction needs the whole warp, then deletes redundant ones; see the module comment. Returns the
    /// operations that threads may execute together at different instructions, whose `WARPSYNC` is not redundant.
    pub(super) fn update_warpsyncs(&self, function: &mut Function, target: Target, callees: CalleeFacts<'_>) -> Meetings {
        drop_exclusive_of_constant_masks(function);
        self.insert_warpsyncs(function, target);
        self.remove_redundant_warpsyncs(function, callees)
    }

    /// Inserts a `WARPSYNC` of all threads before each instruction that needs the whole warp and at which the warp may be diverged.
    fn insert_warpsyncs(&self, function: &mut Function, target: Target) {
        let is_matrix =
            |function: &Function, inst: Inst| function.insts[inst].op.machine().is_some_and(|opcode| opcode.properties().needs_whole_warp);
        let has_matrix = |block: &Block| function.blocks[*block].insts.iter().any(|&inst| is_matrix(function, inst));
        if !self.flow.reverse_post_order().iter().any(has_matrix) {
            return;
        }
        let definitions = Definitions::compute(function);
        let starts_diverged = self.diverged_blocks(function, &definitions);
        for &block in self.flow.reverse_post_order() {
            let mut is_diverged = starts_diverged[block.position()];
            let mut insts: Vec<Inst> = Vec::new();
            for &inst in &function.blocks[block].insts.clone() {
                if is_diverged && is_matrix(function, inst) {
                    // The `WARPSYNC` goes before the computations that precede the matrix instruction: they may write uniform registers
                    // that the matrix instruction reads, and the whole warp has to write those together.
                    let guard = function.insts[inst].guard;
                    let is_computation = |&&inst: &&Inst| {
                        matches!(function.insts[inst].op, Op::Machine(_)) && function.insts[inst].op.effect() == Effect::None
                    };
                    let computations = insts.iter().rev().take_while(is_computation).filter(|_| guard.is_none()).count();
                    let synchronization = new_full_warpsync(function, target, inst);
                    insts.insert(insts.len() - computations, synchronization);
                }
                is_diverged = is_warp_diverged_after(function, &definitions, inst, is_diverged);
                insts.push(inst);
            }
            function.blocks[block].insts = insts;
        }
    }

    /// Deletes each `WARPSYNC` in code where the warp is converged, whatever its mask: the threads of the mask are active together. A
    /// `WARPSYNC` that also orders memory becomes a `NOP` instead, across which no memory access moves, as in ptxas' code.
    fn remove_redundant_warpsyncs(&self, function: &mut Function, callees: CalleeFacts<'_>) -> Meetings {
        let definitions = Definitions::compute(function);
        let is_synchronization = |&inst: &Inst| function.insts[inst].is_machine(Opcode::WARPSYNC);
        let has_synchronization = |block: &Block| function.blocks[*block].insts.iter().any(is_synchronization);
        if !self.flow.reverse_post_order().iter().any(has_synchronization) {
            return Meetings::default();
        }
        let starts_diverged = self.diverged_blocks(function, &definitions);
        let is_partial = self.partial_blocks(function);
        let meetings = match callees.may_meet {
            true => {
                let stretches = self.diverged_stretches(function, &definitions, &starts_diverged, &is_partial);
                let is_partial = |block: Block| function.kind != FunctionKind::Kernel || is_partial[block.position()];
                let is_candidate = |block: Block| starts_diverged[block.position()] && is_partial(block);
                let stretch = |block: Block| is_candidate(block).then(|| stretches[block.position()]);
                Meetings::find(function, self.flow, stretch, callees.has_warp_operations)
            }
            false => Meetings::default(),
        };
        for &block in self.flow.reverse_post_order() {
            let mut is_diverged = starts_diverged[block.position()];
            let mut insts = std::mem::take(&mut function.blocks[block].insts);
            insts.retain(|&inst| {
                if is_diverged && meetings.contains(inst) {
                    return true;
                }
                let is_redundant = !is_diverged && is_plain_warpsync(function, inst);
                is_diverged = is_warp_diverged_after(function, &definitions, inst, is_diverged);
                if is_redundant && function.insts[inst].memory.is_some() {
                    // The threads of a converged warp access memory in program order, so only the scheduler has to keep the order.
                    function.insts[inst].op = Op::Machine(Opcode::NOP);
                    function.insts[inst].modifiers = Symbols::new();
                    function.set_operands(inst, &[], 0);
                    return true;
                }
                !is_redundant
            });
            function.blocks[block].insts = insts;
        }
        meetings
    }

    /// Returns, for each block, a number of the stretch of diverged code to which its start belongs. While some threads of a diverged warp are
    /// in one stretch, no others are in another one: a stretch starts at a divergent branch of a converged warp and ends where the warp is
    /// converged again.
    fn diverged_stretches(
        &self,
        function: &Function,
        definitions: &Definitions,
        starts_diverged: &[bool],
        is_partial: &[bool],
    ) -> Vec<usize> {
        // Each block has two elements in a forest of disjoint sets, its start and its end.
        let mut parents: Vec<usize> = (0..2 * function.blocks.len()).collect();
        let root = |parents: &mut Vec<usize>, mut element: usize| {
            while parents[element] != element {
                parents[element] = parents[parents[element]];
                element = parents[element];
            }
            element
        };
        for &block in self.flow.reverse_post_order() {
            let (start, end) = (2 * block.position(), 2 * block.position() + 1);
            let insts = &function.blocks[block].insts;
            let stays = || insts.iter().fold(true, |state, &inst| is_warp_diverged_after(function, definitions, inst, state));
            let mut joined: SmallVec<[(usize, usize); 4]> = SmallVec::new();
            if starts_diverged[block.position()] && (is_partial[block.position()] || stays()) {
                joined.push((start, end));
            }
            let diverged = self.flow.successors(block).iter().filter(|next| starts_diverged[next.position()]);
            joined.extend(diverged.map(|next| (end, 2 * next.position())));
            for (one, other) in joined {
                let (one, other) = (root(&mut parents, one), root(&mut parents, other));
                parents[one] = other;
            }
        }
        (0..function.blocks.len()).map(|block| root(&mut parents, 2 * block)).collect()
    }

    /// Returns, for each block, whether a warp may be diverged when it enters the block ([`WarpConvergence::divergence`]).
    pub(crate) fn diverged_blocks(&self, function: &Function, definitions: &Definitions) -> Vec<bool> {
        self.divergence(function, definitions).starts
    }

    /// Finds out where a warp may be diverged. A warp diverges at a divergent branch and in a call. At the exit of a region, a warp is
    /// converged if it was converged at the entry: the barrier has recorded all threads, and those that have not exited wait for each other
    /// there. A converged warp does not take the branch of a test for divergence (`BRA.DIV`).
    pub(crate) fn divergence(&self, function: &Function, definitions: &Definitions) -> WarpDivergence {
        let mut is_exit = vec![false; function.blocks.len()];
        let mut exits: FxHashMap<Block, Vec<Block>> = FxHashMap::default();
        for region in self.regions {
            is_exit[region.exit.position()] = true;
            exits.entry(region.entry).or_default().push(region.exit);
        }
        // In a block that only some threads execute, the other threads may be at another `WARPSYNC` of all threads. All threads then
        // continue, but at different instructions. So after a `WARPSYNC` in a block the warp is converged only if all threads execute the
        // block, and equally often.
        let is_partial = self.partial_blocks(function);
        let ends_diverged = |block: Block, start: bool| {
            let end =
                function.blocks[block].insts.iter().fold(start, |state, &inst| is_warp_diverged_after(function, definitions, inst, state));
            end || start && is_partial[block.position()]
        };
        let is_divergent: FxHashSet<Block> = self.divergent.iter().copied().collect();
        let mut found = WarpDivergence { starts: vec![false; function.blocks.len()], ends: vec![false; function.blocks.len()] };
        let mut is_reached = vec![false; function.blocks.len()];
        // Each block is visited at most twice: once as converged and once as diverged. A function other than a kernel may be called by a
        // diverged warp.
        let entry = function.entry();
        let mut work: Vec<(Block, bool)> = vec![(entry, function.kind != FunctionKind::Kernel)];
        while let Some((block, start)) = work.pop() {
            let is_news = !std::mem::replace(&mut is_reached[block.position()], true);
            if !is_news && (!start || found.starts[block.position()]) {
                continue;
            }
            found.starts[block.position()] |= start;
            let end = ends_diverged(block, start);
            found.ends[block.position()] |= end;
            let apart = divergence_test_target(function, block);
            for &next in self.flow.successors(block).iter().filter(|&&next| end || Some(next) != apart) {
                work.push((next, (end || is_divergent.contains(&block)) && !is_exit[next.position()]));
            }
            // A barrier records only the threads that execute the `BSSY` together, so a warp that is diverged at the entry is diverged at
            // the exit.
            work.extend(exits.get(&block).into_iter().flatten().filter(|_| end).map(|&exit| (exit, true)));
        }
        found
    }

    /// Returns, for each block, whether some threads of a warp may execute it and others not, or less often: whether it is between a
    /// divergent branch and its immediate post-dominator. That includes the blocks of a loop that threads leave in different iterations.
    pub(crate) fn partial_blocks(&self, function: &Function) -> Vec<bool> {
        let post_dominators = PostDominators::compute(function, self.flow);
        let mut is_partial = vec![false; function.blocks.len()];
        // Branches with the same reconvergence point share one search.
        let mut starts: BTreeMap<Option<Block>, Vec<Block>> = BTreeMap::new();
        for &branch in self.divergent {
            starts.entry(post_dominators.immediate(branch)).or_default().extend(self.flow.successors(branch));
        }
        for (end, mut work) in starts {
            let mut seen: FxHashSet<Block> = FxHashSet::default();
            while let Some(block) = work.pop() {
                if Some(block) != end && seen.insert(block) {
                    is_partial[block.position()] = true;
                    work.extend(self.flow.successors(block));
                }
            }
        }
        is_partial
    }
}

/// Returns the block to which a test for divergence at the end of a block leads (`BRA.DIV`); `None` if the block does not end in one.
pub(crate) fn divergence_test_target(function: &Function, block: Block) -> Option<Block> {
    let [test, _] = function.terminators(block) else { return None };
    let is_test = function.insts[*test].modifiers.contains(&Symbol::DIV);
    let target = function.operands(*test).last().map(|operand| operand.kind);
    if let (true, Some(OperandKind::Block(apart))) = (is_test, target) { Some(apart) } else { None }
}

/// Drops `.EXCLUSIVE` from each `WARPSYNC` with a constant mask.
fn drop_exclusive_of_constant_masks(function: &mut Function) {
    let is_exclusive = |inst: &Inst| {
        function.insts[*inst].is_machine(Opcode::WARPSYNC) && function.insts[*inst].modifiers.as_slice() == [Symbol::EXCLUSIVE]
    };
    let all = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let exclusive: Vec<Inst> = all.copied().filter(is_exclusive).collect();
    if exclusive.is_empty() {
        return;
    }
    let definitions = Definitions::compute(function);
    for inst in exclusive {
        let mask = function.sources(inst).first().and_then(|mask| OperandFacts::new(function, &definitions).word(mask));
        if mask.is_some() {
            function.insts[inst].modifiers = Symbols::new();
        }
    }
}

/// Creates a `WARPSYNC` of all threads with the guard and the source location of `like`.
fn new_full_warpsync(function: &mut Function, target: Target, like: Inst) -> Inst {
    let guard = function.insts[like].guard;
    let location = function.insts[like].location;
    // Targets with clusters have a form without a mask.
    let synchronization = if SystemLayout::of(target).shared_window == SharedWindow::Cluster {
        function.new_inst(Op::Machine(Opcode::WARPSYNC), Symbols::from_iter([Symbol::ALL]), guard, &[], 0)
    } else {
        function.new_inst(Op::Machine(Opcode::WARPSYNC), Symbols::new(), guard, &[Operand::from(i64::from(u32::MAX))], 0)
    };
    function.insts[synchronization].location = location;
    synchronization
}

/// Returns whether a warp may be diverged after an instruction; `is_diverged` says whether it may be diverged before it. After a call, and
/// after a synchronization of some threads, the warp may be diverged; after a synchronization of all threads it is converged.
fn is_warp_diverged_after(function: &Function, definitions: &Definitions, inst: Inst, is_diverged: bool) -> bool {
    let data = &function.insts[inst];
    match data.op.machine() {
        Some(Opcode::CALL) => true,
        Some(Opcode::WARPSYNC) if data.modifiers.contains(&Symbol::EXCLUSIVE) => true,
        Some(Opcode::WARPSYNC) if is_full_warpsync(function, definitions, inst) => false,
        // The pass inserts a `WARPSYNC` before this instruction unless the warp is converged.
        Some(opcode) if opcode.properties().needs_whole_warp && data.guard.is_none() => false,
        _ => is_diverged,
    }
}

/// Returns whether an instruction is an unguarded `WARPSYNC` of all threads.
fn is_full_warpsync(function: &Function, definitions: &Definitions, inst: Inst) -> bool {
    let data = &function.insts[inst];
    if !data.is_machine(Opcode::WARPSYNC) {
        return false;
    }
    let is_full = match function.operands(inst) {
        [] => data.modifiers.as_slice() == [Symbol::ALL],
        [mask] => data.modifiers.is_empty() && OperandFacts::new(function, definitions).word(mask) == Some(u32::MAX),
        _ => false,
    };
    data.guard.is_none() && is_full
}
