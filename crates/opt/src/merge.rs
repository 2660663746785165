//! Computes the same thing once: common subexpressions along the dominator tree.
//!
//! Two unguarded instructions without effect, with the same modifiers and sources, have the same results; the later one becomes a
//! copy of the earlier one if that dominates it. Special registers and words of constant banks
//! never change while a thread runs, so reading them counts as such. Bare
//! constants are merged within a block only: they are cheaper to make again than to keep.

use std::hash::{Hash, Hasher};

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Pseudo, Role, Target};
use oriole_isa::{Effect, Opcode, Symbols};
use oriole_support::Index;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::definitions::Definitions;

/// What was merged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Instructions that became copies.
    pub merged: usize,
}

/// Turns repeated computations into copies.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let definitions = Definitions::compute(function);
    let known = FxHashMap::with_capacity_and_hasher(function.inst_count(), FxBuildHasher);
    let mut merger = Merger { definitions, known, stats: Stats::default() };
    for &block in dominators.preorder() {
        merger.block(function, &dominators, block);
    }
    merger.stats
}

struct Merger {
    definitions: Definitions,
    /// By the hash of what it computes, the last instruction of each kind, and its block. One in a block that does not dominate the
    /// current one is replaced, and so is one that only has the same hash.
    known: FxHashMap<u64, (Block, Inst)>,
    stats: Stats,
}

impl Merger {
    fn block(&mut self, function: &mut Function, dominators: &Dominators, block: Block) {
        for at in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[at];
            if !is_pure(function, inst) {
                continue;
            }
            let hash = self.hash_of(function, inst);
            let reaches = |home: Block| home == block || dominators.dominates(home, block) && !is_bare(function, inst);
            let known = self.known.get(&hash).filter(|known| reaches(known.0));
            match known.filter(|known| self.are_same(function, known.1, inst)) {
                Some(&(_, earlier)) => {
                    make_copy(function, inst, earlier);
                    self.stats.merged += 1;
                }
                None => _ = self.known.insert(hash, (block, inst)),
            }
        }
    }

    /// A hash of what makes two instructions the same.
    fn hash_of(&self, function: &Function, inst: Inst) -> u64 {
        let mut hasher = FxHasher::default();
        let data = &function.insts[inst];
        data.op.hash(&mut hasher);
        data.modifiers.hash(&mut hasher);
        for result in function.results(inst) {
            result_class(function, result).hash(&mut hasher);
        }
        for source in function.sources(inst) {
            hash_operand(&self.seen(function, source), &mut hasher);
        }
        hasher.finish()
    }

    /// Whether two instructions, which are pure, compute the same.
    fn are_same(&self, function: &Function, one: Inst, other: Inst) -> bool {
        let (first, second) = (&function.insts[one], &function.insts[other]);
        let (results, sources) = (function.results(one), function.sources(one));
        let (other_results, other_sources) = (function.results(other), function.sources(other));
        first.op == second.op
            && first.modifiers == second.modifiers
            && results.len() == other_results.len()
            && sources.len() == other_sources.len()
            && results.iter().zip(other_results).all(|(a, b)| result_class(function, a) == result_class(function, b))
            && sources.iter().zip(other_sources).all(|(a, b)| self.seen(function, a) == self.seen(function, b))
    }

    /// An operand; copies count as what they copy.
    fn seen(&self, function: &Function, operand: &Operand) -> Operand {
        match operand.kind {
            OperandKind::Value(part) => Operand { kind: OperandKind::Value(self.definitions.origin_of_all(function, part)), ..*operand },
            _ => *operand,
        }
    }
}

/// Hashes an operand in few steps.
fn hash_operand(operand: &Operand, hasher: &mut FxHasher) {
    match operand.kind {
        OperandKind::Value(part) => {
            hasher.write_u64((part.value.position() as u64) << 16 | u64::from(part.first) << 8 | u64::from(part.count));
        }
        other => other.hash(hasher),
    }
    let (role, number) = match operand.role {
        Role::Plain => (0, 0),
        Role::Bracket(number) => (1, number),
        Role::Tied(number) => (2, number),
        Role::Fixed(number) => (3, number),
    };
    let [first, second] = operand.suffixes.map(|suffix| u64::from(suffix.number()));
    hasher.write_u64(role << 40 | u64::from(number) << 32 | first << 16 | second);
    operand.signs.hash(hasher);
}

/// What must agree about results: those that nobody wants stay unwanted.
fn result_class(function: &Function, result: &Operand) -> Option<Class> {
    result.value().map(|value| function.values[value])
}

/// Whether an instruction computes the same from the same sources every time, and nothing else.
fn is_pure(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_pure = match data.op {
        Op::Machine(opcode) => match opcode.properties().effect {
            Effect::None => !function.sources(inst).iter().any(|source| matches!(source.kind, OperandKind::Name(_))),
            Effect::Reads => {
                let is_load = matches!(opcode, Opcode::LDC | Opcode::ULDC | Opcode::LDCU);
                is_load && function.sources(inst).iter().all(|source| matches!(source.kind, OperandKind::Constant { .. }))
            }
            Effect::State => opcode == Opcode::S2R && function.sources(inst).iter().all(is_constant_special),
            _ => false,
        },
        Op::Pseudo(Pseudo::Pack) => true,
        Op::Pseudo(_) => false,
    };
    let is_plain = |operand: &Operand| !matches!(operand.role, Role::Tied(_) | Role::Fixed(_));
    is_pure && data.guard.is_none() && function.defined(inst).next().is_some() && function.operands(inst).iter().all(is_plain)
}

/// Special registers that have one value as long as the thread runs.
fn is_constant_special(operand: &Operand) -> bool {
    let OperandKind::Name(name) = operand.kind else { return false };
    ["SR_TID.", "SR_CTAID.", "SR_NTID", "SR_LANEID", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK", "SR_CgaCtaId"]
        .iter()
        .any(|constant| name.spelling().starts_with(constant))
}

/// Whether an instruction only brings a constant into a register.
fn is_bare(function: &Function, inst: Inst) -> bool {
    let is_move = matches!(function.insts[inst].op, Op::Machine(Opcode::MOV | Opcode::UMOV | Opcode::LDC));
    is_move && !function.sources(inst).iter().any(|source| source.value().is_some())
}

/// Makes an instruction a copy of an earlier one's results.
fn make_copy(function: &mut Function, inst: Inst, earlier: Inst) {
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
    function.insts[inst].modifiers = Symbols::new();
    function.set_operands(inst, &operands, pairs.len());
}
