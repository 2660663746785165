//! Creates the instrumented copy of the workspace and builds its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::render::{self, Chosen, SiteRange};
use crate::sample::{self, CRATES, Choice, Source};

/// Attributes of instrumented code: mutants may violate lints.
const ALLOW: &str =
    "#![allow(warnings, clippy::all, arithmetic_overflow, overflowing_literals, unconditional_panic, unconditional_recursion)]\n";

/// Limit on the number of builds that drop mutants which do not compile.
const ROUNDS: usize = 30;

/// The options of `prepare`.
pub struct Request {
    pub root: PathBuf,
    pub copy: PathBuf,
    /// The number of mutants in a sample.
    pub count: usize,
    /// The number of disjoint samples.
    pub samples: usize,
    pub seed: u64,
}

/// Copies, instruments and builds the workspace; writes `mutants.tsv` and `units.tsv` to the copy.
pub fn run(request: &Request) {
    let sources = sample::sources(&request.root);
    copy_workspace(&request.root, &request.copy, &sources);
    let by_crate = sample::all(&sources);
    for (name, choices) in CRATES.iter().zip(&by_crate) {
        println!("{name}: {} mutants", choices.len());
    }
    let samples = sample::draw(&by_crate, request.count, request.samples, request.seed);
    let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
    println!("samples of {sizes:?} mutants, numbered one after the other");
    let drawn = samples.concat();
    add_runtime(&request.root, &request.copy);
    let mut dropped = dropped_before(&request.copy, &table(&sources, &drawn, &BTreeSet::new()));
    for round in 0..ROUNDS {
        let places = instrument(&request.copy, &sources, &drawn, &dropped);
        let bad = check(&request.copy, &places);
        if bad.is_empty() {
            break;
        }
        println!("round {round}: {} mutants do not compile", bad.len());
        dropped.extend(bad);
        assert!(round + 1 < ROUNDS, "the copy does not compile");
    }
    fs::write(request.copy.join("mutants.tsv"), table(&sources, &drawn, &dropped)).expect("mutants.tsv");
    println!("{} mutants drawn, {} do not compile", drawn.len(), dropped.len());
    let units = build_tests(&request.copy);
    fs::write(request.copy.join("units.tsv"), units).expect("units.tsv");
}

/// Copies the files that git tracks or does not ignore, if they differ; removes nothing. Files that are instrumented later are skipped, so
/// that a file whose mutants stay the same is not rebuilt.
fn copy_workspace(root: &Path, copy: &Path, sources: &[Source]) {
    let mut later: BTreeSet<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
    later.extend(packages().iter().map(|package| package.join("Cargo.toml")));
    let output = Command::new("git").args(["ls-files", "-co", "--exclude-standard", "-z"]).current_dir(root).output().expect("git runs");
    assert!(output.status.success(), "git ls-files fails in {}", root.display());
    for name in String::from_utf8(output.stdout).expect("names in UTF-8").split_terminator('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        // The lock file of the copy contains one more crate.
        if later.contains(Path::new(name)) || (name == "Cargo.lock" && to.exists()) {
            continue;
        }
        let Ok(mut bytes) = fs::read(&from) else { continue };
        if name.ends_with("tests/common/mod.rs") {
            // Parallel runs of a test must not share files; the runner gives each run its own folder for temporary files.
            let text = String::from_utf8(bytes).expect("source in UTF-8");
            bytes = text.replace("Path::new(env!(\"CARGO_TARGET_TMPDIR\"))", "std::env::temp_dir()").into_bytes();
        }
        write_if_new(&to, &bytes);
    }
}

/// Writes a file unless it already has these contents, so that the build system does not see a change.
fn write_if_new(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder of the copy");
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Adds the crate that selects the active mutant and the test that runs single kernels, and writes the manifests.
fn add_runtime(root: &Path, copy: &Path) {
    write_if_new(&copy.join("crates/mutant/Cargo.toml"), include_bytes!("../inject/Cargo.toml"));
    write_if_new(&copy.join("crates/mutant/src/lib.rs"), include_bytes!("../inject/runtime.rs"));
    write_if_new(&copy.join("crates/driver/tests/mutant_kernels.rs"), include_bytes!("../inject/kernels.rs"));
    let dependency = "oriole-mutant = { path = \"../mutant\" }\n";
    for package in packages() {
        let path = package.join("Cargo.toml");
        let mut text = fs::read_to_string(root.join(&path)).expect("a manifest");
        let section = if package.ends_with("driver") { "[dev-dependencies]\n" } else { "[dependencies]\n" };
        if package.ends_with("driver") || CRATES.iter().any(|name| package == Path::new("crates").join(name)) {
            text = text.replacen(section, &format!("{section}{dependency}"), 1);
            assert!(text.contains(dependency), "{} has no section {section}", path.display());
        }
        text = without_tests(&text).replacen("[package]\n", "[package]\nautotests = false\n", 1);
        text.push_str("\n[[test]]\nname = \"all\"\npath = \"tests/all.rs\"\n");
        write_if_new(&copy.join(&path), text.as_bytes());
        merge_tests(&copy.join(&package));
    }
}

/// Returns a manifest without its test programs and without the line that says that they are listed.
fn without_tests(manifest: &str) -> String {
    let sections = manifest.split_inclusive("\n\n").filter(|section| !section.starts_with("[[test]]"));
    sections.collect::<String>().replace("autotests = false\n", "")
}

/// Merges the tests of a package into one executable, which links faster and takes less space than several.
fn merge_tests(package: &Path) {
    // The files that the package itself joins, and the modules that they share.
    let joined = fs::read_to_string(package.join("tests/it.rs")).unwrap_or_default();
    let mut modules: BTreeSet<String> = joined.lines().filter(|line| line.starts_with("mod ")).map(|line| format!("{line}\n")).collect();
    for entry in fs::read_dir(package.join("tests")).expect("a package with tests").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.join("main.rs").exists() {
            modules.insert(format!("#[path = \"{name}/main.rs\"]\nmod {name};\n"));
        } else if let Some(module) = name.strip_suffix(".rs").filter(|module| !matches!(*module, "all" | "it"))
            && !modules.contains(&format!("mod {module};\n"))
        {
            modules.insert(format!("#[path = \"{name}\"]\nmod {module};\n"));
        }
    }
    let text: String = modules.into_iter().collect();
    write_if_new(&package.join("tests/all.rs"), text.as_bytes());
}

/// Returns the folders of the packages whose tests can reach the crates under test.
fn packages() -> Vec<PathBuf> {
    let crates = CRATES.iter().chain(&["driver", "rescore", "cli", "filetest"]).map(|name| Path::new("crates").join(name));
    crates.chain([PathBuf::from("tools/ptx-fuzz")]).collect()
}

/// Writes the instrumented sources; returns the positions of the sites per file.
fn instrument(copy: &Path, sources: &[Source], drawn: &[Choice], dropped: &BTreeSet<usize>) -> BTreeMap<PathBuf, Vec<SiteRange>> {
    let mut by_site: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
    for (number, choice) in drawn.iter().enumerate().filter(|(number, _)| !dropped.contains(number)) {
        by_site.entry((choice.source, choice.site)).or_default().push((number, choice.mutant));
    }
    let mut places = BTreeMap::new();
    for (number, source) in sources.iter().enumerate() {
        let chosen: Vec<Chosen<'_>> = by_site
            .range((number, 0)..(number + 1, 0))
            .map(|(&(_, site), mutants)| Chosen { site: &source.sites[site], mutants: mutants.clone() })
            .collect();
        let (mut text, mut at) = render::render(&source.text, &chosen);
        if source.path.ends_with("src/lib.rs") {
            text.insert_str(0, ALLOW);
            at.iter_mut().for_each(|(_, range)| *range = range.start + ALLOW.len()..range.end + ALLOW.len());
        }
        write_if_new(&copy.join(&source.path), text.as_bytes());
        places.insert(source.path.clone(), at);
    }
    places
}

/// Builds the copy; returns the mutants that the compiler rejects.
fn check(copy: &Path, places: &BTreeMap<PathBuf, Vec<SiteRange>>) -> BTreeSet<usize> {
    let mut command = build_command(copy);
    command.arg("--no-fail-fast");
    let output = command.output().expect("cargo runs");
    let mut bad = BTreeSet::new();
    let mut unplaced = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let message = &message["message"];
        if message["level"] != "error" {
            continue;
        }
        let found = refused(message, places);
        if found.is_empty() && message["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            unplaced.push_str(message["rendered"].as_str().unwrap_or_default());
        }
        bad.extend(found);
    }
    assert!(
        !bad.is_empty() || output.status.success(),
        "errors outside of mutants:\n{unplaced}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    bad
}

/// Returns the mutants of the innermost sites that an error message points into.
fn refused(message: &Value, places: &BTreeMap<PathBuf, Vec<SiteRange>>) -> Vec<usize> {
    let mut found = Vec::new();
    for span in message["spans"].as_array().into_iter().flatten() {
        let Some(places) = span["file_name"].as_str().and_then(|name| places.get(Path::new(name))) else { continue };
        let start = span["byte_start"].as_u64().unwrap_or(0) as usize;
        let end = span["byte_end"].as_u64().unwrap_or(0) as usize;
        let around = places.iter().filter(|(_, range)| range.start <= start && end <= range.end);
        if let Some((mutants, _)) = around.min_by_key(|(_, range)| range.len()) {
            found.extend(mutants);
        }
    }
    if found.is_empty() {
        found = between(message, places);
    }
    if found.is_empty() { after(message, places) } else { found }
}

/// Returns the mutants between the positions of an error message. Removing a jump can cause errors elsewhere: a value is moved twice, or a
/// block ends that must not.
fn between(message: &Value, places: &BTreeMap<PathBuf, Vec<SiteRange>>) -> Vec<usize> {
    let mut bounds: BTreeMap<&Path, (usize, usize)> = BTreeMap::new();
    for span in message["spans"].as_array().into_iter().flatten() {
        let (Some(name), Some(start), Some(end)) = (span["file_name"].as_str(), span["byte_start"].as_u64(), span["byte_end"].as_u64())
        else {
            continue;
        };
        let bound = bounds.entry(Path::new(name)).or_insert((usize::MAX, 0));
        *bound = (bound.0.min(start as usize), bound.1.max(end as usize));
    }
    let inside = bounds.iter().flat_map(|(name, &(start, end))| {
        let places = places.get(*name).into_iter().flatten();
        places.filter(move |(_, range)| start <= range.start && range.end <= end)
    });
    inside.flat_map(|(mutants, _)| mutants.iter().copied()).collect()
}

/// Returns the next mutant after an error. Without a `return` at the end of a loop's body, a value that the body moves is moved twice; the
/// message then names positions before the `return` only.
fn after(message: &Value, places: &BTreeMap<PathBuf, Vec<SiteRange>>) -> Vec<usize> {
    let next = |span: &Value| {
        let places = places.get(Path::new(span["file_name"].as_str()?))?;
        let end = span["byte_end"].as_u64()? as usize;
        places.iter().filter(|(_, range)| range.start >= end).min_by_key(|(_, range)| range.start)
    };
    let primary = message["spans"].as_array().into_iter().flatten().filter(|span| span["is_primary"] == true);
    primary.filter_map(next).flat_map(|(mutants, _)| mutants.iter().copied()).collect()
}

/// Returns a table with one line per mutant: number, crate, position, kind, text before and after, and whether it compiles.
fn table(sources: &[Source], drawn: &[Choice], dropped: &BTreeSet<usize>) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = String::new();
    for (number, choice) in drawn.iter().enumerate() {
        let source = &sources[choice.source];
        let site = &source.sites[choice.site];
        let mutant = &site.mutants[choice.mutant];
        let (line, column) = place(&source.text, site.range.start);
        let before = one_line(&source.text[site.range.clone()]);
        let state = if dropped.contains(&number) { "refused" } else { "built" };
        let name = CRATES[source.crate_index];
        let path = source.path.display();
        lines += &format!("{number}\t{name}\t{path}:{line}:{column}\t{}\t{before}\t{}\t{state}\n", mutant.kind, one_line(&mutant.text));
    }
    lines
}

/// Returns the mutants that an earlier build of the same samples rejected, to skip the builds that find them.
fn dropped_before(copy: &Path, drawn: &str) -> BTreeSet<usize> {
    let old = fs::read_to_string(copy.join("mutants.tsv")).unwrap_or_default();
    let same = |(old, new): &(&str, &str)| old.strip_suffix("\trefused").is_some_and(|old| new.strip_suffix("\tbuilt") == Some(old));
    old.lines().zip(drawn.lines()).enumerate().filter(|(_, lines)| same(lines)).map(|(number, _)| number).collect()
}

/// Returns line and column of a byte, both counted from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..byte];
    let line = before.matches('\n').count() + 1;
    (line, byte - before.rfind('\n').map_or(0, |end| end + 1) + 1)
}

/// Returns the command that builds the tests that can reach the crates under test.
fn build_command(copy: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["test", "--no-run", "--message-format=json", "--quiet"]).current_dir(copy);
    for package in packages() {
        let name = package.file_name().expect("a folder with a name").to_string_lossy().into_owned();
        command.arg("-p").arg(format!("oriole-{name}"));
    }
    command
}

/// Builds the tests. Returns one line per executable: its name, path and working folder.
fn build_tests(copy: &Path) -> String {
    let mut command = build_command(copy);
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "the tests do not build:\n{}", String::from_utf8_lossy(&output.stderr));
    let mut units = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(executable), Some(manifest)) = (message["executable"].as_str(), message["manifest_path"].as_str()) else { continue };
        let folder = Path::new(manifest).parent().expect("a package in a folder");
        let package = folder.file_name().expect("a folder with a name").to_string_lossy().into_owned();
        let target = message["target"]["name"].as_str().unwrap_or_default();
        let name = format!("{package}/{target}{}", if message["profile"]["test"] == true { "" } else { " (program)" });
        units.insert(name, format!("{executable}\t{}", folder.display()));
    }
    units.iter().map(|(name, rest)| format!("{name}\t{rest}\n")).collect()
}
