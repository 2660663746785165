//! Computes reverse post-order, predecessors, successors and natural loops of the reachable blocks.
//!
//! A back edge is one to a block at the same or an earlier position in reverse post-order. The loop of its target has all blocks that
//! reach the source of the back edge without passing the target. For reducible graphs these are the natural loops of the literature;
//! for irreducible ones the header is the block that comes first in reverse post-order. Loops only guide spill decisions.

use oriole_ir::{Block, Function};
use oriole_support::Index;
use smallvec::SmallVec;

/// The control-flow graph. Vectors are indexed by block number, except `order`.
pub(crate) struct ControlFlow {
    /// Reachable blocks in reverse post-order.
    pub order: Vec<Block>,
    /// Position of each block in `order`; `u32::MAX` for unreachable blocks.
    pub place: Vec<u32>,
    /// Predecessors of each block, each listed once.
    pub predecessors: Vec<SmallVec<[Block; 2]>>,
    /// Successors of each block, each listed once.
    pub successors: Vec<SmallVec<[Block; 2]>>,
    /// Number of loops around each block.
    pub depth: Vec<u32>,
    /// For each loop header the blocks of its loop, the header included; `None` for other blocks.
    pub loops: Vec<Option<Vec<Block>>>,
}

impl ControlFlow {
    /// Returns whether blocks were added to the function since this was computed.
    pub fn is_outdated(&self, function: &Function) -> bool {
        self.place.len() != function.blocks.len()
    }

    /// Computes the control-flow graph of a function.
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

    /// Computes `order` and `place` by a depth-first search without recursion.
    fn number(&mut self, entry: Block) {
        let mut visited = vec![false; self.place.len()];
        let mut stack = vec![(entry, 0)];
        visited[entry.position()] = true;
        while let Some((block, next)) = stack.last_mut() {
            let successors = &self.successors[block.position()];
            // The search visits the target of the last branch last. Reversing the post-order puts this target, usually the fall-through
            // block, directly after its predecessor.
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

    /// Finds the blocks of each loop by a backward search from its latches.
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
                // Only an irreducible graph leads to blocks before the header: there the loop has a second entry.
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
