//! Standard output and standard error.
//!
//! Text that cannot be written is a failure of the command, which [`finish`] turns into an exit code: a user who redirects to a full disk must
//! hear of it. A closed pipe is none: the reader has seen enough, as in `oriole disasm x.cubin | head`. On standard output it ends the program
//! at once and without a word, with the code that a shell shows for a program that SIGPIPE ends. On standard error, where messages go, it is
//! passed over.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// 128 and the number of SIGPIPE.
const CLOSED_PIPE: i32 = 141;

static FAILED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output.
pub fn out(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    note_output(written);
}

/// What became of writing to standard output.
pub fn note_output(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED_PIPE),
        Err(error) => {
            // Once is enough.
            if !FAILED.swap(true, Ordering::Relaxed) {
                error_line(format_args!("error: standard output: {error}"));
            }
        }
    }
}

/// Writes a line to standard error.
pub fn error_line(text: Arguments<'_>) {
    error(format!("{text}\n").as_bytes());
}

/// Writes to standard error.
pub fn error(bytes: &[u8]) {
    match io::stderr().lock().write_all(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => FAILED.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// The exit code of the program: `failure` if something could not be written.
pub fn finish(code: ExitCode, failure: u8) -> ExitCode {
    note_output(io::stdout().lock().flush());
    if FAILED.load(Ordering::Relaxed) { ExitCode::from(failure) } else { code }
}
