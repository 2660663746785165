//! The tables under `data/` as constants of the program.
//!
//! The build script reads and checks the tables, resolves `like` references, and writes Rust constants: the classes with the rules of each
//! opcode, a [`Model`] for each latency table, and a struct for each machine of each sheet. A program that starts reads no text, computes
//! no hash and allocates nothing for them; only the memory pages it uses are loaded. `build/write.rs` writes the constants that this file
//! includes.
//!
//! A grid is written as an array of indices into a list of distinct figures, because a figure is long to write and there are few distinct
//! ones. [`cells`] replaces the indices with the figures at compile time.

use std::borrow::Cow;

use oriole_isa::Symbol;
use oriole_support::Suffix;

use crate::class::{Classes, Port, SchedClass};
use crate::control::ControlFacts;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::model::Model;
use crate::rate::ThroughputClass;
use crate::sheet::Fact;
use crate::summary::{Summary, VariableLatency, Waits};
use crate::tables::{Cell, ClassRow, ClassRule, ClassTable, Grid, LatencyTable, TimeRow};
use crate::units::{Rates, Unit};

include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// Returns the figures with these indices.
const fn cells<const COUNT: usize>(numbers: [u8; COUNT]) -> [Option<Cell>; COUNT] {
    let mut cells = [None; COUNT];
    let mut at = 0;
    while at < COUNT {
        cells[at] = FIGURES[numbers[at] as usize];
        at += 1;
    }
    cells
}

/// Builds a fact. The short name keeps the generated file small.
const fn fact(key: &'static str, value: &'static str, source: &'static str) -> Fact {
    Fact { key, value, source }
}

#[cfg(test)]
mod tests {
    use oriole_isa::{Opcode, Symbol};

    use super::*;
    use crate::facts::MACHINES as NAMES;
    use crate::notation::sheet::Sheet;
    use crate::notation::tables::{class_table, latency_table};

    const CLASS_TEXT: &str = include_str!("../data/classes.tbl");
    const LATENCY_TEXTS: [(&str, &str); MODELS.len()] = [
        ("ada.tbl", include_str!("../data/latency/ada.tbl")),
        ("ampere.tbl", include_str!("../data/latency/ampere.tbl")),
        ("blackwell.tbl", include_str!("../data/latency/blackwell.tbl")),
        ("blackwell_consumer.tbl", include_str!("../data/latency/blackwell_consumer.tbl")),
        ("blackwell_ultra.tbl", include_str!("../data/latency/blackwell_ultra.tbl")),
        ("hopper.tbl", include_str!("../data/latency/hopper.tbl")),
        ("thor.tbl", include_str!("../data/latency/thor.tbl")),
        ("turing.tbl", include_str!("../data/latency/turing.tbl")),
        ("universal.tbl", include_str!("../data/latency/universal.tbl")),
    ];

    fn read_table(name: &str) -> Option<LatencyTable> {
        let (file, text) = LATENCY_TEXTS.iter().find(|(file, _)| file.strip_suffix(".tbl") == Some(name))?;
        Some(latency_table(file, text, &CLASSES.table, &read_table).unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn built_in_classes_match_the_table() {
        assert_eq!(CLASSES.table, class_table("classes.tbl", CLASS_TEXT).unwrap());
        for class in Classes::get().all() {
            let names = (class.unit().table_name(), class.throughput().name());
            assert_eq!((class.attribute("unit"), class.attribute("rate")), (Some(names.0), Some(names.1)));
        }
    }

    #[test]
    fn built_in_opcode_rules_match_the_table() {
        for opcode in Opcode::all() {
            let own = CLASSES.table.rules.iter().filter(|rule| rule.mnemonic == opcode.mnemonic());
            let symbols = |rule: &ClassRule| rule.modifiers.iter().map(|name| Symbol::find(name).unwrap()).collect::<Vec<_>>();
            let expected: Vec<_> = own.map(|rule| (symbols(rule), rule.class)).collect();
            let rules = CLASSES.rules[opcode as usize].iter();
            assert_eq!(rules.map(|rule| (rule.0.to_vec(), rule.1.index())).collect::<Vec<_>>(), expected, "{}", opcode.mnemonic());
        }
        assert_eq!(CLASSES.rules.len(), Opcode::all().count());
    }

    #[test]
    fn group_numbers_match_class_attributes() {
        for (numbers, key) in [(CLASSES.orders, "order"), (CLASSES.queues, "queue")] {
            for (one, &number) in CLASSES.table.classes.iter().zip(numbers) {
                assert_eq!(one.attribute(key).is_some(), number.is_some(), "{}", one.name);
                for (other, &other_number) in CLASSES.table.classes.iter().zip(numbers) {
                    assert_eq!(one.attribute(key) == other.attribute(key), number == other_number, "{} {}", one.name, other.name);
                }
            }
        }
    }

    #[test]
    fn built_in_models_match_the_tables() {
        for model in &MODELS {
            assert!(*model == Model::new(read_table(model.table.name).unwrap()), "{}", model.table.name);
            for target in model.table.targets.iter().filter(|target| **target != "universal") {
                assert!(MODEL_TARGETS.iter().any(|&(number, suffix, index)| {
                    let name = format!("sm_{number}{}", suffix.letter());
                    name == *target && MODELS[index].table.name == model.table.name
                }));
            }
        }
        assert_eq!(MODELS[UNIVERSAL_MODEL].table.name, "universal");
    }

    #[test]
    fn built_in_facts_match_the_sheets() {
        let check = |file, text, names: Vec<&str>, facts: Vec<&[Fact]>, sources: &[(&'static str, &'static str)]| {
            let sheet = Sheet { file, text };
            assert_eq!(names, NAMES, "{file}");
            for (machine, facts) in names.into_iter().zip(facts) {
                let mut expected = sheet.facts(machine).unwrap();
                expected.sort_by_key(|fact| facts.iter().position(|other| other.key == fact.key));
                assert_eq!(facts, expected, "{file}: {machine}");
            }
            assert_eq!(sheet.sources().collect::<Vec<_>>(), sources, "{file}");
        };
        let (names, facts) = MACHINES.iter().map(|machine| (machine.name, &*machine.facts)).unzip();
        check("machines.tbl", include_str!("../data/machines.tbl"), names, facts, MACHINE_SOURCES);
        let (names, facts) = RATES.iter().map(|rates| (rates.name, &*rates.facts)).unzip();
        check("units.tbl", include_str!("../data/units.tbl"), names, facts, RATE_SOURCES);
        let (names, facts) = COSTS.iter().map(|costs| (costs.name, &*costs.facts)).unzip();
        check("costs.tbl", include_str!("../data/costs.tbl"), names, facts, COST_SOURCES);
        let (names, facts) = CONTROL.iter().map(|control| (control.name, &*control.facts)).unzip();
        check("control.tbl", include_str!("../data/control.tbl"), names, facts, CONTROL_SOURCES);
    }

    #[test]
    fn built_in_values_match_the_facts() {
        for machine in &MACHINES {
            assert!(Machine::from_facts(machine.name, machine.facts.to_vec()).as_ref() == Ok(machine), "{}", machine.name);
        }
        for rates in &RATES {
            assert!(Rates::from_facts(rates.name, rates.facts.to_vec()).as_ref() == Ok(rates), "{}", rates.name);
        }
    }
}
