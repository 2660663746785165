//! Prepares a launch like the driver: fills the constant banks with parameters and launch dimensions, and sizes local and shared memory.

use oriole_isa::{LaunchLayout, LaunchWord, ReservedShared, SharedWindow, SystemLayout, Target, requested_registers};

use super::constants::{BANK_BYTES, ConstantBanks};
use super::fault::{ErrorKind, SassError};
use super::load::{Code, Kernel};
use super::world::Map;
use crate::{GlobalMemory, Launch};

/// Descriptor of global memory; its contents are not interpreted.
const DESCRIPTOR: u64 = 0x0000_1000_0000_0fde;
/// `%nsmid`
const PROCESSORS: u32 = 132;
/// Maximum number of threads in a block.
const MAX_THREADS: u64 = 1024;
/// Maximum local memory per thread, in bytes.
const MOST_STACK: u32 = 512 << 10;
/// Upper bound of shared memory per block, in bytes: more than any GPU has.
const MOST_SHARED: u32 = 1 << 20;
/// Bytes of shared memory reserved by the driver on targets where the reserved part follows the block's own memory.
const RESERVED_BEHIND: u32 = 1024;
/// Value of `SR_CgaSize` for a launch without clusters. Simulated launches with clusters have the same value: code uses it only to find the
/// words that [`fill`] stores.
pub const CLUSTER_SIZE_WORD: u32 = 1;
/// Minimum stack size in bytes, the size the kernel-test runner requests from the driver (whose own default is 1,024). No attribute covers
/// `alloca`, so a kernel whose frame is larger than this minimum has nothing left for it.
const LEAST_STACK: u32 = 16 * 1024;
/// Alignment of the stack in bytes.
const STACK_ALIGNMENT: u32 = 16;
/// Alignment of dynamic shared memory in bytes.
const SHARED_ALIGNMENT: u32 = 128;

/// Everything the warps of a launch need.
pub(super) struct LaunchInputs {
    pub constants: ConstantBanks,
    pub map: Map,
    /// The largest number of general registers that a warp can have.
    pub registers: u16,
    /// The number of general registers with which a warp starts.
    pub initial_registers: u16,
}

impl Code {
    /// Checks the launch against the kernel's attributes and prepares it.
    pub(super) fn prepare(&self, launch: &Launch, kernel: &Kernel) -> Result<LaunchInputs, SassError> {
        let wrong = |message: String| SassError::new(ErrorKind::Launch, format!("{}: {message}", launch.kernel));
        let threads = launch.threads();
        if threads == 0 || threads > MAX_THREADS || launch.grid.contains(&0) {
            return Err(wrong(format!("cannot launch a grid of {:?} blocks of {:?} threads", launch.grid, launch.block)));
        }
        if launch.is_too_large() {
            return Err(wrong(format!("a grid of {:?} blocks is too large for the simulator", launch.grid)));
        }
        if kernel.stack > MOST_STACK || kernel.shared.saturating_add(launch.shared_bytes) > MOST_SHARED {
            let (stack, shared) = (kernel.stack, kernel.shared.saturating_add(launch.shared_bytes));
            return Err(wrong(format!("has {stack} bytes of stack and {shared} of shared memory, which is more than any GPU has")));
        }
        if kernel.required_block.is_some_and(|required| required != launch.block) {
            return Err(wrong(format!("needs blocks of {:?} threads", kernel.required_block.unwrap_or_default())));
        }
        let cluster = launch.cluster_shape(kernel.cluster).map_err(|message| SassError::new(ErrorKind::Launch, message))?;
        let has_clusters = LaunchLayout::of(self.target).cluster.is_some();
        if cluster != [1; 3] && !has_clusters {
            return Err(wrong(format!("{} has no clusters", self.target)));
        }
        if kernel.parameters.len() != launch.arguments.len() {
            return Err(wrong(format!("takes {} parameters, got {}", kernel.parameters.len(), launch.arguments.len())));
        }
        let profile = SystemLayout::of(self.target);
        let reserved = profile.reserved_shared;
        // Dynamic shared memory starts aligned after the static part; without dynamic memory the end is exact.
        let own_shared = kernel.shared.max(reserved).next_multiple_of(if launch.shared_bytes == 0 { 1 } else { SHARED_ALIGNMENT });
        let mut map = Map::new(self.target);
        map.local_bytes = kernel.stack.max(LEAST_STACK).next_multiple_of(STACK_ALIGNMENT);
        map.block = launch.block;
        map.grid = launch.grid;
        map.cluster = cluster;
        map.is_explicit_cluster = has_clusters && (launch.cluster.is_some() || kernel.cluster.is_some_and(|cluster| !cluster.contains(&0)));
        map.shared_bytes = own_shared + launch.shared_bytes;

        let mut constants = ConstantBanks::default();
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
        let requested = self.functions[kernel.function].instructions.iter().flatten().filter_map(requested_registers);
        let registers = requested.fold(kernel.registers, u16::max);
        Ok(LaunchInputs { constants, map, registers, initial_registers: kernel.registers })
    }
}

impl Code {
    /// Fills in the words of the constant banks for the texture, sampler and surface references of a kernel.
    pub(super) fn bind_references(&self, launch: &Launch, memory: &GlobalMemory, constants: &mut ConstantBanks) -> Result<(), SassError> {
        for word in &self.references {
            let (bank, kernel, _) = &self.banks[word.section];
            if kernel.as_ref().is_some_and(|kernel| *kernel != launch.kernel) {
                continue;
            }
            let wrong = |message: String| SassError::new(ErrorKind::Launch, format!("{}: {message}", launch.kernel));
            let handle = memory.reference(&word.name).map_err(wrong)?;
            let start = word.offset as usize;
            let bytes = constants.bank_mut(usize::from(*bank)).get_mut(start..start + 4);
            let bytes = bytes.ok_or_else(|| wrong(format!("the word of `{}` is outside of the constant bank", word.name)))?;
            let old = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            bytes.copy_from_slice(&word.field.put(old, handle).to_le_bytes());
        }
        Ok(())
    }
}

/// Fills the driver's words of constant bank 0, that is, everything except the parameters.
fn fill(bank: &mut [u8], target: Target, launch: &Launch, map: &Map) {
    let (profile, layout) = (SystemLayout::of(target), LaunchLayout::of(target));
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
            let size = map.cluster[axis as usize];
            bytes(place(cluster.size) + 4 * axis, &size.to_le_bytes());
            bytes(place(cluster.reciprocal_size) + 4 * axis, &(1.0 / size as f32).to_le_bytes());
            bytes(place(cluster.grid_size) + 4 * axis, &(launch.grid[axis as usize] / size).to_le_bytes());
        }
        let blocks: u32 = map.cluster.iter().product();
        bytes(cluster.is_explicit, &u32::from(map.is_explicit_cluster).to_le_bytes());
        bytes(place(cluster.block_count), &blocks.to_le_bytes());
        bytes(place(cluster.aggregate_shared), &(blocks * map.shared_bytes).to_le_bytes());
    }
}
