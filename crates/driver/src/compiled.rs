//! The result of a compilation.

use crate::account::SchedulingReport;
use crate::decisions::Decisions;
use crate::function_report::FunctionReport;

/// The result of a compilation: a cubin, and reports about its functions.
#[derive(Clone, Default, Debug)]
pub struct Compiled {
    /// The bytes of the cubin. Empty, like the lists below, if the options stop the compilation after a pass.
    pub cubin: Vec<u8>,
    /// Resource usage of each function, in source order.
    pub functions: Vec<FunctionReport>,
    /// Total size of the global variables in bytes.
    pub global_bytes: u64,
    /// The constant banks that hold data of the modules: bank number and size in bytes.
    pub constant_bytes: Vec<(u8, u64)>,
    /// The scheduling report of each function, in the order of [`Compiled::functions`].
    pub scheduling: Vec<SchedulingReport>,
    /// The recorded decisions of passes for each function, in the order of [`Compiled::functions`]; empty unless requested.
    pub decisions: Vec<Decisions>,
}
