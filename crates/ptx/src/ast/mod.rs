//! The typed syntax tree of a PTX module.
//!
//! Names are resolved while parsing: the tree refers to registers, variables, functions and labels by dense typed indices. An instruction
//! refers to a [`Form`], which is an opcode with its modifiers, matched with one row of the table. A program has few distinct forms, so
//! the modifiers are stored once per form and not once per instruction.
//!
//! Each function body owns its instructions, operands and lists in flat arrays; an operand takes 8 bytes, an instruction 24. Source
//! positions do not take part in comparisons: two modules with the same tree compare equal.

mod body;
mod compare;
mod form;
mod module;

pub use body::{
    Address, AddressBase, Body, CallPrototype, Constant, ConstantId, GuardSource, Instruction, InstructionId, Label, LabelId, LabelList,
    LineLocation, ListId, Operand, PtxGuard, RegisterDeclaration, RegisterDeclarationId, RegisterId, Statement,
};
pub(crate) use form::fulfils;
pub use form::{Form, FormBase, FormId, FormOperand, FormShape, FormValue, SlotValue, ValueType};
pub use module::{
    Alias, Attribute, DwarfItem, DwarfSection, Function, FunctionId, FunctionKind, Initializer, Item, LaunchBounds, Linkage, Module,
    OpaqueField, Parameter, PointerAttribute, PointerTarget, TargetOptions, TextureMode, Variable, VariableId, VariableType,
};
