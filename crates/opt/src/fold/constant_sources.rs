//! The operands and results of instructions that constant folding evaluates.

use oriole_ir::{Function, Inst, Operand, OperandKind, RegFile, Signs};
use oriole_isa::Symbol;
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::known::OperandFacts;
use crate::rewrite::single_register;

/// The compile-time constant results of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KnownResults {
    /// The integer result, which is in one or two general registers; `None` if there is none.
    pub(super) integer: Option<u64>,
    /// The two predicate results, in operand order; `None` if they are not known.
    pub(super) predicates: Option<[bool; 2]>,
}

impl KnownResults {
    /// Describes an instruction whose only result is this 32-bit word.
    pub(super) fn of_word(word: u32) -> Option<KnownResults> {
        KnownResults::integer(word.into())
    }

    /// Describes an instruction whose only result is this 64-bit integer.
    pub(super) fn integer(integer: u64) -> Option<KnownResults> {
        Some(KnownResults { integer: Some(integer), predicates: None })
    }
}

/// The sources of an instruction whose sources are all compile-time constants.
pub(super) struct ConstantSources {
    /// The integer and floating-point sources in operand order, each with its operand modifiers (such as negation), which are not applied
    /// yet.
    pub(super) integers: SmallVec<[(u64, Signs); 4]>,
    /// The predicate sources in operand order, with their inversion applied.
    pub(super) predicates: SmallVec<[bool; 2]>,
}

impl ConstantSources {
    /// Returns the sources of an instruction, or `None` if one of them is not a compile-time constant.
    pub(super) fn from_inst(function: &Function, definitions: &Definitions, inst: Inst) -> Option<ConstantSources> {
        let known = OperandFacts::new(function, definitions);
        let mut sources = ConstantSources { integers: SmallVec::new(), predicates: SmallVec::new() };
        for source in function.sources(inst) {
            // `PLOP3` reads the sign bit of a register (suffix `.SIGN`) as a predicate.
            let mut suffixes = source.suffixes();
            match (suffixes.next(), suffixes.next()) {
                (None, _) => {}
                (Some(Symbol::SIGN), None) if source.signs.is_empty() => {
                    sources.predicates.push(known_integer(function, definitions, source)? >> 31 & 1 == 1);
                    continue;
                }
                _ => return None,
            }
            let is_predicate = match source.kind {
                OperandKind::Zero(file) => file == RegFile::Predicate,
                OperandKind::Value(part) => function.values[part.value].file == RegFile::Predicate,
                _ => false,
            };
            if is_predicate {
                sources.predicates.push(known.truth(source)?);
            } else {
                sources.integers.push((known_integer(function, definitions, source)?, source.signs));
            }
        }
        Some(sources)
    }

    /// Returns the lower 32 bits of the integer sources, with operand modifiers applied; `None` unless there are exactly `N` integer
    /// sources.
    pub(super) fn words<const N: usize>(&self) -> Option<[u32; N]> {
        let words: Option<SmallVec<[u32; 4]>> = self.integers.iter().map(|&(number, signs)| apply_modifier(number as u32, signs)).collect();
        words?.as_slice().try_into().ok()
    }

    /// Returns integer source number `at` as a summand of an addition with a carry: `-x` is `2^32 - x`, which is 33 bits long if `x` is 0.
    pub(super) fn carry_summand(&self, at: usize) -> Option<u64> {
        let (number, signs) = *self.integers.get(at)?;
        let word = number as u32;
        if signs == Signs::NEGATE { Some((1 << 32) - u64::from(word)) } else { apply_modifier(word, signs).map(u64::from) }
    }
}

/// Applies an operand modifier, negation or bitwise NOT, to a 32-bit word; `None` for other modifiers.
fn apply_modifier(word: u32, signs: Signs) -> Option<u32> {
    match signs {
        Signs::NONE => Some(word),
        Signs::NEGATE => Some(word.wrapping_neg()),
        Signs::INVERT => Some(!word),
        _ => None,
    }
}

/// Returns the compile-time constant that an operand of one or two registers holds, before its operand modifiers are applied; `None` if the
/// content is not known.
fn known_integer(function: &Function, definitions: &Definitions, source: &Operand) -> Option<u64> {
    let word = |part| match definitions.known_content(function, part)? {
        KnownWord::Integer(number) => Some(u64::from(number)),
        KnownWord::Constant { .. } => None,
    };
    match source.kind {
        OperandKind::Integer(number) => Some(u64::from(number as u32)),
        OperandKind::Zero(RegFile::General) => Some(0),
        OperandKind::Value(part) if function.values[part.value].file == RegFile::General => match part.count {
            1 => word(part),
            2 => Some(word(single_register(part, 1))? << 32 | word(single_register(part, 0))?),
            _ => None,
        },
        _ => None,
    }
}

/// Combines the result of a comparison with a predicate, as the modifier `join` says; `None` for other modifiers.
pub(super) fn join_predicates(join: Symbol, result: bool, other: bool) -> Option<bool> {
    match join {
        Symbol::AND => Some(result && other),
        Symbol::OR => Some(result || other),
        Symbol::XOR => Some(result != other),
        _ => None,
    }
}
