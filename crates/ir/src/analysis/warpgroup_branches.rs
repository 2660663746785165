//! The branches that all threads of a warp take the same way because the program is undefined otherwise.
//!
//! According to PTX, `wgmma.mma_async` and `setmaxnreg` are executed in conditional code only if all threads of the warpgroup evaluate the
//! condition identically: the threads of a warp execute the same sequence of these instructions. So consider, for each way out of a branch,
//! which of them a thread may execute next. If the ways have none in common, and a thread is sure to execute one after all ways but one at
//! most, no two threads can take different ways.
//!
//! Example: warps of a producer and of a consumer read their role from shared memory. Nothing says that the threads of a warp read the same
//! number, but each role changes its number of registers first, so all threads of a warp have the same role. On the other hand, threads
//! that leave a loop in different iterations and then execute a product together have the same next instruction at the branch of the loop.
//!
//! Cost: sets of blocks for each block, which grow until nothing changes; functions beyond [`MAX_SET_BITS`] are left out.

use oriole_support::{BitSet, Index};

use super::ControlFlow;
use crate::function::Function;
use crate::ids::{Block, Inst};

/// Limit on the number of blocks times the number of blocks with such instructions.
const MAX_SET_BITS: usize = 1 << 24;

/// Returns the blocks that end in a branch which all threads of a warp take the same way.
pub(super) fn branches_of_warpgroups(function: &Function, flow: &ControlFlow) -> BitSet<Block> {
    let mut found = BitSet::new(function.blocks.len());
    let needs_warpgroup = |&inst: &Inst| {
        let data = &function.insts[inst];
        data.guard.is_none() && data.op.machine().is_some_and(|opcode| opcode.properties().needs_whole_warpgroup)
    };
    let needing: Vec<Block> =
        flow.reverse_post_order().iter().copied().filter(|&block| function.blocks[block].insts.iter().any(needs_warpgroup)).collect();
    if needing.is_empty() || needing.len() * function.blocks.len() > MAX_SET_BITS {
        return found;
    }
    let next = NextInstructions::compute(function, flow, &needing);
    for &block in flow.reverse_post_order() {
        let mut ways: Vec<Block> = flow.successors(block).to_vec();
        ways.sort_unstable();
        ways.dedup();
        let unsure = ways.iter().filter(|&&way| !next.is_sure(way)).count();
        let have_none_in_common = |(at, &way): (usize, &Block)| ways[at + 1..].iter().all(|&other| next.are_disjoint(way, other));
        if ways.len() > 1 && unsure <= 1 && ways.iter().enumerate().all(have_none_in_common) {
            found.insert(block);
        }
    }
    found
}

/// For each block, the blocks with instructions of a whole warpgroup that a thread may execute next after it has entered the block.
struct NextInstructions {
    /// Number of words of a set. The last bit that is used says that the thread may end first.
    words: usize,
    /// The sets of all blocks, one after the other.
    sets: Vec<u64>,
    /// Number of blocks with such instructions, which is also the number of the last bit.
    count: usize,
}

impl NextInstructions {
    /// Computes the sets. `needing` are the blocks with such instructions.
    fn compute(function: &Function, flow: &ControlFlow, needing: &[Block]) -> NextInstructions {
        let words = (needing.len() + 1).div_ceil(64);
        let mut next = NextInstructions { words, sets: vec![0; words * function.blocks.len()], count: needing.len() };
        let mut work: Vec<Block> = Vec::new();
        let mut is_fixed = BitSet::new(function.blocks.len());
        for (number, &block) in needing.iter().enumerate() {
            next.insert(block, number);
            is_fixed.insert(block);
            work.push(block);
        }
        for &block in flow.reverse_post_order().iter().filter(|&&block| flow.successors(block).is_empty()) {
            if is_fixed.insert(block) {
                next.insert(block, needing.len());
                work.push(block);
            }
        }
        while let Some(block) = work.pop() {
            for &before in flow.predecessors(block).iter().filter(|&&before| flow.is_reachable(before)) {
                if !is_fixed.contains(before) && next.add_all(before, block) {
                    work.push(before);
                }
            }
        }
        next
    }

    /// Adds an element to the set of a block.
    fn insert(&mut self, block: Block, number: usize) {
        self.sets[block.position() * self.words + number / 64] |= 1 << (number % 64);
    }

    /// Adds the set of `from` to that of `to`. Returns whether that changed it.
    fn add_all(&mut self, to: Block, from: Block) -> bool {
        let mut is_changed = false;
        for word in 0..self.words {
            let added = self.sets[from.position() * self.words + word];
            let old = &mut self.sets[to.position() * self.words + word];
            is_changed |= added & !*old != 0;
            *old |= added;
        }
        is_changed
    }

    /// Returns the set of a block.
    fn set(&self, block: Block) -> &[u64] {
        &self.sets[block.position() * self.words..][..self.words]
    }

    /// Returns whether a thread that enters a block executes one of the instructions before it ends, unless it runs forever.
    fn is_sure(&self, block: Block) -> bool {
        let set = self.set(block);
        let may_end = set[self.count / 64] >> (self.count % 64) & 1 != 0;
        !may_end && set.iter().any(|&word| word != 0)
    }

    /// Returns whether no instruction may be the next one after both blocks have been entered.
    fn are_disjoint(&self, one: Block, other: Block) -> bool {
        let ends = |word: usize| if word == self.count / 64 { 1_u64 << (self.count % 64) } else { 0 };
        (0..self.words).all(|word| self.set(one)[word] & self.set(other)[word] & !ends(word) == 0)
    }
}
