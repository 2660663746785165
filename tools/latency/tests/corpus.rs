//! Compares the model with the code that ptxas generates for the corpus: no pair of instructions is closer than the model requires, and
//! where nothing else explains a stall it is as long as the model says. Skipped if ptxas is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

const TARGETS: [&str; 7] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"];
/// The targets for which ptxas compiles, unless `ORIOLE_REFRESH` is set: the corpus takes thousands of calls.
const SAMPLE: [&str; 3] = ["sm_75", "sm_90a", "sm_100a"];

#[test]
fn code_of_ptxas_stands_as_far_apart_as_the_model_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    let _ = fs::remove_dir_all(&folder);
    let sources = sources(&root);
    let targets = oriole_oracles::targets_to_compare(&TARGETS, &SAMPLE);
    // Every other file for each target, in turn the even and the odd ones.
    let step = if oriole_oracles::compares_everything() { 1 } else { 2 };
    thread::scope(|scope| {
        for (number, target) in targets.iter().enumerate() {
            let (target_folder, ptxas) = (folder.join(target), &ptxas);
            let sources = sources.iter().skip(number % step).step_by(step);
            scope.spawn(move || {
                fs::create_dir_all(&target_folder).unwrap();
                let made = sources.filter(|source| compile(ptxas, source, target, &target_folder)).count();
                assert!(made >= 20, "{target}: only {made} files of the corpus are for it");
            });
        }
    });
    let folders = targets.iter().map(|target| folder.join(target));
    let output = Command::new(env!("CARGO_BIN_EXE_oriole-latency-check")).arg("check").args(folders).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Returns the corpus and some of the kernel tests, which are for all targets.
fn sources(root: &Path) -> Vec<PathBuf> {
    let files = |folder: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let is_ptx = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ptx");
    let corpus = files(&root.join("corpus")).into_iter().filter(is_ptx);
    let tests = files(&root.join("tests/kernels")).into_iter().flat_map(|family| files(&family)).filter(is_ptx);
    corpus.chain(tests.step_by(60)).collect()
}

/// Compiles a source for a target; returns whether it compiles.
fn compile(ptxas: &Path, source: &Path, target: &str, folder: &Path) -> bool {
    let out = folder.join(source.file_stem().unwrap()).with_extension("cubin");
    let command = format!("ulimit -v 6000000; exec timeout 60 {} \"$@\"", ptxas.display());
    let arguments = ["-arch", target, &source.display().to_string(), "-o", &out.display().to_string()].map(str::to_owned);
    let status = Command::new("sh").args(["-c", &command, "sh"]).args(arguments).output().unwrap().status;
    status.success()
}
