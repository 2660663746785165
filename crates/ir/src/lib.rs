//! Ori, the intermediate representation of all passes between PTX and machine code.
//!
//! A [`Function`] is a list of basic blocks of instructions. An instruction has a machine opcode (or is one of a few [`Pseudo`] operations
//! that register allocation eliminates), modifiers, and operands in the order of nvdisasm's syntax; the operands that it writes come
//! first. Registers are [`Value`]s: a register file, a number of consecutive registers and an alignment. An operand may read a part of a
//! value, so extracting one half of a 64-bit number takes no instruction.
//!
//! **Stages.** Instruction selection emits code in which a value may be assigned many times (each PTX register is such a variable). SSA
//! construction renames the variables; from then on each value has one definition that dominates its uses ([`Function::is_ssa`]). Register
//! allocation replaces values by physical registers ([`OperandKind::Register`]).
//!
//! **Guards.** A guarded instruction writes its results only in threads where the guard holds. In the other threads a result has the value
//! of its *tied* operand ([`Role::Tied`]), which the allocator puts into the same register. A guarded result without tied operand is
//! undefined there.
//!
//! **Blocks** end with explicit control flow: at most one guarded `BRA`, then an unguarded `BRA`, `BRX`, `EXIT` or `RET`. There is no
//! fall-through until the code is laid out.
#![deny(missing_docs)]

pub mod analysis;
mod builder;
mod compact;
mod function;
mod ids;
mod instruction;
pub mod machine;
mod memory;
mod operand;
mod ssa;
mod template;
pub mod text;
mod verify;

pub use builder::{Builder, TemplateCache};
pub use function::{BlockData, FIRST_ARGUMENT_REGISTER, Function, FunctionKind, SLOW_PATH_PREFIX, WARP_OPERATION_PREFIX};
pub use ids::{Block, Inst, Location, Value};
pub use instruction::{Instruction, Op, Pseudo};
pub use memory::{MemoryAccess, MemoryId, Order, Scope, Space};
pub use operand::{Class, Guard, MAX_SUFFIXES, Operand, OperandKind, Part, Reference, ReferenceKind, Role, Signs};
pub use oriole_isa::{Opcode, RegFile, Symbol, Target};
pub use ssa::construct_ssa;
pub use template::{Template, TemplateError};
pub use verify::{RegisterLimits, VerifyError, VerifyErrors, verify, verify_allocated};
