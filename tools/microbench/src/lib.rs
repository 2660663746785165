//! Latencies, issue rates and hazards of a GPU, measured with machine code of our own.
//!
//! [`plan`] makes a list of experiments from the tables under `data/` and writes a cubin for each; [`run`] runs them on a GPU;
//! [`report`] turns what came back into figures. [`hazard`] and [`timing`] are the two kinds of kernels, [`environment`] is what
//! they have in common, [`assembler`] makes files of them.

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
