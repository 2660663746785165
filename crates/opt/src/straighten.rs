//! Joins blocks that always follow each other.
//!
//! Selection starts a new block behind everything that might branch, whether it does or not; PTX has labels that nobody jumps to. What
//! looks at blocks one by one (merging of equal expressions, scheduling) sees more when such blocks are one. A block is appended to
//! the one before it if that ends with a plain branch to it and nothing else names it. Its phis have one operand then and become copies.

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Pseudo, Target};
use oriole_isa::Opcode;
use oriole_support::{Index, IndexVec};
use smallvec::SmallVec;

/// Joins blocks. Returns how many are gone.
pub fn run(function: &mut Function, _target: Target) -> usize {
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
    // The block that each block became a part of.
    let mut place: IndexVec<Block, Block> = IndexVec::filled(function.blocks.len(), function.entry());
    function.blocks.indices().for_each(|block| place[block] = block);
    let mut joined = 0;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        if place[block] != block {
            continue;
        }
        while let Some(next) = only_successor(function, block).filter(|&next| next != block && mentions[next] == 1) {
            if !phis_to_copies(function, next) {
                break;
            }
            let tail = std::mem::take(&mut function.blocks[next].insts);
            function.blocks[block].insts.pop();
            function.blocks[block].insts.extend(tail);
            place[next] = block;
            joined += 1;
        }
    }
    if joined > 0 {
        function.layout.retain(|&block| place[block] == block);
        rename_in_phis(function, &mut place);
    }
    joined
}

/// The block that follows, if the block ends with a branch without conditions.
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

/// Makes copies of phis with one operand. Does nothing and says so if one is undefined.
fn phis_to_copies(function: &mut Function, block: Block) -> bool {
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

/// Phis name the block that an operand comes from: those that are gone are now parts of others.
fn rename_in_phis(function: &mut Function, place: &mut IndexVec<Block, Block>) {
    for number in 0..place.len() {
        // A block joins one that may itself have joined another before; following the chain once shortens it for all behind.
        let mut root = Block::new(number);
        while place[root] != root {
            root = place[root];
        }
        let mut at = Block::new(number);
        while place[at] != root {
            at = std::mem::replace(&mut place[at], root);
        }
    }
    for at in 0..function.layout.len() {
        let phis: SmallVec<[Inst; 8]> = function.phis(function.layout[at]).iter().copied().collect();
        for inst in phis {
            for operand in function.sources_mut(inst) {
                if let OperandKind::Block(from) = &mut operand.kind {
                    *from = place[*from];
                }
            }
        }
    }
}
