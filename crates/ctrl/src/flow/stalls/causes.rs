//! The parts that a stall consists of, each with its cause, and latencies that no stall can cover.

use oriole_hardware::DependenceKind;
use smallvec::SmallVec;

use super::super::reg_access::Register;

/// The reason for some cycles of a stall. `first` is the position in the code of the instruction whose latency has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// The minimum stall of the opcode.
    MinimumStall,
    /// A dependence on a register: `cycles` have to pass between instruction `first` and the dependent instruction after the stall.
    Register { first: u32, kind: DependenceKind, register: Register, cycles: u8 },
    /// The instruction after the stall waits for a scoreboard that instruction `first` has just set; it would not see the change yet.
    Scoreboard { first: u32, board: u8 },
    /// Instruction `first` is a thread-block barrier (`BAR`): most instructions may only issue some cycles after it.
    Barrier { first: u32 },
    /// Instruction `first` keeps the functional unit of the instruction after the stall busy for `cycles`.
    Unit { first: u32, cycles: u8 },
    /// The instruction after the stall transfers control to code that was compiled without knowledge of the latency of instruction `first`.
    ControlTransfer { first: u32 },
}

/// Some cycles of a stall, which have one cause. All parts of a stall add up to the stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallPart {
    /// Number of cycles of the stall that have this cause.
    pub cycles: u8,
    /// Why the cycles are needed.
    pub cause: StallCause,
    /// Position of the instruction that must not issue earlier: the one directly after the stall or a later one. For
    /// [`StallCause::MinimumStall`], the instruction with the stall.
    pub second: u32,
}

/// The parts of one stall, in the order in which they were added. The first is the minimum stall of the opcode.
pub type StallParts = SmallVec<[StallPart; 2]>;

/// A fixed latency that the stalls cannot cover, so that a `NOP` has to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyShortfall {
    /// Position of the instruction that would issue too early.
    pub before: usize,
    /// Number of cycles that are missing before that instruction.
    pub cycles: u32,
}

/// The results of [`compute_stalls`] apart from the stalls, which are in the control words.
#[derive(Debug, Default)]
pub struct StallSummary {
    /// Latencies that the stalls cannot cover, sorted by instruction; at most one for each instruction.
    pub shortfalls: Vec<LatencyShortfall>,
    /// For each instruction: its stall, divided into parts by cause; empty unless the caller asked for causes.
    pub parts: Vec<StallParts>,
}
