//! Runs the files under `filetests/`. Each file has a header, a program and the expected result of one stage of the compiler.
//!
//! `docs/testing.md` describes the format. A file is PTX (`.ptx`), Ori in its text form (`.oir`) or assembler text (`.sass`). The header
//! names the kinds of test and their options ([`file`]); each kind is a module of [`kinds`]. The result is compared with the expectations
//! at the end of the file, by rewriting the file with the actual result: a file passes if it does not change.

pub mod diff;
pub mod file;
pub mod kinds;
pub mod listing;
pub mod pipeline;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use file::{Syntax, TestFile};

/// Returns all test files below a folder, sorted by path. A file with an unknown extension is an error.
pub fn find(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(find(&path)?);
        } else {
            Syntax::of(&path).ok_or_else(|| format!("{}: not a .ptx, .oir or .sass file", path.display()))?;
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the text of a file with its actual results as expectations.
///
/// # Errors
///
/// Returns a message if the header is wrong, the program cannot be read, a checker rejects a result, or the file expects nothing.
pub fn rewrite(text: &str, syntax: Syntax) -> Result<String, String> {
    let mut file = TestFile::read(text, syntax)?;
    kinds::run(&mut file)?;
    Ok(file.write())
}

/// Runs one file. Returns what is wrong as text for the developer; with `bless`, writes the actual results into the file instead.
pub fn check(path: &Path, bless: bool) -> Result<(), String> {
    let syntax = Syntax::of(path).ok_or("not a .ptx, .oir or .sass file")?;
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let found = rewrite(&text, syntax)?;
    if found == text {
        return Ok(());
    }
    if bless {
        return fs::write(path, found).map_err(|error| error.to_string());
    }
    Err(diff::report(&text, &found))
}

/// Runs files on all cores. Returns the messages of those that fail, in the order of the files.
pub fn check_all(files: &[PathBuf], bless: bool) -> Vec<(PathBuf, String)> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(message) = check(path, bless) {
                failures.lock().expect("no panic in a check").push((path.clone(), message));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut failures = failures.into_inner().expect("no panic in a check");
    failures.sort();
    failures
}
