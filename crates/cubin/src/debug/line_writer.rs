//! Writes line programs as ptxas does: DWARF 2, minimum instruction length 1, line base -5, line range 14.

use gimli::constants::{DW_LNE_end_sequence, DW_LNE_set_address, DW_LNS_advance_line, DW_LNS_advance_pc, DW_LNS_copy, DW_LNS_set_file};

use super::DW_LNE_INLINED_CALL;
use crate::dwarf_bytes::DwarfBytes;
use crate::error::Result;

pub(super) const VERSION: u16 = 2;
pub(super) const MINIMUM_INSTRUCTION_BYTES: u8 = 1;
const DEFAULT_IS_STATEMENT: u8 = 1;
pub(super) const LINE_BASE: i64 = -5;
pub(super) const LINE_RANGE: i64 = 14;
/// Number of operands of the standard opcodes 1 to 9.
const OPERAND_COUNTS: [u8; 9] = [0, 1, 1, 1, 1, 0, 0, 0, 1];
/// The first special opcode.
pub(super) const OPCODE_BASE: i64 = OPERAND_COUNTS.len() as i64 + 1;

/// A file in the header of a line program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub name: String,
    /// Time of the last change; 0 if unknown.
    pub time: u64,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
}

/// A row of a line table: the position of the instructions from an address up to that of the next row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Offset in the function in bytes.
    pub address: u64,
    /// Number of the file in the header, from 1; 0 for the PTX text.
    pub file: u64,
    /// The line, from 1.
    pub line: u64,
    /// Number of the row of the call that was inlined, from 1 in the same sequence; 0 for code that is not inlined.
    pub context: u64,
    /// Offset in `.debug_str` of the name of the inlined function; 0 for code that is not inlined.
    pub function_name: u64,
}

/// The rows of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub function: String,
    pub size_bytes: u64,
    /// The rows, sorted by address.
    pub rows: Vec<Row>,
}

/// A line program: one unit of the section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineProgram {
    pub files: Vec<SourceFile>,
    pub sequences: Vec<Sequence>,
}

/// The bytes of line programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedLines {
    pub bytes: Vec<u8>,
    /// Offsets of the addresses to relocate, with the names of the functions.
    pub addresses: Vec<(u64, String)>,
    /// Offsets of the fields with an offset in `.debug_str`, one for each program with inlined code.
    pub string_fields: Vec<u64>,
}

impl EncodedLines {
    /// Encodes the units of a section. Fails if a unit has more than 4 GiB.
    pub fn new(programs: &[LineProgram]) -> Result<EncodedLines> {
        let mut encoder = LineEncoder::default();
        programs.iter().try_for_each(|program| encoder.program(program))?;
        Ok(encoder.finish())
    }
}

/// Encodes line programs.
#[derive(Default)]
pub(super) struct LineEncoder {
    pub out: DwarfBytes,
    /// As in [`EncodedLines`].
    pub addresses: Vec<(u64, String)>,
    string_fields: Vec<u64>,
}

impl LineEncoder {
    pub fn finish(self) -> EncodedLines {
        EncodedLines { bytes: self.out.into_vec(), addresses: self.addresses, string_fields: self.string_fields }
    }

    /// Appends a unit.
    fn program(&mut self, program: &LineProgram) -> Result<()> {
        let unit = self.out.len();
        self.out.word(0);
        self.out.half(VERSION);
        let header_length = self.out.len();
        self.out.word(0);
        self.out.bytes(&[MINIMUM_INSTRUCTION_BYTES, DEFAULT_IS_STATEMENT, LINE_BASE as u8, LINE_RANGE as u8, OPCODE_BASE as u8]);
        self.out.bytes(&OPERAND_COUNTS);
        self.files(&program.files);
        if program.sequences.iter().flat_map(|sequence| &sequence.rows).any(|row| row.context != 0) {
            // The offset in `.debug_str` that the names of inlined functions are relative to.
            self.string_fields.push(self.out.len() as u64);
            self.out.word(0);
        }
        self.out.set_length(header_length)?;
        program.sequences.iter().filter(|sequence| !sequence.rows.is_empty()).for_each(|sequence| self.sequence(sequence));
        self.out.set_length(unit)
    }

    /// Appends the lists of directories and of files.
    fn files(&mut self, files: &[SourceFile]) {
        let mut directories: Vec<&str> = Vec::new();
        let mut list = DwarfBytes::default();
        for file in files {
            let (directory, name) = split_path(&file.name);
            let number = match directories.iter().position(|&known| known == directory) {
                _ if directory.is_empty() => 0,
                Some(position) => position + 1,
                None => {
                    directories.push(directory);
                    directories.len()
                }
            };
            list.string(name);
            [number as u64, file.time, file.size].into_iter().for_each(|value| list.unsigned(value));
        }
        directories.into_iter().for_each(|directory| self.out.string(directory));
        self.out.byte(0);
        self.out.bytes(&list.into_vec());
        self.out.byte(0);
    }

    /// Appends the rows of a function.
    pub fn sequence(&mut self, sequence: &Sequence) {
        self.extended(DW_LNE_set_address.0, &[0; 8]);
        self.addresses.push((self.out.len() as u64 - 8, sequence.function.clone()));
        // The file number is written first in any case.
        let mut state = Row { line: 1, file: u64::MAX, ..Row::default() };
        for row in &sequence.rows {
            self.row(&state, row);
            state = *row;
        }
        self.advance_address(sequence.size_bytes.saturating_sub(state.address));
        self.extended(DW_LNE_end_sequence.0, &[]);
    }

    /// Appends the opcodes that lead from one row to the next.
    fn row(&mut self, from: &Row, to: &Row) {
        if to.file != from.file {
            self.out.byte(DW_LNS_set_file.0);
            self.out.unsigned(to.file);
        }
        if (to.context, to.function_name) != (from.context, from.function_name) {
            let mut operands = DwarfBytes::default();
            operands.unsigned(to.context);
            operands.unsigned(to.function_name);
            self.extended(DW_LNE_INLINED_CALL, &operands.into_vec());
        }
        let address = to.address.saturating_sub(from.address);
        let line = to.line.cast_signed() - from.line.cast_signed();
        if let Some(opcode) = special_opcode(address, line) {
            self.out.byte(opcode);
            return;
        }
        if line != 0 {
            self.out.byte(DW_LNS_advance_line.0);
            self.out.signed(line);
        }
        self.advance_address(address);
        self.out.byte(DW_LNS_copy.0);
    }

    fn advance_address(&mut self, bytes: u64) {
        if bytes != 0 {
            self.out.byte(DW_LNS_advance_pc.0);
            // The operand is unsigned, but ptxas writes it as a signed number: 112 has two bytes. Both forms read the same.
            self.out.signed(bytes.cast_signed());
        }
    }

    /// Appends an extended opcode.
    fn extended(&mut self, opcode: u8, operands: &[u8]) {
        self.out.byte(0);
        self.out.unsigned(operands.len() as u64 + 1);
        self.out.byte(opcode);
        self.out.bytes(operands);
    }
}

/// Splits a path into directory and name. A file in the root directory keeps its slash, because an empty directory has no number.
fn split_path(path: &str) -> (&str, &str) {
    match path.rfind(['/', '\\']) {
        Some(at) if at > 0 && at + 1 < path.len() => (&path[..at], &path[at + 1..]),
        // An empty name would end the list.
        _ if path.is_empty() => ("", "?"),
        _ => ("", path),
    }
}

/// Returns the opcode that advances address and line and appends a row, if there is one. A step that changes neither is `DW_LNS_COPY`.
fn special_opcode(address: u64, line: i64) -> Option<u8> {
    let step = line - LINE_BASE;
    if address == 0 || !(0..LINE_RANGE).contains(&step) {
        return None;
    }
    let opcode = i64::try_from(address).ok()?.checked_mul(LINE_RANGE)?.checked_add(step + OPCODE_BASE)?;
    u8::try_from(opcode).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The section that ptxas 13.0.88 writes at -O0 for a kernel with one source file and two levels of inlined code.
    const PTXAS: &str = "810000000200250000000101fb0e0a0001010101000000012f612f62000066697273742e6375000100000000000000\
                         00090200000000000000000401030201030102b00101022001000390030003030102f0000100039005080302010003\
                         900000037b0290010102a002010003900800030301029001010003900a08030201028003000101";

    #[test]
    fn bytes_are_those_of_ptxas() {
        let row = |address, line, context, function_name| Row { address, file: 1, line, context, function_name };
        let rows = vec![
            row(0, 3, 0, 0),
            row(0xb0, 4, 0, 0),
            row(0xd0, 4, 0, 0),
            row(0xd0, 7, 3, 0),
            row(0x140, 7, 3, 0),
            row(0x140, 9, 5, 8),
            row(0x1d0, 4, 0, 0),
            row(0x2f0, 4, 0, 0),
            row(0x2f0, 7, 8, 0),
            row(0x380, 7, 8, 0),
            row(0x380, 9, 10, 8),
        ];
        let files = vec![SourceFile { name: "/a/b/first.cu".into(), time: 0, size: 0 }];
        let sequences = vec![Sequence { function: "k".into(), size_bytes: 0x500, rows }];
        let encoded = EncodedLines::new(&[LineProgram { files, sequences }]).expect("a small table");
        let hex: String = encoded.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, PTXAS);
        assert_eq!(encoded.addresses, [(0x32, "k".to_owned())]);
        assert_eq!(encoded.string_fields, [0x2b]);
    }

    #[test]
    fn special_opcodes_end_at_255() {
        // 16 bytes and 8 lines: 16 * 14 + 8 + 5 + 10.
        assert_eq!(special_opcode(16, 8), Some(247));
        assert_eq!(special_opcode(16, 9), None);
        assert_eq!(special_opcode(16, -6), None);
        assert_eq!(special_opcode(32, 0), None);
        assert_eq!(special_opcode(u64::MAX, 0), None);
        assert_eq!(special_opcode(0, 1), None);
    }

    #[test]
    fn paths_are_split_at_the_last_separator() {
        assert_eq!(split_path("/a/b.cu"), ("/a", "b.cu"));
        assert_eq!(split_path("/b.cu"), ("", "/b.cu"));
        assert_eq!(split_path("b.cu"), ("", "b.cu"));
        assert_eq!(split_path("c:\\a\\b.cu"), ("c:\\a", "b.cu"));
        assert_eq!(split_path(""), ("", "?"));
        assert_eq!(split_path("a/"), ("", "a/"));
    }
}
