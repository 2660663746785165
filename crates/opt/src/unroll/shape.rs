//! Recognizes the loops that can be unrolled.

use oriole_ir::analysis::LoopId;
use oriole_ir::{Block, Function, Guard, Inst, Operand, OperandKind, Part, Pseudo, RegFile};
use oriole_isa::Opcode;
use oriole_support::Index;
use smallvec::SmallVec;

use crate::loop_analyses::LoopAnalyses;

/// An innermost loop that is entered at its header, has one back edge and one exit edge, and computes its exit condition in every
/// iteration.
pub(crate) struct UnrollableLoop {
    /// The block at which the loop is entered.
    pub(crate) header: Block,
    /// The block with the back edge to the header.
    pub(crate) latch: Block,
    /// The block with the edge out of the loop.
    pub(crate) exiting: Block,
    /// The block that the edge out of the loop leads to.
    pub(crate) exit: Block,
    /// Whether the loop is inside another loop.
    pub(crate) is_nested: bool,
    /// The blocks of the loop in layout order.
    pub(crate) blocks: SmallVec<[Block; 4]>,
    /// The predecessors of the header outside the loop.
    pub(crate) entries: SmallVec<[Block; 2]>,
    /// The guard of the branch at the end of the exiting block.
    pub(crate) guard: Guard,
    /// The value of the guard's predicate for which the loop is left.
    pub(crate) exit_value: bool,
    /// The instructions of the loop, sorted by index, for [`UnrollableLoop::contains`].
    insts: Vec<Inst>,
}

/// Maximum number of blocks of a loop that is unrolled.
const MAX_LOOP_BLOCKS: usize = 8;

/// Maximum number of instructions of a loop that is unrolled, including phis and copies.
const MAX_LOOP_INSTS: usize = 400;

/// Returns, for each block, its position in the layout of a function.
pub(crate) fn layout_positions(function: &Function) -> Vec<usize> {
    let mut positions = vec![0; function.blocks.len()];
    function.layout.iter().enumerate().for_each(|(position, block)| positions[block.position()] = position);
    positions
}

impl UnrollableLoop {
    /// Returns a description of a loop; `None` if the loop is too large, or not of the kind that [`UnrollableLoop`] describes. `positions`
    /// is the result of [`layout_positions`].
    pub(crate) fn find(function: &Function, analyses: &LoopAnalyses, id: LoopId, positions: &[usize]) -> Option<UnrollableLoop> {
        let LoopAnalyses { flow, loops, dominators } = analyses;
        let header = loops.get(id).header;
        let members = loops.blocks(id);
        if loops.get(id).is_irreducible
            || members.len() > MAX_LOOP_BLOCKS
            || members.iter().any(|&block| loops.innermost(block) != Some(id))
        {
            return None;
        }
        let size: usize = members.iter().map(|&block| function.blocks[block].insts.len()).sum();
        if size > MAX_LOOP_INSTS {
            return None;
        }
        let mut blocks: SmallVec<[Block; 4]> = SmallVec::from_slice(members);
        blocks.sort_unstable_by_key(|block| positions[block.position()]);
        let (latches, entries): (SmallVec<[Block; 2]>, SmallVec<[Block; 2]>) =
            flow.predecessors(header).iter().copied().partition(|&block| loops.contains(id, block));
        let [latch] = *latches.as_slice() else { return None };
        let mut exits = blocks
            .iter()
            .flat_map(|&from| flow.successors(from).iter().map(move |&to| (from, to)))
            .filter(|edge| !loops.contains(id, edge.1));
        let (Some((exiting, exit)), None) = (exits.next(), exits.next()) else { return None };
        if entries.is_empty()
            || !dominators.dominates(exiting, latch)
            || !entries.iter().all(|&entry| ends_with_plain_branches(function, entry))
        {
            return None;
        }
        let [first, second] = *function.terminators(exiting) else { return None };
        let guard = function.insts[first].guard.filter(|guard| matches!(guard.kind, OperandKind::Value(_)))?;
        let (taken, other) = (plain_branch_target(function, first)?, plain_branch_target(function, second)?);
        if taken == other || !blocks.iter().all(|&block| ends_with_plain_branches(function, block)) {
            return None;
        }
        let leaves_when = (taken == exit) != guard.negated;
        let mut insts: Vec<Inst> = blocks.iter().flat_map(|&block| function.blocks[block].insts.iter().copied()).collect();
        insts.sort_unstable();
        let is_nested = loops.get(id).parent.is_some();
        let old_loop = UnrollableLoop { header, is_nested, latch, exiting, exit, blocks, entries, guard, exit_value: leaves_when, insts };
        old_loop.has_plain_phis(function).then_some(old_loop)
    }

    /// Returns whether the phis of the header read and write whole values in per-thread registers, not in uniform ones.
    fn has_plain_phis(&self, function: &Function) -> bool {
        let is_thread_file = |part: Part| matches!(function.values[part.value].file, RegFile::General | RegFile::Predicate);
        function.phis(self.header).iter().all(|&phi| {
            let is_whole =
                |operand: &Operand| operand.part().is_some_and(|part| part == function.whole(part.value) && is_thread_file(part));
            is_whole(&function.results(phi)[0]) && function.sources(phi).chunks_exact(2).all(|pair| is_whole(&pair[0]))
        })
    }

    /// Returns whether an instruction was in the loop when the loop was analyzed.
    pub(crate) fn contains(&self, inst: Inst) -> bool {
        self.insts.binary_search(&inst).is_ok()
    }

    /// Returns whether the exit condition is computed at the end of each iteration.
    pub(crate) fn tests_exit_at_end(&self) -> bool {
        self.exiting == self.latch
    }

    /// Returns the predicate that decides whether the loop is left.
    pub(crate) fn condition(&self) -> Option<Part> {
        if let OperandKind::Value(part) = self.guard.kind { Some(part) } else { None }
    }

    /// Returns whether an instruction is a phi of the header.
    pub(crate) fn is_header_phi(&self, function: &Function, inst: Inst) -> bool {
        function.phis(self.header).contains(&inst)
    }

    /// Returns the source of a header phi for the first iteration; `None` if the loop has several entries.
    pub(crate) fn entry_phi_source(&self, function: &Function, phi: Inst) -> Option<Operand> {
        let [entry] = *self.entries.as_slice() else { return None };
        phi_source_for(function, phi, entry)
    }

    /// Returns the source of a header phi for the back edge, which is its value in the next iteration.
    pub(crate) fn latch_phi_source(&self, function: &Function, phi: Inst) -> Option<Operand> {
        phi_source_for(function, phi, self.latch)
    }
}

/// Returns the source of a phi for the predecessor `from`; `None` if the phi has none.
fn phi_source_for(function: &Function, phi: Inst, from: Block) -> Option<Operand> {
    let mut pairs = function.sources(phi).chunks_exact(2);
    pairs.find(|pair| pair[1].kind == OperandKind::Block(from)).map(|pair| pair[0])
}

/// Returns whether all terminators of a block are `BRA` without modifiers.
fn ends_with_plain_branches(function: &Function, block: Block) -> bool {
    function.terminators(block).iter().all(|&inst| plain_branch_target(function, inst).is_some())
}

/// Returns the target of a `BRA` without modifiers; `None` for other instructions.
fn plain_branch_target(function: &Function, inst: Inst) -> Option<Block> {
    let data = &function.insts[inst];
    match function.operands(inst) {
        [Operand { kind: OperandKind::Block(target), .. }] if data.is_machine(Opcode::BRA) && data.modifiers.is_empty() => Some(*target),
        _ => None,
    }
}

/// Returns whether an instruction is a pseudo-instruction of which a function must not contain two copies.
pub(crate) fn must_not_be_copied(function: &Function, inst: Inst) -> bool {
    function.insts[inst].is(Pseudo::Entry) || function.insts[inst].is(Pseudo::Keep)
}
