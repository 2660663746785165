//! Waits of instructions for others, each with its cause, and the instructions that may be in flight at a block border.

use oriole_hardware::DependenceKind;

use super::super::reg_access::Register;

/// The event of an in-flight instruction that another instruction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitedEvent {
    /// The results of the instruction are written. This implies that its sources have been read.
    Results,
    /// The instruction has read its sources.
    Reads,
}

/// The reason for a wait of a second instruction for a first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitCause {
    /// The second instruction depends on the first one through this register.
    Register(DependenceKind, Register),
    /// The second instruction transfers control to code that was compiled without knowledge of the instructions in flight, such as a
    /// callee.
    ControlTransfer,
    /// The first instruction is a fence, which has to be complete before any later instruction.
    Fence,
    /// The second instruction is a branch, and the first one reads uniform registers late.
    LateReader,
    /// The second instruction invalidates a cache for an acquire, and the first is a load or an atomic operation.
    Acquire,
    /// The second instruction waits for all loads from tensor memory, and the first is such a load.
    TensorLoads,
    /// Too many in-flight instructions access one register. To bound the cost of the analysis, the second instruction waits although it
    /// does not depend on the first.
    TooManyInFlight,
}

/// A wait of one instruction for an event of another. Instructions are given by their positions in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The instruction that is waited for. In a loop it may be `second` itself or come after it.
    pub first: u32,
    /// The event of `first` that is waited for.
    pub event: WaitedEvent,
    /// The instruction that waits before it issues.
    pub second: u32,
    /// Why `second` has to wait.
    pub cause: WaitCause,
}

/// An instruction that may be in flight at a block border: at the start or the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CarriedInst {
    /// Position of the instruction in the code.
    pub(super) position: u32,
    /// Whether the results of the instruction may not have been written yet.
    pub(super) results_pending: bool,
    /// Whether the sources of the instruction may not have been read yet.
    pub(super) reads_pending: bool,
}
