//! Data sheets: the notation of `machines.tbl`, `units.tbl`, `costs.tbl` and `control.tbl`.
//!
//! A sheet lists its sources, then the facts of each machine, one per line, with the source at the end of the line. A machine that is
//! `like` an earlier one lists only the facts that differ.

use crate::sheet::Fact;

fn parse_fact(line: &'static str) -> Option<Fact> {
    let (key, rest) = line.split_once(char::is_whitespace)?;
    let (value, source) = rest.trim().rsplit_once(char::is_whitespace)?;
    Some(Fact { key, value: value.trim(), source })
}

/// The text of a data sheet.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    /// The name of the file, for error messages.
    pub file: &'static str,
    /// The contents of the file.
    pub text: &'static str,
}

const COMMENT: char = '#';
const HEADING: &str = "machine ";

fn without_comment(line: &'static str) -> &'static str {
    line.split(COMMENT).next().unwrap_or_default().trim()
}

impl Sheet {
    /// Returns the message for an error at a position of the text.
    fn error(self, place: usize, message: &str) -> String {
        let line = self.text[..place].lines().count() + 1;
        format!("{}:{line}: {message}", self.file)
    }

    /// Returns the name and the description of each source, in the order of the sheet.
    pub fn sources(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.text.lines().filter_map(|line| {
            let (name, description) = without_comment(line).strip_prefix("source ")?.split_once(' ')?;
            Some((name, description.trim()))
        })
    }

    /// Returns the offset of the heading of a machine within a prefix of the text.
    fn heading(self, name: &str, end: usize) -> Option<usize> {
        let starts_line = |place: usize| place == 0 || self.text.as_bytes()[place - 1] == b'\n';
        let is_named = |place: usize| self.text[place + HEADING.len()..].split_whitespace().next() == Some(name);
        let headings = self.text[..end].match_indices(HEADING).map(|(place, _)| place);
        headings.filter(|place| starts_line(*place)).find(|place| is_named(*place))
    }

    /// Returns the facts of a machine: its own first, then those that it inherits with `like`. Each key occurs once.
    pub fn facts(self, machine: &str) -> Result<Vec<Fact>, String> {
        let mut facts: Vec<Fact> = Vec::new();
        let mut next = Some(machine);
        // A machine inherits from an earlier one only, so the loop ends.
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
    fn machine_inherits_facts_of_its_base() {
        let facts = sheet(TEXT).facts("new").unwrap();
        let size = Fact { key: "size", value: "9", source: "book" };
        assert_eq!(facts, [size, Fact { key: "parts", value: "1 2", source: "book" }]);
        assert_eq!(sheet(TEXT).sources().collect::<Vec<_>>(), [("book", "A book")]);
    }

    #[test]
    fn errors_are_reported() {
        let error = |text, machine| sheet(text).facts(machine).unwrap_err();
        assert_eq!(error(TEXT, "newer"), "test.tbl: no machine `newer` where it is asked for");
        // Only earlier machines are searched, so no machine inherits from itself.
        assert_eq!(error("machine a like a\n", "a"), "test.tbl: no machine `a` where it is asked for");
        assert_eq!(error("machine a\nsize 1\n", "a"), "test.tbl:2: expected a key, a value and a source");
        assert_eq!(error("machine a\nsize 1 book\nsize 2 book\n", "a"), "test.tbl:3: `size` is given twice");
        assert_eq!(error("machine a unlike b\n", "a"), "test.tbl:1: expected `machine NAME [like NAME]`");
    }
}
