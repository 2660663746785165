//! Modifiers that the disassembler derives from the operands: an `IMAD` that only moves, adds or shifts says so.

use crate::table::{Core, Form, Slot, Symbol};

/// Whether a modifier may be a derived one and so carries no bits.
pub(crate) fn is_derived(symbol: Symbol) -> bool {
    matches!(symbol, Symbol::MOV | Symbol::IADD | Symbol::SHL)
}

/// Powers of two that the disassembler does not call a shift.
const NO_SHIFTS: [u64; 2] = [0x1_0000, 0x8000_0000];

/// The derived modifier of a word in a form that has some: destination, two factors and a summand.
pub(crate) fn derive(form: &Form, word: u128) -> Option<Symbol> {
    let mut sources = form.operands.iter().filter(|slot| slot.optional.is_none()).skip(1);
    let (first, second, summand) = (sources.next()?, sources.next()?, sources.next()?);
    if is_zero_register(first, word) || is_zero_register(second, word) {
        return Some(Symbol::MOV);
    }
    let Core::Number(_, bits) = &second.core else { return None };
    match (bits.unsigned(word), is_zero_register(summand, word)) {
        (0, _) | (1, true) => Some(Symbol::MOV),
        (1, false) => Some(Symbol::IADD),
        (factor, true) if factor.is_power_of_two() && !NO_SHIFTS.contains(&factor) => Some(Symbol::SHL),
        _ => None,
    }
}

fn is_zero_register(slot: &Slot, word: u128) -> bool {
    matches!(&slot.core, Core::Register(_, bits) if bits.unsigned(word) == bits.limit())
}
