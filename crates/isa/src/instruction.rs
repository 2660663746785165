//! A machine instruction in terms of its text: mnemonic, modifiers, operands, guard and control word. It holds no bit positions.

use smallvec::SmallVec;

use crate::Control;
use crate::table::{FormId, NumberFormat, Opcode, Piece, RegFile, Symbol};

/// Modifiers in the order in which they are printed.
pub type Symbols = SmallVec<[Symbol; 4]>;

/// A machine instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// The mnemonic.
    pub opcode: Opcode,
    /// The guard predicate.
    pub guard: InstGuard,
    /// Modifiers of the mnemonic, in the order in which they are printed.
    pub modifiers: Symbols,
    /// Operands in the order in which they are printed. Operands that a form does not print at their default value may be absent.
    pub operands: SmallVec<[Operand; 6]>,
    /// The control word.
    pub control: Control,
    /// The form the instruction was decoded from, which the encoder keeps while it still fits; `None` for new instructions.
    pub form: Option<FormId>,
    /// Bits in which the decoded word differs from the encoding of the other fields; zero for new instructions.
    pub residue: u128,
}

impl Instruction {
    /// Returns for each operand whether the instruction writes it.
    pub fn written(&self) -> SmallVec<[bool; 6]> {
        let mut written: SmallVec<[bool; 6]> = self.operands.iter().map(|_| false).collect();
        let mut at = 0;
        for leading in self.opcode.properties().leading {
            let file = self
                .operands
                .get(at)
                .and_then(|operand| if let OperandValue::Register(file, _) = operand.value { Some(file) } else { None });
            if file.is_some_and(|file| leading.files.contains(&file)) {
                written[at] = leading.written;
                at += 1;
            }
        }
        written
    }

    /// Returns whether the form may set a read barrier (a scoreboard released when the operands have been read); true without a form.
    pub fn may_set_read_barrier(&self) -> bool {
        self.form.is_none_or(|form| form.form().sets_read_barrier)
    }

    /// Returns whether the form may set a write barrier (a scoreboard released when the results are written); true without a form.
    pub fn may_set_write_barrier(&self) -> bool {
        self.form.is_none_or(|form| form.form().sets_write_barrier)
    }

    /// Returns the slot of the reuse cache for an operand's register; `None` for new instructions and for operands without a slot.
    pub fn reuse_slot(&self, operand: usize) -> Option<u8> {
        let suffixes = self.form?.form().operands.get(operand)?.suffixes;
        let flag = suffixes.iter().find_map(|piece| if let Piece::Reuse(bit) = piece { Some(1 << bit) } else { None })?;
        let slots = Control::of(flag).reuse;
        (slots != 0).then(|| slots.trailing_zeros() as u8)
    }
}

/// A guard predicate and whether it is negated. Predicate number 7 is `PT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstGuard {
    /// Number of the predicate register.
    pub predicate: u8,
    /// Whether the instruction executes when the predicate is false.
    pub negated: bool,
    /// Whether the predicate is in the uniform file (`UP`).
    pub uniform: bool,
}

impl InstGuard {
    /// The guard of an unconditional instruction.
    pub const ALWAYS: InstGuard = InstGuard { predicate: 7, negated: false, uniform: false };

    /// Returns whether the instruction executes unconditionally.
    pub fn is_always(self) -> bool {
        self.predicate == 7 && !self.negated
    }
}

/// An operand with its sign operators and modifiers.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// The register, number, name or address.
    pub value: OperandValue,
    /// Arithmetic negation, printed `-`.
    pub negate: bool,
    /// Bitwise complement, printed `~`.
    pub invert: bool,
    /// Predicate negation, printed `!`.
    pub not: bool,
    /// Absolute value, printed `|...|`.
    pub absolute: bool,
    /// Whether the register is kept in the reuse cache for the next instruction, printed `.reuse`.
    pub reuse: bool,
    /// Modifiers printed after the operand.
    pub suffixes: Symbols,
}

impl From<OperandValue> for Operand {
    fn from(value: OperandValue) -> Self {
        Operand { value, negate: false, invert: false, not: false, absolute: false, reuse: false, suffixes: Symbols::new() }
    }
}

/// The value of an operand without its sign operators.
#[derive(Clone, PartialEq, Debug)]
pub enum OperandValue {
    /// A register; `None` is the constant register of the file (`RZ`, `PT`).
    Register(RegFile, Option<u16>),
    /// An integer.
    Integer(i64),
    /// A floating-point number, as the encoding in its format.
    Float(NumberFormat, u64),
    /// A floating-point number read from text; the form determines its format.
    Real(f64),
    /// A NaN without payload read from text; the form determines its format.
    Nan {
        /// Whether the sign bit is set.
        negative: bool,
        /// Whether the NaN is quiet; signaling otherwise.
        quiet: bool,
    },
    /// A distance in bytes from the next instruction.
    Relative(i64),
    /// A number read from text that may be a branch target.
    Place(BranchNumber),
    /// A register followed by a number.
    RegisterAndNumber(RegFile, Option<u16>, BranchNumber),
    /// A set of numbers below 64, one bit each.
    Set(u64),
    /// A name, such as `SR_TID.X`.
    Name(Symbol),
    /// An operand with brackets. Boxed because it is ten times as large as any other variant and instructions are moved often.
    Address(Box<Address>),
}

impl OperandValue {
    /// Returns the number, 1 to 15, of this kind of operand in the filters of forms ([`crate::table::FormFilter`]). The generator of the table
    /// (`oriole-isa-table`) has the same codes.
    pub(crate) fn kind_code(&self) -> u64 {
        match self {
            OperandValue::Register(RegFile::General, _) => 1,
            OperandValue::Register(RegFile::Uniform, _) => 2,
            OperandValue::Register(RegFile::Predicate, _) => 3,
            OperandValue::Register(RegFile::UniformPredicate, _) => 4,
            OperandValue::Register(RegFile::Convergence, _) => 5,
            OperandValue::Register(RegFile::Scoreboard, _) => 6,
            // Addresses with different numbers of brackets are of different kinds.
            OperandValue::Address(address) => 8 + address.parts.len().min(7) as u64,
            _ => 7,
        }
    }
}

/// A number in the operand of a branch. The form determines whether it is a plain number or an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BranchNumber {
    /// The number itself.
    pub number: i64,
    /// The distance in bytes from the next instruction to the address `number`.
    pub distance: i64,
}

/// An operand in brackets: `c[0x0][0x210]`, `desc[UR4][R2.64+0x10]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Address {
    /// The word before the brackets, such as `c` or `desc`; a symbol with an empty spelling if there is none.
    pub word: Symbol,
    /// The contents of each pair of brackets.
    pub parts: SmallVec<[AddressPart; 2]>,
}

/// The contents of one pair of brackets.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct AddressPart {
    /// Registers that are added up.
    pub registers: SmallVec<[AddressRegister; 2]>,
    /// The constant offset; `None` if the brackets have none.
    pub offset: Option<i64>,
    /// Modifiers printed after the closing bracket.
    pub suffixes: Symbols,
}

/// A register in an address.
#[derive(Clone, PartialEq, Debug)]
pub struct AddressRegister {
    /// The register file.
    pub file: RegFile,
    /// The register number; `None` is the zero register.
    pub number: Option<u16>,
    /// Modifiers of the register, such as `.64`.
    pub suffixes: Symbols,
}
