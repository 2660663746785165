//! Parses `widths.tbl`: the number of consecutive registers that each operand names, and operands that are both read and written.
//!
//! A line has three columns; `docs/isa-table.md` describes the whole notation:
//!
//! ```text
//! DADD DFMA DMUL |          | d0=2 s=2
//! IMAD           | .WIDE    | d0=2 s2=2
//! HGMMA          | .F32     | d0=N/2 s1=N/2 s2=N/2
//! *              | ^.64     | a=2 au=2
//! ```
//!
//! The columns are: mnemonics, or `*` for all instructions (these lines are evaluated last); conditions that must all hold; widths of
//! operands by role. For each operand the first line with `=` whose conditions hold decides the width; every line with `+` adds to it.

use std::collections::BTreeSet;

use crate::parse::Error;

/// One line of the file.
#[derive(Debug)]
pub struct WidthLine {
    /// File and line, for error messages.
    pub place: String,
    /// The instructions that the line applies to; empty for all.
    pub mnemonics: Vec<String>,
    conditions: Vec<Condition>,
    effects: Vec<Effect>,
}

/// A condition on the instruction or the operand.
#[derive(Debug)]
enum Condition {
    /// One of these sequences of modifiers occurs in the instruction, or none does.
    Modifiers { alternatives: Vec<Vec<String>>, present: bool },
    /// The operand has one of these suffixes.
    Own(Vec<String>),
    /// One of these names is an operand of the instruction.
    Named(Vec<String>),
    /// An address without a word before the brackets contains a uniform register.
    UniformAddress,
}

/// What a line says about the operands of one role; `action` is Rust code.
#[derive(Debug)]
struct Effect {
    role: OperandRole,
    action: String,
}

/// The purpose of an operand (Rust name) and its index among the operands with that purpose; `None` for all of them.
#[derive(Debug)]
struct OperandRole {
    kind: &'static str,
    index: Option<u8>,
}

/// Roles and their Rust names.
const ROLES: &[(&str, &str)] = &[
    ("gdesc", "MatrixDescriptor"),
    ("desc", "Descriptor"),
    ("cx", "ConstantBank"),
    ("au", "UniformAddress"),
    ("a", "Address"),
    ("d", "Destination"),
    ("s", "Source"),
    ("c", "Coordinates"),
    ("e", "Extras"),
    ("u", "UniformSource"),
];

/// Widths other than plain numbers, and their Rust code.
const WIDTHS: &[(&str, &str)] = &[
    ("N/2", "ShapeColumns{divisor:2}"),
    ("N/4", "ShapeColumns{divisor:4}"),
    ("X", "Repeats{each:1}"),
    ("2X", "Repeats{each:2}"),
    ("4X", "Repeats{each:4}"),
    ("c", "Coordinates"),
    ("e", "Extras"),
    ("(c+e)/2", "HalfOfBoth{round_up:0}"),
    ("(c+e+1)/2", "HalfOfBoth{round_up:1}"),
    ("low", "MaskLow"),
    ("high", "MaskHigh"),
    ("lower", "ComponentsLower"),
    ("upper", "ComponentsUpper"),
];

/// Parses the file.
pub fn parse_widths(file: &str, text: &str) -> Result<Vec<WidthLine>, Error> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let content = line.split('#').next().unwrap_or_default();
        if !content.trim().is_empty() {
            all.push(read(content, &place).map_err(|message| Error { place, message })?);
        }
    }
    Ok(all)
}

/// Parses one line of three columns.
fn read(line: &str, place: &str) -> Result<WidthLine, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [mnemonics, conditions, effects] = columns.as_slice() else {
        return Err(format!("three columns expected, {} found", columns.len()));
    };
    let mnemonics: Vec<String> = mnemonics.split_whitespace().filter(|&word| word != "*").map(ToString::to_string).collect();
    let effects: Vec<Effect> = effects.split_whitespace().map(effect).collect::<Result<_, _>>()?;
    if effects.is_empty() {
        return Err("a line that says nothing".into());
    }
    Ok(WidthLine {
        place: place.to_string(),
        mnemonics,
        conditions: conditions.split_whitespace().map(condition).collect::<Result<_, _>>()?,
        effects,
    })
}

/// Parses a condition: `.A.B/.C` or `!.A` (modifiers), `^.64` (suffix of the operand), `[u]`, or the names `A/B`.
fn condition(word: &str) -> Result<Condition, String> {
    let (present, rest) = word.strip_prefix('!').map_or((true, word), |rest| (false, rest));
    if let Some(own) = word.strip_prefix('^') {
        return Ok(Condition::Own(own.split('/').map(ToString::to_string).collect()));
    }
    if word == "[u]" {
        return Ok(Condition::UniformAddress);
    }
    if rest.starts_with('.') {
        let run = |alternative: &str| alternative.split('.').skip(1).map(|piece| format!(".{piece}")).collect();
        return Ok(Condition::Modifiers { alternatives: rest.split('/').map(run).collect(), present });
    }
    match present {
        true => Ok(Condition::Named(word.split('/').map(ToString::to_string).collect())),
        false => Err(format!("`{word}`: only modifiers can be excluded")),
    }
}

/// Parses `ROLE=WIDTH`, `ROLE+NUMBER`, `ROLE:r` or `ROLE:w`.
fn effect(word: &str) -> Result<Effect, String> {
    let at = word.find(['=', '+', ':']).ok_or_else(|| format!("`{word}` is none of ROLE=WIDTH, ROLE+NUMBER, ROLE:r, ROLE:w"))?;
    let (role, rest) = word.split_at(at);
    let (operator, value) = rest.split_at(1);
    let action = match (operator, value) {
        (":", "r") => "AlsoRead".to_string(),
        (":", "w") => "AlsoWritten".to_string(),
        ("=", _) => format!("Is(Width::{})", width(value)?),
        ("+", _) => format!("Plus({})", number(value)?),
        _ => return Err(format!("`{value}` after a colon is neither r nor w")),
    };
    Ok(Effect { role: read_role(role)?, action })
}

fn width(value: &str) -> Result<String, String> {
    match WIDTHS.iter().find(|known| known.0 == value) {
        Some(known) => Ok(known.1.to_string()),
        None => Ok(format!("Fixed({})", number(value)?)),
    }
}

fn number(value: &str) -> Result<u8, String> {
    value.parse().map_err(|_| format!("`{value}` is no width"))
}

fn read_role(word: &str) -> Result<OperandRole, String> {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let name = &word[..word.len() - digits.len()];
    let kind = ROLES.iter().find(|role| role.0 == name).ok_or_else(|| format!("`{word}` is no role"))?.1;
    let index = if digits.is_empty() { None } else { Some(number(digits)?) };
    Ok(OperandRole { kind, index })
}

/// Returns the rules of all instructions as Rust code. `symbol` returns the code of a symbol, or `None` if no form uses it.
pub(crate) fn rules_code(mnemonics: &[&str], lines: &[WidthLine], symbol: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    for line in lines {
        if let Some(unknown) = line.mnemonics.iter().find(|mnemonic| !mnemonics.contains(&mnemonic.as_str())) {
            return Err(format!("{}: {unknown} has no form", line.place));
        }
    }
    let mut out = format!("pub(crate) static WIDTH_RULES:[&[WidthRule];{}]=[\n", mnemonics.len());
    let mut kinds = format!(
        "/// Kinds of roles that the rules of an instruction name, one bit each.\npub(crate) static WIDTH_KINDS:[u16;{}]=[\n",
        mnemonics.len()
    );
    for mnemonic in mnemonics {
        let own = lines.iter().filter(|line| line.mnemonics.iter().any(|other| other == mnemonic));
        let common = lines.iter().filter(|line| line.mnemonics.is_empty());
        let all: Vec<&WidthLine> = own.chain(common).collect();
        let rules: Vec<String> = all.iter().map(|line| line.code(symbol)).collect::<Result<_, _>>()?;
        out.push_str(&format!("&[{}],\n", rules.join(",")));
        let named: BTreeSet<&str> = all.iter().flat_map(|line| &line.effects).map(|effect| effect.role.kind).collect();
        let bits: Vec<String> = named.iter().map(|kind| format!("1<<OperandPurpose::{kind} as u16")).collect();
        kinds.push_str(&format!("{},\n", if bits.is_empty() { "0".to_string() } else { bits.join("|") }));
    }
    Ok(format!("{out}];\n{kinds}];\n"))
}

impl WidthLine {
    /// Returns the Rust code of the rule. Fails if no form uses a symbol of the line.
    fn code(&self, symbol: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
        let known = |text: &String| symbol(text).ok_or_else(|| format!("{}: no form has `{text}`", self.place));
        let list = |texts: &[String]| -> Result<String, String> {
            Ok(format!("&[{}]", texts.iter().map(known).collect::<Result<Vec<_>, _>>()?.join(",")))
        };
        let condition = |condition: &Condition| -> Result<String, String> {
            Ok(match condition {
                Condition::Modifiers { alternatives, present } => {
                    let runs: Vec<String> = alternatives.iter().map(|run| list(run)).collect::<Result<_, _>>()?;
                    format!("Condition::Modifiers{{alternatives:&[{}],present:{present}}}", runs.join(","))
                }
                Condition::Own(suffixes) => format!("Condition::Own({})", list(suffixes)?),
                Condition::Named(names) => format!("Condition::Named({})", list(names)?),
                Condition::UniformAddress => "Condition::UniformAddress".to_string(),
            })
        };
        let conditions: Vec<String> = self.conditions.iter().map(condition).collect::<Result<_, _>>()?;
        let effects: Vec<String> = self
            .effects
            .iter()
            .map(|effect| {
                format!(
                    "(OperandRole{{kind:OperandPurpose::{},index:{:?}}},WidthAction::{})",
                    effect.role.kind, effect.role.index, effect.action
                )
            })
            .collect();
        Ok(format!("WidthRule{{conditions:&[{}],effects:&[{}]}}", conditions.join(","), effects.join(",")))
    }
}
