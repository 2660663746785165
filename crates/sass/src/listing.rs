//! Prints code as `nvdisasm -c` does.

use std::collections::HashMap;
use std::fmt::Write;

use oriole_cubin::FileType;
use oriole_cubin::symbol::{Symbol, other};
use oriole_isa::print_with;

use super::labels::{Labels, Names};
use super::program::{CodeSection, Program, SIZE, relative_target};
use super::relocated;
use super::source::is_label;
use super::source_lines::SourceLines;

/// A listing under construction.
pub struct Listing<'p> {
    program: &'p Program<'p>,
    labels: &'p Labels,
    /// Number of words that no form of the table matches.
    pub unknown: usize,
}

impl<'p> Listing<'p> {
    pub fn new(program: &'p Program<'p>, labels: &'p Labels) -> Listing<'p> {
        Listing { program, labels, unknown: 0 }
    }

    /// Prints the lines before the sections.
    pub fn header(&self, out: &mut String) {
        let kind = match self.program.cubin.header.file_type {
            FileType::Relocatable => "ET_REL",
            _ => "ET_EXEC",
        };
        let _ = write!(out, "\t.target\t{}\n\n\t.elftype\t@\"{kind}\"\n\n", self.program.target);
    }

    /// Prints the code section at a position.
    pub fn section(&mut self, out: &mut String, position: usize) {
        let mut unknown = 0;
        self.section_frame(out, position, None, &mut |out, address, word| unknown += self.line(out, position, address, word));
        self.unknown += unknown;
    }

    /// Prints the code section at a position with source lines.
    pub fn section_with_lines(&mut self, out: &mut String, position: usize, lines: &mut SourceLines) {
        let (mut unknown, index) = (0, self.program.sections[position].index);
        lines.start_section();
        self.section_frame(out, position, None, &mut |out, address, word| {
            lines.print(out, index, address);
            unknown += self.line(out, position, address, word);
        });
        self.unknown += unknown;
    }

    /// Returns the labels of a section that can be parsed, with the address of the following instruction. If a name occurs several times,
    /// its first address is used.
    pub(crate) fn readable_labels(&self, position: usize) -> HashMap<String, u64> {
        let section = &self.program.sections[position];
        let names = self.labels.of_section(position);
        let mut labels = HashMap::new();
        let mut symbols = section.symbols.iter().map(|&symbol| self.symbol(symbol)).peekable();
        let end = section.words.len() as u64 * SIZE;
        for address in (0..end).step_by(SIZE as usize) {
            while let Some(symbol) = symbols.next_if(|symbol| symbol.value <= address) {
                if is_label(&symbol.name) {
                    labels.entry(symbol.name.clone()).or_insert(address);
                }
            }
            if let Some(label) = names.label(address) {
                labels.entry(label).or_insert(address);
            }
        }
        if let Some(label) = names.label(section.length()) {
            labels.entry(label).or_insert(end);
        }
        labels
    }

    /// Prints a code section; `line` prints each instruction. If `readable` is given, only these labels are printed, each once.
    pub(crate) fn section_frame(
        &self,
        out: &mut String,
        position: usize,
        readable: Option<&HashMap<String, u64>>,
        line: &mut dyn FnMut(&mut String, u64, u128),
    ) {
        let mut left = readable.cloned();
        let mut is_printed = |name: &str| left.as_mut().is_none_or(|left| left.remove(name).is_some());
        let section = &self.program.sections[position];
        let names = self.labels.of_section(position);
        let _ = write!(out, "\n//--------------------- {:<25} --------------------------\n", section.name);
        let _ = writeln!(out, "\t.section\t{},\"ax\",@progbits", section.name);
        self.section_notes(out, section);
        let _ = writeln!(out, "\t.align\t{}", self.program.cubin.sections()[section.index].alignment);
        let mut symbols = section.symbols.iter().peekable();
        for (index, &word) in section.words.iter().enumerate() {
            let address = index as u64 * SIZE;
            while let Some(symbol) = symbols.next_if(|&&symbol| self.symbol(symbol).value <= address) {
                if is_printed(&self.symbol(*symbol).name) {
                    self.function_header(out, names, self.symbol(*symbol));
                }
            }
            if let Some(label) = names.label(address).filter(|label| is_printed(label)) {
                let _ = writeln!(out, "{label}:");
            }
            line(out, address, word);
        }
        if let Some(label) = names.label(section.length()).filter(|label| is_printed(label)) {
            let _ = writeln!(out, "{label}:");
        }
        out.push('\n');
    }

    fn section_notes(&self, out: &mut String, section: &CodeSection<'_>) {
        let header = &self.program.cubin.sections()[section.index];
        let barriers = header.flags >> 20 & 0x7f;
        if barriers != 0 {
            let _ = writeln!(out, "\t.sectionflags\t@\"SHF_BARRIERS={barriers}\"");
        }
        let registers = header.text_info().registers();
        if registers != 0 {
            let _ = writeln!(out, "\t.sectioninfo\t@\"SHI_REGISTERS={registers}\"");
        }
    }

    fn symbol(&self, index: usize) -> &'p Symbol {
        &self.program.cubin.symbols()[index]
    }

    /// Prints the directives and the label of a symbol.
    fn function_header(&self, out: &mut String, names: &Names, symbol: &Symbol) {
        let name = &symbol.name;
        if !symbol.is_function() {
            let _ = writeln!(out, "{name}:");
            return;
        }
        match symbol.binding {
            1 => {
                let _ = writeln!(out, "        .global         {name}");
            }
            2 => {
                let _ = writeln!(out, "        .weak           {name}");
            }
            _ => {}
        }
        let _ = writeln!(out, "        .type           {name},@function");
        if symbol.size > 0 {
            let end = names.name(symbol.value.wrapping_add(symbol.size)).unwrap_or_default();
            let _ = writeln!(out, "        .size           {name},({end} - {name})");
        }
        if symbol.other & other::ENTRY != 0 {
            let _ = writeln!(out, "        .other          {name},@\"STO_CUDA_ENTRY STV_DEFAULT\"");
        }
        let _ = writeln!(out, "{name}:");
    }

    /// Prints one instruction: address, guard in a separate column, the rest. Returns the number of words that the table does not know
    /// (0 or 1).
    fn line(&self, out: &mut String, position: usize, address: u64, word: u128) -> usize {
        let _ = write!(out, "        /*{address:04x}*/");
        let start = out.len();
        let known = self.instruction(out, position, address, word);
        let guard = match out[start..].starts_with('@') {
            true => out[start..].find(' ').map_or(0, |length| length + 1),
            false => 0,
        };
        out.insert_str(start, &GUARD_COLUMN[guard.min(GUARD_COLUMN.len())..]);
        out.push_str(" ;\n");
        usize::from(!known)
    }

    /// Prints an instruction without address and semicolon; returns false if no form of the table matches it.
    pub fn instruction(&self, out: &mut String, position: usize, address: u64, word: u128) -> bool {
        let section = &self.program.sections[position];
        let mut relocations = section.relocations_at(address).iter();
        if let Some(text) = relocations.find_map(|it| relocated::print(self.program, self.labels, word, address, it)) {
            out.push_str(&text);
            return true;
        }
        let names = self.labels.of_section(position);
        let known = print_with(out, word, self.program.target, address, &mut |target| names.name(target));
        if !known {
            let _ = write!(out, ".raw {word:#034x}");
        }
        if let Some(note) = section.relocations_at(address).iter().find_map(relocated::opcode_note) {
            let _ = write!(out, "               {note}");
        }
        if let Some(targets) = section.branch_targets_at(address) {
            self.indirect_branch(out, section, address, word);
            let list: Vec<String> = targets.iter().filter_map(|&target| names.name(u64::from(target))).collect();
            let _ = write!(out, "               (*\"BRANCH_TARGETS {}\"*)", list.join(","));
        }
        known
    }

    /// Replaces the operand of an indirect branch. Its distance is added to a register, so it is not a label. Before linking it is printed
    /// as an expression, afterwards as a number.
    fn indirect_branch(&self, out: &mut String, section: &CodeSection<'_>, address: u64, word: u128) {
        let Some(end) = out.rfind(' ') else { return };
        let distance = match relative_target(word, self.program.target, address) {
            Some(base) => base.wrapping_sub(address).wrapping_sub(SIZE).cast_signed(),
            None => match distance(&out[end + 1..]) {
                Some(distance) => distance,
                None => return,
            },
        };
        out.truncate(end + 1);
        if self.program.cubin.header.file_type == FileType::Relocatable && distance == -(address as i64) - SIZE as i64 {
            let _ = write!(out, "`((({} - .) - {SIZE:#x}))", section.name);
        } else {
            let sign = if distance < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{:#x}", distance.unsigned_abs());
        }
    }
}

/// Parses a number such as `-0x140`.
fn distance(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let magnitude = i64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// The column between address and mnemonic, which holds the guard.
const GUARD_COLUMN: &str = "                   ";
