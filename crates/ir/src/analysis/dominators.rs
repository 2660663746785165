//! Dominator tree, post-dominator tree, dominance frontiers.
//!
//! Block `a` dominates `b` if every path from the entry to `b` passes through `a`. Block `a` post-dominates `b` if every path from `b` to
//! the end of the function passes through `a`. Both trees are computed with the simple variant of Lengauer and Tarjan 1979, "A Fast
//! Algorithm for Finding Dominators in a Flowgraph" (path compression without balancing): O(m log n) for n blocks and m edges. Preorder
//! intervals of the subtrees answer dominance queries in constant time.
//!
//! Post-dominators need a single exit. A virtual exit block follows all blocks without successors. In a region that never reaches one (an
//! infinite loop), the last block in reverse post order gets an edge to the virtual exit too.
//!
//! Example: with edges `0 -> 1, 0 -> 2, 1 -> 3, 2 -> 3`, block 0 is the immediate dominator of 1, 2 and 3; block 3 is the immediate
//! post-dominator of 0, 1 and 2; the dominance frontier of 1 and of 2 is {3}.

use oriole_support::{BitSet, Groups, Index, IndexVec};

use super::ControlFlow;
use crate::function::Function;
use crate::ids::Block;

/// The dominator tree.
#[derive(Clone, Debug)]
pub struct Dominators {
    tree: Tree,
}

impl Dominators {
    /// Computes the immediate dominators of all reachable blocks.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Dominators {
        let count = function.blocks.len();
        let Some(&entry) = function.layout.first() else { return Dominators { tree: Tree::build(count, None, &IndexVec::new()) } };
        let edges: Vec<(Block, Block)> =
            flow.reverse_post_order().iter().flat_map(|&from| flow.successors(from).iter().map(move |&to| (from, to))).collect();
        let immediate = immediate_dominators(count, entry, &edges);
        Dominators { tree: Tree::build(count, Some(entry), &immediate) }
    }

    /// Returns the immediate dominator of a block; `None` for the entry and for unreachable blocks.
    pub fn immediate(&self, block: Block) -> Option<Block> {
        self.tree.parent.get(block).copied().flatten()
    }

    /// Returns whether one block dominates another; each reachable block dominates itself.
    pub fn dominates(&self, above: Block, below: Block) -> bool {
        self.tree.encloses(above, below)
    }

    /// Returns the blocks whose immediate dominator is `block`, in ascending order.
    pub fn children(&self, block: Block) -> &[Block] {
        self.tree.children.of(block)
    }

    /// Returns all reachable blocks in a preorder of the dominator tree: each subtree is contiguous and starts with its root.
    pub fn preorder(&self) -> &[Block] {
        &self.tree.preorder
    }

    /// Returns the number of blocks that strictly dominate a block.
    pub fn depth(&self, block: Block) -> usize {
        self.tree.depth[block] as usize
    }
}

/// The dominance frontier of each block: the blocks that it does not strictly dominate although it dominates one of their predecessors.
#[derive(Clone, Debug)]
pub struct DominanceFrontiers {
    frontiers: IndexVec<Block, Vec<Block>>,
}

impl DominanceFrontiers {
    /// Computes the frontiers as Cooper, Harvey and Kennedy 2001: from each predecessor of a join, walks up the dominator tree to the
    /// immediate dominator of the join, and adds the join to each block on the way. A block that already has the join was passed before,
    /// and so were all blocks above it; stopping there makes the cost proportional to the size of the result.
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

    /// Returns the dominance frontier of a block, in reverse post order.
    pub fn of(&self, block: Block) -> &[Block] {
        &self.frontiers[block]
    }
}

/// The post-dominator tree.
#[derive(Clone, Debug)]
pub struct PostDominators {
    tree: Tree,
    /// The virtual exit block.
    exit: Block,
}

impl PostDominators {
    /// Computes the immediate post-dominators of all reachable blocks.
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

    /// Returns the immediate post-dominator of a block; `None` if that is the virtual exit.
    pub fn immediate(&self, block: Block) -> Option<Block> {
        self.tree.parent.get(block).copied().flatten().filter(|&parent| parent != self.exit)
    }

    /// Returns whether one block post-dominates another; each reachable block post-dominates itself.
    pub fn dominates(&self, later: Block, earlier: Block) -> bool {
        self.tree.encloses(later, earlier)
    }

    /// Returns the blocks whose immediate post-dominator is `block`, in ascending order.
    pub fn children(&self, block: Block) -> &[Block] {
        self.tree.children.of(block)
    }

    /// Returns the closest block that post-dominates both, if there is one.
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

/// A dominator tree with preorder intervals of its subtrees.
#[derive(Clone, Debug)]
struct Tree {
    parent: IndexVec<Block, Option<Block>>,
    children: Groups<Block, Block>,
    preorder: Vec<Block>,
    depth: IndexVec<Block, u32>,
    /// Position in preorder plus one (0: not in the tree), and the last position in the subtree plus one.
    interval: IndexVec<Block, (u32, u32)>,
}

impl Tree {
    /// Builds the tree from the parent of each block.
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

    /// Returns whether `below` is in the subtree of `above`.
    fn encloses(&self, above: Block, below: Block) -> bool {
        let (Some(&(start, end)), Some(&(inner, _))) = (self.interval.get(above), self.interval.get(below)) else { return false };
        start != 0 && inner != 0 && start <= inner && inner <= end
    }
}

const NONE: u32 = u32::MAX;

/// The forest of the Lengauer-Tarjan algorithm. Nodes are numbered in depth-first order.
struct Forest {
    /// Parent in the forest; [`NONE`] for roots. Path compression shortens it.
    ancestor: Vec<u32>,
    /// Node with the least semidominator on the compressed path.
    label: Vec<u32>,
    /// Semidominator of each node, or the node itself until it is known.
    semi: Vec<u32>,
    /// Scratch stack of path compression.
    path: Vec<u32>,
}

impl Forest {
    /// Returns the node with the least semidominator on the path from `node` to the root of its tree (EVAL); compresses the path.
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

/// Returns the nodes in depth-first order, the number of each block, and the parent of each node in the depth-first tree.
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

/// Computes the immediate dominator of each block that is reachable from `root`.
fn immediate_dominators(count: usize, root: Block, edges: &[(Block, Block)]) -> IndexVec<Block, Option<Block>> {
    let (order, number, parent) = depth_first(count, root, &Groups::collect(count, edges));
    let reversed: Vec<(Block, Block)> = edges.iter().map(|&(from, to)| (to, from)).collect();
    let predecessors = Groups::collect(count, &reversed);
    let nodes = order.len();
    let numbers: Vec<u32> = (0..nodes as u32).collect();
    let mut forest = Forest { ancestor: vec![NONE; nodes], label: numbers.clone(), semi: numbers, path: Vec::new() };
    let mut dominator = vec![0u32; nodes];
    // The bucket of each node: the nodes whose semidominator it is, as linked lists.
    let (mut bucket_first, mut bucket_next) = (vec![NONE; nodes], vec![NONE; nodes]);
    for node in (1..nodes).rev() {
        // The semidominator: the least node from which a path over higher-numbered nodes leads to this node.
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
        // All nodes on the paths from `above` to the nodes in its bucket are linked now, so their dominators can be determined: `above`
        // itself, or that of `best`, which the last loop below fills in.
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
