//! A compiled program before it becomes a file.

use oriole_isel::Layout;
use oriole_ptx::ast::Module;

use crate::compile_function::Finished;
use crate::functions::FunctionIndex;
use crate::job::Job;

/// A program whose functions are compiled. Functions and jobs correspond by their position, modules, indices and layouts too.
pub struct Program<'a> {
    /// The modules, with that of the runtime functions if any are called.
    pub modules: &'a [&'a Module],
    /// The functions of each module by name.
    pub indices: &'a [FunctionIndex<'a>],
    /// The variables of each module.
    pub layouts: &'a [Layout],
    /// The functions to compile.
    pub jobs: &'a [Job<'a>],
    /// The compiled functions.
    pub finished: &'a [Finished],
}
