//! Diagnostics: an error or warning, its position in the source, and advice.
//!
//! A [`Diagnostic`] is data: a stable [`DiagnosticCode`], a span, a message, notes and at most one suggestion. It is formatted by [`render`] (source
//! line with the position marked), [`to_json`] (for editors) or [`ptxas_lines`] (ptxas' message format).

mod codes;
mod json;
mod ptxas;
mod render;

pub use codes::{DiagnosticCode, Severity};
pub use json::to_json;
pub use ptxas::{ptxas_lines, ptxas_messages, ptxas_text};
pub use render::{Style, render};

use crate::source::Span;

/// Longer texts in findings are truncated to about this number of bytes.
const LONGEST_TEXT: usize = 1000;

/// One error or warning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The kind of finding.
    pub code: DiagnosticCode,
    /// The position.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Short text at the marked position.
    pub label: Option<String>,
    /// Other relevant positions, each with a text.
    pub related: Vec<(Span, String)>,
    /// Additional facts.
    pub notes: Vec<String>,
    /// Advice on how to fix it.
    pub help: Option<String>,
    /// The message that ptxas prints for this, for callers that parse ptxas' output; `None` if it is not known.
    pub ptxas: Option<PtxasWords>,
}

/// A finding as ptxas words it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxasWords {
    /// The position whose line ptxas prints.
    pub span: Span,
    /// The messages, in order.
    pub messages: Vec<String>,
}

impl Diagnostic {
    /// Creates a finding without further details.
    pub fn new(code: DiagnosticCode, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { code, span, message: message.into(), label: None, related: Vec::new(), notes: Vec::new(), help: None, ptxas: None }
    }

    /// Sets the text at the marked position.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds another position.
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the messages that ptxas prints, with their position.
    pub fn ptxas(mut self, span: Span, messages: impl IntoIterator<Item = String>) -> Self {
        self.ptxas = Some(PtxasWords { span, messages: messages.into_iter().collect() });
        self
    }

    /// Truncates texts that quote a very long name.
    fn shorten(&mut self) {
        let related = self.related.iter_mut().map(|(_, text)| text);
        let texts = related.chain(&mut self.notes).chain(&mut self.label).chain(&mut self.help).chain([&mut self.message]);
        for text in texts.filter(|text| text.len() > LONGEST_TEXT) {
            let end = (0..=LONGEST_TEXT).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push_str(" ...");
        }
    }

    /// Sets the advice if there is any.
    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
}

/// Collects findings up to a limit, so that invalid input of any size takes bounded time and memory.
#[derive(Clone)]
pub struct Diagnostics {
    findings: Vec<Diagnostic>,
    errors: usize,
    limit: usize,
}

impl Diagnostics {
    /// Creates a collection that keeps at most `limit` errors, and as many warnings.
    pub fn new(limit: usize) -> Self {
        Diagnostics { findings: Vec::new(), errors: 0, limit: limit.max(1) }
    }

    /// Adds a finding unless its limit is reached. Errors and warnings are counted separately.
    pub fn push(&mut self, mut finding: Diagnostic) {
        finding.shorten();
        match finding.code.severity() {
            Severity::Error if self.errors < self.limit => {
                self.errors += 1;
                self.findings.push(finding);
            }
            Severity::Warning if self.findings.len() - self.errors < self.limit => self.findings.push(finding),
            _ => {}
        }
    }

    /// Returns whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns whether the limit of errors is reached, in which case parsing should stop.
    pub fn is_full(&self) -> bool {
        self.errors >= self.limit
    }

    /// Returns whether the last finding explains why the text ends too early.
    pub(crate) fn explains_end(&self) -> bool {
        self.findings
            .last()
            .is_some_and(|finding| matches!(finding.code, DiagnosticCode::UnexpectedEnd | DiagnosticCode::UnterminatedComment))
    }

    /// Returns the number of errors.
    pub(crate) fn error_count(&self) -> usize {
        self.errors
    }

    /// Returns all findings, sorted by position, without duplicates.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.findings.sort_by_key(|finding| (finding.span.start, finding.span.end, finding.code));
        self.findings.dedup();
        self.findings
    }
}
