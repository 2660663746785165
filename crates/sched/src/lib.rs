//! Instruction scheduling.
//!
//! ```text
//! Ori on values, Ori on registers, decoded code
//!   │ code       items: registers, order beyond registers, walls
//!   ▼
//! Code ──────────────────────────────┐
//!   │ graph      who comes before whom │
//!   │ backend    picks, with pressure  │
//!   ▼                                  ▼
//! new order ────────────────────────▶ check     the same writers for every reader
//! ```
//!
//! - [`code`]: what a scheduler sees of code;
//! - [`graph`]: the dependency graph of a region, linear in instructions and edges;
//! - [`pressure`]: live registers as a schedule grows;
//! - [`backend`]: the schedulers of a published description of ptxas, their settings, and the clock they share;
//! - [`check`]: whether a new order computes what the old one did; shares no logic with the others;
//! - [`function`]: scheduling of functions before and after register allocation;
//! - [`score`]: how long a whole function takes, to choose among schedules;
//! - [`report`]: what a schedule is worth, in figures and in words.
//!
//! The model of `oriole-hardware` is data: classes, grids, machines. The rest of this crate puts the questions of the description to it:
//!
//! - [`Descriptor`]: what an instruction is to the scheduler, and the bits that the description packs it into;
//! - [`latency`]: cycles between two instructions that meet in a register;
//! - [`space`]: which memory an instruction reaches, whether it is hot or cold, whether it takes long;
//! - [`resource`]: how busy the ten units are, for each block;
//! - [`register_cost`]: what a register counts for.

pub mod backend;
pub mod check;
pub mod code;
pub mod descriptor;
pub mod function;
pub mod graph;
pub mod latency;
pub mod offer;
pub mod pressure;
pub mod register_cost;
pub mod report;
pub mod resource;
pub mod score;
pub mod space;

pub use descriptor::{Descriptor, Packed, PipeFlags, PipeMask, SubClass};
pub use latency::{INFINITE_LATENCY, Meeting, Place, UNSCHEDULED, latency, latency_between, meetings, operand_latency};
pub use oriole_hardware::ThroughputClass;
pub use register_cost::{RegisterCost, RegisterDescriptor, Tracking, register_cost};
pub use resource::{Costs, Mode, Resources, Slot};
pub use space::Space;
