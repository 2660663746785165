//! Records of a profile file: one line each, of one of fourteen types.
//!
//! ```text
//! 23 class name=alu unit=alu latency=6 dual=0
//! '!' category name=grids entries=171 n="Mesa NAK"
//! ```
//!
//! A line starts with the code of its type (a number, or a character in quotes) and the name of the type. Fields follow as `KEY=VALUE`. A
//! value with spaces, or an empty one, is in double quotes, in which `\"` and `\\` stand for a quote and a backslash.

use std::fmt;

use super::{ProfileError, ProfileFault};

/// Defines each record type once, with its code and name.
macro_rules! record_types {
    ($($(#[$meaning:meta])* $variant:ident = $code:literal $name:literal,)*) => {
        /// The type of a record.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum RecordType {
            $($(#[$meaning])* $variant,)*
        }

        impl RecordType {
            /// All types.
            pub const ALL: &[RecordType] = &[$(RecordType::$variant),*];

            /// Returns the code at the start of the line.
            pub fn code(self) -> &'static str {
                match self { $(RecordType::$variant => $code),* }
            }

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(RecordType::$variant => $name),* }
            }
        }
    };
}

record_types! {
    /// Header of the barriers, with the number of barrier records.
    BarrierHeader = "'-'" "barriers",
    /// A class that sets scoreboards.
    BarrierEntry = "'E'" "barrier-entry",
    /// A fact about barriers.
    BarrierData = "'M'" "barrier-data",
    /// The target of the profile, and the number of records in the file.
    Root = "1" "root",
    /// Header of a section, with the sources that its records refer to.
    CategoryHeader = "'!'" "category",
    /// A scheduling class.
    Class = "23" "class",
    /// Header of the classes of a unit.
    GroupBoundary = "'<'" "group",
    /// Cycles to the result of a class of variable latency.
    Scoreboard = "'5'" "scoreboard",
    /// Cycles until a class of variable latency has read its sources.
    Wait = "'6'" "wait",
    /// A fact about the multiprocessor.
    Machine = "','" "sm-entry",
    /// The throughput of a kind of work.
    Weight = "'W'" "weight",
    /// A row of a latency grid.
    Dimension = "'1'" "dimension",
    /// Footer of a section.
    CategoryFooter = "'9'" "end",
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.name())
    }
}

/// A record: a line of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The type.
    pub kind: RecordType,
    /// Number of the record in the file, from 1; 0 for a record that was not read from a file.
    pub number: usize,
    /// Line number in the file.
    pub line: usize,
    /// Keys and values of the fields, in their order.
    pub fields: Vec<(String, String)>,
}

impl Record {
    /// Creates a record without fields.
    pub fn new(kind: RecordType) -> Record {
        Record { kind, number: 0, line: 0, fields: Vec::new() }
    }

    /// Returns the record with one more field.
    pub fn with(mut self, key: &str, value: impl ToString) -> Record {
        self.fields.push((key.to_owned(), value.to_string()));
        self
    }

    /// Parses a line.
    pub fn parse(file: &str, line: usize, number: usize, text: &str) -> Result<Record, ProfileError> {
        let error = |fault| ProfileError { file: file.to_owned(), line, record: Some((number, None)), field: None, fault };
        let mut words = text.splitn(3, ' ');
        let (code, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let kind = RecordType::ALL.iter().find(|kind| kind.code() == code && kind.name() == name);
        let Some(&kind) = kind else { return Err(error(ProfileFault::UnknownType(format!("{code} {name}").trim().to_owned()))) };
        let named = |fault| ProfileError { record: Some((number, Some(kind))), ..error(fault) };
        let fields = parse_fields(words.next().unwrap_or_default()).map_err(|what| named(ProfileFault::Malformed(what)))?;
        for (index, (key, _)) in fields.iter().enumerate() {
            if fields[..index].iter().any(|(other, _)| other == key) {
                return Err(ProfileError { field: Some(key.clone()), ..named(ProfileFault::Duplicate) });
            }
        }
        Ok(Record { kind, number, line, fields })
    }

    /// Returns the value of a field.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns an error about the record.
    pub fn error(&self, file: &str, fault: ProfileFault) -> ProfileError {
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

/// Parses the fields of a record.
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
            return Err(format!("unexpected text right after the value of `{key}`"));
        }
        rest = after.trim_start();
    }
    Ok(fields)
}

/// Parses a quoted value after its opening quote. Returns the value and the rest after the closing quote, or `None` without one.
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
    fn records_round_trip() {
        let record =
            Record::new(RecordType::CategoryHeader).with("name", "grids").with("entries", 3).with("n", "a \"b\" \\ c").with("e", "");
        let text = record.to_string();
        assert_eq!(text, r#"'!' category name=grids entries=3 n="a \"b\" \\ c" e="""#);
        let back = Record::parse("f", 7, 2, &text).unwrap();
        assert_eq!((back.fields, back.kind, back.line, back.number), (record.fields, record.kind, 7, 2));
    }

    #[test]
    fn malformed_records_are_rejected() {
        for (line, part) in [
            ("24 class name=a", "no record is called `24 class`"),
            ("23 class name", "not of the form"),
            ("23 class name=\"a", "not closed"),
            ("23 class name=\"a\"b", "right after"),
            ("23 class =3", "no name of a field"),
            ("23 class a=1 a=2", "there twice"),
            ("", "no record is called"),
        ] {
            let message = Record::parse("f", 3, 9, line).unwrap_err().to_string();
            assert!(message.starts_with("f:3: record 9") && message.contains(part), "{message}");
        }
    }
}
