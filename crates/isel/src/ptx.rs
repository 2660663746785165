//! The view of one PTX instruction that handlers receive.

use oriole_ptx::ast::{self, Form};
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

/// A PTX instruction: its form and its operands.
#[derive(Clone, Copy)]
pub struct Ptx<'m> {
    /// Opcode, modifiers and types.
    pub form: &'m Form,
    /// Operands in source order; the destination is usually first.
    pub operands: &'m [ast::Operand],
    /// Whether the module is for sm_10 to sm_13, whose single-precision instructions flush subnormal numbers without `.ftz`.
    pub flushes: bool,
}

impl<'m> Ptx<'m> {
    /// Returns the opcode.
    pub fn opcode(&self) -> Opcode {
        self.form.opcode
    }

    /// Returns whether the instruction has a modifier, or behaves as if it had.
    pub fn has(&self, modifier: Modifier) -> bool {
        self.form.has(modifier) || modifier == Modifier::Ftz && self.flushes && self.is_single()
    }

    /// Returns whether the instruction computes with f32 and with no type of 64 bits: conversions between the two never flush.
    fn is_single(&self) -> bool {
        let types = self.types();
        types.contains(&ScalarType::F32) && types.iter().all(|ty| ty.bytes() < 8)
    }

    /// Returns the modifier in a slot of the instruction's syntax, if any.
    pub fn get(&self, slot: Slot) -> Option<Modifier> {
        self.form.get(slot)
    }

    /// Returns the type of the instruction: the content of the slot `type`, or else the first type among the modifiers, or `.b32`.
    pub fn ty(&self) -> ScalarType {
        let only = || self.form.modifiers.iter().find_map(|value| value.modifier.scalar_type());
        self.form.scalar_type(Slot::Type).or_else(only).unwrap_or(ScalarType::B32)
    }

    /// Returns all types among the modifiers, in source order.
    pub fn types(&self) -> Vec<ScalarType> {
        self.form.modifiers.iter().filter_map(|value| value.modifier.scalar_type()).collect()
    }

    /// Returns rows, columns and depth from a modifier such as `.m16n8k32`.
    pub fn matrix_shape(&self) -> Option<[u32; 3]> {
        let shape = |text: &str| {
            let (rows, rest) = text.strip_prefix('m')?.split_once('n')?;
            let (columns, depth) = rest.split_once('k')?;
            Some([rows.parse().ok()?, columns.parse().ok()?, depth.parse().ok()?])
        };
        self.form.modifiers.iter().find_map(|value| shape(value.modifier.spelling()))
    }

    /// Returns the operand at a position. Panics if there is none.
    pub fn operand(&self, position: usize) -> ast::Operand {
        self.operands[position]
    }
}
