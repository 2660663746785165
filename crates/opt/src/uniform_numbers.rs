//! Keeps double-precision numbers that are read repeatedly in uniform registers.
//!
//! A double has 64 bits, but an immediate operand holds only the upper 32; the lower ones are zero. Other numbers take two moves and a
//! register pair in every thread, and the register allocator repeats the moves where registers are scarce. Double-precision instructions
//! can read one source from uniform registers, of which there is one set for all threads of a warp:
//!
//! ```text
//! bb0:  ...                                    bb0:  %8:UR = UMOV 0x55555554 ; %9:UR = UMOV 0x3fb55555 ; %10:UR2 = PACK %8, %9
//! bb1:  %1:R = MOV 0x55555554                  bb1:  %5:R2 = DFMA %4, %4, %10
//!       %2:R = MOV 0x3fb55555
//!       %3:R2 = PACK %1, %2
//!       %5:R2 = DFMA %4, %4, %3
//! ```
//!
//! The threads of a diverged warp share the uniform registers, so a number must stay in its register until the last thread has read it. The
//! moves are therefore in the first block of a kernel, where the warp is converged, and the pass changes nothing if any other block writes
//! a uniform register: then no later instruction can overwrite a number, whatever path other threads take. Functions that a kernel calls do
//! not write the uniform registers of the kernel.
//!
//! At most [`MAX_UNIFORM_DOUBLES`] doubles are moved: those that are read most often, where a read in a loop counts as several.
//!
//! **Before** and **after**: SSA, all instructions encodable. Where later passes write uniform registers outside the first block, they keep
//! the numbers alive (`converge/shared_uniform.rs`). The cost
//! is linear in the size of the function, except for sorting the numbers.

use oriole_ir::analysis::{ControlFlow, LoopModel, Loops};
use oriole_ir::{Class, Function, FunctionKind, Inst, Op, Operand, OperandKind, RegFile, Role};
use oriole_isa::{Opcode, Pipe};
use rustc_hash::FxHashMap;

use crate::dead;
use crate::definitions::{Definitions, KnownWord};
use crate::legalize::EncodabilityCache;
use crate::rewrite::{InstDraft, InstPrelude, single_register};

/// Maximum number of doubles in uniform registers: about half of the 63 registers, because addresses and descriptors need some too.
const MAX_UNIFORM_DOUBLES: usize = 24;
/// Maximum number of doubles in uniform registers of a kernel that calls functions: the callees do not use 27 of the 63 registers.
const MAX_UNIFORM_DOUBLES_WITH_CALLS: usize = 11;
/// Minimum number of reads of a double that is moved to uniform registers, weighted by the estimated number of executions of each read. A
/// double that is read once gains nothing.
const MIN_WEIGHTED_READS: f64 = 2.0;
/// Register number that is used for uniform registers while the encodability of an instruction is tested.
const EXAMPLE_REGISTER: u16 = 4;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of doubles that were put into uniform registers.
    pub doubles: usize,
    /// Number of operands that now read a double from uniform registers.
    pub reads: usize,
}

/// A double-precision constant, and the operands that read it.
struct RepeatedDouble {
    /// The bits of the double.
    bits: u64,
    /// Estimated total number of executions of the reads.
    executions: f64,
    /// The reads: each instruction, with the number of the operand that is the double.
    reads: Vec<(Inst, usize)>,
}

/// Moves double-precision constants of a kernel to uniform registers, those that are read most often.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    if function.kind != FunctionKind::Kernel || !has_double_insts(function) || !writes_uniform_in_first_block_only(function) {
        return Stats::default();
    }
    let mut numbers = find_repeated_doubles(function, encodability);
    numbers.retain(|number| number.executions >= MIN_WEIGHTED_READS);
    // The sort is stable: of numbers that are read equally often, those that come first in the code are kept.
    numbers.sort_by(|one, other| other.executions.total_cmp(&one.executions));
    numbers.truncate(if has_calls(function) { MAX_UNIFORM_DOUBLES_WITH_CALLS } else { MAX_UNIFORM_DOUBLES });
    let mut stats = Stats::default();
    let mut moves: Vec<Inst> = Vec::new();
    for number in &numbers {
        let Some(first) = function.blocks[function.entry()].insts.iter().copied().find(|&inst| function.insts[inst].op.machine().is_some())
        else {
            break;
        };
        let mut prelude = InstPrelude::before(function, first);
        let words = [number.bits as u32, (number.bits >> 32) as u32];
        let halves = words.map(|word| prelude.emit_definition(function, Class::UR, Opcode::UMOV, &[], &[Operand::from(word)]));
        let pair = prelude.pack(function, RegFile::Uniform, &halves);
        let mut reads = 0;
        for &(inst, at) in &number.reads {
            let Some(opcode) = function.insts[inst].op.machine() else { continue };
            // A previous replacement may have used the only operand of the instruction that can be a uniform register.
            if can_read_uniform(function, inst, opcode, at, encodability) {
                let mut draft = InstDraft::from_inst(function, inst, opcode);
                draft.operands[at].kind = pair.kind;
                draft.overwrite_inst(function, inst);
                reads += 1;
            }
        }
        if reads > 0 {
            moves.extend(prelude.insts);
            stats.doubles += 1;
            stats.reads += reads;
        }
    }
    if stats.doubles > 0 {
        let entry = function.entry();
        let insts = &mut function.blocks[entry].insts;
        let first = insts.iter().position(|&inst| matches!(function.insts[inst].op, Op::Machine(_))).unwrap_or(insts.len());
        insts.splice(first..first, moves);
        dead::run(function, encodability.target());
    }
    stats
}

/// Returns whether a function has double-precision instructions.
fn has_double_insts(function: &Function) -> bool {
    let is_double = |inst: &Inst| function.insts[*inst].op.machine().is_some_and(|opcode| opcode.properties().pipe == Pipe::Double);
    function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(is_double))
}

/// Returns whether a function calls functions that may write uniform registers.
fn has_calls(function: &Function) -> bool {
    let is_call = |inst: &Inst| function.insts[*inst].is_machine(Opcode::CALL) && !function.calls_slow_path(*inst);
    function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(is_call))
}

/// Returns whether only the first block of a function writes uniform registers.
fn writes_uniform_in_first_block_only(function: &Function) -> bool {
    let entry = function.entry();
    let is_uniform = |file: RegFile| matches!(file, RegFile::Uniform | RegFile::UniformPredicate);
    let writes = |inst: Inst| function.defined(inst).any(|value| is_uniform(function.values[value].file));
    function.layout.iter().all(|&block| block == entry || !function.blocks[block].insts.iter().any(|&inst| writes(inst)))
}

/// Returns the double-precision constants that instructions read from general registers and could read from uniform ones, in code order.
fn find_repeated_doubles(function: &Function, encodability: &mut EncodabilityCache) -> Vec<RepeatedDouble> {
    let definitions = Definitions::compute(function);
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let mut doubles: Vec<RepeatedDouble> = Vec::new();
    let mut index_of_bits: FxHashMap<u64, usize> = FxHashMap::default();
    for &block in &function.layout {
        let executions = LoopModel::TEN_ITERATIONS.executions(loops.depth(block));
        for &inst in &function.blocks[block].insts {
            let Some(opcode) = function.insts[inst].op.machine().filter(|opcode| opcode.properties().pipe == Pipe::Double) else {
                continue;
            };
            for at in function.insts[inst].result_count()..function.operands(inst).len() {
                let Some(bits) = known_double(function, &definitions, &function.operands(inst)[at]) else { continue };
                if !can_read_uniform(function, inst, opcode, at, encodability) {
                    continue;
                }
                let place = *index_of_bits.entry(bits).or_insert(doubles.len());
                if place == doubles.len() {
                    doubles.push(RepeatedDouble { bits, executions: 0.0, reads: Vec::new() });
                }
                doubles[place].executions += executions;
                doubles[place].reads.push((inst, at));
            }
        }
    }
    doubles
}

/// Returns the content of an operand that is a pair of general registers, as 64 bits; `None` if the content is not known.
fn known_double(function: &Function, definitions: &Definitions, operand: &Operand) -> Option<u64> {
    let part = operand.part().filter(|part| part.count == 2 && operand.role == Role::Plain && operand.suffixes().next().is_none())?;
    if function.values[part.value].file != RegFile::General {
        return None;
    }
    let word = |number: u8| match definitions.known_content(function, single_register(part, number)) {
        Some(KnownWord::Integer(word)) => Some(u64::from(word)),
        _ => None,
    };
    Some(word(1)? << 32 | word(0)?)
}

/// Returns whether the target can encode an instruction that reads operand number `at` from uniform registers.
fn can_read_uniform(function: &Function, inst: Inst, opcode: Opcode, at: usize, encodability: &mut EncodabilityCache) -> bool {
    let mut draft = InstDraft::from_inst(function, inst, opcode);
    draft.operands[at].kind = OperandKind::Register { file: RegFile::Uniform, first: EXAMPLE_REGISTER, count: 2 };
    encodability.is_encodable(function, inst, &draft)
}
