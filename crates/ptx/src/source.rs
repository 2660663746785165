//! Source text: byte spans, and the lines and columns people read.

use std::borrow::Cow;

/// A range of bytes in the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range from `start` up to `end`.
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// From the beginning of this span to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// One PTX file: its name and bytes. PTX is ASCII; comments may hold anything.
pub struct Source<'a> {
    /// The name shown in messages.
    pub name: &'a str,
    /// The bytes.
    pub text: &'a [u8],
}

impl<'a> Source<'a> {
    /// A source with the name shown in messages.
    pub fn new(name: &'a str, text: &'a [u8]) -> Self {
        Source { name, text }
    }

    /// The bytes of a span as text.
    pub fn slice(&self, span: Span) -> Cow<'a, str> {
        String::from_utf8_lossy(&self.text[span.start as usize..span.end as usize])
    }
}

/// Finds lines. Built once for a file that has something to report, so a clean file never pays for it.
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    /// Reads through the text once.
    pub fn new(text: &[u8]) -> Self {
        let breaks = text.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(position, _)| position as u32 + 1)).collect();
        LineIndex { starts }
    }

    /// The line an offset is in, counted from zero.
    pub fn line(&self, offset: u32) -> usize {
        self.starts.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    /// Where a line begins.
    pub fn start(&self, line: usize) -> u32 {
        self.starts[line]
    }

    /// Line and column of an offset, both counted from one; columns count bytes.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let line = self.line(offset);
        (line as u32 + 1, offset - self.starts[line] + 1)
    }

    /// The bytes of a line without its end.
    pub fn line_text<'a>(&self, text: &'a [u8], line: usize) -> &'a [u8] {
        let start = self.starts[line] as usize;
        let end = self.starts.get(line + 1).map_or(text.len(), |&next| next as usize - 1);
        text[start..end].strip_suffix(b"\r").unwrap_or(&text[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns() {
        let text = b"ab\r\ncd\n\nx";
        let lines = LineIndex::new(text);
        assert_eq!(lines.line_column(0), (1, 1));
        assert_eq!(lines.line_column(5), (2, 2));
        assert_eq!(lines.line_column(8), (4, 1));
        assert_eq!(lines.line_text(text, 0), b"ab");
        assert_eq!(lines.line_text(text, 2), b"");
        assert_eq!(lines.line_text(text, 3), b"x");
    }
}
