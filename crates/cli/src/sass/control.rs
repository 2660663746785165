//! The listing of `disasm --control`, from which `asm` rebuilds the file bit by bit.
//!
//! Operands are numbers, not names of relocations; branches keep their labels. Each line is checked as it is written: its
//! text is read and encoded again, and what comes out different from the word is added behind it as `^0x…`. A word whose
//! text cannot be read back, or that has none, becomes `.raw`.
//!
//! What is not code follows as the skeleton: the bytes of the file with the listed code zeroed, zeros left out. Names are not trusted:
//! a label that could not be read back is left out, and a section whose name could not be stays in the skeleton.

use std::collections::HashMap;
use std::fmt::Write;

use oriole_driver::rescore::why::{Explained, explain};
use oriole_isa::{Control, encode, parse_at, print_exact};

use super::labels::Labels;
use super::listing::Listing;
use super::program::{CodeSection, Program, SIZE};
use super::source::is_section_name;

/// Bytes of the skeleton on one line.
const SKELETON_LINE: usize = 32;

/// A control listing under construction.
pub struct ControlListing<'p> {
    program: &'p Program<'p>,
    labels: &'p Labels,
    frame: Listing<'p>,
    /// Whether control words are explained.
    with_reasons: bool,
    /// Words that the table does not know.
    pub unknown: usize,
}

impl<'p> ControlListing<'p> {
    pub fn new(program: &'p Program<'p>, labels: &'p Labels, with_reasons: bool) -> ControlListing<'p> {
        ControlListing { program, labels, frame: Listing::new(program, labels), with_reasons, unknown: 0 }
    }

    /// What the analysis says about each instruction of a section; what it says instead if it gives up.
    fn reasons(&self, section: &CodeSection<'_>) -> Result<Vec<Explained>, String> {
        explain(&self.program.index, &section.as_function(), self.program.target).map_err(|obstacle| obstacle.to_string())
    }

    /// The code of the functions that `wanted` asks for, and the rest of the file.
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

    /// The code section at a position.
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

/// Whether the name of a section can be read back and finds that section.
fn is_listed(program: &Program<'_>, section: &CodeSection<'_>) -> bool {
    is_section_name(section.name) && program.cubin.find(section.name) == Some(section.index)
}

/// Everything behind the address: control, instruction, and bits that the text does not say; and whether the table knows the word.
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

/// What a control word is for, or the one that the analysis would write, and what that is for.
fn explanation(out: &mut String, explained: &Explained, written: Control) {
    let without_reuse = |control: Control| Control { reuse: 0, ..control };
    if without_reuse(explained.control) != without_reuse(written) {
        let _ = writeln!(out, "                // Oriole: [{}]", explained.control);
    }
    for line in &explained.lines {
        let _ = writeln!(out, "                //   {line}");
    }
}

/// The bytes of the file without the code that is listed.
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
