//! Lets texture and surface instructions name the handle in a constant bank, instead of reading it from a register.
//!
//! Up to Ada, an instruction takes the handle from a general register, or names a word of a constant bank. Instruction selection copies the
//! handle to a register. Where that register is a copy of a constant-bank word, such as a kernel parameter, the instruction names the word,
//! and the register becomes free:
//!
//! ```text
//! %1:R = MOV c[0x0][0x160]
//! %2:R2 = PACK %1, %0
//! RZ, %4:R = TEX.B.LL %3, %2, 2D      becomes   RZ, %4:R = TEX.LL %3, %0, 0x0, 0x58, 2D          0x58 is 0x160 / 4
//! %6:R = SULD.D.BA.2D [%5], %1        becomes   %6:R = SULD.D.BA.2D [%5], 0x0, 0x58
//! ```
//!
//! In a texture instruction with `.B`, the handle is the first register of a tuple: of the first source in `TXD` and `TXQ`, of the second
//! source in the others. The remaining registers become a tuple of their own. Instructions of a block whose tuples have the same elements
//! share one.
//!
//! **Before** and **after**: SSA, all instructions encodable. The change is made only if the target has an encoding for it; targets that
//! keep handles in uniform registers have none. The cost is linear in the size of the function.

use oriole_ir::{Block, Class, Function, Inst, Operand, OperandKind, Part, Pseudo, Role, Target, machine};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::rewrite::{InstDraft, InstPrelude, register_file_of, single_register};

/// The elements of a tuple, in register order.
type TupleElements = SmallVec<[OperandKind; 4]>;

/// Makes texture and surface instructions name handles that are words of a constant bank. Returns the number of instructions changed.
pub fn run(function: &mut Function, target: Target) -> usize {
    let blocks: Vec<Block> = function.layout.iter().copied().filter(|&block| has_handle_in_register(function, block)).collect();
    if blocks.is_empty() {
        return 0;
    }
    let definitions = Definitions::compute(function);
    let mut changed = 0;
    for block in blocks {
        let mut shortened: FxHashMap<TupleElements, Operand> = FxHashMap::default();
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            let mut prelude = InstPrelude::before(function, inst);
            if name_constant_handle(function, &definitions, inst, target, &mut shortened, &mut prelude).is_some() {
                kept.extend(prelude.insts);
                changed += 1;
            }
            kept.push(inst);
        }
        function.blocks[block].insts = kept;
    }
    changed
}

/// Returns whether an instruction of a block takes a handle from a general register.
fn has_handle_in_register(function: &Function, block: Block) -> bool {
    function.blocks[block].insts.iter().any(|&inst| RegisterHandle::of(function, inst).is_some())
}

/// The handle of a texture or surface instruction in a general register.
struct RegisterHandle {
    /// The operand number of the tuple that starts with the handle, or of the handle of a surface access.
    at: usize,
    /// The registers of that operand.
    tuple: Part,
    /// Index of the modifier `.B`, which says that the handle is in a register; `None` for surface accesses, which do not have it.
    modifier: Option<usize>,
}

impl RegisterHandle {
    /// Finds the handle of an instruction; `None` for instructions that take no handle from a general register.
    fn of(function: &Function, inst: Inst) -> Option<RegisterHandle> {
        let data = &function.insts[inst];
        let first = data.result_count();
        let (at, modifier) = match data.op.machine()? {
            Opcode::TEX | Opcode::TLD => (first + 1, Some(bindless_modifier(&data.modifiers, 0)?)),
            // The first modifier is the component, which may be `.B` too.
            Opcode::TLD4 => (first + 1, Some(bindless_modifier(&data.modifiers, 1)?)),
            Opcode::TXD | Opcode::TXQ => (first, Some(bindless_modifier(&data.modifiers, 0)?)),
            Opcode::SULD | Opcode::SUST | Opcode::SURED => {
                (function.operands(inst).iter().rposition(|operand| operand.role == Role::Plain)?, None)
            }
            _ => return None,
        };
        let operand = function.operands(inst).get(at).filter(|_| at >= first)?;
        let is_register = register_file_of(function, operand) == Some(RegFile::General);
        let tuple = operand.part().filter(|_| is_register)?;
        Some(RegisterHandle { at, tuple, modifier })
    }
}

/// Returns the index of the modifier `.B`, ignoring the first `skipped` modifiers.
fn bindless_modifier(modifiers: &Symbols, skipped: usize) -> Option<usize> {
    (skipped..modifiers.len()).find(|&number| modifiers[number] == Symbol::B)
}

/// Makes an instruction name its handle, if that is a word of a constant bank; `None` if the instruction stays as it is. Adds to `prelude`
/// the tuple without the handle, unless `shortened` has one with the same elements.
fn name_constant_handle(
    function: &mut Function,
    definitions: &Definitions,
    inst: Inst,
    target: Target,
    shortened: &mut FxHashMap<TupleElements, Operand>,
    prelude: &mut InstPrelude,
) -> Option<()> {
    let RegisterHandle { at, tuple, modifier } = RegisterHandle::of(function, inst)?;
    let KnownWord::Constant { bank, offset } = definitions.known_content(function, single_register(tuple, 0))? else { return None };
    let word_bytes = size_of::<u32>() as u32;
    if !offset.is_multiple_of(word_bytes) {
        return None;
    }
    let mut draft = InstDraft::from_inst(function, inst, function.insts[inst].op.machine()?);
    if let Some(modifier) = modifier {
        draft.modifiers.remove(modifier);
    }
    let rest = elements_after_handle(function, definitions, tuple)?;
    if rest.is_empty() {
        draft.operands.remove(at);
    } else {
        // The test of the encoding needs a tuple of the right size.
        draft.operands[at].kind = OperandKind::Value(Part { count: tuple.count - 1, ..tuple });
    }
    // The numbers of the bank and of the word are inserted before the geometry, in `TXQ` after the name of the query, in surface accesses
    // in place of the handle.
    let name = draft.operands.iter().position(|operand| matches!(operand.kind, OperandKind::Name(_)));
    let numbers_at = match draft.opcode {
        Opcode::TXQ => name? + 1,
        Opcode::SULD | Opcode::SUST | Opcode::SURED => at,
        _ => name?,
    };
    draft.operands.insert_many(numbers_at, [Operand::from(u32::from(bank)), Operand::from(offset / word_bytes)]);
    let guard = function.insts[inst].guard;
    if !machine::operands_fit(function, draft.opcode, &draft.modifiers, guard, &draft.operands, target) {
        return None;
    }
    if !rest.is_empty() {
        let new = shortened.entry(rest).or_insert_with_key(|rest| new_tuple(function, prelude, rest));
        draft.operands[at].kind = new.kind;
    }
    draft.overwrite_inst(function, inst);
    Some(())
}

/// Returns the elements of a tuple after the first one; `None` if the tuple is not defined by a pack of single registers.
fn elements_after_handle(function: &Function, definitions: &Definitions, tuple: Part) -> Option<TupleElements> {
    if tuple.count == 1 {
        return Some(TupleElements::new());
    }
    let pack = definitions.unguarded_definition_of(function, tuple.value).filter(|&inst| function.insts[inst].is(Pseudo::Pack))?;
    let sources = function.sources(pack);
    let is_word = |source: &Operand| source.signs.is_empty() && source.part().is_none_or(|part| part.count == 1);
    let is_whole = tuple == function.whole(tuple.value) && sources.len() == usize::from(tuple.count);
    (is_whole && sources.iter().all(is_word)).then(|| sources[1..].iter().map(|source| source.kind).collect())
}

/// Returns a new tuple with the given elements. For a single element, returns that element if it is a register; otherwise moves it to a
/// register, because the machine does not accept the zero register here.
fn new_tuple(function: &mut Function, prelude: &mut InstPrelude, elements: &TupleElements) -> Operand {
    let elements: SmallVec<[Operand; 4]> = elements.iter().map(|&kind| Operand::new(kind)).collect();
    match elements[..] {
        [only] if only.part().is_none() => prelude.emit_definition(function, Class::R, Opcode::MOV, &[], &[only]),
        _ => prelude.pack(function, RegFile::General, &elements),
    }
}
