//! Which words of PTX registers the machine registers and spill slots hold at one point of the code.

use std::collections::BTreeSet;

use oriole_ir::RegFile;
use rustc_hash::FxHashMap;

/// A place of 32 bits, or of one predicate, that may hold a word of a PTX register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MachinePlace {
    /// A general register, by number.
    General(u16),
    /// A predicate register, by number.
    Predicate(u16),
    /// A word of a spill slot, by its distance from the stack pointer in bytes.
    Slot(u32),
}

impl MachinePlace {
    /// Returns the place for a machine register; `None` for files other than general registers and predicates.
    pub fn register(file: RegFile, number: u16) -> Option<MachinePlace> {
        match file {
            RegFile::General => Some(MachinePlace::General(number)),
            RegFile::Predicate => Some(MachinePlace::Predicate(number)),
            _ => None,
        }
    }
}

/// The number of a word of a PTX register, counted from 0 in the order of the definitions.
pub type WordNumber = u32;

/// A machine place, and a word of a PTX register that it holds.
pub type Pair = (MachinePlace, WordNumber);

/// Pairs in ascending order: [`Contents`] in compact form.
pub type Pairs = Vec<Pair>;

/// The words of PTX registers that each machine place holds, at one point of the code.
#[derive(Default)]
pub struct Contents {
    /// The contents as pairs: a machine place, and a word of a PTX register that it holds.
    pairs: BTreeSet<Pair>,
    /// For each word, the places that hold it.
    places: FxHashMap<WordNumber, Vec<MachinePlace>>,
    /// The pairs that were inserted or removed since [`Contents::take_changes`]. A pair may occur several times.
    changes: Vec<Pair>,
}

impl Contents {
    /// Returns the contents with exactly these pairs.
    pub fn from_pairs(pairs: &[Pair]) -> Contents {
        let mut contents = Contents::default();
        pairs.iter().for_each(|&(place, word)| contents.insert(place, word));
        contents
    }

    /// Returns the pairs in ascending order.
    pub fn pairs(&self) -> Pairs {
        self.pairs.iter().copied().collect()
    }

    /// Returns whether a place holds a word.
    pub fn contains(&self, pair: Pair) -> bool {
        self.pairs.contains(&pair)
    }

    /// Returns the words that a place holds, in ascending order.
    pub fn words(&self, place: MachinePlace) -> Vec<WordNumber> {
        self.pairs.range((place, WordNumber::MIN)..=(place, WordNumber::MAX)).map(|pair| pair.1).collect()
    }

    /// Records that a place holds a word.
    pub fn insert(&mut self, place: MachinePlace, word: WordNumber) {
        if self.pairs.insert((place, word)) {
            self.places.entry(word).or_default().push(place);
            self.changes.push((place, word));
        }
    }

    /// Forgets all words in a place.
    pub fn clear(&mut self, place: MachinePlace) {
        self.words(place).into_iter().for_each(|word| self.remove((place, word)));
    }

    /// Forgets all words in the places for which `is_lost` is true.
    pub fn clear_if(&mut self, is_lost: impl Fn(MachinePlace) -> bool) {
        let lost: Pairs = self.pairs.iter().copied().filter(|pair| is_lost(pair.0)).collect();
        lost.into_iter().for_each(|pair| self.remove(pair));
    }

    /// Forgets all places of a word.
    pub fn forget(&mut self, word: WordNumber) {
        let places = self.places.get(&word).cloned().unwrap_or_default();
        places.into_iter().for_each(|place| self.remove((place, word)));
    }

    /// Returns the pairs that were inserted or removed since the last call.
    pub fn take_changes(&mut self) -> Pairs {
        std::mem::take(&mut self.changes)
    }

    /// Removes a pair, if it exists, and records the change.
    fn remove(&mut self, pair: Pair) {
        if self.pairs.remove(&pair)
            && let Some(places) = self.places.get_mut(&pair.1)
        {
            places.retain(|&place| place != pair.0);
            self.changes.push(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_place_and_forgotten_in_all_places() {
        let register = MachinePlace::General;
        let mut contents = Contents::from_pairs(&[(register(4), 7), (register(4), 9), (MachinePlace::Slot(16), 7)]);
        assert_eq!(contents.words(register(4)), [7, 9]);
        contents.take_changes();
        contents.forget(7);
        assert_eq!(contents.pairs(), [(register(4), 9)]);
        assert_eq!(contents.take_changes().len(), 2);
        contents.clear(register(4));
        contents.insert(MachinePlace::Slot(4), 9);
        contents.clear_if(|place| matches!(place, MachinePlace::Slot(_)));
        assert_eq!(contents.pairs(), []);
    }
}
