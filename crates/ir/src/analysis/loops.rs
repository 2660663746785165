//! The loop nesting forest.
//!
//! A loop is a strongly connected set of blocks; its header is the block of it that a depth-first search reaches first. Loops are found
//! from the innermost outwards with Tarjan's interval method in the form of Ramalingam 1999, "Identifying Loops in Almost Linear Time": an
//! edge that is neither in the depth-first tree nor a back edge joins the graph when the algorithm reaches the lowest common ancestor of
//! its ends. So each edge is processed once, even for irreducible loops, which can be entered at a block other than the header; such loops
//! are marked. Almost linear in the number of edges.
//!
//! Example: with edges `0 -> 1, 1 -> 2, 2 -> 2, 2 -> 1, 1 -> 3`, the loop with header 1 contains 1 and 2, and the inner loop with header 2
//! contains 2.

use oriole_support::{Groups, Index, IndexVec, define_index};

use super::ControlFlow;
use crate::function::Function;
use crate::ids::Block;

define_index!(
    /// The number of a loop.
    pub struct LoopId,
    "loop"
);

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The block at which the loop is entered; one of several if the loop is irreducible.
    pub header: Block,
    /// The innermost loop around this one; `None` for outermost loops.
    pub parent: Option<LoopId>,
    /// Nesting depth; 1 for outermost loops.
    pub depth: u32,
    /// Whether the loop can be entered at a block other than its header.
    pub is_irreducible: bool,
    /// Range of [`Loops::members`] with the blocks of the loop.
    start: u32,
    end: u32,
}

/// All loops of a function; each comes after the loops that contain it.
#[derive(Clone, Debug)]
pub struct Loops {
    loops: IndexVec<LoopId, Loop>,
    /// The innermost loop of each block.
    innermost: IndexVec<Block, Option<LoopId>>,
    /// The blocks that are in loops; the blocks of one loop, including those of inner loops, are contiguous.
    members: Vec<Block>,
}

impl Loops {
    /// Finds the loops among the reachable blocks.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Loops {
        DepthFirstSearch::new(function, flow).run()
    }

    /// Returns all loops, outer ones before inner ones.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = LoopId> + use<> {
        self.loops.indices()
    }

    /// Returns the number of loops.
    pub fn len(&self) -> usize {
        self.loops.len()
    }

    /// Returns whether there are no loops.
    pub fn is_empty(&self) -> bool {
        self.loops.is_empty()
    }

    /// Returns a loop by number.
    pub fn get(&self, id: LoopId) -> &Loop {
        &self.loops[id]
    }

    /// Returns the innermost loop that contains a block.
    pub fn innermost(&self, block: Block) -> Option<LoopId> {
        self.innermost.get(block).copied().flatten()
    }

    /// Returns the number of loops that contain a block.
    #[inline]
    pub fn depth(&self, block: Block) -> u32 {
        self.innermost(block).map_or(0, |id| self.loops[id].depth)
    }

    /// Returns the blocks of a loop, including those of inner loops; the header is first.
    pub fn blocks(&self, id: LoopId) -> &[Block] {
        &self.members[self.loops[id].start as usize..self.loops[id].end as usize]
    }

    /// Returns whether a loop contains a block.
    pub fn contains(&self, id: LoopId, block: Block) -> bool {
        self.innermost(block).is_some_and(|inner| {
            let (outer, inner) = (&self.loops[id], &self.loops[inner]);
            outer.start <= inner.start && inner.end <= outer.end
        })
    }

    /// Returns whether a block is the header of a loop.
    pub fn is_header(&self, block: Block) -> bool {
        self.innermost(block).is_some_and(|id| self.loops[id].header == block)
    }
}

/// The depth-first search and its edges. Nodes are numbered in preorder.
struct DepthFirstSearch {
    /// The block of each node.
    order: Vec<Block>,
    /// Back edges, as (ancestor, source).
    back: Vec<(u32, u32)>,
    /// Cross and forward edges, as (lowest common ancestor, (source, target)).
    across: Vec<(u32, (u32, u32))>,
    /// The parent of each node in the depth-first tree.
    parent: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// Returns the representative of a node in a union-find forest; compresses the path.
fn find(roots: &mut [u32], node: u32) -> u32 {
    let mut root = node;
    while roots[root as usize] != root {
        root = roots[root as usize];
    }
    let mut at = node;
    while at != root {
        at = std::mem::replace(&mut roots[at as usize], root);
    }
    root
}

define_index!(
    /// A node of the depth-first search.
    pub struct SearchNode,
    "node"
);

impl DepthFirstSearch {
    /// Runs the depth-first search and classifies the edges.
    fn new(function: &Function, flow: &ControlFlow) -> DepthFirstSearch {
        let mut search = DepthFirstSearch { order: Vec::new(), back: Vec::new(), across: Vec::new(), parent: Vec::new() };
        let Some(&entry) = function.layout.first() else { return search };
        let mut number: IndexVec<Block, u32> = IndexVec::filled(function.blocks.len(), NONE);
        let mut is_open: Vec<bool> = vec![true];
        // Union-find forest: a finished node points to its parent, so its representative is its lowest ancestor that is still open, which
        // is the lowest common ancestor with the current node.
        let mut roots: Vec<u32> = vec![0];
        number[entry] = 0;
        search.order.push(entry);
        search.parent.push(NONE);
        let mut stack = vec![(entry, 0)];
        while let Some((block, next)) = stack.last_mut() {
            let from = number[*block];
            let Some(&target) = flow.successors(*block).get(*next) else {
                is_open[from as usize] = false;
                if search.parent[from as usize] != NONE {
                    roots[from as usize] = search.parent[from as usize];
                }
                stack.pop();
                continue;
            };
            *next += 1;
            let to = number[target];
            if to == NONE {
                let new = search.order.len() as u32;
                number[target] = new;
                search.order.push(target);
                search.parent.push(from);
                roots.push(new);
                is_open.push(true);
                stack.push((target, 0));
            } else if is_open[to as usize] {
                search.back.push((to, from));
            } else {
                search.across.push((find(&mut roots, to), (from, to)));
            }
        }
        search
    }

    /// Finds the loops: processes headers in reverse preorder, and collapses each loop into its header once it is complete.
    fn run(self) -> Loops {
        if self.back.is_empty() {
            return Loops { loops: IndexVec::new(), innermost: IndexVec::new(), members: Vec::new() };
        }
        let count = self.order.len();
        let node = |number: u32| SearchNode::new(number as usize);
        let back: Vec<(SearchNode, u32)> = self.back.iter().map(|&(to, from)| (node(to), from)).collect();
        let across: Vec<(SearchNode, (u32, u32))> = self.across.iter().map(|&(at, edge)| (node(at), edge)).collect();
        let (back, across) = (Groups::collect(count, &back), Groups::collect(count, &across));
        // Cross and forward edges that have joined the graph, by the collapsed loop that they enter.
        let mut joined: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut roots: Vec<u32> = (0..count as u32).collect();
        // The header of the innermost loop around each node; for a header, that of the next outer loop.
        let mut header_of: Vec<u32> = vec![NONE; count];
        let mut is_header = vec![false; count];
        // Edges that enter a collapsed loop at a node other than its header, as (target, header).
        let mut side_entries: Vec<(u32, u32)> = Vec::new();
        let mut body: Vec<u32> = Vec::new();
        // In reverse preorder, all loops below a node in the depth-first tree are collapsed before the node is processed.
        for header in (0..count as u32).rev() {
            for &(from, to) in across.of(node(header)) {
                let top = find(&mut roots, to);
                joined[top as usize].push(from);
                if top != to {
                    side_entries.push((to, top));
                }
            }
            for &from in back.of(node(header)) {
                is_header[header as usize] = true;
                let from = find(&mut roots, from);
                if from != header {
                    roots[from as usize] = header;
                    header_of[from as usize] = header;
                    body.push(from);
                }
            }
            // The loop consists of all nodes from which a back edge is reachable without passing the header: search backwards.
            while let Some(member) = body.pop() {
                let tree = std::iter::once(self.parent[member as usize]);
                for from in tree.chain(std::mem::take(&mut joined[member as usize])) {
                    let from = find(&mut roots, from);
                    if from != header {
                        roots[from as usize] = header;
                        header_of[from as usize] = header;
                        body.push(from);
                    }
                }
            }
        }
        self.forest(&header_of, &is_header, &side_entries)
    }

    /// Builds the nesting forest from the header of each node.
    fn forest(&self, header_of: &[u32], is_header: &[bool], side_entries: &[(u32, u32)]) -> Loops {
        let count = self.order.len();
        let bound = self.order.iter().map(|block| block.position() + 1).max().unwrap_or(0);
        let mut found = Loops { loops: IndexVec::new(), innermost: IndexVec::filled(bound, None), members: Vec::new() };
        let inside: Vec<(SearchNode, u32)> =
            (0..count).filter(|&at| header_of[at] != NONE).map(|at| (SearchNode::new(header_of[at] as usize), at as u32)).collect();
        let inside = Groups::collect(count, &inside);
        let mut loop_at = vec![None; count];
        let mut stack: Vec<(u32, usize, LoopId)> = Vec::new();
        for outermost in (0..count as u32).filter(|&at| is_header[at as usize] && header_of[at as usize] == NONE) {
            let id = self.open(&mut found, outermost, None);
            loop_at[outermost as usize] = Some(id);
            stack.push((outermost, 0, id));
            while let Some((header, next, id)) = stack.last_mut() {
                let id = *id;
                let Some(&member) = inside.of(SearchNode::new(*header as usize)).get(*next) else {
                    found.loops[id].end = found.members.len() as u32;
                    stack.pop();
                    continue;
                };
                *next += 1;
                if is_header[member as usize] {
                    let inner = self.open(&mut found, member, Some(id));
                    loop_at[member as usize] = Some(inner);
                    stack.push((member, 0, inner));
                } else {
                    found.innermost[self.order[member as usize]] = Some(id);
                    found.members.push(self.order[member as usize]);
                }
            }
        }
        self.note_irreducible(&mut found, &loop_at, side_entries);
        found
    }

    /// Adds a loop with its header.
    fn open(&self, found: &mut Loops, header: u32, parent: Option<LoopId>) -> LoopId {
        let depth = parent.map_or(1, |parent| found.loops[parent].depth + 1);
        let start = found.members.len() as u32;
        let block = self.order[header as usize];
        let id = found.loops.push(Loop { header: block, parent, depth, is_irreducible: false, start, end: start });
        found.innermost[block] = Some(id);
        found.members.push(block);
        id
    }

    /// Marks the irreducible loops. A side entry (`target`, `top`) enters all loops that contain `target`, up to the loop with header
    /// `top`, except a loop whose header is `target`. Each entry is counted as +1 at the innermost and -1 above the outermost of these
    /// loops; the sums over the forest from the leaves give the number of side entries of each loop.
    fn note_irreducible(&self, found: &mut Loops, loop_at: &[Option<LoopId>], side_entries: &[(u32, u32)]) {
        let mut entries: IndexVec<LoopId, i64> = IndexVec::filled(found.loops.len(), 0);
        for &(target, top) in side_entries {
            let innermost = found.innermost(self.order[target as usize]);
            let heads_it = loop_at[target as usize].is_some();
            let first = if heads_it { innermost.and_then(|id| found.loops[id].parent) } else { innermost };
            let (Some(first), Some(top)) = (first, loop_at[top as usize]) else { continue };
            entries[first] += 1;
            if let Some(above) = found.loops[top].parent {
                entries[above] -= 1;
            }
        }
        for id in found.loops.indices().rev() {
            let count = entries[id];
            found.loops[id].is_irreducible = count > 0;
            if let Some(parent) = found.loops[id].parent {
                entries[parent] += count;
            }
        }
    }
}
