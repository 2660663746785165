//! Why a call has no result.

use std::fmt;

use oriole_driver::{CompileError, ErrorCause};
use oriole_ptx::source::Source;

use crate::diagnostic::{self, Diagnostic, Severity};

/// Whose problem an error is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The PTX has errors.
    InvalidPtx,
    /// The PTX uses a feature that is not implemented.
    Unsupported,
    /// The program needs more registers or memory than the target or the settings provide, or does not suit the target.
    ResourceLimit,
    /// The program uses a function that is not defined.
    Unresolved,
    /// A setting has an invalid value, or names a kernel or function that the program does not have.
    InvalidArgument,
    /// The file is not a cubin, or has no machine code that can be read.
    InvalidFile,
    /// The caller cancelled the compilation.
    Cancelled,
    /// A fault of Oriole itself, not of the input.
    Internal,
}

/// Why a call has no result: a kind, a message, and one [`Diagnostic`] for each mistake in the PTX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    diagnostics: Vec<Diagnostic>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), diagnostics: Vec::new() }
    }

    /// Returns the error for a text that does not check.
    pub(crate) fn invalid(diagnostics: Vec<Diagnostic>) -> Error {
        Error { kind: ErrorKind::InvalidPtx, message: summary(&diagnostics), diagnostics }
    }

    /// Returns the error for a module that does not compile. `warnings` are those of the check.
    pub(crate) fn of_compiler(source: &Source<'_>, warnings: Vec<Diagnostic>, errors: &[CompileError]) -> Error {
        let kinds = errors.iter().map(|error| kind_of(&error.fault));
        // Internal errors of the compiler come first, then errors that the user can correct.
        let kind = kinds.min_by_key(|kind| match kind {
            ErrorKind::Cancelled => 0,
            ErrorKind::Internal => 1,
            ErrorKind::Unsupported => 2,
            _ => 3,
        });
        let kind = kind.unwrap_or(ErrorKind::Internal);
        if kind == ErrorKind::Cancelled {
            return Error::cancelled();
        }
        let found = diagnostic::of_errors(source, errors);
        Error { kind, message: summary(&found), diagnostics: warnings.into_iter().chain(found).collect() }
    }

    pub(crate) fn cancelled() -> Error {
        Error::new(ErrorKind::Cancelled, "the compilation was cancelled")
    }

    /// Returns whose problem the error is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the mistakes in the PTX and its warnings, in the order of the text. Empty if the error is not about PTX.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the text that the command line prints: all diagnostics with their source lines, or the message if there are none.
    pub fn render(&self) -> String {
        if self.diagnostics.is_empty() {
            return self.message.clone();
        }
        self.diagnostics.iter().map(|diagnostic| diagnostic.rendered.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// Prints one line: the first error and the number of others.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

fn kind_of(fault: &ErrorCause) -> ErrorKind {
    match fault {
        ErrorCause::Unsupported(_) => ErrorKind::Unsupported,
        ErrorCause::Limit(_) | ErrorCause::TooMuch(_) => ErrorKind::ResourceLimit,
        ErrorCause::Unresolved(_) => ErrorKind::Unresolved,
        ErrorCause::Cancelled => ErrorKind::Cancelled,
        ErrorCause::Internal(_) => ErrorKind::Internal,
    }
}

/// Returns the first error in one line, with the number of others.
fn summary(diagnostics: &[Diagnostic]) -> String {
    let mut errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let first = errors.next().map_or_else(|| "the input cannot be compiled".to_owned(), ToString::to_string);
    match errors.count() {
        0 => first,
        1 => format!("{first} (and 1 more error)"),
        more => format!("{first} (and {more} more errors)"),
    }
}
