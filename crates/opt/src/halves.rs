//! Lets half-precision instructions read halves where they are.
//!
//! An instruction on pairs of halves can read one half of a register twice (`.H0_H0`, `.H1_H1`), change the sign of an operand, and
//! contain a pair of constants. One conversion rounds two singles to a pair of halves.
//!
//! ```text
//! %1 = PRMT %0, 0x3232, RZ
//! %4 = HFMA2 %1, %2, %3                            becomes   %4 = HFMA2 %0.H1_H1, %2, %3
//!
//! %1 = PRMT %0, 0x7732, RZ
//! %2 = HADD2.F32 -RZ, %1.H0_H0                     becomes   %2 = HADD2.F32 -RZ, %0.H1_H1
//!
//! %1 = LOP3.LUT %0, 0x7fff7fff, RZ, 0xc0, !PT
//! %3 = HADD2 %1, %2                                becomes   %3 = HADD2 |%0|, %2
//!
//! %1 = MOV 0x3c003c00
//! %3 = HADD2 %0, %1                                becomes   %3 = HADD2 %0, 0x3c00, 0x3c00
//!
//! %2 = F2FP.F16.F32.PACK_AB RZ, %0
//! %3 = F2FP.F16.F32.PACK_AB RZ, %1
//! %4 = PRMT %2, 0x5410, %3                         becomes   %4 = F2FP.F16.F32.PACK_AB %1, %0
//! ```
//!
//! The pass changes which bits an instruction reads, and no arithmetic. `filetests/run/half_operands.ptx` compares the results.
//!
//! **Before** and **after**: SSA, all instructions encodable. The pass runs after `fold`, which computes the constants. One walk in layout
//! order; the cost is linear in the size of the function.

use oriole_ir::{Block, Function, Inst, Operand, OperandKind, RegFile, Role, Signs};
use oriole_isa::{Opcode, Symbol};
use oriole_support::Index;
use smallvec::{SmallVec, smallvec};

use crate::combine::compose_sign_modifiers;
use crate::definitions::{Definitions, KnownWord};
use crate::known::{LUT_AND, OperandFacts};
use crate::legalize::EncodabilityCache;
use crate::rewrite::InstDraft;
use crate::simplify::{ByteSource, byte_sources_of_operand};

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of operands that read halves of another register, or change a sign, instead of the result of another instruction.
    pub operands: usize,
    /// Number of operands replaced by immediates or words of constant banks.
    pub constants: usize,
    /// Number of pairs of conversions that became one.
    pub conversions: usize,
}

/// The sign bit of a half.
const SIGN: u32 = 1 << 15;
/// Truth table of `a ^ b`, as the third operand is zero.
const LUT_XOR: i64 = 0x3c;
/// Truth table of `a | b`, as the third operand is zero.
const LUT_OR: i64 = 0xfc;
/// The selectors of a `PRMT` that puts the lower half of its third operand above the lower half of the first one.
const LOWER_HALVES: i64 = 0x5410;
/// Maximum number of instructions that one operand is looked through.
const MAX_STEPS: usize = 4;

/// Rewrites the operands of half-precision instructions in a whole function. Returns the numbers of changes.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    let mut stats = Stats::default();
    let has_candidates = |block: &Block| {
        let insts = &function.blocks[*block].insts;
        insts.iter().any(|&inst| function.insts[inst].op.machine().is_some_and(|opcode| reads_halves(opcode) || opcode == Opcode::F2FP))
    };
    if !function.layout.iter().any(has_candidates) {
        return stats;
    }
    let definitions = Definitions::compute(function);
    let uses = Uses::count(function);
    for block in function.layout.clone() {
        for at in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[at];
            match function.insts[inst].op.machine() {
                Some(opcode) if reads_halves(opcode) => {
                    let mut rewriter = Rewriter { function, encodability, definitions: &definitions };
                    stats.operands += rewriter.redirect_operands(inst, opcode);
                    stats.constants += usize::from(rewriter.insert_constant(inst, opcode));
                }
                Some(Opcode::F2FP) => {
                    let mut rewriter = Rewriter { function, encodability, definitions: &definitions };
                    stats.operands += usize::from(rewriter.read_upper_bytes(inst).is_some());
                }
                Some(Opcode::PRMT) => {
                    let mut rewriter = Rewriter { function, encodability, definitions: &definitions };
                    stats.conversions += usize::from(rewriter.join_conversions(inst, block, &uses).is_some());
                }
                _ => {}
            }
        }
    }
    stats
}

/// Returns whether the operands of an instruction are pairs of halves.
fn reads_halves(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::HADD2 | Opcode::HMUL2 | Opcode::HFMA2 | Opcode::HMNMX2 | Opcode::HSETP2 | Opcode::HSET2)
}

/// How often each value is read, and the block of each instruction.
struct Uses {
    /// For each value, the number of operands that read it.
    reads: Vec<u32>,
    /// For each instruction, its block; `None` for instructions outside of all blocks.
    blocks: Vec<Option<Block>>,
}

impl Uses {
    fn count(function: &Function) -> Uses {
        let mut uses = Uses { reads: vec![0; function.values.len()], blocks: vec![None; function.insts.len()] };
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                uses.blocks[inst.position()] = Some(block);
                function.used(inst).for_each(|part| uses.reads[part.value.position()] += 1);
            }
        }
        uses
    }
}

/// Rewrites single instructions of a function.
struct Rewriter<'a> {
    function: &'a mut Function,
    encodability: &'a mut EncodabilityCache,
    /// For each value, the instruction that defines it. The pass defines no values.
    definitions: &'a Definitions,
}

impl Rewriter<'_> {
    /// Lets the operands of an instruction read the registers that their halves come from. Returns the number of changes.
    fn redirect_operands(&mut self, inst: Inst, opcode: Opcode) -> usize {
        let mut changes = 0;
        for at in self.function.insts[inst].result_count()..self.function.operands(inst).len() {
            for _ in 0..MAX_STEPS {
                let operand = self.function.operands(inst)[at];
                let Some(halves) = halves_read(self.function, inst, &operand) else { break };
                let found = self.original_halves(&operand, halves).or_else(|| self.original_sign(inst, &operand, halves));
                let Some(replacement) = found else { break };
                let mut draft = InstDraft::from_inst(self.function, inst, opcode);
                draft.operands[at] = replacement;
                if !self.encodability.is_encodable(self.function, inst, &draft) {
                    break;
                }
                draft.overwrite_inst(self.function, inst);
                changes += 1;
            }
        }
        changes
    }

    /// Lets a conversion of two bytes read them in the upper half of the register that they come from (`.H1`). Returns `None` and changes
    /// nothing if they come from elsewhere.
    fn read_upper_bytes(&mut self, inst: Inst) -> Option<()> {
        let &[bytes] = self.function.sources(inst) else { return None };
        let converts_bytes = self.function.insts[inst].modifiers.contains(&Symbol::UNPACK_B);
        if !converts_bytes || bytes.suffixes().next().is_some() || !is_general_register(self.function, &bytes) {
            return None;
        }
        let known = OperandFacts::new(self.function, self.definitions);
        let origins = byte_sources_of_operand(known, self.function, &bytes, 0);
        let [ByteSource::Byte(word, 2), ByteSource::Byte(other, 3), ..] = origins else { return None };
        if word != other || !matches!(word, OperandKind::Value(_)) {
            return None;
        }
        let mut draft = InstDraft::from_inst(self.function, inst, Opcode::F2FP);
        let at = self.function.insts[inst].result_count();
        draft.operands[at] = Operand { kind: word, ..bytes }.with_suffix(Symbol::H1);
        if !self.encodability.is_encodable(self.function, inst, &draft) {
            return None;
        }
        draft.overwrite_inst(self.function, inst);
        Some(())
    }

    /// If the halves that an operand reads are copies of halves of another register, returns an operand that reads them there.
    fn original_halves(&self, operand: &Operand, halves: [usize; 2]) -> Option<Operand> {
        let known = OperandFacts::new(self.function, self.definitions);
        let plain = Operand::new(operand.kind);
        let bytes = byte_sources_of_operand(known, self.function, &plain, 0);
        let origin = |half: usize| match (bytes[2 * half], bytes[2 * half + 1]) {
            (ByteSource::Byte(word, low), ByteSource::Byte(other, high)) if word == other && low % 2 == 0 && high == low + 1 => {
                Some((word, low as usize / 2))
            }
            _ => None,
        };
        let [(word, lower), (other, upper)] = [origin(halves[0])?, origin(halves[1])?];
        if word != other || word == operand.kind || !matches!(word, OperandKind::Value(_)) {
            return None;
        }
        let read = Operand { kind: word, suffixes: plain.suffixes, ..*operand };
        match (lower, upper) {
            (0, 0) => Some(read.with_suffix(Symbol::H0_H0)),
            (1, 1) => Some(read.with_suffix(Symbol::H1_H1)),
            (0, 1) => Some(read),
            _ => None,
        }
    }

    /// If an operand is a register whose signs a logic operation has changed, returns the original register with sign modifiers that have
    /// the same effect on the halves that are read.
    fn original_sign(&self, inst: Inst, operand: &Operand, halves: [usize; 2]) -> Option<Operand> {
        if self.function.insts[inst].modifiers.contains(&Symbol::XORSIGN) {
            return None;
        }
        let known = OperandFacts::new(self.function, self.definitions);
        let (value, logic) = known.definition_of_operand(&Operand::new(operand.kind))?;
        let data = &self.function.insts[logic];
        let is_first = self.function.results(logic).first().and_then(Operand::value) == Some(value);
        if !data.is_machine(Opcode::LOP3) || data.modifiers.as_slice() != [Symbol::LUT] || !is_first {
            return None;
        }
        let &[original, mask, Operand::RZ, table, never] = self.function.sources(logic) else { return None };
        let mask = known.word(&mask)?;
        let changes_only = |bits: u32| halves.iter().all(|half| mask >> (16 * half) & 0xffff == bits);
        let signs = match table.integer()? {
            LUT_AND if changes_only(!SIGN & 0xffff) => Signs::ABSOLUTE,
            LUT_XOR if changes_only(SIGN) => Signs::NEGATE,
            LUT_OR if changes_only(SIGN) => Signs::ABSOLUTE.with(Signs::NEGATE),
            _ => return None,
        };
        let is_plain =
            original.signs.is_empty() && never == Operand::PT.inverted_predicate() && is_general_register(self.function, &original);
        is_plain.then_some(Operand { kind: original.kind, signs: compose_sign_modifiers(operand.signs, signs), ..*operand })
    }

    /// Replaces one source whose content is known by an immediate, which is written as two operands, the upper half first, or by a word
    /// of a constant bank. Factors and summands are swapped if that makes the instruction encodable. Returns whether a source was replaced.
    fn insert_constant(&mut self, inst: Inst, opcode: Opcode) -> bool {
        let draft = InstDraft::from_inst(self.function, inst, opcode);
        if draft.operands.iter().any(|operand| operand.integer().is_some()) {
            return false;
        }
        for at in draft.plain_source_positions() {
            let operand = draft.operands[at];
            let Some(halves) = halves_read(self.function, inst, &operand) else { continue };
            let Some(content) = operand.part().and_then(|part| self.definitions.known_content(self.function, part)) else { continue };
            for mut candidate in source_orders(&draft) {
                let Some(place) = candidate.operands.iter().position(|other| *other == operand) else { continue };
                match content {
                    KnownWord::Integer(word) => {
                        let [lower, upper] = halves.map(|half| with_signs(word >> (16 * half) & 0xffff, operand.signs));
                        candidate.operands[place] = Operand::from(upper);
                        candidate.operands.insert(place + 1, Operand::from(lower));
                    }
                    KnownWord::Constant { bank, offset } => candidate.operands[place].kind = OperandKind::Constant { bank, offset },
                }
                if self.encodability.is_encodable(self.function, inst, &candidate) {
                    candidate.overwrite_inst(self.function, inst);
                    return true;
                }
            }
        }
        false
    }

    /// Turns a `PRMT` that joins the results of two conversions of singles to halves into one conversion of both. Returns `None` and
    /// changes nothing if it does something else, or if something else reads a result.
    fn join_conversions(&mut self, inst: Inst, block: Block, uses: &Uses) -> Option<()> {
        let &[lower, selectors, upper] = self.function.sources(inst) else { return None };
        if selectors.integer() != Some(LOWER_HALVES) || !self.function.insts[inst].modifiers.is_empty() {
            return None;
        }
        let [lower, upper] = [lower, upper].map(|half| self.conversion(&half, block, uses));
        let (lower, upper) = (lower?, upper?);
        let modifiers = self.function.insts[lower].modifiers.clone();
        if modifiers != self.function.insts[upper].modifiers {
            return None;
        }
        let single = |conversion: Inst| self.function.sources(conversion)[1];
        let operands = smallvec![self.function.results(inst)[0], single(upper), single(lower)];
        let draft = InstDraft { opcode: Opcode::F2FP, modifiers, operands, result_count: 1 };
        if !self.encodability.is_encodable(self.function, inst, &draft) {
            return None;
        }
        draft.overwrite_inst(self.function, inst);
        Some(())
    }

    /// Returns the conversion of one single to a half that computes an operand, if it is in `block` and nothing else reads its result.
    fn conversion(&self, operand: &Operand, block: Block, uses: &Uses) -> Option<Inst> {
        let part = operand.part().filter(|part| part.count == 1 && operand.signs.is_empty() && operand.suffixes().next().is_none())?;
        let inst = self.definitions.unguarded_definition_of(self.function, part.value)?;
        let is_only = uses.reads[part.value.position()] == 1 && uses.blocks[inst.position()] == Some(block);
        let data = &self.function.insts[inst];
        let packs = data.is_machine(Opcode::F2FP) && data.modifiers.contains(&Symbol::PACK_AB);
        let fills_lower_half = matches!(self.function.sources(inst), [zero, _] if *zero == Operand::RZ);
        (is_only && packs && fills_lower_half).then_some(inst)
    }
}

/// Returns which halves of its register an operand of a half-precision instruction reads as its lower and its upper half: 0 is the lower
/// half of the register, 1 the upper one. `None` for operands that are no register, or that the instruction reads in another way.
fn halves_read(function: &Function, inst: Inst, operand: &Operand) -> Option<[usize; 2]> {
    if operand.role != Role::Plain || !is_general_register(function, operand) {
        return None;
    }
    let suffixes: SmallVec<[Symbol; 3]> = operand.suffixes().collect();
    match suffixes.as_slice() {
        // With `.F32`, which makes a single of one half, the suffix names the half.
        [] if function.insts[inst].modifiers.contains(&Symbol::F32) => None,
        [] => Some([0, 1]),
        [Symbol::H0_H0] => Some([0, 0]),
        [Symbol::H1_H1] => Some([1, 1]),
        _ => None,
    }
}

/// Returns whether an operand is one general register.
fn is_general_register(function: &Function, operand: &Operand) -> bool {
    operand.part().is_some_and(|part| part.count == 1 && function.values[part.value].file == RegFile::General)
}

/// Returns an instruction as it is, and with its first two sources swapped if they are factors or summands.
fn source_orders(draft: &InstDraft) -> SmallVec<[InstDraft; 2]> {
    let mut orders: SmallVec<[InstDraft; 2]> = smallvec![draft.clone()];
    let sources = draft.plain_source_positions();
    for &(first, second) in draft.opcode.properties().commute {
        let mut swapped = draft.clone();
        swapped.operands.swap(sources[usize::from(first)], sources[usize::from(second)]);
        orders.push(swapped);
    }
    orders
}

/// Applies sign modifiers to a half.
fn with_signs(half: u32, signs: Signs) -> u32 {
    let magnitude = if signs.has(Signs::ABSOLUTE) { half & !SIGN } else { half };
    if signs.has(Signs::NEGATE) { magnitude ^ SIGN } else { magnitude }
}
