//! What a run reports: behaviour that PTX leaves undefined, and why a program cannot be run at all.

use std::fmt;

/// A kind of undefined behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// A value that was never written decides something: it is stored to global memory, used as an address, a guard or a mask.
    Uninitialized,
    /// An access outside of every allocation of its space.
    OutOfBounds,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// A store to memory that cannot be written, or an atomic operation there.
    ReadOnly,
    /// An aligned barrier that the threads of a warp reach at different places, or only some of them.
    DivergentBarrier,
    /// Threads that wait for others which will never come.
    Deadlock,
    /// Two threads access the same byte of shared memory, one of them writes, and nothing orders them.
    Race,
    /// `trap`, `brkpt` or a failed assertion.
    Trap,
    /// A call of something that is no function, or with parameters it does not have.
    BadCall,
    /// A member mask without the executing thread, a table index out of range and the like.
    BadOperand,
    /// More calls or local memory than a thread has.
    StackOverflow,
    /// The run took more steps than the options allow.
    TooManySteps,
}

impl FindingKind {
    /// Whether the run cannot go on after it.
    pub fn is_fault(self) -> bool {
        !matches!(self, FindingKind::Uninitialized | FindingKind::Race | FindingKind::DivergentBarrier)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Uninitialized => "uninitialized value",
            FindingKind::OutOfBounds => "access out of bounds",
            FindingKind::Misaligned => "misaligned access",
            FindingKind::ReadOnly => "write to read-only memory",
            FindingKind::DivergentBarrier => "divergent barrier",
            FindingKind::Deadlock => "deadlock",
            FindingKind::Race => "data race",
            FindingKind::Trap => "trap",
            FindingKind::BadCall => "bad call",
            FindingKind::BadOperand => "bad operand",
            FindingKind::StackOverflow => "stack overflow",
            FindingKind::TooManySteps => "too many steps",
        }
    }
}

/// Undefined behaviour, and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    pub kernel: String,
    /// The line of the PTX text, counted from one; zero if no single line is to blame.
    pub line: u32,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { kind, kernel, line, block, thread, message } = self;
        let [bx, by, bz] = block;
        let [tx, ty, tz] = thread;
        write!(f, "{} in {kernel}, line {line}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz}): {message}", kind.name())
    }
}

/// Why a module or a launch cannot be run, or was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The interpreter has no code for an instruction or a feature.
    Unsupported { feature: String, line: u32 },
    /// The launch does not fit the module.
    Launch(String),
    /// The program did something after which it cannot go on; what was found before comes with it.
    Fault { fault: Finding, earlier: Vec<Finding> },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported { feature, line } => write!(f, "line {line}: the interpreter does not support {feature}"),
            Error::Launch(reason) => f.write_str(reason),
            Error::Fault { fault, .. } => fault.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
