//! Writes a profile file: builds the records of each section, counts them, and puts them in the order of the format.

use std::fmt::Write;

use super::record::{Record, RecordType};
use super::{MAGIC, Profile, VERSION};
use crate::class::{Classes, SchedClass};
use crate::machine::MachineFact;
use crate::tables::{ClassTable, FILES, KINDS};

/// Facts of the machine that are written as barrier data.
pub(crate) const BARRIER_FACTS: &[&str] =
    &["barriers_per_block", "barriers_per_sm", "barriers_limit_blocks", "scoreboards", "convergence_barriers"];
/// The sections, in their order.
pub const SECTIONS: [&str; 5] = ["classes", "times", "machine", "rates", "grids"];

const HEADING: &str = "\
# A hardware profile. Figures may be changed; every line is a record: its type, then KEY=VALUE fields. `entries` and `records` are counts
# and must be right. Lines that start with # are not read. docs/hw-profile.md describes all records.
";

/// Formats a profile as the text of a file.
pub fn text(profile: &Profile) -> String {
    let mut text = format!("{MAGIC} {VERSION}\n{HEADING}");
    for record in records(profile) {
        if matches!(record.kind, RecordType::Root | RecordType::CategoryHeader | RecordType::GroupBoundary) {
            text.push('\n');
        }
        let _ = writeln!(text, "{record}");
    }
    text
}

/// Returns all records of a profile, in the order of the format.
pub fn records(profile: &Profile) -> Vec<Record> {
    let mut records = barriers(profile);
    let root = records.len();
    for (name, entries, sources) in [
        (SECTIONS[0], classes(profile), Vec::new()),
        (SECTIONS[1], times(profile), Vec::new()),
        (SECTIONS[2], machine(profile), profile.machine_sources.clone()),
        (SECTIONS[3], rates(profile), profile.rate_sources.clone()),
        (
            SECTIONS[4],
            grids(profile),
            profile.model.table().sources.iter().map(|(letter, text)| (letter.to_string(), (*text).to_owned())).collect(),
        ),
    ] {
        let mark = |kind| Record::new(kind).with("name", name).with("entries", entries.len());
        let header = sources.iter().fold(mark(RecordType::CategoryHeader), |header, (name, text)| header.with(name, text));
        let footer = mark(RecordType::CategoryFooter);
        records.push(header);
        records.extend(entries);
        records.push(footer);
    }
    let table = profile.model.table();
    let root_record = Record::new(RecordType::Root)
        .with("target", profile.target)
        .with("machine", profile.machine.name)
        .with("table", table.name)
        .with("targets", table.targets.join(","))
        .with("records", records.len() + 1);
    records.insert(root, root_record);
    records
}

fn barriers(profile: &Profile) -> Vec<Record> {
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    let mut records = Vec::new();
    for class in Classes::get().all() {
        let waits = profile.model.waits(class);
        if waits.results || waits.sources {
            let entry = Record::new(RecordType::BarrierEntry).with("class", class.name()).with("results", yes_or_no(waits.results));
            records.push(entry.with("sources", yes_or_no(waits.sources)).with("stall", waits.stall));
        }
    }
    records.extend(facts(profile.machine.fields(), RecordType::BarrierData, |key| BARRIER_FACTS.contains(&key)));
    records.insert(0, Record::new(RecordType::BarrierHeader).with("entries", records.len()));
    records
}

fn classes(profile: &Profile) -> Vec<Record> {
    let mut all: Vec<SchedClass> = Classes::get().all().collect();
    let units: Vec<&str> = all.iter().map(|class| unit(*class)).collect();
    all.sort_by_key(|class| units.iter().position(|other| *other == unit(*class)));
    let mut records = Vec::new();
    for group in all.chunk_by(|a, b| unit(*a) == unit(*b)) {
        records.push(Record::new(RecordType::GroupBoundary).with("unit", unit(group[0])).with("entries", group.len()));
        records.extend(group.iter().map(|&class| class_record(class, profile.model.base_latency(class))));
    }
    records
}

/// Returns the name of the unit that executes a class.
pub fn unit(class: SchedClass) -> &'static str {
    class.unit().table_name()
}

/// Returns the record of a class.
pub(crate) fn class_record(class: SchedClass, latency: u16) -> Record {
    let row = class.row();
    let mut record = Record::new(RecordType::Class).with("name", class.name());
    for (key, value) in row.attributes {
        record = record.with(key, value);
    }
    let table = Classes::get().table();
    for (file, name) in FILES.iter().enumerate() {
        record = record.with(name, ports_text(table, file, row.writes[file], row.reads[file]));
    }
    record.with("latency", latency).with("dual", 0)
}

/// Formats the ports of a class as `WRITES/READS`, as in the class table.
fn ports_text(table: &ClassTable, file: usize, writes: &[u8], reads: &[&[u8]]) -> String {
    let list = |ports: &[u8]| ports.iter().map(|&port| table.ports[file][usize::from(port)]).collect::<Vec<_>>().join("+");
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let reads: Vec<String> = reads.iter().map(|ports| list(ports)).collect();
    format!("{}/{}", or_none(list(writes)), or_none(reads.join(",")))
}

fn times(profile: &Profile) -> Vec<Record> {
    let mut records = Vec::new();
    for row in profile.model.table().times.iter() {
        let scoreboard = Record::new(RecordType::Scoreboard).with("class", row.class).with("least", row.least).with("usual", row.usual);
        records.push(scoreboard.with("most", row.most).with("source", row.source));
        records.push(Record::new(RecordType::Wait).with("class", row.class).with("read", row.read));
    }
    records
}

fn machine(profile: &Profile) -> Vec<Record> {
    let is_own = |key: &str| !BARRIER_FACTS.contains(&key);
    facts(profile.machine.fields(), RecordType::Machine, is_own)
}

fn rates(profile: &Profile) -> Vec<Record> {
    facts(profile.rates.fields(), RecordType::Weight, |_| true)
}

fn facts(fields: impl Iterator<Item = MachineFact>, kind: RecordType, is_wanted: impl Fn(&str) -> bool) -> Vec<Record> {
    let record = |field: MachineFact| Record::new(kind).with("name", field.key).with("value", field.value).with("source", field.source);
    fields.filter(|field| is_wanted(field.key)).map(record).collect()
}

fn grids(profile: &Profile) -> Vec<Record> {
    let classes = Classes::get().table();
    let mut records = Vec::new();
    for (kind, kind_name) in KINDS.iter().enumerate() {
        for (file, file_name) in FILES.iter().enumerate() {
            let name = |port: u8| classes.ports[file][usize::from(port)];
            let cells: Vec<_> = profile.model.table().grids[kind][file].iter().collect();
            for row in cells.chunk_by(|a, b| a.0.0 == b.0.0) {
                let start =
                    Record::new(RecordType::Dimension).with("kind", kind_name).with("file", file_name).with("first", name(row[0].0.0));
                records.push(row.iter().fold(start, |record, &((_, second), cell)| record.with(name(second), cell)));
            }
        }
    }
    records
}
