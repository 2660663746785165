//! A PTX instruction as handlers see it.

use oriole_ptx::ast::{self, Form};
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

/// A PTX instruction with its form and operands at hand.
#[derive(Clone, Copy)]
pub struct Ptx<'m> {
    /// Opcode, modifiers and types.
    pub form: &'m Form,
    /// Operands in the order of the text.
    pub operands: &'m [ast::Operand],
}

impl<'m> Ptx<'m> {
    /// Its opcode.
    pub fn opcode(&self) -> Opcode {
        self.form.opcode
    }

    /// Whether it has a modifier.
    pub fn has(&self, modifier: Modifier) -> bool {
        self.form.has(modifier)
    }

    /// The modifier in a slot.
    pub fn get(&self, slot: Slot) -> Option<Modifier> {
        self.form.get(slot)
    }

    /// The type of the instruction: what its slot `type` holds, or else the only type among its modifiers.
    pub fn ty(&self) -> ScalarType {
        let only = || self.form.modifiers.iter().find_map(|value| value.modifier.scalar_type());
        self.form.scalar_type(Slot::Type).or_else(only).unwrap_or(ScalarType::B32)
    }

    /// An operand by position.
    pub fn operand(&self, position: usize) -> ast::Operand {
        self.operands[position]
    }
}
