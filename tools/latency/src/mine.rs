//! Collects dependences and prints them: one table for programs, one for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use oriole_hardware::DependenceKind;
use oriole_isa::RegFile;
use rustc_hash::FxHashMap;

use crate::code::Run;
use crate::dependence::{self, Dependence};
use crate::signature::{place, signature};

/// A kind of dependence.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    kind: &'static str,
    file: &'static str,
    barrier: bool,
    first: String,
    first_place: String,
    second: String,
    second_place: String,
}

/// Statistics of a kind of dependence; histograms of distances in cycles.
#[derive(Default)]
struct Stat {
    count: u64,
    least: u32,
    all: BTreeMap<u32, u64>,
    adjacent: BTreeMap<u32, u64>,
    tight: BTreeMap<u32, u64>,
}

/// How often an instruction sets scoreboards, and the histogram of its stall counts.
#[derive(Default)]
struct Scoreboards {
    count: u64,
    write: u64,
    read: u64,
    stalls: BTreeMap<u32, u64>,
}

/// The statistics of the code of one target.
#[derive(Default)]
pub struct Mine {
    stats: FxHashMap<Key, Stat>,
    scoreboards: BTreeMap<String, Scoreboards>,
    pub instructions: u64,
}

pub fn kind_name(kind: DependenceKind) -> &'static str {
    match kind {
        DependenceKind::Raw => "RAW",
        DependenceKind::War => "WAR",
        DependenceKind::Waw => "WAW",
    }
}

impl Mine {
    pub fn add(&mut self, run: &Run) {
        for step in &run.steps {
            let control = step.instruction.control;
            let entry = self.scoreboards.entry(signature(&step.instruction)).or_default();
            entry.count += 1;
            entry.write += u64::from(control.write_barrier.is_some());
            entry.read += u64::from(control.read_barrier.is_some());
            *entry.stalls.entry(control.stall.into()).or_default() += 1;
        }
        self.instructions += run.steps.len() as u64;
        dependence::each(run, |_, all| all.iter().for_each(|found| self.note(found)));
    }

    fn note(&mut self, found: &Dependence<'_>) {
        let key = Key {
            kind: kind_name(found.kind),
            file: found.first_end.access.file.prefix(),
            barrier: found.barrier,
            first: signature(&found.first.instruction),
            first_place: place(found.first, &found.first_end),
            second: signature(&found.second.instruction),
            second_place: place(found.second, &found.second_end),
        };
        let stat = self.stats.entry(key).or_insert_with(|| Stat { least: u32::MAX, ..Stat::default() });
        stat.count += 1;
        stat.least = stat.least.min(found.cycles);
        *stat.all.entry(found.cycles).or_default() += 1;
        if found.adjacent {
            *stat.adjacent.entry(found.cycles).or_default() += 1;
        }
        if found.tight {
            *stat.tight.entry(found.cycles).or_default() += 1;
        }
    }

    /// Returns a table with one line per kind of dependence, sorted.
    pub fn table(&self, target: &str) -> String {
        let mut out =
            "target\tkind\tfile\tbarrier\tfirst\tfirst_place\tsecond\tsecond_place\tcount\tleast\ttight\tadjacent\tall\n".to_string();
        let mut keys: Vec<&Key> = self.stats.keys().collect();
        keys.sort();
        for key in keys {
            let stat = &self.stats[key];
            let barrier = if key.barrier { "set" } else { "-" };
            let _ = writeln!(
                out,
                "{target}\t{}\t{}\t{barrier}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                key.kind,
                key.file,
                key.first,
                key.first_place,
                key.second,
                key.second_place,
                stat.count,
                stat.least,
                histogram(&stat.tight),
                histogram(&stat.adjacent),
                histogram(&stat.all)
            );
        }
        out
    }

    /// Returns a table of how often each kind of instruction sets scoreboards.
    pub fn scoreboard_table(&self) -> String {
        let mut out = "signature\tcount\tsets_write\tsets_read\tstalls\n".to_string();
        for (signature, entry) in &self.scoreboards {
            let _ = writeln!(out, "{signature}\t{}\t{}\t{}\t{}", entry.count, entry.write, entry.read, histogram(&entry.stalls));
        }
        out
    }

    /// Returns tables with a row per first and a column per second mnemonic: the least distance, and the most frequent one of tight pairs.
    pub fn pivots(&self) -> String {
        let mut out =
            "least distance / usual distance of pairs where nothing else explains the stall (how many); no scoreboard set\n".to_string();
        for kind in [DependenceKind::Raw, DependenceKind::Waw, DependenceKind::War] {
            for file in [RegFile::General, RegFile::Predicate, RegFile::Uniform, RegFile::UniformPredicate] {
                self.pivot(&mut out, kind_name(kind), file.prefix());
            }
        }
        out
    }

    /// Appends the table of one kind of dependence and register file.
    fn pivot(&self, out: &mut String, kind: &str, file: &str) {
        let mut cells: BTreeMap<(&str, &str), Cell> = BTreeMap::new();
        for (key, stat) in self.stats.iter().filter(|(key, _)| key.kind == kind && key.file == file && !key.barrier) {
            let guard = if key.second_place == "guard" { "@" } else { mnemonic(&key.second) };
            let cell = cells.entry((mnemonic(&key.first), guard)).or_insert_with(|| Cell { least: u32::MAX, tight: BTreeMap::new() });
            cell.least = cell.least.min(stat.least);
            for (&cycles, count) in &stat.tight {
                *cell.tight.entry(cycles).or_default() += count;
            }
        }
        let _ = writeln!(out, "\n== {kind} {file}");
        let mut row = "";
        for ((first, second), Cell { least, tight }) in &cells {
            if *first != row {
                let _ = write!(out, "\n{first:10}");
                row = first;
            }
            let usual = tight.iter().max_by_key(|(cycles, count)| (**count, std::cmp::Reverse(**cycles)));
            let _ = match usual {
                Some((cycles, count)) => write!(out, " {second}={least}/{cycles}({count})"),
                None => write!(out, " {second}={least}"),
            };
        }
        out.push('\n');
    }
}

/// A cell of a pivot table.
struct Cell {
    least: u32,
    tight: BTreeMap<u32, u64>,
}

fn mnemonic(signature: &str) -> &str {
    signature.split('.').next().unwrap_or(signature)
}

fn histogram(counts: &BTreeMap<u32, u64>) -> String {
    let entries: Vec<String> = counts.iter().map(|(cycles, count)| format!("{cycles}:{count}")).collect();
    if entries.is_empty() { "-".to_string() } else { entries.join(" ") }
}
