//! The instruction table as constant data: forms, fields, symbols and properties, generated from the files under `data/`.

use crate::Target;
use crate::encodings::table_set;
use crate::widths::{Condition, OperandPurpose, OperandRole, Width, WidthAction, WidthRule};

/// A number stored in one or more runs of consecutive bits, the least significant run first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// Lowest bit and width of each run; unused runs have width 0.
    pub runs: [(u8, u8); 4],
    /// Total number of bits.
    pub width: u8,
    /// Factor by which the stored number is multiplied.
    pub scale: u32,
    /// Whether the bits are stored complemented.
    pub complemented: bool,
    /// Number added to the stored number.
    pub bias: u32,
    /// Mask of the bits in the instruction word.
    pub mask: u128,
}

impl Bits {
    /// Returns the stored bits of a word, without complement, bias and scale.
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

    /// Returns an instruction word with `value` stored in these bits and zeros elsewhere.
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

    /// Returns the largest value that fits.
    #[inline]
    pub fn limit(&self) -> u64 {
        ones(self.width)
    }

    /// Returns the number in a word as unsigned, complement undone, not scaled.
    #[inline]
    pub fn unsigned(&self, word: u128) -> u64 {
        let stored = self.stored(word);
        if self.complemented { !stored & self.limit() } else { stored }
    }

    /// Returns the number in a word as two's complement, scaled.
    #[inline]
    pub fn signed(&self, word: u128) -> i64 {
        let unused = 64 - u32::from(self.width);
        ((self.unsigned(word) << unused) as i64 >> unused).wrapping_mul(i64::from(self.scale))
    }
}

/// Returns a mask of the lowest `width` bits.
#[inline]
fn ones(width: u8) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// A modifier (`.FTZ`) or a name used as an operand (`SR_TID.X`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Symbol(pub(crate) u16);

impl Symbol {
    /// Flag of symbols that hold a field value without a spelling.
    const INVALID: u16 = 0x8000;

    /// Returns whether the symbol names an invariant special register: one that has the same value as long as the thread runs. Clocks,
    /// counters and the physical location, such as the multiprocessor number, are not invariant.
    pub fn is_invariant_special_register(self) -> bool {
        const INVARIANT: [&str; 18] = [
            "SR_LANEID",
            "SR_TID",
            "SR_TID.X",
            "SR_TID.Y",
            "SR_TID.Z",
            "SR_CTAID.X",
            "SR_CTAID.Y",
            "SR_CTAID.Z",
            "SR_NTID",
            "SR_EQMASK",
            "SR_LTMASK",
            "SR_LEMASK",
            "SR_GTMASK",
            "SR_GEMASK",
            "SR_SWINHI",
            "SR_LWINHI",
            "SR_CgaCtaId",
            "SRZ",
        ];
        INVARIANT.contains(&self.spelling())
    }

    /// Returns the symbol for a field value that has no spelling; it prints as `.INVALIDn`.
    pub(crate) fn invalid(value: u64) -> Symbol {
        Symbol(Self::INVALID | value as u16)
    }

    /// Returns the field value if the symbol stands for a value without a spelling.
    pub(crate) fn invalid_value(self) -> Option<u64> {
        (self.0 & Self::INVALID != 0).then(|| u64::from(self.0 & !Self::INVALID))
    }

    /// Finds the symbol with this spelling; the spelling of a modifier starts with a dot.
    pub fn find(spelling: &str) -> Option<Symbol> {
        if let Some(value) = spelling.trim_start_matches('.').strip_prefix("INVALID").and_then(|digits| digits.parse().ok()) {
            return (value < u64::from(Self::INVALID)).then(|| Symbol::invalid(value));
        }
        SYMBOLS.binary_search(&spelling).ok().map(|number| Symbol(number as u16))
    }

    /// Returns all symbols of the table.
    pub fn all() -> impl Iterator<Item = Symbol> {
        (0..SYMBOLS.len() as u16).map(Symbol)
    }

    /// Returns the index in the list of symbols, which is unique to the symbol.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Returns the text, with the dot of a modifier; empty for values without a spelling.
    pub fn spelling(self) -> &'static str {
        SYMBOLS.get(usize::from(self.0)).copied().unwrap_or_default()
    }
}

impl Opcode {
    /// Finds the opcode with this mnemonic.
    pub fn find(mnemonic: &str) -> Option<Opcode> {
        MNEMONICS.binary_search(&mnemonic).ok().map(|number| OPCODES[number])
    }

    /// Returns all opcodes.
    pub fn all() -> impl Iterator<Item = Opcode> {
        OPCODES.iter().copied()
    }

    /// Returns the mnemonic.
    pub fn mnemonic(self) -> &'static str {
        MNEMONICS[self as usize]
    }

    /// Returns the forms of the instruction on all targets, highest priority first.
    pub fn forms(self) -> impl Iterator<Item = FormId> {
        let (start, end) = FORMS_OF[self as usize];
        (start..end).map(FormId)
    }

    /// Returns whether a target has any form of the instruction.
    pub fn exists_on(self, target: Target) -> bool {
        let target = table_set(target);
        self.forms().any(|id| id.form().targets & target != 0)
    }

    /// Returns whether the instruction is a matrix product of a warpgroup (`wgmma`): it runs in the background, updates its accumulator in
    /// place, and `WARPGROUP.DEPBAR` waits for it.
    pub fn is_warpgroup_product(self) -> bool {
        matches!(self, Opcode::BGMMA | Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA)
    }

    /// Returns the facts about the instruction other than its encoding.
    pub fn properties(self) -> &'static Properties {
        &PROPERTIES[self as usize]
    }
}

/// Index of a form in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FormId(pub(crate) u16);

impl FormId {
    /// Returns the form.
    #[inline]
    pub fn form(self) -> &'static Form {
        &FORMS[usize::from(self.0)]
    }

    /// Returns the filter of the form.
    #[inline]
    pub(crate) fn filter(self) -> &'static FormFilter {
        &FORM_FILTERS[usize::from(self.0)]
    }

    /// Returns all forms.
    pub fn all() -> impl Iterator<Item = FormId> {
        (0..FORMS.len() as u16).map(FormId)
    }
}

/// Index of a property field in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FieldId(pub(crate) u16);

impl FieldId {
    /// Returns the field.
    #[inline]
    pub fn field(self) -> &'static FieldSpec {
        &FIELDS[usize::from(self.0)]
    }
}

/// A property field: bits of the encoding whose values select modifiers or names.
#[derive(Debug)]
pub struct FieldSpec {
    /// Name of the field in the table.
    pub name: &'static str,
    /// The bits that hold the value.
    pub bits: Bits,
    /// The spelling of each value; `None` for values that do not exist.
    pub spellings: &'static [Option<&'static [Symbol]>],
    /// The first value with an empty spelling; `None` if every value prints something.
    pub nothing: Option<u16>,
    /// A 64-bit filter over the first symbols of all spellings: bit `symbol.number() % 64` is set for each of them.
    pub firsts: u64,
}

/// The kind of predicate that guards a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardKind {
    /// A predicate (`P`).
    Predicate,
    /// A uniform predicate (`UP`).
    Uniform,
    /// The form has no guard.
    None,
}

/// One encoding of an instruction.
#[derive(Debug)]
pub struct Form {
    /// The instruction.
    pub opcode: Opcode,
    /// The targets that have this form, one bit each.
    pub targets: u32,
    /// The bits that identify the form: opcode and fixed bits.
    pub mask: u128,
    /// The values of the bits in `mask`.
    pub value: u128,
    /// The word before any field is stored.
    pub default: u128,
    /// The bits that have a meaning: `mask` and all fields.
    pub carried: u128,
    /// Bits, as masks, each with a value that words of this form may not have in them: nvdisasm rejects such words, or has no name for the
    /// operand.
    pub excluded: &'static [(u128, u128)],
    /// The kind of guard.
    pub guard: GuardKind,
    /// Whether the form may set a read barrier. nvdisasm rejects words that set one in a form that may not.
    pub sets_read_barrier: bool,
    /// Whether the form may set a write barrier. nvdisasm rejects words that set one in a form that may not.
    pub sets_write_barrier: bool,
    /// Number that grows with the constraints of the form; of the forms that match an instruction the one with the highest priority is
    /// used.
    pub priority: u16,
    /// Modifiers of the mnemonic, in the order in which they are printed.
    pub modifiers: &'static [Piece],
    /// Operands in the order in which they are printed.
    pub operands: &'static [Slot],
    /// File and line of the description in the table.
    pub place: &'static str,
}

impl Form {
    /// Returns whether a word with the form's opcode and fixed bits has a value that the form excludes.
    #[inline]
    pub(crate) fn excludes(&self, word: u128) -> bool {
        self.excluded.iter().any(|&(mask, value)| word & mask == value)
    }
}

/// The facts about a form that exclude most instructions that do not fit it. The filters of all forms are in a table of their own, because the forms of
/// a mnemonic with their operands take many times as much memory, which would have to be read for each instruction.
#[derive(Debug)]
pub(crate) struct FormFilter {
    /// A Bloom filter of the modifiers that an instruction of the form may have: bit `symbol.number() % 64` is set for each of them.
    pub printed: u64,
    /// The filter of the modifiers that every instruction of the form has.
    pub required: u64,
    /// Kinds of the first 16 operands, four bits each ([`crate::instruction::OperandValue::kind_code`]); 0 for an operand of several kinds.
    pub kinds: u64,
    /// The targets that have the form, one bit each.
    pub targets: u32,
    /// Number of operands.
    pub most_operands: u8,
    /// Number of operands that are not optional.
    pub least_operands: u8,
}

/// One element of a modifier list.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// A modifier that is always printed.
    Literal(Symbol),
    /// The modifiers that the value of a field selects.
    Field(FieldId),
    /// A modifier that depends on one bit.
    Flag {
        /// The modifier.
        symbol: Symbol,
        /// The bit.
        bit: u8,
        /// The value of the bit at which the modifier is printed.
        when: bool,
    },
    /// A reuse-cache flag, by bit number. Most of these bits belong to the control word.
    Reuse(u8),
    /// A modifier derived from the operands, without bits of its own.
    Alias,
}

/// Condition under which a sign operator applies to an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// Never.
    Never,
    /// Always.
    Always,
    /// If the bit with this number has this value.
    When(u8, bool),
}

impl Sign {
    /// Returns whether the sign operator applies in `word`.
    #[inline]
    pub fn is_set(self, word: u128) -> bool {
        match self {
            Sign::Never => false,
            Sign::Always => true,
            Sign::When(bit, when) => (word >> bit & 1 == 1) == when,
        }
    }
}

/// An operand position of a form.
#[derive(Debug)]
pub struct Slot {
    /// Arithmetic negation, printed `-`.
    pub negate: Sign,
    /// Bitwise complement, printed `~`.
    pub invert: Sign,
    /// Predicate negation, printed `!`.
    pub not: Sign,
    /// Absolute value, printed `|...|`.
    pub absolute: Sign,
    /// The kind of operand and where it is stored.
    pub core: Core,
    /// Modifiers printed after the operand.
    pub suffixes: &'static [Piece],
    /// Number of suffixes printed inside the bars of an absolute value.
    pub inside_bars: u8,
    /// The stored value at which the operand is not printed; `None` for operands that are always printed.
    pub optional: Option<u64>,
    /// Whether the operand is never printed although the hardware reads it.
    pub hidden: bool,
}

/// A register file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

impl RegFile {
    /// Returns the letters with which register names start.
    pub fn prefix(self) -> &'static str {
        match self {
            RegFile::General => "R",
            RegFile::Uniform => "UR",
            RegFile::Predicate => "P",
            RegFile::UniformPredicate => "UP",
            RegFile::Convergence => "B",
            RegFile::Scoreboard => "SB",
        }
    }

    /// Returns the letter in the name of the constant register (`RZ`, `PT`); `None` if the file has no constant register.
    pub fn constant_letter(self) -> Option<char> {
        match self {
            RegFile::General | RegFile::Uniform => Some('Z'),
            RegFile::Predicate | RegFile::UniformPredicate => Some('T'),
            RegFile::Convergence | RegFile::Scoreboard => None,
        }
    }
}

/// How a number is stored and printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
    Literal(Symbol),
    /// A name selected by a field.
    Field(FieldId),
    /// A word, possibly empty, followed by pairs of brackets.
    Address(Symbol, &'static [BracketPart]),
}

/// The contents of one pair of brackets.
#[derive(Debug)]
pub struct BracketPart {
    /// The terms of the sum.
    pub terms: &'static [Term],
    /// Modifiers printed after the closing bracket.
    pub suffixes: &'static [Piece],
}

/// One term of the sum in an address.
#[derive(Debug)]
pub enum Term {
    /// A register.
    Register {
        /// The register file.
        file: RegFile,
        /// The bits that hold the register number.
        bits: Bits,
        /// Modifiers of the register.
        suffixes: &'static [Piece],
        /// Whether the zero register is not printed if another term is.
        omit: bool,
    },
    /// A constant offset.
    Number(NumberFormat, Bits),
}

/// Facts about an instruction other than its encoding.
#[derive(Debug)]
pub struct Properties {
    /// The first operands of the text, up to the last one that is written. Entries that a form does not have are skipped.
    pub leading: &'static [Leading],
    /// The effect other than writing registers.
    pub effect: Effect,
    /// The memory that the instruction accesses.
    pub memory: Memory,
    /// The functional unit.
    pub pipe: Pipe,
    /// The targets on which the latency of the result is fixed, one bit each.
    pub(crate) fixed_latency: u32,
    /// Pairs of sources that may be swapped, as indices among the sources.
    pub commute: &'static [(u8, u8)],
    /// Pairs of sources of which at most one may have a sign, as indices among the sources.
    pub one_sign: &'static [(u8, u8)],
    /// Whether a thread may wait for other threads of its warp or thread block at the instruction.
    pub waits_for_threads: bool,
    /// For an instruction with the effect of a barrier or another effect: whether it only synchronizes threads of the thread block or waits
    /// for asynchronous copies, and does not change which threads of the warp are active.
    pub keeps_active_threads: bool,
    /// Whether later memory accesses wait until this fence or barrier is complete. Asynchronous instructions, such as `LDGDEPBAR` and bulk
    /// copies, only have to be issued before them.
    pub blocks_later_accesses: bool,
    /// Whether all threads of a warp must execute the instruction together. According to PTX (`.sync.aligned`) they may arrive diverged.
    pub needs_whole_warp: bool,
    /// Whether all threads of a warpgroup execute the instruction, or none: according to PTX (`wgmma`, `setmaxnreg`) they evaluate the
    /// conditions on which it depends alike.
    pub needs_whole_warpgroup: bool,
}

impl Properties {
    /// Returns whether the latency of the result on a target is fixed.
    pub fn latency(&self, target: Target) -> Latency {
        if self.fixed_latency & table_set(target) != 0 { Latency::Fixed } else { Latency::Variable }
    }
}

/// One of the first operands of an instruction's text.
#[derive(Debug)]
pub struct Leading {
    /// The register files that the operand may be in.
    pub files: &'static [RegFile],
    /// Whether the instruction writes it.
    pub written: bool,
}

/// The effect of an instruction other than writing registers. Determines whether passes may remove, duplicate or move it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// No effect.
    None,
    /// Reads memory.
    Reads,
    /// Writes memory.
    Writes,
    /// Reads and writes memory.
    Updates,
    /// Changes control flow.
    Control,
    /// Waits for or signals other threads.
    Barrier,
    /// Orders memory accesses, including those of asynchronous units.
    Fence,
    /// Reads operands of other threads of the warp or acts for all of them. May be removed, but not moved across control flow.
    Lanes,
    /// Reads a value that changes on its own (clock, counter, special register). May be removed, but not merged or moved across waits.
    State,
    /// Another effect. Must not be removed or duplicated.
    Other,
}

/// The memory space of an access.
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

/// The functional unit that executes an instruction. The hardware model distinguishes more units.
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

/// How the compiler ensures that the result is available before it is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Latency {
    /// The result is available after a fixed number of cycles; stall cycles suffice.
    Fixed,
    /// The latency varies; the reader has to wait for a scoreboard.
    Variable,
}

include!(concat!(env!("OUT_DIR"), "/table.rs"));
