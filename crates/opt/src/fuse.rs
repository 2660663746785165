//! Fuses a widening 32-by-32-bit multiplication and a 64-bit addition into one multiply-add.
//!
//! Array accesses in PTX are `mul.wide` followed by `add.s64`. Instruction selection emits a product with a zero addend and two 32-bit
//! additions connected by a carry:
//!
//! ```text
//! %p:R2  = IMAD.WIDE %i, 4, RZ
//! %l, %c = IADD3 %p[0], %b[0], RZ
//! %h     = IADD3.X %p[1], %b[1], RZ, %c, !PT
//! %a:R2  = PACK %l, %h                     becomes   %a:R2 = IMAD.WIDE %i, 4, %b
//! ```
//!
//! The other summand is an aligned register pair, or an aligned pair of words in the constant bank (a kernel parameter). A multiply-add
//! of the program (`mad.wide`) of two registers reads such a pair of words in the same way, instead of two registers with the words; in
//! functions without loops, one of a register and a literal does so too. The result may
//! have more non-register operands than any encoding form takes, so the pass runs before legalization. The product and the additions stay;
//! dead-code elimination removes them if they have no other readers.

use std::cell::OnceCell;

use oriole_ir::analysis::{ControlFlow, Loops};
use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Target};
use oriole_isa::{Opcode, RegFile, Symbol};
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::rewrite::single_register;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of 64-bit additions that became multiply-adds.
    pub fused: usize,
    /// Number of multiply-adds that read their summand from the constant bank.
    pub with_constant: usize,
}

/// Fuses widening multiplications with 64-bit additions in a whole function.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let definitions = Definitions::compute(function);
    let has_loops = OnceCell::new();
    let mut stats = Stats::default();
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for number in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[number];
            if let Some((product, addend)) = match_product_and_addend(function, &definitions, inst) {
                let result = function.results(inst)[0];
                let factors: SmallVec<[Operand; 2]> = function.sources(product)[..2].iter().copied().collect();
                function.insts[inst].op = Op::Machine(Opcode::IMAD);
                function.insts[inst].modifiers = function.insts[product].modifiers.clone();
                function.set_operands(inst, &[result, factors[0], factors[1], addend], 1);
                stats.fused += 1;
            } else if let Some(addend) = match_constant_addend(function, &definitions, &has_loops, inst) {
                let result_count = function.insts[inst].result_count();
                let mut operands: SmallVec<[Operand; 8]> = SmallVec::from_slice(function.operands(inst));
                operands[result_count + 2] = addend;
                function.set_operands(inst, &operands, result_count);
                stats.with_constant += 1;
            }
        }
    }
    stats
}

/// Matches a 64-bit addition of a widening product and another summand; `pack` joins the two halves of the sum. Returns the multiplication
/// and the other summand.
fn match_product_and_addend(function: &Function, definitions: &Definitions, pack: Inst) -> Option<(Inst, Operand)> {
    if !function.insts[pack].is(Pseudo::Pack) || function.insts[pack].guard.is_some() {
        return None;
    }
    let [low, high] = function.sources(pack) else { return None };
    let (low, carry) = match_addition_with_carry(function, definitions, low, &[])?;
    let (high, _) = match_addition_with_carry(function, definitions, high, &[carry?])?;
    // Each half may have its two summands in either order, so all four combinations are tried.
    for (first, other) in [(0, 1), (1, 0)] {
        for (upper_first, upper_other) in [(0, 1), (1, 0)] {
            let product = match_wide_product(function, definitions, &low[first], &high[upper_first]);
            if let Some(product) = product
                && let Some(addend) = join_halves_into_operand(function, definitions, &low[other], &high[upper_other])
            {
                return Some((product, addend));
            }
        }
    }
    None
}

/// Returns the pair of words in the constant bank that a widening multiply-add reads from a register pair; `None` for other instructions.
/// `has_loops` keeps whether the function has loops.
fn match_constant_addend(function: &Function, definitions: &Definitions, has_loops: &OnceCell<bool>, inst: Inst) -> Option<Operand> {
    let data = &function.insts[inst];
    let is_wide = data.is_machine(Opcode::IMAD) && matches!(data.modifiers.as_slice(), [Symbol::WIDE] | [Symbol::WIDE, Symbol::U32]);
    let [first, second, addend] = function.sources(inst) else { return None };
    let part = addend.part().filter(|part| part.count == 2 && addend.signs.is_empty())?;
    if !is_wide {
        return None;
    }
    // An instruction has one operand that is no register, so a literal factor moves to a register. In a function without loops, later
    // passes share it between all accesses with the same element size, while each base would need two registers of its own. In a loop it
    // would be one more live register or one more move: matrix products of Triton had 1 to 3% more instructions in their loops, and took
    // 1.03 to 1.04 of the time on an H200.
    let compute_has_loops = || !Loops::compute(function, &ControlFlow::compute(function)).is_empty();
    let is_allowed = |factor: &Operand| match factor.kind {
        OperandKind::Value(_) => true,
        OperandKind::Integer(_) => !has_loops.get_or_init(compute_has_loops),
        _ => false,
    };
    if ![first, second].into_iter().all(is_allowed) {
        return None;
    }
    let [low, high] = [0, 1].map(|half| Operand::from(single_register(part, half)));
    let joined = join_halves_into_operand(function, definitions, &low, &high)?;
    matches!(joined.kind, OperandKind::Constant { .. }).then_some(joined)
}

/// Matches the 32-bit addition that computes `sum`. Returns its two summands, and its carry-out predicate (`None` if it writes none). If
/// `carries` is not empty, the addition must be an `IADD3.X` that adds the first of `carries`.
fn match_addition_with_carry(
    function: &Function,
    definitions: &Definitions,
    sum: &Operand,
    carries: &[oriole_ir::Value],
) -> Option<([Operand; 2], Option<oriole_ir::Value>)> {
    let origin = definitions.origin(function, sum.part().filter(|part| part.count == 1 && sum.signs.is_empty())?);
    let inst = definitions.unguarded_definition_of(function, origin.value)?;
    let data = &function.insts[inst];
    let expected: &[Symbol] = if carries.is_empty() { &[] } else { &[Symbol::X] };
    let is_sum = data.is_machine(Opcode::IADD3) && data.modifiers.as_slice() == expected;
    if !is_sum || function.results(inst).first().and_then(Operand::value) != Some(origin.value) {
        return None;
    }
    let sources = function.sources(inst);
    if let Some(carry) = carries.first() {
        let [_, _, _, first, second] = sources else { return None };
        let adds_carry = first.value() == Some(*carry) && first.signs.is_empty() && *second == Operand::PT.inverted_predicate();
        if !adds_carry {
            return None;
        }
    }
    let summands: SmallVec<[Operand; 3]> = sources.get(..3)?.iter().copied().filter(|source| source.kind != Operand::RZ.kind).collect();
    let [first, second] = summands.as_slice() else { return None };
    let is_plain = |operand: &Operand| operand.signs.is_empty() && operand.suffixes().next().is_none();
    let all_plain = is_plain(first) && is_plain(second) && sources[..3].iter().all(is_plain);
    all_plain.then_some(([*first, *second], function.results(inst).get(1).and_then(Operand::value)))
}

/// Returns the widening multiplication with a zero addend whose result has the halves `low` and `high`; `None` if there is none.
fn match_wide_product(function: &Function, definitions: &Definitions, low: &Operand, high: &Operand) -> Option<Inst> {
    let low = definitions.origin(function, low.part()?);
    let high = definitions.origin(function, high.part()?);
    if low.value != high.value || (low.first, high.first) != (0, 1) {
        return None;
    }
    let inst = definitions.unguarded_definition_of(function, low.value)?;
    let data = &function.insts[inst];
    let is_wide_multiplication =
        data.is_machine(Opcode::IMAD) && matches!(data.modifiers.as_slice(), [Symbol::WIDE] | [Symbol::WIDE, Symbol::U32]);
    let has_no_addend = matches!(function.sources(inst), [_, _, addend] if addend.kind == Operand::RZ.kind && addend.signs.is_empty());
    (is_wide_multiplication && has_no_addend && data.result_count() == 1).then_some(inst)
}

/// Returns the two halves of a 64-bit summand as one operand, a register pair or a pair of constant-bank words; `None` if the halves are
/// not adjacent and aligned.
fn join_halves_into_operand(function: &Function, definitions: &Definitions, low: &Operand, high: &Operand) -> Option<Operand> {
    let word = |operand: &Operand| match operand.kind {
        OperandKind::Constant { bank, offset } => Some(KnownWord::Constant { bank, offset }),
        OperandKind::Value(part) => definitions.known_content(function, part),
        _ => None,
    };
    if let (Some(KnownWord::Constant { bank, offset }), Some(KnownWord::Constant { bank: upper_bank, offset: upper })) =
        (word(low), word(high))
    {
        let is_pair = bank == upper_bank && upper == offset + 4 && offset.is_multiple_of(8);
        return is_pair.then(|| Operand::constant(bank, offset));
    }
    let (low, high) = (definitions.origin(function, low.part()?), definitions.origin(function, high.part()?));
    let class = function.values[low.value];
    let is_pair = low.value == high.value
        && high == single_register(Part { count: 2, ..low }, 1)
        && low.first.is_multiple_of(2)
        && class.align >= 2
        && class.file == RegFile::General;
    is_pair.then(|| Part { count: 2, ..low }.into())
}
