//! Values, their classes, and operands.

use oriole_isa::{File, Opcode, Symbol};

use crate::function::{Block, Value};

/// Which registers a value needs: a file, how many in a row, and the multiple at which they start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Class {
    /// The register file.
    pub file: File,
    /// Number of registers, 1 to 128.
    pub width: u8,
    /// The first register's number is a multiple of this power of two.
    pub align: u8,
}

impl Class {
    /// One 32-bit register.
    pub const R: Class = Class::new(File::General, 1);
    /// An aligned pair: 64 bits.
    pub const R2: Class = Class::new(File::General, 2);
    /// An aligned quad: 128 bits.
    pub const R4: Class = Class::new(File::General, 4);
    /// One uniform register.
    pub const UR: Class = Class::new(File::Uniform, 1);
    /// An aligned pair of uniform registers.
    pub const UR2: Class = Class::new(File::Uniform, 2);
    /// A predicate.
    pub const P: Class = Class::new(File::Predicate, 1);
    /// A uniform predicate.
    pub const UP: Class = Class::new(File::UniformPredicate, 1);
    /// A convergence barrier.
    pub const B: Class = Class::new(File::Convergence, 1);

    /// Consecutive registers at the alignment the machine asks of such a group: the next power of two, at most 4.
    pub const fn new(file: File, width: u8) -> Class {
        let align = match width {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        };
        Class { file, width, align }
    }
}

/// Some consecutive registers of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The value.
    pub value: Value,
    /// Its first register that is meant.
    pub first: u8,
    /// How many are meant.
    pub count: u8,
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// What it is.
    pub kind: OperandKind,
    /// Where it stands.
    pub role: Role,
    /// Signs in front of it.
    pub signs: Signs,
    /// Modifiers behind it (`.H0_H0`, `.64`); [`Symbol::NAME_`] where there is none.
    pub suffixes: [Symbol; 2],
}

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperandKind {
    /// Registers of a value, read or written.
    Value(Part),
    /// Registers after allocation.
    Register {
        /// The file.
        file: File,
        /// The first register.
        first: u16,
        /// How many.
        count: u8,
    },
    /// The register that is always zero or true; as a result, one that nobody wants.
    Zero(File),
    /// An integer, or the bits of a floating-point number.
    Integer(i64),
    /// A word of a constant bank at a fixed offset.
    Constant {
        /// The bank.
        bank: u8,
        /// The offset in bytes.
        offset: u32,
    },
    /// A name, such as a special register's.
    Name(Symbol),
    /// A set of small numbers, one bit each.
    Set(u64),
    /// A block to branch to; in a phi the block the operand in front comes from.
    Block(Block),
    /// An address that is known when the program is linked.
    Reference(Reference),
    /// Opens an address in brackets; its parts follow with [`Role::Bracket`]. The word in front (`desc`, `c`) may be empty.
    Address(Symbol),
    /// No value: the source of a phi where the variable is not set.
    Undefined,
}

/// A part of a symbol's address, filled in by a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reference {
    /// Position in [`crate::Function::symbols`].
    pub symbol: u32,
    /// What is added to the address.
    pub offset: i32,
    /// Which part of it.
    pub kind: ReferenceKind,
}

/// Which part of an address a [`Reference`] means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReferenceKind {
    /// The lower 32 bits of a data address.
    Low,
    /// The upper 32 bits of a data address.
    High,
    /// The lower 32 bits of a function's address.
    FunctionLow,
    /// The upper 32 bits of a function's address.
    FunctionHigh,
    /// The distance to a function, as a call takes it.
    Call,
    /// The lower 32 bits of the address behind the next call of this function.
    ReturnLow,
    /// The upper 32 bits of that address.
    ReturnHigh,
    /// A parameter that the caller left on its stack: the offset from this function's stack pointer, which is known with its frame.
    Incoming,
    /// The offset of a variable in shared memory, what the system reserves excluded.
    SharedOffset,
    /// The offset of a variable in constant bank 3.
    ConstantOffset,
}

/// Where an operand stands in its instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// By itself.
    Plain,
    /// In a pair of brackets, by number, of the address opened before it.
    Bracket(u8),
    /// Shares the register of the result with this number, which keeps it where the guard does not hold.
    Tied(u8),
    /// Must be in this register when the instruction executes; for calls, which are not encoded with their arguments.
    Fixed(u8),
}

/// Signs in front of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Signs {
    bits: u8,
}

impl Signs {
    /// None.
    pub const NONE: Signs = Signs { bits: 0 };
    /// `-`
    pub const NEGATE: Signs = Signs { bits: 1 };
    /// `~`
    pub const INVERT: Signs = Signs { bits: 2 };
    /// `!`
    pub const NOT: Signs = Signs { bits: 4 };
    /// `|`
    pub const ABSOLUTE: Signs = Signs { bits: 8 };

    /// Whether these signs are all there.
    pub fn has(self, other: Signs) -> bool {
        self.bits & other.bits == other.bits
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// These and others.
    #[must_use]
    pub fn with(self, other: Signs) -> Signs {
        Signs { bits: self.bits | other.bits }
    }

    /// These without others.
    #[must_use]
    pub fn without(self, other: Signs) -> Signs {
        Signs { bits: self.bits & !other.bits }
    }

    /// These, with others set that were not and cleared that were: `-` of `-a` is `a`.
    #[must_use]
    pub fn toggled(self, other: Signs) -> Signs {
        Signs { bits: self.bits ^ other.bits }
    }
}

/// The predicate that an instruction depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// A predicate value, a physical predicate, or none ([`OperandKind::Zero`]: always).
    pub kind: OperandKind,
    /// Whether the instruction executes where it is false.
    pub negated: bool,
}

impl Operand {
    /// A plain operand without signs.
    pub const fn new(kind: OperandKind) -> Operand {
        Operand { kind, role: Role::Plain, signs: Signs::NONE, suffixes: [Symbol::NAME_; 2] }
    }

    /// The zero register.
    pub const RZ: Operand = Operand::new(OperandKind::Zero(File::General));
    /// The predicate that is always true.
    pub const PT: Operand = Operand::new(OperandKind::Zero(File::Predicate));
    /// The uniform zero register.
    pub const URZ: Operand = Operand::new(OperandKind::Zero(File::Uniform));
    /// The uniform predicate that is always true.
    pub const UPT: Operand = Operand::new(OperandKind::Zero(File::UniformPredicate));

    /// A word of a constant bank.
    pub const fn constant(bank: u8, offset: u32) -> Operand {
        Operand::new(OperandKind::Constant { bank, offset })
    }

    /// The part of a value that it reads or writes.
    pub fn part(&self) -> Option<Part> {
        if let OperandKind::Value(part) = self.kind { Some(part) } else { None }
    }

    /// The value that it reads or writes.
    pub fn value(&self) -> Option<Value> {
        self.part().map(|part| part.value)
    }

    /// The integer that it is, without signs.
    pub fn integer(&self) -> Option<i64> {
        if let OperandKind::Integer(number) = self.kind { Some(number) } else { None }
    }

    /// With other signs.
    #[must_use]
    pub fn with_signs(self, signs: Signs) -> Operand {
        Operand { signs, ..self }
    }

    /// The same in another place.
    #[must_use]
    pub fn with_role(self, role: Role) -> Operand {
        Operand { role, ..self }
    }

    /// With `-`, which takes one away that is there.
    #[must_use]
    pub fn negated(self) -> Operand {
        self.with_signs(self.signs.toggled(Signs::NEGATE))
    }

    /// With `!` (predicates), which takes one away that is there.
    #[must_use]
    pub fn inverted_predicate(self) -> Operand {
        self.with_signs(self.signs.toggled(Signs::NOT))
    }

    /// The absolute value.
    #[must_use]
    pub fn absolute(self) -> Operand {
        self.with_signs(self.signs.with(Signs::ABSOLUTE).without(Signs::NEGATE))
    }

    /// With a modifier behind it.
    #[must_use]
    pub fn with_suffix(self, suffix: Symbol) -> Operand {
        Operand { suffixes: [suffix, Symbol::NAME_], ..self }
    }

    /// Modifiers behind it.
    pub fn suffixes(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.suffixes.iter().copied().filter(|&suffix| suffix != Symbol::NAME_)
    }
}

impl From<Part> for Operand {
    fn from(part: Part) -> Operand {
        Operand::new(OperandKind::Value(part))
    }
}

impl From<Block> for Operand {
    fn from(block: Block) -> Operand {
        Operand::new(OperandKind::Block(block))
    }
}

impl From<i64> for Operand {
    fn from(number: i64) -> Operand {
        Operand::new(OperandKind::Integer(number))
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Operand {
        i64::from(number).into()
    }
}

impl From<u32> for Operand {
    fn from(number: u32) -> Operand {
        i64::from(number).into()
    }
}

impl From<Symbol> for Operand {
    fn from(name: Symbol) -> Operand {
        Operand::new(OperandKind::Name(name))
    }
}

impl From<Reference> for Operand {
    fn from(reference: Reference) -> Operand {
        Operand::new(OperandKind::Reference(reference))
    }
}

impl Operand {
    /// An immediate with its signs worked into its bits, as instructions with this opcode read them. Others stay as they are.
    #[must_use]
    pub fn with_signs_folded(self, opcode: Opcode) -> Operand {
        let OperandKind::Integer(number) = self.kind else { return self };
        if self.signs.is_empty() {
            return self;
        }
        if number == 0 && self.signs.has(Signs::NEGATE) && opcode == Opcode::IADD3 {
            // Subtracting zero carries, adding zero does not.
            return Operand { kind: OperandKind::Zero(File::General), ..self };
        }
        let float_sign: Option<i64> = match opcode.mnemonic().as_bytes().first() {
            Some(b'F' | b'D' | b'M') => Some(0x8000_0000),
            Some(b'H') => Some(0x8000_8000),
            _ => None,
        };
        let mut folded = number;
        if let Some(sign) = float_sign {
            if self.signs.has(Signs::ABSOLUTE) {
                folded &= !sign;
            }
            if self.signs.has(Signs::NEGATE) {
                folded ^= sign;
            }
        } else {
            if self.signs.has(Signs::ABSOLUTE) {
                folded = folded.wrapping_abs();
            }
            if self.signs.has(Signs::INVERT) {
                folded = i64::from(!(folded as i32));
            }
            if self.signs.has(Signs::NEGATE) {
                folded = i64::from((folded as i32).wrapping_neg());
            }
        }
        let kept = if self.signs.has(Signs::NOT) { Signs::NOT } else { Signs::NONE };
        Operand { kind: OperandKind::Integer(folded), signs: kept, ..self }
    }
}
