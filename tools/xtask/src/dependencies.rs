//! Checks the dependencies of all packages of the workspace: every declared dependency is used, every licence is accepted, no package is
//! compiled in two versions, and packages depend only on packages below them in the table of `docs/architecture.md`.
//!
//! The facts come from `cargo metadata`, which needs no network once the packages are downloaded. The checks do the part of cargo-machete
//! and cargo-deny that the project needs without the minutes that building these tools takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// Licences whose terms Oriole can meet when it is distributed as a program.
const LICENCES: &[&str] =
    &["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unicode-3.0", "Unlicense", "Zlib"];

/// Packages with another licence that are accepted because only tests and build tools use them, with the reason.
const OF_TESTS_ONLY: &[(&str, &str)] = &[("cbindgen", "MPL-2.0; generates the C header in a test, and is not distributed")];

/// Packages that may occur in several versions, with the reason.
const SEVERAL_VERSIONS: &[(&str, &str)] = &[
    ("syn", "only in derive macros, whose authors move to version 3 at different times"),
    ("hashbrown", "the later version only in cbindgen, in a test"),
    ("winnow", "only in cbindgen, in a test"),
];

/// The page whose table lists the packages from the top to the bottom.
const ORDER: &str = "docs/architecture.md";

/// Prints all problems; fails if there are any.
pub fn check() -> Result<(), String> {
    let problems = problems()?;
    problems.iter().for_each(|problem| println!("{problem}"));
    if problems.is_empty() { Ok(()) } else { Err(format!("{} problems with dependencies", problems.len())) }
}

fn problems() -> Result<Vec<String>, String> {
    let root = root();
    let packages = packages(&root)?;
    let page = fs::read_to_string(root.join(ORDER)).map_err(|error| format!("{ORDER}: {error}"))?;
    let mut problems = unused(&packages)?;
    problems.extend(licences(&packages));
    problems.extend(several_versions(&packages));
    problems.extend(upward(&packages, &table_order(&page)));
    Ok(problems)
}

/// Returns all packages that the workspace uses, and its own.
pub fn packages_of_workspace() -> Result<Vec<Package>, String> {
    packages(&root())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One package of the dependency graph.
pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: String,
    pub folder: PathBuf,
    pub is_own: bool,
    pub dependencies: Vec<Dependency>,
}

/// One dependency in a manifest.
pub struct Dependency {
    name: String,
    /// The name in the source code.
    identifier: String,
    section: ManifestSection,
}

/// The section of a manifest that declares a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ManifestSection {
    Normal,
    Build,
    Dev,
}

impl ManifestSection {
    fn name(self) -> &'static str {
        match self {
            ManifestSection::Normal => "dependencies",
            ManifestSection::Build => "build-dependencies",
            ManifestSection::Dev => "dev-dependencies",
        }
    }

    /// Returns the files and folders of a package whose code may use dependencies of the section.
    fn sources(self) -> &'static [&'static str] {
        match self {
            ManifestSection::Normal => &["src"],
            ManifestSection::Build => &["build.rs", "build"],
            ManifestSection::Dev => &["src", "tests", "benches", "examples"],
        }
    }
}

/// Asks cargo for all packages that the workspace uses. Cargo downloads those that only other systems need: no build on this one did.
fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let own: BTreeSet<&str> = list(&metadata["workspace_members"]).iter().filter_map(Value::as_str).collect();
    Ok(list(&metadata["packages"]).iter().map(|package| read_package(package, &own)).collect())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn read_package(package: &Value, own: &BTreeSet<&str>) -> Package {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    Package {
        name: text("name"),
        version: text("version"),
        licence: text("license"),
        folder: Path::new(&text("manifest_path")).parent().map(Path::to_path_buf).unwrap_or_default(),
        is_own: own.contains(text("id").as_str()),
        dependencies: list(&package["dependencies"]).iter().map(read_dependency).collect(),
    }
}

fn read_dependency(dependency: &Value) -> Dependency {
    let name = dependency["name"].as_str().unwrap_or_default().to_owned();
    let section = match dependency["kind"].as_str() {
        Some("build") => ManifestSection::Build,
        Some("dev") => ManifestSection::Dev,
        _ => ManifestSection::Normal,
    };
    Dependency { identifier: dependency["rename"].as_str().unwrap_or(&name).replace('-', "_"), name, section }
}

/// Returns the dependencies of own packages that no code of the package names.
fn unused(packages: &[Package]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in packages.iter().filter(|package| package.is_own) {
        let mut identifiers: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
        for dependency in &package.dependencies {
            let section = dependency.section;
            if !identifiers.contains_key(section.name()) {
                let mut found = BTreeSet::new();
                for source in section.sources() {
                    // Documentation tests may use development dependencies only.
                    collect_identifiers(&package.folder.join(source), section == ManifestSection::Dev, &mut found)?;
                }
                identifiers.insert(section.name(), found);
            }
            if !identifiers[section.name()].contains(&dependency.identifier) {
                problems.push(format!("{}: {} of {} is not used", package.name, dependency.name, section.name()));
            }
        }
    }
    Ok(problems)
}

/// Adds the identifiers of a Rust file, or of all Rust files in a folder. A path that does not exist has none.
fn collect_identifiers(path: &Path, with_comments: bool, found: &mut BTreeSet<String>) -> Result<(), String> {
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))? {
            collect_identifiers(&entry.map_err(|error| error.to_string())?.path(), with_comments, found)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && path.exists() {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        add_identifiers(&text, with_comments, found);
    }
    Ok(())
}

fn add_identifiers(text: &str, with_comments: bool, found: &mut BTreeSet<String>) {
    for line in text.lines().filter(|line| with_comments || !line.trim_start().starts_with("//")) {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        found.extend(words.map(str::to_owned));
    }
}

/// Returns the packages whose licence is not accepted.
fn licences(packages: &[Package]) -> Vec<String> {
    let is_of_tests = |package: &&Package| OF_TESTS_ONLY.iter().any(|(name, _)| *name == package.name);
    let refused = packages.iter().filter(|package| !is_accepted(&package.licence) && !is_of_tests(package));
    refused.map(|package| format!("{} {}: licence `{}` is not accepted", package.name, package.version, package.licence)).collect()
}

/// Returns whether an SPDX expression can be met: `AND` needs all its terms, `OR` one of them. Parentheses are understood around
/// alternatives, as in `(MIT OR Apache-2.0) AND Unicode-3.0`. Old packages write `/` for `OR`.
fn is_accepted(expression: &str) -> bool {
    if expression.contains('(') {
        return expression.split(" AND ").all(|term| is_accepted(term.trim().trim_start_matches('(').trim_end_matches(')')));
    }
    expression.replace('/', " OR ").split(" OR ").any(|choice| choice.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

/// Returns the packages that occur in several versions.
fn several_versions(packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let is_problem = |(name, versions): &(&str, Vec<&str>)| versions.len() > 1 && SEVERAL_VERSIONS.iter().all(|(known, _)| known != name);
    let found = versions.into_iter().filter(is_problem);
    found.map(|(name, versions)| format!("{name} is compiled in versions {}", versions.join(" and "))).collect()
}

/// Returns the names in the table of crates, from the top to the bottom.
fn table_order(page: &str) -> Vec<&str> {
    let row = |line: &'_ str| -> Option<(usize, usize)> {
        let rest = line.strip_prefix("| `")?;
        let end = rest.find('`')?;
        let folder = rest[end..].strip_prefix("` | `")?;
        (folder.starts_with("crates/") || folder.starts_with("tools/")).then_some((3, 3 + end))
    };
    page.lines().filter_map(|line| row(line).map(|(start, end)| &line[start..end])).collect()
}

/// Returns own packages that depend on a package above them, in any section of the manifest, and own packages that the table does not list.
fn upward(packages: &[Package], order: &[&str]) -> Vec<String> {
    let position = |name: &str| order.iter().position(|listed| *listed == name);
    let mut problems = Vec::new();
    for package in packages.iter().filter(|package| package.is_own) {
        let Some(own) = position(&package.name) else {
            problems.push(format!("{}: not in the table of {ORDER}", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| position(&dependency.name).is_some_and(|other| other < own)) {
            problems.push(format!("{}: {} of {} is above it in {ORDER}", package.name, dependency.name, dependency.section.name()));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_has_no_problems_with_dependencies() {
        assert_eq!(problems().unwrap(), Vec::<String>::new());
    }

    fn package(name: &str, licence: &str, dependencies: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: name.to_string(), identifier: name.to_string(), section: ManifestSection::Dev };
        let dependencies = dependencies.iter().map(dependency).collect();
        Package { name: name.into(), version: "1.0.0".into(), licence: licence.into(), folder: PathBuf::new(), is_own: true, dependencies }
    }

    #[test]
    fn licences_are_judged_by_their_terms() {
        for accepted in
            ["MIT", "MIT OR Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT OR Apache-2.0 OR LGPL-2.1-or-later", "MIT/Apache-2.0"]
        {
            assert!(is_accepted(accepted), "{accepted}");
        }
        for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "GPL-2.0/GPL-3.0"] {
            assert!(!is_accepted(refused), "{refused}");
        }
        assert_eq!(licences(&[package("a", "GPL-3.0", &[])]).len(), 1);
    }

    #[test]
    fn a_package_may_use_only_packages_below_it() {
        let order = table_order("| crate | folder |\n| `top` | `crates/top` | uses `low` |\n| `low` | `tools/low` | text |\n");
        assert_eq!(order, ["top", "low"]);
        assert!(upward(&[package("top", "MIT", &["low", "serde"])], &order).is_empty());
        assert_eq!(upward(&[package("low", "MIT", &["top"])], &order).len(), 1);
        assert_eq!(upward(&[package("other", "MIT", &[])], &order).len(), 1);
    }

    #[test]
    fn two_versions_of_a_package_are_found() {
        let second = Package { version: "2.0.0".into(), ..package("a", "MIT", &[]) };
        assert_eq!(several_versions(&[package("a", "MIT", &[]), second]), ["a is compiled in versions 1.0.0 and 2.0.0"]);
    }

    #[test]
    fn names_in_comments_are_not_uses() {
        let mut found = BTreeSet::new();
        add_identifiers("use half::f16;\n// serde is not used\n", false, &mut found);
        assert!(found.contains("half") && !found.contains("serde"));
    }
}
