//! Runs the compiler so that neither deep recursion nor a panic reaches the caller.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use oriole_support::SMALL_TEXT_BYTES;

use crate::error::{Error, ErrorKind};

/// Stack size in bytes of the thread that works: more than the bounded recursions of the compiler need. Only the used part takes memory.
const STACK_BYTES: usize = 64 << 20;

/// Where to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// On a thread with a large stack.
    Large,
    /// On the stack of the calling thread.
    OfCaller,
}

impl Stack {
    /// Returns where to compile a text. `tests/stack.rs` checks that small texts need little stack.
    pub fn for_text(ptx: &[u8]) -> Stack {
        if ptx.len() <= SMALL_TEXT_BYTES { Stack::OfCaller } else { Stack::Large }
    }
}

/// Runs `body`. A panic becomes an internal error.
pub fn run<T: Send>(stack: Stack, body: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let call = || panic::catch_unwind(AssertUnwindSafe(body));
    // WebAssembly has no threads; there the caller chooses the size of the stack.
    let outcome = match stack {
        Stack::OfCaller => call(),
        Stack::Large if cfg!(target_family = "wasm") => call(),
        Stack::Large => {
            thread::scope(|scope| match thread::Builder::new().name("oriole".into()).stack_size(STACK_BYTES).spawn_scoped(scope, call) {
                Ok(thread) => thread.join().and_then(|result| result),
                Err(error) => Err(Box::new(format!("no thread can be created: {error}")) as Box<dyn Any + Send>),
            })
        }
    };
    outcome.unwrap_or_else(|payload| Err(Error::new(ErrorKind::Internal, format!("internal error: {}", message_of(payload.as_ref())))))
}

fn message_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error() {
        for stack in [Stack::Large, Stack::OfCaller] {
            let error = run(stack, || -> Result<(), Error> { panic!("seven") }).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Internal, "internal error: seven"));
        }
    }
}
