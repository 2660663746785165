//! PTX versions, targets, and requirements on both.

use std::fmt;

/// A PTX ISA version such as 8.7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PtxVersion {
    /// The number before the dot.
    pub major: u8,
    /// The number after the dot.
    pub minor: u8,
}

impl PtxVersion {
    /// The newest version that this front end supports.
    pub const NEWEST: PtxVersion = PtxVersion::new(9, 0);

    /// Creates a version.
    pub const fn new(major: u8, minor: u8) -> Self {
        PtxVersion { major, minor }
    }

    /// Returns whether this version was released.
    pub fn exists(self) -> bool {
        let last_minor = match self.major {
            1 => 5,
            2 => 3,
            3 => 2,
            4 => 3,
            5 => 1,
            6 => 5,
            7 => 8,
            8 => 8,
            9 => 0,
            _ => return false,
        };
        self.minor <= last_minor
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The suffix of a target's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Suffix {
    /// No suffix: the code also runs on later targets.
    Plain,
    /// `f`: the code may use features of a family of targets.
    FamilySpecific,
    /// `a`: the code may use features of this target only.
    ArchSpecific,
}

impl Suffix {
    /// Returns the letter in the name; empty for no suffix.
    fn letter(self) -> &'static str {
        match self {
            Suffix::Plain => "",
            Suffix::FamilySpecific => "f",
            Suffix::ArchSpecific => "a",
        }
    }
}

/// A target as `.target` names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// The number: 90 in `sm_90`.
    pub number: u16,
    /// The suffix.
    pub suffix: Suffix,
}

/// Number, and the PTX versions that introduced the plain target, the suffix `a` and the suffix `f`.
type TargetRow = (u16, (u8, u8), Option<(u8, u8)>, Option<(u8, u8)>);

/// The known targets, as in ptxas 13.0.88. ptxas accepts sm_70 and sm_88 with earlier PTX versions than the manual says, and knows sm_82.
const TARGETS: &[TargetRow] = &[
    (10, (1, 0), None, None),
    (11, (1, 0), None, None),
    (12, (1, 2), None, None),
    (13, (1, 2), None, None),
    (20, (2, 0), None, None),
    (21, (2, 0), None, None),
    (30, (3, 0), None, None),
    (32, (4, 0), None, None),
    (35, (3, 1), None, None),
    (37, (4, 1), None, None),
    (50, (4, 0), None, None),
    (52, (4, 1), None, None),
    (53, (4, 2), None, None),
    (60, (5, 0), None, None),
    (61, (5, 0), None, None),
    (62, (5, 0), None, None),
    (70, (5, 1), None, None),
    (72, (6, 1), None, None),
    (75, (6, 3), None, None),
    (82, (6, 2), None, None),
    (80, (7, 0), None, None),
    (86, (7, 1), None, None),
    (87, (7, 4), None, None),
    (88, (7, 3), None, None),
    (89, (7, 8), None, None),
    (90, (7, 8), Some((8, 0)), None),
    (100, (8, 6), Some((8, 6)), Some((8, 8))),
    (101, (8, 6), Some((8, 6)), Some((8, 8))),
    (103, (8, 8), Some((8, 8)), Some((8, 8))),
    (110, (9, 0), Some((9, 0)), Some((9, 0))),
    (120, (8, 7), Some((8, 7)), Some((8, 8))),
    (121, (8, 8), Some((8, 8)), Some((8, 8))),
];

impl Target {
    /// Creates a target without a suffix.
    pub const fn plain(number: u16) -> Self {
        Target { number, suffix: Suffix::Plain }
    }

    /// Parses `sm_90a` or `compute_90a`; returns `None` if there is no such target.
    pub fn parse(text: &str) -> Option<Target> {
        let rest = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_"))?;
        let (digits, suffix) = match rest.as_bytes().last() {
            Some(b'a') => (&rest[..rest.len() - 1], Suffix::ArchSpecific),
            Some(b'f') => (&rest[..rest.len() - 1], Suffix::FamilySpecific),
            _ => (rest, Suffix::Plain),
        };
        let number = digits.parse().ok().filter(|_| !digits.starts_with(['0', '+']))?;
        let target = Target { number, suffix };
        target.introduced().map(|_| target)
    }

    /// Returns the PTX version that introduced the target; `None` if there is no such target.
    pub fn introduced(self) -> Option<PtxVersion> {
        let &(_, plain, arch, family) = TARGETS.iter().find(|&&(number, ..)| number == self.number)?;
        let (major, minor) = match self.suffix {
            Suffix::Plain => plain,
            Suffix::ArchSpecific => arch?,
            Suffix::FamilySpecific => family?,
        };
        Some(PtxVersion::new(major, minor))
    }

    /// Returns all known targets, with and without suffixes.
    pub fn all() -> impl Iterator<Item = Target> {
        let suffixes = [Suffix::Plain, Suffix::FamilySpecific, Suffix::ArchSpecific];
        TARGETS
            .iter()
            .flat_map(move |&(number, ..)| suffixes.map(|suffix| Target { number, suffix }))
            .filter(|target| target.introduced().is_some())
    }

    /// Returns whether the hardware has double precision. Earlier targets can map it to single precision.
    pub fn has_double_precision(self) -> bool {
        self.number >= 13
    }

    /// Returns the family. A target of a family runs the family-specific code of the same and earlier targets of its family.
    fn family(self) -> Option<u8> {
        match self.number {
            100 | 103 => Some(0),
            101 | 110 => Some(1),
            120 | 121 => Some(2),
            _ => None,
        }
    }

    /// Returns whether the target meets one alternative of a requirement: any later number for a plain target, the same number for `a`,
    /// and a later member of the same family with any suffix for `f`. sm_101 was renamed to sm_110 and is in the same family.
    fn satisfies(self, need: &TargetNeed) -> bool {
        match need.suffix {
            Suffix::Plain => self.number >= need.number,
            Suffix::ArchSpecific => self.suffix == Suffix::ArchSpecific && self.number == need.number,
            Suffix::FamilySpecific => {
                let family = Target::plain(need.number).family();
                self.suffix != Suffix::Plain && family.is_some() && self.family() == family && self.number >= need.number
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, self.suffix.letter())
    }
}

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
    pub fn has_large_parameter_space(&self) -> bool {
        self.version >= PtxVersion::new(8, 1) && self.target.number >= 70
    }

    /// Returns the part of a requirement that the platform does not meet; `None` if it meets the requirement.
    pub fn missing(&self, requirement: &Requirement) -> Option<Unmet> {
        if self.version < requirement.version {
            return Some(Unmet::Version(requirement.version));
        }
        if requirement.targets.is_empty() {
            return None;
        }
        let mut fitting = requirement.targets.iter().filter(|need| self.target.satisfies(need)).peekable();
        if fitting.peek().is_none() {
            return Some(Unmet::Target(requirement.targets));
        }
        let least = fitting.map(|need| need.version).min()?;
        (self.version < least).then_some(Unmet::Version(least))
    }

    /// Returns whether a feature that was removed from `requirement` on is absent here.
    pub fn has_reached(&self, requirement: &Requirement) -> bool {
        self.missing(requirement).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(version: (u8, u8), target: &str) -> Platform {
        Platform { version: PtxVersion::new(version.0, version.1), target: Target::parse(target).unwrap() }
    }

    const NEED: TargetNeed = TargetNeed { number: 100, suffix: Suffix::FamilySpecific, version: PtxVersion::new(8, 8) };

    #[test]
    fn families_run_their_elders_code() {
        let needs = Requirement { version: PtxVersion::new(8, 6), targets: &[NEED] };
        assert_eq!(platform((9, 0), "sm_103f").missing(&needs), None);
        assert_eq!(platform((9, 0), "sm_100a").missing(&needs), None);
        assert!(matches!(platform((9, 0), "sm_100").missing(&needs), Some(Unmet::Target(_))));
        assert!(matches!(platform((9, 0), "sm_120a").missing(&needs), Some(Unmet::Target(_))));
        assert_eq!(platform((8, 6), "sm_100a").missing(&needs), Some(Unmet::Version(PtxVersion::new(8, 8))));
    }

    #[test]
    fn targets_are_known_by_name() {
        assert_eq!(Target::parse("sm_90a").unwrap().to_string(), "sm_90a");
        for wrong in ["sm_91", "sm_80a", "sm_", "sm_090", "sm_90f", "gfx90a", "sm_+90"] {
            assert_eq!(Target::parse(wrong), None, "{wrong}");
        }
    }
}
