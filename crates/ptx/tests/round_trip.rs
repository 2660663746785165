//! Print and parse again: the same tree, the same text, and for ptxas the same program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oriole_ptx::ast::Module;
use oriole_ptx::{Options, check, print};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A module and where it comes from.
struct Source {
    name: String,
    text: String,
}

/// The modules of a folder: each `.ptx` file, and each part of a `.txt` file that starts with a line `=== name`.
fn load(folder: &Path) -> Vec<Source> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            // Some of the modules ask what happens with bytes outside ASCII.
            Some("ptx") => sources.push(Source { name, text: String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned() }),
            Some("txt") => sources.extend(unpack(&name, &String::from_utf8_lossy(&fs::read(&path).unwrap()))),
            _ => {}
        }
    }
    sources
}

fn unpack(file: &str, text: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            sources.push(Source { name: format!("{file}: {}", name.trim()), text: String::new() });
        } else if let Some(source) = sources.last_mut() {
            source.text.push_str(line);
        }
    }
    sources
}

fn corpus() -> Vec<Source> {
    ["corpus", "corpus/handwritten", "examples"].iter().flat_map(|folder| load(&root().join(folder))).collect()
}

/// The module, or the first errors.
fn parse(text: &str) -> Result<Module, String> {
    let checked = check(text.as_bytes(), &Options::default());
    if checked.is_valid() {
        return Ok(checked.module);
    }
    let messages: Vec<String> = checked.diagnostics.iter().take(3).map(|finding| format!("{}: {}", finding.span.start, finding.message)).collect();
    Err(messages.join("; "))
}

/// Prints a module and reads it back; the printed text, or what went wrong.
fn round_trip(module: &Module) -> Result<String, String> {
    let printed = print(module);
    let again = parse(&printed).map_err(|errors| format!("the printed text has errors: {errors}\n{printed}"))?;
    module.same_as(&again).map_err(|difference| format!("not the same: {difference}\n{printed}"))?;
    if print(&again) != printed {
        return Err(String::from("printed twice, the text differs"));
    }
    Ok(printed)
}

fn check_all(sources: &[Source], must_parse: bool) {
    let (mut passed, mut refused, mut failures) = (0, Vec::new(), Vec::new());
    for source in sources {
        match parse(&source.text) {
            Err(errors) => refused.push(format!("{}: {errors}", source.name)),
            Ok(module) => match round_trip(&module) {
                Ok(_) => passed += 1,
                Err(failure) => failures.push(format!("{}: {failure}", source.name)),
            },
        }
    }
    println!("{passed} of {} modules make the round trip, {} are refused", sources.len(), refused.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
    assert!(!must_parse || refused.is_empty(), "refused:\n{}", refused.join("\n"));
    assert!(passed > 0, "no modules found");
}

#[test]
fn corpus_makes_the_round_trip() {
    check_all(&corpus(), true);
}

#[test]
fn accepted_modules_make_the_round_trip() {
    check_all(&load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/accept")), false);
}
