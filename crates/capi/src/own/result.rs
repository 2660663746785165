//! The result of a call.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use oriole::{Diagnostic, Error, Severity};

use super::guarded;
use super::types::{OrioleDiagnostic, OrioleStatus};

/// The result of a call: a status, the data if there is any, and errors and warnings. It does not change, and belongs to the caller.
pub struct OrioleResult {
    status: OrioleStatus,
    /// The data with a zero byte at its end, which does not count.
    data: Option<Vec<u8>>,
    message: CString,
    log: CString,
    json: CString,
    diagnostics: Vec<Kept>,
}

/// A diagnostic with its texts as C strings.
struct Kept {
    is_error: bool,
    code: CString,
    message: CString,
    help: Option<CString>,
    start: (u32, u32),
    end: (u32, u32),
}

/// Returns a text as a C string. A zero byte, which can only come from a name in the input, becomes a question mark.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

impl Kept {
    fn new(diagnostic: &Diagnostic) -> Kept {
        let place = |line: Option<u32>, column: Option<u32>| (line.unwrap_or(0), column.unwrap_or(0));
        Kept {
            is_error: diagnostic.severity == Severity::Error,
            code: c_text(diagnostic.code),
            message: c_text(&diagnostic.message),
            help: diagnostic.help.as_deref().map(c_text),
            start: place(diagnostic.line, diagnostic.column),
            end: place(diagnostic.end_line, diagnostic.end_column),
        }
    }
}

impl OrioleResult {
    /// Returns a result with data, warnings, and remarks of the compiler.
    pub(super) fn success(mut data: Vec<u8>, diagnostics: &[Diagnostic], remarks: &[String]) -> OrioleResult {
        data.push(0);
        let rendered = diagnostics.iter().map(|diagnostic| diagnostic.rendered.as_str());
        let log = rendered.chain(remarks.iter().map(String::as_str)).collect::<Vec<_>>().join("\n");
        OrioleResult { data: Some(data), ..OrioleResult::new(OrioleStatus::Ok, "", &log, diagnostics) }
    }

    /// Returns the result of a call that failed.
    pub(super) fn failure(error: &Error) -> OrioleResult {
        OrioleResult::new(error.kind().into(), &error.to_string(), &error.render(), error.diagnostics())
    }

    /// Returns the result of a check: successful if there are no errors.
    pub(super) fn checked(diagnostics: &[Diagnostic]) -> OrioleResult {
        let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
        let status = if first.is_some() { OrioleStatus::InvalidPtx } else { OrioleStatus::Ok };
        let log = diagnostics.iter().map(|diagnostic| diagnostic.rendered.as_str()).collect::<Vec<_>>().join("\n");
        OrioleResult::new(status, &first.map_or(String::new(), ToString::to_string), &log, diagnostics)
    }

    /// Returns the result of a call with a wrong argument.
    pub(super) fn wrong_argument(message: &str) -> OrioleResult {
        OrioleResult::new(OrioleStatus::InvalidArgument, message, message, &[])
    }

    fn new(status: OrioleStatus, message: &str, log: &str, diagnostics: &[Diagnostic]) -> OrioleResult {
        let json = serde_json::to_string(diagnostics).unwrap_or_default();
        let (message, log, json) = (c_text(message), c_text(log), c_text(&json));
        OrioleResult { status, data: None, message, log, json, diagnostics: diagnostics.iter().map(Kept::new).collect() }
    }

    /// Hands the result to the caller.
    pub(super) fn into_pointer(self) -> *mut OrioleResult {
        Box::into_raw(Box::new(self))
    }
}

/// Frees a result, with everything that was read from it. NULL is allowed.
///
/// # Safety
///
/// `result` is NULL, or comes from a call and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_free(result: *mut OrioleResult) {
    guarded((), || {
        if !result.is_null() {
            // SAFETY: the pointer comes from `Box::into_raw` and is used no more, by this function's contract.
            drop(unsafe { Box::from_raw(result) });
        }
    });
}

/// Returns the status of a call. A NULL result, which calls return if there is no memory, is `ORIOLE_STATUS_INTERNAL`.
///
/// # Safety
///
/// `result` is NULL, or comes from a call and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_status(result: *const OrioleResult) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { result.as_ref() }.map_or(OrioleStatus::Internal, |result| result.status)
}

/// Returns the data of a call: a cubin, a text or JSON. NULL if it failed or has none. A zero byte follows the data, so that texts are C
/// strings. `size` is NULL, or receives the number of bytes without it. The data belongs to the result.
///
/// # Safety
///
/// `result` as for `oriole_result_status`; `size` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_data(result: *const OrioleResult, size: *mut usize) -> *const c_void {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let data = unsafe { result.as_ref() }.and_then(|result| result.data.as_deref());
    // SAFETY: as above.
    if let Some(size) = unsafe { size.as_mut() } {
        *size = data.map_or(0, |data| data.len() - 1);
    }
    data.map_or(ptr::null(), |data| data.as_ptr().cast())
}

/// Returns one line about why a call failed, empty if it did not. The text belongs to the result.
///
/// # Safety
///
/// `result` as for `oriole_result_status`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_message(result: *const OrioleResult) -> *const c_char {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { result.as_ref() }.map_or(ptr::null(), |result| result.message.as_ptr())
}

/// Returns errors, warnings and remarks as the command line prints them, with source lines. The text belongs to the result.
///
/// # Safety
///
/// `result` as for `oriole_result_status`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_log(result: *const OrioleResult) -> *const c_char {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { result.as_ref() }.map_or(ptr::null(), |result| result.log.as_ptr())
}

/// Returns errors and warnings as a JSON array. The text belongs to the result.
///
/// # Safety
///
/// `result` as for `oriole_result_status`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_diagnostics_json(result: *const OrioleResult) -> *const c_char {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { result.as_ref() }.map_or(ptr::null(), |result| result.json.as_ptr())
}

/// Returns the number of errors and warnings.
///
/// # Safety
///
/// `result` as for `oriole_result_status`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_diagnostic_count(result: *const OrioleResult) -> usize {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { result.as_ref() }.map_or(0, |result| result.diagnostics.len())
}

/// Reads an error or a warning. Its texts belong to the result.
///
/// # Safety
///
/// `result` as for `oriole_result_status`; `diagnostic` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_result_diagnostic(
    result: *const OrioleResult,
    index: usize,
    diagnostic: *mut OrioleDiagnostic,
) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let kept = unsafe { result.as_ref() }.and_then(|result| result.diagnostics.get(index));
    let Some(kept) = kept.filter(|_| !diagnostic.is_null()) else { return OrioleStatus::InvalidArgument };
    let value = OrioleDiagnostic {
        is_error: kept.is_error,
        code: kept.code.as_ptr(),
        message: kept.message.as_ptr(),
        help: kept.help.as_ref().map_or(ptr::null(), |help| help.as_ptr()),
        line: kept.start.0,
        column: kept.start.1,
        end_line: kept.end.0,
        end_column: kept.end.1,
    };
    // SAFETY: the pointer is not null, and valid for writing by this function's contract.
    unsafe { diagnostic.write(value) };
    OrioleStatus::Ok
}
