//! Parses the text tables of instructions to measure.
//!
//! The files under `data/` have one row per line, columns separated by `|`, and comments after `#`. Constants of the target are written in
//! braces and are replaced when a row is used.

use std::fmt;

/// The place of a result and its number of words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultLocation {
    pub file: RegFile,
    pub words: u32,
    /// Whether the word after the result must be zero, as in addresses.
    pub is_address: bool,
    /// Whether the result is too large to be an address.
    pub is_large: bool,
    /// If the result is a word of a global memory address, the index of the word.
    pub pointer_word: Option<u32>,
    /// If the result is a word of a group that is read as a whole, the index of the word.
    pub group_word: Option<u32>,
}

/// A register file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegFile {
    General,
    Uniform,
    Predicate,
    UniformPredicate,
}

impl RegFile {
    /// Returns the name of the result's register, `word` words after the first.
    pub fn result(self, word: u32) -> String {
        match self {
            RegFile::General => format!("R{}", 4 + word),
            RegFile::Uniform => format!("UR{}", 4 + word),
            RegFile::Predicate => "P0".into(),
            RegFile::UniformPredicate => "UP0".into(),
        }
    }
}

impl fmt::Display for RegFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegFile::General => "R",
            RegFile::Uniform => "UR",
            RegFile::Predicate => "P",
            RegFile::UniformPredicate => "UP",
        })
    }
}

impl ResultLocation {
    /// Parses the place of a row, such as `R`, `R2` or `UP`.
    fn parse(text: &str) -> Option<ResultLocation> {
        let place = |file, words, is_address| {
            Some(ResultLocation { file, words, is_address, is_large: text.starts_with('V'), pointer_word: None, group_word: None })
        };
        let part = |word| place(RegFile::General, 1, false).map(|place| ResultLocation { group_word: Some(word), ..place });
        let pointer = |word| place(RegFile::General, 1, false).map(|place| ResultLocation { pointer_word: Some(word), ..place });
        match text {
            "R" => place(RegFile::General, 1, false),
            "A" => place(RegFile::General, 1, true),
            "R2" => place(RegFile::General, 2, false),
            "Q1" => part(1),
            "Q2" => part(2),
            "Q3" => part(3),
            "LO" => pointer(0),
            "HI" => pointer(1),
            "V2" => place(RegFile::General, 2, false),
            "V4" => place(RegFile::General, 4, false),
            "R4" => place(RegFile::General, 4, false),
            "UR" => place(RegFile::Uniform, 1, false),
            "UA" => place(RegFile::Uniform, 1, true),
            "UR2" => place(RegFile::Uniform, 2, false),
            "P" => place(RegFile::Predicate, 1, false),
            "UP" => place(RegFile::UniformPredicate, 1, false),
            _ => None,
        }
    }
}

/// One instruction of a pair.
#[derive(Clone, Debug)]
pub struct PairMember {
    pub name: &'static str,
    pub place: ResultLocation,
    pub text: &'static str,
    /// Instructions that follow, each executed separately.
    pub after: Vec<&'static str>,
}

/// Returns the rows of a table: line number and columns.
pub fn rows(table: &'static str) -> impl Iterator<Item = (usize, Vec<&'static str>)> {
    let lines = table.lines().enumerate().map(|(index, line)| (index + 1, line.split('#').next().unwrap_or("").trim()));
    lines.filter(|(_, line)| !line.is_empty()).map(|(number, line)| (number, line.split('|').map(str::trim).collect()))
}

fn access(columns: &[&'static str]) -> Option<PairMember> {
    let [place, name, text, rest @ ..] = columns else { return None };
    let after = rest.first().map_or_else(Vec::new, |lines| lines.split(';').map(str::trim).filter(|line| !line.is_empty()).collect());
    Some(PairMember { name, place: ResultLocation::parse(place)?, text, after })
}

/// Parses a table with the columns name, place, text and following instructions.
fn named(table: &'static str, file: &str) -> Vec<PairMember> {
    let read = |(number, columns): (usize, Vec<&'static str>)| {
        let [name, place, rest @ ..] = columns.as_slice() else { panic!("{file}:{number}: too few columns") };
        let mut reordered = vec![*place, *name];
        reordered.extend(rest);
        access(&reordered).unwrap_or_else(|| panic!("{file}:{number}: bad row"))
    };
    rows(table).map(read).collect()
}

/// Returns the instructions whose results are read.
pub fn producers() -> Vec<PairMember> {
    named(include_str!("../data/producers.tbl"), "producers.tbl")
}

/// Returns the instructions that read a result.
pub fn consumers() -> Vec<PairMember> {
    named(include_str!("../data/consumers.tbl"), "consumers.tbl")
}

/// Returns the rows of `overwrites.tbl` of one kind.
fn overwrites(word: &str) -> Vec<PairMember> {
    let read = |(number, mut columns): (usize, Vec<&'static str>)| {
        let (kind, place) = columns[0].split_once(':').unwrap_or_else(|| panic!("overwrites.tbl:{number}: no kind"));
        columns[0] = place.trim();
        (kind == word).then(|| access(&columns).unwrap_or_else(|| panic!("overwrites.tbl:{number}: bad row")))
    };
    rows(include_str!("../data/overwrites.tbl")).filter_map(read).collect()
}

/// Returns the instructions that write a register a second time.
pub fn second_writers() -> Vec<PairMember> {
    overwrites("second")
}

/// Returns the instructions whose source is overwritten.
pub fn readers() -> Vec<PairMember> {
    overwrites("reader")
}

/// Returns the instructions of variable latency whose scoreboard is waited for.
pub fn scoreboard_setters() -> Vec<PairMember> {
    overwrites("setter")
}
