//! Constant folding of single-precision arithmetic, comparisons, and conversions from integers to singles and from singles to halves.
//!
//! `oriole_sem` computes the results, as in the interpreter and, for directed rounding, in the machine-code simulator, so a folded
//! instruction has the bits that the GPU would compute. `filetests/run/float_constants.ptx` compares them.

use oriole_ir::Signs;
use oriole_isa::{Opcode, Symbol};
use oriole_sem::compare::{self, Comparison};
use oriole_sem::convert::{Overflow, float_to_float, int_to_float};
use oriole_sem::float::{Mode, add, fma, mul};
use oriole_sem::format::{BF16, F16, F32, Rounding};
use oriole_sem::int::{S32, U32};
use smallvec::SmallVec;

use super::constant_sources::{ConstantSources, KnownResults, join_predicates};

/// Evaluates `FADD`, `FMUL` and `FFMA`, with the modifiers for rounding, subnormals and saturation.
pub(super) fn evaluate_float(opcode: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let mode = modifiers.iter().try_fold(Mode::RN, |mode, modifier| with_modifier(mode, *modifier))?;
    let bits = match (opcode, singles(sources)?.as_slice()) {
        (Opcode::FADD, &[a, b]) => add(F32, a, b, mode),
        (Opcode::FMUL, &[a, b]) => mul(F32, a, b, mode),
        (Opcode::FFMA, &[a, b, c]) => fma(F32, a, b, c, mode),
        _ => return None,
    };
    sources.predicates.is_empty().then_some(())?;
    KnownResults::of_word(bits as u32)
}

/// Evaluates `FSETP`: compares two singles and combines the result, and for the second predicate its negation, with a predicate.
pub(super) fn evaluate_float_compare(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let (comparison, ftz, join) = match *modifiers {
        [relation, join] => (comparison_of(relation)?, false, join),
        [relation, Symbol::FTZ, join] => (comparison_of(relation)?, true, join),
        _ => return None,
    };
    let (&[a, b], &[other]) = (singles(sources)?.as_slice(), sources.predicates.as_slice()) else { return None };
    let holds = compare::float(F32, comparison, a, b, ftz);
    Some(KnownResults { integer: None, predicates: Some([join_predicates(join, holds, other)?, join_predicates(join, !holds, other)?]) })
}

/// Evaluates `I2FP.F32` and `I2F` to single precision from a 32-bit integer.
pub(super) fn evaluate_integer_to_float(opcode: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let &[(number, Signs::NONE)] = sources.integers.as_slice() else { return None };
    let modifiers = match (opcode, modifiers) {
        (Opcode::I2FP, [Symbol::F32, rest @ ..]) => rest,
        (Opcode::I2F, [Symbol::F32, rest @ ..] | rest) => rest,
        _ => return None,
    };
    let (from, modifiers) = match modifiers {
        [Symbol::S32, rest @ ..] => (S32, rest),
        [Symbol::U32, rest @ ..] => (U32, rest),
        rest => (S32, rest),
    };
    let rounding = match modifiers {
        [] => Rounding::NearestEven,
        [modifier] => rounding_of(*modifier)?,
        _ => return None,
    };
    KnownResults::of_word(int_to_float(F32, from, number, Mode::new(rounding)) as u32)
}

/// Evaluates `F2FP.PACK_AB`, which rounds two singles to halves: the first becomes the upper half of the result, the second the lower one.
/// The format of the halves is `f16` unless the instruction names `bf16`.
pub(super) fn evaluate_pair_of_halves(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let (format, modifiers) = match modifiers {
        [Symbol::F16, Symbol::F32, rest @ ..] => (F16, rest),
        [Symbol::BF16, Symbol::F32, rest @ ..] | [Symbol::BF16, rest @ ..] => (BF16, rest),
        rest => (F16, rest),
    };
    let rounding = match modifiers {
        [Symbol::PACK_AB] => Rounding::NearestEven,
        [Symbol::PACK_AB, rounding] => rounding_of(*rounding)?,
        _ => return None,
    };
    let &[upper, lower] = singles(sources)?.as_slice() else { return None };
    let half = |single: u64| float_to_float(format, F32, single, Mode::new(rounding), Overflow::Ieee) as u32;
    KnownResults::of_word(half(upper) << 16 | half(lower))
}

/// Adds a modifier of an instruction to a mode; `None` for modifiers without a counterpart in [`Mode`].
fn with_modifier(mode: Mode, modifier: Symbol) -> Option<Mode> {
    match modifier {
        Symbol::FTZ => Some(mode.ftz(true)),
        Symbol::SAT => Some(mode.sat(true)),
        _ => rounding_of(modifier).map(|rounding| Mode { rounding, ..mode }),
    }
}

/// Returns the rounding that a modifier stands for; `None` for other modifiers.
fn rounding_of(modifier: Symbol) -> Option<Rounding> {
    match modifier {
        Symbol::RM => Some(Rounding::Down),
        Symbol::RP => Some(Rounding::Up),
        Symbol::RZ => Some(Rounding::Zero),
        _ => None,
    }
}

/// Returns the comparison that a modifier of `FSETP` stands for; `None` for modifiers that are no comparison.
fn comparison_of(modifier: Symbol) -> Option<Comparison> {
    Some(match modifier {
        Symbol::LT => Comparison::Lt,
        Symbol::EQ => Comparison::Eq,
        Symbol::LE => Comparison::Le,
        Symbol::GT => Comparison::Gt,
        Symbol::NE => Comparison::Ne,
        Symbol::GE => Comparison::Ge,
        Symbol::NUM => Comparison::Num,
        Symbol::NAN => Comparison::Nan,
        Symbol::LTU => Comparison::Ltu,
        Symbol::EQU => Comparison::Equ,
        Symbol::LEU => Comparison::Leu,
        Symbol::GTU => Comparison::Gtu,
        Symbol::NEU => Comparison::Neu,
        Symbol::GEU => Comparison::Geu,
        _ => return None,
    })
}

/// Returns the singles that an instruction reads, with their operand modifiers applied; `None` if one has a modifier of integers.
fn singles(sources: &ConstantSources) -> Option<SmallVec<[u64; 3]>> {
    sources.integers.iter().map(|&(bits, signs)| apply_sign(bits as u32, signs)).collect()
}

/// Applies `-`, `|x|` or `-|x|` to a single; `None` for modifiers of integers.
fn apply_sign(bits: u32, signs: Signs) -> Option<u64> {
    const SIGN: u32 = 1 << 31;
    let magnitude = if signs.has(Signs::ABSOLUTE) { bits & !SIGN } else { bits };
    let signed = if signs.has(Signs::NEGATE) { magnitude ^ SIGN } else { magnitude };
    signs.without(Signs::ABSOLUTE).without(Signs::NEGATE).is_empty().then_some(signed.into())
}
