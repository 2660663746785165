//! Fast lookup of spellings and of candidate rows, with tables computed at compile time.
//!
//! Spellings are found by binary search over their first 16 bytes taken as a big-endian number, so that each step compares two numbers.
//! Rows that cannot match a set of modifiers are rejected with bit sets: most rows of an opcode do not match a given head.

use super::{Modifier, ROWS, SlotSpec};

/// Number of leading bytes of a spelling that form its key.
const KEY_BYTES: usize = 16;

/// Returns the first bytes of a text as a big-endian number. Numbers compare like the texts.
const fn key(text: &[u8]) -> u128 {
    let mut bytes = [0; KEY_BYTES];
    let mut at = 0;
    while at < KEY_BYTES && at < text.len() {
        bytes[at] = text[at];
        at += 1;
    }
    u128::from_be_bytes(bytes)
}

/// Returns the keys of sorted spellings.
pub(super) const fn keys<const COUNT: usize>(spellings: &[&str; COUNT]) -> [u128; COUNT] {
    let mut keys = [0; COUNT];
    let mut at = 0;
    while at < COUNT {
        keys[at] = key(spellings[at].as_bytes());
        at += 1;
    }
    keys
}

/// Returns the index of a text in the sorted spellings whose keys are `keys`.
pub(super) fn position(keys: &[u128], spellings: &[&str], text: &str) -> Option<usize> {
    let wanted = key(text.as_bytes());
    let first = keys.partition_point(|&key| key < wanted);
    // Spellings with the same first 16 bytes have the same key.
    let alike = keys[first..].iter().take_while(|&&key| key == wanted).count();
    (first..first + alike).find(|&position| spellings[position] == text)
}

/// A set of modifiers as a Bloom filter with one hash: several modifiers share a bit, so it may contain modifiers that were not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ModifierSet(u128);

impl ModifierSet {
    pub const EMPTY: ModifierSet = ModifierSet(0);

    pub const fn with(self, modifier: Modifier) -> ModifierSet {
        ModifierSet(self.0 | 1 << (modifier as u32 % u128::BITS))
    }

    const fn is_within(self, other: ModifierSet) -> bool {
        self.0 & !other.0 == 0
    }
}

/// The modifiers that a row accepts and requires.
#[derive(Clone, Copy)]
struct Admission {
    /// Modifiers that some slot of the row accepts.
    allowed: ModifierSet,
    /// Modifiers that the row requires.
    required: ModifierSet,
}

impl Admission {
    const NOTHING: Admission = Admission { allowed: ModifierSet::EMPTY, required: ModifierSet::EMPTY };

    const fn with(mut self, slot: &SlotSpec) -> Admission {
        let mut at = 0;
        while at < slot.values.len() {
            self.allowed = self.allowed.with(slot.values[at]);
            at += 1;
        }
        if slot.group == 0 && slot.values.len() == 1 {
            self.required = self.required.with(slot.values[0]);
        }
        self
    }
}

static ADMISSIONS: [Admission; ROWS.len()] = admissions();

/// Computes the sets of all rows, at compile time.
const fn admissions() -> [Admission; ROWS.len()] {
    let mut all = [Admission::NOTHING; ROWS.len()];
    let mut row = 0;
    while row < all.len() {
        let slots = ROWS[row].slots;
        let mut slot = 0;
        while slot < slots.len() {
            all[row] = all[row].with(&slots[slot]);
            slot += 1;
        }
        row += 1;
    }
    all
}

/// Returns whether a row may match these modifiers. False means that it does not match; true does not mean that it does.
pub(crate) fn may_fit(row: u16, modifiers: ModifierSet) -> bool {
    let Admission { allowed, required } = ADMISSIONS[usize::from(row)];
    required.is_within(modifiers) && modifiers.is_within(allowed)
}

#[cfg(test)]
mod tests {
    use super::super::{FAMILY_NAMES, Opcode, rows_of};
    use super::*;

    #[test]
    fn every_spelling_is_found_and_nothing_else() {
        for modifier in Modifier::ALL {
            let spelling = modifier.spelling();
            assert_eq!(Modifier::from_spelling(spelling), Some(modifier));
            assert_eq!(Modifier::from_spelling(&format!("{spelling}__")), None);
        }
        assert!(Opcode::ALL.iter().all(|opcode| Opcode::from_spelling(opcode.spelling()) == Some(*opcode)));
        assert!(FAMILY_NAMES.iter().all(|name| rows_of(name).is_some_and(|rows| !rows.is_empty())));
        assert_eq!((Modifier::from_spelling(""), rows_of("addd"), rows_of("ad")), (None, None, None));
    }

    #[test]
    fn spellings_that_begin_alike_are_told_apart() {
        let spellings = ["a_long_spelling_1", "a_long_spelling_2", "a_long_spelling_3"];
        let keys = keys(&spellings);
        for (number, spelling) in spellings.iter().enumerate() {
            assert_eq!(position(&keys, &spellings, spelling), Some(number));
        }
        assert_eq!(position(&keys, &spellings, "a_long_spelling_4"), None);
        assert_eq!(position(&keys, &spellings, "a_long_spelling_"), None);
    }

    #[test]
    fn no_row_is_ruled_out_that_takes_its_modifiers() {
        for (number, row) in ROWS.iter().enumerate() {
            let first = row.slots.iter().map(|slot| slot.values[0]);
            let required = row.slots.iter().filter(|slot| slot.group == 0).map(|slot| slot.values[0]);
            for all in [first.collect::<Vec<_>>(), required.collect()] {
                let set = all.into_iter().fold(ModifierSet::EMPTY, ModifierSet::with);
                assert!(may_fit(number as u16, set), "{:?} line {}", row.opcode, row.line);
            }
        }
    }
}
