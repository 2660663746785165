//! Errors of reading, changing and writing files.

use std::fmt;

/// Why a file could not be read, changed or written.
///
/// `offset` is the position in the input file of the first byte of the wrong record. It is `None` if no byte is to blame, for example for
/// an edit of a section that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub offset: Option<u64>,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns an error at a position of the file.
    pub(crate) fn at(offset: u64, message: impl Into<String>) -> Self {
        Error { offset: Some(offset), message: message.into() }
    }

    /// Returns an error without a position.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Error { offset: None, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "at byte {offset:#x}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
