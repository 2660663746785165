//! Renaming: a walk over the dominator tree that gives each definition of a variable a value of its own, and propagates copies.

use oriole_isa::{RegFile, Symbols};
use oriole_support::{BitSet, IndexVec};
use smallvec::SmallVec;

use crate::analysis::{ControlFlow, Dominators};
use crate::function::Function;
use crate::ids::{Block, Inst, Value};
use crate::instruction::{Op, Pseudo};
use crate::operand::{Operand, OperandKind, Part, Role, Signs};

/// The current meaning of a variable.
#[derive(Clone, Copy)]
enum VariableMeaning {
    /// Registers of an SSA value.
    Is(Part),
    /// Not assigned yet; the register file of the variable.
    Unset(RegFile),
}

impl VariableMeaning {
    /// Returns the operand to read instead of a part of the variable.
    fn read(self, part: Part) -> OperandKind {
        match self {
            VariableMeaning::Is(base) => OperandKind::Value(Part { value: base.value, first: base.first + part.first, count: part.count }),
            VariableMeaning::Unset(file) if file.constant_letter().is_some() => OperandKind::Zero(file),
            VariableMeaning::Unset(_) => OperandKind::Undefined,
        }
    }
}

/// The state of the walk.
struct Renaming<'a> {
    function: &'a mut Function,
    /// The values that are variables.
    variables: &'a BitSet<Value>,
    /// The current meaning of each variable; other values mean themselves.
    meaning: IndexVec<Value, VariableMeaning>,
    /// Previous meanings, to be restored when the walk leaves a subtree.
    replaced: Vec<(Value, VariableMeaning)>,
    /// Variables whose own number is already used by one of their definitions; further definitions get new numbers.
    taken: BitSet<Value>,
    /// The phis of each block, with their variables.
    phis: IndexVec<Block, Vec<(Value, Inst)>>,
    /// The position of each block in the layout; predecessors are sorted by it.
    layout_position: IndexVec<Block, u32>,
}

/// Renames all variables. `phis` lists the variables that need a phi in each block.
pub(super) fn rename(
    function: &mut Function,
    flow: &ControlFlow,
    dominators: &Dominators,
    variables: &BitSet<Value>,
    phis: &IndexVec<Block, Vec<Value>>,
) {
    let meaning_of = |value| match variables.contains(value) {
        true => VariableMeaning::Unset(function.values[value].file),
        false => VariableMeaning::Is(function.whole(value)),
    };
    let mut meaning = IndexVec::new();
    for value in function.values.indices() {
        meaning.push(meaning_of(value));
    }
    let mut layout_position = IndexVec::filled(function.blocks.len(), 0);
    for (position, &block) in function.layout.iter().enumerate() {
        layout_position[block] = position as u32;
    }
    let count = function.values.len();
    let placed = place(function, flow, phis);
    let taken = BitSet::new(count);
    let mut renaming = Renaming { function, variables, meaning, replaced: Vec::new(), taken, phis: placed, layout_position };
    // Depth of each open block of the dominator tree, and the number of replaced meanings when it was entered.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for &block in dominators.preorder() {
        let depth = dominators.depth(block);
        while let Some(&(above, kept)) = open.last()
            && above >= depth
        {
            renaming.restore(kept);
            open.pop();
        }
        open.push((depth, renaming.replaced.len()));
        renaming.block(block, flow);
    }
}

/// Creates the phis, with undefined sources.
fn place(function: &mut Function, flow: &ControlFlow, phis: &IndexVec<Block, Vec<Value>>) -> IndexVec<Block, Vec<(Value, Inst)>> {
    let mut placed = IndexVec::filled(function.blocks.len(), Vec::new());
    let mut operands: Vec<Operand> = Vec::new();
    for (block, variables) in phis.iter_enumerated() {
        for &variable in variables {
            operands.clear();
            operands.push(function.whole(variable).into());
            for &from in flow.predecessors(block) {
                operands.push(Operand::new(OperandKind::Undefined));
                operands.push(from.into());
            }
            let inst = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &operands, 1);
            placed[block].push((variable, inst));
        }
    }
    placed
}

impl Renaming<'_> {
    /// Restores the meanings that were replaced since `replaced` had `kept` entries.
    fn restore(&mut self, kept: usize) {
        for (value, meaning) in self.replaced.drain(kept..).rev() {
            self.meaning[value] = meaning;
        }
    }

    /// Changes the meaning of a variable until the walk leaves the current subtree.
    fn set(&mut self, value: Value, meaning: VariableMeaning) {
        let old = std::mem::replace(&mut self.meaning[value], meaning);
        self.replaced.push((value, old));
    }

    /// Creates the value that a definition of a variable writes.
    fn define(&mut self, variable: Value) -> Part {
        let value = if self.taken.insert(variable) { variable } else { self.function.new_value(self.function.values[variable]) };
        let whole = self.function.whole(value);
        self.set(variable, VariableMeaning::Is(whole));
        whole
    }

    /// Renames the instructions of a block and fills in the phi sources of its successors.
    fn block(&mut self, block: Block, flow: &ControlFlow) {
        let insts = std::mem::take(&mut self.function.blocks[block].insts);
        let phis = std::mem::take(&mut self.phis[block]);
        let mut kept = Vec::with_capacity(insts.len() + phis.len());
        for &(variable, inst) in &phis {
            let part = self.define(variable);
            self.function.operands_mut(inst)[0].kind = OperandKind::Value(part);
            kept.push(inst);
        }
        self.phis[block] = phis;
        for inst in insts {
            if self.instruction(inst) {
                kept.push(inst);
            }
        }
        self.function.blocks[block].insts = kept;
        for &target in flow.successors(block) {
            self.fill_phis(block, target, flow);
        }
    }

    /// Sets the phi sources in a successor that belong to the edge from `block`.
    fn fill_phis(&mut self, block: Block, target: Block, flow: &ControlFlow) {
        if self.phis[target].is_empty() {
            return;
        }
        let position = self.layout_position[block];
        let predecessors = flow.predecessors(target);
        let number = predecessors.partition_point(|&from| self.layout_position[from] < position);
        for &(variable, inst) in &self.phis[target] {
            if let VariableMeaning::Is(part) = self.meaning[variable] {
                self.function.operands_mut(inst)[1 + 2 * number].kind = OperandKind::Value(part);
            }
        }
    }

    /// Renames an instruction. Returns whether it is kept; copies that are propagated are deleted.
    fn instruction(&mut self, inst: Inst) -> bool {
        self.read_guard(inst);
        let dropped_tie = self.read_sources(inst);
        if dropped_tie {
            self.drop_undefined_ties(inst);
        }
        if self.function.insts[inst].is(Pseudo::Copy) {
            return self.copy(inst);
        }
        // Without an old value the result is undefined where the guard does not hold, so the pack may execute everywhere.
        if self.function.insts[inst].is(Pseudo::Pack) && self.function.tied_to(inst, 0).is_none() {
            self.function.insts[inst].guard = None;
        }
        self.write_results(inst);
        true
    }

    /// Renames the guard of an instruction.
    fn read_guard(&mut self, inst: Inst) {
        let Some(mut guard) = self.function.insts[inst].guard else { return };
        if let OperandKind::Value(part) = guard.kind {
            guard.kind = self.meaning[part.value].read(part);
            self.function.insts[inst].guard = Some(guard);
        }
    }

    /// Renames the sources. Returns whether a tied operand is undefined.
    fn read_sources(&mut self, inst: Inst) -> bool {
        let mut is_tie_undefined = false;
        for operand in self.function.sources_mut(inst) {
            let OperandKind::Value(part) = operand.kind else { continue };
            let meaning = self.meaning[part.value];
            let is_undefined_tie = matches!((meaning, operand.role), (VariableMeaning::Unset(_), Role::Tied(_)));
            is_tie_undefined |= is_undefined_tie;
            operand.kind = if is_undefined_tie { OperandKind::Undefined } else { meaning.read(part) };
        }
        is_tie_undefined
    }

    /// Deletes the tied operands that are undefined.
    fn drop_undefined_ties(&mut self, inst: Inst) {
        let results = self.function.insts[inst].result_count();
        let is_kept = |operand: &&Operand| !(matches!(operand.role, Role::Tied(_)) && operand.kind == OperandKind::Undefined);
        let kept: SmallVec<[Operand; 8]> = self.function.operands(inst).iter().filter(is_kept).copied().collect();
        self.function.set_operands(inst, &kept, results);
    }

    /// Renames the results that are variables.
    fn write_results(&mut self, inst: Inst) {
        for number in 0..self.function.insts[inst].result_count() {
            if let OperandKind::Value(part) = self.function.operands(inst)[number].kind
                && self.variables.contains(part.value)
            {
                let is_whole = part == self.function.whole(part.value);
                assert!(is_whole, "{inst:?} ({}) writes a part of {:?}", self.function.insts[inst].op.mnemonic(), part.value);
                let value = self.define(part.value);
                self.function.operands_mut(inst)[number].kind = OperandKind::Value(value);
            }
        }
    }

    /// Propagates the sources of a copy to later uses where possible. Returns whether the instruction is kept for the rest.
    fn copy(&mut self, inst: Inst) -> bool {
        if let (None, &[result, source]) = (self.function.insts[inst].guard, self.function.operands(inst))
            && let (OperandKind::Value(to), Some(part)) = (result.kind, self.forwarded(&result, &source))
        {
            self.set(to.value, VariableMeaning::Is(part));
            return false;
        }
        let results = self.function.insts[inst].result_count();
        let operands: SmallVec<[Operand; 8]> = self.function.operands(inst).into();
        let is_guarded = self.function.insts[inst].guard.is_some();
        let mut left: SmallVec<[usize; 4]> = SmallVec::new();
        for number in 0..results {
            let (result, source) = (operands[number], operands[results + number]);
            let tied = self.function.tied_to(inst, number).map(|tied| tied.kind);
            // A guarded copy may be propagated only if the old value is undefined or equal to the source.
            let is_sure = !is_guarded || tied.is_none_or(|tied| tied == source.kind);
            match (result.kind, self.forwarded(&result, &source)) {
                (OperandKind::Value(to), Some(part)) if is_sure => self.set(to.value, VariableMeaning::Is(part)),
                (OperandKind::Zero(_), _) => {}
                _ => left.push(number),
            }
        }
        if left.is_empty() {
            return false;
        }
        if left.len() < results {
            let remaining = remaining_copy(&operands, results, &left);
            self.function.set_operands(inst, &remaining, left.len());
        }
        if self.function.sources(inst).iter().all(|operand| !matches!(operand.role, Role::Tied(_))) {
            self.function.insts[inst].guard = None;
        }
        self.write_results(inst);
        true
    }

    /// Returns the registers that can replace the result of a copy; `None` if there are none.
    fn forwarded(&self, result: &Operand, source: &Operand) -> Option<Part> {
        let to = result.part()?;
        let from = source.part()?;
        let is_plain = source.signs == Signs::NONE && source.suffixes().next().is_none() && source.role == Role::Plain;
        (is_plain && self.function.can_stand_for(from, self.function.values[to.value])).then_some(from)
    }
}

/// Returns the operands of a parallel copy without the pairs that were propagated.
fn remaining_copy(operands: &[Operand], results: usize, left: &[usize]) -> SmallVec<[Operand; 8]> {
    let mut remaining: SmallVec<[Operand; 8]> = left.iter().map(|&number| operands[number]).collect();
    remaining.extend(left.iter().map(|&number| operands[results + number]));
    for operand in &operands[2 * results..] {
        if let Role::Tied(number) = operand.role
            && let Some(new) = left.iter().position(|&kept| kept == usize::from(number))
        {
            remaining.push(operand.with_role(Role::Tied(new as u8)));
        }
    }
    remaining
}
