//! Register allocation.
//!
//! [`allocate`] takes a function in SSA form and leaves it on physical registers. It works file by file, each in one walk over the
//! blocks in reverse post-order ([`assign`]): values sit in registers or not; a value that has to leave its registers is *dropped*,
//! because what spills a value is one store behind its definition, which dominates every place where it might be wanted back. Where
//! a tuple finds no aligned gap, values move out of the way. Blocks agree on where values are at their borders ([`edges`]), and
//! what a predecessor has elsewhere, phis included, moves on the edge.
//!
//! The order of the files makes spilling simple: a spilled uniform predicate lives in a uniform register, a spilled uniform register,
//! predicate or barrier in a general register, as a new SSA value that the later pass treats like any other; only general registers
//! go to local memory. Values that are cheap to compute again are computed again.
//!
//! **Before:** strict SSA; blocks end in explicit control flow. **After:** no values, no pseudo operations. Tied and fixed operands stay,
//! as physical registers, for those who look at dependences; they have no place in the encoding. Instructions keep their numbers.
//!
//! Registers that a function must give back unchanged are ordinary values: defined at fixed places by `ENTRY`, used there by `KEEP`.
#![deny(missing_docs)]

mod assign;
pub mod check;
mod control_flow;
mod edges;
mod environment;
mod hints;
mod liveness;
mod moves;
mod normalize;
mod operate;
mod registers;
mod rewrite;
mod slots;
mod spill;

use std::fmt;

use oriole_ir::{File, Function, Inst};

pub use environment::{Clobbers, Environment};
pub use registers::RegisterSet;

use crate::assign::Assigner;

/// The order in which files are allocated: where a spilled value goes comes later than the value's own file.
const FILES: [File; 5] = [File::UniformPredicate, File::Uniform, File::Predicate, File::Convergence, File::General];

/// What an allocation needed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Allocation {
    /// The number of the highest general register, plus one.
    pub registers_used: u32,
    /// The number of the highest uniform register, plus one.
    pub uniform_used: u32,
    /// The number of the highest convergence barrier, plus one.
    pub barriers_used: u32,
    /// Bytes that all stores of spilled values in the code write.
    pub spill_store_bytes: u32,
    /// Bytes that all loads of spilled values in the code read.
    pub spill_load_bytes: u32,
    /// Bytes of local memory, variables and spilled values together.
    pub frame_bytes: u32,
    /// Guarded copies and the moves they became, in order: one for each register.
    pub guarded_copies: Vec<(Inst, Vec<Inst>)>,
}

/// Why a function cannot be allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocateError {
    /// An instruction needs more registers at once than there are.
    Limit {
        /// The instruction.
        inst: Inst,
        /// The register file.
        file: File,
        /// How many registers may be used.
        available: u32,
    },
    /// A copy between places that no instruction copies between.
    Unsupported {
        /// The instruction.
        inst: Inst,
        /// What it would take.
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

/// Replaces the values of a function by registers.
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
