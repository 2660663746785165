//! What the verifiers of machine code find.

use std::fmt;

use oriole_isa::{Target, print};
use oriole_sass::program::SIZE;
pub use oriole_sim::verify::Verifier;
use oriole_sim::verify::{self, SectionReport};
use serde::Serialize;

/// Whether a finding can do harm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// The program can compute wrong results or hang.
    Hazard,
    /// Odd, but harmless.
    Note,
}

/// A finding of a verifier. Addresses are byte offsets in the section.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Whether it can do harm.
    pub severity: FindingSeverity,
    /// The section of the machine code, such as `.text.kernel`.
    pub section: String,
    /// Name of the verifier.
    pub verifier: &'static str,
    /// Kind of finding, one word.
    pub kind: &'static str,
    /// What is wrong.
    pub message: String,
    /// Address of the instruction that is wrong.
    pub address: Option<u64>,
    /// Text of that instruction.
    pub instruction: Option<String>,
    /// Address of the earlier instruction that it conflicts with.
    pub first_address: Option<u64>,
    /// Text of the earlier instruction.
    pub first_instruction: Option<String>,
}

/// Prints section, address, message and verifier in one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.section)?;
        if let Some(address) = self.address {
            write!(f, " {address:#06x}")?;
        }
        write!(f, ": {} [{}]", self.message, self.verifier)
    }
}

impl Finding {
    pub(crate) fn new(target: Target, section: &SectionReport, finding: &verify::VerifyFinding) -> Finding {
        let address = |number: usize| number as u64 * SIZE;
        let text = |number: usize| Some(print(*section.words.get(number)?, target, address(number)).unwrap_or_default());
        Finding {
            severity: if finding.is_hazard() { FindingSeverity::Hazard } else { FindingSeverity::Note },
            section: section.name.clone(),
            verifier: finding.verifier.name(),
            kind: finding.kind,
            message: finding.message.clone(),
            address: finding.at.map(address),
            instruction: finding.at.and_then(text),
            first_address: finding.first.map(address),
            first_instruction: finding.first.and_then(text),
        }
    }
}
