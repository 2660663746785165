//! Reads every machine of the data sheets, so that one that lacks a fact fails the build.

use crate::facts::MACHINES;
use crate::sheet::{Fact, Reading, Sheet};

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

/// Refuses sheets that leave something open.
pub fn check_sheets() -> Result<(), String> {
    let machines = Sheet { file: "data/machines.tbl", text: include_str!("../data/machines.tbl") };
    check_sheet(machines, machine_facts!(checks))?;
    let units = Sheet { file: "data/units.tbl", text: include_str!("../data/units.tbl") };
    check_sheet(units, unit_rates!(checks))?;
    let costs = Sheet { file: "data/costs.tbl", text: include_str!("../data/costs.tbl") };
    check_sheet(costs, timing_costs!(checks))?;
    let control = Sheet { file: "data/control.tbl", text: include_str!("../data/control.tbl") };
    check_sheet(control, control_facts!(checks))
}
