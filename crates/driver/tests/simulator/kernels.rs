//! What the tests over all kernel tests share: the files, how they are compiled, and how work is spread over the cores.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use oriole_driver::{DebugInfo, DebugKind, Options as Compiler, compile};
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sim::sass::GridOptions;

/// The most instructions that one launch may execute.
pub const LIMIT: GridOptions = GridOptions::limited(1 << 26);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One kernel test with its code.
pub struct Compiled {
    /// Names the test in messages: family, file, compiler and target.
    pub name: String,
    pub test: KernelTest,
    pub cubin: Vec<u8>,
}

/// Returns the step between the kernel tests of a sample: with `ORIOLE_ALL_KERNELS`, the smaller of the two.
pub fn sample_step(usual: usize, thorough: usize) -> usize {
    if std::env::var_os("ORIOLE_ALL_KERNELS").is_some() { thorough } else { usual }
}

/// Families with a sample of their own: the samples of the others stay the same.
const OWN_SAMPLE: [&str; 2] = ["cluster", "tma"];

/// Returns every `step`-th file of the sorted files, apart for the families of [`OWN_SAMPLE`].
pub fn sample(files: Vec<PathBuf>, step: usize) -> Vec<PathBuf> {
    let is_own =
        |path: &PathBuf| path.parent().and_then(|family| family.file_name()).is_some_and(|name| OWN_SAMPLE.iter().any(|own| name == *own));
    let (own, others): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(is_own);
    others.into_iter().step_by(step).chain(own.into_iter().step_by(step)).collect()
}

/// Returns the files of every `step`-th kernel test.
fn every(step: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for family in fs::read_dir(root().join("tests/kernels")).expect("the kernel tests").flatten() {
        found.extend(fs::read_dir(family.path()).expect("a family").flatten().map(|entry| entry.path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    found.sort();
    assert!(found.len() > 2000, "only {} kernel tests", found.len());
    sample(found, step)
}

/// Returns the name of a kernel test: its family and its file.
fn name_of(path: &Path) -> String {
    path.strip_prefix(root().join("tests/kernels")).unwrap_or(path).display().to_string()
}

/// Returns whether code for the `.target` of a test runs on a machine. Code for `sm_80` also runs on later machines; code for a target
/// whose name ends with a letter, such as `sm_90a`, runs on that target only.
pub fn runs_on(text: &str, machine: Target) -> bool {
    let line = text.lines().find_map(|line| line.strip_prefix(".target ")).expect("a target");
    let name = line.trim();
    let target = Target::parse(name).unwrap_or_else(|| panic!("{name} is no target"));
    if name.ends_with(|last: char| last.is_ascii_digit()) { target.number() <= machine.number() } else { target == machine }
}

/// Compiles every `step`-th kernel test for a target at an optimization level, with the checks of the compiler on, and checks the code.
/// Skips tests that the target cannot run.
pub fn check_compiled<R: Send>(
    target: &str,
    level: u8,
    step: usize,
    check: impl Fn(&Compiled) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    check_with(target, step, |machine, _| Compiler { level, verify: true, ..Compiler::new(machine) }, check)
}

/// Compiles every `step`-th test for a target as with `-g`, and checks it.
pub fn check_for_debuggers<R: Send>(
    target: &str,
    step: usize,
    check: impl Fn(&Compiled) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    let options = |machine, text: &str| {
        let debug = Some(DebugInfo { kind: DebugKind::Full, texts: vec![Arc::from(text.as_bytes())] });
        Compiler { level: 0, debug, ..Compiler::new(machine) }
    };
    check_with(target, step, options, check)
}

/// Compiles every `step`-th test for a target with the options for its text, and checks it.
fn check_with<R: Send>(
    target: &str,
    step: usize,
    options: impl Fn(Target, &str) -> Compiler + Sync,
    check: impl Fn(&Compiled) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    let machine = Target::parse(target).unwrap();
    let results = on_all_cores(every(step), |path| {
        let text = fs::read_to_string(&path).unwrap();
        if !runs_on(&text, machine) {
            return None;
        }
        let options = options(machine, &text);
        let name = format!("{} ({target}, -O{}{})", name_of(&path), options.level, if options.debug.is_some() { " -g" } else { "" });
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        let Ok(compiled) = compile(&[&module], &options) else {
            return Some(Err(format!("{name}: does not compile")));
        };
        Some(check(&Compiled { name, test: oriole_kernel_test::parse(&text).unwrap(), cubin: compiled.cubin }))
    });
    results.into_iter().flatten().collect()
}

/// Compiles every `step`-th test with ptxas for a target and checks it, apart from the tests that `leave_out` names and those that ptxas
/// refuses for the target.
pub fn check_ptxas<R: Send>(
    ptxas: &Path,
    target: &str,
    step: usize,
    leave_out: &[&str],
    check: impl Fn(&Compiled) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    let machine = Target::parse(target).unwrap();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files: Vec<(usize, PathBuf)> = every(step).into_iter().enumerate().collect();
    let results = on_all_cores(files, |(number, path)| {
        let name = name_of(&path);
        let text = fs::read_to_string(&path).unwrap();
        if !runs_on(&text, machine) || leave_out.iter().any(|left_out| name.contains(left_out)) {
            return None;
        }
        let cubin = folder.path().join(format!("{number}.cubin"));
        let status = Command::new(ptxas).args(["-arch", target, "-o"]).arg(&cubin).arg(&path).status().expect("ptxas runs");
        let cubin = status.success().then(|| fs::read(&cubin).unwrap())?;
        Some(check(&Compiled { name: format!("{name} (ptxas, {target})"), test: oriole_kernel_test::parse(&text).unwrap(), cubin }))
    });
    results.into_iter().flatten().collect()
}

/// Runs a function for each item on all cores; returns the results in arbitrary order.
pub fn on_all_cores<T: Send, R: Send>(items: Vec<T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
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

/// Returns the results if there are at least `at_least` and all are right; otherwise panics with the first failures.
pub fn judge<R>(results: Vec<Result<R, String>>, at_least: usize) -> Vec<R> {
    let count = results.len();
    let (right, wrong): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let messages: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    let first = messages[..messages.len().min(20)].join("\n");
    assert!(messages.is_empty(), "{} of {count} tests fail:\n{first}", messages.len());
    assert!(count >= at_least, "only {count} tests ran");
    right.into_iter().flatten().collect()
}
