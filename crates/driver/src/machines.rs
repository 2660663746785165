//! Determines whether a module with a given `.target` may be compiled for a GPU architecture (a machine).

use std::fmt;

use oriole_support::{Suffix, Target};

/// The reason why a module cannot be compiled for a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetMismatch {
    /// The module is for an architecture that is newer than the machine.
    Later,
    /// The module needs the architecture-specific features of this machine, but the machine was named without the suffix `a`.
    WithoutFeatures,
    /// The module needs the architecture-specific features of another machine.
    OtherMachine,
    /// The module needs the family-specific features (suffix `f`) of another family of machines.
    OtherFamily,
}

impl fmt::Display for TargetMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetMismatch::Later => "which is a later one",
            TargetMismatch::WithoutFeatures => "whose own features need the suffix",
            TargetMismatch::OtherMachine => "whose own features no other has",
            TargetMismatch::OtherFamily => "which is of another family",
        })
    }
}

/// Returns the reason why a module for target `module` cannot be compiled for `machine`; `None` if it can.
pub fn target_mismatch(module: Target, machine: Target) -> Option<TargetMismatch> {
    // sm_101 was renamed to sm_110, so code for sm_101a can be compiled for sm_110a. Whether the module is for a later architecture is
    // decided by the old number.
    let renamed = if module.number() == 101 { 110 } else { module.number() };
    if machine.number() < module.number() {
        return Some(TargetMismatch::Later);
    }
    match module.suffix() {
        Suffix::Plain => None,
        Suffix::ArchSpecific if renamed != machine.number() => Some(TargetMismatch::OtherMachine),
        Suffix::ArchSpecific => (machine.suffix() != Suffix::ArchSpecific).then_some(TargetMismatch::WithoutFeatures),
        Suffix::FamilySpecific => (module.family() != machine.family()).then_some(TargetMismatch::OtherFamily),
    }
}
