//! Compiles kernels of `tests/kernels` with all checks on: a sample for each target. The tests of `simulator` compile and run all of them
//! for sm_90a.
//!
//! `ORIOLE_ALL_KERNELS=1` compiles all of them for all targets, sm_90a included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_sim::verify::{Verifier, verify_cubin};
use rayon::prelude::*;

const TARGETS: [&str; 10] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"];

/// For each target, one of this many kernels is compiled; each target gets different ones.
const SAMPLE: usize = 15;

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
}

/// A kernel, a target and an optimization level.
type Job<'a> = (&'a PathBuf, Target, u8);

fn jobs(files: &[PathBuf]) -> Vec<Job<'_>> {
    let mut jobs: Vec<Job<'_>> = Vec::new();
    let step = if env::var_os("ORIOLE_ALL_KERNELS").is_some() { 1 } else { SAMPLE };
    for (number, name) in TARGETS.iter().enumerate() {
        let target = Target::parse(name).unwrap();
        jobs.extend(files.iter().skip(number % step).step_by(step).flat_map(|file| [(file, target, 0), (file, target, 3)]));
    }
    jobs
}

/// Returns why a job failed, or `None` if it succeeded or the kernel is for other machines.
fn failure(&(file, target, level): &Job<'_>) -> Option<String> {
    let text = fs::read(file).unwrap();
    let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{}: {:?}", file.display(), checked.diagnostics.first());
    if oriole_driver::target_mismatch(checked.module.target, target).is_some() {
        return None;
    }
    let options = Options { level, verify: true, ..Options::new(target) };
    match compile(&[&checked.module], &options) {
        Err(errors) => Some(errors[0].to_string()),
        Ok(compiled) => match verify_cubin(&compiled.cubin, &Verifier::ALL) {
            Ok(report) => report.complaint(1),
            Err(message) => Some(message),
        },
    }
}

#[test]
fn all_kernels_compile() {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels"), &mut files);
    files.sort();
    assert!(files.len() > 2000, "{} kernels", files.len());
    let jobs = jobs(&files);
    let failures: Vec<Option<String>> = jobs.par_iter().map(failure).collect();
    let mut report: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((file, target, level), failure) in jobs.iter().zip(failures) {
        if let Some(message) = failure {
            report.entry(message).or_default().push(format!("{} {target} -O{level}", file.file_name().unwrap().display()));
        }
    }
    let lines: Vec<String> = report.iter().map(|(message, places)| format!("{} times {message}: {}", places.len(), places[0])).collect();
    assert!(report.is_empty(), "{}", lines.join("\n"));
}
