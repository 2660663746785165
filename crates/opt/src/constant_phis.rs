//! Makes constants the sources of phis, instead of registers that hold them.
//!
//! The accumulators of a loop start at zero. As values, all of them are the same zero, in one register, and each phi needs a copy of it
//! before the loop. Coalescing can give at most one of the phis the register of the zero, and that is often not the register in which the
//! tuples of the loop need the phi. A constant as the source of the phi needs no register before the edge, and the register allocator
//! writes it into the register of the phi, two zeros at a time.
//!
//! ```text
//! bb0:  %1 = MOV 0x0                          bb0:  BRA bb1
//!       BRA bb1
//! bb1:  %2 = PHI %1, bb0, %8, bb1   becomes   bb1:  %2 = PHI 0x0, bb0, %8, bb1
//!       %3 = PHI %1, bb0, %9, bb1                   %3 = PHI 0x0, bb0, %9, bb1
//! ```
//!
//! A source is replaced where copies are needed anyway: if the predecessor has no other successor, or if several phis of the block have
//! this source, or if the constant occupies many registers. Otherwise the constant may already be in the register of the phi, and the path
//! to the other successor would also execute the move.
//!
//! The packs of texture and surface instructions get constants as sources too, if two or more elements of such tuples, and nothing else,
//! read the register of a constant: that register could be part of only one tuple, and every other tuple would need a copy of it. Words of
//! constant banks count as constants here. Other instructions can often read a constant without a tuple.
//!
//! A guarded instruction whose result is a constant where the guard is false overwrites the register of the constant. If the constant has
//! other readers, its register has to be copied first. If it was loaded in an earlier block, it occupies a register from there on. In both
//! cases the constant is loaded again right before the instruction instead:
//!
//! ```text
//! bb0:  %1 = MOV 0x0                                        bb0:  @%0 BRA bb2 ; BRA bb1
//!       @%0 BRA bb2 ; BRA bb1                               bb1:  %5 = MOV 0x0
//! bb1:  @%2 %3 = LDS [%8+0x0], (else %1)          becomes         @%2 %3 = LDS [%8+0x0], (else %5)
//!       @%2 %4 = LDS [%8+0x4], (else %1)                          %6 = MOV 0x0
//!                                                                 @%2 %4 = LDS [%8+0x4], (else %6)
//! ```
//!
//! **Before** and **after**: SSA, all instructions encodable. Moves and packs that only the replaced sources read are deleted. The cost is
//! linear in the size of the function.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Target, Value};
use oriole_isa::{Opcode, Pipe, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};

/// Minimum number of registers of a phi whose constant sources are always replaced, even if only this phi reads the registers of the
/// constant.
const MIN_WIDE_PHI_REGISTERS: u8 = 4;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of sources of phis and packs that became constants, plus the number of constants that are loaded again for guarded
    /// instructions.
    pub sources: usize,
    /// Number of moves and packs that were deleted.
    pub removed: usize,
}

/// In phis and packs, replaces registers that hold constants by the constants themselves. Also loads constants again for guarded
/// instructions that are tied to them.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let definitions = Definitions::compute(function);
    let mut stats = Stats { sources: replace_constant_pack_sources(function, &definitions), removed: 0 };
    let flow = ControlFlow::compute(function);
    for block in function.layout.clone() {
        let phis = function.phis(block).to_vec();
        let readers = count_phis_by_source(function, &phis);
        for phi in phis {
            let is_wide = function.operands(phi)[0].part().is_some_and(|part| part.count >= MIN_WIDE_PHI_REGISTERS);
            stats.sources += replace_constant_phi_sources(function, &definitions, phi, |value, from| {
                is_wide || flow.successors(from).len() == 1 || readers.get(&(value, from)).is_some_and(|&count| count > 1)
            });
        }
    }
    stats.sources += reload_tied_constants(function, &definitions);
    if stats.sources > 0 {
        stats.removed = remove_unread_moves_and_packs(function);
    }
    stats
}

/// In packs for texture and surface instructions, replaces the register of a constant by the constant, if at least two sources of such
/// packs, and no other instructions, read that register. Returns the number of replaced sources.
fn replace_constant_pack_sources(function: &mut Function, definitions: &Definitions) -> usize {
    let insts = || function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied());
    let is_fetch = |inst: Inst| function.insts[inst].op.machine().is_some_and(|opcode| opcode.properties().pipe == Pipe::Tex);
    if !insts().any(is_fetch) {
        return 0;
    }
    let [mut reads, mut fetch_reads, mut pack_reads] = [(); 3].map(|()| vec![0_u32; function.values.len()]);
    for inst in insts() {
        for_each_read_value(function, inst, |value| reads[value.position()] += 1);
        if is_fetch(inst) {
            for_each_read_value(function, inst, |value| fetch_reads[value.position()] += 1);
        }
    }
    let only_fetches_read = |value: Value| fetch_reads[value.position()] == reads[value.position()];
    let is_candidate = |&inst: &Inst| function.insts[inst].is(Pseudo::Pack) && function.defined(inst).all(only_fetches_read);
    let packs: Vec<Inst> = insts().filter(is_candidate).collect();
    for &pack in &packs {
        for_each_read_value(function, pack, |value| pack_reads[value.position()] += 1);
    }
    let mut replaced = 0;
    for pack in packs {
        for number in 0..function.sources(pack).len() {
            let source = function.sources(pack)[number];
            let Some(part) = source.part().filter(|part| part.count == 1 && source.signs.is_empty()) else { continue };
            let at = part.value.position();
            let is_shared = pack_reads[at] >= 2 && pack_reads[at] == reads[at];
            let is_general = function.values[part.value].file == RegFile::General && function.values[part.value].width == 1;
            if !is_shared || !is_general {
                continue;
            }
            let kind = match definitions.known_content(function, part) {
                Some(KnownWord::Integer(word)) => OperandKind::Integer(word.into()),
                Some(KnownWord::Constant { bank, offset }) => OperandKind::Constant { bank, offset },
                None => continue,
            };
            function.sources_mut(pack)[number] = Operand { kind, ..source };
            replaced += 1;
        }
    }
    replaced
}

/// Where the result of a guarded instruction is a constant if the guard is false, loads that constant into a new register right before the
/// instruction, if its present register has other readers or was written in another block. Returns the number of constants loaded.
fn reload_tied_constants(function: &mut Function, definitions: &Definitions) -> usize {
    let is_tied = |operand: &Operand| matches!(operand.role, Role::Tied(_));
    let has_ties = |&inst: &Inst| function.sources(inst).iter().any(is_tied);
    let mut reads = vec![0_u32; function.values.len()];
    let mut defining_blocks: Vec<Option<Block>> = vec![None; function.values.len()];
    let mut tied: Vec<(Block, Inst)> = Vec::new();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for_each_read_value(function, inst, |value| reads[value.position()] += 1);
            function.defined(inst).for_each(|value| defining_blocks[value.position()] = Some(block));
        }
        tied.extend(function.blocks[block].insts.iter().copied().filter(has_ties).map(|inst| (block, inst)));
    }
    let mut loads: FxHashMap<Inst, SmallVec<[Inst; 2]>> = FxHashMap::default();
    for &(block, inst) in &tied {
        for number in 0..function.sources(inst).len() {
            let source = function.sources(inst)[number];
            let Some(part) =
                source.part().filter(|part| is_tied(&source) && source.signs.is_empty() && *part == function.whole(part.value))
            else {
                continue;
            };
            let is_word = function.values[part.value].file == RegFile::General && function.values[part.value].width == 1;
            let is_shared = reads[part.value.position()] > 1 || defining_blocks[part.value.position()] != Some(block);
            if !is_word || !is_shared {
                continue;
            }
            let Some(KnownWord::Integer(word)) = definitions.known_content(function, part) else { continue };
            let value = function.new_value(function.values[part.value]);
            let result = Operand::from(function.whole(value));
            let load = function.new_inst(Op::Machine(Opcode::MOV), Symbols::new(), None, &[result, word.into()], 1);
            function.insts[load].location = function.insts[inst].location;
            function.sources_mut(inst)[number] = Operand { kind: result.kind, ..source };
            loads.entry(inst).or_default().push(load);
        }
    }
    if loads.is_empty() {
        return 0;
    }
    for block in tied.iter().map(|&(block, _)| block).collect::<std::collections::BTreeSet<Block>>() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let with_loads = |inst: Inst| loads.get(&inst).into_iter().flatten().copied().chain([inst]);
        function.blocks[block].insts = insts.into_iter().flat_map(with_loads).collect();
    }
    loads.values().map(SmallVec::len).sum()
}

/// Returns, for each value and predecessor block, how many of `phis` have the value as their source for this predecessor.
fn count_phis_by_source(function: &Function, phis: &[Inst]) -> FxHashMap<(Value, Block), u32> {
    let mut readers = FxHashMap::default();
    for &phi in phis {
        for pair in function.sources(phi).chunks_exact(2) {
            if let (Some(value), OperandKind::Block(from)) = (pair[0].value(), pair[1].kind) {
                *readers.entry((value, from)).or_insert(0) += 1;
            }
        }
    }
    readers
}

/// Replaces each source of a phi that is the register of a constant by the constant, if `may_replace` returns true for the source and its
/// predecessor block. Returns the number of replaced sources.
fn replace_constant_phi_sources(
    function: &mut Function,
    definitions: &Definitions,
    phi: Inst,
    may_replace: impl Fn(Value, Block) -> bool,
) -> usize {
    let mut replaced = 0;
    for number in 0..function.sources(phi).len() / 2 {
        let [source, from] = [function.sources(phi)[2 * number], function.sources(phi)[2 * number + 1]];
        let (OperandKind::Value(part), OperandKind::Block(from)) = (source.kind, from.kind) else { continue };
        if function.values[part.value].file != RegFile::General || !source.signs.is_empty() || !may_replace(part.value, from) {
            continue;
        }
        if let Some(bits) = known_bits_of_registers(function, definitions, part) {
            function.sources_mut(phi)[2 * number] = Operand { kind: OperandKind::Integer(bits), ..source };
            replaced += 1;
        }
    }
    replaced
}

/// Returns the known content of consecutive registers as a 64-bit integer, the first register in the lower half. `None` if the content is
/// not known, or if a register after the first two is not zero.
fn known_bits_of_registers(function: &Function, definitions: &Definitions, part: Part) -> Option<i64> {
    let mut bits = 0;
    for number in 0..part.count {
        let register = Part { value: part.value, first: part.first + number, count: 1 };
        let Some(KnownWord::Integer(word)) = definitions.known_content(function, register) else { return None };
        match number {
            0 | 1 => bits |= u64::from(word) << (32 * number),
            _ if word != 0 => return None,
            _ => {}
        }
    }
    Some(bits as i64)
}

/// Deletes moves, copies and packs of general registers that no instruction reads, and then those that only deleted ones read. Returns the
/// number of deleted instructions.
fn remove_unread_moves_and_packs(function: &mut Function) -> usize {
    let mut reads = vec![0_u32; function.values.len()];
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for_each_read_value(function, inst, |value| reads[value.position()] += 1);
        }
    }
    let mut removed = 0;
    // Walks backward, so that a pack is seen before the moves that define its elements.
    for block in function.layout.clone().into_iter().rev() {
        let mut kept = Vec::with_capacity(function.blocks[block].insts.len());
        for inst in std::mem::take(&mut function.blocks[block].insts).into_iter().rev() {
            if is_unread_copy(function, inst, &reads) {
                for_each_read_value(function, inst, |value| reads[value.position()] -= 1);
                removed += 1;
            } else {
                kept.push(inst);
            }
        }
        kept.reverse();
        function.blocks[block].insts = kept;
    }
    removed
}

/// Calls `visit` with each value that an instruction reads, its guard included, once for each operand.
fn for_each_read_value(function: &Function, inst: Inst, mut visit: impl FnMut(Value)) {
    function.sources(inst).iter().filter_map(Operand::value).for_each(&mut visit);
    if let Some(guard) = &function.insts[inst].guard
        && let OperandKind::Value(part) = guard.kind
    {
        visit(part.value);
    }
}

/// Returns whether an instruction is a move, copy or pack whose results are general registers that nothing reads.
fn is_unread_copy(function: &Function, inst: Inst, reads: &[u32]) -> bool {
    let is_copy = matches!(function.insts[inst].op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack) | Op::Machine(Opcode::MOV));
    let is_unread = |result: &Operand| {
        result.value().is_some_and(|value| function.values[value].file == RegFile::General && reads[value.position()] == 0)
    };
    is_copy && !function.results(inst).is_empty() && function.results(inst).iter().all(is_unread)
}
