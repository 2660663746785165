//! Lines for standard output and standard error, and output that may go to either a file or standard output.

use std::io;

use crate::output::write_file;
use crate::print;

/// As `println!`, but what cannot be written is an error of the command and not a panic.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::print::out(format!("{}\n", format_args!($($text)*)).as_bytes())
    };
}

/// As `eprintln!`, but what cannot be written is an error of the command and not a panic.
macro_rules! errln {
    ($($text:tt)*) => {
        $crate::print::error_line(format_args!($($text)*))
    };
}

/// Writes a file, or to standard output for `-`.
pub fn write_output(path: &str, bytes: &[u8]) -> io::Result<()> {
    if path == "-" {
        print::out(bytes);
        return Ok(());
    }
    write_file(path, bytes)
}
