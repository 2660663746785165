//! Diagnostics in the shape ptxas prints, for callers that read its output.

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source};

/// `ptxas FILE, line N; error   : MESSAGE`, one line a finding.
pub fn ptxas_lines(source: &Source<'_>, lines: &LineIndex, finding: &Diagnostic) -> String {
    let kind = match finding.code.severity() {
        Severity::Error => "error  ",
        Severity::Warning => "warning",
    };
    let (line, _) = lines.line_column(finding.span.start);
    format!("ptxas {}, line {line}; {kind} : {}", source.name, ptxas_text(finding))
}

/// The text of such a line: message, code, and the advice, so that it is not lost.
pub fn ptxas_text(finding: &Diagnostic) -> String {
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{} [{}]{help}", finding.message, finding.code.name())
}
