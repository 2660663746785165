//! What is specific to a target in cubins, and how a cubin encodes its target.
//!
//! The ELF header holds the number of the SM and whether the file has Mercury code besides SASS. It does not hold the suffix of the target:
//! that a cubin is for `sm_90a` and not for `sm_90` is an attribute of the section `.nv.compat`. A file for `sm_100f` cannot be
//! distinguished from one for `sm_100` (cuobjdump prints both as `sm=100`).
//!
//! Layout of `e_flags`, ABI version 8 (written by ptxas 13.0, for every target):
//!
//! | bits | meaning |
//! |---|---|
//! | 7:0 | 4: SASS only; 2: with a Mercury capsule for each function |
//! | 15:8 | number of the SM |
//! | 23:16 | 0 |
//! | 31:24 | index of the section `.note.nv.cuinfo` |
//!
//! ABI version 7 (toolkits up to 12, the last ones that know Volta): bits 7:0 are the SM, bits 10 and 8 are set, bit 11 is the suffix
//! `a`, bits 23:16 the virtual SM. Such a file has no notes; `e_version` is ten times the version of the toolkit, and the flags of a code
//! section hold the number of named barriers.

use std::fmt;

use oriole_support::{Suffix, Target};

/// The generation of file layout that ptxas uses for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutGeneration {
    /// Volta to Ada: relocations without addends, constants before code, one loadable segment.
    Ampere,
    /// Hopper: relocations with addends, `.nv.compat`, reserved shared memory, constants after code.
    Hopper,
    /// Blackwell: as Hopper, and each code section has a Mercury counterpart.
    Blackwell,
}

/// The properties that all cubins of a target have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTraits {
    pub target: Target,
    /// ABI version of the file: [`ABI_VERSION`], or [`OLD_ABI_VERSION`] for targets that CUDA 13 does not know.
    pub abi_version: u8,
    pub style: LayoutGeneration,
    /// Value of `EIATTR_SW_WAR` of every kernel; `None` if kernels do not have it.
    pub software_workarounds: Option<u32>,
    /// Whether every kernel has `EIATTR_SW2861232_WAR`.
    pub has_workaround_2861232: bool,
    /// First word of `EICOMPAT_ATTR_CAN_FASTPATH_FINALIZE`, for targets with `.nv.compat`.
    pub fastpath_finalize: u32,
    /// Name and size in bytes of the variable that every file has in reserved shared memory.
    pub reserved_variable: Option<(&'static str, u64)>,
}

const fn row(number: u16, style: LayoutGeneration, software_workarounds: Option<u32>) -> FileTraits {
    FileTraits {
        target: Target::plain(number),
        abi_version: ABI_VERSION,
        style,
        software_workarounds,
        has_workaround_2861232: false,
        fastpath_finalize: 0,
        reserved_variable: None,
    }
}

const fn volta(number: u16) -> FileTraits {
    FileTraits { abi_version: OLD_ABI_VERSION, ..row(number, LayoutGeneration::Ampere, Some(1)) }
}

const fn ampere(number: u16, software_workarounds: Option<u32>) -> FileTraits {
    FileTraits { has_workaround_2861232: true, ..row(number, LayoutGeneration::Ampere, software_workarounds) }
}

const fn blackwell(number: u16, fastpath_finalize: u32, software_workarounds: u32) -> FileTraits {
    FileTraits { fastpath_finalize, ..row(number, LayoutGeneration::Blackwell, Some(software_workarounds)) }
}

const THOR: FileTraits = FileTraits { reserved_variable: Some(("__nv_reservedSMEM_gb10b_war_var", 0x80)), ..blackwell(110, 0, 8) };

/// The numbers of all targets of ptxas 13.0.88, and of Volta as in ptxas 12.8.93. Targets that differ in the suffix only have the same traits.
const ROWS: [FileTraits; 14] = [
    volta(70),
    volta(72),
    row(75, LayoutGeneration::Ampere, Some(1)),
    ampere(80, None),
    ampere(86, None),
    ampere(87, Some(2)),
    ampere(88, None),
    row(89, LayoutGeneration::Ampere, None),
    row(90, LayoutGeneration::Hopper, Some(8)),
    blackwell(100, 9, 8),
    blackwell(103, 0, 8),
    THOR,
    blackwell(120, 0x50, 0),
    blackwell(121, 0, 0),
];

/// Maximum number of bytes of kernel parameters in the original layout. Larger parameters, which exist since PTX ISA 8.1, are described by
/// `EIATTR_KPARAM_INFO_V2`, and on Turing to Ada they have another offset in constant bank 0.
pub const SMALL_PARAMETER_BYTES: u16 = 4352;

impl LayoutGeneration {
    /// Returns the offset in constant bank 0 of the parameters of a kernel; `is_large` says whether they have the layout for more than
    /// [`SMALL_PARAMETER_BYTES`].
    pub fn parameter_base(self, is_large: bool) -> u16 {
        match self {
            LayoutGeneration::Ampere if is_large => 0x1a80,
            LayoutGeneration::Ampere => 0x160,
            LayoutGeneration::Hopper => 0x210,
            LayoutGeneration::Blackwell => 0x380,
        }
    }

    /// Returns the number of bytes that the system reserves at the start of each block's shared memory.
    pub fn reserved_shared(self) -> u64 {
        match self {
            LayoutGeneration::Ampere => 0,
            LayoutGeneration::Hopper | LayoutGeneration::Blackwell => 0x400,
        }
    }

    /// Returns the state space in `EIATTR_KPARAM_INFO` of a parameter that points to constant memory: from Hopper on, that of global memory.
    pub fn constant_pointer_space(self) -> u8 {
        match self {
            LayoutGeneration::Ampere => 3,
            LayoutGeneration::Hopper | LayoutGeneration::Blackwell => 4,
        }
    }

    /// Returns the value of the symbol `.nv.reservedSmem.offset0`.
    pub(crate) fn reserved_offset(self) -> u64 {
        match self {
            LayoutGeneration::Ampere | LayoutGeneration::Hopper => 0,
            LayoutGeneration::Blackwell => 0x40,
        }
    }

    /// Returns the major and minor number in `EIATTR_MERCURY_ISA_VERSION`.
    pub(crate) fn mercury_version(self) -> u16 {
        match self {
            LayoutGeneration::Ampere => 0,
            LayoutGeneration::Hopper | LayoutGeneration::Blackwell => 0x101,
        }
    }
}

impl FileTraits {
    /// Returns the traits of a target; `None` if Oriole writes no files for it.
    pub fn of(target: Target) -> Option<FileTraits> {
        let row = ROWS.iter().find(|row| row.target.number() == target.number())?;
        Some(FileTraits { target, ..*row })
    }

    /// Returns the traits of all targets, by number.
    pub fn all() -> impl Iterator<Item = FileTraits> {
        Target::all().filter_map(FileTraits::of)
    }

    /// Returns whether functions say which sparse matrix instructions they use (`EIATTR_SPARSE_MMA_MASK`).
    pub fn has_sparse_mma_mask(&self) -> bool {
        self.style != LayoutGeneration::Ampere
    }

    /// Returns whether functions of relocatable files name the constant bank of texture and surface references.
    pub fn names_image_banks(&self) -> bool {
        self.style == LayoutGeneration::Ampere
    }

    /// Returns whether files have the format of CUDA 12: no notes, and the number of barriers in the flags of code sections.
    pub(crate) fn has_old_format(&self) -> bool {
        self.abi_version == OLD_ABI_VERSION
    }

    /// Returns ten times the version of the toolkit whose files these are.
    pub fn toolkit(&self) -> u32 {
        if self.has_old_format() { 128 } else { 130 }
    }

    /// Returns whether the target has the suffix `a`.
    pub(crate) fn is_specific(&self) -> bool {
        self.target.suffix() == Suffix::ArchSpecific
    }

    /// Returns whether ptxas' files for the target have a Mercury capsule for each function.
    pub fn has_mercury(&self) -> bool {
        self.style == LayoutGeneration::Blackwell
    }
}

/// `e_flags`, read with the identification of the header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    pub bits: u32,
    /// The ABI version. In both layouts of the flags, 2 means that the code has no calling convention: ptxas writes it for modules with `.local`
    /// variables outside of functions, before PTX 3.0.
    pub abi_version: u8,
    /// Whether the bits have the layout of CUDA 13 (`EI_OSABI` is [`OS_ABI`](crate::OS_ABI)), not that of CUDA 12 and before.
    pub is_current: bool,
}

/// The ABI version of the files of CUDA 13.
pub const ABI_VERSION: u8 = 8;

/// The ABI version of the files of CUDA 12 and before.
pub const OLD_ABI_VERSION: u8 = 7;

/// Bits that are set in `e_flags` of every file of ABI version 7.
const OLD_FLAGS: u32 = 0x500;

/// Values of bits 7:0 of `e_flags` in ABI version 8.
const SASS_ONLY: u32 = 4;
const WITH_MERCURY: u32 = 2;

impl Flags {
    /// Returns the flags of a file whose `.note.nv.cuinfo` is section `cuinfo`. ptxas' files for Blackwell have Mercury code.
    pub fn new(target: Target, has_mercury: bool, cuinfo: u8) -> Flags {
        let class = if has_mercury { WITH_MERCURY } else { SASS_ONLY };
        Flags { bits: class | u32::from(target.number()) << 8 | u32::from(cuinfo) << 24, abi_version: ABI_VERSION, is_current: true }
    }

    /// Returns the flags of a file of ABI version 7 whose PTX was written for `virtual_sm`.
    pub(crate) fn old(target: Target, virtual_sm: u16) -> Flags {
        let bits = u32::from(target.number()) | OLD_FLAGS | u32::from(virtual_sm) << 16;
        Flags { bits, abi_version: OLD_ABI_VERSION, is_current: false }
    }

    /// Returns the number of the SM.
    pub fn sm(self) -> u8 {
        let [low, second, _, _] = self.bits.to_le_bytes();
        if self.is_current { second } else { low }
    }

    /// Returns whether the file has Mercury code.
    pub fn has_mercury(self) -> bool {
        self.is_current && self.bits & 0xff == WITH_MERCURY
    }

    /// Returns whether the target has the suffix `a`, as far as the flags of ABI version 7 say so.
    pub(crate) fn is_specific(self) -> bool {
        !self.is_current && self.bits & 0x800 != 0
    }

    /// Returns the index of the section `.note.nv.cuinfo`; `None` in ABI version 7.
    #[cfg(test)]
    fn cuinfo_section(self) -> Option<u8> {
        self.is_current.then_some(self.bits.to_le_bytes()[3])
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#x}, ABI version {})", self.bits, self.abi_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are what cuobjdump 13.2 prints for a file with these flags in its header.
    #[test]
    fn flags_of_both_versions_are_read() {
        let old = |bits| Flags { bits, abi_version: 7, is_current: false };
        assert_eq!((old(0x5a055a).sm(), old(0x5a055a).is_specific()), (90, false));
        assert_eq!((old(0x5a0d5a).sm(), old(0x5a0d5a).is_specific()), (90, true));
        assert_eq!(old(0x500556).sm(), 86);
        // Written by ptxas 12.8.93 for sm_70.
        assert_eq!(Flags::old(Target::plain(70), 70), old(0x46_0546));
        // A file of ptxas 13.0.88 for PTX 2.1 with `.local` variables outside of functions.
        let without_abi = Flags { bits: 0x0600_4b04, abi_version: 2, is_current: true };
        assert_eq!((without_abi.sm(), without_abi.has_mercury(), without_abi.is_specific()), (75, false, false));
        let new = Flags { bits: 0x0b00_6402, abi_version: 8, is_current: true };
        assert_eq!((new.sm(), new.has_mercury(), new.cuinfo_section()), (100, true, Some(11)));
    }

    #[test]
    fn a_file_can_be_written_for_every_target_with_machine_code() {
        let with_code: Vec<Target> = Target::all_with_machine_code().collect();
        assert_eq!(FileTraits::all().map(|traits| traits.target).collect::<Vec<_>>(), with_code);
        assert!(with_code.iter().all(|target| target.number() <= u16::from(u8::MAX)), "the number has eight bits in the header");
    }
}
