//! The typed syntax tree of a PTX module.
//!
//! Names are resolved while parsing, so the tree refers to registers, variables, functions and labels by
//! dense typed indices. Instructions refer to a [`Form`]: an opcode with its modifiers, matched to one row
//! of the table. A program has few distinct forms, so the modifiers of a million instructions are stored
//! once per kind, and everything static about an instruction is one index away.
//!
//! Each function body owns its instructions, operands and lists in flat arrays; an operand is 8 bytes, an
//! instruction 24. Source positions are kept apart from the tree: two modules that mean the same compare equal.

mod body;
mod compare;
mod form;
mod module;

pub use body::{
    Address, AddressBase, Body, CallPrototype, Constant, ConstantId, Guard, GuardSource, Instruction, InstructionId, Label, LabelId,
    LabelList, LineLocation, ListId, Operand, RegisterDeclaration, RegisterDeclarationId, RegisterId, Statement,
};
pub(crate) use form::fulfils;
pub use form::{Form, FormBase, FormId, FormOperand, FormShape, FormValue, SlotValue, ValueType};
pub use module::{
    Alias, Attribute, DwarfItem, DwarfSection, Function, FunctionId, FunctionKind, Initializer, Item, LaunchBounds, Linkage, Module,
    OpaqueField, Parameter, PointerAttribute, PointerTarget, TargetOptions, TextureMode, Variable, VariableId, VariableType,
};
