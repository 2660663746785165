//! The factors of multiplications, for comparing products.

use oriole_ir::{Function, Inst, Operand, OperandKind};

use crate::definitions::{Definitions, KnownWord};

/// Two factors of 32 bits.
pub(super) type Factors = [Operand; 2];

/// Returns the factors of a multiplication, as what they are copies of; `None` if a factor is not a word, or has a sign.
pub(super) fn factors_of(function: &Function, definitions: &Definitions, product: Inst) -> Option<Factors> {
    let &[a, b, ..] = function.sources(product) else { return None };
    Some([plain_factor(function, definitions, a)?, plain_factor(function, definitions, b)?])
}

/// Returns a factor without sign as the operand that it is a copy of; a register with a known constant is the constant.
fn plain_factor(function: &Function, definitions: &Definitions, factor: Operand) -> Option<Operand> {
    if !factor.signs.is_empty() || factor.suffixes().next().is_some() {
        return None;
    }
    match factor.kind {
        OperandKind::Value(part) if part.count == 1 => match definitions.known_content(function, part) {
            Some(KnownWord::Integer(number)) => Some(number.into()),
            _ => Some(definitions.origin(function, part).into()),
        },
        OperandKind::Value(_) => None,
        OperandKind::Integer(number) => Some((number as u32).into()),
        _ => Some(factor),
    }
}
