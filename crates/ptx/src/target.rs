//! Requirements on the PTX version and target of a module.

use std::fmt;

pub use oriole_support::{PtxVersion, Suffix, Target};

/// One alternative of a target requirement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetNeed {
    /// The lowest number; the exact number with the suffix `a`.
    pub number: u16,
    /// The required suffix.
    pub suffix: Suffix,
    /// The lowest PTX version for this alternative.
    pub version: PtxVersion,
}

impl TargetNeed {
    /// Returns whether a target meets this alternative: any later number for a plain target, the same number for `a`, and a later member of
    /// the same family with any suffix for `f`.
    fn is_met_by(&self, target: Target) -> bool {
        match self.suffix {
            Suffix::Plain => target.number() >= self.number,
            Suffix::ArchSpecific => target.suffix() == Suffix::ArchSpecific && target.number() == self.number,
            Suffix::FamilySpecific => {
                let family = Target::new(self.number, self.suffix).and_then(Target::family);
                target.suffix() != Suffix::Plain && family.is_some() && target.family() == family && target.number() >= self.number
            }
        }
    }
}

impl fmt::Display for TargetNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, self.suffix.letter())?;
        match self.suffix {
            Suffix::Plain => write!(f, " or later"),
            _ if self.version > PtxVersion::new(1, 0) => write!(f, " (from PTX {})", self.version),
            _ => Ok(()),
        }
    }
}

/// The lowest PTX version and the alternative targets that a feature requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// Lowest PTX version.
    pub version: PtxVersion,
    /// Alternatives, one of which must be met; empty if the feature exists on every target.
    pub targets: &'static [TargetNeed],
}

/// The part of a requirement that is not met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// The module needs this `.version` or a later one.
    Version(PtxVersion),
    /// The module needs one of these targets.
    Target(&'static [TargetNeed]),
    /// The feature was removed; it does not exist from this version and target on.
    Removed(&'static Requirement),
}

/// The PTX version and target of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Platform {
    /// The version in `.version`.
    pub version: PtxVersion,
    /// The target in `.target`.
    pub target: Target,
}

impl Platform {
    /// Returns whether kernels have the larger parameter space of PTX 8.1.
    pub(crate) fn has_large_parameter_space(&self) -> bool {
        self.version >= PtxVersion::new(8, 1) && self.target.number() >= 70
    }

    /// Returns the part of a requirement that the platform does not meet; `None` if it meets the requirement.
    pub fn missing(&self, requirement: &Requirement) -> Option<Unmet> {
        if self.version < requirement.version {
            return Some(Unmet::Version(requirement.version));
        }
        if requirement.targets.is_empty() {
            return None;
        }
        let mut fitting = requirement.targets.iter().filter(|need| need.is_met_by(self.target)).peekable();
        if fitting.peek().is_none() {
            return Some(Unmet::Target(requirement.targets));
        }
        let least = fitting.map(|need| need.version).min()?;
        (self.version < least).then_some(Unmet::Version(least))
    }

    /// Returns whether a feature that was removed from `requirement` on is absent here.
    pub(crate) fn has_reached(&self, requirement: &Requirement) -> bool {
        self.missing(requirement).is_none()
    }
}
