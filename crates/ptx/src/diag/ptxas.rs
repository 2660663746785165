//! Diagnostics in the shape ptxas prints, for callers that read its output.

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source, Span};

/// `ptxas FILE, line N; error   : MESSAGE`, one line a message.
pub fn ptxas_lines(source: &Source<'_>, lines: &LineIndex, finding: &Diagnostic) -> String {
    let kind = match finding.code.severity() {
        Severity::Error => "error  ",
        Severity::Warning => "warning",
    };
    let line = |(span, text): (Span, String)| {
        let (line, _) = lines.line_column(span.start);
        format!("ptxas {}, line {line}; {kind} : {text}", source.name)
    };
    ptxas_messages(finding).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The messages for a finding with their places: ptxas' own words where they are known, else Oriole's.
pub fn ptxas_messages(finding: &Diagnostic) -> Vec<(Span, String)> {
    match &finding.ptxas {
        Some(words) => words.messages.iter().map(|text| (words.span, text.clone())).collect(),
        None => vec![(finding.span, ptxas_text(finding))],
    }
}

/// The text of such a line: message, code, and the advice, so that it is not lost.
pub fn ptxas_text(finding: &Diagnostic) -> String {
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{} [{}]{help}", finding.message, finding.code.name())
}
