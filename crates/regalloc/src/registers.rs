//! Register numbers, bit sets of up to 256 registers of one file, and the search for aligned gaps in them.
//!
//! A gap is a run of consecutive registers that are all in the set (all free). It may be up to 255 registers wide and may cross the 64-bit
//! words of the set. Alignments are powers of two up to 128.

use std::ops::Add;

use oriole_ir::{Class, RegFile};

/// Number of 64-bit words of a [`RegisterSet`].
const REGISTER_SET_WORDS: usize = 4;
/// Maximum number of registers by which the chosen gap may start above the lowest suitable one in order to keep an aligned pair or quad
/// whole. Low registers are preferred, because the highest register number in use determines the occupancy.
const MAX_GAP_DETOUR_REGISTERS: u8 = 32;

/// The number of a register in its register file. The file is known from the context, as the allocator handles one register file at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reg(u16);

impl Reg {
    /// Returns the register with this number.
    pub const fn new(number: u16) -> Reg {
        Reg(number)
    }

    /// Returns the number of the register.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns whether a tuple with this alignment may start at the register.
    pub fn is_aligned(self, align: u8) -> bool {
        self.0.is_multiple_of(u16::from(align))
    }

    /// Returns the register whose number is lower by `offset`; `None` if there is none.
    pub fn checked_sub(self, offset: u8) -> Option<Reg> {
        self.0.checked_sub(u16::from(offset)).map(Reg)
    }

    /// Returns `count` consecutive registers, starting with this one.
    pub fn tuple(self, count: u8) -> impl Iterator<Item = Reg> {
        (self.0..self.0 + u16::from(count)).map(Reg)
    }
}

impl Add<u8> for Reg {
    type Output = Reg;
    fn add(self, offset: u8) -> Reg {
        Reg(self.0 + u16::from(offset))
    }
}

impl From<u8> for Reg {
    fn from(number: u8) -> Reg {
        Reg(u16::from(number))
    }
}

/// A set of registers of one register file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RegisterSet {
    /// The registers as bits: register n is bit n % 64 of word n / 64.
    words: [u64; REGISTER_SET_WORDS],
}

impl RegisterSet {
    /// The empty set.
    pub const EMPTY: RegisterSet = RegisterSet { words: [0; REGISTER_SET_WORDS] };
    /// Registers 0 to 255.
    pub const ALL: RegisterSet = RegisterSet { words: [u64::MAX; REGISTER_SET_WORDS] };

    /// Returns the registers 0 to `count - 1`.
    pub(crate) fn first_n(count: u32) -> RegisterSet {
        let below = |limit: u32| if limit >= 64 { u64::MAX } else { (1 << limit) - 1 };
        RegisterSet { words: std::array::from_fn(|word| below(count.saturating_sub(64 * word as u32))) }
    }

    /// Returns whether a register is in the set.
    pub fn has(&self, register: Reg) -> bool {
        let register = usize::from(register.0);
        register < 64 * REGISTER_SET_WORDS && self.words[register / 64] >> (register % 64) & 1 == 1
    }

    /// Returns the index of the 64-bit word that has all of `count` registers starting at `first`, and a mask of their bits in it. `None`
    /// if they span two words, if `count` is 0, or if they are beyond the last word.
    fn word_and_mask(first: Reg, count: u8) -> Option<(usize, u64)> {
        let (word, bit) = (usize::from(first.0) / 64, u32::from(first.0) % 64);
        (count != 0 && word < REGISTER_SET_WORDS && bit + u32::from(count) <= 64)
            .then(|| (word, u64::MAX >> (64 - u32::from(count)) << bit))
    }

    /// Adds `count` consecutive registers starting at `first`.
    pub fn insert(&mut self, first: Reg, count: u8) {
        if let Some((word, bits)) = RegisterSet::word_and_mask(first, count) {
            self.words[word] |= bits;
            return;
        }
        for register in
            first.tuple(count).map(|register| usize::from(register.0)).take_while(|&register| register < 64 * REGISTER_SET_WORDS)
        {
            self.words[register / 64] |= 1 << (register % 64);
        }
    }

    /// Removes `count` consecutive registers starting at `first`.
    pub fn remove(&mut self, first: Reg, count: u8) {
        if let Some((word, bits)) = RegisterSet::word_and_mask(first, count) {
            self.words[word] &= !bits;
            return;
        }
        for register in
            first.tuple(count).map(|register| usize::from(register.0)).take_while(|&register| register < 64 * REGISTER_SET_WORDS)
        {
            self.words[register / 64] &= !(1 << (register % 64));
        }
    }

    /// Returns whether all of `count` registers starting at `first` are in the set.
    pub(crate) fn has_all(&self, first: Reg, count: u8) -> bool {
        match RegisterSet::word_and_mask(first, count) {
            Some((word, bits)) => self.words[word] & bits == bits,
            None => first.tuple(count).all(|register| self.has(register)),
        }
    }

    /// Returns whether any of `count` registers starting at `first` is in the set.
    pub(crate) fn has_any(&self, first: Reg, count: u8) -> bool {
        match RegisterSet::word_and_mask(first, count) {
            Some((word, bits)) => self.words[word] & bits != 0,
            None => first.tuple(count).any(|register| self.has(register)),
        }
    }

    /// Returns the intersection of the two sets.
    #[must_use]
    pub fn and(&self, other: &RegisterSet) -> RegisterSet {
        RegisterSet { words: std::array::from_fn(|word| self.words[word] & other.words[word]) }
    }

    /// Returns the union of the two sets.
    #[must_use]
    pub fn or(&self, other: &RegisterSet) -> RegisterSet {
        RegisterSet { words: std::array::from_fn(|word| self.words[word] | other.words[word]) }
    }

    /// Returns the registers of this set that are not in the other.
    #[must_use]
    pub fn without(&self, other: &RegisterSet) -> RegisterSet {
        RegisterSet { words: std::array::from_fn(|word| self.words[word] & !other.words[word]) }
    }

    /// Returns the number of registers in the set.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the lowest register; `None` if the set is empty.
    pub fn lowest(&self) -> Option<Reg> {
        let word = self.words.iter().position(|&word| word != 0)?;
        Some(Reg((word * 64) as u16 + self.words[word].trailing_zeros() as u16))
    }

    /// Returns the highest register; `None` if the set is empty.
    pub fn highest(&self) -> Option<Reg> {
        let word = self.words.iter().rposition(|&word| word != 0)?;
        Some(Reg((word * 64) as u16 + 63 - self.words[word].leading_zeros() as u16))
    }

    /// Returns the registers at which a run of `width` registers of this set starts: the register itself and the following `width - 1` are
    /// in the set.
    fn run_starts(&self, width: u8) -> RegisterSet {
        // Doubling: two overlapping or adjacent runs of `length` registers, `step` apart, are one run of `length + step`. So finding the
        // runs of `width` registers takes log2(width) steps.
        let mut runs = *self;
        let mut length = 1;
        while length < u32::from(width) {
            let step = length.min(u32::from(width) - length);
            runs = runs.and(&runs.shifted_down(step));
            length += step;
        }
        runs
    }

    /// Returns the set with every register number reduced by `by`; registers with numbers below `by` are left out.
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

    /// Returns the registers of this set whose number is a multiple of `align`, a power of two up to 128.
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

    /// Returns the first register of every aligned gap (consecutive registers of this set) that a value of a class fits into.
    pub(crate) fn gap_starts(&self, class: Class) -> RegisterSet {
        self.run_starts(class.width).aligned(class.align)
    }

    /// Chooses a gap (free consecutive registers) in this set of free registers for a value of a class, and returns the first register of
    /// the gap; `None` if there is none.
    ///
    /// Best fit by alignment: a gap inside an aligned pair (or quad) that is already partly in use is preferred, so that whole pairs and
    /// quads stay free for tuples. Example: R5 and R8 to R63 are free. A single register gets R5, since R4 is in use; a pair gets R8:R9.
    pub(crate) fn find_gap(&self, class: Class) -> Option<Reg> {
        self.find_gap_starting_in(class, self.gap_starts(class))
    }

    /// Chooses a gap like [`RegisterSet::find_gap`], but only among gaps that start at an odd register if `is_odd` is true, and at an even
    /// one otherwise.
    pub(crate) fn find_gap_in_bank(&self, class: Class, is_odd: bool) -> Option<Reg> {
        const EVEN_REGISTERS: u64 = 0x5555_5555_5555_5555;
        let mask = if is_odd { !EVEN_REGISTERS } else { EVEN_REGISTERS };
        let places = self.gap_starts(class);
        self.find_gap_starting_in(class, RegisterSet { words: std::array::from_fn(|at| places.words[at] & mask) })
    }

    /// Chooses a gap for a value of a class like [`RegisterSet::find_gap`], but only among gaps that start at a register of `places`.
    fn find_gap_starting_in(&self, class: Class, places: RegisterSet) -> Option<Reg> {
        let lowest = places.lowest()?;
        let has_tuples = matches!(class.file, RegFile::General | RegFile::Uniform);
        let extended = self.extended_to_quad();
        for group in [2u8, 4] {
            if class.width >= group || !has_tuples {
                continue;
            }
            // `spread` gets all registers of the aligned groups of `group` registers that are completely free.
            let groups = extended.run_starts(group).aligned(group);
            let mut spread = groups;
            for step in 1..u32::from(group) {
                spread = spread.or(&groups.shifted_up(step));
            }
            let broken = places.without(&spread);
            if let Some(place) = broken.lowest().filter(|&place| place < lowest + MAX_GAP_DETOUR_REGISTERS) {
                return Some(place);
            }
        }
        Some(lowest)
    }

    /// Returns the set extended by the registers after its highest one, up to the end of that register's aligned quad. So the quad at the
    /// end of the register file does not count as partly in use, which would attract values to the highest registers.
    fn extended_to_quad(&self) -> RegisterSet {
        let mut extended = *self;
        if let Some(word) = self.words.iter().rposition(|&word| word != 0) {
            let highest = 63 - self.words[word].leading_zeros();
            let after_quad = (highest / 4 + 1) * 4;
            extended.words[word] |= (highest..after_quad).fold(0, |bits, number| bits | 1 << number);
        }
        extended
    }

    /// Returns the set with every register number increased by `by`, which is between 1 and 63.
    fn shifted_up(&self, by: u32) -> RegisterSet {
        RegisterSet {
            words: std::array::from_fn(|at| {
                let carried = if at == 0 { 0 } else { self.words[at - 1] >> (64 - by) };
                self.words[at] << by | carried
            }),
        }
    }

    /// Calls `visit` for each register in ascending order.
    pub fn for_each(&self, mut visit: impl FnMut(Reg)) {
        for (at, &word) in self.words.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                visit(Reg((at * 64) as u16 + word.trailing_zeros() as u16));
                word &= word - 1;
            }
        }
    }

    /// Returns the registers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Reg> + use<> {
        let words = self.words;
        (0..REGISTER_SET_WORDS).flat_map(move |at| {
            let mut word = words[at];
            std::iter::from_fn(move || {
                if word == 0 {
                    return None;
                }
                let bit = word.trailing_zeros();
                word &= word - 1;
                Some(Reg((at * 64) as u16 + bit as u16))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::{Class, RegFile};

    use super::{Reg, RegisterSet};

    /// Returns the register numbers of a set in ascending order.
    fn numbers(set: &RegisterSet) -> Vec<u16> {
        set.iter().map(Reg::number).collect()
    }

    #[test]
    fn first_n_has_exactly_n_registers() {
        for count in [0, 1, 63, 64, 65, 127, 128, 255, 256] {
            assert_eq!(RegisterSet::first_n(count).iter().count(), count as usize);
            assert!((0..300).all(|number| RegisterSet::first_n(count).has(Reg::new(number)) == (u32::from(number) < count)));
        }
    }

    #[test]
    fn no_registers_and_registers_beyond_the_end_are_not_inserted() {
        let mut set = RegisterSet::EMPTY;
        set.insert(Reg::new(3), 0);
        set.insert(Reg::new(256), 1);
        assert_eq!(numbers(&set), [0_u16; 0]);
        set.insert(Reg::new(62), 4);
        assert_eq!(numbers(&set), [62, 63, 64, 65]);
    }

    #[test]
    fn narrow_values_do_not_split_wide_gaps() {
        let mut free = RegisterSet::first_n(64);
        free.remove(Reg::new(0), 5);
        assert_eq!(free.find_gap(Class::R), Some(Reg::new(5)), "the odd half of a broken pair");
        assert_eq!(free.find_gap(Class::R2), Some(Reg::new(6)), "the upper half of a broken quad");
        assert_eq!(free.find_gap(Class::R4), Some(Reg::new(8)));
        assert_eq!(free.find_gap(Class::new(RegFile::General, 56)), Some(Reg::new(8)));
        assert_eq!(free.find_gap(Class::new(RegFile::General, 57)), None);
    }

    /// R0 is in use. R1 is chosen first, as it completes a pair. When R0 to R3 are in use, R4 is chosen, not the half quad R28:R29 at the
    /// end of the file.
    #[test]
    fn the_end_of_the_file_does_not_attract_values() {
        let mut free = RegisterSet::first_n(30);
        free.remove(Reg::new(0), 1);
        assert_eq!(free.find_gap(Class::R), Some(Reg::new(1)));
        free.remove(Reg::new(1), 3);
        assert_eq!(free.find_gap(Class::R), Some(Reg::new(4)));
        assert_eq!(free.find_gap(Class::R2), Some(Reg::new(4)));
    }

    #[test]
    fn runs_may_cross_64_bit_words() {
        let mut free = RegisterSet::EMPTY;
        free.insert(Reg::new(60), 100);
        assert_eq!(free.find_gap(Class::new(RegFile::General, 100)), Some(Reg::new(60)));
        assert_eq!(numbers(&free), (60..160).collect::<Vec<u16>>());
        assert_eq!(free.count(), 100);
    }

    #[test]
    fn aligned_keeps_multiples_of_the_alignment_only() {
        for align in [1u8, 2, 4, 8, 16, 32, 64, 128] {
            let multiples: Vec<u16> = (0..256).step_by(usize::from(align)).collect();
            assert_eq!(numbers(&RegisterSet::ALL.aligned(align)), multiples, "alignment {align}");
        }
    }

    #[test]
    fn ranges_across_words_are_added_and_removed() {
        let mut set = RegisterSet::EMPTY;
        set.insert(Reg::new(62), 1);
        set.insert(Reg::new(60), 8);
        assert_eq!(numbers(&set), (60..68).collect::<Vec<u16>>(), "a member stays one when it is added again");
        set.remove(Reg::new(62), 4);
        assert_eq!(numbers(&set), [60, 61, 66, 67]);
        set.remove(Reg::new(60), 8);
        assert_eq!(set, RegisterSet::EMPTY, "what is not there may be removed");
    }
}
