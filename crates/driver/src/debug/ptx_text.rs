//! The PTX text in the form of `.nv_debug_ptx_txt`.
//!
//! Lines end with a zero byte and have no leading blanks. Line numbers stay those of the input: comment lines, `.loc`, `.file` and the data
//! of debug sections, which tools do not show, become empty lines.

/// The PTX text of all modules, in the form of the debug section.
#[derive(Default)]
pub struct PtxText {
    /// The lines, each followed by a zero byte.
    pub bytes: Vec<u8>,
    /// For each module, the number of lines in `bytes` before the text of the module.
    pub first_lines: Vec<u64>,
    /// Number of lines in `bytes` so far.
    lines: u64,
}

/// Prefixes of the lines of the PTX text that are replaced by empty lines.
const OMITTED_LINE_PREFIXES: [&[u8]; 7] = [b"//", b".loc", b".file", b".b8", b".b16", b".b32", b".b64"];

impl PtxText {
    /// Appends the text of a module, up to its last line that is not empty.
    pub fn push(&mut self, text: &[u8]) {
        self.first_lines.push(self.lines);
        let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').map(kept_part_of_line).collect();
        let count = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        for line in &lines[..count] {
            self.bytes.extend(line.iter().filter(|&&byte| byte != 0));
            self.bytes.push(0);
        }
        self.lines += count as u64;
    }
}

/// Returns the part of a line of PTX that the section keeps: the line without leading blanks, or nothing if the line is omitted.
fn kept_part_of_line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
    let is_directive =
        |start: &[u8]| line.strip_prefix(start).is_some_and(|rest| start == b"//" || rest.first().is_none_or(u8::is_ascii_whitespace));
    if OMITTED_LINE_PREFIXES.iter().any(|start| is_directive(start)) { &[] } else { line }
}
