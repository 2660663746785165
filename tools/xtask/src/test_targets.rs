//! Checks that no test is left out of the build. Most packages list their test programs in `Cargo.toml` and join test files in
//! `tests/it.rs`, and targets without tests are not built as tests; so a new test could be written that no program runs.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the problems of one package, given by its folder.
pub fn problems(package: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    let mut problems = Vec::new();
    if manifest.contains("\nautotests = false\n") {
        let joined = fs::read_to_string(package.join("tests/it.rs")).unwrap_or_default();
        for file in files(&package.join("tests"), false) {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let is_run = joined.lines().any(|line| line == format!("mod {name};")) || manifest.contains(&format!("\nname = \"{name}\"\n"));
            if !is_run {
                problems.push(format!("{}: neither a module of tests/it.rs nor a [[test]] of Cargo.toml", file.display()));
            }
        }
    }
    let library = manifest.split("\n[").find(|section| section.starts_with("lib]")).unwrap_or_default();
    let sources = files(&package.join("src"), true);
    let texts = || sources.iter().map(|file| (file, fs::read_to_string(file).unwrap_or_default()));
    if library.contains("\ntest = false") && !manifest.contains("[[bin]]") {
        let with_tests = texts().filter(|(_, text)| text.lines().any(|line| line.trim() == "#[test]"));
        problems.extend(with_tests.map(|(file, _)| format!("{}: a unit test, but `test = false` in Cargo.toml", file.display())));
    }
    if library.contains("\ndoctest = false") {
        let with_tests = texts().filter(|(_, text)| has_doc_test(text));
        problems.extend(with_tests.map(|(file, _)| format!("{}: a doc test, but `doctest = false` in Cargo.toml", file.display())));
    }
    problems
}

/// Returns whether a doc comment of a source text has a code block in Rust: one without a language, or whose language is `rust`.
fn has_doc_test(text: &str) -> bool {
    let mut is_open = false;
    for line in text.lines().map(str::trim) {
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        let Some(language) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else { continue };
        if !is_open && matches!(language, "" | "rust" | "no_run" | "should_panic") {
            return true;
        }
        is_open = !is_open;
    }
    false
}

/// Returns the Rust files of a folder, sorted, with those of its subfolders if `is_deep` is true.
fn files(folder: &Path, is_deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && is_deep {
            found.extend(files(&path, true));
        } else if path.extension().is_some_and(|extension| extension == "rs") && path.file_stem().is_some_and(|stem| stem != "it") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_runs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let packages = ["crates", "tools"].iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
        let found: Vec<String> = packages.flat_map(|package| problems(&package.unwrap().path())).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn a_test_that_no_program_runs_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        };
        write("Cargo.toml", "[package]\nautotests = false\n\n[lib]\ntest = false\ndoctest = false\n\n[[test]]\nname = \"apart\"\n");
        write("tests/it.rs", "mod joined;\n");
        write("tests/joined.rs", "");
        write("tests/apart.rs", "");
        write("src/lib.rs", "//! ```text\n//! not a test\n//! ```\n");
        assert_eq!(problems(folder.path()), Vec::<String>::new());
        write("tests/forgotten.rs", "");
        write("src/unit.rs", "    #[test]\n");
        write("src/doc.rs", "/// ```\n/// f();\n/// ```\n");
        let found = problems(folder.path());
        let named: Vec<bool> =
            ["forgotten.rs", "unit.rs", "doc.rs"].iter().map(|name| found.iter().any(|line| line.contains(name))).collect();
        assert_eq!((found.len(), named), (3, vec![true; 3]), "{found:?}");
    }
}
