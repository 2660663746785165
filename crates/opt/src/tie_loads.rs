//! Ties the result of a guarded instruction, a tuple, to the old values of its registers, so that no guarded copies are needed.
//!
//! A guarded vector load in PTX assigns one register for each element. Instruction selection loads into a new tuple and copies each element
//! under the same guard. If every register of the tuple is only copied in this way, the tuple may start with the old values and the copies
//! need no guard:
//!
//! ```text
//! @%p %t:R2 = LDG.E.64 [%a]                            %o:R2 = PACK RZ, %b
//! @%p %x = COPY %t[0], (else %z)            becomes    @%p %t:R2 = LDG.E.64 [%a], (else %o)
//! @%p %y = COPY %t[1], (else %b)                       %x = COPY %t[0]
//!                                                      %y = COPY %t[1]
//! ```
//!
//! Here `%z` is known to be zero. Two neighbouring zeros are written by one `CS2R`. Two moves for each register (one of them guarded)
//! become at most one. Copy propagation then redirects the readers of the copies to the tuple.
//!
//! **Before** and **after**: SSA. The cost is linear in the size of the function.

use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Pseudo, Role};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::legalize::EncodabilityCache;
use crate::rewrite::{InstDraft, InstPrelude};

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of guarded instructions whose result, a tuple, was tied to the old values.
    pub tied: usize,
}

/// In a whole function: if the result of a guarded instruction is a tuple, ties it to the old values of its registers.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    let mut stats = Stats::default();
    let is_candidate = |function: &Function, inst: Inst| untied_tuple_result(function, inst).is_some();
    let has_candidate = |&block: &Block| function.blocks[block].insts.iter().any(|&inst| is_candidate(function, inst));
    if !function.layout.iter().any(has_candidate) {
        return stats;
    }
    let definitions = Definitions::compute(function);
    let readers = TupleReaders::find(function);
    for block in function.layout.clone() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            if let Some(copies) = copies_to_tie(function, &definitions, &readers, inst) {
                tie_to_old_values(function, &definitions, encodability, inst, &copies, &mut kept).then(|| stats.tied += 1);
            }
            kept.push(inst);
        }
        function.blocks[block].insts = kept;
    }
    stats
}

/// The instructions that read each tuple, and the position of each instruction.
struct TupleReaders {
    /// For each value of more than one register, the instructions that read it; empty for other values.
    by_value: Vec<SmallVec<[Inst; 4]>>,
    /// For each instruction, its block and its index in the block; `None` if it is in no block.
    positions: Vec<Option<(Block, usize)>>,
}

impl TupleReaders {
    /// Collects the instructions that read tuples, and the positions of all instructions.
    fn find(function: &Function) -> TupleReaders {
        let mut by_value = vec![SmallVec::new(); function.values.len()];
        let mut positions = vec![None; function.insts.len()];
        for &block in &function.layout {
            for (number, &inst) in function.blocks[block].insts.iter().enumerate() {
                positions[inst.position()] = Some((block, number));
                for part in function.used(inst) {
                    if function.values[part.value].width > 1 {
                        by_value[part.value.position()].push(inst);
                    }
                }
            }
        }
        TupleReaders { by_value, positions }
    }
}

/// Returns the only result of a guarded machine instruction if it is a tuple of general registers that is not tied yet; otherwise `None`.
fn untied_tuple_result(function: &Function, inst: Inst) -> Option<oriole_ir::Value> {
    let data = &function.insts[inst];
    if data.guard.is_none() || data.op.machine().is_none() {
        return None;
    }
    let [result] = function.results(inst) else { return None };
    let value = result.value().filter(|_| result.role == Role::Plain)?;
    let class = function.values[value];
    let is_free = class.file == RegFile::General && class.width > 1 && function.tied_to(inst, 0).is_none();
    is_free.then_some(value)
}

/// Returns the guarded copies of the registers of a guarded instruction's result, one for each register, in order; `None` if other
/// instructions read the result, if a copy is in another block, or if an old value is computed only after the instruction.
fn copies_to_tie(function: &Function, definitions: &Definitions, readers: &TupleReaders, inst: Inst) -> Option<SmallVec<[Inst; 4]>> {
    let value = untied_tuple_result(function, inst)?;
    let width = usize::from(function.values[value].width);
    let value_readers = &readers.by_value[value.position()];
    if value_readers.len() != width {
        return None;
    }
    let (block, number) = readers.positions[inst.position()]?;
    let mut copies: SmallVec<[Option<Inst>; 4]> = SmallVec::from_elem(None, width);
    for &copy in value_readers {
        let data = &function.insts[copy];
        let [_, source, old] = function.operands(copy) else { return None };
        let part = source.part().filter(|part| part.value == value && part.count == 1)?;
        let is_copy = data.is(Pseudo::Copy) && data.guard == function.insts[inst].guard && old.role == Role::Tied(0);
        let is_near = readers.positions[copy.position()].is_some_and(|place| place.0 == block);
        let old_place =
            old.value().and_then(|value| definitions.definition_of(value)).and_then(|definition| readers.positions[definition.position()]);
        let is_early = old.value().is_none() || old_place.is_some_and(|(at, before)| at != block || before < number);
        let slot = copies.get_mut(usize::from(part.first)).filter(|slot| slot.is_none())?;
        *slot = Some(copy).filter(|_| is_copy && is_near && is_early);
        (*slot)?;
    }
    copies.into_iter().collect()
}

/// Appends a pack of the old values to `kept`, ties the result of `inst` to the packed tuple, and removes the guards of the copies. Returns
/// false and changes nothing if the instruction cannot be encoded with a tied operand.
fn tie_to_old_values(
    function: &mut Function,
    definitions: &Definitions,
    encodability: &mut EncodabilityCache,
    inst: Inst,
    copies: &[Inst],
    kept: &mut Vec<Inst>,
) -> bool {
    let (Op::Machine(opcode), Some(tuple)) = (function.insts[inst].op, untied_tuple_result(function, inst)) else { return false };
    let old_values: SmallVec<[Operand; 4]> = copies.iter().map(|&copy| old_value_of_copy(function, definitions, copy)).collect();
    let mut prelude = InstPrelude::before(function, inst);
    let old_values = with_zeros_as_pairs(function, encodability, &mut prelude, inst, &old_values);
    let old = emit_pack(function, &mut prelude, usize::from(function.values[tuple].width), &old_values);
    let mut draft = InstDraft::from_inst(function, inst, opcode);
    draft.operands.push(old.with_role(Role::Tied(0)));
    if !encodability.is_encodable(function, inst, &draft) {
        return false;
    }
    draft.overwrite_inst(function, inst);
    kept.extend(prelude.insts);
    for &copy in copies {
        let operands: SmallVec<[Operand; 2]> = function.operands(copy)[..2].iter().copied().collect();
        function.insts[copy].guard = None;
        function.set_operands(copy, &operands, 1);
    }
    true
}

/// Returns the operand that a guarded copy keeps where its guard does not hold; if it is a compile-time constant, as an immediate or `RZ`.
fn old_value_of_copy(function: &Function, definitions: &Definitions, copy: Inst) -> Operand {
    let old = function.operands(copy)[2].with_role(Role::Plain);
    let known = old.part().and_then(|part| definitions.known_content(function, part));
    match known {
        Some(KnownWord::Integer(0)) => Operand::RZ,
        Some(KnownWord::Integer(number)) => Operand::new(OperandKind::Integer(i64::from(number))),
        _ => old,
    }
}

/// Replaces each pair of zeros that starts at an even index of `old_values` by one register pair that a single instruction clears, if the
/// target has such an instruction. Returns the new list of operands.
fn with_zeros_as_pairs(
    function: &mut Function,
    encodability: &mut EncodabilityCache,
    prelude: &mut InstPrelude,
    inst: Inst,
    old_values: &[Operand],
) -> SmallVec<[Operand; 4]> {
    let mut sources: SmallVec<[Operand; 4]> = SmallVec::new();
    for pair in old_values.chunks(2) {
        let is_zero = pair.len() == 2 && pair.iter().all(|old| *old == Operand::RZ);
        let zeros = is_zero.then(|| emit_zero_pair(function, encodability, prelude, inst)).flatten();
        match zeros {
            Some(zeros) => sources.push(zeros),
            None => sources.extend_from_slice(pair),
        }
    }
    sources
}

/// Appends a `CS2R` that clears a new register pair, and returns the pair; `None` if the target has no such form.
fn emit_zero_pair(function: &mut Function, encodability: &mut EncodabilityCache, prelude: &mut InstPrelude, inst: Inst) -> Option<Operand> {
    let zero = Operand::from(Symbol::find("SRZ")?);
    let pair = function.new_value(Class::R2);
    let operands = [function.whole(pair).into(), zero];
    let draft =
        InstDraft { opcode: Opcode::CS2R, modifiers: Symbols::new(), operands: operands.iter().copied().collect(), result_count: 1 };
    if !encodability.is_encodable(function, inst, &draft) {
        return None;
    }
    prelude.push(function, Op::Machine(Opcode::CS2R), &[], &operands, 1);
    Some(operands[0])
}

/// Appends a pack of sources into a tuple of `width` registers, and returns the tuple. A single source is returned as it is.
fn emit_pack(function: &mut Function, prelude: &mut InstPrelude, width: usize, sources: &[Operand]) -> Operand {
    if let [single] = sources {
        return *single;
    }
    let tuple = function.new_value(Class::new(RegFile::General, width as u8));
    let result = Operand::from(function.whole(tuple));
    let operands: SmallVec<[Operand; 8]> = std::iter::once(result).chain(sources.iter().copied()).collect();
    prelude.push(function, Op::Pseudo(Pseudo::Pack), &[], &operands, 1);
    result
}
