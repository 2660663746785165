//! Parses the template line of a form: modifiers, a space, then operands.

use crate::model::{Bits, BracketPart, Core, Field, Form, NumberFormat, Piece, Prefix, RegFile, Slot, Term};
use crate::parse::bits;

/// Parses a template and stores the modifiers and operands in `form`.
pub(crate) fn read(text: &str, fields: &[Field], form: &mut Form) -> Result<(), String> {
    let mut reader = Reader { text, at: 0, fields };
    reader.pieces(&mut form.modifiers)?;
    while reader.eat(" ") {}
    if reader.at < text.len() {
        loop {
            form.operands.push(reader.operand()?);
            if !reader.eat(", ") {
                break;
            }
            while reader.eat(" ") {}
        }
    }
    if reader.at == text.len() { Ok(()) } else { Err(format!("cannot read the template from `{}`", &text[reader.at..])) }
}

/// Recursive-descent parser over one template.
struct Reader<'t> {
    text: &'t str,
    /// Byte offset of the next character.
    at: usize,
    fields: &'t [Field],
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips `word` if the rest of the text starts with it; returns whether it does.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.eat(word) { Ok(()) } else { Err(format!("`{word}` expected at `{}`", self.rest())) }
    }

    /// Reads up to `end`, and skips `end`.
    fn until(&mut self, end: char) -> Result<&'t str, String> {
        let length = self.rest().find(end).ok_or_else(|| format!("`{end}` missing after `{}`", self.rest()))?;
        let found = &self.rest()[..length];
        self.at += length + end.len_utf8();
        Ok(found)
    }

    fn word(&mut self) -> &'t str {
        let length = self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest().len());
        let found = &self.rest()[..length];
        self.at += length;
        found
    }

    /// Reads a field name and the closing brace; returns the index of the field.
    fn field(&mut self) -> Result<usize, String> {
        let name = self.until('}')?;
        self.fields.iter().position(|field| field.name == name).ok_or_else(|| format!("unknown field {name}"))
    }

    /// Reads an optional condition `(72)` or `(!72)`: the bit and the value it must have.
    fn condition(&mut self) -> Result<Option<(u8, bool)>, String> {
        if !self.eat("(") {
            return Ok(None);
        }
        let inside = self.until(')')?;
        let (digits, when) = inside.strip_prefix('!').map_or((inside, true), |digits| (digits, false));
        let bit = digits.parse().ok().filter(|&bit: &u8| bit < 128).ok_or_else(|| format!("bad bit {inside}"))?;
        Ok(Some((bit, when)))
    }

    /// Reads modifiers as long as there are any.
    fn pieces(&mut self, pieces: &mut Vec<Piece>) -> Result<(), String> {
        loop {
            if self.eat("{") {
                pieces.push(Piece::Field(self.field()?));
            } else if self.eat("<") {
                pieces.push(Piece::Alias(self.until('>')?.to_string()));
            } else if self.eat(".") {
                let text = format!(".{}", self.word());
                pieces.push(match self.condition()? {
                    Some((bit, true)) if text == ".reuse" => Piece::Reuse(bit),
                    Some((bit, when)) => Piece::Flag { text, bit, when },
                    None => Piece::Literal(text),
                });
            } else {
                return Ok(());
            }
        }
    }

    /// Reads an operand: `[%]` hidden, sign operators, kind, suffixes, and `?` with an optional default.
    fn operand(&mut self) -> Result<Slot, String> {
        let hidden = self.eat("%");
        let mut prefixes = Vec::new();
        while let Some(symbol) = self.rest().chars().next().filter(|c| "-~!|".contains(*c)) {
            self.at += 1;
            prefixes.push(Prefix { symbol, condition: self.condition()? });
        }
        let core = self.core()?;
        let mut suffixes = Vec::new();
        self.pieces(&mut suffixes)?;
        let mut inside_bars = 0;
        if prefixes.iter().any(|prefix| prefix.symbol == '|') {
            inside_bars = suffixes.len();
            self.expect("|")?;
            self.pieces(&mut suffixes)?;
        }
        let optional = if self.eat("?") {
            let digits = self.word();
            Some(match (&core, digits) {
                // A register without an explicit default is optional at the constant register, which is all ones.
                (Core::Register(_, bits) | Core::Number(_, bits), "") => all_ones(bits),
                (Core::Field(_), "") => 0,
                (_, "") => return Err("only registers are optional without a value".into()),
                _ => digits.parse().map_err(|_| format!("bad default {digits}"))?,
            })
        // A name operand is left out at the last value with an empty spelling.
        } else if let Core::Field(field) = core {
            self.fields[field].spellings.iter().rposition(|spelling| spelling.as_ref().is_some_and(Vec::is_empty)).map(|value| value as u64)
        } else {
            None
        };
        if hidden && optional.is_none() {
            return Err("a hidden operand needs a default, as in %UR(32:6)?4".into());
        }
        Ok(Slot { prefixes, core, suffixes, inside_bars, optional, hidden })
    }

    /// Reads the operand without its sign operators and suffixes.
    fn core(&mut self) -> Result<Core, String> {
        if self.eat("{") {
            return Ok(Core::Field(self.field()?));
        }
        let word = self.word();
        if self.rest().starts_with('[') {
            return Ok(Core::Address(word.to_string(), self.parts()?));
        }
        if !self.rest().starts_with('(') {
            return if word.is_empty() {
                Err(format!("operand expected at `{}`", self.rest()))
            } else {
                Ok(Core::Literal(word.to_string()))
            };
        }
        match file(word) {
            Some(file) => {
                let bits = self.register_bits(file)?;
                if [" u(", " s(", " pc(", " abs("].iter().any(|number| self.rest().starts_with(number)) {
                    self.at += 1;
                    let (format, number) = self.number()?;
                    return Ok(Core::RegisterAndNumber(file, bits, format, number));
                }
                Ok(Core::Register(file, bits))
            }
            None => {
                self.at -= word.len();
                let (format, bits) = self.number()?;
                Ok(Core::Number(format, bits))
            }
        }
    }

    /// Reads a number such as `u(72:8)` or `s(40:14)*4`: its format and bits.
    fn number(&mut self) -> Result<(NumberFormat, Bits), String> {
        let word = self.word();
        let format = match word {
            "u" => NumberFormat::Unsigned,
            "s" => NumberFormat::Signed,
            "f32" => NumberFormat::F32,
            "f64" => NumberFormat::F64High,
            "f16" => NumberFormat::F16,
            "bf16" => NumberFormat::Bf16,
            "pc" => NumberFormat::Relative,
            "set" => NumberFormat::Set,
            "i" => NumberFormat::SignedAlone,
            "abs" => NumberFormat::Absolute,
            _ => return Err(format!("unknown operand kind `{word}`")),
        };
        self.expect("(")?;
        let mut found = bits(self.until(')')?)?;
        if self.eat("*") {
            found.scale = self.word().parse().map_err(|_| format!("bad scale before `{}`", self.rest()))?;
        }
        Ok((format, found))
    }

    /// Reads the bits of a register number. The width may be omitted for `R` (8 bits), `P` and `UP` (3 bits).
    fn register_bits(&mut self, file: RegFile) -> Result<Bits, String> {
        self.expect("(")?;
        let inside = self.until(')')?;
        let mut found = bits(inside)?;
        if !inside.contains(':') {
            let width = match file {
                RegFile::General => 8,
                RegFile::Predicate | RegFile::UniformPredicate => 3,
                _ => return Err(format!("width missing in ({inside})")),
            };
            found.runs[0].1 = width;
            if found.runs[0].0 > 128 - width {
                return Err(format!("bits {inside} do not fit into an instruction"));
            }
        }
        Ok(found)
    }

    /// Reads the pairs of brackets of an address.
    fn parts(&mut self) -> Result<Vec<BracketPart>, String> {
        let mut parts = Vec::new();
        while self.eat("[") {
            let mut terms = Vec::new();
            while !self.eat("]") {
                if !terms.is_empty() {
                    self.expect("+")?;
                }
                terms.push(self.term()?);
            }
            let mut suffixes = Vec::new();
            if self.rest().starts_with(['.', '{']) {
                self.pieces(&mut suffixes)?;
            }
            parts.push(BracketPart { terms, suffixes });
        }
        Ok(parts)
    }

    /// Reads one term of an address: a register or a number.
    fn term(&mut self) -> Result<Term, String> {
        let start = self.at;
        let word = self.word();
        match file(word) {
            Some(file) => {
                let bits = self.register_bits(file)?;
                let mut suffixes = Vec::new();
                self.pieces(&mut suffixes)?;
                let omit = self.eat("?");
                Ok(Term::Register { file, bits, suffixes, omit })
            }
            None => {
                self.at = start;
                let (format, bits) = self.number()?;
                Ok(Term::Number(format, bits))
            }
        }
    }
}

/// Returns the stored value of the constant register.
fn all_ones(bits: &Bits) -> u64 {
    let ones = u64::MAX >> (64 - bits.width());
    if bits.complemented { 0 } else { ones }
}

fn file(word: &str) -> Option<RegFile> {
    Some(match word {
        "R" => RegFile::General,
        "UR" => RegFile::Uniform,
        "P" => RegFile::Predicate,
        "UP" => RegFile::UniformPredicate,
        "B" => RegFile::Convergence,
        "SB" => RegFile::Scoreboard,
        _ => return None,
    })
}
