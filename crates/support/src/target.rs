//! PTX versions and targets: the names that `.target` and `--arch` use, and the facts that follow from a name alone.
//!
//! [`Target`] is the only type for a target in the workspace. Facts that belong to one stage are looked up by it in the crate of that
//! stage: encodings and system layouts in `oriole-isa`, figures of the hardware in `oriole-hardware`, file formats in `oriole-cubin`.
//!
//! PTX knows more targets than Oriole has machine code for. [`Target::parse`] returns targets with machine code only, so that a name given
//! by a user or found in a cubin can be used with every table. [`Target::parse_ptx`] returns any target that a PTX module may name.

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
    /// The newest version that the front end supports.
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
    /// `a`: the code may use features of this target only.
    ArchSpecific,
    /// `f`: the code may use features of a family of targets.
    FamilySpecific,
}

impl Suffix {
    /// All suffixes.
    pub const ALL: [Suffix; 3] = [Suffix::Plain, Suffix::ArchSpecific, Suffix::FamilySpecific];

    /// Returns the letter in the name; empty for no suffix.
    pub const fn letter(self) -> &'static str {
        match self {
            Suffix::Plain => "",
            Suffix::ArchSpecific => "a",
            Suffix::FamilySpecific => "f",
        }
    }
}

/// The architecture of a target, by NVIDIA's name for the generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Architecture {
    /// sm_10 to sm_13.
    Tesla,
    /// sm_20 and sm_21.
    Fermi,
    /// sm_30 to sm_37.
    Kepler,
    /// sm_50 to sm_53.
    Maxwell,
    /// sm_60 to sm_62.
    Pascal,
    /// sm_70 and sm_72.
    Volta,
    /// sm_75.
    Turing,
    /// sm_80 to sm_88.
    Ampere,
    /// sm_89.
    Ada,
    /// sm_90.
    Hopper,
    /// sm_100 to sm_121.
    Blackwell,
}

/// A set of targets that run each other's family-specific code: a target runs the code of the same and earlier targets of its family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// sm_100 and sm_103.
    Sm100,
    /// sm_110, which was first called sm_101.
    Sm110,
    /// sm_120 and sm_121.
    Sm120,
}

/// One number that targets have, and what is known about the targets with this number.
struct TargetRow {
    number: u16,
    architecture: Architecture,
    family: Option<Family>,
    /// The PTX versions that introduced the target without a suffix, with `a` and with `f`.
    plain: PtxVersion,
    arch_specific: Option<PtxVersion>,
    family_specific: Option<PtxVersion>,
    has_machine_code: bool,
}

const fn row(number: u16, architecture: Architecture, version: (u8, u8)) -> TargetRow {
    let plain = PtxVersion::new(version.0, version.1);
    TargetRow { number, architecture, family: None, plain, arch_specific: None, family_specific: None, has_machine_code: false }
}

impl TargetRow {
    /// Marks the row as one whose machine code the tables of `oriole-isa` describe.
    const fn with_code(self) -> TargetRow {
        TargetRow { has_machine_code: true, ..self }
    }

    /// Adds the suffix `a`.
    const fn specific(self, version: (u8, u8)) -> TargetRow {
        TargetRow { arch_specific: Some(PtxVersion::new(version.0, version.1)), ..self }
    }

    /// Adds the suffix `f`.
    const fn in_family(self, family: Family, version: (u8, u8)) -> TargetRow {
        TargetRow { family: Some(family), family_specific: Some(PtxVersion::new(version.0, version.1)), ..self }
    }

    fn introduced(&self, suffix: Suffix) -> Option<PtxVersion> {
        match suffix {
            Suffix::Plain => Some(self.plain),
            Suffix::ArchSpecific => self.arch_specific,
            Suffix::FamilySpecific => self.family_specific,
        }
    }
}

/// The known targets, as in ptxas 13.0.88, by number. ptxas accepts sm_70 and sm_88 with earlier PTX versions than the manual says, and
/// knows sm_82.
const ROWS: &[TargetRow] = &[
    row(10, Architecture::Tesla, (1, 0)),
    row(11, Architecture::Tesla, (1, 0)),
    row(12, Architecture::Tesla, (1, 2)),
    row(13, Architecture::Tesla, (1, 2)),
    row(20, Architecture::Fermi, (2, 0)),
    row(21, Architecture::Fermi, (2, 0)),
    row(30, Architecture::Kepler, (3, 0)),
    row(32, Architecture::Kepler, (4, 0)),
    row(35, Architecture::Kepler, (3, 1)),
    row(37, Architecture::Kepler, (4, 1)),
    row(50, Architecture::Maxwell, (4, 0)),
    row(52, Architecture::Maxwell, (4, 1)),
    row(53, Architecture::Maxwell, (4, 2)),
    row(60, Architecture::Pascal, (5, 0)),
    row(61, Architecture::Pascal, (5, 0)),
    row(62, Architecture::Pascal, (5, 0)),
    row(70, Architecture::Volta, (5, 1)).with_code(),
    row(72, Architecture::Volta, (6, 1)).with_code(),
    row(75, Architecture::Turing, (6, 3)).with_code(),
    row(80, Architecture::Ampere, (7, 0)).with_code(),
    row(82, Architecture::Ampere, (6, 2)),
    row(86, Architecture::Ampere, (7, 1)).with_code(),
    row(87, Architecture::Ampere, (7, 4)).with_code(),
    row(88, Architecture::Ampere, (7, 3)).with_code(),
    row(89, Architecture::Ada, (7, 8)).with_code(),
    row(90, Architecture::Hopper, (7, 8)).with_code().specific((8, 0)),
    row(100, Architecture::Blackwell, (8, 6)).with_code().specific((8, 6)).in_family(Family::Sm100, (8, 8)),
    row(101, Architecture::Blackwell, (8, 6)).specific((8, 6)).in_family(Family::Sm110, (8, 8)),
    row(103, Architecture::Blackwell, (8, 8)).with_code().specific((8, 8)).in_family(Family::Sm100, (8, 8)),
    row(110, Architecture::Blackwell, (9, 0)).with_code().specific((9, 0)).in_family(Family::Sm110, (9, 0)),
    row(120, Architecture::Blackwell, (8, 7)).with_code().specific((8, 7)).in_family(Family::Sm120, (8, 8)),
    row(121, Architecture::Blackwell, (8, 8)).with_code().specific((8, 8)).in_family(Family::Sm120, (8, 8)),
];

/// A target such as `sm_90a`. Every value stands for a target that exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Index in [`ROWS`].
    row: u8,
    suffix: Suffix,
}

impl Target {
    /// Returns the target with this number and without a suffix.
    ///
    /// # Panics
    ///
    /// If there is no such target. The function is meant for constants.
    pub const fn plain(number: u16) -> Target {
        let mut row = 0;
        while ROWS[row].number != number {
            row += 1;
        }
        Target { row: row as u8, suffix: Suffix::Plain }
    }

    /// Returns the target with this number and suffix; `None` if there is no such target.
    pub fn new(number: u16, suffix: Suffix) -> Option<Target> {
        let row = ROWS.binary_search_by_key(&number, |row| row.number).ok()?;
        ROWS[row].introduced(suffix).map(|_| Target { row: row as u8, suffix })
    }

    /// Returns the target with this name, such as `sm_90a`; `None` if there is no such target, or no machine code for it.
    pub fn parse(name: &str) -> Option<Target> {
        Target::from_digits(name.strip_prefix("sm_")?).filter(|target| target.has_machine_code())
    }

    /// Returns the target that a PTX module names as `sm_90a` or `compute_90a`; `None` if there is no such target. There may be no machine
    /// code for it.
    pub fn parse_ptx(name: &str) -> Option<Target> {
        Target::from_digits(name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?)
    }

    /// Parses the part of a name after the underscore.
    fn from_digits(rest: &str) -> Option<Target> {
        let (digits, suffix) = match rest.as_bytes().last() {
            Some(b'a') => (&rest[..rest.len() - 1], Suffix::ArchSpecific),
            Some(b'f') => (&rest[..rest.len() - 1], Suffix::FamilySpecific),
            _ => (rest, Suffix::Plain),
        };
        let number = digits.parse().ok().filter(|_| !digits.starts_with(['0', '+']))?;
        Target::new(number, suffix)
    }

    /// Returns all targets that PTX knows, with and without suffixes, by number.
    pub fn all() -> impl Iterator<Item = Target> {
        ROWS.iter().flat_map(|row| Suffix::ALL.into_iter().filter_map(|suffix| Target::new(row.number, suffix)))
    }

    /// Returns all targets with machine code, with and without suffixes, by number.
    pub fn all_with_machine_code() -> impl Iterator<Item = Target> {
        Target::all().filter(|target| target.has_machine_code())
    }

    fn row(self) -> &'static TargetRow {
        &ROWS[usize::from(self.row)]
    }

    /// Returns the number in the name: 90 for `sm_90a`.
    pub fn number(self) -> u16 {
        self.row().number
    }

    /// Returns the suffix.
    pub fn suffix(self) -> Suffix {
        self.suffix
    }

    /// Returns the name without the prefix `sm_`: `90a` for `sm_90a`.
    pub fn digits(self) -> String {
        format!("{}{}", self.number(), self.suffix.letter())
    }

    /// Returns the target with the same number and another suffix; `None` if there is no such target.
    pub fn with_suffix(self, suffix: Suffix) -> Option<Target> {
        Target::new(self.number(), suffix)
    }

    /// Returns the PTX version that introduced the target.
    pub fn introduced(self) -> PtxVersion {
        let row = self.row();
        row.introduced(self.suffix).unwrap_or(row.plain)
    }

    /// Returns the architecture.
    pub fn architecture(self) -> Architecture {
        self.row().architecture
    }

    /// Returns the family; `None` for targets before families existed.
    pub fn family(self) -> Option<Family> {
        self.row().family
    }

    /// Returns whether code for the target may use tensor memory (`tcgen05`).
    pub fn has_tensor_memory(self) -> bool {
        self.suffix != Suffix::Plain && matches!(self.family(), Some(Family::Sm100 | Family::Sm110))
    }

    /// Returns whether the tables of machine instructions describe the target.
    pub fn has_machine_code(self) -> bool {
        self.row().has_machine_code
    }

    /// Returns whether the hardware has double precision. Earlier targets can map it to single precision.
    pub fn has_double_precision(self) -> bool {
        self.number() >= 13
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number(), self.suffix.letter())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_printed() {
        for target in Target::all() {
            assert_eq!(Target::parse_ptx(&target.to_string()), Some(target));
            assert_eq!(Target::parse_ptx(&format!("compute_{}", target.digits())), Some(target));
            assert_eq!(Target::parse(&target.to_string()), target.has_machine_code().then_some(target));
        }
        for wrong in ["sm_91", "sm_80a", "sm_", "sm_a", "sm_090", "sm_90f", "sm_90aa", "gfx90a", "sm_+90", "sm_99999", "SM_90", "90", ""] {
            assert_eq!(Target::parse_ptx(wrong), None, "{wrong}");
        }
        assert_eq!(Target::parse("compute_90"), None);
    }

    /// The list of targets in the help text of ptxas 13.0.88; ptxas has no machine code for Volta any more.
    #[test]
    fn machine_code_exists_for_the_targets_of_ptxas_and_volta() {
        let names: Vec<String> = Target::all_with_machine_code().map(Target::digits).collect();
        let ptxas = "75 80 86 87 88 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f";
        assert_eq!(names.join(" "), format!("70 72 {ptxas}"));
    }

    #[test]
    fn numbers_are_sorted_and_a_family_has_one_architecture() {
        assert!(ROWS.is_sorted_by(|one, next| one.number < next.number && one.architecture <= next.architecture));
        assert_eq!(Target::plain(101).family(), Target::plain(110).family());
        assert_eq!(Target::plain(100).family(), Target::plain(103).family());
        assert_ne!(Target::plain(103).family(), Target::plain(110).family());
        assert!(ROWS.iter().all(|row| row.family.is_some() == row.family_specific.is_some()));
    }

    #[test]
    fn versions_are_those_of_the_target_and_its_suffix() {
        assert_eq!(Target::parse("sm_90").unwrap().introduced(), PtxVersion::new(7, 8));
        assert_eq!(Target::parse("sm_90a").unwrap().introduced(), PtxVersion::new(8, 0));
        assert_eq!(Target::parse("sm_100f").unwrap().introduced(), PtxVersion::new(8, 8));
    }
}
