//! Instruction scheduling inside basic blocks, before and after register allocation.
//!
//! ```text
//! IR on virtual registers, IR on physical registers, decoded machine code
//!   │ code       converts each instruction to an item: registers, memory effects, scheduling barriers
//!   ▼
//! Code ──────────────────────────────────────┐
//!   │ graph      builds the dependency graph │
//!   │ backend    schedules a region          │
//!   ▼                                        ▼
//! new order ──────────────────────────────▶ check     proves that both orders compute the same
//! ```
//!
//! A *region* is a run of items between two scheduling barriers of a basic block. The scheduler reorders items inside a region only.
//!
//! - [`code`]: the representation of instructions that all parts of the scheduler share;
//! - [`graph`]: the dependency graph of a region, built in time linear in operands and edges;
//! - [`pressure`]: number of live registers while a schedule grows;
//! - [`backend`]: the scheduling strategies, their common interface and settings, and the clock that all of them share;
//! - [`calls`]: estimated execution times of called functions;
//! - [`check`]: a checker that compares the meaning of two orders and shares no logic with the schedulers;
//! - [`function`]: scheduling of whole functions, before and after register allocation;
//! - `in_flight`: results in flight across block boundaries;
//! - `carried`: dependences between consecutive iterations of a loop;
//! - [`score`]: estimated execution time of a whole function, for choosing among schedules;
//! - [`occupancy_tradeoff`]: estimates whether a schedule with more registers and lower occupancy would be faster;
//! - [`report`]: statistics and traces of a schedule for the user.
//!
//! The hardware model in `oriole-hardware` is data: instruction classes, latency tables, machine limits. The modules below derive from this
//! model the properties that the published description of ptxas uses:
//!
//! - [`SchedDescriptor`]: the scheduling properties of an instruction, and the bit layout in which that description packs them;
//! - [`space`]: memory space of an instruction, and whether its latency is long ("hot") or short ("cold");
//! - [`resource`]: busy cycles of the ten functional units and changes of register pressure, per block.
#![warn(unreachable_pub)]

pub mod backend;
pub mod calls;
mod carried;
pub mod check;
pub mod code;
mod descriptor;
pub mod function;
pub mod graph;
mod in_flight;
pub mod occupancy_tradeoff;
pub mod pressure;
pub mod report;
pub mod resource;
pub mod score;
pub mod space;

pub use descriptor::{IncompleteClass, PackedDescriptor, PipeFlags, PipeMask, SchedDescriptor, SubClass};
pub use space::SchedSpace;
