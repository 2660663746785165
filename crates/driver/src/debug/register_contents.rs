//! Which 32-bit words of PTX registers the machine registers and spill slots hold at one point of the code.

use std::collections::BTreeSet;

use oriole_ir::RegFile;
use rustc_hash::FxHashMap;

/// A machine register or a 32-bit word of a spill slot: a place that may hold a word of a PTX register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MachinePlace {
    /// A general register, by number.
    General(u16),
    /// A predicate register, by number.
    Predicate(u16),
    /// A 32-bit word of a spill slot, by its distance from the stack pointer in bytes.
    Slot(u32),
}

impl MachinePlace {
    /// Returns the place for a machine register; `None` for register files other than general registers and predicates.
    pub fn register(file: RegFile, number: u16) -> Option<MachinePlace> {
        match file {
            RegFile::General => Some(MachinePlace::General(number)),
            RegFile::Predicate => Some(MachinePlace::Predicate(number)),
            _ => None,
        }
    }
}

/// The number of a 32-bit word of a PTX register. The words of all PTX registers of a function are counted from 0 in the order of their
/// definitions.
pub type WordNumber = u32;

/// A machine place, and the number of a word of a PTX register that it holds.
pub type PlaceAndWord = (MachinePlace, WordNumber);

/// The contents of all machine places in compact form: pairs of place and word, in ascending order.
pub type PlacesAndWords = Vec<PlaceAndWord>;

/// Which words of PTX registers each machine place (register or word of a spill slot) holds, at one point of the code.
#[derive(Default)]
pub struct PtxRegisterContents {
    /// The contents as pairs: a machine place, and a word of a PTX register that it holds.
    pairs: BTreeSet<PlaceAndWord>,
    /// For each word of a PTX register, the machine places that hold it.
    places: FxHashMap<WordNumber, Vec<MachinePlace>>,
    /// The pairs that were inserted or removed since the last call of [`PtxRegisterContents::take_changes`]. A pair may occur several times.
    changes: Vec<PlaceAndWord>,
}

impl PtxRegisterContents {
    /// Returns the contents that consist of these pairs of place and word.
    pub fn from_pairs(pairs: &[PlaceAndWord]) -> PtxRegisterContents {
        let mut contents = PtxRegisterContents::default();
        pairs.iter().for_each(|&(place, word)| contents.insert(place, word));
        contents
    }

    /// Returns all pairs of place and word in ascending order.
    pub fn pairs(&self) -> PlacesAndWords {
        self.pairs.iter().copied().collect()
    }

    /// Returns whether a machine place holds a word of a PTX register; `pair` has both.
    pub fn contains(&self, pair: PlaceAndWord) -> bool {
        self.pairs.contains(&pair)
    }

    /// Returns the words of PTX registers that a machine place holds, in ascending order.
    pub fn words(&self, place: MachinePlace) -> Vec<WordNumber> {
        self.pairs.range((place, WordNumber::MIN)..=(place, WordNumber::MAX)).map(|pair| pair.1).collect()
    }

    /// Records that a machine place holds a word of a PTX register, in addition to words that it holds already.
    pub fn insert(&mut self, place: MachinePlace, word: WordNumber) {
        if self.pairs.insert((place, word)) {
            self.places.entry(word).or_default().push(place);
            self.changes.push((place, word));
        }
    }

    /// Records that a machine place holds no word of a PTX register any more.
    pub fn clear(&mut self, place: MachinePlace) {
        self.words(place).into_iter().for_each(|word| self.remove((place, word)));
    }

    /// Records that the machine places for which `is_lost` is true hold no words of PTX registers any more.
    pub fn clear_if(&mut self, is_lost: impl Fn(MachinePlace) -> bool) {
        let lost: PlacesAndWords = self.pairs.iter().copied().filter(|pair| is_lost(pair.0)).collect();
        lost.into_iter().for_each(|pair| self.remove(pair));
    }

    /// Records that no machine place holds `word` any more.
    pub fn forget_word(&mut self, word: WordNumber) {
        let places = self.places.get(&word).cloned().unwrap_or_default();
        places.into_iter().for_each(|place| self.remove((place, word)));
    }

    /// Returns the pairs of place and word that were inserted or removed since the last call, and empties that list.
    pub fn take_changes(&mut self) -> PlacesAndWords {
        std::mem::take(&mut self.changes)
    }

    /// Removes a pair of place and word, if it exists, and records the change.
    fn remove(&mut self, pair: PlaceAndWord) {
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
        let mut contents = PtxRegisterContents::from_pairs(&[(register(4), 7), (register(4), 9), (MachinePlace::Slot(16), 7)]);
        assert_eq!(contents.words(register(4)), [7, 9]);
        contents.take_changes();
        contents.forget_word(7);
        assert_eq!(contents.pairs(), [(register(4), 9)]);
        assert_eq!(contents.take_changes().len(), 2);
        contents.clear(register(4));
        contents.insert(MachinePlace::Slot(4), 9);
        contents.clear_if(|place| matches!(place, MachinePlace::Slot(_)));
        assert_eq!(contents.pairs(), []);
    }
}
