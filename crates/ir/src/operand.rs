//! Operands of instructions, and the register classes of values.

use oriole_isa::{Opcode, RegFile, Symbol};

use crate::ids::{Block, Value};

/// The registers that a value needs: register file, number of consecutive registers, alignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Class {
    /// The register file.
    pub file: RegFile,
    /// Number of registers, 1 to 128.
    pub width: u8,
    /// The number of the first register is a multiple of this power of two.
    pub align: u8,
}

impl Class {
    /// One 32-bit register.
    pub const R: Class = Class::new(RegFile::General, 1);
    /// An aligned pair: 64 bits.
    pub const R2: Class = Class::new(RegFile::General, 2);
    /// An aligned quad: 128 bits.
    pub const R4: Class = Class::new(RegFile::General, 4);
    /// One uniform register.
    pub const UR: Class = Class::new(RegFile::Uniform, 1);
    /// An aligned pair of uniform registers.
    pub const UR2: Class = Class::new(RegFile::Uniform, 2);
    /// A predicate.
    pub const P: Class = Class::new(RegFile::Predicate, 1);
    /// A uniform predicate.
    pub const UP: Class = Class::new(RegFile::UniformPredicate, 1);
    /// A convergence barrier.
    pub const B: Class = Class::new(RegFile::Convergence, 1);

    /// Returns the class of `width` consecutive registers with the alignment that the machine requires: the next power of two, at most 4.
    pub const fn new(file: RegFile, width: u8) -> Class {
        let align = match width {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        };
        Class { file, width, align }
    }
}

/// Consecutive registers of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The value.
    pub value: Value,
    /// The first of these registers, counted from the first register of the value.
    pub first: u8,
    /// The number of registers.
    pub count: u8,
}

/// Maximum number of modifiers after an operand. The descriptors of a warpgroup matrix product have up to three.
pub const MAX_SUFFIXES: usize = 3;

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The content of the operand.
    pub kind: OperandKind,
    /// The position of the operand in the instruction.
    pub role: Role,
    /// Signs before the operand.
    pub signs: Signs,
    /// Modifiers after the operand (`.H0_H0`, `.64`); [`Symbol::NAME_`] for none.
    pub suffixes: [Symbol; MAX_SUFFIXES],
}

/// The content of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperandKind {
    /// Registers of a value.
    Value(Part),
    /// Physical registers, after allocation.
    Register {
        /// The register file.
        file: RegFile,
        /// The number of the first register.
        first: u16,
        /// The number of registers.
        count: u8,
    },
    /// The register that is always zero or true (RZ, PT, URZ, UPT); as a result it discards the value.
    Zero(RegFile),
    /// An immediate: an integer, or the bits of a floating-point number.
    Integer(i64),
    /// A word of a constant bank at a constant offset.
    Constant {
        /// The bank.
        bank: u8,
        /// The offset in bytes.
        offset: u32,
    },
    /// A name, for example that of a special register.
    Name(Symbol),
    /// A set of numbers below 64, one bit each.
    Set(u64),
    /// A branch target; in a phi, the predecessor that the preceding operand belongs to.
    Block(Block),
    /// An address or offset that is filled in by a relocation or by a later pass.
    Reference(Reference),
    /// The start of an address in brackets; its terms follow as operands with [`Role::Bracket`]. The word before the bracket (`desc`, `c`)
    /// may be empty.
    Address(Symbol),
    /// No value: the source of a phi for a path on which the variable is not assigned.
    Undefined,
}

/// A part of the address of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reference {
    /// Position in [`crate::Function::symbols`].
    pub symbol: u32,
    /// Number added to the address, in bytes.
    pub offset: i32,
    /// The part of the address.
    pub kind: ReferenceKind,
}

/// The part of an address that a [`Reference`] denotes.
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
    /// The target of a call.
    Call,
    /// The lower 32 bits of the return address of the next call in this function.
    ReturnLow,
    /// The upper 32 bits of the return address of the next call in this function.
    ReturnHigh,
    /// A parameter on the caller's stack: its offset from this function's stack pointer, which is known when the size of the frame is.
    Incoming,
    /// The offset of a variable in shared memory, counted from the end of the part that the system reserves.
    SharedOffset,
    /// The offset of a variable in constant bank 3.
    ConstantOffset,
    /// A 32-bit number that the CUDA driver knows by the name of the symbol.
    DriverNumber,
    /// The place in the constant banks of the word for a texture, sampler or surface reference. The linker chooses it.
    ImageWord,
}

/// The position of an operand in its instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// An operand of its own.
    Plain,
    /// A term inside the bracket with this number of the preceding [`OperandKind::Address`].
    Bracket(u8),
    /// The old content of the result with this number: shares its register, and is the result's value where the guard does not hold.
    Tied(u8),
    /// Must be in this register when the instruction executes. Used for calls, whose arguments are not encoded.
    Fixed(u8),
}

/// Signs before an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Signs {
    bits: u8,
}

impl Signs {
    /// No sign.
    pub const NONE: Signs = Signs { bits: 0 };
    /// `-`: arithmetic negation.
    pub const NEGATE: Signs = Signs { bits: 1 };
    /// `~`: bitwise inversion.
    pub const INVERT: Signs = Signs { bits: 2 };
    /// `!`: inversion of a predicate.
    pub const NOT: Signs = Signs { bits: 4 };
    /// `|x|`: absolute value.
    pub const ABSOLUTE: Signs = Signs { bits: 8 };

    /// Returns whether all signs of `other` are present.
    pub fn has(self, other: Signs) -> bool {
        self.bits & other.bits == other.bits
    }

    /// Returns whether there is no sign.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Returns the union.
    #[must_use]
    pub fn with(self, other: Signs) -> Signs {
        Signs { bits: self.bits | other.bits }
    }

    /// Returns the signs without those of `other`.
    #[must_use]
    pub fn without(self, other: Signs) -> Signs {
        Signs { bits: self.bits & !other.bits }
    }

    /// Returns the symmetric difference: negating `-a` gives `a`.
    #[must_use]
    pub fn toggled(self, other: Signs) -> Signs {
        Signs { bits: self.bits ^ other.bits }
    }
}

/// The predicate under which an instruction executes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// A predicate value, a physical predicate, or [`OperandKind::Zero`], which is always true.
    pub kind: OperandKind,
    /// Whether the instruction executes where the predicate is false.
    pub negated: bool,
}

impl Operand {
    /// Creates an operand without role, signs and suffixes.
    pub const fn new(kind: OperandKind) -> Operand {
        Operand { kind, role: Role::Plain, signs: Signs::NONE, suffixes: [Symbol::NAME_; MAX_SUFFIXES] }
    }

    /// The zero register.
    pub const RZ: Operand = Operand::new(OperandKind::Zero(RegFile::General));
    /// The predicate that is always true.
    pub const PT: Operand = Operand::new(OperandKind::Zero(RegFile::Predicate));
    /// The uniform zero register.
    pub const URZ: Operand = Operand::new(OperandKind::Zero(RegFile::Uniform));
    /// The uniform predicate that is always true.
    pub const UPT: Operand = Operand::new(OperandKind::Zero(RegFile::UniformPredicate));

    /// Returns a word of a constant bank; `offset` is in bytes.
    pub const fn constant(bank: u8, offset: u32) -> Operand {
        Operand::new(OperandKind::Constant { bank, offset })
    }

    /// Returns the part of a value that it denotes; `None` if it is no value.
    pub fn part(&self) -> Option<Part> {
        if let OperandKind::Value(part) = self.kind { Some(part) } else { None }
    }

    /// Returns the value that it denotes; `None` if it is no value.
    pub fn value(&self) -> Option<Value> {
        self.part().map(|part| part.value)
    }

    /// Returns the immediate, without applying signs; `None` if it is none.
    pub fn integer(&self) -> Option<i64> {
        if let OperandKind::Integer(number) = self.kind { Some(number) } else { None }
    }

    /// Returns the operand with the given signs instead of its own.
    #[must_use]
    pub fn with_signs(self, signs: Signs) -> Operand {
        Operand { signs, ..self }
    }

    /// Returns the operand with the given role.
    #[must_use]
    pub fn with_role(self, role: Role) -> Operand {
        Operand { role, ..self }
    }

    /// Returns the negated operand; a double negation cancels.
    #[must_use]
    pub fn negated(self) -> Operand {
        self.with_signs(self.signs.toggled(Signs::NEGATE))
    }

    /// Returns the inverted predicate; a double inversion cancels.
    #[must_use]
    pub fn inverted_predicate(self) -> Operand {
        self.with_signs(self.signs.toggled(Signs::NOT))
    }

    /// Returns the absolute value of the operand.
    #[must_use]
    pub fn absolute(self) -> Operand {
        self.with_signs(self.signs.with(Signs::ABSOLUTE).without(Signs::NEGATE))
    }

    /// Returns the operand with one modifier after it.
    #[must_use]
    pub fn with_suffix(self, suffix: Symbol) -> Operand {
        Operand { suffixes: [suffix, Symbol::NAME_, Symbol::NAME_], ..self }
    }

    /// Returns the modifiers after the operand.
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
    /// Folds the signs of an immediate into its bits, as instructions with this opcode interpret them. Returns other operands unchanged.
    #[must_use]
    pub fn with_signs_folded(self, opcode: Opcode) -> Operand {
        let OperandKind::Integer(number) = self.kind else { return self };
        if self.signs.is_empty() {
            return self;
        }
        if number == 0 && self.signs.has(Signs::NEGATE) && opcode == Opcode::IADD3 {
            // `IADD3` with `-0` as a subtraction sets the carry (`a + ~0 + 1`), with `+0` it does not; `-RZ` keeps the subtraction.
            return Operand { kind: OperandKind::Zero(RegFile::General), ..self };
        }
        let is_integer = matches!(opcode, Opcode::MOV | Opcode::FLO);
        let float_sign: Option<i64> = match opcode.mnemonic().as_bytes().first().filter(|_| !is_integer) {
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
