//! Edges between blocks and an order that follows them.

use oriole_support::{BitSet, Groups, IndexVec};
use smallvec::SmallVec;

use crate::function::{Block, Function};
use crate::operand::{Operand, OperandKind};

/// Predecessors, successors and reverse post order. Parallel edges (two branches to one block) count once.
#[derive(Clone, Debug)]
pub struct ControlFlow {
    predecessors: Groups<Block, Block>,
    successors: Groups<Block, Block>,
    reverse_post_order: Vec<Block>,
    position: IndexVec<Block, u32>,
}

const UNREACHED: u32 = u32::MAX;

impl ControlFlow {
    /// Looks at the branches of all blocks in the layout.
    pub fn compute(function: &Function) -> ControlFlow {
        let count = function.blocks.len();
        let mut edges: Vec<(Block, Block)> = Vec::with_capacity(function.layout.len() * 2);
        let mut seen_from: IndexVec<Block, Option<Block>> = IndexVec::filled(count, None);
        for &block in &function.layout {
            for target in function.successors(block) {
                if seen_from[target] != Some(block) {
                    seen_from[target] = Some(block);
                    edges.push((block, target));
                }
            }
        }
        let successors = Groups::collect(count, &edges);
        for edge in &mut edges {
            *edge = (edge.1, edge.0);
        }
        let predecessors = Groups::collect(count, &edges);
        let reverse_post_order = reverse_post_order(function, &successors);
        let mut position = IndexVec::filled(count, UNREACHED);
        for (number, &block) in reverse_post_order.iter().enumerate() {
            position[block] = number as u32;
        }
        ControlFlow { predecessors, successors, reverse_post_order, position }
    }

    /// The blocks that a block may be entered from, those that nothing reaches included, in the order of the layout.
    pub fn predecessors(&self, block: Block) -> &[Block] {
        self.predecessors.of(block)
    }

    /// The blocks that may follow a block, in the order of its branches.
    pub fn successors(&self, block: Block) -> &[Block] {
        self.successors.of(block)
    }

    /// The reachable blocks; each comes before its successors, back edges excepted.
    pub fn reverse_post_order(&self) -> &[Block] {
        &self.reverse_post_order
    }

    /// The place of a block in [`ControlFlow::reverse_post_order`]; none if nothing reaches it.
    pub fn position(&self, block: Block) -> Option<usize> {
        self.position.get(block).copied().filter(|&position| position != UNREACHED).map(|position| position as usize)
    }

    /// Whether a path leads from the entry to a block.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.position(block).is_some()
    }
}

fn reverse_post_order(function: &Function, successors: &Groups<Block, Block>) -> Vec<Block> {
    let mut order = Vec::with_capacity(function.layout.len());
    let Some(&entry) = function.layout.first() else { return order };
    let mut visited = BitSet::new(function.blocks.len());
    visited.insert(entry);
    let mut stack = vec![(entry, 0)];
    while let Some((block, next)) = stack.last_mut() {
        // Later successors first: the way a branch is not taken (usually the shorter one) follows its block in the order.
        let targets = successors.of(*block);
        if *next < targets.len() {
            let target = targets[*next];
            *next += 1;
            if visited.insert(target) {
                stack.push((target, 0));
            }
        } else {
            order.push(*block);
            stack.pop();
        }
    }
    order.reverse();
    order
}

/// Takes blocks that nothing reaches out of the layout, and what they gave to phis. Returns how many there were.
pub fn remove_unreachable_blocks(function: &mut Function) -> usize {
    let flow = ControlFlow::compute(function);
    let before = function.layout.len();
    if flow.reverse_post_order.len() == before {
        return 0;
    }
    function.layout.retain(|&block| flow.is_reachable(block));
    for block in function.layout.clone() {
        for inst in function.phis(block).to_vec() {
            let mut kept: SmallVec<[Operand; 8]> = SmallVec::new();
            kept.extend_from_slice(function.results(inst));
            for pair in function.sources(inst).chunks(2) {
                if matches!(pair, [_, Operand { kind: OperandKind::Block(from), .. }] if flow.is_reachable(*from)) {
                    kept.extend_from_slice(pair);
                }
            }
            let results = function.insts[inst].result_count();
            function.set_operands(inst, &kept, results);
        }
    }
    for block in function.blocks.indices() {
        if !flow.is_reachable(block) {
            function.blocks[block].insts.clear();
        }
    }
    before - function.layout.len()
}
