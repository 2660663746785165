//! What follows from a latency table, for each class and each port: figures that are asked for often and cost a walk over the grids.
//!
//! The build script computes the summaries of the tables under `data/`, so they are constants of the program; that of a profile file is
//! computed when the file has been read. This module knows no instruction set, because the build script compiles it too.

use crate::tables::{ClassRow, ClassTable, FILES, Grid, KINDS, LatencyTable, List};

/// No register file has more ports.
pub const MOST_PORTS: usize = 32;

/// What lies between setting a scoreboard and waiting for it on every machine of the tables.
pub const SCOREBOARD_STALL: u8 = 2;

/// Positions among the kinds of dependence.
const RAW: usize = 0;
const WAR: usize = 1;

/// How long an instruction of variable latency takes, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time {
    pub least: u16,
    pub usual: u16,
    pub most: u16,
    /// Until its sources may be overwritten, usually.
    pub read: u16,
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

/// What follows from a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The most cycles of any figure: what pairs without one need.
    pub longest: u8,
    /// By class: how long it takes, if that is not fixed.
    pub times: List<Option<Time>>,
    /// By class.
    pub waits: List<Waits>,
    /// By class: cycles to the result when it is not known who reads it.
    pub base_latencies: List<u16>,
    /// By class: the most cycles that any reader of its results needs, scoreboards aside.
    pub longest_needs: List<u8>,
    /// By kind, file and first port: the most cycles that any second port needs, scoreboards aside.
    pub lasting: [[[u8; MOST_PORTS]; FILES.len()]; KINDS.len()],
}

impl Summary {
    /// The summary of a table.
    pub fn of(table: &LatencyTable, classes: &ClassTable) -> Summary {
        let all = || classes.classes.iter();
        let time = |row: &ClassRow| table.times.iter().find(|time| time.class == row.name);
        let times: Vec<Option<Time>> = all()
            .map(|row| time(row).map(|time| Time { least: time.least, usual: time.usual, most: time.most, read: time.read }))
            .collect();
        let (late_results, late_sources) = (scoreboard_ports(table, RAW), scoreboard_ports(table, WAR));
        let longest = longest_reads(table);
        let longest_needs: Vec<u8> = all().map(|row| longest_need(row, &longest)).collect();
        let base = |(time, need): (&Option<Time>, &u8)| time.map_or(u16::from(*need), |time| time.usual);
        Summary {
            longest: longest_figure(table),
            base_latencies: times.iter().zip(&longest_needs).map(base).collect(),
            times: times.into(),
            waits: all().map(|row| waits(row, &late_results, &late_sources)).collect(),
            longest_needs: longest_needs.into(),
            lasting: lasting(table),
        }
    }
}

/// For each file and port whether anything that follows needs a scoreboard.
fn scoreboard_ports(table: &LatencyTable, kind: usize) -> [[bool; MOST_PORTS]; 4] {
    let mut ports = [[false; MOST_PORTS]; 4];
    for (ports, grid) in ports.iter_mut().zip(&table.grids[kind]) {
        for ((first, _), cell) in grid.iter() {
            ports[usize::from(first)] |= cell.scoreboard;
        }
    }
    ports
}

fn waits(row: &ClassRow, late_results: &[[bool; MOST_PORTS]; 4], late_sources: &[[bool; MOST_PORTS]; 4]) -> Waits {
    let is_late = |late: &[[bool; MOST_PORTS]; 4], file: usize, port: &u8| late[file][usize::from(*port)];
    let mut files = 0..FILES.len();
    Waits {
        results: files.clone().any(|file| row.writes[file].iter().any(|port| is_late(late_results, file, port))),
        sources: files.any(|file| row.reads[file].iter().copied().flatten().any(|port| is_late(late_sources, file, port))),
        stall: SCOREBOARD_STALL,
    }
}

fn longest_need(row: &ClassRow, longest: &[[u8; MOST_PORTS]; 4]) -> u8 {
    let files = longest.iter().zip(&row.writes);
    files.flat_map(|(longest, ports)| ports.iter().map(|&port| longest[usize::from(port)])).max().unwrap_or(1)
}

/// For each file and port the most cycles until somebody can read what leaves by it.
fn longest_reads(table: &LatencyTable) -> [[u8; MOST_PORTS]; 4] {
    let mut longest = [[0; MOST_PORTS]; 4];
    for (longest, grid) in longest.iter_mut().zip(&table.grids[RAW]) {
        for ((first, _), cell) in grid.iter() {
            let longest = &mut longest[usize::from(first)];
            *longest = (*longest).max(cell.cycles);
        }
    }
    longest
}

/// For each kind, file and first port the most cycles that a cell of its row asks for.
fn lasting(table: &LatencyTable) -> [[[u8; MOST_PORTS]; 4]; 3] {
    let mut lasting = [[[1; MOST_PORTS]; 4]; 3];
    for (lasting, grids) in lasting.iter_mut().zip(&table.grids) {
        for (lasting, grid) in lasting.iter_mut().zip(grids) {
            for ((first, _), cell) in grid.iter() {
                let lasting = &mut lasting[usize::from(first)];
                *lasting = (*lasting).max(cell.cycles + cell.guarded);
            }
        }
    }
    lasting
}

fn longest_figure(table: &LatencyTable) -> u8 {
    let cells = table.grids.iter().flatten().flat_map(Grid::iter);
    cells.map(|(_, cell)| cell.cycles + cell.guarded).max().unwrap_or_default()
}
