//! Function bodies: statements, instructions, operands.

use oriole_support::{Index, IndexVec, Name, define_index};

use super::form::FormId;
use super::module::{Alias, FunctionId, Parameter, VariableId};
use crate::source::Span;
use crate::table::{Component, SpecialRegister};
use crate::types::ScalarType;

define_index!(
    /// A register of a function. A parameterized declaration (`%r<100>`) covers a range of them.
    pub struct RegisterId,
    "reg"
);
define_index!(
    /// A register declaration.
    pub struct RegisterDeclarationId,
    "regdecl"
);
define_index!(
    /// A label.
    pub struct LabelId,
    "label"
);
define_index!(
    /// An instruction of a body.
    pub struct InstructionId,
    "inst"
);
define_index!(
    /// A list of operands: a vector, a pair, the contents of brackets or of parentheses.
    pub struct ListId,
    "list"
);
define_index!(
    /// A constant that does not fit into an [`Operand`].
    pub struct ConstantId,
    "const"
);

/// The body of a function.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Body {
    /// Register declarations, in order. Each covers a range of registers.
    pub registers: IndexVec<RegisterDeclarationId, RegisterDeclaration>,
    /// Number of registers.
    pub register_count: u32,
    /// Labels, in the order of their first mention.
    pub labels: IndexVec<LabelId, Label>,
    /// Statements, in order.
    pub statements: Vec<Statement>,
    /// Instructions, in order.
    pub instructions: IndexVec<InstructionId, Instruction>,
    /// Operands of instructions and elements of lists. Instructions and lists refer to ranges of this array.
    pub operands: Vec<Operand>,
    /// Lists, each as start and length in `operands`.
    pub lists: IndexVec<ListId, (u32, u32)>,
    /// Addresses; operands refer to them by index.
    pub addresses: Vec<Address>,
    /// Constants that are floating-point or need more than 32 bits.
    pub constants: IndexVec<ConstantId, Constant>,
    /// `.loc` directives.
    pub locations: Vec<LineLocation>,
    /// `.pragma` strings.
    pub pragmas: Vec<Box<str>>,
    /// `.branchtargets` and `.calltargets` lists.
    pub target_lists: Vec<LabelList>,
    /// `.callprototype` declarations.
    pub prototypes: Vec<CallPrototype>,
    /// `.alias` directives.
    pub aliases: Vec<Alias>,
    /// Source offset of each statement.
    pub(crate) positions: Positions,
}

/// Source offsets of statements. All values compare equal, so that positions do not affect the equality of modules.
#[derive(Clone, Default, Debug)]
pub(crate) struct Positions(pub Vec<u32>);

impl PartialEq for Positions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Body {
    /// Returns the operands of an instruction.
    pub fn operands_of(&self, instruction: &Instruction) -> &[Operand] {
        let start = instruction.first_operand as usize;
        &self.operands[start..start + usize::from(instruction.operand_count)]
    }

    /// Returns the operands of a list.
    pub fn list(&self, list: ListId) -> &[Operand] {
        let (start, length) = self.lists[list];
        &self.operands[start as usize..(start + length) as usize]
    }

    /// Returns the declaration of a register. Takes a binary search.
    pub fn declaration_of(&self, register: RegisterId) -> &RegisterDeclaration {
        let after = self.registers.as_slice().partition_point(|declaration| declaration.first <= register);
        &self.registers[RegisterDeclarationId::new(after - 1)]
    }

    /// Returns the position of a statement in the source, as an empty span.
    pub fn position(&self, statement: usize) -> Option<Span> {
        self.positions.0.get(statement).map(|&start| Span::new(start, start))
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.registers.shrink_to_fit();
        self.labels.shrink_to_fit();
        self.statements.shrink_to_fit();
        self.instructions.shrink_to_fit();
        self.operands.shrink_to_fit();
        self.lists.shrink_to_fit();
        self.addresses.shrink_to_fit();
        self.constants.shrink_to_fit();
        self.locations.shrink_to_fit();
        self.positions.0.shrink_to_fit();
    }
}

/// `.reg .v2 .b32 %name<count>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterDeclaration {
    /// The name; the stem of a parameterized declaration.
    pub name: Name,
    /// The type of an element.
    pub ty: ScalarType,
    /// Number of elements: 1, 2 or 4.
    pub lanes: u8,
    /// The alignment. It is accepted and has no meaning.
    pub align: Option<u64>,
    /// The number of registers in a parameterized declaration; `None` for a single register.
    pub count: Option<u32>,
    /// The first register of the declaration.
    pub first: RegisterId,
    /// Whether it is a parameter declared in the function's header.
    pub is_parameter: bool,
}

/// A label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The name.
    pub name: Name,
}

/// A statement of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statement {
    /// An instruction.
    Instruction(InstructionId),
    /// A label.
    Label(LabelId),
    /// `{`.
    OpenScope,
    /// `}`.
    CloseScope,
    /// A register declaration.
    Registers(RegisterDeclarationId),
    /// A variable declaration.
    Variable(VariableId),
    /// `.loc`: an index into [`Body::locations`].
    Location(u32),
    /// `.pragma`: an index into [`Body::pragmas`].
    Pragma(u32),
    /// `.branchtargets`: an index into [`Body::target_lists`].
    BranchTargets(u32),
    /// `.calltargets`: an index into [`Body::target_lists`].
    CallTargets(u32),
    /// `.callprototype`: an index into [`Body::prototypes`].
    CallPrototype(u32),
    /// A function declaration inside the body.
    Function(FunctionId),
    /// `.alias`: an index into [`Body::aliases`].
    Alias(u32),
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Opcode, modifiers and operand types.
    pub form: FormId,
    /// Index of the first operand in [`Body::operands`].
    pub first_operand: u32,
    /// Number of operands.
    pub operand_count: u16,
    /// The guard predicate; `None` if the instruction is unconditional.
    pub guard: Option<PtxGuard>,
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PtxGuard {
    /// The predicate.
    pub source: GuardSource,
    /// Whether it is negated.
    pub negated: bool,
}

/// The predicate that a guard tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardSource {
    /// A predicate register.
    Register(RegisterId),
    /// A special register that is a predicate.
    Special(SpecialRegister),
}

/// An operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A register, scalar or a whole vector.
    Register(RegisterId),
    /// A negated predicate, `!p`.
    NotRegister(RegisterId),
    /// An element of a vector register, `v.x`.
    Element(RegisterId, Component),
    /// A register with a selector (video instructions), a negated register or a negated special register: a list of the parts.
    Selected(ListId),
    /// The selector in [`Operand::Selected`].
    Selector(Name),
    /// The negation in [`Operand::Selected`].
    Minus,
    /// A special register.
    Special(SpecialRegister),
    /// An integer that fits in 32 bits.
    Integer(i32),
    /// Any other constant.
    Constant(ConstantId),
    /// `WARP_SZ`.
    WarpSize,
    /// `_`: the result is discarded.
    Sink,
    /// `{a, b}`.
    Vector(ListId),
    /// `d|p`.
    Pair(ListId),
    /// `[a]`: an index into [`Body::addresses`].
    Address(u32),
    /// `[a].unified`: an index into [`Body::addresses`].
    UnifiedAddress(u32),
    /// `[a, b, ...]`.
    Bracket(ListId),
    /// An address without brackets, such as `var+4`: an index into [`Body::addresses`].
    AddressOf(u32),
    /// A variable.
    Variable(VariableId),
    /// A function.
    Function(FunctionId),
    /// A label, or the name of a target list or prototype.
    Label(LabelId),
    /// The argument list `(a, b)` of a call.
    Arguments(ListId),
}

/// An address: base plus offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The base.
    pub base: AddressBase,
    /// The offset in bytes.
    pub offset: i64,
    /// Whether the offset is written. ptxas does not optimize `+0` away in debug code.
    pub has_offset: bool,
}

/// The base of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressBase {
    /// A register.
    Register(RegisterId),
    /// An element of a vector register.
    Element(RegisterId, Component),
    /// A variable.
    Variable(VariableId),
    /// One variable of a parameterized declaration, by its number.
    VariableMember(VariableId, u32),
    /// A function.
    Function(FunctionId),
    /// No base: the offset is the address.
    Absolute,
}

/// A constant.
#[derive(Clone, Copy, Debug)]
pub enum Constant {
    /// An integer and whether it is unsigned.
    Integer(i64, bool),
    /// `0f...`: the encoding in single precision.
    Single(u32),
    /// `0d...`: the encoding in double precision.
    Double(u64),
    /// A decimal float.
    Decimal(f64),
}

// Floating-point values are compared by their bits, so that NaNs are equal to themselves and zeros keep their sign.
impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Constant::Integer(a, u), Constant::Integer(b, v)) => (a, u) == (b, v),
            (Constant::Single(a), Constant::Single(b)) => a == b,
            (Constant::Double(a), Constant::Double(b)) => a == b,
            (Constant::Decimal(a), Constant::Decimal(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

/// `.loc file line column {, function_name label {+ offset}, inlined_at file line column}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineLocation {
    /// Number of the `.file`.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// Name and offset of the inlined function, and file, line and column of the call; `None` if the code is not inlined.
    pub inlined: Option<Box<(Name, i64, [u32; 3])>>,
}

/// The names after `.branchtargets` or `.calltargets`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelList {
    /// Labels or functions, in order.
    pub targets: Vec<Operand>,
}

/// `.callprototype (ret) _ (params)`.
#[derive(Clone, PartialEq, Debug)]
pub struct CallPrototype {
    /// Return parameters.
    pub returns: Vec<Parameter>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// `.noreturn`.
    pub noreturn: bool,
    /// The counts of `.abi_preserve` and `.abi_preserve_control`.
    pub abi_preserve: (Option<u32>, Option<u32>),
}
