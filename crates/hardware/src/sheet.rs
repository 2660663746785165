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

const COMMENT: char = '#';

impl Sheet {
    fn lines(self) -> impl Iterator<Item = (usize, &'static str)> {
        let without_comment = |line: &'static str| line.split(COMMENT).next().unwrap_or_default().trim();
        self.text.lines().enumerate().map(move |(number, line)| (number + 1, without_comment(line))).filter(|(_, line)| !line.is_empty())
    }

    fn error(self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.file)
    }

    /// The sources, by name and description, in the order of the sheet.
    pub fn sources(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.lines().filter_map(|(_, line)| {
            let (name, description) = line.strip_prefix("source ")?.split_once(' ')?;
            Some((name, description.trim()))
        })
    }

    /// The facts of a machine: its own first, then those of the machines it is like. Each key occurs once.
    pub fn facts(self, machine: &str) -> Result<Vec<Fact>, String> {
        let mut facts: Vec<Fact> = Vec::new();
        let mut next = Some(machine);
        // A machine is like one above it, so this ends.
        let mut end = usize::MAX;
        while let Some(name) = next {
            let start = self
                .lines()
                .take_while(|(number, _)| *number < end)
                .find(|(_, line)| line.strip_prefix("machine ").is_some_and(|rest| rest.split_whitespace().next() == Some(name)))
                .ok_or_else(|| format!("{}: no machine `{name}` where it is asked for", self.file))?;
            end = start.0;
            let mut heading = start.1.split_whitespace().skip(2);
            next = match (heading.next(), heading.next(), heading.next()) {
                (None, ..) => None,
                (Some("like"), Some(base), None) => Some(base),
                _ => return Err(self.error(end, "expected `machine NAME [like NAME]`")),
            };
            let known = facts.len();
            for (number, line) in
                self.lines().skip_while(|(number, _)| *number <= end).take_while(|(_, line)| !line.starts_with("machine "))
            {
                let fact = self.fact(number, line)?;
                match facts.iter().position(|earlier| earlier.key == fact.key) {
                    None => facts.push(fact),
                    Some(place) if place >= known => return Err(self.error(number, &format!("`{}` is given twice", fact.key))),
                    Some(_) => {}
                }
            }
        }
        Ok(facts)
    }

    fn fact(self, number: usize, line: &'static str) -> Result<Fact, String> {
        let parts = line.split_once(char::is_whitespace).and_then(|(key, rest)| {
            let (value, source) = rest.trim().rsplit_once(char::is_whitespace)?;
            Some(Fact { key, value: value.trim(), source })
        });
        parts.ok_or_else(|| self.error(number, "expected a key, a value and a source"))
    }

    /// Reads the value of a key among the facts of a machine.
    pub fn value<T: Reading>(self, machine: &str, facts: &[Fact], key: &str) -> Result<T, String> {
        let fact = facts.iter().find(|fact| fact.key == key);
        let fact = fact.ok_or_else(|| format!("{}: `{machine}` lacks `{key}`", self.file))?;
        T::read(fact.value).map_err(|message| format!("{}: `{key}` of `{machine}`: {message}", self.file))
    }
}
