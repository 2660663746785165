//! Errors of loading, launching and running a program.

use std::fmt;

/// An invalid operation of a thread or warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The offending lane; `None` if it concerns the whole warp.
    pub lane: Option<usize>,
    pub what: String,
}

impl Fault {
    /// Makes a fault of one thread.
    pub fn of(lane: usize, what: impl Into<String>) -> Fault {
        Fault { lane: Some(lane), what: what.into() }
    }

    /// Makes a fault of the whole warp.
    pub fn of_warp(what: impl Into<String>) -> Fault {
        Fault { lane: None, what: what.into() }
    }
}

/// The reason a program could not be loaded, or did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SassError {
    pub kind: ErrorKind,
    pub message: String,
    /// Where the error occurred; `None` before the first instruction.
    pub place: Option<Box<ErrorPlace>>,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is invalid, or contains something that the loader does not support.
    Load,
    /// The launch does not match the kernel.
    Launch,
    /// An instruction that is not simulated.
    Unsupported,
    /// An invalid or misaligned address, a jump outside the code, or a trap.
    Fault,
    /// All threads of a block wait.
    Deadlock,
    /// The instruction limit was exceeded.
    TooLong,
}

/// The instruction and the thread at which an error occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPlace {
    pub kernel: String,
    /// Name of the function.
    pub function: String,
    /// Offset of the instruction in the function, in bytes.
    pub offset: u64,
    /// The instruction in SASS text.
    pub text: String,
    pub block: [u32; 3],
    /// `%tid` of the offending thread, or of the first active one.
    pub thread: [u32; 3],
}

impl SassError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> SassError {
        SassError { kind, message: message.into(), place: None }
    }
}

impl fmt::Display for SassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        let Some(place) = &self.place else { return Ok(()) };
        let ErrorPlace { kernel, function, offset, text, block: [bx, by, bz], thread: [x, y, z] } = &**place;
        write!(f, " at {function}+{offset:#x} `{text}`, block ({bx},{by},{bz}) thread ({x},{y},{z})")?;
        if kernel != function { write!(f, " of kernel {kernel}") } else { Ok(()) }
    }
}

impl std::error::Error for SassError {}
