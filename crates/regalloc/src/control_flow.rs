//! The graph of blocks as the walk needs it: order, neighbours, loops.

use oriole_ir::{Block, Function};
use oriole_support::Index;
use smallvec::SmallVec;

/// Blocks by number of [`Block`]; order by position in reverse post-order.
pub(crate) struct ControlFlow {
    /// Reachable blocks in reverse post-order.
    pub order: Vec<Block>,
    /// Position of each block in the order.
    pub place: Vec<u32>,
    /// Blocks in front of each block, each once.
    pub predecessors: Vec<SmallVec<[Block; 2]>>,
    /// Blocks behind each block, each once.
    pub successors: Vec<SmallVec<[Block; 2]>>,
    /// In how many loops each block is.
    pub depth: Vec<u32>,
    /// Whether a block is reached again from one behind it; such blocks have a list of the blocks in their loop.
    pub loops: Vec<Option<Vec<Block>>>,
}

impl ControlFlow {
    /// Whether blocks have come since.
    pub fn is_outdated(&self, function: &Function) -> bool {
        self.place.len() != function.blocks.len()
    }

    /// Looks at a function.
    pub fn of(function: &Function) -> ControlFlow {
        let count = function.blocks.len();
        let mut flow = ControlFlow {
            order: Vec::new(),
            place: vec![u32::MAX; count],
            predecessors: vec![SmallVec::new(); count],
            successors: vec![SmallVec::new(); count],
            depth: vec![0; count],
            loops: vec![None; count],
        };
        for &block in &function.layout {
            let mut unique: SmallVec<[Block; 2]> = SmallVec::new();
            for next in function.successors(block) {
                if !unique.contains(&next) {
                    unique.push(next);
                }
            }
            flow.successors[block.position()] = unique;
        }
        flow.number(function.entry());
        for at in 0..flow.order.len() {
            let block = flow.order[at];
            for next in &flow.successors[block.position()] {
                flow.predecessors[next.position()].push(block);
            }
        }
        flow.find_loops();
        flow
    }

    fn number(&mut self, entry: Block) {
        let mut visited = vec![false; self.place.len()];
        let mut stack = vec![(entry, 0)];
        visited[entry.position()] = true;
        while let Some((block, next)) = stack.last_mut() {
            let successors = &self.successors[block.position()];
            // Last branch first: what falls through comes right behind in the order.
            if let Some(&target) = successors.get(*next) {
                *next += 1;
                if !std::mem::replace(&mut visited[target.position()], true) {
                    stack.push((target, 0));
                }
            } else {
                self.order.push(*block);
                stack.pop();
            }
        }
        self.order.reverse();
        for (place, block) in self.order.iter().enumerate() {
            self.place[block.position()] = place as u32;
        }
    }

    fn find_loops(&mut self) {
        let mut stamp = vec![u32::MAX; self.place.len()];
        for place in 0..self.order.len() {
            let header = self.order[place];
            let latches: SmallVec<[Block; 2]> =
                self.predecessors[header.position()].iter().copied().filter(|latch| self.place[latch.position()] >= place as u32).collect();
            if latches.is_empty() {
                continue;
            }
            let mut body = vec![header];
            stamp[header.position()] = place as u32;
            let mut stack: Vec<Block> = latches.to_vec();
            while let Some(block) = stack.pop() {
                let outside = self.place[block.position()] < place as u32;
                if outside || std::mem::replace(&mut stamp[block.position()], place as u32) == place as u32 {
                    continue;
                }
                body.push(block);
                stack.extend_from_slice(&self.predecessors[block.position()]);
            }
            for block in &body {
                self.depth[block.position()] += 1;
            }
            self.loops[header.position()] = Some(body);
        }
    }
}
