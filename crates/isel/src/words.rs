//! Operations that several handlers emit: extension of narrow values, arithmetic on register pairs, comparison, selection.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;

/// A 64-bit value as two words, low word first.
pub(crate) type WordPair = [Operand; 2];

/// The position of a word's sign bit.
pub(crate) const SIGN_BIT: u32 = 31;
/// The number of bits of a word.
const WORD_BITS: u32 = 32;

impl Select<'_> {
    /// Returns a source of up to 32 bits, extended to 32 bits with zeros or copies of the sign as its type requires.
    pub(crate) fn extended(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        if let Some(bits) = self.literal(operand, ty) {
            return Ok(Operand::from(extended_bits(bits, ty) as u32));
        }
        let value = self.source(operand, ty)?;
        Ok(self.extend(value, ty))
    }

    /// Extends a narrow value, whose upper bits are unspecified, to 32 bits.
    pub(crate) fn extend(&mut self, value: Operand, ty: ScalarType) -> Operand {
        // Selector of `PRMT`, a nibble per result byte: 0 to 3 are the bytes of the value, 4 to 7 those of RZ; adding 8 replicates the
        // byte's sign.
        let bytes: u32 = match (ty.bits(), ty.is_signed()) {
            (8, true) => 0x8880,
            (8, false) => 0x7770,
            (16, true) => 0x9910,
            (16, false) => 0x7710,
            _ => return value,
        };
        self.b.define(Class::R, "PRMT $, {}, {}, RZ", &[value, bytes.into()])
    }

    /// Returns the words of an integer source, low word first: two for a 64-bit type, otherwise one. The upper bits of narrow types are
    /// unspecified.
    pub(crate) fn words(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Vec<Operand>, Unsupported> {
        if ty.bits() == 64 { Ok(self.halves(operand, ty)?.to_vec()) } else { Ok(vec![self.source(operand, ty)?]) }
    }

    /// Assigns one word, or two words to a 64-bit register.
    pub(crate) fn assign_words(&mut self, destination: ast::Operand, words: &[Operand]) -> Result<(), Unsupported> {
        match *words {
            [low, high] => self.assign_halves(destination, low, high),
            [word] => self.assign(destination, word),
            _ => Err(Unsupported::new("a result of this width")),
        }
    }

    /// Emits a 32-bit `a + b`.
    pub(crate) fn sum(&mut self, a: Operand, b: Operand) -> Operand {
        self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[a, b])
    }

    /// Emits a 32-bit `a - b`.
    pub(crate) fn difference(&mut self, a: Operand, b: Operand) -> Operand {
        self.b.define(Class::R, "IADD3 $, PT, PT, {}, -{}, RZ", &[a, b])
    }

    /// Emits a 64-bit `a + b`.
    pub(crate) fn pair_sum(&mut self, a: WordPair, b: WordPair) -> WordPair {
        let (low, carry) = self.b.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, {}, RZ", &[a[0], b[0]]);
        [low, self.b.define(Class::R, "IADD3.X $, PT, PT, {}, {}, RZ, {}, !PT", &[a[1], b[1], carry])]
    }

    /// Emits a 64-bit `a - b`. The low word is `a + ~b + 1`, whose carry is correct for every `b`. An addition of the immediate `-b`, into
    /// which a later pass may turn `a - b`, would not carry for `b = 0`.
    pub(crate) fn pair_difference(&mut self, a: WordPair, b: WordPair) -> WordPair {
        let (low, carry) = self.b.define_two([Class::R, Class::P], "IADD3.X $, $, PT, {}, ~{}, RZ, PT, !PT", &[a[0], b[0]]);
        [low, self.b.define(Class::R, "IADD3.X $, PT, PT, {}, ~{}, RZ, {}, !PT", &[a[1], b[1], carry])]
    }

    /// Emits a 32-bit left shift; the result is 0 for amounts above 31.
    pub(crate) fn shift_left(&mut self, a: Operand, amount: Operand) -> Operand {
        self.b.define(Class::R, "SHF.L.U32 $, {}, {}, RZ", &[a, amount])
    }

    /// Emits a 32-bit right shift; for amounts above 31 the result is 0, or all copies of the sign.
    pub(crate) fn shift_right(&mut self, a: Operand, amount: Operand, is_signed: bool) -> Operand {
        let template = if is_signed { "SHF.R.S32.HI $, RZ, {}, {}" } else { "SHF.R.U32.HI $, RZ, {}, {}" };
        self.b.define(Class::R, template, &[amount, a])
    }

    /// Emits a 64-bit left shift; the result is 0 for amounts above 63.
    pub(crate) fn pair_shift_left(&mut self, a: WordPair, amount: Operand) -> WordPair {
        if let Some(rest) = beyond_word(&amount) {
            let high = if rest == 0 { a[0] } else { self.shift_left(a[0], rest.into()) };
            return [Operand::RZ, high];
        }
        let high = self.b.define(Class::R, "SHF.L.U64.HI $, {}, {}, {}", &[a[0], amount, a[1]]);
        [self.shift_left(a[0], amount), high]
    }

    /// Emits a 64-bit right shift; for amounts above 63 the result is 0, or all copies of the sign.
    pub(crate) fn pair_shift_right(&mut self, a: WordPair, amount: Operand, is_signed: bool) -> WordPair {
        if let Some(rest) = beyond_word(&amount) {
            let low = if rest == 0 { a[1] } else { self.shift_right(a[1], rest.into(), is_signed) };
            return [low, if is_signed { self.sign_mask(a[1]) } else { Operand::RZ }];
        }
        let template = if is_signed { "SHF.R.S64 $, {}, {}, {}" } else { "SHF.R.U64 $, {}, {}, {}" };
        let low = self.b.define(Class::R, template, &[a[0], amount, a[1]]);
        [low, self.shift_right(a[1], amount, is_signed)]
    }

    /// Returns all ones where a word is negative, 0 elsewhere.
    pub(crate) fn sign_mask(&mut self, a: Operand) -> Operand {
        self.shift_right(a, SIGN_BIT.into(), true)
    }

    /// Emits a bitwise function of three words, given by its truth table: bit `4a + 2b + c` of the table is its value.
    pub(crate) fn logic(&mut self, table: u8, a: Operand, b: Operand, c: Operand) -> Operand {
        self.b.define(Class::R, "LOP3.LUT $, {}, {}, {}, {}, !PT", &[a, b, c, u32::from(table).into()])
    }

    /// Emits `a & b`.
    pub(crate) fn bitwise_and(&mut self, a: Operand, b: Operand) -> Operand {
        self.logic(0xc0, a, b, Operand::RZ)
    }

    /// Emits a select: `a` where the predicate holds, `b` elsewhere.
    pub(crate) fn select_by_predicate(&mut self, predicate: Operand, a: Operand, b: Operand) -> Operand {
        // Only the second source of `SEL` can be an immediate.
        if a.integer().is_some() {
            return self.b.define(Class::R, "SEL $, {}, {}, {}", &[b, a, predicate.inverted_predicate()]);
        }
        self.b.define(Class::R, "SEL $, {}, {}, {}", &[a, b, predicate])
    }

    /// Emits a 64-bit select: `a` where the predicate holds, `b` elsewhere.
    pub(crate) fn select_pair_by_predicate(&mut self, predicate: Operand, a: WordPair, b: WordPair) -> WordPair {
        [self.select_by_predicate(predicate, a[0], b[0]), self.select_by_predicate(predicate, a[1], b[1])]
    }

    /// Emits a 32-bit comparison, such as `LT`.
    pub(crate) fn compare_words(&mut self, comparison: &str, is_signed: bool, a: Operand, b: Operand) -> Operand {
        self.compare_words_and(comparison, is_signed, a, b, "AND", Operand::PT)
    }

    /// Emits a 32-bit comparison combined with a predicate by `operation` (`AND`, `OR`, `XOR`).
    pub(crate) fn compare_words_and(
        &mut self,
        comparison: &str,
        is_signed: bool,
        a: Operand,
        b: Operand,
        operation: &str,
        with: Operand,
    ) -> Operand {
        let sign = if is_signed { "" } else { ".U32" };
        let template = format!("ISETP.{comparison}{sign}.{operation} $, PT, {{}}, {{}}, {{}}");
        self.b.define(Class::P, &template, &[a, b, with])
    }

    /// Emits a 64-bit comparison.
    pub(crate) fn compare_pairs(&mut self, comparison: &str, is_signed: bool, a: WordPair, b: WordPair) -> Operand {
        self.compare_pairs_and(comparison, is_signed, a, b, "AND", Operand::PT)
    }

    /// Emits a 64-bit comparison combined with a predicate by `operation` (`AND`, `OR`, `XOR`).
    pub(crate) fn compare_pairs_and(
        &mut self,
        comparison: &str,
        is_signed: bool,
        a: WordPair,
        b: WordPair,
        operation: &str,
        with: Operand,
    ) -> Operand {
        // The unsigned comparison of the low words decides where the high words are equal (`.EX`).
        let low = self.compare_words(comparison, false, a[0], b[0]);
        let sign = if is_signed { "" } else { ".U32" };
        let template = format!("ISETP.{comparison}{sign}.{operation}.EX $, PT, {{}}, {{}}, {{}}, {{}}");
        self.b.define(Class::P, &template, &[a[1], b[1], with, low])
    }

    /// Emits a function of two predicates, given by its truth table: bit `2a + b` of the table is its value.
    pub(crate) fn predicate_logic(&mut self, table: u8, a: Operand, b: Operand) -> Operand {
        // `PLOP3` has three inputs. The third is PT, so each bit of the table is doubled.
        let wide = (0..4).filter(|bit| table >> bit & 1 == 1).fold(0_u32, |wide, bit| wide | 0b11 << (2 * bit));
        self.b.define(Class::P, "PLOP3.LUT $, PT, {}, {}, PT, {}, 0x0", &[a, b, wide.into()])
    }

    /// Returns a predicate as a value without inversion, so that it can be copied.
    pub(crate) fn materialized_predicate(&mut self, predicate: Operand) -> Operand {
        if predicate.value().is_some() && predicate.signs.is_empty() {
            return predicate;
        }
        self.predicate_logic(0b1100, predicate, Operand::PT)
    }
}

/// Returns by how much a known distance of a 64-bit shift exceeds a word, if it does: one word of the result is then the other word of the
/// source, shifted by the rest, and needs no funnel shift.
fn beyond_word(amount: &Operand) -> Option<u32> {
    amount.integer().and_then(|amount| u32::try_from(amount).ok()?.checked_sub(WORD_BITS))
}

/// Extends the bits of a number of a type to 64 bits, with zeros or copies of the sign as the type requires.
pub(crate) fn extended_bits(bits: u64, ty: ScalarType) -> u64 {
    let unused = 64 - ty.bits().min(64);
    if ty.is_signed() { ((bits << unused) as i64 >> unused) as u64 } else { bits << unused >> unused }
}
