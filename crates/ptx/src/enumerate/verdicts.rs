//! Records whether ptxas accepts each enumerated case, in a text form for the repository.
//!
//! The cases are not stored, because they follow from the table. A record names a row by its opcode and its number among the opcode's
//! rows, and holds the number of cases, a digest of their texts and platforms, and the verdicts. If a row changes, the digest no longer
//! matches and the verdicts must be recorded again.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Case, legal_forms, mutants, orders};
use crate::table::ROWS;

/// Largest number of modifier combinations enumerated per row.
pub(crate) const LEGAL_LIMIT: usize = 4096;
/// Largest number of combinations per row from which mutants are made.
pub(crate) const MUTANT_LIMIT: usize = 96;
/// Largest number of combinations per row among which those with the most modifiers are reordered.
pub(crate) const ORDER_LIMIT: usize = 96;
/// Number of forms per row that are reordered.
const ORDERED_FORMS: usize = 2;

/// The kind of cases in a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Set {
    /// Legal forms.
    Legal,
    /// Forms with one change.
    Mutants,
    /// Forms with reordered modifiers.
    Orders,
}

impl Set {
    /// All sets.
    pub const ALL: [Set; 3] = [Set::Legal, Set::Mutants, Set::Orders];

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Set::Legal => "legal",
            Set::Mutants => "mutants",
            Set::Orders => "orders",
        }
    }
}

/// Returns the name of a row: `opcode#n`, where `n` counts the rows with the same opcode and family before it.
pub fn row_name(row: usize) -> String {
    let same = |other: &usize| ROWS[*other].opcode == ROWS[row].opcode && ROWS[*other].family == ROWS[row].family;
    let number = (0..row).filter(same).count();
    format!("{}#{number}", ROWS[row].opcode.spelling())
}

/// Returns the cases of a row.
pub fn cases(row: usize, set: Set) -> Vec<Case> {
    match set {
        Set::Legal => legal_forms(row, LEGAL_LIMIT),
        Set::Mutants => legal_forms(row, MUTANT_LIMIT).iter().flat_map(mutants).collect(),
        Set::Orders => longest_forms(row).iter().flat_map(orders).collect(),
    }
}

/// Returns the forms of a row with the most modifiers.
fn longest_forms(row: usize) -> Vec<Case> {
    let mut forms = legal_forms(row, ORDER_LIMIT);
    let modifiers = |case: &Case| case.text.split([' ', ';']).next().unwrap_or_default().matches('.').count();
    forms.sort_by_key(|case| std::cmp::Reverse(modifiers(case)));
    forms.truncate(ORDERED_FORMS);
    forms
}

/// Computes a digest of texts and platforms (FNV-1a, 64 bits).
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

/// Formats a record: `add#0 legal 6 0123456789abcdef A6`. Verdicts are run-length encoded; `A` is accepted, `R` rejected.
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

/// Parses the records of a family. The key is row name and set, the value is the digest and the verdicts (true for accepted).
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
