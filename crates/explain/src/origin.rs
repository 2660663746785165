//! The origin of each instruction: PTX line and source positions, from the line tables of the cubin.

use std::collections::BTreeMap;

use oriole_cubin::Cubin;
use oriole_cubin::debug::{self, DEBUG_LINE, DEBUG_LINE_SASS, LineTable};

use crate::model::{Origin, SourcePlace, SourceText};

/// Number of calls to list for an instruction; more are left out.
const MOST_CALLS: usize = 16;

/// The line tables of a cubin.
pub struct LineTables {
    source: LineTable,
    ptx: LineTable,
    /// Lines of the PTX text in the cubin.
    pub ptx_text: Vec<String>,
}

impl LineTables {
    /// Reads the line tables. A cubin without line tables has empty ones.
    pub fn new(cubin: &Cubin) -> Result<LineTables, String> {
        let read = |name| debug::read_lines(cubin, name).map_err(|error| error.to_string());
        Ok(LineTables { source: read(DEBUG_LINE)?, ptx: read(DEBUG_LINE_SASS)?, ptx_text: debug::ptx_text(cubin) })
    }

    /// Returns the origin of the instruction at an address.
    pub fn origin(&self, section: usize, address: u64) -> Origin {
        let ptx_line = self.ptx.find(section, address).and_then(|position| u32::try_from(position.line).ok()).filter(|&line| line > 0);
        let source = match self.source.find(section, address) {
            Some(position) => {
                let chain = self.source.call_chain(position).take(MOST_CALLS);
                chain.map(|position| SourcePlace { file: self.source.file_name(position), line: position.line }).collect()
            }
            None => Vec::new(),
        };
        Origin { ptx_line, source }
    }
}

/// Reads the source files that instructions come from; files that cannot be read are left out. `read` returns the text of a file.
pub fn source_texts<'a>(origins: impl Iterator<Item = &'a Origin>, read: &dyn Fn(&str) -> Option<String>) -> Vec<SourceText> {
    let names: BTreeMap<&str, ()> = origins.flat_map(|origin| &origin.source).map(|place| (place.file.as_str(), ())).collect();
    let text = |name: &str| {
        let lines = read(name)?.lines().map(str::to_owned).collect();
        Some(SourceText { file: name.to_owned(), lines })
    };
    names.into_keys().filter_map(text).collect()
}
