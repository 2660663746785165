//! Diagnostics in the shape ptxas prints, for callers that read its output.

use super::{Diagnostic, Severity};
use crate::source::{LineIndex, Source};

/// `ptxas FILE, line N; error   : MESSAGE`, one line a finding, advice included so that it is not lost.
pub fn ptxas_lines(source: &Source<'_>, lines: &LineIndex, finding: &Diagnostic) -> String {
    let kind = match finding.code.severity() {
        Severity::Error => "error  ",
        Severity::Warning => "warning",
    };
    let (line, _) = lines.line_column(finding.span.start);
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("ptxas {}, line {line}; {kind} : {} [{}]{help}", source.name, finding.message, finding.code.name())
}
