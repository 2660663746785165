//! The model of one target: what must lie between two instructions, and how long things take.
//!
//! Two instructions that touch the same register need cycles between their issues, or a scoreboard, or both. How many depends on the
//! kind of dependence, the register file, and the two ports ([`Class::write_port`], [`Class::read_port`]); the answer is one load from
//! a dense grid, because schedulers ask it for every edge of every dependence graph.

use std::sync::{Arc, OnceLock};

use oriole_isa::{File, Target};

use crate::class::{Class, Classes, Port, file_index};
use crate::tables::{FILES, KINDS, LatencyTable, TimeRow};

/// Latency tables by name.
const TABLES: &[(&str, &str)] = &[
    ("turing", include_str!("../data/latency/turing.tbl")),
    ("ampere", include_str!("../data/latency/ampere.tbl")),
    ("ada", include_str!("../data/latency/ada.tbl")),
    ("hopper", include_str!("../data/latency/hopper.tbl")),
    ("blackwell", include_str!("../data/latency/blackwell.tbl")),
    ("blackwell_ultra", include_str!("../data/latency/blackwell_ultra.tbl")),
    ("thor", include_str!("../data/latency/thor.tbl")),
    ("blackwell_consumer", include_str!("../data/latency/blackwell_consumer.tbl")),
    ("universal", include_str!("../data/latency/universal.tbl")),
];
const STRIDE: usize = 32;

/// How two instructions depend on each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The second reads what the first writes.
    Raw,
    /// The second writes what the first reads.
    War,
    /// Both write it.
    Waw,
}

/// What must lie between two instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Need {
    /// Cycles from issue to issue.
    pub cycles: u8,
    /// Whether the second must wait for a scoreboard that the first sets.
    pub scoreboard: bool,
}

/// How long an instruction of variable latency takes, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time {
    pub least: u16,
    pub usual: u16,
    pub most: u16,
    /// Until its sources may be overwritten, usually.
    pub read: u16,
}

/// The model of a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    table: LatencyTable,
    /// By kind and file; rows of `STRIDE`.
    needs: [[Box<[Need]>; 4]; 3],
    /// Added if the first has a guard.
    guarded: [[Box<[u8]>; 4]; 3],
    times: Vec<Option<Time>>,
    waits: Vec<Waits>,
    base_latencies: Vec<u16>,
    longest_needs: Vec<u8>,
    /// By kind, file and first port: the most cycles that any second port needs, scoreboards aside.
    lasting: [[[u8; STRIDE]; 4]; 3],
}

/// What a class does with scoreboards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Whether results have to be waited for.
    pub results: bool,
    /// Whether overwriting sources has to wait.
    pub sources: bool,
    /// Cycles between setting a scoreboard and waiting for it.
    pub stall: u8,
}

/// What lies between setting a scoreboard and waiting for it on every machine of the tables.
pub const SCOREBOARD_STALL: u8 = 2;

impl Model {
    /// The model of a target; that of the universal table for one that has none of its own.
    pub fn of(target: Target) -> &'static Arc<Model> {
        static MODELS: [OnceLock<Arc<Model>>; TABLES.len()] = [const { OnceLock::new() }; TABLES.len()];
        let name = target.to_string();
        let index = TABLES.iter().position(|(_, text)| is_for(text, &name)).unwrap_or(TABLES.len() - 1);
        MODELS[index].get_or_init(|| {
            let table = read_table(TABLES[index].0).unwrap_or_else(|| unreachable!("the build checked this table"));
            Arc::new(Model::new(table))
        })
    }

    /// The model that a table describes.
    pub fn new(table: LatencyTable) -> Model {
        let longest = Need { cycles: longest_fixed(&table), scoreboard: false };
        let mut needs = std::array::from_fn(|_| std::array::from_fn(|_| vec![longest; STRIDE * STRIDE].into_boxed_slice()));
        let mut guarded = std::array::from_fn(|_| std::array::from_fn(|_| vec![0; STRIDE * STRIDE].into_boxed_slice()));
        for kind in 0..KINDS.len() {
            for file in 0..FILES.len() {
                let (needs, guarded): (&mut Box<[Need]>, &mut Box<[u8]>) = (&mut needs[kind][file], &mut guarded[kind][file]);
                for (&(first, second), cell) in &table.grids[kind][file].cells {
                    let at = usize::from(first) * STRIDE + usize::from(second);
                    needs[at] = Need { cycles: cell.cycles, scoreboard: cell.scoreboard };
                    guarded[at] = cell.guarded;
                }
            }
        }
        let classes = Classes::get();
        let times = classes.all().map(|class| table.times.iter().find(|row| row.class == class.name()).map(time_of)).collect();
        let lasting = lasting(&table);
        let mut model =
            Model { table, needs, guarded, times, waits: Vec::new(), base_latencies: Vec::new(), longest_needs: Vec::new(), lasting };
        let (late_results, late_sources) = (scoreboard_ports(&model.table, Kind::Raw), scoreboard_ports(&model.table, Kind::War));
        model.waits = classes.all().map(|class| waits_of(class, &late_results, &late_sources)).collect();
        let longest = longest_needs(&model.table);
        model.longest_needs = classes.all().map(|class| longest_need_of(class, &longest)).collect();
        model.base_latencies = classes.all().map(|class| model.base_latency_of(class)).collect();
        model
    }

    /// The table it was made from.
    pub fn table(&self) -> &LatencyTable {
        &self.table
    }

    /// What must lie between two instructions that meet in a register.
    #[inline]
    pub fn need(&self, kind: Kind, file: File, first: Port, second: Port) -> Need {
        match file_index(file) {
            Some(file) => self.needs[kind as usize][file][usize::from(first.0) * STRIDE + usize::from(second.0)],
            None => Need { cycles: 1, scoreboard: false },
        }
    }

    /// The same if the first instruction has a guard.
    #[inline]
    pub fn need_guarded(&self, kind: Kind, file: File, first: Port, second: Port) -> Need {
        let need = self.need(kind, file, first, second);
        let more =
            file_index(file).map_or(0, |file| self.guarded[kind as usize][file][usize::from(first.0) * STRIDE + usize::from(second.0)]);
        Need { cycles: need.cycles + more, ..need }
    }

    /// After so many cycles no second instruction has to heed what a first one did by this port, scoreboards aside.
    #[inline]
    pub fn lasting(&self, kind: Kind, file: File, first: Port) -> u8 {
        file_index(file).map_or(1, |file| self.lasting[kind as usize][file][usize::from(first.0)])
    }

    /// Whether results have to be waited for by scoreboard.
    #[inline]
    pub fn results_wait(&self, class: Class) -> bool {
        self.waits[class.index()].results
    }

    /// Whether sources are read so late that overwriting them has to wait for a scoreboard.
    #[inline]
    pub fn sources_wait(&self, class: Class) -> bool {
        self.waits[class.index()].sources
    }

    /// How long it takes, for what has no fixed latency.
    pub fn time(&self, class: Class) -> Option<Time> {
        self.times[class.index()]
    }

    /// What it does with scoreboards.
    #[inline]
    pub fn waits(&self, class: Class) -> Waits {
        self.waits[class.index()]
    }

    /// Says what a class does with scoreboards, whatever the grids say.
    pub fn set_waits(&mut self, class: Class, waits: Waits) {
        self.waits[class.index()] = waits;
    }

    /// Cycles to the result when it is not known who reads it: the longest need of a fixed latency, the usual time of a variable one.
    #[inline]
    pub fn base_latency(&self, class: Class) -> u16 {
        self.base_latencies[class.index()]
    }

    /// Says how many cycles to reckon with when it is not known who reads a result.
    pub fn set_base_latency(&mut self, class: Class, cycles: u16) {
        self.base_latencies[class.index()] = cycles;
    }

    /// The most cycles that any reader of its results needs, scoreboards aside.
    #[inline]
    pub fn longest_need(&self, class: Class) -> u8 {
        self.longest_needs[class.index()]
    }

    fn base_latency_of(&self, class: Class) -> u16 {
        self.time(class).map_or(self.longest_need(class).into(), |time| time.usual)
    }
}

fn time_of(row: &TimeRow) -> Time {
    Time { least: row.least, usual: row.usual, most: row.most, read: row.read }
}

/// For each file and port whether anything that follows needs a scoreboard.
fn scoreboard_ports(table: &LatencyTable, kind: Kind) -> [[bool; STRIDE]; 4] {
    let mut ports = [[false; STRIDE]; 4];
    for (ports, grid) in ports.iter_mut().zip(&table.grids[kind as usize]) {
        for (&(first, _), cell) in &grid.cells {
            ports[usize::from(first)] |= cell.scoreboard;
        }
    }
    ports
}

fn waits_of(class: Class, late_results: &[[bool; STRIDE]; 4], late_sources: &[[bool; STRIDE]; 4]) -> Waits {
    let row = class.row();
    let is_late = |late: &[[bool; STRIDE]; 4], file: usize, port: &u8| late[file][usize::from(*port)];
    let mut files = 0..FILES.len();
    Waits {
        results: files.clone().any(|file| row.writes[file].iter().any(|port| is_late(late_results, file, port))),
        sources: files.any(|file| row.reads[file].iter().flatten().any(|port| is_late(late_sources, file, port))),
        stall: SCOREBOARD_STALL,
    }
}

fn longest_need_of(class: Class, longest: &[[u8; STRIDE]; 4]) -> u8 {
    let files = longest.iter().zip(&class.row().writes);
    files.flat_map(|(longest, ports)| ports.iter().map(|&port| longest[usize::from(port)])).max().unwrap_or(1)
}

/// For each file and port the most cycles until somebody can read what leaves by it.
fn longest_needs(table: &LatencyTable) -> [[u8; STRIDE]; 4] {
    let mut longest = [[0; STRIDE]; 4];
    for (longest, grid) in longest.iter_mut().zip(&table.grids[Kind::Raw as usize]) {
        for (&(first, _), cell) in &grid.cells {
            let longest = &mut longest[usize::from(first)];
            *longest = (*longest).max(cell.cycles);
        }
    }
    longest
}

/// For each kind, file and first port the most cycles that a cell of its row asks for.
fn lasting(table: &LatencyTable) -> [[[u8; STRIDE]; 4]; 3] {
    let mut lasting = [[[1; STRIDE]; 4]; 3];
    for (lasting, grids) in lasting.iter_mut().zip(&table.grids) {
        for (lasting, grid) in lasting.iter_mut().zip(grids) {
            for (&(first, _), cell) in &grid.cells {
                let lasting = &mut lasting[usize::from(first)];
                *lasting = (*lasting).max(cell.cycles + cell.guarded);
            }
        }
    }
    lasting
}

fn longest_fixed(table: &LatencyTable) -> u8 {
    table.grids.iter().flatten().flat_map(|grid| grid.cells.values()).map(|cell| cell.cycles + cell.guarded).max().unwrap_or_default()
}

/// Whether the table of this text is for a target, without reading all of it.
fn is_for(text: &str, target: &str) -> bool {
    let line = text.lines().find_map(|line| line.strip_prefix("targets "));
    line.is_some_and(|names| names.split_whitespace().any(|name| name == target))
}

/// The built-in latency table of this name.
pub fn read_table(name: &str) -> Option<LatencyTable> {
    let (name, text) = TABLES.iter().find(|(other, _)| *other == name)?;
    LatencyTable::parse(&format!("{name}.tbl"), text, Classes::get().table(), &read_table).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_isa::parse;

    fn class(text: &str) -> Class {
        Class::of(&parse(text).expect("an instruction"))
    }

    #[test]
    fn every_table_can_be_read_and_every_target_has_one() {
        for (name, _) in TABLES {
            assert!(read_table(name).is_some(), "{name}");
        }
        for target in Target::all() {
            let name = target.to_string();
            assert!(TABLES.iter().any(|(_, text)| is_for(text, &name)), "{name} has no latency table");
        }
    }

    #[test]
    fn modifiers_choose_the_class() {
        assert_eq!(class("IMAD.WIDE R2, R4, R5, R6").name(), "wide_multiply");
        assert_eq!(class("IMAD R2, R4, R5, R6").name(), "multiply");
        assert_eq!(class("HADD2.F32 R2, -RZ, R4.H0_H0").name(), "half_wide");
    }

    #[test]
    fn halves_of_a_wide_product_are_ready_one_after_the_other() {
        let model = Model::of(Target::parse("sm_90").expect("a target"));
        let (wide, add) = (class("IMAD.WIDE R2, R4, R5, R6"), class("IADD3 R8, R2, R3, RZ"));
        let need = |part| {
            let first = wide.write_port(File::General, part).expect("it writes registers");
            let second = add.read_port(File::General, 0, 0).expect("it reads registers");
            model.need(Kind::Raw, File::General, first, second).cycles
        };
        assert!(need(0) < need(1));
    }

    #[test]
    fn loads_wait_and_sums_do_not() {
        let model = Model::of(Target::parse("sm_90").expect("a target"));
        let (load, sum) = (class("LDG.E R0, desc[UR4][R2.64]"), class("IADD3 R0, R1, R2, R3"));
        assert!(model.results_wait(load) && model.sources_wait(load));
        assert!(!model.results_wait(sum) && !model.sources_wait(sum));
    }
}
