//! The listing of `disasm --control`, from which `asm` rebuilds the file bit by bit.
//!
//! Operands are numbers, not names of relocations; branches keep their labels. Each line is checked as it is written: its
//! text is read and encoded again, and what comes out different from the word is added behind it as `^0x…`. A word whose
//! text cannot be read back, or that has none, becomes `.raw`.
//!
//! What is not code follows as the skeleton: the bytes of the file with the listed code zeroed, zeros left out.

use std::collections::HashMap;
use std::fmt::Write;

use oriole_driver::rescore::why::{Explained, explain};
use oriole_isa::{Control, encode, parse_at, print_exact};

use super::labels::Labels;
use super::listing::Listing;
use super::program::{CodeSection, Program, SIZE};

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
        let cubin = self.program.cubin;
        let function = cubin.functions().find(|function| function.section == section.index).ok_or("there is no such function")?;
        explain(cubin, &function, self.program.target).map_err(|obstacle| obstacle.to_string())
    }

    /// The code of the functions that `wanted` asks for, and the rest of the file.
    pub fn file(&mut self, out: &mut String, wanted: &dyn Fn(&str) -> bool) -> Result<(), String> {
        self.frame.header(out);
        for (position, section) in self.program.sections.iter().enumerate() {
            if wanted(section.function) {
                self.section(out, position);
            }
        }
        let bytes = self.program.cubin.write().map_err(|error| error.to_string())?;
        skeleton(out, self.program, bytes, wanted)
    }

    /// The code section at a position.
    fn section(&mut self, out: &mut String, position: usize) {
        let section = &self.program.sections[position];
        let addresses = self.label_addresses(position, section);
        let reasons = if self.with_reasons { self.reasons(section) } else { Ok(Vec::new()) };
        if let Err(obstacle) = &reasons {
            let _ = writeln!(out, "        // no reasons: {obstacle}");
        }
        let reasons = reasons.unwrap_or_default();
        let unknown = &mut self.unknown;
        self.frame.section_frame(out, position, &mut |out, address, word| {
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

    /// Where the labels of a section are.
    fn label_addresses(&self, position: usize, section: &CodeSection<'_>) -> HashMap<String, u64> {
        let names = self.labels.of_section(position);
        let places = (0..=section.words.len() as u64).map(|index| index * SIZE);
        places.filter_map(|address| Some((names.name(address)?, address))).collect()
    }
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
fn skeleton(out: &mut String, program: &Program<'_>, mut bytes: Vec<u8>, wanted: &dyn Fn(&str) -> bool) -> Result<(), String> {
    let places = program.cubin.places().map_err(|error| error.to_string())?;
    for section in program.sections.iter().filter(|section| wanted(section.function)) {
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
