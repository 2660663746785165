//! Figures for each class and each port derived from a latency table, because they are queried often and need a scan of the grids.
//!
//! The build script computes the summaries of the tables under `data/`, so they are constants of the program. The summary of a profile file
//! is computed when the file is read. This module does not depend on the instruction set, because the build script compiles it too.

use crate::tables::{ClassRow, ClassTable, FILES, Grid, KINDS, LatencyTable, List};

/// Maximum number of ports of a register file.
pub const MOST_PORTS: usize = 32;

/// Cycles from setting a scoreboard until a wait can see it, on every machine of the tables.
pub const SCOREBOARD_STALL: u8 = 2;

/// Indices into [`KINDS`].
const RAW: usize = 0;
const WAR: usize = 1;

/// The duration of an instruction of variable latency, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VariableLatency {
    /// Shortest time from issue to result.
    pub least: u16,
    /// Usual time from issue to result.
    pub usual: u16,
    /// Longest time from issue to result.
    pub most: u16,
    /// Usual time from issue until the sources may be overwritten.
    pub read: u16,
}

/// How a class uses scoreboards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Whether readers of the results must wait for a scoreboard.
    pub results: bool,
    /// Whether an instruction that overwrites the sources must wait for a scoreboard.
    pub sources: bool,
    /// Cycles from setting a scoreboard until a wait can see it.
    pub stall: u8,
}

/// Figures derived from a latency table.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The largest number of cycles in the table, which pairs without a figure need.
    pub longest: u8,
    /// For each class, its duration. `None` for a class of fixed latency.
    pub times: List<Option<VariableLatency>>,
    /// For each class, how it uses scoreboards.
    pub waits: List<Waits>,
    /// For each class, cycles to the result for an unknown reader.
    pub base_latencies: List<u16>,
    /// For each class, the largest number of cycles that any reader of its results needs, scoreboards aside.
    pub longest_needs: List<u8>,
    /// For each kind, file and first port, the largest number of cycles that any second port needs, scoreboards aside.
    pub max_need_by_port: [[[u8; MOST_PORTS]; FILES.len()]; KINDS.len()],
}

impl Summary {
    /// Computes the summary of a table.
    pub fn of(table: &LatencyTable, classes: &ClassTable) -> Summary {
        let all = || classes.classes.iter();
        let time = |row: &ClassRow| table.times.iter().find(|time| time.class == row.name);
        let times: Vec<Option<VariableLatency>> = all()
            .map(|row| time(row).map(|time| VariableLatency { least: time.least, usual: time.usual, most: time.most, read: time.read }))
            .collect();
        let (late_results, late_sources) = (scoreboard_ports(table, RAW), scoreboard_ports(table, WAR));
        let longest = longest_reads(table);
        let longest_needs: Vec<u8> = all().map(|row| longest_need(row, &longest)).collect();
        let base = |(time, need): (&Option<VariableLatency>, &u8)| time.map_or(u16::from(*need), |time| time.usual);
        Summary {
            longest: longest_figure(table),
            base_latencies: times.iter().zip(&longest_needs).map(base).collect(),
            times: times.into(),
            waits: all().map(|row| waits(row, &late_results, &late_sources)).collect(),
            longest_needs: longest_needs.into(),
            max_need_by_port: max_need_by_port(table),
        }
    }
}

/// Returns, for each file and port, whether some second access needs a scoreboard.
fn scoreboard_ports(table: &LatencyTable, kind: usize) -> [[bool; MOST_PORTS]; 4] {
    let mut ports = [[false; MOST_PORTS]; 4];
    for (ports, grid) in ports.iter_mut().zip(&table.grids[kind]) {
        for ((first, _), cell) in grid.iter() {
            ports[usize::from(first)] |= cell.scoreboard;
        }
    }
    ports
}

/// Returns how a class uses scoreboards: whether some port of its results or sources needs one.
fn waits(row: &ClassRow, late_results: &[[bool; MOST_PORTS]; 4], late_sources: &[[bool; MOST_PORTS]; 4]) -> Waits {
    let is_late = |late: &[[bool; MOST_PORTS]; 4], file: usize, port: &u8| late[file][usize::from(*port)];
    let mut files = 0..FILES.len();
    Waits {
        results: files.clone().any(|file| row.writes[file].iter().any(|port| is_late(late_results, file, port))),
        sources: files.any(|file| row.reads[file].iter().copied().flatten().any(|port| is_late(late_sources, file, port))),
        stall: SCOREBOARD_STALL,
    }
}

/// Returns the largest number of cycles that any reader of a result of the class needs.
fn longest_need(row: &ClassRow, longest: &[[u8; MOST_PORTS]; 4]) -> u8 {
    let files = longest.iter().zip(&row.writes);
    files.flat_map(|(longest, ports)| ports.iter().map(|&port| longest[usize::from(port)])).max().unwrap_or(1)
}

/// Returns, for each file and port, the largest number of cycles until a result written by the port can be read.
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

/// Returns, for each kind, file and first port, the largest number of cycles in its row of the grid.
fn max_need_by_port(table: &LatencyTable) -> [[[u8; MOST_PORTS]; 4]; 3] {
    let mut needs = [[[1; MOST_PORTS]; 4]; 3];
    for (needs, grids) in needs.iter_mut().zip(&table.grids) {
        for (needs, grid) in needs.iter_mut().zip(grids) {
            for ((first, _), cell) in grid.iter() {
                let need = &mut needs[usize::from(first)];
                *need = (*need).max(cell.cycles + cell.guarded);
            }
        }
    }
    needs
}

/// Returns the largest number of cycles in the table.
fn longest_figure(table: &LatencyTable) -> u8 {
    let cells = table.grids.iter().flatten().flat_map(Grid::iter);
    cells.map(|(_, cell)| cell.cycles + cell.guarded).max().unwrap_or_default()
}
