//! Hazards: whether every register is read after it was written, and overwritten after it was read, by the rules of the hardware.
//!
//! On these GPUs the compiler is the hazard logic. An instruction of fixed latency has its result ready after a number of cycles, and
//! nothing stops another one from reading too early but the stall counts between them. An instruction of variable latency announces its
//! result, and the reading of its sources, on one of six scoreboards, and nothing but the wait mask of the other one heeds it.
//!
//! [`Step`] is an instruction with what matters here; [`Tracker`] follows a path of them and finds hazards. [`flow`] walks all paths of
//! a function with it, for any input; [`Watch`] follows the warps of the simulator and sees the paths that one input takes, across
//! calls, with the lanes that really took part. The rules come from `oriole-hardware` and the bytes; nothing is shared with what sets
//! control words.

pub mod flow;
mod lanes;
mod reuse;
mod step;
mod track;
mod watch;

pub use flow::check_function;
pub use lanes::Mask;
pub use step::Step;
pub use track::{Border, Carried, Pending, Tracker};
pub use watch::{Sighting, Watch};

use oriole_hardware::Kind;
use oriole_isa::File;

/// Something that may go wrong on the hardware.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The instruction that comes too early, by number.
    pub second: usize,
    /// The one that it should have waited for; the same as `second` where there is none.
    pub first: usize,
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Too few cycles between the two.
    TooSoon { kind: Dependence, register: Register, cycles: u32, needed: u32 },
    /// The first announces itself on a scoreboard, but it is not waited for.
    NotWaited { kind: Dependence, register: Register, scoreboard: u8 },
    /// The first takes a variable time and announces nothing.
    NotAnnounced { kind: Dependence, register: Register },
    /// Waits for a scoreboard that no instruction before it sets.
    NeverSet { scoreboard: u8 },
    /// The scoreboard is waited for sooner after it was set than the hardware can tell.
    ScoreboardTooFresh { scoreboard: u8, cycles: u32, needed: u32 },
    /// The first keeps a register in the reuse cache, the second finds it there, but it was overwritten in between.
    StaleReuse { register: Register },
    /// Waits until some setters of a scoreboard are left, of which this one and another do not end in the order of issue.
    CountOutOfOrder { scoreboard: u8 },
    /// Code that others made comes next, which does not know that the first may still write the register.
    NotSettled { register: Register },
    /// A stall of 12 cycles or more without leave to turn to another warp, which the hardware takes for one or two.
    StallIgnored { stall: u8 },
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Results may be wrong.
    Hazard,
    /// Odd, but harmless.
    Note,
}

impl Problem {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Problem::NeverSet { .. } => Severity::Note,
            _ => Severity::Hazard,
        }
    }
}

/// Which of the two wrote and which read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependence {
    /// Reads what the first writes.
    ReadAfterWrite,
    /// Writes what the first reads.
    WriteAfterRead,
    /// Writes what the first writes.
    WriteAfterWrite,
}

impl From<Kind> for Dependence {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Raw => Dependence::ReadAfterWrite,
            Kind::War => Dependence::WriteAfterRead,
            Kind::Waw => Dependence::WriteAfterWrite,
        }
    }
}

/// A register of one of the four files that have hazards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u16);

/// Registers of all files.
pub(crate) const REGISTERS: usize = 4 * 256;
const FILES: [File; 4] = [File::General, File::Predicate, File::Uniform, File::UniformPredicate];

impl Register {
    /// A register, if its file has hazards.
    pub fn new(file: File, number: u16) -> Option<Register> {
        let file = FILES.iter().position(|&other| other == file)? as u16;
        Some(Register(file * 256 + number))
    }

    /// Its file.
    pub fn file(self) -> File {
        FILES[usize::from(self.0 / 256)]
    }
}

impl std::fmt::Display for Register {
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
            Problem::NotAnnounced { kind, register } => {
                write!(f, "{} {register}, but the one that {} it sets no scoreboard", verb(kind).0, verb(kind).1)
            }
            Problem::NeverSet { scoreboard } => write!(f, "waits for scoreboard {scoreboard}, which nothing sets"),
            Problem::ScoreboardTooFresh { scoreboard, cycles, needed } => {
                write!(f, "waits for scoreboard {scoreboard} {} after it was set; {needed} are needed", plural(*cycles))
            }
            Problem::StaleReuse { register } => write!(f, "reads {register} from the reuse cache, where its old value was kept"),
            Problem::CountOutOfOrder { scoreboard } => write!(f, "counts the setters of scoreboard {scoreboard}, which end in any order"),
            Problem::NotSettled { register } => write!(f, "leaves to other code while {register} may still be written"),
            Problem::StallIgnored { stall } => write!(f, "stalls {stall} cycles without yield, which the hardware does not do"),
        }
    }
}

#[cfg(test)]
mod tests;
