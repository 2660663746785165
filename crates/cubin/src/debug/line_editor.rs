//! Rewrites a line table after instructions have moved.
//!
//! Headers stay as they are. The rows of each function are decoded, every instruction takes its position along, and the rows are encoded for
//! the new order. A row for a call of inlined code comes before the first row that refers to it:
//!
//! ```text
//! old:  0x00 line 3    0x10 line 9 in the call of row 2 (0x10 line 4)    0x20 line 5
//! new order 0x10, 0x00, 0x20:
//!       0x00 line 4    0x00 line 9 in the call of row 1    0x10 line 3    0x20 line 5
//! ```

use std::collections::HashMap;

use gimli::{DebugLine, DebugLineOffset, DwLne, EndianSlice, IncompleteLineProgram, LineInstruction, LittleEndian, Reader};

use super::line_writer::{LINE_BASE, LINE_RANGE, LineEncoder, MINIMUM_INSTRUCTION_BYTES, OPCODE_BASE, Row, Sequence, VERSION};
use super::{DW_LNE_INLINED_CALL, line_reader};
use crate::cubin::Cubin;
use crate::error::{Error, Result};
use crate::index::CubinIndex;
use crate::relocation::RelocationType;
use crate::section::Content;
use crate::symbol::SymbolSection;

/// Size of an instruction in bytes.
const INSTRUCTION_BYTES: u64 = 16;
/// Size of the fields before the header proper: length of the unit, version, length of the header.
const HEADER_START: usize = 10;

/// The new number of each instruction, by code section.
pub type MovedCode = HashMap<usize, Vec<usize>>;

/// Rewrites the line table in the section with this name, if the file has it. Fails if the table has opcodes that ptxas does not write; the
/// file is then unchanged.
pub fn reorder_lines(cubin: &mut Cubin, name: &str, moved: &MovedCode) -> Result<()> {
    let Some(section) = cubin.find(name) else { return Ok(()) };
    let (bytes, offsets) = {
        let index = CubinIndex::new(cubin);
        rewrite(cubin, &index, section, moved).map_err(|error| Error::new(format!("{name}: {error}")))?
    };
    let tables: Vec<usize> = CubinIndex::new(cubin).relocation_tables(section).to_vec();
    for table in tables {
        if let Some(Content::Relocations(list)) = cubin.section_mut(table).map(|section| &mut section.content) {
            for relocation in list.iter_mut() {
                relocation.offset = offsets.get(&relocation.offset).copied().unwrap_or(relocation.offset);
            }
        }
    }
    cubin.replace_bytes(section, bytes)
}

/// Returns the new content of the section, and the new offset of each relocated field by its old one.
fn rewrite(cubin: &Cubin, index: &CubinIndex<'_>, section: usize, moved: &MovedCode) -> Result<(Vec<u8>, HashMap<u64, u64>)> {
    let bytes = cubin.bytes_of(section).unwrap_or_default();
    let mut starts = Vec::new();
    let mut fields = Vec::new();
    for relocation in index.relocations(section) {
        match relocation.relocation_type {
            RelocationType::R_CUDA_64 => starts.push(relocation),
            _ => fields.push(relocation.offset),
        }
    }
    starts.sort_by_key(|relocation| relocation.offset);
    let mut starts = starts.into_iter();
    let mut offsets = HashMap::new();
    let mut encoder = LineEncoder::default();
    let mut at = 0;
    let fail = |error: gimli::Error| Error::new(error.to_string());
    while at < bytes.len() {
        let program =
            DebugLine::new(bytes, LittleEndian).program(DebugLineOffset(at), line_reader::ADDRESS_BYTES, None, None).map_err(fail)?;
        let end = at + line_reader::LENGTH_BYTES + program.header().unit_length();
        let code = at + HEADER_START + program.header().header_length();
        check_header(&program)?;
        let unit = encoder.out.len();
        encoder.out.bytes(bytes.get(at..code).ok_or_else(|| Error::new("a header ends after the section"))?);
        let here = |offset: &&u64| (at as u64..code as u64).contains(*offset);
        offsets.extend(fields.iter().filter(here).map(|&offset| (offset, offset - at as u64 + unit as u64)));
        for rows in decode(program).map_err(fail)?.ok_or_else(|| Error::new("it has opcodes that are not known here"))? {
            let start = starts.next().ok_or_else(|| Error::new("a start address has no relocation"))?;
            let symbol = index.symbols().get(start.symbol as usize);
            let place = symbol.and_then(|symbol| match symbol.section {
                SymbolSection::Section(section) => Some((section as usize, symbol.value.wrapping_add_signed(start.addend.unwrap_or(0)))),
                _ => None,
            });
            let known = place.and_then(|(section, offset)| Some((moved.get(&section)?, offset)));
            let rows = match known {
                Some((places, offset)) => reordered(&rows, places, offset / INSTRUCTION_BYTES),
                None => rows,
            };
            encoder.sequence(&rows);
            if let Some((field, _)) = encoder.addresses.last() {
                offsets.insert(start.offset, *field);
            }
        }
        encoder.out.set_length(unit)?;
        at = end;
    }
    Ok((encoder.finish().bytes, offsets))
}

/// Fails if the encoder would not fit the header.
fn check_header(program: &IncompleteLineProgram<EndianSlice<'_, LittleEndian>>) -> Result<()> {
    let header = program.header();
    let fits = header.version() == VERSION
        && header.minimum_instruction_length() == MINIMUM_INSTRUCTION_BYTES
        && i64::from(header.line_base()) == LINE_BASE
        && i64::from(header.line_range()) == LINE_RANGE
        && i64::from(header.opcode_base()) == OPCODE_BASE;
    if fits { Ok(()) } else { Err(Error::new("its header is not that of ptxas")) }
}

/// Decodes the sequences of a unit; `None` if it has opcodes that the encoder does not write.
fn decode(mut program: IncompleteLineProgram<EndianSlice<'_, LittleEndian>>) -> std::result::Result<Option<Vec<Sequence>>, gimli::Error> {
    let header = &program.header().clone();
    let mut row = gimli::LineRow::new(header);
    let (mut sequences, mut rows, mut context) = (Vec::new(), Vec::new(), (0, 0));
    let mut instructions = header.instructions();
    while let Some(instruction) = instructions.next_instruction(header)? {
        match instruction {
            LineInstruction::UnknownExtended(DwLne(DW_LNE_INLINED_CALL), mut operands) => {
                context = (operands.read_uleb128()?, operands.read_uleb128()?);
                continue;
            }
            // The start address is 0 in the file; the relocation has the address.
            LineInstruction::SetAddress(0)
            | LineInstruction::Special(_)
            | LineInstruction::Copy
            | LineInstruction::AdvancePc(_)
            | LineInstruction::AdvanceLine(_)
            | LineInstruction::SetFile(_)
            | LineInstruction::ConstAddPc
            | LineInstruction::FixedAddPc(_)
            | LineInstruction::EndSequence => {}
            _ => return Ok(None),
        }
        if !row.execute(instruction, &mut program)? {
            continue;
        }
        if row.end_sequence() {
            let rows = std::mem::take(&mut rows);
            sequences.push(Sequence { function: String::new(), size_bytes: row.address(), rows });
            context = (0, 0);
        } else {
            let line = row.line().map_or(0, std::num::NonZero::get);
            rows.push(Row { address: row.address(), file: row.file_index(), line, context: context.0, function_name: context.1 });
        }
        row.reset(header);
    }
    // The encoder skips nothing, and writes a row for each address at most in ascending order.
    let is_sorted = |sequence: &Sequence| sequence.rows.is_sorted_by_key(|row| row.address);
    Ok(sequences.iter().all(is_sorted).then_some(sequences))
}

/// Returns the rows for the new order. `places` has the new number of each instruction of the section, `first` is the number of the
/// instruction at which the sequence starts.
fn reordered(old: &Sequence, places: &[usize], first: u64) -> Sequence {
    let count = (old.size_bytes / INSTRUCTION_BYTES) as usize;
    // For each new place the old row. Instructions before the first row have none.
    let mut rows_by_place: Vec<Option<usize>> = vec![None; count];
    let mut row = 0;
    for number in 0..count {
        let address = number as u64 * INSTRUCTION_BYTES;
        while row < old.rows.len() && old.rows[row].address <= address {
            row += 1;
        }
        let place = places.get(first as usize + number).and_then(|&place| place.checked_sub(first as usize));
        if let Some(slot) = place.and_then(|place| rows_by_place.get_mut(place)) {
            *slot = row.checked_sub(1);
        }
    }
    let mut writer = Writer { old: &old.rows, rows: Vec::new(), calls: HashMap::new() };
    let mut current: Option<Row> = None;
    for (place, row) in rows_by_place.into_iter().enumerate() {
        let Some(row) = row else { continue };
        let position = Row { address: 0, ..old.rows[row] };
        if current != Some(position) {
            current = Some(position);
            writer.push(place as u64 * INSTRUCTION_BYTES, row);
        }
    }
    Sequence { rows: writer.rows, ..old.clone() }
}

/// Writes the rows of a sequence in a new order.
struct Writer<'a> {
    old: &'a [Row],
    rows: Vec<Row>,
    /// For the old number of a row of a call, its new number; both from 1.
    calls: HashMap<u64, u64>,
}

impl Writer<'_> {
    /// Adds a row, after rows for the calls that have none yet.
    fn push(&mut self, address: u64, row: usize) {
        let mut missing = Vec::new();
        let mut call = self.old[row].context;
        // A call is an earlier row, so that the chain ends.
        while call != 0 && call as usize <= self.old.len() && !self.calls.contains_key(&call) && !missing.contains(&call) {
            missing.push(call);
            call = self.old[call as usize - 1].context;
        }
        for call in missing.into_iter().rev() {
            self.push_row(address, call as usize - 1);
            self.calls.insert(call, self.rows.len() as u64);
        }
        self.push_row(address, row);
    }

    fn push_row(&mut self, address: u64, row: usize) {
        let old = self.old[row];
        self.rows.push(Row { address, context: self.calls.get(&old.context).copied().unwrap_or(0), ..old });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the module's description.
    #[test]
    fn positions_follow_their_instructions() {
        let row = |address, line, context| Row { address, file: 1, line, context, function_name: 0 };
        let old = Sequence {
            function: String::new(),
            size_bytes: 0x30,
            rows: vec![row(0, 3, 0), row(0x10, 4, 0), row(0x10, 9, 2), row(0x20, 5, 0)],
        };
        let new = reordered(&old, &[1, 0, 2], 0);
        assert_eq!(new.rows, [row(0, 4, 0), row(0, 9, 1), row(0x10, 3, 0), row(0x20, 5, 0)]);
        assert_eq!(reordered(&old, &[0, 1, 2], 0), old);
        // Neighbours with the same position are one row; the sequence is the second of its section.
        let lines = Sequence { size_bytes: 0x40, rows: vec![row(0, 3, 0), row(0x10, 4, 0), row(0x20, 3, 0), row(0x30, 4, 0)], ..old };
        assert_eq!(reordered(&lines, &[0, 1, 2, 4, 3, 5], 2).rows, [row(0, 3, 0), row(0x20, 4, 0)]);
    }
}
