//! PTX operands as values, numbers and predicates, and assignments to them.

use oriole_ir::{Class, Operand, OperandKind, Part};
use oriole_ptx::ast::{self, Constant};
use oriole_ptx::table::Component;
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::select::Select;

/// The elements of a vector register, in order.
pub(crate) const COMPONENTS: [Component; 4] = [Component::X, Component::Y, Component::Z, Component::W];

impl<'m> Select<'m> {
    /// The number that an operand is, in the bits of a type; none if it is not known now.
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

    /// A source of up to 32 bits: a register or a number. Of types narrower than 32 bits the upper bits are unspecified, those of
    /// numbers zero.
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

    /// A variable as a 32-bit source: wider registers give their low part.
    fn narrow(&mut self, value: oriole_ir::Value) -> Operand {
        let whole = self.b.whole(value);
        self.low(whole)
    }

    /// The lower 32 bits of a value.
    pub fn low(&self, operand: Operand) -> Operand {
        self.register_of(operand, 0)
    }

    /// The upper 32 bits of a 64-bit value.
    pub fn high(&self, operand: Operand) -> Operand {
        self.register_of(operand, 1)
    }

    /// One register of a wider operand; numbers are cut likewise.
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

    /// Both halves of a 64-bit source, each a register or a number.
    pub fn halves(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<[Operand; 2], Unsupported> {
        if let Some(bits) = self.literal(operand, ty) {
            return Ok([Operand::from(i64::from(bits as u32)), Operand::from(i64::from((bits >> 32) as u32))]);
        }
        let wide = self.wide(operand, ty)?;
        Ok([self.low(wide), self.high(wide)])
    }

    /// A 64-bit or 128-bit source in registers: numbers are put there.
    pub fn wide(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        if let Some(bits) = self.literal(operand, ty) {
            let number = self.wide_number(bits);
            return Ok(if ty.bits() > 64 { self.sign_extended_number(number, bits) } else { number });
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

    /// A variable as a wide source: a narrower register is extended with zeros.
    fn widened(&mut self, value: oriole_ir::Value) -> Operand {
        let whole = self.b.whole(value);
        if self.b.function.values[value].width > 1 {
            return whole;
        }
        self.b.pack(Class::R2, &[whole, Operand::RZ])
    }

    /// A 64-bit number in a pair of registers.
    pub fn wide_number(&mut self, bits: u64) -> Operand {
        let low = self.b.define(Class::R, "MOV $, {}", &[Operand::from(i64::from(bits as u32))]);
        let high = self.b.define(Class::R, "MOV $, {}", &[Operand::from(i64::from((bits >> 32) as u32))]);
        self.b.pack(Class::R2, &[low, high])
    }

    /// A 64-bit number in a pair of registers as a 128-bit one.
    fn sign_extended_number(&mut self, pair: Operand, bits: u64) -> Operand {
        let sign = self.in_register(Operand::from(if (bits as i64) < 0 { u32::MAX } else { 0 }));
        let words = [self.low(pair), self.high(pair), sign, sign];
        self.b.pack(Class::R4, &words)
    }

    /// A source as registers of its type's class, whatever its width; numbers of up to 32 bits stay numbers.
    pub fn any(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        match ty.bits() {
            1 if ty == ScalarType::Pred => self.predicate(operand),
            0..=32 => self.source(operand, ty),
            _ => self.wide(operand, ty),
        }
    }

    /// A predicate source, with `!` where it is negated.
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
            // `!%is_explicit_cluster` is the register with a sign beside it.
            ast::Operand::Selected(list) => match *self.frame.body.list(list) {
                [ast::Operand::Special(special), ast::Operand::Minus] => Ok(self.special_predicate(special)?.inverted_predicate()),
                _ => Err(Unsupported::new("this operand as a predicate")),
            },
            ast::Operand::NotInteger(number) => Ok(if number == 0 { Operand::PT } else { Operand::PT.inverted_predicate() }),
            _ => Err(Unsupported::new("this operand as a predicate")),
        }
    }

    /// Assigns a result to a register, an element of one, or nothing (`_`). A narrower value than the register is extended with
    /// zeros, a wider one is cut; sign extension is the handler's business.
    pub fn assign(&mut self, destination: ast::Operand, value: Operand) -> Result<(), Unsupported> {
        let (register, element) = match destination {
            ast::Operand::Register(register) => (register, 0),
            ast::Operand::Element(register, component) => (register, component.index().unwrap_or(0)),
            ast::Operand::Sink => return Ok(()),
            _ => return Err(Unsupported::new("this operand as a destination")),
        };
        let variable = self.variable(register, element);
        let class = self.b.function.values[variable];
        let fitted = self.fitted(value, class.width);
        self.b.assign(variable, fitted);
        Ok(())
    }

    /// A value with as many registers as wanted.
    fn fitted(&mut self, value: Operand, width: u8) -> Operand {
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
        self.b.pack(Class::new(oriole_ir::File::General, width), &parts)
    }

    /// Assigns two 32-bit halves to a 64-bit register.
    pub fn assign_halves(&mut self, destination: ast::Operand, low: Operand, high: Operand) -> Result<(), Unsupported> {
        let pair = self.b.pack(Class::R2, &[low, high]);
        self.assign(destination, pair)
    }

    /// The elements of `{a, b}` or of a vector register, or the operand itself.
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

    /// The two sides of `p|q`; the second is nothing where only one is written.
    pub fn pair(&self, operand: ast::Operand) -> (ast::Operand, ast::Operand) {
        match operand {
            ast::Operand::Pair(list) => {
                let sides = self.frame.body.list(list);
                (sides[0], sides[1])
            }
            _ => (operand, ast::Operand::Sink),
        }
    }

    /// A number in a register.
    pub fn in_register(&mut self, operand: Operand) -> Operand {
        match operand.kind {
            OperandKind::Value(_) if operand.signs.is_empty() => operand,
            _ => self.b.define(Class::R, "MOV $, {}", &[operand]),
        }
    }
}

/// A constant in the bits of a type.
pub(crate) fn constant_bits(constant: Constant, ty: ScalarType) -> u64 {
    match constant {
        Constant::Integer(number, _) => integer_bits(number, ty),
        Constant::Single(bits) => float_bits(f64::from(f32::from_bits(bits)), Some(bits), ty),
        Constant::Double(bits) => float_bits(f64::from_bits(bits), None, ty),
        Constant::Decimal(number) => float_bits(number, None, ty),
    }
}

fn integer_bits(number: i64, ty: ScalarType) -> u64 {
    use ScalarType::{F16, F32, F64};
    match ty {
        F16 | F32 | F64 => float_bits(number as f64, None, ty),
        _ => number as u64,
    }
}

/// A floating-point constant in the bits of a type; the bits of a single are kept as they are.
fn float_bits(number: f64, single: Option<u32>, ty: ScalarType) -> u64 {
    match ty {
        _ if ty.bits() == 64 => number.to_bits(),
        ScalarType::F16 => u64::from(half::f16::from_f64(number).to_bits()),
        ScalarType::Bf16 => u64::from(half::bf16::from_f64(number).to_bits()),
        _ => u64::from(single.unwrap_or_else(|| (number as f32).to_bits())),
    }
}
