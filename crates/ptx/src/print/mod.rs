//! Prints modules as canonical PTX: what [`crate::check`] reads back as the same tree.
//!
//! One statement stands on a line, names are written as they were declared, modifiers in the manual's order, constant
//! expressions as their value. The cost is linear in the module: heads are spelled once per form, registers are found by
//! binary search, and the indentation of nested scopes is bounded.
//!
//! Limit: a register used with leading zeros (`%r01` of `%r<4>`) is written without them, which means another register
//! where an inner scope declares a plain `%r1`.

mod body;
mod function;
mod module;
mod operand;

use std::fmt::{Display, Write};

use oriole_support::Name;

use crate::ast::{Body, Module};

/// Writes a module as PTX.
pub fn print(module: &Module) -> String {
    let heads = module.forms.iter().map(operand::head_text).collect();
    let mut printer = Printer { module, out: String::new(), heads };
    printer.header();
    printer.items();
    printer.out
}

/// The text so far and what is needed to go on.
struct Printer<'m> {
    module: &'m Module,
    out: String,
    /// Opcode and modifiers of every form.
    heads: Vec<String>,
}

impl<'m> Printer<'m> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn value(&mut self, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{value}");
    }

    fn name(&mut self, name: Name) {
        let module = self.module;
        self.put(module.name(name));
    }

    /// Writes items with commas between them.
    fn commas<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        for (position, item) in items.into_iter().enumerate() {
            if position > 0 {
                self.put(", ");
            }
            write(self, item);
        }
    }

    /// A body's part of the printer.
    fn in_body<'p>(&'p mut self, body: &'m Body) -> BodyPrinter<'p, 'm> {
        BodyPrinter { printer: self, body, depth: 1 }
    }
}

/// Prints what belongs to one body.
struct BodyPrinter<'p, 'm> {
    printer: &'p mut Printer<'m>,
    body: &'m Body,
    /// How many scopes are open.
    depth: usize,
}
