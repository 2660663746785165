//! Resolves addresses to a memory and an offset, and accesses the bytes there.

use oriole_isa::{SharedWindow, SystemLayout};

use crate::sass::warp::{ThreadIndices, Warp};
use crate::sass::world::{Map, WINDOW_BYTES, World};
use crate::{AccessFault, FaultKind};

/// The memory space that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
}

/// The memory of an address, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlace {
    Global(u64),
    /// An offset in the shared memory of the thread's block, with or without the rank of the block in its cluster.
    Shared(u64),
    /// An offset in the shared memories of the cluster, with the rank of a block.
    Cluster(u64),
    /// An offset in the local memory of the thread.
    Local(u64),
    /// A constant bank and an offset in it.
    Constant(u32, u64),
}

/// The constant bank of constant variables.
const VARIABLES: u32 = 3;

/// Number of blocks whose shared memories are consecutive in the window.
const CLUSTER_BLOCKS: u64 = 16;

impl Space {
    /// Resolves an address of this space.
    #[inline]
    pub fn locate(self, address: u64, map: &Map) -> MemoryPlace {
        match self {
            Space::Shared => MemoryPlace::Shared(address),
            Space::Local => MemoryPlace::Local(address),
            Space::Generic | Space::Global => {
                let window = |start: u64, bytes: u64| address.checked_sub(start).filter(|&offset| offset < bytes);
                if self == Space::Generic {
                    if let Some(offset) = window(map.shared_window, shared_window_bytes(map)) {
                        return MemoryPlace::Cluster(offset);
                    }
                    if let Some(offset) = window(map.local_window, WINDOW_BYTES) {
                        return MemoryPlace::Local(offset);
                    }
                }
                if let Some(offset) = window(map.constant_window, WINDOW_BYTES) {
                    return MemoryPlace::Constant(VARIABLES, offset);
                }
                if let Some(offset) = window(map.parameter_window, WINDOW_BYTES) {
                    let profile = SystemLayout::of(map.target);
                    let start = i64::from(profile.parameters) - i64::from(profile.parameter_window_start);
                    return MemoryPlace::Constant(0, offset.wrapping_add_signed(start));
                }
                MemoryPlace::Global(address)
            }
        }
    }
}

/// Returns the slot of the block and the offset in its shared memory for an address with the rank of a block.
pub fn in_cluster(identity: &ThreadIndices, address: u64) -> Result<(usize, u64), String> {
    let (rank, offset) = (address / WINDOW_BYTES, address % WINDOW_BYTES);
    match identity.cluster_slots.get(rank as usize) {
        Some(&slot) => Ok((slot, offset)),
        None => Err(format!("an access to shared memory of block {rank} of a cluster of {} blocks", identity.cluster_slots.len())),
    }
}

/// Returns the size of the shared memory window in bytes.
pub fn shared_window_bytes(map: &Map) -> u64 {
    match SystemLayout::of(map.target).shared_window {
        SharedWindow::Cluster => CLUSTER_BLOCKS * WINDOW_BYTES,
        SharedWindow::Constant(_) => WINDOW_BYTES,
    }
}

/// Returns the bytes of an access to writable memory, or an error text.
#[inline]
pub fn bytes_mut<'m>(
    warp: &'m mut Warp,
    world: &'m mut World<'_>,
    lane: usize,
    place: MemoryPlace,
    bytes: usize,
) -> Result<&'m mut [u8], String> {
    match place {
        MemoryPlace::Global(address) => world.memory.write(address, bytes).map_err(|fault| describe(&fault)),
        MemoryPlace::Shared(offset) => {
            let memory = &mut world.shared[warp.identity.slot];
            let size = memory.len();
            let own = u64::from(warp.identity.rank) * WINDOW_BYTES;
            let offset = if offset >= own { offset - own } else { offset };
            within(offset, bytes, size, "shared")?;
            Ok(&mut memory[offset as usize..offset as usize + bytes])
        }
        MemoryPlace::Cluster(address) => {
            let (slot, offset) = in_cluster(&warp.identity, address)?;
            let memory = &mut world.shared[slot];
            within(offset, bytes, memory.len(), "shared")?;
            Ok(&mut memory[offset as usize..offset as usize + bytes])
        }
        MemoryPlace::Local(offset) => {
            let size = world.map.local_bytes as usize;
            if warp.local.is_empty() {
                warp.local = vec![LOCAL_GARBAGE; size * 32];
            }
            within(offset, bytes, size, "local")?;
            let start = lane * size + offset as usize;
            Ok(&mut warp.local[start..start + bytes])
        }
        MemoryPlace::Constant(bank, offset) => Err(format!("a write to constant bank {bank} at {offset:#x}")),
    }
}

/// Initial value of local memory.
const LOCAL_GARBAGE: u8 = 0x5a;

/// Reads bytes of any memory.
#[inline]
pub fn read(warp: &mut Warp, world: &mut World<'_>, lane: usize, place: MemoryPlace, out: &mut [u8]) -> Result<(), String> {
    match place {
        MemoryPlace::Global(address) => {
            out.copy_from_slice(world.memory.read(address, out.len()).map_err(|fault| describe(&fault))?);
        }
        MemoryPlace::Constant(bank, offset) => {
            within(offset, out.len(), WINDOW_BYTES as usize, "constant")?;
            for (at, byte) in out.iter_mut().enumerate() {
                *byte = world.constants.byte(bank, offset as u32 + at as u32);
            }
        }
        _ => out.copy_from_slice(bytes_mut(warp, world, lane, place, out.len())?),
    }
    Ok(())
}

/// Checks bounds and alignment of an access to a memory of `size` bytes.
fn within(offset: u64, bytes: usize, size: usize, name: &str) -> Result<(), String> {
    if offset.checked_add(bytes as u64).is_none_or(|end| end > size as u64) {
        return Err(format!("{bytes} bytes at {offset:#x} of {name} memory, which has {size:#x}"));
    }
    if !offset.is_multiple_of(bytes as u64) {
        return Err(format!("{bytes} bytes at {offset:#x} of {name} memory are not aligned"));
    }
    Ok(())
}

/// Describes a fault of global memory.
fn describe(fault: &AccessFault) -> String {
    let AccessFault { address, bytes, kind, near } = fault;
    let kind = match kind {
        FaultKind::OutOfBounds => "are not in any allocation",
        FaultKind::Misaligned => "are not aligned",
    };
    let near = near.as_ref().map_or(String::new(), |(name, offset)| format!(" ({name}+{offset:#x})"));
    format!("{bytes} bytes at {address:#x}{near} {kind}")
}
