//! What the CUDA driver and the hardware define for programs of a target: addresses in constant bank 0, memory windows, and limits.
//!
//! The offsets in constant bank 0 and the window registers were found by compiling test programs with ptxas 13.0.88 for each target.

use oriole_support::{Architecture, Suffix, Target};

/// The system layout of one target. Offsets are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemLayout {
    /// Offset of the kernel parameters in constant bank 0 if they take at most [`SMALL_PARAMETER_BYTES`] bytes.
    pub parameters: u32,
    /// Offset of the kernel parameters in constant bank 0 if they take more than [`SMALL_PARAMETER_BYTES`] bytes.
    pub large_parameters: u32,
    /// Whether the place in constant bank 0 of a parameter that starts at `parameters` is a multiple of its alignment; otherwise its offset
    /// from the first parameter is.
    pub aligns_parameters_in_bank: bool,
    /// Alignment in bytes of the first word for texture and surface references after the parameters, counted from the first parameter.
    pub image_word_alignment: u64,
    /// Offset of the initial stack pointer in constant bank 0.
    pub stack_pointer: u32,
    /// Offset in constant bank 0 of the 64-bit generic address of the local memory window.
    pub local_window: u32,
    /// Offset in constant bank 0 of the 64-bit generic address of constant bank 3.
    pub constant_window: u32,
    /// Offset in constant bank 0 of a 64-bit generic address from which the kernel parameters are reached.
    pub parameter_window: u32,
    /// Distance in bytes from the address at [`SystemLayout::parameter_window`] to the parameters at [`SystemLayout::parameters`].
    pub parameter_window_start: u32,
    /// How the generic address of shared memory is computed.
    pub shared_window: SharedWindow,
    /// Offset in constant bank 0 of the descriptor for global memory accesses; `None` on targets that need no descriptor.
    pub descriptor: Option<u32>,
    /// Bytes at the start of shared memory that the system reserves.
    pub reserved_shared: u32,
    /// Whether products of bit matrices (`BMMA`) can combine bits with exclusive or. nvdisasm prints such an instruction for Hopper, but
    /// ptxas never emits it there.
    pub multiplies_bits_with_xor: bool,
    /// Whether products of sparse matrices need the indices of each group in ascending order. ptxas sorts them there.
    pub sorts_sparse_indices: bool,
    /// The register file that holds the handle of a texture or surface.
    pub texture_handle: TextureHandle,
    /// Whether a texture fetch without a level reads the most detailed level. Elsewhere ptxas gives a level that is below every other.
    pub fetches_without_level: bool,
    /// Offset in constant bank 0 of the 64-bit address of the driver's table with properties of textures. The addresses of the tables for
    /// samplers and surfaces follow.
    pub image_tables: u32,
    /// Whether functions of the CUDA driver copy global memory into shared memory of other blocks of a cluster, because the copy engine does not.
    pub driver_copies_to_blocks: bool,
    /// Offset in shared memory of the record of allocated tensor memory, on targets that have tensor memory.
    pub tensor_memory_record: u32,
    /// Limits on the memory that one program may use.
    pub limits: Limits,
}

/// The register file that holds the handle of a texture or surface.
///
/// The tables of encodings have forms with a handle in a general register for Hopper too, but ptxas never emits them there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextureHandle {
    /// A general register: each thread has its own handle.
    General,
    /// Uniform registers: the active threads of a warp have the same handle.
    Uniform,
}

/// The largest sizes that ptxas 13.0.88 accepts. Each limit was tested one byte below and one byte above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of static shared memory of a kernel and all functions that it reaches, without the bytes that the system reserves.
    pub static_shared: u64,
    /// The same for targets with the suffix `a`, where it is all shared memory that a block can have.
    pub static_shared_arch_specific: u64,
    /// Bytes of `.const` variables of a program.
    pub constants: u64,
    /// Bytes of parameters of a kernel.
    pub parameters: u64,
    /// Bytes of a function's frame. ptxas has no limit of its own and fails at 2 GiB. The CUDA driver refuses to load a kernel that needs
    /// more than 512 KiB per thread.
    pub frame: u64,
    /// Bytes of the frame of a function with spilled or saved registers. Their offsets are signed 24-bit numbers.
    pub frame_with_slots: u64,
}

/// Largest number of parameter bytes for which a kernel's parameters are at [`SystemLayout::parameters`]. Larger sizes exist since PTX ISA 8.1.
pub const SMALL_PARAMETER_BYTES: u64 = 4352;

impl SystemLayout {
    /// Returns the system layout of a target.
    ///
    /// # Panics
    ///
    /// If the target has no machine code ([`Target::has_machine_code`]).
    pub fn of(target: Target) -> &'static SystemLayout {
        match target.architecture() {
            Architecture::Tesla | Architecture::Fermi | Architecture::Kepler | Architecture::Maxwell | Architecture::Pascal => {
                no_machine_code(target)
            }
            Architecture::Volta | Architecture::Turing => &TURING,
            Architecture::Ampere | Architecture::Ada => &AMPERE,
            Architecture::Hopper => &HOPPER,
            Architecture::Blackwell if target.number() >= 120 => &BLACKWELL_CONSUMER,
            Architecture::Blackwell if target.number() == 110 => &THOR,
            Architecture::Blackwell => &BLACKWELL,
        }
    }

    /// Returns the offset in constant bank 0 of the parameters of a kernel with `bytes` bytes of parameters, counted from an offset that is
    /// a multiple of every alignment.
    pub fn parameters_start(&self, bytes: u64) -> u32 {
        if bytes > SMALL_PARAMETER_BYTES { self.large_parameters } else { self.parameters }
    }

    /// Returns the distance in bytes from the address at [`SystemLayout::parameter_window`] to parameters that start at this offset in
    /// constant bank 0.
    pub fn parameters_in_window(&self, start: u32) -> u32 {
        self.parameter_window_start + start - self.parameters
    }
}

/// How the generic address of shared memory is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedWindow {
    /// The 64-bit generic address is at this offset in constant bank 0.
    Constant(u32),
    /// The upper half of the address is in a special register; the lower half holds the rank of the block in its cluster.
    Cluster,
}

impl Limits {
    /// Returns the limit of static shared memory for a target.
    pub fn static_shared_of(&self, target: Target) -> u64 {
        match target.suffix() {
            Suffix::ArchSpecific => self.static_shared_arch_specific,
            Suffix::Plain | Suffix::FamilySpecific => self.static_shared,
        }
    }
}

/// The limits are the same for sm_75 to sm_121, except static shared memory of targets with a suffix.
const LIMITS: Limits = Limits {
    static_shared: 0xc000,
    static_shared_arch_specific: 0xc000,
    constants: 0x1_0000,
    parameters: 0x7ffc,
    frame: 0x7fff_fff0,
    frame_with_slots: 0x7f_fff0,
};

const TURING: SystemLayout = SystemLayout {
    parameters: 0x160,
    large_parameters: 0x1a80,
    aligns_parameters_in_bank: true,
    image_word_alignment: 4,
    stack_pointer: 0x28,
    local_window: 0x20,
    constant_window: 0x50,
    parameter_window: 0x40,
    parameter_window_start: 0x160,
    shared_window: SharedWindow::Constant(0x18),
    descriptor: None,
    reserved_shared: 0,
    multiplies_bits_with_xor: true,
    sorts_sparse_indices: false,
    texture_handle: TextureHandle::General,
    fetches_without_level: false,
    image_tables: 0x70,
    driver_copies_to_blocks: false,
    tensor_memory_record: 0,
    limits: LIMITS,
};
const AMPERE: SystemLayout = SystemLayout { descriptor: Some(0x118), ..TURING };
const HOPPER: SystemLayout = SystemLayout {
    parameters: 0x210,
    large_parameters: 0x210,
    constant_window: 0xd0,
    parameter_window: 0x198,
    parameter_window_start: 0,
    shared_window: SharedWindow::Cluster,
    descriptor: Some(0x208),
    reserved_shared: 0x400,
    multiplies_bits_with_xor: false,
    texture_handle: TextureHandle::Uniform,
    image_tables: 0xf0,
    limits: Limits { static_shared_arch_specific: 0x3_8c00, ..LIMITS },
    ..TURING
};
const BLACKWELL: SystemLayout = SystemLayout {
    parameters: 0x380,
    large_parameters: 0x380,
    aligns_parameters_in_bank: false,
    image_word_alignment: 16,
    stack_pointer: 0x37c,
    local_window: 0x2f8,
    constant_window: 0x120,
    parameter_window: 0x348,
    descriptor: Some(0x358),
    sorts_sparse_indices: true,
    image_tables: 0x150,
    tensor_memory_record: 0x40,
    ..HOPPER
};
// Another variable of the system comes first there.
const THOR: SystemLayout = SystemLayout { tensor_memory_record: 0xc0, ..BLACKWELL };
const BLACKWELL_CONSUMER: SystemLayout = SystemLayout {
    fetches_without_level: true,
    driver_copies_to_blocks: true,
    limits: Limits { static_shared_arch_specific: 0x1_8c00, ..LIMITS },
    ..BLACKWELL
};

/// Stops at a target without machine code. [`Target::parse`] does not return one, and `oriole_driver::compile` rejects one at its start.
#[cold]
pub(crate) fn no_machine_code(target: Target) -> ! {
    panic!("{target} has no machine code")
}
