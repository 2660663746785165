//! The report of violations: collects them with their positions, and prints the affected instructions.

use std::fmt;

use crate::function::Function;
use crate::ids::{Block, Inst};
use crate::text::print_inst;

/// A violation of an invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The block, if the violation belongs to one.
    pub block: Option<Block>,
    /// The instruction, if the violation belongs to one.
    pub inst: Option<Inst>,
    /// Description of the violation.
    pub message: String,
}

/// All violations in a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyErrors {
    /// The function's name.
    pub function: String,
    /// At least one violation, in the order in which they were found.
    pub errors: Vec<VerifyError>,
    /// The affected instructions with their errors, as text.
    listing: String,
}

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "@{}: {} broken rules", self.function, self.errors.len())?;
        f.write_str(&self.listing)
    }
}

impl std::error::Error for VerifyErrors {}

/// The violations found so far, and the current position of the checks.
pub(super) struct VerifierReport<'a> {
    pub(super) function: &'a Function,
    pub(super) errors: Vec<VerifyError>,
    pub(super) block: Option<Block>,
    pub(super) inst: Option<Inst>,
}

impl<'a> VerifierReport<'a> {
    pub(super) fn new(function: &'a Function) -> VerifierReport<'a> {
        VerifierReport { function, errors: Vec::new(), block: None, inst: None }
    }

    pub(super) fn error(&mut self, message: impl Into<String>) {
        self.errors.push(VerifyError { block: self.block, inst: self.inst, message: message.into() });
    }

    /// Reports an error unless `holds`.
    pub(super) fn check(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.error(message());
        }
    }

    /// Visits all instructions in the blocks of the layout.
    pub(super) fn each_inst(&mut self, mut visit: impl FnMut(&mut Self, Block, Inst)) {
        let function = self.function;
        for &block in function.layout.iter().filter(|&&block| function.blocks.get(block).is_some()) {
            for &inst in function.blocks[block].insts.iter().filter(|&&inst| function.insts.get(inst).is_some()) {
                (self.block, self.inst) = (Some(block), Some(inst));
                visit(self, block, inst);
            }
        }
        (self.block, self.inst) = (None, None);
    }

    pub(super) fn finish(self) -> Result<(), VerifyErrors> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let listing = self.listing();
        Err(VerifyErrors { function: self.function.name.clone(), errors: self.errors, listing })
    }

    /// Returns the affected instructions with their errors after them, block by block.
    fn listing(&self) -> String {
        let mut text = String::new();
        for error in self.errors.iter().filter(|error| error.block.is_none()) {
            text.push_str(&format!("    ; error: {}\n", error.message));
        }
        let mut sorted: Vec<&VerifyError> = self.errors.iter().filter(|error| error.block.is_some()).collect();
        let position = |error: &VerifyError| {
            let block = self.function.layout.iter().position(|&block| Some(block) == error.block);
            let insts = error.block.and_then(|block| self.function.blocks.get(block)).map_or(&[][..], |block| &block.insts);
            (block, insts.iter().position(|&inst| Some(inst) == error.inst))
        };
        sorted.truncate(LISTED_ERRORS);
        sorted.sort_by_cached_key(|error| position(error));
        let (mut block, mut inst) = (None, None);
        for error in sorted {
            if error.block != block {
                (block, inst) = (error.block, None);
                text.push_str(&error.block.map_or(String::new(), |block| format!("{block:?}:\n")));
            }
            if error.inst != inst {
                inst = error.inst;
                text.push_str(&error.inst.map_or(String::new(), |inst| format!("    {}\n", print_inst(self.function, inst))));
            }
            text.push_str(&format!("        ; error: {}\n", error.message));
        }
        text
    }
}

/// Maximum number of errors in the listing.
const LISTED_ERRORS: usize = 100;
