//! The result of a compilation.

use crate::account::SchedulingReport;
use crate::decisions::Decisions;
use crate::function_report::FunctionReport;

/// The result of a compilation.
#[derive(Clone, Default, Debug)]
pub struct Compiled {
    /// The bytes of the cubin file. Empty if the options stop the compilation after a pass; the lists of functions are empty too then.
    pub cubin: Vec<u8>,
    /// Resource usage of each function, in source order.
    pub functions: Vec<FunctionReport>,
    /// Total size of the global variables in bytes.
    pub global_bytes: u64,
    /// Constant banks that belong to the module: bank number and size in bytes.
    pub constant_bytes: Vec<(u8, u64)>,
    /// What scheduling did with each function, in the order of [`Compiled::functions`].
    pub scheduling: Vec<SchedulingReport>,
    /// What passes did with each function, in the order of [`Compiled::functions`]; empty unless requested.
    pub decisions: Vec<Decisions>,
}
