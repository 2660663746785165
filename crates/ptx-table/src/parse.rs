//! Parses the table files into rows.

use std::collections::BTreeMap;

use crate::TableError;
use crate::model::{Atom, Requirement, Row, SlotRow, Table, TargetAlternative, is_scalar_type};
use crate::operands::parse_operands;

type ParseResult<T> = Result<T, String>;

impl Table {
    /// Parses a table file and appends its rows. `file` is the name for error messages.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<(), TableError> {
        let mut reader = Reader { file, sets: BTreeMap::new(), heading: None, pending: None, rows: &mut self.rows };
        for (index, line) in text.lines().enumerate() {
            let number = index as u32 + 1;
            reader.line(number, line).map_err(|message| reader.error(number, message))?;
        }
        let last = text.lines().count() as u32;
        reader.flush().map_err(|message| reader.error(last, message))
    }
}

/// State of the parser within one file.
struct Reader<'a> {
    file: &'a str,
    /// The sets defined by `@set` so far.
    sets: BTreeMap<String, Vec<String>>,
    /// Section and opcode of the last heading.
    heading: Option<(String, String)>,
    /// First line and text of the row being read; continuation lines are appended.
    pending: Option<(u32, String)>,
    rows: &'a mut Vec<Row>,
}

impl Reader<'_> {
    /// Returns an error at the first line of the current row, or at `line` if there is no current row.
    fn error(&self, line: u32, message: String) -> TableError {
        let line = self.pending.as_ref().map_or(line, |&(first, _)| first);
        TableError { file: self.file.to_string(), line, message }
    }

    /// Reads one line: a heading, a comment, a set, a continuation, or the start of a row.
    fn line(&mut self, number: u32, line: &str) -> ParseResult<()> {
        if let Some(heading) = line.strip_prefix("##") {
            self.flush()?;
            let mut words = heading.split_whitespace();
            let (Some(section), Some(opcode), None) = (words.next(), words.next(), words.next()) else {
                return Err("a heading is `## SECTION OPCODE`".to_string());
            };
            self.heading = Some((section.to_string(), opcode.to_string()));
        } else if line.trim().is_empty() {
            self.flush()?;
        } else if line.trim_start().starts_with('#') {
            // A comment, which may be between the lines of a row.
        } else if let Some(set) = line.strip_prefix("@set") {
            self.flush()?;
            let (name, values) = set.split_once('=').ok_or("a set is `@set NAME = ...`")?;
            let values = expand(values, &self.sets)?;
            self.sets.insert(name.trim().to_string(), values);
        } else if line.starts_with(char::is_whitespace) {
            let (_, text) = self.pending.as_mut().ok_or("a continuation without a row")?;
            text.push(' ');
            text.push_str(line.trim());
        } else {
            self.flush()?;
            self.pending = Some((number, line.trim().to_string()));
        }
        Ok(())
    }

    /// Parses the row that is complete, if there is one.
    fn flush(&mut self) -> ParseResult<()> {
        let Some((line, text)) = &self.pending else { return Ok(()) };
        let (section, opcode) = self.heading.as_ref().ok_or("a row before the first heading")?;
        let mut row = parse_row(text, opcode, &self.sets)?;
        row.file = self.file.trim_end_matches(".tbl").to_string();
        row.line = *line;
        row.section = section.clone();
        self.rows.push(row);
        self.pending = None;
        Ok(())
    }
}

/// Expands a list of modifiers and `@set` names.
fn expand(values: &str, sets: &BTreeMap<String, Vec<String>>) -> ParseResult<Vec<String>> {
    let mut expanded = Vec::new();
    for word in values.split_whitespace() {
        if let Some(set) = word.strip_prefix('@') {
            expanded.extend_from_slice(sets.get(set).ok_or_else(|| format!("no set `{set}`"))?);
        } else {
            expanded.push(modifier(word)?);
        }
    }
    if expanded.is_empty() {
        return Err("an empty list of modifiers".to_string());
    }
    Ok(expanded)
}

/// Returns a modifier without its dot.
fn modifier(word: &str) -> ParseResult<String> {
    let name = word.strip_prefix('.').ok_or_else(|| format!("expected a modifier, found `{word}`"))?;
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(good) {
        return Err(format!("`{word}` is not a modifier"));
    }
    Ok(name.to_string())
}

/// Parses a row: `HEAD OPERANDS | CLAUSE | ...`.
fn parse_row(text: &str, opcode: &str, sets: &BTreeMap<String, Vec<String>>) -> ParseResult<Row> {
    let mut parts = split_clauses(text).into_iter();
    let first = parts.next().unwrap_or_default();
    let (head, operands) = first.split_once(char::is_whitespace).unwrap_or((first, ""));
    let mut row = Row {
        file: String::new(),
        line: 0,
        section: String::new(),
        opcode: opcode.to_string(),
        slots: Vec::new(),
        operands: Vec::new(),
        requirements: Vec::new(),
        denials: Vec::new(),
        undocumented: Vec::new(),
        movable: false,
        removals: Vec::new(),
    };
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for clause in parts {
        if clause.starts_with("ptx ") || clause.starts_with("sm ") {
            row.requirements.push((Vec::new(), requirement(clause)?));
        } else if let Some(when) = clause.strip_prefix("when ") {
            let (condition, needs) = when.rsplit_once(" : ").ok_or("`when COND : NEEDS`")?;
            row.requirements.push((atoms(condition)?, requirement(needs)?));
        } else if let Some(denied) = clause.strip_prefix("deny ") {
            row.denials.push(atoms(denied)?);
        } else if clause == "movable" {
            if !opcode.contains('.') {
                return Err("`movable` needs an opcode of several components".to_string());
            }
            row.movable = true;
        } else if let Some(undocumented) = clause.strip_prefix("undocumented") {
            let condition = undocumented.trim();
            row.undocumented.push(if condition.is_empty() { Vec::new() } else { atoms(condition)? });
        } else if let Some(removed) = clause.strip_prefix("removed ") {
            let (condition, needs) = match removed.rsplit_once(" : ") {
                Some((condition, needs)) => (atoms(condition)?, needs),
                None => (Vec::new(), removed),
            };
            row.removals.push((condition, requirement(needs)?));
        } else {
            let (name, values) = clause.split_once('=').ok_or_else(|| format!("unknown clause `{clause}`"))?;
            if definitions.insert(name.trim().to_string(), expand(values, sets)?).is_some() {
                return Err(format!("slot `{}` defined twice", name.trim()));
            }
        }
    }
    row.slots = parse_head(head, opcode, &definitions)?;
    for name in definitions.keys() {
        if !row.slots.iter().any(|slot| slot.name == *name) {
            return Err(format!("slot `{name}` is not in the head"));
        }
    }
    row.operands = parse_operands(operands, &row.slots)?;
    check_atoms(&row)?;
    Ok(row)
}

/// Splits a row at ` | `; a pair such as `d|p` has no spaces around its bar.
fn split_clauses(text: &str) -> Vec<&str> {
    text.split(" | ").map(str::trim).collect()
}

/// Parses the head of a row into slots. The components of the opcode after the first become literal slots.
fn parse_head(head: &str, opcode: &str, definitions: &BTreeMap<String, Vec<String>>) -> ParseResult<Vec<SlotRow>> {
    let rest = head.strip_prefix(opcode).ok_or_else(|| format!("`{head}` does not start with `{opcode}`"))?;
    if !(rest.is_empty() || rest.starts_with('.') || rest.starts_with('{')) {
        return Err(format!("`{head}` does not start with `{opcode}`"));
    }
    let mut slots: Vec<SlotRow> = Vec::new();
    for component in opcode.split('.').skip(1) {
        slots.push(SlotRow { name: component.to_string(), values: vec![component.to_string()], group: 0 });
    }
    let mut groups = 0;
    let mut rest = rest;
    while !rest.is_empty() {
        let (text, group, tail) = if let Some(inner) = rest.strip_prefix('{') {
            let (inside, tail) = inner.split_once('}').ok_or("`{` without `}`")?;
            groups += 1;
            (inside, groups, tail)
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            (&rest[..end], 0, &rest[end..])
        };
        for name in text.strip_prefix('.').ok_or("modifiers start with a dot")?.split('.') {
            let values = match definitions.get(name) {
                Some(values) => values.clone(),
                None => vec![modifier(&format!(".{name}"))?],
            };
            slots.push(SlotRow { name: name.to_string(), values, group });
        }
        rest = tail;
    }
    Ok(slots)
}

fn version(word: &str) -> ParseResult<(u8, u8)> {
    let wrong = || format!("`{word}` is not a PTX version");
    let (major, minor) = word.split_once('.').ok_or_else(wrong)?;
    Ok((major.parse().map_err(|_| wrong())?, minor.parse().map_err(|_| wrong())?))
}

pub(crate) fn requirement(text: &str) -> ParseResult<Requirement> {
    let mut requirement = Requirement::default();
    let mut section = "";
    for word in text.split_whitespace() {
        match (section, word) {
            (_, "ptx" | "sm") => section = word,
            ("ptx", _) if requirement.version.is_none() => requirement.version = Some(version(word)?),
            ("sm", _) => requirement.targets.push(target(word)?),
            _ => return Err(format!("`{text}` is not a requirement")),
        }
    }
    Ok(requirement)
}

fn target(word: &str) -> ParseResult<TargetAlternative> {
    let (name, needed) = match word.split_once('@') {
        Some((name, needed)) => (name, Some(version(needed)?)),
        None => (word, None),
    };
    let suffix = name.chars().last().filter(char::is_ascii_alphabetic);
    let digits = name.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match (digits.parse(), suffix) {
        (Ok(number), None | Some('a' | 'f')) => Ok(TargetAlternative { number, suffix, version: needed }),
        _ => Err(format!("`{word}` is not a target")),
    }
}

/// Parses a condition: atoms joined by `&`.
fn atoms(text: &str) -> ParseResult<Vec<Atom>> {
    text.split('&').map(|word| atom(word.trim())).collect()
}

/// Parses one test of a condition: `.mod`, `!.mod`, `slot=.a/.b`, `slot!=.a/.b`, `slot` or `!slot`.
fn atom(word: &str) -> ParseResult<Atom> {
    let values = |text: &str| text.split('/').map(modifier).collect::<ParseResult<Vec<_>>>();
    if let Some((slot, list)) = word.split_once("!=") {
        Ok(Atom::SlotIsNot(slot.trim().to_string(), values(list.trim())?))
    } else if let Some((slot, list)) = word.split_once('=') {
        Ok(Atom::SlotIs(slot.trim().to_string(), values(list.trim())?))
    } else if let Some(lacking) = word.strip_prefix("!.") {
        Ok(Atom::Lacks(lacking.to_string()))
    } else if word.starts_with('.') {
        Ok(Atom::Has(modifier(word)?))
    } else if let Some(slot) = word.strip_prefix('!') {
        Ok(Atom::Empty(slot.to_string()))
    } else {
        Ok(Atom::Filled(word.to_string()))
    }
}

/// Checks that a row's head has every slot and modifier that its conditions mention. Otherwise the condition would have no effect.
fn check_atoms(row: &Row) -> ParseResult<()> {
    let conditions = row.requirements.iter().chain(&row.removals).map(|(condition, _)| condition);
    for atom in conditions.chain(&row.denials).chain(&row.undocumented).flatten() {
        let slot_has = |name: &str, values: &[String]| {
            let slot = row.slots.iter().find(|slot| slot.name == name);
            slot.is_some_and(|slot| values.iter().all(|value| slot.values.contains(value)))
        };
        let known = match atom {
            Atom::Has(value) | Atom::Lacks(value) => row.slots.iter().any(|slot| slot.values.contains(value)),
            Atom::SlotIs(slot, values) | Atom::SlotIsNot(slot, values) => slot_has(slot, values),
            Atom::Filled(slot) | Atom::Empty(slot) => slot_has(slot, &[]),
        };
        if !known {
            return Err(format!("condition {atom:?} names a slot or value the head does not have"));
        }
    }
    Ok(())
}

/// Returns the type of an operand without an explicit type: the slot `type`, or the only literal type in the head.
pub(crate) fn default_type(slots: &[SlotRow]) -> Option<String> {
    if slots.iter().any(|slot| slot.name == "type") {
        return Some("type".to_string());
    }
    let mut literals = slots.iter().filter(|slot| slot.values.len() == 1 && slot.values[0] == slot.name);
    let types: Vec<&str> = literals.by_ref().map(|slot| slot.name.as_str()).filter(|name| is_scalar_type(name)).collect();
    match types.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => Some((*first).to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Arity, OperandSyntax, TypeName};

    fn table(text: &str) -> Result<Table, TableError> {
        let mut table = Table::default();
        table.parse("test.tbl", text)?;
        Ok(table)
    }

    #[test]
    fn a_row_has_slots_operands_and_requirements() {
        let table = table(
            "@set int = .u16 .u32\n## 9.7.1.1 add\nadd{.sat}.type  =d, a, b:u32!imm(0..31) | type = @int .s64\n  | when .sat & type=.s64 : ptx 8.0 sm 90a 100f@8.8\n",
        );
        let table = table.unwrap();
        let [row] = table.rows.as_slice() else { panic!("one row") };
        assert_eq!((row.opcode.as_str(), row.line, row.section.as_str()), ("add", 3, "9.7.1.1"));
        assert_eq!(row.slots[1].values, ["u16", "u32", "s64"]);
        assert_eq!((row.slots[0].group, row.slots[1].group), (1, 0));
        let (condition, needs) = &row.requirements[0];
        assert_eq!(condition.len(), 2);
        assert_eq!(needs.version, Some((8, 0)));
        assert_eq!(needs.targets[1].version, Some((8, 8)));
        let OperandSyntax::Value(d) = &row.operands[0].shape else { panic!("a value") };
        assert!(d.writes && d.ty == TypeName::Slot("type".into()) && d.arity == Arity::Scalar);
    }

    #[test]
    fn mistakes_name_their_line() {
        let error = table("## 1 add\n\nadd.type =d, a | kind = .u32\n").unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (3, "slot `kind` is not in the head"));
        assert!(table("## 1 add\nsub.u32 =d\n").unwrap_err().message.contains("does not start"));
        assert!(table("## 1 add\nadd.u32 =d, a | deny .ftz\n").unwrap_err().message.contains("does not have"));
        assert!(table("## 1 add\nadd =d\n").unwrap_err().message.contains("type"));
    }
}
