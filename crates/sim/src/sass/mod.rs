//! Runs machine code from its bytes: a cubin is read with `oriole_cubin`, its words are decoded with `oriole_isa`, and nothing of the
//! compiler is used.
//!
//! # The way of an instruction
//!
//! [`Code::load`] reads the file, places functions and variables and resolves relocations. [`Code::run`] builds a program for one launch:
//! each instruction becomes a [`step::Step`], a guard and an [`step::Action`] with operands and modifiers resolved. The scheduler
//! executes steps for a whole warp at a time: one indirect call, then a loop over 32 lanes.
//!
//! ```text
//! word ──isa::decode──▶ Instruction ──family::build(&Site)──▶ Action ──▶ Step ──schedule──▶ registers, memory, threads
//! ```
//!
//! A family module has a function `build(&Site) -> Option<Built>`: `None` if the opcode is not one of its own, an error
//! ([`step::Unsupported`], with a text) if it does not know the form. It reads modifiers with [`site::Site::has`] and operands, in their
//! order in the text, with the cursor [`site::Operands`]:
//!
//! | method | operand | result |
//! |---|---|---|
//! | `destination`, `wide_destination(n)` | `R`, `UR` that is written (n registers) | [`warp::Place`] |
//! | `predicate_destination` | `P`, `UP` that is written | [`warp::PredicatePlace`] |
//! | `input` | `R`, `UR`, number, `c[b][n]`: 32 bits | [`site::Input`]: source and signs |
//! | `wide_input` | the same, 64 bits; a double's immediate is its upper half | [`site::WideInput`] |
//! | `predicate`, `optional_predicate` | `P`, `UP` that is read, with `!` | [`warp::PredicateSource`] |
//! | `number` | plain number | `i64` |
//! | `take` | any | the operand as decoded |
//!
//! Every operand of the form is there, also those that the text leaves out at their default. Constants are immediates already, because a
//! program is built for one launch. Signs (`-`, `|`, `~`) and suffixes are the family's to apply.
//!
//! The action is a closure on [`warp::Warp`] and a mask of active threads, never empty: [`step::compute`], or one of the loops
//! [`step::map1`], `map2`, `map3`. `Warp::read` gives 32 values, of a uniform register too; `Warp::write` writes those in the mask, and to
//! a uniform register that of the first active thread. So `IADD3` and `UIADD3` are one function.
//!
//! # Threads
//!
//! A warp is a set of groups of threads with one program counter each (module `schedule`); convergence barriers, `WARPSYNC` and block barriers
//! make groups wait and merge. Everything is deterministic: groups, warps and resident blocks take turns in a fixed order.
//!
//! # Watching
//!
//! An [`Observer`] hears of every issued instruction; it is a generic argument, and [`Silent`] costs nothing.

pub mod arith;
mod atomic;
mod constant;
mod constants;
mod convergence;
mod driver;
mod fault;
mod flow;
mod grid;
mod groups;
pub mod kernel_test;
mod lanes;
mod launch;
mod link;
mod load;
pub(crate) mod memory;
mod moves;
mod observe;
mod program;
mod schedule;
pub mod site;
pub mod step;
pub mod warp;
mod watch;
pub(crate) mod world;

pub use fault::{Error, ErrorKind, ErrorPlace, Fault};
pub use grid::{Options, Report};
pub use load::Code;
pub use observe::{Issue, Observer, Silent, Trace};
pub use watch::{Watch, Writer};

#[cfg(test)]
mod tests;
