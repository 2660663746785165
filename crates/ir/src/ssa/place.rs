//! Placement of phis.
//!
//! A variable needs a phi in each block of the iterated dominance frontier of its definitions in which the variable is live (pruned SSA).
//! The frontier is computed as in Sreedhar and Gao 1995, "A Linear Time Algorithm for Placing phi-Nodes": definitions are processed from
//! the deepest in the dominator tree upwards; each searches the dominator subtree below it for edges that leave the subtree. Departing
//! from the paper, the search visits only blocks in which the variable is live, since its value is not needed elsewhere. So the cost per
//! variable is proportional to its live range, not to the function.
//!
//! Example: in the graph `0 -> 1, 0 -> 2, 1 -> 3, 2 -> 3` a variable is assigned in 0 and 1 and used in 3. The definition in 1 (depth 1)
//! has an edge to 3, which 1 does not dominate immediately and which is not deeper than 1, so 3 needs a phi. The phi counts as a
//! definition in 3, and has no edges to follow. The definition in 0 (depth 0) finds no edge that leaves its subtree.

use std::collections::BinaryHeap;

use oriole_support::{Groups, Index, IndexVec};

use super::variables::Variables;
use crate::analysis::{ControlFlow, Dominators, LivenessWalk};
use crate::function::Function;
use crate::ids::{Block, Value};

/// Returns, for each block, the variables that need a phi there, in ascending order.
pub(super) fn place_phis(
    function: &Function,
    flow: &ControlFlow,
    dominators: &Dominators,
    variables: &Variables,
) -> IndexVec<Block, Vec<Value>> {
    let (blocks, values) = (function.blocks.len(), function.values.len());
    let (needs, definitions) = (Groups::collect(values, &variables.needs), Groups::collect(values, &variables.definitions));
    let mut phis: IndexVec<Block, Vec<Value>> = IndexVec::filled(blocks, Vec::new());
    let mut walk = LivenessWalk::new(blocks);
    let mut frontier = Frontier::new(blocks, flow, dominators);
    for value in variables.members.iter() {
        let live = walk.live_in(value, needs.of(value), definitions.of(value), flow);
        if live.is_empty() {
            continue;
        }
        frontier.start(value, live.iter().map(|&(block, _)| block));
        for &block in definitions.of(value) {
            frontier.add_root(block);
        }
        if frontier.is_live(function.entry()) {
            frontier.add_root(function.entry());
        }
        frontier.run(|block| phis[block].push(value));
    }
    phis
}

/// Marks of a block. Each holds the number (plus one) of the variable for which it was last set, so marks need no clearing.
#[derive(Clone, Copy, Default)]
struct PlacementMarks {
    live: u32,
    is_root: u32,
    has_phi: u32,
    visited: u32,
    has_children: u32,
}

/// The search for the iterated dominance frontier of one variable after the other.
struct Frontier<'a> {
    flow: &'a ControlFlow,
    dominators: &'a Dominators,
    /// The mark of the current variable.
    stamp: u32,
    marks: IndexVec<Block, PlacementMarks>,
    /// The children in the dominator tree in which the variable is live, as linked lists.
    first_child: IndexVec<Block, Option<Block>>,
    next_child: IndexVec<Block, Option<Block>>,
    /// Blocks whose subtree still has to be searched, the deepest first.
    roots: BinaryHeap<(usize, Block)>,
    stack: Vec<Block>,
}

impl<'a> Frontier<'a> {
    fn new(blocks: usize, flow: &'a ControlFlow, dominators: &'a Dominators) -> Self {
        Frontier {
            flow,
            dominators,
            stamp: 0,
            marks: IndexVec::filled(blocks, PlacementMarks::default()),
            first_child: IndexVec::filled(blocks, None),
            next_child: IndexVec::filled(blocks, None),
            roots: BinaryHeap::new(),
            stack: Vec::new(),
        }
    }

    /// Resets the state for a variable that is live into the given blocks.
    fn start(&mut self, value: Value, live: impl Iterator<Item = Block>) {
        self.stamp = value.position() as u32 + 1;
        for block in live {
            self.marks[block].live = self.stamp;
            let Some(parent) = self.dominators.immediate(block) else { continue };
            let marks = &mut self.marks[parent];
            self.next_child[block] = if marks.has_children == self.stamp { self.first_child[parent] } else { None };
            marks.has_children = self.stamp;
            self.first_child[parent] = Some(block);
        }
    }

    fn is_live(&self, block: Block) -> bool {
        self.marks[block].live == self.stamp
    }

    /// Adds a definition of the variable: an original one, or a phi.
    fn add_root(&mut self, block: Block) {
        if self.marks[block].is_root != self.stamp {
            self.marks[block].is_root = self.stamp;
            self.roots.push((self.dominators.depth(block), block));
        }
    }

    /// Runs the search; calls `needs_phi` once for each block of the frontier.
    fn run(&mut self, mut needs_phi: impl FnMut(Block)) {
        while let Some((depth, root)) = self.roots.pop() {
            self.marks[root].visited = self.stamp;
            self.stack.push(root);
            while let Some(block) = self.stack.pop() {
                for &target in self.flow.successors(block) {
                    // An edge to a block that is not deeper than the root leaves the subtree of the root: its target is in the frontier.
                    let leaves = self.dominators.immediate(target) != Some(block) && self.dominators.depth(target) <= depth;
                    let marks = &mut self.marks[target];
                    if leaves && marks.live == self.stamp && marks.has_phi != self.stamp {
                        marks.has_phi = self.stamp;
                        needs_phi(target);
                        self.add_root(target);
                    }
                }
                let mut child = if self.marks[block].has_children == self.stamp { self.first_child[block] } else { None };
                while let Some(below) = child {
                    if self.marks[below].visited != self.stamp {
                        self.marks[below].visited = self.stamp;
                        self.stack.push(below);
                    }
                    child = self.next_child[below];
                }
            }
        }
    }
}
