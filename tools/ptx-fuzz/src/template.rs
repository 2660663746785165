//! Expands instruction templates into operations ([`Op`]).
//!
//! ```text
//! add.{u32/s32} $=r, $r, $ri
//! .reg .b32 %ta; or.b32 %ta, $ri, 1; div.u32 $=r, $r, %ta
//! ```
//!
//! `{a/b}` is a choice between alternatives, which may be empty or nested. `;` separates instructions and declarations of registers that
//! only the template uses. `<` and `>` stand for the braces of a vector. Placeholders, with the letter of a [`OperandClass`]:
//!
//! | | |
//! |---|---|
//! | `$=r` | a register that is written; those of one instruction are distinct |
//! | `$r`, `$ri` | a register that is read; a register that is read or a constant |
//! | `$r:n` | like `$r`, and the same register wherever `:n` occurs |
//! | `$pn` | a predicate, possibly negated |
//! | `$s` | a shift amount: a 32-bit register or a small constant |
//! | `$M` | the mask of the threads that execute this together |
//! | `#0..9` | a number from 0 to 9 |

use std::collections::HashMap;

use crate::program::{Line, Op, OperandClass, Token};
use crate::rng::Rng;

/// The registers that a template may use.
pub struct Names<'a> {
    /// Number of registers of each class, in the order of [`crate::program::CLASSES`].
    pub pool: &'a [usize; 12],
    /// Further 32-bit registers that may be read.
    pub readable: &'a [String],
    /// The mask of the threads that execute this together.
    pub mask: &'a str,
}

impl Names<'_> {
    /// Picks a register to read.
    pub fn read(&self, rng: &mut Rng, class: OperandClass) -> String {
        if class == OperandClass::B32 && rng.chance(15) {
            if !self.readable.is_empty() && rng.chance(60) {
                return rng.pick(self.readable).clone();
            }
            if self.pool[OperandClass::Uniform as usize] > 0 {
                return self.read(rng, OperandClass::Uniform);
            }
        }
        class.register(rng.below(self.pool[class as usize]))
    }

    /// Picks a register to write that `taken` does not write yet.
    fn write(&self, rng: &mut Rng, class: OperandClass, taken: &[Token]) -> String {
        let is_taken = |name: &str| taken.iter().any(|token| matches!(token, Token::Def { name: other, .. } if other == name));
        for _ in 0..10_000 {
            let name = class.register(rng.below(self.pool[class as usize]));
            if !is_taken(&name) {
                return name;
            }
        }
        panic!("too few registers of class {class:?}")
    }
}

/// Picks one alternative of each choice, innermost choices first.
pub fn choose(rng: &mut Rng, template: &str) -> String {
    let mut text = template.to_owned();
    while let Some(open) = text.rfind('{') {
        let close = open + text[open..].find('}').expect("choice without end in a template");
        let options: Vec<&str> = text[open + 1..close].split('/').collect();
        let chosen = (*rng.pick(&options)).to_owned();
        text.replace_range(open..=close, &chosen);
    }
    text
}

/// Expands a template into instructions.
pub fn expand(rng: &mut Rng, names: &Names<'_>, template: &str) -> Op {
    let text = choose(rng, template);
    let mut op = Op::default();
    let mut bound = HashMap::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with(".reg") || part.starts_with(".param") || part.contains(": .call") {
            op.declarations.push(format!("{part};"));
        } else {
            // A vector of operands cannot have both a number and a component of a vector register.
            let whole: Vec<String> = names.readable.iter().filter(|name| !part.contains('<') || !name.contains('.')).cloned().collect();
            op.lines.push(expand_line(rng, &Names { readable: &whole, ..*names }, part, &mut bound));
        }
    }
    op
}

/// Expands one instruction; `bound` maps binding letters to registers.
fn expand_line(rng: &mut Rng, names: &Names<'_>, text: &str, bound: &mut HashMap<char, String>) -> Line {
    let mut line = Line::new();
    let mut rest = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = rest.next() {
        match c {
            '<' => plain.push('{'),
            '>' => plain.push('}'),
            '#' => {
                let range: String = std::iter::from_fn(|| rest.next_if(|c| c.is_ascii_digit() || matches!(c, '.' | '-'))).collect();
                let (low, high) = range.split_once("..").expect("a range in a template");
                plain += &rng.range(low.parse().expect("a number"), high.parse().expect("a number")).to_string();
            }
            '$' => {
                if !plain.is_empty() {
                    line.push(Token::Text(std::mem::take(&mut plain)));
                }
                let written = rest.next_if_eq(&'=').is_some();
                let letter = rest.next().expect("a letter after $");
                let token = match letter {
                    'M' => Token::Text(names.mask.to_owned()),
                    's' if rng.chance(50) => Token::Text(shift_amount(rng)),
                    's' => Token::Use { class: OperandClass::B32, name: names.read(rng, OperandClass::B32), constant: true },
                    _ => {
                        let class = OperandClass::from_letter(letter).unwrap_or_else(|| panic!("class {letter} in `{text}`"));
                        let suffix = rest.next_if(|c| matches!(c, 'i' | 'n'));
                        let binding = rest.next_if_eq(&':').and_then(|_| rest.next());
                        placeholder(rng, names, class, written, suffix, binding, bound, &line)
                    }
                };
                line.push(token);
            }
            c => plain.push(c),
        }
    }
    if !plain.is_empty() {
        line.push(Token::Text(plain));
    }
    line
}

/// Expands one placeholder.
#[allow(clippy::too_many_arguments)]
fn placeholder(
    rng: &mut Rng,
    names: &Names<'_>,
    class: OperandClass,
    written: bool,
    suffix: Option<char>,
    binding: Option<char>,
    bound: &mut HashMap<char, String>,
    line: &Line,
) -> Token {
    if written {
        let name = names.write(rng, class, line);
        if let Some(binding) = binding {
            bound.insert(binding, name.clone());
        }
        return Token::Def { class, name };
    }
    if suffix == Some('i') && rng.chance(30) {
        return Token::Text(constant(rng, class));
    }
    let name = match binding {
        Some(binding) => bound.entry(binding).or_insert_with(|| names.read(rng, class)).clone(),
        None => names.read(rng, class),
    };
    if suffix == Some('n') && rng.chance(40) {
        return Token::Text(format!("!{name}"));
    }
    Token::Use { class, name, constant: suffix == Some('i') }
}

fn shift_amount(rng: &mut Rng) -> String {
    match rng.below(8) {
        0 => (*rng.pick(&["0", "31", "32", "33", "63", "64", "65", "255", "0xffffffff"])).to_owned(),
        _ => rng.below(34).to_string(),
    }
}

/// Returns a constant of a class, as text.
pub fn constant(rng: &mut Rng, class: OperandClass) -> String {
    let bits = interesting(rng, class.bytes() as u32 * 8, class.is_float());
    match class {
        OperandClass::B16 => format!("{}", bits as u16 as i16),
        OperandClass::B32 | OperandClass::Uniform => format!("{:#x}", bits as u32),
        OperandClass::B64 => format!("{bits:#x}"),
        OperandClass::F32 => format!("0f{:08X}", bits as u32),
        OperandClass::F64 => format!("0d{bits:016X}"),
        _ => panic!("no constants of class {class:?}"),
    }
}

/// Returns bits that find more bugs than uniformly random ones: limits, powers of two, special floats.
pub fn interesting(rng: &mut Rng, width: u32, float: bool) -> u64 {
    let mask = u64::MAX >> (64 - width);
    let random = rng.next();
    let value = if float { interesting_float(rng, width, random) } else { interesting_integer(rng, width, random) };
    value & mask
}

/// Returns the bits of a float: zero, infinity, subnormal, limits, or a number near one.
fn interesting_float(rng: &mut Rng, width: u32, random: u64) -> u64 {
    let fraction = match width {
        32 => 23,
        64 => 52,
        _ => 10,
    };
    let sign = (random & 1) << (width - 1);
    let ones = (1 << (width - 1 - fraction)) - 1;
    let bias = ones >> 1;
    let field = match rng.below(12) {
        0 => return random,
        1 => 0,
        2 => return sign | ones << fraction,
        3 => return sign | random >> 3 & ((1 << fraction) - 1),
        4 => 1,
        5 => ones - 1,
        6 => return sign | bias << fraction,
        _ => (bias as i64 + rng.range(-4, 9)) as u64,
    };
    let low = if rng.chance(50) { 0 } else { random >> 2 & ((1 << fraction) - 1) };
    sign | field << fraction | low
}

fn interesting_integer(rng: &mut Rng, width: u32, random: u64) -> u64 {
    match rng.below(10) {
        0 => random,
        1 => random >> rng.below(64),
        2 => u64::MAX,
        3 => 1 << (width - 1),
        4 => (1 << (width - 1)) - 1,
        5 => 1 << (random % u64::from(width)),
        6 => (rng.range(-16, -1)) as u64,
        7 => 0,
        _ => rng.below(17) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_and_placeholders() {
        let mut rng = Rng::new(1);
        let names = Names { pool: &[3; 12], readable: &[], mask: "%wm" };
        for _ in 0..200 {
            let op = expand(&mut rng, &names, ".reg .b32 %ta; {add/sub}.u32 %ta, $r:a, #3..5; setp{.lt/}.u32 $=p|$=p, <$r:a>, $M");
            assert_eq!(op.declarations, [".reg .b32 %ta;"]);
            let [first, second] = op.lines.as_slice() else { panic!("{op:?}") };
            let Token::Use { name, .. } = &first[1] else { panic!("{first:?}") };
            let defs: Vec<&String> =
                second.iter().filter_map(|t| if let Token::Def { name, .. } = t { Some(name) } else { None }).collect();
            assert!(defs.len() == 2 && defs[0] != defs[1]);
            assert!(second.iter().any(|token| matches!(token, Token::Use { name: other, .. } if other == name)), "the bound register");
            assert!(matches!(second.last().unwrap(), Token::Text(mask) if mask == "%wm"), "{second:?}");
        }
    }
}
