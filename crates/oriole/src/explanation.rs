//! Explanations of machine code.

use std::fmt;

use oriole_explain::text::Detail;
use oriole_explain::{html, text};

use crate::error::{Error, ErrorKind};

/// Why code came out as it did: registers, occupancy, spills, stalls, waits, and what passes did and did not do.
#[derive(Clone)]
pub struct Explanation(oriole_explain::Explanation);

impl Explanation {
    pub(crate) fn new(explanation: oriole_explain::Explanation) -> Explanation {
        Explanation(explanation)
    }

    /// Returns the explanation as JSON, as `oriole explain --json` prints it.
    pub fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string(&self.0).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    }

    /// Returns the explanation as text, with every instruction.
    pub fn to_text(&self) -> String {
        text::write(&self.0, Detail::Full)
    }

    /// Returns the explanation as text, without the instructions.
    pub fn summary(&self) -> String {
        text::write(&self.0, Detail::Summary)
    }

    /// Returns the explanation as a page for a browser.
    pub fn to_html(&self) -> String {
        html::write(&self.0)
    }
}

/// Prints the names of the functions that are explained.
impl fmt::Debug for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.functions.iter().map(|function| function.name.as_str()).collect();
        f.debug_struct("Explanation").field("target", &self.0.target).field("functions", &names).finish()
    }
}
