//! The resource usage of a compiled function.

use crate::schedule::Plan;

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
