//! The types of the two tables that latencies come from: the class table, and the latency table of a GPU.
//!
//! The class table has ports, classes and rules. A *port* is a point with its own timing at which a register is read or written: the two
//! halves of a wide product are ready at different times, and its addend is read later than its factors. A *class* is a kind of instruction
//! with the same ports in all four register files. A *rule* maps a mnemonic, possibly with certain modifiers, to a class.
//!
//! A latency table has twelve grids over ports, one for each register file and kind of dependence, and the durations of classes of variable
//! latency. Every figure has the letter of its source.
//!
//! The tables under `data/` are constants of the program (`built_in`), so no text is read for them at run time. A latency table may also
//! come from a profile file, so its lists are either borrowed from the program or owned. This module does not depend on the instruction
//! set, because the build script, which reads `data/`, compiles it too.

use std::borrow::Cow;
use std::fmt;

/// Names of the register files that have grids, by index.
pub const FILES: [&str; 4] = ["R", "P", "UR", "UP"];
/// Names of the kinds of dependence that have grids, by index.
pub const KINDS: [&str; 3] = ["raw", "war", "waw"];

/// Name of the port by which the guard of an instruction is read.
pub const GUARD: &str = "guard";

/// A list that is either a constant of the program or read from a file.
pub type List<T> = Cow<'static, [T]>;

/// Classes, their ports, and the rules that map instructions to them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassTable {
    /// For each file, the names of its ports. A port is an index into this list.
    pub ports: [&'static [&'static str]; 4],
    /// All classes. A class is an index into this list.
    pub classes: &'static [ClassRow],
    /// All rules, in the order of the file. The first rule that matches an instruction applies.
    pub rules: &'static [ClassRule],
}

/// A scheduling class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassRow {
    pub name: &'static str,
    /// Values of the other columns, by name: `unit`, `rate`, `pipe`, `sub`, `flags`, `index`, `page`.
    pub attributes: &'static [(&'static str, &'static str)],
    /// For each file, the ports by which results are written, one for each register of the result. The last port also serves all further
    /// registers.
    pub writes: [&'static [u8]; 4],
    /// For each file, the ports by which sources are read: for each source, one port for each register. The last entry also serves all
    /// further sources or registers.
    pub reads: [&'static [&'static [u8]]; 4],
}

/// A rule: a mnemonic, the modifiers that must all be present, and the class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassRule {
    pub mnemonic: &'static str,
    pub modifiers: &'static [&'static str],
    /// Index of the class.
    pub class: usize,
    /// Line number in `classes.tbl`.
    pub line: usize,
}

/// The latencies of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyTable {
    pub name: &'static str,
    /// Names of the targets that the table is for.
    pub targets: List<&'static str>,
    /// Letters of the sources, and their descriptions.
    pub sources: List<(char, &'static str)>,
    /// Grids by kind of dependence, then by register file.
    pub grids: [[Grid; 4]; 3],
    /// Durations of the classes of variable latency.
    pub times: List<TimeRow>,
}

/// Figures for each pair of ports of a register file. The row is the port of the first access, the column that of the second.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Number of ports of the file, which is the length of a row.
    pub ports: usize,
    /// The figures, row by row. `None` for pairs that no two instructions can have.
    pub cells: List<Option<Cell>>,
}

/// The requirement for one pair of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Minimum number of cycles from the issue of the first instruction to the issue of the second.
    pub cycles: u8,
    /// Additional cycles if the first instruction has a guard.
    pub guarded: u8,
    /// Whether the second instruction must also wait for a scoreboard.
    pub scoreboard: bool,
    /// Letter of the source, in ASCII.
    pub source: u8,
}

/// The duration of a class of variable latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRow {
    /// Name of the class.
    pub class: &'static str,
    /// Shortest, usual and longest number of cycles to the result.
    pub least: u16,
    pub usual: u16,
    pub most: u16,
    /// Usual number of cycles until the sources may be overwritten.
    pub read: u16,
    /// Letter of the source.
    pub source: char,
}

impl ClassTable {
    /// Returns the index of the class with a name.
    pub(crate) fn class_index(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// Returns the port with a name.
    pub fn port(&self, file: usize, name: &str) -> Option<u8> {
        self.ports[file].iter().position(|port| *port == name).map(|index| index as u8)
    }

    /// Returns all ports of a file by which some class writes, or reads, in ascending order.
    pub(crate) fn ports_in_use(&self, file: usize, written: bool) -> Vec<u8> {
        let of_class = |class: &ClassRow| if written { class.writes[file].to_vec() } else { class.reads[file].concat() };
        let mut ports: Vec<u8> = self.classes.iter().flat_map(of_class).collect();
        ports.extend(if written { None } else { self.port(file, GUARD) });
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

impl ClassRow {
    /// Returns the value of a column.
    pub fn attribute(&self, key: &str) -> Option<&'static str> {
        self.attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

impl Grid {
    /// Returns a grid over `ports` ports without figures.
    pub fn empty(ports: usize) -> Grid {
        Grid { ports, cells: vec![None; ports * ports].into() }
    }

    /// Returns grids without figures over the ports of these classes, by kind and file.
    pub(crate) fn all_empty(classes: &ClassTable) -> [[Grid; 4]; 3] {
        std::array::from_fn(|_| std::array::from_fn(|file| Grid::empty(classes.ports[file].len())))
    }

    /// Returns the figure of a pair of ports.
    #[inline]
    pub fn get(&self, first: u8, second: u8) -> Option<Cell> {
        self.cells[self.place(first, second)]
    }

    /// Sets the figure of a pair of ports. Returns the previous one.
    pub fn insert(&mut self, first: u8, second: u8, cell: Cell) -> Option<Cell> {
        let place = self.place(first, second);
        self.cells.to_mut()[place].replace(cell)
    }

    /// Returns all figures with their first and second ports, in ascending order.
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
    /// Returns a message about the first pair of ports that instructions can have and that has no figure, or `None` if the table is
    /// complete.
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

/// Parses a figure: `4m`, `3+2n` (two more cycles if the first instruction has a guard), `sbn` (a scoreboard), or `2sbn` (a scoreboard and
/// at least two cycles). The last letter is the source.
pub(crate) fn parse_cell(text: &str) -> Result<Cell, String> {
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
    /// Returns the letter of the source.
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

/// Splits a figure into its number and the letter of its source.
pub(crate) fn split_source(text: &str) -> Result<(&str, u8), String> {
    let source = text.bytes().last().filter(u8::is_ascii_lowercase).ok_or_else(|| format!("`{text}` has no source"))?;
    Ok((&text[..text.len() - 1], source))
}

/// Returns the index of the register file with this name among those that have grids.
pub fn file_index(name: &str) -> Option<usize> {
    FILES.iter().position(|&file| file == name)
}
