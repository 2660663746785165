//! Arithmetic with the PTX carry flag, `CC.CF`.
//!
//! The flag is a predicate variable of the function and holds the machine's carry. The machine subtracts as `a + ~b + carry`, so after a
//! subtraction the flag means that there was *no* borrow. The PTX manual says the opposite. ptxas behaves as implemented here, and code
//! that NVIDIA's compilers generate (128-bit division) uses `addc` after a subtraction and depends on it.

use oriole_ir::{Class, Operand, Value};
use oriole_ptx::table::{Modifier, Opcode};

use super::multiply::{ProductPart, product};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Selects `add.cc`, `addc`, `sub.cc`, `subc`.
pub(crate) fn add_carrying(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let (a, b) = (select.words(ptx.operand(1), ty)?, select.words(ptx.operand(2), ty)?);
    let reads_flag = matches!(ptx.opcode(), Opcode::Addc | Opcode::Subc);
    let is_difference = matches!(ptx.opcode(), Opcode::Sub | Opcode::Subc);
    finish(select, ptx, &a, &b, reads_flag, is_difference)
}

/// Selects `mad.cc`, `madc`.
pub(crate) fn multiply_add_carrying(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let product = product(select, ptx, ProductPart::of(ptx))?;
    let c = select.words(ptx.operand(3), ptx.ty())?;
    finish(select, ptx, &product, &c, ptx.opcode() == Opcode::Madc, false)
}

/// Emits the addition or subtraction word by word, with the flag as carry-in if `reads_flag`; assigns the destination and, with `.cc`, the
/// flag.
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
        (true, _) => Some(flag(select)),
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
        let value = flag_variable(select);
        select.b.assign(value, carry);
    }
    select.assign_words(ptx.operand(0), &words)
}

/// Returns the variable that holds the flag. Creates it at the first use.
fn flag_variable(select: &mut Select<'_>) -> Value {
    if let Some(value) = select.frame.carry_flag {
        return value;
    }
    let value = select.b.value(Class::P);
    select.frame.carry_flag = Some(value);
    value
}

fn flag(select: &mut Select<'_>) -> Operand {
    let value = flag_variable(select);
    select.b.whole(value)
}
