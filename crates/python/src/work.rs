//! Runs the compiler so that neither deep recursion nor a panic ends the Python process.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use crate::Problem;

/// Stack size in bytes of the thread that works: more than the bounded recursions of the compiler need. Only the used part takes memory.
const STACK_BYTES: usize = 64 << 20;

/// Runs `body` on a thread with a large stack. A panic becomes an internal error.
pub fn on_large_stack<T: Send>(body: impl FnOnce() -> Result<T, Problem> + Send) -> Result<T, Problem> {
    let outcome = thread::scope(|scope| {
        let call = || panic::catch_unwind(AssertUnwindSafe(body));
        match thread::Builder::new().name("oriole".into()).stack_size(STACK_BYTES).spawn_scoped(scope, call) {
            Ok(thread) => thread.join().and_then(|result| result),
            Err(error) => Err(Box::new(format!("no thread can be created: {error}")) as Box<dyn Any + Send>),
        }
    });
    outcome.unwrap_or_else(|payload| Err(Problem::Internal(message_of(payload.as_ref()).to_owned())))
}

fn message_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}
