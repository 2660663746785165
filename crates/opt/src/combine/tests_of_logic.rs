//! Combines a logic operation with the comparison of its result with zero.
//!
//! ```text
//! %2 = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//! %3:P = ISETP.NE.AND %2, 0x0, PT             becomes     %3:P, RZ = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//!
//! %3:P = ISETP.EQ.AND %2, 0x0, PT             becomes     %4:P, %2 = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//!                                                         %3:P = PLOP3.LUT %4, PT, PT, 0xf, 0x0
//!
//! %1 = LOP3.LUT %0, 0x4, RZ, 0xc0, !PT
//! %2:P = ISETP.EQ.AND %1, 0x4, PT             becomes     %2:P, RZ = LOP3.LUT %0, 0x4, RZ, 0xc0, !PT
//!
//! %1 = PRMT %0, 0x7770, RZ
//! %2:P = ISETP.NE.AND %1, 0x0, PT             becomes     %2:P, RZ = LOP3.LUT %0, 0xff, RZ, 0xc0, !PT
//! ```
//!
//! The predicate result of `LOP3` is true if the word is not zero or the predicate source holds; the source is `!PT`, so it never holds.
//! The inversion by `PLOP3` is later absorbed by the instructions that read the predicate ([`super::inversions`]).

use oriole_ir::{Class, Function, Inst, Operand, Signs};
use oriole_isa::{Opcode, Symbol};
use oriole_support::Index;
use smallvec::smallvec;

use super::{CombineRule, Combiner};
use crate::known::{LUT_AND, OperandFacts};
use crate::rewrite::InstDraft;

/// Truth table of a `PLOP3` that inverts its first source.
const PLOP3_LUT_NOT: u32 = 0x0f;

impl Combiner {
    /// Replaces a comparison of a word with zero, or with the only bit that may be set in it, by the predicate result of a `LOP3` that
    /// computes the word. Returns the rule that was applied; `None` if nothing changed.
    pub(super) fn combine_test_of_logic(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        let &[result, Operand::PT] = function.results(inst) else { return None };
        let &[word, compared, Operand::PT] = function.sources(inst) else { return None };
        let is_inverted = match function.insts[inst].modifiers.as_slice() {
            [Symbol::NE, Symbol::AND] | [Symbol::NE, Symbol::U32, Symbol::AND] => false,
            [Symbol::EQ, Symbol::AND] | [Symbol::EQ, Symbol::U32, Symbol::AND] => true,
            _ => return None,
        };
        let compared = OperandFacts::new(function, &self.definitions).word(&compared)?;
        if function.insts[inst].guard.is_some() || result.value().is_none() || !word.signs.is_empty() {
            return None;
        }
        let (logic, [a, b, c, table, never]) = self.match_logic(function, inst, &word)?;
        // `x & bit` is either `bit` or zero, so `(x & bit) == bit` is the same as `(x & bit) != 0`.
        let is_kept_bit = compared.is_power_of_two() && table.integer() == Some(LUT_AND) && b.integer() == Some(i64::from(compared));
        let is_inverted = match compared {
            0 => is_inverted,
            _ if is_kept_bit => !is_inverted,
            _ => return None,
        };
        let tested = |predicate: Operand, word: Operand| InstDraft {
            opcode: Opcode::LOP3,
            modifiers: [Symbol::LUT].into_iter().collect(),
            operands: smallvec![predicate, word, a, b, c, table, never],
            result_count: 2,
        };
        if !is_inverted {
            let draft = self.first_encodable_draft(function, inst, [tested(result, Operand::RZ)])?;
            self.replace_inst(function, inst, draft, &[logic]);
            return Some(CombineRule::TestOfLogic);
        }
        if !self.encodability.is_encodable(function, logic, &tested(result, word)) {
            return None;
        }
        let predicate = function.new_value(Class::P);
        let whole = Operand::from(function.whole(predicate));
        self.reads.resize(predicate.position() + 1, 0);
        // The word stays a result: dead instructions that are not deleted yet may read it.
        tested(whole, function.results(logic)[0]).overwrite_inst(function, logic);
        self.definitions.set_definition(predicate, logic);
        let inversion = InstDraft {
            opcode: Opcode::PLOP3,
            modifiers: [Symbol::LUT].into_iter().collect(),
            operands: smallvec![result, Operand::PT, whole, Operand::PT, Operand::PT, PLOP3_LUT_NOT.into(), 0_u32.into()],
            result_count: 2,
        };
        self.replace_inst(function, inst, inversion, &[]);
        Some(CombineRule::TestOfLogic)
    }
    /// Returns the instruction that computes `word` for `reader`, its only reader, and the sources of a `LOP3` that computes the same word;
    /// `None` if `word` is not the result of a logic operation.
    fn match_logic(&self, function: &Function, reader: Inst, word: &Operand) -> Option<(Inst, [Operand; 5])> {
        if let Some(logic) = self.absorbable_inst(function, reader, word, Opcode::LOP3, &[Symbol::LUT]) {
            let &[a, b, c, table, never] = function.sources(logic) else { return None };
            let is_plain = function.results(logic).len() == 1 && never == Operand::PT.with_signs(Signs::NOT);
            return is_plain.then_some((logic, [a, b, c, table, never]));
        }
        let permutation = self.absorbable_inst(function, reader, word, Opcode::PRMT, &[])?;
        let &[a, selector, Operand::RZ] = function.sources(permutation) else { return None };
        let mask = mask_of_kept_bytes(selector.integer()? as u32)?;
        let sources = [a, mask.into(), Operand::RZ, (LUT_AND as u32).into(), Operand::PT.with_signs(Signs::NOT)];
        (a.signs.is_empty() && a.part().is_some()).then_some((permutation, sources))
    }
}

/// Returns the mask of the bytes that `PRMT` with this selector and zero as its second word keeps in their places; `None` if it moves a
/// byte or extends a sign. The four digits of the selector name the byte for each place: 0 to 3 are the bytes of the first word, 4 to 7 are
/// zero; 8 to 15 repeat the sign bit of byte 0 to 7, which for bytes 4 to 7 is zero.
fn mask_of_kept_bytes(selector: u32) -> Option<u32> {
    (0..4).try_fold(0, |mask, place| match selector >> (4 * place) & 0xf {
        byte if byte == place => Some(mask | 0xff << (8 * place)),
        4..=7 | 12..=15 => Some(mask),
        _ => None,
    })
}
