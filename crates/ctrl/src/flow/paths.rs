//! Ways through the code: what comes before a block, which loops it is in.
//!
//! Loops are read off the layout: an edge back from the end of one block to the start of another spans the code in between. Spans that
//! overlap without one holding the other grow together. Only weights and the choice of scoreboards depend on them, never what is right.

use super::Code;

/// A span of code that control goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    pub start: usize,
    pub end: usize,
    /// The next one around it.
    pub parent: Option<usize>,
    pub depth: u32,
}

/// What is known about the ways through a function.
#[derive(Debug)]
pub struct Paths {
    /// For each block the blocks before it.
    pub before: Vec<Vec<u32>>,
    pub loops: Vec<Loop>,
    /// For each block the innermost loop around it.
    innermost: Vec<Option<usize>>,
    /// For each instruction its block.
    block_of: Vec<u32>,
    /// Blocks that nothing leads to: where functions begin.
    pub roots: Vec<usize>,
}

impl Paths {
    pub fn new(code: &Code<'_>) -> Paths {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); code.blocks.len()];
        let mut block_of = vec![0; code.instructions.len()];
        let mut spans = Vec::new();
        for (number, block) in code.blocks.iter().enumerate() {
            block_of[block.range.clone()].fill(number as u32);
            for &next in &block.successors {
                before[next].push(number as u32);
                if code.blocks[next].range.start < block.range.end {
                    spans.push((code.blocks[next].range.start, block.range.end));
                }
            }
        }
        let loops = nest(spans);
        let innermost = innermost(code, &loops);
        let roots = roots(code, &before);
        Paths { before, loops, innermost, block_of, roots }
    }

    /// How many loops are around an instruction.
    pub fn depth(&self, place: usize) -> u32 {
        self.loop_at(place).map_or(0, |at| self.loops[at].depth)
    }

    /// How many loops are around a block.
    pub fn depth_of_block(&self, block: usize) -> u32 {
        self.innermost[block].map_or(0, |at| self.loops[at].depth)
    }

    /// Whether a block goes on where the one in front of it ends, and nothing else leads to it or from there.
    pub fn goes_on(&self, code: &Code<'_>, block: usize) -> bool {
        block > 0 && self.before[block] == [block as u32 - 1] && code.blocks[block - 1].successors == [block]
    }

    fn loop_at(&self, place: usize) -> Option<usize> {
        self.block_of.get(place).and_then(|&block| self.innermost[block as usize])
    }

    /// The innermost loop that leads from one instruction back to an earlier one.
    pub fn loop_around(&self, first: usize, second: usize) -> Option<Loop> {
        let mut at = self.loop_at(first);
        while let Some(one) = at.map(|at| self.loops[at]) {
            if one.start <= second {
                return Some(one);
            }
            at = one.parent;
        }
        None
    }
}

/// Spans by start, each with the one around it.
fn nest(mut spans: Vec<(usize, usize)>) -> Vec<Loop> {
    spans.sort_unstable_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    let mut loops: Vec<Loop> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (start, end) in spans {
        while open.last().is_some_and(|&at| loops[at].end <= start) {
            open.pop();
        }
        // Back edges of one loop come one after the other.
        if open.last().is_some_and(|&at| loops[at].start == start) {
            continue;
        }
        for &at in open.iter().rev() {
            if loops[at].end >= end {
                break;
            }
            loops[at].end = end;
        }
        loops.push(Loop { start, end, parent: open.last().copied(), depth: open.len() as u32 + 1 });
        open.push(loops.len() - 1);
    }
    loops
}

fn innermost(code: &Code<'_>, loops: &[Loop]) -> Vec<Option<usize>> {
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

/// The first block, and one block of each part of the code that is not reached from others.
fn roots(code: &Code<'_>, before: &[Vec<u32>]) -> Vec<usize> {
    let mut reached = vec![false; code.blocks.len()];
    let mut roots = Vec::new();
    let mut todo = Vec::new();
    let without_before = (0..code.blocks.len()).filter(|&block| block == 0 || before[block].is_empty());
    // Those nothing leads to first; what is then left goes round in itself.
    for root in without_before.chain(0..code.blocks.len()) {
        if reached[root] {
            continue;
        }
        reached[root] = true;
        roots.push(root);
        todo.push(root);
        while let Some(block) = todo.pop() {
            for &next in &code.blocks[block].successors {
                if !std::mem::replace(&mut reached[next], true) {
                    todo.push(next);
                }
            }
        }
    }
    roots
}

/// Blocks still to be walked, in sweeps from front to back.
#[derive(Debug)]
pub struct Todo {
    waiting: Vec<bool>,
    at: usize,
    /// The first one behind which the sweep has gone already.
    again: usize,
}

impl Todo {
    pub fn new(blocks: usize) -> Todo {
        Todo { waiting: vec![false; blocks], at: 0, again: usize::MAX }
    }

    pub fn push(&mut self, block: usize) {
        self.waiting[block] = true;
        if block < self.at {
            self.again = self.again.min(block);
        }
    }

    pub fn pop(&mut self) -> Option<usize> {
        loop {
            while self.at < self.waiting.len() {
                self.at += 1;
                if std::mem::take(&mut self.waiting[self.at - 1]) {
                    return Some(self.at - 1);
                }
            }
            if self.again == usize::MAX {
                return None;
            }
            self.at = std::mem::replace(&mut self.again, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_nest_and_overlapping_ones_grow_together() {
        let loops = nest(vec![(10, 20), (0, 30), (10, 15), (18, 25), (40, 50)]);
        let spans: Vec<(usize, usize, u32)> = loops.iter().map(|one| (one.start, one.end, one.depth)).collect();
        assert_eq!(spans, [(0, 30, 1), (10, 25, 2), (18, 25, 3), (40, 50, 1)]);
    }

    #[test]
    fn sweeps_come_back_to_what_was_passed() {
        let mut todo = Todo::new(4);
        todo.push(1);
        todo.push(3);
        assert_eq!(todo.pop(), Some(1));
        todo.push(0);
        assert_eq!([todo.pop(), todo.pop(), todo.pop()], [Some(3), Some(0), None]);
        todo.push(2);
        assert_eq!([todo.pop(), todo.pop()], [Some(2), None]);
    }
}
