//! Prints a module as canonical PTX, which [`crate::check`] reads back as the same tree.
//!
//! Each statement is on its own line. Names are written as declared, modifiers in the order of the manual, constant expressions as their
//! value. The cost is linear in the size of the module (times a binary search per register): heads are formatted once per form, and the
//! indentation is bounded.
//!
//! Limitation: a register used with leading zeros (`%r01` of `%r<4>`) is printed without them. If an inner scope declares a plain `%r1`,
//! the printed name refers to that register instead.

mod body;
mod function;
mod module;
mod operand;

use std::fmt::{Display, Write};

use oriole_support::Name;

use crate::ast::{Body, FunctionId, Module};

/// Returns the text of a module as PTX.
pub fn print(module: &Module) -> String {
    let heads = module.forms.iter().map(operand::head_text).collect();
    let mut printer = Printer { module, out: String::new(), heads };
    printer.header();
    printer.items();
    printer.out
}

/// Returns the text of one function of a module as PTX.
pub fn print_function(module: &Module, id: FunctionId) -> String {
    let heads = module.forms.iter().map(operand::head_text).collect();
    let mut printer = Printer { module, out: String::new(), heads };
    printer.function(id);
    printer.out
}

/// State of the printer: the module and the text so far.
struct Printer<'m> {
    module: &'m Module,
    out: String,
    /// Text of opcode and modifiers of every form.
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

    /// Prints items separated by commas.
    fn commas<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        for (position, item) in items.into_iter().enumerate() {
            if position > 0 {
                self.put(", ");
            }
            write(self, item);
        }
    }

    /// Returns a printer for one body.
    fn in_body<'p>(&'p mut self, body: &'m Body) -> BodyPrinter<'p, 'm> {
        BodyPrinter { printer: self, body, depth: 1 }
    }
}

/// Prints one function body.
struct BodyPrinter<'p, 'm> {
    printer: &'p mut Printer<'m>,
    body: &'m Body,
    /// Number of open scopes.
    depth: usize,
}
