//! Formats diagnostics as JSON objects, for editors and scripts.

use serde::Serialize;

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source, Span};

/// A serializable diagnostic. Positions are lines and columns, counted from 1.
#[derive(Serialize)]
pub struct JsonDiagnostic<'a> {
    file: &'a str,
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    #[serde(flatten)]
    place: Place,
    label: Option<&'a str>,
    related: Vec<Related<'a>>,
    notes: &'a [String],
    help: Option<&'a str>,
}

/// A range of the source as lines and columns (counted from 1), and as byte offset and length.
#[derive(Serialize)]
struct Place {
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    offset: u32,
    length: u32,
}

/// Another position that matters, with its text.
#[derive(Serialize)]
struct Related<'a> {
    #[serde(flatten)]
    place: Place,
    message: &'a str,
}

fn place(lines: &LineIndex, span: Span) -> Place {
    let (line, column) = lines.line_column(span.start);
    let (end_line, end_column) = lines.line_column(span.end);
    Place { line, column, end_line, end_column, offset: span.start, length: span.end - span.start }
}

/// Converts a diagnostic to its serializable form.
pub fn to_json<'a>(source: &Source<'a>, lines: &LineIndex, finding: &'a Diagnostic) -> JsonDiagnostic<'a> {
    JsonDiagnostic {
        file: source.name,
        severity: match finding.code.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        code: finding.code.name(),
        message: &finding.message,
        place: place(lines, finding.span),
        label: finding.label.as_deref(),
        related: finding.related.iter().map(|(span, message)| Related { place: place(lines, *span), message }).collect(),
        notes: &finding.notes,
        help: finding.help.as_deref(),
    }
}
