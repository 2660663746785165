//! Reads the table files under `data/`, checks them, and turns them into Rust code.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use oriole_isa_table::{Table, check, generate, parse_properties, parse_widths};

const PROPERTIES: &str = "properties.tbl";
const WIDTHS: &str = "widths.tbl";

fn main() {
    println!("cargo::rerun-if-changed=data");
    if let Err(message) = run() {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join("data");
    // For the build script of the hardware model, which is in another folder once the crates are packaged.
    println!("cargo::metadata=data={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sass"))
        .collect();
    files.sort();
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let mut table = Table::default();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table.parse(&name, &read(&path)?).map_err(|e| e.to_string())?;
    }
    check(&table).map_err(|e| e.to_string())?;
    let properties = parse_properties(PROPERTIES, &read(&folder.join(PROPERTIES))?).map_err(|e| e.to_string())?;
    let widths = parse_widths(WIDTHS, &read(&folder.join(WIDTHS))?).map_err(|e| e.to_string())?;
    let code = generate(&table, &properties, &widths)?;
    let out = Path::new(&env::var("OUT_DIR").map_err(|e| e.to_string())?).join("table.rs");
    fs::write(&out, code).map_err(|e| format!("{}: {e}", out.display()))
}
