//! Random programs: interpreter and simulated machine code agree. The seeds are fixed, so that failures are reproducible;
//! `ORIOLE_FUZZ_SECONDS` continues with further seeds for that time.

use std::time::{Duration, Instant};

use oriole_driver::{ScheduleBackend, ScheduleMode};
use oriole_isa::Target;
use oriole_ptx_fuzz::features::Feature;
use oriole_ptx_fuzz::generate::{Options, generate_with};
use oriole_ptx_fuzz::judge::{Configuration, FailureKind, Scheduler, compiled, interpret, judge, judge_cubin, schedulers};
use oriole_ptx_fuzz::program::Program;
use oriole_ptx_fuzz::reduce::Case;

const FIRST_SEED: u64 = 1;
const PROGRAMS: u64 = 24;
const TARGETS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"];

/// Features that the compiler or the interpreter still gets wrong. Programs of these tests do not use them; `oriole-ptx-fuzz` does.
const NOT_YET: [Feature; 0] = [];

fn generate(seed: u64, size: Option<usize>) -> Program {
    generate_with(seed, &Options { size, without: NOT_YET.into_iter().collect(), tensor: false })
}

/// Returns the configurations of a program: two levels each on two targets, and one scheduler, so that all combinations occur over time.
fn configurations(seed: u64) -> Vec<Configuration> {
    let target = |number: u64| Target::parse(TARGETS[(number % TARGETS.len() as u64) as usize]).expect("a target of the table");
    let schedulers = schedulers();
    let level = |number: u64| [0, 3, 1, 2][(number % 4) as usize];
    vec![
        Configuration::new(target(seed), level(seed)),
        Configuration::new(target(seed), level(seed + 1)),
        Configuration::new(target(seed + 2), level(seed)),
        Configuration::new(target(seed + 2), level(seed + 1)),
        Configuration { scheduler: Some(schedulers[seed as usize % schedulers.len()]), ..Configuration::new(target(seed + 1), 3) },
    ]
}

#[test]
fn interpreter_and_machine_code_agree() {
    let seconds = std::env::var("ORIOLE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let (mut programs, mut comparisons) = (0, 0);
    let mut failures = Vec::new();
    while programs < PROGRAMS || start.elapsed() < limit {
        let seed = FIRST_SEED + programs;
        match judge(&Case::of(&generate(seed, None)), &configurations(seed)) {
            Ok(count) => comparisons += count,
            Err(failure) => failures.push(format!("seed {seed}: {failure}")),
        }
        programs += 1;
    }
    assert!(failures.is_empty(), "{} of {programs} programs fail:\n{}", failures.len(), failures.join("\n"));
    assert!(comparisons as u64 >= PROGRAMS, "only {comparisons} comparisons of {programs} programs");
    println!("{programs} programs, {comparisons} comparisons");
}

/// Programs that failed in the past, in the simulator or on a GPU, and how they were compiled: wrong code, bugs in verifiers and
/// simulators, deadlocks. They are in `once_failed`, under their seeds at the time: the generator now makes other programs from these
/// seeds.
const ONCE_FAILED: [(u64, &str, u8); 33] = [
    (290, "sm_90a", 3),
    (428, "sm_90a", 3),
    (817, "sm_90a", 3),
    (1273, "sm_90a", 3),
    (1714, "sm_90a", 0),
    (1921, "sm_90a", 3),
    (3822, "sm_90a", 3),
    (5028, "sm_90a", 0),
    (5067, "sm_120a", 2),
    (5844, "sm_90a", 3),
    (6139, "sm_90a", 3),
    (8601, "sm_90a", 1),
    (20128, "sm_90a", 3),
    (21061, "sm_90a", 3),
    (27663, "sm_90a", 3),
    (40260, "sm_75", 1),
    (112_035, "sm_100a", 3),
    (138_062, "sm_90a", 0),
    (140_501, "sm_75", 1),
    (151_631, "sm_90a", 3),
    (207_026, "sm_80", 2),
    (208_158, "sm_120a", 2),
    (217_182, "sm_75", 2),
    (220_974, "sm_100a", 2),
    (224_790, "sm_90a", 2),
    (235_038, "sm_120a", 2),
    (253_359, "sm_120a", 3),
    (259_587, "sm_80", 3),
    (407_422, "sm_75", 2),
    (603_978, "sm_120a", 2),
    (701_834, "sm_80", 3),
    // A tensor program: shuffles that sort the indices of a sparse matrix in a diverged warp.
    (20_008_056, "sm_100a", 0),
    // A diverged warp executed `barrier.cluster` without `.aligned` in several parts, and each counted as the whole warp.
    (40_000_184, "sm_90a", 0),
];

/// Programs that failed with an explicit backend and mode of the scheduler.
const ONCE_FAILED_SCHEDULED: [(u64, &str, u8, Scheduler); 3] = [
    (710_795, "sm_100a", 1, (ScheduleBackend::B, ScheduleMode::Ilp)),
    (710_937, "sm_90a", 3, (ScheduleBackend::C, ScheduleMode::ReduceReg)),
    (1_040_597, "sm_90a", 2, (ScheduleBackend::C, ScheduleMode::DynBatch)),
];

/// Reads a program of `once_failed`.
fn kept(seed: u64) -> Case {
    let path = format!("{}/tests/once_failed/{seed}.ptx", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let test = oriole_kernel_test::parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    Case { test, text }
}

#[test]
fn programs_that_failed_once_pass() {
    let plain = ONCE_FAILED.map(|(seed, target, level)| (seed, target, level, None));
    let scheduled = ONCE_FAILED_SCHEDULED.map(|(seed, target, level, scheduler)| (seed, target, level, Some(scheduler)));
    for (seed, target, level, scheduler) in plain.into_iter().chain(scheduled) {
        let configuration = Configuration { scheduler, ..Configuration::new(Target::parse(target).expect("a target of the table"), level) };
        let compared = judge(&kept(seed), &[configuration]).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(compared, 1, "seed {seed} is for {target}");
    }
}

/// The code of another program must be detected as wrong.
#[test]
fn a_wrong_result_is_noticed() {
    let configuration = Configuration::new(Target::parse("sm_90a").expect("a target"), 3);
    let mut noticed = 0;
    for seed in 0..16 {
        let case = Case::of(&generate(seed, Some(20)));
        let expected = interpret(&case).expect("the program is defined");
        let right = compiled(&case.text, configuration).expect("it compiles");
        judge_cubin(&case, &expected, &right, configuration).expect("the right code");
        let Some(changed) = changed(&case.text) else { continue };
        let wrong = compiled(&changed, configuration).expect("it compiles");
        let failure = judge_cubin(&case, &expected, &wrong, configuration).expect_err("a difference");
        assert_eq!(failure.kind, FailureKind::Difference, "{failure}");
        noticed += 1;
    }
    assert!(noticed >= 5, "only {noticed}");
}

/// Returns the program with the final value of one 32-bit register changed.
fn changed(text: &str) -> Option<String> {
    let (before, after) = text.rsplit_once("DONE:\n")?;
    // If threads end early, perhaps none reaches the end.
    if before.lines().any(|line| line.trim().starts_with('@') && (line.ends_with(" exit;") || line.ends_with(" ret;"))) {
        return None;
    }
    let stored = after.lines().find_map(|line| line.trim().strip_prefix("st.global.b32 ")?.strip_suffix(';')?.split_once(", "))?.1;
    stored.starts_with("%r").then(|| format!("{before}DONE:\n    xor.b32 {stored}, {stored}, 4;\n{after}"))
}
