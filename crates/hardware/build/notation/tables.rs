//! Parsers of `classes.tbl` and `latency/NAME.tbl`.
//!
//! A latency table may be a copy of another (`like`) with changed cells. The tables borrow names from the text, which is never freed, and
//! neither are lists.

use std::fmt;

use crate::tables::{ClassRow, ClassRule, ClassTable, FILES, Grid, KINDS, LatencyTable, TimeRow, file_index, parse_cell, split_source};

/// An error in a table, with its position.
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

struct Lines {
    file: &'static str,
    lines: Vec<(usize, &'static str)>,
}

impl Lines {
    fn new(file: &'static str, text: &'static str) -> Self {
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

/// Parses a class table.
pub fn class_table(file: &'static str, text: &'static str) -> Result<ClassTable, TableError> {
    let lines = Lines::new(file, text);
    let mut ports: [Vec<&str>; 4] = Default::default();
    let mut classes: Vec<ClassRow> = Vec::new();
    let mut rules = Vec::new();
    for &(number, line) in &lines.lines {
        let error = |message: String| lines.error(number, message);
        let mut words = line.split_whitespace();
        match words.next().unwrap_or_default() {
            "ports" => {
                let file =
                    file_index(words.next().unwrap_or_default()).ok_or_else(|| error("a register file must follow `ports`".into()))?;
                ports[file].extend(words);
            }
            "class" => {
                let row = class_row(&ports, words).map_err(error)?;
                if classes.iter().any(|other| other.name == row.name) {
                    return Err(error(format!("class `{}` is there twice", row.name)));
                }
                classes.push(row);
            }
            _ => {
                let (what, class) = line.split_once(':').ok_or_else(|| error(format!("`{line}` is neither ports, class nor rule")))?;
                let class = class.trim();
                let place = classes.iter().position(|row| row.name == class);
                let class = place.ok_or_else(|| error(format!("there is no class `{class}`")))?;
                for alternative in what.split(',') {
                    let mut words = alternative.split_whitespace();
                    let Some(mnemonic) = words.next() else { return Err(error("a rule without a mnemonic".into())) };
                    rules.push(ClassRule { mnemonic, modifiers: words.collect::<Vec<_>>().leak(), class, line: number });
                }
            }
        }
    }
    Ok(ClassTable { ports: ports.map(|names| &*names.leak()), classes: classes.leak(), rules: rules.leak() })
}

fn class_row(ports: &[Vec<&str>; 4], mut words: impl Iterator<Item = &'static str>) -> Result<ClassRow, String> {
    let mut row = ClassRow { name: words.next().ok_or("a class without a name")?, ..ClassRow::default() };
    let mut attributes = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not of the form KEY=VALUE"))?;
        let Some(file) = file_index(key) else {
            attributes.push((key, value));
            continue;
        };
        let list = |text: &str| port_list(&ports[file], text).map_err(|name| format!("{} has no port `{name}`", FILES[file]));
        let (writes, reads) = value.split_once('/').unwrap_or((value, ""));
        row.writes[file] = list(writes)?;
        row.reads[file] = reads.split(',').filter(|text| !text.is_empty()).map(list).collect::<Result<Vec<_>, _>>()?.leak();
    }
    row.attributes = attributes.leak();
    Ok(row)
}

/// Parses names of ports separated by `+`. The error is the name that is not a port.
fn port_list(ports: &[&str], text: &str) -> Result<&'static [u8], String> {
    let names = text.split('+').filter(|name| !name.is_empty() && *name != "-");
    let port = |name: &str| ports.iter().position(|port| *port == name).map(|index| index as u8).ok_or_else(|| name.to_owned());
    Ok(names.map(port).collect::<Result<Vec<u8>, _>>()?.leak())
}

/// A latency table while it is parsed.
struct Reader<'a> {
    classes: &'a ClassTable,
    lines: Lines,
    targets: Vec<&'static str>,
    sources: Vec<(char, &'static str)>,
    grids: [[Grid; 4]; 3],
    times: Vec<TimeRow>,
}

/// Parses a latency table. `base` returns the table that it copies.
pub fn latency_table(
    file: &'static str,
    text: &'static str,
    classes: &ClassTable,
    base: &dyn Fn(&str) -> Option<LatencyTable>,
) -> Result<LatencyTable, TableError> {
    let mut reader = Reader {
        classes,
        lines: Lines::new(file, text),
        targets: Vec::new(),
        sources: Vec::new(),
        grids: Grid::all_empty(classes),
        times: Vec::new(),
    };
    let mut at = 0;
    while let Some(&(number, line)) = reader.lines.lines.get(at) {
        at += 1 + reader.line(number, line, at + 1, base)?;
    }
    reader.check_sources().map_err(|message| reader.lines.error(1, message))?;
    let Reader { targets, sources, grids, times, .. } = reader;
    Ok(LatencyTable { name: file.trim_end_matches(".tbl"), targets: targets.into(), sources: sources.into(), grids, times: times.into() })
}

impl Reader<'_> {
    /// Parses a line. Returns the number of lines from `next` on that belong to it.
    fn line(
        &mut self,
        number: usize,
        line: &'static str,
        next: usize,
        base: &dyn Fn(&str) -> Option<LatencyTable>,
    ) -> Result<usize, TableError> {
        let file = self.lines.file;
        let error = |message: String| TableError { file: file.to_owned(), line: number, message };
        let words: Vec<&'static str> = line.split_whitespace().collect();
        match words[0] {
            "targets" => self.targets = words[1..].to_vec(),
            "like" => {
                let name = words.get(1).copied().unwrap_or_default();
                let from = base(name).ok_or_else(|| error(format!("there is no table `{name}`")))?;
                let own = std::mem::replace(&mut self.sources, from.sources.into_owned());
                own.into_iter().for_each(|source| self.add_source(source));
                (self.grids, self.times) = (from.grids, from.times.into_owned());
            }
            "source" => {
                let letter = words.get(1).and_then(|word| word.chars().next()).ok_or_else(|| error("a source without a letter".into()))?;
                self.add_source((letter, line.split_once(words[1]).map_or("", |(_, rest)| rest).trim()));
            }
            "time" => self.add_time(&words).map_err(error)?,
            kind if KINDS.contains(&kind) => {
                let kind = KINDS.iter().position(|&name| name == kind).unwrap_or_default();
                let file =
                    file_index(words.get(1).copied().unwrap_or_default()).ok_or_else(|| error("a register file must follow".into()))?;
                if words.len() == 2 {
                    return self.read_grid(kind, file, next);
                }
                self.change_cells(kind, file, &words[2..]).map_err(error)?;
            }
            other => return Err(error(format!("`{other}` is not known here"))),
        }
        Ok(0)
    }

    /// Adds the description of a source letter; a later description replaces an earlier one.
    fn add_source(&mut self, source: (char, &'static str)) {
        self.sources.retain(|(other, _)| *other != source.0);
        self.sources.push(source);
    }

    /// Parses a line `raw R FIRST SECOND CELL`. Each port may be `*` or a list with commas.
    fn change_cells(&mut self, kind: usize, file: usize, words: &[&str]) -> Result<(), String> {
        let [firsts, seconds, cell] = words else { return Err("a change is FIRST SECOND CELL".into()) };
        let cell = parse_cell(cell)?;
        let ports = |text: &str, written: bool| -> Result<Vec<u8>, String> {
            if text == "*" {
                return Ok(self.classes.ports_in_use(file, written));
            }
            let port = |name| self.classes.port(file, name).ok_or_else(|| format!("{} has no port `{name}`", FILES[file]));
            text.split(',').map(port).collect()
        };
        let (firsts, seconds) = (ports(firsts, kind != 1)?, ports(seconds, kind != 0)?);
        for first in firsts {
            for &second in &seconds {
                self.grids[kind][file].insert(first, second, cell);
            }
        }
        Ok(())
    }

    /// Parses a grid: a line with the ports of second accesses, then a line for each port of first accesses. Returns the number of lines.
    fn read_grid(&mut self, kind: usize, file: usize, at: usize) -> Result<usize, TableError> {
        let lines = &self.lines;
        let port = |number: usize, name: &str| {
            self.classes.port(file, name).ok_or_else(|| lines.error(number, format!("{} has no port `{name}`", FILES[file])))
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
                        self.grids[kind][file].insert(first, second, cell);
                    }
                }
            }
            taken += 1;
        }
        Ok(taken)
    }

    fn add_time(&mut self, words: &[&'static str]) -> Result<(), String> {
        let [_, names, least, usual, most, read] = words else { return Err("a time is CLASS LEAST USUAL MOST READ with a source".into()) };
        let number = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is not a number of cycles"));
        let (read, source) = split_source(read)?;
        for class in names.split(',') {
            self.classes.class_index(class).ok_or_else(|| format!("there is no class `{class}`"))?;
            let row = TimeRow {
                class,
                least: number(least)?,
                usual: number(usual)?,
                most: number(most)?,
                read: number(read)?,
                source: source.into(),
            };
            if row.least > row.usual || row.usual > row.most {
                return Err(format!("times of `{class}` must ascend"));
            }
            self.times.retain(|other| other.class != row.class);
            self.times.push(row);
        }
        Ok(())
    }

    fn check_sources(&self) -> Result<(), String> {
        let known = |letter: char| self.sources.iter().any(|(other, _)| *other == letter);
        let cells = self.grids.iter().flatten().flat_map(|grid| grid.iter().map(|(_, cell)| cell.letter()));
        match cells.chain(self.times.iter().map(|time| time.source)).find(|&letter| !known(letter)) {
            Some(letter) => Err(format!("source `{letter}` is not declared")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: &str = "ports R alu far # two\nports P guard\n\
        class sum unit=alu R=alu/alu,far\nclass load R=far/far\n\
        IADD .64, IMAD : load\nIADD : sum\n";
    const FIRST: &str = "source n  a book\ntargets sm_1\n\
        raw R\n alu far\nalu 4n 5n\nfar sbn -\nwar R * * 1n\ntime load 1 2 3 4n\n";

    fn classes() -> ClassTable {
        class_table("c.tbl", CLASSES).unwrap()
    }

    fn table(text: &'static str) -> Result<LatencyTable, TableError> {
        latency_table("t.tbl", text, &classes(), &|name| (name == "first").then(|| table(FIRST).unwrap()))
    }

    #[test]
    fn classes_have_ports_and_rules() {
        let table = classes();
        let row = table.classes[0];
        assert_eq!((row.writes[0], row.reads[0], row.attribute("unit")), (&[0_u8][..], &[&[0][..], &[1]][..], Some("alu")));
        let rules: Vec<_> = table.rules.iter().map(|rule| (rule.mnemonic, rule.modifiers, rule.class)).collect();
        assert_eq!(rules, [("IADD", &[".64"][..], 1), ("IMAD", &[], 1), ("IADD", &[], 0)]);
    }

    #[test]
    fn table_inherits_from_its_base() {
        let table = table("targets sm_2\nlike first\nsource m measured\nraw R far,alu far 7m\n").unwrap();
        let figures: Vec<String> = table.grids[0][0].iter().map(|(place, cell)| format!("{place:?} {cell}")).collect();
        assert_eq!(figures, ["(0, 0) 4n", "(0, 1) 7m", "(1, 0) sbn", "(1, 1) 7m"]);
        assert_eq!((&*table.targets, table.times.len(), table.grids[1][0].iter().count()), (&["sm_2"][..], 1, 4));
        assert_eq!(*table.sources, [('n', "a book"), ('m', "measured")]);
    }

    #[test]
    fn errors_are_reported() {
        let error = |text| table(text).unwrap_err().to_string();
        assert_eq!(error("\nlike second\n"), "t.tbl:2: there is no table `second`");
        assert_eq!(error("raw R alu near 1n\n"), "t.tbl:1: R has no port `near`");
        assert_eq!(error("raw R alu alu 1n\n"), "t.tbl:1: source `n` is not declared");
        assert_eq!(error("time load 3 2 1 4n\n"), "t.tbl:1: times of `load` must ascend");
        assert_eq!(error("speed 1\n"), "t.tbl:1: `speed` is not known here");
        let error = |text| class_table("c.tbl", text).unwrap_err().to_string();
        assert_eq!(error("class a\nclass a\n"), "c.tbl:2: class `a` is there twice");
        assert_eq!(error("class a R=x/\n"), "c.tbl:1: R has no port `x`");
        assert_eq!(error("IADD : sum\n"), "c.tbl:1: there is no class `sum`");
    }
}
