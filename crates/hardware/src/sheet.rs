//! Facts about machines, from the data sheets under `data/` and from profile files: a key, a value, a source.
//!
//! The facts of the sheets, and the values parsed from them, are constants of the program (`built_in`). The facts of a profile file are
//! parsed at run time. Both use [`Reading`]. The build script compiles this file too.

use crate::tables::List;

/// One fact of a sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The key.
    pub key: &'static str,
    /// The value, as written.
    pub value: &'static str,
    /// The name of the source.
    pub source: &'static str,
}

/// A type that a value can be parsed as.
pub trait Reading: Sized {
    /// Parses a value. The error says what was expected.
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

/// `?` means unknown.
impl Reading for Option<u32> {
    fn read(value: &'static str) -> Result<Option<u32>, String> {
        if value == "?" { Ok(None) } else { u32::read(value).map(Some) }
    }
}

/// Words separated by spaces; `-` is the empty list.
impl Reading for List<u32> {
    fn read(value: &'static str) -> Result<List<u32>, String> {
        if value == "-" { Ok(List::default()) } else { value.split_whitespace().map(u32::read).collect() }
    }
}

/// Pairs such as `1:2`, separated by spaces.
impl Reading for List<(u32, u32)> {
    fn read(value: &'static str) -> Result<List<(u32, u32)>, String> {
        let pair = |word: &'static str| {
            let (left, right) = word.split_once(':').ok_or_else(|| format!("`{word}` is no pair"))?;
            Ok((u32::read(left)?, u32::read(right)?))
        };
        value.split_whitespace().map(pair).collect()
    }
}

/// Words separated by spaces; `-` is the empty list.
impl Reading for List<&'static str> {
    fn read(value: &'static str) -> Result<List<&'static str>, String> {
        Ok(if value == "-" { List::default() } else { value.split_whitespace().collect() })
    }
}

/// Pairs such as `NAME:2`, separated by spaces.
impl Reading for List<(&'static str, u32)> {
    fn read(value: &'static str) -> Result<List<(&'static str, u32)>, String> {
        let pair = |word: &'static str| {
            let (left, right) = word.split_once(':').ok_or_else(|| format!("`{word}` is no pair"))?;
            Ok((left, u32::read(right)?))
        };
        value.split_whitespace().map(pair).collect()
    }
}

/// Parses the value of a key among the facts of a machine. `file` is the name of the sheet, for the error.
pub fn value<T: Reading>(file: &str, machine: &str, facts: &[Fact], key: &str) -> Result<T, String> {
    let fact = facts.iter().find(|fact| fact.key == key);
    let fact = fact.ok_or_else(|| format!("{file}: `{machine}` lacks `{key}`"))?;
    T::read(fact.value).map_err(|message| format!("{file}: `{key}` of `{machine}`: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        assert_eq!((u32::read("64K"), Option::<u32>::read("?"), bool::read("1")), (Ok(65536), Ok(None), Ok(true)));
        assert_eq!(List::<u32>::read("-"), Ok(List::default()));
        assert_eq!(List::<(u32, u32)>::read("1:2 3:4"), Ok(vec![(1, 2), (3, 4)].into()));
        assert!(u32::read("4194304K").is_err() && bool::read("2").is_err() && List::<(u32, u32)>::read("1").is_err());
    }

    #[test]
    fn fact_values_are_parsed() {
        let facts = [Fact { key: "parts", value: "1 2", source: "book" }];
        assert_eq!(value("test.tbl", "new", &facts, "parts"), Ok(List::from(vec![1, 2])));
        assert_eq!(value::<u32>("test.tbl", "new", &facts, "weight").unwrap_err(), "test.tbl: `new` lacks `weight`");
        assert_eq!(value::<u32>("test.tbl", "new", &facts, "parts").unwrap_err(), "test.tbl: `parts` of `new`: `1 2` is no number");
    }
}
