//! Moves the constant part of an array index out of the address computation.
//!
//! Indices such as `(i << 5) | 3` differ in their lowest bits only. If the bits of the constant are known to be zero in the rest of the
//! index, the OR is a sum without carries, so the constant can be added to the address instead:
//!
//! ```text
//! %1 = SHF.L.U32 %0, 5, RZ                      %1 = SHF.L.U32 %0, 5, RZ
//! %2 = LOP3.LUT %1, 3, RZ, 0xfc, !PT            %4:R2 = IMAD.WIDE %1, 4, c[0x0][0x210]
//! %3:R2 = IMAD.WIDE %2, 4, c[0x0][0x210]        %5, %6:P = IADD3 %4[0], 12, RZ
//!                                               %7 = IADD3.X %4[1], 0, RZ, %6, !PT
//!                                               %3:R2 = PACK %5, %7
//! ```
//!
//! Common-subexpression elimination then finds that neighbouring accesses have the same base, and folding moves the constants into the
//! offsets of the accesses. Only multiply-adds whose readers all use the result as an address are changed, because only there is the
//! addition free.
//!
//! **Why it is exact.** Where `a & k` is 0, `a | k` is `a + k` without a carry out of any bit. If bit 31 of `k` is 0 too, this holds after
//! sign extension and after zero extension to 64 bits, where multiplication distributes over the sum.
//!
//! **Before** and **after**: SSA, before legalization. The cost is linear in the size of the function.

use oriole_ir::{Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Target};
use oriole_isa::{Opcode, Symbol};
use oriole_support::Index;

use crate::definitions::{Definitions, KnownWord};
use crate::known::{LUT_AND, LUT_OR};
use crate::rewrite::InstPrelude;

/// Maximum length of a chain of dependent instructions to look through for bits that are known to be zero.
const MAX_DEPENDENCE_CHAIN: usize = 6;
/// Largest constant to add to an address, in bytes: the offset of an access is a signed 24-bit integer.
const MAX_OFFSET_BYTES: i64 = (1 << 23) - 1;
/// Largest thread index within a block, in any dimension.
const MAX_THREAD_INDEX: u32 = 1023;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of array indices whose constant part became an addition to the address.
    pub split: usize,
}

/// Splits constant parts off array indices and adds them to the addresses instead, in a whole function.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let definitions = Definitions::compute(function);
    let is_address = values_read_as_addresses(function);
    let mut stats = Stats::default();
    for block in function.layout.clone() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        for inst in insts {
            if let Some((index, offset)) = match_index_with_constant(function, &definitions, &is_address, inst) {
                split_address_computation(function, inst, index, offset, &mut kept);
                stats.split += 1;
            }
            kept.push(inst);
        }
        function.blocks[block].insts = kept;
    }
    stats
}

/// Returns, for each value, whether all instructions that read it use it as an address.
fn values_read_as_addresses(function: &Function) -> Vec<bool> {
    let mut only = vec![true; function.values.len()];
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for source in function.sources(inst) {
                if let (Some(value), false) = (source.value(), matches!(source.role, Role::Bracket(_))) {
                    only[value.position()] = false;
                }
            }
        }
    }
    only
}

/// An array index without its constant part.
enum IndexWithoutConstant {
    /// One register.
    Register(Part),
    /// The bitwise OR of two registers.
    Or(Part, Part),
}

/// Matches an instruction that computes an address from an index with a constant part, by a widening multiply-add. Returns the index
/// without the constant part, and the constant part times the element size, in bytes.
fn match_index_with_constant(
    function: &Function,
    definitions: &Definitions,
    is_address: &[bool],
    inst: Inst,
) -> Option<(IndexWithoutConstant, i64)> {
    let data = &function.insts[inst];
    let is_wide = matches!(data.modifiers.as_slice(), [Symbol::WIDE] | [Symbol::WIDE, Symbol::U32]);
    if !data.is_machine(Opcode::IMAD) || !is_wide || data.guard.is_some() {
        return None;
    }
    let ([result], [index, factor, addend]) = (function.results(inst), function.sources(inst)) else { return None };
    let is_plain = [index, factor, addend].iter().all(|operand| operand.signs.is_empty() && operand.role == Role::Plain);
    let is_free = result.value().is_some_and(|value| is_address[value.position()]);
    let scale = known_constant(function, definitions, factor).filter(|_| is_plain && is_free)?;
    let index = index.part().filter(|part| part.count == 1)?;
    let (rest, number) = split_off_constant(function, definitions, index)?;
    let offset = i64::from(number).checked_mul(i64::from(scale)).filter(|offset| (1..=MAX_OFFSET_BYTES).contains(offset))?;
    Some((rest, offset))
}

/// Splits an index of the form `a | constant` or `a | (b | constant)` into the part that is not constant and the constant. `None` if the
/// index has another form, or if a bit of the constant may be set in the other part.
fn split_off_constant(function: &Function, definitions: &Definitions, index: Part) -> Option<(IndexWithoutConstant, u32)> {
    let (first, second) = match_logic_sources(function, definitions, index, LUT_OR)?;
    let zeros = |operand: &Operand| known_zero_bits(function, definitions, operand, MAX_DEPENDENCE_CHAIN);
    let is_apart = |number: u32, zeros: u32| number as i32 > 0 && number & !zeros == 0;
    for (one, other) in [(first, second), (second, first)] {
        let Some(part) = one.part() else { continue };
        if let Some(number) = known_constant(function, definitions, &other) {
            return is_apart(number, zeros(&one)).then_some((IndexWithoutConstant::Register(part), number));
        }
        // The constant may be in the second source: a | (b | constant).
        let Some((inner, last)) = other.part().and_then(|part| match_logic_sources(function, definitions, part, LUT_OR)) else { continue };
        if let (Some(inner_part), Some(number)) = (inner.part(), known_constant(function, definitions, &last))
            && is_apart(number, zeros(&one) & zeros(&inner))
        {
            return Some((IndexWithoutConstant::Or(part, inner_part), number));
        }
    }
    None
}

/// If a register is computed by a `LOP3` of two sources with this truth table, returns the two sources; otherwise `None`.
fn match_logic_sources(function: &Function, definitions: &Definitions, part: Part, table: i64) -> Option<(Operand, Operand)> {
    let origin = definitions.origin(function, part);
    let inst = definitions.unguarded_definition_of(function, origin.value)?;
    let data = &function.insts[inst];
    let ([_], [first, second, zero, found, never]) = (function.results(inst), function.sources(inst)) else { return None };
    let is_operation = data.is_machine(Opcode::LOP3)
        && data.modifiers.as_slice() == [Symbol::LUT]
        && found.integer() == Some(table)
        && *zero == Operand::RZ
        && *never == Operand::PT.inverted_predicate()
        && first.signs.is_empty()
        && second.signs.is_empty();
    is_operation.then_some((*first, *second))
}

/// Returns the value of a 32-bit operand if it is a compile-time constant; otherwise `None`.
fn known_constant(function: &Function, definitions: &Definitions, operand: &Operand) -> Option<u32> {
    match operand.kind {
        OperandKind::Integer(number) => Some(number as u32),
        OperandKind::Value(part) if part.count == 1 => match definitions.known_content(function, part) {
            Some(KnownWord::Integer(number)) => Some(number),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the mask of the bits of an operand that are known to be zero. `depth` is the maximum number of dependent instructions to look
/// through.
fn known_zero_bits(function: &Function, definitions: &Definitions, operand: &Operand, depth: usize) -> u32 {
    if let Some(number) = known_constant(function, definitions, operand) {
        return !number;
    }
    let Some(part) = operand.part().filter(|part| part.count == 1 && operand.signs.is_empty() && depth > 0) else { return 0 };
    let zeros = |operand: &Operand| known_zero_bits(function, definitions, operand, depth - 1);
    if let Some((first, second)) = match_logic_sources(function, definitions, part, LUT_AND) {
        return zeros(&first) | zeros(&second);
    }
    if let Some((first, second)) = match_logic_sources(function, definitions, part, LUT_OR) {
        return zeros(&first) & zeros(&second);
    }
    let origin = definitions.origin(function, part);
    let Some(inst) = definitions.unguarded_definition_of(function, origin.value) else { return 0 };
    let data = &function.insts[inst];
    match (data.op.machine(), data.modifiers.as_slice(), function.sources(inst)) {
        (Some(Opcode::SHF), [Symbol::L, Symbol::U32], [a, distance, zero]) if *zero == Operand::RZ => match distance.integer() {
            Some(distance @ 0..=31) => zeros(a) << distance | ((1_u32 << distance) - 1),
            _ => 0,
        },
        (Some(Opcode::S2R), [], [Operand { kind: OperandKind::Name(name), .. }]) if name.spelling().starts_with("SR_TID.") => {
            !MAX_THREAD_INDEX
        }
        _ => 0,
    }
}

/// Replaces the address computation `inst` by instructions that compute the address from the index without its constant part, and add
/// `offset` bytes. Appends all but the last of them to `kept`; the last one replaces `inst`.
fn split_address_computation(function: &mut Function, inst: Inst, index: IndexWithoutConstant, offset: i64, kept: &mut Vec<Inst>) {
    let mut prelude = InstPrelude::before(function, inst);
    let index = match index {
        IndexWithoutConstant::Register(part) => Operand::from(part),
        IndexWithoutConstant::Or(first, second) => {
            let sources = [first.into(), second.into(), Operand::RZ, LUT_OR.into(), Operand::PT.inverted_predicate()];
            prelude.emit_definition(function, Class::R, Opcode::LOP3, &[Symbol::LUT], &sources)
        }
    };
    let modifiers = function.insts[inst].modifiers.clone();
    let (factor, addend) = (function.sources(inst)[1], function.sources(inst)[2]);
    let base = prelude.emit_definition(function, Class::R2, Opcode::IMAD, &modifiers, &[index, factor, addend]);
    let half = |number: u8| base.part().map_or(base, |part| crate::rewrite::single_register(part, number).into());
    let (low, carry, high) = (function.new_value(Class::R), function.new_value(Class::P), function.new_value(Class::R));
    let [low, carry, high] = [low, carry, high].map(|value| Operand::from(function.whole(value)));
    let sum = [low, carry, Operand::PT, half(0), offset.into(), Operand::RZ];
    prelude.push(function, Op::Machine(Opcode::IADD3), &[], &sum, 3);
    let upper_sum = [high, Operand::PT, Operand::PT, half(1), Operand::RZ, Operand::RZ, carry, Operand::PT.inverted_predicate()];
    prelude.push(function, Op::Machine(Opcode::IADD3), &[Symbol::X], &upper_sum, 3);
    kept.extend(prelude.insts);
    let result = function.results(inst)[0];
    function.insts[inst].op = Op::Pseudo(Pseudo::Pack);
    function.insts[inst].modifiers = oriole_isa::Symbols::new();
    function.set_operands(inst, &[result, low, high], 1);
}

#[cfg(test)]
mod tests {
    /// Checks all 8-bit values: if no bit is set in both numbers and the constant is not negative, the OR is the sum, after sign extension
    /// and after zero extension.
    #[test]
    fn or_of_disjoint_bits_is_their_sum_after_extension() {
        for rest in 0..=u8::MAX {
            for number in (0..=i8::MAX as u8).filter(|number| rest & number == 0) {
                let union = rest | number;
                assert_eq!(i16::from(union as i8), i16::from(rest as i8) + i16::from(number));
                assert_eq!(u16::from(union), u16::from(rest) + u16::from(number));
            }
        }
    }
}
