//! Finds data hazards in machine code: registers that are read before they are written, or overwritten before they are read.
//!
//! These GPUs have no hardware interlocks for register dependences. The result of a fixed-latency instruction is available after a known
//! number of cycles, and only the stall counts in between keep a consumer from reading it too early. A variable-latency instruction signals
//! its result (write barrier) and the reading of its operands (read barrier) on one of six scoreboards, and only the wait mask of a later
//! instruction makes that instruction wait.
//!
//! [`HazardStep`] is one instruction reduced to the facts needed here. [`Tracker`] follows one path of steps and reports hazards. Two drivers use
//! it:
//!
//! - [`flow`] is a static check: a forward data-flow analysis over all paths of a code section, valid for every input;
//! - [`Watch`] is a dynamic check: it follows the warps of the functional simulator, across calls and with the exact active threads, but
//!   only on the paths that one input takes.
//!
//! Latencies come from `oriole-hardware`, everything else from the encoded bytes. No code is shared with the passes that set control words.

mod boundary;
pub mod flow;
mod lanes;
mod reuse;
mod signals;
mod step;
mod track;
mod watch;

pub use boundary::{BoundaryInst, BoundaryState, Pending};
pub use flow::check_function;
pub use lanes::Mask;
pub use step::HazardStep;
pub use track::Tracker;
pub use watch::{HazardObserver, LocatedFinding};

use oriole_hardware::DependenceKind;
use oriole_isa::RegFile;

/// A hazard: a pair of instructions of which the second issues too early.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HazardFinding {
    /// Index of the instruction that issues too early.
    pub second: usize,
    /// Index of the instruction it should have waited for; equal to `second` if the problem concerns one instruction only.
    pub first: usize,
    pub problem: Problem,
}

/// The kind of a hazard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Fewer cycles between the two instructions than the fixed latency needs.
    TooSoon { kind: Dependence, register: HazardRegister, cycles: u32, needed: u32 },
    /// The first instruction signals a scoreboard, but nothing waits for that scoreboard before the second.
    NotWaited { kind: Dependence, register: HazardRegister, scoreboard: u8 },
    /// The first instruction has variable latency and sets no scoreboard.
    NoScoreboardSet { kind: Dependence, register: HazardRegister },
    /// Waits for a scoreboard that no instruction before it sets, on any path.
    NeverSet { scoreboard: u8 },
    /// Waits for a scoreboard so soon after it was set that the hardware does not see it set yet.
    WaitTooSoon { scoreboard: u8, cycles: u32, needed: u32 },
    /// The first instruction puts a register into the reuse cache and the second reads it from there, but the register was overwritten in
    /// between.
    StaleReuse { register: HazardRegister },
    /// Waits (`DEPBAR.LE`) until at most N setters of a scoreboard are pending, but `first` and another setter do not complete in issue
    /// order.
    CountOutOfOrder { scoreboard: u8 },
    /// Control leaves the section while the first instruction may still write the register; the code that follows cannot know this.
    PendingAtExit { register: HazardRegister },
    /// A matrix product of a warpgroup uses a register whose earlier access was not complete at the fence (`WARPGROUP.ARRIVE`) before it.
    OpenAtFence { register: HazardRegister },
    /// The warp gives up a register (`USETMAXREG.DEALLOC`) that the first instruction may still write or read: the register may belong to
    /// another warp by then.
    ReleasedInFlight { kind: Dependence, register: HazardRegister },
    /// A stall of 12 or more cycles without yield; the hardware stalls only one or two cycles.
    StallIgnored { stall: u8 },
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HazardSeverity {
    /// The program may compute wrong results.
    Hazard,
    /// Unusual, but harmless.
    Note,
}

impl Problem {
    /// Returns the severity; only an unnecessary wait is a note.
    pub fn severity(&self) -> HazardSeverity {
        match self {
            Problem::NeverSet { .. } => HazardSeverity::Note,
            _ => HazardSeverity::Hazard,
        }
    }
}

/// The kind of dependence between the first and the second instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependence {
    /// The second reads a register that the first writes.
    ReadAfterWrite,
    /// The second writes a register that the first reads, or gives it up.
    WriteAfterRead,
    /// The second writes a register that the first writes.
    WriteAfterWrite,
}

impl From<DependenceKind> for Dependence {
    fn from(kind: DependenceKind) -> Self {
        match kind {
            DependenceKind::Raw => Dependence::ReadAfterWrite,
            DependenceKind::War => Dependence::WriteAfterRead,
            DependenceKind::Waw => Dependence::WriteAfterWrite,
        }
    }
}

/// A register of one of the four files that have hazards: index of the file × 256 + register number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HazardRegister(pub u16);

/// Size of tables indexed by [`HazardRegister`].
pub(crate) const REGISTERS: usize = 4 * 256;
/// The register files that have hazards, in the order of [`HazardRegister`] indices.
const FILES: [RegFile; 4] = [RegFile::General, RegFile::Predicate, RegFile::Uniform, RegFile::UniformPredicate];

impl HazardRegister {
    /// Returns the register, or `None` if its file has no hazards (convergence barriers, scoreboards).
    pub fn new(file: RegFile, number: u16) -> Option<HazardRegister> {
        let file = FILES.iter().position(|&other| other == file)? as u16;
        Some(HazardRegister(file * 256 + number))
    }

    /// Returns the register file.
    pub fn file(self) -> RegFile {
        FILES[usize::from(self.0 / 256)]
    }
}

impl std::fmt::Display for HazardRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.file().prefix(), self.0 % 256)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |cycles: u32| if cycles == 1 { "1 cycle".to_owned() } else { format!("{cycles} cycles") };
        let verb = |kind: &Dependence| match kind {
            Dependence::ReadAfterWrite => ("reads", "writes"),
            Dependence::WriteAfterRead => ("overwrites", "reads"),
            Dependence::WriteAfterWrite => ("overwrites", "writes"),
        };
        match self {
            Problem::TooSoon { kind, register, cycles, needed } => {
                let (does, did) = verb(kind);
                write!(f, "{does} {register} {} after the one that {did} it; {needed} are needed", plural(*cycles))
            }
            Problem::NotWaited { kind, register, scoreboard } => {
                write!(f, "{} {register} without waiting for scoreboard {scoreboard} of the one that {} it", verb(kind).0, verb(kind).1)
            }
            Problem::NoScoreboardSet { kind, register } => {
                write!(f, "{} {register}, but the one that {} it sets no scoreboard", verb(kind).0, verb(kind).1)
            }
            Problem::NeverSet { scoreboard } => write!(f, "waits for scoreboard {scoreboard}, which nothing sets"),
            Problem::WaitTooSoon { scoreboard, cycles, needed } => {
                write!(f, "waits for scoreboard {scoreboard} {} after it was set; {needed} are needed", plural(*cycles))
            }
            Problem::StaleReuse { register } => write!(f, "reads {register} from the reuse cache, where its old value was kept"),
            Problem::CountOutOfOrder { scoreboard } => write!(f, "counts the setters of scoreboard {scoreboard}, which end in any order"),
            Problem::PendingAtExit { register } => write!(f, "leaves to other code while {register} may still be written"),
            Problem::OpenAtFence { register } => {
                write!(f, "uses {register}, whose earlier access was not complete at the fence of the product")
            }
            Problem::ReleasedInFlight { kind, register } => {
                let done = if *kind == Dependence::WriteAfterRead { "read" } else { "written" };
                write!(f, "gives up {register}, which may still be {done}")
            }
            Problem::StallIgnored { stall } => write!(f, "stalls {stall} cycles without yield, which the hardware does not do"),
        }
    }
}

#[cfg(test)]
mod tests;
