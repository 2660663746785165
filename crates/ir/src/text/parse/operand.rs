//! Parser of operands.

use oriole_isa::Symbol;

use super::FunctionParser;
use super::cursor::{Cursor, Read};
use crate::ids::Value;
use crate::operand::{MAX_SUFFIXES, Operand, OperandKind, Part, Reference, Role, Signs};
use crate::template::{read_number, read_suffixes};
use crate::text::{REFERENCES, member};

impl FunctionParser {
    /// Parses operands separated by commas.
    pub(super) fn operand_list(&mut self, cursor: &mut Cursor<'_>, into: &mut Vec<Operand>, are_results: bool) -> Read<()> {
        loop {
            cursor.spaces();
            self.operand(cursor, into, are_results)?;
            cursor.spaces();
            if !cursor.eat(",") {
                return Ok(());
            }
        }
    }

    /// Parses one operand with its signs and role; appends several operands for an address.
    fn operand(&mut self, cursor: &mut Cursor<'_>, into: &mut Vec<Operand>, is_result: bool) -> Read<()> {
        let mut role = Role::Plain;
        if cursor.eat("(else") {
            let number = if cursor.rest().starts_with(' ') { 0 } else { cursor.number()? };
            role = Role::Tied(number);
            cursor.spaces();
        }
        let signs = signs(cursor);
        let opening = into.len();
        if !self.address(cursor, signs, into)? {
            into.push(self.plain_operand(cursor, signs, is_result)?);
        }
        if cursor.eat("@") {
            cursor.take_while(|letter| letter.is_ascii_uppercase());
            role = Role::Fixed(cursor.number()?);
        }
        if matches!(role, Role::Tied(_)) {
            cursor.expect(')')?;
        }
        into[opening].role = role;
        Ok(())
    }

    /// Parses an operand after its signs: content, closing bar of an absolute value, suffixes.
    fn plain_operand(&mut self, cursor: &mut Cursor<'_>, signs: Signs, is_result: bool) -> Read<Operand> {
        let has_parentheses = cursor.eat("(");
        let is_declared = is_result && cursor.rest().starts_with('%');
        let kind = if is_declared { whole(self.declared_value(cursor)?) } else { self.kind(cursor)? };
        if has_parentheses {
            cursor.expect(')')?;
        }
        if signs.has(Signs::ABSOLUTE) {
            cursor.expect('|')?;
        }
        Ok(Operand { kind, role: Role::Plain, signs, suffixes: self.suffixes(cursor)? })
    }

    /// Parses an address, such as `desc[%1][%2.64+0x10]`; a constant-bank operand with a constant offset becomes one operand. Returns
    /// whether there was an address.
    fn address(&mut self, cursor: &mut Cursor<'_>, signs: Signs, into: &mut Vec<Operand>) -> Read<bool> {
        let word = Cursor::new(cursor.rest()).take_while(|letter| letter.is_ascii_lowercase());
        if !cursor.rest()[word.len()..].starts_with('[') {
            return Ok(false);
        }
        cursor.skip(word.len());
        let Some(name) = Symbol::find(word) else { return Err(format!("nothing in brackets is called `{word}`")) };
        let opening = into.len();
        into.push(Operand { signs, ..Operand::new(OperandKind::Address(name)) });
        let mut bracket = 0;
        while cursor.eat("[") {
            while !cursor.eat("]") {
                let signs = self::signs(cursor);
                let piece = self.plain_operand(cursor, signs, false)?;
                into.push(piece.with_role(Role::Bracket(bracket)));
                if !cursor.eat("+") && !cursor.rest().starts_with(']') {
                    return Err(format!("a bracket is open in front of `{}`", cursor.rest()));
                }
            }
            bracket += 1;
        }
        if signs.has(Signs::ABSOLUTE) {
            cursor.expect('|')?;
        }
        into[opening].suffixes = self.suffixes(cursor)?;
        if let [bank, offset] = &into[opening + 1..]
            && let (Some(bank), Some(offset)) = (bank.integer(), offset.integer())
            && let (Ok(bank), Ok(offset), "c") = (u8::try_from(bank), u32::try_from(offset), word)
        {
            into[opening].kind = OperandKind::Constant { bank, offset };
            into.truncate(opening + 1);
        }
        Ok(true)
    }

    /// Parses an operand without signs and suffixes.
    pub(super) fn kind(&mut self, cursor: &mut Cursor<'_>) -> Read<OperandKind> {
        if cursor.eat("%") {
            return self.part(cursor);
        }
        if cursor.eat("{") {
            let members = cursor.until('}');
            cursor.expect('}')?;
            return read_set(members);
        }
        if let Some(register) = cursor.register() {
            return Ok(register);
        }
        let start = cursor.rest();
        let is_negative = cursor.eat("-");
        let token = cursor.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let text = &start[..token.len() + usize::from(is_negative)];
        if let Some(kind) = member(&REFERENCES, text)
            && cursor.eat("(")
        {
            return self.reference(cursor, kind);
        }
        if let Some(number) = read_number(text) {
            return Ok(OperandKind::Integer(number));
        }
        if text == "undef" {
            return Ok(OperandKind::Undefined);
        }
        if text.starts_with("bb") {
            return self.block_called(text).map(OperandKind::Block);
        }
        named(cursor, start, text)
    }

    /// Parses the modifiers after an operand.
    fn suffixes(&self, cursor: &mut Cursor<'_>) -> Read<[Symbol; MAX_SUFFIXES]> {
        if !cursor.rest().starts_with('.') {
            return Ok([Symbol::NAME_; MAX_SUFFIXES]);
        }
        let text = cursor.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.');
        read_suffixes(text).map_err(|error| error.message)
    }

    /// Parses the rest of a value after `%`: `7`, `7[1]`, `7[0:1]`.
    fn part(&mut self, cursor: &mut Cursor<'_>) -> Read<OperandKind> {
        let number = cursor.number()?;
        let value = self.value_numbered(number)?;
        if !cursor.eat("[") {
            return Ok(whole(value));
        }
        let first: u8 = cursor.number()?;
        let last: u8 = if cursor.eat(":") { cursor.number()? } else { first };
        cursor.expect(']')?;
        let count = last.checked_sub(first).and_then(|count| count.checked_add(1));
        let Some(count) = count else { return Err(format!("{value:?} has no registers {first} to {last}")) };
        Ok(OperandKind::Value(Part { value, first, count }))
    }

    /// Parses the rest of a reference after the parenthesis: `name+4)`.
    fn reference(&mut self, cursor: &mut Cursor<'_>, kind: crate::operand::ReferenceKind) -> Read<OperandKind> {
        let name = cursor.take_while(|letter| !matches!(letter, '+' | '-' | ')'));
        let symbol = self.function.symbol(name);
        let text = cursor.until(')');
        cursor.expect(')')?;
        let offset = if text.is_empty() { Some(0) } else { text.parse().ok() };
        let Some(offset) = offset else { return Err(format!("`{text}` is no offset")) };
        Ok(OperandKind::Reference(Reference { symbol, offset, kind }))
    }
}

/// Returns a whole value whose class may not be known yet; 0 registers stand for all.
fn whole(value: Value) -> OperandKind {
    OperandKind::Value(Part { value, first: 0, count: 0 })
}

/// Parses the signs before an operand. A `-` before a digit belongs to the number.
fn signs(cursor: &mut Cursor<'_>) -> Signs {
    let mut signs = Signs::NONE;
    for (letter, sign) in [("!", Signs::NOT), ("~", Signs::INVERT), ("-", Signs::NEGATE), ("|", Signs::ABSOLUTE)] {
        let is_number = letter == "-" && cursor.rest()[cursor.rest().len().min(1)..].starts_with(|next: char| next.is_ascii_digit());
        if !is_number && cursor.eat(letter) {
            signs = signs.with(sign);
        }
    }
    signs
}

/// Parses the members of a set.
fn read_set(members: &str) -> Read<OperandKind> {
    let mut bits = 0u64;
    for member in members.split(',').map(str::trim).filter(|member| !member.is_empty()) {
        let number = member.parse::<u32>().ok().filter(|&number| number < 64);
        bits |= 1 << number.ok_or_else(|| format!("`{member}` is no member of a set"))?;
    }
    Ok(OperandKind::Set(bits))
}

/// Parses a name. A dot and the word after it belong to the name if the longer name exists.
fn named(cursor: &mut Cursor<'_>, start: &str, text: &str) -> Read<OperandKind> {
    let mut ahead = Cursor::new(cursor.rest());
    if ahead.eat(".") {
        let more = ahead.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if let Some(symbol) = Symbol::find(&start[..text.len() + 1 + more.len()]) {
            cursor.skip(1 + more.len());
            return Ok(OperandKind::Name(symbol));
        }
    }
    match Symbol::find(text) {
        Some(symbol) if !text.is_empty() => Ok(OperandKind::Name(symbol)),
        _ => Err(format!("`{}` is no operand", start.split([',', ' ']).next().unwrap_or(start))),
    }
}
