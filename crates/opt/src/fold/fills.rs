//! Simplifies asynchronous copies that copy either all bytes or none.
//!
//! `LDGSTS.ZFILL` copies the first bytes of its source and fills the remaining bytes of its destination with zeros. The number of these
//! bytes is in the lowest bits of the source address: it is added to the address. Where a predicate is false, nothing is copied. Programs
//! mostly choose between all bytes and none:
//!
//! ```text
//! %2:R = SEL 0x10, RZ, %1                        // the number of bytes to copy
//! %3:R, PT, PT = IADD3 -%2, 0x10, RZ
//! %4:R = LOP3.LUT %3, 0xf, RZ, 0xc0, !PT         // the number of missing bytes, modulo 16: always 0
//! %5:R, %6:P, PT = IADD3 %0[0], %4, RZ
//! %7:R, PT, PT = IADD3.X %0[1], RZ, RZ, %6, !PT
//! %8:R2 = PACK %5, %7
//! %9:P, PT = ISETP.NE.U32.AND %2, 0x0, PT
//! LDGSTS.E.BYPASS.128.ZFILL [%10], desc[%11][%8.64], %9
//! ```
//!
//! The number in the address is then always zero, and the predicate of the choice can be the predicate of the copy, which without `.ZFILL`
//! writes zeros where its predicate does not hold:
//!
//! ```text
//! LDGSTS.E.BYPASS.128 [%10], desc[%11][%0.64], %1
//! ```

use oriole_ir::{Function, Inst, Operand, OperandKind, Part, RegFile, Role};
use oriole_isa::{Opcode, Symbol};

use super::OperandFolder;
use super::addresses::{FoldedAddressBase, as_aligned_pair};
use crate::known::OperandFacts;
use crate::rewrite::single_register;

/// The modifier of an asynchronous copy that fills its destination with zeros after the copied bytes.
const ZERO_FILL_MODIFIER: &str = ".ZFILL";

impl OperandFolder {
    /// If the `.ZFILL` copy `inst` always copies either all bytes or none, removes the modifier `.ZFILL` and simplifies its address and
    /// predicate.
    pub(super) fn remove_zero_fill(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        if opcode != Opcode::LDGSTS || !function.insts[inst].modifiers.iter().any(|modifier| modifier.spelling() == ZERO_FILL_MODIFIER) {
            return;
        }
        let is_source = |operand: &Operand| matches!(operand.role, Role::Bracket(_)) && general_register_pair(function, operand).is_some();
        let Some(at) = function.operands(inst).iter().position(is_source) else { return };
        let Some(pair) = general_register_pair(function, &function.operands(inst)[at]) else { return };
        let Some(base) = self.match_base_plus_zero(function, pair) else { return };
        let base = match base {
            FoldedAddressBase::Halves(low, high) => self.bases.pack_halves(function, &self.definitions, low, high),
            FoldedAddressBase::Registers(base) => Some(base),
            FoldedAddressBase::Absent => None,
        };
        let Some(base) = base else { return };
        function.operands_mut(inst)[at].kind = OperandKind::Value(base);
        let modifiers = function.insts[inst].modifiers.iter().copied().filter(|modifier| modifier.spelling() != ZERO_FILL_MODIFIER);
        function.insts[inst].modifiers = modifiers.collect();
        let is_predicate = |operand: &Operand| operand.value().is_some_and(|value| function.values[value].file == RegFile::Predicate);
        if let Some(at) = function.operands(inst).iter().position(is_predicate)
            && let Some(choice) = OperandFacts::new(function, &self.definitions).equivalent_predicate(&function.operands(inst)[at])
        {
            function.operands_mut(inst)[at] = choice;
        }
        self.stats.offsets += 1;
    }

    /// Matches a 64-bit address that is the sum of a base and a value that is always zero. Returns the base.
    fn match_base_plus_zero(&self, function: &Function, pair: Part) -> Option<FoldedAddressBase> {
        let (low, carry) = self.match_zero_addition(function, single_register(pair, 0))?;
        let origin = self.definitions.origin(function, single_register(pair, 1));
        let inst = self.definitions.unguarded_definition_of(function, origin.value)?;
        let is_carrying = function.insts[inst].is_machine(Opcode::IADD3) && function.insts[inst].modifiers.as_slice() == [Symbol::X];
        let [first, second, third, carry_in, other_carry] = function.sources(inst) else { return None };
        let reads_carry = carry_in.value() == carry && carry.is_some() && carry_in.signs.is_empty();
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !is_carrying || !is_first_result || !reads_carry || *other_carry != Operand::PT.inverted_predicate() {
            return None;
        }
        let (high, 0) = self.match_register_and_constant(function, &[*first, *second, *third])? else { return None };
        Some(as_aligned_pair(function, low, high).map_or(FoldedAddressBase::Halves(low, high), FoldedAddressBase::Registers))
    }

    /// Matches a 32-bit addition that computes `part` from one register and summands that are always zero. Returns the register and the
    /// carry-out predicate (`None` if the addition does not write one).
    fn match_zero_addition(&self, function: &Function, part: Part) -> Option<(Part, Option<oriole_ir::Value>)> {
        let (summands, carry) = self.match_sum(function, part)?;
        let known = OperandFacts::new(function, &self.definitions);
        let mut others = summands.iter().filter(|source| !known.is_always_zero(source));
        let (base, None) = (others.next()?, others.next()) else { return None };
        let base = base.part().filter(|part| base.signs.is_empty() && function.values[part.value].file == RegFile::General)?;
        Some((self.definitions.origin(function, base), carry))
    }
}

/// Returns the pair of general registers that an operand reads; `None` if the operand reads something else.
fn general_register_pair(function: &Function, operand: &Operand) -> Option<Part> {
    operand.part().filter(|part| part.count == 2 && function.values[part.value].file == RegFile::General)
}
