//! Folds constants that are added to an address into the offset of the access, and constant additions into each other.

use super::{MAX_FOLDED_ADDITIONS, OperandFolder};
use crate::alternatives::mnemonic_with_modifiers;
use crate::definitions::KnownWord;
use crate::rewrite::{InstDraft, single_register};
use oriole_ir::{Function, Inst, Operand, OperandKind, Part, Role, Signs};
use oriole_isa::{Memory, Opcode, RegFile, Symbol};
use smallvec::SmallVec;

/// A base plus a constant. The base is one register, a 64-bit number in two registers, or absent.
pub(super) struct BasePlusConstant {
    /// The base that the constant is added to.
    pub(super) base: FoldedAddressBase,
    /// The constant that is added, in bytes for an address.
    pub(super) constant: i64,
}

/// The base of an address, without added constants.
#[derive(Clone, Copy)]
pub(super) enum FoldedAddressBase {
    /// No base: the address is a constant.
    Absent,
    /// A register or an aligned register pair.
    Registers(Part),
    /// The lower and the upper half of a 64-bit base, in two registers that need not be a pair.
    Halves(Part, Part),
}

impl OperandFolder {
    /// Records, for `oriole explain`, that a constant could not be added to the offset of an address.
    fn record_rejected_offset(&mut self, function: &Function, inst: Inst, constant: i64) {
        self.alternatives.reject("fold", inst, || {
            let form = format!("an address whose offset takes the addition of {constant:#x}");
            (form, format!("the sum does not fit into the offset of {}", mnemonic_with_modifiers(function, inst)))
        });
    }

    /// If the base of an address is a register plus a constant, makes the register the base and adds the constant to the offset. `at` is
    /// the operand number of the base.
    pub(super) fn fold_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize) {
        let operand = function.operands(inst)[at];
        let Some(part) = operand.part().filter(|part| function.values[part.value].file == RegFile::General) else { return };
        // A 32-bit base of a 64-bit address is extended after the addition. The addition may wrap at 32 bits, so it must not be folded.
        match part.count {
            1 if has_narrow_address(opcode, &operand) || is_async_copy_destination(function, inst, opcode, at) => {
                self.fold_narrow_address(function, inst, opcode, at);
            }
            2 => self.fold_wide_address(function, inst, opcode, at, part),
            _ => {}
        }
    }

    /// Does the same as `fold_address` for a 32-bit base, one addition after the other.
    fn fold_narrow_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize) {
        for _ in 0..MAX_FOLDED_ADDITIONS {
            let Some(sum) = function.operands(inst)[at].part().and_then(|part| self.as_register_plus_constant(function, part)) else {
                return;
            };
            let Some(draft) = add_to_address_offset(InstDraft::from_inst(function, inst, opcode), at, &sum) else { return };
            if !self.encodability.is_encodable(function, inst, &draft) {
                self.record_rejected_offset(function, inst, sum.constant);
                return;
            }
            draft.overwrite_inst(function, inst);
            self.stats.offsets += 1;
        }
    }

    /// Does the same as `fold_address` for a 64-bit base, with as many constant additions as the offset can take.
    fn fold_wide_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize, base: Part) {
        let (mut low, mut high) = (single_register(base, 0), single_register(base, 1));
        let mut sums: SmallVec<[BasePlusConstant; 4]> = SmallVec::new();
        let mut number = 0_i64;
        for _ in 0..MAX_FOLDED_ADDITIONS {
            let Some((next_low, next_high, added)) = self.match_wide_addition(function, low, high) else { break };
            (low, high) = (next_low, next_high);
            number = number.wrapping_add(added);
            let base = as_aligned_pair(function, low, high).map_or(FoldedAddressBase::Halves(low, high), FoldedAddressBase::Registers);
            sums.push(BasePlusConstant { base, constant: number });
        }
        for (count, mut sum) in sums.into_iter().enumerate().rev() {
            // Whether an address is encodable does not depend on which register pair is its base, so the test uses an aligned pair in place
            // of the halves.
            let as_pair = BasePlusConstant { base: FoldedAddressBase::Registers(base), constant: sum.constant };
            let fits = add_to_address_offset(InstDraft::from_inst(function, inst, opcode), at, &as_pair)
                .is_some_and(|draft| self.encodability.is_encodable(function, inst, &draft));
            if !fits {
                self.record_rejected_offset(function, inst, sum.constant);
                continue;
            }
            if let FoldedAddressBase::Halves(low, high) = sum.base {
                let Some(pair) = self.bases.pack_halves(function, &self.definitions, low, high) else { continue };
                sum.base = FoldedAddressBase::Registers(pair);
            }
            if let Some(draft) = add_to_address_offset(InstDraft::from_inst(function, inst, opcode), at, &sum) {
                draft.overwrite_inst(function, inst);
                self.stats.offsets += count + 1;
                return;
            }
        }
    }

    /// Returns a 32-bit register as the sum of another register and a constant, or as a constant; `None` if its definition is neither.
    fn as_register_plus_constant(&self, function: &Function, part: Part) -> Option<BasePlusConstant> {
        match self.definitions.known_content(function, part) {
            Some(KnownWord::Integer(number)) => {
                Some(BasePlusConstant { base: FoldedAddressBase::Absent, constant: i64::from(number as i32) })
            }
            Some(KnownWord::Constant { .. }) => None,
            None => {
                let (base, number, _) = self.match_addition(function, part)?;
                Some(BasePlusConstant { base: FoldedAddressBase::Registers(base), constant: i64::from(number as i32) })
            }
        }
    }

    /// Matches a 64-bit addition of a constant that computes the halves `low` and `high`, by two additions with a carry. Returns the lower
    /// and upper half of the other summand, and the 64-bit constant.
    fn match_wide_addition(&self, function: &Function, low: Part, high: Part) -> Option<(Part, Part, i64)> {
        let (lower, low, carry) = self.match_addition(function, low)?;
        let origin = self.definitions.origin(function, high);
        let inst = self.definitions.unguarded_definition_of(function, origin.value)?;
        let is_carrying = function.insts[inst].is_machine(Opcode::IADD3) && function.insts[inst].modifiers.as_slice() == [Symbol::X];
        let [first, second, third, carry_in, other_carry] = function.sources(inst) else { return None };
        let reads_carry = carry_in.part().is_some_and(|read| Some(read.value) == carry) && carry_in.signs.is_empty();
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !is_carrying || !is_first_result || !reads_carry || *other_carry != Operand::PT.inverted_predicate() {
            return None;
        }
        let (upper, high) = self.match_register_and_constant(function, &[*first, *second, *third])?;
        Some((lower, upper, (u64::from(high) << 32 | u64::from(low)) as i64))
    }

    /// Matches a 32-bit addition of a register and a constant that computes `part`. Returns the register, the constant, and the carry-out
    /// predicate (`None` if the addition does not write one).
    fn match_addition(&self, function: &Function, part: Part) -> Option<(Part, u32, Option<oriole_ir::Value>)> {
        let (summands, carry) = self.match_sum(function, part)?;
        let (base, number) = self.match_register_and_constant(function, &summands)?;
        Some((base, number, carry))
    }

    /// Matches a 32-bit addition without a carry-in that computes `part`. Returns its three summands and its carry-out predicate (`None` if
    /// the addition does not write one).
    pub(super) fn match_sum(&self, function: &Function, part: Part) -> Option<([Operand; 3], Option<oriole_ir::Value>)> {
        let origin = self.definitions.origin(function, part);
        let inst = self.definitions.unguarded_definition_of(function, origin.value)?;
        let data = &function.insts[inst];
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !data.is_machine(Opcode::IADD3) || !data.modifiers.is_empty() || !is_first_result {
            return None;
        }
        let [first, second, third] = function.sources(inst) else { return None };
        let carry = function.results(inst).get(1).and_then(Operand::value);
        Some(([*first, *second, *third], carry))
    }

    /// Matches summands of which one is a register and the others are constants, at most one of them nonzero. Returns the register and the
    /// sum of the constants.
    pub(super) fn match_register_and_constant(&self, function: &Function, summands: &[Operand]) -> Option<(Part, u32)> {
        let mut register = None;
        let mut number = None;
        for summand in summands {
            if !summand.signs.is_empty() {
                return None;
            }
            let known = match summand.kind {
                OperandKind::Integer(known) => Some(known as u32),
                OperandKind::Zero(RegFile::General) => Some(0),
                OperandKind::Value(part) => match self.definitions.known_content(function, part) {
                    Some(KnownWord::Integer(known)) => Some(known),
                    _ => None,
                },
                _ => return None,
            };
            match (known, summand.part()) {
                (Some(0), _) => {}
                // Two nonzero constants could carry twice, which one 64-bit constant cannot express.
                (Some(known), _) => number = Some(known).filter(|_| number.is_none()).map(Some)?,
                (None, Some(part)) if function.values[part.value].file == RegFile::General && register.is_none() => {
                    register = Some(self.definitions.origin(function, part));
                }
                _ => return None,
            }
        }
        Some((register?, number.unwrap_or(0)))
    }

    /// Combines two additions of constants: `(a + 4) + 8` becomes `a + 12`, unless an instruction reads a carry of the second addition.
    pub(super) fn combine_constant_additions(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        let data = &function.insts[inst];
        let wants_carry = function.results(inst).iter().skip(1).any(|result| result.value().is_some());
        if opcode != Opcode::IADD3 || !data.modifiers.is_empty() || wants_carry || function.sources(inst).len() != 3 {
            return;
        }
        let numbers: SmallVec<[usize; 3]> = (0..3).filter(|&at| function.sources(inst)[at].integer().is_some()).collect();
        let [at] = numbers.as_slice() else { return };
        let number = function.sources(inst)[*at];
        for other in (0..3).filter(|other| other != at) {
            let operand = function.sources(inst)[other];
            let Some(part) = operand.part().filter(|_| operand.signs == Signs::NONE && number.signs == Signs::NONE) else { continue };
            let Some((base, added, _)) = self.match_addition(function, part).filter(|found| found.1 != 0) else { continue };
            let joined = (number.integer().unwrap_or_default() as u32).wrapping_add(added);
            let sources = function.sources_mut(inst);
            sources[*at].kind = OperandKind::Integer(i64::from(joined));
            sources[other].kind = OperandKind::Value(base);
            self.stats.sums += 1;
        }
    }
}

/// Returns whether the addresses of an opcode have 32 bits and the base register is not scaled.
fn has_narrow_address(opcode: Opcode, base: &Operand) -> bool {
    matches!(opcode.properties().memory, Memory::Shared | Memory::Local | Memory::Constant) && base.suffixes().next().is_none()
}

/// Returns whether operand number `at` is the base of the shared-memory address that an asynchronous copy (`LDGSTS`) writes to, which is
/// the first address of the instruction.
fn is_async_copy_destination(function: &Function, inst: Inst, opcode: Opcode, at: usize) -> bool {
    let is_first = |operand: &Operand| matches!(operand.role, Role::Bracket(_));
    opcode == Opcode::LDGSTS && function.operands(inst).iter().position(is_first) == Some(at)
}

/// In the address whose base is operand number `at`, makes the register of `sum` the base and adds the constant of `sum` to the offset.
/// Returns the changed draft; `None` if the offset overflows.
fn add_to_address_offset(mut draft: InstDraft, at: usize, sum: &BasePlusConstant) -> Option<InstDraft> {
    let role = draft.operands[at].role;
    // The operands of one address are adjacent. An asynchronous copy has two addresses, so only the operands next to the base may be
    // changed.
    let is_term = |operand: &Operand| matches!(operand.role, Role::Bracket(_));
    let start = draft.operands[..at].iter().rposition(|operand| !is_term(operand)).map_or(0, |before| before + 1);
    let mut terms = (start..draft.operands.len()).take_while(|&at| is_term(&draft.operands[at]));
    let offset = terms.find(|&at| draft.operands[at].role == role && draft.operands[at].integer().is_some());
    let old = offset.map_or(0, |at| draft.operands[at].integer().unwrap_or_default());
    let new = OperandKind::Integer(old.checked_add(sum.constant)?);
    draft.operands[at].kind = match sum.base {
        FoldedAddressBase::Absent => OperandKind::Zero(RegFile::General),
        FoldedAddressBase::Registers(base) => OperandKind::Value(base),
        FoldedAddressBase::Halves(..) => return None,
    };
    match offset {
        Some(offset) => draft.operands[offset].kind = new,
        None => draft.operands.insert(at + 1, Operand::new(new).with_role(role)),
    }
    Some(draft)
}

/// Returns two registers as one register pair; `None` if they are not an aligned pair of registers of one value.
pub(super) fn as_aligned_pair(function: &Function, low: Part, high: Part) -> Option<Part> {
    let is_pair = high.value == low.value && high.first == low.first + 1 && low.first.is_multiple_of(2);
    (is_pair && function.values[low.value].align >= 2).then_some(Part { count: 2, ..low })
}
