//! String tables.
//!
//! ptxas' tables contain strings that nothing refers to: `.strtab` also lists names of sections that were dropped. So a table is kept
//! unchanged, names are looked up in it, and new names are appended.

use rustc_hash::FxHashMap;

/// The content of `.strtab` or `.shstrtab`: strings, each terminated by a zero byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringTable {
    bytes: Vec<u8>,
}

impl StringTable {
    /// Returns a table with the empty string.
    pub fn new() -> StringTable {
        StringTable { bytes: vec![0] }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> StringTable {
        StringTable { bytes: bytes.to_vec() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a string, even if the table contains it already.
    pub fn push(&mut self, text: &str) {
        self.bytes.extend(text.bytes());
        self.bytes.push(0);
    }

    /// Returns the strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.strip_suffix(&[0]).unwrap_or(&self.bytes).split(|&byte| byte == 0)
    }

    /// Returns whether the string at `offset` is `text`.
    fn holds(&self, offset: u32, text: &str) -> bool {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        rest.and_then(|rest| rest.strip_prefix(text.as_bytes())).is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Looks up the offsets of names while a file is written, and appends missing names.
pub(crate) struct Names {
    table: StringTable,
    /// Offset of the first occurrence of each string.
    places: FxHashMap<Vec<u8>, u32>,
}

impl Names {
    pub fn new(table: StringTable) -> Names {
        let mut places = FxHashMap::default();
        let mut at = 0;
        for string in table.iter() {
            places.entry(string.to_vec()).or_insert(at);
            at += string.len() as u32 + 1;
        }
        Names { table, places }
    }

    /// Returns the offset of a name. `hint` is the offset that the name had when the file was read.
    pub fn offset(&mut self, name: &str, hint: Option<u32>) -> u32 {
        if let Some(hint) = hint.filter(|&hint| self.table.holds(hint, name)) {
            return hint;
        }
        if let Some(&offset) = self.places.get(name.as_bytes()) {
            return offset;
        }
        if self.table.bytes.last() != Some(&0) {
            self.table.bytes.push(0);
        }
        let offset = self.table.bytes.len() as u32;
        self.table.push(name);
        self.places.insert(name.as_bytes().to_vec(), offset);
        offset
    }

    /// Returns the table with all names that were added.
    pub fn into_table(self) -> StringTable {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_added() {
        let mut table = StringTable::new();
        table.push("one");
        table.push("two");
        let mut names = Names::new(table);
        assert_eq!((names.offset("", None), names.offset("two", None)), (0, 5));
        assert_eq!(names.offset("wo", Some(6)), 6);
        assert_eq!(names.offset("three", Some(5)), 9);
        assert_eq!(names.offset("three", None), 9);
        assert_eq!(names.into_table().bytes(), b"\0one\0two\0three\0");
    }
}
