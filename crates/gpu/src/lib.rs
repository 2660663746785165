//! Runs kernels on a GPU through the CUDA driver.
//!
//! The driver library is loaded at run time ([`driver`]), so that building needs no part of CUDA. [`launch`] runs one kernel test in the
//! current process. [`batch`] runs many in worker processes, because a kernel that faults makes its whole context unusable and one that
//! hangs never returns. [`table`] compares sets of cubins.

pub mod batch;
pub mod driver;
pub mod launch;
pub mod table;
