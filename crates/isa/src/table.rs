//! The table as data: forms, fields, symbols and properties, generated from the files under `data/`.

use crate::Target;
use crate::widths::{Action, Condition, Kind, Role, Rule, Width};

/// A number kept in one or more runs of bits, least significant run first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// Lowest bit and width of each run; unused ones have width 0.
    pub runs: [(u8, u8); 4],
    /// Number of bits.
    pub width: u8,
    /// What the stored number is multiplied with.
    pub scale: u32,
    /// Whether it is stored complemented.
    pub complemented: bool,
    /// What is added to the stored number.
    pub bias: u32,
    /// All of the bits, as a mask over the instruction.
    pub mask: u128,
}

impl Bits {
    /// What a word has stored here.
    #[inline]
    pub fn stored(&self, word: u128) -> u64 {
        let (low, width) = self.runs[0];
        let mut value = (word >> low) as u64 & ones(width);
        let mut shift = width;
        for &(low, width) in &self.runs[1..] {
            if width == 0 {
                break;
            }
            value |= ((word >> low) as u64 & ones(width)) << shift;
            shift += width;
        }
        value
    }

    /// A stored value at its place.
    #[inline]
    pub fn place(&self, value: u64) -> u128 {
        let (low, width) = self.runs[0];
        let mut word = u128::from(value & ones(width)) << low;
        let mut shift = width;
        for &(low, width) in &self.runs[1..] {
            if width == 0 {
                break;
            }
            word |= u128::from(value >> shift & ones(width)) << low;
            shift += width;
        }
        word
    }

    /// The greatest value that fits.
    #[inline]
    pub fn limit(&self) -> u64 {
        ones(self.width)
    }

    /// The number without sign that a word has here.
    #[inline]
    pub fn unsigned(&self, word: u128) -> u64 {
        let stored = self.stored(word);
        if self.complemented { !stored & self.limit() } else { stored }
    }

    /// The number with sign that a word has here, scaled.
    #[inline]
    pub fn signed(&self, word: u128) -> i64 {
        let unused = 64 - u32::from(self.width);
        ((self.unsigned(word) << unused) as i64 >> unused).wrapping_mul(i64::from(self.scale))
    }
}

#[inline]
fn ones(width: u8) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// A modifier (`.FTZ`) or a name in an operand (`SR_TID.X`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Symbol(pub(crate) u16);

impl Symbol {
    const INVALID: u16 = 0x8000;

    /// Stands for a field's value that has no spelling.
    pub(crate) fn invalid(value: u64) -> Symbol {
        Symbol(Self::INVALID | value as u16)
    }

    /// The value, if this stands for one without spelling.
    pub(crate) fn invalid_value(self) -> Option<u64> {
        (self.0 & Self::INVALID != 0).then(|| u64::from(self.0 & !Self::INVALID))
    }

    /// The symbol with this spelling; modifiers start with a dot.
    pub fn find(spelling: &str) -> Option<Symbol> {
        if let Some(value) = spelling.trim_start_matches('.').strip_prefix("INVALID").and_then(|digits| digits.parse().ok()) {
            return (value < u64::from(Self::INVALID)).then(|| Symbol::invalid(value));
        }
        SYMBOLS.binary_search(&spelling).ok().map(|number| Symbol(number as u16))
    }

    /// Every symbol of the table.
    pub fn all() -> impl Iterator<Item = Symbol> {
        (0..SYMBOLS.len() as u16).map(Symbol)
    }

    /// Its position in the list of symbols; distinct for distinct symbols.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Its text, with the dot for modifiers; empty for values without spelling.
    pub fn spelling(self) -> &'static str {
        SYMBOLS.get(usize::from(self.0)).copied().unwrap_or_default()
    }
}

impl Opcode {
    /// The instruction with this mnemonic.
    pub fn find(mnemonic: &str) -> Option<Opcode> {
        MNEMONICS.binary_search(&mnemonic).ok().map(|number| OPCODES[number])
    }

    /// Every instruction.
    pub fn all() -> impl Iterator<Item = Opcode> {
        OPCODES.iter().copied()
    }

    /// Its text.
    pub fn mnemonic(self) -> &'static str {
        MNEMONICS[self as usize]
    }

    /// Its forms on all targets.
    pub fn forms(self) -> impl Iterator<Item = FormId> {
        let (start, end) = FORMS_OF[self as usize];
        (start..end).map(FormId)
    }

    /// What is known about it beyond its encoding.
    pub fn properties(self) -> &'static Properties {
        &PROPERTIES[self as usize]
    }
}

/// A form, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FormId(pub(crate) u16);

impl FormId {
    /// What the table says about it.
    #[inline]
    pub fn form(self) -> &'static Form {
        &FORMS[usize::from(self.0)]
    }

    /// Every form.
    pub fn all() -> impl Iterator<Item = FormId> {
        (0..FORMS.len() as u16).map(FormId)
    }
}

/// A property field, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FieldId(pub(crate) u16);

impl FieldId {
    /// What the table says about it.
    #[inline]
    pub fn field(self) -> &'static FieldSpec {
        &FIELDS[usize::from(self.0)]
    }
}

/// A property field: bits and how their values are spelled.
#[derive(Debug)]
pub struct FieldSpec {
    /// Name in the table.
    pub name: &'static str,
    /// Where it is kept.
    pub bits: Bits,
    /// The spelling of each value; `None` where no such value exists.
    pub spellings: &'static [Option<&'static [Symbol]>],
    /// The first value that prints nothing.
    pub nothing: Option<u16>,
    /// For each first symbol of a spelling, the bit of its number modulo 64.
    pub firsts: u64,
}

/// Which predicate guards a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// A predicate of the thread.
    Predicate,
    /// A uniform predicate.
    Uniform,
    /// None.
    None,
}

/// One encoding of an instruction.
#[derive(Debug)]
pub struct Form {
    /// Of which instruction.
    pub opcode: Opcode,
    /// One bit for each target.
    pub targets: u32,
    /// Opcode and other bits that tell it from other forms.
    pub mask: u128,
    /// What they must be.
    pub value: u128,
    /// The word before any field is set.
    pub default: u128,
    /// Bits with a meaning: the mask and every field.
    pub carried: u128,
    /// The guard.
    pub guard: Guard,
    /// Whether it may set a scoreboard when its operands have been read; nvdisasm refuses the words of other forms that do.
    pub sets_read_barrier: bool,
    /// Whether it may set a scoreboard when its results are there; likewise.
    pub sets_write_barrier: bool,
    /// Grows with the constraints; decides the contest.
    pub priority: u16,
    /// Modifiers of the mnemonic.
    pub modifiers: &'static [Piece],
    /// Operands.
    pub operands: &'static [Slot],
    /// Where the table describes it.
    pub place: &'static str,
}

/// A part of a modifier list.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// Always there.
    Literal(Symbol),
    /// What a field says.
    Field(FieldId),
    /// Depends on one bit.
    Flag {
        /// What is printed.
        symbol: Symbol,
        /// Which bit.
        bit: u8,
        /// At which value.
        when: bool,
    },
    /// Flag of the register cache, by bit; most are part of the control word.
    Reuse(u8),
    /// Derived from the operands.
    Alias,
}

/// When a sign stands in front of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When a bit has a value.
    When(u8, bool),
}

impl Sign {
    /// Whether it is there in a word.
    #[inline]
    pub fn is_set(self, word: u128) -> bool {
        match self {
            Sign::Never => false,
            Sign::Always => true,
            Sign::When(bit, when) => (word >> bit & 1 == 1) == when,
        }
    }
}

/// An operand of a form.
#[derive(Debug)]
pub struct Slot {
    /// `-`
    pub negate: Sign,
    /// `~`
    pub invert: Sign,
    /// `!`
    pub not: Sign,
    /// `|`
    pub absolute: Sign,
    /// What it is.
    pub core: Core,
    /// Modifiers behind it.
    pub suffixes: &'static [Piece],
    /// How many of them stand inside the bars.
    pub inside_bars: u8,
    /// The stored value at which it is left out.
    pub optional: Option<u64>,
    /// Never printed: the machine reads it, the text does not show it.
    pub hidden: bool,
}

/// A register file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

impl File {
    /// What register names start with.
    pub fn prefix(self) -> &'static str {
        match self {
            File::General => "R",
            File::Uniform => "UR",
            File::Predicate => "P",
            File::UniformPredicate => "UP",
            File::Convergence => "B",
            File::Scoreboard => "SB",
        }
    }

    /// The last letter of the register that is always zero or true, if the file has one.
    pub fn constant_letter(self) -> Option<char> {
        match self {
            File::General | File::Uniform => Some('Z'),
            File::Predicate | File::UniformPredicate => Some('T'),
            File::Convergence | File::Scoreboard => None,
        }
    }
}

/// How a number is read and printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
    /// A register and a number behind it.
    RegisterAndNumber(File, Bits, Format, Bits),
    /// A name that always stands there.
    Literal(Symbol),
    /// A name that a field holds.
    Field(FieldId),
    /// Something in brackets, after a word.
    Address(Symbol, &'static [Part]),
}

/// One pair of brackets.
#[derive(Debug)]
pub struct Part {
    /// What is added up.
    pub terms: &'static [Term],
    /// Modifiers behind the bracket.
    pub suffixes: &'static [Piece],
}

/// A summand of an address.
#[derive(Debug)]
pub enum Term {
    /// A register.
    Register {
        /// Which file.
        file: File,
        /// Where its number is.
        bits: Bits,
        /// Modifiers.
        suffixes: &'static [Piece],
        /// Whether the zero register is left out when something else is printed.
        omit: bool,
    },
    /// An offset.
    Number(Format, Bits),
}

/// What is known about an instruction beyond its encoding.
#[derive(Debug)]
pub struct Properties {
    /// The operands that a text begins with, up to the last that is written; those that a form does not have are skipped.
    pub leading: &'static [Leading],
    /// What it does beyond registers.
    pub effect: Effect,
    /// Which memory it touches.
    pub memory: Memory,
    /// Where it executes.
    pub pipe: Pipe,
    /// Targets on which its result comes after a known number of cycles, one bit each.
    pub(crate) fixed_latency: u32,
    /// Sources that may change places, counted from 0.
    pub commute: &'static [(u8, u8)],
}

impl Properties {
    /// Whether its result comes after a known number of cycles on a target.
    pub fn latency(&self, target: Target) -> Latency {
        if self.fixed_latency >> target.table_bit() & 1 == 1 { Latency::Fixed } else { Latency::Variable }
    }
}

/// One of the operands that a text begins with.
#[derive(Debug)]
pub struct Leading {
    /// Its register file is one of these.
    pub files: &'static [File],
    /// Whether the instruction writes it.
    pub written: bool,
}

/// What an instruction does beyond writing registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// Reads memory.
    Reads,
    /// Writes memory.
    Writes,
    /// Reads and writes memory.
    Updates,
    /// Changes the flow of control.
    Control,
    /// Waits for or signals other threads.
    Barrier,
    /// Orders memory accesses, those of asynchronous units included.
    Fence,
    /// Takes operands from other threads of the warp or acts for all of them: may be dropped, but not moved across control flow.
    Lanes,
    /// Reads what changes on its own (clocks, counters, special registers): may be dropped, but not merged or moved past waits.
    State,
    /// Something else that must not be dropped or duplicated.
    Other,
}

/// A kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Memory {
    None,
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    Texture,
    Surface,
    Tensor,
    Attribute,
}

/// A functional unit, coarsely; the hardware model refines it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Pipe {
    Alu,
    Fma,
    Half,
    Double,
    Xu,
    Lsu,
    Tex,
    Tensor,
    Uniform,
    Branch,
    Async,
    None,
}

/// How the time until the result is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Latency {
    /// A number of cycles.
    Fixed,
    /// A scoreboard has to be waited for.
    Variable,
}

include!(concat!(env!("OUT_DIR"), "/table.rs"));
