//! Parses the lines of a table file. [`crate::template`] parses the templates.

use std::fmt;

use crate::model::{Bits, Field, Form, GuardKind, Instruction, TARGETS, Table};
use crate::template;

/// An error in a table file.
#[derive(Debug)]
pub struct Error {
    /// File and line.
    pub place: String,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Error {}

impl Table {
    /// Parses a file and appends its instructions. `file` is the name for error messages.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<(), Error> {
        // A form line is followed by its template line; only comments may be between them.
        let mut awaiting_template: Option<Form> = None;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{file}:{}", number + 1);
            let fail = |message: String| Error { place: place.clone(), message };
            if let Some(mut form) = awaiting_template.take() {
                if line.starts_with('#') {
                    awaiting_template = Some(form);
                    continue;
                }
                let instruction = self.instructions.last_mut().ok_or_else(|| fail("template outside an instruction".into()))?;
                let template =
                    template_line(line).ok_or_else(|| Error { place: form.place.clone(), message: "form without template".into() })?;
                template::read(template, &instruction.fields, &mut form).map_err(fail)?;
                instruction.forms.push(form);
                continue;
            }
            let content = strip_comment(line);
            if content.trim().is_empty() {
                continue;
            }
            if !content.starts_with(' ') {
                let mnemonic = content.trim().to_string();
                self.instructions.push(Instruction { mnemonic, fields: Vec::new(), forms: Vec::new(), place });
                continue;
            }
            let instruction = self.instructions.last_mut().ok_or_else(|| fail("line outside an instruction".into()))?;
            let mut words = content.split_whitespace();
            match words.next() {
                Some("field") => instruction.fields.push(field(words).map_err(fail)?),
                Some("form") => awaiting_template = Some(form(words, place.clone()).map_err(fail)?),
                Some("note") => {}
                other => return Err(fail(format!("unknown line {}", other.unwrap_or_default()))),
            }
        }
        match awaiting_template {
            Some(form) => Err(Error { place: form.place, message: "form without template".into() }),
            None => Ok(()),
        }
    }
}

/// The template of a form whose text is the bare mnemonic.
const EMPTY_TEMPLATE: &str = "-";

/// Returns the template in a line: it is indented deeper than its form. A blank line or `-` at that depth is the template of the bare
/// mnemonic.
fn template_line(line: &str) -> Option<&str> {
    let template = strip_comment(line.strip_prefix("    ")?).trim();
    Some(if template == EMPTY_TEMPLATE { "" } else { template })
}

/// Removes the comment of a line: `#` in the first column or after a space.
fn strip_comment(line: &str) -> &str {
    if line.starts_with('#') {
        return "";
    }
    line.find(" #").map_or(line, |position| &line[..position])
}

/// Parses `NAME BITS SPELLING...`.
fn field<'t>(mut words: impl Iterator<Item = &'t str>) -> Result<Field, String> {
    let name = words.next().ok_or("field without name")?.to_string();
    let bits = bits(words.next().ok_or("field without bits")?)?;
    if bits.width() > 16 {
        return Err(format!("field {name} has more than 16 bits"));
    }
    let size = 1usize << bits.width();
    let mut spellings = Vec::new();
    for word in words {
        let sparse = word.split_once('=').filter(|(value, _)| value.bytes().all(|b| b.is_ascii_digit()));
        match sparse {
            Some((value, spelling)) => {
                let value =
                    value.parse().ok().filter(|&value: &usize| value < size).ok_or_else(|| format!("value outside its bits in {word}"))?;
                if spellings.len() <= value {
                    spellings.resize(value + 1, None);
                }
                spellings[value] = pieces(spelling);
            }
            None => spellings.push(pieces(word)),
        }
    }
    if spellings.len() > size {
        return Err(format!("field {name} has {} values but room for {size}", spellings.len()));
    }
    spellings.resize(size, None);
    Ok(Field { name, bits, spellings })
}

/// Parses a spelling: `-` is empty, `?` means that the value does not exist, `.A.B` is two modifiers, anything else is one name.
fn pieces(word: &str) -> Option<Vec<String>> {
    match word {
        "?" => None,
        "-" => Some(Vec::new()),
        _ if word.starts_with('.') => Some(word[1..].split('.').map(|piece| format!(".{piece}")).collect()),
        _ => Some(vec![word.to_string()]),
    }
}

/// Largest number of runs of bits in a number; the generated data has space for this many.
pub(crate) const MOST_RUNS: usize = 4;

/// Parses bits: `81`, `81:3` or `72:8+90:1`, followed by an optional `@bias`, `*scale` and `^`.
pub(crate) fn bits(text: &str) -> Result<Bits, String> {
    let mut rest = text;
    let mut bits = Bits { scale: 1, ..Bits::default() };
    if let Some(head) = rest.strip_suffix('^') {
        bits.complemented = true;
        rest = head;
    }
    if let Some((head, scale)) = rest.split_once('*') {
        bits.scale = scale.parse().map_err(|_| format!("bad scale in {text}"))?;
        rest = head;
    }
    if let Some((head, bias)) = rest.split_once('@') {
        bits.bias = bias.parse().map_err(|_| format!("bad bias in {text}"))?;
        rest = head;
    }
    for run in rest.split('+') {
        let (low, width) = run.split_once(':').unwrap_or((run, "1"));
        let low: u8 = low.parse().map_err(|_| format!("bad bit in {text}"))?;
        let width: u8 = width.parse().map_err(|_| format!("bad width in {text}"))?;
        if width == 0 || u32::from(low) + u32::from(width) > 128 || width > 64 {
            return Err(format!("bits {text} do not fit into an instruction"));
        }
        let run = Bits { runs: vec![(low, width)], ..Bits::default() };
        if bits.mask() & run.mask() != 0 {
            return Err(format!("a bit twice in {text}"));
        }
        bits.runs.push((low, width));
    }
    if bits.runs.len() > MOST_RUNS {
        return Err(format!("more than {MOST_RUNS} runs in {text}"));
    }
    if bits.width() > 64 {
        return Err(format!("more than 64 bits in {text}"));
    }
    Ok(bits)
}

/// Parses the words of a form line after `form`.
fn form<'t>(words: impl Iterator<Item = &'t str>, place: String) -> Result<Form, String> {
    let mut words = words.peekable();
    let opcode =
        words.next().and_then(|word| u16::from_str_radix(word, 16).ok()).filter(|&code| code < 4096).ok_or("form without opcode")?;
    let mut form = Form {
        opcode,
        targets: 0,
        fixed: Vec::new(),
        with: Vec::new(),
        excluded: Vec::new(),
        guard: GuardKind::Predicate,
        never_read_barrier: false,
        never_write_barrier: false,
        modifiers: Vec::new(),
        operands: Vec::new(),
        place,
    };
    while let Some(word) = words.next() {
        match word {
            "on" => form.targets = targets(words.next().ok_or("`on` without targets")?)?,
            "fix" | "with" => {
                while let Some(assignment) = words.next_if(|next| next.contains('=')) {
                    let entry = assignment_of(assignment)?;
                    if word == "fix" { form.fixed.push(entry) } else { form.with.push(entry) }
                }
            }
            "not" => {
                let entry = assignment_of(words.next().ok_or("`not` without a value")?)?;
                form.excluded.push(entry);
            }
            "guard" => {
                form.guard = match words.next() {
                    Some("UP") => GuardKind::Uniform,
                    Some("none") => GuardKind::None,
                    _ => return Err("guard is UP or none".into()),
                }
            }
            "never" => {
                (form.never_read_barrier, form.never_write_barrier) = match words.next() {
                    Some("R") => (true, false),
                    Some("W") => (false, true),
                    Some("RW") => (true, true),
                    _ => return Err("never is R, W or RW".into()),
                }
            }
            _ => return Err(format!("unexpected {word}")),
        }
    }
    if form.targets == 0 { Err("form without targets".into()) } else { Ok(form) }
}

/// Parses `BITS=VALUE`.
fn assignment_of(text: &str) -> Result<(Bits, u64), String> {
    let (place, value) = text.split_once('=').ok_or_else(|| format!("no value in {text}"))?;
    let bits = bits(place)?;
    let value = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    let value = value.map_err(|_| format!("bad value in {text}"))?;
    if bits.width() < 64 && value >> bits.width() != 0 {
        return Err(format!("value outside its bits in {text}"));
    }
    Ok((bits, value))
}

/// Parses a list of targets such as `75..89,100` into a target set.
pub(crate) fn targets(text: &str) -> Result<u32, String> {
    let position = |name: &str| {
        let number: u16 = name.parse().map_err(|_| format!("bad target {name}"))?;
        TARGETS.iter().position(|&target| target == number).ok_or_else(|| format!("unknown target {name}"))
    };
    let mut set = 0;
    for item in text.split(',') {
        let (first, last) = item.split_once("..").unwrap_or((item, item));
        for target in position(first)?..=position(last)? {
            set |= 1 << target;
        }
    }
    Ok(set)
}
