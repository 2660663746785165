//! Parses the list of special registers: `%tid .v4.u32 x y z w | ptx 1.0 | sm 20 | also .u16`.
//!
//! A name may end in a range (`%envreg0..31`), which defines one register per number. The components of a vector register follow its
//! type.

use crate::TableError;
use crate::model::{Requirement, SCALAR_TYPES, is_scalar_type};
use crate::parse::requirement;

/// One special register.
#[derive(Debug, Clone)]
pub struct SpecialRegister {
    /// The name, with the percent sign.
    pub name: String,
    /// The scalar type.
    pub ty: String,
    /// Whether it is a vector of four elements.
    pub vector: bool,
    /// Narrower widths in bits with which the register may also be read.
    pub narrower_bits: Vec<u32>,
    /// The PTX version and targets it requires.
    pub requirement: Requirement,
}

/// Parses the table of special registers; the result is sorted by name.
pub fn parse_special_registers(file: &str, text: &str) -> Result<Vec<SpecialRegister>, TableError> {
    let mut registers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        parse_line(line, &mut registers).map_err(|message| TableError { file: file.to_string(), line: index as u32 + 1, message })?;
    }
    registers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(registers)
}

/// Parses one line and appends its registers.
fn parse_line(line: &str, registers: &mut Vec<SpecialRegister>) -> Result<(), String> {
    let mut parts = line.split('|').map(str::trim);
    let mut words = parts.next().unwrap_or_default().split_whitespace();
    let name = words.next().ok_or("no name")?;
    let full_type = words.next().ok_or("no type")?;
    let (vector, ty) = match full_type.strip_prefix(".v4.") {
        Some(ty) => (true, ty),
        None => (false, full_type.strip_prefix('.').ok_or("a type starts with a dot")?),
    };
    if !is_scalar_type(ty) {
        return Err(format!("`{full_type}` is not a type"));
    }
    let mut needs = Requirement::default();
    let mut narrower_bits = Vec::new();
    for part in parts {
        if let Some(types) = part.strip_prefix("also ") {
            for ty in types.split_whitespace() {
                let known = SCALAR_TYPES.iter().find(|(name, _)| Some(*name) == ty.strip_prefix('.'));
                narrower_bits.push(known.ok_or_else(|| format!("`{ty}` is not a type"))?.1);
            }
            continue;
        }
        let more = requirement(part)?;
        needs.version = needs.version.max(more.version);
        needs.targets.extend(more.targets);
    }
    let mut add = |name: String| {
        registers.push(SpecialRegister {
            name,
            ty: ty.to_string(),
            vector,
            narrower_bits: narrower_bits.clone(),
            requirement: needs.clone(),
        });
    };
    match name.split_once("..") {
        None => add(name.to_string()),
        Some((first, last)) => {
            let digits = first.trim_end_matches("_64").trim_start_matches(|c: char| !c.is_ascii_digit());
            let suffix = if first.ends_with("_64") { "_64" } else { "" };
            let stem = &first[..first.len() - digits.len() - suffix.len()];
            let last = last.trim_end_matches("_64").trim_start_matches(|c: char| !c.is_ascii_digit());
            let (from, to): (u32, u32) = match (digits.parse(), last.parse()) {
                (Ok(from), Ok(to)) => (from, to),
                _ => return Err(format!("`{name}` is not a range of registers")),
            };
            (from..=to).for_each(|number| add(format!("{stem}{number}{suffix}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_single_registers() {
        let registers = parse_special_registers("s", "%pm0_64..7_64 .u64 | ptx 4.0 | sm 50\n%tid .v4.u32 x y z w\n").unwrap();
        assert_eq!(registers.len(), 9);
        assert_eq!(registers[7].name, "%pm7_64");
        assert_eq!(registers[7].requirement.version, Some((4, 0)));
        assert!(registers[8].vector);
        assert!(parse_special_registers("s", "%tid .q7\n").is_err());
    }
}
