//! Wait consistency: every wait finds its scoreboard set, late enough to see it, and counts only what ends in order.
//!
//! Proved on all paths:
//!
//! - between the instruction that sets a scoreboard and the first that waits for it lie two cycles at least; a wait in the cycle behind
//!   does not see the scoreboard and goes on at once (`too-fresh`);
//! - `DEPBAR.LE SBn, N` with N above zero lets the last N setters go on. That says something about the earlier ones only if all that
//!   set the scoreboard end in the order of their issue (`count-out-of-order`).
//!
//! Odd, but harmless, since a scoreboard that nobody set is free: a wait for a scoreboard that nothing before it sets on any path
//! (`never-set`), as ptxas -O0 writes at every instruction, and a scoreboard that is set but waited for nowhere (`never-waited`).

use crate::hazard::Problem;

use super::completeness::take_over;
use super::{Ledger, Section};

/// The six scoreboards; the seventh counter of the walk is that of matrix products.
const SCOREBOARDS: u8 = 6;

pub(super) fn verify(section: &Section<'_>, ledger: &mut Ledger) {
    let steps = section.steps();
    ledger.count(steps.iter().map(|step| step.control.wait.count_ones() as usize + usize::from(step.count_wait.is_some())).sum());
    take_over(section, ledger, |problem| match problem {
        Problem::ScoreboardTooFresh { .. } => Some("too-fresh"),
        Problem::CountOutOfOrder { .. } => Some("count-out-of-order"),
        Problem::NeverSet { .. } => Some("never-set"),
        _ => None,
    });
    for scoreboard in 0..SCOREBOARDS {
        unheeded(section, scoreboard, ledger);
    }
}

fn unheeded(section: &Section<'_>, scoreboard: u8, ledger: &mut Ledger) {
    let steps = section.steps();
    let is_heeded =
        steps.iter().any(|step| step.control.wait >> scoreboard & 1 == 1 || step.count_wait.is_some_and(|(board, _)| board == scoreboard));
    if is_heeded {
        return;
    }
    for (number, step) in steps.iter().enumerate() {
        if (step.announces.0 | step.announces.1) >> scoreboard & 1 == 1 {
            ledger.note("never-waited", number, format!("sets scoreboard {scoreboard}, for which nothing waits"));
        }
    }
}
