//! The contents of the table files, before code is generated from them.

/// All rows of all files.
#[derive(Debug, Default)]
pub struct Table {
    /// The rows in file order.
    pub rows: Vec<Row>,
}

/// One row: one syntax of one instruction.
#[derive(Debug)]
pub struct Row {
    /// The name of the file without folder and extension, which is the instruction family.
    pub file: String,
    /// The first line of the row, counted from 1.
    pub line: u32,
    /// The section of the PTX manual that the row follows.
    pub section: String,
    /// The opcode with all components (`cp.async.bulk`).
    pub opcode: String,
    /// Modifiers, in the order of the manual.
    pub slots: Vec<SlotRow>,
    /// Operands, in order.
    pub operands: Vec<OperandRow>,
    /// PTX version and targets that the row requires, each under a condition on its modifiers.
    pub requirements: Vec<(Vec<Atom>, Requirement)>,
    /// Illegal combinations of modifiers.
    pub denials: Vec<Vec<Atom>>,
    /// Combinations that ptxas accepts but the manual does not document.
    pub undocumented: Vec<Vec<Atom>>,
    /// Whether the last component of the opcode may be written anywhere among the modifiers.
    pub movable: bool,
    /// Combinations that are illegal from some version and target on.
    pub removals: Vec<(Vec<Atom>, Requirement)>,
}

/// One modifier position of an instruction.
#[derive(Debug)]
pub struct SlotRow {
    /// The name of the slot; for a literal modifier its spelling.
    pub name: String,
    /// The modifiers that the slot accepts, without the dot.
    pub values: Vec<String>,
    /// Zero if the modifier is required, otherwise the number of the optional group it belongs to.
    pub group: u8,
}

/// One test of a condition; a condition is a conjunction of atoms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Atom {
    /// The modifier is present.
    Has(String),
    /// The modifier is absent.
    Lacks(String),
    /// The slot holds one of the values.
    SlotIs(String, Vec<String>),
    /// The slot holds none of the values or is empty.
    SlotIsNot(String, Vec<String>),
    /// The slot is filled.
    Filled(String),
    /// The slot is empty.
    Empty(String),
}

/// The lowest PTX version and the alternative targets that something requires.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Lowest version as major and minor number; `None` if any version will do.
    pub version: Option<(u8, u8)>,
    /// Alternatives, one of which must hold; empty if any target will do.
    pub targets: Vec<TargetAlternative>,
}

/// One alternative of a target requirement: `80`, `90a`, `100f@8.8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetAlternative {
    /// The number of the target.
    pub number: u16,
    /// The suffix: `None`, `a` or `f`.
    pub suffix: Option<char>,
    /// The lowest PTX version for this alternative.
    pub version: Option<(u8, u8)>,
}

/// One operand of a row.
#[derive(Debug)]
pub struct OperandRow {
    /// Zero if the operand is required, otherwise the nesting depth of the optional group it is in.
    pub level: u8,
    /// The syntax of the operand.
    pub shape: OperandSyntax,
}

/// The syntax of an operand.
#[derive(Debug)]
pub enum OperandSyntax {
    /// A value, a vector or a name.
    Value(SlotValue),
    /// A pair `d|p`; the flag says whether the second part is optional.
    Pair(SlotValue, SlotValue, bool),
    /// `[a]` or `[a, b, ...]`: an address or reference, then further operands. The flag says whether `.unified` may follow.
    Bracket(Base, Vec<SlotValue>, bool),
}

/// The first element in brackets.
#[derive(Debug)]
pub enum Base {
    /// An address in generic space.
    Generic,
    /// An address in a fixed space.
    Space(String),
    /// An address in the state space that a slot names.
    SlotSpace(String),
    /// A texture, sampler or surface reference.
    Reference(SlotValue),
}

/// A value operand: a register, immediate, vector or name.
#[derive(Debug)]
pub struct SlotValue {
    /// The operand's name in the manual.
    pub name: String,
    /// Whether the instruction writes it.
    pub writes: bool,
    /// Whether the instruction reads it.
    pub reads: bool,
    /// The type.
    pub ty: TypeName,
    /// Whether a register wider than the type is allowed.
    pub wider: bool,
    /// The number of elements.
    pub arity: Arity,
    /// Whether a vector with one element may be written without braces.
    pub braces_optional: bool,
    /// Names of the flags, in the order written.
    pub flags: Vec<String>,
    /// The values that an immediate may have: one range, or one per element of a vector.
    pub ranges: Vec<Range>,
    /// The selectors that a register may have: a name of [`SELECTORS`].
    pub selectors: Option<String>,
}

/// How the type of an operand is determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    /// A scalar type.
    Scalar(String),
    /// The type in a slot.
    Slot(String),
    /// The type in a slot with twice the width.
    WideSlot(String),
    /// Not a type but the name of an entity: `label`, `func`, `texref`, `samplerref`, `surfref`, `calllist`, `branchlist`.
    Entity(String),
}

/// The number of elements of a vector operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arity {
    /// Not a vector.
    Scalar,
    /// This number of elements.
    Fixed(u16),
    /// The number in a slot, multiplied by the first factor and divided by the second; a scalar if the slot is empty.
    Slot(String, u16, u16),
}

/// The values that an immediate may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Range {
    /// From first to last, inclusive.
    Between(i64, i64),
    /// One of these values.
    OneOf(Vec<i64>),
    /// A multiple of this number.
    MultipleOf(i64),
}

/// The scalar types that an operand or a modifier can name, with their width in bits.
pub const SCALAR_TYPES: &[(&str, u32)] = &[
    ("pred", 1),
    ("b1", 1),
    ("s2", 2),
    ("u2", 2),
    ("s4", 4),
    ("u4", 4),
    ("b8", 8),
    ("s8", 8),
    ("u8", 8),
    ("b16", 16),
    ("s16", 16),
    ("u16", 16),
    ("b32", 32),
    ("s32", 32),
    ("u32", 32),
    ("b64", 64),
    ("s64", 64),
    ("u64", 64),
    ("b128", 128),
    ("f16", 16),
    ("f32", 32),
    ("f64", 64),
    ("f16x2", 32),
    ("f32x2", 64),
    ("bf16", 16),
    ("bf16x2", 32),
    ("tf32", 32),
    ("s16x2", 32),
    ("u16x2", 32),
    ("u8x4", 32),
    ("s8x4", 32),
    ("e4m3", 8),
    ("e5m2", 8),
    ("e2m3", 6),
    ("e3m2", 6),
    ("e2m1", 4),
    ("ue8m0", 8),
    ("ue4m3", 8),
    ("e4m3x2", 16),
    ("e5m2x2", 16),
    ("e2m3x2", 16),
    ("e3m2x2", 16),
    ("e2m1x2", 8),
    ("ue8m0x2", 16),
    ("s2f6x2", 16),
    ("e4m3x4", 32),
    ("e5m2x4", 32),
    ("e2m3x4", 32),
    ("e3m2x4", 32),
    ("e2m1x4", 16),
];

/// The state spaces of addresses.
pub const SPACES: &[&str] =
    &["const", "global", "local", "param", "param::entry", "param::func", "shared", "shared::cta", "shared::cluster", "tmem", "any"];

/// Names of entities, which operands use in place of types.
pub const ENTITIES: &[&str] = &["label", "func", "texref", "samplerref", "surfref", "calllist", "branchlist"];

/// Kinds of selectors on the operands of video instructions.
pub const SELECTORS: &[&str] = &["scalar", "half", "half_mask", "byte", "byte_mask"];

/// The flags of operands.
pub const FLAGS: &[&str] = &["reg", "imm", "in", "sink", "sreg", "addr", "nonneg", "sel", "neg", "bits", "sinkonly", "float", "discard"];

/// Returns whether a name is a scalar type.
pub fn is_scalar_type(name: &str) -> bool {
    SCALAR_TYPES.iter().any(|&(known, _)| known == name)
}
