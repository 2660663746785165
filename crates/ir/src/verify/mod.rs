//! The verifier: checks that a function satisfies the invariants that all passes rely on.
//!
//! It shares data types with the passes, but of their logic only control flow and dominators. It reports as many violations as possible,
//! with block and instruction, and prints the affected lines. The invariants:
//!
//! *Structure* (`structure`)
//! - the layout has an entry, and contains only existing blocks, each once; no instruction occurs twice;
//! - each block ends with an unguarded `BRA`, `BRX`, `EXIT` or `RET`, directly preceded by at most one guarded `BRA`; apart from guarded
//!   `EXIT`s no other such instruction is inside the block;
//! - blocks that operands refer to exist and are in the layout;
//! - phis come first in their block, have no guard, and have exactly one source for each predecessor; in SSA form the entry block has no
//!   predecessors.
//!
//! *Operands* (`operands`)
//! - values exist, parts are within the width of their value, classes are valid;
//! - results are whole values, registers or zero registers without signs, in the register files that the opcode writes, in its order;
//! - a tied operand has the file and width of its result; each result has at most one; tied operands occur only with a guard or with an
//!   opcode that preserves a part of its result;
//! - guards are predicates or uniform predicates;
//! - bracket terms follow an address, in the order of the brackets; no address is empty; `c[0x0][0x210]` is a constant operand, not an
//!   address;
//! - fixed registers occur only on calls, `ENTRY` and `KEEP`; references have a symbol; `undef` occurs only in phis;
//! - instructions that load, store or update memory have a description of their access, and those without memory access do not;
//! - the sources of `COPY` match its results one to one, those of `PACK` add up to the width of its result, those of `PHI` have the width
//!   of its result; `ENTRY` has no sources and is in the entry block, `KEEP` has no results.
//!
//! *Values in SSA form* (`values`)
//! - each value has one definition, which dominates its uses; a source of a phi is defined at the end of its predecessor.
//!
//! *After allocation* ([`verify_allocated`], `allocated`)
//! - there are no values, phis, copies and packs; registers exist and are aligned; tied operands are in the register of their result, and
//!   fixed operands in their fixed register.

mod allocated;
mod operands;
mod structure;
mod values;

use std::fmt;

pub use allocated::RegisterLimits;

use crate::function::{Block, Function, Inst};
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

/// Checks a function before register allocation.
pub fn verify(function: &Function) -> Result<(), VerifyErrors> {
    let mut report = VerifierReport::new(function);
    operands::check(&mut report);
    structure::check(&mut report);
    if report.errors.is_empty() {
        values::check(&mut report);
    }
    report.finish()
}

/// Checks a function after register allocation.
pub fn verify_allocated(function: &Function, limits: &RegisterLimits) -> Result<(), VerifyErrors> {
    let mut report = VerifierReport::new(function);
    operands::check(&mut report);
    structure::check(&mut report);
    allocated::check(&mut report, limits);
    report.finish()
}

/// The violations found so far, and the current position of the checks.
struct VerifierReport<'a> {
    function: &'a Function,
    errors: Vec<VerifyError>,
    block: Option<Block>,
    inst: Option<Inst>,
}

impl<'a> VerifierReport<'a> {
    fn new(function: &'a Function) -> VerifierReport<'a> {
        VerifierReport { function, errors: Vec::new(), block: None, inst: None }
    }

    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(VerifyError { block: self.block, inst: self.inst, message: message.into() });
    }

    /// Reports an error unless `holds`.
    fn check(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.error(message());
        }
    }

    /// Visits all instructions in the blocks of the layout.
    fn each_inst(&mut self, mut visit: impl FnMut(&mut Self, Block, Inst)) {
        let function = self.function;
        for &block in function.layout.iter().filter(|&&block| function.blocks.get(block).is_some()) {
            for &inst in function.blocks[block].insts.iter().filter(|&&inst| function.insts.get(inst).is_some()) {
                (self.block, self.inst) = (Some(block), Some(inst));
                visit(self, block, inst);
            }
        }
        (self.block, self.inst) = (None, None);
    }

    fn finish(self) -> Result<(), VerifyErrors> {
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
