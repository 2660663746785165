//! Runs kernel tests one by one, with what `hazard_kernels`, `kernel_tests_sass` and `driver/kernels` check of each: the compiler's own
//! checks, the verifiers, the hazard check and the results. This file is part of the instrumented copy of the workspace only.
//!
//! `ORIOLE_MUTANT_JOBS` names a file with a job on each line: a kernel test, a target, a level and the checks. With `ORIOLE_MUTANT_REPORT`,
//! no mutant is active, and the file of that name gets for each job its time in microseconds, a digest of its cubin and the mutants that it
//! reaches. `ORIOLE_MUTANT_DIGESTS` names a file with these digests: a job whose cubin has the same bytes is not run again.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use oriole_driver::{Options as Compiler, compile};
use oriole_isa::Target;
use oriole_sim::hazard::Watch;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions, Silent};
use oriole_sim::verify::{Verifier, verify_cubin};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cubin of a job's kernel.
fn cubin(text: &str, target: &str, level: u8) -> Result<Vec<u8>, String> {
    let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
    let machine = Target::parse(target).ok_or("unknown target")?;
    let compiled =
        compile(&[&module], &Compiler { level, verify: true, ..Compiler::new(machine) }).map_err(|errors| errors[0].to_string())?;
    Ok(compiled.cubin)
}

/// `checks` is `results`, `verifiers` or `hazards`; each includes the ones before.
fn judge(text: &str, cubin: &[u8], checks: &str) -> Result<(), String> {
    if checks != "results"
        && let Some(complaint) = verify_cubin(cubin, &Verifier::ALL)?.complaint(1)
    {
        return Err(complaint);
    }
    let test = oriole_kernel_test::parse(text)?;
    if checks != "hazards" {
        return run(&test, cubin, &GridOptions::limited(1 << 26), &mut Silent).map(|_| ());
    }
    let mut watch = Watch::new().limit(1);
    let outcome = run(&test, cubin, &GridOptions::limited(1 << 26), &mut watch);
    if let [first, ..] = watch.findings() {
        return Err(first.to_string());
    }
    outcome.map(|_| ())
}

#[test]
fn jobs() {
    let Ok(jobs) = std::env::var("ORIOLE_MUTANT_JOBS") else {
        eprintln!("skipped: ORIOLE_MUTANT_JOBS is not set");
        return;
    };
    let jobs = fs::read_to_string(jobs).unwrap();
    let known = std::env::var("ORIOLE_MUTANT_DIGESTS").map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
    let mut known = known.lines();
    let report = std::env::var("ORIOLE_MUTANT_REPORT").ok();
    let mut lines = String::new();
    for job in jobs.lines() {
        let mut fields = job.split(' ');
        let mut field = || fields.next().expect("four fields");
        let (name, target, level, checks) = (field(), field(), field().parse().unwrap(), field());
        let text = fs::read_to_string(root().join("tests/kernels").join(name)).unwrap();
        let start = Instant::now();
        let cubin = cubin(&text, target, level).unwrap_or_else(|why| panic!("{job}: {why}"));
        let mut hasher = DefaultHasher::new();
        cubin.hash(&mut hasher);
        let digest = format!("{:x}", hasher.finish());
        if known.next() != Some(digest.as_str()) {
            judge(&text, &cubin, checks).unwrap_or_else(|why| panic!("{job}: {why}"));
        }
        if report.is_some() {
            write!(lines, "{}\t{digest}\t", start.elapsed().as_micros()).unwrap();
            oriole_mutant::take_reached().iter().for_each(|mutant| write!(lines, "{mutant} ").unwrap());
            lines.push('\n');
        }
    }
    if let Some(path) = report {
        fs::write(path, lines).unwrap();
    }
}
