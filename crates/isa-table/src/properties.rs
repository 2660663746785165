//! Static properties of instructions: what they write, what they do to memory, where they execute.
//!
//! One line for each mnemonic, columns separated by `|`:
//!
//! ```text
//! IADD3 | R P P | none  | none   | alu | fixed    | 3 4
//! LDG   | P R   | read  | global | lsu | variable |
//! ```
//!
//! mnemonic; register files of the leading operands that are written (one that a form does not have is skipped); effect beyond
//! registers; memory; pipe; latency class; pairs of operands that may be swapped. A mnemonic without a line fails the build.

use crate::parse::Error;

/// A line of the file.
#[derive(Debug)]
pub struct Properties {
    /// Of which instruction.
    pub mnemonic: String,
    destinations: Vec<&'static str>,
    effect: &'static str,
    memory: &'static str,
    pipe: &'static str,
    latency: &'static str,
    commute: Vec<(u8, u8)>,
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
const LATENCIES: &[(&str, &str)] = &[("fixed", "Fixed"), ("variable", "Variable")];

/// Reads the file.
pub fn parse_properties(file: &str, text: &str) -> Result<Vec<Properties>, Error> {
    let mut all: Vec<Properties> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let content = line.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let found = read(content).map_err(|message| Error { place: place.clone(), message })?;
        if all.iter().any(|other| other.mnemonic == found.mnemonic) {
            return Err(Error { place, message: format!("{} is described twice", found.mnemonic) });
        }
        all.push(found);
    }
    Ok(all)
}

fn read(line: &str) -> Result<Properties, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [mnemonic, destinations, effect, memory, pipe, latency, commute] = columns.as_slice() else {
        return Err(format!("seven columns expected, {} found", columns.len()));
    };
    let numbers: Result<Vec<u8>, _> = commute.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| "bad operand numbers in the last column")?;
    if numbers.len() % 2 != 0 {
        return Err("operand numbers of the last column come in pairs".into());
    }
    Ok(Properties {
        mnemonic: mnemonic.to_string(),
        destinations: destinations.split_whitespace().map(|word| lookup(FILES, word)).collect::<Result<_, _>>()?,
        effect: lookup(EFFECTS, effect)?,
        memory: lookup(MEMORIES, memory)?,
        pipe: lookup(PIPES, pipe)?,
        latency: lookup(LATENCIES, latency)?,
        commute: numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
    })
}

fn lookup(names: &'static [(&'static str, &'static str)], word: &str) -> Result<&'static str, String> {
    let known = || names.iter().map(|name| name.0).collect::<Vec<_>>().join(", ");
    names.iter().find(|name| name.0 == word).map(|name| name.1).ok_or_else(|| format!("`{word}` is none of {}", known()))
}

impl Properties {
    /// The properties as Rust code.
    pub(crate) fn code(&self) -> String {
        let files: Vec<String> = self.destinations.iter().map(|file| format!("File::{file}")).collect();
        let commute: Vec<String> = self.commute.iter().map(|pair| format!("{pair:?}")).collect();
        format!(
            "Properties{{destinations:&[{}],effect:Effect::{},memory:Memory::{},pipe:Pipe::{},latency:Latency::{},commute:&[{}]}}",
            files.join(","),
            self.effect,
            self.memory,
            self.pipe,
            self.latency,
            commute.join(",")
        )
    }
}
