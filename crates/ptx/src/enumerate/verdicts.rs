//! Recorded verdicts: what ptxas said about every enumerated case, as text that fits into the repository.
//!
//! The cases themselves are not stored: they follow from the table. A record names a row by its opcode and its number among the
//! opcode's rows, says how many cases it stands for, and carries a digest of their texts and platforms. When a row changes, its
//! digest does not fit any more and the verdicts must be asked for again.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Case, legal_forms, mutants, orders};
use crate::table::ROWS;

/// Most combinations of modifiers enumerated for a row.
pub const LEGAL_LIMIT: usize = 4096;
/// Most combinations of a row that mutants are made of.
pub const MUTANT_LIMIT: usize = 96;
/// Most combinations of a row among which those with the most modifiers are put into other orders.
pub const ORDER_LIMIT: usize = 96;
/// How many of them are.
const ORDERED_FORMS: usize = 2;

/// Which set a record is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Set {
    /// Forms the table has.
    Legal,
    /// Forms with one thing changed.
    Mutants,
    /// Forms with their modifiers in other orders.
    Orders,
}

impl Set {
    /// All sets.
    pub const ALL: [Set; 3] = [Set::Legal, Set::Mutants, Set::Orders];

    /// The word used in files.
    pub fn name(self) -> &'static str {
        match self {
            Set::Legal => "legal",
            Set::Mutants => "mutants",
            Set::Orders => "orders",
        }
    }
}

/// The name of a row: its opcode, its family, and its number among their rows.
pub fn row_name(row: usize) -> String {
    let same = |other: &usize| ROWS[*other].opcode == ROWS[row].opcode && ROWS[*other].family == ROWS[row].family;
    let number = (0..row).filter(same).count();
    format!("{}#{number}", ROWS[row].opcode.spelling())
}

/// The cases of a row.
pub fn cases(row: usize, set: Set) -> Vec<Case> {
    match set {
        Set::Legal => legal_forms(row, LEGAL_LIMIT),
        Set::Mutants => legal_forms(row, MUTANT_LIMIT).iter().flat_map(mutants).collect(),
        Set::Orders => longest_forms(row).iter().flat_map(orders).collect(),
    }
}

/// The forms of a row with the most modifiers.
fn longest_forms(row: usize) -> Vec<Case> {
    let mut forms = legal_forms(row, ORDER_LIMIT);
    let modifiers = |case: &Case| case.text.split([' ', ';']).next().unwrap_or_default().matches('.').count();
    forms.sort_by_key(|case| std::cmp::Reverse(modifiers(case)));
    forms.truncate(ORDERED_FORMS);
    forms
}

/// A digest of texts and platforms (FNV-1a).
pub fn digest(cases: &[Case]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut text = String::new();
    for case in cases {
        text.clear();
        let _ = writeln!(text, "{} {} {} {}", case.platform.version, case.platform.target, case.independent_textures, case.text);
        hash = text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    }
    hash
}

/// A record line: `add#0 legal 6 0123456789abcdef AAAAAA`, runs of equal verdicts as `A6`.
pub fn format_record(row: usize, set: Set, cases: &[Case], verdicts: &[bool]) -> String {
    let mut line = format!("{} {} {} {:016x} ", row_name(row), set.name(), cases.len(), digest(cases));
    for run in verdicts.chunk_by(|a, b| a == b) {
        let letter = if run[0] { 'A' } else { 'R' };
        let _ = match run.len() {
            1 => write!(line, "{letter}"),
            length => write!(line, "{letter}{length}"),
        };
    }
    line
}

/// Reads the records of a family: by row name and set, the digest and the verdicts.
pub fn parse_records(text: &str) -> BTreeMap<(String, String), (u64, Vec<bool>)> {
    let mut records = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        let [row, set, _count, hash, runs] = words.as_slice() else { continue };
        let hash = u64::from_str_radix(hash, 16).unwrap_or(0);
        records.insert(((*row).to_string(), (*set).to_string()), (hash, expand(runs)));
    }
    records
}

fn expand(runs: &str) -> Vec<bool> {
    let mut verdicts = Vec::new();
    let mut rest = runs;
    while let Some(letter) = rest.chars().next() {
        let digits = rest[1..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| end + 1);
        let length = rest[1..digits].parse().unwrap_or(1);
        verdicts.extend(std::iter::repeat_n(letter == 'A', length));
        rest = &rest[digits..];
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_writing_and_reading() {
        let row = 0;
        let cases = cases(row, Set::Legal);
        assert!(!cases.is_empty());
        let verdicts: Vec<bool> = (0..cases.len()).map(|index| index % 3 != 0).collect();
        let records = parse_records(&format_record(row, Set::Legal, &cases, &verdicts));
        assert_eq!(records[&(row_name(row), "legal".to_string())], (digest(&cases), verdicts));
    }
}
