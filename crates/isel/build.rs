//! Build script: splits the PTX files of the library into single functions, each a small module. So a compilation parses only the
//! functions that it needs, and a new function needs no Rust code. Also lists the names of the runtime functions, which every compilation
//! needs.
//!
//! A library file contains `.version`, `.target` and `.address_size`, then functions: each starts with `.func` and ends with `}` at the
//! start of a line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let write = |name: &str, text: String| fs::write(out.join(name), text).expect("the build folder can be written");
    write("library.rs", library(&home.join("library")));
    write("runtime.rs", runtime(&home.join("runtime").join("barrier.ptx")));
}

fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns Rust source of a constant with the name and text of every library function.
fn library(folder: &Path) -> String {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".ptx"))
        .collect();
    names.sort();
    let mut functions: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        for (function, module) in cut(&name, &read(&folder.join(&name))) {
            assert!(functions.insert(function.clone(), module).is_none(), "library/{name}: {function} is there already");
        }
    }
    let mut text = String::from("/// Name and text of each function, sorted by name.\nconst LIBRARY: &[(&str, &str)] = &[\n");
    for (name, module) in functions {
        let _ = writeln!(text, "    ({name:?}, {module:?}),");
    }
    text.push_str("];\n");
    text
}

/// Returns Rust source of a constant with the names of the runtime functions in file order.
fn runtime(path: &Path) -> String {
    let text = read(path);
    let heads = text.lines().filter(|line| line.contains(".func"));
    let names: Vec<String> = heads.map(|line| function_name("runtime", line)).collect();
    format!("/// The name of each function, in the order of the file.\nconst NAMES: &[&str] = &{names:?};\n")
}

/// Returns the functions of a file by name; each text starts with the file's directives and has no comments.
fn cut(file: &str, text: &str) -> Vec<(String, String)> {
    let mut header = String::new();
    let mut functions: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        if code.is_empty() {
            continue;
        }
        if code.starts_with(".func") {
            assert!(!is_inside, "library/{file}: a function does not end with `}}` at the start of a line");
            is_inside = true;
            functions.push((function_name(file, code), header.clone()));
        }
        let into = match functions.last_mut() {
            Some((_, module)) if is_inside => module,
            None if [".version", ".target", ".address_size"].iter().any(|directive| code.starts_with(directive)) => &mut header,
            _ => panic!("library/{file}: `{code}` is outside of every function"),
        };
        into.push_str(code);
        into.push('\n');
        is_inside &= !line.starts_with('}');
    }
    assert!(!is_inside, "library/{file} ends inside a function");
    functions
}

/// Returns the name in `.func (.reg .u32 q) NAME (...)`.
fn function_name(file: &str, code: &str) -> String {
    let start = code.find("__oriole_").unwrap_or_else(|| panic!("{file}: a function's name starts with __oriole_: {code}"));
    code[start..].chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect()
}
