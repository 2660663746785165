//! The branches that all threads of a warpgroup take the same way because the program is undefined otherwise.
//!
//! According to PTX, `wgmma.mma_async` and `setmaxnreg` are executed in conditional code only if all threads of the warpgroup evaluate the
//! condition identically. Such an instruction depends on a branch if it is executed after one of the ways, wherever that leads, but not
//! after each of them: its block post-dominates a successor of the branch and does not post-dominate the branch itself (control dependence,
//! Ferrante, Ottenstein and Warren 1987).
//!
//! Example: warps of a producer and of a consumer read their role from shared memory. Nothing says that the threads of a warp read the same
//! number, but each role changes its number of registers first, so all threads of a warp have the same role.
//!
//! In an endless loop everything depends on everything else in turn, so its branches are not considered.
//!
//! Cost: linear in the size of the function.

use oriole_support::{BitSet, IndexVec};

use super::{ControlFlow, PostDominators};
use crate::function::Function;
use crate::ids::{Block, Inst};

/// Returns the blocks that end in a branch on which an instruction of a whole warpgroup depends.
pub(super) fn branches_of_warpgroups(function: &Function, flow: &ControlFlow, post_dominators: &PostDominators) -> BitSet<Block> {
    let mut found = BitSet::new(function.blocks.len());
    let needs_warpgroup = |&inst: &Inst| {
        let data = &function.insts[inst];
        data.guard.is_none() && data.op.machine().is_some_and(|opcode| opcode.properties().needs_whole_warpgroup)
    };
    let blocks = flow.reverse_post_order().iter().copied();
    let mut needing = BitSet::new(function.blocks.len());
    blocks.clone().filter(|&block| function.blocks[block].insts.iter().any(needs_warpgroup)).for_each(|block| _ = needing.insert(block));
    if needing.iter().next().is_none() {
        return found;
    }
    // The closest post-dominator with such an instruction, the block itself included. Post-dominators come first in the order.
    let mut closest: IndexVec<Block, Option<Block>> = IndexVec::filled(function.blocks.len(), None);
    for block in post_dominators.preorder() {
        let above = post_dominators.immediate(block).and_then(|parent| closest[parent]);
        closest[block] = if needing.contains(block) { Some(block) } else { above };
    }
    let ends = reaching_an_end(function, flow);
    for block in blocks.filter(|&block| ends.contains(block)) {
        let meeting = post_dominators.immediate(block);
        let after_meeting = meeting.and_then(|meeting| closest[meeting]);
        // All post-dominators of a successor up to the meeting point are executed after one way only.
        if flow.successors(block).iter().any(|&next| closest[next] != after_meeting) {
            found.insert(block);
        }
    }
    found
}

/// Returns the blocks from which a path leads to the end of a thread.
fn reaching_an_end(function: &Function, flow: &ControlFlow) -> BitSet<Block> {
    let mut reaching = BitSet::new(function.blocks.len());
    let is_end = |&block: &Block| flow.successors(block).is_empty();
    let mut work: Vec<Block> = flow.reverse_post_order().iter().copied().filter(is_end).collect();
    while let Some(block) = work.pop() {
        if reaching.insert(block) {
            work.extend(flow.predecessors(block).iter().filter(|&&from| flow.is_reachable(from)));
        }
    }
    reaching
}
