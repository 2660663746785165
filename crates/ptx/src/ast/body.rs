//! Function bodies: statements, instructions, operands.

use oriole_support::{Index, IndexVec, Name, define_index};

use super::form::FormId;
use super::module::{Alias, FunctionId, Parameter, VariableId};
use crate::source::Span;
use crate::table::{Component, SpecialRegister};
use crate::types::ScalarType;

define_index!(
    /// A register of a function; parameterized declarations (`%r<100>`) cover a range.
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
    /// A constant that does not fit into an operand.
    pub struct ConstantId,
    "const"
);

/// The body of a function.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Body {
    /// Register declarations in order; each covers a range of register numbers.
    pub registers: IndexVec<RegisterDeclarationId, RegisterDeclaration>,
    /// How many registers there are.
    pub register_count: u32,
    /// Labels in order of their first mention.
    pub labels: IndexVec<LabelId, Label>,
    /// All statements in order.
    pub statements: Vec<Statement>,
    /// All instructions in order.
    pub instructions: IndexVec<InstructionId, Instruction>,
    /// Operands of instructions and elements of lists.
    pub operands: Vec<Operand>,
    /// Ranges of `operands`.
    pub lists: IndexVec<ListId, (u32, u32)>,
    /// Addresses.
    pub addresses: Vec<Address>,
    /// Large and floating constants.
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
    /// Where each statement starts.
    pub(crate) positions: Positions,
}

/// Source offsets of statements. They never take part in comparisons.
#[derive(Clone, Default, Debug)]
pub(crate) struct Positions(pub Vec<u32>);

impl PartialEq for Positions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Body {
    /// The operands of an instruction.
    pub fn operands_of(&self, instruction: &Instruction) -> &[Operand] {
        let start = instruction.first_operand as usize;
        &self.operands[start..start + usize::from(instruction.operand_count)]
    }

    /// The operands of a list.
    pub fn list(&self, list: ListId) -> &[Operand] {
        let (start, length) = self.lists[list];
        &self.operands[start as usize..(start + length) as usize]
    }

    /// The declaration of a register.
    pub fn declaration_of(&self, register: RegisterId) -> &RegisterDeclaration {
        let after = self.registers.as_slice().partition_point(|declaration| declaration.first <= register);
        &self.registers[RegisterDeclarationId::new(after - 1)]
    }

    /// Where a statement starts in the source.
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
    /// The name, or the stem of a parameterized one.
    pub name: Name,
    /// The type of an element.
    pub ty: ScalarType,
    /// Number of elements: 1, 2 or 4.
    pub lanes: u8,
    /// The alignment, which is accepted and has no meaning.
    pub align: Option<u64>,
    /// The count of a parameterized declaration.
    pub count: Option<u32>,
    /// The first register it declares.
    pub first: RegisterId,
    /// Whether it is a parameter, declared in the function's header.
    pub is_parameter: bool,
}

/// A label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Its name.
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
    /// `.loc`: a position in [`Body::locations`].
    Location(u32),
    /// `.pragma`: a position in [`Body::pragmas`].
    Pragma(u32),
    /// `.branchtargets`: a position in [`Body::target_lists`].
    BranchTargets(u32),
    /// `.calltargets`: a position in [`Body::target_lists`].
    CallTargets(u32),
    /// `.callprototype`: a position in [`Body::prototypes`].
    CallPrototype(u32),
    /// A function declaration inside the body.
    Function(FunctionId),
    /// `.alias`: a position in [`Body::aliases`].
    Alias(u32),
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Opcode, modifiers and operand types.
    pub form: FormId,
    /// Where its operands start in [`Body::operands`].
    pub first_operand: u32,
    /// How many operands it has.
    pub operand_count: u16,
    /// The predicate that decides whether it is executed.
    pub guard: Option<Guard>,
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// The predicate.
    pub source: GuardSource,
    /// Whether it is negated.
    pub negated: bool,
}

/// What a guard tests.
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
    /// A register, scalar or whole vector.
    Register(RegisterId),
    /// `!p`.
    NotRegister(RegisterId),
    /// `v.x`.
    Element(RegisterId, Component),
    /// A register with a selector of a video instruction: a list of the register and the selector.
    Selected(ListId),
    /// The selector inside [`Operand::Selected`].
    Selector(Name),
    /// `-a` inside [`Operand::Selected`].
    Minus,
    /// A special register.
    Special(SpecialRegister),
    /// An integer that fits into 32 bits.
    Integer(i32),
    /// `!1`: an integer as a negated predicate.
    NotInteger(i32),
    /// Any other constant.
    Constant(ConstantId),
    /// `WARP_SZ`.
    WarpSize,
    /// `_`.
    Sink,
    /// `{a, b}`.
    Vector(ListId),
    /// `d|p`.
    Pair(ListId),
    /// `[a]`: a position in [`Body::addresses`].
    Address(u32),
    /// `[a].unified`: a position in [`Body::addresses`].
    UnifiedAddress(u32),
    /// `[a, b, ...]`.
    Bracket(ListId),
    /// An address without brackets, `var+4`: a position in [`Body::addresses`].
    AddressOf(u32),
    /// A variable.
    Variable(VariableId),
    /// A function.
    Function(FunctionId),
    /// A label, or the name of a target list or prototype.
    Label(LabelId),
    /// `(a, b)` of a call.
    Arguments(ListId),
}

/// An address: base plus offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The base.
    pub base: AddressBase,
    /// The offset in bytes.
    pub offset: i64,
    /// Whether the offset is written: ptxas does not optimize `+0` away in debug code.
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
    /// One variable of a parameterized declaration.
    VariableMember(VariableId, u32),
    /// A function.
    Function(FunctionId),
    /// A number.
    Absolute,
}

/// A constant.
#[derive(Clone, Copy, Debug)]
pub enum Constant {
    /// An integer and whether it is unsigned.
    Integer(i64, bool),
    /// `0f...`.
    Single(u32),
    /// `0d...`.
    Double(u64),
    /// A decimal float.
    Decimal(f64),
}

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
    /// Index of the `.file`.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// Name and offset of the inlined function, and where it was inlined.
    pub inlined: Option<Box<(Name, i64, [u32; 3])>>,
}

/// The names after `.branchtargets` or `.calltargets`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelList {
    /// Labels, or functions, in order.
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
    /// `.abi_preserve` and `.abi_preserve_control`.
    pub abi_preserve: (Option<u32>, Option<u32>),
}
