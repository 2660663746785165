//! The types of the interface.

use std::ffi::{c_char, c_int, c_void};

use oriole::ErrorKind;

/// What a call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum OrioleStatus {
    /// The call has a result.
    Ok = 0,
    /// The PTX has errors.
    InvalidPtx = 1,
    /// The PTX uses a feature that is not implemented.
    Unsupported = 2,
    /// The program needs more than the target or the settings provide, or is for another target.
    ResourceLimit = 3,
    /// A function is called and not defined.
    Unresolved = 4,
    /// A pointer is null, or a setting names a target or kernel that does not exist.
    InvalidArgument = 5,
    /// The file has no machine code that can be read.
    InvalidFile = 6,
    /// The callback cancelled the call.
    Cancelled = 7,
    /// A fault of Oriole itself.
    Internal = 8,
}

impl From<ErrorKind> for OrioleStatus {
    fn from(kind: ErrorKind) -> OrioleStatus {
        match kind {
            ErrorKind::InvalidPtx => OrioleStatus::InvalidPtx,
            ErrorKind::Unsupported => OrioleStatus::Unsupported,
            ErrorKind::ResourceLimit => OrioleStatus::ResourceLimit,
            ErrorKind::Unresolved => OrioleStatus::Unresolved,
            ErrorKind::InvalidArgument => OrioleStatus::InvalidArgument,
            ErrorKind::InvalidFile => OrioleStatus::InvalidFile,
            ErrorKind::Cancelled => OrioleStatus::Cancelled,
            // Kinds that this version of the interface has no number for are faults of the library.
            _ => OrioleStatus::Internal,
        }
    }
}

/// How far a compilation is. The totals grow if the code turns out to call functions of the run-time library.
#[repr(C)]
pub struct OrioleProgress {
    /// Name of the function that this is about.
    pub function: *const c_char,
    /// Name of the pass that starts; NULL if the function is finished.
    pub pass: *const c_char,
    /// Number of finished functions.
    pub functions_done: usize,
    /// Number of functions to compile.
    pub functions: usize,
    /// Number of PTX instructions of the finished functions, a measure of the work done.
    pub instructions_done: usize,
    /// Number of PTX instructions of all functions.
    pub instructions: usize,
}

/// Receives the progress of a compilation and the pointer that the caller registered with the callback. The pointers in `progress` are
/// valid during the call.
pub type OrioleProgressCallback = Option<unsafe extern "C" fn(progress: *const OrioleProgress, user: *mut c_void)>;

/// Cancels a compilation by returning anything but 0.
pub type OrioleCancelCallback = Option<unsafe extern "C" fn(user: *mut c_void) -> c_int>;

/// An error or a warning about PTX. Lines and columns count from 1 and are 0 if the message concerns the whole module. The texts belong
/// to the result.
#[repr(C)]
pub struct OrioleDiagnostic {
    /// Whether it is an error; otherwise it is a warning.
    pub is_error: bool,
    /// The stable code, such as "E0702".
    pub code: *const c_char,
    /// What is wrong.
    pub message: *const c_char,
    /// Advice; NULL if there is none.
    pub help: *const c_char,
    /// Line of the first character that is marked.
    pub line: u32,
    /// Column of the first character that is marked.
    pub column: u32,
    /// Line after the last character that is marked.
    pub end_line: u32,
    /// Column after the last character that is marked.
    pub end_column: u32,
}
