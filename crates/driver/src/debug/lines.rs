//! Computes the rows of the DWARF line tables.

use oriole_cubin::debug::{Row, Sequence};
use oriole_ptx::ast::Body;
use oriole_support::Name;
use rustc_hash::FxHashMap;

use super::source_places::{SourcePlace, SourcePlaces};
use crate::emit::EmittedCode;
use crate::job::FunctionJob;

/// Returns the rows of a function in the line table of the PTX text; `line_of` returns the line of a byte offset in the text. Code before
/// that of the first PTX instruction gets the line of the brace that opens the body.
pub fn ptx_line_sequence(job: &FunctionJob<'_>, code: &EmittedCode, text: &[u8], file: u64, line_of: &dyn Fn(u32) -> u64) -> Sequence {
    let mut rows: Vec<Row> = Vec::new();
    let mut push = |address: u64, line: u64| {
        if rows.last().is_none_or(|row| row.line != line) {
            rows.push(Row { address, file, line, ..Row::default() });
        }
    };
    if code.locations.first().is_none_or(|&(offset, _)| offset > 0)
        && let Some(offset) = job.function().body.as_deref().and_then(|body| opening_brace_offset(body, text))
    {
        push(0, line_of(offset));
    }
    for (offset, location) in &code.locations {
        push(u64::from(*offset), line_of(location.statement - 1));
    }
    Sequence { function: job.name().to_owned(), size_bytes: code.bytes.len() as u64, rows }
}

/// Returns the byte offset in the PTX text of the brace that opens a function body; `None` if there is none.
fn opening_brace_offset(body: &Body, text: &[u8]) -> Option<u32> {
    let first = body.position(0)?.start as usize;
    text.get(..first)?.iter().rposition(|&byte| byte == b'{').map(|offset| offset as u32)
}

/// Returns the rows of a function in the line table of the source files; `None` if the function has no `.loc`. `files` maps the number of
/// each `.file` to its number in the header of the line table.
///
/// Code before the first `.loc` gets the position of the first one. Line 0 means that code has no position in the source: such code, and
/// code in a file that is not declared, has no row.
pub fn source_line_sequence(
    job: &FunctionJob<'_>,
    code: &EmittedCode,
    files: &FxHashMap<u32, u64>,
    name_offset: &dyn Fn(Name, i64) -> u64,
) -> Option<Sequence> {
    let body = job.function().body.as_deref()?;
    let places = SourcePlaces::new(&body.locations, name_offset);
    let mut rows = LineRowWriter { places: &places, files, rows: Vec::new(), current: None, calls: FxHashMap::default() };
    if code.locations.first().is_none_or(|&(offset, location)| offset > 0 || location.line == 0) {
        rows.push(0, *places.of_location.first()?);
    }
    for (offset, location) in &code.locations {
        if let Some(number) = location.line.checked_sub(1) {
            rows.push(u64::from(*offset), places.of_location[number as usize]);
        }
    }
    let rows = rows.rows;
    (!rows.is_empty()).then(|| Sequence { function: job.name().to_owned(), size_bytes: code.bytes.len() as u64, rows })
}

/// Builds the line-table rows of one function. Positions are given by their indices in `places`.
struct LineRowWriter<'a> {
    /// The source positions of the function.
    places: &'a SourcePlaces,
    /// For the number of each `.file` directive: the number of that file in the header of the line table.
    files: &'a FxHashMap<u32, u64>,
    /// The line-table rows so far.
    rows: Vec<Row>,
    /// Number of the source position of the last row; `None` before the first row.
    current: Option<u32>,
    /// For each source position from which an inlined function is called: the number of its line-table row, counted from 1.
    calls: FxHashMap<u32, u64>,
}

impl LineRowWriter<'_> {
    /// Adds a line-table row that maps `address` to the source location `place`. Before it, adds rows for the calls through which the code
    /// was inlined, unless they have rows already.
    fn push(&mut self, address: u64, place: u32) {
        if self.current == Some(place) || !self.gets_row(place) {
            return;
        }
        self.current = Some(place);
        let mut missing = Vec::new();
        let mut call = self.place_numbered(place).call;
        while let Some(number) = call.filter(|number| !self.calls.contains_key(number)) {
            missing.push(number);
            call = self.place_numbered(number).call;
        }
        for call in missing.into_iter().rev() {
            self.push_row(address, call, true);
            self.calls.insert(call, self.rows.len() as u64);
        }
        self.push_row(address, place, false);
    }

    /// Adds the row of one source position, unless the previous row has the same file, line and call. A row for a call is always added.
    fn push_row(&mut self, address: u64, place: u32, is_call: bool) {
        let place = *self.place_numbered(place);
        let row = Row {
            address,
            file: self.files.get(&place.file).copied().unwrap_or(0),
            line: u64::from(place.line),
            context: place.call.map_or(0, |call| self.calls[&call]),
            function_name: place.function_name,
        };
        let repeats = |last: &Row| Row { address, ..*last } == row;
        if is_call || !self.rows.last().is_some_and(repeats) {
            self.rows.push(row);
        }
    }

    /// Returns whether the line table gets a row for a source position: the position has a line number, and its file is declared.
    fn gets_row(&self, place: u32) -> bool {
        let place = self.place_numbered(place);
        place.line != 0 && self.files.contains_key(&place.file)
    }

    /// Returns the source position with this number.
    fn place_numbered(&self, number: u32) -> &SourcePlace {
        &self.places.places[number as usize]
    }
}
