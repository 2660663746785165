//! Runs kernels on a real GPU through the CUDA driver.
//!
//! The driver library is opened at run time ([`driver`]), so nothing of CUDA is needed to build. [`launch`] runs one kernel
//! test in the current process; [`batch`] runs many in worker processes, because a kernel that faults poisons its whole
//! context and one that hangs never returns. [`table`] says how sets of cubins compare.

pub mod batch;
pub mod driver;
pub mod launch;
pub mod table;
