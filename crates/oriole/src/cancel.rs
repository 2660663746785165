//! Cancellation of compilations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A switch that ends compilations early. Copies share the switch.
///
/// ```
/// use oriole::{CancelToken, Compiler, ErrorKind};
///
/// let token = CancelToken::new();
/// let compiler = Compiler::new().cancel_token(&token);
/// token.cancel(); // usually from another thread
/// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
/// assert_eq!(compiler.compile(ptx).unwrap_err().kind(), ErrorKind::Cancelled);
/// ```
#[derive(Clone, Default, Debug)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Creates a token that cancels nothing yet.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Ends all compilations that use the token, each before its next pass.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`CancelToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
