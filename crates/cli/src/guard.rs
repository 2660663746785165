//! The last resort against faults of the compiler itself.
//!
//! A panic in any thread ends in one message that says what went wrong in which source line of Oriole, what to report and
//! where; in no output file; and in an exit status of its own. Stack overflow cannot be caught, so the work runs on a thread
//! whose stack is larger than what the bounded recursions of the compiler need.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, thread};

/// Bytes of stack for the thread that does the work. Only the part that is used takes memory.
const STACK_BYTES: usize = 64 << 20;
/// Provokes a panic, to test what a panic leads to. See `docs/architecture.md`.
const PROVOKE: &str = "ORIOLE_PROVOKE_PANIC";
/// Where a fault is reported.
const TRACKER: &str = "the issue tracker of the Oriole project";

/// The first panic of the process: message and place.
static FIRST: Mutex<Option<String>> = Mutex::new(None);
/// Output files written so far, which a panic takes back.
static OUTPUTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How a program reports a fault of its own.
pub struct Program {
    /// Its name, for the report.
    pub name: &'static str,
    /// What the first line of the message starts with.
    pub prefix: &'static str,
    /// Its exit status after a panic.
    pub status: u8,
}

/// Runs a program. If any of its threads panics, its output files are removed, the panic is reported as an internal error,
/// and the program's status for that is returned.
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

/// Notes an output file, which is removed if the program panics later. Only plain files: a device or a pipe must survive.
pub fn note_output(path: &Path) {
    lock(&OUTPUTS).push(path.to_owned());
}

/// Panics if the environment asks for it.
pub fn provoke() {
    if let Some(what) = env::var_os(PROVOKE) {
        panic!("{PROVOKE} is set to {}", what.display());
    }
}

fn on_large_stack(body: impl FnOnce() -> ExitCode + Send) -> thread::Result<ExitCode> {
    let body = Mutex::new(Some(body));
    let call = || panic::catch_unwind(AssertUnwindSafe(|| lock(&body).take().map(|body| body())));
    thread::scope(|scope| match thread::Builder::new().name("main".into()).stack_size(STACK_BYTES).spawn_scoped(scope, call) {
        Ok(thread) => thread.join().and_then(|result| result),
        // Where the system gives no thread, the stack that there is has to do.
        Err(_) => call(),
    })
    .map(|code| code.unwrap_or(ExitCode::FAILURE))
}

/// The panic hook: keeps the first panic and prints nothing.
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
        // A file that cannot be removed must not hide the report.
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

/// A panic while the lock was held leaves the list as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
