//! The result of an allocation: the resources that the function uses, or the reason why the allocation is impossible.

use std::fmt;

use oriole_ir::{Inst, RegFile};

/// The resources that an allocated function uses.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Allocation {
    /// The number of the highest general register in use, plus one.
    pub registers_used: u32,
    /// The number of the highest uniform register in use, plus one; 0 if none is used.
    pub uniform_used: u32,
    /// The number of the highest convergence barrier (register B0 to B15) in use, plus one; 0 if none is used.
    pub barriers_used: u32,
    /// Sum of the sizes in bytes of all spill stores in the code. Each instruction is counted once, regardless of how often it is executed.
    pub spill_store_bytes: u32,
    /// Sum of the sizes in bytes of all spill loads in the code. Each instruction is counted once, regardless of how often it is executed.
    pub spill_load_bytes: u32,
    /// Size of the frame in local memory (variables and spill slots), in bytes.
    pub frame_bytes: u32,
    /// For each guarded `COPY`: the moves that replace it, one for each register, in ascending order. The verifier ([`crate::check`]) needs
    /// this list.
    pub guarded_copies: Vec<(Inst, Vec<Inst>)>,
}

/// The reason why a function cannot be allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocateError {
    /// An instruction needs more registers at once than there are.
    Limit {
        /// The instruction that needs too many registers.
        inst: Inst,
        /// The register file that has too few registers.
        file: RegFile,
        /// Number of registers of this register file that may be used.
        available: u32,
    },
    /// A general register has to be spilled, and the environment forbids that.
    Spills,
    /// A copy that no instruction of the target can make.
    Unsupported {
        /// The instruction whose allocation needs the copy.
        inst: Inst,
        /// A description of the copy that would be needed.
        copy: String,
    },
    /// The input is not a valid function in SSA form; the text says why.
    Invalid(String),
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocateError::Limit { inst, file, available } => {
                write!(f, "{inst:?} needs more {} registers at once than the {available} that may be used", file.prefix())
            }
            AllocateError::Spills => f.write_str("the function needs spills"),
            AllocateError::Unsupported { inst, copy } => write!(f, "{inst:?}: {copy}"),
            AllocateError::Invalid(copy) => f.write_str(copy),
        }
    }
}

impl std::error::Error for AllocateError {}
