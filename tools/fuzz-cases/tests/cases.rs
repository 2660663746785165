//! About one second of each fuzz target in every test run: seeds with small damage.
//!
//! The first cases are the same on every machine. `ORIOLE_FUZZ_SECONDS` sets the time per target, at most [`MOST_SECONDS`].

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use oriole_fuzz_cases::{CaseOutcome, TARGETS, runner, target};

/// Limit on the time per target. There are five targets, and a test run must stay short; the fuzzer is for longer runs.
const MOST_SECONDS: u64 = 5;
const SEED: u64 = 1;

fn time() -> Duration {
    let seconds: u64 = env::var("ORIOLE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds.min(MOST_SECONDS))
}

/// Runs a target; a failing case is written to a file.
fn run(name: &str, least: usize) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz_case.{name}"));
    let summary = runner::run(target(name).expect("a target"), SEED, least, time(), 1, &file);
    println!("{name}: {} cases, {} accepted", summary.cases, summary.accepted);
    if let Some(failure) = summary.failures.first() {
        fs::write(&file, &failure.case).expect("the case is written");
        panic!("a case of {} fails; it is kept as {}: {}", summary.cases, file.display(), failure.message);
    }
    assert!(summary.accepted > 0, "no case of {name} was accepted, so nothing was checked");
}

#[test]
fn damaged_modules_are_compiled_or_refused() {
    run("compile", 40);
}

#[test]
fn damaged_cubins_are_read_or_refused() {
    run("cubin", 60);
}

#[test]
fn damaged_listings_are_assembled_or_refused() {
    run("asm", 100);
}

#[test]
fn damaged_profiles_are_read_or_refused() {
    run("profile", 20);
}

#[test]
fn damaged_kernel_tests_are_run_or_refused() {
    run("header", 100);
}

/// Judges cases that failed in the past: `found/TARGET/NAME`.
#[test]
fn cases_that_failed_once_hold() {
    let mut judged = 0;
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(target.name);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let case = fs::read(entry.path()).expect("a file");
            if let Err(message) = runner::judge(target, &case) {
                panic!("{}: {message}", entry.path().display());
            }
            judged += 1;
        }
    }
    assert!(judged > 0, "there are no such cases");
}

/// The conditions apply to seeds, so each seed must be accepted.
#[test]
fn undamaged_cubins_and_listings_are_accepted() {
    for name in ["cubin", "asm", "profile"] {
        let target = target(name).expect("a target");
        for (number, case) in (target.seeds)().iter().enumerate() {
            assert_eq!(runner::judge(target, case), Ok(CaseOutcome::Accepted), "seed {number} of {name}");
        }
    }
}
