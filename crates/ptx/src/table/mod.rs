//! The instruction table at run time: rows generated from `data/*.tbl` and how to ask them.
//!
//! `docs/ptx-table.md` describes the notation, `oriole-ptx-table` the generator. The generated enums
//! [`Opcode`], [`Modifier`] and [`Slot`] are what later stages match on.

use crate::target::{PtxVersion, Requirement, Suffix, TargetNeed};
use crate::types::{AddressSpace, ScalarType};

mod lookup;
mod special;

pub(crate) use lookup::{ModifierSet, may_fit};
pub use special::{Component, SpecialRegister};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// One row: a shape of an instruction.
#[derive(Debug)]
pub struct Row {
    /// The opcode.
    pub opcode: Opcode,
    /// The table file: the instruction family.
    pub family: &'static str,
    /// The manual's section.
    pub section: &'static str,
    /// The line in the table file.
    pub line: u32,
    /// Modifiers in the manual's order.
    pub slots: &'static [SlotSpec],
    /// Operands in order.
    pub operands: &'static [OperandSpec],
    /// What the row or some of its modifiers need.
    pub requirements: &'static [ConditionalRequirement],
    /// What later versions and targets took away.
    pub removals: &'static [ConditionalRequirement],
    /// Combinations that ptxas takes and the manual does not have.
    pub undocumented: &'static [&'static [Atom]],
    /// Whether the last component of the opcode may stand anywhere among the modifiers.
    pub movable: bool,
    /// Illegal combinations.
    pub denials: &'static [&'static [Atom]],
}

/// A place for a modifier.
#[derive(Debug)]
pub struct SlotSpec {
    /// Its name; [`Slot::Fixed`] for a literal modifier.
    pub slot: Slot,
    /// What fits.
    pub values: &'static [Modifier],
    /// Zero if required, else its optional group.
    pub group: u8,
}

/// A requirement that holds where its condition does.
#[derive(Debug)]
pub struct ConditionalRequirement {
    /// All of these.
    pub condition: &'static [Atom],
    /// What is needed then.
    pub requirement: Requirement,
}

/// A part of a condition on the modifiers of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atom {
    /// The modifier is there.
    Has(Modifier),
    /// The modifier is not there.
    Lacks(Modifier),
    /// The slot has one of these.
    SlotIs(Slot, &'static [Modifier]),
    /// The slot has none of these.
    SlotIsNot(Slot, &'static [Modifier]),
    /// The slot is filled.
    Filled(Slot),
    /// The slot is empty.
    Empty(Slot),
}

/// An operand of a row.
#[derive(Debug)]
pub struct OperandSpec {
    /// Zero if required; else the number of optional groups that must be written for it to appear.
    pub level: u8,
    /// What it looks like.
    pub shape: Shape,
}

/// What an operand looks like.
#[derive(Debug)]
pub enum Shape {
    /// A value, a vector or a name.
    Value(ValueSpec),
    /// `first|second`.
    Pair {
        /// Before the bar.
        first: ValueSpec,
        /// After the bar.
        second: ValueSpec,
        /// Whether bar and second may be left out.
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

/// The first operand in brackets.
#[derive(Debug)]
pub enum Base {
    /// An address in generic space.
    Generic,
    /// An address in this space.
    Space(AddressSpace),
    /// An address in the space the slot names; generic if it is empty.
    SlotSpace(Slot),
    /// A texture, sampler or surface, or another value.
    Reference(ValueSpec),
}

/// A value operand.
#[derive(Debug, Clone, Copy)]
pub struct ValueSpec {
    /// Its name in the manual.
    pub name: &'static str,
    /// Whether the instruction reads it.
    pub reads: bool,
    /// Whether the instruction writes it.
    pub writes: bool,
    /// Its type.
    pub ty: TypeSpec,
    /// Whether a wider register will do.
    pub wider: bool,
    /// How many elements.
    pub arity: Arity,
    /// Whether a vector of one may be written without braces.
    pub braces_optional: bool,
    /// What else is allowed or not.
    pub flags: Flags,
    /// The values an immediate may take: one range, or one for each element of a vector.
    pub ranges: &'static [ImmediateRange],
    /// The selectors a register may carry.
    pub selectors: Selectors,
}

impl ValueSpec {
    /// Whether its type is that of a modifier rather than fixed.
    pub fn follows_slot(&self) -> bool {
        matches!(self.ty, TypeSpec::OfSlot(_))
    }
}

/// Which parts of a register an operand of a video instruction may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selectors {
    /// None.
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
    /// Whether a selector, without its dot, is one of these.
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

/// Where a type comes from.
#[derive(Debug, Clone, Copy)]
pub enum TypeSpec {
    /// This type.
    Scalar(ScalarType),
    /// The type in a slot.
    OfSlot(Slot),
    /// Twice as wide as the type in a slot.
    WideOfSlot(Slot),
    /// Not a value but a name.
    Entity(Entity),
}

/// What a name operand must name.
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
    /// The operands of `call`, which have their own grammar.
    Calllist,
    /// The operands of `brx.idx`: an index and a list of targets.
    Branchlist,
}

/// How many elements.
#[derive(Debug, Clone, Copy)]
pub enum Arity {
    /// Not a vector.
    Scalar,
    /// This many.
    Fixed(u16),
    /// The number of the slot's modifier, scaled; a scalar if the slot is empty.
    OfSlot {
        /// The slot.
        slot: Slot,
        /// Multiplied by this.
        times: u16,
        /// Divided by this.
        over: u16,
    },
}

/// The values an immediate may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImmediateRange {
    /// From first to last, inclusive.
    Between(i64, i64),
    /// One of these.
    OneOf(&'static [i64]),
    /// A multiple of this.
    MultipleOf(i64),
}

impl ImmediateRange {
    /// Whether a value is allowed.
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
    /// A register, nothing else.
    pub const REG: Flags = Flags(1);
    /// An immediate, nothing else.
    pub const IMM: Flags = Flags(2);
    /// The destination may be `_`.
    pub const SINK: Flags = Flags(4);
    /// May be a special register.
    pub const SREG: Flags = Flags(8);
    /// May be the name of a variable or function.
    pub const ADDR: Flags = Flags(16);
    /// A predicate that may not be negated.
    pub const NONNEG: Flags = Flags(32);
    /// May be negated with a minus sign.
    pub const NEG: Flags = Flags(128);
    /// An untyped register.
    pub const BITS: Flags = Flags(256);
    /// The destination must be `_`.
    pub const SINKONLY: Flags = Flags(512);
    /// The whole vector may be `_`.
    pub const DISCARD: Flags = Flags(2048);
    /// Any float immediate, though the type is untyped.
    pub const FLOAT: Flags = Flags(1024);

    /// Both sets together.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` is in the set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A special register as the table lists it.
#[derive(Debug)]
pub struct SpecialRegisterRow {
    /// Its name with the percent sign.
    pub name: &'static str,
    /// Its scalar type.
    pub ty: ScalarType,
    /// Whether it is a vector of four.
    pub vector: bool,
    /// Narrower widths in bits that can be read too.
    pub narrower: &'static [u32],
    /// What it needs.
    pub requirement: Requirement,
}

impl SpecialRegisterRow {
    /// Whether an instruction of this type can read it: integers and bits of its width, or of a narrower one it allows.
    pub fn fits(&self, ty: ScalarType) -> bool {
        let integer = matches!(ty.class(), crate::types::TypeClass::Integer | crate::types::TypeClass::Bits);
        integer && (ty.bits() == self.ty.bits() || self.narrower.contains(&ty.bits()))
    }
}

/// The rows whose opcode starts with this component.
pub fn rows_of(first_component: &str) -> Option<&'static [u16]> {
    static KEYS: [u128; FAMILY_NAMES.len()] = lookup::keys(&FAMILY_NAMES);
    lookup::position(&KEYS, &FAMILY_NAMES, first_component).map(|position| FAMILIES[position])
}
