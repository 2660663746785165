//! The in-memory result of compiling all functions of a program, before the cubin is built.

use oriole_isel::Layout;
use oriole_ptx::ast::Module;

use crate::compile_function::FinishedFunction;
use crate::functions::FunctionIndex;
use crate::job::FunctionJob;

/// A program whose functions are compiled. `jobs` and `finished` have the same order, and so have `modules`, `indices` and `layouts`.
pub struct ProgramCompilation<'a> {
    /// The modules, including those of the runtime functions that are called.
    pub modules: &'a [&'a Module],
    /// For each module: an index of its functions by name.
    pub indices: &'a [FunctionIndex<'a>],
    /// For each module: the offsets of its variables.
    pub layouts: &'a [Layout],
    /// The functions that were compiled, with their inputs.
    pub jobs: &'a [FunctionJob<'a>],
    /// The compiled functions, in the order of `jobs`.
    pub finished: &'a [FinishedFunction],
}
