//! Assembler text: instructions with control words and labels.
//!
//! ```text
//! loop:
//!     [B------:R-:W-:-:S04] IADD3 R4, R0, R11, RZ ;
//!     [B0-----:R-:W-:-:S05] @P0 BRA `(loop) ;
//! ```

use std::collections::HashMap;

use oriole_isa::{Control, Instruction, Target, encode, parse_at};

/// Size of an instruction in bytes.
pub const INSTRUCTION_BYTES: u64 = 16;

/// One instruction.
#[derive(Clone, Debug)]
struct Line {
    /// Line number in the file, from 1.
    number: usize,
    control: Control,
    text: String,
}

/// The instructions of a file.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    lines: Vec<Line>,
    /// Name and address of each label.
    labels: HashMap<String, u64>,
}

impl Listing {
    /// Reads a listing. Lines that start with `//` and empty lines are skipped.
    pub fn read(text: &str) -> Result<Listing, String> {
        let mut listing = Listing::default();
        for (position, line) in text.lines().enumerate() {
            let number = position + 1;
            let code = line.split("//").next().unwrap_or_default().trim();
            if code.is_empty() {
                continue;
            }
            if let Some(label) = code.strip_suffix(':') {
                listing.labels.insert(label.to_owned(), listing.lines.len() as u64 * INSTRUCTION_BYTES);
                continue;
            }
            let split = code.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let (control, text) = split.ok_or_else(|| format!("line {number}: an instruction starts with its control word in []"))?;
            let control = Control::parse(control).ok_or_else(|| format!("line {number}: `{control}` is no control word"))?;
            listing.lines.push(Line { number, control, text: text.trim().trim_end_matches(';').trim().to_owned() });
        }
        if listing.lines.is_empty() { Err("the file has no instruction".to_owned()) } else { Ok(listing) }
    }

    /// Returns the encoding of each instruction, or why it has none.
    pub fn encodings(&self, target: Target) -> Vec<Result<u128, String>> {
        let encoding = |(position, line): (usize, &Line)| {
            let address = position as u64 * INSTRUCTION_BYTES;
            let instruction = parse_at(&line.text, address, &|name| self.labels.get(name).copied()).map_err(|error| error.to_string())?;
            encode(&Instruction { control: line.control, ..instruction }, target).map_err(|error| error.to_string())
        };
        self.lines.iter().enumerate().map(encoding).collect()
    }

    /// Returns the encodings; an instruction without one is an error with its line number.
    pub fn words(&self, target: Target) -> Result<Vec<u128>, String> {
        let located = |(found, line): (Result<u128, String>, &Line)| found.map_err(|error| format!("line {}: {error}", line.number));
        self.encodings(target).into_iter().zip(&self.lines).map(located).collect()
    }

    /// Returns the text of each instruction, as it is in the file.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.text.as_str())
    }
}
