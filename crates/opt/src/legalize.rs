//! Legalization: rewrites every machine instruction into one that the target can encode.
//!
//! Form selection in `oriole_isa` decides what is legal; this module has no rules of its own about operands. An instruction without a form
//! is rewritten by the cheapest of these steps that gives it one:
//!
//! 1. **Spelling** ([`spelling`]): the same instruction as the target writes it. Descriptors of global accesses, predicate results that
//!    must be written, mnemonics that changed between targets.
//! 2. **Order** ([`order`]): exchanged sources, mirrored comparisons.
//! 3. **Moves** ([`moves`]): immediates, constant-bank words and uniform registers are first moved to a register, operand modifiers such as
//!    negation are applied by a separate instruction, and offsets that do not fit are added to the base.
//!
//! For example, on sm_80 `IADD3 R0, c[0x0][0x160], c[0x0][0x164], RZ` becomes a `MOV R1, c[0x0][0x160]` and `IADD3 R0, R1, c[0x0][0x164],
//! RZ`, because a form takes at most one constant.
//!
//! The search is done once per shape (opcode, modifiers, kinds of operands, bit widths of immediates). Its outcome is cached.

mod encodability;
mod moves;
pub(crate) mod order;
mod spelling;

use std::fmt;

use oriole_ir::{Function, Inst, Location, Operand, OperandKind, Role, Signs, machine};
use oriole_isa::{RegFile, Symbol, SystemLayout};
use smallvec::SmallVec;

pub use self::encodability::EncodabilityCache;
use self::encodability::{EXAMPLE_REGISTER, MoveKind, MoveRewrite};
use self::spelling::{DraftsBySpelling, SpellingChangeSet};
use crate::rewrite::{InstDraft, InstPrelude};

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of instructions rewritten because the target could not encode them.
    pub repaired: usize,
}

/// The error for an instruction that cannot be rewritten into one that the target can encode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LegalizeError {
    /// Text of the instruction, and why it has no encoding.
    pub message: String,
    /// Source location of the instruction.
    pub location: Location,
}

impl fmt::Display for LegalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LegalizeError {}

/// Rewrites all instructions of a function that the target cannot encode.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Result<Stats, LegalizeError> {
    let mut legalizer = Legalizer { encodability: encodability.take_cache(), stats: Stats::default() };
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            legalizer.legalize_inst(function, inst, MAX_MOVE_RECURSION, &mut kept)?;
        }
        function.blocks[block].insts = kept;
    }
    legalizer.encodability.put_back_cache(encodability);
    Ok(legalizer.stats)
}

/// Maximum number of operands of one instruction to move to registers.
const MAX_MOVED_OPERANDS: usize = 3;

/// Maximum depth of the recursion: an inserted move may need a move itself, and so may that one. No deeper chain is known.
const MAX_MOVE_RECURSION: usize = 3;

/// State of legalization for one function.
struct Legalizer {
    /// Answers whether the target can encode an instruction.
    encodability: EncodabilityCache,
    /// Numbers of changes made so far.
    stats: Stats,
}

/// All kinds of moves, in the order in which they are tried.
const MOVE_KINDS: [MoveKind; 4] = [
    MoveKind { file: RegFile::General, applies_signs: false },
    MoveKind { file: RegFile::Uniform, applies_signs: false },
    MoveKind { file: RegFile::General, applies_signs: true },
    MoveKind { file: RegFile::Uniform, applies_signs: true },
];

impl Legalizer {
    /// Makes an instruction encodable. Appends the moves that it needs, then the instruction itself, to `kept`. `depth` limits the
    /// recursion for moves.
    fn legalize_inst(&mut self, function: &mut Function, inst: Inst, depth: usize, kept: &mut Vec<Inst>) -> Result<(), LegalizeError> {
        let Some(opcode) = function.insts[inst].op.machine() else {
            kept.push(inst);
            return Ok(());
        };
        let has_descriptor = function.sources(inst).iter().any(|source| source.kind == OperandKind::Address(Symbol::NAME_desc));
        if !has_descriptor && self.encodability.is_legal(function, inst, opcode) {
            kept.push(inst);
            return Ok(());
        }
        let mut draft = InstDraft::from_inst(function, inst, opcode);
        // Instruction selection writes `desc[URZ]` for an access without descriptor. On targets with descriptors, such an access has an
        // encoding of its own.
        if SystemLayout::of(self.encodability.target()).descriptor.is_some()
            && let Some(plain) = spelling::without_zero_descriptor(&draft)
        {
            draft = plain.clone();
            plain.overwrite_inst(function, inst);
        }
        // A form with a hidden descriptor is preferred to one with a visible descriptor: on sm_80 the visible form is meant for cache
        // policies.
        if let Some(hidden) = spelling::with_hidden_descriptor(&draft)
            && self.encodability.is_encodable(function, inst, &hidden)
        {
            hidden.overwrite_inst(function, inst);
        } else if !self.encodability.is_encodable(function, inst, &draft) {
            let mut prelude = InstPrelude::before(function, inst);
            let repaired = self.make_legal(function, inst, &draft, depth, &mut prelude)?;
            repaired.overwrite_inst(function, inst);
            self.stats.repaired += 1;
            for added in prelude.insts {
                self.legalize_inst(function, added, depth - 1, kept)?;
            }
        }
        kept.push(inst);
        Ok(())
    }

    /// Returns an encodable version of a draft that the target cannot encode. Appends to `prelude` the moves whose results it reads.
    /// `depth` 0 means that no moves may be added.
    fn make_legal(
        &mut self,
        function: &mut Function,
        inst: Inst,
        draft: &InstDraft,
        depth: usize,
        prelude: &mut InstPrelude,
    ) -> Result<InstDraft, LegalizeError> {
        let shape: Box<[u32]> =
            self.encodability.compute_inst_shape(function, inst, draft.opcode, &draft.modifiers, &draft.operands).into();
        if let Some(&(spelling, order)) = self.encodability.rewrites_without_moves.get(&shape)
            && let Some(planned) = spelling
                .apply_to_draft(function, draft)
                .and_then(|spelled| order::equivalent_source_orders(&spelled).into_iter().nth(order))
        {
            return Ok(planned);
        }
        let width_and_role = |operand: &Operand| {
            let is_tied_or_fixed = matches!(operand.role, Role::Tied(_) | Role::Fixed(_));
            operand.part().map_or(0, |part| u32::from(part.count)) | u32::from(is_tied_or_fixed) << 8
        };
        let widths = draft.operands.iter().map(width_and_role).chain(std::iter::once(draft.result_count as u32));
        let rewrite_key: Box<[u32]> = shape.iter().copied().chain(widths).collect();
        if let Some(known) = self.encodability.move_rewrites.get(&rewrite_key).filter(|_| depth > 0).cloned()
            && let Some(spelled) = known.spelling.apply_to_draft(function, draft)
            && let Some(ordered) = order::equivalent_source_orders(&spelled).into_iter().nth(known.order)
            && let Some(supplied) =
                moves::insert_operand_moves(function, &ordered, &known.moved_positions, known.move_kind, &self.encodability, prelude)
        {
            return Ok(supplied);
        }
        // No cached rewrite: try the equivalent spellings and source orders that need no additional move instruction first, and keep every
        // draft, because the search that may insert moves starts from them.
        let mut drafts: Vec<(SpellingChangeSet, usize, InstDraft)> = Vec::new();
        let mut spellings = DraftsBySpelling::new(draft);
        for spelling in SpellingChangeSet::all_sets() {
            let Some(spelled) = spellings.draft_with_changes(function, spelling) else { continue };
            for (order, ordered) in order::equivalent_source_orders(spelled).into_iter().enumerate() {
                if self.encodability.is_encodable(function, inst, &ordered) {
                    self.encodability.rewrites_without_moves.insert(shape, (spelling, order));
                    return Ok(ordered);
                }
                drafts.push((spelling, order, ordered));
            }
        }
        // Try the fewest moves first; with equally many moves, the earliest spelling and order.
        let moves = if depth == 0 { 0 } else { MAX_MOVED_OPERANDS };
        for count in 1..=moves {
            for (spelling, order, draft) in &drafts {
                let movable = moves::movable_operand_positions(function, draft);
                for chosen in subsets(&movable, count) {
                    for move_kind in MOVE_KINDS {
                        if let Some(example) = with_example_registers(draft, &chosen, move_kind)
                            && self.encodability.is_encodable(function, inst, &example)
                            && let Some(supplied) =
                                moves::insert_operand_moves(function, draft, &chosen, move_kind, &self.encodability, prelude)
                        {
                            let rewrite = MoveRewrite { spelling: *spelling, order: *order, moved_positions: chosen, move_kind };
                            self.encodability.move_rewrites.insert(rewrite_key, rewrite);
                            return Ok(supplied);
                        }
                    }
                }
            }
        }
        Err(self.encoding_error(function, inst))
    }

    /// Returns the error for an instruction that cannot be made encodable.
    fn encoding_error(&self, function: &Function, inst: Inst) -> LegalizeError {
        let instruction = machine::machine_instruction(function, inst, &|_| 0);
        let reason = oriole_isa::select(&instruction, self.encodability.target()).err().map(|error| error.to_string());
        let reason = reason.unwrap_or_else(|| "its operands cannot be supplied".to_owned());
        let message = format!("`{}` cannot be encoded: {reason}", machine::describe(function, inst));
        LegalizeError { message, location: function.insts[inst].location }
    }
}

/// Returns all subsets of `positions` with `count` members. Only the first 12 positions are considered.
fn subsets(positions: &[usize], count: usize) -> Vec<SmallVec<[usize; 4]>> {
    let mut subsets = Vec::new();
    for bits in 0_u32..1 << positions.len().min(12) {
        if bits.count_ones() as usize == count {
            subsets.push(positions.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, &position)| position).collect());
        }
    }
    subsets
}

/// Returns the draft with an example register instead of each operand to move, to test whether the target can encode the result of the
/// move. `None` if `move_kind` applies operand modifiers and one of the operands has none.
fn with_example_registers(draft: &InstDraft, moved_positions: &[usize], move_kind: MoveKind) -> Option<InstDraft> {
    let mut example = draft.clone();
    for &at in moved_positions {
        let operand = example.operands[at];
        let count = if let OperandKind::Value(part) = operand.kind { part.count } else { 1 };
        if let (Role::Bracket(_), OperandKind::Integer(_)) = (operand.role, operand.kind) {
            moves::replace_base_and_offset(
                &mut example,
                at,
                OperandKind::Register { file: move_kind.file, first: EXAMPLE_REGISTER, count },
            );
            continue;
        }
        if move_kind.applies_signs && operand.signs.is_empty() {
            return None;
        }
        example.operands[at].kind = OperandKind::Register { file: move_kind.file, first: EXAMPLE_REGISTER, count };
        if move_kind.applies_signs {
            example.operands[at].signs = Signs::NONE;
        }
    }
    Some(example)
}

#[cfg(test)]
mod tests {
    use oriole_ir::{Class, Function, FunctionKind, OperandKind, Part, Reference, ReferenceKind, Role, Signs};
    use oriole_isa::{Opcode, RegFile, Symbol, Symbols};

    use super::encodability::{append_inst_shape, operand_kind_code};
    use super::{Operand, subsets};

    /// The shape of a set of scoreboards contains only the highest scoreboard in it: its index plus one, or 0 for the empty set.
    #[test]
    fn shape_of_a_scoreboard_set_is_its_highest_member() {
        let function = Function::new("test", FunctionKind::Kernel);
        let shape = |members| operand_kind_code(&function, OperandKind::Set(members)) & 0xffff;
        assert_eq!([0, 0b1, 0b10, 0b11, 0b10_0000].map(shape), [0, 1, 2, 2, 6]);
    }

    /// Operands that need different encodings have different shapes. Each kind of operand has its own number from bit 16 on; bits from 20
    /// on stay free for the role and the modifiers of the operand.
    #[test]
    fn shapes_tell_operands_apart() {
        let mut function = Function::new("test", FunctionKind::Kernel);
        let (general, uniform) = (function.new_value(Class::R4), function.new_value(Class::UR2));
        let part = |value, first| OperandKind::Value(Part { value, first, count: 1 });
        let register = |file, first| OperandKind::Register { file, first, count: 1 };
        let constant = |bank, offset| OperandKind::Constant { bank, offset };
        let groups: Vec<Vec<OperandKind>> = vec![
            vec![part(general, 0), part(general, 1), part(uniform, 0)],
            vec![register(RegFile::General, 0), register(RegFile::General, 254), register(RegFile::Uniform, 0)],
            vec![OperandKind::Zero(RegFile::General), OperandKind::Zero(RegFile::Uniform), OperandKind::Zero(RegFile::Predicate)],
            [0, 1, 2, 4, 0x7fff, 0x8000, 0xffff, -1, -2, -0x8000, -0x8001, i64::MAX, i64::MIN].map(OperandKind::Integer).to_vec(),
            vec![
                constant(0, 0),
                constant(0, 1),
                constant(0, 2),
                constant(0, 4),
                constant(0, 8),
                constant(0, 16),
                constant(3, 0),
                constant(3, 16),
            ],
            vec![OperandKind::Name(Symbol::SYS), OperandKind::Name(Symbol::GPU)],
            vec![OperandKind::Set(1), OperandKind::Set(2)],
            vec![OperandKind::Block(function.new_block())],
            vec![OperandKind::Reference(Reference { symbol: 0, offset: 4, kind: ReferenceKind::Low })],
            vec![OperandKind::Address(Symbol::NAME_desc), OperandKind::Address(Symbol::NAME_c)],
            vec![OperandKind::Undefined],
        ];
        let mut kinds = Vec::new();
        for group in &groups {
            let mut shapes: Vec<u32> = group.iter().map(|&kind| operand_kind_code(&function, kind)).collect();
            kinds.push(shapes[0] >> 16);
            assert!(shapes.iter().all(|shape| shape >> 16 == shapes[0] >> 16), "{group:?}: {shapes:x?}");
            shapes.sort_unstable();
            shapes.dedup();
            assert_eq!(shapes.len(), group.len(), "{group:?}: {shapes:x?}");
        }
        assert_eq!(kinds, (1..=11).collect::<Vec<u32>>());
    }

    /// Opcode, modifiers of the instruction, and roles, modifiers and suffixes of its operands are all part of its shape.
    #[test]
    fn shapes_tell_instructions_apart() {
        let function = Function::new("test", FunctionKind::Kernel);
        let shape = |opcode, modifiers: &[Symbol], operand: Operand| {
            let mut shape = Vec::new();
            append_inst_shape(&function, opcode, &Symbols::from_slice(modifiers), &[operand], &mut shape);
            shape
        };
        let plain = Operand::RZ;
        let signs = [Signs::NEGATE, Signs::INVERT, Signs::NOT, Signs::ABSOLUTE];
        let mut suffixed = plain;
        suffixed.suffixes[0] = Symbol::_64;
        let mut both = suffixed;
        both.suffixes[1] = Symbol::SYS;
        let mut operands = vec![plain, plain.with_role(Role::Bracket(0)), plain.with_role(Role::Bracket(1)), suffixed, both];
        operands.extend(signs.map(|sign| plain.with_signs(sign)));
        operands.push(plain.with_signs(Signs::NEGATE.toggled(Signs::ABSOLUTE)));
        let mut shapes: Vec<Vec<u32>> = operands.iter().map(|&operand| shape(Opcode::MOV, &[], operand)).collect();
        shapes.push(shape(Opcode::IADD3, &[], plain));
        shapes.push(shape(Opcode::MOV, &[Symbol::SYS], plain));
        shapes.push(shape(Opcode::MOV, &[Symbol::GPU], plain));
        let count = shapes.len();
        shapes.sort_unstable();
        shapes.dedup();
        assert_eq!(shapes.len(), count);
        // A tied operand has no encoding field: its register is that of the result.
        assert_eq!(shape(Opcode::MOV, &[], plain.with_role(Role::Tied(0))), [Opcode::MOV as u32]);
    }

    #[test]
    fn subsets_have_the_requested_size() {
        let subsets = |positions: &[usize], count| subsets(positions, count).iter().map(|one| one.to_vec()).collect::<Vec<_>>();
        assert_eq!(subsets(&[3, 5, 7], 0), [Vec::<usize>::new()]);
        assert_eq!(subsets(&[3, 5, 7], 1), [[3], [5], [7]]);
        assert_eq!(subsets(&[3, 5, 7], 2), [[3, 5], [3, 7], [5, 7]]);
        assert_eq!(subsets(&[3, 5, 7], 3), [[3, 5, 7]]);
        assert_eq!(subsets(&(0..20).collect::<Vec<usize>>(), 1).len(), 12);
    }
}
