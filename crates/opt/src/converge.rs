//! Convergence barriers: threads that took different ways wait for each other where the ways meet again.
//!
//! `BSSY B, after` notes which threads are there, `BSYNC B` lets them wait for each other, threads that have exited excepted. As ptxas
//! does it, `BSSY` names the instruction behind the `BSYNC`; so the block where the ways meet is cut in two: the first keeps the
//! phis and ends with the `BSYNC`, the second has the rest.
//!
//! **Where.** Each divergent branch meets again at its immediate post-dominator *P*. All branches with the same *P* share a barrier.
//! It is set in *D*, their closest common dominator, taken out of every loop that *P* is not in: threads leave such a loop at
//! different times and wait behind it. *D* must dominate *P*, *P* post-dominate *D*, no loop around *P* may leave *D* out,
//! and no way may lead from *D* back to *D* past *P*; then every thread that sets the barrier comes to wait for it once, and no other does. Where ways meet at the header of a loop, those
//! that enter it and those that go round get blocks of their own to meet in. Otherwise there is no barrier, which costs time only: operations that need the
//! whole warp bring their own `WARPSYNC`.
//!
//! Threads that would only end together do not wait for that. Nor do any wait for threads that may be waiting for the whole warp in
//! between, at a `barrier` without `.aligned`: the others may have to come to the next one for that.
//!
//! **Limits.** There are 16 barrier registers and none is spilled; of regions nested deeper than [`NESTING_AT_MOST`] the outermost go
//! without.
//!
//! No pass after this one may join the two halves of a block, or move code between them.

use std::collections::{BTreeMap, BTreeSet};

use oriole_ir::analysis::{ControlFlow, Dominators, Loops, PostDominators, Uniformity};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Target};
use oriole_isa::{Opcode, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashSet;

use crate::meet::meet_before;

/// Barriers that may be in use at one place.
pub const NESTING_AT_MOST: usize = 14;

/// What was inserted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Regions with a barrier.
    pub barriers: usize,
    /// Places where divergent ways meet without one.
    pub skipped: usize,
    /// `WARPSYNC` that were not needed.
    pub synchronizations_removed: usize,
}

/// Threads that diverge at `entry` or behind it meet at `exit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Region {
    entry: Block,
    exit: Block,
}

/// Inserts convergence barriers and takes away synchronizations of warps that never diverged. `gathers` says of which functions, by name,
/// a thread may not return before all others of its warp are there.
pub fn run(function: &mut Function, _target: Target, gathers: &dyn Fn(&str) -> bool) -> Stats {
    let mut stats = Stats::default();
    let mut flow = ControlFlow::compute(function);
    if !has_conditions(function, &flow) {
        stats.synchronizations_removed = remove_synchronizations(function, &flow, &[]);
        return stats;
    }
    let mut shape = Shape::compute(function, &flow);
    let divergent = divergent_branches(function, &flow, &shape);
    if divide_headers(function, &flow, &shape, &divergent) {
        flow = ControlFlow::compute(function);
        shape = Shape::compute(function, &flow);
    }
    stats.synchronizations_removed = remove_synchronizations(function, &flow, &divergent);
    if divergent.is_empty() {
        return stats;
    }
    let mut regions = find_regions(function, &flow, &shape, &divergent, &mut stats);
    let gathering: FxHashSet<Block> =
        flow.reverse_post_order().iter().copied().filter(|&block| gathers_in(function, block, gathers)).collect();
    let found = regions.len();
    regions.retain(|region| gathering.is_empty() || !leads_through(&flow, *region, &gathering));
    stats.skipped += found - regions.len();
    stats.barriers = regions.len();
    insert(function, &regions);
    stats
}

/// Where ways part and meet, and which go round.
struct Shape {
    dominators: Dominators,
    post_dominators: PostDominators,
    loops: Loops,
}

impl Shape {
    fn compute(function: &Function, flow: &ControlFlow) -> Shape {
        Shape {
            dominators: Dominators::compute(function, flow),
            post_dominators: PostDominators::compute(function, flow),
            loops: Loops::compute(function, flow),
        }
    }
}

/// Whether a branch depends on anything.
fn has_conditions(function: &Function, flow: &ControlFlow) -> bool {
    let has_condition = |block: &Block| function.terminators(*block).iter().any(|&inst| function.used(inst).next().is_some());
    flow.reverse_post_order().iter().any(has_condition)
}

/// Blocks that end in a branch which threads of a warp may take differently.
fn divergent_branches(function: &Function, flow: &ControlFlow, shape: &Shape) -> Vec<Block> {
    let uniformity = Uniformity::compute_with(function, flow, &shape.dominators, &shape.post_dominators, &shape.loops);
    // Both are in reverse post order.
    let mut branches = uniformity.divergent_branches().iter().peekable();
    let mut diverges = |block: &Block| {
        let before = branches.len();
        while branches.next_if(|branch| function.terminators(*block).contains(branch)).is_some() {}
        branches.len() < before
    };
    flow.reverse_post_order().iter().copied().filter(|block| diverges(block)).collect()
}

/// Where divergent ways meet at the header of a loop, lets them meet before: on the way in, and on the way round.
fn divide_headers(function: &mut Function, flow: &ControlFlow, shape: &Shape, divergent: &[Block]) -> bool {
    let Shape { post_dominators, loops, .. } = shape;
    let meetings: BTreeSet<Block> = divergent.iter().filter_map(|&branch| post_dominators.immediate(branch)).collect();
    let mut changed = false;
    for header in meetings {
        let Some(around) = loops.innermost(header).filter(|&around| loops.get(around).header == header) else { continue };
        if loops.get(around).is_irreducible {
            continue;
        }
        let mut predecessors: Vec<Block> = flow.predecessors(header).iter().copied().filter(|&block| flow.is_reachable(block)).collect();
        predecessors.sort_unstable();
        predecessors.dedup();
        let (inside, outside): (Vec<Block>, Vec<Block>) = predecessors.into_iter().partition(|&block| loops.contains(around, block));
        for group in [inside, outside].into_iter().filter(|group| group.len() > 1) {
            meet_before(function, header, &group);
            changed = true;
        }
    }
    changed
}

fn find_regions(function: &Function, flow: &ControlFlow, shape: &Shape, divergent: &[Block], stats: &mut Stats) -> Vec<Region> {
    let Shape { dominators, post_dominators, loops } = shape;
    let mut entries: BTreeMap<Block, Block> = BTreeMap::new();
    for &branch in divergent {
        let Some(exit) = post_dominators.immediate(branch) else {
            stats.skipped += 1;
            continue;
        };
        let entry = entries.entry(exit).or_insert(branch);
        *entry = common(dominators, *entry, branch);
    }
    let mut regions = Vec::new();
    for (exit, entry) in entries {
        let entry = outside_loops(dominators, loops, entry, exit);
        let is_sound = |entry: Block| {
            let in_same_loop = loops.innermost(exit).is_none_or(|around| loops.contains(around, entry));
            entry != exit
                && !only_ends(function, exit)
                && dominators.dominates(entry, exit)
                && post_dominators.dominates(exit, entry)
                && in_same_loop
        };
        let is_sound = |entry: Block| is_sound(entry) && (loops.innermost(entry).is_none() || !comes_back(flow, entry, exit));
        match entry.filter(|&entry| is_sound(entry)) {
            Some(entry) => regions.push(Region { entry, exit }),
            None => stats.skipped += 1,
        }
    }
    limit_nesting(dominators, regions, stats)
}

/// Whether a block calls a function that waits for the whole warp.
fn gathers_in(function: &Function, block: Block, gathers: &dyn Fn(&str) -> bool) -> bool {
    function.blocks[block]
        .insts
        .iter()
        .any(|&inst| function.insts[inst].is_machine(Opcode::CALL) && function.callee(inst).is_some_and(gathers))
}

/// Whether a way through a region leads through one of some blocks.
fn leads_through(flow: &ControlFlow, region: Region, blocks: &FxHashSet<Block>) -> bool {
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

/// Whether nothing is left to do for threads that meet in a block.
fn only_ends(function: &Function, block: Block) -> bool {
    let insts = &function.blocks[block].insts[function.phis(block).len()..];
    matches!(insts, [inst] if function.insts[*inst].is_machine(Opcode::EXIT))
}

/// Whether a way from the entry leads back to it without passing the exit. Loops that share a header look like one loop, so this
/// cannot be told from the loops.
fn comes_back(flow: &ControlFlow, entry: Block, exit: Block) -> bool {
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

/// The closest block that dominates both.
fn common(dominators: &Dominators, mut one: Block, mut other: Block) -> Block {
    while one != other {
        if dominators.depth(one) < dominators.depth(other) {
            std::mem::swap(&mut one, &mut other);
        }
        let Some(above) = dominators.immediate(one) else { return one };
        one = above;
    }
    one
}

/// The closest dominator that is in no loop without the exit.
fn outside_loops(dominators: &Dominators, loops: &Loops, mut entry: Block, exit: Block) -> Option<Block> {
    while let Some(around) = loops.innermost(entry).filter(|&around| !loops.contains(around, exit)) {
        let above = dominators.immediate(loops.get(around).header)?;
        if loops.contains(around, above) {
            return None;
        }
        entry = above;
    }
    Some(entry)
}

/// Leaves out the outermost of regions that are nested too deeply. A region is open from its entry to its exit; both are seen on the
/// way down the dominator tree.
fn limit_nesting(dominators: &Dominators, regions: Vec<Region>, stats: &mut Stats) -> Vec<Region> {
    if regions.len() <= NESTING_AT_MOST {
        return regions;
    }
    let mut opened: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    let mut closed: BTreeMap<Block, usize> = BTreeMap::new();
    for (number, region) in regions.iter().enumerate() {
        opened.entry(region.entry).or_default().push(number);
        closed.insert(region.exit, number);
    }
    for numbers in opened.values_mut() {
        // The one that lasts longer is further out.
        numbers.sort_by_key(|&number| std::cmp::Reverse(dominators.depth(regions[number].exit)));
    }
    let mut dropped = vec![false; regions.len()];
    let mut open: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    for &block in dominators.preorder() {
        let mut here = dominators.immediate(block).and_then(|above| open.get(&above).cloned()).unwrap_or_default();
        here.retain(|&number| !dropped[number] && closed.get(&block) != Some(&number));
        here.extend(opened.get(&block).into_iter().flatten());
        while here.len() > NESTING_AT_MOST {
            dropped[here.remove(0)] = true;
        }
        open.insert(block, here);
    }
    stats.skipped += dropped.iter().filter(|&&dropped| dropped).count();
    regions.into_iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(region, _)| region).collect()
}

fn insert(function: &mut Function, regions: &[Region]) {
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
    let layout = std::mem::take(&mut function.layout);
    for block in layout {
        function.layout.push(block);
        if let Some(&(after, barrier)) = waits.get(&block) {
            split(function, block, after, barrier);
            function.layout.push(after);
        }
    }
}

/// Cuts a block behind its phis: the first half waits.
fn split(function: &mut Function, block: Block, after: Block, barrier: Operand) {
    let phis = function.phis(block).len();
    let rest = function.blocks[block].insts.split_off(phis);
    let location = rest.first().map(|&inst| function.insts[inst].location).unwrap_or_default();
    function.blocks[after].insts = rest;
    let wait = function.new_inst(Op::Machine(Opcode::BSYNC), Symbols::new(), None, &[barrier], 0);
    let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[after.into()], 0);
    for inst in [wait, branch] {
        function.insts[inst].location = location;
        function.blocks[block].insts.push(inst);
    }
    for next in function.successors(after) {
        for inst in function.phis(next).to_vec() {
            for source in function.sources_mut(inst) {
                if source.kind == OperandKind::Block(block) {
                    source.kind = OperandKind::Block(after);
                }
            }
        }
    }
}

/// Takes away `WARPSYNC` of all threads where no thread can have gone another way before: no divergent branch and no call leads there.
fn remove_synchronizations(function: &mut Function, flow: &ControlFlow, divergent: &[Block]) -> usize {
    let mut may_be_diverged = vec![false; function.blocks.len()];
    let calls = flow.reverse_post_order().iter().copied().filter(|&block| has_call(function, block));
    let mut work: Vec<Block> = divergent.iter().copied().chain(calls).flat_map(|block| flow.successors(block).iter().copied()).collect();
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut may_be_diverged[block.position()], true) {
            work.extend(flow.successors(block));
        }
    }
    if function.kind != oriole_ir::FunctionKind::Kernel {
        return 0;
    }
    let mut removed = 0;
    for &block in flow.reverse_post_order() {
        if may_be_diverged[block.position()] || has_call(function, block) {
            continue;
        }
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let before = insts.len();
        insts.retain(|&inst| !is_full_synchronization(function, inst));
        removed += before - insts.len();
        function.blocks[block].insts = insts;
    }
    removed
}

fn has_call(function: &Function, block: Block) -> bool {
    function.blocks[block].insts.iter().any(|&inst| function.insts[inst].is_machine(Opcode::CALL))
}

/// One that also orders memory (`bar.warp.sync`) is described as an access, and stays.
fn is_full_synchronization(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_full = match function.operands(inst) {
        [] => data.modifiers.as_slice() == [oriole_isa::Symbol::ALL],
        [mask] => data.modifiers.is_empty() && mask.integer().is_some_and(|mask| mask as u32 == u32::MAX),
        _ => false,
    };
    data.is_machine(Opcode::WARPSYNC) && data.guard.is_none() && data.memory.is_none() && is_full
}
