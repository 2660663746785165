//! Readers for the two kinds of table under `data/`: what class an instruction is of, and what a GPU needs between two classes.
//!
//! `classes.tbl` names ports, classes and rules. A *port* is a place where a register is written or read that has its own timing: the
//! two halves of a wide product are ready at different times, its addend is read later than its factors. A *class* is a kind of
//! instruction with the same ports in all four register files. A *rule* sends a mnemonic, perhaps with certain modifiers, to a class.
//!
//! `latency/NAME.tbl` has twelve grids, one for each register file and each kind of dependence, over ports; and the times of what has
//! no fixed one. Every figure carries the letter of its source. A file may start from another (`like`) and change cells.
//!
//! This module knows no instruction set: the build script uses it as well, and refuses a mnemonic without a class and a pair of ports
//! without a figure.

use std::collections::HashMap;
use std::fmt;

/// Register files that have grids, in the order of indices.
pub const FILES: [&str; 4] = ["R", "P", "UR", "UP"];
/// Dependences that have grids, in the order of indices.
pub const KINDS: [&str; 3] = ["raw", "war", "waw"];

/// The port by which the guard of any instruction enters.
pub const GUARD: &str = "guard";

/// What is wrong with a table, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    pub file: String,
    pub line: usize,
    pub message: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// `classes.tbl`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassTable {
    /// Names of ports of each file; a port is its index here.
    pub ports: [Vec<String>; 4],
    pub classes: Vec<ClassRow>,
    /// In the order of the file: the first that fits an instruction counts.
    pub rules: Vec<Rule>,
}

/// A scheduling class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassRow {
    pub name: String,
    /// Values of the other columns by name: `unit`, `rate`, `pipe`, `sub`, `flags`, `index`, `page`.
    pub attributes: Vec<(String, String)>,
    /// For each file the ports that results leave by, one for each register of the result; the last stands for all further ones.
    pub writes: [Vec<u8>; 4],
    /// For each file the ports that sources enter by, one list of registers for each source; the last stands for all further ones.
    pub reads: [Vec<Vec<u8>>; 4],
}

/// A mnemonic with modifiers that must all be there, and its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub mnemonic: String,
    pub modifiers: Vec<String>,
    pub class: usize,
    pub line: usize,
}

/// `latency/NAME.tbl`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyTable {
    pub name: String,
    /// Names of the targets it is for.
    pub targets: Vec<String>,
    /// Letters of sources and what they stand for.
    pub sources: Vec<(char, String)>,
    /// By kind, then by file.
    pub grids: [[Grid; 4]; 3],
    pub times: Vec<TimeRow>,
}

/// Figures between two ports. Rows are what comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    pub cells: HashMap<(u8, u8), Cell>,
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
    /// Letter of its source.
    pub source: char,
}

/// How long a class of variable latency takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeRow {
    pub class: String,
    /// Cycles to the result: at least, usually, and when things go badly.
    pub least: u16,
    pub usual: u16,
    pub most: u16,
    /// Cycles until sources may be overwritten, usually.
    pub read: u16,
    pub source: char,
}

struct Lines<'a> {
    file: &'a str,
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Lines<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        let lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        Lines { file, lines }
    }

    fn error(&self, line: usize, message: impl Into<String>) -> TableError {
        TableError { file: self.file.to_owned(), line, message: message.into() }
    }
}

impl ClassTable {
    /// The class table of this text.
    pub fn parse(file: &str, text: &str) -> Result<ClassTable, TableError> {
        let lines = Lines::new(file, text);
        let mut table = ClassTable::default();
        for &(number, line) in &lines.lines {
            let error = |message: String| lines.error(number, message);
            let mut words = line.split_whitespace();
            match words.next().unwrap_or_default() {
                "ports" => {
                    let file =
                        file_index(words.next().unwrap_or_default()).ok_or_else(|| error("a register file must follow `ports`".into()))?;
                    table.ports[file].extend(words.map(str::to_owned));
                }
                "class" => {
                    let row = table.class_row(words).map_err(error)?;
                    if table.classes.iter().any(|other| other.name == row.name) {
                        return Err(error(format!("class `{}` is there twice", row.name)));
                    }
                    table.classes.push(row);
                }
                _ => {
                    let (what, class) = line.split_once(':').ok_or_else(|| error(format!("`{line}` is neither ports, class nor rule")))?;
                    let class = class.trim();
                    let class = table.class_index(class).ok_or_else(|| error(format!("there is no class `{class}`")))?;
                    for alternative in what.split(',') {
                        let mut words = alternative.split_whitespace();
                        let Some(mnemonic) = words.next() else { return Err(error("a rule without a mnemonic".into())) };
                        let modifiers = words.map(str::to_owned).collect();
                        table.rules.push(Rule { mnemonic: mnemonic.to_owned(), modifiers, class, line: number });
                    }
                }
            }
        }
        Ok(table)
    }

    /// The class of this name.
    pub fn class_index(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    fn class_row<'a>(&self, mut words: impl Iterator<Item = &'a str>) -> Result<ClassRow, String> {
        let mut row = ClassRow { name: words.next().ok_or("a class without a name")?.to_owned(), ..ClassRow::default() };
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not of the form KEY=VALUE"))?;
            let Some(file) = file_index(key) else {
                row.attributes.push((key.to_owned(), value.to_owned()));
                continue;
            };
            let (writes, reads) = value.split_once('/').unwrap_or((value, ""));
            row.writes[file] = self.port_list(file, writes)?;
            row.reads[file] =
                reads.split(',').filter(|list| !list.is_empty()).map(|list| self.port_list(file, list)).collect::<Result<_, _>>()?;
        }
        Ok(row)
    }

    fn port_list(&self, file: usize, text: &str) -> Result<Vec<u8>, String> {
        text.split('+')
            .filter(|name| !name.is_empty() && *name != "-")
            .map(|name| self.port(file, name).ok_or_else(|| format!("{} has no port `{name}`", FILES[file])))
            .collect()
    }

    /// The port of this name.
    pub fn port(&self, file: usize, name: &str) -> Option<u8> {
        self.ports[file].iter().position(|port| port == name).map(|index| index as u8)
    }

    /// All ports of a file that some class writes by, or reads by, in ascending order.
    pub fn ports_in_use(&self, file: usize, written: bool) -> Vec<u8> {
        let mut ports: Vec<u8> =
            self.classes.iter().flat_map(|class| if written { class.writes[file].clone() } else { class.reads[file].concat() }).collect();
        ports.extend(if written { None } else { self.port(file, GUARD) });
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

impl LatencyTable {
    /// The latency table of this text; `base` finds the table that it starts from.
    pub fn parse(
        file: &str,
        text: &str,
        classes: &ClassTable,
        base: &dyn Fn(&str) -> Option<LatencyTable>,
    ) -> Result<LatencyTable, TableError> {
        let lines = Lines::new(file, text);
        let mut table = LatencyTable { name: file.trim_end_matches(".tbl").to_owned(), ..LatencyTable::default() };
        let mut at = 0;
        while let Some(&(number, line)) = lines.lines.get(at) {
            at += 1;
            let error = |message: String| lines.error(number, message);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "targets" => table.targets = words[1..].iter().map(|&name| name.to_owned()).collect(),
                "like" => {
                    let name = words.get(1).copied().unwrap_or_default();
                    let from = base(name).ok_or_else(|| error(format!("there is no table `{name}`")))?;
                    table = LatencyTable { name: table.name, targets: table.targets, sources: merged(from.sources, table.sources), ..from };
                }
                "source" => {
                    let letter =
                        words.get(1).and_then(|word| word.chars().next()).ok_or_else(|| error("a source without a letter".into()))?;
                    let meaning = line.split_once(words[1]).map_or("", |(_, rest)| rest).trim().to_owned();
                    table.sources = merged(std::mem::take(&mut table.sources), vec![(letter, meaning)]);
                }
                "time" => table.add_time(&words, classes).map_err(error)?,
                kind if KINDS.contains(&kind) => {
                    let kind = KINDS.iter().position(|&name| name == kind).unwrap_or_default();
                    let file =
                        file_index(words.get(1).copied().unwrap_or_default()).ok_or_else(|| error("a register file must follow".into()))?;
                    if words.len() > 2 {
                        table.change_cells(classes, kind, file, &words[2..]).map_err(error)?;
                    } else {
                        at += table.read_grid(classes, kind, file, &lines, at)?;
                    }
                }
                other => return Err(error(format!("`{other}` is not known here"))),
            }
        }
        table.check_sources().map_err(|message| lines.error(1, message))?;
        Ok(table)
    }

    /// A line `raw R FIRST SECOND CELL`; either port may be `*`, or several with commas.
    fn change_cells(&mut self, classes: &ClassTable, kind: usize, file: usize, words: &[&str]) -> Result<(), String> {
        let [firsts, seconds, cell] = words else { return Err("a change is FIRST SECOND CELL".into()) };
        let cell = parse_cell(cell)?;
        let ports = |text: &str, written: bool| -> Result<Vec<u8>, String> {
            if text == "*" {
                return Ok(classes.ports_in_use(file, written));
            }
            text.split(',').map(|name| classes.port(file, name).ok_or_else(|| format!("{} has no port `{name}`", FILES[file]))).collect()
        };
        for first in ports(firsts, kind != 1)? {
            for second in ports(seconds, kind != 0)? {
                self.grids[kind][file].cells.insert((first, second), cell);
            }
        }
        Ok(())
    }

    /// A grid: a line with the ports that come second, then a line for each port that comes first. Returns how many lines it took.
    fn read_grid(&mut self, classes: &ClassTable, kind: usize, file: usize, lines: &Lines<'_>, at: usize) -> Result<usize, TableError> {
        let port = |number: usize, name: &str| {
            classes.port(file, name).ok_or_else(|| lines.error(number, format!("{} has no port `{name}`", FILES[file])))
        };
        let Some(&(number, header)) = lines.lines.get(at) else { return Ok(0) };
        let seconds = header.split_whitespace().map(|name| port(number, name)).collect::<Result<Vec<u8>, _>>()?;
        let mut taken = 1;
        for &(number, line) in &lines.lines[at + 1..] {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.len() != seconds.len() + 1 || KINDS.contains(&words[0]) {
                break;
            }
            for name in words[0].split(',') {
                let first = port(number, name)?;
                for (&second, text) in seconds.iter().zip(&words[1..]) {
                    if *text != "-" {
                        let cell = parse_cell(text).map_err(|message| lines.error(number, message))?;
                        self.grids[kind][file].cells.insert((first, second), cell);
                    }
                }
            }
            taken += 1;
        }
        Ok(taken)
    }

    fn add_time(&mut self, words: &[&str], classes: &ClassTable) -> Result<(), String> {
        let [_, names, least, usual, most, read] = words else { return Err("a time is CLASS LEAST USUAL MOST READ with a source".into()) };
        let number = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is not a number of cycles"));
        let (read, source) = split_source(read)?;
        for name in names.split(',') {
            classes.class_index(name).ok_or_else(|| format!("there is no class `{name}`"))?;
            let row = TimeRow {
                class: name.to_owned(),
                least: number(least)?,
                usual: number(usual)?,
                most: number(most)?,
                read: number(read)?,
                source,
            };
            if row.least > row.usual || row.usual > row.most {
                return Err(format!("times of `{name}` must ascend"));
            }
            self.times.retain(|other| other.class != row.class);
            self.times.push(row);
        }
        Ok(())
    }

    fn check_sources(&self) -> Result<(), String> {
        let known = |letter: char| self.sources.iter().any(|(other, _)| *other == letter);
        let mut letters = self
            .grids
            .iter()
            .flatten()
            .flat_map(|grid| grid.cells.values().map(|cell| cell.source))
            .chain(self.times.iter().map(|time| time.source));
        match letters.find(|&letter| !known(letter)) {
            Some(letter) => Err(format!("source `{letter}` is not declared")),
            None => Ok(()),
        }
    }

    /// The first pair of ports that instructions have and no grid does.
    pub fn missing(&self, classes: &ClassTable) -> Option<String> {
        for (kind, kind_name) in KINDS.iter().enumerate() {
            for (file, file_name) in FILES.iter().enumerate() {
                let seconds = classes.ports_in_use(file, kind != 0);
                for first in classes.ports_in_use(file, kind != 1) {
                    for &second in &seconds {
                        if !self.grids[kind][file].cells.contains_key(&(first, second)) {
                            let name = |port: u8| &classes.ports[file][usize::from(port)];
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

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scoreboard, self.guarded) {
            (true, _) if self.cycles > 1 => write!(f, "{}sb{}", self.cycles, self.source),
            (true, _) => write!(f, "sb{}", self.source),
            (false, 0) => write!(f, "{}{}", self.cycles, self.source),
            (false, more) => write!(f, "{}+{more}{}", self.cycles, self.source),
        }
    }
}

fn split_source(text: &str) -> Result<(&str, char), String> {
    let source = text.chars().last().filter(char::is_ascii_lowercase).ok_or_else(|| format!("`{text}` has no source"))?;
    Ok((&text[..text.len() - 1], source))
}

fn merged(mut sources: Vec<(char, String)>, more: Vec<(char, String)>) -> Vec<(char, String)> {
    for (letter, meaning) in more {
        sources.retain(|(other, _)| *other != letter);
        sources.push((letter, meaning));
    }
    sources
}

/// The index of a register file that has grids.
pub fn file_index(name: &str) -> Option<usize> {
    FILES.iter().position(|&file| file == name)
}
