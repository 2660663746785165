//! The unread rest of a line, and the parsers of its smallest parts: numbers, registers and register classes.

use oriole_isa::{RegFile, Symbol};

use crate::operand::{Class, OperandKind};
use crate::text::{REFERENCES, member};

/// Result of parsing a part of a line; the error is a message without line number.
pub(super) type Read<T> = Result<T, String>;

/// The register files, in the order in which the parser tries their prefixes.
pub(super) const FILES: [RegFile; 6] =
    [RegFile::Uniform, RegFile::UniformPredicate, RegFile::Scoreboard, RegFile::General, RegFile::Predicate, RegFile::Convergence];

/// The unread rest of a line.
pub(super) struct Cursor<'a> {
    text: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text }
    }

    /// Returns the unread text.
    pub(super) fn rest(&self) -> &'a str {
        self.text
    }

    /// Skips a number of bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.text = &self.text[bytes..];
    }

    /// Skips white space.
    pub(super) fn spaces(&mut self) {
        self.text = self.text.trim_start();
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Fails unless the rest of the line is empty.
    pub(super) fn end(&self) -> Read<()> {
        if self.is_at_end() { Ok(()) } else { Err(format!("`{}` is too much", self.text)) }
    }

    /// Consumes `text` if it follows; returns whether it did.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let rest = self.text.strip_prefix(text);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    /// Consumes a character; fails if another one follows.
    pub(super) fn expect(&mut self, letter: char) -> Read<()> {
        let mut buffer = [0; 4];
        if self.eat(letter.encode_utf8(&mut buffer)) { Ok(()) } else { Err(format!("`{letter}` is missing in front of `{}`", self.text)) }
    }

    /// Returns everything up to a character or the end.
    pub(super) fn until(&mut self, letter: char) -> &'a str {
        let end = self.text.find(letter).unwrap_or(self.text.len());
        let (token, rest) = self.text.split_at(end);
        self.text = rest;
        token
    }

    /// Consumes the longest prefix of characters for which `is_part` holds.
    pub(super) fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.text.find(|letter| !is_part(letter)).unwrap_or(self.text.len());
        let (token, rest) = self.text.split_at(end);
        self.text = rest;
        token
    }

    /// Returns whether the description of a memory access follows: `!` and a lower-case word with which no operand starts.
    pub(super) fn is_at_access(&self) -> bool {
        let is_operand = |word: &str| word.is_empty() || word.starts_with("bb") || word == "undef" || Symbol::find(word).is_some();
        self.text.strip_prefix('!').is_some_and(|rest| {
            let word = Cursor::new(rest).take_while(|letter| letter.is_ascii_lowercase() || letter == '_');
            let is_reference = member(&REFERENCES, word).is_some() && rest[word.len()..].starts_with('(');
            !is_operand(word) && !is_reference
        })
    }

    /// Parses a decimal number without sign.
    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Read<T> {
        let digits = self.take_while(|letter| letter.is_ascii_digit());
        digits.parse().map_err(|_| format!("a number is missing in front of `{}`", self.text))
    }

    /// Parses a register class, such as `R2@1`.
    pub(super) fn class(&mut self) -> Read<Class> {
        let Some(&file) = FILES.iter().find(|file| self.text.starts_with(file.prefix())) else {
            return Err(format!("no register file in `{}`", self.text));
        };
        self.skip(file.prefix().len());
        let has_width = self.text.starts_with(|letter: char| letter.is_ascii_digit());
        let mut class = Class::new(file, if has_width { self.number()? } else { 1 });
        let mut ahead = Cursor::new(self.text);
        if ahead.eat("@") && ahead.text.starts_with(|letter: char| letter.is_ascii_digit()) {
            class.align = ahead.number()?;
            *self = ahead;
        }
        if class.width == 0 || class.align == 0 {
            return Err("a value has at least one register".to_owned());
        }
        Ok(class)
    }

    /// Parses a register: `R4`, `R4:R7`, `RZ`. Returns `None` and consumes nothing if there is none.
    pub(super) fn register(&mut self) -> Option<OperandKind> {
        let file = *FILES.iter().find(|file| self.text.starts_with(file.prefix()))?;
        let mut ahead = Cursor::new(&self.text[file.prefix().len()..]);
        let first = ahead.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let zero = if file.constant_letter() == Some('T') { "T" } else { "Z" };
        let kind = if first == zero {
            OperandKind::Zero(file)
        } else {
            let first: u16 = first.parse().ok()?;
            let mut count = 1;
            if ahead.eat(":") && ahead.eat(file.prefix()) {
                let last: u16 = ahead.number().ok()?;
                count = u8::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
            }
            OperandKind::Register { file, first, count }
        };
        *self = ahead;
        Some(kind)
    }
}
