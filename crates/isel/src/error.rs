//! What cannot be compiled, and where.

use std::fmt;

use oriole_ptx::source::Span;

/// A feature of PTX that selection has no code for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// What it is, in the words of PTX.
    pub feature: String,
    /// Where it stands; none if it is no single place.
    pub span: Option<Span>,
}

impl Unsupported {
    /// A feature, at the instruction being selected.
    pub fn new(feature: impl Into<String>) -> Unsupported {
        Unsupported { feature: feature.into(), span: None }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported yet", self.feature)
    }
}

impl std::error::Error for Unsupported {}
