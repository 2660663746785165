//! Writes the tables as Rust constants, which `src/built_in.rs` includes.
//!
//! A type whose values occur in a constant implements [`Literal`]. Numbers, strings and plain structs are written as `{:?}` prints them.

use std::fmt::Write;

use oriole_isa_table::symbol_constant;

use crate::check::ReadSheet;
use crate::facts::UNIT_NAMES;
use crate::sheet::Fact;
use crate::summary::{Summary, VariableLatency, Waits};
use crate::tables::{Cell, ClassRow, ClassRule, ClassTable, GUARD, Grid, LatencyTable, List, TimeRow};

/// The entry in the list of targets of the table for targets without a table.
const UNIVERSAL: &str = "universal";

/// A value that can be written as a Rust constant.
pub trait Literal {
    /// Returns the Rust expression for the value.
    fn literal(&self) -> String;
}

macro_rules! as_debugged {
    ($($kind:ty),*) => { $(impl Literal for $kind {
        fn literal(&self) -> String {
            format!("{self:?}")
        }
    })* };
}

as_debugged!(u8, u16, u32, usize, f64, bool, char, &str, VariableLatency, Waits, TimeRow, Cell);

impl Literal for Fact {
    fn literal(&self) -> String {
        format!("fact({:?},{:?},{:?})", self.key, self.value, self.source)
    }
}

impl<T: Literal> Literal for Option<T> {
    fn literal(&self) -> String {
        self.as_ref().map_or("None".to_owned(), |value| format!("Some({})", value.literal()))
    }
}

impl<A: Literal, B: Literal> Literal for (A, B) {
    fn literal(&self) -> String {
        format!("({},{})", self.0.literal(), self.1.literal())
    }
}

fn joined<T: Literal>(items: &[T]) -> String {
    items.iter().map(Literal::literal).collect::<Vec<_>>().join(",")
}

impl<T: Literal, const N: usize> Literal for [T; N] {
    fn literal(&self) -> String {
        format!("[{}]", joined(self))
    }
}

impl<T: Literal> Literal for &[T] {
    fn literal(&self) -> String {
        format!("&[{}]", joined(self))
    }
}

impl<T: Literal + Clone> Literal for List<T> {
    fn literal(&self) -> String {
        format!("Cow::Borrowed(&[{}])", joined(self))
    }
}

impl Literal for ClassRow {
    fn literal(&self) -> String {
        let [attributes, writes, reads] = [self.attributes.literal(), self.writes.literal(), self.reads.literal()];
        format!("ClassRow{{name:{:?},attributes:{attributes},writes:{writes},reads:{reads}}}", self.name)
    }
}

impl Literal for ClassRule {
    fn literal(&self) -> String {
        let modifiers = self.modifiers.literal();
        format!("ClassRule{{mnemonic:{:?},modifiers:{modifiers},class:{},line:{}}}", self.mnemonic, self.class, self.line)
    }
}

impl Literal for Summary {
    fn literal(&self) -> String {
        let Summary { longest, times, waits, base_latencies, longest_needs, max_need_by_port } = self;
        let [times, waits, base, needs] = [times.literal(), waits.literal(), base_latencies.literal(), longest_needs.literal()];
        let max_need_by_port = max_need_by_port.literal();
        format!(
            "Summary{{longest:{longest},times:{times},waits:{waits},base_latencies:{base},longest_needs:{needs},max_need_by_port:{max_need_by_port}}}"
        )
    }
}

/// Returns the number of the target with this name, and the suffix as a Rust expression.
fn target_parts(name: &str) -> Option<(u16, &'static str)> {
    let name = name.strip_prefix("sm_")?;
    let digits = name.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let suffix = match &name[digits.len()..] {
        "" => "Suffix::Plain",
        "a" => "Suffix::ArchSpecific",
        "f" => "Suffix::FamilySpecific",
        _ => return None,
    };
    Some((digits.parse().ok()?, suffix))
}

/// Returns the constants of `classes.tbl`: the table, and the facts that are looked up by opcode and by class.
pub fn classes(table: &ClassTable, mnemonics: &[&str], rate_names: &[&str]) -> Result<String, String> {
    let rules_of = |mnemonic: &&str| {
        let own = table.rules.iter().filter(|rule| rule.mnemonic == *mnemonic);
        let symbols = |rule: &ClassRule| rule.modifiers.iter().map(|name| format!("Symbol::{}", symbol_constant(name))).collect::<Vec<_>>();
        let rules: Vec<String> = own.map(|rule| format!("(&[{}],SchedClass({}))", symbols(rule).join(","), rule.class)).collect();
        format!("&[{}],\n", rules.join(","))
    };
    let rules: String = mnemonics.iter().map(rules_of).collect();
    let guard = |file| table.port(file, GUARD).ok_or_else(|| format!("classes.tbl: there is no port `{GUARD}`"));
    let numbers = |key: &str, names: &[&str]| -> Result<Vec<usize>, String> {
        let number = |row: &ClassRow| {
            let place = names.iter().position(|name| row.attribute(key) == Some(name));
            place.ok_or_else(|| format!("classes.tbl: the {key} of `{}` is not known", row.name))
        };
        table.classes.iter().map(number).collect()
    };
    let units: Vec<String> = numbers("unit", &UNIT_NAMES)?.iter().map(|unit| format!("Unit::ALL[{unit}]")).collect();
    let rates: Vec<String> = numbers("rate", rate_names)?.iter().map(|rate| format!("ThroughputClass({rate})")).collect();
    Ok(format!(
        "pub(crate) static CLASSES:Classes=Classes{{\ntable:ClassTable{{ports:{},\nclasses:{},\nrules:{}}},\nrules:&[\n{rules}],\n\
         guards:[Port({}),Port({})],\norders:{},\nqueues:{},\nunits:&[{}],\nrates:&[{}]}};\n",
        table.ports.literal(),
        table.classes.literal(),
        table.rules.literal(),
        guard(1)?,
        guard(3)?,
        groups(table, "order").as_slice().literal(),
        groups(table, "queue").as_slice().literal(),
        units.join(","),
        rates.join(","),
    ))
}

/// Numbers the groups that the classes name with an attribute, in the order of their first occurrence.
fn groups(table: &ClassTable, attribute: &str) -> Vec<Option<u8>> {
    let mut names: Vec<&str> = Vec::new();
    let mut number = |name: &'static str| {
        let known = names.iter().position(|other| *other == name);
        known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        }) as u8
    };
    table.classes.iter().map(|row| row.attribute(attribute).map(&mut number)).collect()
}

/// The distinct figures and the distinct grids, each written once.
#[derive(Default)]
struct Grids {
    figures: Vec<Option<Cell>>,
    numbers: Vec<Vec<u8>>,
}

impl Grids {
    fn figure(&mut self, figure: Option<Cell>) -> Result<u8, String> {
        let place = number_of(&mut self.figures, figure);
        u8::try_from(place).map_err(|_| "the latency tables have more than 256 different figures".to_owned())
    }

    fn literal(&mut self, grid: &Grid) -> Result<String, String> {
        let numbers = grid.cells.iter().map(|&cell| self.figure(cell)).collect::<Result<Vec<u8>, _>>()?;
        let place = number_of(&mut self.numbers, numbers);
        Ok(format!("Grid{{ports:{},cells:Cow::Borrowed(&GRID_{place})}}", grid.ports))
    }

    fn statics(&self) -> String {
        let figures = self.figures.as_slice();
        let mut text = format!("const FIGURES:[Option<Cell>;{}]=[{}];\n", figures.len(), joined(figures));
        for (place, numbers) in self.numbers.iter().enumerate() {
            let _ = writeln!(text, "static GRID_{place}:[Option<Cell>;{}]=cells([{}]);", numbers.len(), joined(numbers));
        }
        text
    }
}

/// Returns the index of an item in a list of distinct items; adds the item if it is new.
fn number_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|other| *other == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Returns the constants of the latency tables, each with its summary, and of the targets of each table.
pub fn models(tables: &[LatencyTable], classes: &ClassTable) -> Result<String, String> {
    let mut grids = Grids::default();
    let mut models = String::new();
    let mut targets: Vec<(u16, &str, usize)> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        for target in table.targets.iter().filter(|target| **target != UNIVERSAL) {
            let (number, suffix) = target_parts(target).ok_or_else(|| format!("{}.tbl: there is no target {target}", table.name))?;
            if targets.iter().any(|other| (other.0, other.1) == (number, suffix)) {
                return Err(format!("{}.tbl: {target} has two tables", table.name));
            }
            targets.push((number, suffix, index));
        }
        let LatencyTable { name, targets, sources, times, .. } = table;
        let mut rows = Vec::new();
        for kind in &table.grids {
            rows.push(format!("[{}]", kind.iter().map(|grid| grids.literal(grid)).collect::<Result<Vec<_>, _>>()?.join(",")));
        }
        let _ = writeln!(
            models,
            "Model{{table:LatencyTable{{name:{name:?},targets:{},sources:{},grids:[{}],times:{}}},\nsummary:{}}},",
            targets.literal(),
            sources.literal(),
            rows.join(","),
            times.literal(),
            Summary::of(table, classes).literal(),
        );
    }
    let universal = tables.iter().position(|table| table.targets.contains(&UNIVERSAL)).ok_or("no latency table is universal")?;
    let mut text = grids.statics();
    let _ = writeln!(text, "pub(crate) static MODELS:[Model;{}]=[\n{models}];", tables.len());
    let rows: Vec<String> = targets.iter().map(|(number, suffix, index)| format!("({number},{suffix},{index})")).collect();
    let _ = writeln!(text, "pub(crate) static MODEL_TARGETS:[(u16,Suffix,usize);{}]=[{}];", rows.len(), rows.join(","));
    let _ = writeln!(text, "pub(crate) const UNIVERSAL_MODEL:usize={universal};");
    Ok(text)
}

/// Returns the constants of a sheet: an array `name` with a struct of type `kind` for each machine, and the list of sources.
pub fn sheet(sheet: &ReadSheet, kind: &str, name: &str, sources: &str) -> String {
    let mut text = format!("pub(crate) static {name}:[{kind};{}]=[\n", sheet.machines.len());
    for machine in &sheet.machines {
        let _ = write!(text, "{kind}{{name:{:?},", machine.name);
        for (fact, value) in machine.facts.iter().zip(&machine.values) {
            let _ = write!(text, "{}:{value},", fact.key);
        }
        let _ = writeln!(text, "facts:Cow::Borrowed(&[{}])}},", joined(&machine.facts));
    }
    let _ = writeln!(text, "];\npub(crate) static {sources}:&[(&str,&str)]={};", sheet.sources.as_slice().literal());
    text
}

/// Returns the constant with the targets that machines are named after.
pub fn machine_targets(machines: &[&str]) -> String {
    let parts = machines.iter().filter_map(|name| target_parts(name));
    let rows: Vec<String> = parts.map(|(number, suffix)| format!("({number},{suffix})")).collect();
    format!("pub(crate) static MACHINE_TARGETS:[(u16,Suffix);{}]=[{}];\n", rows.len(), rows.join(","))
}
