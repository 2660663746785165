//! Predecessors, roots and loops of a control-flow graph, and a worklist for data-flow analyses over its blocks.
//!
//! Loops are approximated from the layout, without dominators: an edge to the same or an earlier block makes all code from the start of
//! its target to the end of its source a loop. Where two such ranges overlap and neither contains the other, the one that starts first is
//! extended to contain both. Only execution weights, the choice of scoreboards and the placement of stalls depend on loops, never
//! correctness.
//!
//! Cost: O(n log n) in the number of back edges, and linear in the length of the code.

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
        let mut spans = Vec::new();
        for (number, block) in code.blocks.iter().enumerate() {
            block_of[block.range.clone()].fill(number as u32);
            for &next in &block.successors {
                predecessors[next].push(number as u32);
                if code.blocks[next].range.start < block.range.end {
                    spans.push((code.blocks[next].range.start, block.range.end));
                }
            }
        }
        let loops = nest_loops(spans);
        let innermost_loop = innermost_loops(code, &loops);
        let roots = find_root_blocks(code, &predecessors);
        MachineControlFlow { predecessors, loops, innermost_loop, block_of, roots }
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

    #[test]
    fn overlapping_loops_become_nested_loops() {
        let loops = nest_loops(vec![(10, 20), (0, 30), (10, 15), (18, 25), (40, 50)]);
        let spans: Vec<(usize, usize, u32)> = loops.iter().map(|one| (one.start, one.end, one.depth)).collect();
        assert_eq!(spans, [(0, 30, 1), (10, 25, 2), (18, 25, 3), (40, 50, 1)]);
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
