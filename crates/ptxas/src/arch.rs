//! The architectures that `-arch` accepts, and the check whether a module's `.target` can be compiled for one.

use std::fmt;

use oriole_cubin::FileTraits;
use oriole_cubin::target::ABI_VERSION;
use oriole_driver::{TargetMismatch, target_mismatch};
use oriole_support::Target;

/// Returns the targets that ptxas 13.0 accepts with `-arch` after `sm_`, `compute_` or `lto_`.
fn targets() -> impl Iterator<Item = Target> {
    FileTraits::all().filter(|traits| traits.abi_version == ABI_VERSION).map(|traits| traits.target)
}

/// The kind of architecture, which determines whether code is generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchKind {
    /// `sm_NN`: generates machine code.
    Real,
    /// `compute_NN`: only checks.
    Virtual,
    /// `lto_NN`: only checks.
    LinkTime,
}

impl ArchKind {
    const ALL: [ArchKind; 3] = [ArchKind::Real, ArchKind::Virtual, ArchKind::LinkTime];

    fn prefix(self) -> &'static str {
        match self {
            ArchKind::Real => "sm_",
            ArchKind::Virtual => "compute_",
            ArchKind::LinkTime => "lto_",
        }
    }
}

/// The value of `-arch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arch {
    /// The kind of architecture.
    pub kind: ArchKind,
    /// The target.
    pub target: Target,
}

impl Default for Arch {
    fn default() -> Self {
        Arch { kind: ArchKind::Real, target: Target::plain(75) }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.target.digits())
    }
}

/// Returns the names of all architectures: virtual ones, those of link-time optimization, and GPUs, each sorted as text.
pub fn names() -> impl Iterator<Item = String> {
    [ArchKind::Virtual, ArchKind::LinkTime, ArchKind::Real].into_iter().flat_map(|kind| {
        let mut names: Vec<String> = targets().map(|target| format!("{}{}", kind.prefix(), target.digits())).collect();
        names.sort();
        names
    })
}

impl Arch {
    /// Parses a name such as `sm_90a`. Volta, which ptxas 12 knows and ptxas 13 does not, is accepted too.
    pub fn parse(text: &str) -> Option<Arch> {
        let (kind, number) = ArchKind::ALL.iter().find_map(|&kind| Some((kind, text.strip_prefix(kind.prefix())?)))?;
        Some(Arch { kind, target: FileTraits::all().map(|traits| traits.target).find(|target| target.digits() == number)? })
    }

    /// Returns ptxas' message if a module for `target` cannot be compiled for this architecture.
    pub fn refuse(self, target: Target) -> Option<String> {
        Some(match target_mismatch(target, self.target)? {
            TargetMismatch::Later => "SM version specified by .target is higher than default SM version assumed".to_string(),
            TargetMismatch::WithoutFeatures => format!("PTX with .target '{target}' cannot be compiled for architecture '{self}'"),
            TargetMismatch::OtherMachine => format!("Program with .target '{target}' cannot be compiled to future architecture"),
            TargetMismatch::OtherFamily => {
                format!("Program with .target '{target}' cannot be compiled to different SM-family architecture")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(target: &str, arch: &str) -> Option<String> {
        Arch::parse(arch).unwrap().refuse(Target::parse_ptx(target).unwrap())
    }

    #[test]
    fn names_are_read_as_printed() {
        // The list in the help text of ptxas 13.0.
        let known = "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f";
        assert_eq!(targets().map(Target::digits).collect::<Vec<_>>().join(" "), known);
        for (kind, target) in ArchKind::ALL.iter().flat_map(|kind| known.split(' ').map(move |target| (kind, target))) {
            let name = format!("{}{target}", kind.prefix());
            assert_eq!(Arch::parse(&name).unwrap().to_string(), name);
        }
        for wrong in ["sm_99", "sm_101", "sm_62", "sm_90f", "SM_90", "", "sm_", "90", "sm_90 "] {
            assert_eq!(Arch::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn plain_targets_run_on_later_machines() {
        assert_eq!(refuse("sm_50", "sm_75"), None);
        assert_eq!(refuse("sm_80", "compute_90a"), None);
        assert_eq!(refuse("sm_101", "sm_103"), None);
        let higher = "SM version specified by .target is higher than default SM version assumed";
        assert_eq!(refuse("sm_80", "sm_75").as_deref(), Some(higher));
        assert_eq!(refuse("sm_101a", "sm_100a").as_deref(), Some(higher));
    }

    #[test]
    fn specific_targets_run_on_their_own_machine() {
        assert_eq!(refuse("sm_90a", "sm_90a"), None);
        assert_eq!(refuse("sm_101a", "sm_110a"), None);
        let other_suffix = "PTX with .target 'sm_90a' cannot be compiled for architecture 'compute_90'";
        assert_eq!(refuse("sm_90a", "compute_90").as_deref(), Some(other_suffix));
        let later = "Program with .target 'sm_90a' cannot be compiled to future architecture";
        assert_eq!(refuse("sm_90a", "sm_100a").as_deref(), Some(later));
    }

    #[test]
    fn family_targets_run_in_their_family() {
        for (target, arch) in [("sm_100f", "sm_103"), ("sm_100f", "sm_100a"), ("sm_101f", "sm_110"), ("sm_120f", "sm_121f")] {
            assert_eq!(refuse(target, arch), None, "{target} on {arch}");
        }
        let other = "Program with .target 'sm_103f' cannot be compiled to different SM-family architecture";
        assert_eq!(refuse("sm_103f", "sm_110f").as_deref(), Some(other));
        assert!(refuse("sm_101f", "sm_103").is_some());
        assert!(refuse("sm_103f", "sm_100f").is_some());
    }
}
