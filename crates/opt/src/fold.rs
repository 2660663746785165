//! Folds known constants into instructions and constant additions into address offsets.
//!
//! A register that is known to hold a compile-time constant or a word of a constant bank is replaced by it in every instruction that has an
//! encoding form for it; kernel parameters thus become constant-bank operands. If the base of an address is a register plus a constant, the
//! register becomes the base and the constant is added to the offset: `x = a + 16; load [x + 4]` becomes `load [a + 20]`. Chains of
//! additions of constants are combined. Each change is checked against the encoding forms of the target, and sources may be swapped to make
//! it fit. Definitions that are no longer read are left to dead-code elimination.
//!
//! Asynchronous copies that copy all bytes or none are given simpler addresses and predicates ([`fills`]).
//!
//! **64-bit addresses** are register pairs: the addition of the low halves writes a carry that the addition of the high halves reads. The
//! 64-bit sum is folded only if both halves come from such a pair of additions, because only then is it exact. If the halves of the base
//! are not an aligned register pair, a `PACK` after the later one of their definitions joins them; all addresses with the same halves share
//! one pack.
//!
//! **Known results.** An integer operation whose operands are all constants becomes a move of its result (`evaluate.rs`); one whose
//! predicate result is known becomes a constant `PLOP3`. A branch on a known predicate becomes unconditional, or is removed.

use oriole_ir::analysis::remove_unreachable_blocks;
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Signs, Target};
use oriole_isa::{Effect, Memory, Opcode, Pipe, RegFile, Symbol};
use smallvec::{SmallVec, smallvec};

use crate::alternatives::{Alternatives, mnemonic};
use crate::definitions::{Definitions, KnownWord};
use crate::known::OperandFacts;
use crate::legalize::{EncodabilityCache, order};
use crate::rewrite::{Draft, Prelude, single_register};
use crate::straighten;
use bases::PackedBases;
use evaluate::{KnownResults, evaluate};

mod bases;
mod evaluate;
mod fills;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of operands replaced by immediates, constant-bank words or the zero register.
    pub constants: usize,
    /// Number of additions of a constant folded into address offsets.
    pub offsets: usize,
    /// Number of constant additions that were combined with another constant addition.
    pub sums: usize,
    /// Number of instructions replaced by moves of their known results.
    pub results: usize,
    /// Number of conditional branches whose predicate is known.
    pub branches: usize,
}

/// Maximum number of additions folded into the offset of one address.
const MAX_SUMS: usize = 8;

/// Folds constants into instructions and additions into addresses, in a whole function.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    run_with_alternatives(function, encodability, &mut Alternatives::default())
}

/// As [`run`], and records the constants and offsets that an instruction has no encoding for.
pub fn run_with_alternatives(function: &mut Function, encodability: &mut EncodabilityCache, alternatives: &mut Alternatives) -> Stats {
    let mut folder = OperandFolder {
        definitions: Definitions::compute(function),
        encodability: encodability.take(),
        bases: PackedBases::default(),
        alternatives: std::mem::take(alternatives),
        stats: Stats::default(),
    };
    folder.fold_known_results(function);
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for number in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[number];
            if let Some(opcode) = function.insts[inst].op.machine() {
                folder.fold(function, inst, opcode);
            }
        }
    }
    folder.encodability.put_back(encodability);
    *alternatives = std::mem::take(&mut folder.alternatives);
    folder.bases.insert_packs(function);
    folder.stats.branches = decide_branches(function, &folder.definitions, encodability.target());
    folder.stats
}

/// Makes branches on known predicates unconditional, and removes blocks that become unreachable. Returns the number of branches changed.
fn decide_branches(function: &mut Function, definitions: &Definitions, target: Target) -> usize {
    let mut decided = 0;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let &[first, second] = function.terminators(block) else { continue };
        let is_plain = |inst: Inst| {
            let data = &function.insts[inst];
            data.is_machine(Opcode::BRA) && data.modifiers.is_empty() && function.operands(inst).len() == 1
        };
        let (true, true, Some(guard)) = (is_plain(first), is_plain(second), function.insts[first].guard) else { continue };
        let Some(truth) = OperandFacts::new(function, definitions).truth(&Operand::new(guard.kind)) else { continue };
        let (kept, removed) = if truth != guard.negated { (first, second) } else { (second, first) };
        let OperandKind::Block(left) = function.operands(removed)[0].kind else { continue };
        if function.operands(kept)[0].kind == OperandKind::Block(left) {
            continue;
        }
        function.insts[kept].guard = None;
        function.blocks[block].insts.retain(|&inst| inst != removed);
        remove_phi_sources(function, left, block);
        decided += 1;
    }
    if decided > 0 {
        remove_unreachable_blocks(function);
        straighten::run(function, target);
    }
    decided
}

/// Removes, from the phis of a block, the sources for the former predecessor `from`.
fn remove_phi_sources(function: &mut Function, block: Block, from: Block) {
    for phi in function.phis(block).to_vec() {
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.results(phi));
        let pairs = function.sources(phi).chunks_exact(2).filter(|pair| pair[1].kind != OperandKind::Block(from));
        operands.extend(pairs.flatten().copied());
        function.set_operands(phi, &operands, 1);
    }
}

/// State of the pass for one function.
struct OperandFolder {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// Answers whether the target can encode an instruction.
    encodability: EncodabilityCache,
    /// The 64-bit bases that the pass has packed into register pairs.
    bases: PackedBases,
    /// The forms that were rejected.
    alternatives: Alternatives,
    /// Numbers of changes made so far.
    stats: Stats,
}

/// A register or register pair plus a constant.
struct BasePlusConstant {
    /// The register or register pair that the constant is added to.
    base: FoldedBase,
    /// The constant that is added, in bytes for an address.
    constant: i64,
}

/// The base of an address, without added constants.
#[derive(Clone, Copy)]
enum FoldedBase {
    /// No base: the address is a constant.
    Absent,
    /// A register or an aligned register pair.
    Registers(Part),
    /// The lower and the upper half of a 64-bit base, in any two registers.
    Halves(Part, Part),
}

impl OperandFolder {
    /// Applies all foldings of the pass to one instruction.
    fn fold(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        // Textures and surfaces take everything from registers. An H200 reports an illegal instruction for the zero register as a source of
        // `TXQ`, and ptxas gives it to no texture instruction.
        if opcode.properties().pipe == Pipe::Tex {
            return;
        }
        self.combine_additions(function, inst, opcode);
        self.drop_fill(function, inst, opcode);
        self.fold_known_predicates(function, inst, opcode);
        self.fold_full_mask(function, inst, opcode);
        let opcode = self.fold_zero_product(function, inst, opcode);
        let opcode = self.fold_equal_upper_words(function, inst, opcode);
        let takes_immediates = opcode.properties().effect == Effect::None || opcode == Opcode::SHFL;
        while self.fold_constant(function, inst, opcode, takes_immediates) {
            self.stats.constants += 1;
        }
        if self.alternatives.is_recording() {
            self.record_constants(function, inst, opcode, takes_immediates);
        }
        if !function.sources(inst).iter().any(|source| matches!(source.role, Role::Bracket(_))) {
            return;
        }
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            if matches!(function.operands(inst)[at].role, Role::Bracket(_)) {
                self.fold_address(function, inst, opcode, at);
            }
        }
    }

    /// Records the operands of known content that stay in registers, because the instruction has no encoding with a constant there.
    fn record_constants(&mut self, function: &Function, inst: Inst, opcode: Opcode, takes_immediates: bool) {
        let results = function.insts[inst].result_count();
        for (number, operand) in function.sources(inst).iter().enumerate() {
            let Some(part) = operand.part().filter(|_| operand.role == Role::Plain) else { continue };
            let Some(constant) = self.constant_operand(function, inst, opcode, results + number, part, takes_immediates) else { continue };
            let text = match constant.kind {
                OperandKind::Integer(value) => format!("the number {value:#x}"),
                OperandKind::Constant { bank, offset } => format!("c[{bank:#x}][{offset:#x}]"),
                _ => "the zero register".to_owned(),
            };
            self.alternatives.reject("fold", inst, || {
                let form = format!("{} with {text} as source {}", mnemonic(function, inst), number + 1);
                (form, "the target has no encoding for it with the other operands, in any order of the sources".to_owned())
            });
        }
    }

    /// Records that the offset of an address cannot take a constant.
    fn record_offset(&mut self, function: &Function, inst: Inst, constant: i64) {
        self.alternatives.reject("fold", inst, || {
            let form = format!("an address whose offset takes the addition of {constant:#x}");
            (form, format!("the sum does not fit into the offset of {}", mnemonic(function, inst)))
        });
    }

    /// Replaces all instructions of a function whose results are compile-time constants.
    fn fold_known_results(&mut self, function: &mut Function) {
        for at in 0..function.layout.len() {
            let block = function.layout[at];
            let insts = std::mem::take(&mut function.blocks[block].insts);
            let mut all = Vec::with_capacity(insts.len());
            for inst in insts {
                if let Some(opcode) = function.insts[inst].op.machine() {
                    all.extend(self.fold_result(function, inst, opcode));
                }
                all.push(inst);
            }
            function.blocks[block].insts = all;
        }
    }

    /// Replaces an instruction whose results are compile-time constants by moves of these constants. Returns new instructions to insert
    /// before it.
    fn fold_result(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> SmallVec<[Inst; 4]> {
        let is_plain = function.insts[inst].guard.is_none() && function.operands(inst).iter().all(|operand| operand.role == Role::Plain);
        let known = if is_plain { evaluate(function, &self.definitions, inst, opcode) } else { None };
        match known {
            Some(results) => self.replace_by_constants(function, inst, opcode, results),
            None => SmallVec::new(),
        }
    }

    /// Replaces an instruction by moves of its known results. Returns new instructions to insert before it.
    fn replace_by_constants(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, results: KnownResults) -> SmallVec<[Inst; 4]> {
        let mut prelude = Prelude::before(function, inst);
        let (predicates, numbers): (SmallVec<[Operand; 3]>, SmallVec<[Operand; 3]>) =
            function.results(inst).iter().copied().partition(|result: &Operand| match result.kind {
                OperandKind::Value(part) => function.values[part.value].file == RegFile::Predicate,
                kind => kind == OperandKind::Zero(RegFile::Predicate),
            });
        let table = |truth: bool| Operand::from(if truth { 0x80_u32 } else { 0 });
        let has_unknown = results.predicates.is_none() && predicates.iter().any(|predicate| predicate.value().is_some());
        if has_unknown {
            return prelude.insts;
        }
        let [first, second] = results.predicates.unwrap_or_default();
        let tables = [Operand::PT, Operand::PT, Operand::PT, table(first), table(second)];
        let (Some(number), &[result]) = (results.integer, numbers.as_slice()) else {
            let operands: SmallVec<[Operand; 8]> = predicates.iter().copied().chain(tables).collect();
            let is_done = opcode == Opcode::PLOP3 && operands.as_slice() == function.operands(inst);
            let draft = Draft { opcode: Opcode::PLOP3, modifiers: [Symbol::LUT].into_iter().collect(), operands, result_count: 2 };
            if numbers.is_empty() && predicates.len() == 2 && !is_done && self.encodability.is_encodable(function, inst, &draft) {
                draft.store(function, inst);
                self.stats.results += 1;
            }
            return prelude.insts;
        };
        let Some(part) = result.part().filter(|part| *part == function.whole(part.value)) else { return prelude.insts };
        if function.values[part.value].file != RegFile::General || part.count > 2 {
            return prelude.insts;
        }
        // Carry results get a separate `PLOP3`.
        if predicates.iter().any(|predicate| predicate.value().is_some()) {
            let mut operands: SmallVec<[Operand; 8]> = predicates.iter().copied().chain(tables).collect();
            if predicates.len() == 1 {
                operands.insert(1, Operand::PT);
            }
            prelude.push(function, Op::Machine(Opcode::PLOP3), &[Symbol::LUT], &operands, 2);
        }
        let words: SmallVec<[u32; 2]> = (0..part.count).map(|word| (number >> (32 * word)) as u32).collect();
        if let [word] = words.as_slice() {
            let operands = smallvec![result, Operand::from(*word)];
            Draft { opcode: Opcode::MOV, modifiers: [].into_iter().collect(), operands, result_count: 1 }.store(function, inst);
        } else {
            let halves = words.iter().map(|&word| prelude.define(function, Class::R, Opcode::MOV, &[], &[Operand::from(word)]));
            let operands: SmallVec<[Operand; 4]> = halves.collect();
            let operands: SmallVec<[Operand; 4]> = std::iter::once(result).chain(operands).collect();
            function.insts[inst].op = Op::Pseudo(Pseudo::Pack);
            function.insts[inst].modifiers = [].into_iter().collect();
            function.set_operands(inst, &operands, 1);
        }
        for &new in &prelude.insts {
            function.defined(new).for_each(|value| self.definitions.set(value, new));
        }
        self.stats.results += 1;
        prelude.insts
    }

    /// Replaces predicate operands of known value by `PT` or `!PT`.
    fn fold_known_predicates(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            let operand = function.operands(inst)[at];
            let is_predicate = operand.part().is_some_and(|part| function.values[part.value].file == RegFile::Predicate);
            if !is_predicate || operand.role != Role::Plain {
                continue;
            }
            let Some(truth) = OperandFacts::new(function, &self.definitions).truth(&operand) else { continue };
            let known = if truth { Operand::PT } else { Operand::PT.inverted_predicate() };
            let mut draft = Draft::from_inst(function, inst, opcode);
            draft.operands[at] = known;
            if self.encodability.is_encodable(function, inst, &draft) {
                draft.store(function, inst);
                self.stats.constants += 1;
            }
        }
    }

    /// Makes a multiply-add with a factor of zero a move of the summand. Returns the opcode of the instruction.
    fn fold_zero_product(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> Opcode {
        let data = &function.insts[inst];
        let is_low = opcode == Opcode::IMAD && data.modifiers.iter().all(|&modifier| modifier == Symbol::U32);
        let (&[result], &[a, b, summand]) = (function.results(inst), function.sources(inst)) else { return opcode };
        if !is_low || data.guard.is_some() || !summand.signs.is_empty() || summand.role != Role::Plain {
            return opcode;
        }
        if !self.is_zero_word(function, &a) && !self.is_zero_word(function, &b) {
            return opcode;
        }
        let moved =
            Draft { opcode: Opcode::MOV, modifiers: [].into_iter().collect(), operands: smallvec![result, summand], result_count: 1 };
        if !self.encodability.is_encodable(function, inst, &moved) {
            return opcode;
        }
        moved.store(function, inst);
        self.stats.results += 1;
        Opcode::MOV
    }

    /// Makes the comparison of the upper words of two 64-bit numbers that both are zero a copy of the comparison of the lower words.
    /// Returns the opcode of the instruction.
    fn fold_equal_upper_words(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> Opcode {
        let data = &function.insts[inst];
        let has = |modifier: Symbol| data.modifiers.contains(&modifier);
        if opcode != Opcode::ISETP || !has(Symbol::EX) || !has(Symbol::AND) || data.guard.is_some() {
            return opcode;
        }
        let (&[result, Operand::PT], &[a, b, Operand::PT, lower]) = (function.results(inst), function.sources(inst)) else { return opcode };
        if !self.is_zero_word(function, &a) || !self.is_zero_word(function, &b) {
            return opcode;
        }
        let tables = [Operand::from(0xf0_u32), Operand::from(0_u32)];
        let operands = smallvec![result, Operand::PT, lower, Operand::PT, Operand::PT, tables[0], tables[1]];
        let copy = Draft { opcode: Opcode::PLOP3, modifiers: [Symbol::LUT].into_iter().collect(), operands, result_count: 2 };
        if !self.encodability.is_encodable(function, inst, &copy) {
            return opcode;
        }
        copy.store(function, inst);
        self.stats.results += 1;
        Opcode::PLOP3
    }

    /// Returns whether a source is a word that is known to be zero.
    fn is_zero_word(&self, function: &Function, source: &Operand) -> bool {
        match source.kind {
            OperandKind::Zero(RegFile::General) | OperandKind::Integer(0) => true,
            OperandKind::Value(part) => {
                part.count == 1
                    && source.role == Role::Plain
                    && self.definitions.known_content(function, part) == Some(KnownWord::Integer(0))
            }
            _ => false,
        }
    }

    /// Makes a `WARPSYNC` whose mask is known to name all threads one of all threads, which `converge` deletes where the warp is converged.
    fn fold_full_mask(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        if opcode != Opcode::WARPSYNC || !function.insts[inst].modifiers.is_empty() {
            return;
        }
        let &[mask] = function.operands(inst) else { return };
        let Some(part) = mask.part().filter(|part| part.count == 1 && function.values[part.value].file == RegFile::General) else { return };
        if self.definitions.known_content(function, part) != Some(KnownWord::Integer(u32::MAX)) {
            return;
        }
        let all = Draft { opcode, modifiers: [Symbol::ALL].into_iter().collect(), operands: SmallVec::new(), result_count: 0 };
        let full = Draft { operands: smallvec![Operand::from(i64::from(u32::MAX))], modifiers: [].into_iter().collect(), ..all.clone() };
        let fitting = [all, full].into_iter().find(|draft| self.encodability.is_encodable(function, inst, draft));
        if let Some(draft) = fitting {
            draft.store(function, inst);
            self.stats.constants += 1;
        }
    }

    /// Replaces one operand by its known content. Returns whether there was such an operand. Wide operands are tried first because they
    /// free the most registers.
    fn fold_constant(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, takes_immediates: bool) -> bool {
        let results = function.insts[inst].result_count();
        let mut candidates: SmallVec<[(usize, Part); 6]> = SmallVec::new();
        for (number, operand) in function.sources(inst).iter().enumerate() {
            if let (OperandKind::Value(part), Role::Plain) = (operand.kind, operand.role)
                && self.definitions.known_content(function, single_register(part, 0)).is_some()
            {
                candidates.push((results + number, part));
            }
        }
        if candidates.is_empty() {
            return false;
        }
        candidates.sort_by_key(|(_, part)| std::cmp::Reverse(part.count));
        candidates.into_iter().any(|(at, part)| {
            let constant = self.constant_operand(function, inst, opcode, at, part, takes_immediates);
            constant.is_some_and(|constant| self.try_replace_operand(function, inst, opcode, at, constant))
        })
    }

    /// Returns the known content of operand `at` as an immediate, constant-bank or zero-register operand; `None` if it is unknown or the
    /// instruction has no such operand.
    fn constant_operand(
        &self,
        function: &Function,
        inst: Inst,
        opcode: Opcode,
        at: usize,
        part: Part,
        takes_immediates: bool,
    ) -> Option<Operand> {
        let operand = function.operands(inst)[at];
        let file = function.values[part.value].file;
        if !matches!(file, RegFile::General | RegFile::Uniform) {
            return None;
        }
        let words: Option<SmallVec<[KnownWord; 4]>> =
            (0..part.count).map(|number| self.definitions.known_content(function, single_register(part, number))).collect();
        let words = words?;
        // On Turing the assembly text of a compare-and-swap cannot name the zero register. ptxas moves zero to a register on all targets.
        let is_swap = function.insts[inst].modifiers.contains(&Symbol::CAS);
        if is_swap {
            return None;
        }
        if words.iter().all(|&word| word == KnownWord::Integer(0)) {
            return Some(Operand { kind: OperandKind::Zero(file), ..operand });
        }
        let is_half = opcode.properties().pipe == Pipe::Half;
        // `.XORSIGN` takes the sign of the result from the source under the absolute-value bars; an immediate would lose that sign.
        let keeps_sign = function.insts[inst].modifiers.contains(&Symbol::XORSIGN) && operand.signs.has(Signs::ABSOLUTE);
        // -2^31 is its own negative in 32 bits, so folding the sign would turn `x - -2^31` into `x + -2^31`, which saturates differently.
        let has_no_negative = function.insts[inst].modifiers.contains(&Symbol::ISAT)
            && operand.signs.has(Signs::NEGATE)
            && words.as_slice() == [KnownWord::Integer(1 << 31)];
        if has_no_negative || keeps_sign || !takes_immediates || is_half || operand.suffixes().next().is_some() {
            return None;
        }
        // Only 64-bit operands can be a pair of constant-bank words.
        let is_wide = opcode.properties().pipe == Pipe::Double || opcode == Opcode::IMAD && is_wide_addend(function, inst, at);
        let kind = match words.as_slice() {
            [KnownWord::Integer(number)] => OperandKind::Integer(i64::from(*number)),
            [KnownWord::Constant { bank, offset }] => OperandKind::Constant { bank: *bank, offset: *offset },
            [KnownWord::Integer(0), KnownWord::Integer(high)] if opcode.properties().pipe == Pipe::Double => {
                OperandKind::Integer(i64::from(*high))
            }
            [KnownWord::Constant { bank, offset }, KnownWord::Constant { bank: upper_bank, offset: upper }]
                if is_wide && bank == upper_bank && *upper == offset + 4 && offset % 8 == 0 =>
            {
                OperandKind::Constant { bank: *bank, offset: *offset }
            }
            _ => return None,
        };
        Some(Operand { kind, ..operand }.with_signs_folded(opcode))
    }

    /// Replaces operand `at` if the target can encode the result, with the sources in the given or another order. Returns whether it did.
    fn try_replace_operand(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize, operand: Operand) -> bool {
        let mut draft = Draft::from_inst(function, inst, opcode);
        draft.operands[at] = operand;
        if self.encodability.is_encodable(function, inst, &draft) {
            draft.store(function, inst);
            return true;
        }
        let fitting = order::orders(&draft).into_iter().skip(1).find(|draft| self.encodability.is_encodable(function, inst, draft));
        fitting.map(|draft| draft.store(function, inst)).is_some()
    }

    /// Moves constants from the base of an address to its offset.
    fn fold_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize) {
        let operand = function.operands(inst)[at];
        let Some(part) = operand.part().filter(|part| function.values[part.value].file == RegFile::General) else { return };
        // A 32-bit base of a 64-bit address is extended after the addition. The addition may wrap at 32 bits, so it must not be folded.
        match part.count {
            1 if has_narrow_address(opcode, &operand) || is_copy_target(function, inst, opcode, at) => {
                self.fold_narrow_address(function, inst, opcode, at);
            }
            2 => self.fold_wide_address(function, inst, opcode, at, part),
            _ => {}
        }
    }

    /// Moves constants from a 32-bit base to the offset, one addition after the other.
    fn fold_narrow_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize) {
        for _ in 0..MAX_SUMS {
            let Some(sum) = function.operands(inst)[at].part().and_then(|part| self.register_plus_constant(function, part)) else { return };
            let Some(draft) = with_offset(Draft::from_inst(function, inst, opcode), at, &sum) else { return };
            if !self.encodability.is_encodable(function, inst, &draft) {
                self.record_offset(function, inst, sum.constant);
                return;
            }
            draft.store(function, inst);
            self.stats.offsets += 1;
        }
    }

    /// Moves as many added constants as possible from a 64-bit base to the offset.
    fn fold_wide_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize, base: Part) {
        let (mut low, mut high) = (single_register(base, 0), single_register(base, 1));
        let mut sums: SmallVec<[BasePlusConstant; 4]> = SmallVec::new();
        let mut number = 0_i64;
        for _ in 0..MAX_SUMS {
            let Some((next_low, next_high, added)) = self.match_wide_addition(function, low, high) else { break };
            (low, high) = (next_low, next_high);
            number = number.wrapping_add(added);
            let base = aligned_pair(function, low, high).map_or(FoldedBase::Halves(low, high), FoldedBase::Registers);
            sums.push(BasePlusConstant { base, constant: number });
        }
        for (count, mut sum) in sums.into_iter().enumerate().rev() {
            // Whether an address is encodable does not depend on the choice of the register pair, so any aligned pair can be used for this
            // test instead of the halves.
            let as_pair = BasePlusConstant { base: FoldedBase::Registers(base), constant: sum.constant };
            let fits = with_offset(Draft::from_inst(function, inst, opcode), at, &as_pair)
                .is_some_and(|draft| self.encodability.is_encodable(function, inst, &draft));
            if !fits {
                self.record_offset(function, inst, sum.constant);
                continue;
            }
            if let FoldedBase::Halves(low, high) = sum.base {
                let Some(pair) = self.bases.pack(function, &self.definitions, low, high) else { continue };
                sum.base = FoldedBase::Registers(pair);
            }
            if let Some(draft) = with_offset(Draft::from_inst(function, inst, opcode), at, &sum) {
                draft.store(function, inst);
                self.stats.offsets += count + 1;
                return;
            }
        }
    }

    /// Expresses a 32-bit register as the sum of another register and a constant; `None` if no instruction adds a constant.
    fn register_plus_constant(&self, function: &Function, part: Part) -> Option<BasePlusConstant> {
        match self.definitions.known_content(function, part) {
            Some(KnownWord::Integer(number)) => Some(BasePlusConstant { base: FoldedBase::Absent, constant: i64::from(number as i32) }),
            Some(KnownWord::Constant { .. }) => None,
            None => {
                let (base, number, _) = self.match_addition(function, part)?;
                Some(BasePlusConstant { base: FoldedBase::Registers(base), constant: i64::from(number as i32) })
            }
        }
    }

    /// Matches a 64-bit sum: `low + constant` with its carry, and `high + constant + carry`. Returns the halves of the other summand and
    /// the 64-bit constant.
    fn match_wide_addition(&self, function: &Function, low: Part, high: Part) -> Option<(Part, Part, i64)> {
        let (lower, low, carry) = self.match_addition(function, low)?;
        let origin = self.definitions.origin(function, high);
        let inst = self.definitions.unguarded(function, origin.value)?;
        let is_carrying = function.insts[inst].is_machine(Opcode::IADD3) && function.insts[inst].modifiers.as_slice() == [Symbol::X];
        let [first, second, third, carry_in, other_carry] = function.sources(inst) else { return None };
        let reads_carry = carry_in.part().is_some_and(|read| Some(read.value) == carry) && carry_in.signs.is_empty();
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !is_carrying || !is_first_result || !reads_carry || *other_carry != Operand::PT.inverted_predicate() {
            return None;
        }
        let (upper, high) = self.register_and_constant(function, &[*first, *second, *third])?;
        Some((lower, upper, (u64::from(high) << 32 | u64::from(low)) as i64))
    }

    /// Matches a 32-bit addition of a register and a constant. Returns the register, the constant, and the predicate with the carry.
    fn match_addition(&self, function: &Function, part: Part) -> Option<(Part, u32, Option<oriole_ir::Value>)> {
        let origin = self.definitions.origin(function, part);
        let inst = self.definitions.unguarded(function, origin.value)?;
        let data = &function.insts[inst];
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !data.is_machine(Opcode::IADD3) || !data.modifiers.is_empty() || !is_first_result {
            return None;
        }
        let [first, second, third] = function.sources(inst) else { return None };
        let carry = function.results(inst).get(1).and_then(Operand::value);
        let (base, number) = self.register_and_constant(function, &[*first, *second, *third])?;
        Some((base, number, carry))
    }

    /// Matches three summands: one register and otherwise constants, at most one of them nonzero. Returns the register and the sum of the
    /// constants.
    fn register_and_constant(&self, function: &Function, summands: &[Operand]) -> Option<(Part, u32)> {
        let mut register = None;
        let mut number = None;
        for summand in summands {
            if !summand.signs.is_empty() {
                return None;
            }
            let known = match summand.kind {
                OperandKind::Integer(known) => Some(known as u32),
                OperandKind::Zero(RegFile::General) => Some(0),
                OperandKind::Value(part) => match self.definitions.known_content(function, part) {
                    Some(KnownWord::Integer(known)) => Some(known),
                    _ => None,
                },
                _ => return None,
            };
            match (known, summand.part()) {
                (Some(0), _) => {}
                // Two nonzero constants could carry twice, which one 64-bit constant cannot express.
                (Some(known), _) => number = Some(known).filter(|_| number.is_none()).map(Some)?,
                (None, Some(part)) if function.values[part.value].file == RegFile::General && register.is_none() => {
                    register = Some(self.definitions.origin(function, part));
                }
                _ => return None,
            }
        }
        Some((register?, number.unwrap_or(0)))
    }

    /// Combines two additions of constants: `(a + 4) + 8` becomes `a + 12`, unless a carry of the second one is read.
    fn combine_additions(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        let data = &function.insts[inst];
        let wants_carry = function.results(inst).iter().skip(1).any(|result| result.value().is_some());
        if opcode != Opcode::IADD3 || !data.modifiers.is_empty() || wants_carry || function.sources(inst).len() != 3 {
            return;
        }
        let numbers: SmallVec<[usize; 3]> = (0..3).filter(|&at| function.sources(inst)[at].integer().is_some()).collect();
        let [at] = numbers.as_slice() else { return };
        let number = function.sources(inst)[*at];
        for other in (0..3).filter(|other| other != at) {
            let operand = function.sources(inst)[other];
            let Some(part) = operand.part().filter(|_| operand.signs == Signs::NONE && number.signs == Signs::NONE) else { continue };
            let Some((base, added, _)) = self.match_addition(function, part).filter(|found| found.1 != 0) else { continue };
            let joined = (number.integer().unwrap_or_default() as u32).wrapping_add(added);
            let sources = function.sources_mut(inst);
            sources[*at].kind = OperandKind::Integer(i64::from(joined));
            sources[other].kind = OperandKind::Value(base);
            self.stats.sums += 1;
        }
    }
}

/// Returns whether an instruction has 32-bit addresses, with an unscaled base.
fn has_narrow_address(opcode: Opcode, base: &Operand) -> bool {
    matches!(opcode.properties().memory, Memory::Shared | Memory::Local | Memory::Constant) && base.suffixes().next().is_none()
}

/// Returns whether operand `at` is the base of the shared-memory address that an asynchronous copy writes to, which is its first address.
fn is_copy_target(function: &Function, inst: Inst, opcode: Opcode, at: usize) -> bool {
    let is_first = |operand: &Operand| matches!(operand.role, Role::Bracket(_));
    opcode == Opcode::LDGSTS && function.operands(inst).iter().position(is_first) == Some(at)
}

/// Returns whether operand `at` is the 64-bit addend of a widening multiply-add.
fn is_wide_addend(function: &Function, inst: Inst, at: usize) -> bool {
    let is_wide = function.insts[inst].modifiers.contains(&Symbol::WIDE);
    is_wide && function.operands(inst)[at].part().is_some_and(|part| part.count == 2)
}

/// Returns the draft with the base `at` of an address replaced by `sum`: its register as the base, its constant added to the offset. `None`
/// if the offset overflows.
fn with_offset(mut draft: Draft, at: usize, sum: &BasePlusConstant) -> Option<Draft> {
    let role = draft.operands[at].role;
    // The terms of one address are adjacent. An asynchronous copy has two addresses, so only the terms around the base may be changed.
    let is_term = |operand: &Operand| matches!(operand.role, Role::Bracket(_));
    let start = draft.operands[..at].iter().rposition(|operand| !is_term(operand)).map_or(0, |before| before + 1);
    let mut terms = (start..draft.operands.len()).take_while(|&at| is_term(&draft.operands[at]));
    let offset = terms.find(|&at| draft.operands[at].role == role && draft.operands[at].integer().is_some());
    let old = offset.map_or(0, |at| draft.operands[at].integer().unwrap_or_default());
    let new = OperandKind::Integer(old.checked_add(sum.constant)?);
    draft.operands[at].kind = match sum.base {
        FoldedBase::Absent => OperandKind::Zero(RegFile::General),
        FoldedBase::Registers(base) => OperandKind::Value(base),
        FoldedBase::Halves(..) => return None,
    };
    match offset {
        Some(offset) => draft.operands[offset].kind = new,
        None => draft.operands.insert(at + 1, Operand::new(new).with_role(role)),
    }
    Some(draft)
}

/// Returns two registers as one part of a value; `None` if they are not an aligned pair of it.
fn aligned_pair(function: &Function, low: Part, high: Part) -> Option<Part> {
    let is_pair = high.value == low.value && high.first == low.first + 1 && low.first.is_multiple_of(2);
    (is_pair && function.values[low.value].align >= 2).then_some(Part { count: 2, ..low })
}
