//! Functional simulator of machine code: executes the bytes of a cubin. Reads the file with `oriole_cubin`, decodes words with
//! `oriole_isa`, and uses nothing of the compiler.
//!
//! # Stages of an instruction
//!
//! [`Code::load`] reads the file, assigns addresses to functions and variables, and resolves relocations. [`Code::run`] builds a program
//! for one launch: each instruction becomes a [`step::Step`], which is a guard and an [`step::Action`] with operands and modifiers
//! resolved. The scheduler executes steps for a whole warp at a time: one indirect call, then a loop over 32 lanes.
//!
//! ```text
//! word ──isa::decode──▶ Instruction ──family::build(&Site)──▶ Action ──▶ Step ──schedule──▶ registers, memory, threads
//! ```
//!
//! Instructions are grouped into family modules. Each has a function `build(&Site) -> Option<Built>`: `None` if the opcode belongs to
//! another family, an error ([`step::UnsupportedInst`], with a text) if it does not implement the form. It queries modifiers with
//! [`site::Site::has`] and takes operands, in the order of the text, with the cursor [`site::Operands`]:
//!
//! | method | operand | result |
//! |---|---|---|
//! | `destination`, `wide_destination(n)` | written `R` or `UR` (n registers) | [`warp::Destination`] |
//! | `predicate_destination` | written `P` or `UP` | [`warp::PredicateDestination`] |
//! | `input` | `R`, `UR`, number, `c[b][n]`: 32 bits | [`site::Input`]: source and sign modifiers |
//! | `wide_input` | the same, 64 bits; a double immediate is the upper half | [`site::WideInput`] |
//! | `predicate`, `optional_predicate` | read `P` or `UP`, with `!` | [`warp::PredicateSource`] |
//! | `number` | plain number | `i64` |
//! | `take` | any | the operand as decoded |
//!
//! The decoder yields every operand of the form, including those that the text omits because they have the default value. Constants are
//! already immediates, because a program is built for one launch. Sign modifiers (`-`, `|`, `~`) and suffixes are applied by the family.
//!
//! The action is a closure on [`warp::Warp`] and a non-empty mask of active threads, made by [`step::compute`]. `Warp::read` returns 32
//! values, for uniform registers too; `Warp::write` writes the values of the threads in the mask, and to a uniform register the value of
//! the first active thread. So `IADD3` and `UIADD3` share one function.
//!
//! # Threads
//!
//! The threads of a warp form groups, each with one program counter (module `groups`); convergence barriers, `WARPSYNC` and block barriers
//! make groups wait and merge. Execution is deterministic: groups, warps and resident blocks take turns in a fixed order.
//!
//! # Observers
//!
//! An [`Observer`] is notified of every issued instruction. It is a generic parameter, so [`Silent`] costs nothing.

pub mod arith;
mod atomic;
mod bulk;
mod constant;
mod constants;
mod convergence;
mod copy_call;
mod driver;
mod fault;
mod flow;
mod gradient_call;
mod grid;
mod groups;
pub mod kernel_test;
mod lanes;
mod launch;
mod link;
mod load;
mod mbarrier;
pub(crate) mod memory;
mod moves;
mod observe;
mod program;
mod quad_products;
mod register_pool;
mod schedule;
pub mod site;
pub mod step;
mod tensor;
mod texture;
pub mod warp;
mod warpgroup;
mod watch;
pub(crate) mod world;

pub use fault::{ErrorKind, ErrorPlace, Fault, SassError};
pub use grid::{GridOptions, LaunchReport};
pub use load::Code;
pub use observe::{Issue, Observer, Silent, Trace};
pub use watch::{WriteWatch, WritingThread};
