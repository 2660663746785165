//! Video instructions. No target has machine instructions for most of them, so they are sequences of ordinary instructions.
//!
//! A source is a word and the ranges that its value is known to be in. Most operations are then exact in 32 bits; saturated sums of whole
//! words need 64.

mod lanes;
mod product;
mod scalar;

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::Slot;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::integer::{Packing, smaller_or_greater};
use crate::ptx::Ptx;
use crate::words::WordPair;

pub(crate) use lanes::simd;
pub(crate) use product::multiply_add;
pub(crate) use scalar::scalar;

/// A byte, a half or the whole of a word.
#[derive(Clone, Copy)]
struct ByteRange {
    first_byte: u32,
    bytes: u32,
}

impl ByteRange {
    const WORD: ByteRange = ByteRange { first_byte: 0, bytes: 4 };

    /// Returns the part that a selector names: `b0` to `b3`, `h0`, `h1`.
    fn of_selector(selector: &str) -> Option<ByteRange> {
        let number: u32 = selector.get(1..)?.parse().ok()?;
        let bytes = if selector.starts_with('b') { 1 } else { 2 };
        (number * bytes < 4).then_some(ByteRange { first_byte: number * bytes, bytes })
    }

    /// Returns the selector of `PRMT part, word, selector, RZ` that extends this part to a word.
    fn extension(self, is_signed: bool) -> u32 {
        const ZERO: u32 = 7;
        const SIGN_OF: u32 = 8;
        let last = self.first_byte + self.bytes - 1;
        let filler = if is_signed { SIGN_OF | last } else { ZERO };
        (0..4).fold(0, |selector, byte| {
            let source = if byte < self.bytes { self.first_byte + byte } else { filler };
            selector | source << (4 * byte)
        })
    }

    /// Returns the selector of `PRMT result, value, selector, word` that replaces this part of the word by the lowest bytes of the value.
    fn insertion(self) -> u32 {
        (0..4).fold(0, |selector, byte| {
            let is_inside = (self.first_byte..self.first_byte + self.bytes).contains(&byte);
            let source = if is_inside { byte - self.first_byte } else { 4 + byte };
            selector | source << (4 * byte)
        })
    }
}

/// A source: a word whose value is read as signed or as unsigned.
#[derive(Clone, Copy)]
struct VideoWord {
    word: Operand,
    /// Whether the value of the word read as a signed number is that of the source.
    fits_signed: bool,
    /// Whether the value of the word read as an unsigned number is that of the source.
    fits_unsigned: bool,
    /// Whether the source has at most 16 bits, so that sums and differences do not overflow a word.
    is_narrow: bool,
}

impl VideoWord {
    /// Returns the source as a 64-bit number.
    fn pair(self, select: &mut Select<'_>) -> WordPair {
        if self.fits_unsigned {
            return [self.word, Operand::RZ];
        }
        let high = match self.word.integer() {
            Some(number) => Operand::from((number as i32 >> 31) as u32),
            None => select.sign_mask(self.word),
        };
        [self.word, high]
    }
}

/// An exact intermediate result.
#[derive(Clone, Copy)]
enum ExactNumber {
    Signed(Operand),
    Unsigned(Operand),
    Wide(WordPair),
}

impl ExactNumber {
    /// Returns the lower 32 bits.
    fn low_word(self) -> Operand {
        match self {
            ExactNumber::Signed(word) | ExactNumber::Unsigned(word) => word,
            ExactNumber::Wide([low, _]) => low,
        }
    }

    /// Emits the nearest number of a type with this many bits.
    fn clamped(self, select: &mut Select<'_>, bits: u32, is_signed: bool) -> Operand {
        let greatest = if is_signed { u32::MAX >> (33 - bits) } else { u32::MAX >> (32 - bits) };
        match self {
            ExactNumber::Signed(word) => {
                let least = if is_signed { !greatest } else { 0 };
                let bounded = if bits == 32 && is_signed {
                    word
                } else {
                    smaller_or_greater(select, Packing::Signed, true, false, word, least.into())
                };
                if bits == 32 { bounded } else { smaller_or_greater(select, Packing::Signed, false, false, bounded, greatest.into()) }
            }
            ExactNumber::Unsigned(word) if bits == 32 && !is_signed => word,
            ExactNumber::Unsigned(word) => smaller_or_greater(select, Packing::Unsigned, false, false, word, greatest.into()),
            ExactNumber::Wide(pair) if bits == 32 => clamped_pair(select, pair, is_signed),
            ExactNumber::Wide(pair) => ExactNumber::Signed(clamped_pair(select, pair, true)).clamped(select, bits, is_signed),
        }
    }
}

/// Emits the nearest 32-bit number of a signed 64-bit number.
fn clamped_pair(select: &mut Select<'_>, [low, high]: WordPair, is_signed: bool) -> Operand {
    let extension = if is_signed { select.sign_mask(low) } else { Operand::RZ };
    let fits = select.compare_words("EQ", false, high, extension);
    // Where the number is negative, the limit is the least number, which is the greatest one plus the sign bit: 0x7fffffff + 1 or
    // 0xffffffff + 1. `LEA.HI` adds the upper word of the shifted source, which is the sign bit.
    let greatest = if is_signed { 0x7fff_ffff_u32 } else { u32::MAX };
    let high = select.in_register(high);
    let limit = select.b.define(Class::R, "LEA.HI $, {}, {}, RZ, 0x1", &[high, greatest.into()]);
    select.select_by_predicate(fits, low, limit)
}

/// The parts of an operand: `-%r1.b0`.
struct VideoOperand<'m> {
    operand: ast::Operand,
    selector: Option<&'m str>,
    is_negated: bool,
}

impl<'m> VideoOperand<'m> {
    fn read(select: &Select<'m>, operand: ast::Operand) -> VideoOperand<'m> {
        let ast::Operand::Selected(list) = operand else {
            return VideoOperand { operand, selector: None, is_negated: false };
        };
        let module = select.frame.module;
        let parts = select.frame.body.list(list);
        let selector = parts.iter().find_map(|part| match *part {
            ast::Operand::Selector(name) => Some(module.name(name)),
            _ => None,
        });
        VideoOperand { operand: parts[0], selector, is_negated: parts.contains(&ast::Operand::Minus) }
    }

    fn part(&self) -> Result<ByteRange, Unsupported> {
        match self.selector {
            Some(selector) => ByteRange::of_selector(selector).ok_or_else(|| Unsupported::new(format!("the selector .{selector}"))),
            None => Ok(ByteRange::WORD),
        }
    }

    /// Emits the extension of the selected part of the operand.
    fn source(&self, select: &mut Select<'_>, is_signed: bool) -> Result<VideoWord, Unsupported> {
        let part = self.part()?;
        if let Some(bits) = select.literal(self.operand, ScalarType::U32) {
            let is_small = bits >> 31 == 0;
            let word = Operand::from(bits as u32);
            return Ok(VideoWord {
                word,
                fits_signed: is_signed || is_small,
                fits_unsigned: !is_signed || is_small,
                is_narrow: bits >> 16 == 0,
            });
        }
        let word = select.source(self.operand, ScalarType::U32)?;
        if part.bytes == 4 {
            return Ok(VideoWord { word, fits_signed: is_signed, fits_unsigned: !is_signed, is_narrow: false });
        }
        let word = extracted(select, word, part, is_signed);
        Ok(VideoWord { word, fits_signed: true, fits_unsigned: !is_signed, is_narrow: true })
    }
}

/// Emits a part of a word, extended to 32 bits.
fn extracted(select: &mut Select<'_>, word: Operand, part: ByteRange, is_signed: bool) -> Operand {
    select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, part.extension(is_signed).into()])
}

/// Emits `word` with a part of it replaced by the lowest bytes of `value`.
fn inserted(select: &mut Select<'_>, value: Operand, part: ByteRange, word: Operand) -> Operand {
    select.b.define(Class::R, "PRMT $, {}, {}, {}", &[value, part.insertion().into(), word])
}

/// Returns whether destination, first and second source are signed; the destination of `vset` is not.
fn signedness(ptx: &Ptx<'_>) -> [bool; 3] {
    [Slot::Dtype, Slot::Atype, Slot::Btype].map(|slot| ptx.form.scalar_type(slot).is_some_and(ScalarType::is_signed))
}
