//! What a table file says, before it becomes Rust data.

/// Machine targets in the order of the bits of a target set.
pub const TARGETS: &[u16] = &[75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

/// All instructions of all files.
#[derive(Default, Debug)]
pub struct Table {
    /// In the order of the files.
    pub instructions: Vec<Instruction>,
}

/// One mnemonic with its fields and forms.
#[derive(Debug)]
pub struct Instruction {
    /// What the text starts with, without modifiers.
    pub mnemonic: String,
    /// Property fields, referred to by the forms.
    pub fields: Vec<Field>,
    /// Encodings.
    pub forms: Vec<Form>,
    /// File and line, for messages.
    pub place: String,
}

/// A property field: bits and how their values are spelled.
#[derive(Debug, Clone)]
pub struct Field {
    /// Name within the instruction.
    pub name: String,
    /// Where it is kept.
    pub bits: Bits,
    /// For each value its spelling in pieces; `None` where no such value exists.
    pub spellings: Vec<Option<Vec<String>>>,
}

/// A number kept in one or more runs of bits, least significant run first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bits {
    /// Lowest bit and width of each run.
    pub runs: Vec<(u8, u8)>,
    /// What the stored number is multiplied with.
    pub scale: u32,
    /// Whether it is stored complemented.
    pub complemented: bool,
    /// What is added to the stored number.
    pub bias: u32,
}

impl Bits {
    /// Number of bits.
    pub fn width(&self) -> u32 {
        self.runs.iter().map(|run| u32::from(run.1)).sum()
    }

    /// The bits as a mask over the instruction.
    pub fn mask(&self) -> u128 {
        self.runs.iter().fold(0, |mask, &(low, width)| mask | ((1u128 << width) - 1) << low)
    }

    /// A value put where the bits are, unscaled.
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

/// Which predicate guards a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// A predicate of the thread.
    Predicate,
    /// A uniform predicate.
    Uniform,
    /// None; the bits are ignored.
    None,
}

/// One encoding.
#[derive(Debug)]
pub struct Form {
    /// Bits 11..0.
    pub opcode: u16,
    /// One bit for each of [`TARGETS`].
    pub targets: u32,
    /// Bits that tell the form from others.
    pub fixed: Vec<(Bits, u64)>,
    /// Meaningless bits that are not zero by default.
    pub with: Vec<(Bits, u64)>,
    /// The guard.
    pub guard: Guard,
    /// Whether it can never set a scoreboard when its operands have been read.
    pub never_read_barrier: bool,
    /// Whether it can never set a scoreboard when its results are there.
    pub never_write_barrier: bool,
    /// Modifiers of the mnemonic.
    pub modifiers: Vec<Piece>,
    /// Operands.
    pub operands: Vec<Slot>,
    /// File and line, for messages.
    pub place: String,
}

/// A part of a modifier list or of an operand's suffixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Always printed.
    Literal(String),
    /// A field of the instruction, by position.
    Field(usize),
    /// Printed depending on one bit.
    Flag {
        /// What is printed.
        text: String,
        /// Which bit.
        bit: u8,
        /// At which value.
        when: bool,
    },
    /// The operand's flag in the register cache.
    Reuse(u8),
    /// Derived modifiers of this name.
    Alias(String),
}

/// A sign in front of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// `-`, `~`, `!` or `|`.
    pub symbol: char,
    /// The bit and the value at which it is printed; always if none.
    pub condition: Option<(u8, bool)>,
}

/// An operand.
#[derive(Debug)]
pub struct Slot {
    /// Signs.
    pub prefixes: Vec<Prefix>,
    /// What it is.
    pub core: Core,
    /// Modifiers behind it.
    pub suffixes: Vec<Piece>,
    /// How many suffixes stand inside the absolute-value bars.
    pub inside_bars: usize,
    /// The stored value at which the operand is not printed.
    pub optional: Option<u64>,
    /// Never printed: the machine reads it, the text does not show it.
    pub hidden: bool,
}

/// A register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File {
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

/// How a number is read and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Hexadecimal without sign.
    Unsigned,
    /// Hexadecimal, two's complement.
    Signed,
    /// IEEE single.
    F32,
    /// The upper half of an IEEE double.
    F64High,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Distance from the next instruction.
    Relative,
    /// A set of bit numbers.
    Set,
    /// As [`Format::Signed`], with its sign also where it is the only term of an address.
    SignedAlone,
    /// As [`Format::Signed`], behind a register, printed also when 0.
    Absolute,
}

/// The kind of an operand.
#[derive(Debug)]
pub enum Core {
    /// A register.
    Register(File, Bits),
    /// A number.
    Number(Format, Bits),
    /// A register followed by a number.
    RegisterAndNumber(File, Bits, Format, Bits),
    /// A name that always stands there.
    Literal(String),
    /// A name that a field holds.
    Field(usize),
    /// Something in brackets.
    Address(String, Vec<Part>),
}

/// One pair of brackets.
#[derive(Debug)]
pub struct Part {
    /// What is added up.
    pub terms: Vec<Term>,
    /// Modifiers behind the bracket.
    pub suffixes: Vec<Piece>,
}

/// A summand of an address.
#[derive(Debug)]
pub enum Term {
    /// A register with its modifiers; `omit`: not printed when it is the zero register and something else is.
    Register {
        /// Which file.
        file: File,
        /// Where its number is.
        bits: Bits,
        /// Modifiers.
        suffixes: Vec<Piece>,
        /// Whether the zero register is left out.
        omit: bool,
    },
    /// An offset.
    Number(Format, Bits),
}

/// Modifiers that are derived from operands when printing and carry no bits.
pub const ALIAS_MODIFIERS: &[&str] = &[".MOV", ".IADD", ".SHL"];
