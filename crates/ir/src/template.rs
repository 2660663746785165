//! Templates: instructions as text with holes, in the syntax of nvdisasm.
//!
//! ```text
//! IADD3.X $, $, {}, -{}, RZ, {}, !PT
//! LDG.E.64 $, desc[{}][{}.64+{}]
//! ```
//!
//! `$` creates a new result, `{}` takes the next argument: a value, an immediate or a constant. Signs, suffixes, brackets and names are as
//! in nvdisasm's output. A template is parsed once and instantiated many times. The parser of the IR's text form shares the code that
//! reads modifiers and numbers.

use std::fmt;

use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use smallvec::SmallVec;

use crate::operand::{MAX_SUFFIXES, Operand, OperandKind, Role, Signs};

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    pub(crate) opcode: Opcode,
    pub(crate) modifiers: Symbols,
    pub(crate) operands: SmallVec<[TemplateSlot; 8]>,
}

/// An operand of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TemplateSlot {
    /// A fixed operand.
    Given(Operand),
    /// A new result with the role, signs and suffixes of this operand.
    Result(Operand),
    /// The next argument, with the role, signs and suffixes of this operand.
    Argument(Operand),
    /// A word of the given constant bank; the next argument is its byte offset.
    ConstantOffset(u8, Operand),
}

/// The reason why a text is not a valid template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateError {
    /// The problem, for the developer.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

fn error<T>(message: String) -> Result<T, TemplateError> {
    Err(TemplateError { message })
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let (head, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mnemonic = head.split('.').next().unwrap_or_default();
        let Some(opcode) = Opcode::find(mnemonic) else { return error(format!("no instruction is called {mnemonic}")) };
        let modifiers = read_modifiers(&head[mnemonic.len()..])?;
        let mut operands = SmallVec::new();
        for operand in split_operands(rest) {
            read_operand(operand, &mut operands)?;
        }
        Ok(Template { opcode, modifiers, operands })
    }
}

/// Parses modifiers such as `.FTZ.RZ`. Each extends from a dot to the next dot.
pub(crate) fn read_modifiers(mut text: &str) -> Result<Symbols, TemplateError> {
    let mut symbols = Symbols::new();
    while !text.is_empty() {
        let end = text[1..].find('.').map_or(text.len(), |at| at + 1);
        let Some(symbol) = Symbol::find(&text[..end]) else { return error(format!("no modifier is spelled {}", &text[..end])) };
        symbols.push(symbol);
        text = &text[end..];
    }
    Ok(symbols)
}

/// Splits a list of operands at commas.
fn split_operands(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|operand| !operand.is_empty())
}

/// Parses one operand and appends it; an address becomes several operands.
fn read_operand(text: &str, into: &mut SmallVec<[TemplateSlot; 8]>) -> Result<(), TemplateError> {
    let mut signs = Signs::NONE;
    let mut text = text;
    for (letter, sign) in [('!', Signs::NOT), ('~', Signs::INVERT), ('-', Signs::NEGATE)] {
        let is_number = letter == '-' && text[1..].starts_with(|c: char| c.is_ascii_digit());
        if text.starts_with(letter) && !is_number {
            signs = signs.with(sign);
            text = &text[1..];
        }
    }
    let mut trailing = "";
    if let Some(inner) = text.strip_prefix('|') {
        let Some(end) = inner.rfind('|') else { return error(format!("a bar is missing in {text}")) };
        signs = signs.with(Signs::ABSOLUTE);
        trailing = &inner[end + 1..];
        text = &inner[..end];
    }
    if text.contains('[') {
        return read_address(text, signs, into);
    }
    let mut slot = read_piece(text, Role::Plain)?;
    let operand = slot.operand_mut();
    operand.signs = signs;
    if !trailing.is_empty() {
        operand.suffixes = read_suffixes(trailing)?;
    }
    into.push(slot);
    Ok(())
}

impl TemplateSlot {
    fn operand_mut(&mut self) -> &mut Operand {
        match self {
            TemplateSlot::Given(operand)
            | TemplateSlot::Result(operand)
            | TemplateSlot::Argument(operand)
            | TemplateSlot::ConstantOffset(_, operand) => operand,
        }
    }
}

/// Parses the modifiers after an operand, at most [`MAX_SUFFIXES`].
pub(crate) fn read_suffixes(text: &str) -> Result<[Symbol; MAX_SUFFIXES], TemplateError> {
    let modifiers = read_modifiers(text)?;
    if modifiers.len() > MAX_SUFFIXES {
        return error(format!("more than {MAX_SUFFIXES} modifiers after an operand: {text}"));
    }
    Ok(std::array::from_fn(|at| modifiers.get(at).copied().unwrap_or(Symbol::NAME_)))
}

/// Parses a register, number, name or hole, with the modifiers after it.
fn read_piece(text: &str, role: Role) -> Result<TemplateSlot, TemplateError> {
    let plain = |kind, suffix: &str| -> Result<Operand, TemplateError> {
        Ok(Operand { kind, role, signs: Signs::NONE, suffixes: read_suffixes(suffix)? })
    };
    if let Some(rest) = text.strip_prefix("{}") {
        return Ok(TemplateSlot::Argument(plain(OperandKind::Undefined, rest)?));
    }
    if let Some(rest) = text.strip_prefix('$') {
        return Ok(TemplateSlot::Result(plain(OperandKind::Undefined, rest)?));
    }
    for (name, file) in
        [("RZ", RegFile::General), ("URZ", RegFile::Uniform), ("PT", RegFile::Predicate), ("UPT", RegFile::UniformPredicate)]
    {
        if let Some(rest) = text.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('.')) {
            return Ok(TemplateSlot::Given(plain(OperandKind::Zero(file), rest)?));
        }
    }
    if let Some(number) = read_number(text) {
        return Ok(TemplateSlot::Given(plain(OperandKind::Integer(number), "")?));
    }
    match Symbol::find(text) {
        Some(symbol) => Ok(TemplateSlot::Given(plain(OperandKind::Name(symbol), "")?)),
        None => error(format!("{text} is no operand")),
    }
}

/// Parses a decimal or hexadecimal integer; `None` if it is none.
pub(crate) fn read_number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let magnitude = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()? as i64,
        None => digits.parse().ok()?,
    };
    Some(if negative { magnitude.wrapping_neg() } else { magnitude })
}

/// Parses `word[a+b][c]`, with modifiers after the last bracket. A constant-bank operand with a constant offset becomes one operand.
fn read_address(text: &str, signs: Signs, into: &mut SmallVec<[TemplateSlot; 8]>) -> Result<(), TemplateError> {
    let open = text.find('[').unwrap_or_default();
    let (word, mut rest) = text.split_at(open);
    let Some(word) = Symbol::find(word) else { return error(format!("nothing in brackets is called {word}")) };
    let mut brackets: SmallVec<[&str; 2]> = SmallVec::new();
    while let Some(inner) = rest.strip_prefix('[') {
        let Some(end) = inner.find(']') else { return error(format!("a bracket is missing in {text}")) };
        brackets.push(&inner[..end]);
        rest = &inner[end + 1..];
    }
    let suffix = read_suffixes(rest)?;
    if let ("c", [bank, offset]) = (word.spelling(), brackets.as_slice())
        && let Some(bank) = read_number(bank).and_then(|bank| u8::try_from(bank).ok())
    {
        let mut operand = Operand { signs, suffixes: suffix, ..Operand::constant(bank, 0) };
        if *offset == "{}" {
            into.push(TemplateSlot::ConstantOffset(bank, operand));
            return Ok(());
        }
        if let Some(offset) = read_number(offset).and_then(|offset| u32::try_from(offset).ok()) {
            operand.kind = OperandKind::Constant { bank, offset };
            into.push(TemplateSlot::Given(operand));
            return Ok(());
        }
    }
    into.push(TemplateSlot::Given(Operand { kind: OperandKind::Address(word), role: Role::Plain, signs, suffixes: suffix }));
    for (number, bracket) in brackets.iter().enumerate() {
        for piece in bracket.split('+').filter(|piece| !piece.is_empty()) {
            into.push(read_piece(piece.trim(), Role::Bracket(number as u8))?);
        }
    }
    Ok(())
}
