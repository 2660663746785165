//! Derives the modifier that nvdisasm adds to the text of an `IMAD` that only moves, adds or shifts.
//!
//! The modifier depends on the operands alone and has no bits in the encoding. Examples, with `RZ` as the zero register:
//!
//! ```text
//! R1 = RZ * R2 + R3    IMAD.MOV
//! R1 = R2 * 1  + RZ    IMAD.MOV
//! R1 = R2 * 1  + R3    IMAD.IADD
//! R1 = R2 * 8  + RZ    IMAD.SHL
//! ```

use crate::table::{Core, Form, Slot, Symbol};

/// Returns whether `symbol` can be a derived modifier, which has no bits in the encoding.
pub(crate) fn is_derived(symbol: Symbol) -> bool {
    matches!(symbol, Symbol::MOV | Symbol::IADD | Symbol::SHL)
}

/// Powers of two for which nvdisasm does not print `.SHL`.
const NO_SHIFTS: [u64; 2] = [0x1_0000, 0x8000_0000];

/// Returns the derived modifier of `word`. The operands of `form` must be a destination, two factors and an addend.
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

/// Returns whether the slot holds `RZ` (or `URZ`) in `word`; the zero register is encoded as all ones.
fn is_zero_register(slot: &Slot, word: u128) -> bool {
    matches!(&slot.core, Core::Register(_, bits) if bits.unsigned(word) == bits.limit())
}
