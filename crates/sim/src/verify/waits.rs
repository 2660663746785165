//! Wait consistency: every wait refers to a scoreboard that is set, late enough to be seen, and counts only setters that complete in order.
//!
//! Proved on all paths:
//!
//! - at least two cycles lie between the instruction that sets a scoreboard and the first one that waits for it; an earlier wait does not
//!   see the scoreboard set and does not wait (`too-fresh`);
//! - `DEPBAR.LE SBn, N` with N > 0 leaves the last N setters pending. This proves the earlier ones complete only if all setters of the
//!   scoreboard complete in issue order (`count-out-of-order`).
//!
//! Notes, because waiting for a scoreboard that is not set is harmless: a wait for a scoreboard that nothing before it sets on any path
//! (`never-set`; ptxas -O0 does this at every instruction), and a scoreboard that is set but waited for nowhere (`never-waited`).

use crate::hazard::Problem;

use super::completeness::report_hazards;
use super::{FindingSink, Section};

/// Number of scoreboards; the hazard check's seventh counter (matrix products) is not one of them.
const SCOREBOARDS: u8 = 6;

/// Checks the waits of each instruction.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    let steps = section.steps();
    sink.count(steps.iter().map(|step| step.control.wait.count_ones() as usize + usize::from(step.count_wait.is_some())).sum());
    report_hazards(section, sink, |problem| match problem {
        Problem::WaitTooSoon { .. } => Some("too-fresh"),
        Problem::CountOutOfOrder { .. } => Some("count-out-of-order"),
        Problem::NeverSet { .. } => Some("never-set"),
        _ => None,
    });
    for scoreboard in 0..SCOREBOARDS {
        unheeded(section, scoreboard, sink);
    }
}

/// Notes all instructions that set a scoreboard if no instruction of the section waits for it.
fn unheeded(section: &Section<'_>, scoreboard: u8, sink: &mut FindingSink) {
    let steps = section.steps();
    let is_heeded = steps.iter().any(|step| {
        (step.control.wait | step.also_waits) >> scoreboard & 1 == 1 || step.count_wait.is_some_and(|(board, _)| board == scoreboard)
    });
    if is_heeded {
        return;
    }
    for (number, step) in steps.iter().enumerate() {
        if (step.sets_scoreboards.0 | step.sets_scoreboards.1) >> scoreboard & 1 == 1 {
            sink.note("never-waited", number, format!("sets scoreboard {scoreboard}, for which nothing waits"));
        }
    }
}
