//! Parses the data sheets, and rejects incomplete tables: a mnemonic without a class, a modifier that no instruction has, a pair of ports
//! without a figure, a machine without one of the facts, a fact that no code reads, a fact without a source.

use std::collections::BTreeMap;

use crate::facts::MACHINES;
use crate::notation::sheet::Sheet;
use crate::sheet::{Fact, Reading};
use crate::tables::{ClassTable, LatencyTable, List};
use crate::write::Literal;

/// The name of a field, and a function that parses its value and returns it as a Rust constant.
pub type FieldReader = (&'static str, fn(&'static str) -> Result<String, String>);

macro_rules! field_readers {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        &[$((stringify!($key), |value| <$kind as Reading>::read(value).map(|value| value.literal())),)*]
    };
}

pub const MACHINE_FIELDS: &[FieldReader] = machine_facts!(field_readers);
pub const RATE_FIELDS: &[FieldReader] = unit_rates!(field_readers);
pub const COST_FIELDS: &[FieldReader] = timing_costs!(field_readers);
pub const CONTROL_FIELDS: &[FieldReader] = control_facts!(field_readers);

/// A data sheet with the facts of every machine in [`MACHINES`].
pub struct ReadSheet {
    pub machines: Vec<ReadMachine>,
    pub sources: Vec<(&'static str, &'static str)>,
}

/// A machine of a sheet.
pub struct ReadMachine {
    pub name: &'static str,
    /// The facts, in the order of the fields.
    pub facts: Vec<Fact>,
    /// The values of the facts, as Rust constants.
    pub values: Vec<String>,
}

/// Reads every machine of a sheet.
pub fn read_sheet(sheet: Sheet, fields: &[FieldReader]) -> Result<ReadSheet, String> {
    check_names(sheet)?;
    let sources: Vec<_> = sheet.sources().collect();
    let machines = MACHINES.iter().map(|machine| read_machine(sheet, machine, fields, &sources)).collect::<Result<_, _>>()?;
    Ok(ReadSheet { machines, sources })
}

/// Checks that a sheet describes the machines of [`MACHINES`] in this order, after `every`, whose facts all machines inherit.
fn check_names(sheet: Sheet) -> Result<(), String> {
    let names = sheet.text.lines().filter_map(|line| line.strip_prefix("machine ")?.split_whitespace().next());
    if names.skip(1).eq(MACHINES) { Ok(()) } else { Err(format!("{}: the machines are not `every` and those of the list", sheet.file)) }
}

fn read_machine(sheet: Sheet, name: &'static str, fields: &[FieldReader], sources: &[(&str, &str)]) -> Result<ReadMachine, String> {
    let mut facts = sheet.facts(name)?;
    let place = |fact: &Fact| fields.iter().position(|(key, _)| *key == fact.key);
    if let Some(Fact { key, .. }) = facts.iter().find(|fact| place(fact).is_none()) {
        return Err(format!("{}: `{name}` has `{key}`, which nobody reads", sheet.file));
    }
    if let Some(Fact { key, source, .. }) = facts.iter().find(|fact| sources.iter().all(|(name, _)| *name != fact.source)) {
        return Err(format!("{}: `{key}` of `{name}`: there is no source `{source}`", sheet.file));
    }
    facts.sort_by_key(place);
    let mut values = Vec::new();
    for (key, read) in fields {
        let fact = facts.iter().find(|fact| fact.key == *key).ok_or_else(|| format!("{}: `{name}` lacks `{key}`", sheet.file))?;
        values.push(read(fact.value).map_err(|message| format!("{}: `{key}` of `{name}`: {message}", sheet.file))?);
    }
    Ok(ReadMachine { name, facts, values })
}

/// Checks that every mnemonic has a class, and that rules name modifiers of their mnemonic. `mnemonics` has the lines of the forms of each.
pub fn check_rules(classes: &ClassTable, mnemonics: &BTreeMap<String, String>) -> Result<(), String> {
    for rule in classes.rules {
        let described = mnemonics.get(rule.mnemonic).ok_or_else(|| format!("classes.tbl:{}: there is no {}", rule.line, rule.mnemonic))?;
        if let Some(unknown) = rule.modifiers.iter().find(|modifier| !described.contains(**modifier)) {
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

/// Checks that every table has a figure for every pair of ports that two instructions can have.
pub fn check_grids(tables: &[LatencyTable], classes: &ClassTable) -> Result<(), String> {
    tables.iter().find_map(|table| table.missing(classes)).map_or(Ok(()), Err)
}
