//! Sets of registers of one file, and the search for gaps in them.

use oriole_ir::{Class, File};

const WORDS: usize = 4;
/// How much higher a place may be for the sake of a wide gap: low registers are worth something too.
const NEAR: u16 = 32;

/// A set of registers of one file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RegisterSet {
    words: [u64; WORDS],
}

impl RegisterSet {
    /// None.
    pub const EMPTY: RegisterSet = RegisterSet { words: [0; WORDS] };
    /// Numbers 0 to 255.
    pub const ALL: RegisterSet = RegisterSet { words: [u64::MAX; WORDS] };

    /// Those below a number.
    pub fn first(count: u32) -> RegisterSet {
        let below = |limit: u32| if limit >= 64 { u64::MAX } else { (1 << limit) - 1 };
        RegisterSet { words: std::array::from_fn(|word| below(count.saturating_sub(64 * word as u32))) }
    }

    /// Whether a register is in it.
    pub fn has(&self, register: u16) -> bool {
        let register = usize::from(register);
        register < 64 * WORDS && self.words[register / 64] >> (register % 64) & 1 == 1
    }

    /// The word with all of these registers, and their bits in it; none if they lie in several words or beyond the last.
    fn within_word(first: u16, count: u8) -> Option<(usize, u64)> {
        let (word, bit) = (usize::from(first) / 64, u32::from(first) % 64);
        (count != 0 && word < WORDS && bit + u32::from(count) <= 64).then(|| (word, u64::MAX >> (64 - u32::from(count)) << bit))
    }

    /// Adds consecutive registers.
    pub fn insert(&mut self, first: u16, count: u8) {
        if let Some((word, bits)) = RegisterSet::within_word(first, count) {
            self.words[word] |= bits;
            return;
        }
        for register in (usize::from(first)..usize::from(first) + usize::from(count)).take_while(|&register| register < 64 * WORDS) {
            self.words[register / 64] |= 1 << (register % 64);
        }
    }

    /// Takes consecutive registers out.
    pub fn remove(&mut self, first: u16, count: u8) {
        if let Some((word, bits)) = RegisterSet::within_word(first, count) {
            self.words[word] &= !bits;
            return;
        }
        for register in (usize::from(first)..usize::from(first) + usize::from(count)).take_while(|&register| register < 64 * WORDS) {
            self.words[register / 64] &= !(1 << (register % 64));
        }
    }

    /// Whether all of these registers are in it.
    pub fn has_all(&self, first: u16, count: u8) -> bool {
        match RegisterSet::within_word(first, count) {
            Some((word, bits)) => self.words[word] & bits == bits,
            None => (first..first + u16::from(count)).all(|register| self.has(register)),
        }
    }

    /// Whether any of these registers is in it.
    pub fn has_any(&self, first: u16, count: u8) -> bool {
        match RegisterSet::within_word(first, count) {
            Some((word, bits)) => self.words[word] & bits != 0,
            None => (first..first + u16::from(count)).any(|register| self.has(register)),
        }
    }

    /// What is in both.
    #[must_use]
    pub fn and(&self, other: &RegisterSet) -> RegisterSet {
        RegisterSet { words: std::array::from_fn(|word| self.words[word] & other.words[word]) }
    }

    /// What is in either.
    #[must_use]
    pub fn or(&self, other: &RegisterSet) -> RegisterSet {
        RegisterSet { words: std::array::from_fn(|word| self.words[word] | other.words[word]) }
    }

    /// What is in this and not in the other.
    #[must_use]
    pub fn without(&self, other: &RegisterSet) -> RegisterSet {
        RegisterSet { words: std::array::from_fn(|word| self.words[word] & !other.words[word]) }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The lowest.
    pub fn lowest(&self) -> Option<u16> {
        let word = self.words.iter().position(|&word| word != 0)?;
        Some((word * 64) as u16 + self.words[word].trailing_zeros() as u16)
    }

    /// For each register whether it and the following `width - 1` are in the set.
    fn runs(&self, width: u8) -> RegisterSet {
        let mut runs = *self;
        let mut length = 1;
        while length < u32::from(width) {
            let step = length.min(u32::from(width) - length);
            runs = runs.and(&runs.shifted_down(step));
            length += step;
        }
        runs
    }

    fn shifted_down(&self, by: u32) -> RegisterSet {
        let (skip, bits) = ((by / 64) as usize, by % 64);
        let word = |at: usize| self.words.get(at).copied().unwrap_or(0);
        RegisterSet {
            words: std::array::from_fn(|at| {
                let low = word(at + skip) >> bits;
                if bits == 0 { low } else { low | word(at + skip + 1) << (64 - bits) }
            }),
        }
    }

    /// Registers whose number is a multiple of a power of two.
    fn aligned(&self, align: u8) -> RegisterSet {
        let pattern: u64 = match align {
            0 | 1 => u64::MAX,
            2 => 0x5555_5555_5555_5555,
            4 => 0x1111_1111_1111_1111,
            8 => 0x0101_0101_0101_0101,
            16 => 0x0001_0001_0001_0001,
            32 => 0x0000_0001_0000_0001,
            _ => 1,
        };
        RegisterSet { words: std::array::from_fn(|at| self.words[at] & if align == 128 && at % 2 == 1 { 0 } else { pattern }) }
    }

    /// All places for a value of a class.
    pub fn places(&self, class: Class) -> RegisterSet {
        self.runs(class.width).aligned(class.align)
    }

    /// A place for a value of a class in these free registers: the lowest where the aligned group around it cannot take a wider value.
    pub fn find(&self, class: Class) -> Option<u16> {
        let places = self.places(class);
        let lowest = places.lowest()?;
        let has_tuples = matches!(class.file, File::General | File::Uniform);
        for group in [2u8, 4] {
            if class.width >= group || !has_tuples {
                continue;
            }
            let groups = self.runs(group).aligned(group);
            let mut spread = groups;
            for step in 1..u32::from(group) {
                spread = spread.or(&groups.shifted_up(step));
            }
            let broken = places.without(&spread);
            if let Some(place) = broken.lowest().filter(|&place| place < lowest + NEAR) {
                return Some(place);
            }
        }
        Some(lowest)
    }

    /// Only for steps below 64.
    fn shifted_up(&self, by: u32) -> RegisterSet {
        RegisterSet {
            words: std::array::from_fn(|at| {
                let carried = if at == 0 { 0 } else { self.words[at - 1] >> (64 - by) };
                self.words[at] << by | carried
            }),
        }
    }

    /// Visits the members in order.
    pub fn for_each(&self, mut visit: impl FnMut(u16)) {
        for (at, &word) in self.words.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                visit((at * 64) as u16 + word.trailing_zeros() as u16);
                word &= word - 1;
            }
        }
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + use<> {
        let words = self.words;
        (0..WORDS).flat_map(move |at| {
            let mut word = words[at];
            std::iter::from_fn(move || {
                if word == 0 {
                    return None;
                }
                let bit = word.trailing_zeros();
                word &= word - 1;
                Some((at * 64) as u16 + bit as u16)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::{Class, File};

    use super::RegisterSet;

    #[test]
    fn finds_aligned_gaps_and_spares_wide_ones() {
        let mut free = RegisterSet::first(64);
        free.remove(0, 5);
        assert_eq!(free.find(Class::R), Some(5), "the odd half of a broken pair");
        assert_eq!(free.find(Class::R2), Some(6), "the upper half of a broken quad");
        assert_eq!(free.find(Class::R4), Some(8));
        assert_eq!(free.find(Class::new(File::General, 56)), Some(8));
        assert_eq!(free.find(Class::new(File::General, 57)), None);
    }

    #[test]
    fn runs_cross_words() {
        let mut free = RegisterSet::EMPTY;
        free.insert(60, 100);
        assert_eq!(free.find(Class::new(File::General, 100)), Some(60));
        assert_eq!(free.iter().collect::<Vec<_>>(), (60..160).collect::<Vec<u16>>());
        assert_eq!(free.count(), 100);
    }

    #[test]
    fn wide_alignments_take_every_multiple_and_nothing_else() {
        for align in [1u8, 2, 4, 8, 16, 32, 64, 128] {
            let multiples: Vec<u16> = (0..256).step_by(usize::from(align)).collect();
            assert_eq!(RegisterSet::ALL.aligned(align).iter().collect::<Vec<_>>(), multiples, "alignment {align}");
        }
    }

    #[test]
    fn ranges_across_words_are_added_and_removed_whatever_was_there() {
        let mut set = RegisterSet::EMPTY;
        set.insert(62, 1);
        set.insert(60, 8);
        assert_eq!(set.iter().collect::<Vec<_>>(), (60..68).collect::<Vec<u16>>(), "a member stays one when it is added again");
        set.remove(62, 4);
        assert_eq!(set.iter().collect::<Vec<_>>(), [60, 61, 66, 67]);
        set.remove(60, 8);
        assert_eq!(set, RegisterSet::EMPTY, "what is not there may be removed");
    }
}
