//! Compares predictions with times measured on an H200 for the same machine code, which is in `data`.
//!
//! If `ORIOLE_ORACLES` names a folder with `ptxas`, the code that ptxas generates for the same kernels is compared too; its schedules
//! exercise much more of the model.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use oriole_sim::timing::Effort;
use oriole_timing_check::{Agreement, Measurement, predict, read_test};

/// Simulates one multiprocessor per launch. Faster, but less accurate for kernels whose blocks differ.
const EFFORT: Effort = Effort { multiprocessors: 1, instructions: 150_000, limit: 50_000_000 };

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the measurements of the code of a compiler: every `step`-th, or with `ORIOLE_REFRESH` all.
fn measurements(compiler: &str, step: usize) -> Vec<Measurement> {
    let text = std::fs::read_to_string(folder().join("data/h200.tsv")).unwrap();
    let mut all = Measurement::parse(&text).unwrap();
    all.retain(|measurement| measurement.compiler == compiler);
    all.into_iter().step_by(if oriole_oracles::compares_everything() { 1 } else { step }).collect()
}

/// Computes the agreement of predictions with measurements, for kernels whose machine code exists.
fn agreement(measurements: &[Measurement], cubins: &Path) -> Agreement {
    let pair = |measurement: &Measurement| {
        let cubin = std::fs::read(cubins.join(format!("{}.cubin", measurement.kernel))).ok()?;
        let (test, _) = read_test(&folder().join(format!("kernels/{}.ptx", measurement.kernel))).unwrap();
        let estimate = predict(&test, &cubin, &EFFORT).unwrap_or_else(|error| panic!("{}: {error}", measurement.kernel));
        Some((estimate.kernel as f64, measurement.cycles()))
    };
    // Two threads, because kernels take very different times and this is the longest test of the package.
    let next = AtomicUsize::new(0);
    let work = || std::iter::from_fn(|| measurements.get(next.fetch_add(1, Ordering::Relaxed))).filter_map(pair).collect::<Vec<_>>();
    let pairs: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    Agreement::of(&pairs)
}

#[test]
fn timing_of_kept_measurements() {
    let measurements = measurements("oriole", 3);
    let agreement = agreement(&measurements, &folder().join("data/cubins"));
    println!("{agreement}");
    assert!(agreement.count >= if oriole_oracles::compares_everything() { 105 } else { 35 }, "{agreement}");
    assert!(agreement.rank_correlation >= 0.97, "{agreement}");
    assert!((0.9..=1.1).contains(&agreement.mean_ratio) && agreement.spread <= 1.25, "{agreement}");
    assert!(agreement.within_double >= 0.97, "{agreement}");
}

#[test]
fn timing_of_code_by_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let cubins = std::env::temp_dir().join(format!("oriole-timing-{}", std::process::id()));
    std::fs::create_dir_all(&cubins).unwrap();
    let measurements = measurements("ptxas", 4);
    for measurement in &measurements {
        let source = folder().join(format!("kernels/{}.ptx", measurement.kernel));
        let output = cubins.join(format!("{}.cubin", measurement.kernel));
        let status = Command::new(&ptxas).args(["-O3", "-arch=sm_90a"]).arg(&source).arg("-o").arg(&output).status();
        assert!(status.is_ok_and(|status| status.success()), "ptxas on {}", measurement.kernel);
    }
    let agreement = agreement(&measurements, &cubins);
    std::fs::remove_dir_all(&cubins).unwrap();
    println!("{agreement}");
    assert!(agreement.count == measurements.len() && agreement.count >= 26 && agreement.rank_correlation >= 0.95, "{agreement}");
    assert!((0.9..=1.1).contains(&agreement.mean_ratio) && agreement.spread <= 1.3, "{agreement}");
}
