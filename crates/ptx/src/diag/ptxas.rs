//! Formats diagnostics as ptxas does, for callers that parse ptxas' output.

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source, Span};

/// Formats a finding as `ptxas FILE, line N; error   : MESSAGE`, one line per message.
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

/// Returns the messages of a finding with their positions: ptxas' wording where it is known, otherwise Oriole's.
pub fn ptxas_messages(finding: &Diagnostic) -> Vec<(Span, String)> {
    match &finding.ptxas {
        Some(words) => words.messages.iter().map(|text| (words.span, text.clone())).collect(),
        None => vec![(finding.span, ptxas_text(finding))],
    }
}

/// Returns the text of a message in Oriole's wording: message, code, and the advice in parentheses.
pub fn ptxas_text(finding: &Diagnostic) -> String {
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{} [{}]{help}", finding.message, finding.code.name())
}
