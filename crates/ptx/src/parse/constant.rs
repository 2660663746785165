//! Parses and evaluates constant expressions.
//!
//! Integers have 64 bits and are signed, unless a literal has the suffix `U` or needs the top bit. The type of a result follows the
//! rules of C, with three exceptions, as in ptxas: `%` and `~` are always unsigned, and `?:` has the type of the branch it takes. Floats
//! are double precision. No operator applies to floats given as bits (`0f...`, `0d...`). Binary operators are parsed by precedence
//! climbing.

use super::{Parse, Parser};
use crate::ast::Constant;
use crate::diag::DiagnosticCode;
use crate::lexer::{TokenKind, number};
use crate::source::Span;

/// The value of a constant expression.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConstantValue {
    Signed(i64),
    Unsigned(u64),
    Float(Constant),
}

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
    LogicalAnd,
    LogicalOr,
}

impl Operator {
    /// Returns the precedence; operators with a higher number bind tighter.
    fn precedence(self) -> u8 {
        match self {
            Operator::Multiply | Operator::Divide | Operator::Remainder => 10,
            Operator::Add | Operator::Subtract => 9,
            Operator::ShiftLeft | Operator::ShiftRight => 8,
            Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => 7,
            Operator::Equal | Operator::NotEqual => 6,
            Operator::And => 5,
            Operator::Xor => 4,
            Operator::Or => 3,
            Operator::LogicalAnd => 2,
            Operator::LogicalOr => 1,
        }
    }
}

/// Limit on the nesting of parentheses, unary operators and conditionals.
const DEEPEST: u32 = 128;

impl Parser<'_> {
    /// Parses a constant expression.
    pub(super) fn parse_constant(&mut self) -> Parse<ConstantValue> {
        match self.parse_conditional(0)? {
            // An infinity or a denormal cannot be written as a decimal literal, so it is kept as bits.
            ConstantValue::Float(Constant::Decimal(value)) if !value.is_normal() && value != 0.0 => {
                Ok(ConstantValue::Float(Constant::Double(value.to_bits())))
            }
            value => Ok(value),
        }
    }

    /// Parses a constant expression that must be an integer.
    pub(super) fn parse_integer_constant(&mut self, what: &str) -> Parse<i64> {
        let start = self.span();
        match self.parse_constant()? {
            ConstantValue::Signed(value) => Ok(value),
            ConstantValue::Unsigned(value) => Ok(value as i64),
            ConstantValue::Float(_) => {
                let span = Span::new(start.start, self.lexer.last_end);
                self.error(DiagnosticCode::ConstantTypeMismatch, span, format!("{what} must be an integer constant"))
            }
        }
    }

    /// Parses `condition ? yes : no`, or the condition alone. Both branches are evaluated.
    fn parse_conditional(&mut self, depth: u32) -> Parse<ConstantValue> {
        let start = self.span();
        if depth > DEEPEST {
            return self.error(DiagnosticCode::ConstantTooDeep, start, format!("constant expressions nest at most {DEEPEST} deep"));
        }
        let condition = self.parse_binary(1, depth)?;
        if !self.eat(b'?') {
            return Ok(condition);
        }
        let yes = self.parse_conditional(depth + 1)?;
        self.expect(b':', "the first branch of `?`")?;
        let no = self.parse_conditional(depth + 1)?;
        let span = Span::new(start.start, self.lexer.last_end);
        let taken = match condition {
            ConstantValue::Signed(value) => value != 0,
            ConstantValue::Unsigned(value) => value != 0,
            ConstantValue::Float(_) => return self.error(DiagnosticCode::ConstantTypeMismatch, start, "a condition must be an integer"),
        };
        if matches!(yes, ConstantValue::Float(_)) || matches!(no, ConstantValue::Float(_)) {
            return self.error(DiagnosticCode::ConstantTypeMismatch, span, "`?` chooses between integers only");
        }
        Ok(if taken { yes } else { no })
    }

    /// Parses binary operators with a precedence of at least `least`.
    fn parse_binary(&mut self, least: u8, depth: u32) -> Parse<ConstantValue> {
        let start = self.span();
        let mut left = self.parse_unary(depth)?;
        while let Some(operator) = self.operator().filter(|operator| operator.precedence() >= least) {
            self.lexer.advance();
            let right = self.parse_binary(operator.precedence() + 1, depth + 1)?;
            let span = Span::new(start.start, self.lexer.last_end);
            left = self.apply(operator, left, right, span)?;
        }
        Ok(left)
    }

    /// Returns the binary operator at the current token.
    fn operator(&self) -> Option<Operator> {
        Some(match self.lexer.token.kind {
            TokenKind::Punctuation(b'*') => Operator::Multiply,
            TokenKind::Punctuation(b'/') => Operator::Divide,
            TokenKind::Identifier if self.lexer.text() == "%" => Operator::Remainder,
            TokenKind::Punctuation(b'+') => Operator::Add,
            TokenKind::Punctuation(b'-') => Operator::Subtract,
            TokenKind::Double(b'<') => Operator::ShiftLeft,
            TokenKind::Double(b'>') => Operator::ShiftRight,
            TokenKind::Punctuation(b'<') => Operator::Less,
            TokenKind::Double(b'l') => Operator::LessEqual,
            TokenKind::Punctuation(b'>') => Operator::Greater,
            TokenKind::Double(b'g') => Operator::GreaterEqual,
            TokenKind::Double(b'=') => Operator::Equal,
            TokenKind::Double(b'!') => Operator::NotEqual,
            TokenKind::Punctuation(b'&') => Operator::And,
            TokenKind::Punctuation(b'^') => Operator::Xor,
            TokenKind::Punctuation(b'|') => Operator::Or,
            TokenKind::Double(b'&') => Operator::LogicalAnd,
            TokenKind::Double(b'|') => Operator::LogicalOr,
            _ => return None,
        })
    }

    /// Parses a unary operator, a parenthesized expression, a cast, or a literal.
    fn parse_unary(&mut self, depth: u32) -> Parse<ConstantValue> {
        let start = self.span();
        if depth > DEEPEST {
            return self.error(DiagnosticCode::ConstantTooDeep, start, format!("constant expressions nest at most {DEEPEST} deep"));
        }
        let TokenKind::Punctuation(symbol @ (b'+' | b'-' | b'!' | b'~' | b'(')) = self.lexer.token.kind else {
            return self.parse_literal();
        };
        self.lexer.advance();
        if symbol == b'(' {
            if self.lexer.token.kind == TokenKind::Directive {
                return self.parse_cast(depth);
            }
            let value = self.parse_conditional(depth + 1)?;
            self.expect(b')', "a constant expression")?;
            return Ok(value);
        }
        let value = self.parse_unary(depth + 1)?;
        match (symbol, value) {
            (b'+', ConstantValue::Signed(_) | ConstantValue::Unsigned(_)) => Ok(value),
            (b'-', ConstantValue::Signed(value)) => Ok(ConstantValue::Signed(value.wrapping_neg())),
            (b'-', ConstantValue::Unsigned(value)) => Ok(ConstantValue::Unsigned(value.wrapping_neg())),
            (b'!', ConstantValue::Signed(value)) => Ok(ConstantValue::Signed(i64::from(value == 0))),
            (b'!', ConstantValue::Unsigned(value)) => Ok(ConstantValue::Signed(i64::from(value == 0))),
            (b'~', ConstantValue::Signed(value)) => Ok(ConstantValue::Unsigned(!value as u64)),
            (b'~', ConstantValue::Unsigned(value)) => Ok(ConstantValue::Unsigned(!value)),
            (b'+', ConstantValue::Float(Constant::Decimal(_))) => Ok(value),
            (b'-', ConstantValue::Float(Constant::Decimal(value))) => Ok(ConstantValue::Float(Constant::Decimal(-value))),
            (b'-' | b'+', ConstantValue::Float(_)) => {
                self.error(DiagnosticCode::ConstantTypeMismatch, start, "a float given by its bits takes no sign: the sign is its top bit")
            }
            _ => self.error(DiagnosticCode::ConstantTypeMismatch, start, format!("`{}` applies to integers only", char::from(symbol))),
        }
    }

    /// Parses the rest of `(.s64)` or `(.u64)` and its operand.
    fn parse_cast(&mut self, depth: u32) -> Parse<ConstantValue> {
        let span = self.span();
        let ty = self.lexer.text();
        self.lexer.advance();
        self.expect(b')', "the type of a cast")?;
        let value = self.parse_unary(depth + 1)?;
        let bits = match value {
            ConstantValue::Signed(value) => value as u64,
            ConstantValue::Unsigned(value) => value,
            ConstantValue::Float(_) => {
                return self.error(DiagnosticCode::ConstantTypeMismatch, span, "floats cannot be cast in constant expressions");
            }
        };
        match ty {
            ".s64" => Ok(ConstantValue::Signed(bits as i64)),
            ".u64" => Ok(ConstantValue::Unsigned(bits)),
            _ => self.error(DiagnosticCode::ConstantTypeMismatch, span, "constants can be cast to `.s64` and `.u64` only"),
        }
    }

    /// Parses a number or `WARP_SZ`.
    fn parse_literal(&mut self) -> Parse<ConstantValue> {
        let span = self.span();
        match self.lexer.token.kind {
            TokenKind::Integer => {
                let integer = number::integer(self.lexer.slice(span));
                self.lexer.advance();
                match integer {
                    Some(integer) if integer.overflow => {
                        self.error(DiagnosticCode::IntegerOverflow, span, "the integer does not fit into 64 bits")
                    }
                    Some(integer) if integer.unsigned || integer.value > i64::MAX as u64 => Ok(ConstantValue::Unsigned(integer.value)),
                    Some(integer) => Ok(ConstantValue::Signed(integer.value as i64)),
                    None => self.error(DiagnosticCode::BadNumber, span, "this is not a number"),
                }
            }
            TokenKind::Float => self.parse_float(span),
            TokenKind::Directive if self.lexer.slice(span)[1].is_ascii_digit() => self.parse_float(span),
            TokenKind::Identifier if self.lexer.text() == "WARP_SZ" => {
                self.lexer.advance();
                Ok(ConstantValue::Signed(32))
            }
            TokenKind::Identifier => {
                let text = self.lexer.text();
                self.error(DiagnosticCode::NotConstant, span, format!("`{text}` is not a constant"))
            }
            _ => self.unexpected("a constant"),
        }
    }

    fn parse_float(&mut self, span: Span) -> Parse<ConstantValue> {
        let float = number::float(self.lexer.str(span));
        self.lexer.advance();
        match float {
            Some(number::Float::Single(bits)) => Ok(ConstantValue::Float(Constant::Single(bits))),
            Some(number::Float::Double(bits)) => Ok(ConstantValue::Float(Constant::Double(bits))),
            Some(number::Float::Decimal(value)) if value.is_normal() || value == 0.0 => Ok(ConstantValue::Float(Constant::Decimal(value))),
            Some(number::Float::Decimal(_)) => {
                self.error(DiagnosticCode::IntegerOverflow, span, "the number is out of the range of a double")
            }
            None => self.error(DiagnosticCode::BadNumber, span, "this is not a number"),
        }
    }

    fn apply(&mut self, operator: Operator, left: ConstantValue, right: ConstantValue, span: Span) -> Parse<ConstantValue> {
        match (left, right) {
            (ConstantValue::Float(Constant::Decimal(left)), ConstantValue::Float(Constant::Decimal(right))) => {
                self.apply_floats(operator, left, right, span)
            }
            (ConstantValue::Float(_), _) | (_, ConstantValue::Float(_)) => {
                self.error(DiagnosticCode::ConstantTypeMismatch, span, "integers, floats and float bits do not mix in constant expressions")
            }
            _ => match integers(operator, left, right) {
                Some(value) => Ok(value),
                None => self.error(DiagnosticCode::ConstantDivisionByZero, span, "division by zero in a constant expression"),
            },
        }
    }

    /// Applies an operator to floats; comparisons give an integer.
    fn apply_floats(&mut self, operator: Operator, left: f64, right: f64, span: Span) -> Parse<ConstantValue> {
        let float = |value| Ok(ConstantValue::Float(Constant::Decimal(value)));
        let truth = |value| Ok(ConstantValue::Signed(i64::from(value)));
        match operator {
            Operator::Add => float(left + right),
            Operator::Subtract => float(left - right),
            Operator::Multiply => float(left * right),
            Operator::Divide if right == 0.0 => {
                self.error(DiagnosticCode::ConstantDivisionByZero, span, "division by zero in a constant expression")
            }
            Operator::Divide => float(left / right),
            Operator::Less => truth(left < right),
            Operator::LessEqual => truth(left <= right),
            Operator::Greater => truth(left > right),
            Operator::GreaterEqual => truth(left >= right),
            Operator::Equal => truth(left == right),
            Operator::NotEqual => truth(left != right),
            _ => self.error(DiagnosticCode::ConstantTypeMismatch, span, "this operator applies to integers only"),
        }
    }
}

/// Applies an operator to integers; returns `None` for a division by zero.
fn integers(operator: Operator, left: ConstantValue, right: ConstantValue) -> Option<ConstantValue> {
    let bits = |value| match value {
        ConstantValue::Signed(value) => value as u64,
        ConstantValue::Unsigned(value) => value,
        ConstantValue::Float(_) => 0,
    };
    let unsigned = matches!(left, ConstantValue::Unsigned(_)) || matches!(right, ConstantValue::Unsigned(_));
    let (a, b) = (bits(left), bits(right));
    let (sa, sb) = (a as i64, b as i64);
    let typed = |value: u64| if unsigned { ConstantValue::Unsigned(value) } else { ConstantValue::Signed(value as i64) };
    let truth = |value: bool| ConstantValue::Signed(i64::from(value));
    let count = (b & 63) as u32;
    Some(match operator {
        Operator::Multiply => typed(a.wrapping_mul(b)),
        Operator::Divide if unsigned => typed(a.checked_div(b)?),
        Operator::Divide if b == 0 => return None,
        Operator::Divide => ConstantValue::Signed(sa.wrapping_div(sb)),
        Operator::Remainder => ConstantValue::Unsigned(a.checked_rem(b)?),
        Operator::Add => typed(a.wrapping_add(b)),
        Operator::Subtract => typed(a.wrapping_sub(b)),
        Operator::ShiftLeft => match left {
            ConstantValue::Unsigned(_) => ConstantValue::Unsigned(a << count),
            _ => ConstantValue::Signed(sa << count),
        },
        Operator::ShiftRight => match left {
            ConstantValue::Unsigned(_) => ConstantValue::Unsigned(a >> count),
            _ => ConstantValue::Signed(sa >> count),
        },
        Operator::Less => truth(if unsigned { a < b } else { sa < sb }),
        Operator::LessEqual => truth(if unsigned { a <= b } else { sa <= sb }),
        Operator::Greater => truth(if unsigned { a > b } else { sa > sb }),
        Operator::GreaterEqual => truth(if unsigned { a >= b } else { sa >= sb }),
        Operator::Equal => truth(a == b),
        Operator::NotEqual => truth(a != b),
        Operator::And => typed(a & b),
        Operator::Xor => typed(a ^ b),
        Operator::Or => typed(a | b),
        Operator::LogicalAnd => truth(a != 0 && b != 0),
        Operator::LogicalOr => truth(a != 0 || b != 0),
    })
}
