//! The functions of the C interface that compile, check, disassemble, verify and explain. Each returns a result object, which the caller
//! frees.

use std::ffi::{CStr, c_char, c_void};
use std::{ptr, slice};

use oriole::{Cubin, Error, Listing};

use super::compiler::{OrioleCompiler, text_of};
use super::guarded;
use super::result::OrioleResult;

/// The version of the library with a zero byte at the end.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("the version of the package has no zero byte"),
};

/// Runs a call on PTX.
///
/// # Safety
///
/// `compiler` is null or comes from `oriole_compiler_new`; `ptx` is null or valid for reading `size` bytes.
unsafe fn on_ptx(
    compiler: *const OrioleCompiler,
    ptx: *const c_char,
    size: usize,
    call: impl FnOnce(oriole::Compiler, &[u8]) -> Result<OrioleResult, Error>,
) -> *mut OrioleResult {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller keeps the contract of this function (see `# Safety`).
        let Some(compiler) = (unsafe { compiler.as_ref() }) else {
            return OrioleResult::wrong_argument("the compiler is NULL").into_pointer();
        };
        if ptx.is_null() {
            return OrioleResult::wrong_argument("the PTX is NULL").into_pointer();
        }
        // SAFETY: the pointer is valid for reading as many bytes, by this function's contract.
        let text = unsafe { slice::from_raw_parts(ptx.cast::<u8>(), size) };
        // The zero byte at the end of a C string may be counted.
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let result = compiler.compiler().and_then(|compiler| call(compiler, text));
        result.unwrap_or_else(|error| OrioleResult::failure(&error)).into_pointer()
    })
}

/// Runs a call on a file.
///
/// # Safety
///
/// `file` is null or valid for reading `size` bytes.
unsafe fn on_file(file: *const c_void, size: usize, call: impl FnOnce(&[u8]) -> Result<OrioleResult, Error>) -> *mut OrioleResult {
    guarded(ptr::null_mut(), || {
        if file.is_null() {
            return OrioleResult::wrong_argument("the file is NULL").into_pointer();
        }
        // SAFETY: the pointer is valid for reading as many bytes, by this function's contract.
        let bytes = unsafe { slice::from_raw_parts(file.cast::<u8>(), size) };
        call(bytes).unwrap_or_else(|error| OrioleResult::failure(&error)).into_pointer()
    })
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn oriole_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Compiles PTX of `size` bytes. The data of the result is a cubin.
///
/// # Safety
///
/// `compiler` comes from `oriole_compiler_new`; `ptx` is valid for reading `size` bytes. NULL for either is reported by the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compile(compiler: *const OrioleCompiler, ptx: *const c_char, size: usize) -> *mut OrioleResult {
    let call = |compiler: oriole::Compiler, ptx: &[u8]| {
        let cubin = compiler.compile(ptx)?;
        let (warnings, remarks) = (cubin.warnings().to_vec(), cubin.remarks().to_vec());
        Ok(OrioleResult::success(cubin.into_bytes(), &warnings, &remarks))
    };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { on_ptx(compiler, ptx, size, call) }
}

/// Parses and checks PTX. The result has no data; its status is `ORIOLE_STATUS_OK` if there are no errors.
///
/// # Safety
///
/// As for `oriole_compile`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_check(compiler: *const OrioleCompiler, ptx: *const c_char, size: usize) -> *mut OrioleResult {
    let call = |compiler: oriole::Compiler, ptx: &[u8]| Ok(OrioleResult::checked(&compiler.check(ptx)?));
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { on_ptx(compiler, ptx, size, call) }
}

/// Compiles PTX and explains why the code came out as it did. The data of the result is JSON.
///
/// # Safety
///
/// As for `oriole_compile`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_explain(compiler: *const OrioleCompiler, ptx: *const c_char, size: usize) -> *mut OrioleResult {
    let call = |compiler: oriole::Compiler, ptx: &[u8]| {
        let json = compiler.explain(ptx)?.to_json()?;
        Ok(OrioleResult::success(json.into_bytes(), &[], &[]))
    };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { on_ptx(compiler, ptx, size, call) }
}

/// Explains the machine code of a cubin of any compiler. The data of the result is JSON.
///
/// # Safety
///
/// `file` is NULL or valid for reading `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_explain_cubin(file: *const c_void, size: usize) -> *mut OrioleResult {
    let call = |bytes: &[u8]| {
        let json = Cubin::open(bytes, None)?.explain()?.to_json()?;
        Ok(OrioleResult::success(json.into_bytes(), &[], &[]))
    };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { on_file(file, size, call) }
}

/// Prints the machine code of a cubin as text, in the format of `nvdisasm -c`, or with control words in the format that `oriole asm` reads.
/// `function` is the kernel or function to print; NULL prints all. The data of the result is the text.
///
/// # Safety
///
/// `file` is NULL or valid for reading `size` bytes; `function` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_disassemble(file: *const c_void, size: usize, function: *const c_char, control: bool) -> *mut OrioleResult {
    let call = |bytes: &[u8]| {
        // SAFETY: the pointer is null or a C string, by this function's contract.
        let function = unsafe { text_of(function) };
        let text = Cubin::open(bytes, None)?.listing(&Listing { function, control })?;
        Ok(OrioleResult::success(text.into_bytes(), &[], &[]))
    };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { on_file(file, size, call) }
}

/// Checks the machine code of a cubin with all verifiers. The data of the result is a JSON array of hazards, `[]` if the code is sound.
///
/// # Safety
///
/// `file` is NULL or valid for reading `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_verify(file: *const c_void, size: usize) -> *mut OrioleResult {
    let call = |bytes: &[u8]| {
        let findings = Cubin::open(bytes, None)?.verify()?;
        let json = serde_json::to_vec(&findings).unwrap_or_default();
        Ok(OrioleResult::success(json, &[], &[]))
    };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { on_file(file, size, call) }
}
