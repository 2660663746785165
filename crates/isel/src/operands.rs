//! Conversion of PTX operands to values, numbers and predicates, and assignment of results.

use oriole_ir::{Class, Operand, OperandKind, Part};
use oriole_ptx::ast::{self, Constant};
use oriole_ptx::table::Component;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// The components of a vector register, in order.
pub(crate) const COMPONENTS: [Component; 4] = [Component::X, Component::Y, Component::Z, Component::W];

impl<'m> Select<'m> {
    /// Returns the constant that an operand denotes, as the bits of type `ty`; `None` if it is not known at compile time.
    pub fn literal(&self, operand: ast::Operand, ty: ScalarType) -> Option<u64> {
        let bits = match operand {
            ast::Operand::Integer(number) => integer_bits(i64::from(number), ty),
            ast::Operand::WarpSize => 32,
            ast::Operand::Constant(id) => constant_bits(self.frame.body.constants[id], ty),
            _ => return None,
        };
        let width = ty.bits();
        Some(if width >= 64 { bits } else { bits & ((1 << width) - 1) })
    }

    /// Returns a source of up to 32 bits: a register or an immediate. If the type is narrower than 32 bits, the upper bits of a register
    /// are unspecified and those of an immediate are zero.
    pub fn source(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        if let Some(bits) = self.literal(operand, ty) {
            return Ok(Operand::from(i64::from(bits as u32)));
        }
        match operand {
            ast::Operand::Register(register) => {
                let value = self.variable(register, 0);
                Ok(self.narrow(value))
            }
            ast::Operand::Element(register, component) => {
                let value = self.variable(register, component.index().unwrap_or(0));
                Ok(self.narrow(value))
            }
            ast::Operand::Special(special) => {
                let whole = self.special_register(special)?;
                Ok(self.low(whole))
            }
            _ => {
                let address = self.address_value(operand)?;
                Ok(self.low(address))
            }
        }
    }

    /// Returns a variable as a 32-bit source; of a wider register, the low part.
    fn narrow(&mut self, value: oriole_ir::Value) -> Operand {
        let whole = self.b.whole(value);
        self.low(whole)
    }

    /// Returns the lower 32 bits of a value.
    pub fn low(&self, operand: Operand) -> Operand {
        self.register_of(operand, 0)
    }

    /// Returns the upper 32 bits of a 64-bit value.
    pub fn high(&self, operand: Operand) -> Operand {
        self.register_of(operand, 1)
    }

    /// Returns register number `index` of a wider operand, or the corresponding 32 bits of an immediate or of a constant-bank operand.
    pub fn register_of(&self, operand: Operand, index: u8) -> Operand {
        match operand.kind {
            OperandKind::Value(part) => {
                Operand { kind: OperandKind::Value(Part { value: part.value, first: part.first + index, count: 1 }), ..operand }
            }
            OperandKind::Integer(number) => Operand::from(i64::from((number as u64 >> (32 * u32::from(index))) as u32)),
            OperandKind::Constant { bank, offset } => {
                Operand { kind: OperandKind::Constant { bank, offset: offset + 4 * u32::from(index) }, ..operand }
            }
            _ => operand,
        }
    }

    /// Returns both halves of a 64-bit source, low half first, each a register or an immediate.
    pub fn halves(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<[Operand; 2], Unsupported> {
        if let Some(bits) = self.literal(operand, ty) {
            return Ok([Operand::from(i64::from(bits as u32)), Operand::from(i64::from((bits >> 32) as u32))]);
        }
        let wide = self.wide_source(operand, ty)?;
        Ok([self.low(wide), self.high(wide)])
    }

    /// Returns a 64-bit or 128-bit source in registers; constants are moved into registers.
    pub fn wide_source(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        if let Some(bits) = self.literal(operand, ty) {
            let number = self.wide_number(bits);
            // A constant has 64 bits. ptxas puts zeros above, also where it is negative.
            return Ok(if ty.bits() > 64 { self.b.pack(Class::R4, &[number, Operand::RZ, Operand::RZ]) } else { number });
        }
        match operand {
            ast::Operand::Register(register) => {
                let value = self.variable(register, 0);
                Ok(self.widened(value))
            }
            ast::Operand::Element(register, component) => {
                let value = self.variable(register, component.index().unwrap_or(0));
                Ok(self.widened(value))
            }
            ast::Operand::Special(special) => self.special_register(special),
            _ => self.address_value(operand),
        }
    }

    /// Returns a variable as a wide source; a 32-bit register is zero-extended to 64 bits.
    fn widened(&mut self, value: oriole_ir::Value) -> Operand {
        let whole = self.b.whole(value);
        if self.b.function.values[value].width > 1 {
            return whole;
        }
        self.b.pack(Class::R2, &[whole, Operand::RZ])
    }

    /// Emits moves of a 64-bit constant into a register pair.
    pub fn wide_number(&mut self, bits: u64) -> Operand {
        let low = self.b.define(Class::R, "MOV $, {}", &[Operand::from(i64::from(bits as u32))]);
        let high = self.b.define(Class::R, "MOV $, {}", &[Operand::from(i64::from((bits >> 32) as u32))]);
        self.b.pack(Class::R2, &[low, high])
    }

    /// Returns a source of any width in registers of its type's class; constants of up to 32 bits stay immediates.
    pub fn source_of_any_width(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        match ty.bits() {
            1 if ty == ScalarType::Pred => self.predicate(operand),
            0..=32 => self.source(operand, ty),
            _ => self.wide_source(operand, ty),
        }
    }

    /// Returns a predicate source, inverted if the operand has `!`.
    pub fn predicate(&mut self, operand: ast::Operand) -> Result<Operand, Unsupported> {
        match operand {
            ast::Operand::Register(register) => {
                let value = self.variable(register, 0);
                Ok(self.b.whole(value))
            }
            ast::Operand::NotRegister(register) => {
                let value = self.variable(register, 0);
                Ok(self.b.whole(value).inverted_predicate())
            }
            ast::Operand::Integer(number) => Ok(if number != 0 { Operand::PT } else { Operand::PT.inverted_predicate() }),
            ast::Operand::Special(special) => self.special_predicate(special),
            // The parser represents `!%is_explicit_cluster` as the register followed by `Minus`.
            ast::Operand::Selected(list) => match *self.frame.body.list(list) {
                [ast::Operand::Special(special), ast::Operand::Minus] => Ok(self.special_predicate(special)?.inverted_predicate()),
                _ => Err(Unsupported::new("this operand as a predicate")),
            },
            ast::Operand::WarpSize => Ok(Operand::PT),
            ast::Operand::Constant(id) => match self.frame.body.constants[id] {
                ast::Constant::Integer(0, _) => Ok(Operand::PT.inverted_predicate()),
                ast::Constant::Integer(..) => Ok(Operand::PT),
                _ => Err(Unsupported::new("a float as a predicate")),
            },
            _ => Err(Unsupported::new("this operand as a predicate")),
        }
    }

    /// Assigns a result to a register or an element of one; discards it for `_`. A value narrower than the register is zero-extended, a
    /// wider one is truncated; the handler does sign extension itself.
    pub fn assign(&mut self, destination: ast::Operand, value: Operand) -> Result<(), Unsupported> {
        let (register, element) = match destination {
            ast::Operand::Register(register) => (register, 0),
            ast::Operand::Element(register, component) => (register, component.index().unwrap_or(0)),
            ast::Operand::Sink => return Ok(()),
            _ => return Err(Unsupported::new("this operand as a destination")),
        };
        let variable = self.variable(register, element);
        let class = self.b.function.values[variable];
        let resized = self.resized(value, class.width);
        self.b.assign(variable, resized);
        Ok(())
    }

    /// Zero-extends or truncates a value to `width` registers.
    fn resized(&mut self, value: Operand, width: u8) -> Operand {
        let own = match value.kind {
            OperandKind::Value(part) => part.count,
            _ => 1,
        };
        if own == width || !matches!(value.kind, OperandKind::Value(_)) && width == 1 {
            return value;
        }
        if own > width {
            let part = value.part().map(|part| Part { count: width, ..part });
            return part.map_or(value, Operand::from);
        }
        let mut parts: Vec<Operand> = (0..own).map(|index| self.register_of(value, index)).collect();
        parts.resize(usize::from(width), Operand::RZ);
        self.b.pack(Class::new(oriole_ir::RegFile::General, width), &parts)
    }

    /// Assigns two 32-bit halves to a 64-bit register.
    pub fn assign_halves(&mut self, destination: ast::Operand, low: Operand, high: Operand) -> Result<(), Unsupported> {
        let pair = self.b.pack(Class::R2, &[low, high]);
        self.assign(destination, pair)
    }

    /// Returns the elements of `{a, b}` or of a vector register; for other operands, the operand itself.
    pub fn elements(&self, operand: ast::Operand) -> Vec<ast::Operand> {
        match operand {
            ast::Operand::Register(register) if self.frame.body.declaration_of(register).lanes > 1 => {
                let lanes = usize::from(self.frame.body.declaration_of(register).lanes);
                COMPONENTS[..lanes].iter().map(|&component| ast::Operand::Element(register, component)).collect()
            }
            ast::Operand::Vector(list) | ast::Operand::Arguments(list) | ast::Operand::Bracket(list) | ast::Operand::Pair(list) => {
                self.frame.body.list(list).to_vec()
            }
            _ => vec![operand],
        }
    }

    /// Reads a 32-bit operand that may be written in braces: `a` or `{a}`.
    pub(crate) fn single(&mut self, ptx: &Ptx<'_>, position: usize) -> Result<Operand, Unsupported> {
        match self.elements(ptx.operand(position))[..] {
            [element] => self.source(element, ScalarType::B32),
            _ => self.unsupported(ptx),
        }
    }

    /// Returns the two sides of `p|q`; the second is `_` if only one is written.
    pub fn split_pair(&self, operand: ast::Operand) -> (ast::Operand, ast::Operand) {
        match operand {
            ast::Operand::Pair(list) => {
                let sides = self.frame.body.list(list);
                (sides[0], sides[1])
            }
            _ => (operand, ast::Operand::Sink),
        }
    }

    /// Returns an operand in a register: emits a move unless it is already a value without signs.
    pub fn in_register(&mut self, operand: Operand) -> Operand {
        match operand.kind {
            OperandKind::Value(_) if operand.signs.is_empty() => operand,
            _ => self.b.define(Class::R, "MOV $, {}", &[operand]),
        }
    }
}

/// Returns the bits of a constant converted to a type.
pub(crate) fn constant_bits(constant: Constant, ty: ScalarType) -> u64 {
    match constant {
        Constant::Integer(number, _) => integer_bits(number, ty),
        Constant::Single(bits) => float_bits(f64::from(f32::from_bits(bits)), Some(bits), ty),
        Constant::Double(bits) => float_bits(f64::from_bits(bits), None, ty),
        Constant::Decimal(number) => float_bits(number, None, ty),
    }
}

/// Returns the bits of an integer converted to a type.
fn integer_bits(number: i64, ty: ScalarType) -> u64 {
    use ScalarType::{F16, F32, F64};
    match ty {
        F16 | F32 | F64 => float_bits(number as f64, None, ty),
        _ => number as u64,
    }
}

/// Returns the bits of a floating-point constant converted to a type. A constant given as the bits of a single keeps these bits.
fn float_bits(number: f64, single: Option<u32>, ty: ScalarType) -> u64 {
    match ty {
        _ if ty.bits() == 64 => number.to_bits(),
        ScalarType::F16 => u64::from(half::f16::from_f64(number).to_bits()),
        ScalarType::Bf16 => u64::from(half::bf16::from_f64(number).to_bits()),
        _ => u64::from(single.unwrap_or_else(|| (number as f32).to_bits())),
    }
}
