//! One compiler: a program, and the results of its last compilation.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use oriole_ptxas::{CallOutcome, Hooks, Input, Message, MessageKind};
use oriole_support::SMALL_TEXT_BYTES;

use crate::Status;

/// Stack size in bytes of the thread that compiles: more than the bounded recursions of the compiler need. Only the used part takes memory.
const STACK_BYTES: usize = 64 << 20;

/// The start of further lines of a message, in the logs of nvPTXCompiler.
const CONTINUATION: &str = "\nptxas         . ";
/// The last line of ptxas after errors in the input.
const ABORTED: &str = "ptxas fatal   : Ptx assembly aborted due to errors\n";

/// Whether the caller cancelled a compilation, and the lock that lets one thread at a time ask.
#[derive(Default)]
struct Cancellation {
    is_requested: AtomicBool,
    asking: Mutex<()>,
}

impl Cancellation {
    /// Returns a function that asks the caller, and does not ask again after a cancellation.
    fn function(cancellation: &Arc<Cancellation>, ask: Arc<CancelFunction>) -> Arc<CancelFunction> {
        let cancellation = Arc::clone(cancellation);
        Arc::new(move || {
            let _one_at_a_time = cancellation.asking.lock().unwrap_or_else(PoisonError::into_inner);
            let is_requested = cancellation.is_requested.load(Ordering::Relaxed) || ask();
            cancellation.is_requested.store(is_requested, Ordering::Relaxed);
            is_requested
        })
    }
}

/// A function of the caller that returns whether to cancel.
pub type CancelFunction = dyn Fn() -> bool + Send + Sync;

/// A program and the results of its last compilation.
#[derive(Default)]
pub struct Compiler {
    ptx: Vec<u8>,
    /// The compiled program; `None` before the first compilation and after a failed one.
    pub cubin: Option<Vec<u8>>,
    /// Errors of the last compilation, one per line.
    pub errors: String,
    /// Warnings and other messages of the last compilation, one per line.
    pub info: String,
}

impl Compiler {
    /// Creates a compiler. A zero byte ends the program, as the end of a C string does.
    pub fn new(ptx: &[u8]) -> Compiler {
        let end = ptx.iter().position(|&byte| byte == 0).unwrap_or(ptx.len());
        Compiler { ptx: ptx[..end].to_vec(), ..Compiler::default() }
    }

    /// Compiles the program. The results replace those of an earlier compilation.
    pub fn compile(&mut self, options: Vec<String>, cancel: Option<Arc<CancelFunction>>) -> Status {
        *self = Compiler { ptx: std::mem::take(&mut self.ptx), ..Compiler::default() };
        let cancellation = Arc::new(Cancellation::default());
        let hooks = Hooks { cancel: cancel.map(|ask| Cancellation::function(&cancellation, ask)), ..Hooks::default() };
        if hooks.cancel.as_ref().is_some_and(|cancel| cancel()) {
            return Status::Cancelled;
        }
        let (mut errors, mut info) = (String::new(), String::new());
        let ptx = self.ptx.clone();
        let outcome = run(ptx.len() <= SMALL_TEXT_BYTES, || {
            let mut sink = |message: &Message<'_>| {
                let log = if matches!(message.kind, MessageKind::Error | MessageKind::Fatal) { &mut errors } else { &mut info };
                *log += &message.to_string().replace('\n', CONTINUATION);
                log.push('\n');
            };
            oriole_ptxas::run_with_hooks(options, vec![Input::Text(ptx)], &mut sink, hooks)
        });
        (self.errors, self.info) = (errors, info);
        match outcome {
            Ok(CallOutcome::Compiled { cubin, .. }) => {
                self.cubin = Some(cubin);
                Status::Success
            }
            Ok(CallOutcome::Checked) => {
                self.errors += "ptxas fatal   : The options request no code: a real architecture is needed\n";
                Status::CompilationFailure
            }
            Ok(CallOutcome::Text(_)) => {
                self.errors += "ptxas fatal   : The options request a text, not a program\n";
                Status::CompilationFailure
            }
            Ok(CallOutcome::Failed { .. }) if cancellation.is_requested.load(Ordering::Relaxed) => Status::Cancelled,
            Ok(CallOutcome::Failed { needs_later_ptx: true }) => {
                // ptxas prints this line, nvPTXCompiler does not.
                let end = self.errors.strip_suffix(ABORTED).map_or(self.errors.len(), str::len);
                self.errors.truncate(end);
                Status::UnsupportedPtxVersion
            }
            Ok(CallOutcome::Failed { .. }) => Status::CompilationFailure,
            Err(payload) => {
                self.errors += &format!("ptxas fatal   : internal error: {}\n", message_of(payload.as_ref()));
                Status::Internal
            }
        }
    }
}

/// Runs the compiler and catches panics: on the stack of the caller if it is a short compilation, otherwise on a thread with a large stack.
fn run<T: Send>(is_short: bool, body: impl FnOnce() -> T + Send) -> thread::Result<T> {
    let call = || panic::catch_unwind(AssertUnwindSafe(body));
    if is_short {
        return call();
    }
    thread::scope(|scope| match thread::Builder::new().name("oriole".into()).stack_size(STACK_BYTES).spawn_scoped(scope, call) {
        Ok(thread) => thread.join().and_then(|result| result),
        Err(error) => Err(Box::new(format!("no thread can be created: {error}")) as Box<dyn Any + Send>),
    })
}

fn message_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const PROGRAM: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

    fn compiled(ptx: &str, options: &[&str]) -> (Status, Compiler) {
        let mut compiler = Compiler::new(ptx.as_bytes());
        let status = compiler.compile(options.iter().map(ToString::to_string).collect(), None);
        (status, compiler)
    }

    #[test]
    fn a_panic_is_an_internal_error() {
        for is_short in [false, true] {
            let payload = run(is_short, || -> () { panic!("seven") }).expect_err("the panic is caught");
            assert_eq!(message_of(payload.as_ref()), "seven");
        }
    }

    #[test]
    fn results_of_a_failed_compilation_replace_earlier_ones() {
        let (status, mut compiler) = compiled(PROGRAM, &["--gpu-name=sm_90", "-v"]);
        assert_eq!(status, Status::Success);
        assert!(compiler.info.contains("Compiling entry function 'k' for 'sm_90'"), "{}", compiler.info);
        let frame = "Function properties for k\nptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
        assert!(compiler.info.contains(frame), "{}", compiler.info);
        assert_eq!(compiler.compile(vec!["--gpu-name=sm_1".into()], None), Status::CompilationFailure);
        assert_eq!((compiler.cubin, compiler.info.as_str()), (None, ""));
        assert_eq!(compiler.errors, "ptxas fatal   : Value 'sm_1' is not defined for option 'gpu-name'\n");
    }

    #[test]
    fn errors_have_lines_and_statuses() {
        let (status, compiler) = compiled(&PROGRAM.replace("ret;", "return;"), &["-arch=sm_90"]);
        assert_eq!(status, Status::CompilationFailure);
        assert!(compiler.errors.starts_with("ptxas application ptx input, line 4; error   : "), "{}", compiler.errors);
        let (status, compiler) = compiled(&PROGRAM.replace("8.0", "9.9"), &["-arch=sm_90"]);
        assert_eq!(status, Status::UnsupportedPtxVersion);
        let log = "ptxas application ptx input, line 1; fatal   : Unsupported .version 9.9; current version is '9.0'\n";
        assert_eq!(compiler.errors, log);
    }

    #[test]
    fn options_must_request_a_program() {
        for (option, reason) in [
            ("--help", "request a text"),
            ("--version", "request a text"),
            ("-", "Input files cannot be combined"),
            ("other.ptx", "Input files cannot be combined"),
            ("-arch=compute_90", "a real architecture is needed"),
        ] {
            let (status, compiler) = compiled(PROGRAM, &[option]);
            assert_eq!(status, Status::CompilationFailure, "{option}");
            assert!(compiler.errors.contains(reason), "{option}: {}", compiler.errors);
        }
    }

    #[test]
    fn the_caller_cancels_before_and_during_a_compilation() {
        for questions in [0, 1, 5] {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let cancel: Arc<CancelFunction> = Arc::new(move || count.fetch_add(1, Ordering::Relaxed) == questions);
            let mut compiler = Compiler::new(PROGRAM.as_bytes());
            assert_eq!(compiler.compile(vec!["-arch=sm_90".into()], Some(cancel)), Status::Cancelled, "{questions}");
            assert_eq!((compiler.cubin, asked.load(Ordering::Relaxed)), (None, questions + 1));
        }
    }

    #[test]
    fn a_zero_byte_ends_the_program() {
        assert_eq!(compiled(&format!("{PROGRAM}\0"), &["-arch=sm_90"]).0, Status::Success);
    }
}
