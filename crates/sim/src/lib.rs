//! Two machines without a GPU: [`ptx`] runs PTX by the manual's meaning and is the reference; [`sass`] runs the decoded bytes of a
//! cubin as the hardware would. Neither uses the compiler, so each can judge it.
//!
//! Both run a [`Launch`] on a [`Memory`], so the same kernel test runs in either.

pub mod hazard;
pub mod kernel_test;
pub mod memory;
pub mod ptx;
pub mod sass;
pub mod timing;
pub mod verify;

pub use memory::{Fault, FaultKind, Memory};

/// A kernel to run: which, how many threads, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// One entry per parameter, its bytes as the kernel sees them. The engine lays them out with the alignment of the kernel's
    /// declaration.
    pub arguments: Vec<Vec<u8>>,
}

/// Threads of a grid that an engine runs; more would take hours.
const MOST_GRID_THREADS: u64 = 1 << 32;

impl Launch {
    /// Threads of a block; the largest number if there are more.
    pub fn threads(&self) -> u64 {
        self.block.iter().fold(1, |threads, &size| threads.saturating_mul(size.into()))
    }

    /// Blocks of the grid; the largest number if there are more.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |blocks, &size| blocks.saturating_mul(size.into()))
    }

    /// Whether the grid has more threads than an engine of this crate runs.
    pub fn is_too_large(&self) -> bool {
        self.threads().saturating_mul(self.blocks()) > MOST_GRID_THREADS
    }
}
