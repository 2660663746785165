//! Counts the iterations of a loop by evaluating its exit condition for one iteration after the other at compile time.
//!
//! Only the instructions that the condition depends on are evaluated. Their inputs must be compile-time constants, and the operations are a
//! small set of 32-bit integer operations, so the result is exact: additions wrap around, 64-bit counters are pairs of words with a carry.
//!
//! ```text
//! bb1:  %i = PHI %zero, bb0, %next, bb1           %zero = MOV 0
//!       %next = IADD3 %i, 0x3, RZ                 3, 6, 9, 12
//!       %p = ISETP.LT.U32.AND %next, 0xa, PT      true, true, true, false: four iterations
//!       @%p BRA bb1
//! ```

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Signs, Value};
use oriole_isa::{Opcode, Symbol};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shape::UnrollableLoop;
use crate::definitions::{Definitions, KnownWord};
use crate::known::evaluate_logic;
use crate::rewrite::single_register;

/// Maximum number of instructions that the exit condition of a loop may depend on.
const MAX_CONDITION_SLICE_INSTS: usize = 24;

/// Returns how often the exit condition of a loop is evaluated. This is the number of iterations if the test is at the end of the loop.
/// `None` if the number is unknown or above `max_tests`.
pub(super) fn count_exit_tests(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop, max_tests: u32) -> Option<u32> {
    let condition = old_loop.condition()?;
    let mut simulation =
        IterationSimulation { function, definitions, old_loop, phis: FxHashMap::default(), evaluated: FxHashMap::default() };
    let phis = simulation.phis_of_condition(condition)?;
    if phis.is_empty() {
        return None;
    }
    for &phi in &phis {
        let words = simulation.words(old_loop.entry_phi_source(function, phi)?.part()?)?;
        simulation.phis.insert(function.results(phi)[0].value()?, words);
    }
    for number in 1..=max_tests {
        simulation.evaluated.clear();
        if simulation.predicate_truth(&condition.into())? == old_loop.exit_value {
            return Some(number);
        }
        let next: Option<SmallVec<[_; 2]>> =
            phis.iter().map(|&phi| simulation.words(old_loop.latch_phi_source(function, phi)?.part()?)).collect();
        for (&phi, words) in phis.iter().zip(next?) {
            simulation.phis.insert(function.results(phi)[0].value()?, words);
        }
    }
    None
}

/// The 32-bit words of a value, the lowest first.
type ValueWords = SmallVec<[u32; 2]>;

/// The content of a 32-bit register, or of a predicate (0 or 1); `None` if it is unknown.
type RegisterContent = Option<u32>;

/// State of the simulation of a loop at compile time, one iteration after the other.
struct IterationSimulation<'a> {
    /// The function that is compiled.
    function: &'a Function,
    /// For each value, the instruction that defines it.
    definitions: &'a Definitions,
    /// The loop that is simulated.
    old_loop: &'a UnrollableLoop,
    /// For each phi of the header that the exit condition depends on, the words of its result in the current iteration.
    phis: FxHashMap<Value, ValueWords>,
    /// For each register of a value, the content computed in the current iteration.
    evaluated: FxHashMap<(Value, u8), RegisterContent>,
}

impl IterationSimulation<'_> {
    /// Returns the phis of the header that the exit condition depends on; `None` if it depends on too many instructions, or on another phi.
    fn phis_of_condition(&self, condition: Part) -> Option<SmallVec<[Inst; 2]>> {
        let mut found: SmallVec<[Inst; 2]> = SmallVec::new();
        let mut seen: SmallVec<[Inst; MAX_CONDITION_SLICE_INSTS]> = SmallVec::new();
        let mut work: SmallVec<[Value; 8]> = SmallVec::from_slice(&[condition.value]);
        while let Some(value) = work.pop() {
            let Some(inst) = self.definitions.definition_of(value).filter(|&inst| self.old_loop.contains(inst) && !seen.contains(&inst))
            else {
                continue;
            };
            if seen.len() == MAX_CONDITION_SLICE_INSTS {
                return None;
            }
            seen.push(inst);
            if !self.function.insts[inst].is(Pseudo::Phi) {
                work.extend(self.function.used(inst).map(|part| part.value));
            } else if self.old_loop.is_header_phi(self.function, inst) {
                found.push(inst);
                work.extend(self.old_loop.latch_phi_source(self.function, inst).and_then(|source| source.value()));
            } else {
                return None;
            }
        }
        Some(found)
    }

    /// Returns the contents of all registers of a part; `None` if one of them is unknown.
    fn words(&mut self, part: Part) -> Option<ValueWords> {
        (0..part.count).map(|number| self.evaluate_register(single_register(part, number))).collect()
    }

    /// Returns the content of one register or predicate in the current iteration; `None` if it is unknown.
    fn evaluate_register(&mut self, part: Part) -> RegisterContent {
        let part = self.definitions.origin(self.function, part);
        if let Some(words) = self.phis.get(&part.value) {
            return words.get(usize::from(part.first)).copied();
        }
        if let Some(KnownWord::Integer(number)) = self.definitions.known_content(self.function, part) {
            return Some(number);
        }
        if let Some(&known) = self.evaluated.get(&(part.value, part.first)) {
            return known;
        }
        let content = self.evaluate_definition(part);
        self.evaluated.insert((part.value, part.first), content);
        content
    }

    /// Evaluates the instruction of the loop that writes a register, and returns the content of the register; `None` if it is unknown.
    fn evaluate_definition(&mut self, part: Part) -> RegisterContent {
        let inst = self.definitions.unguarded_definition_of(self.function, part.value).filter(|&inst| self.old_loop.contains(inst))?;
        let Op::Machine(opcode) = self.function.insts[inst].op else { return None };
        let result = self.function.results(inst).iter().position(|result| result.value() == Some(part.value))?;
        let modifiers: SmallVec<[Symbol; 4]> = self.function.insts[inst].modifiers.iter().copied().collect();
        let sources: SmallVec<[Operand; 6]> = self.function.sources(inst).iter().copied().collect();
        match (opcode, modifiers.as_slice(), sources.as_slice()) {
            (Opcode::IADD3, [], [a, b, c]) => self.simulate_sum(result, [a, b, c], false),
            (Opcode::IADD3, [Symbol::X], [a, b, c, carry, other]) if self.predicate_truth(other) == Some(false) => {
                let carry = self.predicate_truth(carry)?;
                self.simulate_sum(result, [a, b, c], carry)
            }
            (Opcode::IMAD, [], [a, b, c]) if result == 0 && [a, b, c].iter().all(|source| source.signs.is_empty()) => {
                Some(self.word(a)?.wrapping_mul(self.word(b)?).wrapping_add(self.word(c)?))
            }
            (Opcode::LOP3, [Symbol::LUT], [a, b, c, table, unused])
                if self.function.results(inst).len() == 1 && self.predicate_truth(unused) == Some(false) =>
            {
                Some(evaluate_logic(table.integer()?, self.word(a)?, self.word(b)?, self.word(c)?))
            }
            (Opcode::SHF, modifiers, [low, distance, high]) => self.simulate_shift(modifiers, low, distance, high),
            (Opcode::ISETP, [relation, .., Symbol::EX], [a, b, Operand::PT, lower]) if result == 0 => {
                let lower = self.predicate_truth(lower)?;
                let order = compare_as_integers(modifiers.contains(&Symbol::U32), self.word(a)?, self.word(b)?);
                let is_true = match *relation {
                    Symbol::NE => order.is_ne() || lower,
                    relation => order.is_eq() && lower || order.is_ne() && relation_holds(relation, order)?,
                };
                is_evaluable_and_comparison(&modifiers).then_some(u32::from(is_true))
            }
            (Opcode::ISETP, [relation, ..], [a, b, Operand::PT]) if result == 0 => {
                let order = compare_as_integers(modifiers.contains(&Symbol::U32), self.word(a)?, self.word(b)?);
                let is_true = relation_holds(*relation, order)?;
                is_evaluable_and_comparison(&modifiers).then_some(u32::from(is_true))
            }
            _ => None,
        }
    }

    /// Evaluates the sum of three 32-bit words and a carry. Returns the sum if `result` is 0, and the carry out if `result` is 1.
    fn simulate_sum(&mut self, result: usize, summands: [&Operand; 3], carry: bool) -> RegisterContent {
        let is_plain = summands.iter().all(|summand| summand.signs.is_empty());
        let mut sum = u64::from(carry);
        for summand in summands {
            let word = self.word(&summand.with_signs(Signs::NONE))?;
            sum += u64::from(match summand.signs {
                Signs::NONE => word,
                Signs::NEGATE if !carry => word.wrapping_neg(),
                Signs::INVERT => !word,
                _ => return None,
            });
        }
        match result {
            0 => Some(sum as u32),
            1 if is_plain && sum >> 32 <= 1 => Some((sum >> 32) as u32),
            _ => None,
        }
    }

    /// Evaluates a `SHF`, which shifts the register pair `high:low`, and returns one word of the result.
    fn simulate_shift(&mut self, modifiers: &[Symbol], low: &Operand, distance: &Operand, high: &Operand) -> RegisterContent {
        let is_plain = [low, distance, high].iter().all(|source| source.signs.is_empty());
        let distance = self.word(distance).filter(|&distance| is_plain && distance < 32)?;
        match modifiers {
            [Symbol::L, Symbol::U32] if *high == Operand::RZ => Some(self.word(low)? << distance),
            [Symbol::R, Symbol::U32, Symbol::HI] if *low == Operand::RZ => Some(self.word(high)? >> distance),
            [Symbol::R, Symbol::S32, Symbol::HI] if *low == Operand::RZ => Some((self.word(high)? as i32 >> distance) as u32),
            _ => None,
        }
    }

    /// Returns the content of a 32-bit operand in the current iteration; `None` if it is unknown or the operand has a modifier such as
    /// negation.
    fn word(&mut self, operand: &Operand) -> RegisterContent {
        match operand.kind {
            _ if !operand.signs.is_empty() => None,
            OperandKind::Integer(number) => Some(number as u32),
            OperandKind::Zero(RegFile::General | RegFile::Uniform) => Some(0),
            OperandKind::Value(part) if part.count == 1 => self.evaluate_register(part),
            _ => None,
        }
    }

    /// Returns the truth value of a predicate operand in the current iteration; `None` if it is unknown.
    fn predicate_truth(&mut self, operand: &Operand) -> Option<bool> {
        let truth = match operand.kind {
            OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate) => true,
            OperandKind::Value(part) => self.evaluate_register(part)? != 0,
            _ => return None,
        };
        Some(truth != operand.signs.has(Signs::NOT))
    }
}

/// Returns the order of two words as signed or unsigned integers.
fn compare_as_integers(is_unsigned: bool, a: u32, b: u32) -> std::cmp::Ordering {
    if is_unsigned { a.cmp(&b) } else { (a as i32).cmp(&(b as i32)) }
}

/// Returns whether an `ISETP` with these modifiers ANDs its comparison with the predicate operand, and has only modifiers that the
/// simulation can evaluate.
fn is_evaluable_and_comparison(modifiers: &[Symbol]) -> bool {
    modifiers.contains(&Symbol::AND) && modifiers[1..].iter().all(|modifier| matches!(*modifier, Symbol::U32 | Symbol::AND | Symbol::EX))
}

/// Returns whether a relation such as `LT` holds for two numbers whose comparison gave `order`; `None` for an unknown relation.
fn relation_holds(relation: Symbol, order: std::cmp::Ordering) -> Option<bool> {
    Some(match relation {
        Symbol::LT => order.is_lt(),
        Symbol::LE => order.is_le(),
        Symbol::GT => order.is_gt(),
        Symbol::GE => order.is_ge(),
        Symbol::EQ => order.is_eq(),
        Symbol::NE => order.is_ne(),
        _ => return None,
    })
}
