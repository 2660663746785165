//! What schedulers ask the hardware model.
//!
//! The model of `oriole-hardware` is data: classes, grids, machines. This crate puts the questions of a published description of ptxas'
//! scheduler to it:
//!
//! - [`Descriptor`]: what an instruction is to the scheduler, and the bits that the description packs it into;
//! - [`latency`]: cycles between two instructions that meet in a register;
//! - [`space`]: which memory an instruction reaches, whether it is hot or cold, whether it takes long;
//! - [`resource`]: how busy the ten units are, for each block;
//! - [`register_cost`]: what a register counts for.

pub mod descriptor;
pub mod latency;

pub mod register_cost;
pub mod resource;
pub mod space;

pub use descriptor::{Descriptor, Packed, PipeFlags, PipeMask, SubClass};
pub use latency::{INFINITE_LATENCY, Meeting, Place, UNSCHEDULED, latency, latency_between, meetings, operand_latency};
pub use oriole_hardware::ThroughputClass;
pub use register_cost::{RegisterCost, RegisterDescriptor, Tracking, register_cost};
pub use resource::{Costs, Mode, Resources, Slot};
pub use space::Space;
