//! The loop nesting forest.
//!
//! A loop is a set of blocks that reach each other; its header is the one a depth-first walk meets first. Loops are found from the inside
//! out with Tarjan's interval method, in the form Ramalingam gave it ("Identifying Loops in Almost Linear Time"): edges that are neither
//! in the depth-first tree nor go back join the graph when the walk gets to the lowest common ancestor of their ends. So each edge is
//! looked at once even where loops are irreducible, which means entered at a block other than the header; such loops are noted.

use oriole_support::{Groups, Index, IndexVec, define_index};

use super::ControlFlow;
use crate::function::{Block, Function};

define_index!(
    /// A loop.
    pub struct LoopId,
    "loop"
);

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The block it is entered at; one of several if the loop is irreducible.
    pub header: Block,
    /// The closest loop around it.
    pub parent: Option<LoopId>,
    /// 1 for outermost loops.
    pub depth: u32,
    /// Whether it can be entered other than at its header.
    pub is_irreducible: bool,
    start: u32,
    end: u32,
}

/// All loops of a function; each comes after those around it.
#[derive(Clone, Debug)]
pub struct Loops {
    loops: IndexVec<LoopId, Loop>,
    innermost: IndexVec<Block, Option<LoopId>>,
    /// Blocks in loops; those of one loop, inner ones included, are neighbours.
    members: Vec<Block>,
}

impl Loops {
    /// Finds the loops among reachable blocks.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Loops {
        Search::new(function, flow).run()
    }

    /// All loops, outer ones before those inside.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = LoopId> + use<> {
        self.loops.indices()
    }

    /// The number of loops.
    pub fn len(&self) -> usize {
        self.loops.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.loops.is_empty()
    }

    /// A loop.
    pub fn get(&self, id: LoopId) -> &Loop {
        &self.loops[id]
    }

    /// The innermost loop that a block is in.
    pub fn innermost(&self, block: Block) -> Option<LoopId> {
        self.innermost.get(block).copied().flatten()
    }

    /// In how many loops a block is.
    pub fn depth(&self, block: Block) -> u32 {
        self.innermost(block).map_or(0, |id| self.loops[id].depth)
    }

    /// The blocks of a loop, inner loops included; the header comes first.
    pub fn blocks(&self, id: LoopId) -> &[Block] {
        &self.members[self.loops[id].start as usize..self.loops[id].end as usize]
    }

    /// Whether a block is in a loop.
    pub fn contains(&self, id: LoopId, block: Block) -> bool {
        self.innermost(block).is_some_and(|inner| {
            let (outer, inner) = (&self.loops[id], &self.loops[inner]);
            outer.start <= inner.start && inner.end <= outer.end
        })
    }

    /// Whether a block is the header of a loop.
    pub fn is_header(&self, block: Block) -> bool {
        self.innermost(block).is_some_and(|id| self.loops[id].header == block)
    }
}

/// Nodes are numbers in depth-first preorder.
struct Search {
    order: Vec<Block>,
    /// Edges that go back to an ancestor, by that ancestor.
    back: Vec<(u32, u32)>,
    /// Other edges outside of the tree, with the lowest common ancestor of their ends.
    across: Vec<(u32, (u32, u32))>,
    parent: Vec<u32>,
}

const NONE: u32 = u32::MAX;

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
    /// A node of the walk.
    pub struct Node,
    "node"
);

impl Search {
    /// Walks depth first and sorts the edges by their kind.
    fn new(function: &Function, flow: &ControlFlow) -> Search {
        let mut search = Search { order: Vec::new(), back: Vec::new(), across: Vec::new(), parent: Vec::new() };
        let Some(&entry) = function.layout.first() else { return search };
        let mut number: IndexVec<Block, u32> = IndexVec::filled(function.blocks.len(), NONE);
        let mut is_open: Vec<bool> = vec![true];
        // A finished node points to its parent: its root is the lowest ancestor that is still open.
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

    fn run(self) -> Loops {
        if self.back.is_empty() {
            return Loops { loops: IndexVec::new(), innermost: IndexVec::new(), members: Vec::new() };
        }
        let count = self.order.len();
        let node = |number: u32| Node::new(number as usize);
        let back: Vec<(Node, u32)> = self.back.iter().map(|&(to, from)| (node(to), from)).collect();
        let across: Vec<(Node, (u32, u32))> = self.across.iter().map(|&(at, edge)| (node(at), edge)).collect();
        let (back, across) = (Groups::collect(count, &back), Groups::collect(count, &across));
        // Edges that have joined the graph, as linked lists by the collapsed loop they end in.
        let mut joined: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut roots: Vec<u32> = (0..count as u32).collect();
        // The header of the innermost loop around each node (around a header: of the next loop).
        let mut header_of: Vec<u32> = vec![NONE; count];
        let mut is_header = vec![false; count];
        let mut side_entries: Vec<(u32, u32)> = Vec::new();
        let mut body: Vec<u32> = Vec::new();
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

    fn forest(&self, header_of: &[u32], is_header: &[bool], side_entries: &[(u32, u32)]) -> Loops {
        let count = self.order.len();
        let bound = self.order.iter().map(|block| block.position() + 1).max().unwrap_or(0);
        let mut found = Loops { loops: IndexVec::new(), innermost: IndexVec::filled(bound, None), members: Vec::new() };
        let inside: Vec<(Node, u32)> =
            (0..count).filter(|&at| header_of[at] != NONE).map(|at| (Node::new(header_of[at] as usize), at as u32)).collect();
        let inside = Groups::collect(count, &inside);
        let mut loop_at = vec![None; count];
        let mut stack: Vec<(u32, usize, LoopId)> = Vec::new();
        for outermost in (0..count as u32).filter(|&at| is_header[at as usize] && header_of[at as usize] == NONE) {
            let id = self.open(&mut found, outermost, None);
            loop_at[outermost as usize] = Some(id);
            stack.push((outermost, 0, id));
            while let Some((header, next, id)) = stack.last_mut() {
                let id = *id;
                let Some(&member) = inside.of(Node::new(*header as usize)).get(*next) else {
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

    fn open(&self, found: &mut Loops, header: u32, parent: Option<LoopId>) -> LoopId {
        let depth = parent.map_or(1, |parent| found.loops[parent].depth + 1);
        let start = found.members.len() as u32;
        let block = self.order[header as usize];
        let id = found.loops.push(Loop { header: block, parent, depth, is_irreducible: false, start, end: start });
        found.innermost[block] = Some(id);
        found.members.push(block);
        id
    }

    /// An edge to `target` enters all loops around it up to the one headed by `top` at the side, save a loop that `target` heads.
    /// Counted as differences along the way up and summed from the leaves.
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
