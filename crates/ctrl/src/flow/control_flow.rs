//! Predecessors, roots and loops of a control-flow graph, and a worklist for data-flow analyses over its blocks.
//!
//! Loops are approximated from the layout: an edge to the same or an earlier block that dominates its source makes all code from the start of
//! its target to the end of its source a loop. Where two such ranges overlap and neither contains the other, the one that starts first is
//! extended to contain both. An edge back from code for a rare case after the end of a function, which continues after the branch that led
//! there, is no loop: its target does not dominate its source. Only execution weights, the choice of scoreboards and the placement of stalls depend on loops, never
//! correctness.
//!
//! Cost: O(n log n) in the number of back edges, and linear in the length of the code, times the depth of the dominator tree in the worst
//! case.

use super::machine_code::MachineCode;

/// A loop of machine code: the instructions from the target of a back edge to the end of the block that the edge leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineLoop {
    /// Position of the loop's first instruction in the code.
    pub start: usize,
    /// Position after the loop's last instruction in the code.
    pub end: usize,
    /// Index in [`MachineControlFlow::loops`] of the innermost loop around this one; `None` for an outermost loop.
    pub parent: Option<usize>,
    /// Nesting depth; 1 for an outermost loop.
    pub depth: u32,
}

/// The control-flow graph of a function: predecessors, loops, and blocks from which all others are reachable.
#[derive(Debug)]
pub struct MachineControlFlow {
    /// For each block, the indices of its predecessors in the code's list of blocks.
    pub predecessors: Vec<Vec<u32>>,
    /// The back edges of loops: each source with its target, a block at or before the source that dominates it, sorted.
    pub back_edges: Vec<(usize, usize)>,
    /// All loops, sorted by start, outer loops before inner ones.
    pub loops: Vec<MachineLoop>,
    /// For each block, the index in `loops` of the innermost loop around it; `None` outside of loops.
    innermost_loop: Vec<Option<usize>>,
    /// For each instruction, the index of its block.
    block_of: Vec<u32>,
    /// Blocks from which all others are reachable: the entry, other blocks without predecessors, and one block of each unreachable cycle.
    pub roots: Vec<usize>,
}

impl MachineControlFlow {
    /// Computes predecessors, loops and roots of a function.
    pub fn new(code: &MachineCode<'_>) -> MachineControlFlow {
        let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); code.blocks.len()];
        let mut block_of = vec![0; code.instructions.len()];
        let mut backward: Vec<(usize, usize)> = Vec::new();
        for (number, block) in code.blocks.iter().enumerate() {
            block_of[block.range.clone()].fill(number as u32);
            for &next in &block.successors {
                predecessors[next].push(number as u32);
                if code.blocks[next].range.start < block.range.end {
                    backward.push((number, next));
                }
            }
        }
        let roots = find_root_blocks(code, &predecessors);
        if !backward.is_empty() {
            let dominators = BlockDominators::new(code, &predecessors, &roots);
            backward.retain(|&(from, to)| dominators.dominates(to, from));
            backward.sort_unstable();
        }
        let spans = backward.iter().map(|&(from, to)| (code.blocks[to].range.start, code.blocks[from].range.end)).collect();
        let loops = nest_loops(spans);
        let innermost_loop = innermost_loops(code, &loops);
        MachineControlFlow { predecessors, back_edges: backward, loops, innermost_loop, block_of, roots }
    }

    /// Returns the loop depth of the instruction at position `inst`; 0 outside of loops.
    pub fn depth(&self, inst: usize) -> u32 {
        self.loop_of_inst(inst).map_or(0, |at| self.loops[at].depth)
    }

    /// Returns the loop depth of a block; 0 outside of loops.
    pub(crate) fn depth_of_block(&self, block: usize) -> u32 {
        self.innermost_loop[block].map_or(0, |at| self.loops[at].depth)
    }

    /// Returns the index in `loops` of the innermost loop around a block; `None` outside of loops.
    pub fn loop_of_block(&self, block: usize) -> Option<usize> {
        self.innermost_loop[block]
    }

    /// Returns whether a block continues the previous one in the layout without a branch or join in between: the previous block is its only
    /// predecessor, and it is the only successor of the previous block.
    pub(crate) fn is_straight_line_after_previous(&self, code: &MachineCode<'_>, block: usize) -> bool {
        block > 0 && self.predecessors[block] == [block as u32 - 1] && code.blocks[block - 1].successors == [block]
    }

    /// Returns the index in `loops` of the innermost loop around the instruction at position `inst`; `None` outside of loops.
    fn loop_of_inst(&self, inst: usize) -> Option<usize> {
        self.block_of.get(inst).and_then(|&block| self.innermost_loop[block as usize])
    }

    /// Returns the innermost loop that contains the instructions at positions `later` and `earlier` of the code; `None` if no loop contains
    /// both.
    pub(crate) fn innermost_common_loop(&self, later: usize, earlier: usize) -> Option<MachineLoop> {
        let mut at = self.loop_of_inst(later);
        while let Some(one) = at.map(|at| self.loops[at]) {
            if one.start <= earlier {
                return Some(one);
            }
            at = one.parent;
        }
        None
    }
}

/// The dominator tree of the blocks, by the algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm", 2001). The parent
/// of the roots is a virtual block.
struct BlockDominators {
    /// For each block, its number in a postorder; that of the virtual block is the largest.
    postorder: Vec<usize>,
    /// For each block, its immediate dominator.
    immediate: Vec<usize>,
}

impl BlockDominators {
    /// Computes the dominators. All blocks are reachable from `roots`.
    fn new(code: &MachineCode<'_>, predecessors: &[Vec<u32>], roots: &[usize]) -> BlockDominators {
        let above_roots = code.blocks.len();
        let order = postorder(code, roots);
        let mut number = vec![above_roots; above_roots + 1];
        for (position, &block) in order.iter().enumerate() {
            number[block] = position;
        }
        let mut immediate: Vec<Option<usize>> = vec![None; above_roots + 1];
        immediate[above_roots] = Some(above_roots);
        roots.iter().for_each(|&root| immediate[root] = Some(above_roots));
        let is_root: Vec<bool> = immediate.iter().map(Option::is_some).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().rev().filter(|&&block| !is_root[block]) {
                let known = predecessors[block].iter().map(|&from| from as usize).filter(|&from| immediate[from].is_some());
                let found = known.reduce(|one, other| common_dominator(&number, &immediate, one, other));
                changed |= found.is_some() && std::mem::replace(&mut immediate[block], found) != found;
            }
        }
        BlockDominators { postorder: number, immediate: immediate.into_iter().map(|above| above.unwrap_or(above_roots)).collect() }
    }

    /// Returns whether every path from a root to `below` passes through `above`.
    fn dominates(&self, above: usize, mut below: usize) -> bool {
        while self.postorder[below] < self.postorder[above] {
            below = self.immediate[below];
        }
        below == above
    }
}

/// Returns the nearest common dominator of two blocks, in a tree of which a part is known.
fn common_dominator(postorder: &[usize], immediate: &[Option<usize>], mut one: usize, mut other: usize) -> usize {
    while one != other {
        let lower = if postorder[one] < postorder[other] { &mut one } else { &mut other };
        let Some(above) = immediate[*lower] else { return immediate.len() - 1 };
        *lower = above;
    }
    one
}

/// Returns the blocks that are reachable from `roots` in a postorder.
fn postorder(code: &MachineCode<'_>, roots: &[usize]) -> Vec<usize> {
    let mut order = Vec::with_capacity(code.blocks.len());
    let mut seen = vec![false; code.blocks.len()];
    // Each entry is a block and the number of its successors that were visited.
    let mut path: Vec<(usize, usize)> = Vec::new();
    for &root in roots {
        if !std::mem::replace(&mut seen[root], true) {
            path.push((root, 0));
        }
        while let Some((block, next)) = path.last_mut() {
            match code.blocks[*block].successors.get(*next) {
                Some(&successor) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[successor], true) {
                        path.push((successor, 0));
                    }
                }
                None => {
                    order.push(*block);
                    path.pop();
                }
            }
        }
    }
    order
}

/// Turns the instruction ranges of back edges, given as (start, end) with `end` exclusive, into properly nested loops, sorted by start.
fn nest_loops(mut spans: Vec<(usize, usize)>) -> Vec<MachineLoop> {
    spans.sort_unstable_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    let mut loops: Vec<MachineLoop> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (start, end) in spans {
        while open.last().is_some_and(|&at| loops[at].end <= start) {
            open.pop();
        }
        // Several back edges to one header: the sort put the longest span first, and the others belong to the same loop.
        if open.last().is_some_and(|&at| loops[at].start == start) {
            continue;
        }
        // Extend all open loops that contain the start of this one but not its end.
        for &at in open.iter().rev() {
            if loops[at].end >= end {
                break;
            }
            loops[at].end = end;
        }
        loops.push(MachineLoop { start, end, parent: open.last().copied(), depth: open.len() as u32 + 1 });
        open.push(loops.len() - 1);
    }
    loops
}

/// Returns for each block the index in `loops` of the innermost loop around it; `None` outside of loops. Makes one pass over blocks and
/// loops in the order of the code.
fn innermost_loops(code: &MachineCode<'_>, loops: &[MachineLoop]) -> Vec<Option<usize>> {
    let mut next = 0;
    let mut current: Option<usize> = None;
    let mut found = Vec::with_capacity(code.blocks.len());
    for block in &code.blocks {
        while let Some(at) = current.filter(|&at| loops[at].end <= block.range.start) {
            current = loops[at].parent;
        }
        while next < loops.len() && loops[next].start <= block.range.start {
            if loops[next].end > block.range.start {
                current = Some(next);
            }
            next += 1;
        }
        found.push(current);
    }
    found
}

/// Returns the entry block, and one block of each part of the code that is unreachable from other roots. See [`MachineControlFlow::roots`].
fn find_root_blocks(code: &MachineCode<'_>, predecessors: &[Vec<u32>]) -> Vec<usize> {
    let mut reached = vec![false; code.blocks.len()];
    let mut roots = Vec::new();
    let mut worklist = Vec::new();
    let without_predecessors = (0..code.blocks.len()).filter(|&block| block == 0 || predecessors[block].is_empty());
    // Blocks without predecessors first. A block that is then still not reached is in a cycle without an entry.
    for root in without_predecessors.chain(0..code.blocks.len()) {
        if reached[root] {
            continue;
        }
        reached[root] = true;
        roots.push(root);
        worklist.push(root);
        while let Some(block) = worklist.pop() {
            for &next in &code.blocks[block].successors {
                if !std::mem::replace(&mut reached[next], true) {
                    worklist.push(next);
                }
            }
        }
    }
    roots
}

/// The worklist of a forward data-flow analysis over blocks. Blocks are taken in sweeps over the layout from front to back, so that most
/// predecessors of a block are processed before the block. Adding a block that is already in the worklist has no effect.
#[derive(Debug)]
pub(crate) struct Worklist {
    /// For each block: whether it is in the worklist.
    is_queued: Vec<bool>,
    /// The next block that the current sweep considers.
    next_block: usize,
    /// The first queued block that the current sweep has already passed, where the next sweep starts; `usize::MAX` if there is none.
    next_sweep_start: usize,
}

impl Worklist {
    /// Creates an empty worklist for a function with this number of blocks.
    pub fn new(blocks: usize) -> Worklist {
        Worklist { is_queued: vec![false; blocks], next_block: 0, next_sweep_start: usize::MAX }
    }

    /// Adds a block to the worklist.
    pub fn push(&mut self, block: usize) {
        self.is_queued[block] = true;
        if block < self.next_block {
            self.next_sweep_start = self.next_sweep_start.min(block);
        }
    }

    /// Removes and returns the next queued block of the current sweep or, if there is none, the first queued block; `None` if the worklist
    /// is empty.
    pub fn pop(&mut self) -> Option<usize> {
        loop {
            while self.next_block < self.is_queued.len() {
                self.next_block += 1;
                if std::mem::take(&mut self.is_queued[self.next_block - 1]) {
                    return Some(self.next_block - 1);
                }
            }
            if self.next_sweep_start == usize::MAX {
                return None;
            }
            self.next_block = std::mem::replace(&mut self.next_sweep_start, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::MachineBlock;

    #[test]
    fn overlapping_loops_become_nested_loops() {
        let loops = nest_loops(vec![(10, 20), (0, 30), (10, 15), (18, 25), (40, 50)]);
        let spans: Vec<(usize, usize, u32)> = loops.iter().map(|one| (one.start, one.end, one.depth)).collect();
        assert_eq!(spans, [(0, 30, 1), (10, 25, 2), (18, 25, 3), (40, 50, 1)]);
    }

    /// Builds blocks of two instructions from the successors of each block.
    fn blocks(successors: &[&[usize]]) -> Vec<MachineBlock> {
        let block = |(number, next): (usize, &&[usize])| MachineBlock { range: 2 * number..2 * number + 2, successors: next.to_vec() };
        successors.iter().enumerate().map(block).collect()
    }

    /// Blocks 5 and 6 are rare cases after the end: 5 continues inside the loop of blocks 1 to 3, 6 after it.
    #[test]
    fn code_for_rare_cases_after_the_end_makes_no_loop() {
        let nop = oriole_isa::parse("NOP").unwrap();
        let instructions = vec![nop; 14];
        let blocks = blocks(&[&[1], &[2, 5], &[3], &[1, 4, 6], &[], &[2], &[4]]);
        let flow = MachineControlFlow::new(&MachineCode { instructions: &instructions, blocks });
        let spans: Vec<(usize, usize, u32)> = flow.loops.iter().map(|one| (one.start, one.end, one.depth)).collect();
        assert_eq!(spans, [(2, 8, 1)]);
        let depths: Vec<u32> = (0..7).map(|block| flow.depth_of_block(block)).collect();
        assert_eq!(depths, [0, 1, 1, 1, 0, 0, 0]);
        assert_eq!(flow.back_edges, [(3, 1)]);
    }

    #[test]
    fn worklist_pops_blocks_pushed_before_the_sweep_position() {
        let mut worklist = Worklist::new(4);
        worklist.push(1);
        worklist.push(3);
        assert_eq!(worklist.pop(), Some(1));
        worklist.push(0);
        assert_eq!([worklist.pop(), worklist.pop(), worklist.pop()], [Some(3), Some(0), None]);
        worklist.push(2);
        assert_eq!([worklist.pop(), worklist.pop()], [Some(2), None]);
    }
}
