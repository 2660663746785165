//! Random PTX programs that are well typed and defined, and what to do with them.
//!
//! [`generate`](generate::generate) makes a [`Program`](program::Program) from a seed; [`print`] writes it as PTX; [`reduce`] makes a
//! failing one small; [`judge`] compiles it and compares what runs it.

pub mod features;
pub mod generate;
pub mod judge;
pub mod print;
pub mod program;
mod prologue;
pub mod reduce;
pub mod rng;
pub mod table;
pub mod template;
