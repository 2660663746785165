//! Parses operands, before they are matched with a form.
//!
//! An operand is represented by [`OperandFacts`]: its kind and what is known about it, with names resolved. The elements of lists (vectors,
//! brackets, pairs) are in [`OperandScratch`], which is reused for every instruction. Operands are appended to the body
//! ([`Parser::commit`]) after a form has been selected.

use oriole_support::Name;
use smallvec::SmallVec;

use super::constant::ConstantValue;
use super::symbols::{RegisterSymbol, Symbol};
use super::{Parse, Parser};
use crate::ast::{Address, AddressBase, Constant, FunctionId, Operand, RegisterId, VariableId};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::table::{Component, SpecialRegister};
use crate::types::ScalarType;

/// A parsed operand with its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedOperand {
    pub span: Span,
    pub facts: OperandFacts,
}

/// The kind of an operand and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandFacts {
    Register {
        register: RegisterId,
        ty: ScalarType,
        lanes: u8,
        negated: bool,
    },
    Element {
        register: RegisterId,
        component: Component,
        ty: ScalarType,
    },
    /// A register with a selector or a minus sign, as in video instructions.
    Selected {
        register: RegisterId,
        ty: ScalarType,
        selector: Option<Name>,
        minus: bool,
    },
    Special {
        register: SpecialRegister,
        negated: bool,
    },
    Integer {
        value: i64,
        unsigned: bool,
    },
    WarpSize,
    Float(Constant),
    Sink,
    /// A variable, or one variable of a parameterized declaration, plus an offset.
    Variable {
        variable: VariableId,
        member: Option<u32>,
        offset: Option<i64>,
    },
    Function {
        function: FunctionId,
        offset: Option<i64>,
    },
    /// A name that is not declared; it may be a label.
    Unknown(Name),
    Vector(ElementRange),
    Pair(ElementRange),
    /// Brackets; the first element is the address or reference. `unified` says whether `.unified` follows.
    Bracket {
        list: ElementRange,
        unified: bool,
    },
    /// An address whose base is a register.
    AddressRegister {
        register: RegisterId,
        component: Component,
        ty: ScalarType,
        offset: Option<i64>,
    },
    /// An address given as a number.
    AddressNumber(i64),
}

/// A range of [`OperandScratch::elements`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementRange {
    start: u32,
    length: u32,
}

/// The operands of the instruction being parsed.
#[derive(Default)]
pub(crate) struct OperandScratch {
    pub operands: Vec<ParsedOperand>,
    /// Elements of all lists.
    elements: Vec<ParsedOperand>,
    /// Whether the base of an address is being parsed. An offset then belongs to the address.
    in_brackets: bool,
}

impl OperandScratch {
    pub fn clear(&mut self) {
        self.operands.clear();
        self.elements.clear();
    }

    pub fn list(&self, list: ElementRange) -> &[ParsedOperand] {
        &self.elements[list.start as usize..(list.start + list.length) as usize]
    }

    pub fn add_list(&mut self, elements: &[ParsedOperand]) -> ElementRange {
        let start = self.elements.len() as u32;
        self.elements.extend_from_slice(elements);
        ElementRange { start, length: elements.len() as u32 }
    }
}

/// Limit on the elements of a vector operand; the largest matrix fragments have 128.
const LONGEST_VECTOR: usize = 1024;

impl Parser<'_> {
    /// Parses operands up to the `;`, which is not consumed.
    pub(super) fn parse_operands(&mut self) -> Parse<()> {
        self.scratch.clear();
        if self.at(b';') {
            return Ok(());
        }
        loop {
            match self.parse_plain_register() {
                Some(register) => self.scratch.operands.push(register),
                None => {
                    let operand = self.parse_operand()?;
                    self.scratch.operands.push(operand);
                }
            }
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }

    /// Parses the common case, a register alone. Returns `None` for everything else, which [`Self::parse_operand`] handles.
    fn parse_plain_register(&mut self) -> Option<ParsedOperand> {
        let span = self.span();
        if self.lexer.token.kind != TokenKind::Identifier || !(self.lexer.followed_by(b',') || self.lexer.followed_by(b';')) {
            return None;
        }
        let RegisterSymbol { register, ty, lanes } = self.symbols.find_fast(&self.module.names, self.lexer.slice(span))?;
        self.lexer.advance();
        Some(ParsedOperand { span, facts: OperandFacts::Register { register, ty, lanes, negated: false } })
    }

    /// Parses one operand: a value, a vector, a pair or an address.
    pub(super) fn parse_operand(&mut self) -> Parse<ParsedOperand> {
        if self.at(b'[') {
            return self.parse_bracket();
        }
        let first = self.parse_element()?;
        if !self.at(b'|') {
            return Ok(first);
        }
        self.lexer.advance();
        let second = self.parse_element()?;
        let list = self.scratch.add_list(&[first, second]);
        Ok(ParsedOperand { span: first.span.to(second.span), facts: OperandFacts::Pair(list) })
    }

    /// Parses a value or a vector.
    fn parse_element(&mut self) -> Parse<ParsedOperand> {
        if self.at(b'{') { self.parse_vector() } else { self.parse_scalar() }
    }

    /// Parses `{a, b, ...}`.
    fn parse_vector(&mut self) -> Parse<ParsedOperand> {
        let open = self.span();
        self.lexer.advance();
        let mut elements: SmallVec<[ParsedOperand; 8]> = SmallVec::new();
        if !self.at(b'}') {
            loop {
                elements.push(self.parse_scalar()?);
                if elements.len() > LONGEST_VECTOR {
                    return self.error(DiagnosticCode::VectorLength, open, format!("no vector has more than {LONGEST_VECTOR} elements"));
                }
                if !self.eat(b',') {
                    break;
                }
            }
        }
        let close = self.span();
        self.expect(b'}', "the elements of a vector")?;
        let list = self.scratch.add_list(&elements);
        Ok(ParsedOperand { span: open.to(close), facts: OperandFacts::Vector(list) })
    }

    /// Parses a name, a number, or either with a negation.
    fn parse_scalar(&mut self) -> Parse<ParsedOperand> {
        let start = self.span();
        match self.lexer.token.kind {
            TokenKind::Identifier => self.parse_named(),
            TokenKind::Punctuation(b'!') => {
                // `!p` negates a predicate; `!` before anything else starts a constant expression.
                if !starts_name(self.lexer.next_significant_byte()) {
                    return self.parse_constant_operand();
                }
                self.lexer.advance();
                let inner = self.parse_name_after_not(start)?;
                Ok(ParsedOperand { span: start.to(inner.span), facts: inner.facts })
            }
            TokenKind::Punctuation(b'-') if self.minus_register() => {
                self.lexer.advance();
                let inner = self.parse_named()?;
                let facts = match inner.facts {
                    OperandFacts::Register { register, ty, .. } => OperandFacts::Selected { register, ty, selector: None, minus: true },
                    OperandFacts::Selected { register, ty, selector, .. } => OperandFacts::Selected { register, ty, selector, minus: true },
                    _ => {
                        return self.error(
                            DiagnosticCode::OperandKind,
                            start.to(inner.span),
                            "only registers and numbers can be negated with `-`",
                        );
                    }
                };
                Ok(ParsedOperand { span: start.to(inner.span), facts })
            }
            TokenKind::Integer if matches!(self.lexer.next_significant_byte(), b',' | b';' | b'}' | b']' | b')') => {
                let text = self.lexer.slice(start);
                let integer = crate::lexer::number::integer(text);
                self.lexer.advance();
                match integer {
                    Some(integer) if !integer.overflow => {
                        let unsigned = integer.unsigned || integer.value > i64::MAX as u64;
                        Ok(ParsedOperand { span: start, facts: OperandFacts::Integer { value: integer.value as i64, unsigned } })
                    }
                    _ => self.error(DiagnosticCode::IntegerOverflow, start, "the integer does not fit into 64 bits"),
                }
            }
            TokenKind::Integer | TokenKind::Float | TokenKind::Punctuation(b'-' | b'(' | b'~' | b'+') => self.parse_constant_operand(),
            // `.5`
            TokenKind::Directive if self.lexer.slice(start)[1].is_ascii_digit() => self.parse_constant_operand(),
            _ => self.unexpected("an operand"),
        }
    }

    /// Returns whether the `-` precedes a name and not a number. `W` is excluded because of `WARP_SZ`, which is a number.
    fn minus_register(&self) -> bool {
        matches!(self.lexer.next_significant_byte(), b'%' | b'_' | b'$' | b'a'..=b'z' | b'A'..=b'V' | b'X'..=b'Z')
    }

    /// Parses the operand of `!`.
    fn parse_name_after_not(&mut self, start: Span) -> Parse<ParsedOperand> {
        let inner = self.parse_named()?;
        match inner.facts {
            OperandFacts::Register { register, ty, lanes, .. } => {
                Ok(ParsedOperand { facts: OperandFacts::Register { register, ty, lanes, negated: true }, ..inner })
            }
            OperandFacts::Special { register, .. } => {
                Ok(ParsedOperand { facts: OperandFacts::Special { register, negated: true }, ..inner })
            }
            OperandFacts::WarpSize => Ok(ParsedOperand { facts: OperandFacts::Integer { value: 0, unsigned: false }, ..inner }),
            OperandFacts::Unknown(_) => Ok(inner),
            _ => self.error(DiagnosticCode::OperandKind, start.to(inner.span), "only predicates can be negated with `!`"),
        }
    }

    fn parse_constant_operand(&mut self) -> Parse<ParsedOperand> {
        let start = self.span();
        let value = self.parse_constant()?;
        let span = Span::new(start.start, self.lexer.last_end);
        let facts = match value {
            ConstantValue::Signed(value) => OperandFacts::Integer { value, unsigned: false },
            ConstantValue::Unsigned(value) => OperandFacts::Integer { value: value as i64, unsigned: true },
            ConstantValue::Float(constant) => OperandFacts::Float(constant),
        };
        Ok(ParsedOperand { span, facts })
    }

    /// Parses a register, variable, function, special register, `_`, or an undeclared name.
    fn parse_named(&mut self) -> Parse<ParsedOperand> {
        let span = self.span();
        let text = self.lexer.slice(span);
        if let Some(register) = self.symbols.find_fast(&self.module.names, text) {
            self.lexer.advance();
            return self.parse_register_suffix(span, register);
        }
        if text == b"_" {
            self.lexer.advance();
            return Ok(ParsedOperand { span, facts: OperandFacts::Sink });
        }
        let name = self.intern(span);
        let symbol = self.symbols.find(&self.module.names, name).map(|entry| entry.symbol);
        if symbol.is_none() && text == b"WARP_SZ" {
            return self.parse_warp_size();
        }
        self.lexer.advance();
        match symbol {
            Some(Symbol::Register(register)) => self.parse_register_suffix(span, register),
            Some(Symbol::Variable(variable)) => self.parse_variable_suffix(span, variable, None),
            Some(Symbol::VariableMember(variable, member)) => self.parse_variable_suffix(span, variable, Some(member)),
            Some(Symbol::Function(function)) => {
                let offset = self.parse_offset()?;
                Ok(ParsedOperand { span: Span::new(span.start, self.lexer.last_end), facts: OperandFacts::Function { function, offset } })
            }
            None => match SpecialRegister::from_name(self.lexer.str(span)) {
                Some(register) => self.parse_special_suffix(span, register),
                None => Ok(ParsedOperand { span, facts: OperandFacts::Unknown(name) }),
            },
        }
    }

    fn parse_warp_size(&mut self) -> Parse<ParsedOperand> {
        let span = self.span();
        if matches!(self.lexer.next_significant_byte(), b',' | b';' | b'}' | b']' | b')') {
            self.lexer.advance();
            return Ok(ParsedOperand { span, facts: OperandFacts::WarpSize });
        }
        self.parse_constant_operand()
    }

    /// Parses the suffix of a register: `.x` of a vector register, `.b0` of a video operand, or `+offset`.
    fn parse_register_suffix(&mut self, span: Span, symbol: RegisterSymbol) -> Parse<ParsedOperand> {
        let RegisterSymbol { register, ty, lanes } = symbol;
        if self.at(b'+') && lanes == 1 && !self.scratch.in_brackets {
            let offset = self.parse_offset()?;
            let span = Span::new(span.start, self.lexer.last_end);
            return Ok(ParsedOperand { span, facts: OperandFacts::AddressRegister { register, component: Component::Whole, ty, offset } });
        }
        let has_suffix = self.lexer.token.kind == TokenKind::Directive && (self.lexer.is_adjacent() || lanes > 1);
        if !has_suffix {
            return Ok(ParsedOperand { span, facts: OperandFacts::Register { register, ty, lanes, negated: false } });
        }
        let suffix = self.span();
        let word = &self.lexer.str(suffix)[1..];
        self.lexer.advance();
        let whole = span.to(suffix);
        if lanes == 1 {
            let selector = Some(self.module.names.intern(word));
            return Ok(ParsedOperand { span: whole, facts: OperandFacts::Selected { register, ty, selector, minus: false } });
        }
        match Component::parse(word).filter(|component| component.index().is_some_and(|index| index < lanes)) {
            Some(component) => Ok(ParsedOperand { span: whole, facts: OperandFacts::Element { register, component, ty } }),
            None => {
                let finding =
                    Diagnostic::new(DiagnosticCode::BadComponent, suffix, format!("a vector of {lanes} has no component `.{word}`"))
                        .help(if lanes == 2 { "its components are `.x` and `.y`" } else { "its components are `.x`, `.y`, `.z` and `.w`" });
                Err(self.report(finding))
            }
        }
    }

    /// Parses the component of a special register, and checks the requirements of the register.
    fn parse_special_suffix(&mut self, span: Span, register: SpecialRegister) -> Parse<ParsedOperand> {
        let mut register = register;
        let mut whole = span;
        if self.lexer.token.kind == TokenKind::Directive && self.lexer.is_adjacent() {
            let suffix = self.span();
            let word = &self.lexer.str(suffix)[1..];
            self.lexer.advance();
            whole = span.to(suffix);
            match Component::parse(word).filter(|_| register.row().vector) {
                Some(component) => register = register.with_component(component),
                None => {
                    let message = format!("`{register}` has no component `.{word}`");
                    return self.error(DiagnosticCode::BadComponent, suffix, message);
                }
            }
        }
        let row = register.row();
        self.require(&format!("`{}`", row.name), whole, &row.requirement);
        Ok(ParsedOperand { span: whole, facts: OperandFacts::Special { register, negated: false } })
    }

    /// Parses `var`, `var+4` or `var[4]`.
    fn parse_variable_suffix(&mut self, span: Span, variable: VariableId, member: Option<u32>) -> Parse<ParsedOperand> {
        if self.at(b'[') {
            return self.parse_subscript(span, variable, member);
        }
        let offset = self.parse_offset()?;
        let whole = Span::new(span.start, self.lexer.last_end);
        Ok(ParsedOperand { span: whole, facts: OperandFacts::Variable { variable, member, offset } })
    }

    /// Parses the subscript of `var[4]`, which is the address of the variable plus four bytes.
    fn parse_subscript(&mut self, span: Span, variable: VariableId, member: Option<u32>) -> Parse<ParsedOperand> {
        if self.module.variables[variable].dimensions.is_empty() {
            return self.error(DiagnosticCode::BadAddress, span, "only arrays take a subscript");
        }
        self.lexer.advance();
        let offset = self.parse_integer_constant("the subscript")?;
        self.expect(b']', "a subscript")?;
        let whole = Span::new(span.start, self.lexer.last_end);
        let base = ParsedOperand { span: whole, facts: OperandFacts::Variable { variable, member, offset: Some(offset) } };
        let list = self.scratch.add_list(&[base]);
        Ok(ParsedOperand { span: whole, facts: OperandFacts::Bracket { list, unified: false } })
    }

    /// Parses an optional `+ constant`.
    fn parse_offset(&mut self) -> Parse<Option<i64>> {
        if !self.eat(b'+') {
            return Ok(None);
        }
        if self.lexer.token.kind == TokenKind::Identifier && self.lexer.text() != "WARP_SZ" {
            let message = format!("`{}` is not a constant", self.lexer.text());
            let finding = Diagnostic::new(DiagnosticCode::NotConstant, self.span(), message)
                .help("an address is a register or a variable, plus a constant offset");
            return Err(self.report(finding));
        }
        self.parse_integer_constant("the offset").map(Some)
    }

    /// Parses `[a, b, ...]`, optionally followed by `.unified`.
    fn parse_bracket(&mut self) -> Parse<ParsedOperand> {
        let open = self.span();
        self.lexer.advance();
        let mut elements: SmallVec<[ParsedOperand; 4]> = SmallVec::new();
        elements.push(self.parse_address_base()?);
        while self.eat(b',') {
            elements.push(self.parse_element()?);
            if elements.len() > 16 {
                return self.error(DiagnosticCode::BadAddress, open, "too many operands inside brackets");
            }
        }
        let close = self.span();
        self.expect(b']', "an address")?;
        let unified = self.eat_directive(".unified");
        let list = self.scratch.add_list(&elements);
        Ok(ParsedOperand { span: open.to(close), facts: OperandFacts::Bracket { list, unified } })
    }

    /// Parses the first element in brackets, with its offset.
    fn parse_address_base(&mut self) -> Parse<ParsedOperand> {
        let start = self.span();
        if self.at(b']') {
            return self.unexpected("an address");
        }
        if self.lexer.token.kind != TokenKind::Identifier || self.lexer.text() == "WARP_SZ" {
            let value = self.parse_integer_constant("the address")?;
            let span = Span::new(start.start, self.lexer.last_end);
            return Ok(ParsedOperand { span, facts: OperandFacts::AddressNumber(value) });
        }
        self.scratch.in_brackets = true;
        let base = self.parse_named();
        self.scratch.in_brackets = false;
        let base = base?;
        let facts = match base.facts {
            OperandFacts::Register { register, ty, lanes: 1, .. } => {
                self.refuse_minus_offset()?;
                let offset = self.parse_offset()?;
                OperandFacts::AddressRegister { register, component: Component::Whole, ty, offset }
            }
            OperandFacts::Element { register, component, ty } => {
                let offset = self.parse_offset()?;
                OperandFacts::AddressRegister { register, component, ty, offset }
            }
            OperandFacts::Variable { .. } | OperandFacts::Function { .. } => {
                self.refuse_minus_offset()?;
                base.facts
            }
            OperandFacts::Unknown(_) => {
                // The name is reported when a form requires an address; the offset must be skipped here.
                self.parse_offset()?;
                base.facts
            }
            _ => {
                return self.error(DiagnosticCode::BadAddress, base.span, "an address is a register or a variable, plus a constant offset");
            }
        };
        Ok(ParsedOperand { span: Span::new(start.start, self.lexer.last_end), facts })
    }

    fn refuse_minus_offset(&mut self) -> Parse<()> {
        if !self.at(b'-') {
            return Ok(());
        }
        let finding =
            Diagnostic::new(DiagnosticCode::BadAddress, self.span(), "PTX addresses have no `-`").help("write a negative offset as `+-4`");
        Err(self.report(finding))
    }

    /// Appends an operand to the body.
    pub(super) fn commit(&mut self, parsed: ParsedOperand) -> Operand {
        let body = &mut self.function.body;
        match parsed.facts {
            OperandFacts::Register { register, negated: false, .. } => Operand::Register(register),
            OperandFacts::Register { register, negated: true, .. } => Operand::NotRegister(register),
            OperandFacts::Element { register, component, .. } => Operand::Element(register, component),
            OperandFacts::Selected { register, selector, minus, .. } => {
                let mut parts: SmallVec<[Operand; 3]> = SmallVec::new();
                parts.push(Operand::Register(register));
                parts.extend(minus.then_some(Operand::Minus));
                parts.extend(selector.map(Operand::Selector));
                Operand::Selected(self.commit_list(&parts))
            }
            OperandFacts::Special { register, negated: false } => Operand::Special(register),
            OperandFacts::Special { register, negated: true } => {
                let parts = [Operand::Special(register), Operand::Minus];
                Operand::Selected(self.commit_list(&parts))
            }
            OperandFacts::Integer { value, unsigned } => match i32::try_from(value) {
                Ok(small) if !unsigned => Operand::Integer(small),
                _ => Operand::Constant(body.constants.push(Constant::Integer(value, unsigned))),
            },
            OperandFacts::WarpSize => Operand::WarpSize,
            OperandFacts::Float(constant) => Operand::Constant(body.constants.push(constant)),
            OperandFacts::Sink => Operand::Sink,
            OperandFacts::Variable { variable, member: None, offset: None } => Operand::Variable(variable),
            OperandFacts::Variable { .. }
            | OperandFacts::Function { offset: Some(_), .. }
            | OperandFacts::AddressNumber(_)
            | OperandFacts::AddressRegister { .. } => Operand::AddressOf(self.commit_address(parsed)),
            OperandFacts::Function { function, offset: None } => Operand::Function(function),
            OperandFacts::Unknown(name) => Operand::Label(self.reference_label(name, parsed.span)),
            OperandFacts::Vector(list) => Operand::Vector(self.commit_parsed_list(list)),
            OperandFacts::Pair(list) => Operand::Pair(self.commit_parsed_list(list)),
            OperandFacts::Bracket { list, unified } => match *self.scratch.list(list) {
                [only] if unified => Operand::UnifiedAddress(self.commit_address(only)),
                [only] if !matches!(only.facts, OperandFacts::Unknown(_)) => Operand::Address(self.commit_address(only)),
                _ => Operand::Bracket(self.commit_parsed_list(list)),
            },
        }
    }

    fn commit_address(&mut self, parsed: ParsedOperand) -> u32 {
        let (base, offset) = match parsed.facts {
            OperandFacts::AddressRegister { register, component: Component::Whole, offset, .. } => {
                (AddressBase::Register(register), offset)
            }
            OperandFacts::AddressRegister { register, component, offset, .. } => (AddressBase::Element(register, component), offset),
            OperandFacts::Variable { variable, member: None, offset } => (AddressBase::Variable(variable), offset),
            OperandFacts::Variable { variable, member: Some(member), offset } => (AddressBase::VariableMember(variable, member), offset),
            OperandFacts::Function { function, offset } => (AddressBase::Function(function), offset),
            OperandFacts::AddressNumber(number) => (AddressBase::Absolute, Some(number)),
            _ => (AddressBase::Absolute, None),
        };
        let addresses = &mut self.function.body.addresses;
        addresses.push(Address { base, offset: offset.unwrap_or(0), has_offset: offset.is_some() });
        addresses.len() as u32 - 1
    }

    fn commit_parsed_list(&mut self, list: ElementRange) -> crate::ast::ListId {
        let elements: SmallVec<[ParsedOperand; 8]> = SmallVec::from_slice(self.scratch.list(list));
        let operands: SmallVec<[Operand; 8]> = elements.iter().map(|&element| self.commit(element)).collect();
        self.commit_list(&operands)
    }

    pub(super) fn commit_list(&mut self, operands: &[Operand]) -> crate::ast::ListId {
        let body = &mut self.function.body;
        let start = body.operands.len() as u32;
        body.operands.extend_from_slice(operands);
        body.lists.push((start, operands.len() as u32))
    }
}

/// Returns whether a name can start with this byte.
fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}
