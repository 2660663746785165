//! Removes redundant phis (all sources equal, apart from the phi itself) and dead phis (not used by any other instruction, directly or
//! through phis).
//!
//! Redundant phis are found with a worklist: replacing a phi may make phis that read it redundant. Dead phis are found by marking from the
//! uses in other instructions. Redundant cycles of several phis (Braun et al. 2013) are not found.
//!
//! Example: `%5 = PHI %1, bb0, %5, bb1` is redundant, and all uses of `%5` become uses of `%1`. A phi `%6 = PHI %5, bb1, %1, bb2` then
//! becomes redundant too.

use oriole_support::{BitSet, IndexVec};
use smallvec::SmallVec;

use crate::function::Function;
use crate::ids::{Block, Inst, Value};
use crate::instruction::Pseudo;
use crate::operand::{Operand, OperandKind, Part, Role};

/// Simplifies the phis of a function.
pub(super) fn simplify_phis(function: &mut Function) {
    let phis: Vec<(Block, Inst)> =
        function.layout.iter().flat_map(|&block| function.phis(block).iter().map(move |&inst| (block, inst))).collect();
    if phis.is_empty() {
        return;
    }
    let mut simplifier =
        PhiSimplifier { replaced: IndexVec::filled(function.values.len(), Fate::Stays), removed: BitSet::new(function.insts.len()) };
    simplifier.find_trivial(function, &phis);
    if !simplifier.removed.is_empty() {
        simplifier.rewrite(function);
    }
    simplifier.find_dead(function, &phis);
    let mut blocks: Vec<Block> = phis.iter().map(|&(block, _)| block).collect();
    blocks.dedup();
    for block in blocks {
        function.blocks[block].insts.retain(|&inst| !simplifier.removed.contains(inst));
    }
}

/// Deletes tied operands that are no longer values: the result is undefined where the guard does not hold.
fn drop_lost_ties(function: &mut Function, inst: Inst) {
    let is_lost = |operand: &Operand| matches!(operand.role, Role::Tied(_)) && operand.value().is_none();
    let kept: SmallVec<[Operand; 8]> = function.operands(inst).iter().filter(|operand| !is_lost(operand)).copied().collect();
    let results = function.insts[inst].result_count();
    function.set_operands(inst, &kept, results);
}

/// The replacement of a phi's result.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// Not replaced.
    Stays,
    /// Replaced by these registers.
    Is(Part),
    /// Replaced by no value: it is undefined on all paths.
    IsUndefined,
}

/// The state of the simplification.
struct PhiSimplifier {
    /// The replacement of each value.
    replaced: IndexVec<Value, Fate>,
    /// The phis to delete.
    removed: BitSet<Inst>,
}

impl PhiSimplifier {
    /// Finds redundant phis until nothing changes.
    fn find_trivial(&mut self, function: &Function, phis: &[(Block, Inst)]) {
        let mut defined_by_phi = BitSet::new(function.values.len());
        for &(_, phi) in phis {
            function.defined(phi).for_each(|value| {
                defined_by_phi.insert(value);
            });
        }
        let mut readers: IndexVec<Value, Vec<Inst>> = IndexVec::filled(function.values.len(), Vec::new());
        for &(_, phi) in phis {
            for part in function.used(phi).filter(|part| defined_by_phi.contains(part.value)) {
                readers[part.value].push(phi);
            }
        }
        let mut work: Vec<Inst> = phis.iter().rev().map(|&(_, phi)| phi).collect();
        while let Some(phi) = work.pop() {
            let Some(result) = function.defined(phi).next() else { continue };
            if self.replaced[result] != Fate::Stays {
                continue;
            }
            let fate = self.fate(function, phi, result);
            if fate != Fate::Stays {
                self.replaced[result] = fate;
                self.removed.insert(phi);
                let mut affected = std::mem::take(&mut readers[result]);
                work.extend_from_slice(&affected);
                if let Fate::Is(part) = fate {
                    // The affected phis read this value from now on. The shorter list is appended to the longer one, which bounds the
                    // total cost.
                    let further = &mut readers[part.value];
                    if further.len() < affected.len() {
                        std::mem::swap(further, &mut affected);
                    }
                    further.append(&mut affected);
                }
            }
        }
    }

    /// Returns the only value among the sources of a phi, apart from the phi itself.
    fn fate(&mut self, function: &Function, phi: Inst, result: Value) -> Fate {
        let itself = OperandKind::Value(function.whole(result));
        let mut only = None;
        for pair in function.sources(phi).chunks(2) {
            let kind = self.resolve(pair[0].kind);
            if kind == itself || Some(kind) == only {
                continue;
            }
            if only.is_some() {
                return Fate::Stays;
            }
            only = Some(kind);
        }
        match only {
            Some(OperandKind::Value(part)) if function.can_stand_for(part, function.values[result]) => Fate::Is(part),
            Some(OperandKind::Undefined) | None => Fate::IsUndefined,
            Some(_) => Fate::Stays,
        }
    }

    /// Applies the replacements found so far to an operand.
    fn resolve(&mut self, kind: OperandKind) -> OperandKind {
        let OperandKind::Value(mut part) = kind else { return kind };
        let start = part.value;
        let mut steps = 0;
        loop {
            match self.replaced[part.value] {
                Fate::Stays => break,
                Fate::IsUndefined => return OperandKind::Undefined,
                Fate::Is(base) => part = Part { value: base.value, first: base.first + part.first, count: part.count },
            }
            steps += 1;
        }
        if steps > 1 {
            self.shorten(start);
        }
        OperandKind::Value(part)
    }

    /// Path compression: makes all values on a chain of replacements refer to the end of the chain.
    fn shorten(&mut self, start: Value) {
        let mut chain = Vec::new();
        let mut at = start;
        while let Fate::Is(base) = self.replaced[at] {
            chain.push(at);
            at = base.value;
        }
        let mut end = self.replaced[at];
        for value in chain.into_iter().rev() {
            if let (Fate::Is(base), Fate::Is(further)) = (self.replaced[value], end) {
                self.replaced[value] = Fate::Is(Part { value: further.value, first: further.first + base.first, count: base.count });
            } else if end == Fate::IsUndefined {
                self.replaced[value] = Fate::IsUndefined;
            }
            end = self.replaced[value];
        }
    }

    /// Applies the replacements to all instructions.
    fn rewrite(&mut self, function: &mut Function) {
        for block in function.layout.clone() {
            for at in 0..function.blocks[block].insts.len() {
                let inst = function.blocks[block].insts[at];
                let is_touched = function.used(inst).any(|part| self.replaced[part.value] != Fate::Stays);
                if !is_touched || self.removed.contains(inst) {
                    continue;
                }
                let is_phi = function.insts[inst].is(Pseudo::Phi);
                if let Some(mut guard) = function.insts[inst].guard {
                    guard.kind = self.rewritten(function, guard.kind, false);
                    function.insts[inst].guard = Some(guard);
                }
                let mut has_lost_tie = false;
                for number in 0..function.sources(inst).len() {
                    let source = function.sources(inst)[number];
                    let kind = self.rewritten(function, source.kind, is_phi);
                    has_lost_tie |= kind != source.kind && !matches!(kind, OperandKind::Value(_)) && matches!(source.role, Role::Tied(_));
                    function.sources_mut(inst)[number].kind = kind;
                }
                if has_lost_tie {
                    drop_lost_ties(function, inst);
                }
            }
        }
    }

    /// Applies the replacements to an operand; outside of phis an undefined operand becomes the zero register.
    fn rewritten(&mut self, function: &Function, kind: OperandKind, in_phi: bool) -> OperandKind {
        let OperandKind::Value(part) = kind else { return kind };
        let file = function.values[part.value].file;
        match self.resolve(kind) {
            OperandKind::Undefined if !in_phi && file.constant_letter().is_some() => OperandKind::Zero(file),
            other => other,
        }
    }

    /// Marks the phis that other instructions need, directly or through phis, and removes the others.
    fn find_dead(&mut self, function: &Function, phis: &[(Block, Inst)]) {
        let mut phi_of: IndexVec<Value, Option<Inst>> = IndexVec::filled(function.values.len(), None);
        for &(_, phi) in phis.iter().filter(|(_, phi)| !self.removed.contains(*phi)) {
            for value in function.defined(phi) {
                phi_of[value] = Some(phi);
            }
        }
        let mut needed = BitSet::new(function.insts.len());
        let mut work: Vec<Inst> = Vec::new();
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                if !function.insts[inst].is(Pseudo::Phi) {
                    work.extend(function.used(inst).filter_map(|part| phi_of[part.value]).filter(|&phi| needed.insert(phi)));
                }
            }
        }
        while let Some(phi) = work.pop() {
            let sources = function.sources(phi).iter().filter_map(Operand::value);
            work.extend(sources.filter_map(|value| phi_of[value]).filter(|&source| needed.insert(source)));
        }
        for &(_, phi) in phis {
            if !needed.contains(phi) {
                self.removed.insert(phi);
            }
        }
    }
}
