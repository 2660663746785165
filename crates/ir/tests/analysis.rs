//! Compares the analyses with slow and simple versions of themselves, on random control flow graphs.

use std::collections::BTreeSet;

use crate::common::{Random, random_function, random_graph};
use oriole_ir::analysis::{ControlFlow, DefUse, Dominators, Liveness, Loops, PostDominators, remove_unreachable_blocks};
use oriole_ir::{Block, Function, OperandKind, Pseudo, Value, construct_ssa};
use oriole_support::SparseSet;

/// Returns the blocks that are reachable from `start` without passing through `avoided`.
fn reached(next: &dyn Fn(Block) -> Vec<Block>, start: Block, avoided: Option<Block>) -> BTreeSet<Block> {
    let mut found = BTreeSet::new();
    let mut stack = vec![start];
    while let Some(block) = stack.pop() {
        if Some(block) != avoided && found.insert(block) {
            stack.extend(next(block));
        }
    }
    found
}

/// Returns random control flow graphs.
fn graphs() -> impl Iterator<Item = Function> {
    (0..300).map(|seed| {
        let mut random = Random::new(seed);
        let blocks = 1 + random.below(24);
        let far = random.pick(&[5, 20, 60]);
        random_graph(&mut random, blocks, far)
    })
}

#[test]
fn dominators_cut_all_paths() {
    for function in graphs() {
        let flow = ControlFlow::compute(&function);
        let dominators = Dominators::compute(&function, &flow);
        let next = |block: Block| function.successors(block).to_vec();
        let all = reached(&next, function.entry(), None);
        assert_eq!(all, flow.reverse_post_order().iter().copied().collect());
        for above in function.blocks.indices() {
            let around = reached(&next, function.entry(), Some(above));
            for below in function.blocks.indices() {
                let expected = all.contains(&above) && all.contains(&below) && !around.contains(&below);
                assert_eq!(dominators.dominates(above, below), expected, "{above:?} over {below:?} in {function:?}");
            }
        }
        for &block in &all {
            let Some(closest) = dominators.immediate(block) else {
                assert_eq!(block, function.entry());
                continue;
            };
            assert!(dominators.dominates(closest, block) && closest != block);
            assert!(all.iter().all(|&other| other == block || !dominators.dominates(other, block) || dominators.dominates(other, closest)));
        }
    }
}

#[test]
fn post_dominators_cut_all_paths_to_the_end() {
    for function in graphs() {
        let flow = ControlFlow::compute(&function);
        let post = PostDominators::compute(&function, &flow);
        let next = |block: Block| function.successors(block).to_vec();
        let ends = |from: &BTreeSet<Block>| from.iter().any(|&block| function.successors(block).is_empty());
        for &earlier in flow.reverse_post_order() {
            if !ends(&reached(&next, earlier, None)) {
                continue;
            }
            for &later in flow.reverse_post_order() {
                // A region that never reaches an exit has its own edge to the virtual exit, which only adds paths that avoid `later`.
                let around = reached(&next, earlier, Some(later));
                let is_around = ends(&around) || around.iter().any(|&block| !ends(&reached(&next, block, None)));
                assert_eq!(post.dominates(later, earlier), !is_around || later == earlier, "{later:?} after {earlier:?} in {function:?}");
            }
        }
        assert!(flow.reverse_post_order().iter().all(|&block| post.dominates(block, block)));
    }
}

#[test]
fn loops_are_what_reaches_the_header_below_it() {
    for function in graphs() {
        let flow = ControlFlow::compute(&function);
        let loops = Loops::compute(&function, &flow);
        for id in loops.iter() {
            let info = loops.get(id);
            let members: BTreeSet<Block> = loops.blocks(id).iter().copied().collect();
            assert_eq!(loops.blocks(id)[0], info.header);
            for &block in loops.blocks(id) {
                let inside = |from: Block| function.successors(from).into_iter().filter(|to| members.contains(to)).collect::<Vec<_>>();
                let after: BTreeSet<Block> = inside(block).into_iter().flat_map(|to| reached(&inside, to, None)).collect();
                assert!(after.contains(&info.header), "{block:?} does not reach the header of {id:?} in {function:?}");
                assert!(loops.contains(id, block));
            }
            let entered: BTreeSet<Block> = flow
                .reverse_post_order()
                .iter()
                .filter(|from| !members.contains(from))
                .flat_map(|&from| function.successors(from))
                .filter(|to| members.contains(to))
                .collect();
            assert_eq!(info.is_irreducible, entered.iter().any(|&block| block != info.header), "{id:?} in {function:?}");
            assert_eq!(info.depth, 1 + info.parent.map_or(0, |parent| loops.get(parent).depth));
            assert!(info.parent.is_none_or(|parent| members.iter().all(|&block| loops.contains(parent, block))));
        }
        // Every cycle is inside a loop, and a loop without its header contains no cycle, apart from inner loops.
        for &block in flow.reverse_post_order() {
            let next = |from: Block| function.successors(from).to_vec();
            let on_cycle = next(block).into_iter().any(|to| reached(&next, to, None).contains(&block));
            assert_eq!(on_cycle, loops.depth(block) > 0, "{block:?} in {function:?}");
            let depth = loops.depth(block);
            let around = loops.innermost(block).map(|id| {
                let headed = loops.get(id).header;
                let inner = |from: Block| -> Vec<Block> {
                    function.successors(from).into_iter().filter(|&to| loops.contains(id, to) && to != headed).collect()
                };
                inner(block).into_iter().any(|to| reached(&inner, to, None).contains(&block)) && block != headed
            });
            assert_ne!(around, Some(true), "{block:?} at depth {depth} is in another loop in {function:?}");
        }
    }
}

/// Returns whether a path from the start of a block reaches a use of a value before a definition.
fn needed(function: &Function, block: Block, value: Value, seen: &mut BTreeSet<Block>) -> bool {
    for &inst in &function.blocks[block].insts {
        if !function.insts[inst].is(Pseudo::Phi) && function.used(inst).any(|part| part.value == value) {
            return true;
        }
        if function.defined(inst).any(|defined| defined == value) {
            return false;
        }
    }
    needed_after(function, block, value, seen)
}

/// Returns whether a value is needed at the end of a block.
fn needed_after(function: &Function, block: Block, value: Value, seen: &mut BTreeSet<Block>) -> bool {
    function.successors(block).into_iter().any(|to| {
        let by_phi = function.phis(to).iter().any(|&phi| {
            function.sources(phi).chunks(2).any(|pair| pair[0].value() == Some(value) && pair[1].kind == OperandKind::Block(block))
        });
        by_phi || (seen.insert(to) && needed(function, to, value, seen))
    })
}

#[test]
fn liveness_is_a_path_to_a_use() {
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let blocks = 1 + random.below(12);
        let mut function = random_function(&mut random, blocks, 6, seed % 2 == 0);
        remove_unreachable_blocks(&mut function);
        check_liveness(&function);
        construct_ssa(&mut function);
        check_liveness(&function);
    }
}

fn check_liveness(function: &Function) {
    let flow = ControlFlow::compute(function);
    let liveness = Liveness::compute(function, &flow);
    let mut set = SparseSet::new(function.values.len());
    for &block in &function.layout {
        for value in function.values.indices() {
            assert_eq!(liveness.is_live_in(block, value), needed(function, block, value, &mut BTreeSet::new()));
            assert_eq!(liveness.is_live_out(block, value), needed_after(function, block, value, &mut BTreeSet::new()));
        }
        let mut visited = Vec::new();
        liveness.walk(function, block, &mut set, |inst, _| visited.push(inst));
        visited.reverse();
        assert_eq!(visited, function.blocks[block].insts);
        let phis: BTreeSet<Value> = function.phis(block).iter().flat_map(|&phi| function.defined(phi)).collect();
        let at_start: BTreeSet<Value> = set.members().iter().copied().filter(|value| !phis.contains(value)).collect();
        assert_eq!(at_start, liveness.live_in(block).iter().copied().collect());
    }
}

#[test]
fn uses_and_definitions_are_complete() {
    let mut random = Random::new(7);
    let function = random_function(&mut random, 10, 10, false);
    let def_use = DefUse::compute(&function);
    let (mut uses, mut definitions) = (0, 0);
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            assert_eq!(def_use.block(inst), Some(block));
            definitions += function.defined(inst).inspect(|&value| assert!(def_use.definitions(value).contains(&inst))).count();
            uses += function.used(inst).inspect(|part| assert!(def_use.uses(part.value).iter().any(|found| found.inst == inst))).count();
        }
    }
    assert_eq!(uses, function.values.indices().map(|value| def_use.uses(value).len()).sum::<usize>());
    assert_eq!(definitions, function.values.indices().map(|value| def_use.definitions(value).len()).sum::<usize>());
}
