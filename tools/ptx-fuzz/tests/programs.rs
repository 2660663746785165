//! Random programs: the interpreter and the simulated machine code agree. The seeds are fixed, so that a failure stays a failure;
//! `ORIOLE_FUZZ_SECONDS` makes it go on with further seeds for that time.

use std::time::{Duration, Instant};

use oriole_isa::Target;
use oriole_ptx_fuzz::generate::generate;
use oriole_ptx_fuzz::judge::{Configuration, FailureKind, compiled, interpret, judge, judge_cubin};
use oriole_ptx_fuzz::reduce::Case;

const FIRST_SEED: u64 = 1;
const PROGRAMS: u64 = 24;
const TARGETS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"];

/// Each program is tried on two targets at two levels, so that all combinations have their turn.
fn configurations(seed: u64) -> Vec<Configuration> {
    let target = |number: u64| Target::parse(TARGETS[(number % TARGETS.len() as u64) as usize]).expect("a target of the table");
    let level = |number: u64| [0, 3, 1, 2][(number % 4) as usize];
    vec![
        Configuration { target: target(seed), level: level(seed) },
        Configuration { target: target(seed), level: level(seed + 1) },
        Configuration { target: target(seed + 2), level: level(seed) },
        Configuration { target: target(seed + 2), level: level(seed + 1) },
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

/// What the compiler makes of another program is not right for this one.
#[test]
fn a_wrong_result_is_noticed() {
    let configuration = Configuration { target: Target::parse("sm_90a").expect("a target"), level: 3 };
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

/// The program, but one 32-bit register has another value in the end.
fn changed(text: &str) -> Option<String> {
    let (before, after) = text.rsplit_once("DONE:\n")?;
    // Where threads end early, perhaps none comes to the end.
    if before.lines().any(|line| line.trim().starts_with('@') && (line.ends_with(" exit;") || line.ends_with(" ret;"))) {
        return None;
    }
    let stored = after.lines().find_map(|line| line.trim().strip_prefix("st.global.b32 ")?.strip_suffix(';')?.split_once(", "))?.1;
    stored.starts_with("%r").then(|| format!("{before}DONE:\n    xor.b32 {stored}, {stored}, 4;\n{after}"))
}
