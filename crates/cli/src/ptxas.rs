//! `ptxas`: Oriole with ptxas' options, message formats and exit codes.
//!
//! Other programs call it and parse its output: Triton and XLA match the text of `--version` and some messages; build tools use the exit
//! codes. `oriole-ptxas` does the work; here are the streams, the output file, the cache and the exit code.

mod cache;
mod guard;
mod output;
mod print;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use cache::{Cache, Lookup};
use oriole_ptxas::{CallOutcome, Message, MessageKind, ProgramCache, TOOL, file_name};

/// Exit status for any mistake in PTX, options or file names, and for write errors.
const FAILURE: u8 = 255;

/// How bugs of the compiler itself are reported.
const PROGRAM: guard::Program = guard::Program { name: "ptxas (Oriole)", prefix: "ptxas fatal   : ", status: FAILURE };

fn main() -> ExitCode {
    guard::run(&PROGRAM, || {
        guard::provoke();
        let code = print::finish(call(), FAILURE);
        // Ends the process here: the main thread would first wait for the end of this thread and free its stack.
        process::exit(if code == ExitCode::SUCCESS { 0 } else { FAILURE.into() })
    })
}

fn call() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| file_name::escape(&argument));
    let cache = std::env::var_os(cache::VARIABLE)
        .filter(|folder| !folder.is_empty())
        .map(|folder| Programs { folder: PathBuf::from(folder), cache: OnceCell::new() });
    let cache = cache.as_ref().map(|cache| cache as &dyn ProgramCache);
    match oriole_ptxas::run_with_cache(arguments, Vec::new(), &mut show, cache) {
        CallOutcome::Text(text) => print::out(text.as_bytes()),
        CallOutcome::Checked => {}
        CallOutcome::Compiled { cubin, output_file, tool } => {
            if output::write_file(file_name::unescape(&output_file), &cubin).is_err() {
                let text = format!("Output file '{output_file}' could not be opened");
                show(&Message { tool: &tool, place: None, kind: MessageKind::Fatal, text: &text });
                return ExitCode::from(FAILURE);
            }
        }
        CallOutcome::Failed { .. } => return ExitCode::from(FAILURE),
    }
    ExitCode::SUCCESS
}

fn show(message: &Message<'_>) {
    print::error_line(format_args!("{message}"));
}

/// The cache in the folder of the environment variable. It is opened when a program is compiled: calls such as `--version` do not need
/// it. A cache that cannot be used is a warning, not an error.
struct Programs {
    folder: PathBuf,
    cache: OnceCell<Option<Cache>>,
}

impl Programs {
    fn open(&self) -> Option<&Cache> {
        let open = || match Cache::open(&self.folder) {
            Ok(cache) => Some(cache),
            Err(error) => {
                warn(&format!("Oriole cache '{}' cannot be opened: {error}", self.folder.display()));
                None
            }
        };
        self.cache.get_or_init(open).as_ref()
    }
}

impl ProgramCache for Programs {
    fn load(&self, request: &[&[u8]]) -> Option<Vec<u8>> {
        let cache = self.open()?;
        match cache.load(key(cache, request)) {
            Lookup::Hit(contents) => Some(contents),
            Lookup::Miss | Lookup::Damaged => None,
        }
    }

    fn store(&self, request: &[&[u8]], contents: &[u8]) {
        let Some(cache) = self.open() else { return };
        if let Err(error) = cache.store(key(cache, request), contents) {
            warn(&format!("Oriole cache '{}' cannot be written: {error}", self.folder.display()));
        }
    }
}

fn key(cache: &Cache, request: &[&[u8]]) -> cache::Key {
    let parts: Vec<&[u8]> = [&b"ptxas"[..]].into_iter().chain(request.iter().copied()).collect();
    cache.key(&parts)
}

fn warn(text: &str) {
    show(&Message { tool: TOOL, place: None, kind: MessageKind::Warning, text });
}
