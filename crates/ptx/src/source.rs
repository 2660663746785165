//! Source text: byte spans, and the conversion of byte offsets to lines and columns.

use std::borrow::Cow;

/// A half-open range of bytes in the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Creates the range from `start` up to `end`, exclusive.
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// Returns the smallest span that contains both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A PTX file: its name and contents. PTX is ASCII, but comments may contain any bytes.
pub struct Source<'a> {
    /// The name in messages.
    pub name: &'a str,
    /// The contents.
    pub text: &'a [u8],
}

impl<'a> Source<'a> {
    /// Creates a source with the name for messages.
    pub fn new(name: &'a str, text: &'a [u8]) -> Self {
        Source { name, text }
    }

    /// Returns the text of a span; bytes that are not UTF-8 are replaced.
    pub fn slice(&self, span: Span) -> Cow<'a, str> {
        String::from_utf8_lossy(&self.text[span.start as usize..span.end as usize])
    }
}

/// Converts byte offsets to lines and columns. Built only if there is something to report, so a file without findings does not pay for it.
pub struct LineIndex {
    /// Offset of the first byte of each line.
    starts: Vec<u32>,
}

impl LineIndex {
    /// Builds the index in one pass over the text.
    pub fn new(text: &[u8]) -> Self {
        let breaks = text.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(position, _)| position as u32 + 1)).collect();
        LineIndex { starts }
    }

    /// Returns the line that contains an offset, counted from 0.
    pub fn line(&self, offset: u32) -> usize {
        self.starts.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    /// Returns the offset of the first byte of a line.
    pub fn start(&self, line: usize) -> u32 {
        self.starts[line]
    }

    /// Returns line and column of an offset, both counted from 1. Columns count bytes.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let line = self.line(offset);
        (line as u32 + 1, offset - self.starts[line] + 1)
    }

    /// Returns the bytes of a line without its line break.
    pub fn line_text<'a>(&self, text: &'a [u8], line: usize) -> &'a [u8] {
        let start = self.starts[line] as usize;
        let end = self.starts.get(line + 1).map_or(text.len(), |&next| next as usize - 1);
        text[start..end].strip_suffix(b"\r").unwrap_or(&text[start..end])
    }
}
