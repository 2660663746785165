//! Completeness: every dependence between two registers is covered, on all paths.
//!
//! Proved for every register of the four files (general, predicate, uniform, uniform predicate), on every path through the section and
//! for any input, by the latencies of the target:
//!
//! - what an instruction of fixed latency writes is read, and written again, only after enough cycles of stalls (`too-soon`);
//! - what an instruction of variable latency writes is read, and written again, only after a wait for the scoreboard it sets
//!   (`not-waited`), and it sets one (`not-announced`);
//! - what is read late is overwritten only after a wait for the scoreboard of that read; guards count as reads.
//!
//! Calls inside the section are followed with what is in flight. Code that others call starts and returns with nothing in flight, so at a
//! call that leaves the section and at the return of a function that others may call, every result of variable latency must have been
//! waited for (`not-settled`).
//!
//! The walk itself is [`crate::hazard::flow`]; `crate::hazard::Watch` applies the same rules to what a simulated launch executes.

use crate::hazard::Problem;

use super::{Finding, Ledger, Section, Severity};

pub(super) fn verify(section: &Section<'_>, ledger: &mut Ledger) {
    ledger.count(section.steps().iter().map(|step| step.reads.len() + step.writes.len()).sum());
    take_over(section, ledger, |problem| match problem {
        Problem::TooSoon { .. } => Some("too-soon"),
        Problem::NotWaited { .. } => Some("not-waited"),
        Problem::NotAnnounced { .. } => Some("not-announced"),
        Problem::NotSettled { .. } => Some("not-settled"),
        _ => None,
    });
}

/// Takes findings of the walk over all paths, by the name that each problem has here.
pub(super) fn take_over(section: &Section<'_>, ledger: &mut Ledger, kind: impl Fn(&Problem) -> Option<&'static str>) {
    for found in section.hazards() {
        let Some(kind) = kind(&found.problem) else { continue };
        ledger.findings.push(Finding {
            verifier: ledger.verifier,
            severity: match found.problem.severity() {
                Severity::Hazard => Severity::Hazard,
                Severity::Note => Severity::Note,
            },
            kind,
            at: Some(found.second),
            first: (found.first != found.second).then_some(found.first),
            message: found.problem.to_string(),
        });
    }
}
