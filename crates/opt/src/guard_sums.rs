//! Replaces `x + (p ? n : 0)` by a guarded addition of `n`.
//!
//! ```text
//! %2:R = SEL RZ, 0x1, !%1:P
//! %3:R = IADD3 %0, %2, RZ          becomes     @%1 %3:R = IADD3 %0, 0x1, RZ, tied %0
//! ```
//!
//! Loops that count how often a condition holds have such sums. A sum of three summands, two of which are such selections, becomes two
//! guarded sums. A guarded sum overwrites the register of its other summand. That summand must therefore have no other reader; otherwise a
//! copy would be needed, and nothing would be saved.
//!
//! **Before** and **after**: SSA, all instructions encodable. The pass runs after `if-convert`, which does not put guarded instructions
//! under another guard. The cost is linear in the size of the function.

use oriole_ir::{Block, Class, Function, Guard, Inst, Op, Operand, OperandKind, RegFile, Role, Signs, Value};
use oriole_isa::{Opcode, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::definitions::Definitions;
use crate::legalize::EncodabilityCache;
use crate::rewrite::InstDraft;

/// How often each value is read, and the block of each instruction, computed before the pass changes the function.
struct ReadCounts {
    /// For each value, the number of operands that read it.
    reads_of_value: Vec<u32>,
    /// For each instruction, its block; `None` for instructions outside of all blocks.
    inst_blocks: Vec<Option<Block>>,
}

impl ReadCounts {
    /// Returns whether exactly one operand reads a value. Returns false for values that the pass created.
    fn is_read_once(&self, value: Value) -> bool {
        self.reads_of_value.get(value.position()) == Some(&1)
    }
}

/// A summand of the form `p ? n : 0`: it is `n` where the guard `p` holds, and zero elsewhere.
struct SelectedSummand {
    /// The `SEL` that selects the addend or zero.
    select: Inst,
    /// The addend: the value of the summand where the guard holds.
    addend: Operand,
    /// The guard under which the addend is added.
    guard: Guard,
}

/// Replaces sums of the form `x + (p ? n : 0)` by guarded additions in a whole function. Returns the number of `SEL` instructions deleted.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> usize {
    let is_select = |inst: &Inst| function.insts[*inst].is_machine(Opcode::SEL);
    if !function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(is_select)) {
        return 0;
    }
    let definitions = Definitions::compute(function);
    let mut read_counts = ReadCounts { reads_of_value: vec![0; function.values.len()], inst_blocks: vec![None; function.insts.len()] };
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            read_counts.inst_blocks[inst.position()] = Some(block);
            function.used(inst).for_each(|part| read_counts.reads_of_value[part.value.position()] += 1);
        }
    }
    let mut removed = 0;
    for block in function.layout.clone() {
        let mut dead_insts: FxHashSet<Inst> = FxHashSet::default();
        let mut at = 0;
        while at < function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[at];
            if let Some((base, guarded)) = split_off_selected_summands(function, &definitions, &read_counts, block, inst) {
                at += replace_by_guarded_sums(function, encodability, block, at, base, &guarded, &mut dead_insts);
            }
            at += 1;
        }
        removed += dead_insts.len();
        function.blocks[block].insts.retain(|inst| !dead_insts.contains(inst));
    }
    removed
}

/// Splits the summands of an addition into one that is always added and one or two that are added under a guard ([`SelectedSummand`]).
/// `None` if the addition does not have this form, or if the first summand has another reader.
fn split_off_selected_summands(
    function: &Function,
    definitions: &Definitions,
    read_counts: &ReadCounts,
    block: Block,
    inst: Inst,
) -> Option<(Operand, SmallVec<[SelectedSummand; 2]>)> {
    let data = &function.insts[inst];
    let has_carry = function.results(inst).iter().skip(1).any(|result| result.value().is_some());
    if !data.is_machine(Opcode::IADD3)
        || !data.modifiers.is_empty()
        || data.guard.is_some()
        || has_carry
        || function.sources(inst).len() != 3
    {
        return None;
    }
    let mut base = None;
    let mut guarded: SmallVec<[SelectedSummand; 2]> = SmallVec::new();
    for summand in function.sources(inst) {
        if summand.kind == OperandKind::Zero(RegFile::General) {
            continue;
        }
        match match_selected_summand(function, definitions, read_counts, block, summand) {
            Some(found) => guarded.push(found),
            None if base.is_none() => base = Some(*summand),
            None => return None,
        }
    }
    let base = base.filter(|base| base.signs.is_empty() && base.role == Role::Plain)?;
    let part = base.part()?;
    let is_last = function.values[part.value] == Class::R && read_counts.is_read_once(part.value);
    (is_last && matches!(guarded.len(), 1 | 2)).then_some((base, guarded))
}

/// Matches a summand of the form `p ? n : 0`, computed by a `SEL`. `None` unless the `SEL` is in `block` and the addition is the only
/// reader of its result.
fn match_selected_summand(
    function: &Function,
    definitions: &Definitions,
    read_counts: &ReadCounts,
    block: Block,
    summand: &Operand,
) -> Option<SelectedSummand> {
    let part = summand.part().filter(|part| function.values[part.value] == Class::R && part.count == 1)?;
    let select = definitions.unguarded_definition_of(function, part.value)?;
    let data = &function.insts[select];
    let &[first, second, predicate] = function.sources(select) else { return None };
    let is_near = read_counts.inst_blocks[select.position()] == Some(block);
    let is_only = read_counts.is_read_once(part.value) && summand.signs.is_empty() && summand.role == Role::Plain;
    if !data.is_machine(Opcode::SEL) || !data.modifiers.is_empty() || !is_only || !is_near {
        return None;
    }
    let read = predicate.part().filter(|read| function.values[read.value].file == RegFile::Predicate)?;
    let is_zero = |operand: &Operand| operand.kind == OperandKind::Zero(RegFile::General) || operand.integer() == Some(0);
    let inverted = predicate.signs.has(Signs::NOT);
    let (number, negated) = match (is_zero(&first), is_zero(&second)) {
        (false, true) => (first, inverted),
        (true, false) => (second, !inverted),
        _ => return None,
    };
    let is_plain = number.signs.is_empty() && (number.part().is_some() || number.integer().is_some());
    is_plain.then_some(SelectedSummand { select, addend: number, guard: Guard { kind: OperandKind::Value(read), negated } })
}

/// Replaces the addition at position `at` of a block by one guarded addition for each selected summand. Adds the `SEL` instructions that
/// became dead to `dead_insts`. Returns the number of instructions inserted before the addition.
fn replace_by_guarded_sums(
    function: &mut Function,
    encodability: &mut EncodabilityCache,
    block: Block,
    at: usize,
    mut base: Operand,
    guarded: &[SelectedSummand],
    dead_insts: &mut FxHashSet<Inst>,
) -> usize {
    let inst = function.blocks[block].insts[at];
    let result = function.results(inst)[0];
    let sum = |base: Operand, addend: Operand, result: Operand| InstDraft {
        opcode: Opcode::IADD3,
        modifiers: Symbols::new(),
        operands: [result, base, addend, Operand::RZ, base.with_role(Role::Tied(0))].into_iter().collect(),
        result_count: 1,
    };
    let fits = guarded.iter().all(|one| encodability.is_encodable(function, inst, &sum(base, one.addend, result)));
    if !fits {
        return 0;
    }
    let location = function.insts[inst].location;
    for (number, one) in guarded.iter().enumerate() {
        dead_insts.insert(one.select);
        if number + 1 == guarded.len() {
            function.insts[inst].guard = Some(one.guard);
            sum(base, one.addend, result).overwrite_inst(function, inst);
        } else {
            let value = function.new_value(Class::R);
            let partial = Operand::from(function.whole(value));
            let draft = sum(base, one.addend, partial);
            let new = function.new_inst(Op::Machine(Opcode::IADD3), Symbols::new(), Some(one.guard), &draft.operands, 1);
            function.insts[new].location = location;
            function.blocks[block].insts.insert(at + number, new);
            base = partial;
        }
    }
    guarded.len() - 1
}
