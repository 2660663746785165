//! Macros that print lines to standard output and standard error, and output to a file or standard output.

use std::{fs, io};

use oriole_ptxas::file_name::unescape;

use crate::output::write_file;
use crate::print;

/// Like `println!`, but a write error is an error of the command and not a panic.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::print::out(format!("{}\n", format_args!($($text)*)).as_bytes())
    };
}

/// Like `eprintln!`, but a write error is an error of the command and not a panic.
macro_rules! errln {
    ($($text:tt)*) => {
        $crate::print::error_line(format_args!($($text)*))
    };
}

/// Writes to a file, or to standard output for `-`.
pub fn write_output(path: &str, bytes: &[u8]) -> io::Result<()> {
    if path == "-" {
        print::out(bytes);
        return Ok(());
    }
    write_file(unescape(path), bytes)
}

/// Returns an error if an output would overwrite the input.
pub fn refuse_overwriting(input: &str, output: &str) -> Result<(), String> {
    let path = |name: &str| fs::canonicalize(unescape(name)).ok();
    let is_same = input != "-" && output != "-" && path(output).is_some_and(|output| path(input) == Some(output));
    if is_same { Err(format!("{output}: the output would overwrite the input")) } else { Ok(()) }
}
