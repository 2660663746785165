//! The PTX interpreter: runs a module by the manual's meaning, and says where the manual gives none.
//!
//! It is the reference of the project, so it shares nothing with the compiler but the front end and `oriole-sem`. [`Program::new`]
//! decodes a checked module once; [`Program::load`] puts its variables into a [`Memory`]; [`Loaded::run`] runs a kernel there.
//!
//! ```
//! use oriole_sim::ptx::{Options, Program};
//! use oriole_sim::{Launch, Memory};
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
//! let program = Program::new(&checked.module, text).unwrap();
//! let mut memory = Memory::new();
//! let out = memory.allocate("out", vec![0; 8]);
//! let loaded = program.load(&mut memory);
//! let arguments = vec![out.to_le_bytes().to_vec()];
//! let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [2, 1, 1], shared_bytes: 0, arguments };
//! let report = loaded.run(&launch, &mut memory, &Options::default()).unwrap();
//! assert!(report.findings.is_empty());
//! assert_eq!(memory.contents(out).unwrap(), [0, 0, 0, 0, 1, 0, 0, 0]);
//! ```
//!
//! **Threads.** A warp of 32 threads runs one group of threads at a time (`run/warp.rs`); divergence needs no help from the program.
//! Every thread that can go on goes on eventually, also when another one of its warp, block or grid spins. Operations that synchronize
//! a warp wait for all threads of their mask (`run/together.rs`), barriers for those of the block (`run/block.rs`).
//!
//! **Undefined values.** A register that was never written may be copied, computed with, passed, and stored to local, shared and
//! parameter memory: its bits are tracked through all of these. It is reported where it decides something or leaves the kernel's own
//! memory: as an address, a guard, the index of a branch, a member mask, an operand of a barrier or of an atomic operation, the
//! address of a function, or a value that is stored to global memory. Logic, shifts, packing and `selp` are exact by bit; any other
//! operation with an undefined bit has an undefined result.
//!
//! **Memory** is sequentially consistent: threads take turns, and each sees what others wrote before. What weaker orders would allow is
//! not explored, but a program that depends on it has races. Asynchronous copies happen as late as they may (`run/copy.rs`).
//!
//! **Not supported** are bulk and tensor copies, `mbarrier`, clusters beyond their special registers, `wmma`, `wgmma`, `tcgen05`, sparse
//! and scaled `mma`, textures, surfaces, video instructions, stochastic rounding and `fma.oob`. `tests/ptx_coverage.rs` has the list.
//!
//! **Where the manual leaves something open** the interpreter does what is likely on hardware: division of integers by zero gives all
//! ones, the approximate functions give the correctly rounded result, exited threads do not count at barriers without a count, and a
//! kernel's blocks may wait for each other.

mod decode;
mod finding;
mod program;
mod run;
mod variables;

pub use finding::{Error, Finding, FindingKind};
use oriole_kernel_test::KernelTest;
use oriole_ptx::ast::Module;
pub use program::Program;
use program::Target;
use variables::Image;

use crate::Launch;
use crate::kernel_test::{self, Failure, Setup};
use crate::memory::Memory;

/// What a run looks for, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Report values that were never written.
    pub undefined_values: bool,
    /// Report data races in shared memory.
    pub races: bool,
    /// Steps of warps after which the run is stopped.
    pub most_steps: u64,
    /// What `malloc` may give.
    pub heap_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { undefined_values: true, races: true, most_steps: 1 << 33, heap_bytes: 8 << 20 }
    }
}

/// The outcome of a run that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Undefined behaviour that did not stop the run.
    pub findings: Vec<Finding>,
    /// Instructions, each counted for every thread that executed it.
    pub instructions: u64,
    /// What `vprintf` wrote.
    pub output: String,
}

impl Program {
    /// Decodes a module that [`oriole_ptx::check`] found valid. The text is what it was made from, for line numbers.
    ///
    /// A function with an instruction that the interpreter does not support is an error for whoever launches a kernel that needs it;
    /// see [`Program::refused`].
    pub fn new(module: &Module, text: &[u8]) -> Result<Program, Error> {
        decode::decode(module, text)
    }

    /// The kernels, in alphabetical order.
    pub fn kernels(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.kernels.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// How many bytes each parameter of a kernel has; none if the kernel does not exist or cannot be run.
    pub fn parameter_sizes(&self, kernel: &str) -> Option<Vec<u32>> {
        match &self.functions[*self.kernels.get(kernel)? as usize] {
            Target::Code(code) => Some(code.kernel.as_ref()?.parameters.iter().map(|&(_, bytes)| bytes).collect()),
            _ => None,
        }
    }

    /// The functions that cannot be run, each with the first reason.
    pub fn refused(&self) -> Vec<(&str, &Error)> {
        let refused = self.functions.iter().filter_map(|target| match target {
            Target::Refused { name, error } => Some((name.as_str(), error)),
            _ => None,
        });
        refused.collect()
    }

    /// Runs a kernel test; what it reports if the buffers hold what they must. Where the test asks for the interpreter's values, these
    /// are right by definition.
    pub fn run_test(&self, test: &KernelTest, options: &Options) -> Result<Report, Failure<Error>> {
        if test.needs_interpreter() {
            let (complete, _) = self.complete_test(test, options).map_err(Failure::Engine)?;
            return self.run_test(&complete, options);
        }
        let mut report = None;
        let mut engine = |launch: &Launch, memory: &mut Memory| {
            report = Some(self.load(memory).run(launch, memory, options)?);
            Ok(())
        };
        kernel_test::run(test, &mut engine)?;
        Ok(report.unwrap_or(Report { findings: Vec::new(), instructions: 0, output: String::new() }))
    }

    /// A test with its expected values complete: where it asks for those of the interpreter, they are what a run gives. The report of
    /// that run comes with it, because undefined behaviour would make the values worthless.
    pub fn complete_test(&self, test: &KernelTest, options: &Options) -> Result<(KernelTest, Report), Error> {
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
    pub fn load(&self, memory: &mut Memory) -> Loaded<'_> {
        Loaded { program: self, image: self.variables.load(memory) }
    }
}

/// A program whose variables are in a memory. They keep what kernels write.
pub struct Loaded<'p> {
    program: &'p Program,
    image: Image,
}

impl Loaded<'_> {
    /// Runs a kernel in the memory that the program was loaded into.
    pub fn run(&self, launch: &Launch, memory: &mut Memory, options: &Options) -> Result<Report, Error> {
        run::run(self.program, &self.image, launch, memory, options)
    }
}
