//! Parses a profile file.
//!
//! Lines become records, and the records are consumed in the order of the format. Their contents are checked against the program and for
//! consistency before the model is built.

use std::str::FromStr;

use oriole_isa::Target;

use super::record::{Record, RecordType};
use super::write::{BARRIER_FACTS, SECTIONS, class_record, unit};
use super::{MAGIC, Profile, ProfileError, ProfileFault, VERSION, intern};
use crate::class::{Classes, SchedClass};
use crate::machine::Machine;
use crate::model::{Model, Waits};
use crate::sheet::Fact;
use crate::tables::{Grid, KINDS, LatencyTable, TimeRow, file_index, parse_cell};
use crate::units::Rates;

/// The largest value of the stall count, a field of four bits.
const LONGEST_STALL: u32 = 15;

/// Upper limit of figures of a multiprocessor that are multiplied with each other, so that the products fit 32 bits.
const MAX_FIGURE: u32 = 1 << 20;

/// The names of the scheduling backends.
const SCHEDULERS: [&str; 3] = ["a", "b", "c"];

type ReadResult<T> = Result<T, ProfileError>;

/// Parses the text of a profile.
pub fn profile(name: &str, text: &str) -> ReadResult<Profile> {
    let records = split(name, text)?;
    let mut reader = ProfileReader { file: name, records: &records, at: 0 };
    let barriers = reader.barriers()?;
    let root = reader.root(records.len())?;
    let latencies = reader.section(SECTIONS[0], &[RecordType::GroupBoundary, RecordType::Class])?;
    let times = reader.section(SECTIONS[1], &[RecordType::Scoreboard, RecordType::Wait])?;
    let machine = reader.section(SECTIONS[2], &[RecordType::Machine])?;
    let rates = reader.section(SECTIONS[3], &[RecordType::Weight])?;
    let grids = reader.section(SECTIONS[4], &[RecordType::Dimension])?;
    if let Some(extra) = records.get(reader.at) {
        return Err(extra.error(name, ProfileFault::Order("nothing more")));
    }
    let sources = reader.letters(&grids)?;
    let mut table = LatencyTable {
        name: root.table,
        targets: root.targets.into(),
        sources: sources.into(),
        grids: Grid::all_empty(Classes::get().table()),
        times: reader.times(&times)?.into(),
    };
    reader.check_shortest_times(&times, root.target)?;
    reader.grids(&grids, &mut table)?;
    reader.check_table(&grids, &times, &table)?;
    let mut model = Model::new(table);
    reader.latencies(&latencies, &mut model)?;
    reader.waits(&records[0], barriers, &mut model)?;
    let machine_records: Vec<&Record> =
        machine.entries.iter().chain(barriers.iter().filter(|record| record.kind == RecordType::BarrierData)).collect();
    let machine_sources = machine.sources();
    let facts = reader.facts(machine.header, &machine_records, &machine_sources, Machine::check, Machine::keys())?;
    reader.check_unused(&machine_records, &Machine::of(root.target).facts, Machine::is_used)?;
    let read = Machine::from_facts(root.machine, facts).map_err(|what| machine.header.error(name, ProfileFault::Contradiction(what)))?;
    reader.check_machine(&machine_records, machine.header, &read)?;
    reader.check_stall(&machine_records, machine.header, &read, &model)?;
    let rate_sources = rates.sources();
    let rate_records: Vec<&Record> = rates.entries.iter().collect();
    let facts = reader.facts(rates.header, &rate_records, &rate_sources, Rates::check, Rates::keys())?;
    reader.check_unused(&rate_records, &Rates::of(root.target).facts, Rates::is_used)?;
    let read_rates = Rates::from_facts(root.machine, facts).map_err(|what| rates.header.error(name, ProfileFault::Contradiction(what)))?;
    Ok(Profile { target: root.target, model, machine: read, rates: read_rates, machine_sources, rate_sources })
}

/// Parses the lines after the first one into records.
fn split(name: &str, text: &str) -> ReadResult<Vec<Record>> {
    let mut lines = text.lines().enumerate();
    let whole = |fault| ProfileError { file: name.to_owned(), line: 1, record: None, field: None, fault };
    let first = lines.next().map_or("", |(_, line)| line);
    match first.trim_end().split_once(' ') {
        Some((MAGIC, version)) if version == VERSION.to_string() => {}
        Some((MAGIC, version)) => return Err(whole(ProfileFault::Version(version.to_owned()))),
        _ => return Err(whole(ProfileFault::NotAProfile)),
    }
    let mut records = Vec::new();
    for (index, line) in lines {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            records.push(Record::parse(name, index + 1, records.len() + 1, line)?);
        }
    }
    Ok(records)
}

/// The state of the parser: all records, and the index of the next one.
struct ProfileReader<'a> {
    file: &'a str,
    records: &'a [Record],
    at: usize,
}

/// The contents of the root record.
struct Root {
    target: Target,
    machine: &'static str,
    table: &'static str,
    targets: Vec<&'static str>,
}

/// A section: its header and the records between header and footer.
struct ProfileSection<'a> {
    header: &'a Record,
    entries: &'a [Record],
}

impl ProfileSection<'_> {
    /// Returns the sources that the header describes, as name and description.
    fn sources(&self) -> Vec<(String, String)> {
        self.header.fields.iter().filter(|(key, _)| key != "name" && key != "entries").cloned().collect()
    }
}

impl<'a> ProfileReader<'a> {
    /// Returns an error about a field of a record.
    fn error(&self, record: &Record, field: &str, fault: ProfileFault) -> ProfileError {
        ProfileError { field: Some(field.to_owned()), ..record.error(self.file, fault) }
    }

    /// Returns the value of a required field.
    fn field<'r>(&self, record: &'r Record, key: &str) -> ReadResult<&'r str> {
        record.get(key).ok_or_else(|| self.error(record, key, ProfileFault::MissingField))
    }

    /// Parses a required field as a number.
    fn number<T: FromStr>(&self, record: &Record, key: &str) -> ReadResult<T> {
        let text = self.field(record, key)?;
        text.parse().map_err(|_| self.error(record, key, ProfileFault::Value(text.to_owned(), "a number that fits here")))
    }

    /// Parses a required field as `yes` or `no`.
    fn yes_or_no(&self, record: &Record, key: &str) -> ReadResult<bool> {
        match self.field(record, key)? {
            "yes" => Ok(true),
            "no" => Ok(false),
            other => Err(self.error(record, key, ProfileFault::Value(other.to_owned(), "`yes` or `no`"))),
        }
    }

    /// Parses a required field as the name of a class.
    fn class(&self, record: &Record, key: &str) -> ReadResult<SchedClass> {
        let name = self.field(record, key)?;
        Classes::get().find(name).ok_or_else(|| self.error(record, key, ProfileFault::Value(name.to_owned(), "the name of a class")))
    }

    /// Rejects fields that are not in `known`.
    fn reject_unknown_fields(&self, record: &Record, known: &[&str]) -> ReadResult<()> {
        match record.fields.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => Err(self.error(record, key, ProfileFault::UnknownField)),
            None => Ok(()),
        }
    }

    /// Consumes the next record, which must be of this type.
    fn take(&mut self, kind: RecordType) -> ReadResult<&'a Record> {
        let Some(record) = self.records.get(self.at) else {
            let (line, number) = self.records.last().map_or((1, 0), |last| (last.line, last.number));
            let record = Some((number + 1, Some(kind)));
            return Err(ProfileError {
                file: self.file.to_owned(),
                line,
                record,
                field: None,
                fault: ProfileFault::UnexpectedEnd(kind.name()),
            });
        };
        if record.kind != kind {
            return Err(record.error(self.file, ProfileFault::Order(kind.name())));
        }
        self.at += 1;
        Ok(record)
    }

    /// Consumes the records from here on that are of these types.
    fn run(&mut self, kinds: &[RecordType]) -> &'a [Record] {
        let rest = &self.records[self.at..];
        let length = rest.iter().position(|record| !kinds.contains(&record.kind)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Checks that a field has the number `found`.
    fn check_count(&self, record: &Record, key: &str, found: usize) -> ReadResult<()> {
        let said = self.number(record, key)?;
        if said == found { Ok(()) } else { Err(self.error(record, key, ProfileFault::Count { said, found })) }
    }

    /// Parses the barrier header and consumes the barrier records.
    fn barriers(&mut self) -> ReadResult<&'a [Record]> {
        let header = self.take(RecordType::BarrierHeader)?;
        self.reject_unknown_fields(header, &["entries"])?;
        let records = self.run(&[RecordType::BarrierEntry, RecordType::BarrierData]);
        self.check_count(header, "entries", records.len())?;
        Ok(records)
    }

    /// Parses the root record. `count` is the number of records of the file.
    fn root(&mut self, count: usize) -> ReadResult<Root> {
        let root = self.take(RecordType::Root)?;
        self.reject_unknown_fields(root, &["target", "machine", "table", "targets", "records"])?;
        self.check_count(root, "records", count)?;
        let bad = |key: &str, wanted| {
            Ok::<_, ProfileError>(self.error(root, key, ProfileFault::Value(self.field(root, key)?.to_owned(), wanted)))
        };
        let Some(target) = Target::parse(self.field(root, "target")?) else { return Err(bad("target", "a target")?) };
        // The names of the tables say where the figures come from; no figure depends on them.
        let (machine, table) = (Machine::of(target).name, Model::of(target).table());
        for (key, known) in [("targets", table.targets.join(",")), ("machine", machine.to_owned()), ("table", table.name.to_owned())] {
            let said = self.field(root, key)?;
            if said != known {
                return Err(self.error(root, key, ProfileFault::Structure { said: said.to_owned(), known }));
            }
        }
        Ok(Root { target, machine, table: table.name, targets: table.targets.to_vec() })
    }

    /// Consumes a section with records of these types, and checks its header and footer.
    fn section(&mut self, name: &str, kinds: &[RecordType]) -> ReadResult<ProfileSection<'a>> {
        let header = self.take(RecordType::CategoryHeader)?;
        self.check_name(header, name)?;
        let entries = self.run(kinds);
        let footer = self.take(RecordType::CategoryFooter)?;
        self.check_name(footer, name)?;
        self.reject_unknown_fields(footer, &["name", "entries"])?;
        self.check_count(header, "entries", entries.len())?;
        self.check_count(footer, "entries", entries.len())?;
        Ok(ProfileSection { header, entries })
    }

    /// Checks the name of a section.
    fn check_name(&self, record: &Record, name: &str) -> ReadResult<()> {
        let said = self.field(record, "name")?;
        if said == name {
            return Ok(());
        }
        Err(self.error(record, "name", ProfileFault::Structure { said: said.to_owned(), known: name.to_owned() }))
    }

    /// Returns the sources of the grids, which have one-letter names.
    fn letters(&self, grids: &ProfileSection<'_>) -> ReadResult<Vec<(char, &'static str)>> {
        let letter = |(name, text): (String, String)| match name.as_bytes() {
            [letter @ b'a'..=b'z'] => Ok((char::from(*letter), intern(&text))),
            _ => Err(self.error(grids.header, &name, ProfileFault::UnknownField)),
        };
        grids.sources().into_iter().map(letter).collect()
    }

    /// Parses the times of the classes of variable latency. Each class needs one scoreboard record and one wait record.
    fn times(&self, section: &ProfileSection<'_>) -> ReadResult<Vec<TimeRow>> {
        let (scoreboards, waits): (Vec<&Record>, Vec<&Record>) =
            section.entries.iter().partition(|record| record.kind == RecordType::Scoreboard);
        let mut rows: Vec<TimeRow> = Vec::new();
        for record in scoreboards {
            self.reject_unknown_fields(record, &["class", "least", "usual", "most", "source"])?;
            let class = self.class(record, "class")?.name();
            if rows.iter().any(|row| row.class == class) {
                return Err(self.error(record, "class", ProfileFault::Duplicate));
            }
            let mut waits = waits.iter().filter(|wait| wait.get("class") == Some(class));
            let wait = waits
                .next()
                .ok_or_else(|| record.error(self.file, ProfileFault::MissingRecord(format!("the wait record of `{class}`"))))?;
            if let Some(second) = waits.next() {
                return Err(self.error(second, "class", ProfileFault::Duplicate));
            }
            let row = TimeRow {
                class,
                least: self.number(record, "least")?,
                usual: self.number(record, "usual")?,
                most: self.number(record, "most")?,
                read: self.number(wait, "read")?,
                source: self.number(record, "source")?,
            };
            if row.least > row.usual || row.usual > row.most {
                let what = format!("{}, {}, {} do not ascend", row.least, row.usual, row.most);
                return Err(self.error(record, "usual", ProfileFault::Contradiction(what)));
            }
            rows.push(row);
        }
        for wait in waits {
            self.reject_unknown_fields(wait, &["class", "read"])?;
            let class = self.class(wait, "class")?.name();
            if rows.iter().all(|row| row.class != class) {
                return Err(wait.error(self.file, ProfileFault::MissingRecord(format!("the scoreboard record of `{class}`"))));
            }
        }
        Ok(rows)
    }

    /// Parses the rows of the grids into the table.
    fn grids(&self, section: &ProfileSection<'_>, table: &mut LatencyTable) -> ReadResult<()> {
        let classes = Classes::get().table();
        for record in section.entries {
            let choose = |key: &str, found: Option<usize>, wanted| {
                let said = self.field(record, key)?;
                found.ok_or_else(|| self.error(record, key, ProfileFault::Value(said.to_owned(), wanted)))
            };
            let kind = self.field(record, "kind")?;
            let kind = choose("kind", KINDS.iter().position(|name| *name == kind), "raw, war or waw")?;
            let file = choose("file", file_index(self.field(record, "file")?), "R, P, UR or UP")?;
            let port = |name: &str| classes.port(file, name);
            let first = choose("first", port(self.field(record, "first")?).map(usize::from), "a port of this file")?;
            for (key, value) in record.fields.iter().filter(|(key, _)| !["kind", "file", "first"].contains(&key.as_str())) {
                let second = port(key).ok_or_else(|| self.error(record, key, ProfileFault::UnknownField))?;
                let cell = parse_cell(value).map_err(|what| self.error(record, key, ProfileFault::Contradiction(what)))?;
                if cell.cycles.checked_add(cell.guarded).is_none() {
                    return Err(self.error(record, key, ProfileFault::Value(value.clone(), "a number of cycles that fits")));
                }
                if table.grids[kind][file].insert(first as u8, second, cell).is_some() {
                    return Err(self.error(record, "first", ProfileFault::Duplicate));
                }
            }
        }
        Ok(())
    }

    /// Checks that every pair of ports has a figure, and that every figure has a declared source.
    fn check_table(&self, grids: &ProfileSection<'_>, times: &ProfileSection<'_>, table: &LatencyTable) -> ReadResult<()> {
        if let Some(missing) = table.missing(Classes::get().table()) {
            return Err(grids.header.error(self.file, ProfileFault::Contradiction(missing)));
        }
        let known = |letter: char| table.sources.iter().any(|(other, _)| *other == letter);
        for record in times.entries.iter().filter(|record| record.kind == RecordType::Scoreboard) {
            if !self.field(record, "source")?.chars().all(known) {
                return Err(self.error(
                    record,
                    "source",
                    ProfileFault::Value(self.field(record, "source")?.to_owned(), "a source of the grids"),
                ));
            }
        }
        for record in grids.entries {
            let cells = record.fields.iter().filter(|(key, _)| !["kind", "file", "first"].contains(&key.as_str()));
            for (key, value) in cells {
                if !value.chars().last().is_some_and(known) {
                    return Err(self.error(record, key, ProfileFault::Value(value.clone(), "a figure with a source of this section")));
                }
            }
        }
        Ok(())
    }

    /// Parses the class records and sets the latencies of all classes. Every class must occur once, in the group of its unit.
    fn latencies(&self, section: &ProfileSection<'_>, model: &mut Model) -> ReadResult<()> {
        let mut seen = Vec::new();
        let mut entries = section.entries;
        while let Some((group, rest)) = entries.split_first() {
            if group.kind != RecordType::GroupBoundary {
                return Err(group.error(self.file, ProfileFault::Order("group")));
            }
            self.reject_unknown_fields(group, &["unit", "entries"])?;
            let length = rest.iter().position(|record| record.kind == RecordType::GroupBoundary).unwrap_or(rest.len());
            let (members, after) = rest.split_at(length);
            self.check_count(group, "entries", members.len())?;
            for record in members {
                let class = self.class(record, "name")?;
                if seen.contains(&class) {
                    return Err(self.error(record, "name", ProfileFault::Duplicate));
                }
                seen.push(class);
                self.check_structure(record, class)?;
                if self.field(group, "unit")? != unit(class) {
                    let known = unit(class).to_owned();
                    return Err(self.error(group, "unit", ProfileFault::Structure { said: self.field(group, "unit")?.to_owned(), known }));
                }
                model.set_base_latency(class, self.number(record, "latency")?);
            }
            entries = after;
        }
        match Classes::get().all().find(|class| !seen.contains(class)) {
            Some(class) => Err(section.header.error(self.file, ProfileFault::MissingRecord(format!("class `{}`", class.name())))),
            None => Ok(()),
        }
    }

    /// Checks that all fields of a class record except its latency are as in the program.
    fn check_structure(&self, record: &Record, class: SchedClass) -> ReadResult<()> {
        let known = class_record(class, 0);
        let keys: Vec<&str> = known.fields.iter().map(|(key, _)| key.as_str()).collect();
        self.reject_unknown_fields(record, &keys)?;
        for (key, value) in known.fields.iter().filter(|(key, _)| key != "latency") {
            let said = self.field(record, key)?;
            if said != value {
                return Err(self.error(record, key, ProfileFault::Structure { said: said.to_owned(), known: value.clone() }));
            }
        }
        Ok(())
    }

    /// Parses the barrier entries and sets how classes use scoreboards. A file may add scoreboards, but not remove one that the grids need.
    fn waits(&self, header: &Record, barriers: &[Record], model: &mut Model) -> ReadResult<()> {
        let mut seen = Vec::new();
        for record in barriers.iter().filter(|record| record.kind == RecordType::BarrierEntry) {
            self.reject_unknown_fields(record, &["class", "results", "sources", "stall"])?;
            let class = self.class(record, "class")?;
            if seen.contains(&class) {
                return Err(self.error(record, "class", ProfileFault::Duplicate));
            }
            seen.push(class);
            let stall: u8 = self.number(record, "stall")?;
            if !(1..=15).contains(&stall) {
                return Err(self.error(record, "stall", ProfileFault::Value(stall.to_string(), "a stall count, 1 to 15")));
            }
            let waits = Waits { results: self.yes_or_no(record, "results")?, sources: self.yes_or_no(record, "sources")?, stall };
            for (field, said, needed) in [
                ("results", waits.results, model.results_need_scoreboard(class)),
                ("sources", waits.sources, model.sources_need_scoreboard(class)),
            ] {
                if needed && !said {
                    let what = format!("the grids need a scoreboard for the {field} of `{}`", class.name());
                    return Err(self.error(record, field, ProfileFault::Contradiction(what)));
                }
            }
            model.set_waits(class, waits);
        }
        let forgotten =
            |class: &SchedClass| !seen.contains(class) && (model.results_need_scoreboard(*class) || model.sources_need_scoreboard(*class));
        match Classes::get().all().find(forgotten) {
            Some(class) => {
                let what = format!("the barrier entry of `{}`, which needs a scoreboard by the grids,", class.name());
                Err(header.error(self.file, ProfileFault::MissingRecord(what)))
            }
            None => Ok(()),
        }
    }

    /// Checks that the longest stall covers every fixed latency that a stall can cover.
    fn check_stall(&self, records: &[&Record], header: &Record, machine: &Machine, model: &Model) -> ReadResult<()> {
        let needs = Classes::get().all().filter(|class| !model.results_need_scoreboard(*class));
        let coverable = needs.filter(|class| u32::from(model.longest_need(*class)) <= LONGEST_STALL);
        match coverable.max_by_key(|class| model.longest_need(*class)) {
            Some(class) if u32::from(model.longest_need(class)) > machine.max_stall => {
                let record = records.iter().find(|record| record.get("name") == Some("max_stall")).copied().unwrap_or(header);
                let what = format!("results of `{}` need {} cycles, which no stall covers then", class.name(), model.longest_need(class));
                Err(self.error(record, "value", ProfileFault::Contradiction(what)))
            }
            _ => Ok(()),
        }
    }

    /// Parses the facts of a section. Every key must occur once, with a valid value and a declared source.
    fn facts(
        &self,
        header: &Record,
        records: &[&Record],
        sources: &[(String, String)],
        check: fn(&str, &'static str) -> Option<Result<(), String>>,
        keys: impl Iterator<Item = &'static str>,
    ) -> ReadResult<Vec<Fact>> {
        let keys: Vec<&'static str> = keys.collect();
        let mut facts: Vec<Fact> = Vec::new();
        for record in records {
            self.reject_unknown_fields(record, &["name", "value", "source"])?;
            let name = self.field(record, "name")?;
            let (value, source) = (intern(self.field(record, "value")?), self.field(record, "source")?);
            let key = keys.iter().find(|key| **key == name && belongs_in(key, record.kind));
            let Some(&key) = key else {
                return Err(self.error(record, "name", ProfileFault::Value(name.to_owned(), "a fact of this section")));
            };
            if facts.iter().any(|fact| fact.key == key) {
                return Err(self.error(record, "name", ProfileFault::Duplicate));
            }
            if let Some(Err(what)) = check(key, value) {
                return Err(self.error(record, "value", ProfileFault::Contradiction(what)));
            }
            if !sources.iter().any(|(known, _)| known == source) {
                return Err(self.error(
                    record,
                    "source",
                    ProfileFault::Value(source.to_owned(), "a source that the section's head describes"),
                ));
            }
            facts.push(Fact { key, value, source: intern(source) });
        }
        match keys.iter().find(|key| facts.iter().all(|fact| fact.key != **key)) {
            Some(key) => Err(header.error(self.file, ProfileFault::MissingRecord(format!("fact `{key}`")))),
            None => Ok(facts),
        }
    }

    /// Rejects new values of facts on which no decision depends.
    fn check_unused(&self, records: &[&Record], built_in: &[Fact], is_used: fn(&str) -> bool) -> ReadResult<()> {
        for record in records {
            let (name, said) = (self.field(record, "name")?, self.field(record, "value")?);
            let known = built_in.iter().find(|fact| fact.key == name && !is_used(name)).map(|fact| fact.value);
            if let Some(known) = known.filter(|known| *known != said) {
                return Err(self.error(record, "value", ProfileFault::NotUsed { said: said.to_owned(), known }));
            }
        }
        Ok(())
    }

    /// Rejects shortest times that differ from the built-in ones: no decision depends on them.
    fn check_shortest_times(&self, section: &ProfileSection<'_>, target: Target) -> ReadResult<()> {
        let model = Model::of(target);
        for record in section.entries.iter().filter(|record| record.kind == RecordType::Scoreboard) {
            let said: u16 = self.number(record, "least")?;
            let known = model.time(self.class(record, "class")?).map(|time| time.least);
            if let Some(known) = known.filter(|known| *known != said) {
                return Err(self.error(
                    record,
                    "least",
                    ProfileFault::NotUsed { said: said.to_string(), known: intern(&known.to_string()) },
                ));
            }
        }
        Ok(())
    }

    /// Rejects limits with which later computations would fail: zeros, numbers that overflow, and values that no instruction can encode.
    fn check_machine(&self, records: &[&Record], header: &Record, machine: &Machine) -> ReadResult<()> {
        let complain = |key: &str, what: &str| {
            let record = records.iter().find(|record| record.get("name") == Some(key)).copied().unwrap_or(header);
            Err(self.error(record, "value", ProfileFault::Contradiction(format!("`{key}` {what}"))))
        };
        if machine.threads_per_warp != 32 || machine.schedulers > 64 {
            let key = if machine.schedulers > 64 { "schedulers" } else { "threads_per_warp" };
            return complain(key, "must be 32 threads for a warp, 64 schedulers at most");
        }
        let units = [
            ("schedulers", machine.schedulers),
            ("issue_per_scheduler", machine.issue_per_scheduler),
            ("register_unit", machine.register_unit),
            ("warp_unit", machine.warp_unit),
            ("shared_unit", machine.shared_unit),
            ("resident_warps", machine.resident_warps),
            ("registers", machine.registers),
        ];
        if let Some((key, _)) = units.iter().find(|(_, value)| *value == 0) {
            return complain(key, "must not be 0");
        }
        let absurd = units.iter().find(|(_, value)| *value > MAX_FIGURE);
        if let Some((key, _)) = absurd {
            return complain(key, "is more than any machine has");
        }
        if !machine.register_unit.is_multiple_of(machine.threads_per_warp) {
            return complain("register_unit", "must be a multiple of `threads_per_warp`");
        }
        if !(1..=LONGEST_STALL).contains(&machine.max_stall) {
            return complain("max_stall", "must be 1 to 15: the field of the instruction has four bits");
        }
        if !(2..=6).contains(&machine.scoreboards) {
            return complain("scoreboards", "must be 2 to 6: one for results, one for sources, and the instruction names no more");
        }
        if !SCHEDULERS.contains(&machine.page_scheduler) {
            return complain("page_scheduler", "must be a, b or c");
        }
        if machine.carve_outs.is_empty() || !machine.carve_outs.is_sorted() {
            return complain("carve_outs", "must be a list that ascends");
        }
        Ok(())
    }
}

/// Returns whether a fact belongs in records of this type.
fn belongs_in(key: &str, kind: RecordType) -> bool {
    match kind {
        RecordType::BarrierData => BARRIER_FACTS.contains(&key),
        RecordType::Machine => !BARRIER_FACTS.contains(&key),
        _ => true,
    }
}
