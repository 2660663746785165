//! What goes wrong while a program runs.

use std::fmt;

/// An access or an operation that a thread must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The lane, if it is one thread's fault.
    pub lane: Option<usize>,
    pub what: String,
}

impl Fault {
    /// A fault of one thread.
    pub fn of(lane: usize, what: impl Into<String>) -> Fault {
        Fault { lane: Some(lane), what: what.into() }
    }

    /// A fault of the whole warp.
    pub fn of_warp(what: impl Into<String>) -> Fault {
        Fault { lane: None, what: what.into() }
    }
}

/// Why a program could not be loaded or did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    /// Where a warp was, if the program had started.
    pub place: Option<Box<ErrorPlace>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is not what it should be, or has something that the loader does not know.
    Load,
    /// The launch does not fit the kernel.
    Launch,
    /// An instruction that the simulator does not execute.
    Unsupported,
    /// An address outside memory or not aligned, a jump to nowhere, a trap.
    Fault,
    /// Every thread waits.
    Deadlock,
    /// More instructions than the options allow.
    TooLong,
}

/// Where a warp was when it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPlace {
    pub kernel: String,
    /// The function and the offset of the instruction in it.
    pub function: String,
    pub offset: u64,
    /// The instruction as text.
    pub text: String,
    pub block: [u32; 3],
    /// `%tid` of the thread, or of the first active one.
    pub thread: [u32; 3],
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), place: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        let Some(place) = &self.place else { return Ok(()) };
        let ErrorPlace { kernel, function, offset, text, block: [bx, by, bz], thread: [x, y, z] } = &**place;
        write!(f, " at {function}+{offset:#x} `{text}`, block ({bx},{by},{bz}) thread ({x},{y},{z})")?;
        if kernel != function { write!(f, " of kernel {kernel}") } else { Ok(()) }
    }
}

impl std::error::Error for Error {}
