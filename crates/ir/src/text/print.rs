//! Printer of the text form.

use std::fmt::Write;

use oriole_isa::RegFile;
use oriole_support::{BitSet, Index};

use super::{CONTRACT, ORDERS, REFERENCES, SCOPES, SPACES, word};
use crate::function::{Function, FunctionKind};
use crate::ids::{Inst, Location, Value};
use crate::memory::{MemoryAccess, Order, Scope};
use crate::operand::{Class, Operand, OperandKind, Part, Role, Signs};

/// Returns the text of a function.
pub fn print(function: &Function) -> String {
    let mut text = String::new();
    let kind = if function.kind == FunctionKind::Kernel { "kernel" } else { "device" };
    text.push_str(&format!("func {kind} @{}", function.name));
    if function.is_ssa {
        text.push_str(" ssa");
    }
    if function.frame_bytes != 0 {
        text.push_str(&format!(" frame {}", function.frame_bytes));
    }
    if function.frame_align != 4 {
        text.push_str(&format!(" align {}", function.frame_align));
    }
    text.push_str(" {\n");
    for symbol in &function.symbols {
        text.push_str(&format!("    symbol {symbol}\n"));
    }
    for value in unwritten_values(function).iter() {
        text.push_str("    value ");
        push_value(&mut text, value);
        push_class(&mut text, function.values[value]);
        text.push('\n');
    }
    for &block in &function.layout {
        let _ = writeln!(text, "{block:?}{}:", if function.blocks[block].no_unroll { " nounroll" } else { "" });
        for &inst in &function.blocks[block].insts {
            text.push_str("    ");
            push_inst(&mut text, function, inst);
            text.push('\n');
        }
    }
    text.push_str("}\n");
    text
}

/// Returns the text of an instruction.
pub fn print_inst(function: &Function, inst: Inst) -> String {
    let mut text = String::new();
    push_inst(&mut text, function, inst);
    text
}

/// Returns the values that are read but never written.
fn unwritten_values(function: &Function) -> BitSet<Value> {
    let count = function.values.len();
    let (mut read, mut written) = (BitSet::new(count), BitSet::new(count));
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        for value in function.defined(inst) {
            written.insert(value);
        }
        for part in function.used(inst) {
            read.insert(part.value);
        }
    }
    for value in written.iter() {
        read.remove(value);
    }
    read
}

fn push_inst(text: &mut String, function: &Function, inst: Inst) {
    let data = &function.insts[inst];
    if let Some(guard) = data.guard {
        text.push_str(if guard.negated { "@!" } else { "@" });
        push_kind(text, function, guard.kind);
        text.push(' ');
    }
    for (number, operand) in function.results(inst).iter().enumerate() {
        if number > 0 {
            text.push_str(", ");
        }
        push_operand(text, function, operand, true);
    }
    if data.result_count() > 0 {
        text.push_str(" = ");
    }
    text.push_str(data.op.mnemonic());
    for modifier in &data.modifiers {
        text.push_str(modifier.spelling());
    }
    push_sources(text, function, function.sources(inst));
    text.push_str(if data.may_contract { CONTRACT } else { "" });
    if let Some(access) = data.memory {
        push_access(text, function.accesses[access]);
    }
    if data.location != Location::default() {
        text.push_str(&format!(" ;@{}:{}", data.location.statement, data.location.line));
    }
}

/// Appends the sources, separated by commas; the terms of an address are printed inside its brackets.
fn push_sources(text: &mut String, function: &Function, sources: &[Operand]) {
    let mut at = 0;
    while at < sources.len() {
        text.push_str(if at == 0 { " " } else { ", " });
        let operand = &sources[at];
        at += 1;
        match operand.kind {
            OperandKind::Address(_) => {
                let inside = sources[at..].iter().take_while(|piece| matches!(piece.role, Role::Bracket(_))).count();
                push_address(text, function, operand, &sources[at..at + inside]);
                at += inside;
            }
            _ => push_operand(text, function, operand, false),
        }
    }
}

/// Appends an address with its brackets.
fn push_address(text: &mut String, function: &Function, address: &Operand, pieces: &[Operand]) {
    let OperandKind::Address(name) = address.kind else { return };
    push_leading_signs(text, address);
    text.push_str(name.spelling());
    let number_of = |piece: &Operand| if let Role::Bracket(number) = piece.role { number } else { 0 };
    let last = pieces.iter().map(number_of).max().unwrap_or(0);
    for bracket in 0..=last {
        text.push('[');
        for (number, piece) in pieces.iter().filter(|piece| number_of(piece) == bracket).enumerate() {
            if number > 0 {
                text.push('+');
            }
            push_operand(text, function, &piece.with_role(Role::Plain), false);
        }
        text.push(']');
    }
    push_trailing(text, address);
}

fn push_leading_signs(text: &mut String, operand: &Operand) {
    for (sign, letter) in [(Signs::NOT, '!'), (Signs::INVERT, '~'), (Signs::NEGATE, '-'), (Signs::ABSOLUTE, '|')] {
        if operand.signs.has(sign) {
            text.push(letter);
        }
    }
}

fn push_trailing(text: &mut String, operand: &Operand) {
    if operand.signs.has(Signs::ABSOLUTE) {
        text.push('|');
    }
    for suffix in operand.suffixes() {
        text.push_str(suffix.spelling());
    }
}

fn push_operand(text: &mut String, function: &Function, operand: &Operand, is_result: bool) {
    if let Role::Tied(number) = operand.role {
        text.push_str("(else");
        if number > 0 {
            text.push_str(&number.to_string());
        }
        text.push(' ');
    }
    push_leading_signs(text, operand);
    // `-0x4` is a negative number; the negation of a number is written `-(0x4)`.
    let is_signed_number = operand.integer().is_some() && operand.signs.has(Signs::NEGATE);
    text.push_str(if is_signed_number { "(" } else { "" });
    push_kind(text, function, operand.kind);
    text.push_str(if is_signed_number { ")" } else { "" });
    if let (Some(value), true) = (operand.value(), is_result) {
        push_class(text, function.values[value]);
    }
    push_trailing(text, operand);
    match operand.role {
        Role::Fixed(register) => {
            let file = operand.value().map_or(RegFile::General, |value| function.values[value].file);
            let _ = write!(text, "@{}{register}", file.prefix());
        }
        Role::Tied(_) => text.push(')'),
        Role::Plain | Role::Bracket(_) => {}
    }
}

fn push_kind(text: &mut String, function: &Function, kind: OperandKind) {
    match kind {
        OperandKind::Value(part) => push_part(text, function, part),
        OperandKind::Register { file, first, count } => {
            let _ = write!(text, "{}{first}", file.prefix());
            if count != 1 {
                let _ = write!(text, ":{}{}", file.prefix(), u32::from(first) + u32::from(count).max(1) - 1);
            }
        }
        OperandKind::Zero(file) => {
            text.push_str(file.prefix());
            text.push(file.constant_letter().unwrap_or('Z'));
        }
        OperandKind::Integer(number) => push_number(text, number),
        OperandKind::Constant { bank, offset } => {
            let _ = write!(text, "c[{bank:#x}][{offset:#x}]");
        }
        OperandKind::Name(symbol) => text.push_str(symbol.spelling()),
        OperandKind::Set(bits) => push_set(text, bits),
        OperandKind::Block(block) => {
            let _ = write!(text, "{block:?}");
        }
        OperandKind::Reference(reference) => {
            let name = function.symbols.get(reference.symbol as usize).map_or("?", String::as_str);
            let _ = write!(text, "{}({name}", word(&REFERENCES, reference.kind));
            if reference.offset != 0 {
                let _ = write!(text, "{:+}", reference.offset);
            }
            text.push(')');
        }
        OperandKind::Address(name) => {
            text.push_str(name.spelling());
            text.push_str("[]");
        }
        OperandKind::Undefined => text.push_str("undef"),
    }
}

fn push_number(text: &mut String, number: i64) {
    let sign = if number < 0 { "-" } else { "" };
    let _ = write!(text, "{sign}{:#x}", number.unsigned_abs());
}

fn push_set(text: &mut String, bits: u64) {
    let members: Vec<String> = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    let _ = write!(text, "{{{}}}", members.join(","));
}

fn push_value(text: &mut String, value: Value) {
    let _ = write!(text, "%{}", value.position());
}

fn push_part(text: &mut String, function: &Function, part: Part) {
    push_value(text, part.value);
    let is_whole = function.values.get(part.value).is_some_and(|class| part.first == 0 && part.count == class.width);
    if is_whole {
        return;
    }
    let _ = match part.count {
        1 => write!(text, "[{}]", part.first),
        count => write!(text, "[{}:{}]", part.first, i32::from(part.first) + i32::from(count) - 1),
    };
}

fn push_class(text: &mut String, class: Class) {
    text.push(':');
    text.push_str(class.file.prefix());
    if class.width != 1 {
        let _ = write!(text, "{}", class.width);
    }
    if class.align != Class::new(class.file, class.width).align {
        let _ = write!(text, "@{}", class.align);
    }
}

fn push_access(text: &mut String, access: MemoryAccess) {
    let _ = write!(text, " !{}", word(&SPACES, access.space));
    if access.order != Order::Weak {
        let _ = write!(text, ".{}", word(&ORDERS, access.order));
    }
    if access.scope != Scope::Thread {
        let _ = write!(text, ".{}", word(&SCOPES, access.scope));
    }
    let _ = write!(text, ".{}", access.bytes);
    text.push_str(if access.volatile { ".volatile" } else { "" });
    text.push_str(if access.constant { ".constant" } else { "" });
}
