//! Executes GPU code without a GPU, and checks machine code.
//!
//! - [`ptx`] interprets PTX as the manual defines it, and is the reference for results;
//! - [`sass`] executes the decoded bytes of a cubin like the hardware;
//! - [`timing`] estimates the cycles of a launch, [`hazard`] and [`verify`] check control words and encodings.
//!
//! None of them uses the compiler, so each can check the compiler's output. Both engines run a [`Launch`] on a [`GlobalMemory`], so the same
//! kernel test runs in either ([`kernel_test`]).

mod filter;
mod gradient;
pub mod hazard;
mod image;
pub mod kernel_test;
pub mod memory;
pub mod ptx;
mod sampling;
pub mod sass;
mod tensor_map;
pub mod timing;
pub mod verify;

pub use memory::{AccessFault, FaultKind, GlobalMemory};

/// A kernel launch: the kernel's name, the grid, and the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub kernel: String,
    /// Number of blocks along x, y, z.
    pub grid: [u32; 3],
    /// Number of threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Number of blocks of a cluster along x, y, z; `None` for that of the kernel's declaration, which is 1 if there is none.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// One entry per parameter: its bytes, little endian. The engine places them with the offsets of the kernel's declaration.
    pub arguments: Vec<Vec<u8>>,
}

/// Maximum number of threads in a grid that an engine runs; more would take hours.
const MOST_GRID_THREADS: u64 = 1 << 32;

/// Maximum number of blocks of a cluster.
const MOST_CLUSTER_BLOCKS: u32 = 16;

impl Launch {
    /// Returns the number of blocks of a cluster along x, y, z, for a kernel that declares `declared`; fails if the launch is not possible.
    pub(crate) fn cluster_shape(&self, declared: Option<[u32; 3]>) -> Result<[u32; 3], String> {
        // `.explicitcluster` alone declares a size of 0.
        let declared = declared.filter(|cluster| !cluster.contains(&0));
        let cluster = self.cluster.or(declared).unwrap_or([1; 3]);
        let blocks = cluster.iter().fold(1_u32, |blocks, &size| blocks.saturating_mul(size));
        let divides = (0..3).all(|axis| cluster[axis] != 0 && self.grid[axis].is_multiple_of(cluster[axis]));
        let (kernel, grid) = (&self.kernel, self.grid);
        match declared {
            Some(declared) if declared != cluster => Err(format!("{kernel} needs clusters of {declared:?} blocks, not {cluster:?}")),
            _ if !divides => Err(format!("{kernel} has a grid of {grid:?} blocks, which is no multiple of clusters of {cluster:?}")),
            _ if blocks > MOST_CLUSTER_BLOCKS => Err(format!("{kernel} has clusters of {blocks} blocks, more than {MOST_CLUSTER_BLOCKS}")),
            _ => Ok(cluster),
        }
    }

    /// Returns the number of threads of a block; saturates.
    pub fn threads(&self) -> u64 {
        self.block.iter().fold(1, |threads, &size| threads.saturating_mul(size.into()))
    }

    /// Returns the number of blocks of the grid; saturates.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |blocks, &size| blocks.saturating_mul(size.into()))
    }

    /// Returns whether the grid has more threads than the engines of this crate run.
    pub fn is_too_large(&self) -> bool {
        self.threads().saturating_mul(self.blocks()) > MOST_GRID_THREADS
    }
}
