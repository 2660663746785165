//! Dominators and post-dominators.
//!
//! Block `a` dominates `b` if every path from the entry to `b` goes through `a`; it post-dominates `b` if every path from `b` to the end
//! of the function goes through `a`. The trees are found with the algorithm of Lengauer and Tarjan ("A Fast Algorithm for Finding
//! Dominators in a Flowgraph") in its simple form: path compression alone, n log n at worst. Numbers given on the way into and out of
//! each subtree answer dominance in constant time.
//!
//! Post-dominators need one end. A virtual exit follows all blocks without successors; where a region never reaches one (an infinite
//! loop), its last block in reverse post order gets an edge there too.

use oriole_support::{BitSet, Groups, Index, IndexVec};

use super::ControlFlow;
use crate::function::{Block, Function};

/// The dominator tree.
#[derive(Clone, Debug)]
pub struct Dominators {
    tree: Tree,
}

impl Dominators {
    /// Finds the immediate dominators of all reachable blocks.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Dominators {
        let count = function.blocks.len();
        let Some(&entry) = function.layout.first() else { return Dominators { tree: Tree::build(count, None, &IndexVec::new()) } };
        let edges: Vec<(Block, Block)> =
            flow.reverse_post_order().iter().flat_map(|&from| flow.successors(from).iter().map(move |&to| (from, to))).collect();
        let immediate = immediate_dominators(count, entry, &edges);
        Dominators { tree: Tree::build(count, Some(entry), &immediate) }
    }

    /// The closest block that dominates another; none for the entry and for blocks that nothing reaches.
    pub fn immediate(&self, block: Block) -> Option<Block> {
        self.tree.parent.get(block).copied().flatten()
    }

    /// Whether one block dominates another; each reachable block dominates itself.
    pub fn dominates(&self, above: Block, below: Block) -> bool {
        self.tree.encloses(above, below)
    }

    /// The blocks that a block dominates immediately, in ascending order.
    pub fn children(&self, block: Block) -> &[Block] {
        self.tree.children.of(block)
    }

    /// All reachable blocks; each comes after its dominators and before what its later siblings dominate.
    pub fn preorder(&self) -> &[Block] {
        &self.tree.preorder
    }

    /// How many blocks dominate a block, itself excepted.
    pub fn depth(&self, block: Block) -> usize {
        self.tree.depth[block] as usize
    }
}

/// For each block those where its dominance ends: it dominates a predecessor of theirs, but not them (save itself).
#[derive(Clone, Debug)]
pub struct DominanceFrontiers {
    frontiers: IndexVec<Block, Vec<Block>>,
}

impl DominanceFrontiers {
    /// Walks up from each predecessor of a join to the block that dominates the join. A block that has met the join before has told all
    /// above it, so the cost is the size of the answer.
    pub fn compute(function: &Function, flow: &ControlFlow, dominators: &Dominators) -> DominanceFrontiers {
        let mut frontiers: IndexVec<Block, Vec<Block>> = IndexVec::filled(function.blocks.len(), Vec::new());
        for &join in flow.reverse_post_order() {
            if flow.predecessors(join).len() < 2 && dominators.immediate(join).is_some() {
                continue;
            }
            for &from in flow.predecessors(join).iter().filter(|&&from| flow.is_reachable(from)) {
                let mut at = Some(from);
                while let Some(block) = at
                    && Some(block) != dominators.immediate(join)
                    && frontiers[block].last() != Some(&join)
                {
                    frontiers[block].push(join);
                    at = dominators.immediate(block);
                }
            }
        }
        DominanceFrontiers { frontiers }
    }

    /// The frontier of a block, in reverse post order.
    pub fn of(&self, block: Block) -> &[Block] {
        &self.frontiers[block]
    }
}

/// The post-dominator tree.
#[derive(Clone, Debug)]
pub struct PostDominators {
    tree: Tree,
    exit: Block,
}

impl PostDominators {
    /// Finds the immediate post-dominators of all reachable blocks.
    pub fn compute(function: &Function, flow: &ControlFlow) -> PostDominators {
        let count = function.blocks.len();
        let exit = Block::new(count);
        let mut edges: Vec<(Block, Block)> = Vec::new();
        let mut reaches_exit = BitSet::new(count + 1);
        let mut stack = Vec::new();
        let (ends, inner): (Vec<Block>, Vec<Block>) =
            flow.reverse_post_order().iter().rev().partition(|&&block| flow.successors(block).is_empty());
        for block in ends.into_iter().chain(inner) {
            if !reaches_exit.insert(block) {
                continue;
            }
            edges.push((exit, block));
            stack.push(block);
            while let Some(block) = stack.pop() {
                stack.extend(flow.predecessors(block).iter().filter(|&&from| flow.is_reachable(from) && reaches_exit.insert(from)));
            }
        }
        for &from in flow.reverse_post_order() {
            edges.extend(flow.successors(from).iter().map(|&to| (to, from)));
        }
        let immediate = immediate_dominators(count + 1, exit, &edges);
        PostDominators { tree: Tree::build(count + 1, Some(exit), &immediate), exit }
    }

    /// The closest block that post-dominates another; none if that is only the end of the function.
    pub fn immediate(&self, block: Block) -> Option<Block> {
        self.tree.parent.get(block).copied().flatten().filter(|&parent| parent != self.exit)
    }

    /// Whether one block post-dominates another; each reachable block post-dominates itself.
    pub fn dominates(&self, later: Block, earlier: Block) -> bool {
        self.tree.encloses(later, earlier)
    }

    /// The blocks that a block post-dominates immediately, in ascending order.
    pub fn children(&self, block: Block) -> &[Block] {
        self.tree.children.of(block)
    }

    /// The closest block that post-dominates both, if there is one.
    pub fn common(&self, mut one: Block, mut other: Block) -> Option<Block> {
        while one != other {
            if self.tree.depth[one] < self.tree.depth[other] {
                std::mem::swap(&mut one, &mut other);
            }
            one = self.tree.parent[one]?;
        }
        (one != self.exit).then_some(one)
    }
}

/// A tree of blocks with intervals for its subtrees.
#[derive(Clone, Debug)]
struct Tree {
    parent: IndexVec<Block, Option<Block>>,
    children: Groups<Block, Block>,
    preorder: Vec<Block>,
    depth: IndexVec<Block, u32>,
    /// Position in preorder plus one (0: not in the tree), and the last position of the subtree plus one.
    interval: IndexVec<Block, (u32, u32)>,
}

impl Tree {
    fn build(count: usize, root: Option<Block>, immediate: &IndexVec<Block, Option<Block>>) -> Tree {
        let pairs: Vec<(Block, Block)> =
            immediate.iter_enumerated().filter_map(|(block, parent)| parent.map(|parent| (parent, block))).collect();
        let children = Groups::collect(count, &pairs);
        let mut preorder = Vec::new();
        let mut depth = IndexVec::filled(count, 0);
        let mut interval = IndexVec::filled(count, (0, 0));
        let mut stack: Vec<(Block, usize)> = root.map(|root| (root, 0)).into_iter().collect();
        while let Some((block, next)) = stack.last_mut() {
            let (block, number) = (*block, *next);
            *next += 1;
            if number == 0 {
                preorder.push(block);
                interval[block].0 = preorder.len() as u32;
                depth[block] = stack.len() as u32 - 1;
            }
            match children.of(block).get(number) {
                Some(&child) => stack.push((child, 0)),
                None => {
                    interval[block].1 = preorder.len() as u32;
                    stack.pop();
                }
            }
        }
        Tree { parent: immediate.clone(), children, preorder, depth, interval }
    }

    fn encloses(&self, above: Block, below: Block) -> bool {
        let (Some(&(start, end)), Some(&(inner, _))) = (self.interval.get(above), self.interval.get(below)) else { return false };
        start != 0 && inner != 0 && start <= inner && inner <= end
    }
}

const NONE: u32 = u32::MAX;

/// The forest of the algorithm, over numbers in depth-first order.
struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    semi: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// The node with the least semidominator on the way up to the root of a node's tree.
    fn evaluate(&mut self, node: u32) -> u32 {
        if self.ancestor[node as usize] == NONE {
            return self.label[node as usize];
        }
        let mut at = node;
        while self.ancestor[self.ancestor[at as usize] as usize] != NONE {
            self.path.push(at);
            at = self.ancestor[at as usize];
        }
        while let Some(below) = self.path.pop() {
            let above = self.ancestor[below as usize] as usize;
            let (mine, theirs) = (self.label[below as usize], self.label[above]);
            if self.semi[theirs as usize] < self.semi[mine as usize] {
                self.label[below as usize] = theirs;
            }
            self.ancestor[below as usize] = self.ancestor[above];
        }
        self.label[node as usize]
    }
}

/// Nodes in depth-first order, and for each its number and that of its parent.
fn depth_first(count: usize, root: Block, successors: &Groups<Block, Block>) -> (Vec<Block>, IndexVec<Block, u32>, Vec<u32>) {
    let mut order = vec![root];
    let mut number = IndexVec::filled(count, NONE);
    let mut parent = vec![NONE];
    number[root] = 0;
    let mut stack = vec![(root, 0)];
    while let Some((block, next)) = stack.last_mut() {
        let Some(&target) = successors.of(*block).get(*next) else {
            stack.pop();
            continue;
        };
        *next += 1;
        if number[target] == NONE {
            parent.push(number[*block]);
            number[target] = order.len() as u32;
            order.push(target);
            stack.push((target, 0));
        }
    }
    (order, number, parent)
}

fn immediate_dominators(count: usize, root: Block, edges: &[(Block, Block)]) -> IndexVec<Block, Option<Block>> {
    let (order, number, parent) = depth_first(count, root, &Groups::collect(count, edges));
    let reversed: Vec<(Block, Block)> = edges.iter().map(|&(from, to)| (to, from)).collect();
    let predecessors = Groups::collect(count, &reversed);
    let nodes = order.len();
    let numbers: Vec<u32> = (0..nodes as u32).collect();
    let mut forest = Forest { ancestor: vec![NONE; nodes], label: numbers.clone(), semi: numbers, path: Vec::new() };
    let mut dominator = vec![0u32; nodes];
    // Nodes waiting at their semidominator, as linked lists.
    let (mut bucket_first, mut bucket_next) = (vec![NONE; nodes], vec![NONE; nodes]);
    for node in (1..nodes).rev() {
        for &from in predecessors.of(order[node]) {
            if number[from] != NONE {
                let best = forest.evaluate(number[from]);
                forest.semi[node] = forest.semi[node].min(forest.semi[best as usize]);
            }
        }
        let semi = forest.semi[node] as usize;
        bucket_next[node] = bucket_first[semi];
        bucket_first[semi] = node as u32;
        let above = parent[node];
        forest.ancestor[node] = above;
        let mut waiting = std::mem::replace(&mut bucket_first[above as usize], NONE);
        while waiting != NONE {
            let best = forest.evaluate(waiting);
            let is_deeper = forest.semi[best as usize] < forest.semi[waiting as usize];
            dominator[waiting as usize] = if is_deeper { best } else { above };
            waiting = bucket_next[waiting as usize];
        }
    }
    let mut immediate = IndexVec::filled(count, None);
    for node in 1..nodes {
        if dominator[node] != forest.semi[node] {
            dominator[node] = dominator[dominator[node] as usize];
        }
        immediate[order[node]] = Some(order[dominator[node] as usize]);
    }
    immediate
}
