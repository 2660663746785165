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
mod report;
mod structure;
mod values;

pub use allocated::RegisterLimits;
use report::VerifierReport;
pub use report::{VerifyError, VerifyErrors};

use crate::function::Function;

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
