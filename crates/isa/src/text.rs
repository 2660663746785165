//! Parses the text of an instruction as nvdisasm prints it.
//!
//! The parser splits the text into mnemonic, modifiers and operands and does not look at forms. [`crate::encode`] selects the form. A
//! branch target is a distance (`PC+0x10`), an absolute address, or a label; [`parse_at`] takes the address of the instruction and a
//! function that looks up labels.

use std::fmt;

use smallvec::SmallVec;

use crate::Control;
use crate::instruction::{Address, AddressPart, AddressRegister, BranchNumber, InstGuard, Instruction, Operand, OperandValue, Symbols};
use crate::table::{Core, NumberFormat, Opcode, RegFile, Symbol};

/// An error in the text of an instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct InstParseError {
    /// Byte offset in the text, counted from 0.
    pub column: usize,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for InstParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column + 1, self.message)
    }
}

impl std::error::Error for InstParseError {}

/// Parses an instruction at address 0. A trailing semicolon is allowed.
pub fn parse(text: &str) -> Result<Instruction, InstParseError> {
    parse_at(text, 0, &|_| None)
}

/// Parses an instruction at `address`; `label` returns the address of a label.
pub fn parse_at(text: &str, address: u64, label: &dyn Fn(&str) -> Option<u64>) -> Result<Instruction, InstParseError> {
    InstReader { text, at: 0, address, label, branches: false }.instruction()
}

/// Recursive-descent parser over the text of one instruction.
struct InstReader<'t> {
    text: &'t str,
    /// Byte offset of the next character.
    at: usize,
    address: u64,
    label: &'t dyn Fn(&str) -> Option<u64>,
    /// Whether the mnemonic has a form with a branch target, so that plain numbers may be addresses.
    branches: bool,
}

/// A number in the text.
enum TextNumber {
    Integer(i64),
    Real(f64),
    Nan { negative: bool, quiet: bool },
}

impl<'t> InstReader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, InstParseError> {
        Err(InstParseError { column: self.at, message: message.into() })
    }

    /// Skips `word` if the rest of the text starts with it; returns whether it does.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Reads letters, digits, underscores and the characters in `also`, as long as there are any.
    fn word(&mut self, also: &str) -> &'t str {
        let end = self.rest().find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || also.contains(c))).unwrap_or(self.rest().len());
        let found = &self.rest()[..end];
        self.at += end;
        found
    }

    /// Parses `@guard MNEMONIC.modifiers operand, operand ;`.
    fn instruction(&mut self) -> Result<Instruction, InstParseError> {
        self.spaces();
        let guard = self.guard()?;
        let start = self.at;
        let mnemonic = self.word("");
        let Some(opcode) = Opcode::find(mnemonic) else {
            self.at = start;
            return self.fail(unknown(mnemonic, Opcode::all().map(Opcode::mnemonic), "instruction"));
        };
        self.branches = opcode.forms().any(|form| {
            let is_branch = |core: &Core| {
                matches!(core, Core::Number(NumberFormat::Relative, _) | Core::RegisterAndNumber(_, _, NumberFormat::Relative, _))
            };
            form.form().operands.iter().any(|slot| is_branch(&slot.core))
        });
        let modifiers = self.modifiers()?;
        let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
        self.spaces();
        while !self.rest().is_empty() && !self.rest().starts_with(';') {
            operands.push(self.operand()?);
            self.spaces();
            if !self.eat(",") {
                break;
            }
            self.spaces();
        }
        self.eat(";");
        self.spaces();
        if !self.rest().is_empty() {
            return self.fail(format!("unexpected `{}`", self.rest()));
        }
        Ok(Instruction { opcode, guard, modifiers, operands, control: Control::default(), form: None, residue: 0 })
    }

    fn guard(&mut self) -> Result<InstGuard, InstParseError> {
        if !self.eat("@") {
            return Ok(InstGuard::ALWAYS);
        }
        let negated = self.eat("!");
        let (file, number) = self.register()?.map_or_else(|| self.fail("predicate expected"), Ok)?;
        self.spaces();
        let uniform = match file {
            RegFile::Predicate => false,
            RegFile::UniformPredicate => true,
            _ => return self.fail("a guard is a predicate"),
        };
        Ok(InstGuard { predicate: number.unwrap_or(7) as u8, negated, uniform })
    }

    /// Reads modifiers as long as a dot follows.
    fn modifiers(&mut self) -> Result<Symbols, InstParseError> {
        let mut symbols = Symbols::new();
        while self.rest().starts_with('.') {
            let start = self.at;
            self.at += 1;
            self.word("?");
            let spelling = &self.text[start..self.at];
            match Symbol::find(spelling) {
                Some(symbol) => symbols.push(symbol),
                None => {
                    self.at = start;
                    return self.fail(unknown(spelling, Symbol::all().map(Symbol::spelling), "modifier"));
                }
            }
        }
        Ok(symbols)
    }

    /// Reads the suffixes of an operand. `.reuse` is not stored as a suffix but as a flag of the operand.
    fn suffixes(&mut self, operand: &mut Operand) -> Result<(), InstParseError> {
        let symbols = self.modifiers()?;
        operand.reuse |= symbols.contains(&Symbol::reuse);
        operand.suffixes.extend(symbols.into_iter().filter(|&symbol| symbol != Symbol::reuse));
        Ok(())
    }

    /// Reads a register; returns `None` and reads nothing if the text is not a register.
    fn register(&mut self) -> Result<Option<(RegFile, Option<u16>)>, InstParseError> {
        const FILES: [RegFile; 6] =
            [RegFile::Uniform, RegFile::UniformPredicate, RegFile::Scoreboard, RegFile::General, RegFile::Predicate, RegFile::Convergence];
        for file in FILES {
            let Some(rest) = self.rest().strip_prefix(file.prefix()) else { continue };
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, length) = match rest.chars().next() {
                Some(letter) if Some(letter) == file.constant_letter() => (None, 1),
                _ if digits > 0 => match rest[..digits].parse() {
                    Ok(number) => (Some(number), digits),
                    Err(_) => return self.fail("register number too large"),
                },
                _ => continue,
            };
            if rest[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            self.at += file.prefix().len() + length;
            return Ok(Some((file, number)));
        }
        Ok(None)
    }

    /// Reads a number; returns `None` and reads nothing if the text is not a number.
    fn number(&mut self) -> Result<Option<TextNumber>, InstParseError> {
        let text = self.rest();
        let unsigned = text.trim_start_matches(['-', '+']);
        let negative = text.starts_with('-');
        let sign = text.len() - unsigned.len();
        if sign > 1 {
            return Ok(None);
        }
        for (name, number) in [
            ("INF", TextNumber::Real(if negative { f64::NEG_INFINITY } else { f64::INFINITY })),
            ("QNAN", TextNumber::Nan { negative, quiet: true }),
            ("SNAN", TextNumber::Nan { negative, quiet: false }),
        ] {
            if unsigned.starts_with(name) {
                self.at += sign + name.len();
                return Ok(Some(number));
            }
        }
        if let Some(hex) = unsigned.strip_prefix("0x") {
            let digits = hex.len() - hex.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
            let Ok(magnitude) = u64::from_str_radix(&hex[..digits], 16) else { return self.fail("bad hexadecimal number") };
            self.at += sign + 2 + digits;
            let value = if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 };
            return Ok(Some(TextNumber::Integer(value)));
        }
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut end = digits(unsigned);
        if let Some(fraction) = unsigned[end..].strip_prefix('.').filter(|fraction| digits(fraction) > 0) {
            end += 1 + digits(fraction);
        }
        if end == 0 || !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        if let Some(exponent) = unsigned[end..].strip_prefix(['e', 'E']) {
            let signed = exponent.trim_start_matches(['-', '+']);
            let digits = signed.len() - signed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits > 0 {
                end += 1 + exponent.len() - signed.len() + digits;
            }
        }
        if unsigned[end..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Ok(None);
        }
        match text[..sign + end].parse() {
            Ok(value) => {
                self.at += sign + end;
                Ok(Some(TextNumber::Real(value)))
            }
            Err(_) => self.fail("bad number"),
        }
    }

    /// Parses an operand with its sign operators and suffixes.
    fn operand(&mut self) -> Result<Operand, InstParseError> {
        let mut operand = Operand::from(OperandValue::Integer(0));
        loop {
            if self.rest().starts_with('-') && !self.is_negative_number() {
                self.at += 1;
                operand.negate = true;
            } else if self.eat("~") {
                operand.invert = true;
            } else if self.eat("!") {
                operand.not = true;
            } else if self.eat("|") {
                operand.absolute = true;
            } else {
                break;
            }
        }
        operand.value = self.value()?;
        if self.rest().starts_with(" .") {
            self.spaces();
        }
        self.suffixes(&mut operand)?;
        if operand.absolute {
            if !self.eat("|") {
                return self.fail("`|` missing");
            }
            self.suffixes(&mut operand)?;
        }
        Ok(operand)
    }

    /// Returns whether the `-` at the current position starts a number. It is a sign operator otherwise.
    fn is_negative_number(&self) -> bool {
        let rest = &self.rest()[1..];
        rest.starts_with(|c: char| c.is_ascii_digit()) || ["INF", "QNAN", "SNAN"].iter().any(|name| rest.starts_with(name))
    }

    /// Parses an operand without its sign operators and suffixes.
    fn value(&mut self) -> Result<OperandValue, InstParseError> {
        if self.rest().starts_with('`') {
            return self.label_value().map(OperandValue::Relative);
        }
        if let Some(distance) = self.distance()? {
            return Ok(OperandValue::Relative(distance));
        }
        if self.eat("{") {
            return self.set();
        }
        if self.rest().starts_with('[') {
            return self.address("");
        }
        if let Some((file, number)) = self.register()? {
            return self.after_register(file, number);
        }
        match self.number()? {
            Some(TextNumber::Integer(number)) if self.branches => return Ok(OperandValue::Place(self.place(number))),
            Some(TextNumber::Integer(value)) => return Ok(OperandValue::Integer(value)),
            Some(TextNumber::Real(value)) => return Ok(OperandValue::Real(value)),
            Some(TextNumber::Nan { negative, quiet }) => return Ok(OperandValue::Nan { negative, quiet }),
            None => {}
        }
        let start = self.at;
        let word = self.word("");
        if self.rest().starts_with('[') {
            return self.address(word);
        }
        self.at = start;
        let name = self.word(".");
        match Symbol::find(name) {
            Some(symbol) if !name.is_empty() => Ok(OperandValue::Name(symbol)),
            _ => {
                self.at = start;
                self.fail(if name.is_empty() {
                    "operand expected".to_string()
                } else {
                    unknown(name, Symbol::all().map(Symbol::spelling), "name")
                })
            }
        }
    }

    /// Reads a branch distance such as `PC+0x10`; returns `None` if the text does not start with `PC`.
    fn distance(&mut self) -> Result<Option<i64>, InstParseError> {
        if !(self.rest().starts_with("PC+") || self.rest().starts_with("PC-")) {
            return Ok(None);
        }
        self.at += 2;
        match self.number()? {
            Some(TextNumber::Integer(distance)) => Ok(Some(distance)),
            _ => self.fail("distance expected"),
        }
    }

    /// Returns the distance in bytes from the next instruction to `target`.
    fn distance_to(&self, target: i64) -> i64 {
        target.wrapping_sub(self.address as i64).wrapping_sub(16)
    }

    fn place(&self, number: i64) -> BranchNumber {
        BranchNumber { number, distance: self.distance_to(number) }
    }

    /// Reads a label such as `` `(.L_x_0) `` and returns its distance in bytes from the next instruction.
    fn label_value(&mut self) -> Result<i64, InstParseError> {
        self.at += 1;
        if !self.eat("(") {
            return self.fail("`(` expected");
        }
        let Some(end) = self.rest().find(')') else { return self.fail("`)` missing") };
        let name = &self.rest()[..end];
        let Some(target) = (self.label)(name) else { return self.fail(format!("unknown label {name}")) };
        self.at += end + 1;
        Ok(self.distance_to(target as i64))
    }

    /// Reads the label, distance or number that may follow a register, as in `BRX R2 0x10`.
    fn after_register(&mut self, file: RegFile, number: Option<u16>) -> Result<OperandValue, InstParseError> {
        let start = self.at;
        if self.eat(" ") {
            if self.rest().starts_with('`') {
                let distance = self.label_value()?;
                return Ok(OperandValue::RegisterAndNumber(file, number, BranchNumber { number: distance, distance }));
            }
            if let Some(distance) = self.distance()? {
                return Ok(OperandValue::RegisterAndNumber(file, number, BranchNumber { number: distance, distance }));
            }
            if let Some(TextNumber::Integer(value)) = self.number()? {
                return Ok(OperandValue::RegisterAndNumber(file, number, self.place(value)));
            }
            self.at = start;
        }
        Ok(OperandValue::Register(file, number))
    }

    /// Reads a set such as `{5,4,3}`; the opening brace has been read.
    fn set(&mut self) -> Result<OperandValue, InstParseError> {
        let Some(end) = self.rest().find('}') else { return self.fail("`}` missing") };
        let mut members = 0;
        for member in self.rest()[..end].split(',').filter(|member| !member.trim().is_empty()) {
            match member.trim().parse::<u32>() {
                Ok(bit) if bit < 64 => members |= 1 << bit,
                _ => return self.fail(format!("bad member {member} of a set")),
            }
        }
        self.at += end + 1;
        Ok(OperandValue::Set(members))
    }

    /// Reads the brackets of an address; `word` is the word before them, possibly empty.
    fn address(&mut self, word: &str) -> Result<OperandValue, InstParseError> {
        let Some(symbol) = Symbol::find(word) else { return self.fail(format!("unknown kind of address {word}")) };
        let mut parts = SmallVec::new();
        while self.eat("[") {
            let mut part = AddressPart::default();
            while !self.eat("]") {
                self.spaces();
                let is_first = part.registers.is_empty() && part.offset.is_none();
                if !is_first && !self.eat("+") {
                    return self.fail("`+` or `]` expected");
                }
                if let Some((file, number)) = self.register()? {
                    part.registers.push(AddressRegister { file, number, suffixes: self.modifiers()? });
                } else if let Some(TextNumber::Integer(value)) = self.number()? {
                    part.offset = Some(value);
                } else {
                    return self.fail("register or number expected");
                }
            }
            if !self.rest().is_empty() {
                part.suffixes = self.modifiers()?;
            }
            parts.push(part);
        }
        Ok(OperandValue::Address(Box::new(Address { word: symbol, parts })))
    }
}

/// Builds the message for an unknown word, with the closest known one as a suggestion.
fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n str>, kind: &str) -> String {
    match oriole_support::closest(name, known) {
        Some(near) => format!("unknown {kind} {name}; did you mean {near}?"),
        None => format!("unknown {kind} {name}"),
    }
}
