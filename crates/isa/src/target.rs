//! The targets that the instruction table describes.

use std::fmt;

/// A GPU architecture whose machine code the table describes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Target {
    number: u16,
    suffix: Option<char>,
    table_bit: u8,
}

/// Number of each target, its bit in the target sets of the table, and the suffixes that exist. The bits are in the order of the table's
/// target names. Volta uses the encodings of Turing.
const TARGETS: &[(u16, u8, &str)] = &[
    (70, 0, ""),
    (72, 0, ""),
    (75, 0, ""),
    (80, 1, ""),
    (86, 2, ""),
    (87, 3, ""),
    (88, 4, ""),
    (89, 5, ""),
    (90, 6, "a"),
    (100, 7, "af"),
    (103, 8, "af"),
    (110, 9, "af"),
    (120, 10, "af"),
    (121, 11, "af"),
];

impl Target {
    /// Returns the target with this name, such as `sm_90a`.
    pub fn parse(name: &str) -> Option<Target> {
        let digits = name.strip_prefix("sm_")?;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = digits[..end].parse().ok()?;
        let mut suffix = digits[end..].chars();
        let target = Target::new(number, suffix.next())?;
        suffix.next().is_none().then_some(target)
    }

    /// Returns the target with this number and suffix; `None` if it does not exist.
    pub fn new(number: u16, suffix: Option<char>) -> Option<Target> {
        let &(_, table_bit, suffixes) = TARGETS.iter().find(|target| target.0 == number)?;
        suffix.is_none_or(|letter| suffixes.contains(letter)).then_some(Target { number, suffix, table_bit })
    }

    /// Returns all targets, with and without a suffix.
    pub fn all() -> impl Iterator<Item = Target> {
        TARGETS.iter().flat_map(|&(number, _, suffixes)| {
            std::iter::once(None).chain(suffixes.chars().map(Some)).filter_map(move |suffix| Target::new(number, suffix))
        })
    }

    /// Returns the number in the name: 90 for `sm_90a`.
    pub fn number(self) -> u16 {
        self.number
    }

    /// Returns the letter at the end of the name: `a` for `sm_90a`.
    pub fn suffix(self) -> Option<char> {
        self.suffix
    }

    /// Returns the bit of the target in the table's target sets.
    pub(crate) fn table_bit(self) -> usize {
        usize::from(self.table_bit)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.number)?;
        self.suffix.map_or(Ok(()), |letter| write!(f, "{letter}"))
    }
}
