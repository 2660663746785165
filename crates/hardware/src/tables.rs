//! The two kinds of table that latencies come from: what class an instruction is of, and what a GPU needs between two classes.
//!
//! The class table names ports, classes and rules. A *port* is a place where a register is written or read that has its own timing: the
//! two halves of a wide product are ready at different times, its addend is read later than its factors. A *class* is a kind of
//! instruction with the same ports in all four register files. A *rule* sends a mnemonic, perhaps with certain modifiers, to a class.
//!
//! A latency table has twelve grids, one for each register file and each kind of dependence, over ports; and the times of what has no
//! fixed one. Every figure carries the letter of its source.
//!
//! The tables under `data/` are constants of the program (`built_in`): nobody reads text for them. A latency table may come from a
//! profile file too, so its lists are borrowed from the program or owned. This module knows no instruction set: the build script, which
//! reads `data/`, uses it as well.

use std::borrow::Cow;
use std::fmt;

/// Register files that have grids, in the order of indices.
pub const FILES: [&str; 4] = ["R", "P", "UR", "UP"];
/// Dependences that have grids, in the order of indices.
pub const KINDS: [&str; 3] = ["raw", "war", "waw"];

/// The port by which the guard of any instruction enters.
pub const GUARD: &str = "guard";

/// What is part of the program, or was read from a file.
pub type List<T> = Cow<'static, [T]>;

/// Classes, their ports, and the rules that lead to them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassTable {
    /// Names of ports of each file; a port is its index here.
    pub ports: [&'static [&'static str]; 4],
    pub classes: &'static [ClassRow],
    /// In the order of the file: the first that fits an instruction counts.
    pub rules: &'static [Rule],
}

/// A scheduling class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassRow {
    pub name: &'static str,
    /// Values of the other columns by name: `unit`, `rate`, `pipe`, `sub`, `flags`, `index`, `page`.
    pub attributes: &'static [(&'static str, &'static str)],
    /// For each file the ports that results leave by, one for each register of the result; the last stands for all further ones.
    pub writes: [&'static [u8]; 4],
    /// For each file the ports that sources enter by, one list of registers for each source; the last stands for all further ones.
    pub reads: [&'static [&'static [u8]]; 4],
}

/// A mnemonic with modifiers that must all be there, and its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub mnemonic: &'static str,
    pub modifiers: &'static [&'static str],
    pub class: usize,
    /// Its line in `classes.tbl`.
    pub line: usize,
}

/// What a GPU needs between two classes.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyTable {
    pub name: &'static str,
    /// Names of the targets it is for.
    pub targets: List<&'static str>,
    /// Letters of sources and what they stand for.
    pub sources: List<(char, &'static str)>,
    /// By kind, then by file.
    pub grids: [[Grid; 4]; 3],
    pub times: List<TimeRow>,
}

/// Figures between two ports of a file. Rows are what comes first.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// How many ports the file has: the length of a row.
    pub ports: usize,
    /// Row by row; none for pairs that no two instructions make.
    pub cells: List<Option<Cell>>,
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Cycles from the issue of the first to the issue of the second.
    pub cycles: u8,
    /// Cycles more if the first has a guard.
    pub guarded: u8,
    /// Whether the cycles are not enough: a scoreboard has to be waited for.
    pub scoreboard: bool,
    /// Letter of its source, which is an ASCII one.
    pub source: u8,
}

/// How long a class of variable latency takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRow {
    pub class: &'static str,
    /// Cycles to the result: at least, usually, and when things go badly.
    pub least: u16,
    pub usual: u16,
    pub most: u16,
    /// Cycles until sources may be overwritten, usually.
    pub read: u16,
    pub source: char,
}

impl ClassTable {
    /// The class of this name.
    pub fn class_index(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// The port of this name.
    pub fn port(&self, file: usize, name: &str) -> Option<u8> {
        self.ports[file].iter().position(|port| *port == name).map(|index| index as u8)
    }

    /// All ports of a file that some class writes by, or reads by, in ascending order.
    pub fn ports_in_use(&self, file: usize, written: bool) -> Vec<u8> {
        let of_class = |class: &ClassRow| if written { class.writes[file].to_vec() } else { class.reads[file].concat() };
        let mut ports: Vec<u8> = self.classes.iter().flat_map(of_class).collect();
        ports.extend(if written { None } else { self.port(file, GUARD) });
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

impl ClassRow {
    /// The value of a column.
    pub fn attribute(&self, key: &str) -> Option<&'static str> {
        self.attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

impl Grid {
    /// A grid over so many ports without any figure.
    pub fn empty(ports: usize) -> Grid {
        Grid { ports, cells: vec![None; ports * ports].into() }
    }

    /// Empty grids over the ports of these classes, by kind and file.
    pub fn all_empty(classes: &ClassTable) -> [[Grid; 4]; 3] {
        std::array::from_fn(|_| std::array::from_fn(|file| Grid::empty(classes.ports[file].len())))
    }

    /// The figure of a pair.
    #[inline]
    pub fn get(&self, first: u8, second: u8) -> Option<Cell> {
        self.cells[self.place(first, second)]
    }

    /// Gives a pair a figure, and returns the one that it had.
    pub fn insert(&mut self, first: u8, second: u8, cell: Cell) -> Option<Cell> {
        let place = self.place(first, second);
        self.cells.to_mut()[place].replace(cell)
    }

    /// All figures by first and second port, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ((u8, u8), Cell)> {
        let places = self.cells.iter().enumerate();
        places.filter_map(|(place, cell)| Some((((place / self.ports) as u8, (place % self.ports) as u8), (*cell)?)))
    }

    #[inline]
    fn place(&self, first: u8, second: u8) -> usize {
        debug_assert!(usize::from(second) < self.ports, "a port of another file");
        usize::from(first) * self.ports + usize::from(second)
    }
}

impl LatencyTable {
    /// The first pair of ports that instructions have and no grid does.
    pub fn missing(&self, classes: &ClassTable) -> Option<String> {
        for (kind, kind_name) in KINDS.iter().enumerate() {
            for (file, file_name) in FILES.iter().enumerate() {
                let seconds = classes.ports_in_use(file, kind != 0);
                for first in classes.ports_in_use(file, kind != 1) {
                    for &second in &seconds {
                        if self.grids[kind][file].get(first, second).is_none() {
                            let name = |port: u8| classes.ports[file][usize::from(port)];
                            return Some(format!("{}: no figure for {kind_name} {file_name} {} {}", self.name, name(first), name(second)));
                        }
                    }
                }
            }
        }
        None
    }
}

/// `4m`, `3+2n` (two more if the first has a guard), `sbn` (a scoreboard), `2sbn` (a scoreboard, and two cycles at least).
pub fn parse_cell(text: &str) -> Result<Cell, String> {
    let (figure, source) = split_source(text)?;
    let number = |text: &str| text.parse::<u8>().map_err(|_| format!("`{text}` is not a number of cycles"));
    if let Some(cycles) = figure.strip_suffix("sb") {
        let cycles = if cycles.is_empty() { 1 } else { number(cycles)? };
        return Ok(Cell { cycles, guarded: 0, scoreboard: true, source });
    }
    let (cycles, guarded) = figure.split_once('+').unwrap_or((figure, "0"));
    Ok(Cell { cycles: number(cycles)?, guarded: number(guarded)?, scoreboard: false, source })
}

impl Cell {
    /// The letter of its source.
    pub fn letter(self) -> char {
        self.source.into()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = self.letter();
        match (self.scoreboard, self.guarded) {
            (true, _) if self.cycles > 1 => write!(f, "{}sb{letter}", self.cycles),
            (true, _) => write!(f, "sb{letter}"),
            (false, 0) => write!(f, "{}{letter}", self.cycles),
            (false, more) => write!(f, "{}+{more}{letter}", self.cycles),
        }
    }
}

/// A figure and the letter behind it.
pub(crate) fn split_source(text: &str) -> Result<(&str, u8), String> {
    let source = text.bytes().last().filter(u8::is_ascii_lowercase).ok_or_else(|| format!("`{text}` has no source"))?;
    Ok((&text[..text.len() - 1], source))
}

/// The index of a register file that has grids.
pub fn file_index(name: &str) -> Option<usize> {
    FILES.iter().position(|&file| file == name)
}
