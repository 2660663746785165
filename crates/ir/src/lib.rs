//! Ori: the representation that all passes between PTX and machine code share.
//!
//! A [`Function`] is a list of blocks of instructions. An instruction is a machine opcode (or one of a few [`Pseudo`] operations that
//! the register allocator dissolves), modifiers, and operands in the order of the machine's text; the operands it writes come first.
//! Registers are [`Value`]s: a register file, a number of consecutive registers and an alignment. Operands may read a part of a
//! value, so the halves of a 64-bit number need no instructions to be taken apart.
//!
//! **Life of a function.** Selection writes blocks in which a value may be assigned many times (PTX registers are such variables).
//! SSA construction renames them, and from then on each value has one definition that dominates its uses ([`Function::is_ssa`]).
//! The allocator replaces values by physical registers ([`OperandKind::Register`]).
//!
//! **Guards.** A guarded instruction writes its results only where the guard holds. Elsewhere a result keeps what the *tied* operand
//! had ([`Role::Tied`]), which the allocator puts into the same register. A guarded result without tied operand is undefined there.
//!
//! **Blocks** end in explicit control flow: at most one guarded `BRA` followed by one unguarded `BRA`, `EXIT`, `RET` or the like.
//! Falling through does not exist until the code is laid out.
#![deny(missing_docs)]

pub mod analysis;
mod builder;
mod function;
mod instruction;
mod memory;
mod operand;
mod ssa;
mod template;
pub mod text;
mod verify;

pub use builder::Builder;
pub use function::{Block, BlockData, Function, FunctionKind, Inst, Location, Value};
pub use instruction::{Instruction, Op, Pseudo};
pub use memory::{MemoryAccess, MemoryId, Order, Scope, Space};
pub use operand::{Class, Guard, Operand, OperandKind, Part, Reference, ReferenceKind, Role, Signs};
pub use oriole_isa::{File, Opcode, Symbol, Target};
pub use ssa::construct_ssa;
pub use template::{Template, TemplateError};
pub use verify::{RegisterLimits, VerifyError, VerifyErrors, verify, verify_allocated};
