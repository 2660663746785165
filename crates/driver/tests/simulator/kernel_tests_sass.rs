//! Runs kernel tests as machine code: everything that Oriole compiles for sm_90a, and samples for other targets. If `ORIOLE_ORACLES` names
//! a folder with `ptxas`, also samples compiled by ptxas, which uses many more instruction forms.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use oriole_driver::{Options as Compiler, compile};
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{Options, Silent, Trace};

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

/// Runs a test; the error describes the failure and the last instructions of the first warp.
fn check(name: &str, test: &KernelTest, cubin: &[u8]) -> Result<(), String> {
    run(test, cubin, &LIMIT, &mut Silent).map(|_| ()).map_err(|why| {
        let mut trace = Trace::new(12, None);
        let _ = run(test, cubin, &LIMIT, &mut trace);
        format!("{name}: {why}\n{}", trace.text(0, 0))
    })
}

/// Fails with the first failures, or if fewer than `at_least` tests ran.
fn judge(results: Vec<Option<Result<(), String>>>, at_least: usize) {
    let run: Vec<_> = results.into_iter().flatten().collect();
    let count = run.len();
    let failures: Vec<String> = run.into_iter().filter_map(Result::err).collect();
    let mut message = String::new();
    failures.iter().take(10).for_each(|failure| writeln!(message, "{failure}").unwrap());
    assert!(failures.is_empty(), "{} of {count} tests fail:\n{message}", failures.len());
    assert!(count >= at_least, "only {count} tests ran");
}

/// Runs every `step`-th test, compiled for a target at a level.
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
fn all_for_sm_90a_optimized() {
    compiled("sm_90a", 3, 1, 2600);
}

#[test]
fn all_for_sm_90a_plain() {
    compiled("sm_90a", 0, 1, 2600);
}

#[test]
fn samples_for_other_targets() {
    let targets = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103a", "sm_110f", "sm_120", "sm_121"];
    for (number, target) in targets.into_iter().enumerate() {
        compiled(target, (number % 4) as u8, 17, 130);
    }
}

#[test]
fn samples_of_what_ptxas_makes() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = std::env::temp_dir().join(format!("oriole-sass-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for target in ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"] {
        let machine = Target::parse(target).unwrap();
        let files: Vec<(usize, PathBuf)> = tests().into_iter().step_by(37).enumerate().collect();
        let results = on_all_cores(files, |(number, path)| {
            let name = path.strip_prefix(root().join("tests/kernels")).unwrap_or(&path).display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            // ptxas expands some matrix products in ways that are not simulated yet.
            if name.starts_with("tensor") || wanted(&text) > machine.number() || DIFFERENT.iter().any(|different| name.contains(different))
            {
                return None;
            }
            let cubin = folder.join(format!("{target}-{number}.cubin"));
            let status = Command::new(&ptxas).args(["-arch", target, "-o"]).arg(&cubin).arg(&path).status().expect("ptxas runs");
            let bytes = status.success().then(|| fs::read(&cubin).unwrap())?;
            let test = oriole_kernel_test::parse(&text).unwrap();
            Some(check(&format!("{name} (ptxas, {target})"), &test, &bytes))
        });
        judge(results, 40);
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Further tests of matrices, copies and jump tables, with values from the manual's figures.
#[test]
fn more_than_the_kernel_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/modules");
    let oracle = oriole_oracles::tool("ptxas");
    let mut results = Vec::new();
    for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let test = oriole_kernel_test::parse(&text).unwrap();
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        for target in ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"] {
            let machine = Target::parse(target).unwrap();
            if wanted(&text) > machine.number() {
                continue;
            }
            if let Ok(compiled) = compile(&[&module], &Compiler::new(machine)) {
                results.push(Some(check(&format!("{name} ({target})"), &test, &compiled.cubin)));
            }
            let Some(ptxas) = &oracle else { continue };
            let cubin = std::env::temp_dir().join(format!("oriole-sass-{}-{name}-{target}.cubin", std::process::id()));
            assert!(Command::new(ptxas).args(["-arch", target, "-o"]).arg(&cubin).arg(&path).status().unwrap().success(), "{name}");
            results.push(Some(check(&format!("{name} (ptxas, {target})"), &test, &fs::read(&cubin).unwrap())));
            fs::remove_file(&cubin).unwrap();
        }
    }
    // Oriole does not compile all of these instructions yet; ptxas does.
    judge(results, if oracle.is_some() { 48 } else { 20 });
}

/// Tests whose ptxas results contradict the manual (docs/kernel-tests.md). For Turing to Ada, ptxas also reads an operand of `szext` from
/// constant bank 29, which is not filled.
const DIFFERENT: [&str; 6] = [
    "logic/no_rotate_64_by_sub",
    "logic/szext_",
    "cvt/rm_ftz_f16_f32",
    "cvt/rp_ftz_f16_f32",
    "cvt/rp_ftz_sat_f16_f32",
    "cvt/rna_satfinite_tf32_f32",
];
