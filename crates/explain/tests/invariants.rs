//! What every explanation must fulfil, over the examples and the corpus.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use oriole_driver::{DebugInfo, DebugKind};
use oriole_explain::model::{Explanation, Function};
use oriole_explain::{Options, explain_cubin, explain_ptx};
use oriole_isa::Target;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the PTX files of a folder, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    files
}

fn explain(path: &Path, target: &str, level: u8) -> Option<Explanation> {
    explain_with(path, target, level, None)
}

fn explain_with(path: &Path, target: &str, level: u8, debug: Option<DebugKind>) -> Option<Explanation> {
    let text = std::fs::read(path).unwrap();
    let mut options = Options::new(Target::parse(target).unwrap());
    options.compiler.level = level;
    options.compiler.verify = false;
    options.compiler.debug = debug.map(|kind| DebugInfo { kind, texts: Vec::new() });
    explain_ptx(path.file_name().unwrap().to_str().unwrap(), &text, &options).ok()
}

/// Checks one function; returns the number of instructions.
fn check(function: &Function, what: &str) -> usize {
    assert_eq!(function.obstacle, None, "{what}");
    let length = function.instructions.len() as u64 * 16;
    let is_address = |address: u64| address < length && address.is_multiple_of(16);
    for (number, instruction) in function.instructions.iter().enumerate() {
        let place = format!("{what} {} {:#x}", function.name, instruction.address);
        assert_eq!(instruction.address, number as u64 * 16, "{place}");
        assert!(!instruction.text.is_empty() && !instruction.control.is_empty() && !instruction.unit.is_empty(), "{place}");
        let block = &function.blocks[instruction.block.expect("a block")];
        assert!((block.start..block.end).contains(&instruction.address), "{place}");
        assert!(instruction.issue_cycle < block.cycles, "{place}");
        assert!(instruction.live <= 255, "{place}");
        let sum: u8 = instruction.stall_causes.iter().map(|cause| cause.cycles).sum();
        assert_eq!(sum, instruction.stall, "{place}");
        for cause in &instruction.stall_causes {
            assert!(!cause.text.is_empty() && cause.cycles > 0, "{place}");
            assert!(cause.first.is_none_or(is_address) && cause.second.is_none_or(|second| second <= length), "{place}");
            assert!(matches!(cause.kind.as_str(), "minimum" | "extra") || cause.first.is_some() && cause.second.is_some(), "{place}");
        }
        // The control word in the text form names the scoreboards that are waited for and set.
        let waited = instruction.control.split(':').next().unwrap().chars().filter(char::is_ascii_digit).count();
        assert!(instruction.waits.len() >= waited, "{place}: {}", instruction.control);
        for wait in &instruction.waits {
            assert!(!wait.text.is_empty() && wait.producers.iter().all(|&producer| is_address(producer)), "{place}");
            for &producer in &wait.producers {
                let sets = &function.instructions[producer as usize / 16].sets;
                let is_named = sets.iter().any(|set| set.scoreboard == wait.scoreboard && set.readers.contains(&instruction.address));
                assert!(is_named, "{place}: {producer:#x} does not name its reader");
            }
        }
        assert_eq!(instruction.waiting.cycles > 0, !instruction.waiting.reason.is_empty(), "{place}");
    }
    assert_eq!(function.registers.live_at_peak.len() as u32, function.registers.peak_live, "{what}");
    assert!(function.registers.peak_live <= function.registers.count, "{what} {}", function.name);
    for one in &function.loops {
        assert!(one.start < one.end && one.end <= length && one.bounds.len() >= 2, "{what} {}", function.name);
        assert!(one.bounds.is_sorted_by(|first, second| first.cycles >= second.cycles));
    }
    assert!(function.warnings.is_sorted_by(|first, second| first.cycles >= second.cycles));
    function.instructions.len()
}

/// The explanations of the corpus for sm_90a at -O3, which two tests check. Files that do not compile for the target have none.
static CORPUS: LazyLock<Vec<(PathBuf, Option<Explanation>)>> =
    LazyLock::new(|| files("corpus").into_iter().map(|path| (path.clone(), explain(&path, "sm_90a", 3))).collect());

/// Returns every third file, beginning with number `first`, or with `ORIOLE_REFRESH` all of them.
fn third_of(files: Vec<PathBuf>, first: usize) -> Vec<PathBuf> {
    match std::env::var_os("ORIOLE_REFRESH") {
        Some(_) => files,
        None => files.into_iter().skip(first).step_by(3).collect(),
    }
}

/// Checks all functions of all files; returns the number of instructions.
fn check_all(paths: &[PathBuf], target: &str, level: u8) -> usize {
    check_with(paths, target, level, None)
}

fn check_with(paths: &[PathBuf], target: &str, level: u8, debug: Option<DebugKind>) -> usize {
    paths.iter().map(|path| check_explanation(path, explain_with(path, target, level, debug).as_ref(), target, level)).sum()
}

/// Checks all functions of one file; returns the number of instructions.
fn check_explanation(path: &Path, explanation: Option<&Explanation>, target: &str, level: u8) -> usize {
    let Some(explanation) = explanation else {
        println!("skipped: {} does not compile for {target}", path.display());
        return 0;
    };
    let mut count = 0;
    for function in &explanation.functions {
        let what = format!("{} {target} -O{level}", path.display());
        count += check(function, &what);
        // At -O1 and above, every stall cycle has a cause that the compiler recorded: none is left over.
        let extra = function.instructions.iter().flat_map(|instruction| &instruction.stall_causes).filter(|cause| cause.kind == "extra");
        assert!(level == 0 || extra.count() == 0, "{what} {}: stalls without a recorded cause", function.name);
        // Only what sets up the function has no PTX line, and functions that Oriole adds have none.
        let is_added = function.name.starts_with("__oriole");
        let with_line = function.instructions.iter().filter(|instruction| instruction.origin.ptx_line.is_some()).count();
        assert!(is_added || with_line * 10 >= function.instructions.len() * 9, "{what} {}: {with_line}", function.name);
        assert!(!function.passes.is_empty() && function.spills.is_exact && function.unknown.is_empty());
        for instruction in &function.instructions {
            let at = instruction.address;
            let place = instruction.place.as_ref().unwrap_or_else(|| panic!("{what} {at:#x}: no reason for its place"));
            let form = instruction.form.as_ref().unwrap_or_else(|| panic!("{what} {at:#x}: no reason for its form"));
            assert!(!place.text.is_empty() && !form.text.is_empty() && !form.created_by.is_empty(), "{what} {at:#x}");
            assert!(place.runner_up.is_none_or(|other| other != at && other < function.instructions.len() as u64 * 16), "{what} {at:#x}");
            assert!(place.runner_up.is_none() || place.phase.is_some() && place.reason.is_some(), "{what} {at:#x}");
        }
    }
    count
}

#[test]
fn corpus_on_sm_90a() {
    let counts = CORPUS.iter().map(|(path, explanation)| check_explanation(path, explanation.as_ref(), "sm_90a", 3));
    assert!(counts.sum::<usize>() > 10_000);
}

/// Code that is not optimized, and code for debuggers.
#[test]
fn corpus_without_optimization() {
    assert!(check_all(&third_of(files("corpus"), 0), "sm_90a", 0) > 4_000);
    assert!(check_with(&third_of(files("corpus"), 1), "sm_90a", 0, Some(DebugKind::Full)) > 4_000);
}

/// Products of warp groups, tensor and bulk copies, barriers in memory, asynchronous copies, matrix products, textures.
#[test]
fn tensor_and_asynchronous_kernels() {
    for (folder, every) in
        [("tests/kernels/warpgroup", 6), ("tests/kernels/tensor", 12), ("tests/kernels/barrier", 8), ("corpus/handwritten", 1)]
    {
        let paths: Vec<PathBuf> = files(folder).into_iter().step_by(every).collect();
        for level in [3, 0] {
            assert!(check_all(&paths, "sm_90a", level) > 300, "{folder} -O{level}");
        }
    }
}

#[test]
fn corpus_on_sm_80() {
    assert!(check_all(&third_of(files("corpus"), 2), "sm_80", 3) > 1_500);
}

#[test]
fn corpus_on_sm_120a() {
    assert!(check_all(&third_of(files("corpus"), 0), "sm_120a", 3) > 1_500);
}

#[test]
fn examples_on_other_targets() {
    for (target, level) in [("sm_80", 3), ("sm_120a", 3), ("sm_89", 2), ("sm_90a", 1), ("sm_90a", 0), ("sm_100a", 3)] {
        assert!(check_all(&files("examples"), target, level) > 80, "{target} -O{level}");
    }
}

/// Recording changes nothing: the code that is explained is the code that `oriole compile` writes.
#[test]
fn the_explained_code_is_the_compiled_code() {
    let mut count = 0;
    let stories: Vec<(PathBuf, Option<Explanation>)> =
        files("examples/stories").into_iter().map(|path| (path.clone(), explain(&path, "sm_90a", 3))).collect();
    for (path, explanation) in CORPUS.iter().chain(&stories) {
        let Some(explanation) = explanation else { continue };
        let text = std::fs::read(path).unwrap();
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let mut options = oriole_driver::Options::new(Target::parse("sm_90a").unwrap());
        options.verify = false;
        let cubin = oriole_driver::compile(&[&checked.module], &options).unwrap().cubin;
        let file = oriole_cubin::Cubin::read(&cubin).unwrap();
        for (function, code) in explanation.functions.iter().zip(file.functions()) {
            assert_eq!(function.name, code.name);
            for (instruction, word) in function.instructions.iter().zip(code.code.as_chunks::<16>().0) {
                let control = oriole_isa::Control::of(u128::from_le_bytes(*word)).to_string();
                assert_eq!(instruction.control, control, "{} {} {:#x}", path.display(), function.name, instruction.address);
                count += 1;
            }
        }
    }
    assert!(count > 10_000, "{count}");
}

/// A cubin alone has the same control words and reasons as the PTX that it was compiled from; only what passes recorded is missing.
#[test]
fn a_cubin_alone_has_the_same_reasons() {
    let path = root().join("examples/block_sum.ptx");
    let from_ptx = explain(&path, "sm_90a", 3).unwrap();
    let text = std::fs::read(&path).unwrap();
    let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
    let options = oriole_driver::Options::new(Target::parse("sm_90a").unwrap());
    let cubin = oriole_driver::compile(&[&checked.module], &options).unwrap().cubin;
    let from_cubin = explain_cubin("block_sum.cubin", &cubin, None).unwrap();
    for (one, two) in from_ptx.functions[0].instructions.iter().zip(&from_cubin.functions[0].instructions) {
        assert_eq!((&one.text, &one.control, &one.stall_causes, &one.waits), (&two.text, &two.control, &two.stall_causes, &two.waits));
    }
    let function = &from_cubin.functions[0];
    check(function, "cubin");
    assert!(function.remarks.is_empty() && function.passes.is_empty() && from_cubin.ptx.is_empty());
    // What cannot be known is said once, and nothing is invented.
    assert!(!function.unknown.is_empty());
    assert!(function.instructions.iter().all(|instruction| instruction.place.is_none() && instruction.form.is_none()));
}

#[test]
fn json_keeps_everything() {
    let explanation = explain(&root().join("examples/block_sum.ptx"), "sm_90a", 3).unwrap();
    let text = serde_json::to_string(&explanation).unwrap();
    let again: Explanation = serde_json::from_str(&text).unwrap();
    assert_eq!(again, explanation);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], "oriole-explain/1");
    // Every field of the format is described.
    let page = std::fs::read_to_string(root().join("docs/explain.md")).unwrap();
    for (object, place) in [
        (&value, "file"),
        (&value["functions"][0], "function"),
        (&value["functions"][0]["instructions"][0], "instruction"),
        (&value["functions"][0]["blocks"][0], "block"),
        (&value["functions"][0]["registers"], "registers"),
        (&value["functions"][0]["instructions"][0]["place"], "place"),
        (&value["functions"][0]["instructions"][0]["form"], "form"),
    ] {
        for field in object.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{field}`")), "docs/explain.md does not describe the field {field} of a {place}");
        }
    }
}
