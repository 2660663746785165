//! Constant folding: evaluates integer operations whose operands are all compile-time constants, and single-precision operations
//! ([`super::evaluate_float`]).
//!
//! The operations are defined as in the machine-code simulator (`crates/sim/src/sass/arith`); `filetests/run/constants.ptx` compares both.

use oriole_ir::{Function, Inst, OperandKind, RegFile};
use oriole_isa::{Opcode, Symbol};

use super::constant_sources::{ConstantSources, KnownResults, join_predicates};
use super::evaluate_float::{evaluate_float, evaluate_float_compare, evaluate_integer_to_float, evaluate_pair_of_halves};
use crate::definitions::Definitions;
use crate::known::evaluate_logic;

/// Computes the results of an instruction from its modifiers and its sources.
type EvaluateFn = fn(Opcode, &[Symbol], &ConstantSources) -> Option<KnownResults>;

/// Returns the function that evaluates an opcode at compile time; `None` if there is none.
pub(super) fn evaluate_fn_of(opcode: Opcode) -> Option<EvaluateFn> {
    Some(match opcode {
        Opcode::IADD3 => evaluate_sum,
        Opcode::IMAD => evaluate_product,
        Opcode::LEA => evaluate_shifted_sum,
        Opcode::SHF => evaluate_shift,
        Opcode::LOP3 => evaluate_bitwise_logic,
        Opcode::PRMT => evaluate_permutation,
        Opcode::SEL => evaluate_select,
        Opcode::ISETP => evaluate_compare,
        Opcode::PLOP3 => evaluate_predicate_logic,
        Opcode::IMNMX | Opcode::VIMNMX => evaluate_min_max,
        Opcode::IABS | Opcode::POPC | Opcode::FLO | Opcode::BREV => evaluate_bit_operation,
        Opcode::SGXT | Opcode::BMSK => evaluate_bit_field,
        Opcode::FADD | Opcode::FMUL | Opcode::FFMA => evaluate_float,
        Opcode::FSETP => evaluate_float_compare,
        Opcode::I2F | Opcode::I2FP => evaluate_integer_to_float,
        Opcode::F2FP => evaluate_pair_of_halves,
        _ => return None,
    })
}

/// Computes the results of an unguarded instruction at compile time; `None` for instructions that are not evaluated, or if a source is not
/// known.
pub(super) fn evaluate(function: &Function, definitions: &Definitions, inst: Inst, opcode: Opcode) -> Option<KnownResults> {
    let operation = evaluate_fn_of(opcode)?;
    // The cheapest test comes first: constant-bank words are not known at compile time.
    if function.sources(inst).iter().any(|source| matches!(source.kind, OperandKind::Constant { .. })) {
        return None;
    }
    // The 64-bit addend must be a register pair or zero.
    let is_wide =
        opcode == Opcode::IMAD && function.insts[inst].modifiers.iter().any(|&modifier| matches!(modifier, Symbol::WIDE | Symbol::HI));
    if is_wide
        && function
            .sources(inst)
            .get(2)
            .is_none_or(|addend| addend.kind != OperandKind::Zero(RegFile::General) && addend.part().is_none_or(|part| part.count != 2))
    {
        return None;
    }
    let sources = ConstantSources::from_inst(function, definitions, inst)?;
    operation(opcode, &function.insts[inst].modifiers, &sources)
}

/// Evaluates `IADD3`, the sum of three summands and up to two carries in. The first carry result says whether the sum overflows 32 bits at
/// least once, the second whether it does so twice.
fn evaluate_sum(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let carries = match (modifiers, sources.predicates.as_slice()) {
        ([], []) => 0,
        ([Symbol::X], [one, other]) => u64::from(*one) + u64::from(*other),
        _ => return None,
    };
    if sources.integers.len() != 3 {
        return None;
    }
    let sum = sources.carry_summand(0)? + sources.carry_summand(1)? + sources.carry_summand(2)? + carries;
    Some(KnownResults { integer: Some(u64::from(sum as u32)), predicates: Some([sum >> 32 >= 1, sum >> 32 >= 2]) })
}

/// Evaluates `IMAD` without a carry: the lower word of `a * b + c`, or all 64 bits (`.WIDE`), or the upper word (`.HI`).
fn evaluate_product(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let is_plain = sources.predicates.is_empty() && sources.integers.iter().all(|number| number.1.is_empty());
    let &[(a, _), (b, _), (c, _)] = sources.integers.as_slice() else { return None };
    let (a, b) = (a as u32, b as u32);
    let signed = (i64::from(a as i32) * i64::from(b as i32)) as u64;
    let unsigned = u64::from(a) * u64::from(b);
    match modifiers {
        _ if !is_plain => None,
        [] | [Symbol::U32] => KnownResults::of_word(a.wrapping_mul(b).wrapping_add(c as u32)),
        [Symbol::WIDE] => KnownResults::integer(signed.wrapping_add(c)),
        [Symbol::WIDE, Symbol::U32] => KnownResults::integer(unsigned.wrapping_add(c)),
        [Symbol::HI] => KnownResults::of_word((signed.wrapping_add(c) >> 32) as u32),
        [Symbol::HI, Symbol::U32] => KnownResults::of_word((unsigned.wrapping_add(c) >> 32) as u32),
        _ => None,
    }
}

/// Evaluates `LEA`: `(a << n) + b` with its carry.
fn evaluate_shifted_sum(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let is_plain = sources.predicates.is_empty() && sources.integers.iter().all(|number| number.1.is_empty());
    let [a, b, distance] = sources.words::<3>().filter(|_| is_plain && modifiers.is_empty())?;
    let sum = u64::from(a << (distance & 31)) + u64::from(b);
    Some(KnownResults { integer: Some(u64::from(sum as u32)), predicates: Some([sum >> 32 != 0, false]) })
}

/// Evaluates `SHF`: one word of the shifted register pair `high:low`.
fn evaluate_shift(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let known = [Symbol::L, Symbol::R, Symbol::W, Symbol::U32, Symbol::S32, Symbol::U64, Symbol::S64, Symbol::HI];
    let has = |symbol| modifiers.contains(&symbol);
    let [low, amount, high] = sources.words::<3>().filter(|_| modifiers.iter().all(|modifier| known.contains(modifier)))?;
    let width = if has(Symbol::U64) || has(Symbol::S64) { 64 } else { 32 };
    let amount = if has(Symbol::W) { amount & (width - 1) } else { amount.min(width) };
    let pair = u64::from(high) << 32 | u64::from(low);
    let shifted = match (has(Symbol::R), has(Symbol::S32) || has(Symbol::S64)) {
        (false, _) => pair.checked_shl(amount).unwrap_or(0),
        (true, true) => (pair as i64 >> amount.min(63)) as u64,
        (true, false) => pair.checked_shr(amount).unwrap_or(0),
    };
    KnownResults::of_word(if has(Symbol::HI) { (shifted >> 32) as u32 } else { shifted as u32 })
}

/// Evaluates `LOP3`, a bitwise function of three words given by a truth table. Its predicate result says whether the word is nonzero.
fn evaluate_bitwise_logic(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let [a, b, c, table] = sources.words::<4>().filter(|_| modifiers == [Symbol::LUT] && sources.predicates.as_slice() == [false])?;
    let word = evaluate_logic(i64::from(table), a, b, c);
    Some(KnownResults { integer: Some(u64::from(word)), predicates: Some([word != 0, false]) })
}

/// Evaluates `PRMT`: each byte of the result is a selected byte of the register pair `b:a`, or eight copies of its sign bit if the selector
/// has bit 3 set.
fn evaluate_permutation(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let [a, selectors, b] = sources.words::<3>().filter(|_| modifiers.is_empty())?;
    let pair = u64::from(b) << 32 | u64::from(a);
    let byte = |index: u32| {
        let selector = selectors >> (4 * index);
        let byte = (pair >> (8 * (selector & 7))) as u8;
        let byte = if selector & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        u32::from(byte) << (8 * index)
    };
    KnownResults::of_word((0..4).map(byte).fold(0, |word, byte| word | byte))
}

/// Evaluates `SEL`: the first word if the predicate is true, else the second.
fn evaluate_select(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let ([a, b], &[first]) = (sources.words::<2>().filter(|_| modifiers.is_empty())?, sources.predicates.as_slice()) else { return None };
    KnownResults::of_word(if first { a } else { b })
}

/// Evaluates `ISETP`: compares two words and combines the result with a predicate. With `.EX`, which compares upper words, the result for
/// the lower words counts if the words are equal.
fn evaluate_compare(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let [relation, rest @ ..] = modifiers else { return None };
    let [a, b] = sources.words::<2>()?;
    let (is_unsigned, rest) = if let [Symbol::U32, rest @ ..] = rest { (true, rest) } else { (false, rest) };
    let order = if is_unsigned { a.cmp(&b) } else { (a as i32).cmp(&(b as i32)) };
    let holds = match *relation {
        Symbol::LT => order.is_lt(),
        Symbol::LE => order.is_le(),
        Symbol::GT => order.is_gt(),
        Symbol::GE => order.is_ge(),
        Symbol::EQ => order.is_eq(),
        Symbol::NE => order.is_ne(),
        _ => return None,
    };
    let (join, holds, other) = match (rest, sources.predicates.as_slice()) {
        ([join], &[other]) => (*join, holds, other),
        ([join, Symbol::EX], &[other, lower]) => (*join, if order.is_eq() { lower } else { holds }, other),
        _ => return None,
    };
    Some(KnownResults { integer: None, predicates: Some([join_predicates(join, holds, other)?, join_predicates(join, !holds, other)?]) })
}

/// Evaluates `PLOP3`, which has two predicate results, each given by a truth table of the three predicate sources.
fn evaluate_predicate_logic(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let ([first, second], &[a, b, c]) = (sources.words::<2>()?, sources.predicates.as_slice()) else { return None };
    let row = u32::from(a) << 2 | u32::from(b) << 1 | u32::from(c);
    (modifiers == [Symbol::LUT])
        .then_some(KnownResults { integer: None, predicates: Some([first >> row & 1 == 1, second >> row & 1 == 1]) })
}

/// Evaluates `IMNMX` and `VIMNMX`: the smaller word if the predicate is true, else the larger one.
fn evaluate_min_max(_: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let ([a, b], &[wants_minimum]) = (sources.words::<2>()?, sources.predicates.as_slice()) else { return None };
    let is_less = match modifiers {
        [] | [Symbol::S32] => (a as i32) < (b as i32),
        [Symbol::U32] => a < b,
        _ => return None,
    };
    KnownResults::of_word(if is_less == wants_minimum { a } else { b })
}

/// Evaluates `IABS` (absolute value), `POPC` (population count), `FLO` (find leading one) and `BREV` (bit reversal).
fn evaluate_bit_operation(opcode: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let [a] = sources.words::<1>()?;
    // Returns the index of the highest set bit, counted from bit 0; all ones if none is set.
    let leading = |bits: u32| if bits == 0 { u32::MAX } else { 31 - bits.leading_zeros() };
    // Returns the index of the highest set bit, counted from bit 31 downwards; all ones if none is set.
    let distance = |bits: u32| if bits == 0 { u32::MAX } else { bits.leading_zeros() };
    KnownResults::of_word(match (opcode, modifiers) {
        (Opcode::IABS, []) => (a as i32).unsigned_abs(),
        (Opcode::POPC, []) => a.count_ones(),
        (Opcode::BREV, []) => a.reverse_bits(),
        (Opcode::FLO, [Symbol::U32]) => leading(a),
        (Opcode::FLO, []) => leading(a ^ (a as i32 >> 31) as u32),
        (Opcode::FLO, [Symbol::U32, Symbol::SH]) => distance(a),
        (Opcode::FLO, [Symbol::SH]) => distance(a ^ (a as i32 >> 31) as u32),
        _ => return None,
    })
}

/// Evaluates `SGXT` (the lowest `n` bits, sign- or zero-extended) and `BMSK` (`n` one bits, starting at bit `a`). Larger values of `n` and
/// `a` count as 32.
fn evaluate_bit_field(opcode: Opcode, modifiers: &[Symbol], sources: &ConstantSources) -> Option<KnownResults> {
    let [a, count] = sources.words::<2>()?;
    let count = count.min(32);
    let ones = |count: u32| (1_u64 << count) - 1;
    KnownResults::of_word(match (opcode, modifiers) {
        (Opcode::BMSK, []) => (ones(count) << a.min(32)) as u32,
        (Opcode::SGXT, _) if count == 0 => 0,
        (Opcode::SGXT, [Symbol::U32]) => a & ones(count) as u32,
        (Opcode::SGXT, []) => ((a << (32 - count)) as i32 >> (32 - count)) as u32,
        _ => return None,
    })
}
