//! Converts errors and warnings to dictionaries.

use oriole_driver::{CompileError, Fault};
use oriole_ptx::diag::{self, Code, Diagnostic, Severity, Style};
use oriole_ptx::source::{LineIndex, Source, Span};
use pyo3::prelude::*;

/// An error or a warning. Lines and columns count from 1; they are `None` if the message concerns the whole module.
#[derive(IntoPyObject)]
pub struct DiagnosticData {
    severity: &'static str,
    code: &'static str,
    message: String,
    line: Option<u32>,
    column: Option<u32>,
    end_line: Option<u32>,
    end_column: Option<u32>,
    label: Option<String>,
    notes: Vec<String>,
    help: Option<String>,
    /// The text that the command line tool prints.
    rendered: String,
}

/// Converts the findings of the front end.
pub fn of_findings(source: &Source<'_>, findings: &[Diagnostic]) -> Vec<DiagnosticData> {
    if findings.is_empty() {
        return Vec::new();
    }
    let lines = LineIndex::new(source.text);
    findings.iter().map(|finding| convert(source, &lines, finding, Some(finding.span))).collect()
}

/// Converts the errors of the compiler.
pub fn of_errors(source: &Source<'_>, errors: &[CompileError]) -> Vec<DiagnosticData> {
    let lines = LineIndex::new(source.text);
    let convert = |error: &CompileError| {
        let finding = Diagnostic::new(code_of(&error.fault), error.span.unwrap_or(Span::new(0, 0)), error.to_string());
        convert(source, &lines, &finding, error.span)
    };
    errors.iter().map(convert).collect()
}

/// Returns the code of an error of the compiler, the same as that of `oriole compile`.
fn code_of(fault: &Fault) -> Code {
    match fault {
        Fault::Unsupported(_) => Code::Unsupported,
        Fault::Unresolved(_) => Code::UnknownName,
        Fault::Limit(_) | Fault::TooMuch(_) => Code::ResourceLimit,
        // Nothing cancels a compilation here.
        Fault::Cancelled | Fault::Internal(_) => Code::InternalError,
    }
}

fn convert(source: &Source<'_>, lines: &LineIndex, finding: &Diagnostic, span: Option<Span>) -> DiagnosticData {
    let start = span.map(|span| lines.line_column(span.start));
    let end = span.map(|span| lines.line_column(span.end));
    let severity = match finding.code.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let rendered = match span {
        Some(_) => diag::render(source, lines, finding, Style::Plain),
        None => format!("{severity}[{}]: {}: {}", finding.code.name(), source.name, finding.message),
    };
    DiagnosticData {
        severity,
        code: finding.code.name(),
        message: finding.message.clone(),
        line: start.map(|place| place.0),
        column: start.map(|place| place.1),
        end_line: end.map(|place| place.0),
        end_column: end.map(|place| place.1),
        label: finding.label.clone(),
        notes: finding.notes.clone(),
        help: finding.help.clone(),
        rendered,
    }
}
