//! Handles panics, which are bugs of the compiler itself.
//!
//! A panic in any thread results in one message with the panic message, its line in Oriole's source, and what to report where. Output
//! files are removed, and the exit status is distinct. A stack overflow cannot be caught, so the work runs on a thread whose stack is
//! larger than the bounded recursions of the compiler need.

use std::any::Any;
use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, thread};

/// Stack size in bytes of the thread that does the work. Only the used part takes memory.
const STACK_BYTES: usize = 64 << 20;
/// Size in bytes of a block that glibc maps separately, and whose release raises the trim threshold.
const RAISED_LIMIT_BYTES: usize = 16 << 20;
/// Size in bytes by which the heap of the thread grows at the start; less than [`RAISED_LIMIT_BYTES`].
const HEAP_BYTES: usize = 8 << 20;
/// Environment variable that causes a panic, for tests of panic handling. See `docs/architecture.md`.
const PROVOKE: &str = "ORIOLE_PROVOKE_PANIC";
/// Where bugs are reported.
const TRACKER: &str = "the issue tracker of the Oriole project";

/// Message and position of the first panic in the process.
static FIRST: Mutex<Option<String>> = Mutex::new(None);
/// Output files written so far, which are removed after a panic.
static OUTPUTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How a program reports a bug of its own.
pub struct Program {
    /// The name in the report.
    pub name: &'static str,
    /// The start of the first line of the message.
    pub prefix: &'static str,
    /// The exit status after a panic.
    pub status: u8,
}

/// Runs a program. If any of its threads panics, removes its output files, reports the panic as an internal error, and returns the
/// exit status for that.
pub fn run(program: &Program, body: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    panic::set_hook(Box::new(remember));
    match on_large_stack(body) {
        Ok(code) => code,
        Err(payload) => {
            remove_outputs();
            let what = lock(&FIRST).take().unwrap_or_else(|| message_of(payload.as_ref()));
            eprint!("{}", report(program, &what, env::args_os().map(|argument| argument.to_string_lossy().into_owned())));
            ExitCode::from(program.status)
        }
    }
}

/// Registers an output file, which is removed if the program panics later. The file must be regular: devices and pipes must not be removed.
pub fn note_output(path: &Path) {
    lock(&OUTPUTS).push(path.to_owned());
}

/// Panics if the environment variable requests it.
pub fn provoke() {
    if let Some(what) = env::var_os(PROVOKE) {
        panic!("{PROVOKE} is set to {}", what.display());
    }
}

/// Runs `body` on a thread with a large stack and catches panics.
fn on_large_stack(body: impl FnOnce() -> ExitCode + Send) -> thread::Result<ExitCode> {
    let body = Mutex::new(Some(body));
    let call = || {
        reserve_heap();
        panic::catch_unwind(AssertUnwindSafe(|| lock(&body).take().map(|body| body())))
    };
    thread::scope(|scope| match thread::Builder::new().name("main".into()).stack_size(STACK_BYTES).spawn_scoped(scope, call) {
        Ok(thread) => thread.join().and_then(|result| result),
        // If no thread can be created, run on the current stack.
        Err(_) => call(),
    })
    .map(|code| code.unwrap_or(ExitCode::FAILURE))
}

/// Makes the allocator of the C library grow the heap of this thread once instead of many times. By default, glibc grows the heap of a thread
/// by a few pages at a time, and gives its end back to the system whenever 128 KiB of it (the trim threshold) are free, with a system call
/// each: more than 100 of them for a small kernel.
///
/// Freeing the first block, which glibc maps separately, raises the trim threshold to twice the size of that block. The second block is
/// smaller, so it is taken from the heap, which grows by it and, because of the new threshold, keeps the memory when the block is freed. Neither
/// block is written, so no physical memory is used. Other allocators only allocate and free the two blocks.
fn reserve_heap() {
    for bytes in [RAISED_LIMIT_BYTES, HEAP_BYTES] {
        drop(black_box(Vec::<u8>::with_capacity(bytes)));
    }
}

/// Panic hook: records the first panic and prints nothing.
fn remember(info: &PanicHookInfo<'_>) {
    let message = message_of(info.payload());
    let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    lock(&FIRST).get_or_insert_with(|| format!("{message}{place}"));
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

fn remove_outputs() {
    for path in lock(&OUTPUTS).drain(..) {
        // A failure to remove a file must not suppress the report.
        let _ = fs::remove_file(path);
    }
}

fn report(program: &Program, what: &str, command: impl Iterator<Item = String>) -> String {
    let command: Vec<String> = command.collect();
    format!(
        "{}internal error: {what}\n\
         This is a fault of Oriole, not of the input. Please report it to {TRACKER} with:\n  \
         version: {} {}\n  \
         command: {}\n  \
         input: the files that the command names\n",
        program.prefix,
        program.name,
        env!("CARGO_PKG_VERSION"),
        command.join(" "),
    )
}

/// Locks a mutex. Ignores poisoning, because a panic while the lock is held leaves the data unchanged.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
