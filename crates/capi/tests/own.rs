//! The library's own interface: null pointers, structured diagnostics, and many threads with one compiler.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::thread;

use oriole_c::own::calls::*;
use oriole_c::own::compiler::*;
use oriole_c::own::result::*;
use oriole_c::own::types::*;

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

/// Reads a text of a result.
fn text(pointer: *const c_char) -> String {
    assert!(!pointer.is_null());
    // SAFETY: the functions of the library return C strings.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
}

/// Compiles PTX; returns the status, the cubin and the message.
///
/// # Safety
///
/// `compiler` comes from the library.
unsafe fn compile(compiler: *const OrioleCompiler, ptx: &str) -> (OrioleStatus, Vec<u8>, String) {
    // SAFETY: the pointers are valid.
    unsafe {
        let result = oriole_compile(compiler, ptx.as_ptr().cast(), ptx.len());
        let mut size = 0;
        let data = oriole_result_data(result, &raw mut size).cast::<u8>();
        let cubin = if data.is_null() { Vec::new() } else { std::slice::from_raw_parts(data, size).to_vec() };
        let outcome = (oriole_result_status(result), cubin, text(oriole_result_message(result)));
        oriole_result_free(result);
        outcome
    }
}

#[test]
fn null_pointers_are_reported() {
    // SAFETY: null pointers are allowed everywhere.
    unsafe {
        oriole_compiler_free(ptr::null_mut());
        oriole_result_free(ptr::null_mut());
        assert_eq!(oriole_compiler_set_opt_level(ptr::null_mut(), 3), OrioleStatus::InvalidArgument);
        assert_eq!(oriole_result_status(ptr::null()), OrioleStatus::Internal);
        assert!(oriole_result_data(ptr::null(), ptr::null_mut()).is_null());
        let compiler = oriole_compiler_new();
        assert_eq!(oriole_compiler_add_entry(compiler, ptr::null()), OrioleStatus::InvalidArgument);
        let calls = [
            oriole_compile(ptr::null(), PTX.as_ptr().cast(), PTX.len()),
            oriole_check(compiler, ptr::null(), 0),
            oriole_explain(compiler, ptr::null(), 7),
            oriole_disassemble(ptr::null(), 0, ptr::null(), true),
            oriole_verify(ptr::null(), 1),
            oriole_explain_cubin(ptr::null(), 1),
        ];
        for result in calls {
            assert_eq!(oriole_result_status(result), OrioleStatus::InvalidArgument);
            assert!(text(oriole_result_message(result)).ends_with(" is NULL"));
            oriole_result_free(result);
        }
        oriole_compiler_free(compiler);
    }
}

#[test]
fn diagnostics_are_structured() {
    let wrong = PTX.replace("ret;", "return;");
    // SAFETY: the pointers are valid.
    unsafe {
        let compiler = oriole_compiler_new();
        let result = oriole_check(compiler, wrong.as_ptr().cast(), wrong.len());
        assert_eq!((oriole_result_status(result), oriole_result_diagnostic_count(result)), (OrioleStatus::InvalidPtx, 1));
        let mut found = std::mem::MaybeUninit::uninit();
        assert_eq!(oriole_result_diagnostic(result, 0, found.as_mut_ptr()), OrioleStatus::Ok);
        let found = found.assume_init();
        assert_eq!((found.is_error, found.line, found.column, text(found.code).as_str()), (true, 4, 23, "E0701"));
        assert!(text(oriole_result_log(result)).contains("--> <ptx>:4:23"));
        let json: serde_json::Value = serde_json::from_str(&text(oriole_result_diagnostics_json(result))).unwrap();
        assert_eq!((json[0]["code"].as_str(), json[0]["line"].as_u64()), (Some("E0701"), Some(4)));
        assert_eq!(oriole_result_diagnostic(result, 1, ptr::null_mut()), OrioleStatus::InvalidArgument);
        oriole_result_free(result);
        oriole_compiler_free(compiler);
    }
}

/// A pointer that threads share.
struct Shared(*mut OrioleCompiler);

// SAFETY: calls of the library do not change a compiler.
unsafe impl Sync for Shared {}

impl Shared {
    fn pointer(&self) -> *const OrioleCompiler {
        self.0
    }
}

#[test]
fn threads_share_a_compiler() {
    // SAFETY: the pointers are valid, and the compiler is freed after the last call.
    unsafe {
        let compiler = Shared(oriole_compiler_new());
        assert_eq!(oriole_compiler_set_arch(compiler.0, c"sm_90a".as_ptr()), OrioleStatus::Ok);
        let expected = compile(compiler.pointer(), PTX);
        assert_eq!((expected.0, expected.1.starts_with(b"\x7fELF"), expected.2.as_str()), (OrioleStatus::Ok, true, ""));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        assert_eq!(compile(compiler.pointer(), PTX), expected);
                        assert_eq!(compile(compiler.pointer(), "text").0, OrioleStatus::InvalidPtx);
                    }
                });
            }
        });
        oriole_compiler_free(compiler.0);
    }
}
