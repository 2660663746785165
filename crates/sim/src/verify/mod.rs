//! The seven verifiers: is machine code, whoever made it, something that the hardware executes as it is meant?
//!
//! Each verifier is a file with one entry point and a header that says what it proves:
//!
//! | verifier | file | asks |
//! |---|---|---|
//! | `bounds` | [`bounds`] | does every control field hold something that the hardware does? |
//! | `indices` | [`indices`] | does every scoreboard that is named exist, and can the instruction that names it set it? |
//! | `waits` | [`waits`] | does every wait find its scoreboard set, late enough to see it, and count only what ends in order? |
//! | `completeness` | [`completeness`] | is every dependence between two registers covered, on all paths? |
//! | `format` | [`format`] | is every word one that the tables can read and write again, with nothing in bits without meaning? |
//! | `yields` | [`yields`] | does the scheduler get leave to turn to other warps where it must, and keep what it was told to keep? |
//! | `integrity` | [`integrity`] | do code, reuse cache, attributes and symbols say the same of each other? |
//!
//! They work on decoded bytes and share no code with what sets control words. A finding is something that may go wrong on the hardware or
//! in the driver; a note is odd and harmless. Nothing that ptxas makes has findings, and whatever Oriole compiles must have none.
//!
//! ```no_run
//! use oriole_sim::verify::{Verifier, verify_cubin};
//!
//! let bytes = std::fs::read("kernel.cubin").unwrap();
//! let report = verify_cubin(&bytes, &Verifier::ALL).unwrap();
//! for (section, finding) in report.findings() {
//!     println!("{}: {finding}", section.name);
//! }
//! ```

pub mod bounds;
pub mod completeness;
pub mod format;
pub mod indices;
pub mod integrity;
pub mod waits;
pub mod yields;

mod section;

use std::fmt;

use oriole_cubin::{Cubin, Index};
use oriole_isa::Target;

pub use crate::hazard::Severity;
pub use section::Section;

/// One of the seven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verifier {
    Bounds,
    Indices,
    Waits,
    Completeness,
    Format,
    Yields,
    Integrity,
}

impl Verifier {
    /// All of them, in the order of the page that names them.
    pub const ALL: [Verifier; 7] = [
        Verifier::Bounds,
        Verifier::Indices,
        Verifier::Waits,
        Verifier::Completeness,
        Verifier::Format,
        Verifier::Yields,
        Verifier::Integrity,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Verifier::Bounds => "bounds",
            Verifier::Indices => "indices",
            Verifier::Waits => "waits",
            Verifier::Completeness => "completeness",
            Verifier::Format => "format",
            Verifier::Yields => "yields",
            Verifier::Integrity => "integrity",
        }
    }

    /// The verifier of a name.
    pub fn named(name: &str) -> Option<Verifier> {
        Verifier::ALL.into_iter().find(|verifier| verifier.name() == name)
    }

    /// What it makes sure of, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Verifier::Bounds => "every control field holds something that the hardware does",
            Verifier::Indices => "every scoreboard named exists, and its instruction can set it",
            Verifier::Waits => "every wait finds its scoreboard set, and late enough to see it",
            Verifier::Completeness => "every dependence between registers is covered, on all paths",
            Verifier::Format => "every word can be read and written again; branches stay inside",
            Verifier::Yields => "the scheduler may turn to other warps where it must",
            Verifier::Integrity => "code, reuse cache, attributes and symbols agree",
        }
    }

    fn run(self, section: &Section<'_>, ledger: &mut Ledger) {
        match self {
            Verifier::Bounds => bounds::verify(section, ledger),
            Verifier::Indices => indices::verify(section, ledger),
            Verifier::Waits => waits::verify(section, ledger),
            Verifier::Completeness => completeness::verify(section, ledger),
            Verifier::Format => format::verify(section, ledger),
            Verifier::Yields => yields::verify(section, ledger),
            Verifier::Integrity => integrity::verify(section, ledger),
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that is wrong, or odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Who found it.
    pub verifier: Verifier,
    /// Whether it can do harm.
    pub severity: Severity,
    /// A short name of the problem that does not change, such as `stall-ignored`.
    pub kind: &'static str,
    /// Number of the instruction, from 0; none if it is about the function.
    pub at: Option<usize>,
    /// Number of the instruction before it that it has to do with.
    pub first: Option<usize>,
    /// What is wrong, in words.
    pub message: String,
}

impl Finding {
    /// Whether it can do harm; notes cannot.
    pub fn is_hazard(&self) -> bool {
        self.severity == Severity::Hazard
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{:#06x}: ", at * section::INSTRUCTION_BYTES)?;
        }
        let note = if self.is_hazard() { "" } else { "note: " };
        write!(f, "{note}{} [{}]", self.message, self.verifier)
    }
}

/// What a verifier writes into.
pub struct Ledger {
    verifier: Verifier,
    checked: usize,
    findings: Vec<Finding>,
}

impl Ledger {
    fn new(verifier: Verifier) -> Ledger {
        Ledger { verifier, checked: 0, findings: Vec::new() }
    }

    /// So many more things were looked at.
    fn count(&mut self, number: usize) {
        self.checked += number;
    }

    fn push(&mut self, severity: Severity, kind: &'static str, at: Option<usize>, message: impl Into<String>) {
        self.findings.push(Finding { verifier: self.verifier, severity, kind, at, first: None, message: message.into() });
    }

    /// Something that can do harm.
    fn wrong(&mut self, kind: &'static str, at: impl Into<Option<usize>>, message: impl Into<String>) {
        self.push(Severity::Hazard, kind, at.into(), message);
    }

    /// Something odd.
    fn note(&mut self, kind: &'static str, at: impl Into<Option<usize>>, message: impl Into<String>) {
        self.push(Severity::Note, kind, at.into(), message);
    }
}

/// What a verifier did in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    pub verifier: Verifier,
    /// How many things it looked at: instructions, fields, attributes, dependences.
    pub checked: usize,
    /// How many of them can do harm.
    pub findings: usize,
    /// How many are odd.
    pub notes: usize,
}

/// What was found in a code section.
#[derive(Clone, Debug)]
pub struct SectionReport {
    /// Name of the section, `.text.NAME`.
    pub name: String,
    /// Its words.
    pub words: Vec<u128>,
    /// One for each verifier that ran.
    pub tallies: Vec<Tally>,
    /// By verifier, then by place.
    pub findings: Vec<Finding>,
}

/// What was found in a cubin.
#[derive(Clone, Debug)]
pub struct Report {
    pub target: Target,
    pub sections: Vec<SectionReport>,
}

impl Report {
    /// All that can do harm.
    pub fn findings(&self) -> impl Iterator<Item = (&SectionReport, &Finding)> {
        self.all().filter(|(_, finding)| finding.is_hazard())
    }

    /// The same and all that is odd.
    pub fn all(&self) -> impl Iterator<Item = (&SectionReport, &Finding)> {
        self.sections.iter().flat_map(|section| section.findings.iter().map(move |finding| (section, finding)))
    }

    /// Whether nothing can do harm.
    pub fn is_clean(&self) -> bool {
        self.findings().next().is_none()
    }

    /// What each verifier did, over all sections.
    pub fn tallies(&self) -> Vec<Tally> {
        let mut total: Vec<Tally> = Vec::new();
        for tally in self.sections.iter().flat_map(|section| &section.tallies) {
            match total.iter_mut().find(|other| other.verifier == tally.verifier) {
                Some(other) => {
                    other.checked += tally.checked;
                    other.findings += tally.findings;
                    other.notes += tally.notes;
                }
                None => total.push(*tally),
            }
        }
        total
    }

    /// The first findings, a line each, or nothing if there are none: for messages of tests.
    pub fn complaint(&self, most: usize) -> Option<String> {
        let lines: Vec<String> = self.findings().take(most).map(|(section, finding)| format!("{} {finding}", section.name)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Runs verifiers over every function of a cubin.
///
/// # Errors
///
/// If the file cannot be read, or there is no table of instructions for its target. Words that the table does not know are findings.
pub fn verify_cubin(bytes: &[u8], verifiers: &[Verifier]) -> Result<Report, String> {
    verify(&Cubin::read(bytes).map_err(|error| error.to_string())?, verifiers)
}

/// The same for a cubin that was read before.
///
/// # Errors
///
/// If there is no table of instructions for its target.
pub fn verify(cubin: &Cubin, verifiers: &[Verifier]) -> Result<Report, String> {
    let name = cubin.target_name();
    let target = Target::parse(&name).ok_or_else(|| format!("there is no table of instructions for {name}"))?;
    let index = Index::new(cubin);
    let sections = cubin.functions().map(|function| {
        let section = Section::new(&index, &function, target);
        let mut report =
            SectionReport { name: section.name.to_owned(), words: section.words.clone(), tallies: Vec::new(), findings: Vec::new() };
        for &verifier in verifiers {
            let mut ledger = Ledger::new(verifier);
            verifier.run(&section, &mut ledger);
            let findings = ledger.findings.iter().filter(|finding| finding.is_hazard()).count();
            report.tallies.push(Tally { verifier, checked: ledger.checked, findings, notes: ledger.findings.len() - findings });
            ledger.findings.sort_by(|one, two| (one.at, one.first, one.kind).cmp(&(two.at, two.first, two.kind)));
            report.findings.append(&mut ledger.findings);
        }
        report
    });
    Ok(Report { target, sections: sections.collect() })
}
