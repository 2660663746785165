//! Loads the constants of a loop once, before the loop.
//!
//! An instruction has one operand for an immediate or a word of constant memory. Where it reads two of them, one is moved to a register
//! first. Instruction selection and the passes after it put that move next to the instruction, so that later passes can fold it, and
//! unrolling copies it. A move that remains when all folding is done costs an issue slot in each iteration:
//!
//! ```text
//! bb0:  @%p BRA bb1                                       bb0:  %1 = MOV 0x4
//! bb1:  %1 = MOV 0x4                                            @%p BRA bb1
//!       %2 = IMAD.WIDE.U32 %i, %1, c[0x0][0x220]          bb1:  %2 = IMAD.WIDE.U32 %i, %1, c[0x0][0x220]
//!       ...                                     becomes         ...
//!       %5 = MOV 0x4                                            %6 = IMAD.WIDE.U32 %j, %1, c[0x0][0x220]
//!       %6 = IMAD.WIDE.U32 %j, %5, c[0x0][0x220]                @%q BRA bb1
//!       @%q BRA bb1
//! ```
//!
//! The moves of one constant become one move, in the nearest block that dominates the loop, is outside of it, and is in no other loop
//! unless that loop contains this one. Moving it there is correct even if the loop is not entered: a move has no side effects.
//!
//! The constant occupies a register during the whole loop, so it must save enough moves ([`MAX_LOOP_INSTS_PER_SAVED_MOVE`]), and the number
//! of constants is limited ([`MAX_CONSTANTS_PER_LOOP`]); the register allocator repeats the move where registers are scarce. The move of a
//! constant that is an element of a tuple, a source of a phi or the old content of a result stays in the loop: its register is overwritten
//! in each iteration, so a copy would have to replace the move.
//!
//! Inner loops come first. A move that was moved out of an inner loop may then be moved out of the loop around it.
//!
//! **Before** and **after**: SSA, all instructions encodable. Linear in the size of the function times the depth of its loops.

use std::cmp::Reverse;

use oriole_ir::analysis::{Dominators, LoopId, Loops};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Role, Target, Value};
use oriole_isa::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::loop_analyses::LoopAnalyses;
use crate::rewrite::replace_uses;

/// Maximum number of constants to load before one loop.
const MAX_CONSTANTS_PER_LOOP: usize = 8;

/// Maximum number of instructions that a loop may have for each move saved by keeping a constant in a register. In a longer loop, less than
/// about one percent of the instructions is saved, which is not worth a register.
const MAX_LOOP_INSTS_PER_SAVED_MOVE: usize = 100;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of moves that were removed from loops.
    pub moves: usize,
}

/// A constant that instructions of a loop load into registers.
struct LoopConstant {
    /// The bits of the constant.
    bits: u32,
    /// The instructions in the loop that move the constant to a register, each with its result.
    moves: Vec<(Inst, Value)>,
}

/// Moves the loads of constants out of the loops of a function, and merges those of equal constants.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let mut stats = Stats::default();
    let Some(LoopAnalyses { loops, dominators, .. }) = LoopAnalyses::compute(function) else { return stats };
    let fixed = values_kept_in_loops(function);
    // For each block before a loop and each constant, the result of the move that was moved to this block.
    let mut moved: FxHashMap<(Block, u32), Value> = FxHashMap::default();
    // Maps each result of a deleted move to the value that replaces it, which may be replaced itself.
    let mut replaced: FxHashMap<Value, Value> = FxHashMap::default();
    for id in loops.iter().rev().filter(|&id| !loops.get(id).is_irreducible) {
        let Some(before) = nearest_block_before_loop(&dominators, &loops, id) else { continue };
        let mut removed: FxHashSet<Inst> = FxHashSet::default();
        for constant in constants_to_move(function, &loops, id, &fixed) {
            removed.extend(constant.moves.iter().map(|&(inst, _)| inst));
            let (inst, value) = constant.moves[0];
            let kept = *moved.entry((before, constant.bits)).or_insert_with(|| {
                let at = function.blocks[before].insts.len() - function.terminators(before).len();
                function.blocks[before].insts.insert(at, inst);
                value
            });
            replaced.extend(constant.moves.iter().filter(|&&(_, value)| value != kept).map(|&(_, value)| (value, kept)));
        }
        stats.moves += removed.len();
        if !removed.is_empty() {
            for &block in loops.blocks(id) {
                function.blocks[block].insts.retain(|inst| !removed.contains(inst));
            }
        }
    }
    let final_value = |mut value: Value| {
        while let Some(&next) = replaced.get(&value) {
            value = next;
        }
        value
    };
    let replacements = replaced.keys().map(|&value| (value, Operand::from(function.whole(final_value(value))))).collect();
    replace_uses(function, &replacements);
    stats
}

/// Returns the nearest block that dominates a loop, is outside of it, and is in no other loop unless that loop contains this one.
fn nearest_block_before_loop(dominators: &Dominators, loops: &Loops, id: LoopId) -> Option<Block> {
    let header = loops.get(id).header;
    let is_outside = |block: Block| !loops.contains(id, block) && loops.innermost(block).is_none_or(|other| loops.contains(other, header));
    let mut block = dominators.immediate(header)?;
    while !is_outside(block) {
        block = dominators.immediate(block)?;
    }
    Some(block)
}

/// Returns the values whose moves must stay in the loop: those that a phi, a pack or another pseudo-instruction reads, and those whose
/// register an instruction overwrites.
fn values_kept_in_loops(function: &Function) -> FxHashSet<Value> {
    let mut fixed = FxHashSet::default();
    for inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        let is_machine = matches!(function.insts[*inst].op, Op::Machine(_));
        let shares = |operand: &&Operand| !is_machine || !matches!(operand.role, Role::Plain | Role::Bracket(_));
        fixed.extend(function.sources(*inst).iter().filter(shares).filter_map(Operand::value));
    }
    fixed
}

/// Returns the constants of a loop that are worth moving out of it, those with the most moves first. The moves of the values in `fixed` are
/// ignored.
fn constants_to_move(function: &Function, loops: &Loops, id: LoopId, fixed: &FxHashSet<Value>) -> Vec<LoopConstant> {
    let mut found: Vec<LoopConstant> = Vec::new();
    let mut places: FxHashMap<u32, usize> = FxHashMap::default();
    let mut instructions = 0;
    for &block in loops.blocks(id) {
        instructions += function.blocks[block].insts.len();
        for &inst in &function.blocks[block].insts {
            let Some((bits, value)) = constant_moved_by(function, inst).filter(|(_, value)| !fixed.contains(value)) else { continue };
            let place = *places.entry(bits).or_insert(found.len());
            if place == found.len() {
                found.push(LoopConstant { bits, moves: Vec::new() });
            }
            found[place].moves.push((inst, value));
        }
    }
    found.retain(|constant| constant.moves.len() * MAX_LOOP_INSTS_PER_SAVED_MOVE >= instructions);
    // The sort is stable: of constants with equally many moves, those that come first in the code are kept.
    found.sort_by_key(|constant| Reverse(constant.moves.len()));
    found.truncate(MAX_CONSTANTS_PER_LOOP);
    found
}

/// If an unguarded instruction moves a constant to a general register, returns the constant and the result; otherwise `None`.
fn constant_moved_by(function: &Function, inst: Inst) -> Option<(u32, Value)> {
    let data = &function.insts[inst];
    let ([result], [source]) = (function.results(inst), function.sources(inst)) else { return None };
    let value = result.value().filter(|&value| function.values[value] == Class::R)?;
    match source.kind {
        OperandKind::Integer(bits) if data.is_machine(Opcode::MOV) && data.guard.is_none() => Some((bits as u32, value)),
        _ => None,
    }
}
