//! Locates NVIDIA's tools ("oracles"), with which tests compare. For tests only.
//!
//! A tool is searched in the folder that `ORIOLE_ORACLES` names, or else in `.oracles/bin`, where `tools/oracles.sh` installs it. If the
//! tool is missing, the test is skipped with a visible message. But if `ORIOLE_ORACLES` is set, the comparison is requested, and a missing
//! tool is a failure.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

/// The environment variable that names the folder.
const VARIABLE: &str = "ORIOLE_ORACLES";

/// Returns the path of a tool that `tools/oracles.sh` installs. If it returns `None`, the calling test should return.
///
/// # Panics
///
/// If `ORIOLE_ORACLES` is set and the tool is not in the folder that it names.
pub fn tool(name: &str) -> Option<PathBuf> {
    match find(name, env::var_os(VARIABLE), &installed()) {
        Ok(found) => Some(found),
        Err(Missing { folder, is_wanted: true }) => panic!("{VARIABLE} is {}, which has no {name}", folder.display()),
        Err(Missing { folder, .. }) => {
            skip(&format!("no {name} in {}; tools/oracles.sh installs it", folder.display()));
            None
        }
    }
}

/// Returns the path of a tool that only some installations have, such as nvlink. Also searches the folder of the file that the link
/// `ptxas` points to.
pub fn optional_tool(name: &str) -> Option<PathBuf> {
    let folder = env::var_os(VARIABLE).map_or_else(installed, PathBuf::from);
    let beside = fs::canonicalize(folder.join("ptxas")).ok().and_then(|ptxas| Some(ptxas.parent()?.join(name)));
    let found = [Some(folder.join(name)), beside].into_iter().flatten().find(|path| path.exists());
    if found.is_none() {
        skip(&format!("no {name} in {}", folder.display()));
    }
    found
}

/// Returns whether `ORIOLE_REFRESH` requests every comparison with the vendor's tools, which takes minutes, instead of a sample.
pub fn compares_everything() -> bool {
    env::var_os("ORIOLE_REFRESH").is_some()
}

/// Returns the targets to compare: those of `sample`, or with `ORIOLE_REFRESH` all of them.
pub fn targets_to_compare<'a>(all: &[&'a str], sample: &[&'a str]) -> Vec<&'a str> {
    if compares_everything() { all.to_vec() } else { sample.to_vec() }
}

/// Prints that the current test is skipped. Writes to standard error directly, because the test harness captures the output of `println!`
/// and `eprintln!` of passing tests.
pub fn skip(why: &str) {
    let current = thread::current();
    let line = format!("skipped: {}: {why}\n", current.name().unwrap_or("a test"));
    // An error here cannot be reported anywhere.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns the folder into which `tools/oracles.sh` installs.
fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles/bin")
}

/// A tool that was not found.
#[derive(PartialEq, Eq, Debug)]
struct Missing {
    folder: PathBuf,
    /// Whether `ORIOLE_ORACLES` is set, so that the comparison is requested.
    is_wanted: bool,
}

/// Searches a tool in the folder `named`, or else in `installed`.
fn find(name: &str, named: Option<OsString>, installed: &Path) -> Result<PathBuf, Missing> {
    let is_wanted = named.is_some();
    let folder = named.map_or_else(|| installed.to_owned(), PathBuf::from);
    let file = folder.join(name);
    if file.exists() { Ok(file) } else { Err(Missing { folder, is_wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_a_failure_only_if_the_folder_is_named() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(find("Cargo.toml", Some(here.into()), Path::new("nowhere")), Ok(here.join("Cargo.toml")));
        assert_eq!(find("Cargo.toml", None, here), Ok(here.join("Cargo.toml")));
        assert_eq!(find("ptxas", Some(here.into()), here), Err(Missing { folder: here.to_owned(), is_wanted: true }));
        assert_eq!(find("ptxas", None, here), Err(Missing { folder: here.to_owned(), is_wanted: false }));
    }
}
