//! Inserts a new block on some of the incoming edges of a block.

use oriole_ir::{Block, Function, Op, Operand, OperandKind, Pseudo};
use oriole_isa::{Opcode, Symbols};
use smallvec::SmallVec;

/// Inserts a new block on the edges from `predecessors` to `block`, and returns the new block. The phis of `block` are split: the new block
/// gets a phi for the operands of the redirected edges, unless these operands are all the same. The new block comes after the last of the
/// predecessors in the layout.
pub(crate) fn redirect_edges(function: &mut Function, block: Block, predecessors: &[Block]) -> Block {
    let new_block = redirect_edges_outside_layout(function, block, predecessors);
    let last = function.layout.iter().rposition(|other| predecessors.contains(other)).unwrap_or(0);
    function.layout.insert(last + 1, new_block);
    new_block
}

/// Redirects edges like [`redirect_edges`], but leaves the new block out of the layout.
pub(crate) fn redirect_edges_outside_layout(function: &mut Function, block: Block, predecessors: &[Block]) -> Block {
    let new_block = function.new_block();
    let is_chosen = |source: Block| predecessors.contains(&source);
    for phi in function.phis(block).to_vec() {
        let result = function.results(phi)[0];
        let mut kept: SmallVec<[Operand; 8]> = SmallVec::from_slice(&[result]);
        let mut moved: SmallVec<[Operand; 8]> = SmallVec::new();
        for pair in function.sources(phi).chunks_exact(2) {
            let is_moved = matches!(pair[1].kind, OperandKind::Block(source) if is_chosen(source));
            if is_moved { moved.extend_from_slice(pair) } else { kept.extend_from_slice(pair) }
        }
        let first = moved.first().copied();
        let is_same = moved.chunks_exact(2).all(|pair| Some(pair[0]) == first);
        let joined = match first {
            Some(first) if is_same => first,
            None => continue,
            Some(_) => {
                let class = result.value().map(|value| function.values[value]).unwrap_or(oriole_ir::Class::R);
                let value = function.new_value(class);
                let whole = Operand::from(function.whole(value));
                moved.insert(0, whole);
                let inst = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &moved, 1);
                function.insts[inst].location = function.insts[phi].location;
                function.blocks[new_block].insts.push(inst);
                whole
            }
        };
        kept.extend([joined, new_block.into()]);
        function.set_operands(phi, &kept, 1);
    }
    let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[block.into()], 0);
    function.blocks[new_block].insts.push(branch);
    for &source in predecessors {
        for inst in function.terminators(source).to_vec() {
            for operand in function.operands_mut(inst) {
                if operand.kind == OperandKind::Block(block) {
                    operand.kind = OperandKind::Block(new_block);
                }
            }
        }
    }
    new_block
}
