//! Scalar video instructions: `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr`, `vset`.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

use super::{ExactNumber, VideoOperand, VideoWord, inserted, signedness};
use crate::context::Select;
use crate::error::Unsupported;
use crate::integer::{Packing, smaller_or_greater};
use crate::ptx::Ptx;

/// The primary operation of a scalar or SIMD instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PrimaryOperation {
    Add,
    Subtract,
    AbsoluteDifference,
    Minimum,
    Maximum,
    Average,
    Compare(&'static str),
    ShiftLeft { wrap: bool },
    ShiftRight { wrap: bool, is_signed: bool },
}

impl PrimaryOperation {
    pub(super) fn of(ptx: &Ptx<'_>) -> Result<PrimaryOperation, Unsupported> {
        use Opcode::*;
        let wrap = ptx.has(Modifier::Wrap);
        Ok(match ptx.opcode() {
            Vadd | Vadd2 | Vadd4 => PrimaryOperation::Add,
            Vsub | Vsub2 | Vsub4 => PrimaryOperation::Subtract,
            Vabsdiff | Vabsdiff2 | Vabsdiff4 => PrimaryOperation::AbsoluteDifference,
            Vmin | Vmin2 | Vmin4 => PrimaryOperation::Minimum,
            Vmax | Vmax2 | Vmax4 => PrimaryOperation::Maximum,
            Vavrg2 | Vavrg4 => PrimaryOperation::Average,
            Vshl => PrimaryOperation::ShiftLeft { wrap },
            Vshr => PrimaryOperation::ShiftRight { wrap, is_signed: signedness(ptx)[1] },
            _ => PrimaryOperation::Compare(match ptx.get(Slot::Cmp) {
                Some(Modifier::Eq) => "EQ",
                Some(Modifier::Ne) => "NE",
                Some(Modifier::Lt) => "LT",
                Some(Modifier::Le) => "LE",
                Some(Modifier::Gt) => "GT",
                Some(Modifier::Ge) => "GE",
                _ => return Err(Unsupported::new("this comparison of a video instruction")),
            }),
        })
    }

    /// Emits the operation. Without `is_exact` only the lower 32 bits of the result are right.
    pub(super) fn emit(self, select: &mut Select<'_>, [a, b]: [VideoWord; 2], is_exact: bool) -> ExactNumber {
        let is_short = !is_exact || a.is_narrow && b.is_narrow;
        match self {
            PrimaryOperation::Add if is_short => ExactNumber::Signed(select.sum(a.word, b.word)),
            PrimaryOperation::Subtract if is_short => ExactNumber::Signed(select.difference(a.word, b.word)),
            PrimaryOperation::Add | PrimaryOperation::Subtract => {
                let (a, b) = (a.pair(select), b.pair(select));
                ExactNumber::Wide(if self == PrimaryOperation::Add { select.pair_sum(a, b) } else { select.pair_difference(a, b) })
            }
            PrimaryOperation::AbsoluteDifference => absolute_difference(select, a, b, is_exact),
            PrimaryOperation::Minimum => extreme(select, a, b, false),
            PrimaryOperation::Maximum => extreme(select, a, b, true),
            PrimaryOperation::Average => average(select, a, b),
            PrimaryOperation::Compare(comparison) => {
                let holds = compared(select, comparison, a, b);
                ExactNumber::Signed(select.select_by_predicate(holds, 1.into(), Operand::RZ))
            }
            PrimaryOperation::ShiftLeft { wrap } => shifted_left(select, a, b, wrap, is_exact),
            PrimaryOperation::ShiftRight { wrap, is_signed } => {
                let amount = if wrap { select.bitwise_and(b.word, 31.into()) } else { b.word };
                let word = select.shift_right(a.word, amount, is_signed);
                if is_signed { ExactNumber::Signed(word) } else { ExactNumber::Unsigned(word) }
            }
        }
    }
}

/// Emits `|a - b|`.
fn absolute_difference(select: &mut Select<'_>, a: VideoWord, b: VideoWord, is_exact: bool) -> ExactNumber {
    if a.is_narrow && b.is_narrow {
        let difference = select.difference(a.word, b.word);
        return ExactNumber::Signed(select.b.define(Class::R, "IABS $, {}", &[difference]));
    }
    if let Some(packing) = common(a, b) {
        let greater = smaller_or_greater(select, packing, true, false, a.word, b.word);
        let smaller = smaller_or_greater(select, packing, false, false, a.word, b.word);
        return ExactNumber::Unsigned(select.difference(greater, smaller));
    }
    let (a, b) = (a.pair(select), b.pair(select));
    let [low, high] = select.pair_difference(a, b);
    let is_negative = select.compare_words("LT", true, high, Operand::RZ);
    if !is_exact {
        let negated = select.difference(Operand::RZ, low);
        return ExactNumber::Signed(select.select_by_predicate(is_negative, negated, low));
    }
    let negated = select.pair_difference([Operand::RZ, Operand::RZ], [low, high]);
    ExactNumber::Wide(select.select_pair_by_predicate(is_negative, negated, [low, high]))
}

/// Returns a way to read words in which both sources have their values, if there is one.
fn common(a: VideoWord, b: VideoWord) -> Option<Packing> {
    if a.fits_signed && b.fits_signed {
        Some(Packing::Signed)
    } else if a.fits_unsigned && b.fits_unsigned {
        Some(Packing::Unsigned)
    } else {
        None
    }
}

/// Emits the minimum or the maximum.
fn extreme(select: &mut Select<'_>, a: VideoWord, b: VideoWord, is_max: bool) -> ExactNumber {
    match common(a, b) {
        Some(packing @ Packing::Signed) => ExactNumber::Signed(smaller_or_greater(select, packing, is_max, false, a.word, b.word)),
        Some(packing) => ExactNumber::Unsigned(smaller_or_greater(select, packing, is_max, false, a.word, b.word)),
        None => {
            // The minimum of a signed and an unsigned word is a signed word, the maximum an unsigned one: the other source is first
            // clamped to the range of the result.
            let (signed, unsigned) = if a.fits_signed { (a.word, b.word) } else { (b.word, a.word) };
            if is_max {
                let positive = smaller_or_greater(select, Packing::Signed, true, false, signed, Operand::RZ);
                return ExactNumber::Unsigned(smaller_or_greater(select, Packing::Unsigned, true, false, unsigned, positive));
            }
            let bounded = smaller_or_greater(select, Packing::Unsigned, false, false, unsigned, 0x7fff_ffff_u32.into());
            ExactNumber::Signed(smaller_or_greater(select, Packing::Signed, false, false, signed, bounded))
        }
    }
}

/// Emits the average of two narrow numbers; a half is rounded up unless the sum is negative.
fn average(select: &mut Select<'_>, a: VideoWord, b: VideoWord) -> ExactNumber {
    let sum = select.sum(a.word, b.word);
    // Adds 1, and subtracts it again where the sum is negative.
    let sign = if a.fits_unsigned && b.fits_unsigned { Operand::RZ } else { select.sign_mask(sum) };
    let rounded = select.b.define(Class::R, "IADD3 $, PT, PT, {}, 0x1, {}", &[sum, sign]);
    ExactNumber::Signed(select.shift_right(rounded, 1.into(), true))
}

/// Emits a comparison.
fn compared(select: &mut Select<'_>, comparison: &str, a: VideoWord, b: VideoWord) -> Operand {
    match common(a, b) {
        Some(packing) => select.compare_words(comparison, packing == Packing::Signed, a.word, b.word),
        None => {
            let (a, b) = (a.pair(select), b.pair(select));
            select.compare_pairs(comparison, true, a, b)
        }
    }
}

/// Emits a left shift. An exact result has 34 bits.
fn shifted_left(select: &mut Select<'_>, a: VideoWord, b: VideoWord, wrap: bool, is_exact: bool) -> ExactNumber {
    let amount = if wrap { select.bitwise_and(b.word, 31.into()) } else { b.word };
    if !is_exact {
        return ExactNumber::Signed(select.shift_left(a.word, amount));
    }
    let amount = if wrap { amount } else { smaller_or_greater(select, Packing::Unsigned, false, false, amount, 32.into()) };
    let source = a.pair(select);
    let [low, high] = select.pair_shift_left(source, amount);
    ExactNumber::Wide([low, select.b.define(Class::R, "SGXT $, {}, 0x2", &[high])])
}

/// Selects a scalar instruction.
pub(crate) fn scalar(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let operands: Vec<VideoOperand<'_>> = ptx.operands.iter().map(|&operand| VideoOperand::read(select, operand)).collect();
    let [is_signed, a_is_signed, b_is_signed] = signedness(ptx);
    let sources = [operands[1].source(select, a_is_signed)?, operands[2].source(select, b_is_signed)?];
    let saturates = ptx.has(Modifier::Sat);
    let is_extreme = matches!(ptx.get(Slot::Op2), Some(Modifier::Min | Modifier::Max));
    let exact = PrimaryOperation::of(ptx)?.emit(select, sources, saturates || is_extreme);
    let into = operands[0].part()?;
    let result = match (saturates, is_signed) {
        (false, _) => exact,
        (true, true) => ExactNumber::Signed(exact.clamped(select, 8 * into.bytes, true)),
        (true, false) => ExactNumber::Unsigned(exact.clamped(select, 8 * into.bytes, false)),
    };
    let Some(third) = operands.get(3) else { return select.assign(operands[0].operand, result.low_word()) };
    let c = select.source(third.operand, ScalarType::U32)?;
    let combined = match ptx.get(Slot::Op2) {
        Some(Modifier::Add) => select.sum(result.low_word(), c),
        Some(Modifier::Min) => secondary_extreme(select, result, c, is_signed, false),
        Some(Modifier::Max) => secondary_extreme(select, result, c, is_signed, true),
        _ if operands[0].selector.is_some() => inserted(select, result.low_word(), into, c),
        _ => result.low_word(),
    };
    select.assign(operands[0].operand, combined)
}

/// Emits the lower 32 bits of the minimum or maximum of an exact number and a word.
fn secondary_extreme(select: &mut Select<'_>, number: ExactNumber, word: Operand, is_signed: bool, is_max: bool) -> Operand {
    let of_word = |word: Operand, is_signed: bool| VideoWord { word, fits_signed: is_signed, fits_unsigned: !is_signed, is_narrow: false };
    let c = of_word(word, is_signed);
    match number {
        ExactNumber::Signed(result) => extreme(select, of_word(result, true), c, is_max).low_word(),
        ExactNumber::Unsigned(result) => extreme(select, of_word(result, false), c, is_max).low_word(),
        ExactNumber::Wide(pair) => {
            let word_pair = c.pair(select);
            let comparison = if is_max { "GT" } else { "LT" };
            let takes_result = select.compare_pairs(comparison, true, pair, word_pair);
            select.select_by_predicate(takes_result, pair[0], word)
        }
    }
}
