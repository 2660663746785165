//! Merges blocks that always execute one after the other.
//!
//! Instruction selection starts a new block after every instruction that may branch, and at every PTX label, whether or not a branch goes
//! there. Passes that work on one block at a time (common subexpressions, scheduling) find more in longer blocks. A block is appended to
//! its predecessor if the predecessor ends with an unconditional branch to it and nothing else refers to it. Its phis then have one source
//! and become copies. A block with a `USETMAXREG` stays separate: it may have fewer registers than the block before it. The cost is linear in the size of the function.

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Pseudo, Target};
use oriole_isa::Opcode;
use oriole_support::{Index, IndexVec};
use smallvec::SmallVec;

/// Appends each block to its predecessor if both always execute one after the other. Returns the number of blocks removed.
pub fn run(function: &mut Function, _target: Target) -> usize {
    // For each block, the number of operands that name it, except in phis. The entry block gets one more, so that it is never appended to
    // another block.
    let mut mentions: IndexVec<Block, u32> = IndexVec::filled(function.blocks.len(), 0);
    mentions[function.entry()] += 1;
    for &block in &function.layout {
        for &inst in function.blocks[block].insts.iter().filter(|&&inst| !function.insts[inst].is(Pseudo::Phi)) {
            for operand in function.operands(inst) {
                if let OperandKind::Block(named) = operand.kind {
                    mentions[named] += 1;
                }
            }
        }
    }
    // For each block, the block that it was appended to; the block itself if it was not appended.
    let mut merged_into: IndexVec<Block, Block> = IndexVec::filled(function.blocks.len(), function.entry());
    function.blocks.indices().for_each(|block| merged_into[block] = block);
    let mut joined = 0;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        if merged_into[block] != block {
            continue;
        }
        let may_append = |function: &Function, next: Block| next != block && mentions[next] == 1 && !changes_register_count(function, next);
        while let Some(next) = only_successor(function, block).filter(|&next| may_append(function, next)) {
            if !replace_phis_by_copies(function, next) {
                break;
            }
            let tail = std::mem::take(&mut function.blocks[next].insts);
            // The branch at the end of `block` is replaced by the instructions of `next`.
            function.blocks[block].insts.pop();
            function.blocks[block].insts.extend(tail);
            merged_into[next] = block;
            joined += 1;
        }
    }
    if joined > 0 {
        function.layout.retain(|&block| merged_into[block] == block);
        update_phi_predecessors(function, &mut merged_into);
    }
    joined
}

/// Returns whether a block changes the number of registers of the warp. Instruction selection starts a block at such an instruction.
fn changes_register_count(function: &Function, block: Block) -> bool {
    function.blocks[block].insts.iter().any(|&inst| function.insts[inst].is_machine(Opcode::USETMAXREG))
}

/// Returns the target of the unconditional branch that ends a block, or `None` if the block ends otherwise.
fn only_successor(function: &Function, block: Block) -> Option<Block> {
    let [branch] = function.terminators(block) else { return None };
    let data = &function.insts[*branch];
    if !data.is_machine(Opcode::BRA) || data.guard.is_some() || !data.modifiers.is_empty() {
        return None;
    }
    match function.operands(*branch) {
        [Operand { kind: OperandKind::Block(next), .. }] => Some(*next),
        _ => None,
    }
}

/// Replaces the phis of a block, which have one source each, by copies. Returns false and changes nothing if a source is not a value.
fn replace_phis_by_copies(function: &mut Function, block: Block) -> bool {
    let phis: SmallVec<[Inst; 8]> = function.phis(block).iter().copied().collect();
    let is_simple = |inst: &Inst| matches!(function.sources(*inst), [source, _] if matches!(source.kind, OperandKind::Value(_)));
    if !phis.iter().all(is_simple) {
        return false;
    }
    for inst in phis {
        let operands = [function.results(inst)[0], function.sources(inst)[0]];
        function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
        function.set_operands(inst, &operands, 1);
    }
    true
}

/// In all phis, replaces predecessor blocks that were appended to other blocks. `merged_into` has, for each block, the block that it was appended
/// to.
fn update_phi_predecessors(function: &mut Function, merged_into: &mut IndexVec<Block, Block>) {
    for number in 0..merged_into.len() {
        // A block may be appended to one that is appended to another one later. Path compression, as in union-find, keeps the chains short.
        let mut root = Block::new(number);
        while merged_into[root] != root {
            root = merged_into[root];
        }
        let mut at = Block::new(number);
        while merged_into[at] != root {
            at = std::mem::replace(&mut merged_into[at], root);
        }
    }
    for at in 0..function.layout.len() {
        let phis: SmallVec<[Inst; 8]> = function.phis(function.layout[at]).iter().copied().collect();
        for inst in phis {
            for operand in function.sources_mut(inst) {
                if let OperandKind::Block(from) = &mut operand.kind {
                    *from = merged_into[*from];
                }
            }
        }
    }
}
