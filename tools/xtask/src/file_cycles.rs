//! Finds cycles of files in a crate: groups of files that use items of each other, so that none of them can be understood or changed alone.
//!
//! The search reads the text of the files and needs no compiler. A path (`crate::a::f`, `super::f`, `a::f` for a submodule `a`, or a name
//! that a `use` imports) is an edge from the file that contains it to the file that defines the item; a `pub use` is followed to the
//! definition, and is no edge itself. Unit tests and comments do not count, nor do methods, which have no path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use oriole_support::strongly_connected;

/// The source files of a crate, by module path (`["a", "b"]` for `a/b.rs`; the root is the empty path).
struct Files {
    by_module: BTreeMap<Vec<String>, FileItems>,
}

/// What the search knows about one file.
#[derive(Default)]
struct FileItems {
    /// Names of the items that the file defines.
    defined: BTreeSet<String>,
    /// For each name that a `use` imports: the full path.
    imported: BTreeMap<String, Vec<String>>,
    /// Paths that the code uses, including those of imports, except those of public imports.
    used: BTreeSet<Vec<String>>,
}

/// Maximum number of imports to follow until the definition of an item; a chain that is longer imports itself.
const MAX_IMPORTS: usize = 10;

/// Prints the file cycles of each crate in a folder, with the uses that each consists of.
pub fn print(crates: &str) -> Result<(), String> {
    let folders = fs::read_dir(crates).map_err(|error| format!("{crates}: {error}"))?;
    let mut folders: Vec<_> = folders.flatten().map(|entry| entry.path().join("src")).filter(|folder| folder.is_dir()).collect();
    folders.sort();
    for folder in folders {
        let files = Files::read_all(&folder)?;
        for cycle in files.cycles() {
            println!("{}: {} files: {}", folder.display(), cycle.len(), cycle.join(", "));
            files.uses_within(&cycle).iter().for_each(|(user, used, name)| println!("    {user} uses {name} of {used}"));
        }
    }
    Ok(())
}

impl Files {
    /// Reads the source files of a crate.
    fn read_all(folder: &Path) -> Result<Files, String> {
        let mut files = Files { by_module: BTreeMap::new() };
        files.read(folder, &[])?;
        Ok(files)
    }

    /// Reads all files of a folder, which is the module `parent`.
    fn read(&mut self, folder: &Path, parent: &[String]) -> Result<(), String> {
        let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let module: Vec<String> = match name.as_str() {
                "lib" | "main" | "mod" => parent.to_vec(),
                _ => parent.iter().cloned().chain([name.clone()]).collect(),
            };
            if path.is_dir() {
                self.read(&path, &module)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
                let text = fs::read_to_string(&path).map_err(problem)?;
                self.by_module.insert(module, FileItems::parse(&text));
            }
        }
        Ok(())
    }

    /// Returns the cycles, each as the sorted names of its modules.
    fn cycles(&self) -> Vec<Vec<String>> {
        let modules: Vec<&Vec<String>> = self.by_module.keys().collect();
        let number = |module: &Vec<String>| modules.binary_search(&module).ok();
        let successors: Vec<Vec<usize>> = self
            .by_module
            .iter()
            .map(|(module, file)| {
                let targets = file.used.iter().filter_map(|path| self.defining_file(module, path, MAX_IMPORTS));
                targets.filter(|target| target != module).filter_map(|target| number(&target)).collect()
            })
            .collect();
        let name = |&at: &usize| module_name(modules[at]);
        let groups = strongly_connected(&successors);
        let mut cycles: Vec<Vec<String>> =
            groups.iter().filter(|group| group.len() > 1).map(|group| group.iter().map(name).collect()).collect();
        cycles.iter_mut().for_each(|cycle| cycle.sort());
        cycles.sort();
        cycles
    }

    /// Returns the uses of items between the modules of a cycle, each as the user, the module that defines the item, and the item's name.
    fn uses_within(&self, cycle: &[String]) -> Vec<(String, String, String)> {
        let mut uses = Vec::new();
        for (module, file) in self.by_module.iter().filter(|(module, _)| cycle.contains(&module_name(module))) {
            for path in &file.used {
                let defining = self.defining_file(module, path, MAX_IMPORTS).filter(|defining| defining != module);
                let Some(used) = defining.map(|defining| module_name(&defining)).filter(|used| cycle.contains(used)) else { continue };
                uses.push((module_name(module), used, path.last().cloned().unwrap_or_default()));
            }
        }
        uses.sort();
        uses
    }

    /// Returns the module of the file that defines the item at `path`, as seen from the file `module`; `None` for an item of another crate.
    fn defining_file(&self, module: &[String], path: &[String], imports_left: usize) -> Option<Vec<String>> {
        if imports_left == 0 {
            return None;
        }
        let Some(absolute) = self.absolute(module, path) else {
            let import = self.by_module.get(module)?.imported.get(&path[0]).filter(|import| *import != path)?;
            let full: Vec<String> = import.iter().chain(&path[1..]).cloned().collect();
            return self.defining_file(module, &full, imports_left - 1);
        };
        let depth = (0..=absolute.len()).rev().find(|&depth| self.by_module.contains_key(&absolute[..depth]))?;
        let (file, rest) = absolute.split_at(depth);
        let import = rest.first().filter(|name| !self.by_module[file].defined.contains(*name));
        let import = import.and_then(|name| self.by_module[file].imported.get(name));
        let followed = import.and_then(|import| {
            let full: Vec<String> = import.iter().chain(&rest[1..]).cloned().collect();
            self.defining_file(file, &full, imports_left - 1)
        });
        Some(followed.unwrap_or_else(|| file.to_vec()))
    }

    /// Returns a path from the root of the crate; `None` if the first name is neither a keyword nor a submodule.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let submodule = || module.iter().chain(&path[..1]).cloned().collect::<Vec<String>>();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (module.get(..module.len().checked_sub(supers)?)?, &path[supers..]),
            _ if self.by_module.contains_key(&submodule()) => (module, path),
            _ => return None,
        };
        Some(base.iter().chain(rest).cloned().collect())
    }
}

impl FileItems {
    fn parse(text: &str) -> FileItems {
        let mut file = FileItems::default();
        let words = words(&without_comments_and_tests(text));
        let mut at = 0;
        while at < words.len() {
            let is_item = matches!(words[at].as_str(), "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "union");
            if words[at] == "use" {
                let end = words[at..].iter().position(|word| word == ";").map_or(words.len(), |length| at + length);
                let is_public = words[..at].last().is_some_and(|word| word == "pub" || word == ")");
                file.add_imports(&words[at + 1..end], is_public);
                at = end;
            } else if is_item && words.get(at + 1).is_some_and(|word| is_name(word)) {
                file.defined.insert(words[at + 1].clone());
            } else if is_name(&words[at]) && words.get(at + 1).is_some_and(|word| word == "::") {
                let mut path = vec![words[at].clone()];
                while at + 2 < words.len() && words[at + 1] == "::" && is_name(&words[at + 2]) {
                    path.push(words[at + 2].clone());
                    at += 2;
                }
                file.used.insert(path);
            }
            at += 1;
        }
        file
    }

    /// Adds the imports of the tree of a `use`, such as `crate :: a :: { b , c as d }`.
    fn add_imports(&mut self, tree: &[String], is_public: bool) {
        let (mut prefixes, mut path): (Vec<usize>, Vec<String>) = (Vec::new(), Vec::new());
        let mut renamed = None;
        // Whether the path was extended after the last import; the prefix of a group is not an import.
        let mut is_open = false;
        for (at, word) in tree.iter().enumerate() {
            match word.as_str() {
                "::" | "as" => {}
                "{" => {
                    prefixes.push(path.len());
                    is_open = false;
                }
                "," | "}" => {
                    if std::mem::take(&mut is_open) {
                        self.add_import(&path, renamed.take(), is_public);
                    }
                    if word == "}" {
                        prefixes.pop();
                    }
                    path.truncate(prefixes.last().copied().unwrap_or(0));
                }
                name if at > 0 && tree[at - 1] == "as" => renamed = Some(name.to_owned()),
                name => {
                    path.push(name.to_owned());
                    is_open = true;
                }
            }
        }
        if is_open {
            self.add_import(&path, renamed, is_public);
        }
    }

    fn add_import(&mut self, path: &[String], renamed: Option<String>, is_public: bool) {
        let path = if path.last().is_some_and(|last| last == "self" || last == "*") { &path[..path.len() - 1] } else { path };
        // A path of one name imports another crate.
        let [_, .., last] = path else { return };
        self.imported.insert(renamed.unwrap_or_else(|| last.clone()), path.to_vec());
        if !is_public {
            self.used.insert(path.to_vec());
        }
    }
}

/// Returns the path of a module as text; `lib` for the root.
fn module_name(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Divides a text into names, `::`, and other characters.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("::") => 2,
            c if c.is_alphanumeric() || c == '_' => rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        words.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    words
}

/// Returns the text of a Rust file without comments and without the items marked `#[cfg(test)]`. The file must be formatted by rustfmt: an
/// item then ends at the first line that starts with `}`, or is a single line.
pub fn without_comments_and_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            if lines.next().is_some_and(|item| item.ends_with('{')) {
                lines.by_ref().take_while(|line| !line.starts_with('}')).for_each(drop);
            }
            continue;
        }
        kept += line.split("//").next().unwrap_or_default();
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Crates without file cycles.
    const CRATES_WITHOUT_CYCLES: &[&str] =
        &["ctrl", "driver", "gpu", "ir", "isel", "kernel-test", "opt", "oracles", "oriole", "regalloc", "sched", "sem", "support", "wasm"];

    #[test]
    fn files_of_a_stage_do_not_use_each_other_in_circles() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
        for name in CRATES_WITHOUT_CYCLES {
            assert_eq!(Files::read_all(&root.join(name).join("src")).unwrap().cycles(), Vec::<Vec<String>>::new(), "crates/{name}");
        }
    }

    fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Files::read_all(folder.path()).unwrap().cycles()
    }

    #[test]
    fn a_cycle_is_found_through_imports_and_paths() {
        let lib = ("lib.rs", "mod a;\nmod b;\npub use a::{A, f as g};\n");
        let a = ("a.rs", "use crate::b::{self, B};\npub struct A(B);\npub fn f() { b::h() }\n");
        assert_eq!(cycles_of(&[lib, a, ("b.rs", "pub struct B;\npub fn h() {}\n")]), Vec::<Vec<String>>::new());
        assert_eq!(cycles_of(&[lib, a, ("b.rs", "pub struct B;\npub fn h() { super::a::f() }\n")]), [["a", "b"]]);
        // The import goes through the root, which only exports the name.
        let group = "use crate::{\n    A,\n};\npub struct B;\npub fn h() -> A {}\n";
        assert_eq!(cycles_of(&[lib, a, ("b.rs", group)]), [["a", "b"]]);
        assert_eq!(cycles_of(&[lib, a, ("b.rs", "use crate::g;\npub struct B;\npub fn h() { g() }\n")]), [["a", "b"]]);
    }

    #[test]
    fn a_cycle_of_a_module_and_its_submodule_is_found() {
        let lib = ("lib.rs", "mod a;\n");
        let user = ("a.rs", "mod part;\npub struct State;\npub fn run() { part::run(State) }\n");
        assert_eq!(cycles_of(&[lib, user, ("a/part.rs", "use super::State;\npub fn run(_: State) {}\n")]), [["a", "a::part"]]);
        assert_eq!(cycles_of(&[lib, user, ("a/part.rs", "pub fn run(_: u8) {}\n")]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn the_uses_of_a_cycle_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.rs", "use crate::b::B;\npub struct A(B);\n"), ("b.rs", "use crate::a::A;\npub struct B(Box<A>);\n")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let files = Files::read_all(folder.path()).unwrap();
        let uses = files.uses_within(&files.cycles()[0]);
        let uses: Vec<[&str; 3]> = uses.iter().map(|(user, used, name)| [user.as_str(), used, name]).collect();
        assert_eq!(uses, [["a", "b", "B"], ["b", "a", "A"]]);
    }

    #[test]
    fn comments_and_unit_tests_are_no_uses() {
        let lib = ("lib.rs", "mod a;\nmod b;\n");
        let a = ("a.rs", "use crate::b::B;\npub struct A(B);\n");
        let b = "/// See crate::a::A.\npub struct B;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        assert_eq!(cycles_of(&[lib, a, ("b.rs", b)]), Vec::<Vec<String>>::new());
    }
}
