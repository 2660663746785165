//! The vendor's tools ("oracles") that tests compare with. For tests only.
//!
//! A tool is looked for in the folder that `ORIOLE_ORACLES` names, or in `.oracles/bin`, where `tools/oracles.sh` installs it. If it is not
//! there, the test is skipped, and says so where people see it. But if `ORIOLE_ORACLES` is set, somebody wants the comparison: then a tool
//! that is missing is a failure.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

/// The variable that names the folder.
const VARIABLE: &str = "ORIOLE_ORACLES";

/// A tool that `tools/oracles.sh` installs. Without it, the test that asks is to return.
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

/// A tool that only some installations have, such as nvlink. Tools next to the one that a link to ptxas leads to count, too.
pub fn optional_tool(name: &str) -> Option<PathBuf> {
    let folder = env::var_os(VARIABLE).map_or_else(installed, PathBuf::from);
    let beside = fs::canonicalize(folder.join("ptxas")).ok().and_then(|ptxas| Some(ptxas.parent()?.join(name)));
    let found = [Some(folder.join(name)), beside].into_iter().flatten().find(|path| path.exists());
    if found.is_none() {
        skip(&format!("no {name} in {}", folder.display()));
    }
    found
}

/// Says that the test that runs is skipped. `println!` and `eprintln!` show nothing of tests that pass; this does.
pub fn skip(why: &str) {
    let current = thread::current();
    let line = format!("skipped: {}: {why}\n", current.name().unwrap_or("a test"));
    // There is nobody left to tell if this fails.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The folder in which `tools/oracles.sh` installs.
fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles/bin")
}

#[derive(PartialEq, Eq, Debug)]
struct Missing {
    folder: PathBuf,
    /// Whether somebody asked for the comparison.
    is_wanted: bool,
}

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
