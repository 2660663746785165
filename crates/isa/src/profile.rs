//! Facts about a target that are no encodings: where the driver puts things, and which resources there are.
//!
//! Offsets in constant bank 0 and window registers were read from what ptxas 13.0.88 makes for each target.

use crate::table::Opcode;
use crate::target::Target;

/// What passes ask about a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Offset of the kernel's parameters in constant bank 0, up to [`SMALL_PARAMETER_BYTES`] bytes of them.
    pub parameters: u32,
    /// Offset of the kernel's parameters in constant bank 0 if they take more bytes than that.
    pub large_parameters: u32,
    /// Offset of the initial stack pointer in constant bank 0.
    pub stack_pointer: u32,
    /// Offset of the generic address at which local memory appears, 64 bits.
    pub local_window: u32,
    /// Offset of the generic address at which constant bank 3 appears, 64 bits.
    pub constant_window: u32,
    /// Offset of the 64-bit generic address that the parameters of kernels are found by.
    pub parameter_window: u32,
    /// Where [`Profile::parameters`] is, as seen from that address.
    pub parameter_window_start: u32,
    /// How generic addresses of shared memory are found.
    pub shared_window: SharedWindow,
    /// Offset of the descriptor that accesses to global memory go by; none where they need none.
    pub descriptor: Option<u32>,
    /// Bytes at the start of shared memory that belong to the system.
    pub reserved_shared: u32,
}

/// The most bytes of parameters that a kernel has at the usual place. Kernels with more exist since PTX ISA 8.1.
pub const SMALL_PARAMETER_BYTES: u32 = 4352;

impl Profile {
    /// Returns the offset in constant bank 0 of the parameters of a kernel that has this many bytes of them.
    pub fn parameters_start(&self, bytes: u32) -> u32 {
        if bytes > SMALL_PARAMETER_BYTES { self.large_parameters } else { self.parameters }
    }

    /// Returns the distance in bytes from the address at [`Profile::parameter_window`] to the parameters of such a kernel.
    pub fn parameters_in_window(&self, bytes: u32) -> u32 {
        self.parameter_window_start + self.parameters_start(bytes) - self.parameters
    }
}

/// Where shared memory appears in the generic address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedWindow {
    /// At the 64-bit address with this offset in constant bank 0.
    Constant(u32),
    /// The upper half of addresses is in a special register; the lower half holds the block's number in its cluster.
    Cluster,
}

const TURING: Profile = Profile {
    parameters: 0x160,
    large_parameters: 0x1a80,
    stack_pointer: 0x28,
    local_window: 0x20,
    constant_window: 0x50,
    parameter_window: 0x40,
    parameter_window_start: 0x160,
    shared_window: SharedWindow::Constant(0x18),
    descriptor: None,
    reserved_shared: 0,
};
const AMPERE: Profile = Profile { descriptor: Some(0x118), ..TURING };
const HOPPER: Profile = Profile {
    parameters: 0x210,
    large_parameters: 0x210,
    constant_window: 0xd0,
    parameter_window: 0x198,
    parameter_window_start: 0,
    shared_window: SharedWindow::Cluster,
    descriptor: Some(0x208),
    reserved_shared: 0x400,
    ..TURING
};
const BLACKWELL: Profile = Profile {
    parameters: 0x380,
    large_parameters: 0x380,
    stack_pointer: 0x37c,
    local_window: 0x2f8,
    constant_window: 0x120,
    parameter_window: 0x348,
    descriptor: Some(0x358),
    ..HOPPER
};

impl Target {
    /// What passes ask about it.
    pub fn profile(self) -> &'static Profile {
        match self.number() {
            ..80 => &TURING,
            80..90 => &AMPERE,
            90..100 => &HOPPER,
            _ => &BLACKWELL,
        }
    }

    /// Whether it has any form of an instruction.
    pub fn has(self, opcode: Opcode) -> bool {
        opcode.forms().any(|id| id.form().targets >> self.table_bit() & 1 == 1)
    }
}
