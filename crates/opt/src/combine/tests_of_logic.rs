//! Combines a logic operation with the comparison of its result with zero.
//!
//! ```text
//! %2 = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//! %3:P = ISETP.NE.AND %2, 0x0, PT             becomes     %3:P, RZ = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//!
//! %3:P = ISETP.EQ.AND %2, 0x0, PT             becomes     %4:P, %2 = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//!                                                         %3:P = PLOP3.LUT %4, PT, PT, 0xf, 0x0
//! ```
//!
//! The predicate result of `LOP3` is whether the word is not zero, or its predicate source holds, which is never. An inversion is absorbed
//! by the instructions that read the predicate ([`super::inversions`]).

use oriole_ir::{Class, Function, Inst, Operand, Signs};
use oriole_isa::{Opcode, Symbol};
use oriole_support::Index;
use smallvec::smallvec;

use super::{CombineRule, Combiner};
use crate::known::OperandFacts;
use crate::rewrite::InstDraft;

/// Truth table of a `PLOP3` that inverts its first source.
const PLOP3_LUT_NOT: u32 = 0x0f;

impl Combiner {
    /// Replaces a comparison with zero by the predicate result of the `LOP3` that computes the compared word. Returns the rule that was
    /// applied; `None` if nothing changed.
    pub(super) fn combine_test_of_logic(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        let &[result, Operand::PT] = function.results(inst) else { return None };
        let &[word, zero, Operand::PT] = function.sources(inst) else { return None };
        let is_inverted = match function.insts[inst].modifiers.as_slice() {
            [Symbol::NE, Symbol::AND] | [Symbol::NE, Symbol::U32, Symbol::AND] => false,
            [Symbol::EQ, Symbol::AND] | [Symbol::EQ, Symbol::U32, Symbol::AND] => true,
            _ => return None,
        };
        let is_zero = OperandFacts::new(function, &self.definitions).word(&zero) == Some(0);
        if function.insts[inst].guard.is_some() || result.value().is_none() || !is_zero || !word.signs.is_empty() {
            return None;
        }
        let logic = self.absorbable_inst(function, inst, &word, Opcode::LOP3, &[Symbol::LUT])?;
        let &[a, b, c, table, never] = function.sources(logic) else { return None };
        if function.results(logic).len() != 1 || never != Operand::PT.with_signs(Signs::NOT) {
            return None;
        }
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
}
