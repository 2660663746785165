//! The memories a warp accesses, and their windows in the generic address space.

use oriole_isa::{SharedWindow, SystemLayout, Target};

use super::bulk::BulkCopies;
use super::constants::ConstantBanks;
use crate::GlobalMemory;

/// Memories and clock of a running grid.
pub struct World<'a> {
    pub memory: &'a mut GlobalMemory,
    /// Shared memory of each resident block, by slot.
    pub shared: &'a mut [Vec<u8>],
    /// Bulk copies that have been issued but not performed.
    pub copies: &'a mut BulkCopies,
    pub constants: &'a ConstantBanks,
    pub map: &'a Map,
    /// Text printed by the program so far.
    pub printed: &'a mut String,
    /// Number of warp instructions issued so far; the value of the clock registers.
    pub clock: u64,
}

/// Base addresses of the windows in the generic address space, and sizes.
#[derive(Clone, Debug)]
pub struct Map {
    pub target: Target,
    pub shared_window: u64,
    pub local_window: u64,
    pub constant_window: u64,
    pub parameter_window: u64,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// `%ntid`
    pub block: [u32; 3],
    /// `%nctaid`
    pub grid: [u32; 3],
    /// `%cluster_nctaid`
    pub cluster: [u32; 3],
    /// Whether the launch specifies a cluster size.
    pub is_explicit_cluster: bool,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
}

/// Size of the shared and local memory windows, in bytes.
pub const WINDOW_BYTES: u64 = 1 << 24;

/// Address of the first function; above 32 bits, so that code that drops the upper half of an address fails.
pub const CODE_START: u64 = 0x7d00_0000_0000;

/// Address of the first module variable.
pub const GLOBALS_START: u64 = 0x7e00_0000_0000;

impl Map {
    /// Makes the windows of a target. Where code reads the base from a constant, its lower half is not zero, so that code that ignores it
    /// fails.
    pub fn new(target: Target) -> Map {
        let is_cluster = SystemLayout::of(target).shared_window == SharedWindow::Cluster;
        Map {
            target,
            shared_window: if is_cluster { 0x7a00_0000_0000 } else { 0x7a00_1000_0000 },
            local_window: 0x7b00_2000_0000,
            constant_window: 0x7c00_0000_0000,
            parameter_window: 0x7c80_0000_0000,
            local_bytes: 0,
            block: [1; 3],
            grid: [1; 3],
            cluster: [1; 3],
            is_explicit_cluster: false,
            shared_bytes: 0,
        }
    }
}
