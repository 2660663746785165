//! Loads words of constant memory that a block of a loop reads often into uniform registers.
//!
//! An arithmetic instruction can read one operand from constant memory or from a uniform register. On GPUs whose machine description says
//! so (`constant_operands`), code should use the registers: ptxas' code for Hopper and later GPUs reads constant memory with `LDC` and
//! `ULDC` only, while its code for earlier ones has constant operands everywhere.
//!
//! ```text
//! bb1:  %2 = FMUL %1, c[0x0][0x234]                bb1:  %20:UR = ULDC c[0x0][0x234]
//!       %4 = FMUL %3, c[0x0][0x234]      becomes         %2 = FMUL %1, %20
//!       ...                                              %4 = FMUL %3, %20
//! ```
//!
//! The load is in the same block as the reads, before the first of them, and no barrier is between them. The threads that execute the load
//! are then the threads that execute the reads: uniform registers belong to the warp, and other threads of a diverged warp could overwrite
//! the register while these threads wait.
//!
//! A load must serve [`MIN_READS`] reads, so that it does not cost more than it saves, and only blocks of loops are changed: a block that is
//! executed once gains nothing. Operands of more than one register stay as they are.
//!
//! **Before** and **after**: SSA, all instructions encodable. Linear in the size of the function.

use oriole_hardware::units::Unit;
use oriole_hardware::{Classes, Hardware};
use oriole_ir::analysis::{ControlFlow, Loops};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, RegFile, Role};
use oriole_isa::{Effect, Opcode};
use rustc_hash::FxHashMap;

use crate::legalize::EncodabilityCache;
use crate::rewrite::{Draft, Prelude};

/// Minimum number of reads of a word between two barriers of a block.
const MIN_READS: usize = 8;
/// Maximum number of words in uniform registers between two barriers of a block. Addresses and descriptors need uniform registers, too.
const MAX_WORDS: usize = 8;
/// Register number that stands for a uniform register while the encodability of an instruction is tested.
const EXAMPLE_REGISTER: u16 = 4;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of loads that were inserted.
    pub loads: usize,
    /// Number of operands that now read a uniform register.
    pub reads: usize,
}

/// A word of constant memory, and the instructions of a run that read it as an operand.
struct Word {
    /// The operand, without signs.
    kind: OperandKind,
    /// The reads: each instruction with the position of the operand.
    reads: Vec<(Inst, usize)>,
}

/// Loads constants of the loops of a function into uniform registers.
pub fn run(function: &mut Function, hardware: &Hardware<'_>, encodability: &mut EncodabilityCache) -> Stats {
    let mut stats = Stats::default();
    if hardware.machine.constant_operands != 0 {
        return stats;
    }
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    for block in function.layout.clone() {
        if loops.depth(block) > 0 {
            run_on_block(function, block, encodability, &mut stats);
        }
    }
    stats
}

/// Loads constants of one block into uniform registers.
fn run_on_block(function: &mut Function, block: Block, encodability: &mut EncodabilityCache, stats: &mut Stats) {
    let insts = function.blocks[block].insts.clone();
    let mut loads: FxHashMap<Inst, Vec<Inst>> = FxHashMap::default();
    let parts = insts.split(|&inst| is_barrier(function, inst));
    let words: Vec<Word> = parts.flat_map(|part| words_to_load(function, part, encodability)).collect();
    for word in words {
        let first = word.reads[0].0;
        let mut prelude = Prelude::before(function, first);
        let loaded = prelude.define(function, Class::UR, Opcode::ULDC, &[], &[Operand::new(word.kind)]);
        for &(inst, at) in &word.reads {
            if let Some(opcode) = function.insts[inst].op.machine() {
                let mut draft = Draft::from_inst(function, inst, opcode);
                draft.operands[at].kind = loaded.kind;
                draft.store(function, inst);
            }
        }
        loads.entry(first).or_default().extend(prelude.insts);
        *stats = Stats { loads: stats.loads + 1, reads: stats.reads + word.reads.len() };
    }
    if !loads.is_empty() {
        let with_loads = insts.into_iter().flat_map(|inst| loads.remove(&inst).unwrap_or_default().into_iter().chain([inst]));
        function.blocks[block].insts = with_loads.collect();
    }
}

/// Returns the words that should be loaded for a run of instructions without barriers: the ones that are read most often, in the order of
/// their first reads.
fn words_to_load(function: &Function, part: &[Inst], encodability: &mut EncodabilityCache) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut index_of_word: FxHashMap<(u8, u32), usize> = FxHashMap::default();
    for &inst in part {
        let Some((at, bank, offset)) = constant_operand(function, inst) else { continue };
        if !can_read_uniform(function, inst, at, encodability) {
            continue;
        }
        let place = *index_of_word.entry((bank, offset)).or_insert(words.len());
        if place == words.len() {
            words.push(Word { kind: OperandKind::Constant { bank, offset }, reads: Vec::new() });
        }
        words[place].reads.push((inst, at));
    }
    words.retain(|word| word.reads.len() >= MIN_READS);
    // The sort is stable: of words that are read equally often, the first in the code are taken.
    words.sort_by_key(|word| std::cmp::Reverse(word.reads.len()));
    words.truncate(MAX_WORDS);
    words
}

/// Returns the position, the bank and the offset of the constant operand of an instruction for the integer or the multiply unit; `None` if it
/// has none, or if any of its operands has several registers: then the constant may have as many.
fn constant_operand(function: &Function, inst: Inst) -> Option<(usize, u8, u32)> {
    let data = &function.insts[inst];
    let opcode = data.op.machine()?;
    let unit = Classes::get().of(opcode, &data.modifiers).unit();
    let operands = function.operands(inst);
    let is_word = |operand: &Operand| operand.part().is_none_or(|part| part.count == 1);
    if !matches!(unit, Unit::Alu | Unit::Fma) || !operands.iter().all(is_word) {
        return None;
    }
    operands.iter().enumerate().find_map(|(at, operand)| match operand.kind {
        OperandKind::Constant { bank, offset } if operand.role == Role::Plain && operand.suffixes().next().is_none() => {
            Some((at, bank, offset))
        }
        _ => None,
    })
}

/// Returns whether the target can encode an instruction with operand `at` in a uniform register.
fn can_read_uniform(function: &Function, inst: Inst, at: usize, encodability: &mut EncodabilityCache) -> bool {
    let Some(opcode) = function.insts[inst].op.machine() else { return false };
    let mut draft = Draft::from_inst(function, inst, opcode);
    draft.operands[at].kind = OperandKind::Register { file: RegFile::Uniform, first: EXAMPLE_REGISTER, count: 1 };
    encodability.is_encodable(function, inst, &draft)
}

/// Returns whether the set of active threads may change at an instruction.
fn is_barrier(function: &Function, inst: Inst) -> bool {
    match function.insts[inst].op {
        Op::Machine(Opcode::WARPGROUP) | Op::Pseudo(_) => false,
        Op::Machine(opcode) => matches!(opcode.properties().effect, Effect::Barrier | Effect::Control),
    }
}
