//! Parses the tables under `data/` (`build/notation`), rejects incomplete or contradictory ones (`build/check.rs`), and writes them as
//! Rust constants (`build/write.rs`) that the library includes (`src/built_in.rs`).

#[macro_use]
#[path = "src/facts.rs"]
mod facts;

#[path = "build/check.rs"]
mod check;
#[path = "build/notation/mod.rs"]
mod notation;
#[path = "src/sheet.rs"]
#[allow(dead_code, reason = "the library uses the rest")]
mod sheet;
#[path = "src/summary.rs"]
mod summary;
#[path = "src/tables.rs"]
#[allow(dead_code, reason = "the library uses the rest")]
mod tables;
#[path = "build/write.rs"]
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use check::{CONTROL_FIELDS, COST_FIELDS, MACHINE_FIELDS, RATE_FIELDS, check_grids, check_rules, read_sheet};
use facts::MACHINES;
use notation::sheet::Sheet;
use notation::tables::{class_table, latency_table};
use oriole_isa_table::Table;
use tables::{ClassTable, LatencyTable};

macro_rules! rate_names {
    ($($name:literal: $lanes:expr;)*) => { [$($name,)*] };
}

fn main() {
    for file in ["data", "build", "src/facts.rs", "src/sheet.rs", "src/summary.rs", "src/tables.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    if let Err(message) = run() {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map(PathBuf::from).map_err(|e| format!("{name}: {e}"));
    let folder = variable("CARGO_MANIFEST_DIR")?;
    let instructions = variable("DEP_ORIOLE_ISA_DATA")?;
    println!("cargo::rerun-if-changed={}", instructions.display());
    let mnemonics = mnemonics(&instructions)?;
    let data = folder.join("data");

    let classes = class_table("classes.tbl", read(&data.join("classes.tbl"))?).map_err(|e| e.to_string())?;
    check_rules(&classes, &mnemonics)?;
    let tables = latency_tables(&data.join("latency"), &classes)?;
    check_grids(&tables, &classes)?;

    let mnemonics: Vec<&str> = mnemonics.keys().map(String::as_str).collect();
    let mut code = write::classes(&classes, &mnemonics, &throughput_rates!(rate_names))?;
    code.push_str(&write::models(&tables, &classes)?);
    code.push_str(&write::machine_targets(&MACHINES));
    for (file, fields, kind, name, sources) in [
        ("machines.tbl", MACHINE_FIELDS, "Machine", "MACHINES", "MACHINE_SOURCES"),
        ("units.tbl", RATE_FIELDS, "Rates", "RATES", "RATE_SOURCES"),
        ("costs.tbl", COST_FIELDS, "Costs", "COSTS", "COST_SOURCES"),
        ("control.tbl", CONTROL_FIELDS, "ControlFacts", "CONTROL", "CONTROL_SOURCES"),
    ] {
        let sheet = read_sheet(Sheet { file, text: read(&data.join(file))? }, fields)?;
        code.push_str(&write::sheet(&sheet, kind, name, sources));
    }
    let out = variable("OUT_DIR")?.join("built_in.rs");
    fs::write(&out, code).map_err(|e| format!("{}: {e}", out.display()))
}

/// Returns the text of a file. The text is leaked, because the tables borrow from it.
fn read(path: &Path) -> Result<&'static str, String> {
    fs::read_to_string(path).map(|text| &*text.leak()).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns all latency tables by name.
fn latency_tables(folder: &Path, classes: &ClassTable) -> Result<Vec<LatencyTable>, String> {
    let mut texts = BTreeMap::new();
    for (name, path) in files(folder, "tbl")? {
        let file: &'static str = format!("{name}.tbl").leak();
        texts.insert(name, (file, read(&path)?));
    }
    texts.keys().map(|name| one_table(name, &texts, classes)).collect()
}

type Texts = BTreeMap<String, (&'static str, &'static str)>;

fn one_table(name: &str, texts: &Texts, classes: &ClassTable) -> Result<LatencyTable, String> {
    let (file, text) = texts.get(name).ok_or_else(|| format!("there is no latency table {name}"))?;
    latency_table(file, text, classes, &|base| one_table(base, texts, classes).ok()).map_err(|e| e.to_string())
}

/// Returns every mnemonic with the lines of its forms, which name all modifiers, sorted like the opcodes.
fn mnemonics(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for (_, path) in files(folder, "sass")? {
        let text = read(&path)?;
        let mut table = Table::default();
        table.parse(&path.display().to_string(), text).map_err(|e| e.to_string())?;
        let mut current = String::new();
        for line in text.lines() {
            if line.starts_with(|c: char| c.is_ascii_uppercase()) {
                current = line.split_whitespace().next().unwrap_or_default().to_owned();
            }
            let described: &mut String = all.entry(current.clone()).or_default();
            described.push_str(line);
            described.push('\n');
        }
    }
    all.remove("");
    Ok(all)
}

fn files(folder: &Path, extension: &str) -> Result<BTreeMap<String, PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path))
        .collect())
}
