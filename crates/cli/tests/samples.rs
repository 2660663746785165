//! Runs the commands of README and docs whose inputs are in `examples`, and compares the output with the samples there.
//!
//! Two notations are recognized: a block of code whose first line is `$ oriole ...`, and an indented line `cargo run ... -p oriole-cli -- ...`
//! followed by a block of code. A line `...` in a sample stands for any number of lines. `ORIOLE_BLESS=1` rewrites samples; a part after
//! `...` is found again by the first word of its first line.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
/// The fewest samples that must be found, so that a change of notation does not make the test pass without checking.
const FEWEST: usize = 13;
const OMISSION: &str = "...";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A sample: the arguments of the call, and the lines of the file that show its output.
struct Sample {
    arguments: String,
    lines: std::ops::Range<usize>,
}

/// Finds the samples of a page.
fn samples(lines: &[&str]) -> Vec<Sample> {
    let mut found = Vec::new();
    let mut announced: Option<&str> = None;
    let mut number = 0;
    while number < lines.len() {
        let line = lines[number];
        number += 1;
        if line.starts_with("    cargo run ") {
            announced = line.split_once(" -p oriole-cli -- ").map(|parts| parts.1);
        } else if line.starts_with("```") {
            let end = number + lines[number..].iter().position(|line| line.starts_with("```")).expect("the end of a block of code");
            let called = lines[number].strip_prefix("$ oriole ").map(|arguments| (arguments, number + 1));
            if let Some((arguments, first)) = called.or(announced.take().map(|arguments| (arguments, number))) {
                found.push(Sample { arguments: arguments.to_owned(), lines: first..end });
            }
            number = end + 1;
        } else if !line.is_empty() {
            announced = None;
        }
    }
    found.retain(|sample| sample.arguments.contains("examples/"));
    found
}

/// Runs the command in a folder with a copy of the examples; returns the lines of both of its streams.
fn output_of(sample: &Sample, folder: &Path) -> Vec<String> {
    let line = format!("'{ORIOLE}' {} 2>&1", sample.arguments);
    let output = Command::new("sh").args(["-c", &line]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Splits a sample at its omissions.
fn parts<'a>(sample: &[&'a str]) -> Vec<Vec<&'a str>> {
    sample.split(|line| *line == OMISSION).map(<[&str]>::to_vec).collect()
}

/// Returns whether the output is the sample, where omissions stand for any lines.
fn agrees(sample: &[&str], output: &[String]) -> bool {
    let parts = parts(sample);
    let mut rest = output;
    for (number, part) in parts.iter().enumerate() {
        let is_here = |start: usize| rest.len() >= start + part.len() && part.iter().zip(&rest[start..]).all(|(line, out)| line == out);
        let start = if number == 0 { is_here(0).then_some(0) } else { (0..=rest.len()).find(|&start| is_here(start)) };
        let Some(start) = start else { return false };
        rest = &rest[start + part.len()..];
    }
    // Without an omission at the end, nothing follows.
    rest.is_empty() || parts.len() > 1 && parts.last().is_some_and(Vec::is_empty)
}

/// Returns the new text of a sample: every part gets the lines of the output that begin where its first word is found.
fn rewritten(sample: &[&str], output: &[String]) -> Vec<String> {
    let parts = parts(sample);
    if parts.len() == 1 {
        return output.to_vec();
    }
    let first_word = |line: &str| line.split([' ', '=', ':']).filter(|word| !word.is_empty()).take(2).collect::<Vec<_>>().join(" ");
    let mut lines = Vec::new();
    let mut next = 0;
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            lines.push(OMISSION.to_owned());
        }
        let Some(first) = part.first() else { continue };
        let word = first_word(first);
        let start = next + output[next..].iter().position(|line| first_word(line) == word).unwrap_or_else(|| panic!("no line `{word}`"));
        next = start + part.len();
        lines.extend_from_slice(&output[start..next]);
    }
    lines
}

#[cfg(unix)]
#[test]
fn samples_show_what_the_commands_print() {
    let folder = common::folder("samples");
    for examples in ["examples", "examples/stories"] {
        fs::create_dir_all(folder.join(examples)).unwrap();
        let paths = fs::read_dir(root().join(examples)).unwrap().map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| path.is_file()) {
            fs::copy(&path, folder.join(examples).join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut pages = vec![root().join("README.md")];
    for docs in ["docs", "docs/stories"] {
        pages.extend(fs::read_dir(root().join(docs)).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    }
    pages.sort();
    let (mut checked, mut stale) = (0, Vec::new());
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(page).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut new: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        // From the end, so that the numbers of earlier lines stay.
        for sample in samples(&lines).iter().rev() {
            checked += 1;
            let output = output_of(sample, &folder);
            let shown = &lines[sample.lines.clone()];
            if !agrees(shown, &output) {
                stale.push(format!("{}: oriole {}\n{}", page.display(), sample.arguments, output.join("\n")));
                new.splice(sample.lines.clone(), rewritten(shown, &output));
            }
        }
        if std::env::var_os("ORIOLE_BLESS").is_some() {
            fs::write(page, new.join("\n") + "\n").unwrap();
        }
    }
    assert!(checked >= FEWEST, "only {checked} samples were found");
    if std::env::var_os("ORIOLE_BLESS").is_none() {
        assert!(stale.is_empty(), "ORIOLE_BLESS=1 rewrites the samples; they should show\n\n{}", stale.join("\n\n"));
    }
}

#[test]
fn omissions_stand_for_lines() {
    let output: Vec<String> = ["a 1", "b 2", "c 3", "d 4"].map(String::from).to_vec();
    assert!(agrees(&["a 1", "...", "d 4"], &output));
    assert!(agrees(&["a 1", "b 2", "..."], &output));
    assert!(!agrees(&["a 1", "b 2"], &output));
    assert!(!agrees(&["b 2", "..."], &output));
    assert!(!agrees(&["a 1", "...", "c 4", "..."], &output));
    assert_eq!(rewritten(&["a 1", "...", "c 3", "..."], &output), ["a 1", "...", "c 3", "..."]);
}
