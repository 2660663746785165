//! Data sheets: the notation of `data/machines.tbl` and `data/units.tbl`.
//!
//! A sheet names its sources, then gives each machine its facts, one a line, with the source last. A machine may be `like` one that stands
//! above it and says only what differs. Nothing is read before somebody asks for a machine, and then only the lines of that machine and of
//! those it is like. The build script compiles this file too and reads every machine, so a sheet that lacks a fact, has one nobody knows
//! or names no source does not get into the program.

/// A fact as it stands in a sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Its name.
    pub key: &'static str,
    /// Its value, as written.
    pub value: &'static str,
    /// The name of its source.
    pub source: &'static str,
}

fn parse_fact(line: &'static str) -> Option<Fact> {
    let (key, rest) = line.split_once(char::is_whitespace)?;
    let (value, source) = rest.trim().rsplit_once(char::is_whitespace)?;
    Some(Fact { key, value: value.trim(), source })
}

/// The text of a data sheet.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    /// The file it comes from, for errors.
    pub file: &'static str,
    /// What stands in it.
    pub text: &'static str,
}

/// A type that values are read into.
pub trait Reading: Sized {
    /// Reads a value; the error says what was expected.
    fn read(value: &'static str) -> Result<Self, String>;
}

impl Reading for u32 {
    fn read(value: &'static str) -> Result<u32, String> {
        let (digits, unit) = value.strip_suffix('K').map_or((value, 1), |digits| (digits, 1024));
        let number: Option<u32> = digits.parse().ok();
        number.and_then(|number| number.checked_mul(unit)).ok_or_else(|| format!("`{value}` is no number"))
    }
}

impl Reading for f64 {
    fn read(value: &'static str) -> Result<f64, String> {
        value.parse().map_err(|_| format!("`{value}` is no number"))
    }
}

impl Reading for bool {
    fn read(value: &'static str) -> Result<bool, String> {
        match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(format!("`{value}` is neither 0 nor 1")),
        }
    }
}

impl Reading for &'static str {
    fn read(value: &'static str) -> Result<&'static str, String> {
        Ok(value)
    }
}

/// `?` is unknown.
impl Reading for Option<u32> {
    fn read(value: &'static str) -> Result<Option<u32>, String> {
        if value == "?" { Ok(None) } else { u32::read(value).map(Some) }
    }
}

/// Words between spaces; `-` is the empty list.
impl Reading for Vec<u32> {
    fn read(value: &'static str) -> Result<Vec<u32>, String> {
        if value == "-" { Ok(Vec::new()) } else { value.split_whitespace().map(u32::read).collect() }
    }
}

/// Pairs written `1:2`.
impl Reading for Vec<(u32, u32)> {
    fn read(value: &'static str) -> Result<Vec<(u32, u32)>, String> {
        let pair = |word: &'static str| {
            let (left, right) = word.split_once(':').ok_or_else(|| format!("`{word}` is no pair"))?;
            Ok((u32::read(left)?, u32::read(right)?))
        };
        value.split_whitespace().map(pair).collect()
    }
}

/// Words between spaces; `-` is the empty list.
impl Reading for Vec<&'static str> {
    fn read(value: &'static str) -> Result<Vec<&'static str>, String> {
        Ok(if value == "-" { Vec::new() } else { value.split_whitespace().collect() })
    }
}

/// Pairs written `NAME:2`.
impl Reading for Vec<(&'static str, u32)> {
    fn read(value: &'static str) -> Result<Vec<(&'static str, u32)>, String> {
        let pair = |word: &'static str| {
            let (left, right) = word.split_once(':').ok_or_else(|| format!("`{word}` is no pair"))?;
            Ok((left, u32::read(right)?))
        };
        value.split_whitespace().map(pair).collect()
    }
}

const COMMENT: char = '#';
const HEADING: &str = "machine ";

fn without_comment(line: &'static str) -> &'static str {
    line.split(COMMENT).next().unwrap_or_default().trim()
}

impl Sheet {
    /// An error at a place in the text.
    fn error(self, place: usize, message: &str) -> String {
        let line = self.text[..place].lines().count() + 1;
        format!("{}:{line}: {message}", self.file)
    }

    /// The sources, by name and description, in the order of the sheet.
    pub fn sources(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.text.lines().filter_map(|line| {
            let (name, description) = without_comment(line).strip_prefix("source ")?.split_once(' ')?;
            Some((name, description.trim()))
        })
    }

    /// Where the heading of a machine starts, among the first bytes of the text.
    fn heading(self, name: &str, end: usize) -> Option<usize> {
        let starts_line = |place: usize| place == 0 || self.text.as_bytes()[place - 1] == b'\n';
        let is_named = |place: usize| self.text[place + HEADING.len()..].split_whitespace().next() == Some(name);
        let headings = self.text[..end].match_indices(HEADING).map(|(place, _)| place);
        headings.filter(|place| starts_line(*place)).find(|place| is_named(*place))
    }

    /// The facts of a machine: its own first, then those of the machines it is like. Each key occurs once.
    pub fn facts(self, machine: &str) -> Result<Vec<Fact>, String> {
        let mut facts: Vec<Fact> = Vec::new();
        let mut next = Some(machine);
        // A machine is like one above it, so this ends.
        let mut end = self.text.len();
        while let Some(name) = next {
            let missing = || format!("{}: no machine `{name}` where it is asked for", self.file);
            let start = self.heading(name, end).ok_or_else(missing)?;
            end = start;
            let mut place = start;
            let mut lines = self.text[start..].split_inclusive('\n');
            let heading = lines.next().unwrap_or_default();
            let mut words = without_comment(heading).split_whitespace().skip(2);
            next = match (words.next(), words.next(), words.next()) {
                (None, ..) => None,
                (Some("like"), Some(base), None) => Some(base),
                _ => return Err(self.error(start, "expected `machine NAME [like NAME]`")),
            };
            place += heading.len();
            let known = facts.len();
            for line in lines.take_while(|line| !line.starts_with(HEADING)) {
                let text = without_comment(line);
                if !text.is_empty() {
                    let fact = parse_fact(text).ok_or_else(|| self.error(place, "expected a key, a value and a source"))?;
                    match facts.iter().position(|earlier| earlier.key == fact.key) {
                        None => facts.push(fact),
                        Some(index) if index >= known => return Err(self.error(place, &format!("`{}` is given twice", fact.key))),
                        Some(_) => {}
                    }
                }
                place += line.len();
            }
        }
        Ok(facts)
    }

    /// Reads the value of a key among the facts of a machine.
    pub fn value<T: Reading>(self, machine: &str, facts: &[Fact], key: &str) -> Result<T, String> {
        let fact = facts.iter().find(|fact| fact.key == key);
        let fact = fact.ok_or_else(|| format!("{}: `{machine}` lacks `{key}`", self.file))?;
        T::read(fact.value).map_err(|message| format!("{}: `{key}` of `{machine}`: {message}", self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(text: &'static str) -> Sheet {
        Sheet { file: "test.tbl", text }
    }

    const TEXT: &str = "source book  A book # not this\n\
        machine old\n  size 8K book\n  parts 1 2 book\n\
        # in between\n\
        machine new like old\n  size 9 book # smaller\n";

    #[test]
    fn a_machine_has_its_own_facts_and_those_it_is_like() {
        let facts = sheet(TEXT).facts("new").unwrap();
        let size = Fact { key: "size", value: "9", source: "book" };
        assert_eq!(facts, [size, Fact { key: "parts", value: "1 2", source: "book" }]);
        assert_eq!(sheet(TEXT).value("new", &facts, "parts"), Ok(vec![1, 2]));
        assert_eq!(sheet(TEXT).value::<u32>("old", &sheet(TEXT).facts("old").unwrap(), "size"), Ok(8192));
        assert_eq!(sheet(TEXT).sources().collect::<Vec<_>>(), [("book", "A book")]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text, machine| sheet(text).facts(machine).unwrap_err();
        assert_eq!(error(TEXT, "newer"), "test.tbl: no machine `newer` where it is asked for");
        // Only machines above count, so nothing is like itself.
        assert_eq!(error("machine a like a\n", "a"), "test.tbl: no machine `a` where it is asked for");
        assert_eq!(error("machine a\nsize 1\n", "a"), "test.tbl:2: expected a key, a value and a source");
        assert_eq!(error("machine a\nsize 1 book\nsize 2 book\n", "a"), "test.tbl:3: `size` is given twice");
        assert_eq!(error("machine a unlike b\n", "a"), "test.tbl:1: expected `machine NAME [like NAME]`");
        let facts = sheet(TEXT).facts("new").unwrap();
        assert_eq!(sheet(TEXT).value::<u32>("new", &facts, "weight").unwrap_err(), "test.tbl: `new` lacks `weight`");
        assert_eq!(sheet(TEXT).value::<u32>("new", &facts, "parts").unwrap_err(), "test.tbl: `parts` of `new`: `1 2` is no number");
    }

    #[test]
    fn values() {
        assert_eq!((u32::read("64K"), Option::<u32>::read("?"), bool::read("1")), (Ok(65536), Ok(None), Ok(true)));
        assert_eq!((Vec::<u32>::read("-"), Vec::<(u32, u32)>::read("1:2 3:4")), (Ok(vec![]), Ok(vec![(1, 2), (3, 4)])));
        assert!(u32::read("4194304K").is_err() && bool::read("2").is_err() && Vec::<(u32, u32)>::read("1").is_err());
    }
}
