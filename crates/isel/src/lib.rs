//! Selection: typed PTX in, Ori out.
//!
//! Each PTX instruction goes to the handler of its family ([`dispatch`]), which writes one machine instruction or several. A handler
//! asks the [`Select`] context for its operands as values, numbers or predicates, writes instructions as templates in the machine's
//! notation, and assigns its results. What it need not care about:
//!
//! - **SSA.** PTX registers become variables that are assigned many times; SSA construction renames them afterwards.
//! - **Guards.** Everything written while a guarded PTX instruction is selected carries its guard, and assignments keep the old value
//!   where it does not hold. Temporaries are undefined there, which nobody sees.
//! - **Operand limits.** Immediates, constants and signs may stand anywhere; legalization moves what no encoding takes into
//!   registers, and folding puts constants back where an encoding takes them.
//! - **Targets.** Global accesses always name their descriptor. Where targets differ in what they can do, handlers ask for the
//!   instruction itself (`target.has(Opcode::VIMNMX)`) or the [`oriole_isa::Profile`].
//!
//! Longer expansions (division, square roots) are PTX functions in `library/`, inlined at their use ([`Select::expand`]).
//!
//! **Order.** Sources are variables, not snapshots: a handler reads everything it needs into results of instructions before it assigns
//! the first destination, because destination and source may be the same register.
//!
//! **Representation.** A register of up to 32 bits is one R register; of narrower types only the low bits count and the upper ones are
//! unspecified, so whoever depends on them extends first. 64 bits are an aligned pair, 128 a quad. Predicates are P values.

mod dispatch;
mod error;
mod initializer;
mod layout;
mod library;
mod operands;
mod ptx;
mod recording;
mod runtime;
mod select;
mod shared;
mod variables;
mod words;

mod atomics;
mod barrier;
mod bits;
mod calls;
mod compare;
mod control;
mod convention;
mod convert;
mod fence;
mod float;
mod half;
mod integer;
mod logic;
mod memory;
mod moves;
mod parameters;
mod special;
mod stack;
mod warp;

pub use calls::aliases;
pub use convention::{DYNAMIC_STACK, KEPT_STACK, RETURN_ADDRESS, prototype};
pub use error::Unsupported;
pub use initializer::{Data, DataAddress};
pub use layout::{Layout, Linking, Static, mentioned};
pub use runtime::{FIRST_LOST, LOST, LOST_PREDICATES, is_runtime, runtime, runtime_function, runtime_names};
pub use select::{Selected, select_function};
pub use variables::{ADDRESS_BANK, CONSTANT_BANK, Home, Homes, SymbolSpace};
