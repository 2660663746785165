//! Which instructions the target can encode, and the rewrites that make others encodable; a cache of both.

use oriole_ir::{Function, Inst, Operand, OperandKind, Role, Signs, Target, machine};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::spelling::SpellingChangeSet;
use crate::rewrite::InstDraft;

/// Register number that is used for the result of a move while the encodability of a rewrite is tested.
pub(super) const EXAMPLE_REGISTER: u16 = 8;

/// Maximum number of entries of an [`EncodabilityCache`] that is kept for the next function. Real programs need a few thousand.
const MAX_CACHED_SHAPES: usize = 100_000;

/// Caches whether a target can encode an instruction, by the *shape* of the instruction (opcode, modifiers, kinds of operands), and the
/// rewrites that make other shapes encodable. Results depend on shape and target only, so a cache that was used for other functions changes
/// the compile time but never the result.
pub struct EncodabilityCache {
    /// The GPU architecture.
    target: Target,
    /// For each shape, whether the target has an encoding form for it.
    encodable_shapes: FxHashMap<Box<[u32]>, bool>,
    /// For each shape that can be encoded after a rewrite without moves: the changes of its spelling, and the index of its source order in
    /// the result of [`order::equivalent_source_orders`].
    pub(super) rewrites_without_moves: FxHashMap<Box<[u32]>, (SpellingChangeSet, usize)>,
    /// For each shape that can be encoded only with moves: the rewrite. The key is the shape followed by the number of registers of each
    /// operand, a flag for tied and fixed operands, and the number of results.
    pub(super) move_rewrites: FxHashMap<Box<[u32]>, MoveRewrite>,
    /// Scratch buffer for the shape of the current instruction.
    shape: Vec<u32>,
}

/// A rewrite that makes an instruction encodable by moving some of its operands to registers first.
#[derive(Clone)]
pub(super) struct MoveRewrite {
    /// The changes of mnemonic, modifiers and operands that are made first.
    pub(super) spelling: SpellingChangeSet,
    /// The order of the sources, as an index into the result of [`order::equivalent_source_orders`].
    pub(super) order: usize,
    /// Positions, in the operand list, of the operands to move.
    pub(super) moved_positions: SmallVec<[usize; 4]>,
    /// Where the operands are moved to, and how.
    pub(super) move_kind: MoveKind,
}

/// How an operand is moved to a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct MoveKind {
    /// Register file of the new register.
    pub(super) file: RegFile,
    /// Whether extra instructions apply the operand modifiers (negation, absolute value, inversion); otherwise the rewritten instruction
    /// has them.
    pub(super) applies_signs: bool,
}

impl EncodabilityCache {
    /// Returns an empty cache for a target.
    pub fn new(target: Target) -> EncodabilityCache {
        EncodabilityCache {
            target,
            encodable_shapes: FxHashMap::default(),
            rewrites_without_moves: FxHashMap::default(),
            move_rewrites: FxHashMap::default(),
            shape: Vec::new(),
        }
    }

    /// Returns the target that the cache is for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Moves the cache out, for a pass that needs to own it; leaves an empty cache. [`put_back_cache`](Self::put_back_cache) undoes this.
    pub(crate) fn take_cache(&mut self) -> EncodabilityCache {
        std::mem::replace(self, EncodabilityCache::new(self.target))
    }

    /// Moves the cache back to `place` for later functions, or drops it if it has grown too large.
    pub(crate) fn put_back_cache(self, place: &mut EncodabilityCache) {
        if self.encodable_shapes.len() + self.rewrites_without_moves.len() + self.move_rewrites.len() < MAX_CACHED_SHAPES {
            *place = self;
        }
    }

    /// Returns whether the target can encode an instruction as it is.
    pub(super) fn is_legal(&mut self, function: &Function, inst: Inst, opcode: Opcode) -> bool {
        self.is_shape_encodable(function, inst, opcode, &function.insts[inst].modifiers, function.operands(inst))
    }

    /// Returns whether the target can encode the draft of an instruction, under the guard of `inst`.
    pub(crate) fn is_encodable(&mut self, function: &Function, inst: Inst, draft: &InstDraft) -> bool {
        self.is_shape_encodable(function, inst, draft.opcode, &draft.modifiers, &draft.operands)
    }

    /// Returns whether the target can encode an instruction with this opcode, these modifiers and operands, and the guard of `inst`; caches
    /// the answer.
    fn is_shape_encodable(&mut self, function: &Function, inst: Inst, opcode: Opcode, modifiers: &Symbols, operands: &[Operand]) -> bool {
        self.compute_inst_shape(function, inst, opcode, modifiers, operands);
        if let Some(&is_encodable) = self.encodable_shapes.get(self.shape.as_slice()) {
            return is_encodable;
        }
        let guard = function.insts[inst].guard;
        let is_encodable = machine::operands_fit(function, opcode, modifiers, guard, operands, self.target);
        self.encodable_shapes.insert(self.shape.as_slice().into(), is_encodable);
        is_encodable
    }

    /// Computes the shape of an instruction, which is the key of the cache (opcode, modifiers, kinds of the operands and of the guard).
    /// Returns it in the scratch buffer.
    pub(super) fn compute_inst_shape(
        &mut self,
        function: &Function,
        inst: Inst,
        opcode: Opcode,
        modifiers: &Symbols,
        operands: &[Operand],
    ) -> &[u32] {
        self.shape.clear();
        append_inst_shape(function, opcode, modifiers, operands, &mut self.shape);
        let guard = function.insts[inst].guard;
        self.shape.extend(guard.map(|guard| u32::from(guard.negated) << 20 | operand_kind_code(function, guard.kind)));
        &self.shape
    }

    /// Returns whether the target can encode a draft without a guard. Rarely called, so the answer is not cached.
    pub(super) fn is_encodable_unguarded(&self, function: &Function, draft: &InstDraft) -> bool {
        machine::operands_fit(function, draft.opcode, &draft.modifiers, None, &draft.operands, self.target)
    }
}

/// Appends the shape of an instruction to `shape`: everything that determines whether it can be encoded, except the guard.
pub(super) fn append_inst_shape(function: &Function, opcode: Opcode, modifiers: &Symbols, operands: &[Operand], shape: &mut Vec<u32>) {
    shape.push(opcode as u32);
    shape.extend(modifiers.iter().map(|&modifier| symbol_number(modifier)));
    for operand in operands {
        let role = match operand.role {
            Role::Plain => 0,
            Role::Bracket(number) => 1 + u32::from(number),
            Role::Tied(_) | Role::Fixed(_) => continue,
        };
        let signs = if operand.signs.is_empty() { 0 } else { modifier_bits(operand.signs) };
        shape.push(1 << 31 | role << 24 | signs << 20 | operand_kind_code(function, operand.kind));
        if operand.suffixes[0] != Symbol::NAME_ || operand.suffixes[1] != Symbol::NAME_ {
            shape.extend(operand.suffixes().map(|suffix| 1 << 30 | symbol_number(suffix)));
        }
    }
}

/// Returns a set of operand modifiers as four bits: negation, bitwise NOT, predicate NOT and absolute value, the last in the lowest bit.
fn modifier_bits(signs: Signs) -> u32 {
    let bits = [Signs::NEGATE, Signs::INVERT, Signs::NOT, Signs::ABSOLUTE].map(|sign| u32::from(signs.has(sign)));
    bits.iter().fold(0, |bits, sign| bits << 1 | sign)
}

/// Returns the index of a symbol, such as a modifier, in the table of all symbols.
fn symbol_number(symbol: Symbol) -> u32 {
    u32::from(symbol.number())
}

/// Returns 20 bits that identify the kind of an operand and the properties that an encoding may depend on: for a register its file and
/// number, for an integer the numbers of its significant bits and of its trailing zeros.
#[inline]
pub(super) fn operand_kind_code(function: &Function, kind: OperandKind) -> u32 {
    let register = |tag: u32, file: RegFile, number: u16| tag << 16 | (file as u32) << 12 | u32::from(number);
    match kind {
        OperandKind::Value(part) => register(1, function.values[part.value].file, u16::from(part.first)),
        OperandKind::Register { file, first, .. } => register(2, file, first),
        OperandKind::Zero(file) => register(3, file, 0),
        OperandKind::Integer(number) => {
            let bits = 64 - if number < 0 { number.leading_ones() } else { number.leading_zeros() };
            4 << 16 | u32::from(number < 0) << 12 | bits << 4 | number.trailing_zeros().min(15)
        }
        OperandKind::Constant { bank, offset } => 5 << 16 | u32::from(bank) << 11 | (32 - offset.leading_zeros()) << 3 | (offset & 7),
        OperandKind::Name(name) => 6 << 16 | symbol_number(name),
        OperandKind::Set(members) => 7 << 16 | (64 - members.leading_zeros()),
        OperandKind::Block(_) => 8 << 16,
        OperandKind::Reference(_) => 9 << 16,
        OperandKind::Address(word) => 10 << 16 | symbol_number(word),
        OperandKind::Undefined => 11 << 16,
    }
}
