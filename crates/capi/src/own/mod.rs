//! Oriole's own C interface: compile, check, disassemble, verify and explain, with progress, cancellation and structured diagnostics.
//!
//! `include/oriole.h` is generated from the files of this folder; `tests/header.rs` compares the two. Settings are a handle
//! ([`compiler`]), every call returns a result handle ([`result`]), and results are read through functions, so that fields can be added
//! without a new version of the interface. No call changes the settings, so threads may share them.

pub mod calls;
pub mod compiler;
pub mod result;
pub mod types;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a C function. A panic, which must not cross the border to C, gives the value for failures.
fn guarded<T>(on_panic: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(on_panic)
}
