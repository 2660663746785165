//! The instruction table at run time: rows generated from `data/*.tbl`, and queries on them.
//!
//! `docs/ptx-table.md` describes the notation; `oriole-ptx-table` is the generator. Later stages match on the generated enums [`Opcode`],
//! [`Modifier`] and [`Slot`].

use crate::target::{PtxVersion, Requirement, Suffix, TargetNeed};
use crate::types::{AddressSpace, ScalarType};

mod lookup;
mod special;

pub(crate) use lookup::{ModifierSet, may_fit};
pub use special::{Component, SpecialRegister};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// One row: one syntax of an instruction.
#[derive(Debug)]
pub struct Row {
    /// The opcode.
    pub opcode: Opcode,
    /// The table file, which is the instruction family.
    pub family: &'static str,
    /// The section of the PTX manual.
    pub section: &'static str,
    /// The line in the table file.
    pub line: u32,
    /// Modifiers, in the order of the manual.
    pub slots: &'static [SlotSpec],
    /// Operands, in order.
    pub operands: &'static [OperandSpec],
    /// PTX version and targets that the row requires, each under a condition on its modifiers.
    pub requirements: &'static [ConditionalRequirement],
    /// Combinations that are illegal from some version and target on.
    pub removals: &'static [ConditionalRequirement],
    /// Combinations that ptxas accepts but the manual does not document.
    pub undocumented: &'static [&'static [Atom]],
    /// Whether the last component of the opcode may be written anywhere among the modifiers.
    pub movable: bool,
    /// Illegal combinations of modifiers.
    pub denials: &'static [&'static [Atom]],
}

/// One modifier position of an instruction.
#[derive(Debug)]
pub struct SlotSpec {
    /// The slot; [`Slot::Fixed`] for a literal modifier.
    pub slot: Slot,
    /// The modifiers that the slot accepts.
    pub values: &'static [Modifier],
    /// Zero if a modifier is required, otherwise the number of the optional group.
    pub group: u8,
}

/// A requirement that applies if its condition holds.
#[derive(Debug)]
pub struct ConditionalRequirement {
    /// The condition: a conjunction.
    pub condition: &'static [Atom],
    /// The requirement.
    pub requirement: Requirement,
}

/// One test of a condition on the modifiers of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atom {
    /// The modifier is present.
    Has(Modifier),
    /// The modifier is absent.
    Lacks(Modifier),
    /// The slot holds one of these.
    SlotIs(Slot, &'static [Modifier]),
    /// The slot holds none of these or is empty.
    SlotIsNot(Slot, &'static [Modifier]),
    /// The slot is filled.
    Filled(Slot),
    /// The slot is empty.
    Empty(Slot),
}

/// An operand of a row.
#[derive(Debug)]
pub struct OperandSpec {
    /// Zero if the operand is required, otherwise the number of optional groups that must be written for it to appear.
    pub level: u8,
    /// The syntax of the operand.
    pub shape: OperandSyntax,
}

/// The syntax of an operand.
#[derive(Debug)]
pub enum OperandSyntax {
    /// A value, a vector or a name.
    Value(ValueSpec),
    /// `first|second`.
    Pair {
        /// The part before the bar.
        first: ValueSpec,
        /// The part after the bar.
        second: ValueSpec,
        /// Whether the bar and the second part may be omitted.
        optional: bool,
    },
    /// `[base, rest...]`.
    Bracket {
        /// The address or reference.
        base: Base,
        /// Further operands inside the brackets.
        rest: &'static [ValueSpec],
        /// Whether `.unified` may follow.
        unified: bool,
    },
}

/// The first element in brackets.
#[derive(Debug)]
pub enum Base {
    /// A generic address.
    Generic,
    /// An address in this state space.
    Space(AddressSpace),
    /// An address in the state space that the slot names; generic if the slot is empty.
    SlotSpace(Slot),
    /// A texture, sampler or surface reference, or another value.
    Reference(ValueSpec),
}

/// A value operand: a register, immediate, vector or name.
#[derive(Debug, Clone, Copy)]
pub struct ValueSpec {
    /// The name in the manual.
    pub name: &'static str,
    /// Whether the instruction reads it.
    pub reads: bool,
    /// Whether the instruction writes it.
    pub writes: bool,
    /// How the type is determined.
    pub ty: TypeSpec,
    /// Whether a register wider than the type is allowed.
    pub wider: bool,
    /// The number of elements.
    pub arity: Arity,
    /// Whether a vector with one element may be written without braces.
    pub braces_optional: bool,
    /// Other properties.
    pub flags: Flags,
    /// The values that an immediate may have: one range, or one per element of a vector.
    pub ranges: &'static [ImmediateRange],
    /// The selectors that a register may have.
    pub selectors: Selectors,
}

impl ValueSpec {
    /// Returns whether the type is that of a modifier and not fixed.
    pub(crate) fn follows_slot(&self) -> bool {
        matches!(self.ty, TypeSpec::OfSlot(_))
    }
}

/// The parts of a register that an operand of a video instruction may select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selectors {
    /// No selectors.
    None,
    /// One byte or half word: `.b2`, `.h1`.
    Scalar,
    /// Two half words out of two registers: `.h32`.
    Half,
    /// Half words to write: `.h10`.
    HalfMask,
    /// Four bytes out of two registers: `.b7654`.
    Byte,
    /// Bytes to write: `.b320`.
    ByteMask,
}

impl Selectors {
    /// Returns whether a selector, written without its dot, is allowed.
    pub fn contains(self, selector: &str) -> bool {
        let Some((kind, digits)) = selector.split_at_checked(1) else { return false };
        let below = |most: u8| digits.bytes().all(|digit| (b'0'..b'0' + most).contains(&digit));
        let falling = || digits.as_bytes().windows(2).all(|pair| pair[0] > pair[1]);
        match (self, kind) {
            (Selectors::Scalar, "b") => digits.len() == 1 && below(4),
            (Selectors::Scalar, "h") => digits.len() == 1 && below(2),
            (Selectors::Half, "h") => digits.len() == 2 && below(4),
            (Selectors::HalfMask, "h") => matches!(digits, "0" | "1" | "10"),
            (Selectors::Byte, "b") => digits.len() == 4 && below(8),
            (Selectors::ByteMask, "b") => !digits.is_empty() && below(4) && falling(),
            _ => false,
        }
    }
}

/// How the type of an operand is determined.
#[derive(Debug, Clone, Copy)]
pub enum TypeSpec {
    /// This type.
    Scalar(ScalarType),
    /// The type in a slot.
    OfSlot(Slot),
    /// The type in a slot with twice the width.
    WideOfSlot(Slot),
    /// Not a value but the name of an entity.
    Entity(Entity),
}

/// The kind of entity that a name operand refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entity {
    /// A label.
    Label,
    /// A function.
    Func,
    /// A texture.
    Texref,
    /// A sampler.
    Samplerref,
    /// A surface.
    Surfref,
    /// The operands of `call`, which have a grammar of their own.
    Calllist,
    /// The operands of `brx.idx`: an index and a list of targets.
    Branchlist,
}

/// The number of elements of an operand.
#[derive(Debug, Clone, Copy)]
pub enum Arity {
    /// Not a vector.
    Scalar,
    /// A vector with this number of elements.
    Fixed(u16),
    /// The number that the modifier in a slot stands for, scaled; a scalar if the slot is empty.
    OfSlot {
        /// The slot.
        slot: Slot,
        /// Factor.
        times: u16,
        /// Divisor.
        over: u16,
    },
}

/// The values that an immediate may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImmediateRange {
    /// From first to last, inclusive.
    Between(i64, i64),
    /// One of these values.
    OneOf(&'static [i64]),
    /// A multiple of this number.
    MultipleOf(i64),
}

impl ImmediateRange {
    /// Returns whether a value is allowed.
    pub fn contains(self, value: i64) -> bool {
        match self {
            ImmediateRange::Between(first, last) => (first..=last).contains(&value),
            ImmediateRange::OneOf(values) => values.contains(&value),
            ImmediateRange::MultipleOf(factor) => value % factor == 0,
        }
    }
}

/// A set of operand flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Only a register.
    pub(crate) const REG: Flags = Flags(1);
    /// Only an immediate.
    pub(crate) const IMM: Flags = Flags(2);
    /// The destination may be `_`.
    pub const SINK: Flags = Flags(4);
    /// May be a special register.
    pub(crate) const SREG: Flags = Flags(8);
    /// May be the name of a variable or function.
    pub(crate) const ADDR: Flags = Flags(16);
    /// A predicate that may not be negated.
    pub(crate) const NONNEG: Flags = Flags(32);
    /// May be negated with a minus sign.
    pub(crate) const NEG: Flags = Flags(128);
    /// An untyped register.
    pub const BITS: Flags = Flags(256);
    /// The destination must be `_`.
    pub(crate) const SINKONLY: Flags = Flags(512);
    /// The whole vector may be `_`.
    pub(crate) const DISCARD: Flags = Flags(2048);
    /// Any float immediate, although the operand is untyped.
    pub const FLOAT: Flags = Flags(1024);

    /// Returns the union of both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns whether the set contains all flags of `other`.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A row of the table of special registers.
#[derive(Debug)]
pub struct SpecialRegisterRow {
    /// The name, with the percent sign.
    pub name: &'static str,
    /// The scalar type.
    pub ty: ScalarType,
    /// Whether it is a vector of four elements.
    pub vector: bool,
    /// Narrower widths in bits with which the register may also be read.
    pub narrower: &'static [u32],
    /// The PTX version and targets it requires.
    pub requirement: Requirement,
}

impl SpecialRegisterRow {
    /// Returns whether an instruction of type `ty` can read the register: integer and bit types of its width or of an allowed narrower
    /// width.
    pub fn fits(&self, ty: ScalarType) -> bool {
        let integer = matches!(ty.class(), crate::types::TypeClass::Integer | crate::types::TypeClass::Bits);
        integer && (ty.bits() == self.ty.bits() || self.narrower.contains(&ty.bits()))
    }
}

/// Returns the indices of the rows whose opcode starts with this component; `None` if there are none.
pub fn rows_of(first_component: &str) -> Option<&'static [u16]> {
    static KEYS: [u128; FAMILY_NAMES.len()] = lookup::keys(&FAMILY_NAMES);
    lookup::position(&KEYS, &FAMILY_NAMES, first_component).map(|position| FAMILIES[position])
}
