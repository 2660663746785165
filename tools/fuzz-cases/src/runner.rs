//! Runs damaged seeds through a target without a fuzzing engine.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::numbers::Numbers;
use crate::{FuzzTarget, Outcome};

/// A case that takes longer than this in a debug build is a failure.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Damage to the same seed before another one is taken.
const DEPTH: usize = 3;

/// A case whose conditions do not hold.
pub struct Failure {
    pub case: Vec<u8>,
    pub message: String,
}

/// What a run came to.
#[derive(Default)]
pub struct Summary {
    pub cases: usize,
    pub accepted: usize,
    /// The shortest case for each message.
    pub failures: Vec<Failure>,
}

/// Judges one case; the message of what went wrong, if anything did.
pub fn judge(target: FuzzTarget, case: &[u8]) -> Result<Outcome, String> {
    let start = Instant::now();
    let judged = catch_unwind(AssertUnwindSafe(|| (target.check)(case)));
    let outcome = judged.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned().or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })?;
    let time = start.elapsed();
    if time < MOST_TIME { Ok(outcome) } else { Err(format!("it takes {} seconds", time.as_secs())) }
}

/// Runs at least `least` cases, and goes on until the time is over or there are `most_failures` kinds of failure. The cases depend on
/// the seed only. Each is written to `current` before it is judged, so that one that ends the process can be found there.
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
                Ok(outcome) => summary.accepted += usize::from(outcome == Outcome::Accepted),
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

/// The message without its numbers, which differ between cases that fail for the same reason.
fn kind_of(message: &str) -> String {
    message.chars().filter(|c| !c.is_ascii_digit()).take(100).collect()
}
