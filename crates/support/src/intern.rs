//! String interning: every distinct name is stored once and has a dense index.

use std::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::{Index, define_index};

define_index!(
    /// An interned string. Equal names of one [`Interner`] have equal indices.
    pub struct Name,
    "name"
);

/// An interner: stores strings back to back in one buffer and finds them by hash.
#[derive(Clone, Default)]
pub struct Interner {
    /// All strings, concatenated.
    text: String,
    /// The end of each string in `text`.
    ends: Vec<u32>,
    table: HashTable<Name>,
    hasher: BuildHasherDefault<FxHasher>,
}

impl Interner {
    /// Creates an empty interner.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the name of a string; adds the string if it is new.
    pub fn intern(&mut self, string: &str) -> Name {
        let hash = self.hasher.hash_one(string);
        let (text, ends) = (&self.text, &self.ends);
        if let Some(&name) = self.table.find(hash, |&name| slice(text, ends, name) == string) {
            return name;
        }
        let name = Name::new(self.ends.len());
        self.text.push_str(string);
        self.ends.push(u32::try_from(self.text.len()).expect("more than 4 GiB of names"));
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.table.insert_unique(hash, name, |&name| hasher.hash_one(slice(text, ends, name)));
        name
    }

    /// Returns the name of a string, if it has been interned.
    pub fn lookup(&self, string: &str) -> Option<Name> {
        let hash = self.hasher.hash_one(string);
        self.table.find(hash, |&name| self.resolve(name) == string).copied()
    }

    /// Returns the string of a name.
    pub fn resolve(&self, name: Name) -> &str {
        slice(&self.text, &self.ends, name)
    }

    /// Returns the number of distinct names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether no string has been interned.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Returns the string of a name.
fn slice<'a>(text: &'a str, ends: &[u32], name: Name) -> &'a str {
    let position = name.position();
    let start = if position == 0 { 0 } else { ends[position - 1] as usize };
    &text[start..ends[position] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_a_name() {
        let mut interner = Interner::new();
        let names: Vec<Name> = (0..1000).map(|i| interner.intern(&format!("label_{i}"))).collect();
        assert_eq!(interner.len(), 1000);
        assert_eq!(interner.intern("label_17"), names[17]);
        assert_eq!(interner.resolve(names[999]), "label_999");
        assert_eq!(interner.lookup("label_3"), Some(names[3]));
        assert_eq!(interner.lookup("nothing"), None);
        let empty = interner.intern("");
        assert_eq!(interner.resolve(empty), "");
    }
}
