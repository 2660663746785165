//! An instruction as its text says it: no form, no target, no bit positions.

use smallvec::SmallVec;

use crate::Control;
use crate::table::{File, FormId, Format, Opcode, Piece, Symbol};

/// Modifiers in the order of the text.
pub type Symbols = SmallVec<[Symbol; 4]>;

/// A machine instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// The mnemonic.
    pub opcode: Opcode,
    /// The predicate it depends on.
    pub guard: Guard,
    /// Modifiers of the mnemonic.
    pub modifiers: Symbols,
    /// Operands. Those that a form leaves out of its text at their default may be absent.
    pub operands: SmallVec<[Operand; 6]>,
    /// Scheduling control.
    pub control: Control,
    /// The form it was decoded from; the encoder keeps it if it still fits. None for new instructions.
    pub form: Option<FormId>,
    /// Bits of a decoded word that differ from what the encoder would write for the rest; zero for new instructions.
    pub residue: u128,
}

impl Instruction {
    /// For each operand whether it is written.
    pub fn written(&self) -> SmallVec<[bool; 6]> {
        let mut written: SmallVec<[bool; 6]> = self.operands.iter().map(|_| false).collect();
        let mut at = 0;
        for leading in self.opcode.properties().leading {
            let file =
                self.operands.get(at).and_then(|operand| if let Value::Register(file, _) = operand.value { Some(file) } else { None });
            if file.is_some_and(|file| leading.files.contains(&file)) {
                written[at] = leading.written;
                at += 1;
            }
        }
        written
    }

    /// Whether its form may set a scoreboard when its operands have been read; true for an instruction without a form.
    pub fn may_set_read_barrier(&self) -> bool {
        self.form.is_none_or(|form| form.form().sets_read_barrier)
    }

    /// Whether its form may set a scoreboard when its results are there; true for an instruction without a form.
    pub fn may_set_write_barrier(&self) -> bool {
        self.form.is_none_or(|form| form.form().sets_write_barrier)
    }

    /// The slot of the reuse cache that an operand's register goes through; none for new instructions and for operands without one.
    pub fn reuse_slot(&self, operand: usize) -> Option<u8> {
        let suffixes = self.form?.form().operands.get(operand)?.suffixes;
        let flag = suffixes.iter().find_map(|piece| if let Piece::Reuse(bit) = piece { Some(1 << bit) } else { None })?;
        let slots = Control::of(flag).reuse;
        (slots != 0).then(|| slots.trailing_zeros() as u8)
    }
}

/// A predicate and whether it is negated; `PT` is number 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Number of the predicate.
    pub predicate: u8,
    /// Whether the instruction executes when it is false.
    pub negated: bool,
    /// Whether it is a uniform predicate.
    pub uniform: bool,
}

impl Guard {
    /// Executes always.
    pub const ALWAYS: Guard = Guard { predicate: 7, negated: false, uniform: false };

    /// Whether it always lets the instruction execute.
    pub fn is_always(self) -> bool {
        self.predicate == 7 && !self.negated
    }
}

/// An operand with its signs and modifiers.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// What it is.
    pub value: Value,
    /// `-`
    pub negate: bool,
    /// `~`
    pub invert: bool,
    /// `!`
    pub not: bool,
    /// `|`
    pub absolute: bool,
    /// Whether its register stays in the reuse cache for the next instruction.
    pub reuse: bool,
    /// Modifiers behind it.
    pub suffixes: Symbols,
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Operand { value, negate: false, invert: false, not: false, absolute: false, reuse: false, suffixes: Symbols::new() }
    }
}

/// What an operand is.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A register; no number is the constant one (`RZ`, `PT`).
    Register(File, Option<u16>),
    /// An integer.
    Integer(i64),
    /// A floating-point number in the bits of a format.
    Float(Format, u64),
    /// A floating-point number of no format yet, as read from text.
    Real(f64),
    /// Not a number, of no format yet.
    Nan {
        /// Sign.
        negative: bool,
        /// Quiet or signaling.
        quiet: bool,
    },
    /// Distance in bytes from the next instruction.
    Relative(i64),
    /// A number that may be a place in the code, as read from text.
    Place(Place),
    /// A register and a number behind it.
    RegisterAndNumber(File, Option<u16>, Place),
    /// A set of small numbers, one bit each.
    Set(u64),
    /// A name.
    Name(Symbol),
    /// Something in brackets. It is ten times as large as all else: instructions are moved more often than addresses are made.
    Address(Box<Address>),
}

/// A number behind a branch: which of the two readings counts is the form's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The number itself.
    pub number: i64,
    /// How far that address is from the next instruction.
    pub distance: i64,
}

/// An operand in brackets: `c[0x0][0x210]`, `desc[UR4][R2.64+0x10]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Address {
    /// What stands in front; a symbol with empty spelling if nothing does.
    pub word: Symbol,
    /// Each pair of brackets.
    pub parts: SmallVec<[AddressPart; 2]>,
}

/// The inside of one pair of brackets.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct AddressPart {
    /// Registers that are added.
    pub registers: SmallVec<[AddressRegister; 2]>,
    /// The number that is added.
    pub offset: Option<i64>,
    /// Modifiers behind the bracket.
    pub suffixes: Symbols,
}

/// A register in an address.
#[derive(Clone, PartialEq, Debug)]
pub struct AddressRegister {
    /// Its file.
    pub file: File,
    /// Its number; none is the zero register.
    pub number: Option<u16>,
    /// Its modifiers.
    pub suffixes: Symbols,
}
