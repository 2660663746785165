//! Records: one line each, of one of fourteen types.
//!
//! ```text
//! 23 class name=alu unit=alu latency=6 dual=0
//! '!' category name=grids entries=171 n="Mesa NAK"
//! ```
//!
//! A line starts with the code of its type, a number or a character in quotes, and the type's name. Fields follow as `KEY=VALUE`; a value
//! with spaces, or an empty one, stands in double quotes, where `\"` and `\\` are a quote and a backslash.

use std::fmt;

use super::{Fault, ProfileError};

/// Defines the types once: code, name.
macro_rules! record_types {
    ($($(#[$meaning:meta])* $variant:ident = $code:literal $name:literal,)*) => {
        /// What a record is.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum RecordType {
            $($(#[$meaning])* $variant,)*
        }

        impl RecordType {
            /// Every type.
            pub const ALL: &[RecordType] = &[$(RecordType::$variant),*];

            /// The code of the type as the line starts with it.
            pub fn code(self) -> &'static str {
                match self { $(RecordType::$variant => $code),* }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(RecordType::$variant => $name),* }
            }
        }
    };
}

record_types! {
    /// Head of the barriers: how many records of them follow.
    BarrierHeader = "'-'" "barriers",
    /// A class that sets scoreboards.
    BarrierEntry = "'E'" "barrier-entry",
    /// A fact about barriers.
    BarrierData = "'M'" "barrier-data",
    /// What the profile is for, and how many records the file has.
    Root = "1" "root",
    /// Starts a section and describes the sources that it names.
    CategoryHeader = "'!'" "category",
    /// A scheduling class.
    Class = "23" "class",
    /// Starts the classes of a unit.
    GroupBoundary = "'<'" "group",
    /// How long results of a class take that has no fixed latency.
    Scoreboard = "'5'" "scoreboard",
    /// How long until such a class has read its sources.
    Wait = "'6'" "wait",
    /// A fact about the multiprocessor.
    Machine = "','" "sm-entry",
    /// A fact that tells variants of an architecture apart.
    Variant = "';'" "variant",
    /// How fast a kind of work is done.
    Weight = "'W'" "weight",
    /// A row of a latency grid.
    Dimension = "'1'" "dimension",
    /// Ends a section.
    CategoryFooter = "'9'" "end",
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.name())
    }
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What it is.
    pub kind: RecordType,
    /// Its position in the file, from 1.
    pub number: usize,
    /// Its line.
    pub line: usize,
    /// Its fields in their order.
    pub fields: Vec<(String, String)>,
}

impl Record {
    /// A record without fields.
    pub fn new(kind: RecordType) -> Record {
        Record { kind, number: 0, line: 0, fields: Vec::new() }
    }

    /// The same with another field.
    pub fn with(mut self, key: &str, value: impl ToString) -> Record {
        self.fields.push((key.to_owned(), value.to_string()));
        self
    }

    /// The record of a line.
    pub fn parse(file: &str, line: usize, number: usize, text: &str) -> Result<Record, ProfileError> {
        let error = |fault| ProfileError { file: file.to_owned(), line, record: Some((number, None)), field: None, fault };
        let mut words = text.splitn(3, ' ');
        let (code, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let kind = RecordType::ALL.iter().find(|kind| kind.code() == code && kind.name() == name);
        let Some(&kind) = kind else { return Err(error(Fault::UnknownType(format!("{code} {name}").trim().to_owned()))) };
        let named = |fault| ProfileError { record: Some((number, Some(kind))), ..error(fault) };
        let fields = parse_fields(words.next().unwrap_or_default()).map_err(|what| named(Fault::Malformed(what)))?;
        for (index, (key, _)) in fields.iter().enumerate() {
            if fields[..index].iter().any(|(other, _)| other == key) {
                return Err(ProfileError { field: Some(key.clone()), ..named(Fault::Twice) });
            }
        }
        Ok(Record { kind, number, line, fields })
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// An error about it.
    pub fn error(&self, file: &str, fault: Fault) -> ProfileError {
        ProfileError { file: file.to_owned(), line: self.line, record: Some((self.number, Some(self.kind))), field: None, fault }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (key, value) in &self.fields {
            let is_plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\');
            if is_plain {
                write!(f, " {key}={value}")?;
            } else {
                write!(f, " {key}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))?;
            }
        }
        Ok(())
    }
}

fn parse_fields(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut fields = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or_else(|| format!("`{rest}` is not of the form KEY=VALUE"))?;
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!("`{key}` is no name of a field"));
        }
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => parse_quoted(quoted).ok_or_else(|| format!("the quotes of `{key}` are not closed"))?,
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        fields.push((key.to_owned(), value));
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(format!("something stands right behind the value of `{key}`"));
        }
        rest = after.trim_start();
    }
    Ok(fields)
}

/// The text up to the closing quote, and what follows it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let record =
            Record::new(RecordType::CategoryHeader).with("name", "grids").with("entries", 3).with("n", "a \"b\" \\ c").with("e", "");
        let text = record.to_string();
        assert_eq!(text, r#"'!' category name=grids entries=3 n="a \"b\" \\ c" e="""#);
        let back = Record::parse("f", 7, 2, &text).unwrap();
        assert_eq!((back.fields, back.kind, back.line, back.number), (record.fields, record.kind, 7, 2));
    }

    #[test]
    fn what_is_no_record_is_said_with_its_place() {
        for (line, part) in [
            ("24 class name=a", "no record is called `24 class`"),
            ("23 class name", "not of the form"),
            ("23 class name=\"a", "not closed"),
            ("23 class name=\"a\"b", "right behind"),
            ("23 class =3", "no name of a field"),
            ("23 class a=1 a=2", "there twice"),
            ("", "no record is called"),
        ] {
            let message = Record::parse("f", 3, 9, line).unwrap_err().to_string();
            assert!(message.starts_with("f:3: record 9") && message.contains(part), "{message}");
        }
    }
}
