//! Simplifies integer instructions with operands that are known at compile time.
//!
//! 64-bit integers are computed as two halves, of which one is often known at compile time: the upper half of a zero-extended integer is
//! zero, and a shift by 32 moves one half to the place of the other. [`SimplifyRule`] lists the rewrites. Examples:
//!
//! ```text
//! %2:R = SHF.R.U64 %0, 0x20, %1              becomes   %2:R = COPY %1
//! %2:R = IMAD %0, RZ, %1                     becomes   %2:R = COPY %1
//! %2:R = LOP3.LUT %0, -1, RZ, 0xc0, !PT      becomes   %2:R = COPY %0
//!
//! %2:R = SHF.L.U32 %0, 0xd, RZ               (a << 13) + (b >> 19): a carry is not possible
//! %3:R = SHF.R.U32.HI RZ, 0x13, %1
//! %4:R, %5:P, PT = IADD3 %2, %3, RZ          becomes   %4:R = SHF.L.W.U32.HI %1, 0xd, %0
//! %6:R, PT, PT = IADD3.X %0, RZ, RZ, %5, !PT becomes   %6:R = COPY %0
//! ```
//!
//! A rotation of a 64-bit number, which PTX writes as two shifts and a sum or a disjunction, thus becomes two funnel shifts, or a copy of
//! each half if it rotates by 32. The pass runs twice: first so that the passes for products, loops and addresses see the simple
//! instructions, and again after unrolling, which makes more operands known. A test interprets programs for every rule before and after the
//! pass (`tests/simplify_rules.rs`).
//!
//! **Before**: SSA. **After**: SSA; every new instruction is encodable. One walk in layout order; the cost is linear in the size of the
//! function, because facts about an operand are derived from a bounded number of instructions.

mod permute;

pub(crate) use permute::{ByteSource, byte_sources_of_operand};

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role};
use oriole_isa::{Opcode, Symbol, Symbols};
use smallvec::{SmallVec, smallvec};

use crate::dead;
use crate::definitions::Definitions;
use crate::known::{LUT_AND, OperandFacts, evaluate_logic};
use crate::legalize::EncodabilityCache;
use crate::rewrite::{InstDraft, InstPrelude};
use crate::unknown_facts::UnknownFacts;

/// A kind of rewrite that the pass makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimplifyRule {
    /// A shift by a known distance becomes a copy or a simpler shift, because it moves whole 32-bit words, or because half of the shifted
    /// register pair is zero.
    Shift,
    /// A multiply-add with a zero factor becomes a copy of its addend.
    Product,
    /// A logic operation whose result is one of its sources or a constant becomes a copy of that source or constant.
    Logic,
    /// A sum with at most one nonzero summand becomes a copy of that summand.
    Sum,
    /// The carry result of a sum that never carries is replaced by a predicate that is known to be false.
    NoCarry,
    /// A sum with carry inputs that are always false becomes a sum without carry inputs.
    NoCarryIn,
    /// A sum or logic operation that joins the bits of two opposite shifts, `(a << n) + (b >> (32 - n))`, becomes a funnel shift.
    Funnel,
    /// A selection between equal operands, or by a known predicate, becomes a copy.
    Select,
    /// A permutation of bytes (`PRMT`, or a `LOP3` that clears whole bytes) whose sources are permutations, masks or shifts by whole bytes
    /// becomes a `PRMT` of their sources, or a copy.
    Permutation,
}

impl SimplifyRule {
    /// All rules.
    pub const ALL: [SimplifyRule; 9] = [
        SimplifyRule::Shift,
        SimplifyRule::Product,
        SimplifyRule::Logic,
        SimplifyRule::Sum,
        SimplifyRule::NoCarry,
        SimplifyRule::NoCarryIn,
        SimplifyRule::Funnel,
        SimplifyRule::Select,
        SimplifyRule::Permutation,
    ];
}

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of applications of each rule, in the order of [`SimplifyRule::ALL`].
    pub applied: [usize; SimplifyRule::ALL.len()],
}

/// Simplifies the instructions of a whole function, and deletes those that became dead.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    let mut simplifier = Simplifier {
        definitions: Definitions::compute(function),
        unknown_facts: UnknownFacts::new(function),
        encodability: encodability.take_cache(),
        stats: Stats::default(),
    };
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut all = Vec::with_capacity(insts.len());
        for inst in insts {
            all.extend(simplifier.simplify_inst(function, inst));
            all.push(inst);
        }
        function.blocks[block].insts = all;
    }
    let stats = simplifier.stats;
    simplifier.encodability.put_back_cache(encodability);
    if stats != Stats::default() {
        dead::run(function, encodability.target());
    }
    stats
}

/// State of the simplification pass for one function.
struct Simplifier {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// The values about which nothing was found so far.
    unknown_facts: UnknownFacts,
    /// Answers whether the target can encode an instruction.
    encodability: EncodabilityCache,
    /// Numbers of changes made so far.
    stats: Stats,
}

impl Simplifier {
    /// Simplifies one instruction. Returns new instructions to insert before it.
    fn simplify_inst(&mut self, function: &mut Function, inst: Inst) -> SmallVec<[Inst; 4]> {
        let mut before = SmallVec::new();
        let Some(opcode) = function.insts[inst].op.machine() else { return before };
        let is_simplified = matches!(opcode, Opcode::SHF | Opcode::IMAD | Opcode::LOP3 | Opcode::IADD3 | Opcode::SEL | Opcode::PRMT);
        if !is_simplified || !is_plain_inst(function, inst) {
            return before;
        }
        match opcode {
            Opcode::SHF => self.simplify_shift(function, inst),
            Opcode::IMAD => self.simplify_product(function, inst),
            Opcode::LOP3 => self.simplify_logic(function, inst).or_else(|| self.simplify_permutation(function, inst)),
            Opcode::PRMT => self.simplify_permutation(function, inst),
            Opcode::SEL => self.simplify_select(function, inst),
            _ => {
                self.drop_false_carry_inputs(function, inst);
                before = self.drop_false_carry_results(function, inst);
                self.simplify_sum(function, inst)
            }
        };
        before
    }

    /// Returns the analysis that answers what is known about operands of a function.
    fn known<'a>(&'a self, function: &'a Function) -> OperandFacts<'a> {
        OperandFacts::new(function, &self.definitions).with_memory(&self.unknown_facts)
    }

    /// Returns whether an operand is known to be zero.
    fn is_known_zero(&self, function: &Function, operand: &Operand) -> bool {
        self.known(function).word(operand) == Some(0)
    }

    /// Counts one application of a rule in the statistics.
    fn count_application(&mut self, rule: SimplifyRule) {
        self.stats.applied[rule as usize] += 1;
    }

    /// Replaces an instruction by a copy of `source` to its first result, and counts the application of `rule`. `None` if the target has no
    /// instruction for the copy.
    fn replace_by_copy(&mut self, function: &mut Function, inst: Inst, source: Operand, rule: SimplifyRule) -> Option<()> {
        let result = function.results(inst)[0];
        if source.part().is_some_and(|part| function.values[part.value].file == RegFile::General) {
            function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
            function.insts[inst].modifiers = Symbols::new();
            function.set_operands(inst, &[result, source], 1);
            self.count_application(rule);
            return Some(());
        }
        let draft = InstDraft { opcode: Opcode::MOV, modifiers: Symbols::new(), operands: smallvec![result, source], result_count: 1 };
        self.replace_if_encodable(function, inst, draft, rule)
    }

    /// Overwrites an instruction with a draft, and counts the application of `rule`. Returns `None` and changes nothing if the target
    /// cannot encode the draft.
    fn replace_if_encodable(&mut self, function: &mut Function, inst: Inst, draft: InstDraft, rule: SimplifyRule) -> Option<()> {
        if !self.encodability.is_encodable(function, inst, &draft) {
            return None;
        }
        draft.overwrite_inst(function, inst);
        self.count_application(rule);
        Some(())
    }

    /// Simplifies a `SHF` with a known shift distance to a copy or a simpler shift. Returns `None` if nothing changed.
    fn simplify_shift(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let ([result], &[low, amount, high]) = (function.results(inst), function.sources(inst)) else { return None };
        let result = *result;
        if !low.signs.is_empty() || !high.signs.is_empty() {
            return None;
        }
        let distance = self.known(function).word(&amount)?;
        let has_high = !self.is_known_zero(function, &high);
        let has_low = !self.is_known_zero(function, &low);
        let left = |a: Operand, by: u32| new_shift_draft(&[Symbol::L, Symbol::U32], result, [a, by.into(), Operand::RZ]);
        let right = |a: Operand, by: u32| new_shift_draft(&[Symbol::R, Symbol::U32, Symbol::HI], result, [Operand::RZ, by.into(), a]);
        let right_signed =
            |a: Operand, by: u32| new_shift_draft(&[Symbol::R, Symbol::S32, Symbol::HI], result, [Operand::RZ, by.into(), a]);
        let zero = Operand::RZ;
        let simpler = match (function.insts[inst].modifiers.as_slice(), distance) {
            ([Symbol::L, Symbol::U32], _) if has_high => return None,
            ([Symbol::L, Symbol::U32], 0) => Ok(low),
            ([Symbol::L, Symbol::U32], _) if !has_low || distance >= 32 => Ok(zero),
            ([Symbol::L, Symbol::U64, Symbol::HI], 0) => Ok(high),
            ([Symbol::L, Symbol::U64, Symbol::HI], 32) => Ok(low),
            ([Symbol::L, Symbol::U64, Symbol::HI], 64..) => Ok(zero),
            ([Symbol::L, Symbol::U64, Symbol::HI], 33..) => Err(left(low, distance - 32)),
            ([Symbol::L, Symbol::U64, Symbol::HI], _) if !has_low => Err(left(high, distance)),
            ([Symbol::R, Symbol::U64 | Symbol::S64], 0) => Ok(low),
            ([Symbol::R, Symbol::U64 | Symbol::S64], 32) => Ok(high),
            ([Symbol::R, Symbol::U64], 64..) => Ok(zero),
            ([Symbol::R, Symbol::U64], 33..) => Err(right(high, distance - 32)),
            ([Symbol::R, Symbol::S64], 33..) => Err(right_signed(high, (distance - 32).min(31))),
            ([Symbol::R, Symbol::U64 | Symbol::S64], _) if !has_high => Err(right(low, distance)),
            ([Symbol::R, Symbol::U32 | Symbol::S32, Symbol::HI], _) if has_low => return None,
            ([Symbol::R, Symbol::U32 | Symbol::S32, Symbol::HI], 0) => Ok(high),
            ([Symbol::R, Symbol::U32 | Symbol::S32, Symbol::HI], _) if !has_high => Ok(zero),
            ([Symbol::R, Symbol::U32, Symbol::HI], 32..) => Ok(zero),
            _ => return None,
        };
        match simpler {
            Ok(source) => self.replace_by_copy(function, inst, source, SimplifyRule::Shift),
            Err(draft) => self.replace_if_encodable(function, inst, draft, SimplifyRule::Shift),
        }
    }

    /// Turns an `IMAD` with a factor of zero into a copy of its addend. Returns `None` if nothing changed.
    fn simplify_product(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let ([_], &[a, b, c]) = (function.results(inst), function.sources(inst)) else { return None };
        let is_word = matches!(function.insts[inst].modifiers.as_slice(), [] | [Symbol::U32]);
        let is_absent = is_word && c.signs.is_empty() && (self.is_known_zero(function, &a) || self.is_known_zero(function, &b));
        if is_absent { self.replace_by_copy(function, inst, c, SimplifyRule::Product) } else { None }
    }

    /// Replaces a `LOP3` by a copy if its result is one of its sources, zero or all ones, and by a funnel shift if it joins the bits of two
    /// opposite shifts. Returns `None` if nothing changed.
    fn simplify_logic(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let ([_], &[a, b, c, table, never]) = (function.results(inst), function.sources(inst)) else { return None };
        let table = table.integer()?;
        let is_logic = function.insts[inst].modifiers.as_slice() == [Symbol::LUT] && never == Operand::PT.inverted_predicate();
        let sources = [a, b, c];
        if !is_logic || sources.iter().any(|source| !source.signs.is_empty()) {
            return None;
        }
        let words = sources.map(|source| self.known(function).word(&source));
        // Each source is a column of the truth table: bit n is the value of the source in row n. A source that is known to be all zeros or
        // all ones has a constant column.
        let column = |at: usize| match words[at] {
            Some(0) => 0,
            Some(u32::MAX) => 0xff,
            _ => [0xf0, 0xcc, 0xaa][at],
        };
        let columns = [column(0), column(1), column(2)];
        // An AND with a mask of the lower bits changes nothing if the mask covers all bits of `a` that may be set.
        let mask = words[1].filter(|_| table == LUT_AND).map(u64::from);
        if mask.is_some_and(|mask| mask & (mask + 1) == 0 && self.known(function).upper_bound(&a) <= mask) && a.part().is_some() {
            return self.replace_by_copy(function, inst, a, SimplifyRule::Logic);
        }
        let value = evaluate_logic(table, columns[0], columns[1], columns[2]) & 0xff;
        if value == 0 || value == 0xff {
            let number = if value == 0 { Operand::RZ } else { Operand::from(u32::MAX) };
            return self.replace_by_copy(function, inst, number, SimplifyRule::Logic);
        }
        if let Some(at) = (0..3).find(|&at| columns[at] == value && sources[at].part().is_some()) {
            return self.replace_by_copy(function, inst, sources[at], SimplifyRule::Logic);
        }
        let shifted: SmallVec<[usize; 3]> = (0..3).filter(|&at| words[at] != Some(0)).collect();
        let &[first, second] = shifted.as_slice() else { return None };
        // Two opposite shifts have no set bit in common, so the rows of the table in which both bits are set do not matter.
        let both = columns[first] & columns[second];
        if value & !both != (columns[first] | columns[second]) & !both {
            return None;
        }
        self.form_funnel_shift(function, inst, sources[first], sources[second])
    }

    /// Replaces a `SEL` of equal operands, or with a known predicate, by a copy. Returns `None` if nothing changed.
    fn simplify_select(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let ([_], &[a, b, predicate]) = (function.results(inst), function.sources(inst)) else { return None };
        if !function.insts[inst].modifiers.is_empty() || !a.signs.is_empty() || !b.signs.is_empty() {
            return None;
        }
        let words = [a, b].map(|source| self.known(function).word(&source));
        let is_same = a.kind == b.kind || words[0].is_some() && words[0] == words[1];
        let chosen = match self.known(function).truth(&predicate) {
            _ if is_same => a,
            Some(true) => a,
            Some(false) => b,
            None => return None,
        };
        // A selected constant is moved as an immediate.
        let chosen = match self.known(function).word(&chosen) {
            Some(0) => Operand::RZ,
            Some(number) => Operand::from(number),
            None => chosen,
        };
        self.replace_by_copy(function, inst, chosen, SimplifyRule::Select)
    }

    /// Replaces an `IADD3.X` whose carry inputs are always false by an `IADD3`, which has no carry inputs. Returns `None` if nothing
    /// changed.
    fn drop_false_carry_inputs(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let &[a, b, c, carry, other] = function.sources(inst) else { return None };
        let is_never = |operand: &Operand| self.known(function).truth(operand) == Some(false);
        let is_plain = [a, b, c].iter().all(|source| source.signs.is_empty());
        let is_sum = function.insts[inst].modifiers.as_slice() == [Symbol::X] && is_plain && is_never(&carry) && is_never(&other);
        if !is_sum {
            return None;
        }
        let results = function.insts[inst].result_count();
        let operands = function.operands(inst)[..results + 3].iter().copied().collect();
        let draft = InstDraft { opcode: Opcode::IADD3, modifiers: Symbols::new(), operands, result_count: results };
        self.replace_if_encodable(function, inst, draft, SimplifyRule::NoCarryIn)
    }

    /// If a sum never carries, defines its carry results by a separate instruction as predicates that are always false. Returns that
    /// instruction, to insert before `inst`.
    fn drop_false_carry_results(&mut self, function: &mut Function, inst: Inst) -> SmallVec<[Inst; 4]> {
        let mut prelude = InstPrelude::before(function, inst);
        let (&[sum, carry, other], &[a, b, c]) = (function.results(inst), function.sources(inst)) else { return prelude.insts };
        let is_read = carry.value().is_some() || other.value().is_some();
        if !is_read || !function.insts[inst].modifiers.is_empty() {
            return prelude.insts;
        }
        let known = self.known(function);
        let most = known.upper_bound_of_sum(&[a, b, c]);
        let operands: SmallVec<[Operand; 8]> = smallvec![sum, Operand::PT, Operand::PT, a, b, c];
        let draft = InstDraft { opcode: Opcode::IADD3, modifiers: Symbols::new(), operands, result_count: 3 };
        if most > u64::from(u32::MAX) || self.replace_if_encodable(function, inst, draft, SimplifyRule::NoCarry).is_none() {
            return prelude.insts;
        }
        let operands = [carry, other, Operand::PT, Operand::PT, Operand::PT, 0.into(), 0.into()];
        prelude.push(function, Op::Machine(Opcode::PLOP3), &[Symbol::LUT], &operands, 2);
        for &new in &prelude.insts {
            function.defined(new).for_each(|value| self.definitions.set_definition(value, new));
        }
        prelude.insts
    }

    /// Replaces an `IADD3` by a copy if at most one summand is not zero, and by a funnel shift if it adds two opposite shifts. Returns
    /// `None` if nothing changed.
    fn simplify_sum(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let has_carry = function.results(inst).iter().skip(1).any(|result| result.value().is_some());
        if !function.insts[inst].modifiers.is_empty() || has_carry || function.sources(inst).len() != 3 {
            return None;
        }
        if function.sources(inst).iter().any(|source| !source.signs.is_empty()) {
            return None;
        }
        let terms: SmallVec<[Operand; 3]> =
            function.sources(inst).iter().copied().filter(|source| !self.is_known_zero(function, source)).collect();
        match *terms.as_slice() {
            [] => self.replace_by_copy(function, inst, Operand::RZ, SimplifyRule::Sum),
            [term] => self.replace_by_copy(function, inst, term, SimplifyRule::Sum),
            [first, second] => self.form_funnel_shift(function, inst, first, second),
            _ => None,
        }
    }

    /// Replaces the sum or OR of `a << n` and `b >> (32 - n)` by a funnel shift. Returns `None` if the sources are not such shifts.
    fn form_funnel_shift(&mut self, function: &mut Function, inst: Inst, first: Operand, second: Operand) -> Option<()> {
        let (high, low, distance) = [(first, second), (second, first)].into_iter().find_map(|(left, right)| {
            let [high, distance, zero] = self.match_shift(function, &left, &[Symbol::L, Symbol::U32])?;
            let [other_zero, complement, low] = self.match_shift(function, &right, &[Symbol::R, Symbol::U32, Symbol::HI])?;
            let [distance, complement] = [self.known(function).word(&distance)?, self.known(function).word(&complement)?];
            let is_opposite = (1..32).contains(&distance) && distance.checked_add(complement) == Some(32);
            let is_single = self.is_known_zero(function, &zero) && self.is_known_zero(function, &other_zero);
            (is_opposite && is_single).then_some((high, low, distance))
        })?;
        let result = function.results(inst)[0];
        let draft = new_shift_draft(&[Symbol::L, Symbol::W, Symbol::U32, Symbol::HI], result, [low, distance.into(), high]);
        self.replace_if_encodable(function, inst, draft, SimplifyRule::Funnel)
    }

    /// If an operand is computed by a shift with these modifiers, returns the sources of the shift; otherwise `None`.
    fn match_shift(&self, function: &Function, operand: &Operand, modifiers: &[Symbol]) -> Option<[Operand; 3]> {
        let part: Part = self.definitions.origin(function, operand.part().filter(|part| part.count == 1)?);
        let shift = self.definitions.unguarded_definition_of(function, part.value)?;
        let is_shift = function.insts[shift].is_machine(Opcode::SHF) && function.insts[shift].modifiers.as_slice() == modifiers;
        let sources: [Operand; 3] = function.sources(shift).try_into().ok()?;
        (is_shift && is_plain_inst(function, shift)).then_some(sources)
    }
}

/// Returns whether an instruction has no guard, only plain operands without suffixes (no tied operands, no addresses), and writes whole
/// values.
fn is_plain_inst(function: &Function, inst: Inst) -> bool {
    let is_plain = |operand: &Operand| operand.role == Role::Plain && operand.suffixes().next().is_none();
    let is_whole = |part: Part| part == function.whole(part.value);
    let writes_whole = function.results(inst).iter().all(|result| match result.kind {
        OperandKind::Value(part) => is_whole(part),
        _ => true,
    });
    function.insts[inst].guard.is_none() && writes_whole && function.operands(inst).iter().all(is_plain)
}

/// Returns the draft of a `SHF` with these modifiers, which shifts the register pair `high:low` by `distance` bits.
fn new_shift_draft(modifiers: &[Symbol], result: Operand, [low, distance, high]: [Operand; 3]) -> InstDraft {
    let operands = smallvec![result, low, distance, high];
    InstDraft { opcode: Opcode::SHF, modifiers: modifiers.iter().copied().collect(), operands, result_count: 1 }
}
