//! Prints operands, addresses, constants and instruction heads.

use oriole_support::Index;

use super::BodyPrinter;
use crate::ast::{Address, AddressBase, Constant, Form, FormId, Operand, RegisterId};

/// Returns opcode and modifiers in the order of the manual. `form.modifiers` includes the components of the opcode after the first.
pub(super) fn head_text(form: &Form) -> String {
    let first = form.opcode.spelling().split('.').next().unwrap_or_default();
    let mut text = String::from(first);
    for value in &form.modifiers {
        text.push('.');
        text.push_str(value.modifier.spelling());
    }
    text
}

/// Returns the text of a constant that parses to the same constant.
pub(super) fn constant_text(constant: Constant) -> String {
    match constant {
        // Without the cast, the number would parse as unsigned.
        Constant::Integer(i64::MIN, false) => String::from("(.s64)0x8000000000000000"),
        Constant::Integer(value, false) => value.to_string(),
        Constant::Integer(value, true) if value < 0 => format!("{value:#X}").replacen("0X", "0x", 1),
        Constant::Integer(value, true) => format!("{value}U"),
        Constant::Single(bits) => format!("0f{bits:08X}"),
        Constant::Double(bits) => format!("0d{bits:016X}"),
        Constant::Decimal(value) => decimal_text(value),
    }
}

/// Returns the shortest decimal number that parses to the same double, always with a point.
fn decimal_text(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

impl BodyPrinter<'_, '_> {
    pub(super) fn head(&mut self, form: FormId) {
        let printer = &mut *self.printer;
        printer.out.push_str(&printer.heads[form.position()]);
    }

    pub(super) fn operands(&mut self, operands: &[Operand]) {
        for (position, &operand) in operands.iter().enumerate() {
            self.printer.put(if position > 0 { ", " } else { "" });
            self.operand(operand);
        }
    }

    pub(super) fn register(&mut self, register: RegisterId) {
        let declaration = self.body.declaration_of(register);
        self.printer.name(declaration.name);
        if declaration.count.is_some() {
            self.printer.value(register.position() - declaration.first.position());
        }
    }

    /// Prints one operand. Recursion is bounded: the parser nests lists at most two deep.
    fn operand(&mut self, operand: Operand) {
        let (body, module) = (self.body, self.printer.module);
        match operand {
            Operand::Register(register) => self.register(register),
            Operand::NotRegister(register) => {
                self.printer.put("!");
                self.register(register);
            }
            Operand::Element(register, component) => {
                self.register(register);
                self.printer.put(component.spelling());
            }
            Operand::Selected(list) => self.selected(body.list(list)),
            Operand::Selector(name) => {
                self.printer.put(".");
                self.printer.name(name);
            }
            Operand::Minus => self.printer.put("-"),
            Operand::Special(register) => self.printer.value(register),
            Operand::Integer(value) => self.printer.value(value),
            Operand::Constant(constant) => self.printer.put(&constant_text(body.constants[constant])),
            Operand::WarpSize => self.printer.put("WARP_SZ"),
            Operand::Sink => self.printer.put("_"),
            Operand::Vector(list) => self.enclosed("{", body.list(list), "}"),
            Operand::Pair(list) => self.pair(body.list(list)),
            Operand::Address(address) => {
                self.printer.put("[");
                self.address(body.addresses[address as usize]);
                self.printer.put("]");
            }
            Operand::UnifiedAddress(address) => {
                self.printer.put("[");
                self.address(body.addresses[address as usize]);
                self.printer.put("].unified");
            }
            Operand::Bracket(list) => self.enclosed("[", body.list(list), "]"),
            Operand::AddressOf(address) => self.address(body.addresses[address as usize]),
            Operand::Variable(variable) => self.printer.name(module.variables[variable].name),
            Operand::Function(function) => self.printer.name(module.functions[function].name),
            Operand::Label(label) => self.printer.name(body.labels[label].name),
            Operand::Arguments(list) => self.enclosed("(", body.list(list), ")"),
        }
    }

    fn enclosed(&mut self, open: &str, operands: &[Operand], close: &str) {
        self.printer.put(open);
        self.operands(operands);
        self.printer.put(close);
    }

    fn pair(&mut self, parts: &[Operand]) {
        for (position, &part) in parts.iter().enumerate() {
            self.printer.put(if position > 0 { "|" } else { "" });
            self.operand(part);
        }
    }

    /// Prints `-%r1.b0` (register, minus, selector) or `!%is_explicit_cluster` (special register, minus).
    fn selected(&mut self, parts: &[Operand]) {
        if parts.contains(&Operand::Minus) {
            self.printer.put(if matches!(parts[0], Operand::Special(_)) { "!" } else { "-" });
        }
        for &part in parts.iter().filter(|&&part| part != Operand::Minus) {
            self.operand(part);
        }
    }

    /// Prints an address without brackets.
    fn address(&mut self, address: Address) {
        let module = self.printer.module;
        match address.base {
            AddressBase::Register(register) => self.register(register),
            AddressBase::Element(register, component) => {
                self.register(register);
                self.printer.put(component.spelling());
            }
            AddressBase::Variable(variable) => self.printer.name(module.variables[variable].name),
            AddressBase::VariableMember(variable, member) => {
                self.printer.name(module.variables[variable].name);
                self.printer.value(member);
            }
            AddressBase::Function(function) => self.printer.name(module.functions[function].name),
            AddressBase::Absolute => return self.printer.value(address.offset),
        }
        if address.has_offset {
            self.printer.value(format_args!("+{}", address.offset));
        }
    }
}
