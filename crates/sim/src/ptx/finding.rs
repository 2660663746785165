//! Results of a run: undefined behaviour in the program, and reasons why a program cannot be run.

use std::fmt;

/// A kind of undefined behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// An uninitialized value affects behaviour: it is stored to global memory, or used as an address, a guard or a mask.
    Uninitialized,
    /// An access outside all allocations of its space.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// A store or atomic to read-only memory.
    ReadOnly,
    /// An aligned barrier that the threads of a warp reach at different instructions, or that only some of them reach.
    DivergentBarrier,
    /// Threads that wait for others that will never arrive.
    Deadlock,
    /// Two threads access the same byte of shared memory, at least one writes, and nothing orders the accesses.
    Race,
    /// An access to shared memory that an asynchronous copy or matrix product may still read or write.
    AsyncAccess,
    /// An asynchronous operation reads a store of a thread that no proxy fence makes visible to it.
    MissingProxyFence,
    /// An access to a register that an asynchronous matrix product may still read or write.
    RegisterInFlight,
    /// `trap`, `brkpt` or a failed assertion.
    Trap,
    /// A call of an address that is not a function, or with the wrong parameters.
    BadCall,
    /// A member mask without the executing thread, a branch index out of range, and similar.
    BadOperand,
    /// Too many nested calls, or too much local memory.
    StackOverflow,
    /// The step limit was exceeded.
    TooManySteps,
}

impl FindingKind {
    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Uninitialized => "uninitialized value",
            FindingKind::OutOfBounds => "access out of bounds",
            FindingKind::Misaligned => "misaligned access",
            FindingKind::ReadOnly => "write to read-only memory",
            FindingKind::DivergentBarrier => "divergent barrier",
            FindingKind::Deadlock => "deadlock",
            FindingKind::Race => "data race",
            FindingKind::AsyncAccess => "access during an asynchronous operation",
            FindingKind::MissingProxyFence => "missing proxy fence",
            FindingKind::RegisterInFlight => "register in flight",
            FindingKind::Trap => "trap",
            FindingKind::BadCall => "bad call",
            FindingKind::BadOperand => "bad operand",
            FindingKind::StackOverflow => "stack overflow",
            FindingKind::TooManySteps => "too many steps",
        }
    }
}

/// An occurrence of undefined behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndefinedBehavior {
    pub kind: FindingKind,
    pub kernel: String,
    /// Line of the PTX text, from 1; 0 if no single line is responsible.
    pub line: u32,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub message: String,
}

impl fmt::Display for UndefinedBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UndefinedBehavior { kind, kernel, line, block, thread, message } = self;
        let [bx, by, bz] = block;
        let [tx, ty, tz] = thread;
        write!(f, "{} in {kernel}, line {line}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz}): {message}", kind.name())
    }
}

/// The reason a module or a launch cannot be run, or was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PtxError {
    /// An instruction or feature that the interpreter does not implement.
    Unsupported { feature: String, line: u32 },
    /// The launch does not match the module.
    Launch(String),
    /// The program cannot continue after this fault. `earlier` has the findings before it.
    Fault { fault: UndefinedBehavior, earlier: Vec<UndefinedBehavior> },
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PtxError::Unsupported { feature, line } => write!(f, "line {line}: the interpreter does not support {feature}"),
            PtxError::Launch(reason) => f.write_str(reason),
            PtxError::Fault { fault, .. } => fault.fmt(f),
        }
    }
}

impl std::error::Error for PtxError {}
