//! The verifier: does a function keep the rules that all passes rely on?
//!
//! It shares data types with the passes, and of their logic only control flow and dominators. It finds as many mistakes as it can, ties
//! each to its block and instruction, and prints the guilty lines. What it verifies:
//!
//! *Structure* (`structure`)
//! - the layout has an entry, names existing blocks, each once; no instruction is in two places;
//! - each block ends in an unguarded `BRA`, `BRX`, `EXIT` or `RET`, at most one guarded `BRA` stands before it, and no other
//!   instruction of these is inside;
//! - blocks that operands name exist and are in the layout;
//! - phis come first, have no guard, and have a source for each predecessor exactly once; nothing branches to the entry in SSA form.
//!
//! *Operands* (`operands`)
//! - values exist, and parts are within their width; classes make sense;
//! - results are whole values, registers or zero registers without signs, in the files that the opcode writes, in its order;
//! - a tied operand has a result of its file and width, one for each result at most, and stands only with a guard or with an
//!   opcode that leaves a part of its result as it was;
//! - guards are predicates, of threads or uniform;
//! - what stands in brackets follows an address, bracket by bracket, and no address is empty; `c[0x0][0x210]` is a constant;
//! - fixed registers stand only on calls, `ENTRY` and `KEEP`; references have a symbol; `undef` stands only in phis;
//! - instructions that load, store or update memory say what their access means, and those without memory do not;
//! - the sources of `COPY` pair up with its results, those of `PACK` add up to its result, those of `PHI` are as wide as it;
//!   `ENTRY` reads nothing and is in the entry block, `KEEP` writes nothing.
//!
//! *Values in SSA form* (`values`)
//! - each value has one definition, which dominates its uses; the sources of a phi dominate the end of their predecessor.
//!
//! *After allocation* ([`verify_allocated`], `allocated`) there are no values, phis, copies and packs any more, registers exist and are
//! aligned, tied operands are in the register of their result, and fixed operands in theirs.

mod allocated;
mod operands;
mod structure;
mod values;

use std::fmt;

pub use allocated::RegisterLimits;

use crate::function::{Block, Function, Inst};
use crate::text::print_inst;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The block, if one is to blame.
    pub block: Option<Block>,
    /// The instruction, if one is to blame.
    pub inst: Option<Inst>,
    /// What is wrong.
    pub message: String,
}

/// All broken rules of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyErrors {
    /// The function's name.
    pub function: String,
    /// At least one, in the order of the layout.
    pub errors: Vec<VerifyError>,
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
    let mut report = Report::new(function);
    operands::check(&mut report);
    structure::check(&mut report);
    if report.errors.is_empty() {
        values::check(&mut report);
    }
    report.finish()
}

/// Checks a function after register allocation.
pub fn verify_allocated(function: &Function, limits: &RegisterLimits) -> Result<(), VerifyErrors> {
    let mut report = Report::new(function);
    operands::check(&mut report);
    structure::check(&mut report);
    allocated::check(&mut report, limits);
    report.finish()
}

/// Errors so far, and where the checks are.
struct Report<'a> {
    function: &'a Function,
    errors: Vec<VerifyError>,
    block: Option<Block>,
    inst: Option<Inst>,
}

impl<'a> Report<'a> {
    fn new(function: &'a Function) -> Report<'a> {
        Report { function, errors: Vec::new(), block: None, inst: None }
    }

    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(VerifyError { block: self.block, inst: self.inst, message: message.into() });
    }

    /// Reports an error unless something holds.
    fn check(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.error(message());
        }
    }

    /// Visits all instructions that blocks of the layout have.
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

    /// Guilty lines with their errors below them, block by block.
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

/// More errors than this do not help anybody.
const LISTED_ERRORS: usize = 100;
