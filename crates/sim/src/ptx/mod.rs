//! PTX interpreter: executes a module as the manual defines it, and reports behaviour that the manual leaves undefined.
//!
//! It is the project's reference for results, so it shares only the front end and `oriole-sem` with the compiler. [`PtxProgram::new`] decodes
//! a checked module once; [`PtxProgram::load`] puts its variables into a [`GlobalMemory`]; [`Loaded::run`] runs a kernel there.
//!
//! ```
//! use oriole_sim::ptx::{PtxOptions, PtxProgram};
//! use oriole_sim::{GlobalMemory, Launch};
//!
//! let text = b".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out) {
//!     .reg .u64 %a; .reg .u32 %t;
//!     ld.param.u64 %a, [out];
//!     mov.u32 %t, %tid.x;
//!     mad.wide.u32 %a, %t, 4, %a;
//!     st.global.u32 [%a], %t;
//!     ret;
//! }";
//! let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
//! let program = PtxProgram::new(&checked.module, text).unwrap();
//! let mut memory = GlobalMemory::new();
//! let out = memory.allocate("out", vec![0; 8]);
//! let loaded = program.load(&mut memory);
//! let arguments = vec![out.to_le_bytes().to_vec()];
//! let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [2, 1, 1], cluster: None, shared_bytes: 0, arguments };
//! let report = loaded.run(&launch, &mut memory, &PtxOptions::default()).unwrap();
//! assert!(report.findings.is_empty());
//! assert_eq!(memory.contents(out).unwrap(), [0, 0, 0, 0, 1, 0, 0, 0]);
//! ```
//!
//! **Threads.** A warp of 32 threads runs one group of threads at a time (`run/warp.rs`); the program need not do anything about
//! divergence. Every thread that can make progress eventually does, even if another thread of its warp, block or grid spins.
//! Warp-synchronous operations wait for all threads of their mask (`run/together.rs`), barriers for the threads of the block
//! (`run/block.rs`).
//!
//! **Undefined values.** An uninitialized register may be copied, computed with, passed to a function, and stored to local, shared and
//! parameter memory; its undefined bits are tracked through all of these. It is reported where it affects behaviour or leaves the kernel's
//! own memory: as an address, a guard, a branch index, a member mask, an operand of a barrier or atomic, a function address, or a value
//! stored to global memory. Logic, shifts, packing and `selp` are tracked exactly per bit; any other operation with an undefined input bit
//! has a fully undefined result.
//!
//! **Memory** is sequentially consistent: threads take turns, and each sees all earlier writes. The additional outcomes of weaker orders
//! are not explored, but a program that depends on them has data races. Asynchronous copies are performed as late as allowed
//! (`run/copy.rs`). While an asynchronous copy or a matrix product of a warpgroup is in flight, accesses to its memory and registers are
//! reported, and so are stores that no proxy fence makes visible to it (`run/races/asynchronous.rs`, `run/products.rs`).
//!
//! **Not supported**: tensor copies that gather or scatter rows or have `.im2col::w`, `tcgen05`, scaled `mma`, `multimem`, textures by
//! reference, stochastic rounding and `fma.oob`. `tests/ptx_coverage.rs` has the list.
//!
//! **Where the manual leaves a choice**, the interpreter does what hardware is likely to do: integer division by zero gives all ones,
//! approximate functions give the correctly rounded result, exited threads do not count at barriers without a thread count, and the blocks
//! of a kernel may wait for each other.

mod decode;
mod finding;
mod program;
mod run;
mod variables;

pub use finding::{FindingKind, PtxError, UndefinedBehavior};
use oriole_kernel_test::KernelTest;
use oriole_ptx::ast::Module;
use program::CallTarget;
pub use program::PtxProgram;
use variables::ImageVariable;

use crate::Launch;
use crate::kernel_test::{self, Setup, TestFailure};
use crate::memory::GlobalMemory;

/// Which checks a run performs, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxOptions {
    /// Report uses of uninitialized values.
    pub undefined_values: bool,
    /// Report data races in shared memory, and asynchronous accesses that are too early.
    pub races: bool,
    /// Warp steps after which the run is stopped.
    pub most_steps: u64,
    /// Size of the `malloc` heap in bytes.
    pub heap_bytes: u64,
}

impl Default for PtxOptions {
    fn default() -> Self {
        PtxOptions { undefined_values: true, races: true, most_steps: 1 << 33, heap_bytes: 8 << 20 }
    }
}

/// The result of a completed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxReport {
    /// Undefined behaviour that did not stop the run.
    pub findings: Vec<UndefinedBehavior>,
    /// Number of executed instructions, counted once per thread.
    pub instructions: u64,
    /// Text printed by `vprintf`.
    pub output: String,
}

impl PtxProgram {
    /// Decodes a module that [`oriole_ptx::check`] accepted. `text` is the module's source, used for line numbers.
    ///
    /// A function with an unsupported instruction is an error only when a launched kernel needs it; see [`PtxProgram::refused`].
    pub fn new(module: &Module, text: &[u8]) -> Result<PtxProgram, PtxError> {
        decode::decode(module, text)
    }

    /// Returns the names of the kernels, in alphabetical order.
    pub fn kernels(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.kernels.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Returns the size in bytes of each parameter of a kernel; `None` if the kernel does not exist or cannot be run.
    pub fn parameter_sizes(&self, kernel: &str) -> Option<Vec<u32>> {
        match &self.functions[*self.kernels.get(kernel)? as usize] {
            CallTarget::Code(code) => Some(code.kernel.as_ref()?.parameters.iter().map(|&(_, bytes)| bytes).collect()),
            _ => None,
        }
    }

    /// Returns the functions that cannot be run, each with the first reason.
    pub fn refused(&self) -> Vec<(&str, &PtxError)> {
        let refused = self.functions.iter().filter_map(|target| match target {
            CallTarget::Refused { name, error } => Some((name.as_str(), error)),
            _ => None,
        });
        refused.collect()
    }

    /// Runs a kernel test and returns its report if the buffers match. Expected values that the test takes from the interpreter are
    /// computed first, and match by definition.
    pub fn run_test(&self, test: &KernelTest, options: &PtxOptions) -> Result<PtxReport, TestFailure<PtxError>> {
        if test.needs_interpreter() {
            let (complete, _) = self.complete_test(test, options).map_err(TestFailure::Engine)?;
            return self.run_test(&complete, options);
        }
        let mut report = None;
        let mut engine = |launch: &Launch, memory: &mut GlobalMemory| {
            report = Some(self.load(memory).run(launch, memory, options)?);
            Ok(())
        };
        kernel_test::run(test, &mut engine)?;
        Ok(report.unwrap_or(PtxReport { findings: Vec::new(), instructions: 0, output: String::new() }))
    }

    /// Returns the test with expected values filled in where it asks for those of the interpreter, and the report of the run that computed
    /// them. The values are meaningless if the report has findings.
    pub fn complete_test(&self, test: &KernelTest, options: &PtxOptions) -> Result<(KernelTest, PtxReport), PtxError> {
        let mut setup = Setup::new(test);
        let report = self.load(&mut setup.memory).run(&setup.launch, &mut setup.memory, options)?;
        let mut complete = test.clone();
        for expectation in &mut complete.expectations {
            if let Some(((element, _), bytes)) = setup.buffer(&expectation.parameter).zip(setup.contents(&expectation.parameter)) {
                expectation.resolve(element, bytes);
            }
        }
        Ok((complete, report))
    }

    /// Puts the global variables into memory.
    pub fn load(&self, memory: &mut GlobalMemory) -> LoadedProgram<'_> {
        LoadedProgram { program: self, image: self.variables.load(memory) }
    }
}

/// A program whose global variables are in a memory. Variables keep their values between launches.
pub struct LoadedProgram<'p> {
    program: &'p PtxProgram,
    image: ImageVariable,
}

impl LoadedProgram<'_> {
    /// Runs a kernel in the memory that the program was loaded into.
    pub fn run(&self, launch: &Launch, memory: &mut GlobalMemory, options: &PtxOptions) -> Result<PtxReport, PtxError> {
        run::run(self.program, &self.image, launch, memory, options)
    }
}
