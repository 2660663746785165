//! Draws samples of mutants from the crates under test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sites::{self, Site};

/// The crates under test.
pub const CRATES: [&str; 5] = ["ctrl", "sched", "regalloc", "opt", "isel"];

/// Lowest number of mutants per crate in a sample.
const LEAST: usize = 40;

/// A source file under test, with its path relative to the workspace and its sites.
pub struct Source {
    pub path: PathBuf,
    pub crate_index: usize,
    pub text: String,
    pub sites: Vec<Site>,
}

/// A mutant of the sample. Its number is its index in the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    pub source: usize,
    pub site: usize,
    pub mutant: usize,
}

/// Reads the sources of the crates under test, sorted by path within each crate.
pub fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for (crate_index, name) in CRATES.iter().enumerate() {
        for path in files(root, name) {
            let text = fs::read_to_string(&path).expect("a source file");
            let sites = sites::find(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let path = path.strip_prefix(root).expect("a path under the root").to_path_buf();
            found.push(Source { path, crate_index, text, sites });
        }
    }
    found
}

/// Returns the source files of a crate, less those for tests only, sorted by path.
fn files(root: &Path, name: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(&root.join("crates").join(name).join("src"), &mut files);
    files.sort();
    leave_out_tests(&mut files);
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Removes files, and folders with the rest of their modules, that are reached through `#[cfg(test)] mod name;` only.
fn leave_out_tests(files: &mut Vec<PathBuf>) {
    let mut left_out = Vec::new();
    for path in files.iter() {
        let text = fs::read_to_string(path).expect("a source file");
        let modules = sites::test_modules(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        left_out.extend(modules.iter().map(|name| module_folder(path).join(name)));
    }
    files.retain(|path| !left_out.iter().any(|module| *path == module.with_extension("rs") || path.starts_with(module)));
}

/// Returns the folder in which the modules of a file are.
fn module_folder(path: &Path) -> PathBuf {
    let is_root = path.file_name().is_some_and(|name| name == "lib.rs" || name == "main.rs" || name == "mod.rs");
    if is_root { path.with_file_name("") } else { path.with_extension("") }
}

/// Returns all mutants of each crate.
pub fn all(sources: &[Source]) -> Vec<Vec<Choice>> {
    let mut by_crate = vec![Vec::new(); CRATES.len()];
    for (number, source) in sources.iter().enumerate() {
        for (site, at) in source.sites.iter().enumerate() {
            by_crate[source.crate_index].extend((0..at.mutants.len()).map(|mutant| Choice { source: number, site, mutant }));
        }
    }
    by_crate
}

/// Draws disjoint samples of about `count` mutants, in random order. Each crate has a share proportional to its mutants, at least
/// [`LEAST`].
pub fn draw(by_crate: &[Vec<Choice>], count: usize, samples: usize, seed: u64) -> Vec<Vec<Choice>> {
    let total: usize = by_crate.iter().map(Vec::len).sum();
    let mut random = SplitMix(seed);
    let mut drawn = vec![Vec::new(); samples];
    for choices in by_crate {
        let share = (count * choices.len()).div_ceil(total.max(1)).max(LEAST);
        let mut choices = choices.clone();
        random.shuffle(&mut choices);
        drawn.iter_mut().zip(choices.chunks(share)).for_each(|(sample, part)| sample.extend_from_slice(part));
    }
    drawn.iter_mut().for_each(|sample| random.shuffle(sample));
    drawn
}

/// A pseudorandom number generator (SplitMix64).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Shuffles items (Fisher-Yates).
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = (self.next() % (last as u64 + 1)) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files called `tests.rs` are compiled for tests only; the rest of the crates is not.
    #[test]
    fn files_for_tests_are_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let [opt, sched] = ["opt", "sched"].map(|name| files(&root, name));
        let has = |files: &[PathBuf], path: &str| files.iter().any(|file| file.ends_with(path));
        assert!(has(&opt, "src/combine/logic.rs") && has(&opt, "src/combine.rs") && has(&sched, "tree/search.rs"));
        assert!(!has(&sched, "tree/tests.rs") && !has(&sched, "weighted/tests.rs"));
    }

    #[test]
    fn modules_are_beside_or_below_their_file() {
        assert_eq!(module_folder(Path::new("src/a/mod.rs")), Path::new("src/a/"));
        assert_eq!(module_folder(Path::new("src/lib.rs")), Path::new("src/"));
        assert_eq!(module_folder(Path::new("src/a.rs")), Path::new("src/a"));
    }
}
