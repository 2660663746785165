//! The contents of the table files, before Rust data is generated from them.

/// Targets in the order of the bits of a target set.
pub const TARGETS: &[u16] = &[70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

/// All instructions of all files.
#[derive(Default, Debug)]
pub struct Table {
    /// The instructions, in the order of the files.
    pub instructions: Vec<Instruction>,
}

/// One mnemonic with its fields and forms.
#[derive(Debug)]
pub struct Instruction {
    /// The mnemonic, without modifiers.
    pub mnemonic: String,
    /// Property fields; forms refer to them by index.
    pub fields: Vec<Field>,
    /// The encodings.
    pub forms: Vec<Form>,
    /// File and line, for error messages.
    pub place: String,
}

/// A property field: bits of the encoding whose values select modifiers or names.
#[derive(Debug, Clone)]
pub struct Field {
    /// Name, unique within the instruction.
    pub name: String,
    /// The bits that hold the value.
    pub bits: Bits,
    /// The spelling of each value as a list of modifiers; `None` for values that do not exist.
    pub spellings: Vec<Option<Vec<String>>>,
}

/// A number stored in one or more runs of consecutive bits, the least significant run first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bits {
    /// Lowest bit and width of each run.
    pub runs: Vec<(u8, u8)>,
    /// Factor by which the stored number is multiplied.
    pub scale: u32,
    /// Whether the bits are stored complemented.
    pub complemented: bool,
    /// Number added to the stored number.
    pub bias: u32,
}

impl Bits {
    /// Returns the total number of bits.
    pub fn width(&self) -> u32 {
        self.runs.iter().map(|run| u32::from(run.1)).sum()
    }

    /// Returns the mask of the bits in the instruction word.
    pub fn mask(&self) -> u128 {
        self.runs.iter().fold(0, |mask, &(low, width)| mask | ((1u128 << width) - 1) << low)
    }

    /// Returns an instruction word with `value` stored in these bits, without scale, bias or complement.
    pub fn place(&self, value: u64) -> u128 {
        let mut rest = u128::from(value);
        let mut word = 0;
        for &(low, width) in &self.runs {
            word |= (rest & ((1 << width) - 1)) << low;
            rest >>= width;
        }
        word
    }
}

/// The kind of predicate that guards a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardKind {
    /// A predicate (`P`).
    Predicate,
    /// A uniform predicate (`UP`).
    Uniform,
    /// The form has no guard; the guard bits are free.
    None,
}

/// One encoding of an instruction.
#[derive(Debug)]
pub struct Form {
    /// Bits 11..0 of the word.
    pub opcode: u16,
    /// The targets that have this form, one bit for each of [`TARGETS`].
    pub targets: u32,
    /// Bits with required values, which distinguish the form from others.
    pub fixed: Vec<(Bits, u64)>,
    /// Bits without a meaning whose default is not zero.
    pub with: Vec<(Bits, u64)>,
    /// Values of some bits that words of this form may not have; they may share no bits with `fixed`.
    pub excluded: Vec<(Bits, u64)>,
    /// The kind of guard.
    pub guard: GuardKind,
    /// Whether the form may not set a read barrier (a scoreboard released when the operands have been read).
    pub never_read_barrier: bool,
    /// Whether the form may not set a write barrier (a scoreboard released when the results are written).
    pub never_write_barrier: bool,
    /// Modifiers of the mnemonic, in the order in which they are printed.
    pub modifiers: Vec<Piece>,
    /// Operands, in the order in which they are printed.
    pub operands: Vec<Slot>,
    /// File and line, for error messages.
    pub place: String,
}

/// One element of a modifier list or of an operand's suffixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A modifier that is always printed.
    Literal(String),
    /// A field of the instruction, by index.
    Field(usize),
    /// A modifier that depends on one bit.
    Flag {
        /// The modifier.
        text: String,
        /// The bit.
        bit: u8,
        /// The value of the bit at which the modifier is printed.
        when: bool,
    },
    /// The reuse-cache flag of the operand, by bit number.
    Reuse(u8),
    /// A modifier derived from the operands; the name of the rule.
    Alias(String),
}

/// A sign operator before an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// `-`, `~`, `!` or `|`.
    pub symbol: char,
    /// The bit and the value at which the operator is printed; `None` if it is always printed.
    pub condition: Option<(u8, bool)>,
}

/// An operand position of a form.
#[derive(Debug)]
pub struct Slot {
    /// Sign operators.
    pub prefixes: Vec<Prefix>,
    /// The kind of operand and where it is stored.
    pub core: Core,
    /// Modifiers printed after the operand.
    pub suffixes: Vec<Piece>,
    /// Number of suffixes printed inside the bars of an absolute value.
    pub inside_bars: usize,
    /// The stored value at which the operand is not printed; `None` for operands that are always printed.
    pub optional: Option<u64>,
    /// Whether the operand is never printed although the hardware reads it.
    pub hidden: bool,
}

/// A register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegFile {
    /// `R`
    General,
    /// `UR`
    Uniform,
    /// `P`
    Predicate,
    /// `UP`
    UniformPredicate,
    /// `B`
    Convergence,
    /// `SB`
    Scoreboard,
}

/// How a number is stored and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberFormat {
    /// Unsigned, hexadecimal.
    Unsigned,
    /// Two's complement, hexadecimal. Printed unsigned if it is the only term of an address.
    Signed,
    /// IEEE single precision.
    F32,
    /// The upper half of an IEEE double-precision number.
    F64High,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// Distance in bytes from the next instruction.
    Relative,
    /// A set of bit numbers, printed in braces.
    Set,
    /// Like [`NumberFormat::Signed`], but printed with its sign even if it is the only term of an address.
    SignedAlone,
    /// Like [`NumberFormat::Signed`], after a register, and printed even if it is 0.
    Absolute,
}

/// The kind of an operand, with the bits that hold it.
#[derive(Debug)]
pub enum Core {
    /// A register.
    Register(RegFile, Bits),
    /// A number.
    Number(NumberFormat, Bits),
    /// A register followed by a number.
    RegisterAndNumber(RegFile, Bits, NumberFormat, Bits),
    /// A fixed name.
    Literal(String),
    /// A name selected by a field.
    Field(usize),
    /// A word, possibly empty, followed by pairs of brackets.
    Address(String, Vec<BracketPart>),
}

/// The contents of one pair of brackets.
#[derive(Debug)]
pub struct BracketPart {
    /// The terms of the sum.
    pub terms: Vec<Term>,
    /// Modifiers printed after the closing bracket.
    pub suffixes: Vec<Piece>,
}

/// One term of the sum in an address.
#[derive(Debug)]
pub enum Term {
    /// A register with its modifiers.
    Register {
        /// The register file.
        file: RegFile,
        /// The bits that hold the register number.
        bits: Bits,
        /// Modifiers of the register.
        suffixes: Vec<Piece>,
        /// Whether the zero register is not printed if another term is.
        omit: bool,
    },
    /// A constant offset.
    Number(NumberFormat, Bits),
}

/// The derived modifiers. They depend on the operands and have no bits.
pub const ALIAS_MODIFIERS: &[&str] = &[".MOV", ".IADD", ".SHL"];
