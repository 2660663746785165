//! Integer quotients and remainders.
//!
//! A division by a constant becomes a shift or a multiplication ([`super::magic`]). Other divisions are library functions, which also
//! decide the result of a division by zero, which PTX leaves unspecified.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::ScalarType;

use super::magic::{self, Unsigned};
use super::multiply::{high_of_pairs, high_of_words, low_of_pairs, multiply_words};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::words::extended_bits;

/// Selects `div`, `rem`.
pub(crate) fn divide(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let wants_remainder = ptx.opcode() == Opcode::Rem;
    let divisor = select.literal(ptx.operand(2), ty).map(|bits| extended_bits(bits, ty)).filter(|&divisor| divisor != 0);
    let Some(divisor) = divisor else { return by_library(select, ptx, ty, wants_remainder) };
    let number = if ty.bits() == 64 {
        WordInteger::Pair(select.halves(ptx.operand(1), ty)?)
    } else {
        WordInteger::Word(select.extended(ptx.operand(1), ty)?)
    };
    let width = if ty.bits() == 64 { 64 } else { 32 };
    let result = if ty.is_signed() {
        let quotient = signed_quotient(select, number, divisor as i64, width);
        if wants_remainder { remainder(select, number, quotient, divisor) } else { quotient }
    } else if wants_remainder && divisor.is_power_of_two() {
        select.number_logic(0xc0, number, divisor - 1)
    } else {
        let quotient = unsigned_quotient(select, number, divisor, width);
        if wants_remainder { remainder(select, number, quotient, divisor) } else { quotient }
    };
    match result {
        WordInteger::Word(word) => select.assign(ptx.operand(0), word),
        WordInteger::Pair(pair) => select.assign_words(ptx.operand(0), &pair),
    }
}

/// Selects a division or remainder as a call of a library function, which is inlined.
fn by_library(select: &mut Select<'_>, ptx: &Ptx<'_>, ty: ScalarType, wants_remainder: bool) -> Result<(), Unsupported> {
    let operation = if wants_remainder { "rem" } else { "div" };
    let mut arguments = [Operand::RZ; 2];
    for (number, argument) in arguments.iter_mut().enumerate() {
        let operand = ptx.operand(number + 1);
        *argument = if ty.bits() == 64 {
            select.wide_source(operand, ty)?
        } else {
            let word = select.extended(operand, ty)?;
            select.in_register(word)
        };
    }
    let results = select.expand(&format!("{operation}_{}", ty.spelling()), &arguments)?;
    select.assign(ptx.operand(0), results[0])
}

/// A 32-bit or 64-bit integer: one word, or two words with the low one first.
#[derive(Clone, Copy)]
enum WordInteger {
    Word(Operand),
    Pair([Operand; 2]),
}

/// Returns a constant of the same width as `like`.
fn constant(like: WordInteger, bits: u64) -> WordInteger {
    let low = Operand::from(bits as u32);
    match like {
        WordInteger::Word(_) => WordInteger::Word(low),
        WordInteger::Pair(_) => WordInteger::Pair([low, Operand::from((bits >> 32) as u32)]),
    }
}

impl Select<'_> {
    fn number_sum(&mut self, a: WordInteger, b: WordInteger) -> WordInteger {
        match (a, b) {
            (WordInteger::Pair(a), WordInteger::Pair(b)) => WordInteger::Pair(self.pair_sum(a, b)),
            (WordInteger::Word(a), WordInteger::Word(b)) => WordInteger::Word(self.sum(a, b)),
            _ => unreachable!("numbers of one division have one width"),
        }
    }

    fn number_difference(&mut self, a: WordInteger, b: WordInteger) -> WordInteger {
        match (a, b) {
            (WordInteger::Pair(a), WordInteger::Pair(b)) => WordInteger::Pair(self.pair_difference(a, b)),
            (WordInteger::Word(a), WordInteger::Word(b)) => WordInteger::Word(self.difference(a, b)),
            _ => unreachable!("numbers of one division have one width"),
        }
    }

    fn number_shift(&mut self, a: WordInteger, amount: u32, is_signed: bool) -> WordInteger {
        match a {
            _ if amount == 0 => a,
            WordInteger::Word(a) => WordInteger::Word(self.shift_right(a, amount.into(), is_signed)),
            WordInteger::Pair(a) => WordInteger::Pair(self.pair_shift_right(a, amount.into(), is_signed)),
        }
    }

    /// Emits the upper half of the product with a constant.
    fn number_high(&mut self, a: WordInteger, factor: u64, is_signed: bool) -> WordInteger {
        match (a, constant(a, factor)) {
            (WordInteger::Pair(a), WordInteger::Pair(b)) => WordInteger::Pair(high_of_pairs(self, is_signed, a, b)),
            (WordInteger::Word(a), WordInteger::Word(b)) => WordInteger::Word(high_of_words(self, is_signed, a, b)),
            _ => unreachable!("numbers of one division have one width"),
        }
    }

    /// Emits a bitwise operation with a constant, given by its `LOP3` truth table.
    fn number_logic(&mut self, table: u8, a: WordInteger, mask: u64) -> WordInteger {
        match (a, constant(a, mask)) {
            (WordInteger::Pair(a), WordInteger::Pair(b)) => {
                WordInteger::Pair([self.logic(table, a[0], b[0], Operand::RZ), self.logic(table, a[1], b[1], Operand::RZ)])
            }
            (WordInteger::Word(a), WordInteger::Word(b)) => WordInteger::Word(self.logic(table, a, b, Operand::RZ)),
            _ => unreachable!("numbers of one division have one width"),
        }
    }

    /// Returns 1 where a number is at least as great as a constant, 0 elsewhere.
    fn number_at_least(&mut self, a: WordInteger, limit: u64) -> WordInteger {
        let is_enough = match (a, constant(a, limit)) {
            (WordInteger::Pair(a), WordInteger::Pair(b)) => self.compare_pairs("GE", false, a, b),
            (WordInteger::Word(a), WordInteger::Word(b)) => self.compare_words("GE", false, a, b),
            _ => unreachable!("numbers of one division have one width"),
        };
        let one = self.b.define(Class::R, "SEL $, RZ, 0x1, !{}", &[is_enough]);
        if matches!(a, WordInteger::Pair(_)) { WordInteger::Pair([one, Operand::RZ]) } else { WordInteger::Word(one) }
    }

    /// Returns 1 where a number is negative, 0 elsewhere.
    fn number_sign_bit(&mut self, a: WordInteger) -> WordInteger {
        match a {
            WordInteger::Word(a) => WordInteger::Word(self.shift_right(a, 31.into(), false)),
            WordInteger::Pair(a) => WordInteger::Pair([self.shift_right(a[1], 31.into(), false), Operand::RZ]),
        }
    }
}

/// Emits the quotient of an unsigned number of `width` bits by a constant other than zero.
fn unsigned_quotient(select: &mut Select<'_>, number: WordInteger, divisor: u64, width: u32) -> WordInteger {
    if divisor.is_power_of_two() {
        return select.number_shift(number, divisor.trailing_zeros(), false);
    }
    match magic::unsigned(divisor, width) {
        Unsigned::Compare => select.number_at_least(number, divisor),
        Unsigned::Multiply { before, multiplier, after } => {
            let shifted = select.number_shift(number, before, false);
            let high = select.number_high(shifted, multiplier, false);
            select.number_shift(high, after, false)
        }
        Unsigned::MultiplyAdd { multiplier, after } => {
            let high = select.number_high(number, multiplier, false);
            let rest = select.number_difference(number, high);
            let half = select.number_shift(rest, 1, false);
            let sum = select.number_sum(half, high);
            select.number_shift(sum, after, false)
        }
    }
}

/// Emits the quotient, rounded toward zero, of a signed number of `width` bits by a constant other than zero.
fn signed_quotient(select: &mut Select<'_>, number: WordInteger, divisor: i64, width: u32) -> WordInteger {
    let magnitude = divisor.unsigned_abs();
    let quotient = if magnitude == 1 {
        number
    } else if magnitude.is_power_of_two() {
        // The quotient is rounded toward zero: `divisor - 1` is added to negative numbers before the arithmetic shift, which rounds down.
        let bits = magnitude.trailing_zeros();
        let sign = select.number_shift(number, width - 1, true);
        let correction = select.number_shift(sign, width - bits, false);
        let raised = select.number_sum(number, correction);
        select.number_shift(raised, bits, true)
    } else {
        let magic = magic::signed(magnitude, width);
        let mut high = select.number_high(number, magic.multiplier, true);
        if magic.adds {
            high = select.number_sum(high, number);
        }
        let floor = select.number_shift(high, magic.after, true);
        let is_negative = select.number_sign_bit(number);
        select.number_sum(floor, is_negative)
    };
    if divisor < 0 { select.number_difference(constant_zero(number), quotient) } else { quotient }
}

fn constant_zero(like: WordInteger) -> WordInteger {
    match like {
        WordInteger::Word(_) => WordInteger::Word(Operand::RZ),
        WordInteger::Pair(_) => WordInteger::Pair([Operand::RZ; 2]),
    }
}

/// Emits `number - quotient * divisor`.
fn remainder(select: &mut Select<'_>, number: WordInteger, quotient: WordInteger, divisor: u64) -> WordInteger {
    let negated = divisor.wrapping_neg();
    match (number, quotient, constant(number, negated)) {
        (WordInteger::Word(number), WordInteger::Word(quotient), WordInteger::Word(factor)) => {
            WordInteger::Word(multiply_words(select, quotient, factor, number))
        }
        (WordInteger::Pair(number), WordInteger::Pair(quotient), WordInteger::Pair(factor)) => {
            let number = number.map(|word| select.in_register(word));
            let addend = select.b.pack(Class::R2, &number);
            WordInteger::Pair(low_of_pairs(select, quotient, factor, addend))
        }
        _ => unreachable!("numbers of one division have one width"),
    }
}
