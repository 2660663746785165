//! Random programs for tensor cores and asynchronous copies: interpreter against machine code, for a few seeds. `ORIOLE_FUZZ_SECONDS` runs
//! more of them.

use std::time::{Duration, Instant};

use oriole_isa::Target;
use oriole_ptx_fuzz::features::{Feature, Features};
use oriole_ptx_fuzz::generate::{Options, generate_with};
use oriole_ptx_fuzz::judge::{Configuration, judge_some, schedulers};
use oriole_ptx_fuzz::reduce::Case;

/// Number of programs that are always judged.
const PROGRAMS: u64 = 10;

/// Returns the program of a seed.
fn case(seed: u64, without: Features) -> Case {
    Case::of(&generate_with(seed, &Options { size: Some(30), without, tensor: true }))
}

#[test]
fn interpreter_and_machine_code_agree() {
    let seconds = std::env::var("ORIOLE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let target = |name: &str| Target::parse(name).expect("a target");
    let schedulers = schedulers();
    let mut failures = Vec::new();
    let mut seed = 0;
    while seed < PROGRAMS || start.elapsed() < limit {
        let scheduler = Some(schedulers[seed as usize % schedulers.len()]);
        let level = [0, 3, 1, 2][seed as usize % 4];
        let configurations = [
            Configuration::new(target("sm_90a"), level),
            Configuration { scheduler, ..Configuration::new(target("sm_90a"), 3) },
            Configuration::new(target("sm_80"), level),
        ];
        if let Err(failure) = judge_some(&case(seed, Features::default()), &configurations, 2) {
            failures.push(format!("seed {seed}: {failure}"));
        }
        seed += 1;
    }
    assert!(failures.is_empty(), "{} of {seed} programs fail:\n{}", failures.len(), failures.join("\n"));
}

/// Every feature gives programs with its instructions, and a program without a feature has none of them.
/// Returns the instructions that none of the first `seeds` programs has. Generates programs until all are found.
fn missing<'a>(instructions: &[&'a str], seeds: u64, without: Features) -> Vec<&'a str> {
    let mut missing = instructions.to_vec();
    for seed in 0..seeds {
        if missing.is_empty() {
            break;
        }
        let text = case(seed, without).text;
        missing.retain(|instruction| !text.contains(instruction));
    }
    missing
}

#[test]
fn programs_have_the_instructions_of_their_features() {
    let instructions = [
        (Feature::Matrices, &["mma.sync", "mma.sp.sync", "wmma.mma", "ldmatrix", "stmatrix", "movmatrix"][..]),
        (Feature::AsyncCopies, &["cp.async.ca", "cp.async.cg", "cp.async.wait_group", "cp.async.mbarrier.arrive"]),
        (
            Feature::MemoryBarriers,
            &["mbarrier.test_wait", "mbarrier.try_wait", "cp.async.bulk.shared", "cp.async.bulk.global", "elect.sync"],
        ),
        (Feature::Warpgroups, &["wgmma.mma_async", "wgmma.wait_group.sync.aligned 1", "mbarrier.try_wait.parity"]),
    ];
    for (feature, wanted) in instructions {
        let without: Features = Feature::TENSOR.into_iter().filter(|&other| other != feature).collect();
        assert_eq!(missing(wanted, 60, without), [""; 0], "{}", feature.name());
        let all_without: Features = Feature::TENSOR.into_iter().collect();
        let text = case(0, all_without).text;
        assert!(!wanted.iter().any(|instruction| text.contains(instruction)), "{}", feature.name());
    }
}

/// Programs with the feature `clusters` use the cluster of the block; others do not.
#[test]
fn some_programs_use_clusters() {
    let instructions = [
        "mapa.shared::cluster",
        "mapa.u64",
        "getctarank",
        "ld.shared::cluster",
        "barrier.cluster.wait",
        "shared::cluster.b64 _",
        "setmaxnreg",
    ];
    assert_eq!(missing(&instructions, 150, Features::default()), [""; 0]);
    let without = Features::default().with(Feature::Clusters);
    assert_eq!(missing(&instructions, 50, without), instructions);
}
