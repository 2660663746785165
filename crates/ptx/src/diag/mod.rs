//! Diagnostics: what is wrong, where, and what to do about it.
//!
//! A [`Diagnostic`] is data: a stable [`Code`], a span, a message, notes and at most one suggestion. How it is shown is
//! decided elsewhere: [`render`] draws the source line with the place marked, [`to_json`] is for editors, and
//! [`ptxas_lines`] uses the message shape of ptxas.

mod codes;
mod json;
mod ptxas;
mod render;

pub use codes::{Code, Severity};
pub use json::to_json;
pub use ptxas::{ptxas_lines, ptxas_messages, ptxas_text};
pub use render::{Style, render};

use crate::source::Span;

/// Texts of findings are cut to about this many bytes.
const LONGEST_TEXT: usize = 1000;

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The kind of finding.
    pub code: Code,
    /// The place.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Short text at the marked place.
    pub label: Option<String>,
    /// Other places that matter.
    pub related: Vec<(Span, String)>,
    /// Further facts.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
    /// What ptxas says, for callers that read its output.
    pub ptxas: Option<PtxasWords>,
}

/// A finding in ptxas' own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxasWords {
    /// The place whose line ptxas gives.
    pub span: Span,
    /// Its messages, in order.
    pub messages: Vec<String>,
}

impl Diagnostic {
    /// A finding without further detail.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { code, span, message: message.into(), label: None, related: Vec::new(), notes: Vec::new(), help: None, ptxas: None }
    }

    /// Adds the text at the marked place.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds another place.
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds what ptxas says, at a place of its own.
    pub fn ptxas(mut self, span: Span, messages: impl IntoIterator<Item = String>) -> Self {
        self.ptxas = Some(PtxasWords { span, messages: messages.into_iter().collect() });
        self
    }

    /// Cuts texts that quote a name of unreasonable length.
    fn shorten(&mut self) {
        let related = self.related.iter_mut().map(|(_, text)| text);
        let texts = related.chain(&mut self.notes).chain(&mut self.label).chain(&mut self.help).chain([&mut self.message]);
        for text in texts.filter(|text| text.len() > LONGEST_TEXT) {
            let end = (0..=LONGEST_TEXT).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push_str(" ...");
        }
    }

    /// Adds advice if there is any.
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
}

/// Collects findings up to a limit, so that garbage of any size is answered in bounded time and memory.
pub struct Diagnostics {
    findings: Vec<Diagnostic>,
    errors: usize,
    limit: usize,
}

impl Diagnostics {
    /// Room for this many errors.
    pub fn new(limit: usize) -> Self {
        Diagnostics { findings: Vec::new(), errors: 0, limit: limit.max(1) }
    }

    /// Adds a finding. Warnings share the limit but never use it up for errors.
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

    /// Whether so many errors were found that parsing should stop.
    pub fn is_full(&self) -> bool {
        self.errors >= self.limit
    }

    /// Whether the last finding is why the text ends too early.
    pub fn explains_end(&self) -> bool {
        self.findings.last().is_some_and(|finding| matches!(finding.code, Code::UnexpectedEnd | Code::UnterminatedComment))
    }

    /// How many errors were found.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// All findings, sorted by place.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.findings.sort_by_key(|finding| (finding.span.start, finding.span.end, finding.code));
        self.findings.dedup();
        self.findings
    }
}
