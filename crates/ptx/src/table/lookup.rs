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
