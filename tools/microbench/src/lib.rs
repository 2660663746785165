//! Measures latencies, issue rates and hazards of a GPU with our own machine code.
//!
//! [`plan`] creates a list of experiments from the tables under `data/` and writes a cubin for each; [`run`] runs them on a GPU;
//! [`report`] turns the results into figures. [`hazard`] and [`timing`] generate the two kinds of kernels, [`environment`] is their common
//! part, and [`assembler`] assembles them.

pub mod analyze;
pub mod assembler;
pub mod compare;
pub mod environment;
pub mod hazard;
pub mod plan;
pub mod report;
pub mod run;
pub mod table;
pub mod timing;
