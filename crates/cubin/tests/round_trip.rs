//! Checks that reading and writing a cubin reproduces it byte for byte.
//!
//! The test uses the files in `tests/data` and, if ptxas is available, its output for every other file of the corpus, each for one target,
//! with options that vary from file to file. `ORIOLE_REFRESH=1` tries every file and target with every option.

use std::fs;
use std::path::PathBuf;

use crate::common::{Scratch, compares_everything, compile, data_files, oracle, root};
use oriole_cubin::Cubin;
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::section::Content;
use oriole_cubin::segment::Cover;

const OPTIONS: &[&[&str]] = &[&[], &["-O0"], &["-O1"], &["-O2"], &["-g"], &["-lineinfo"], &["-c"], &["-c", "-g"], &["-c", "-lineinfo"]];

/// Checks that the bytes are the same, and that the model explains every segment and attribute.
fn check(name: &str, original: &[u8], failures: &mut Vec<String>) {
    let cubin = match Cubin::read(original) {
        Ok(cubin) => cubin,
        Err(error) => return failures.push(format!("{name}: {error}")),
    };
    if cubin.write().unwrap() != original {
        failures.push(format!("{name}: differs"));
    }
    if cubin.segments.iter().any(|segment| matches!(segment.covers, Cover::Fixed(_))) {
        failures.push(format!("{name}: a segment covers no sections"));
    }
    for section in cubin.sections() {
        let Content::Info(attributes) = &section.content else { continue };
        for attribute in attributes {
            let carried = [AttributeCode::ANNOTATIONS, AttributeCode::MERCURY_FINALIZER_OPTIONS].contains(&attribute.code);
            let decoded = !matches!(attribute.value, AttributeValue::Bytes(_) | AttributeValue::Odd { .. });
            if !decoded && !carried || attribute.code.name().is_none() {
                failures.push(format!("{name}: {attribute:?} in {} is not understood", section.name));
            }
        }
    }
}

#[test]
fn checked_in_files_come_out_unchanged() {
    let mut failures = Vec::new();
    for (name, original) in data_files("cubin") {
        check(&name, &original, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn corpus() -> Vec<PathBuf> {
    let folders = ["corpus", "corpus/handwritten", "examples"];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    files.sort();
    files
}

#[test]
fn fresh_files_come_out_unchanged() {
    let Some(ptxas) = oracle("ptxas") else { return };
    let everything = compares_everything();
    let scratch = Scratch::new("round-trip");
    let (mut count, mut bytes, mut failures) = (0, 0, Vec::new());
    let targets: Vec<String> = crate::common::targets_of_ptxas().map(|traits| traits.target.to_string()).collect();
    for (number, ptx) in corpus().into_iter().step_by(if everything { 1 } else { 2 }).enumerate() {
        // 23 targets and 9 sets of options are coprime, so counting through both in parallel visits every pair.
        let cases = targets.len() * OPTIONS.len();
        let tries = if everything { cases } else { 12 };
        let mut left = if everything { cases } else { 1 };
        for case in (0..tries).map(|step| number * 12 + step) {
            let (target, options) = (&targets[case % targets.len()], OPTIONS[case % OPTIONS.len()]);
            let Some(original) = compile(&ptxas, &scratch, &ptx, target, options) else { continue };
            let name = format!("{} {target} {}", ptx.file_name().unwrap().display(), options.join(" "));
            check(&name, &original, &mut failures);
            (count, bytes, left) = (count + 1, bytes + original.len(), left - 1);
            if left == 0 {
                break;
            }
        }
    }
    println!("{count} cubins, {bytes} bytes");
    assert!(count > 40, "ptxas made only {count} cubins");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
