//! Instruction forms: a row of the table with its slots filled.

use oriole_support::define_index;

use crate::table::{Atom, Entity, Modifier, Opcode, ROWS, Row, Slot, ValueSpec};
use crate::types::{AddressSpace, ScalarType};

define_index!(
    /// An instruction form of a module.
    pub struct FormId,
    "form"
);

/// A slot and the modifier in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotValue {
    /// The slot; [`Slot::Fixed`] for literal modifiers.
    pub slot: Slot,
    /// What it holds.
    pub modifier: Modifier,
}

/// An opcode with its modifiers and the operands they imply.
#[derive(Clone, Debug)]
pub struct Form {
    /// The opcode.
    pub opcode: Opcode,
    /// The position of its row in the table.
    pub row: u16,
    /// How many optional operand groups are written.
    pub level: u8,
    /// The modifiers in the manual's order.
    pub modifiers: Box<[SlotValue]>,
    /// The operands with their types worked out.
    pub operands: Box<[FormOperand]>,
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        // The operands follow from the rest.
        (self.row, self.level, &self.modifiers) == (other.row, other.level, &other.modifiers)
    }
}

impl Form {
    /// Its row in the table.
    pub fn row(&self) -> &'static Row {
        &ROWS[usize::from(self.row)]
    }

    /// The modifier in a slot.
    pub fn get(&self, slot: Slot) -> Option<Modifier> {
        self.modifiers.iter().find(|value| value.slot == slot).map(|value| value.modifier)
    }

    /// Whether a modifier is there, in any slot.
    pub fn has(&self, modifier: Modifier) -> bool {
        self.modifiers.iter().any(|value| value.modifier == modifier)
    }

    /// The scalar type in a slot.
    pub fn scalar_type(&self, slot: Slot) -> Option<ScalarType> {
        self.get(slot).and_then(Modifier::scalar_type)
    }

    /// Whether a condition of the table holds for these modifiers.
    pub fn fulfils(&self, condition: &[Atom]) -> bool {
        fulfils(&self.modifiers, condition)
    }
}

/// Whether a condition holds for a list of modifiers.
pub(crate) fn fulfils(modifiers: &[SlotValue], condition: &[Atom]) -> bool {
    let get = |slot: Slot| modifiers.iter().find(|value| value.slot == slot).map(|value| value.modifier);
    let has = |modifier: Modifier| modifiers.iter().any(|value| value.modifier == modifier);
    condition.iter().all(|atom| match *atom {
        Atom::Has(modifier) => has(modifier),
        Atom::Lacks(modifier) => !has(modifier),
        Atom::SlotIs(slot, values) => get(slot).is_some_and(|modifier| values.contains(&modifier)),
        Atom::SlotIsNot(slot, values) => get(slot).is_none_or(|modifier| !values.contains(&modifier)),
        Atom::Filled(slot) => get(slot).is_some(),
        Atom::Empty(slot) => get(slot).is_none(),
    })
}

/// An operand of a form.
#[derive(Clone, Debug)]
pub struct FormOperand {
    /// What it looks like.
    pub shape: FormShape,
}

/// What an operand of a form looks like.
#[derive(Clone, Debug)]
pub enum FormShape {
    /// A value, vector or name.
    Value(FormValue),
    /// `first|second`.
    Pair {
        /// Before the bar.
        first: FormValue,
        /// After it.
        second: FormValue,
        /// Whether bar and second may be left out.
        optional: bool,
    },
    /// `[base, rest...]`.
    Bracket {
        /// The address or reference.
        base: FormBase,
        /// Further operands.
        rest: Box<[FormValue]>,
        /// Whether `.unified` may follow.
        unified: bool,
    },
}

/// The first operand in brackets.
#[derive(Clone, Debug)]
pub enum FormBase {
    /// An address in this space.
    Address(AddressSpace),
    /// A texture, sampler, surface or another value.
    Reference(FormValue),
}

/// A value with its type worked out.
#[derive(Clone, Copy, Debug)]
pub struct FormValue {
    /// The row's description.
    pub spec: &'static ValueSpec,
    /// Its type.
    pub ty: ValueType,
    /// Number of elements of a vector; none for a scalar.
    pub lanes: Option<u16>,
}

/// A scalar type or a kind of name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// A value of this type.
    Scalar(ScalarType),
    /// A name.
    Entity(Entity),
}
