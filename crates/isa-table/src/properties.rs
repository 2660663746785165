//! Static properties of instructions: what they write, what they do to memory, where they execute.
//!
//! One line for each mnemonic, columns separated by `|`:
//!
//! ```text
//! IADD3 | R P P | none    | none   | alu    | fixed           | 0 1
//! LDG   | P R R | read    | global | lsu    | variable        |
//! DADD  | R     | none    | none   | double | fixed on 90,100 | 0 1
//! BSSY  | (P) B | control | none   | branch | fixed           |
//! ```
//!
//! mnemonic; the leading operands up to the last that is written; effect beyond registers; memory; pipe; latency class; pairs of
//! sources that may be swapped. A mnemonic without a line fails the build, and so does a line without a mnemonic.
//!
//! A leading operand is named by its register file, or by several (`R/B`) of which a form has one. In parentheses it is read, not
//! written. One that a form or a text does not have is skipped. All operands that are not written are sources; pairs to swap
//! count sources from 0, so that a destination left out of the text does not shift them.

use crate::model::TARGETS;
use crate::parse::{Error, targets};

/// A line of the file.
#[derive(Debug)]
pub struct Properties {
    /// Of which instruction.
    pub mnemonic: String,
    /// File and line, for messages.
    pub place: String,
    leading: Vec<Leading>,
    effect: &'static str,
    memory: &'static str,
    pipe: &'static str,
    /// Targets on which the latency is fixed.
    fixed_latency: u32,
    commute: Vec<(u8, u8)>,
}

/// One of the operands that a text begins with.
#[derive(Debug)]
struct Leading {
    files: Vec<&'static str>,
    written: bool,
}

const FILES: &[(&str, &str)] =
    &[("R", "General"), ("UR", "Uniform"), ("P", "Predicate"), ("UP", "UniformPredicate"), ("B", "Convergence"), ("SB", "Scoreboard")];
const EFFECTS: &[(&str, &str)] = &[
    ("none", "None"),
    ("read", "Reads"),
    ("write", "Writes"),
    ("update", "Updates"),
    ("control", "Control"),
    ("barrier", "Barrier"),
    ("fence", "Fence"),
    ("lanes", "Lanes"),
    ("state", "State"),
    ("other", "Other"),
];
const MEMORIES: &[(&str, &str)] = &[
    ("none", "None"),
    ("generic", "Generic"),
    ("global", "Global"),
    ("shared", "Shared"),
    ("local", "Local"),
    ("constant", "Constant"),
    ("texture", "Texture"),
    ("surface", "Surface"),
    ("tensor", "Tensor"),
    ("attribute", "Attribute"),
];
const PIPES: &[(&str, &str)] = &[
    ("alu", "Alu"),
    ("fma", "Fma"),
    ("half", "Half"),
    ("double", "Double"),
    ("xu", "Xu"),
    ("lsu", "Lsu"),
    ("tex", "Tex"),
    ("tensor", "Tensor"),
    ("uniform", "Uniform"),
    ("branch", "Branch"),
    ("async", "Async"),
    ("none", "None"),
];

/// Reads the file.
pub fn parse_properties(file: &str, text: &str) -> Result<Vec<Properties>, Error> {
    let mut all: Vec<Properties> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let content = line.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let found = read(content, &place).map_err(|message| Error { place: place.clone(), message })?;
        if all.iter().any(|other| other.mnemonic == found.mnemonic) {
            return Err(Error { place, message: format!("{} is described twice", found.mnemonic) });
        }
        all.push(found);
    }
    Ok(all)
}

fn read(line: &str, place: &str) -> Result<Properties, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [mnemonic, leading, effect, memory, pipe, latency, commute] = columns.as_slice() else {
        return Err(format!("seven columns expected, {} found", columns.len()));
    };
    let numbers: Result<Vec<u8>, _> = commute.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| "bad operand numbers in the last column")?;
    if numbers.len() % 2 != 0 {
        return Err("operand numbers of the last column come in pairs".into());
    }
    Ok(Properties {
        mnemonic: mnemonic.to_string(),
        place: place.to_string(),
        leading: leading.split_whitespace().map(leading_operand).collect::<Result<_, _>>()?,
        effect: lookup(EFFECTS, effect)?,
        memory: lookup(MEMORIES, memory)?,
        pipe: lookup(PIPES, pipe)?,
        fixed_latency: fixed_latency(latency)?,
        commute: numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
    })
}

/// `R`, `R/B` or `(P)`.
fn leading_operand(word: &str) -> Result<Leading, String> {
    let inside = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let files = inside.unwrap_or(word).split('/').map(|file| lookup(FILES, file)).collect::<Result<_, _>>()?;
    Ok(Leading { files, written: inside.is_none() })
}

/// The targets on which a latency is fixed: all, none, or those that are named.
fn fixed_latency(text: &str) -> Result<u32, String> {
    match text {
        "fixed" => Ok((1 << TARGETS.len()) - 1),
        "variable" => Ok(0),
        _ => targets(text.strip_prefix("fixed on ").ok_or_else(|| format!("`{text}` is none of fixed, variable, fixed on TARGETS"))?),
    }
}

fn lookup(names: &'static [(&'static str, &'static str)], word: &str) -> Result<&'static str, String> {
    let known = || names.iter().map(|name| name.0).collect::<Vec<_>>().join(", ");
    names.iter().find(|name| name.0 == word).map(|name| name.1).ok_or_else(|| format!("`{word}` is none of {}", known()))
}

impl Properties {
    /// The properties as Rust code.
    pub(crate) fn code(&self) -> String {
        let leading: Vec<String> = self.leading.iter().map(Leading::code).collect();
        let commute: Vec<String> = self.commute.iter().map(|pair| format!("{pair:?}")).collect();
        format!(
            "Properties{{leading:&[{}],effect:Effect::{},memory:Memory::{},pipe:Pipe::{},fixed_latency:{:#x},commute:&[{}]}}",
            leading.join(","),
            self.effect,
            self.memory,
            self.pipe,
            self.fixed_latency,
            commute.join(",")
        )
    }
}

impl Leading {
    fn code(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| format!("File::{file}")).collect();
        format!("Leading{{files:&[{}],written:{}}}", files.join(","), self.written)
    }
}
