//! Parses a control listing into sections, labels, instructions and the skeleton.
//!
//! Nothing is encoded here. Instructions stay text with the position of each part, so that errors can be reported at their position.
//! Comments (`//` to the end of the line, `/* … */`) are replaced by blanks, which keeps columns unchanged. An address at the start of a
//! line (`/*0010*/`) is kept: it is the address of the instruction before the file was edited.

use oriole_isa::{Control, Target};

/// An error with its position; line and column count from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// A parsed listing.
#[derive(Debug, Default)]
pub struct Source<'t> {
    pub target: Option<Target>,
    /// The code sections, in order.
    pub sections: Vec<SourceSection<'t>>,
    /// The file without the listed code; `None` if the listing has no skeleton.
    pub skeleton: Option<Vec<u8>>,
}

/// The code of one section.
#[derive(Debug)]
pub struct SourceSection<'t> {
    pub name: &'t str,
    /// The line of the `.section` directive.
    pub line: usize,
    pub items: Vec<Item<'t>>,
    /// Bytes after the last instruction.
    pub tail: Vec<u8>,
    /// Labels: name, and number of instructions before it.
    pub labels: Vec<(&'t str, usize)>,
}

/// An instruction with its position.
#[derive(Debug)]
pub struct Item<'t> {
    pub line: usize,
    /// Column of the text, counted from 1.
    pub column: usize,
    /// The address when the listing was made; `None` for added instructions.
    pub old_address: Option<u64>,
    pub content: ItemContent<'t>,
}

/// The contents of an instruction line.
#[derive(Debug)]
pub enum ItemContent<'t> {
    /// A 128-bit word.
    Raw(u128),
    /// Control word if given, text, and bits to invert after encoding.
    Text { control: Option<Control>, text: &'t str, flips: u128 },
}

/// Directives that repeat information of the skeleton.
const IGNORED: [&str; 10] =
    [".elftype", ".align", ".global", ".weak", ".local", ".type", ".size", ".other", ".sectionflags", ".sectioninfo"];

/// Limit on the size of the skeleton in bytes: far more than any cubin needs, but small enough to reject nonsense.
const SKELETON_LIMIT: usize = 1 << 28;

/// Replaces comments by blanks.
pub fn without_comments(text: &str) -> Result<String, Problem> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let (mut at, mut line, mut start_of_line) = (0, 1, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"//") {
            let length = bytes[at..].iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len() - at);
            out.resize(out.len() + length, b' ');
            at += length;
        } else if bytes[at..].starts_with(b"/*") {
            let Some(length) = text[at + 2..].find("*/").map(|length| length + 4) else {
                return Err(Problem { line, column: at - start_of_line + 1, message: "this comment has no end".into() });
            };
            for (offset, &byte) in bytes[at..at + length].iter().enumerate() {
                out.push(if byte == b'\n' { b'\n' } else { b' ' });
                if byte == b'\n' {
                    (line, start_of_line) = (line + 1, at + offset + 1);
                }
            }
            at += length;
        } else {
            out.push(bytes[at]);
            if bytes[at] == b'\n' {
                (line, start_of_line) = (line + 1, at + 1);
            }
            at += 1;
        }
    }
    // Comments start and end at ASCII characters, so the result is valid UTF-8.
    String::from_utf8(out).map_err(|_| Problem { line: 1, column: 1, message: "the listing is not UTF-8".into() })
}

/// Parses a listing. `clean` is `text` without comments.
pub fn read<'t>(text: &str, clean: &'t str) -> Result<Source<'t>, Vec<Problem>> {
    let mut reader = Reader { source: Source::default(), line: 0, line_text: "", problems: Vec::new() };
    for (index, (original, line)) in text.split('\n').zip(clean.split('\n')).enumerate() {
        reader.line = index + 1;
        reader.line_text = line;
        if let Err(problem) = reader.read_line(old_address(original)) {
            reader.problems.push(problem);
        }
    }
    if reader.problems.is_empty() { Ok(reader.source) } else { Err(reader.problems) }
}

/// Returns the address in a comment at the start of a line, as nvdisasm and `oriole disasm` write it: `/*01a0*/`, at least four digits.
fn old_address(line: &str) -> Option<u64> {
    let (digits, _) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() >= 4)
}

/// State of the parser.
struct Reader<'t> {
    source: Source<'t>,
    line: usize,
    line_text: &'t str,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    /// Creates an error at a part of the current line.
    fn problem(&self, at: &str, message: impl Into<String>) -> Problem {
        // `at` is a slice of the line, so the difference of the pointers is its offset.
        let column = (at.as_ptr() as usize).saturating_sub(self.line_text.as_ptr() as usize) + 1;
        Problem { line: self.line, column: column.min(self.line_text.len() + 1), message: message.into() }
    }

    /// Parses one line: labels, then a directive or an instruction.
    fn read_line(&mut self, old_address: Option<u64>) -> Result<(), Problem> {
        let mut rest = self.line_text.trim();
        while let Some(label) = label_of(rest) {
            self.label(label)?;
            rest = rest[label.len() + 1..].trim_start();
        }
        if rest.is_empty() {
            return Ok(());
        }
        let (word, argument) = rest.split_once(char::is_whitespace).map_or((rest, ""), |(word, argument)| (word, argument.trim()));
        match word {
            ".target" => self.target(argument),
            ".section" => {
                let name = argument.split(',').next().unwrap_or_default().trim();
                self.source.sections.push(SourceSection { name, line: self.line, items: Vec::new(), tail: Vec::new(), labels: Vec::new() });
                Ok(())
            }
            ".skeleton" => self.skeleton(argument),
            ".raw" => self.raw(argument, old_address),
            ".bytes" => {
                let bytes = self.bytes(argument)?;
                self.section(rest)?.tail = bytes;
                Ok(())
            }
            _ if IGNORED.contains(&word) => Ok(()),
            _ if self.source.skeleton.is_some() && rest.starts_with("0x") => self.skeleton_line(rest),
            _ if word.starts_with('.') => {
                let near = near_directive(word);
                Err(self.problem(rest, format!("unknown directive {word}{near}")))
            }
            _ => self.instruction(rest, old_address),
        }
    }

    fn section(&mut self, at: &str) -> Result<&mut SourceSection<'t>, Problem> {
        let problem = self.problem(at, "code before the first .section");
        self.source.sections.last_mut().ok_or(problem)
    }

    fn label(&mut self, name: &'t str) -> Result<(), Problem> {
        let twice = self.problem(name, format!("label {name} is there twice"));
        let section = self.section(name)?;
        if section.labels.iter().any(|(other, _)| *other == name) {
            return Err(twice);
        }
        section.labels.push((name, section.items.len()));
        Ok(())
    }

    fn target(&mut self, name: &'t str) -> Result<(), Problem> {
        let target = Target::parse(name).ok_or_else(|| self.problem(name, format!("unknown target {name}")))?;
        self.source.target = Some(target);
        Ok(())
    }

    fn skeleton(&mut self, argument: &'t str) -> Result<(), Problem> {
        let size = number(argument).and_then(|size| usize::try_from(size).ok()).filter(|&size| size <= SKELETON_LIMIT);
        let size = size.ok_or_else(|| self.problem(argument, "the size of the skeleton must be a number such as 0x2a40"))?;
        if self.source.skeleton.is_some() {
            return Err(self.problem(argument, "a second skeleton"));
        }
        self.source.skeleton = Some(vec![0; size]);
        Ok(())
    }

    fn skeleton_line(&mut self, text: &'t str) -> Result<(), Problem> {
        let Some((offset, bytes)) = text.split_once(':') else { return Err(self.problem(text, "`OFFSET: BYTES` expected")) };
        let start = number(offset).and_then(|offset| usize::try_from(offset).ok()).ok_or_else(|| self.problem(text, "bad offset"))?;
        let bytes = self.bytes(bytes)?;
        let outside = self.problem(text, "these bytes are past the end of the skeleton");
        let skeleton = self.source.skeleton.as_mut();
        let place = skeleton.and_then(|skeleton| skeleton.get_mut(start..start.checked_add(bytes.len())?)).ok_or(outside)?;
        place.copy_from_slice(&bytes);
        Ok(())
    }

    fn bytes(&self, text: &str) -> Result<Vec<u8>, Problem> {
        let digits: Option<Vec<u8>> =
            text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0);
        let digits = digits.ok_or_else(|| self.problem(text, "bytes are pairs of hexadecimal digits"))?;
        Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }

    fn raw(&mut self, argument: &'t str, old_address: Option<u64>) -> Result<(), Problem> {
        let digits = argument.trim_end_matches(';').trim();
        let word = digits.strip_prefix("0x").and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let word = word.ok_or_else(|| self.problem(argument, ".raw takes a word of up to 32 hexadecimal digits: .raw 0x000fc000…"))?;
        let line = self.line;
        let item = Item { line, column: 1, old_address, content: ItemContent::Raw(word) };
        self.section(argument)?.items.push(item);
        Ok(())
    }

    /// Parses `[CONTROL] TEXT ; ^0xBITS`; control word and bits are optional.
    fn instruction(&mut self, text: &'t str, old_address: Option<u64>) -> Result<(), Problem> {
        let (control, body) = match text.strip_prefix('[') {
            Some(bracket) => {
                let (word, body) = bracket.split_once(']').ok_or_else(|| self.problem(text, "`]` missing after the control word"))?;
                let control = Control::parse(word.trim());
                let wrong = || self.problem(bracket, format!("bad control word {word}; it looks like B0-----:R-:W1:Y:S04"));
                (Some(control.ok_or_else(wrong)?), body.trim_start())
            }
            None => (None, text),
        };
        let (body, flips) = match body.split_once(';') {
            Some((body, behind)) => (body, behind.trim()),
            None => (body, ""),
        };
        let flips = match flips.strip_prefix("^0x") {
            Some(digits) => u128::from_str_radix(digits, 16).map_err(|_| self.problem(flips, "bad bits after `^`"))?,
            None if flips.is_empty() => 0,
            None => return Err(self.problem(flips, format!("unexpected `{flips}` after the instruction"))),
        };
        let column = self.problem(body, "").column;
        let line = self.line;
        let item = Item { line, column, old_address, content: ItemContent::Text { control, text: body.trim_end(), flips } };
        self.section(text)?.items.push(item);
        Ok(())
    }
}

/// Returns whether a name followed by a colon is parsed as a label.
pub(crate) fn is_label(name: &str) -> bool {
    !has_comment(name) && label_of(&format!("{name}:")) == Some(name)
}

/// Returns whether a name after `.section` is parsed as the name of a section.
pub(crate) fn is_section_name(name: &str) -> bool {
    !has_comment(name) && !name.is_empty() && name.trim() == name && !name.contains([',', '\n'])
}

fn has_comment(text: &str) -> bool {
    text.contains("//") || text.contains("/*")
}

/// Returns the label at the start of a line.
fn label_of(line: &str) -> Option<&str> {
    let end = line.find(|c: char| c.is_whitespace() || ":[];,`@".contains(c))?;
    let name = &line[..end];
    let is_number = name.starts_with(|c: char| c.is_ascii_digit());
    (line[end..].starts_with(':') && !name.is_empty() && !is_number).then_some(name)
}

/// Parses a hexadecimal (`0x`) or decimal number.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns a suggestion such as `; did you mean .raw?`; empty if no directive is close.
fn near_directive(word: &str) -> String {
    let known = IGNORED.iter().copied().chain([".target", ".section", ".skeleton", ".raw", ".bytes"]);
    oriole_support::closest(word, known).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}
