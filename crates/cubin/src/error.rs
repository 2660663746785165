//! What can be wrong with a file, and where.

use std::fmt;

/// A reason why a file could not be read, changed or written.
///
/// `offset` is the place in the file that was handed in: the first byte of the record that is wrong. An error that no
/// byte is to blame for (an edit that names a section that does not exist) has no offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub offset: Option<u64>,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn at(offset: u64, message: impl Into<String>) -> Self {
        Error { offset: Some(offset), message: message.into() }
    }

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
