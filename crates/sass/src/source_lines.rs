//! Comments with source lines and PTX lines between the instructions of a listing.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;

use oriole_cubin::Cubin;
use oriole_cubin::debug::{self, DEBUG_LINE, DEBUG_LINE_SASS, LineTable, SourcePosition};

/// Number of calls to print for an instruction; more are left out.
const MOST_CALLS: usize = 64;

/// The line tables of a cubin and the texts that they refer to.
pub struct SourceLines {
    source: LineTable,
    ptx: LineTable,
    /// Lines of the PTX text in the cubin.
    ptx_text: Vec<String>,
    /// Lines of the source files that were read; none for files that cannot be read.
    files: HashMap<String, Vec<String>>,
    /// The comments before the last instruction.
    last: (String, String),
}

impl SourceLines {
    /// Reads the line tables. A cubin without them is an error.
    pub fn new(cubin: &Cubin) -> Result<SourceLines, String> {
        let read = |name| debug::read_lines(cubin, name).map_err(|error| error.to_string());
        let (source, ptx) = (read(DEBUG_LINE)?, read(DEBUG_LINE_SASS)?);
        if source.rows.is_empty() && ptx.rows.is_empty() {
            return Err("there are no line tables; compile with -lineinfo or -g".to_owned());
        }
        Ok(SourceLines { source, ptx, ptx_text: debug::ptx_text(cubin), files: HashMap::new(), last: Default::default() })
    }

    /// Prints the lines of the instruction at an address, where they differ from those of the instruction before.
    pub fn print(&mut self, out: &mut String, section: usize, address: u64) {
        let (source, ptx) = (self.source_comment(section, address), self.ptx_comment(section, address));
        if source != self.last.0 {
            out.push_str(&source);
        }
        if ptx != self.last.1 {
            out.push_str(&ptx);
        }
        self.last = (source, ptx);
    }

    /// Forgets the last instruction, at the start of a section.
    pub(crate) fn start_section(&mut self) {
        self.last = Default::default();
    }

    /// Returns the file and line of an instruction with the text of the line, and the calls through which the code was inlined.
    fn source_comment(&mut self, section: usize, address: u64) -> String {
        let mut text = String::new();
        let Some(position) = self.source.find(section, address) else { return text };
        let chain: Vec<SourcePosition> = self.source.call_chain(position).take(MOST_CALLS).cloned().collect();
        for (depth, position) in chain.iter().enumerate() {
            let name = self.source.file_name(position);
            let _ = write!(text, "\t//## {}File \"{name}\", line {}", if depth == 0 { "" } else { "inlined at " }, position.line);
            if let Some(function) = self.source.function_name(position) {
                let _ = write!(text, ", in {function}");
            }
            if let Some(line) = self.file(&name).get((position.line as usize).wrapping_sub(1)) {
                let _ = write!(text, ": {}", line.trim());
            }
            text.push('\n');
        }
        text
    }

    fn ptx_comment(&self, section: usize, address: u64) -> String {
        let Some(position) = self.ptx.find(section, address) else { return String::new() };
        let line = self.ptx_text.get((position.line as usize).wrapping_sub(1)).map_or("", String::as_str);
        format!("\t//## PTX line {}: {line}\n", position.line)
    }

    /// Returns the lines of a source file.
    fn file(&mut self, name: &str) -> &[String] {
        let read = || fs::read(name).map(|bytes| String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()).unwrap_or_default();
        self.files.entry(name.to_owned()).or_insert_with(read)
    }
}
