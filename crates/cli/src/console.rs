//! Macros that print lines to standard output and standard error, and output to a file or standard output.

use std::collections::BTreeSet;
use std::path::Path;
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

/// Returns an error if one of the outputs would overwrite one of the inputs, whatever names and links lead to the file. `-` is standard input or
/// output; a standard input that comes from a file counts as that file.
pub fn refuse_overwriting<'a>(inputs: impl IntoIterator<Item = &'a str>, outputs: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let input_file = |name: &str| match name {
        "-" => file_identity(Path::new("/dev/stdin")),
        _ => file_identity(Path::new(&unescape(name))),
    };
    let inputs: BTreeSet<_> = inputs.into_iter().filter_map(input_file).collect();
    let is_input = |name: &str| name != "-" && file_identity(Path::new(&unescape(name))).is_some_and(|file| inputs.contains(&file));
    match outputs.into_iter().find(|name| is_input(name)) {
        Some(output) => Err(format!("{output}: the output would overwrite the input")),
        None => Ok(()),
    }
}

/// Returns what all names of a regular file have in common, hard links included; `None` if there is no such file.
#[cfg(unix)]
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

/// Returns what all names of a regular file have in common, except hard links; `None` if there is no such file.
#[cfg(not(unix))]
fn file_identity(path: &Path) -> Option<std::path::PathBuf> {
    fs::canonicalize(path).ok()
}
