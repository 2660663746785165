//! Generates random PTX programs that are well typed and have defined behaviour, and tests the compiler with them.
//!
//! [`generate`](generate::generate) creates a [`Program`](program::Program) from a seed; [`print`] writes it as PTX; [`judge`] compiles
//! it and compares interpreter and simulator; [`reduce`] makes a failing program small. [`contractions`] has programs of its own kind, whose
//! products and sums may be rounded together, and compares the results of two compilers.

pub mod contractions;
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
