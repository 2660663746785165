//! Processes several input files one after the other; a file with errors does not stop the command.

use crate::check::read_input;

/// Whether some files could not be read, or had errors. The errors are already printed.
#[derive(Default)]
pub struct FileErrors {
    /// Whether a file could not be read.
    pub unreadable: bool,
    /// Whether the contents of a file had an error.
    pub failed: bool,
}

/// Calls `process` with the name and the contents of each file, and prints its errors.
pub fn for_each_file(files: &[String], mut process: impl FnMut(&str, &[u8]) -> Result<(), String>) -> FileErrors {
    let mut errors = FileErrors::default();
    for file in files {
        match read_input(file) {
            Err(error) => {
                errln!("error: {file}: {error}");
                errors.unreadable = true;
            }
            Ok(data) => {
                if let Err(message) = process(file, &data) {
                    errln!("error: {file}: {message}");
                    errors.failed = true;
                }
            }
        }
    }
    errors
}
