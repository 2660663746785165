//! The result of a compilation.

use crate::account::SchedulingReport;
use crate::schedule::Plan;

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
}

/// Resource usage of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionReport {
    /// Name of the function.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Registers per thread.
    pub registers: u32,
    /// Number of named barriers.
    pub barriers: u32,
    /// Bytes of the stack frame in local memory, including spill slots.
    pub stack_bytes: u32,
    /// Bytes that spill stores write.
    pub spill_store_bytes: u32,
    /// Bytes that spill loads read.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory, without the part that the system reserves.
    pub shared_bytes: u32,
    /// Bytes of constant bank 0 up to the end of the last parameter; 0 for a function that is not a kernel.
    pub constant_bytes: u32,
    /// Number of machine instructions, without padding.
    pub instructions: usize,
    /// The scheduling plan used; `None` if the function was not scheduled.
    pub plan: Option<Plan>,
    /// Warnings for the user in ptxas' words, for example about ignored launch bounds.
    pub warnings: Vec<String>,
}
