//! The error type of selection: a PTX construct that Oriole cannot compile, and its source position.

use std::fmt;

use oriole_ptx::source::Span;

/// A PTX construct that selection does not support.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// The construct, in PTX terms.
    pub feature: String,
    /// Source position; `None` until the caller fills it in, or if no single position applies.
    pub span: Option<Span>,
}

impl Unsupported {
    /// Creates an error without position; the statement being selected supplies it.
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
