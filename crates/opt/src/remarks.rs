//! Optimization remarks: how a pass changed the code at a source location, or why it did not change it.
//!
//! Remarks are for `oriole explain`. They are recorded on request only; otherwise [`Remarks::add`] does nothing and formats nothing.

use oriole_ir::{Block, Function, Location};

/// A remark of a pass about one source location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassRemark {
    /// Name of the pass in the pass table.
    pub pass: &'static str,
    /// Source location that the remark is about.
    pub location: Location,
    /// Whether the pass changed the code at the location; otherwise the text says why it did not.
    pub is_applied: bool,
    /// Description of the change, or the reason why there was none.
    pub text: String,
}

/// The remarks about one function; none are recorded unless requested.
#[derive(Clone, Default, Debug)]
pub struct Remarks {
    /// The remarks in the order in which they were made; `None` if remarks were not requested.
    list: Option<Vec<PassRemark>>,
}

impl Remarks {
    /// Returns an empty list that records remarks.
    pub fn recording() -> Remarks {
        Remarks { list: Some(Vec::new()) }
    }

    /// Adds the remark that a pass changed the code at a location.
    pub fn done(&mut self, pass: &'static str, location: Location, text: impl FnOnce() -> String) {
        self.add(pass, location, true, text);
    }

    /// Adds the remark that a pass did not change the code at a location, with the reason.
    pub fn missed(&mut self, pass: &'static str, location: Location, text: impl FnOnce() -> String) {
        self.add(pass, location, false, text);
    }

    /// Adds a remark; the text is computed only if remarks were requested.
    fn add(&mut self, pass: &'static str, location: Location, is_applied: bool, text: impl FnOnce() -> String) {
        if let Some(list) = &mut self.list {
            list.push(PassRemark { pass, location, is_applied, text: text() });
        }
    }

    /// Removes the remarks of a pass about code that it did not change. Called before the pass runs again on the same code.
    pub(crate) fn forget_missed(&mut self, pass: &str) {
        if let Some(list) = &mut self.list {
            list.retain(|remark| remark.is_applied || remark.pass != pass);
        }
    }

    /// Returns the remarks in the order in which they were made.
    pub fn list(&self) -> &[PassRemark] {
        self.list.as_deref().unwrap_or_default()
    }
}

/// Returns the source location of the first instruction of a block that has a location; the default location if no instruction has one.
pub(crate) fn location_of_block(function: &Function, block: Block) -> Location {
    let mut locations = function.blocks[block].insts.iter().map(|&inst| function.insts[inst].location);
    locations.find(|location| location.statement != 0).unwrap_or_default()
}
