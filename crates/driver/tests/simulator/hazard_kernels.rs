//! Kernel tests compiled by Oriole pass the seven verifiers and run without a hazard: all of them for sm_90a at -O3, samples for other
//! targets and levels. If `ORIOLE_ORACLES` names a folder with `ptxas`, samples compiled by ptxas are checked too.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use oriole_driver::{Options as Compiler, compile};
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sim::hazard::Watch;
use oriole_sim::sass::Options;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::verify::{Verifier, verify_cubin};

const LIMIT: Options = Options::limited(1 << 26);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tests() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for family in fs::read_dir(root().join("tests/kernels")).expect("the kernel tests").flatten() {
        found.extend(fs::read_dir(family.path()).expect("a family").flatten().map(|entry| entry.path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    found.sort();
    assert!(found.len() > 2000, "only {} kernel tests", found.len());
    found
}

/// Returns the number in `.target sm_90a`: the lowest architecture the test runs on.
fn wanted(text: &str) -> u16 {
    let digits = text.split_once(".target sm_").map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Runs a function for each item on all cores; returns the results in arbitrary order.
fn on_all_cores<T: Send, R: Send>(items: Vec<T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
    let queue = Mutex::new(VecDeque::from(items));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(item) = queue.lock().unwrap().pop_front() else { break };
                    let result = run(item);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// Returns the number of executed warp instructions, or a description of the failure.
fn check(name: &str, test: &KernelTest, cubin: &[u8]) -> Result<u64, String> {
    hazards(name, test, cubin)?.map_err(|why| format!("{name}: {why}"))
}

/// Returns the outcome of the launch, or the first hazards as the outer error.
fn hazards(name: &str, test: &KernelTest, cubin: &[u8]) -> Result<Result<u64, String>, String> {
    let report = verify_cubin(cubin, &Verifier::ALL).map_err(|error| format!("{name}: {error}"))?;
    if let Some(complaint) = report.complaint(4) {
        return Err(format!("{name}: {complaint}"));
    }
    let mut watch = Watch::new().limit(4);
    let outcome = run(test, cubin, &LIMIT, &mut watch).map(|report| report.warp_instructions);
    match watch.findings() {
        [] => Ok(outcome),
        findings => {
            let mut message = format!("{name}:");
            findings.iter().for_each(|finding| write!(message, "\n  {finding}").unwrap());
            Err(message)
        }
    }
}

/// Fails with the first failures, or if fewer than `at_least` tests ran.
fn judge(results: Vec<Option<Result<u64, String>>>, at_least: usize) {
    let run: Vec<_> = results.into_iter().flatten().collect();
    let failures: Vec<&String> = run.iter().filter_map(|result| result.as_ref().err()).collect();
    let mut message = String::new();
    failures.iter().take(20).for_each(|failure| writeln!(message, "{failure}").unwrap());
    assert!(failures.is_empty(), "{} of {} tests have hazards:\n{message}", failures.len(), run.len());
    assert!(run.len() >= at_least, "only {} tests ran", run.len());
    let instructions: u64 = run.iter().flatten().sum();
    println!("{} tests, {instructions} warp instructions", run.len());
}

/// Checks every `step`-th test, compiled for a target at a level.
fn compiled(target: &str, level: u8, step: usize, at_least: usize) {
    let machine = Target::parse(target).unwrap();
    let files: Vec<PathBuf> = tests().into_iter().step_by(step).collect();
    let results = on_all_cores(files, |path| {
        let name = path.strip_prefix(root().join("tests/kernels")).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        if wanted(&text) > machine.number() {
            return None;
        }
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        let Ok(compiled) = compile(&[&module], &Compiler { level, ..Compiler::new(machine) }) else {
            return Some(Err(format!("{name}: does not compile for {target}")));
        };
        let test = oriole_kernel_test::parse(&text).unwrap();
        Some(check(&format!("{name} ({target}, -O{level})"), &test, &compiled.cubin))
    });
    judge(results, at_least);
}

#[test]
fn all_for_sm_90a() {
    compiled("sm_90a", 3, 1, 2600);
}

#[test]
fn samples_for_other_targets_and_levels() {
    for (number, target) in ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"].into_iter().enumerate() {
        compiled(target, 3, 61, 20);
        compiled(target, number as u8 % 3, 67, 20);
    }
}

#[test]
fn samples_of_what_ptxas_makes() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = std::env::temp_dir().join(format!("oriole-hazard-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for target in ["sm_80", "sm_90a", "sm_120a"] {
        let machine = Target::parse(target).unwrap();
        let files: Vec<(usize, PathBuf)> = tests().into_iter().step_by(41).enumerate().collect();
        let results = on_all_cores(files, |(number, path)| {
            let name = path.strip_prefix(root().join("tests/kernels")).unwrap_or(&path).display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            // The waits of ptxas' matrix products on sm_120a are not understood yet.
            if name.starts_with("tensor") || wanted(&text) > machine.number() {
                return None;
            }
            let cubin = folder.join(format!("{target}-{number}.cubin"));
            let status = Command::new(&ptxas).args(["-arch", target, "-o"]).arg(&cubin).arg(&path).status().expect("ptxas runs");
            let bytes = status.success().then(|| fs::read(&cubin).unwrap())?;
            let test = oriole_kernel_test::parse(&text).unwrap();
            // Only hazards matter here; another test checks the results.
            Some(hazards(&format!("{name} (ptxas, {target})"), &test, &bytes).map(|_| 0))
        });
        judge(results, 40);
    }
    fs::remove_dir_all(&folder).unwrap();
}
