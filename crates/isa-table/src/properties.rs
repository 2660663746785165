//! Parses `properties.tbl`: what each instruction writes, its effect on memory, and its functional unit.
//!
//! One line for each mnemonic, columns separated by `|`:
//!
//! ```text
//! IADD3 | R P P | none    | none   | alu    | fixed           | 0 1; one sign 0 1
//! LDG   | P R R | read    | global | lsu    | variable        |
//! DADD  | R     | none    | none   | double | fixed on 90,100 | 0 1
//! BSSY  | (P) B | control | none   | branch | fixed           |
//! ```
//!
//! The columns are: mnemonic; the leading operands up to the last one that is written; effect other than writing registers; memory space;
//! functional unit; latency class; pairs of sources that may be swapped, then rules, each after a `;`. The rule `one sign` lists pairs of
//! sources of which at most one may have a sign (`-` or `~`); the other rules are the flags of `FLAGS`, without arguments. It is an error
//! if a mnemonic has no line or a line no mnemonic.
//!
//! A leading operand is named by its register file, or by several files (`R/B`) if forms differ. An operand in parentheses is read, not
//! written. A leading operand that a form or a text does not have is skipped. All operands that are not written are sources. Pairs are
//! indices among the sources, so that they do not depend on whether the text shows a destination.

use crate::model::TARGETS;
use crate::parse::{Error, targets};

/// The properties of one instruction: a line of the file. Columns hold the names of the Rust enum variants.
#[derive(Debug)]
pub struct Properties {
    /// The mnemonic.
    pub mnemonic: String,
    /// File and line, for error messages.
    pub place: String,
    leading: Vec<Leading>,
    effect: &'static str,
    memory: &'static str,
    pipe: &'static str,
    /// The targets on which the latency is fixed, one bit each.
    fixed_latency: u32,
    commute: Vec<(u8, u8)>,
    one_sign: Vec<(u8, u8)>,
    /// The fields of the Rust struct for the flags that the line has.
    flags: Vec<&'static str>,
}

/// One of the first operands of an instruction's text.
#[derive(Debug)]
struct Leading {
    files: Vec<&'static str>,
    written: bool,
}

// Words of the columns and the Rust enum variants they stand for.
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

/// Flags of the last column, and the fields of the Rust struct `Properties` that they set. A line without a flag has `false` there.
const FLAGS: &[(&str, &str)] = &[
    ("waits", "waits_for_threads"),
    ("keeps threads", "keeps_active_threads"),
    ("blocks accesses", "blocks_later_accesses"),
    ("whole warp", "needs_whole_warp"),
    ("whole warpgroup", "needs_whole_warpgroup"),
];

/// Parses the file.
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

/// Parses one line of seven columns.
fn read(line: &str, place: &str) -> Result<Properties, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [mnemonic, leading, effect, memory, pipe, latency, commute] = columns.as_slice() else {
        return Err(format!("seven columns expected, {} found", columns.len()));
    };
    let (commute, rules) = commute.split_once(';').unwrap_or((commute, ""));
    let (mut one_sign, mut flags) = ("", Vec::new());
    for rule in rules.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
        match rule.strip_prefix("one sign") {
            Some(pairs) => one_sign = pairs,
            None => flags.push(lookup(FLAGS, rule)?),
        }
    }
    Ok(Properties {
        mnemonic: mnemonic.to_string(),
        place: place.to_string(),
        leading: leading.split_whitespace().map(leading_operand).collect::<Result<_, _>>()?,
        effect: lookup(EFFECTS, effect)?,
        memory: lookup(MEMORIES, memory)?,
        pipe: lookup(PIPES, pipe)?,
        fixed_latency: fixed_latency(latency)?,
        commute: pairs(commute)?,
        one_sign: pairs(one_sign)?,
        flags,
    })
}

/// Parses pairs of source indices: `0 1 1 2`.
fn pairs(text: &str) -> Result<Vec<(u8, u8)>, String> {
    let numbers: Result<Vec<u8>, _> = text.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| "bad operand numbers in the last column")?;
    if numbers.len() % 2 != 0 {
        return Err("operand numbers of the last column come in pairs".into());
    }
    Ok(numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Parses a leading operand: `R`, `R/B` or `(P)`.
fn leading_operand(word: &str) -> Result<Leading, String> {
    let inside = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let files = inside.unwrap_or(word).split('/').map(|file| lookup(FILES, file)).collect::<Result<_, _>>()?;
    Ok(Leading { files, written: inside.is_none() })
}

/// Parses the latency class into the set of targets on which the latency is fixed: `fixed`, `variable` or `fixed on TARGETS`.
fn fixed_latency(text: &str) -> Result<u32, String> {
    match text {
        "fixed" => Ok((1 << TARGETS.len()) - 1),
        "variable" => Ok(0),
        _ => targets(text.strip_prefix("fixed on ").ok_or_else(|| format!("`{text}` is none of fixed, variable, fixed on TARGETS"))?),
    }
}

/// Returns the Rust name of a word of a column.
fn lookup(names: &'static [(&'static str, &'static str)], word: &str) -> Result<&'static str, String> {
    let known = || names.iter().map(|name| name.0).collect::<Vec<_>>().join(", ");
    names.iter().find(|name| name.0 == word).map(|name| name.1).ok_or_else(|| format!("`{word}` is none of {}", known()))
}

impl Properties {
    /// Returns the properties as Rust code.
    pub(crate) fn code(&self) -> String {
        let leading: Vec<String> = self.leading.iter().map(Leading::code).collect();
        let pairs = |pairs: &[(u8, u8)]| pairs.iter().map(|pair| format!("{pair:?}")).collect::<Vec<_>>().join(",");
        let flags: Vec<String> = FLAGS.iter().map(|&(_, field)| format!("{field}:{}", self.flags.contains(&field))).collect();
        format!(
            "Properties{{leading:&[{}],effect:Effect::{},memory:Memory::{},pipe:Pipe::{},fixed_latency:{:#x},commute:&[{}],one_sign:&[{}],{}}}",
            leading.join(","),
            self.effect,
            self.memory,
            self.pipe,
            self.fixed_latency,
            pairs(&self.commute),
            pairs(&self.one_sign),
            flags.join(",")
        )
    }
}

impl Leading {
    fn code(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| format!("RegFile::{file}")).collect();
        format!("Leading{{files:&[{}],written:{}}}", files.join(","), self.written)
    }
}
