//! Turns the table files under `data/` into Rust code.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use oriole_ptx_table::{Table, generate, parse_special_registers};

const SPECIAL_REGISTERS: &str = "special_registers.tbl";

fn main() {
    println!("cargo::rerun-if-changed=data");
    if let Err(message) = run() {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join("data");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "tbl"))
        .collect();
    files.sort();
    let mut table = Table::default();
    let mut special = Vec::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if name == SPECIAL_REGISTERS {
            special = parse_special_registers(&name, &text).map_err(|e| e.to_string())?;
        } else {
            table.parse(&name, &text).map_err(|e| e.to_string())?;
        }
    }
    let code = generate(&table, &special)?;
    let out = Path::new(&env::var("OUT_DIR").map_err(|e| e.to_string())?).join("table.rs");
    fs::write(&out, code).map_err(|e| format!("{}: {e}", out.display()))
}
