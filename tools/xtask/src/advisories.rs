//! Compares the packages of the workspace with the advisories of the RustSec database: security holes, unsound code, and packages that nobody
//! maintains any more.
//!
//! The check does the part of cargo-audit that the project needs, without the minutes that building that tool takes. It reads a copy of the
//! database, a folder `crates` with a folder for each package and a file for each advisory.

use std::fs;
use std::path::Path;

use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::dependencies::{self, Package};

/// Advisories that do not concern the project, with the reason.
const NOT_CONCERNED: &[(&str, &str)] = &[];

/// The start and the end of the part of an advisory that programs read.
const FRONT_MATTER: (&str, &str) = ("```toml", "```");

/// Prints all advisories that affect a package of the workspace; fails if there are any.
pub fn check(database: &str) -> Result<(), String> {
    let packages = dependencies::packages_of_workspace()?;
    let found = affecting(&packages, Path::new(database))?;
    found.affecting.iter().for_each(|advisory| println!("{advisory}"));
    println!("{} packages, {} advisories about them", packages.len(), found.read);
    if found.affecting.is_empty() { Ok(()) } else { Err(format!("{} advisories", found.affecting.len())) }
}

/// The front matter of an advisory.
#[derive(Deserialize)]
struct Advisory {
    advisory: Description,
    versions: Versions,
}

#[derive(Deserialize)]
struct Description {
    id: String,
    /// Set for advisories that are not about a security hole, for example to `unmaintained`.
    informational: Option<String>,
    /// The date on which the advisory was taken back.
    withdrawn: Option<String>,
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<VersionReq>,
    #[serde(default)]
    unaffected: Vec<VersionReq>,
}

/// What a comparison found.
struct Comparison {
    /// The number of advisories about packages of the workspace, in any version.
    read: usize,
    /// Descriptions of the advisories that affect the version in use.
    affecting: Vec<String>,
}

fn affecting(packages: &[Package], database: &Path) -> Result<Comparison, String> {
    let crates = database.join("crates");
    if !crates.is_dir() {
        return Err(format!("{}: no database of advisories, which has a folder `crates`", database.display()));
    }
    let mut found = Comparison { read: 0, affecting: Vec::new() };
    for package in packages.iter().filter(|package| !package.is_own) {
        let folder = crates.join(&package.name);
        if !folder.is_dir() {
            continue;
        }
        let version = Version::parse(&package.version).map_err(|error| format!("{} {}: {error}", package.name, package.version))?;
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let advisory = parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            found.read += 1;
            if advisory.affects(&version) {
                found.affecting.push(format!("{} {version}: {}", package.name, advisory.summary(&text)));
            }
        }
    }
    found.affecting.sort();
    Ok(found)
}

fn parse(text: &str) -> Result<Advisory, String> {
    let start = text.find(FRONT_MATTER.0).ok_or("no front matter")? + FRONT_MATTER.0.len();
    let length = text[start..].find(FRONT_MATTER.1).ok_or("the front matter has no end")?;
    toml::from_str(&text[start..start + length]).map_err(|error| error.to_string())
}

impl Advisory {
    fn affects(&self, version: &Version) -> bool {
        let is_excluded = self.versions.patched.iter().chain(&self.versions.unaffected).any(|range| range.matches(version));
        let is_known = NOT_CONCERNED.iter().any(|(id, _)| *id == self.advisory.id);
        !is_excluded && !is_known && self.advisory.withdrawn.is_none()
    }

    /// Returns the identifier, the kind, and the title that follows the front matter.
    fn summary(&self, text: &str) -> String {
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("no title");
        let kind = self.advisory.informational.as_deref().unwrap_or("security");
        format!("{} ({kind}): {title}", self.advisory.id)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const TEXT: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2000-0001\"\npackage = \"a\"\ndate = \"2000-01-01\"\n\n[versions]\n\
        patched = [\">= 1.2.3\"]\nunaffected = [\"< 1.1.0\"]\n```\n\n# A title\n";

    fn package(version: &str) -> Package {
        let (name, licence) = ("a".to_owned(), String::new());
        Package { name, version: version.to_owned(), licence, folder: PathBuf::new(), is_own: false, dependencies: Vec::new() }
    }

    fn database(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("crates/a")).unwrap();
        fs::write(folder.path().join("crates/a/RUSTSEC-2000-0001.md"), text).unwrap();
        folder
    }

    #[test]
    fn versions_between_the_unaffected_and_the_patched_are_found() {
        let folder = database(TEXT);
        for (version, is_affected) in [("1.0.9", false), ("1.1.0", true), ("1.2.2", true), ("1.2.3", false), ("2.0.0", false)] {
            let found = affecting(&[package(version)], folder.path()).unwrap();
            assert_eq!((found.read, found.affecting.len()), (1, usize::from(is_affected)), "{version}");
        }
        let found = affecting(&[package("1.1.0")], folder.path()).unwrap();
        assert_eq!(found.affecting, ["a 1.1.0: RUSTSEC-2000-0001 (security): A title"]);
    }

    #[test]
    fn advisories_that_were_taken_back_and_own_packages_are_left_out() {
        let folder = database(&TEXT.replace("\n\n[versions]", "\nwithdrawn = \"2001-01-01\"\n\n[versions]"));
        assert!(affecting(&[package("1.1.0")], folder.path()).unwrap().affecting.is_empty());
        let own = Package { is_own: true, ..package("1.1.0") };
        assert_eq!(affecting(&[own], database(TEXT).path()).unwrap().read, 0);
    }

    #[test]
    fn what_is_not_a_database_is_refused() {
        assert!(affecting(&[package("1.1.0")], Path::new("absent")).is_err());
        assert!(affecting(&[package("1.1.0")], database("no front matter").path()).is_err());
    }
}
