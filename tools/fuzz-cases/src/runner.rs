//! Runs damaged seeds through a target without a fuzzing engine.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::numbers::Numbers;
use crate::{CaseOutcome, FuzzTarget};

/// Time limit per case in a debug build; a slower case is a failure.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Limit on the number of times a seed is damaged before another seed is used.
const DEPTH: usize = 3;

/// A case that violates a condition.
pub struct Failure {
    pub case: Vec<u8>,
    pub message: String,
}

/// The result of a run.
#[derive(Default)]
pub struct Summary {
    pub cases: usize,
    pub accepted: usize,
    /// The shortest case of each kind of message.
    pub failures: Vec<Failure>,
}

/// Judges one case; the error is the message of the violated condition.
pub fn judge(target: FuzzTarget, case: &[u8]) -> Result<CaseOutcome, String> {
    let start = Instant::now();
    let judged = catch_unwind(AssertUnwindSafe(|| (target.check)(case)));
    let outcome = judged.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned().or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })?;
    let time = start.elapsed();
    if time < MOST_TIME { Ok(outcome) } else { Err(format!("it takes {} seconds", time.as_secs())) }
}

/// Runs at least `least` cases, and continues until the time is over or `most_failures` kinds of failure were found. The cases depend
/// only on the seed. Each case is written to `current` before it is judged, so that a case that kills the process can be found there.
pub fn run(target: FuzzTarget, seed: u64, least: usize, time: Duration, most_failures: usize, current: &Path) -> Summary {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    let mut numbers = Numbers::new(seed);
    let mut summary = Summary::default();
    let mut failures: BTreeMap<String, Failure> = BTreeMap::new();
    let start = Instant::now();
    while (summary.cases < least || start.elapsed() < time) && failures.len() < most_failures {
        let mut case = numbers.pick(&seeds).clone();
        for _ in 0..=numbers.below(DEPTH) {
            (target.damage)(&mut case, &mut numbers);
            summary.cases += 1;
            fs::write(current, &case).unwrap_or_else(|error| panic!("{}: {error}", current.display()));
            match judge(target, &case) {
                Ok(outcome) => summary.accepted += usize::from(outcome == CaseOutcome::Accepted),
                Err(message) => {
                    let known =
                        failures.entry(kind_of(&message)).or_insert_with(|| Failure { case: case.clone(), message: message.clone() });
                    if case.len() < known.case.len() {
                        *known = Failure { case: case.clone(), message };
                    }
                }
            }
        }
    }
    summary.failures = failures.into_values().collect();
    summary
}

/// Returns a message without its numbers, which differ between failures with the same cause.
fn kind_of(message: &str) -> String {
    message.chars().filter(|c| !c.is_ascii_digit()).take(100).collect()
}
