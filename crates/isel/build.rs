//! Build script: splits the PTX files of the library into single functions, each a small module. So a compilation parses only the
//! functions that it needs, and a new function needs no Rust code. Does the same for the runtime functions.
//!
//! A library file contains `.version`, `.target` and `.address_size`, then functions: each starts with `.func` or `.weak .func` and ends
//! with `}` at the start of a line.
//!
//! A library function with a slow path ([`SLOW_PATH_START`]) gives two more functions: `__oriole_fast_NAME` of the library is its fast
//! path, with the predicate `fast` as second result; `__oriole_slow_NAME` is a runtime function.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The lines between the fast path and the slow path of a library function.
const SLOW_PATH_START: &str = "@!fast bra SLOW;\nret;\nSLOW:\n";

fn main() {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let write = |name: &str, text: String| fs::write(out.join(name), text).expect("the build folder can be written");
    let mut library = library(&home.join("library"));
    let mut runtime: BTreeMap<String, String> = BTreeMap::new();
    for file in ["barrier.ptx", "warp.ptx", "warp_f32.ptx"] {
        runtime.extend(cut(file, &read(&home.join("runtime").join(file))));
    }
    for (name, module) in library.clone() {
        if let Some((fast, slow)) = split(&name, &module) {
            library.insert(name.replace("__oriole_", "__oriole_fast_"), fast);
            runtime.insert(name.replace("__oriole_", "__oriole_slow_"), slow);
        }
    }
    write("library.rs", table("LIBRARY", &library));
    write("runtime.rs", table("RUNTIME", &runtime));
}

fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the name and text of every library function.
fn library(folder: &Path) -> BTreeMap<String, String> {
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
    functions
}

/// Returns Rust source of a constant with the name and text of every function.
fn table(constant: &str, functions: &BTreeMap<String, String>) -> String {
    let mut text = format!("/// Name and text of each function, sorted by name.\nconst {constant}: &[(&str, &str)] = &[\n");
    for (name, module) in functions {
        let _ = writeln!(text, "    ({name:?}, {module:?}),");
    }
    text.push_str("];\n");
    text
}

/// Returns the modules of the fast path and of the slow path of a library function; `None` if it has no slow path. Both have all
/// declarations of registers.
fn split(name: &str, module: &str) -> Option<(String, String)> {
    let (before, after) = module.split_once(SLOW_PATH_START)?;
    let (head, start) = before.split_once("{\n").unwrap_or_else(|| panic!("{name} has no body"));
    let declarations: String = start.lines().filter(|line| line.starts_with(".reg")).map(|line| format!("{line}\n")).collect();
    let predicates = [".reg .pred fast, ", ".reg .pred fast;\n"].iter().find(|start| declarations.contains(**start));
    let predicates = predicates.unwrap_or_else(|| panic!("{name} does not declare the predicate `fast` first"));
    let rest = if predicates.ends_with('\n') { "" } else { ".reg .pred " };
    let fast_head = head.replacen(") __oriole_", ", .reg .pred fast) __oriole_fast_", 1);
    let slow_head = head.replacen(".func", ".weak .func", 1).replacen("__oriole_", "__oriole_slow_", 1);
    let fast_body = start.replacen(predicates, rest, 1);
    Some((format!("{fast_head}{{\n{fast_body}ret;\n}}\n"), format!("{slow_head}{{\n{declarations}{after}")))
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
        if code.starts_with(".func") || code.starts_with(".weak .func") {
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
