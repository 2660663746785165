//! Arithmetic with PTX' carry flag, `CC.CF`.
//!
//! The flag is a predicate variable of the function. After a subtraction it holds the borrow, as the manual says. The machine's
//! subtraction is `a + ~b + carry`, whose carry is the opposite of a borrow, so the flag is inverted between the two. In a chain
//! of subtractions the machine's own carry is passed on as it is, and the inversions turn out to be dead.

use oriole_ir::{Block, Class, Operand, Value};
use oriole_ptx::table::{Modifier, Opcode};

use super::multiply::{Part, product};
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// The carry flag of a function.
#[derive(Default)]
pub(crate) struct Carry {
    /// Its variable.
    flag: Option<Value>,
    /// The opposite of the flag, valid in this block only: the carry of the subtraction that set it.
    opposite: Option<(Block, Operand)>,
}

/// `add.cc`, `addc`, `sub.cc`, `subc`
pub(crate) fn add_carrying(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let (a, b) = (select.words(ptx.operand(1), ty)?, select.words(ptx.operand(2), ty)?);
    let reads_flag = matches!(ptx.opcode(), Opcode::Addc | Opcode::Subc);
    let is_difference = matches!(ptx.opcode(), Opcode::Sub | Opcode::Subc);
    finish(select, ptx, &a, &b, reads_flag, is_difference)
}

/// `mad.cc`, `madc`
pub(crate) fn multiply_add_carrying(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let product = product(select, ptx, Part::of(ptx))?;
    let c = select.words(ptx.operand(3), ptx.ty())?;
    finish(select, ptx, &product, &c, ptx.opcode() == Opcode::Madc, false)
}

/// Adds or subtracts word by word, with the flag if it is wanted, and sets destination and flag.
fn finish(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    a: &[Operand],
    b: &[Operand],
    reads_flag: bool,
    is_difference: bool,
) -> Result<(), Unsupported> {
    let writes_flag = ptx.has(Modifier::Cc);
    let mut carry = match (reads_flag, is_difference) {
        (false, false) => None,
        (false, true) => Some(Operand::PT),
        (true, false) => Some(flag(select)),
        (true, true) => Some(opposite_of_flag(select)),
    };
    let sign = if is_difference { "~" } else { "" };
    let last = a.len() - 1;
    let mut words = Vec::new();
    for (number, (&a, &b)) in a.iter().zip(b).enumerate() {
        let (head, tail) = if carry.is_some() { ("IADD3.X", ", {}, !PT") } else { ("IADD3", "") };
        let sources: Vec<Operand> = [a, b].into_iter().chain(carry).collect();
        if writes_flag || number < last {
            let template = format!("{head} $, $, PT, {{}}, {sign}{{}}, RZ{tail}");
            let (word, carry_out) = select.b.define_two([Class::R, Class::P], &template, &sources);
            words.push(word);
            carry = Some(carry_out);
        } else {
            let template = format!("{head} $, PT, PT, {{}}, {sign}{{}}, RZ{tail}");
            words.push(select.b.define(Class::R, &template, &sources));
        }
    }
    if let (true, Some(carry)) = (writes_flag, carry) {
        set_flag(select, carry, is_difference);
    }
    select.assign_words(ptx.operand(0), &words)
}

fn flag_variable(select: &mut Select<'_>) -> Value {
    if let Some(value) = select.frame.carry.flag {
        return value;
    }
    let value = select.b.value(Class::P);
    select.frame.carry.flag = Some(value);
    value
}

fn flag(select: &mut Select<'_>) -> Operand {
    let value = flag_variable(select);
    select.b.whole(value)
}

fn opposite_of_flag(select: &mut Select<'_>) -> Operand {
    match select.frame.carry.opposite {
        Some((block, carry)) if block == select.b.block() => carry,
        _ => flag(select).inverted_predicate(),
    }
}

fn set_flag(select: &mut Select<'_>, carry: Operand, is_opposite: bool) {
    let value = flag_variable(select);
    let is_certain = select.b.guard.is_none();
    select.frame.carry.opposite = (is_opposite && is_certain).then(|| (select.b.block(), carry));
    let new = if is_opposite { select.plain_predicate(carry.inverted_predicate()) } else { carry };
    select.b.assign(value, new);
}
