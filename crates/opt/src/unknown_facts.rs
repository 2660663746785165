//! A memory of the values about which [`crate::known`] found nothing.
//!
//! The analysis of an operand looks through a chain of up to six dependent instructions, several operands each. A pass that asks about every
//! operand of a function would analyze the same instructions again and again: of a sum of a hundred products, the last ones for each of the
//! next six sums. Most answers are "nothing is known", so these are remembered.
//!
//! Example: `%3 = IADD3 %1, %2` and `%4 = IADD3 %3, %0`, where `%1` is the result of a load. The question whether `%3` is constant is
//! answered with no, and remembered. When `%5 = LOP3 %4, ...` asks about `%4`, its source `%3` takes no further analysis.
//!
//! A pass that walks over a function and simplifies instructions can keep the memory while it does so: to know less than possible is always
//! correct, and in a layout where definitions come before uses, an instruction is simplified before anything depends on it.

use std::cell::Cell;

use oriole_ir::{Function, Value};
use oriole_support::Index;

/// Maximum length of a chain of dependent instructions to look through.
pub(crate) const MAX_DEPENDENCE_CHAIN: usize = 6;

/// The values of a function for which nothing was found, by the kind of fact.
pub(crate) struct UnknownFacts {
    /// Values that are not constant.
    pub(crate) words: UnknownValues,
    /// Values whose upper bound is that of any 32-bit number.
    pub(crate) bounds: UnknownValues,
}

impl UnknownFacts {
    /// Returns a memory for a function in which nothing was analyzed yet.
    pub(crate) fn new(function: &Function) -> UnknownFacts {
        UnknownFacts { words: UnknownValues::new(function), bounds: UnknownValues::new(function) }
    }
}

/// Values for which a fact of one kind was not found.
pub(crate) struct UnknownValues {
    /// For each value, [`UNTRIED`] minus the smallest depth of an analysis that found nothing; 0 if there was none. The depth is the number of
    /// instructions between the queried operand and the operand that is analyzed.
    found: Vec<Cell<u8>>,
}

/// More than the largest depth of an analysis.
const UNTRIED: u8 = MAX_DEPENDENCE_CHAIN as u8 + 1;

impl UnknownValues {
    fn new(function: &Function) -> UnknownValues {
        UnknownValues { found: vec![Cell::new(0); function.values.len()] }
    }

    /// Returns whether an analysis at this depth or a lower one found nothing. The deeper an analysis starts, the fewer instructions it looks
    /// through, so it finds nothing either.
    #[inline]
    pub(crate) fn contains(&self, value: Value, depth: usize) -> bool {
        self.found.get(value.position()).is_some_and(|found| UNTRIED - depth as u8 <= found.get())
    }

    /// Records that an analysis at this depth found nothing. Values that were created after the memory are left out.
    #[inline]
    pub(crate) fn insert(&self, value: Value, depth: usize) {
        if let Some(found) = self.found.get(value.position()) {
            found.set(found.get().max(UNTRIED - depth as u8));
        }
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::{Operand, text};

    use super::*;
    use crate::definitions::Definitions;
    use crate::known::OperandFacts;

    /// A chain of eight sums, of which six can be looked through. The answers about all operands, first to last and last to first, are the same
    /// with and without a memory, also for halves of pairs.
    #[test]
    fn a_memory_changes_no_answer() {
        let sums: String = (2..9).map(|number| format!("%{}:R, PT, PT = IADD3 %{number}, 0x1, RZ\n", number + 1)).collect();
        for first in ["%2:R = MOV 0x7", "%2:R = IMAD %0, %0, %0", "%2:R = LOP3.LUT %0, 0xff, RZ, 0xc0, !PT"] {
            let program = format!(
                "func kernel @k ssa {{\nbb0:\n%0:R, %1:R2 = ENTRY\n{first}\n{sums}%10:R2 = PACK %3, %8\n\
                 %11:R, PT, PT = IADD3 %10[0], %10[1], RZ\nKEEP %2, %3, %8, %9, %10[0], %10[1], %11\nEXIT\n}}\n"
            );
            let function = text::parse(&program).unwrap_or_else(|error| panic!("{error:?}\n{program}")).remove(0);
            let definitions = Definitions::compute(&function);
            let insts = &function.blocks[function.entry()].insts;
            let operands = function.sources(insts[insts.len() - 2]);
            let plain = OperandFacts::new(&function, &definitions);
            let facts = |facts: &OperandFacts<'_>, operand: &Operand| (facts.word(operand), facts.upper_bound(operand));
            let orders: [Vec<&Operand>; 2] = [operands.iter().collect(), operands.iter().rev().collect()];
            for order in orders {
                let unknown = UnknownFacts::new(&function);
                let remembering = OperandFacts::new(&function, &definitions).with_memory(&unknown);
                for _ in 0..2 {
                    for &operand in &order {
                        assert_eq!(facts(&remembering, operand), facts(&plain, operand), "{first}: {operand:?}");
                    }
                }
            }
        }
    }
}
