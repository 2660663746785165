//! Instruction forms. A form is a row of the table with a modifier chosen for each slot.

use oriole_support::define_index;

use crate::table::{Atom, Entity, Modifier, Opcode, ROWS, Row, Slot, ValueSpec};
use crate::types::{AddressSpace, ScalarType};

define_index!(
    /// Index of an instruction form of a module.
    pub struct FormId,
    "form"
);

/// A slot and the modifier it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotValue {
    /// The slot; [`Slot::Fixed`] for literal modifiers.
    pub slot: Slot,
    /// The modifier.
    pub modifier: Modifier,
}

/// An opcode with its modifiers and the operands that follow from them.
#[derive(Clone, Debug)]
pub struct Form {
    /// The opcode.
    pub opcode: Opcode,
    /// Index of the row in the table.
    pub row: u16,
    /// Number of optional operand groups that are written.
    pub level: u8,
    /// The modifiers, in the order of the manual.
    pub modifiers: Box<[SlotValue]>,
    /// The operands with their types.
    pub operands: Box<[FormOperand]>,
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        // The operands follow from the other fields.
        (self.row, self.level, &self.modifiers) == (other.row, other.level, &other.modifiers)
    }
}

impl Form {
    /// Returns the row of the table.
    pub fn row(&self) -> &'static Row {
        &ROWS[usize::from(self.row)]
    }

    /// Returns the modifier in a slot; `None` if the slot is empty.
    pub fn get(&self, slot: Slot) -> Option<Modifier> {
        self.modifiers.iter().find(|value| value.slot == slot).map(|value| value.modifier)
    }

    /// Returns whether any slot holds the modifier.
    pub fn has(&self, modifier: Modifier) -> bool {
        self.modifiers.iter().any(|value| value.modifier == modifier)
    }

    /// Returns the scalar type in a slot.
    pub fn scalar_type(&self, slot: Slot) -> Option<ScalarType> {
        self.get(slot).and_then(Modifier::scalar_type)
    }

    /// Returns whether a 32-bit register may hold a generic or global address, which is then zero-extended. ptxas 13.0.88 requires 64 bits
    /// in the instructions listed here only. Programs rely on that where an instruction always accesses shared memory: `ldmatrix` and
    /// `cp.async.mbarrier.arrive` without `.shared`.
    pub(crate) fn zero_extends_addresses(&self) -> bool {
        match self.opcode {
            Opcode::Prefetch => self.has(Modifier::Tensormap),
            Opcode::Ld
            | Opcode::Ldu
            | Opcode::St
            | Opcode::Atom
            | Opcode::Red
            | Opcode::Prefetchu
            | Opcode::Applypriority
            | Opcode::Discard
            | Opcode::MultimemLdReduce
            | Opcode::MultimemRed
            | Opcode::MultimemSt
            | Opcode::MbarrierInit
            | Opcode::MbarrierInval
            | Opcode::MbarrierExpectTx
            | Opcode::MbarrierCompleteTx
            | Opcode::MbarrierArrive
            | Opcode::MbarrierArriveDrop
            | Opcode::MbarrierTestWait
            | Opcode::MbarrierTryWait => false,
            _ => true,
        }
    }
}

/// Returns whether a condition holds for a list of modifiers.
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
    /// The syntax of the operand.
    pub shape: FormShape,
}

/// The syntax of an operand.
#[derive(Clone, Debug)]
pub enum FormShape {
    /// A value, vector or name.
    Value(FormValue),
    /// `first|second`.
    Pair {
        /// The part before the bar.
        first: FormValue,
        /// The part after the bar.
        second: FormValue,
        /// Whether the bar and the second part may be omitted.
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

/// The first element in brackets.
#[derive(Clone, Debug)]
pub enum FormBase {
    /// An address in this state space.
    Address(AddressSpace),
    /// A texture, sampler or surface reference, or another value.
    Reference(FormValue),
}

/// A value operand with its type and number of elements.
#[derive(Clone, Copy, Debug)]
pub struct FormValue {
    /// The description in the row.
    pub spec: &'static ValueSpec,
    /// The type.
    pub ty: ValueType,
    /// Number of elements of a vector; `None` for a scalar.
    pub lanes: Option<u16>,
}

/// The type of a value, or the kind of entity that a name must refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// A value of this type.
    Scalar(ScalarType),
    /// A name of this kind of entity.
    Entity(Entity),
}
