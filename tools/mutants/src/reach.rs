//! Measures which mutants each test reaches and how long the test takes.
//!
//! A [`Unit`] is an executable with some of its tests: those of a module, or a single test if those of the module take longer than
//! [`SPLIT_SECONDS`]. Tests that run all kernel tests are replaced by one [`Job`] per kernel, target and level, because most mutants are
//! reached by few kernels, and because those tests compile each kernel several times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::process::{self, End};

/// Modules whose tests take longer than this are split into single tests.
const SPLIT_SECONDS: f64 = 1.5;
/// Time limit in seconds for listing the tests of an executable.
const LIST_SECONDS: f64 = 60.0;
/// Time limit in seconds for a chunk of jobs.
const CHUNK_SECONDS: f64 = 600.0;
/// Number of chunks into which jobs are divided.
const CHUNKS: usize = 96;

/// Tests that are replaced by jobs, and tests that need other tools.
const REPLACED: [&str; 7] = [
    "all_for_sm_90a_optimized",
    "samples_for_sm_90a_without_optimization",
    "samples_for_other_targets",
    "all_for_sm_90a",
    "samples_for_other_targets_and_levels",
    "all_kernels_compile",
    "samples_of_what_ptxas_makes",
];

/// The test that runs jobs.
const KERNELS: &str = "mutant_kernels::jobs";

/// An executable with some of its tests.
#[derive(Clone, Debug)]
pub struct Unit {
    pub name: String,
    pub program: PathBuf,
    pub folder: PathBuf,
    pub tests: Vec<String>,
    /// Time without a mutant.
    pub seconds: f64,
    /// Mutants that the tests reach.
    pub reached: BTreeSet<usize>,
}

/// A kernel test compiled for a target at an optimization level.
#[derive(Clone, Debug)]
pub struct Job {
    /// Kernel, target, level and checks, separated by spaces.
    pub text: String,
    /// Time without a mutant in microseconds.
    pub micros: u64,
    /// Digest of the cubin without a mutant.
    pub digest: String,
    /// Mutants that compiling the kernel reaches.
    pub reached: BTreeSet<usize>,
}

/// The measurements of all tests of a copy.
pub struct Reach {
    pub units: Vec<Unit>,
    pub jobs: Vec<Job>,
    /// The executable and test that run jobs.
    pub kernels: Unit,
}

/// Calls a function for each item on `threads` threads; returns the results in the order of the items.
pub fn parallel<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { break };
                    let result = work(number, item);
                    results.lock().expect("no thread panics").push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics");
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// How much is measured and run.
pub struct Extent {
    pub threads: usize,
    /// Time limit per unit in seconds; units that take longer are skipped.
    pub unit_seconds: f64,
    /// Every n-th job is run.
    pub kernel_step: usize,
}

/// Measures the tests of a copy.
pub fn measure(copy: &Path, scratch: &Path, extent: &Extent) -> Reach {
    let &Extent { threads, unit_seconds, kernel_step } = extent;
    let listed = fs::read_to_string(copy.join("units.tsv")).expect("units.tsv");
    let whole: Vec<Unit> = listed.lines().filter(|line| !line.contains("(program)")).map(unit).collect();
    let listed = parallel(&whole, threads, |number, unit| tests(unit, &scratch.join(format!("list-{number}"))));
    let mut groups = Vec::new();
    for (unit, tests) in whole.iter().zip(listed) {
        groups.extend(by_module(&tests).into_iter().map(|tests| with_tests(unit, tests)));
    }
    let kernels = groups.iter().position(|unit| unit.tests == [KERNELS]).expect("the test that runs jobs");
    let kernels = groups.remove(kernels);
    let measured = parallel(&groups, threads, |number, unit| reach(unit, unit_seconds, &scratch.join(format!("unit-{number}"))));
    let mut units = Vec::new();
    let mut split = Vec::new();
    for (unit, measured) in groups.into_iter().zip(measured) {
        match measured {
            Some(measured) if measured.seconds < SPLIT_SECONDS || unit.tests.len() == 1 => units.push(measured),
            Some(measured) if measured.reached.is_empty() => {}
            _ => split.extend(unit.tests.iter().map(|test| with_tests(&unit, vec![test.clone()]))),
        }
    }
    units.extend(
        parallel(&split, threads, |number, unit| reach(unit, unit_seconds, &scratch.join(format!("test-{number}")))).into_iter().flatten(),
    );
    units.retain(|unit| !unit.reached.is_empty());
    units.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.name.cmp(&b.name)));
    let texts: Vec<String> = job_texts(copy).into_iter().step_by(kernel_step).collect();
    let jobs = jobs(&texts, scratch, threads, &kernels);
    Reach { units, jobs, kernels }
}

/// Parses a line of `units.tsv`.
fn unit(line: &str) -> Unit {
    let fields: Vec<&str> = line.split('\t').collect();
    Unit {
        name: fields[0].to_string(),
        program: fields[1].into(),
        folder: fields[2].into(),
        tests: Vec::new(),
        seconds: 0.0,
        reached: BTreeSet::new(),
    }
}

impl Unit {
    pub fn arguments(&self) -> Vec<String> {
        let options = ["--test-threads=1", "--exact"].into_iter().map(str::to_string);
        options.chain(self.tests.iter().cloned()).collect()
    }
}

/// Returns a unit with only these tests.
fn with_tests(unit: &Unit, tests: Vec<String>) -> Unit {
    let executable = unit.name.split("::").next().unwrap_or_default();
    let what = if tests.len() == 1 { &tests[0] } else { tests[0].split("::").next().unwrap_or_default() };
    Unit { name: format!("{executable}::{what}"), tests, ..unit.clone() }
}

/// Returns the tests of an executable that are not replaced by jobs.
fn tests(unit: &Unit, log: &Path) -> Vec<String> {
    let listed = process::run(&unit.program, &["--list".to_string()], &unit.folder, &[], LIST_SECONDS, log);
    let names = listed.output.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| !REPLACED.contains(&name.rsplit("::").next().unwrap_or_default())).map(str::to_string).collect()
}

/// Groups tests by their outermost module.
fn by_module(tests: &[String]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in tests {
        groups.entry(test.split("::").next().unwrap_or_default()).or_default().push(test.clone());
    }
    groups.into_values().collect()
}

/// Runs a unit without a mutant. Returns it with its time and the mutants it reaches; `None` if it fails.
fn reach(unit: &Unit, limit_seconds: f64, scratch: &Path) -> Option<Unit> {
    let file = scratch.with_extension("reached");
    let environment = [("ORIOLE_MUTANT_REACHED", file.display().to_string())];
    let outcome = process::run(&unit.program, &unit.arguments(), &unit.folder, &environment, limit_seconds, &scratch.with_extension("log"));
    if !matches!(outcome.end, End::Success) {
        let why = if let End::Failure(why) = outcome.end { why } else { "time is up".to_string() };
        let only = if unit.tests.len() == 1 { "left out" } else { "measured test by test" };
        println!("{only}, fails without a mutant: {} ({why})", unit.name);
        return None;
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
    Some(Unit { seconds: outcome.seconds, reached, ..unit.clone() })
}

/// Returns the jobs that replace the tests over all kernels: kernel, target, level, checks.
fn job_texts(copy: &Path) -> Vec<String> {
    let folder = copy.join("tests/kernels");
    let mut names: Vec<(String, u32, bool)> = Vec::new();
    for family in fs::read_dir(&folder).expect("the kernel tests").flatten() {
        for file in fs::read_dir(family.path()).expect("a family").flatten() {
            let text = fs::read_to_string(file.path()).expect("a kernel test");
            let digits = text.split_once(".target sm_").map_or("", |(_, rest)| rest);
            let number: u32 = digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
            // Code for `sm_90a` runs on that target only.
            let exact = digits.strip_prefix(&number.to_string()).is_some_and(|rest| rest.starts_with('a'));
            names.push((format!("{}/{}", family.file_name().display(), file.file_name().display()), number, exact));
        }
    }
    names.retain(|(name, ..)| name.ends_with(".ptx"));
    names.sort();
    let mut jobs = Vec::new();
    let mut add = |target: &str, level: usize, step: usize, checks: &str| {
        let digits: String = target.chars().filter(char::is_ascii_digit).collect();
        let limit: u32 = digits.parse().expect("a target with a number");
        let fit = names
            .iter()
            .step_by(step)
            .filter(|(_, number, exact)| if *exact { target == format!("sm_{number}a") } else { *number <= limit });
        jobs.extend(fit.map(|(name, ..)| format!("{name} {target} {level} {checks}")));
    };
    add("sm_90a", 3, 1, "hazards");
    add("sm_90a", 0, 1, "verifiers");
    let targets = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103a", "sm_110f", "sm_120", "sm_121"];
    for (number, target) in targets.into_iter().enumerate() {
        add(target, number % 4, 17, "results");
    }
    for (number, target) in ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"].into_iter().enumerate() {
        add(target, 3, 61, "hazards");
        add(target, number % 3, 67, "hazards");
    }
    jobs
}

/// Runs all jobs without a mutant, in chunks, and returns their measurements.
fn jobs(texts: &[String], scratch: &Path, threads: usize, kernels: &Unit) -> Vec<Job> {
    let chunks: Vec<Vec<&String>> = (0..CHUNKS).map(|chunk| texts.iter().skip(chunk).step_by(CHUNKS).collect()).collect();
    let measured = parallel(&chunks, threads, |number, chunk| {
        let path = |name: &str| scratch.join(format!("jobs-{number}.{name}"));
        fs::write(path("jobs"), chunk.iter().map(|text| format!("{text}\n")).collect::<String>()).expect("a list of jobs");
        let environment = [
            ("ORIOLE_MUTANT_JOBS", path("jobs").display().to_string()),
            ("ORIOLE_MUTANT_REPORT", path("report").display().to_string()),
            // An empty file name enables marking without a file; the test reads the marks after each job.
            ("ORIOLE_MUTANT_REACHED", String::new()),
        ];
        let outcome = process::run(&kernels.program, &kernels.arguments(), &kernels.folder, &environment, CHUNK_SECONDS, &path("log"));
        assert!(matches!(outcome.end, End::Success), "jobs fail without a mutant:\n{}", outcome.output);
        let report = fs::read_to_string(path("report")).expect("a report of jobs");
        report.lines().zip(chunk).map(|(line, text)| job(text, line)).collect::<Vec<Job>>()
    });
    measured.into_iter().flatten().collect()
}

fn job(text: &str, line: &str) -> Job {
    let fields: Vec<&str> = line.split('\t').collect();
    Job {
        text: text.to_string(),
        micros: fields[0].parse().expect("a time"),
        digest: fields[1].to_string(),
        reached: fields[2].split_whitespace().map(|number| number.parse().expect("a mutant")).collect(),
    }
}
