#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod arch;
mod cancel;
mod compiler;
mod cubin;
mod diagnostic;
mod error;
mod explanation;
mod finding;
mod work;

pub use arch::targets;
pub use cancel::CancelToken;
pub use compiler::Compiler;
pub use cubin::{Cubin, Function, Listing, Spills};
pub use diagnostic::{Diagnostic, Severity};
pub use error::{Error, ErrorKind};
pub use explanation::Explanation;
pub use finding::{Finding, FindingSeverity, Verifier};
pub use oriole_driver::{Executor, Progress};

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Parses and checks PTX for its own target. Returns all errors and warnings, in the order of the text.
///
/// ```
/// let found = oriole::check(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { return; }").unwrap();
/// assert_eq!((found[0].code, found[0].line), ("E0701", Some(4)));
/// ```
pub fn check(ptx: impl AsRef<[u8]>) -> Result<Vec<Diagnostic>, Error> {
    Compiler::new().check(ptx)
}
