//! Diagnostics for people: the source line with the place marked, by `annotate-snippets`.
//!
//! The renderer is handed only the lines it shows, so a finding in a file of 100 MB costs no more than one in a small
//! file. Bytes that are not UTF-8 (they may occur in comments) are replaced for display.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source, Span};

/// Whether to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Plain text.
    Plain,
    /// ANSI colours.
    Coloured,
}

/// Lines longer than this are cut around the place.
const LONGEST_LINE: usize = 400;

/// Draws one finding, ending with a line break.
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

/// The part of the source that is shown: one line, its number, and the marked range inside it.
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
