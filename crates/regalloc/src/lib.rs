//! Register allocation: replaces the SSA values of a function by physical registers.
//!
//! [`allocate`] handles one register file after the other. For each file it walks the blocks once in reverse post-order ([`assign`]) and
//! assigns registers to the operands of each instruction ([`allocate_inst`]). A value that has to leave its registers is *dropped*: it is
//! reloaded before its next use. Its spill store is a single one, directly after the definition, which dominates every reload. Where a
//! tuple finds no aligned gap, other values are moved to other registers. Differences between the registers of a value at the end of one
//! block and at the start of the next, and phis, are resolved by moves on the edge ([`edges`]).
//!
//! Spilling and the choice of victims follow Braun and Hack 2009, "Register Spilling and Live-Range Splitting for SSA-Form Programs";
//! [`assign`] says where it departs.
//!
//! The order of the files makes spilling simple. A uniform predicate is spilled to a uniform register; a uniform register, predicate or
//! convergence barrier is spilled to a general register. In both cases the spilled content is a new SSA value, its *shadow*, which is
//! allocated with its own file later. Only general registers are spilled to local memory. Values that are cheap to recompute are
//! recomputed instead ([`spill`]).
//!
//! **Before:** strict SSA; blocks end in explicit control flow. **After:** no values and no pseudo operations. Tied and fixed operands stay
//! as physical registers, for passes that analyse dependences; they are not encoded. Instructions keep their numbers.
//!
//! Callee-saved registers are ordinary values: `ENTRY` defines them in fixed registers, and `KEEP` uses them in the same registers.
#![deny(missing_docs)]

mod allocate_inst;
mod assign;
pub mod check;
mod control_flow;
mod edges;
mod environment;
mod hints;
mod liveness;
mod moves;
mod normalize;
mod registers;
mod rewrite;
mod slots;
mod spill;

use std::fmt;

use oriole_ir::{Function, Inst, RegFile};

pub use environment::{Clobbers, Environment};
pub use registers::RegisterSet;

use crate::assign::Assigner;

/// The order in which register files are allocated. The file that takes the spilled values of another file comes after that file.
const FILES: [RegFile; 5] = [RegFile::UniformPredicate, RegFile::Uniform, RegFile::Predicate, RegFile::Convergence, RegFile::General];

/// The resources that an allocated function uses.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Allocation {
    /// The number of the highest general register, plus one.
    pub registers_used: u32,
    /// The number of the highest uniform register, plus one.
    pub uniform_used: u32,
    /// The number of the highest convergence barrier, plus one.
    pub barriers_used: u32,
    /// Sum of the sizes of all spill stores in the code, in bytes, each counted once.
    pub spill_store_bytes: u32,
    /// Sum of the sizes of all spill loads in the code, in bytes, each counted once.
    pub spill_load_bytes: u32,
    /// Size of the frame in local memory: variables and spill slots, in bytes.
    pub frame_bytes: u32,
    /// Each guarded `COPY` with the moves that replace it, one for each register, in order. The checker reads it.
    pub guarded_copies: Vec<(Inst, Vec<Inst>)>,
}

/// The reason why a function cannot be allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocateError {
    /// An instruction needs more registers at once than there are.
    Limit {
        /// The instruction.
        inst: Inst,
        /// The register file.
        file: RegFile,
        /// Number of registers of the file that may be used.
        available: u32,
    },
    /// A copy that no instruction of the target can make.
    Unsupported {
        /// The instruction.
        inst: Inst,
        /// The copy that would be needed.
        what: String,
    },
    /// The function is not in SSA form.
    Invalid(String),
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocateError::Limit { inst, file, available } => {
                write!(f, "{inst:?} needs more {} registers at once than the {available} that may be used", file.prefix())
            }
            AllocateError::Unsupported { inst, what } => write!(f, "{inst:?}: {what}"),
            AllocateError::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for AllocateError {}

/// Replaces the values of a function by physical registers, inserting spill code where there are not enough. Returns the resources used.
pub fn allocate(function: &mut Function, env: &Environment) -> Result<Allocation, AllocateError> {
    if !function.is_ssa {
        return Err(AllocateError::Invalid("the function is not in SSA form".into()));
    }
    normalize::run(function)?;
    let mut allocation = Allocation::default();
    let mut assigner = Assigner::new(function, env);
    for file in FILES {
        assigner.run(file)?;
    }
    assigner.report(&mut allocation);
    rewrite::finish(function, &mut allocation);
    allocation.frame_bytes = function.frame_bytes;
    Ok(allocation)
}
