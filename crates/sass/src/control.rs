//! Prints the listing of `disasm --control`, from which `asm` rebuilds the same file.
//!
//! Operands are printed as numbers, not as names of relocations; branches keep their labels. Each line is checked when it is written:
//! the text is parsed and encoded, and the bits that differ from the word are appended as `^0x…`. A word without a text, or whose text
//! cannot be parsed, is printed as `.raw`.
//!
//! The rest of the file follows as the skeleton: the bytes of the file with the listed code set to zero; trailing zeros of a line are
//! omitted. Names may be arbitrary: a label that could not be parsed is omitted, and the code of a section whose name could not be
//! parsed stays in the skeleton.

use std::collections::HashMap;
use std::fmt::Write;

use oriole_isa::{Control, encode, parse_at, print_exact};
use oriole_rescore::why::{Explained, explain};

use super::labels::Labels;
use super::listing::Listing;
use super::program::{CodeSection, Program, SIZE};
use super::source::is_section_name;

/// Number of bytes of the skeleton per line.
const SKELETON_LINE: usize = 32;

/// A control listing under construction.
pub struct ControlListing<'p> {
    program: &'p Program<'p>,
    labels: &'p Labels,
    frame: Listing<'p>,
    /// Whether to explain control words.
    with_reasons: bool,
    /// Number of words that no form of the table matches.
    pub unknown: usize,
}

impl<'p> ControlListing<'p> {
    pub fn new(program: &'p Program<'p>, labels: &'p Labels, with_reasons: bool) -> ControlListing<'p> {
        ControlListing { program, labels, frame: Listing::new(program, labels), with_reasons, unknown: 0 }
    }

    /// Returns the explanation of each control word in a section, or the reason why the analysis failed.
    fn reasons(&self, section: &CodeSection<'_>) -> Result<Vec<Explained>, String> {
        explain(&self.program.index, &section.as_function(), self.program.target).map_err(|obstacle| obstacle.to_string())
    }

    /// Prints the code of the functions that `wanted` selects, and the rest of the file.
    pub fn file(&mut self, out: &mut String, wanted: &dyn Fn(&str) -> bool) -> Result<(), String> {
        self.frame.header(out);
        let program = self.program;
        for (position, section) in program.sections.iter().enumerate().filter(|(_, section)| wanted(section.function)) {
            if is_listed(program, section) {
                self.section(out, position);
            } else {
                let _ = writeln!(
                    out,
                    "// section {} has no name of its own that can be written here; its code is in the skeleton",
                    section.index
                );
            }
        }
        let bytes = program.cubin.write().map_err(|error| error.to_string())?;
        skeleton(out, program, bytes, &|section| wanted(section.function) && is_listed(program, section))
    }

    /// Prints the code section at a position.
    fn section(&mut self, out: &mut String, position: usize) {
        let section = &self.program.sections[position];
        let addresses = self.frame.readable_labels(position);
        let reasons = if self.with_reasons { self.reasons(section) } else { Ok(Vec::new()) };
        if let Err(obstacle) = &reasons {
            let _ = writeln!(out, "        // no reasons: {obstacle}");
        }
        let reasons = reasons.unwrap_or_default();
        let unknown = &mut self.unknown;
        self.frame.section_frame(out, position, Some(&addresses), &mut |out, address, word| {
            let (text, known) = line(self.program, self.labels, position, &addresses, address, word);
            *unknown += usize::from(!known);
            let _ = writeln!(out, "        /*{address:04x}*/  {text}");
            if let Some(explained) = reasons.get((address / SIZE) as usize) {
                explanation(out, explained, Control::of(word));
            }
        });
        if !section.tail.is_empty() {
            let _ = writeln!(out, "        .bytes {}", hex(section.tail));
        }
    }
}

/// Returns whether the name of a section can be parsed and finds that section.
fn is_listed(program: &Program<'_>, section: &CodeSection<'_>) -> bool {
    is_section_name(section.name) && program.cubin.find(section.name) == Some(section.index)
}

/// Returns the line after the address (control word, instruction, and bits that the text does not show), and whether the word is known.
fn line(
    program: &Program<'_>,
    labels: &Labels,
    position: usize,
    addresses: &HashMap<String, u64>,
    address: u64,
    word: u128,
) -> (String, bool) {
    let names = labels.of_section(position);
    let mut text = String::new();
    let mut name = |target: u64| names.name(target).filter(|name| addresses.contains_key(name));
    if !print_exact(&mut text, word, program.target, address, &mut name) {
        return (format!(".raw {word:#034x} ;"), false);
    }
    let control = Control { reuse: 0, ..Control::of(word) };
    let again = parse_at(&text, address, &|label| addresses.get(label).copied()).ok().and_then(|mut instruction| {
        instruction.control = control;
        encode(&instruction, program.target).ok()
    });
    let line = match again {
        Some(same) if same == word => format!("[{control}]  {text} ;"),
        Some(other) => format!("[{control}]  {text} ; ^{:#x}", word ^ other),
        None => format!(".raw {word:#034x} ; // {text}"),
    };
    (line, true)
}

/// Prints the reasons of a control word. If the analysis would write another control word, prints that one first.
fn explanation(out: &mut String, explained: &Explained, written: Control) {
    let without_reuse = |control: Control| Control { reuse: 0, ..control };
    if without_reuse(explained.control) != without_reuse(written) {
        let _ = writeln!(out, "                // Oriole: [{}]", explained.control);
    }
    for line in &explained.lines {
        let _ = writeln!(out, "                //   {line}");
    }
}

/// Prints the bytes of the file without the listed code.
fn skeleton(
    out: &mut String,
    program: &Program<'_>,
    mut bytes: Vec<u8>,
    is_listed: &dyn Fn(&CodeSection<'_>) -> bool,
) -> Result<(), String> {
    let places = program.cubin.places().map_err(|error| error.to_string())?;
    for section in program.sections.iter().filter(|section| is_listed(section)) {
        let place = places[section.index];
        let (start, end) = (place.offset as usize, (place.offset + place.size) as usize);
        bytes.get_mut(start..end).ok_or("a code section lies outside of the file")?.fill(0);
    }
    let _ = write!(out, "\n//--------------------- the file without its code --------------------------\n");
    let _ = writeln!(out, "\t.skeleton\t{:#x}", bytes.len());
    for (index, chunk) in bytes.chunks(SKELETON_LINE).enumerate() {
        let used = chunk.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        if used > 0 {
            let _ = writeln!(out, "        {:#08x}: {}", index * SKELETON_LINE, hex(&chunk[..used]));
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2 + bytes.len() / 4);
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 && index % 4 == 0 {
            text.push(' ');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
