//! Completeness: every register dependence is covered by stall counts or scoreboard waits, on all paths.
//!
//! Proved for every register of the four files (general, predicate, uniform, uniform predicate), on every path through the section, for any
//! input, with the latencies of the target:
//!
//! - a result of a fixed-latency instruction is read, or overwritten, only after enough stall cycles (`too-soon`);
//! - a result of a variable-latency instruction is read, or overwritten, only after a wait for the scoreboard that the instruction sets
//!   (`not-waited`), and the instruction sets one (`not-announced`);
//! - an operand that is read late is overwritten only after a wait for the scoreboard that signals the read; guards count as operands;
//! - earlier accesses to the registers of a warpgroup's matrix product are complete at the `WARPGROUP.ARRIVE` before it (`not-fenced`):
//!   the product may start when another warp issues it;
//! - earlier accesses to registers that the warp gives up (`USETMAXREG.DEALLOC`) are complete, because another warp may get these registers
//!   at once (`released-in-flight`).
//!
//! Calls inside the section are followed with everything that is in flight. Functions called from other sections are assumed to start and
//! return with nothing in flight. So at a call out of the section, and at the return of a function that other sections may call, every
//! variable-latency result must have been waited for (`not-settled`).
//!
//! The analysis is [`crate::hazard::flow`]; `crate::hazard::Watch` applies the same rules to the instructions a simulated launch executes.

use crate::hazard::Problem;

use super::{FindingSink, HazardSeverity, Section, VerifyFinding};

/// Reports uncovered register dependences.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    sink.count(section.steps().iter().map(|step| step.reads.len() + step.writes.len()).sum());
    report_hazards(section, sink, |problem| match problem {
        Problem::TooSoon { .. } => Some("too-soon"),
        Problem::NotWaited { .. } => Some("not-waited"),
        Problem::NoScoreboardSet { .. } => Some("not-announced"),
        Problem::PendingAtExit { .. } => Some("not-settled"),
        Problem::OpenAtFence { .. } => Some("not-fenced"),
        Problem::ReleasedInFlight { .. } => Some("released-in-flight"),
        _ => None,
    });
}

/// Copies findings of the data-flow analysis into the sink. `kind` returns the name of a problem, or `None` to skip it.
pub(super) fn report_hazards(section: &Section<'_>, sink: &mut FindingSink, kind: impl Fn(&Problem) -> Option<&'static str>) {
    for found in section.hazards() {
        let Some(kind) = kind(&found.problem) else { continue };
        sink.findings.push(VerifyFinding {
            verifier: sink.verifier,
            severity: match found.problem.severity() {
                HazardSeverity::Hazard => HazardSeverity::Hazard,
                HazardSeverity::Note => HazardSeverity::Note,
            },
            kind,
            at: Some(found.second),
            first: (found.first != found.second).then_some(found.first),
            message: found.problem.to_string(),
        });
    }
}
