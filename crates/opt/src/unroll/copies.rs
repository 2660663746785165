//! Copies the blocks of a loop, and edits branches and phis to connect the copies. Also puts loops into loop-closed SSA form.

use oriole_ir::{Block, Function, Guard, Inst, Op, Operand, OperandKind, Part, Pseudo, Value};
use oriole_isa::{Opcode, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shape::UnrollableLoop;

/// Maps the values and blocks of a loop to the values and blocks of one copy of the loop.
#[derive(Clone, Default)]
pub(super) struct LoopCopyMapping {
    /// For each value of the loop, the value that replaces it in the copy.
    values: FxHashMap<Value, Value>,
    /// Each block of the loop with its copy.
    blocks: SmallVec<[(Block, Block); 4]>,
}

impl LoopCopyMapping {
    /// Returns the value that replaces `value` in the copy. A value without a replacement, such as one defined outside the loop, is
    /// returned as it is.
    pub(super) fn value(&self, value: Value) -> Value {
        self.values.get(&value).copied().unwrap_or(value)
    }

    /// Makes `copy` the value that replaces `value` in the copy of the loop.
    pub(super) fn set_value(&mut self, value: Value, copy: Value) {
        self.values.insert(value, copy);
    }

    /// Returns the copy of a block of the loop; other blocks are returned as they are.
    pub(super) fn block(&self, block: Block) -> Block {
        self.blocks.iter().find(|pair| pair.0 == block).map_or(block, |pair| pair.1)
    }

    /// Returns the blocks of the copy, in layout order.
    pub(super) fn copies(&self) -> impl Iterator<Item = Block> + '_ {
        self.blocks.iter().map(|pair| pair.1)
    }

    /// Returns an operand with its value or block replaced by the one in the copy.
    pub(super) fn operand(&self, operand: Operand) -> Operand {
        Operand { kind: self.kind(operand.kind), ..operand }
    }

    /// Returns the kind of an operand with its value or block replaced by the one in the copy.
    fn kind(&self, kind: OperandKind) -> OperandKind {
        match kind {
            OperandKind::Value(part) => OperandKind::Value(Part { value: self.value(part.value), ..part }),
            OperandKind::Block(block) => OperandKind::Block(self.block(block)),
            other => other,
        }
    }
}

/// Copies all blocks of a loop, and returns the mapping from the loop to the copy. `start` returns the value that replaces each phi of the
/// header in this copy. The back edge of the copy goes to the header of the copy, and its exit edge to the exit of the loop, until the
/// caller changes them.
pub(super) fn copy_loop_blocks(
    function: &mut Function,
    old_loop: &UnrollableLoop,
    start: impl Fn(&Function, Inst) -> Value,
) -> LoopCopyMapping {
    let mut mapping = LoopCopyMapping::default();
    for &block in &old_loop.blocks {
        let copy = function.new_block();
        mapping.blocks.push((block, copy));
    }
    for &phi in &function.phis(old_loop.header).to_vec() {
        if let Some(result) = function.results(phi)[0].value() {
            mapping.values.insert(result, start(function, phi));
        }
    }
    // The new values are created first, because a block may read a value whose definition is later in the layout.
    let mut insts: Vec<(Block, Inst)> = Vec::new();
    for &block in &old_loop.blocks {
        let skipped = if block == old_loop.header { function.phis(block).len() } else { 0 };
        insts.extend(function.blocks[block].insts[skipped..].iter().map(|&inst| (block, inst)));
    }
    for &(_, inst) in &insts {
        for value in function.defined(inst).collect::<SmallVec<[Value; 4]>>() {
            let class = function.values[value];
            let copy = function.new_value(class);
            mapping.values.insert(value, copy);
        }
    }
    for (block, inst) in insts {
        let copy = copy_inst(function, &mapping, inst);
        let place = mapping.block(block);
        function.blocks[place].insts.push(copy);
    }
    mapping
}

/// Copies one instruction with the values and blocks of `mapping`, and returns the copy; the source location stays the same.
pub(super) fn copy_inst(function: &mut Function, mapping: &LoopCopyMapping, inst: Inst) -> Inst {
    let operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().map(|&operand| mapping.operand(operand)).collect();
    let data = function.insts[inst].clone();
    let guard = data.guard.map(|guard| Guard { kind: mapping.kind(guard.kind), ..guard });
    let copy = function.new_inst(data.op, data.modifiers.clone(), guard, &operands, data.result_count());
    function.insts[copy].memory = data.memory;
    function.insts[copy].may_contract = data.may_contract;
    function.insts[copy].location = data.location;
    copy
}

/// Replaces the branches at the end of a block by an unconditional branch to `target`.
pub(super) fn set_jump(function: &mut Function, block: Block, target: Block) {
    set_branches(function, block, None, target);
}

/// Replaces the branches at the end of a block by a branch to `taken.1` where the predicate `taken.0` holds, and one to `other` elsewhere.
/// If `taken` is `None`, the only branch goes to `other`.
pub(super) fn set_branches(function: &mut Function, block: Block, taken: Option<(Operand, Block)>, other: Block) {
    let count = function.terminators(block).len();
    let length = function.blocks[block].insts.len() - count;
    let location = function.terminators(block).first().map(|&inst| function.insts[inst].location).unwrap_or_default();
    function.blocks[block].insts.truncate(length);
    let guarded = taken.map(|(predicate, target)| (Some(Guard { kind: predicate.kind, negated: false }), target));
    for (guard, target) in guarded.into_iter().chain([(None, other)]) {
        let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), guard, &[target.into()], 0);
        function.insts[branch].location = location;
        function.blocks[block].insts.push(branch);
    }
}

/// Inserts instructions before the branches at the end of a block.
pub(super) fn insert_before_terminators(function: &mut Function, block: Block, insts: Vec<Inst>) {
    let at = function.blocks[block].insts.len() - function.terminators(block).len();
    function.blocks[block].insts.splice(at..at, insts);
}

/// In the branches at the end of a block, replaces the target `from` by `to`.
pub(super) fn redirect_branches(function: &mut Function, block: Block, from: Block, to: Block) {
    for inst in function.terminators(block).to_vec() {
        for operand in function.operands_mut(inst) {
            if operand.kind == OperandKind::Block(from) {
                operand.kind = OperandKind::Block(to);
            }
        }
    }
}

/// Adds a source to a phi, for the predecessor block `from`.
pub(super) fn add_phi_source(function: &mut Function, phi: Inst, source: Operand, from: Block) {
    let mut operands: SmallVec<[Operand; 8]> = function.operands(phi).iter().copied().collect();
    operands.extend([source, from.into()]);
    function.set_operands(phi, &operands, 1);
}

/// Creates a phi without sources for each phi of the header. Returns pairs of the old phi and the new one.
pub(super) fn create_header_phis(function: &mut Function, header: Block) -> Vec<(Inst, Inst)> {
    let phis = function.phis(header).to_vec();
    phis.into_iter()
        .map(|phi| {
            let class = function.results(phi)[0].value().map_or(oriole_ir::Class::R, |value| function.values[value]);
            let value = function.new_value(class);
            let result = Operand::from(function.whole(value));
            let copy = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &[result], 1);
            function.insts[copy].location = function.insts[phi].location;
            (phi, copy)
        })
        .collect()
}

/// Puts loops into loop-closed SSA form: a value that is defined in a loop and read outside of it gets a phi in the exit block of the loop,
/// and the instructions outside the loop read the result of that phi instead. `loop_of_block` has, for each block, the index of its loop
/// (`None` outside of the loops). `exits` has, for each loop, the exiting block and the exit block, which has no other predecessor.
pub(super) fn put_in_loop_closed_form(function: &mut Function, loop_of_block: &[Option<usize>], exits: &[(Block, Block)]) {
    let mut loop_of_value: Vec<Option<usize>> = vec![None; function.values.len()];
    for &block in &function.layout {
        let Some(number) = loop_of_block.get(block.position()).copied().flatten() else { continue };
        for &inst in &function.blocks[block].insts {
            function.defined(inst).for_each(|value| loop_of_value[value.position()] = Some(number));
        }
    }
    let mut closed: FxHashMap<Value, Value> = FxHashMap::default();
    let mut new_phis: Vec<(Block, Inst)> = Vec::new();
    for block in function.layout.clone() {
        for inst in function.blocks[block].insts.clone() {
            let is_phi = function.insts[inst].is(Pseudo::Phi);
            for at in 0..=function.operands(inst).len() {
                // The index after the last operand stands for the guard.
                let operand = function.operands(inst).get(at).copied();
                let kind = match operand {
                    Some(operand) => Some(operand.kind),
                    None => function.insts[inst].guard.map(|guard| guard.kind),
                };
                let Some(OperandKind::Value(part)) = kind.filter(|_| at >= function.insts[inst].result_count()) else { continue };
                let Some(number) = loop_of_value.get(part.value.position()).copied().flatten() else { continue };
                // A phi reads its sources at the end of the predecessor.
                let place = match function.operands(inst).get(at + 1).map(|operand| operand.kind) {
                    Some(OperandKind::Block(from)) if is_phi => from,
                    _ => block,
                };
                if loop_of_block.get(place.position()).copied().flatten() == Some(number) {
                    continue;
                }
                let (exiting, exit) = exits[number];
                let value = *closed.entry(part.value).or_insert_with(|| {
                    let value = function.new_value(function.values[part.value]);
                    let (result, source) = (Operand::from(function.whole(value)), Operand::from(function.whole(part.value)));
                    let phi = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &[result, source, exiting.into()], 1);
                    new_phis.push((exit, phi));
                    value
                });
                let kind = OperandKind::Value(Part { value, ..part });
                match operand {
                    Some(_) => function.operands_mut(inst)[at].kind = kind,
                    None => function.insts[inst].guard = function.insts[inst].guard.map(|guard| Guard { kind, ..guard }),
                }
            }
        }
    }
    for (exit, phi) in new_phis.into_iter().rev() {
        function.blocks[exit].insts.insert(0, phi);
    }
}
