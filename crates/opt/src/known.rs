//! Derives facts about single registers and predicates at compile time: constants, upper bounds and truth values.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Signs, Value};
use oriole_isa::{Opcode, Symbol};
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::unknown_facts::{MAX_DEPENDENCE_CHAIN, UnknownFacts};

/// Truth table of `LOP3` for the bitwise AND of its first two sources.
pub(crate) const LUT_AND: i64 = 0xc0;

/// Truth table of `LOP3` for the bitwise OR of its first two sources.
pub(crate) const LUT_OR: i64 = 0xfc;

/// Derives facts about the operands of a function (constants, upper bounds, truth values) from their definitions, on demand.
#[derive(Clone, Copy)]
pub(crate) struct OperandFacts<'a> {
    /// The analyzed function.
    function: &'a Function,
    /// For each value, the instruction that defines it.
    definitions: &'a Definitions,
    /// Number of instructions between the queried operand and the operand that is analyzed now; at most [`MAX_DEPENDENCE_CHAIN`].
    depth: usize,
    /// An assumption for case analysis: this value is this constant. `None` if nothing is assumed.
    assumed: Option<(Value, u32)>,
    /// The values about which nothing was found so far; `None` if the caller has no such memory.
    unknown: Option<&'a UnknownFacts>,
}

/// Maximum number of constants that nested selections (`SEL`) may choose from; with more, nothing is derived.
const MAX_SELECTED_CONSTANTS: usize = 4;

/// A value that is one of a few constants, chosen by a `SEL` whose sources may be `SEL`s too.
struct ConstantSelection {
    /// The result of the `SEL`.
    value: Value,
    /// The possible constants if the predicate is true, and those if it is false. There are several if that source is the result of another
    /// `SEL`.
    constants: [SmallVec<[u32; MAX_SELECTED_CONSTANTS]>; 2],
    /// The predicate of the `SEL`.
    predicate: Operand,
}

impl<'a> OperandFacts<'a> {
    /// Creates the analysis; it computes nothing in advance.
    pub(crate) fn new(function: &'a Function, definitions: &'a Definitions) -> OperandFacts<'a> {
        OperandFacts { function, definitions, depth: 0, assumed: None, unknown: None }
    }

    /// Returns the same analysis with a memory of the values about which nothing is known.
    pub(crate) fn with_memory(self, unknown: &'a UnknownFacts) -> OperandFacts<'a> {
        OperandFacts { unknown: Some(unknown), ..self }
    }

    /// Returns the memory of the values about which nothing is known; `None` under an assumption, which makes more values constant.
    fn memory(&self) -> Option<&'a UnknownFacts> {
        self.unknown.filter(|_| self.assumed.is_none())
    }

    /// Returns the analysis with a depth greater by one, to analyze the sources of an instruction; `None` beyond the maximum depth.
    fn one_level_deeper(self) -> Option<OperandFacts<'a>> {
        (self.depth < MAX_DEPENDENCE_CHAIN).then_some(OperandFacts { depth: self.depth + 1, ..self })
    }

    /// Returns the value that an operand reads (with copies followed to the original) and the instruction that defines it; `None` if the
    /// instruction is guarded, or if the operand is not a whole single register.
    pub(crate) fn definition_of_operand(&self, operand: &Operand) -> Option<(Value, Inst)> {
        self.definition_of_register(operand.part()?)
    }

    /// Does the same for a part of a value; `None` if it is not a whole single register.
    fn definition_of_register(&self, part: Part) -> Option<(Value, Inst)> {
        let part = self.definitions.origin(self.function, Some(part).filter(|part| part.count == 1)?);
        let is_single = self.function.values[part.value].width == 1;
        Some((part.value, self.definitions.unguarded_definition_of(self.function, part.value).filter(|_| is_single)?))
    }

    /// Returns whether an instruction has exactly these modifiers.
    fn has_exactly_modifiers(&self, inst: Inst, expected: &[Symbol]) -> bool {
        self.function.insts[inst].modifiers.as_slice() == expected
    }

    /// Returns whether an instruction has this modifier, possibly among others.
    fn has_modifier(&self, inst: Inst, expected: Symbol) -> bool {
        self.function.insts[inst].modifiers.contains(&expected)
    }

    /// Returns the content of a 32-bit operand if it is a compile-time constant; otherwise `None`.
    pub(crate) fn word(self, operand: &Operand) -> Option<u32> {
        if !operand.signs.is_empty() {
            return None;
        }
        match operand.kind {
            OperandKind::Integer(number) => Some(number as u32),
            OperandKind::Zero(RegFile::General | RegFile::Uniform) => Some(0),
            OperandKind::Value(part) => {
                // Most values are results of other instructions, of which nothing is known.
                let definition = self.function.insts[self.definitions.definition_of(part.value)?].op;
                if self.assumed.is_none() && !may_have_constant_result(definition) {
                    return None;
                }
                self.word_of_register(part, definition)
            }
            _ => None,
        }
    }

    /// Returns the content of a register if it is a compile-time constant; otherwise `None`. `definition` is the operation that defines it.
    fn word_of_register(self, part: Part, definition: Op) -> Option<u32> {
        if part.count == 1
            && may_copy_word(definition)
            && let Some(KnownWord::Integer(number)) = self.definitions.known_content(self.function, part)
        {
            return Some(number);
        }
        let (value, inst) = self.definition_of_register(part)?;
        if let Some((_, number)) = self.assumed.filter(|assumed| assumed.0 == value) {
            return Some(number);
        }
        let memory = self.memory().map(|memory| &memory.words);
        if memory.is_some_and(|memory| memory.contains(value, self.depth)) {
            return None;
        }
        let word = self.one_level_deeper()?.constant_word_of_result(value, inst);
        if let (Some(memory), None) = (memory, word) {
            memory.insert(value, self.depth);
        }
        word
    }

    /// Returns the content of `value`, a result of `inst`, if it is a compile-time constant; otherwise `None`. Also `None` if `value` is
    /// not the first result.
    fn constant_word_of_result(self, value: Value, inst: Inst) -> Option<u32> {
        let operands = self.function.operands(inst);
        if operands[0].value() != Some(value) {
            return None;
        }
        match self.function.insts[inst].op {
            Op::Pseudo(Pseudo::Copy) if operands.len() == 2 => self.word(&operands[1]),
            Op::Machine(Opcode::MOV | Opcode::UMOV) if operands.len() == 2 && self.has_exactly_modifiers(inst, &[]) => {
                self.word(&operands[1])
            }
            Op::Machine(Opcode::LOP3 | Opcode::ULOP3)
                if self.is_logic_without_predicates(inst) && !self.has_unknown_word(&operands[1..4]) =>
            {
                let [a, b, c] = [self.word(&operands[1])?, self.word(&operands[2])?, self.word(&operands[3])?];
                Some(evaluate_logic(operands[4].integer()?, a, b, c))
            }
            Op::Machine(Opcode::IADD3 | Opcode::UIADD3)
                if self.has_exactly_modifiers(inst, &[]) && operands.len() == 6 && !self.has_unknown_word(&operands[3..6]) =>
            {
                operands[3..6].iter().try_fold(0_u32, |sum, summand| Some(sum.wrapping_add(self.constant_summand(summand)?)))
            }
            Op::Machine(Opcode::IADD3 | Opcode::UIADD3)
                if self.has_exactly_modifiers(inst, &[Symbol::X]) && operands.len() == 8 && !self.has_unknown_word(&operands[3..6]) =>
            {
                let is_without_carry = self.truth(&operands[6]) == Some(false) && self.truth(&operands[7]) == Some(false);
                let sum = || Some(self.word(&operands[3])?.wrapping_add(self.word(&operands[4])?).wrapping_add(self.word(&operands[5])?));
                is_without_carry.then(sum).flatten()
            }
            _ => None,
        }
    }

    /// Returns whether one of these operands is a register that clearly has no compile-time constant, because its definition is of an operation
    /// of which [`OperandFacts::word`] knows nothing. A test of all sources of an instruction, before each of them is analyzed, saves most of
    /// the analysis: an address is often a long chain of sums and one thread index.
    fn has_unknown_word(self, operands: &[Operand]) -> bool {
        self.assumed.is_none()
            && operands.iter().filter_map(Operand::value).any(|value| {
                let definition = self.definitions.definition_of(value);
                !definition.is_some_and(|inst| may_have_constant_result(self.function.insts[inst].op))
            })
    }

    /// Returns the constant that an operand adds to a sum, with its negation applied; `None` if the operand is not a compile-time constant.
    fn constant_summand(self, operand: &Operand) -> Option<u32> {
        let number = self.word(&operand.with_signs(Signs::NONE))?;
        match operand.signs {
            Signs::NONE => Some(number),
            Signs::NEGATE => Some(number.wrapping_neg()),
            _ => None,
        }
    }

    /// Returns whether an operand is always zero: either it is known to be zero, or it depends on a selection between constants and is zero
    /// for each of them.
    pub(crate) fn is_always_zero(self, operand: &Operand) -> bool {
        if let Some(number) = self.word(operand) {
            return number == 0;
        }
        self.selection(operand).is_some_and(|selection| {
            selection
                .constants
                .iter()
                .flatten()
                .all(|&number| OperandFacts { assumed: Some((selection.value, number)), ..self }.word(operand) == Some(0))
        })
    }

    /// If a predicate operand compares the result of a selection between constants, returns the predicate that always has the same truth
    /// value; otherwise `None`. For example, `(a ? 16 : 0) != 0` is `a`.
    pub(crate) fn equivalent_predicate(self, operand: &Operand) -> Option<Operand> {
        let (_, inst) = self.definition_of_operand(operand)?;
        if !matches!(self.function.insts[inst].op, Op::Machine(Opcode::ISETP) | Op::Pseudo(Pseudo::Copy)) {
            return None;
        }
        let compared = self.function.sources(inst).first()?;
        if self.function.insts[inst].is(Pseudo::Copy) {
            let inner = self.one_level_deeper()?.equivalent_predicate(compared)?;
            return Some(if operand.signs.has(Signs::NOT) { inner.inverted_predicate() } else { inner });
        }
        let selection = self.selection(compared)?;
        let truth = |numbers: &[u32]| {
            let mut found = numbers.iter().map(|&number| OperandFacts { assumed: Some((selection.value, number)), ..self }.truth(operand));
            let first = found.next()??;
            found.all(|other| other == Some(first)).then_some(first)
        };
        match [truth(&selection.constants[0])?, truth(&selection.constants[1])?] {
            [true, true] => Some(Operand::PT),
            [true, false] => Some(selection.predicate),
            [false, true] => Some(selection.predicate.inverted_predicate()),
            [false, false] => Some(Operand::PT.inverted_predicate()),
        }
    }

    /// Returns the selection between constants that an operand depends on; `None` if the operand also depends on another value that is not
    /// constant.
    fn selection(self, operand: &Operand) -> Option<ConstantSelection> {
        let (value, inst) = self.definition_of_operand(operand)?;
        let one_level_deeper = self.one_level_deeper()?;
        let sources = self.function.sources(inst);
        match self.function.insts[inst].op {
            Op::Machine(Opcode::SEL) if self.has_exactly_modifiers(inst, &[]) && sources.len() == 3 => {
                let numbers = [one_level_deeper.possible_words(&sources[0])?, one_level_deeper.possible_words(&sources[1])?];
                Some(ConstantSelection { value, constants: numbers, predicate: sources[2] })
            }
            Op::Machine(Opcode::LOP3 | Opcode::IADD3 | Opcode::MOV) | Op::Pseudo(Pseudo::Copy) => {
                let is_unknown =
                    |source: &&Operand| source.value().is_some() && one_level_deeper.word(&source.with_signs(Signs::NONE)).is_none();
                let mut unknown = sources.iter().filter(is_unknown);
                let (source, None) = (unknown.next()?, unknown.next()) else { return None };
                one_level_deeper.selection(source)
            }
            _ => None,
        }
    }

    /// Returns all constants that an operand may be: a known word, or the constants that nested selections choose from; `None` if they are
    /// not known or too many.
    fn possible_words(self, operand: &Operand) -> Option<SmallVec<[u32; MAX_SELECTED_CONSTANTS]>> {
        if let Some(number) = self.word(operand) {
            return Some(SmallVec::from_slice(&[number]));
        }
        let (_, inst) = self.definition_of_operand(operand).filter(|_| operand.signs.is_empty())?;
        let sources = self.function.sources(inst);
        if !matches!(self.function.insts[inst].op, Op::Machine(Opcode::SEL)) || !self.has_exactly_modifiers(inst, &[]) || sources.len() != 3
        {
            return None;
        }
        let mut found = self.one_level_deeper()?.possible_words(&sources[0])?;
        found.extend(self.one_level_deeper()?.possible_words(&sources[1])?);
        (found.len() <= MAX_SELECTED_CONSTANTS).then_some(found)
    }

    /// Returns whether an instruction is a `LOP3.LUT` or `ULOP3.LUT` that writes no predicate and reads none.
    fn is_logic_without_predicates(self, inst: Inst) -> bool {
        let operands = self.function.operands(inst);
        self.has_exactly_modifiers(inst, &[Symbol::LUT])
            && operands.len() == 6
            && self.function.insts[inst].result_count() == 1
            && self.truth(&operands[5]) == Some(false)
    }

    /// Returns the truth value of a predicate operand; `None` if it is not known.
    pub(crate) fn truth(self, operand: &Operand) -> Option<bool> {
        let is_inverted = operand.signs.has(Signs::NOT);
        let truth = match operand.kind {
            OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate) => Some(true),
            OperandKind::Value(_) => {
                let (value, inst) = self.definition_of_operand(operand)?;
                self.one_level_deeper()?.constant_truth_of_result(value, inst)
            }
            _ => None,
        };
        truth.map(|truth| truth != is_inverted)
    }

    /// Returns the truth value of the predicate `value`, a result of `inst`; `None` if it is not known.
    fn constant_truth_of_result(self, value: Value, inst: Inst) -> Option<bool> {
        let operands = self.function.operands(inst);
        let result = operands.iter().position(|operand| operand.value() == Some(value))?;
        match self.function.insts[inst].op {
            Op::Pseudo(Pseudo::Copy) => self.truth(self.function.sources(inst).get(result)?),
            Op::Machine(Opcode::PLOP3) if self.has_exactly_modifiers(inst, &[Symbol::LUT]) && operands.len() == 7 => {
                let [a, b, c] = [self.truth(&operands[2])?, self.truth(&operands[3])?, self.truth(&operands[4])?];
                let row = u32::from(a) << 2 | u32::from(b) << 1 | u32::from(c);
                Some(operands[5 + result].integer()? >> row & 1 == 1)
            }
            Op::Machine(Opcode::ISETP) if result == 0 && operands.len() == 5 && self.truth(&operands[4]) == Some(true) => {
                let is_equal = self.word(&operands[2])? == self.word(&operands[3])?;
                let compares = |name: Symbol| {
                    self.has_exactly_modifiers(inst, &[name, Symbol::AND])
                        || self.has_exactly_modifiers(inst, &[name, Symbol::U32, Symbol::AND])
                };
                if compares(Symbol::EQ) { Some(is_equal) } else { compares(Symbol::NE).then_some(!is_equal) }
            }
            // A sum whose upper bound is below 2^32 has no carry.
            Op::Machine(Opcode::IADD3 | Opcode::UIADD3)
                if matches!(result, 1 | 2) && self.has_exactly_modifiers(inst, &[]) && operands.len() == 6 =>
            {
                (self.upper_bound_of_sum(&operands[3..6]) <= u64::from(u32::MAX)).then_some(false)
            }
            _ => None,
        }
    }

    /// Returns an upper bound of the sum of the unsigned values of 32-bit operands; any greater number if that bound is above 2^32 - 1.
    pub(crate) fn upper_bound_of_sum(self, summands: &[Operand]) -> u64 {
        let any = u64::from(u32::MAX);
        // Summands of which nothing is known come first: with two of them, the others need no analysis.
        let is_unknown = |source: &&Operand| self.has_unknown_bound(source);
        let unknown = summands.iter().filter(is_unknown).count() as u64 * any;
        let mut others = summands.iter().filter(|source| !is_unknown(source));
        let sum = others.try_fold(unknown, |sum, source| if sum > any { Err(sum) } else { Ok(sum + self.upper_bound(source)) });
        sum.unwrap_or_else(|sum| sum)
    }

    /// Returns whether an operand is a register that clearly has no upper bound below 2^32 - 1, because its definition is of an operation of
    /// which [`OperandFacts::upper_bound`] knows nothing.
    fn has_unknown_bound(self, operand: &Operand) -> bool {
        self.assumed.is_none()
            && operand.signs.is_empty()
            && operand.value().is_some_and(|value| {
                let definition = self.definitions.definition_of(value);
                !definition.is_some_and(|inst| may_have_bounded_result(self.function.insts[inst].op))
            })
    }

    /// Returns an upper bound of the unsigned value of a 32-bit operand. The bound is at most 2^32 - 1, or `2 * (2^32 - 1)` for an operand
    /// with a modifier such as negation.
    pub(crate) fn upper_bound(self, operand: &Operand) -> u64 {
        let any = u64::from(u32::MAX);
        if !operand.signs.is_empty() {
            // Negation makes a 32-bit summand count as up to 2^32, so a sum with two negated summands can carry twice.
            return any << 1;
        }
        if let Some(number) = self.word(operand) {
            return u64::from(number);
        }
        let Some((value, inst)) = self.definition_of_operand(operand) else { return any };
        let memory = self.memory().map(|memory| &memory.bounds);
        if memory.is_some_and(|memory| memory.contains(value, self.depth)) {
            return any;
        }
        let bound = self.upper_bound_of_result(value, inst);
        if let Some(memory) = memory.filter(|_| bound >= any) {
            memory.insert(value, self.depth);
        }
        bound
    }

    /// Returns an upper bound of the unsigned value of `value`, a result of `inst`, that is not a compile-time constant.
    fn upper_bound_of_result(self, value: Value, inst: Inst) -> u64 {
        let any = u64::from(u32::MAX);
        let Some(one_level_deeper) = self.one_level_deeper() else { return any };
        let operands = self.function.operands(inst);
        if operands[0].value() != Some(value) {
            return any;
        }
        match self.function.insts[inst].op {
            Op::Machine(Opcode::LOP3 | Opcode::ULOP3)
                if one_level_deeper.is_logic_without_predicates(inst) && operands[4].integer() == Some(LUT_AND) =>
            {
                one_level_deeper.upper_bound(&operands[1]).min(one_level_deeper.upper_bound(&operands[2])).min(any)
            }
            // The bytes that a permutation takes from the zero register are zero.
            Op::Machine(Opcode::PRMT) if self.has_exactly_modifiers(inst, &[]) && one_level_deeper.word(&operands[3]) == Some(0) => {
                let Some(selectors) = one_level_deeper.word(&operands[2]) else { return any };
                let used = (0..4).rev().find(|at| selectors >> (4 * at) & 4 == 0);
                used.map_or(0, |at| (1 << (8 * (at + 1))) - 1)
            }
            Op::Machine(Opcode::IADD3) if self.has_exactly_modifiers(inst, &[]) && operands.len() == 6 => {
                // A sum has up to three summands to analyze; counting it as two levels of depth limits the cost.
                let Some(one_level_deeper) = one_level_deeper.one_level_deeper() else { return any };
                one_level_deeper.upper_bound_of_sum(&operands[3..]).min(any)
            }
            Op::Machine(Opcode::SGXT | Opcode::USGXT) if self.has_exactly_modifiers(inst, &[Symbol::U32]) => match operands[2].integer() {
                Some(bits @ 0..=31) => (1 << bits) - 1,
                _ => any,
            },
            Op::Machine(Opcode::LDG | Opcode::LDS | Opcode::LDL | Opcode::LD | Opcode::LDC) if self.has_modifier(inst, Symbol::U8) => 0xff,
            Op::Machine(Opcode::LDG | Opcode::LDS | Opcode::LDL | Opcode::LD | Opcode::LDC) if self.has_modifier(inst, Symbol::U16) => {
                0xffff
            }
            // The lowest bits of a left shift are zero.
            Op::Machine(Opcode::SHF | Opcode::USHF) if self.has_exactly_modifiers(inst, &[Symbol::L, Symbol::U32]) => {
                match operands[2].integer() {
                    Some(bits @ 0..=31) => (one_level_deeper.upper_bound(&operands[1]).min(any) << bits).min(any) >> bits << bits,
                    _ => any,
                }
            }
            Op::Machine(Opcode::SHF | Opcode::USHF)
                if self.has_exactly_modifiers(inst, &[Symbol::R, Symbol::U32, Symbol::HI])
                    && one_level_deeper.word(&operands[1]) == Some(0) =>
            {
                match operands[2].integer() {
                    Some(bits @ 0..=31) => one_level_deeper.upper_bound(&operands[3]).min(any) >> bits,
                    _ => any,
                }
            }
            _ => any,
        }
    }
}

/// Returns whether [`OperandFacts::word`] may find a constant for a result of this operation: those of copies, and of
/// [`OperandFacts::constant_word_of_result`].
fn may_have_constant_result(op: Op) -> bool {
    match op {
        Op::Pseudo(pseudo) => matches!(pseudo, Pseudo::Copy | Pseudo::Pack),
        Op::Machine(opcode) => {
            matches!(opcode, Opcode::MOV | Opcode::UMOV | Opcode::LOP3 | Opcode::ULOP3 | Opcode::IADD3 | Opcode::UIADD3)
        }
    }
}

/// Returns whether [`Definitions::known_content`] may find the content of a result of this operation: those of copies and loads of constants.
fn may_copy_word(op: Op) -> bool {
    !matches!(op, Op::Machine(Opcode::LOP3 | Opcode::ULOP3 | Opcode::IADD3 | Opcode::UIADD3))
}

/// Returns whether [`OperandFacts::upper_bound`] may find a bound for a result of this operation: those of copies, of constants, and of its
/// rules.
fn may_have_bounded_result(op: Op) -> bool {
    may_have_constant_result(op)
        || matches!(
            op,
            Op::Machine(
                Opcode::PRMT
                    | Opcode::SGXT
                    | Opcode::USGXT
                    | Opcode::SHF
                    | Opcode::USHF
                    | Opcode::LDG
                    | Opcode::LDS
                    | Opcode::LDL
                    | Opcode::LD
                    | Opcode::LDC
            )
        )
}

/// Returns the word that a `LOP3` with this truth table computes from the words `a`, `b` and `c`.
pub(crate) fn evaluate_logic(table: i64, a: u32, b: u32, c: u32) -> u32 {
    let row = |row: u32| {
        let pick = |word: u32, bit: u32| if row >> bit & 1 == 1 { word } else { !word };
        if table >> row & 1 == 1 { pick(a, 2) & pick(b, 1) & pick(c, 0) } else { 0 }
    };
    (0..8).map(row).fold(0, |all, bits| all | bits)
}

#[cfg(test)]
mod tests {
    use oriole_ir::{Function, Operand, Signs, text};

    use super::{OperandFacts, evaluate_logic};
    use crate::definitions::Definitions;

    #[test]
    fn truth_tables_select_bits() {
        assert_eq!(evaluate_logic(0xc0, 0b1100, 0b1010, 7), 0b1000, "the conjunction of the first two");
        assert_eq!(evaluate_logic(0xfc, 0b1100, 0b1010, 7), 0b1110, "the disjunction of the first two");
        assert_eq!(evaluate_logic(0x96, 0b1100, 0b1010, 0b1111), 0b1001, "the exclusive or of all three");
    }

    /// Parses a function that consists of the instructions `body`. Returns the function and the operands of its last instruction, `KEEP`.
    fn parse_with_keep(body: &str) -> (Function, Vec<Operand>) {
        let program = format!("func kernel @k ssa {{\nbb0:\n    %0:R, %1:P = ENTRY\n{body}\n    EXIT\n}}\n");
        let function = text::parse(&program).unwrap_or_else(|error| panic!("{error:?}\n{program}")).remove(0);
        let insts = &function.blocks[function.entry()].insts;
        let operands = function.sources(insts[insts.len() - 2]).to_vec();
        (function, operands)
    }

    /// Returns the known content of each operand of `KEEP` after the instructions `body`.
    fn words(body: &str) -> Vec<Option<u32>> {
        let (function, operands) = parse_with_keep(body);
        let definitions = Definitions::compute(&function);
        operands.iter().map(|operand| OperandFacts::new(&function, &definitions).word(operand)).collect()
    }

    /// Returns the known truth value of each operand of `KEEP` after the instructions `body`.
    fn truths_of_keep(body: &str) -> Vec<Option<bool>> {
        let (function, operands) = parse_with_keep(body);
        let definitions = Definitions::compute(&function);
        operands.iter().map(|operand| OperandFacts::new(&function, &definitions).truth(operand)).collect()
    }

    #[test]
    fn upper_halves_of_sums_are_known_without_a_carry() {
        let found = words(
            "%2:R = MOV 0x3
             %3:R, PT, PT = IADD3.X %2, 0x4, RZ, !PT, !PT
             %4:R, PT, PT = IADD3.X RZ, 0x4, %2, !PT, !PT
             %5:R, PT, PT = IADD3.X %2, 0x4, RZ, %1, !PT
             %6:R, PT, PT = IADD3.X %0, 0x4, RZ, !PT, !PT
             KEEP %3, %4, %5, %6",
        );
        assert_eq!(found, [Some(7), Some(7), None, None]);
    }

    #[test]
    fn logic_of_known_words_is_known() {
        let found = words(
            "%2:R = MOV 0x3
             %3:R = MOV 0x5
             %4:R = MOV 0x9
             %5:R = LOP3.LUT %2, %3, %4, 0xf0, !PT
             %6:R = LOP3.LUT %2, %3, %4, 0xcc, !PT
             %7:R = LOP3.LUT %2, %3, %4, 0xaa, !PT
             %8:R = LOP3.LUT %2, %3, %0, 0xaa, !PT
             KEEP %5, %6, %7, %8",
        );
        assert_eq!(found, [Some(3), Some(5), Some(9), None]);
    }

    #[test]
    fn predicate_logic_of_known_predicates_is_known() {
        let found = truths_of_keep(
            "%2:P, PT = PLOP3.LUT PT, !PT, PT, 0x20, 0x0
             %3:P, PT = PLOP3.LUT PT, PT, PT, 0x20, 0x0
             %4:P, PT = PLOP3.LUT %1, PT, PT, 0x80, 0x0
             KEEP %2, !%2, %3, %4",
        );
        // The truth table 0x20 is true only for the inputs true, false, true.
        assert_eq!(found, [Some(true), Some(false), Some(false), None]);
    }

    #[test]
    fn constants_selected_by_a_predicate_are_propagated() {
        let (function, operands) = parse_with_keep(
            "%2:R = SEL RZ, 0x10, !%1
             %3:R, PT, PT = IADD3 -%2, 0x10, RZ
             %4:R = LOP3.LUT %3, 0xf, RZ, 0xc0, !PT
             %5:R = LOP3.LUT %3, 0x1f, RZ, 0xc0, !PT
             %6:P, PT = ISETP.NE.U32.AND %2, 0x0, PT
             %7:P, PT = ISETP.EQ.U32.AND %2, 0x0, PT
             %8:P, PT = ISETP.NE.U32.AND %2, 0x8, PT
             %9:P, PT = ISETP.NE.U32.AND %0, 0x8, PT
             KEEP %4, %5, %6, !%6, %7, %8, %9",
        );
        let definitions = Definitions::compute(&function);
        let known = OperandFacts::new(&function, &definitions);
        assert_eq!([known.is_always_zero(&operands[0]), known.is_always_zero(&operands[1])], [true, false]);
        let choice =
            |at: usize| known.equivalent_predicate(&operands[at]).map(|found| (found.value().is_some(), found.signs.has(Signs::NOT)));
        // %2 is 0x10 where %1 holds: `%2 != 0` is %1.
        assert_eq!([choice(2), choice(3), choice(4)], [Some((true, false)), Some((true, true)), Some((true, true))]);
        assert_eq!([choice(5), choice(6)], [Some((false, false)), None], "always true; unknown");
    }

    #[test]
    fn constants_selected_by_two_predicates_are_propagated() {
        let (function, operands) = parse_with_keep(
            "%2:P, PT = ISETP.NE.U32.AND %0, 0x8, PT
             %3:R = SEL RZ, 0x10, !%1
             %4:R = SEL %3, RZ, %2
             %5:R = SEL %3, 0x18, %2
             %6:R, PT, PT = IADD3 -%4, 0x10, RZ
             %7:R = LOP3.LUT %6, 0xf, RZ, 0xc0, !PT
             %8:R, PT, PT = IADD3 -%5, 0x10, RZ
             %9:R = LOP3.LUT %8, 0xf, RZ, 0xc0, !PT
             %10:P, PT = ISETP.NE.U32.AND %4, 0x0, PT
             %11:P, PT = ISETP.NE.U32.AND %4, 0x8, PT
             KEEP %7, %9, %10, %11",
        );
        let definitions = Definitions::compute(&function);
        let known = OperandFacts::new(&function, &definitions);
        // %4 is 0 or 16, %5 is 0, 16 or 24.
        assert_eq!([known.is_always_zero(&operands[0]), known.is_always_zero(&operands[1])], [true, false]);
        let choice = |at: usize| known.equivalent_predicate(&operands[at]).map(|found| found.value().is_some());
        assert_eq!([choice(2), choice(3)], [None, Some(false)], "depends on two predicates; always true");
    }

    #[test]
    fn sums_of_small_numbers_have_no_carry() {
        let found = truths_of_keep(
            "%2:R = LOP3.LUT %0, 0xff, RZ, 0xc0, !PT
             %3:R, %4:P, %10:P = IADD3 %2, 0x10, RZ
             %5:R, %6:P, PT = IADD3 %0, 0x10, RZ
             %7:P, PT = ISETP.EQ.AND %0, %2, PT
             %8:P, %9:P = ISETP.EQ.AND RZ, 0x0, PT
             KEEP %4, %10, %6, %7, %8, %9",
        );
        assert_eq!(found, [Some(false), Some(false), None, None, Some(true), None]);
    }
}
