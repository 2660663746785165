//! Reads line tables.

use std::collections::HashMap;

use gimli::{
    DebugLine, DebugLineOffset, DwLne, EndianSlice, IncompleteLineProgram, LineInstruction, LineProgramHeader, LittleEndian, Reader,
};

use super::{DEBUG_PTX_TEXT, DEBUG_STR, DW_LNE_INLINED_CALL};
use crate::cubin::Cubin;
use crate::error::{Error, Result};
use crate::index::CubinIndex;
use crate::relocation::{Relocation, RelocationType};
use crate::symbol::SymbolSection;

type Bytes<'c> = EndianSlice<'c, LittleEndian>;

pub(super) const ADDRESS_BYTES: u8 = 8;
/// Size of the length field of a unit.
pub(super) const LENGTH_BYTES: usize = 4;

/// The line table of a cubin.
#[derive(Clone, Debug, Default)]
pub struct LineTable {
    /// Directory and name of each file.
    files: Vec<(Option<usize>, String)>,
    directories: Vec<String>,
    /// Content of `.debug_str`.
    strings: Vec<u8>,
    /// All rows, in file order.
    pub rows: Vec<LineRow>,
    /// For each code section, its rows by address; rows with the same address are in file order.
    by_section: HashMap<usize, Vec<usize>>,
}

/// A row of a line table. It applies up to the next row of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// Offset in the code section in bytes.
    pub address: u64,
    /// `None` after the end of a function.
    pub position: Option<SourcePosition>,
}

/// A position in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// Number of the file, see [`LineTable::file_name`]; `None` if the table does not name the file.
    file: Option<usize>,
    pub line: u64,
    /// For inlined code, the index in [`LineTable::rows`] of the row of the call.
    pub call: Option<usize>,
    /// For inlined code, the offset in `.debug_str` of the name of the function.
    function: Option<u64>,
}

impl LineTable {
    /// Returns the position of the instruction at an address of a code section.
    pub fn find(&self, section: usize, address: u64) -> Option<&SourcePosition> {
        let rows = self.by_section.get(&section)?;
        let count = rows.partition_point(|&row| self.rows[row].address <= address);
        self.rows[rows[count.checked_sub(1)?]].position.as_ref()
    }

    /// Returns a position and the calls through which its code was inlined, innermost first.
    pub fn call_chain<'t>(&'t self, position: &'t SourcePosition) -> impl Iterator<Item = &'t SourcePosition> {
        // A call is an earlier row, so that the chain ends.
        std::iter::successors(Some(position), |position| self.rows[position.call?].position.as_ref())
    }

    /// Returns the name of a position's file, with its directory; an empty name if it is not known.
    pub fn file_name(&self, position: &SourcePosition) -> String {
        let Some((directory, name)) = position.file.map(|file| &self.files[file]) else { return String::new() };
        match directory.map(|directory| &self.directories[directory]) {
            Some(directory) if !directory.is_empty() && !name.starts_with('/') => format!("{directory}/{name}"),
            _ => name.clone(),
        }
    }

    /// Returns the name of the function, if a position is in inlined code.
    pub fn function_name(&self, position: &SourcePosition) -> Option<String> {
        let rest = self.strings.get(usize::try_from(position.function?).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    /// Returns the addresses of a section at which rows start.
    pub fn addresses(&self, section: usize) -> impl Iterator<Item = u64> {
        self.by_section.get(&section).into_iter().flatten().map(|&row| self.rows[row].address)
    }
}

/// Reads the line table in the section with this name. A file without the section has an empty table.
pub fn read_lines(cubin: &Cubin, name: &str) -> Result<LineTable> {
    let index = CubinIndex::new(cubin);
    let Some(section) = index.find(name) else { return Ok(LineTable::default()) };
    let bytes = cubin.bytes_of(section).unwrap_or_default();
    let mut relocations = index.relocations(section);
    // Other relocations are those of offsets in `.debug_str`.
    relocations.retain(|relocation| relocation.relocation_type == RelocationType::R_CUDA_64);
    relocations.sort_by_key(|relocation| relocation.offset);
    let strings = cubin.find(DEBUG_STR).and_then(|strings| cubin.bytes_of(strings)).unwrap_or_default();
    let table = LineTable { strings: strings.to_vec(), ..LineTable::default() };
    let mut decoder = Decoder { index: &index, relocations, used: 0, table };
    let (mut at, fail) = (0, |error: gimli::Error| Error::new(format!("{name}: {error}")));
    while at < bytes.len() {
        let program = DebugLine::new(bytes, LittleEndian).program(DebugLineOffset(at), ADDRESS_BYTES, None, None).map_err(fail)?;
        at += LENGTH_BYTES + program.header().unit_length();
        decoder.unit(program).map_err(fail)?;
    }
    let LineTable { rows, by_section, .. } = &mut decoder.table;
    by_section.values_mut().for_each(|list| list.sort_by_key(|&row| rows[row].address));
    Ok(decoder.table)
}

/// Returns the lines of the PTX text in a cubin; none if it has no text.
pub fn ptx_text(cubin: &Cubin) -> Vec<String> {
    let is_text = |name: &str| name == DEBUG_PTX_TEXT || name.strip_prefix(DEBUG_PTX_TEXT).is_some_and(|rest| rest.starts_with('.'));
    let section = cubin.sections().iter().position(|section| is_text(&section.name));
    let bytes = section.and_then(|section| cubin.bytes_of(section)).unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        Vec::new()
    } else {
        bytes.split(|&byte| byte == 0).map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }
}

/// The state of the decoder between units.
struct Decoder<'c> {
    index: &'c CubinIndex<'c>,
    /// Relocations of the section, sorted by offset. Each belongs to one `DW_LNE_set_address`.
    relocations: Vec<Relocation>,
    /// Number of relocations that belong to earlier sequences.
    used: usize,
    table: LineTable,
}

impl Decoder<'_> {
    /// Decodes the rows of one unit.
    fn unit(&mut self, mut program: IncompleteLineProgram<Bytes<'_>>) -> std::result::Result<(), gimli::Error> {
        let header = &program.header().clone();
        let first_file = self.table.files.len();
        self.table.add_files(header);
        let files = self.table.files.len() - first_file;
        let mut row = gimli::LineRow::new(header);
        let (mut place, mut context) = (None, None);
        let mut first_row = self.table.rows.len();
        let mut instructions = header.instructions();
        while let Some(instruction) = instructions.next_instruction(header)? {
            match instruction {
                LineInstruction::SetAddress(_) => place = self.next_place(),
                LineInstruction::UnknownExtended(DwLne(DW_LNE_INLINED_CALL), mut operands) => {
                    let call = operands.read_uleb128()?;
                    let function = operands.read_uleb128()?;
                    context = usize::try_from(call).ok().filter(|&call| call != 0).map(|call| (call, function));
                    continue;
                }
                _ => {}
            }
            if !row.execute(instruction, &mut program)? {
                continue;
            }
            let number = usize::try_from(row.file_index()).ok().and_then(|file| file.checked_sub(1)).filter(|&file| file < files);
            let earlier = self.table.rows.len();
            let call = context.map(|(call, _)| first_row + call - 1).filter(|&call| call < earlier);
            let position = SourcePosition {
                file: number.map(|file| first_file + file),
                line: row.line().map_or(0, std::num::NonZero::get),
                call,
                function: context.map(|(_, name)| name),
            };
            self.push(place, row.address(), (!row.end_sequence()).then_some(position));
            if row.end_sequence() {
                (place, context, first_row) = (None, None, self.table.rows.len());
            }
            row.reset(header);
        }
        Ok(())
    }

    fn push(&mut self, place: Option<(usize, u64)>, address: u64, position: Option<SourcePosition>) {
        let number = self.table.rows.len();
        let address = place.map_or(address, |(_, start)| start.wrapping_add(address));
        if let Some((section, _)) = place {
            self.table.by_section.entry(section).or_default().push(number);
        }
        self.table.rows.push(LineRow { address, position });
    }

    /// Returns the code section of the next sequence and the offset of the sequence in it.
    fn next_place(&mut self) -> Option<(usize, u64)> {
        let relocation = self.relocations.get(self.used)?;
        self.used += 1;
        let symbol = self.index.symbols().get(relocation.symbol as usize)?;
        let SymbolSection::Section(section) = symbol.section else { return None };
        Some((section as usize, symbol.value.wrapping_add_signed(relocation.addend.unwrap_or(0))))
    }
}

impl LineTable {
    /// Adds the files of a unit. Names and directories stay separate, so that the table is not larger than the section.
    fn add_files(&mut self, header: &LineProgramHeader<Bytes<'_>>) {
        let text = |value: &gimli::AttributeValue<Bytes<'_>>| match value {
            gimli::AttributeValue::String(bytes) => bytes.to_string_lossy().into_owned(),
            _ => String::new(),
        };
        let first = self.directories.len();
        self.directories.extend(header.include_directories().iter().map(text));
        let count = self.directories.len() - first;
        for file in header.file_names() {
            let number = usize::try_from(file.directory_index()).ok().and_then(|number| number.checked_sub(1));
            let directory = number.filter(|&number| number < count).map(|number| first + number);
            self.files.push((directory, text(&file.path_name())));
        }
    }
}
