//! `oriole rescore`: what changes, what stays, and whether the outcome is right; on our own code and on the vendor's.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use common::{folder, run};
use oriole_cubin::Cubin;
use oriole_isa::Control;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
const TARGETS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every so many kernel tests.
fn kernel_tests(every: usize) -> Vec<PathBuf> {
    let families = fs::read_dir(root().join("tests/kernels")).unwrap().map(|entry| entry.unwrap().path());
    let mut tests: Vec<PathBuf> = families.flat_map(|family| fs::read_dir(family).unwrap().map(|entry| entry.unwrap().path())).collect();
    tests.sort();
    tests.into_iter().step_by(every).collect()
}

fn rescore(folder: &Path, more: &[&str]) -> common::Outcome {
    run(ORIOLE, folder, &[&["rescore", "in.cubin", "-o", "out.cubin"], more].concat(), "")
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

/// Two files are the same but for the control words of functions.
fn assert_only_control_differs(old: &[u8], new: &[u8]) {
    let cubin = Cubin::read(old).unwrap();
    let places = cubin.places().unwrap();
    let mut masked: Vec<Vec<u8>> = [old, new].map(<[u8]>::to_vec).into();
    for function in cubin.functions() {
        let start = places[function.section].offset as usize;
        for file in &mut masked {
            for word in file[start..start + function.code.len()].chunks_exact_mut(16) {
                let bits = u128::from_le_bytes((*word).try_into().unwrap()) & !Control::MASK;
                word.copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
    assert!(masked[0] == masked[1], "more than control words differ");
}

fn assert_verified(folder: &Path, what: &str) {
    let verified = run(ORIOLE, folder, &["verify", "out.cubin"], "");
    assert_eq!(verified.code, Some(0), "{what}: {}", verified.stdout);
    assert!(verified.stdout.contains("\n0 findings in "), "{what}: {}", verified.stdout);
}

fn assert_runs(folder: &Path, test: &str, target: &str) {
    let ran = run(ORIOLE, folder, &["run", test, "--engine", "sass", "--arch", target, "--cubin", "out.cubin", "--hazards"], "");
    assert_eq!(ran.code, Some(0), "{test} for {target}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn optimized_code_of_our_own_stays_as_it_is() {
    let folder = folder("rescore_fixed_point");
    let mut compared = 0;
    for (number, test) in kernel_tests(60).iter().enumerate() {
        let (test, target) = (test.display().to_string(), TARGETS[number % TARGETS.len()]);
        if run(ORIOLE, &folder, &["compile", &test, "--arch", target, "-o", "in.cubin"], "").code != Some(0) {
            continue;
        }
        let done = rescore(&folder, &[]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        assert!(bytes(&folder, "in.cubin") == bytes(&folder, "out.cubin"), "{test} for {target} changes");
        compared += 1;
    }
    assert!(compared > 20, "only {compared} compared");
}

#[test]
fn plain_code_of_our_own_gets_shorter_and_still_runs() {
    let folder = folder("rescore_plain");
    for (number, test) in kernel_tests(150).iter().enumerate() {
        let (test, target) = (test.display().to_string(), TARGETS[number % TARGETS.len()]);
        if run(ORIOLE, &folder, &["compile", &test, "--arch", target, "-O0", "-o", "in.cubin"], "").code != Some(0) {
            continue;
        }
        let done = rescore(&folder, &["--json"]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        for line in done.stdout.lines() {
            let figures: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(figures["after"]["stalls"].as_u64() < figures["before"]["stalls"].as_u64(), "{test}: {line}");
        }
        assert_only_control_differs(&bytes(&folder, "in.cubin"), &bytes(&folder, "out.cubin"));
        assert_verified(&folder, &test);
        assert_runs(&folder, &test, target);
    }
}

#[test]
fn functions_that_cannot_be_decoded_stay_and_are_named() {
    let folder = folder("rescore_unknown");
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry one(.param .u64 p) { .reg .b64 %l; ld.param.u64 %l, [p]; st.global.u64 [%l], %l; ret; }\n\
        .visible .entry two(.param .u64 p) { .reg .b64 %l; ld.param.u64 %l, [p]; st.global.u64 [%l], %l; ret; }\n";
    let compiled = run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "-O0", "-o", "in.cubin"], ptx);
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    let mut file = bytes(&folder, "in.cubin");
    let cubin = Cubin::read(&file).unwrap();
    let place = cubin.places().unwrap()[cubin.find(".text.two").unwrap()].offset as usize;
    file[place + 0x20..place + 0x30].fill(0xff);
    fs::write(folder.join("in.cubin"), &file).unwrap();
    let done = rescore(&folder, &[]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("two stays as it is: 0x0020: the instruction table does not know this word"), "{}", done.stderr);
    let new = bytes(&folder, "out.cubin");
    let code = |file: &[u8], name: &str| Cubin::read(file).unwrap().functions().find(|one| one.name == name).unwrap().code.to_vec();
    assert!(code(&file, "two") == code(&new, "two"));
    assert!(code(&file, "one") != code(&new, "one"));
    let one = rescore(&folder, &["--function", "one"]);
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert!(bytes(&folder, "out.cubin") == new);
}

#[test]
fn wrong_calls_are_told_apart() {
    let folder = folder("rescore_calls");
    fs::write(folder.join("in.cubin"), "no cubin").unwrap();
    let done = rescore(&folder, &[]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.starts_with("error: in.cubin: "), "{}", done.stderr);
    let ptx = common::module("sm_80", "k", "mov.b32 %r0, 1;");
    run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "-o", "in.cubin"], &ptx);
    let missing = rescore(&folder, &["--function", "other"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(2), "error: in.cubin: the cubin has no function `other`\n"));
    let nothing = run(ORIOLE, &folder, &["rescore", "in.cubin"], "");
    assert_eq!(nothing.code, Some(2));
}

#[test]
fn a_table_of_figures() {
    let folder = folder("rescore_stats");
    let ptx = common::module("sm_80", "k", "mov.b32 %r0, 1;");
    run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "-O0", "-o", "in.cubin"], &ptx);
    let done = run(ORIOLE, &folder, &["rescore", "in.cubin", "--stats"], "");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.stdout);
    assert!(lines[0].starts_with("function  instructions ") && lines[1].starts_with("k "), "{}", done.stdout);
}

fn ptxas() -> Option<PathBuf> {
    let folder = env::var_os("ORIOLE_ORACLES").map_or_else(|| root().join(".oracles/bin"), PathBuf::from);
    let found = Some(folder.join("ptxas")).filter(|file| file.exists());
    if found.is_none() {
        println!("skipped: no ptxas in {}", folder.display());
    }
    found
}

fn bounded(tool: &Path, arguments: &[&str], folder: &Path) -> bool {
    let command = format!("ulimit -v 6000000; exec timeout 60 {} \"$@\"", tool.display());
    Command::new("sh").args(["-c", &command, "sh"]).args(arguments).current_dir(folder).output().unwrap().status.success()
}

/// Wrong at -O3, rescored or not: see docs/kernel-tests.md.
const WRONG_ANYWAY: [&str; 3] = ["no_rotate_64", "szext_", "_tf32_f32"];

#[test]
fn kernel_tests_of_the_vendor_run_with_our_control_words() {
    let Some(ptxas) = ptxas() else { return };
    let folder = folder("rescore_kernel_tests");
    let mut ran = 0;
    for (number, test) in kernel_tests(45).iter().enumerate() {
        let (test, target) = (test.display().to_string(), ["sm_75", "sm_80", "sm_90a", "sm_120a"][number % 4]);
        let made = bounded(&ptxas, &[&format!("-arch={target}"), &test, "-o", "in.cubin"], &folder);
        if !made || WRONG_ANYWAY.iter().any(|name| test.contains(name)) {
            continue;
        }
        let done = rescore(&folder, &[]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        assert_runs(&folder, &test, target);
        ran += 1;
    }
    assert!(ran > 40, "only {ran} ran");
}

#[test]
fn the_corpus_as_the_vendor_compiles_it_is_clean_with_our_control_words() {
    let Some(ptxas) = ptxas() else { return };
    let folder = folder("rescore_corpus");
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("corpus")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    let mut rescored = 0;
    for (number, file) in files.iter().enumerate() {
        let target = TARGETS[number % TARGETS.len()];
        let text = fs::read_to_string(file).unwrap();
        let lines = text.lines().map(|line| if line.starts_with(".target") { format!(".target {target}\n") } else { format!("{line}\n") });
        fs::write(folder.join("in.ptx"), lines.collect::<String>()).unwrap();
        if !bounded(&ptxas, &[&format!("-arch={target}"), "in.ptx", "-o", "in.cubin"], &folder) {
            continue;
        }
        let done = rescore(&folder, &[]);
        assert_eq!(done.code, Some(0), "{}: {}", file.display(), done.stderr);
        assert_only_control_differs(&bytes(&folder, "in.cubin"), &bytes(&folder, "out.cubin"));
        assert_verified(&folder, &file.display().to_string());
        rescored += 1;
    }
    assert!(rescored > 15, "only {rescored} rescored");
}
