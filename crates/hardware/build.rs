//! Refuses tables that leave something open: a mnemonic without a class, a modifier that no instruction has, a pair of ports without a
//! figure, a machine that lacks a fact.

#[macro_use]
#[path = "src/facts.rs"]
mod facts;
#[path = "src/sheet.rs"]
#[allow(dead_code, reason = "the library uses the rest")]
mod sheet;

#[path = "src/tables.rs"]
#[allow(dead_code)]
mod tables;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{env, fs, process};

use facts::MACHINES;
use oriole_isa_table::Table;
use sheet::{Fact, Reading, Sheet};
use tables::{ClassTable, LatencyTable};

fn main() {
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=../isa/data");
    for file in ["src/tables.rs", "src/facts.rs", "src/sheet.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    if let Err(message) = run().and_then(|()| check_sheets()) {
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

type Check = (&'static str, fn(&'static str) -> Result<(), String>);

macro_rules! checks {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        &[$((stringify!($key), |value| <$kind as Reading>::read(value).map(drop)),)*]
    };
}

/// The sheet describes the machines of the list in its order; what stands above them, others may be like.
fn check_names(sheet: Sheet) -> Result<(), String> {
    let names = sheet.text.lines().filter_map(|line| line.strip_prefix("machine ")?.split_whitespace().next());
    if names.skip(1).eq(MACHINES) { Ok(()) } else { Err(format!("{}: the machines are not `every` and those of the list", sheet.file)) }
}

fn check_sheet(sheet: Sheet, checks: &[Check]) -> Result<(), String> {
    check_names(sheet)?;
    for machine in MACHINES {
        let facts = sheet.facts(machine)?;
        for Fact { key, value, source } in &facts {
            let Some((_, read)) = checks.iter().find(|check| check.0 == *key) else {
                return Err(format!("{}: `{machine}` has `{key}`, which nobody reads", sheet.file));
            };
            read(value).map_err(|message| format!("{}: `{key}` of `{machine}`: {message}", sheet.file))?;
            if !sheet.sources().any(|(name, _)| name == *source) {
                return Err(format!("{}: `{key}` of `{machine}`: there is no source `{source}`", sheet.file));
            }
        }
        if let Some((key, _)) = checks.iter().find(|check| facts.iter().all(|fact| fact.key != check.0)) {
            return Err(format!("{}: `{machine}` lacks `{key}`", sheet.file));
        }
    }
    Ok(())
}

fn check_sheets() -> Result<(), String> {
    let machines = Sheet { file: "data/machines.tbl", text: include_str!("data/machines.tbl") };
    check_sheet(machines, machine_facts!(checks))?;
    let units = Sheet { file: "data/units.tbl", text: include_str!("data/units.tbl") };
    check_sheet(units, unit_rates!(checks))
}
