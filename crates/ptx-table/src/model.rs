//! The table as read from its files, before code is generated from it.

/// All rows of all files.
#[derive(Debug, Default)]
pub struct Table {
    /// The rows in file order.
    pub rows: Vec<Row>,
}

/// One row: a shape of one instruction.
#[derive(Debug)]
pub struct Row {
    /// The file the row is in, without folder and extension: the instruction family.
    pub file: String,
    /// The row's first line.
    pub line: u32,
    /// The section of the manual it follows.
    pub section: String,
    /// The opcode, all components (`cp.async.bulk`).
    pub opcode: String,
    /// Modifiers in the manual's order.
    pub slots: Vec<SlotRow>,
    /// Operands in order.
    pub operands: Vec<OperandRow>,
    /// What the row, or some of its modifiers, need.
    pub requirements: Vec<(Vec<Atom>, Requirement)>,
    /// Combinations that are illegal.
    pub denials: Vec<Vec<Atom>>,
    /// Combinations that ptxas takes and the manual does not have.
    pub undocumented: Vec<Vec<Atom>>,
    /// Whether the last component of the opcode may stand anywhere among the modifiers.
    pub movable: bool,
    /// Combinations that later versions and targets took away.
    pub removals: Vec<(Vec<Atom>, Requirement)>,
}

/// One place for a modifier in a head.
#[derive(Debug)]
pub struct SlotRow {
    /// The slot's name; for a literal modifier its own spelling.
    pub name: String,
    /// The spellings that fit, without the dot.
    pub values: Vec<String>,
    /// Zero if it must be there; else the number of the optional group it belongs to.
    pub group: u8,
}

/// An atom of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Atom {
    /// The modifier is there.
    Has(String),
    /// The modifier is not there.
    Lacks(String),
    /// The slot has one of the values.
    SlotIs(String, Vec<String>),
    /// The slot has none of the values.
    SlotIsNot(String, Vec<String>),
    /// The slot is filled.
    Filled(String),
    /// The slot is empty.
    Empty(String),
}

/// Least PTX version and target alternatives.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Least version, as major and minor number.
    pub version: Option<(u8, u8)>,
    /// Any of these targets.
    pub targets: Vec<TargetAlternative>,
}

/// `80`, `90a`, `100f@8.8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetAlternative {
    /// The number of the target.
    pub number: u16,
    /// The suffix: none, `a` or `f`.
    pub suffix: Option<char>,
    /// The PTX version this alternative needs.
    pub version: Option<(u8, u8)>,
}

/// One operand.
#[derive(Debug)]
pub struct OperandRow {
    /// Zero if it must be there, else how many optional groups must be written for it to appear.
    pub level: u8,
    /// What it looks like.
    pub shape: Shape,
}

/// What an operand looks like.
#[derive(Debug)]
pub enum Shape {
    /// A value, a vector or a name.
    Value(Value),
    /// `d|p`; the second part may be optional.
    Pair(Value, Value, bool),
    /// `[a]` or `[a, b, ...]`: an address or reference, then further operands; whether `.unified` may follow.
    Bracket(Base, Vec<Value>, bool),
}

/// The first operand in brackets.
#[derive(Debug)]
pub enum Base {
    /// An address in generic space.
    Generic,
    /// An address in a fixed space.
    Space(String),
    /// An address in the space a slot names.
    SlotSpace(String),
    /// A texture, sampler or surface.
    Reference(Value),
}

/// A value operand.
#[derive(Debug)]
pub struct Value {
    /// The operand's name in the manual.
    pub name: String,
    /// Whether it is written.
    pub writes: bool,
    /// Whether it is read.
    pub reads: bool,
    /// Its type.
    pub ty: TypeName,
    /// Whether a wider register will do.
    pub wider: bool,
    /// How many elements.
    pub arity: Arity,
    /// Whether a vector of one may be written without braces.
    pub braces_optional: bool,
    /// Flags by name, in the order written.
    pub flags: Vec<String>,
    /// The values an immediate may take: one range, or one for each element of a vector.
    pub ranges: Vec<Range>,
    /// Which selectors a register may carry: a name of [`SELECTORS`].
    pub selectors: Option<String>,
}

/// Where a type comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    /// A scalar type.
    Scalar(String),
    /// The type in a slot.
    Slot(String),
    /// Twice the width of the type in a slot.
    WideSlot(String),
    /// A name: `label`, `func`, `texref`, `samplerref`, `surfref`, `calllist`, `branchlist`.
    Entity(String),
}

/// How many elements a vector operand has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arity {
    /// Not a vector.
    Scalar,
    /// This many.
    Fixed(u16),
    /// The slot's number times one factor over another; a scalar if the slot is empty.
    Slot(String, u16, u16),
}

/// Values an immediate may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Range {
    /// From first to last, inclusive.
    Between(i64, i64),
    /// One of these.
    OneOf(Vec<i64>),
    /// A multiple of this.
    MultipleOf(i64),
}

/// The scalar types an operand or a modifier can name, with their width in bits.
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

/// The state spaces an address can be in.
pub const SPACES: &[&str] =
    &["const", "global", "local", "param", "param::entry", "param::func", "shared", "shared::cta", "shared::cluster", "tmem", "any"];

/// Names that stand for entities rather than types.
pub const ENTITIES: &[&str] = &["label", "func", "texref", "samplerref", "surfref", "calllist", "branchlist"];

/// Kinds of selectors on operands of video instructions.
pub const SELECTORS: &[&str] = &["scalar", "half", "half_mask", "byte", "byte_mask"];

/// Flags an operand may carry.
pub const FLAGS: &[&str] = &["reg", "imm", "in", "sink", "sreg", "addr", "nonneg", "sel", "neg", "bits", "sinkonly", "float", "discard"];

/// Whether a name is a scalar type.
pub fn is_scalar_type(name: &str) -> bool {
    SCALAR_TYPES.iter().any(|&(known, _)| known == name)
}
