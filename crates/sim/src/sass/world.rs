//! What a warp sees beside its registers: memories and where they appear in the generic address space.

use oriole_isa::{SharedWindow, Target};

use super::constants::Constants;
use crate::Memory;

/// Memories of a running grid.
pub struct World<'a> {
    pub memory: &'a mut Memory,
    /// Shared memory of each resident block.
    pub shared: &'a mut [Vec<u8>],
    pub constants: &'a Constants,
    pub map: &'a Map,
    /// What the program has printed.
    pub printed: &'a mut String,
    /// Warp instructions issued so far; what clocks count.
    pub clock: u64,
}

/// Where things are in the generic address space, and how large they are.
#[derive(Clone, Debug)]
pub struct Map {
    pub target: Target,
    pub shared_window: u64,
    pub local_window: u64,
    pub constant_window: u64,
    pub parameter_window: u64,
    /// Bytes of local memory for each thread.
    pub local_bytes: u32,
    /// `%ntid`, `%nctaid`
    pub block: [u32; 3],
    pub grid: [u32; 3],
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
}

/// Size of the windows of shared and local memory.
pub const WINDOW_BYTES: u64 = 1 << 24;

/// Where functions are; above 32 bits, so that both halves of a code address matter.
pub const CODE_START: u64 = 0x7d00_0000_0000;

/// Where variables of the module are.
pub const GLOBALS_START: u64 = 0x7e00_0000_0000;

impl Map {
    /// The windows of a target. Where the base is read from a constant its lower half is not zero, so that nobody may ignore it.
    pub fn new(target: Target) -> Map {
        let is_cluster = target.profile().shared_window == SharedWindow::Cluster;
        Map {
            target,
            shared_window: if is_cluster { 0x7a00_0000_0000 } else { 0x7a00_1000_0000 },
            local_window: 0x7b00_2000_0000,
            constant_window: 0x7c00_0000_0000,
            parameter_window: 0x7c80_0000_0000,
            local_bytes: 0,
            block: [1; 3],
            grid: [1; 3],
            shared_bytes: 0,
        }
    }
}
