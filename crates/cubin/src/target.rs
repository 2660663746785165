//! Targets, and how a cubin encodes its target.
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
//! ABI version 7 (toolkits up to 12): bits 7:0 are the SM, bit 11 is the suffix `a`, bits 23:16 the virtual SM.

use std::fmt;

/// The suffix of a target name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// `sm_90`: runs on later SMs of the same major number too.
    Base,
    /// `sm_90a`: exactly this SM.
    Specific,
    /// `sm_100f`: this SM and its family.
    Family,
}

/// The generation of file layout that ptxas uses for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// Turing to Ada: relocations without addends, constants before code, one loadable segment.
    Ampere,
    /// Hopper: relocations with addends, `.nv.compat`, reserved shared memory, constants after code.
    Hopper,
    /// Blackwell: as Hopper, and each code section has a Mercury counterpart.
    Blackwell,
}

/// A row of the table of targets.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub name: &'static str,
    pub sm: u8,
    pub variant: Variant,
    pub style: Style,
    /// Value of `EIATTR_SW_WAR` of every kernel; `None` if kernels do not have it.
    pub software_workarounds: Option<u32>,
    /// Whether every kernel has `EIATTR_SW2861232_WAR`.
    pub has_workaround_2861232: bool,
    /// First word of `EICOMPAT_ATTR_CAN_FASTPATH_FINALIZE`, for targets with `.nv.compat`.
    pub fastpath_finalize: u32,
    /// Name and size in bytes of the variable that every file has in reserved shared memory.
    pub reserved_variable: Option<(&'static str, u64)>,
}

const fn row(name: &'static str, sm: u8, variant: Variant, style: Style, software_workarounds: Option<u32>) -> Target {
    Target { name, sm, variant, style, software_workarounds, has_workaround_2861232: false, fastpath_finalize: 0, reserved_variable: None }
}

const fn ampere(name: &'static str, sm: u8, software_workarounds: Option<u32>) -> Target {
    Target { has_workaround_2861232: true, ..row(name, sm, Base, Ampere, software_workarounds) }
}

const fn blackwell(name: &'static str, sm: u8, variant: Variant, fastpath_finalize: u32, software_workarounds: u32) -> Target {
    Target { fastpath_finalize, ..row(name, sm, variant, Blackwell, Some(software_workarounds)) }
}

const fn thor(name: &'static str, variant: Variant) -> Target {
    Target { reserved_variable: Some(("__nv_reservedSMEM_gb10b_war_var", 0x80)), ..blackwell(name, 110, variant, 0, 8) }
}

use Style::{Ampere, Blackwell, Hopper};
use Variant::{Base, Family, Specific};

/// All targets of ptxas 13.0.88, with the properties that their cubins have in common.
pub const TARGETS: &[Target] = &[
    row("sm_75", 75, Base, Ampere, Some(1)),
    ampere("sm_80", 80, None),
    ampere("sm_86", 86, None),
    ampere("sm_87", 87, Some(2)),
    ampere("sm_88", 88, None),
    row("sm_89", 89, Base, Ampere, None),
    row("sm_90", 90, Base, Hopper, Some(8)),
    row("sm_90a", 90, Specific, Hopper, Some(8)),
    blackwell("sm_100", 100, Base, 9, 8),
    blackwell("sm_100a", 100, Specific, 9, 8),
    blackwell("sm_100f", 100, Family, 9, 8),
    blackwell("sm_103", 103, Base, 0, 8),
    blackwell("sm_103a", 103, Specific, 0, 8),
    blackwell("sm_103f", 103, Family, 0, 8),
    thor("sm_110", Base),
    thor("sm_110a", Specific),
    thor("sm_110f", Family),
    blackwell("sm_120", 120, Base, 0x50, 0),
    blackwell("sm_120a", 120, Specific, 0x50, 0),
    blackwell("sm_120f", 120, Family, 0x50, 0),
    blackwell("sm_121", 121, Base, 0, 0),
    blackwell("sm_121a", 121, Specific, 0, 0),
    blackwell("sm_121f", 121, Family, 0, 0),
];

/// Maximum number of bytes of kernel parameters in the original layout. Larger parameters, which exist since PTX ISA 8.1, are described by
/// `EIATTR_KPARAM_INFO_V2`, and on Turing to Ada they have another offset in constant bank 0.
pub const SMALL_PARAMETER_BYTES: u16 = 4352;

impl Style {
    /// Returns the offset in constant bank 0 of the parameters of a kernel with this many bytes of parameters.
    pub fn parameter_base(self, parameter_bytes: u16) -> u16 {
        match self {
            Ampere if parameter_bytes > SMALL_PARAMETER_BYTES => 0x1a80,
            Ampere => 0x160,
            Hopper => 0x210,
            Blackwell => 0x380,
        }
    }

    /// Returns the number of bytes that the system reserves at the start of each block's shared memory.
    pub fn reserved_shared(self) -> u64 {
        match self {
            Ampere => 0,
            Hopper | Blackwell => 0x400,
        }
    }

    /// Returns the value of the symbol `.nv.reservedSmem.offset0`.
    pub(crate) fn reserved_offset(self) -> u64 {
        match self {
            Ampere | Hopper => 0,
            Blackwell => 0x40,
        }
    }

    /// Returns the major and minor number in `EIATTR_MERCURY_ISA_VERSION`.
    pub(crate) fn mercury_version(self) -> u16 {
        match self {
            Ampere => 0,
            Hopper | Blackwell => 0x101,
        }
    }
}

impl Target {
    /// Returns the target with this name, for example `sm_90a`.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Returns the target with this number and suffix.
    pub(crate) fn find(sm: u8, variant: Variant) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.sm == sm && target.variant == variant)
    }

    /// Returns whether ptxas' files for the target have a Mercury capsule for each function.
    pub fn has_mercury(&self) -> bool {
        self.style == Style::Blackwell
    }
}

/// `e_flags`, read with the ABI version of the header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    pub bits: u32,
    pub abi_version: u8,
}

/// The ABI version of the files of CUDA 13.
pub const ABI_VERSION: u8 = 8;

/// Values of bits 7:0 of `e_flags` in ABI version 8.
const SASS_ONLY: u32 = 4;
const WITH_MERCURY: u32 = 2;

impl Flags {
    /// Returns the flags of a file whose `.note.nv.cuinfo` is section `cuinfo`. ptxas' files for Blackwell have Mercury code.
    pub fn new(target: &Target, has_mercury: bool, cuinfo: u8) -> Flags {
        let class = if has_mercury { WITH_MERCURY } else { SASS_ONLY };
        Flags { bits: class | u32::from(target.sm) << 8 | u32::from(cuinfo) << 24, abi_version: ABI_VERSION }
    }

    /// Returns the number of the SM.
    pub fn sm(self) -> u8 {
        let [low, second, _, _] = self.bits.to_le_bytes();
        if self.abi_version == ABI_VERSION { second } else { low }
    }

    /// Returns whether the file has Mercury code.
    pub fn has_mercury(self) -> bool {
        self.abi_version == ABI_VERSION && self.bits & 0xff == WITH_MERCURY
    }

    /// Returns whether the target has the suffix `a`, as far as the flags of ABI version 7 say so.
    pub(crate) fn is_specific(self) -> bool {
        self.abi_version != ABI_VERSION && self.bits & 0x800 != 0
    }

    /// Returns the index of the section `.note.nv.cuinfo`; `None` in ABI version 7.
    pub fn cuinfo_section(self) -> Option<u8> {
        (self.abi_version == ABI_VERSION).then_some(self.bits.to_le_bytes()[3])
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
        let old = |bits| Flags { bits, abi_version: 7 };
        assert_eq!((old(0x5a055a).sm(), old(0x5a055a).is_specific()), (90, false));
        assert_eq!((old(0x5a0d5a).sm(), old(0x5a0d5a).is_specific()), (90, true));
        assert_eq!(old(0x500556).sm(), 86);
        let new = Flags { bits: 0x0b00_6402, abi_version: 8 };
        assert_eq!((new.sm(), new.has_mercury(), new.cuinfo_section()), (100, true, Some(11)));
    }

    #[test]
    fn targets_have_different_names_and_follow_their_number() {
        for (target, next) in TARGETS.iter().zip(&TARGETS[1..]) {
            assert!(target.sm <= next.sm && target.name != next.name);
            assert!(target.name.starts_with(&format!("sm_{}", target.sm)));
        }
    }
}
