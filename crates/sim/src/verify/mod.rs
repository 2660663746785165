//! The seven verifiers of machine code: they check that the hardware executes the instructions of a cubin, of any compiler, as intended.
//!
//! Each verifier is a file with one entry point, and a header that lists what it proves:
//!
//! | verifier | file | checks that |
//! |---|---|---|
//! | `bounds` | [`bounds`] | every control field has a value the hardware implements |
//! | `indices` | [`indices`] | every scoreboard index exists, and the instruction is able to set it |
//! | `waits` | [`waits`] | every wait finds its scoreboard set, late enough to be seen, and counts only in-order setters |
//! | `completeness` | [`completeness`] | every register dependence is covered by stalls or waits, on all paths |
//! | `format` | [`format`] | every word decodes and re-encodes to the same bits, with no unknown bits set |
//! | `yields` | [`yields`] | yield is set where it must be, and not where it would lose a reuse-cache operand |
//! | `integrity` | [`integrity`] | code, reuse cache, attributes and symbols are consistent with each other |
//!
//! The input is decoded bytes; no code is shared with the passes that set control words. A *finding* may cause wrong results on the
//! hardware or an error in the driver; a *note* is unusual but harmless. Code from ptxas has no findings, and code from Oriole must have
//! none.
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

mod register_counts;
mod section;

use std::fmt;

use oriole_cubin::{Cubin, CubinIndex};
use oriole_isa::Target;

pub use crate::hazard::HazardSeverity;
pub use section::Section;

/// One of the seven verifiers.
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
    /// All verifiers, in the order of the page that describes them.
    pub const ALL: [Verifier; 7] = [
        Verifier::Bounds,
        Verifier::Indices,
        Verifier::Waits,
        Verifier::Completeness,
        Verifier::Format,
        Verifier::Yields,
        Verifier::Integrity,
    ];

    /// Returns its name on the command line.
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

    /// Returns the verifier with this name.
    pub fn named(name: &str) -> Option<Verifier> {
        Verifier::ALL.into_iter().find(|verifier| verifier.name() == name)
    }

    /// Returns a one-line description.
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

    /// Runs the verifier on one section.
    fn run(self, section: &Section<'_>, sink: &mut FindingSink) {
        match self {
            Verifier::Bounds => bounds::verify(section, sink),
            Verifier::Indices => indices::verify(section, sink),
            Verifier::Waits => waits::verify(section, sink),
            Verifier::Completeness => completeness::verify(section, sink),
            Verifier::Format => format::verify(section, sink),
            Verifier::Yields => yields::verify(section, sink),
            Verifier::Integrity => integrity::verify(section, sink),
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A finding or a note about one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyFinding {
    /// The verifier that reported it.
    pub verifier: Verifier,
    /// Whether it is a hazard or a note.
    pub severity: HazardSeverity,
    /// Stable short name of the problem, such as `stall-ignored`.
    pub kind: &'static str,
    /// Index of the instruction, from 0; `None` if it concerns the whole function.
    pub at: Option<usize>,
    /// Index of an earlier instruction involved, if any.
    pub first: Option<usize>,
    /// Description of the problem for users.
    pub message: String,
}

impl VerifyFinding {
    /// Returns whether it may cause wrong results; notes cannot.
    pub fn is_hazard(&self) -> bool {
        self.severity == HazardSeverity::Hazard
    }
}

impl fmt::Display for VerifyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{:#06x}: ", at * section::INSTRUCTION_BYTES)?;
        }
        let note = if self.is_hazard() { "" } else { "note: " };
        write!(f, "{note}{} [{}]", self.message, self.verifier)
    }
}

/// Collects the findings of one verifier in one section.
pub struct FindingSink {
    verifier: Verifier,
    /// Number of things checked.
    checked: usize,
    findings: Vec<VerifyFinding>,
}

impl FindingSink {
    fn new(verifier: Verifier) -> FindingSink {
        FindingSink { verifier, checked: 0, findings: Vec::new() }
    }

    /// Adds to the number of things checked.
    fn count(&mut self, number: usize) {
        self.checked += number;
    }

    /// Records a finding or a note.
    fn push(&mut self, severity: HazardSeverity, kind: &'static str, at: Option<usize>, message: impl Into<String>) {
        self.findings.push(VerifyFinding { verifier: self.verifier, severity, kind, at, first: None, message: message.into() });
    }

    /// Records a hazard.
    fn hazard(&mut self, kind: &'static str, at: impl Into<Option<usize>>, message: impl Into<String>) {
        self.push(HazardSeverity::Hazard, kind, at.into(), message);
    }

    /// Records a note.
    fn note(&mut self, kind: &'static str, at: impl Into<Option<usize>>, message: impl Into<String>) {
        self.push(HazardSeverity::Note, kind, at.into(), message);
    }
}

/// Numbers of checks and findings of one verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifierTally {
    pub verifier: Verifier,
    /// Number of things checked: instructions, fields, attributes or dependences.
    pub checked: usize,
    /// Number of hazards.
    pub findings: usize,
    /// Number of notes.
    pub notes: usize,
}

/// The findings in one code section.
#[derive(Clone, Debug)]
pub struct SectionReport {
    /// Name of the section, `.text.NAME`.
    pub name: String,
    /// Its encoded instructions.
    pub words: Vec<u128>,
    /// One entry for each verifier that ran.
    pub tallies: Vec<VerifierTally>,
    /// Sorted by verifier, then by instruction.
    pub findings: Vec<VerifyFinding>,
}

/// The findings in a cubin.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    pub target: Target,
    pub sections: Vec<SectionReport>,
}

impl VerifyReport {
    /// Returns all hazards.
    pub fn findings(&self) -> impl Iterator<Item = (&SectionReport, &VerifyFinding)> {
        self.all().filter(|(_, finding)| finding.is_hazard())
    }

    /// Returns all hazards and notes.
    pub fn all(&self) -> impl Iterator<Item = (&SectionReport, &VerifyFinding)> {
        self.sections.iter().flat_map(|section| section.findings.iter().map(move |finding| (section, finding)))
    }

    /// Returns whether there are no hazards.
    pub fn is_clean(&self) -> bool {
        self.findings().next().is_none()
    }

    /// Returns the numbers of each verifier, summed over all sections.
    pub fn tallies(&self) -> Vec<VerifierTally> {
        let mut total: Vec<VerifierTally> = Vec::new();
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

    /// Returns the first `most` hazards, one per line, or `None` if there are none; for messages of tests.
    pub fn complaint(&self, most: usize) -> Option<String> {
        let lines: Vec<String> = self.findings().take(most).map(|(section, finding)| format!("{} {finding}", section.name)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Runs verifiers on every function of a cubin.
///
/// # Errors
///
/// If the file cannot be parsed, or its target has no instruction table. Words that the table does not know are findings, not errors.
pub fn verify_cubin(bytes: &[u8], verifiers: &[Verifier]) -> Result<VerifyReport, String> {
    verify(&Cubin::read(bytes).map_err(|error| error.to_string())?, verifiers)
}

/// Like [`verify_cubin`], for a cubin that is already parsed.
///
/// # Errors
///
/// If its target has no instruction table.
pub fn verify(cubin: &Cubin, verifiers: &[Verifier]) -> Result<VerifyReport, String> {
    let target = cubin.target().ok_or_else(|| format!("there is no table of instructions for {}", cubin.target_name()))?;
    let index = CubinIndex::new(cubin);
    let sections = cubin.functions().map(|function| {
        let section = Section::new(&index, &function, target);
        let mut report =
            SectionReport { name: section.name.to_owned(), words: section.words.clone(), tallies: Vec::new(), findings: Vec::new() };
        for &verifier in verifiers {
            let mut sink = FindingSink::new(verifier);
            verifier.run(&section, &mut sink);
            let findings = sink.findings.iter().filter(|finding| finding.is_hazard()).count();
            report.tallies.push(VerifierTally { verifier, checked: sink.checked, findings, notes: sink.findings.len() - findings });
            sink.findings.sort_by(|one, two| (one.at, one.first, one.kind).cmp(&(two.at, two.first, two.kind)));
            report.findings.append(&mut sink.findings);
        }
        report
    });
    Ok(VerifyReport { target, sections: sections.collect() })
}
