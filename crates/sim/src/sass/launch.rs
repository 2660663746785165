//! What the driver does at a launch: constant banks with parameters and sizes, and the extent of local and shared memory.

use oriole_isa::{LaunchWord, ReservedShared, SharedWindow, Target};

use super::constants::{BANK_BYTES, Constants};
use super::fault::{Error, ErrorKind};
use super::load::{Code, Kernel};
use super::world::Map;
use crate::Launch;

/// What the descriptor of global memory holds; nobody looks inside.
const DESCRIPTOR: u64 = 0x0000_1000_0000_0fde;
/// `%nsmid`
const PROCESSORS: u32 = 132;
/// Most threads of a block.
const MAX_THREADS: u64 = 1024;
/// Shared memory that the driver keeps for itself where the block's own does not start behind it.
const RESERVED_BEHIND: u32 = 1024;
/// What `SR_CgaSize` says of a launch without clusters.
pub const CLUSTER_SIZE_WORD: u32 = 1;
/// The driver's least stack; what `alloca` takes is in no attribute.
const LEAST_STACK: u32 = 1024;
const STACK_ALIGNMENT: u32 = 16;
const SHARED_ALIGNMENT: u32 = 128;

/// Everything about a launch that its warps need.
pub(super) struct Prepared {
    pub constants: Constants,
    pub map: Map,
    pub registers: u16,
}

impl Code {
    pub(super) fn prepare(&self, launch: &Launch, kernel: &Kernel) -> Result<Prepared, Error> {
        let wrong = |message: String| Error::new(ErrorKind::Launch, format!("{}: {message}", launch.kernel));
        let threads: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
        if threads == 0 || threads > MAX_THREADS || launch.grid.contains(&0) {
            return Err(wrong(format!("cannot launch a grid of {:?} blocks of {:?} threads", launch.grid, launch.block)));
        }
        if kernel.required_block.is_some_and(|required| required != launch.block) {
            return Err(wrong(format!("needs blocks of {:?} threads", kernel.required_block.unwrap_or_default())));
        }
        if kernel.cluster.is_some_and(|cluster| cluster != [1, 1, 1] && cluster != [0, 0, 0]) {
            return Err(wrong("clusters of more than one block are not simulated".into()));
        }
        if kernel.parameters.len() != launch.arguments.len() {
            return Err(wrong(format!("takes {} parameters, got {}", kernel.parameters.len(), launch.arguments.len())));
        }
        let profile = self.target.profile();
        let reserved = profile.reserved_shared;
        // Dynamic memory starts at an aligned address behind the kernel's own; without it, the end is exact.
        let own_shared = kernel.shared.max(reserved).next_multiple_of(if launch.shared_bytes == 0 { 1 } else { SHARED_ALIGNMENT });
        let mut map = Map::new(self.target);
        map.local_bytes = kernel.stack.max(LEAST_STACK).next_multiple_of(STACK_ALIGNMENT);
        map.block = launch.block;
        map.grid = launch.grid;
        map.shared_bytes = own_shared + launch.shared_bytes;

        let mut constants = Constants::default();
        for (bank, name, bytes) in &self.banks {
            if name.as_ref().is_none_or(|name| *name == launch.kernel) {
                let whole = constants.bank_mut(usize::from(*bank));
                if whole.len() < bytes.len() {
                    whole.resize(bytes.len(), 0);
                }
                whole[..bytes.len()].copy_from_slice(bytes);
            }
        }
        let bank = constants.bank_mut(0);
        bank.resize(BANK_BYTES as usize, 0);
        fill(bank, self.target, launch, &map);
        for (&(offset, size), argument) in kernel.parameters.iter().zip(&launch.arguments) {
            if argument.len() != size as usize {
                return Err(wrong(format!("a parameter has {size} bytes, got {}", argument.len())));
            }
            let start = (kernel.parameters_start + offset) as usize;
            bank[start..start + argument.len()].copy_from_slice(argument);
        }
        Ok(Prepared { constants, map, registers: kernel.registers })
    }
}

/// The words beside the parameters.
fn fill(bank: &mut [u8], target: Target, launch: &Launch, map: &Map) {
    let (profile, layout) = (target.profile(), target.launch());
    let mut bytes = |offset: u32, value: &[u8]| bank[offset as usize..offset as usize + value.len()].copy_from_slice(value);
    let place = |word: LaunchWord| match word {
        LaunchWord::At(offset) => offset,
        LaunchWord::PerClusterSize { offset, step } => offset - step * CLUSTER_SIZE_WORD,
    };
    for axis in 0..3 {
        bytes(layout.block_size + 4 * axis, &launch.block[axis as usize].to_le_bytes());
        bytes(layout.grid_size + 4 * axis, &launch.grid[axis as usize].to_le_bytes());
    }
    bytes(layout.grid_id, &1u64.to_le_bytes());
    bytes(layout.graph, &0u64.to_le_bytes());
    bytes(layout.processor_count, &PROCESSORS.to_le_bytes());
    bytes(place(layout.dynamic_shared), &launch.shared_bytes.to_le_bytes());
    if let Some(offset) = layout.reserved_shared_size {
        let size = if profile.reserved_shared == 0 { RESERVED_BEHIND } else { profile.reserved_shared };
        bytes(offset, &size.to_le_bytes());
    }
    if let Some(reserved) = layout.reserved_shared {
        let end = match reserved {
            ReservedShared::AtEnd { .. } => map.shared_bytes + RESERVED_BEHIND,
            ReservedShared::AtStart { capacity, .. } => capacity,
        };
        bytes(place(reserved.end()), &end.to_le_bytes());
        bytes(place(reserved.second()), &end.to_le_bytes());
    }
    bytes(profile.stack_pointer, &map.local_bytes.to_le_bytes());
    bytes(profile.local_window, &map.local_window.to_le_bytes());
    bytes(profile.constant_window, &map.constant_window.to_le_bytes());
    bytes(profile.parameter_window, &map.parameter_window.to_le_bytes());
    if let SharedWindow::Constant(offset) = profile.shared_window {
        bytes(offset, &map.shared_window.to_le_bytes());
    }
    if let Some(offset) = profile.descriptor {
        bytes(offset, &DESCRIPTOR.to_le_bytes());
    }
    if let Some(cluster) = layout.cluster {
        for axis in 0..3 {
            bytes(place(cluster.size) + 4 * axis, &1u32.to_le_bytes());
            bytes(place(cluster.reciprocal_size) + 4 * axis, &1f32.to_le_bytes());
            bytes(place(cluster.grid_size) + 4 * axis, &launch.grid[axis as usize].to_le_bytes());
        }
        bytes(place(cluster.block_count), &1u32.to_le_bytes());
        bytes(place(cluster.aggregate_shared), &map.shared_bytes.to_le_bytes());
    }
}
