//! Control flow graph: predecessors, successors, reverse post order.

use oriole_support::{BitSet, Groups, IndexVec};
use smallvec::SmallVec;

use crate::function::Function;
use crate::ids::Block;
use crate::operand::{Operand, OperandKind};

/// The control flow graph of a function. Parallel edges (two branches to the same block) count once.
#[derive(Clone, Debug)]
pub struct ControlFlow {
    predecessors: Groups<Block, Block>,
    successors: Groups<Block, Block>,
    reverse_post_order: Vec<Block>,
    /// The position of each block in reverse post order; [`UNREACHED`] for unreachable blocks.
    position: IndexVec<Block, u32>,
}

/// Position of a block that is not reachable from the entry.
const UNREACHED: u32 = u32::MAX;

impl ControlFlow {
    /// Computes the graph from the branches of all blocks in the layout.
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

    /// Returns the predecessors of a block in layout order, including unreachable ones.
    #[inline]
    pub fn predecessors(&self, block: Block) -> &[Block] {
        self.predecessors.of(block)
    }

    /// Returns the successors of a block in the order of its branches.
    #[inline]
    pub fn successors(&self, block: Block) -> &[Block] {
        self.successors.of(block)
    }

    /// Returns the reachable blocks; each comes before its successors, except along back edges.
    pub fn reverse_post_order(&self) -> &[Block] {
        &self.reverse_post_order
    }

    /// Returns the position of a block in [`ControlFlow::reverse_post_order`]; `None` if the block is unreachable.
    #[inline]
    pub fn position(&self, block: Block) -> Option<usize> {
        self.position.get(block).copied().filter(|&position| position != UNREACHED).map(|position| position as usize)
    }

    /// Returns whether a path leads from the entry to a block.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.position(block).is_some()
    }
}

/// Computes the reverse post order with a depth-first search.
fn reverse_post_order(function: &Function, successors: &Groups<Block, Block>) -> Vec<Block> {
    let mut order = Vec::with_capacity(function.layout.len());
    let Some(&entry) = function.layout.first() else { return order };
    let mut visited = BitSet::new(function.blocks.len());
    visited.insert(entry);
    let mut stack = vec![(entry, 0)];
    while let Some((block, next)) = stack.last_mut() {
        // The search visits successors in order, so the last one comes directly after its block in the reversed order. This is the
        // fall-through path of a conditional branch, which is usually the shorter one.
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

/// Removes unreachable blocks from the layout, and their sources from phis. Returns the number of blocks removed.
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
