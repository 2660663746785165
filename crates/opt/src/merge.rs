//! Computes the same thing once: common subexpressions along the dominator tree.
//!
//! Two unguarded instructions without effect, with the same modifiers and sources, have the same results; the later one becomes a
//! copy of the earlier one if that dominates it. Special registers and words of constant banks
//! never change while a thread runs, so reading them counts as such. Bare
//! constants are merged within a block only: they are cheaper to make again than to keep.

use std::hash::BuildHasher;

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Pseudo, Role, Target};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::definitions::Definitions;

/// What was merged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Instructions that became copies.
    pub merged: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    op: Op,
    modifiers: Symbols,
    sources: SmallVec<[Operand; 6]>,
    results: SmallVec<[OperandKey; 3]>,
}

/// What must agree about results: those that nobody wants stay unwanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum OperandKey {
    Wanted(oriole_ir::Class),
    Unwanted,
}

/// Turns repeated computations into copies.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let definitions = Definitions::compute(function);
    let mut merger = Merger { definitions, known: FxHashMap::default(), stats: Stats::default() };
    for &block in dominators.preorder() {
        merger.block(function, &dominators, block);
    }
    merger.stats
}

struct Merger {
    definitions: Definitions,
    /// By the hash of its key, the last instruction of each kind, and its block. One in a block that does not dominate the current
    /// one is replaced, and so is one that only has the same hash. Keys themselves are large; they are made again when needed.
    known: FxHashMap<u64, (Block, Inst)>,
    stats: Stats,
}

impl Merger {
    fn block(&mut self, function: &mut Function, dominators: &Dominators, block: Block) {
        for at in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[at];
            let Some(key) = self.key_of(function, inst) else { continue };
            let hash = FxBuildHasher.hash_one(&key);
            let reaches = |home: Block| home == block || dominators.dominates(home, block) && !is_bare(function, inst);
            let known = self.known.get(&hash).filter(|known| reaches(known.0));
            match known.filter(|known| self.key_of(function, known.1).is_some_and(|other| other == key)) {
                Some(&(_, earlier)) => {
                    make_copy(function, inst, earlier);
                    self.stats.merged += 1;
                }
                None => _ = self.known.insert(hash, (block, inst)),
            }
        }
    }

    /// What makes two instructions the same; copies count as what they copy.
    fn key_of(&self, function: &Function, inst: Inst) -> Option<Key> {
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
        let has_results = function.defined(inst).next().is_some();
        let is_plain = |operand: &Operand| !matches!(operand.role, Role::Tied(_) | Role::Fixed(_));
        if !is_pure || data.guard.is_some() || !has_results || !function.operands(inst).iter().all(is_plain) {
            return None;
        }
        let result = |operand: &Operand| operand.value().map_or(OperandKey::Unwanted, |value| OperandKey::Wanted(function.values[value]));
        let seen = |operand: &Operand| match operand.kind {
            OperandKind::Value(part) => Operand { kind: OperandKind::Value(self.definitions.origin_of_all(function, part)), ..*operand },
            _ => *operand,
        };
        Some(Key {
            op: data.op,
            modifiers: data.modifiers.clone(),
            sources: function.sources(inst).iter().map(seen).collect(),
            results: function.results(inst).iter().map(result).collect(),
        })
    }
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
