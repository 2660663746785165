//! Finds names of types that several files define, so that a name means one thing in all stages of the compiler.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::file_cycles::{without_comments_and_tests, words};

/// The crates in which a name of a type has one meaning: the stages of the compiler, the crates that they share, and the simulators.
const CRATES: &[&str] =
    &["ctrl", "driver", "hardware", "ir", "isa", "isel", "opt", "regalloc", "rescore", "sched", "sem", "sim", "support"];

/// Prints the names of types that several files of these crates define, with the files.
pub fn print() -> Result<(), String> {
    for (name, files) in repeated_names(Path::new("crates"))? {
        println!("{name}: {}", files.join(", "));
    }
    Ok(())
}

/// Returns the names of structs, enums, traits and type aliases that several files define, each with the files.
fn repeated_names(folder: &Path) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut files_by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in CRATES {
        add_names(&folder.join(name).join("src"), name, &mut files_by_name)?;
    }
    Ok(files_by_name.into_iter().filter(|(_, files)| files.len() > 1).collect())
}

/// Adds the names of types that the files of a folder define, each with the path of the file from the folder of the crates.
fn add_names(folder: &Path, path: &str, files_by_name: &mut BTreeMap<String, Vec<String>>) -> Result<(), String> {
    let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut entries = fs::read_dir(folder).map_err(problem)?.collect::<Result<Vec<_>, _>>().map_err(problem)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            add_names(&entry.path(), &format!("{path}/{name}"), files_by_name)?;
        } else if name.ends_with(".rs") && name != "tests.rs" {
            for defined in defined_types(&fs::read_to_string(entry.path()).map_err(problem)?) {
                files_by_name.entry(defined).or_default().push(format!("{path}/{name}"));
            }
        }
    }
    Ok(())
}

/// Returns the names of the types that a file defines. Associated types of traits (`type Item = ...`) do not count.
fn defined_types(text: &str) -> Vec<String> {
    let text: String =
        without_comments_and_tests(text).lines().filter(|line| !line.starts_with(' ')).flat_map(|line| [line, "\n"]).collect();
    let words = words(&text);
    let is_keyword = |word: &str| matches!(word, "struct" | "enum" | "trait" | "type");
    words.windows(2).filter(|pair| is_keyword(&pair[0])).map(|pair| pair[1].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that several files define on purpose, with the reason.
    const KNOWN: &[(&str, &str)] = &[
        ("Fetch", "a texture fetch in `isel` and in `sim`"),
        ("Geometry", "the geometry of a texture in `isel` and in `sim`"),
        ("Handle", "a texture handle in `isel` and in `sim`"),
        ("Instruction", "an instruction of `ir`, and the machine instruction of `isa` that it becomes"),
        ("Mask", "a set of threads of a warp; the hazard checker shares no code with the simulator"),
        ("Operand", "an operand of `ir`, and that of the machine instruction of `isa`"),
        ("Operands", "operands of machine instructions in `sim`"),
        ("Space", "a memory space; `sim` shares no code with `ir`"),
        ("Stats", "the result of a pass, always named with the pass: `fold::Stats`"),
        ("TupleElements", "the elements of a tuple of registers, in two passes"),
    ];

    #[test]
    fn a_name_of_a_type_means_one_thing() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
        let repeated = repeated_names(&folder).unwrap();
        let unknown: Vec<_> = repeated.iter().filter(|(name, _)| !KNOWN.iter().any(|known| known.0 == name)).collect();
        assert!(unknown.is_empty(), "rename all but one of these types: {unknown:?}");
        let unused: Vec<_> = KNOWN.iter().filter(|known| !repeated.iter().any(|(name, _)| name == known.0)).collect();
        assert!(unused.is_empty(), "no longer repeated: {unused:?}");
    }

    #[test]
    fn definitions_of_types_are_found() {
        let text = "pub struct A<T>(T);\n\n/// enum No\npub(crate) enum B {\n    C,\n}\n\nimpl Iterator for A {\n    type Item = B;\n}\n\n\
                    type D = u8;\n\n#[cfg(test)]\nmod tests {\n    struct E;\n}\n";
        assert_eq!(defined_types(text), ["A", "B", "D"]);
    }
}
