//! Formats diagnostics for people: shows the source line with the position marked, using `annotate-snippets`.
//!
//! The renderer gets only the lines that it shows, so the cost does not depend on the size of the file. Bytes that are not UTF-8 (they may
//! occur in comments) are replaced.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source, Span};

/// Whether the output has colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Plain text.
    Plain,
    /// ANSI colours.
    Coloured,
}

/// Longer lines, in bytes, are shortened to the part around the position.
const LONGEST_LINE: usize = 400;

/// Formats one finding; the text ends with a line break.
pub fn render(source: &Source<'_>, lines: &LineIndex, finding: &Diagnostic, style: Style) -> String {
    let level = match finding.code.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let main = Window::new(source, lines, finding.span);
    let related: Vec<(Window, &str)> =
        finding.related.iter().map(|(span, text)| (Window::new(source, lines, *span), text.as_str())).collect();
    let primary = AnnotationKind::Primary.span(main.marked.clone()).label(finding.label.as_deref());
    let snippet = Snippet::source(main.text.as_str()).line_start(main.line).path(source.name).annotation(primary);
    let mut group = Group::with_title(level.primary_title(finding.message.as_str()).id(finding.code.name())).element(snippet);
    for (window, text) in &related {
        let annotation = AnnotationKind::Context.span(window.marked.clone()).label(*text);
        group = group.element(Snippet::source(window.text.as_str()).line_start(window.line).path(source.name).annotation(annotation));
    }
    for note in &finding.notes {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let mut text = renderer.render(&[group]).to_string();
    text.push('\n');
    text
}

/// The shown part of the source: one line, its number counted from 1, and the marked byte range in it.
struct Window {
    text: String,
    line: usize,
    marked: std::ops::Range<usize>,
}

impl Window {
    fn new(source: &Source<'_>, lines: &LineIndex, span: Span) -> Window {
        let line = lines.line(span.start);
        let bytes = lines.line_text(source.text, line);
        let line_start = lines.start(line);
        let start = ((span.start - line_start) as usize).min(bytes.len());
        let end = (span.end.saturating_sub(line_start) as usize).clamp(start, bytes.len());
        let from = start.saturating_sub(LONGEST_LINE / 2);
        let to = bytes.len().min(from + LONGEST_LINE);
        let lossy = |part: &[u8]| String::from_utf8_lossy(part).replace('\0', "\u{2400}");
        let (before, inside, after) = (lossy(&bytes[from..start]), lossy(&bytes[start..end.min(to)]), lossy(&bytes[end.min(to)..to]));
        let marked = before.len()..before.len() + inside.len();
        Window { text: before + &inside + &after, line: line + 1, marked }
    }
}
