//! The functions that JavaScript calls. They take and return numbers and pointers into the memory of the module.
//!
//! A call goes like this: `oriole_input(n)` returns the place for `n` bytes of input, `oriole_settings(n)` the place for the
//! [settings](crate::Settings) as JSON; the caller fills both and calls `oriole_compile()` or another function. Then `oriole_report` and
//! `oriole_output` point to the results, whose lengths `oriole_report_length` and `oriole_output_length` return. They are valid until the
//! next call.
//!
//! A panic ends the call with a trap, because WebAssembly has no unwinding here. Its message is in the report, as `panic`. The caller must
//! not use the instance afterwards.

use std::cell::RefCell;

use crate::{Response, Settings};

/// Inputs and results of a call.
#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    settings: Vec<u8>,
    report: Vec<u8>,
    output: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Returns the place for the input of the next call.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_input(length: usize) -> *mut u8 {
    BUFFERS.with_borrow_mut(|buffers| {
        buffers.input = vec![0; length];
        buffers.input.as_mut_ptr()
    })
}

/// Returns the place for the settings of the next call.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_settings(length: usize) -> *mut u8 {
    BUFFERS.with_borrow_mut(|buffers| {
        buffers.settings = vec![0; length];
        buffers.settings.as_mut_ptr()
    })
}

/// Returns the place of the report, which is JSON.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_report() -> *const u8 {
    BUFFERS.with_borrow(|buffers| buffers.report.as_ptr())
}

/// Returns the length of the report in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_report_length() -> usize {
    BUFFERS.with_borrow(|buffers| buffers.report.len())
}

/// Returns the place of the output.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_output() -> *const u8 {
    BUFFERS.with_borrow(|buffers| buffers.output.as_ptr())
}

/// Returns the length of the output in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_output_length() -> usize {
    BUFFERS.with_borrow(|buffers| buffers.output.len())
}

/// Lists the targets.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_targets() {
    call(|_, _| crate::targets());
}

/// Checks PTX.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_check() {
    call(crate::check);
}

/// Compiles PTX to a cubin.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_compile() {
    call(crate::compile);
}

/// Disassembles a cubin.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_disassemble() {
    call(crate::disassemble);
}

/// Compiles PTX and explains the result.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_explain() {
    call(crate::explain);
}

/// Runs a function on the buffers of the caller and keeps its results. The buffers are not borrowed meanwhile, so that a panic can leave its
/// message there.
fn call(function: impl Fn(&[u8], &Settings) -> Response) {
    #[cfg(target_family = "wasm")]
    keep_panics();
    let (input, settings) = BUFFERS.with_borrow_mut(|buffers| {
        buffers.report.clear();
        buffers.output.clear();
        (std::mem::take(&mut buffers.input), std::mem::take(&mut buffers.settings))
    });
    let response = match Settings::parse(&settings) {
        Ok(settings) => function(&input, &settings),
        Err(message) => Response::refused(message),
    };
    let report = serde_json::to_vec(&response.report).unwrap_or_default();
    BUFFERS.with_borrow_mut(|buffers| (buffers.report, buffers.output) = (report, response.output));
}

/// Makes panics leave their message in the report.
#[cfg(target_family = "wasm")]
fn keep_panics() {
    static SET: std::sync::Once = std::sync::Once::new();
    SET.call_once(|| std::panic::set_hook(Box::new(keep_panic)));
}

#[cfg(target_family = "wasm")]
fn keep_panic(info: &std::panic::PanicHookInfo<'_>) {
    BUFFERS.with(|buffers| {
        if let Ok(mut buffers) = buffers.try_borrow_mut() {
            buffers.report = serde_json::json!({ "ok": false, "panic": info.to_string() }).to_string().into_bytes();
        }
    });
}
