//! Folds known constants into instructions and constant additions into address offsets.
//!
//! A register that is known to hold a compile-time constant or a word of a constant bank is replaced by that constant or word in every
//! instruction that has an encoding form for it; kernel parameters thus become constant-bank operands. If the base of an address is a
//! register plus a constant, the register becomes the base and the constant is added to the offset: `x = a + 16; load [x + 4]` becomes
//! `load [a + 20]`. Chains of additions of constants are combined. Each change is checked against the encoding forms of the target, and
//! sources may be swapped to make it fit. Definitions that are no longer read are left to dead-code elimination.
//!
//! Asynchronous copies that copy all bytes or none are given simpler addresses and predicates ([`fills`]).
//!
//! **64-bit addresses** are register pairs: the addition of the low halves writes a carry that the addition of the high halves reads. The
//! 64-bit sum is folded only if both halves come from such a pair of additions, because only then is it exact. If the halves of the base
//! are not an aligned register pair, a `PACK` after the later one of their definitions joins them; all addresses with the same halves share
//! one pack.
//!
//! **Known results.** An integer or single-precision operation whose operands are all constants becomes a move of its result
//! (`evaluate.rs`, `evaluate_float.rs`); one whose
//! predicate result is known becomes a constant `PLOP3`. A branch on a known predicate becomes unconditional, or is removed.

use crate::alternatives::{Alternatives, mnemonic_with_modifiers};
use crate::definitions::{Definitions, KnownWord};
use crate::known::OperandFacts;
use crate::legalize::{EncodabilityCache, order};
use crate::rewrite::{InstDraft, InstPrelude, single_register};
use crate::straighten;
use bases::PackedAddressBases;
use constant_sources::KnownResults;
use evaluate::evaluate;
use oriole_ir::analysis::remove_unreachable_blocks;
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Signs, Target};
use oriole_isa::{Effect, Opcode, Pipe, RegFile, Symbol};
use smallvec::{SmallVec, smallvec};

mod addresses;
mod bases;
mod constant_sources;
mod evaluate;
mod evaluate_float;
mod fills;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of operands replaced by immediates, constant-bank words or the zero register.
    pub constants: usize,
    /// Number of constant additions that were folded into address offsets.
    pub offsets: usize,
    /// Number of constant additions that were combined with another constant addition.
    pub sums: usize,
    /// Number of instructions replaced by moves of their known results.
    pub results: usize,
    /// Number of conditional branches that became unconditional or were removed, because their predicate is known.
    pub branches: usize,
}

/// Maximum number of constant additions to fold into the offset of one address.
const MAX_FOLDED_ADDITIONS: usize = 8;

/// Returns whether the pass computes the results of instructions with this opcode if all their sources are compile-time constants.
pub(crate) fn evaluates(opcode: Opcode) -> bool {
    evaluate::evaluate_fn_of(opcode).is_some()
}

/// Folds known constants into instructions, and constant additions into address offsets, in a whole function. Returns the numbers of
/// changes.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    run_and_record_alternatives(function, encodability, &mut Alternatives::default())
}

/// Runs the pass like [`run`], and records the constants and offsets that were not folded because the target has no encoding for the
/// result.
pub fn run_and_record_alternatives(
    function: &mut Function,
    encodability: &mut EncodabilityCache,
    alternatives: &mut Alternatives,
) -> Stats {
    let mut folder = OperandFolder {
        definitions: Definitions::compute(function),
        encodability: encodability.take_cache(),
        bases: PackedAddressBases::default(),
        alternatives: std::mem::take(alternatives),
        stats: Stats::default(),
    };
    folder.fold_known_results(function);
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for number in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[number];
            if let Some(opcode) = function.insts[inst].op.machine() {
                folder.fold_inst(function, inst, opcode);
            }
        }
    }
    folder.encodability.put_back_cache(encodability);
    *alternatives = std::mem::take(&mut folder.alternatives);
    folder.bases.insert_packs(function);
    folder.stats.branches = fold_known_branches(function, &folder.definitions, encodability.target());
    folder.stats
}

/// Makes branches on known predicates unconditional, and removes blocks that become unreachable. Returns the number of branches changed.
fn fold_known_branches(function: &mut Function, definitions: &Definitions, target: Target) -> usize {
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

/// State of constant folding for one function.
struct OperandFolder {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// Answers whether the target can encode an instruction.
    encodability: EncodabilityCache,
    /// The 64-bit bases that the pass has packed into register pairs.
    bases: PackedAddressBases,
    /// The foldings that the target has no encoding for, for `oriole explain`.
    alternatives: Alternatives,
    /// Numbers of changes made so far.
    stats: Stats,
}

impl OperandFolder {
    /// Applies all foldings of the pass to one instruction.
    fn fold_inst(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        // Texture and surface instructions read all their operands from registers. An H200 reports an illegal instruction for the zero
        // register as a source of `TXQ`, and ptxas uses the zero register in no texture instruction.
        if opcode.properties().pipe == Pipe::Tex {
            return;
        }
        self.combine_constant_additions(function, inst, opcode);
        self.remove_zero_fill(function, inst, opcode);
        self.fold_known_predicates(function, inst, opcode);
        self.fold_full_warpsync_mask(function, inst, opcode);
        let opcode = self.fold_zero_product(function, inst, opcode);
        let opcode = self.fold_equal_upper_words(function, inst, opcode);
        let takes_immediates = opcode.properties().effect == Effect::None || opcode == Opcode::SHFL;
        while self.fold_one_constant_operand(function, inst, opcode, takes_immediates) {
            self.stats.constants += 1;
        }
        if self.alternatives.is_recording() {
            self.record_rejected_constants(function, inst, opcode, takes_immediates);
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

    /// Records, for `oriole explain`, the operands of known content that stay in registers because the instruction has no encoding with a
    /// constant there.
    fn record_rejected_constants(&mut self, function: &Function, inst: Inst, opcode: Opcode, takes_immediates: bool) {
        let results = function.insts[inst].result_count();
        for (number, operand) in function.sources(inst).iter().enumerate() {
            let Some(part) = operand.part().filter(|_| operand.role == Role::Plain) else { continue };
            let Some(constant) = self.known_operand_as_constant(function, inst, opcode, results + number, part, takes_immediates) else {
                continue;
            };
            let text = match constant.kind {
                OperandKind::Integer(value) => format!("the number {value:#x}"),
                OperandKind::Constant { bank, offset } => format!("c[{bank:#x}][{offset:#x}]"),
                _ => "the zero register".to_owned(),
            };
            self.alternatives.reject("fold", inst, || {
                let form = format!("{} with {text} as source {}", mnemonic_with_modifiers(function, inst), number + 1);
                (form, "the target has no encoding for it with the other operands, in any order of the sources".to_owned())
            });
        }
    }

    /// Turns each instruction of a function into moves of constants if its results are compile-time constants.
    fn fold_known_results(&mut self, function: &mut Function) {
        for at in 0..function.layout.len() {
            let block = function.layout[at];
            let insts = std::mem::take(&mut function.blocks[block].insts);
            let mut all = Vec::with_capacity(insts.len());
            for inst in insts {
                if let Some(opcode) = function.insts[inst].op.machine() {
                    all.extend(self.fold_known_result(function, inst, opcode));
                }
                all.push(inst);
            }
            function.blocks[block].insts = all;
        }
    }

    /// If the results of an instruction are compile-time constants, replaces it by moves of these constants. Returns new instructions to
    /// insert before it.
    fn fold_known_result(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) -> SmallVec<[Inst; 4]> {
        let is_plain = function.insts[inst].guard.is_none() && function.operands(inst).iter().all(|operand| operand.role == Role::Plain);
        let known = if is_plain { evaluate(function, &self.definitions, inst, opcode) } else { None };
        match known {
            Some(results) => self.replace_by_constants(function, inst, opcode, results),
            None => SmallVec::new(),
        }
    }

    /// Replaces an instruction by moves of its known `results`. Returns new instructions to insert before it.
    fn replace_by_constants(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, results: KnownResults) -> SmallVec<[Inst; 4]> {
        let mut prelude = InstPrelude::before(function, inst);
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
            let draft = InstDraft { opcode: Opcode::PLOP3, modifiers: [Symbol::LUT].into_iter().collect(), operands, result_count: 2 };
            if numbers.is_empty() && predicates.len() == 2 && !is_done && self.encodability.is_encodable(function, inst, &draft) {
                draft.overwrite_inst(function, inst);
                self.stats.results += 1;
            }
            return prelude.insts;
        };
        let Some(part) = result.part().filter(|part| *part == function.whole(part.value)) else { return prelude.insts };
        if function.values[part.value].file != RegFile::General || part.count > 2 {
            return prelude.insts;
        }
        // A move cannot write carries, so a separate `PLOP3` writes them.
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
            InstDraft { opcode: Opcode::MOV, modifiers: [].into_iter().collect(), operands, result_count: 1 }
                .overwrite_inst(function, inst);
        } else {
            let halves = words.iter().map(|&word| prelude.emit_definition(function, Class::R, Opcode::MOV, &[], &[Operand::from(word)]));
            let operands: SmallVec<[Operand; 4]> = halves.collect();
            let operands: SmallVec<[Operand; 4]> = std::iter::once(result).chain(operands).collect();
            function.insts[inst].op = Op::Pseudo(Pseudo::Pack);
            function.insts[inst].modifiers = [].into_iter().collect();
            function.set_operands(inst, &operands, 1);
        }
        for &new in &prelude.insts {
            function.defined(new).for_each(|value| self.definitions.set_definition(value, new));
        }
        self.stats.results += 1;
        prelude.insts
    }

    /// Makes each predicate source that is known to be true or false `PT` or `!PT`.
    fn fold_known_predicates(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            let operand = function.operands(inst)[at];
            let is_predicate = operand.part().is_some_and(|part| function.values[part.value].file == RegFile::Predicate);
            if !is_predicate || operand.role != Role::Plain {
                continue;
            }
            let Some(truth) = OperandFacts::new(function, &self.definitions).truth(&operand) else { continue };
            let known = if truth { Operand::PT } else { Operand::PT.inverted_predicate() };
            let mut draft = InstDraft::from_inst(function, inst, opcode);
            draft.operands[at] = known;
            if self.encodability.is_encodable(function, inst, &draft) {
                draft.overwrite_inst(function, inst);
                self.stats.constants += 1;
            }
        }
    }

    /// Turns a multiply-add with a zero factor into a move of the addend. Returns the opcode of the instruction afterwards.
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
            InstDraft { opcode: Opcode::MOV, modifiers: [].into_iter().collect(), operands: smallvec![result, summand], result_count: 1 };
        if !self.encodability.is_encodable(function, inst, &moved) {
            return opcode;
        }
        moved.overwrite_inst(function, inst);
        self.stats.results += 1;
        Opcode::MOV
    }

    /// A 64-bit comparison has two instructions, the second of which compares the upper words. If both upper words are known to be zero,
    /// replaces the second instruction by a copy of the predicate that the first one computes. Returns the opcode of the instruction
    /// afterwards.
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
        let copy = InstDraft { opcode: Opcode::PLOP3, modifiers: [Symbol::LUT].into_iter().collect(), operands, result_count: 2 };
        if !self.encodability.is_encodable(function, inst, &copy) {
            return opcode;
        }
        copy.overwrite_inst(function, inst);
        self.stats.results += 1;
        Opcode::PLOP3
    }

    /// Returns whether a source is a 32-bit operand that is known to be zero.
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

    /// Replaces a `WARPSYNC` whose mask register is known to contain all threads by a form without a mask register. The pass `converge`
    /// then recognizes it as a synchronization of all threads, and deletes it where the warp is converged.
    fn fold_full_warpsync_mask(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        if opcode != Opcode::WARPSYNC || !function.insts[inst].modifiers.is_empty() {
            return;
        }
        let &[mask] = function.operands(inst) else { return };
        let Some(part) = mask.part().filter(|part| part.count == 1 && function.values[part.value].file == RegFile::General) else { return };
        if self.definitions.known_content(function, part) != Some(KnownWord::Integer(u32::MAX)) {
            return;
        }
        let all = InstDraft { opcode, modifiers: [Symbol::ALL].into_iter().collect(), operands: SmallVec::new(), result_count: 0 };
        let full =
            InstDraft { operands: smallvec![Operand::from(i64::from(u32::MAX))], modifiers: [].into_iter().collect(), ..all.clone() };
        let fitting = [all, full].into_iter().find(|draft| self.encodability.is_encodable(function, inst, draft));
        if let Some(draft) = fitting {
            draft.overwrite_inst(function, inst);
            self.stats.constants += 1;
        }
    }

    /// Replaces one source by its known content. Returns whether a source was replaced. Sources of several registers are tried first
    /// because they free the most registers.
    fn fold_one_constant_operand(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, takes_immediates: bool) -> bool {
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
            let constant = self.known_operand_as_constant(function, inst, opcode, at, part, takes_immediates);
            constant.is_some_and(|constant| self.try_replace_operand(function, inst, opcode, at, constant))
        })
    }

    /// Returns the known content of operand number `at` as an immediate, constant-bank or zero-register operand; `None` if the content is
    /// unknown or the instruction cannot have such an operand. `takes_immediates` says whether the instruction can have any constant other
    /// than zero.
    fn known_operand_as_constant(
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
        // `.XORSIGN` takes the sign of the result from the source with the absolute-value modifier; an immediate would lose that sign.
        let keeps_sign = function.insts[inst].modifiers.contains(&Symbol::XORSIGN) && operand.signs.has(Signs::ABSOLUTE);
        // -2^31 is its own negative in 32 bits, so applying the negation to the constant would turn `x - -2^31` into `x + -2^31`, which
        // saturates differently.
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

    /// Replaces operand number `at` by `operand` if the target can encode the result, possibly with the sources in another order. Returns
    /// whether the instruction was changed.
    fn try_replace_operand(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize, operand: Operand) -> bool {
        let mut draft = InstDraft::from_inst(function, inst, opcode);
        draft.operands[at] = operand;
        if self.encodability.is_encodable(function, inst, &draft) {
            draft.overwrite_inst(function, inst);
            return true;
        }
        let fitting =
            order::equivalent_source_orders(&draft).into_iter().skip(1).find(|draft| self.encodability.is_encodable(function, inst, draft));
        fitting.map(|draft| draft.overwrite_inst(function, inst)).is_some()
    }
}

/// Returns whether operand number `at` is the 64-bit addend of a widening multiply-add.
fn is_wide_addend(function: &Function, inst: Inst, at: usize) -> bool {
    let is_wide = function.insts[inst].modifiers.contains(&Symbol::WIDE);
    is_wide && function.operands(inst)[at].part().is_some_and(|part| part.count == 2)
}
