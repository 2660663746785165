//! Parses initial values of variables.

use oriole_support::{Name, closest};

use super::constant::ConstantValue;
use super::symbols::Symbol;
use super::{Parse, Parser};
use crate::ast::{Constant, Initializer, Linkage, OpaqueField, Variable, VariableType};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::{TokenKind, number};
use crate::source::Span;
use crate::types::{ScalarType, StateSpace, TypeClass};

/// Fields of texture, sampler and surface initializers, and the names that their values may have.
const FIELDS: &[(&str, &[&str])] = &[
    ("width", &[]),
    ("height", &[]),
    ("depth", &[]),
    (
        "channel_data_type",
        &[
            "snorm_int8",
            "snorm_int16",
            "unorm_int8",
            "unorm_int16",
            "unorm_short_565",
            "unorm_short_555",
            "unorm_int_101010",
            "signed_int8",
            "signed_int16",
            "signed_int32",
            "unsigned_int8",
            "unsigned_int16",
            "unsigned_int32",
            "half_float",
            "float",
        ],
    ),
    ("channel_order", &["R", "A", "RG", "RA", "RGB", "RGBA", "BGRA", "ARGB", "INTENSITY", "LUMINANCE"]),
    ("normalized_coords", &["true", "false"]),
    ("filter_mode", &["nearest", "linear"]),
    ("addr_mode_0", ADDRESS_MODES),
    ("addr_mode_1", ADDRESS_MODES),
    ("addr_mode_2", ADDRESS_MODES),
    ("array_size", &[]),
    ("num_mipmap_levels", &[]),
    ("num_samples", &[]),
    ("memory_layout", &[]),
    ("force_unnormalized_coords", &["true", "false"]),
];

const ADDRESS_MODES: &[&str] = &["wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];

impl Parser<'_> {
    /// Parses `= value` of a declaration.
    pub(super) fn parse_initializer(&mut self, variable: &mut Variable, name: Span) -> Parse<()> {
        let equals = self.span();
        self.lexer.advance();
        let text = self.module.names.resolve(variable.name);
        let refusal = if !matches!(variable.space, StateSpace::Global | StateSpace::Const) {
            Some(format!("`{text}` is in `{}`, where variables have no initial value", variable.space.spelling()))
        } else if variable.linkage == Linkage::Extern {
            Some(format!("`{text}` is defined in another module, which gives it its value"))
        } else {
            None
        };
        if let Some(message) = refusal {
            let finding = Diagnostic::new(DiagnosticCode::InitializerNotAllowed, name.to(equals), message);
            return Err(self.report(finding));
        }
        let start = self.span();
        let initializer = match variable.ty {
            VariableType::Scalar(ty) => {
                let elements = usize::from(variable.lanes > 1);
                self.parse_initial_value(variable, ty, variable.dimensions.len() + elements)?
            }
            _ => self.parse_opaque_initializer()?,
        };
        if let (Initializer::List(values), Some(first)) = (&initializer, variable.dimensions.first_mut()) {
            if first.is_none() && values.is_empty() {
                let span = Span::new(start.start, self.lexer.last_end);
                return self.error(DiagnosticCode::IncompleteArray, span, "an array without a length needs at least one value");
            }
            // An array without a length has as many elements as values.
            first.get_or_insert(values.len() as u64);
        }
        variable.initializer = Some(Box::new(initializer));
        Ok(())
    }

    /// Parses a value for the innermost `levels` dimensions of the variable. A vector type counts as one dimension.
    fn parse_initial_value(&mut self, variable: &Variable, ty: ScalarType, levels: usize) -> Parse<Initializer> {
        let span = self.span();
        if levels == 0 {
            if self.at(b'{') {
                return self.error(DiagnosticCode::InitializerTypeMismatch, span, "a single value takes no braces");
            }
            return self.parse_scalar_initializer(ty);
        }
        if !self.at(b'{') {
            return self.error(DiagnosticCode::InitializerTypeMismatch, span, "the values of an array or vector must be in braces");
        }
        if levels > 32 {
            return self.error(DiagnosticCode::BadArray, span, "arrays with initial values have at most 32 dimensions");
        }
        self.lexer.advance();
        let total = variable.dimensions.len() + usize::from(variable.lanes > 1);
        let position = total - levels;
        let is_vector = variable.lanes > 1 && levels == 1;
        let most = if is_vector { Some(u64::from(variable.lanes)) } else { variable.dimensions[position] };
        let mut values = Vec::new();
        if !self.at(b'}') {
            loop {
                let place = self.span();
                values.push(self.parse_initial_value(variable, ty, levels - 1)?);
                if most.is_some_and(|most| values.len() as u64 > most) && !is_vector {
                    return self.error(
                        DiagnosticCode::TooManyInitializers,
                        place,
                        format!("the array has only {} elements here", most.unwrap_or(0)),
                    );
                }
                if !self.eat(b',') {
                    break;
                }
            }
        }
        let close = self.span();
        self.expect(b'}', "the initial values")?;
        if is_vector && values.len() != usize::from(variable.lanes) {
            let message = format!("a vector of {} needs {0} values, found {}", variable.lanes, values.len());
            return self.error(DiagnosticCode::InitializerVectorLength, span.to(close), message);
        }
        Ok(Initializer::List(values))
    }

    /// Parses one value: a constant, an address, or a byte of either.
    fn parse_scalar_initializer(&mut self, ty: ScalarType) -> Parse<Initializer> {
        let span = self.span();
        if matches!(ty, ScalarType::F16 | ScalarType::F16x2) {
            let finding = Diagnostic::new(DiagnosticCode::InitializerTypeMismatch, span, "half-precision variables have no initial value")
                .help("declare the variable as `.b16` or `.b32` and give the bits");
            return Err(self.report(finding));
        }
        if self.lexer.token.kind == TokenKind::Identifier && self.lexer.text() != "WARP_SZ" {
            return self.parse_symbol_initializer(ty, None);
        }
        if self.lexer.token.kind == TokenKind::Integer && self.lexer.next_significant_byte() == b'(' {
            return self.parse_masked_initializer(ty);
        }
        let value = self.parse_constant()?;
        let span = Span::new(span.start, self.lexer.last_end);
        let constant = match value {
            ConstantValue::Signed(value) => Constant::Integer(value, false),
            ConstantValue::Unsigned(value) => Constant::Integer(value as i64, true),
            ConstantValue::Float(constant) => constant,
        };
        let is_integer = matches!(constant, Constant::Integer(..));
        match (ty.class(), is_integer) {
            (TypeClass::Integer, false) => {
                self.error(DiagnosticCode::InitializerTypeMismatch, span, "a float cannot initialize an integer")
            }
            (TypeClass::Float, true) => {
                let finding =
                    Diagnostic::new(DiagnosticCode::InitializerTypeMismatch, span, "an integer cannot initialize a float").help("add `.0`");
                Err(self.report(finding))
            }
            _ => Ok(Initializer::Constant(constant)),
        }
    }

    /// Parses `symbol`, `symbol+4` or `generic(symbol)+4`.
    fn parse_symbol_initializer(&mut self, ty: ScalarType, mask: Option<u64>) -> Parse<Initializer> {
        let start = self.span();
        let mut generic = false;
        let name_of_generic = self.lexer.text() == "generic" && self.lexer.next_significant_byte() == b'(';
        if name_of_generic {
            self.require_version("`generic()`", start, 3, 1);
            self.lexer.advance();
            self.lexer.advance();
            generic = true;
        }
        let span = self.expect_identifier("the name of a variable")?;
        let name = self.intern(span);
        if generic {
            self.expect(b')', "`generic(`")?;
        }
        let offset = if self.eat(b'+') { Some(self.parse_integer_constant("the offset")?) } else { None };
        self.require_version("an address as initial value", start, 2, 1);
        self.check_initializer_symbol(name, span, generic, offset.is_some())?;
        if mask.is_none() && !matches!(ty, ScalarType::U32 | ScalarType::U64) {
            let finding =
                Diagnostic::new(DiagnosticCode::InitializerTypeMismatch, start.to(span), "an address initializes `.u64` variables only")
                    .help("declare the variable as `.u64`");
            return Err(self.report(finding));
        }
        Ok(Initializer::Address { symbol: name, offset: offset.unwrap_or(0), generic, mask })
    }

    /// Checks that the address of a symbol is a constant and may be used as an initial value.
    fn check_initializer_symbol(&mut self, name: Name, span: Span, generic: bool, has_offset: bool) -> Parse<()> {
        let text = self.module.names.resolve(name);
        let finding = match self.symbols.find(&self.module.names, name).map(|entry| entry.symbol) {
            Some(Symbol::Variable(variable) | Symbol::VariableMember(variable, _)) => {
                let space = self.module.variables[variable].space;
                if matches!(space, StateSpace::Global | StateSpace::Const) {
                    return Ok(());
                }
                Diagnostic::new(
                    DiagnosticCode::BadInitializerSymbol,
                    span,
                    format!(
                        "`{text}` is in `{}`; only addresses of `.global` and `.const` variables are known in advance",
                        space.spelling()
                    ),
                )
            }
            Some(Symbol::Function(_)) if !generic && !has_offset => return Ok(()),
            Some(Symbol::Function(_)) => {
                Diagnostic::new(DiagnosticCode::BadInitializerSymbol, span, "the address of a function takes no offset and no `generic()`")
            }
            Some(Symbol::Register(_)) => {
                Diagnostic::new(DiagnosticCode::BadInitializerSymbol, span, format!("`{text}` is a register and has no address"))
            }
            None => {
                let near = closest(
                    text,
                    self.module.variables.as_slice().iter().rev().take(500).map(|variable| self.module.names.resolve(variable.name)),
                );
                Diagnostic::new(DiagnosticCode::BadInitializerSymbol, span, format!("`{text}` is not declared before this use"))
                    .maybe_help(near.map(|near| format!("did you mean `{near}`?")))
            }
        };
        Err(self.report(finding))
    }

    /// Parses `0xFF00(symbol)`: one byte of an address or a number.
    fn parse_masked_initializer(&mut self, ty: ScalarType) -> Parse<Initializer> {
        let span = self.span();
        let mask = number::integer(self.lexer.slice(span)).map_or(0, |integer| integer.value);
        self.lexer.advance();
        self.require_version("a byte of an address", span, 7, 1);
        let is_byte = (0..8).any(|byte| mask == 0xFF << (8 * byte));
        if !is_byte {
            let finding = Diagnostic::new(DiagnosticCode::BadInitializerMask, span, format!("the mask {mask:#x} does not select one byte"))
                .help("masks are 0xFF, 0xFF00, 0xFF0000 and so on");
            return Err(self.report(finding));
        }
        self.expect(b'(', "a byte mask")?;
        let value = if self.lexer.token.kind == TokenKind::Identifier && self.lexer.text() != "WARP_SZ" {
            if !matches!(ty, ScalarType::U8 | ScalarType::U32 | ScalarType::U64) {
                return self.error(
                    DiagnosticCode::InitializerTypeMismatch,
                    span,
                    "a byte of an address initializes `.u8`, `.u32` and `.u64` variables only",
                );
            }
            self.parse_symbol_initializer(ty, Some(mask))?
        } else {
            if ty.class() == TypeClass::Float {
                return self.error(DiagnosticCode::InitializerTypeMismatch, span, "an integer cannot initialize a float");
            }
            Initializer::MaskedNumber { mask, value: self.parse_integer_constant("the number")? }
        };
        self.expect(b')', "a masked value")?;
        Ok(value)
    }

    /// Parses `{ width = 64, filter_mode = nearest }`.
    fn parse_opaque_initializer(&mut self) -> Parse<Initializer> {
        self.expect(b'{', "`=` of a texture, sampler or surface")?;
        let mut fields = Vec::new();
        while !self.at(b'}') {
            let span = self.expect_identifier("the name of a field")?;
            let text = self.lexer.str(span);
            let Some(&(_, values)) = FIELDS.iter().find(|&&(field, _)| field == text) else {
                let near = closest(text, FIELDS.iter().map(|&(field, _)| field)).map(|near| format!("did you mean `{near}`?"));
                let finding =
                    Diagnostic::new(DiagnosticCode::BadOpaqueInitializer, span, format!("there is no field `{text}`")).maybe_help(near);
                return Err(self.report(finding));
            };
            self.expect(b'=', "the name of a field")?;
            let value = self.parse_field_value(values)?;
            fields.push(OpaqueField { name: self.intern(span), value });
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b'}', "the fields")?;
        Ok(Initializer::Opaque(fields))
    }

    fn parse_field_value(&mut self, values: &[&str]) -> Parse<Result<i64, Name>> {
        let span = self.span();
        if self.lexer.token.kind != TokenKind::Identifier {
            return self.parse_integer_constant("the field").map(Ok);
        }
        let text = self.lexer.text();
        if !values.contains(&text) {
            let near = closest(text, values.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let finding = Diagnostic::new(DiagnosticCode::BadOpaqueInitializer, span, format!("`{text}` is not a value of this field"))
                .maybe_help(near);
            return Err(self.report(finding));
        }
        self.lexer.advance();
        Ok(Err(self.intern(span)))
    }
}
