//! Refuses tables that leave something open: a mnemonic without a class, a modifier that no instruction has, a pair of ports without a
//! figure, a machine that lacks a fact.

#[macro_use]
#[path = "src/facts.rs"]
mod facts;
#[path = "src/sheet.rs"]
#[allow(dead_code, reason = "the library uses the rest")]
mod sheet;
#[path = "build/sheets.rs"]
mod sheets;
#[path = "src/tables.rs"]
#[allow(dead_code)]
mod tables;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{env, fs, process};

use oriole_isa_table::Table;
use tables::{ClassTable, LatencyTable};

fn main() {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=../isa/data");
    for file in ["build", "src/facts.rs", "src/sheet.rs", "src/tables.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    if let Err(message) = sheets::check_sheets().and_then(|()| run()) {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).to_owned();
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let classes = ClassTable::parse("classes.tbl", &read(&folder.join("data/classes.tbl"))?).map_err(|e| e.to_string())?;
    check_rules(&classes, &mnemonics(&folder.join("../isa/data"))?)?;
    let mut texts = HashMap::new();
    for (name, path) in files(&folder.join("data/latency"), "tbl")? {
        texts.insert(name, read(&path)?);
    }
    for name in texts.keys() {
        let table = latency_table(name, &texts, &classes)?;
        if let Some(missing) = table.missing(&classes) {
            return Err(missing);
        }
    }
    Ok(())
}

fn latency_table(name: &str, texts: &HashMap<String, String>, classes: &ClassTable) -> Result<LatencyTable, String> {
    let text = texts.get(name).ok_or_else(|| format!("there is no latency table {name}"))?;
    LatencyTable::parse(&format!("{name}.tbl"), text, classes, &|base| latency_table(base, texts, classes).ok()).map_err(|e| e.to_string())
}

/// Every mnemonic with the lines of its forms, which name all modifiers.
fn mnemonics(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for (_, path) in files(folder, "sass")? {
        let text = fs::read_to_string(&path).map_err(|e| e.to_string())?;
        let mut table = Table::default();
        table.parse(&path.display().to_string(), &text).map_err(|e| e.to_string())?;
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

fn check_rules(classes: &ClassTable, mnemonics: &BTreeMap<String, String>) -> Result<(), String> {
    for rule in &classes.rules {
        let described = mnemonics.get(&rule.mnemonic).ok_or_else(|| format!("classes.tbl:{}: there is no {}", rule.line, rule.mnemonic))?;
        if let Some(unknown) = rule.modifiers.iter().find(|modifier| !described.contains(modifier.as_str())) {
            return Err(format!("classes.tbl:{}: {} never has {unknown}", rule.line, rule.mnemonic));
        }
    }
    for mnemonic in mnemonics.keys() {
        let last = classes.rules.iter().rfind(|rule| rule.mnemonic == *mnemonic);
        match last {
            None => return Err(format!("classes.tbl: {mnemonic} has no class")),
            Some(rule) if !rule.modifiers.is_empty() => {
                return Err(format!("classes.tbl:{}: {mnemonic} has no class without modifiers", rule.line));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn files(folder: &Path, extension: &str) -> Result<BTreeMap<String, std::path::PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path))
        .collect())
}
