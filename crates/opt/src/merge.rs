//! Common-subexpression elimination along the dominator tree.
//!
//! Two unguarded instructions without side effects that have the same opcode, modifiers and sources compute the same results. The later one
//! becomes a copy of the earlier one if the earlier one dominates it. Loads from a constant bank, and reads of special registers that are
//! constant for a thread, count as free of side effects. Instructions that only load a constant are merged within a block only: recomputing
//! the constant is cheaper than keeping it in a register across blocks.
//!
//! ```text
//! %2 = IADD3 %0, %1, RZ              %2 = IADD3 %0, %1, RZ
//! %3 = COPY %1             becomes   %3 = COPY %1
//! %4 = IADD3 %0, %3, RZ              %4 = COPY %2             // %3 counts as %1, which it copies
//! ```
//!
//! Registers with the same known constant count as the same source, although the instructions that load the constant are not merged.
//!
//! The dominator tree is walked in preorder with one hash table that keeps a single candidate per hash, so the cost is linear in the number
//! of instructions. The table is not scoped: a candidate whose block does not dominate the current block is overwritten. A match may be
//! missed for this reason; a wrong match cannot occur.

use std::hash::{Hash, Hasher};

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Pseudo, RegFile, Role, Target};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::rewrite::single_register;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of instructions that became copies.
    pub merged: usize,
}

/// Replaces repeated computations by copies of the first result, in a whole function (common-subexpression elimination).
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let definitions = Definitions::compute(function);
    let known = FxHashMap::with_capacity_and_hasher(function.inst_count(), FxBuildHasher);
    let mut merger = SubexpressionMerger { definitions, candidates: known, stats: Stats::default() };
    for &block in dominators.preorder() {
        merger.merge_in_block(function, &dominators, block);
    }
    merger.stats
}

/// State of common-subexpression elimination for one function.
struct SubexpressionMerger {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// For each hash of a computation, the latest instruction with this hash, and its block. An entry is overwritten if its block does not
    /// dominate the current block, or if its computation differs and only the hash is the same.
    candidates: FxHashMap<u64, (Block, Inst)>,
    /// Numbers of changes made so far.
    stats: Stats,
}

impl SubexpressionMerger {
    /// Turns the instructions of one block that repeat an earlier computation into copies. All dominators of the block must have been
    /// visited.
    fn merge_in_block(&mut self, function: &mut Function, dominators: &Dominators, block: Block) {
        for at in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[at];
            if !is_pure(function, inst) {
                continue;
            }
            let hash = self.computation_hash(function, inst);
            // The constant of a constant load is only reused within its block, to keep its live range short.
            let is_usable = |earlier: Block| earlier == block || dominators.dominates(earlier, block) && !is_constant_load(function, inst);
            let known = self.candidates.get(&hash).filter(|known| is_usable(known.0));
            match known.filter(|known| self.are_same_computation(function, known.1, inst)) {
                Some(&(_, earlier)) => {
                    // The earlier instruction may be contracted into a multiply-add only if both instructions may.
                    function.insts[earlier].may_contract &= function.insts[inst].may_contract;
                    turn_into_copy(function, inst, earlier);
                    self.stats.merged += 1;
                }
                None => _ = self.candidates.insert(hash, (block, inst)),
            }
        }
    }

    /// Returns a hash of the opcode, modifiers, result classes and sources of an instruction. Instructions with equal hashes may still
    /// differ; [`SubexpressionMerger::are_same_computation`] compares them.
    fn computation_hash(&self, function: &Function, inst: Inst) -> u64 {
        let mut hasher = FxHasher::default();
        let data = &function.insts[inst];
        data.op.hash(&mut hasher);
        data.modifiers.hash(&mut hasher);
        for result in function.results(inst) {
            result_class(function, result).hash(&mut hasher);
        }
        let ignores_registers = self.may_ignore_registers_of_constants(function, inst);
        for source in function.sources(inst) {
            let seen = self.resolve_source(function, source, ignores_registers);
            (seen.kind, seen.signs).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns whether two pure instructions compute the same results.
    fn are_same_computation(&self, function: &Function, one: Inst, other: Inst) -> bool {
        let (first, second) = (&function.insts[one], &function.insts[other]);
        let (results, sources) = (function.results(one), function.sources(one));
        let (other_results, other_sources) = (function.results(other), function.sources(other));
        let ignore = self.may_ignore_registers_of_constants(function, one) && self.may_ignore_registers_of_constants(function, other);
        let read = |source| self.resolve_source(function, source, ignore);
        first.op == second.op
            && first.modifiers == second.modifiers
            && results.len() == other_results.len()
            && sources.len() == other_sources.len()
            && results.iter().zip(other_results).all(|(a, b)| result_class(function, a) == result_class(function, b))
            && sources.iter().zip(other_sources).all(|(a, b)| read(a) == read(b))
    }

    /// Returns an operand that reads the original value instead of a copy of it. With `ignores_registers_of_constants`, an operand that
    /// reads a register with a known constant becomes that constant. Other operands are returned unchanged.
    fn resolve_source(&self, function: &Function, operand: &Operand, ignores_registers_of_constants: bool) -> Operand {
        let OperandKind::Value(part) = operand.kind else { return *operand };
        let kind = match self.known_integer(function, operand).filter(|_| ignores_registers_of_constants) {
            Some(number) => OperandKind::Integer(number as i64),
            // A copy of a pack is followed to the pack, and not to the unrelated registers in it.
            None => OperandKind::Value(self.definitions.origin_of_group(function, self.definitions.copied_group(function, part))),
        };
        Operand { kind, ..*operand }
    }

    /// Returns the constant in the general register, or in the pair of general registers, that an operand reads; `None` if it is not known.
    fn known_integer(&self, function: &Function, operand: &Operand) -> Option<u64> {
        let part = operand.part().filter(|part| part.count <= 2 && function.values[part.value].file == RegFile::General)?;
        (0..part.count).rev().try_fold(0, |number, register| {
            match self.definitions.known_content(function, single_register(part, register))? {
                KnownWord::Integer(word) => Some(number << 32 | u64::from(word)),
                KnownWord::Constant { .. } => None,
            }
        })
    }

    /// Returns whether a computation with constants in registers may be merged with one that has the same constants in other registers,
    /// which is usually a computation in another block. Example: two divisions by the same double in different blocks start with the packs
    /// of the constant 1 and the approximation that `MUFU.RCP64H` returns. A computation with constants only, such as a pack, is excluded:
    /// it is as cheap as a constant, and the instruction that reads a pack usually overwrites it.
    fn may_ignore_registers_of_constants(&self, function: &Function, inst: Inst) -> bool {
        let is_unknown = |source: &Operand| source.value().is_some() && self.known_integer(function, source).is_none();
        function.sources(inst).iter().any(is_unknown)
    }
}

/// Returns the register class of a result; `None` if the result is not written.
fn result_class(function: &Function, result: &Operand) -> Option<Class> {
    result.value().map(|value| function.values[value])
}

/// Returns whether an instruction has no guard and no side effects, and always computes the same results from the same sources.
pub(crate) fn is_pure(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_pure = match data.op {
        Op::Machine(opcode) => match opcode.properties().effect {
            Effect::None => !function.sources(inst).iter().any(|source| matches!(source.kind, OperandKind::Name(_))),
            Effect::Reads => {
                let is_load = matches!(opcode, Opcode::LDC | Opcode::ULDC | Opcode::LDCU);
                is_load && function.sources(inst).iter().all(|source| matches!(source.kind, OperandKind::Constant { .. }))
            }
            Effect::State => opcode == Opcode::S2R && function.sources(inst).iter().all(names_invariant_register),
            _ => false,
        },
        // The instruction that reads a pack of constants usually overwrites it, so a shared pack would have to be copied for each reader.
        Op::Pseudo(Pseudo::Pack) => function.sources(inst).iter().any(|source| source.value().is_some()),
        Op::Pseudo(_) => false,
    };
    let is_plain = |operand: &Operand| !matches!(operand.role, Role::Tied(_) | Role::Fixed(_));
    is_pure && data.guard.is_none() && function.defined(inst).next().is_some() && function.operands(inst).iter().all(is_plain)
}

/// Returns whether an operand names a special register that has the same value as long as the thread runs.
fn names_invariant_register(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Name(name) if name.is_invariant_special_register())
}

/// Returns whether an instruction only loads a constant or a constant-bank word into a register.
pub(crate) fn is_constant_load(function: &Function, inst: Inst) -> bool {
    let is_move = matches!(function.insts[inst].op, Op::Machine(Opcode::MOV | Opcode::UMOV | Opcode::LDC));
    is_move && !function.sources(inst).iter().any(|source| source.value().is_some())
}

/// Replaces an instruction by a copy of the results of an earlier one. Results that the
/// replaced instruction discards (`RZ`, `PT`) get no copy.
fn turn_into_copy(function: &mut Function, inst: Inst, earlier: Inst) {
    let pairs: SmallVec<[(Operand, Operand); 3]> = function
        .results(inst)
        .iter()
        .zip(function.results(earlier))
        .filter(|(later, _)| later.value().is_some())
        .map(|(&later, &earlier)| (later, earlier))
        .collect();
    let operands: SmallVec<[Operand; 6]> = pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect();
    function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
    function.insts[inst].memory = None;
    function.insts[inst].may_contract = false;
    function.insts[inst].modifiers = Symbols::new();
    function.set_operands(inst, &operands, pairs.len());
}
