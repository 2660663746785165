//! Output files that are there whole or not at all.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Writes a file under another name beside it and renames it, so that nobody ever sees half of it and an old file survives a
/// failure. What is no plain file (a pipe, `/dev/null`) is written directly.
pub fn write_file(path: &str, bytes: &[u8]) -> io::Result<()> {
    let destination = Path::new(path);
    let is_plain = fs::metadata(destination).map_or(true, |found| found.is_file());
    if !is_plain {
        return fs::write(destination, bytes);
    }
    let temporary = temporary_name(destination);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, destination));
    match written {
        Ok(()) => crate::guard::note_output(destination),
        Err(_) => drop(fs::remove_file(&temporary)),
    }
    written
}

fn temporary_name(destination: &Path) -> PathBuf {
    let mut name = destination.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    destination.with_file_name(name)
}
