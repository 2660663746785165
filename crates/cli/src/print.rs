//! Writes to standard output and standard error.
//!
//! A write error is a failure of the command, which [`finish`] turns into an exit code: the user must notice a full disk. A closed pipe
//! is not a failure, because the reader has seen enough, as in `oriole disasm x.cubin | head`. A closed pipe on standard output ends the
//! program immediately and silently, with the exit code that a shell shows for a program terminated by SIGPIPE. A closed pipe on standard
//! error is ignored.
//!
//! [`capture`] collects what a thread writes instead, for commands that work on several files in parallel.

use std::cell::RefCell;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use oriole_ptxas::file_name::unescape_bytes;

/// Exit code after SIGPIPE: 128 plus the signal number.
const CLOSED_PIPE: i32 = 141;

/// Whether a write error occurred.
static FAILED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What this thread has written since [`capture`] was called; `None` outside of it.
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// A stream of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Error,
}

/// Output that is not printed yet, in the order of writing.
#[derive(Default)]
pub struct Captured {
    parts: Vec<(Stream, Vec<u8>)>,
}

#[allow(dead_code, reason = "the program `ptxas` shares this file and works on one program only")]
impl Captured {
    /// Prints the output to its streams.
    pub fn print(&self) {
        for (stream, bytes) in &self.parts {
            match stream {
                Stream::Out => out(bytes),
                Stream::Error => error(bytes),
            }
        }
    }
}

/// Runs `body` and returns its result and the output that it wrote on the calling thread.
#[allow(dead_code, reason = "the program `ptxas` shares this file and works on one program only")]
pub fn capture<R>(body: impl FnOnce() -> R) -> (R, Captured) {
    CAPTURED.set(Some(Captured::default()));
    let result = body();
    (result, CAPTURED.take().unwrap_or_default())
}

/// Adds output to the buffer of this thread; returns `false` if there is none.
fn is_captured(stream: Stream, bytes: &[u8]) -> bool {
    CAPTURED.with_borrow_mut(|captured| {
        let Some(captured) = captured else { return false };
        match captured.parts.last_mut() {
            Some((last, text)) if *last == stream => text.extend_from_slice(bytes),
            _ => captured.parts.push((stream, bytes.to_vec())),
        }
        true
    })
}

/// Writes to standard output.
pub fn out(bytes: &[u8]) {
    if is_captured(Stream::Out, bytes) {
        return;
    }
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    note_output(written);
}

/// Handles the result of writing to standard output.
pub fn note_output(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED_PIPE),
        Err(error) => {
            // Report only the first error.
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

/// Writes to standard error, file names with their original bytes.
pub fn error(bytes: &[u8]) {
    if is_captured(Stream::Error, bytes) {
        return;
    }
    match io::stderr().lock().write_all(&unescape_bytes(bytes)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => FAILED.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Returns the exit code of the program: `failure` if there was a write error, otherwise `code`.
pub fn finish(code: ExitCode, failure: u8) -> ExitCode {
    note_output(io::stdout().lock().flush());
    if FAILED.load(Ordering::Relaxed) { ExitCode::from(failure) } else { code }
}
