//! Modifiers that the disassembler derives from the operands: an `IMAD` that only moves, adds or shifts says so.

use crate::table::{Core, Form, Slot, Symbol};

/// Whether a modifier may be a derived one and so carries no bits.
pub(crate) fn is_derived(symbol: Symbol) -> bool {
    matches!(symbol, Symbol::MOV | Symbol::IADD | Symbol::SHL)
}

/// The derived modifier of a word in a form that has some.
pub(crate) fn derive(form: &Form, word: u128) -> Option<Symbol> {
    let sources: Vec<&Slot> = form.operands.iter().filter(|slot| slot.optional.is_none()).skip(1).take(3).collect();
    let [a, b, c] = sources.as_slice() else { return None };
    if is_zero_register(a, word) || is_zero_register(b, word) {
        return Some(Symbol::MOV);
    }
    match immediate(b, word) {
        Some(1) => Some(Symbol::IADD),
        Some(value) if value.is_power_of_two() && is_zero_register(c, word) => Some(Symbol::SHL),
        _ => None,
    }
}

fn is_zero_register(slot: &Slot, word: u128) -> bool {
    matches!(&slot.core, Core::Register(_, bits) if bits.unsigned(word) == bits.limit())
}

fn immediate(slot: &Slot, word: u128) -> Option<u64> {
    match &slot.core {
        Core::Number(_, bits) => Some(bits.unsigned(word)),
        _ => None,
    }
}
