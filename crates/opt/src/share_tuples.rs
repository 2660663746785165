//! Makes a tuple of registers the first part of a longer tuple that starts with the same elements.
//!
//! Texture and surface instructions read their coordinates from consecutive registers. Accesses to images of different dimensions often
//! start with the same coordinates. As separate tuples they are in different registers, and all but one of them need copies:
//!
//! ```text
//! %3:R2 = PACK %1, %2                  %4:R3 = PACK %1, %2, %0
//! ... SULD.2D ... [%3]       becomes   ... SULD.2D ... [%4[0:2]]
//! %4:R3 = PACK %1, %2, %0              ... SULD.3D ... [%4]
//! ... SULD.3D ... [%4]
//! ```
//!
//! Both packs are in one block. A longer pack that follows is moved before the shorter one, if its other elements are computed before that
//! point; moves of constants among them are moved with it. The longer tuple must have at least the alignment of the shorter one. Only
//! texture and surface instructions may read the tuples: they do not write over their operands, as matrix products do over their
//! accumulators.
//!
//! **Before** and **after**: SSA, all instructions encodable. The cost is linear in the size of the function.

use oriole_ir::analysis::DefUse;
use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Target};
use oriole_isa::{Opcode, Pipe, RegFile};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{dead, forward};

/// Maximum number of registers of a tuple that the pass considers; longer tuples are matrices, not coordinates.
const MAX_TUPLE_REGISTERS: usize = 4;

/// The elements of a tuple, in register order.
type TupleElements = SmallVec<[OperandKind; MAX_TUPLE_REGISTERS]>;

/// Where a tuple of coordinates is the start of a longer tuple, makes the instructions read the registers of the longer one instead.
/// Returns the number of tuples replaced.
pub fn run(function: &mut Function, target: Target) -> usize {
    let is_fetch = |inst: Inst| function.insts[inst].op.machine().is_some_and(|opcode| opcode.properties().pipe == Pipe::Tex);
    let has_fetch = |block: &&Block| function.blocks[**block].insts.iter().any(|&inst| is_fetch(inst));
    let blocks: Vec<Block> = function.layout.iter().filter(has_fetch).copied().collect();
    if blocks.is_empty() {
        return 0;
    }
    let def_use = DefUse::compute(function);
    let shared = blocks.into_iter().map(|block| share_tuples_in_block(function, &def_use, block)).sum();
    if shared > 0 {
        forward::run(function, target);
        dead::run(function, target);
    }
    shared
}

/// Replaces tuples of a block by the first registers of longer tuples of the block. Returns the number of tuples replaced.
fn share_tuples_in_block(function: &mut Function, def_use: &DefUse, block: Block) -> usize {
    // Maps the first elements of each tuple (two or more, but not all) to the first pack of the block that starts with these elements.
    let mut longer: FxHashMap<TupleElements, Inst> = FxHashMap::default();
    let mut positions: FxHashMap<Inst, usize> = FxHashMap::default();
    for (position_in_block, &inst) in function.blocks[block].insts.iter().enumerate() {
        positions.insert(inst, position_in_block);
        let Some(elements) = shareable_tuple_elements(function, def_use, inst) else { continue };
        for width in 2..elements.len() {
            longer.entry(TupleElements::from_slice(&elements[..width])).or_insert(inst);
        }
    }
    if longer.is_empty() {
        return 0;
    }
    let definitions = definitions_in_block(function, block);
    let mut moved_before: FxHashMap<Inst, Vec<Inst>> = FxHashMap::default();
    let mut moved_to: FxHashMap<Inst, usize> = FxHashMap::default();
    let mut shared = 0;
    for (position_in_block, inst) in function.blocks[block].insts.clone().into_iter().enumerate() {
        let Some(elements) = shareable_tuple_elements(function, def_use, inst) else { continue };
        let Some(&long) = longer.get(&elements).filter(|&&long| is_aligned_at_least_as(function, long, inst)) else { continue };
        if moved_to.get(&long).copied().unwrap_or(positions[&long]) > position_in_block {
            let Some(moved) = insts_to_move_for_pack(function, &definitions, &positions, &moved_to, long, position_in_block) else {
                continue;
            };
            moved.iter().for_each(|&moved| _ = moved_to.insert(moved, position_in_block));
            moved_before.entry(inst).or_default().extend(moved);
        }
        let Some(tuple) = function.results(long)[0].value() else { continue };
        let part = Part { value: tuple, first: 0, count: elements.len() as u8 };
        let operands = [function.results(inst)[0], Operand::from(part)];
        function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
        function.set_operands(inst, &operands, 1);
        shared += 1;
    }
    if !moved_to.is_empty() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            kept.extend(moved_before.remove(&inst).unwrap_or_default());
            if !moved_to.contains_key(&inst) {
                kept.push(inst);
            }
        }
        function.blocks[block].insts = kept;
    }
    shared
}

/// Returns the elements of an unguarded pack of two to four general registers that only texture and surface instructions read; `None` for
/// other instructions.
fn shareable_tuple_elements(function: &Function, def_use: &DefUse, inst: Inst) -> Option<TupleElements> {
    let data = &function.insts[inst];
    if !data.is(Pseudo::Pack) || data.guard.is_some() || function.sources(inst).len() > MAX_TUPLE_REGISTERS {
        return None;
    }
    let value = function.results(inst)[0].value()?;
    let class = function.values[value];
    let is_fetch = |reader: Inst| function.insts[reader].op.machine().is_some_and(|opcode| opcode.properties().pipe == Pipe::Tex);
    if !def_use.uses(value).iter().all(|used| is_fetch(used.inst)) {
        return None;
    }
    let is_word = |source: &Operand| source.signs.is_empty() && source.part().is_none_or(|part| part.count == 1);
    let is_tuple = class.file == RegFile::General && usize::from(class.width) == function.sources(inst).len();
    (is_tuple && function.sources(inst).iter().all(is_word)).then(|| function.sources(inst).iter().map(|source| source.kind).collect())
}

/// Returns whether the result of `long` has at least the register alignment that the result of `short` needs.
fn is_aligned_at_least_as(function: &Function, long: Inst, short: Inst) -> bool {
    let align = |inst: Inst| function.results(inst)[0].value().map(|value| function.values[value].align);
    matches!((align(long), align(short)), (Some(long), Some(short)) if long % short == 0)
}

/// Returns, for each value that is defined in a block, the instruction that defines it.
fn definitions_in_block(function: &Function, block: Block) -> FxHashMap<oriole_ir::Value, Inst> {
    let insts = &function.blocks[block].insts;
    insts.iter().flat_map(|&inst| function.defined(inst).map(move |value| (value, inst)).collect::<SmallVec<[_; 4]>>()).collect()
}

/// Returns the instructions to move so that `pack` can be executed at `position_in_block`: the moves of constants that the pack reads, then
/// the pack. `None` if the pack reads another value that is computed after that position.
fn insts_to_move_for_pack(
    function: &Function,
    definitions: &FxHashMap<oriole_ir::Value, Inst>,
    positions: &FxHashMap<Inst, usize>,
    moved_to: &FxHashMap<Inst, usize>,
    pack: Inst,
    position_in_block: usize,
) -> Option<SmallVec<[Inst; 4]>> {
    let mut moved: SmallVec<[Inst; 4]> = SmallVec::new();
    for source in function.sources(pack) {
        let Some(&definition) = source.value().and_then(|value| definitions.get(&value)) else { continue };
        if moved_to.get(&definition).copied().unwrap_or(positions[&definition]) < position_in_block || moved.contains(&definition) {
            continue;
        }
        let data = &function.insts[definition];
        let is_constant = data.is_machine(Opcode::MOV) && data.guard.is_none() && function.used(definition).next().is_none();
        if !is_constant {
            return None;
        }
        moved.push(definition);
    }
    moved.push(pack);
    Some(moved)
}
