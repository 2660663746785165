//! Errors and warnings about PTX.

use std::fmt;

use oriole_driver::{CompileError, ErrorCause};
use oriole_ptx::diag::{self, DiagnosticCode, Style};
use oriole_ptx::source::{LineIndex, Source, Span};
use serde::Serialize;

/// Whether a diagnostic prevents compilation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It does.
    Error,
    /// It does not.
    Warning,
}

/// An error or a warning. Lines and columns count from 1; they are `None` if the message concerns the whole module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Whether it prevents compilation.
    pub severity: Severity,
    /// The stable code, such as `E0702`; `oriole codes` explains it.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Line of the first character that is marked.
    pub line: Option<u32>,
    /// Column of the first character that is marked, in bytes.
    pub column: Option<u32>,
    /// Line after the last character that is marked.
    pub end_line: Option<u32>,
    /// Column after the last character that is marked.
    pub end_column: Option<u32>,
    /// Short text about the marked characters.
    pub label: Option<String>,
    /// More facts.
    pub notes: Vec<String>,
    /// Advice on how to fix it.
    pub help: Option<String>,
    /// The text that the command line prints, with the source line.
    pub rendered: String,
}

/// Prints severity, code, place and message in one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.severity.name(), self.code)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, " at {line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Severity {
    /// Returns `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Converts the findings of the front end.
pub(crate) fn of_findings(source: &Source<'_>, findings: &[diag::Diagnostic]) -> Vec<Diagnostic> {
    if findings.is_empty() {
        return Vec::new();
    }
    let lines = LineIndex::new(source.text);
    findings.iter().map(|finding| convert(source, &lines, finding, Some(finding.span))).collect()
}

/// Converts the errors of the compiler.
pub(crate) fn of_errors(source: &Source<'_>, errors: &[CompileError]) -> Vec<Diagnostic> {
    let lines = LineIndex::new(source.text);
    let convert = |error: &CompileError| {
        let finding = diag::Diagnostic::new(code_of(&error.fault), error.span.unwrap_or(Span::new(0, 0)), error.to_string());
        convert(source, &lines, &finding, error.span)
    };
    errors.iter().map(convert).collect()
}

/// Returns the code of an error of the compiler.
fn code_of(fault: &ErrorCause) -> DiagnosticCode {
    match fault {
        ErrorCause::Unsupported(_) => DiagnosticCode::Unsupported,
        ErrorCause::Unresolved(_) => DiagnosticCode::UnknownName,
        ErrorCause::Limit(_) | ErrorCause::TooMuch(_) => DiagnosticCode::ResourceLimit,
        ErrorCause::Cancelled | ErrorCause::Internal(_) => DiagnosticCode::InternalError,
    }
}

fn convert(source: &Source<'_>, lines: &LineIndex, finding: &diag::Diagnostic, span: Option<Span>) -> Diagnostic {
    let start = span.map(|span| lines.line_column(span.start));
    let end = span.map(|span| lines.line_column(span.end));
    let severity = match finding.code.severity() {
        diag::Severity::Error => Severity::Error,
        diag::Severity::Warning => Severity::Warning,
    };
    let rendered = match span {
        Some(_) => diag::render(source, lines, finding, Style::Plain),
        None => format!("{}[{}]: {}: {}", severity.name(), finding.code.name(), source.name, finding.message),
    };
    Diagnostic {
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
