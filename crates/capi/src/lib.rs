//! Oriole as a C library with two interfaces: its own ([`own`]), and that of nvPTXCompiler, so that programs which use that library
//! relink without change.
//!
//! `include/nvPTXCompiler.h` declares the functions of this file; [`compiler`] implements them. A handle may be used by one thread at a
//! time; different handles are independent.

mod compiler;
pub mod own;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

pub use compiler::Compiler;

/// What every function returns. The numbers are those of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum Status {
    Success = 0,
    InvalidCompilerHandle = 1,
    InvalidInput = 2,
    CompilationFailure = 3,
    Internal = 4,
    CompilerInvocationIncomplete = 6,
    UnsupportedPtxVersion = 7,
    Cancelled = 9,
}

/// A function of the caller that can cancel a compilation by returning 1.
type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// What the caller registered with a callback. It is only handed back.
#[derive(Clone, Copy)]
struct Payload(*mut c_void);

impl Payload {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: the pointer is not dereferenced here. The header says that the callback comes from other threads, one at a time.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

/// What a handle points to.
pub struct Handle {
    compiler: Compiler,
    callback: Option<(Callback, *mut c_void)>,
}

/// Stores a result at a pointer of the caller, if it is not null.
///
/// # Safety
///
/// `place` is null, or valid for writing.
unsafe fn store<T>(place: *mut T, value: T) -> Status {
    let Some(place) = NonNull::new(place) else { return Status::InvalidInput };
    // SAFETY: the pointer is valid for writing by this function's contract, and not null.
    unsafe { place.write(value) };
    Status::Success
}

/// Copies bytes to memory of the caller, if the pointer is not null.
///
/// # Safety
///
/// `place` is null, or valid for writing as many bytes.
unsafe fn copy(place: *mut c_void, bytes: &[u8]) -> Status {
    if place.is_null() {
        return Status::InvalidInput;
    }
    // SAFETY: the caller provides memory for all bytes, by this function's contract; it cannot overlap with ours.
    unsafe { place.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Status::Success
}

/// Copies a text with a zero byte at the end.
///
/// # Safety
///
/// `place` is null, or valid for writing the text and one byte more.
unsafe fn copy_text(place: *mut c_char, text: &str) -> Status {
    let terminated = [text.as_bytes(), &[0]].concat();
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { copy(place.cast(), &terminated) }
}

/// Returns what a handle points to; `None` for a null handle.
///
/// # Safety
///
/// `handle` is null, or comes from [`nvPTXCompilerCreate`], has not been destroyed, and is not used by another thread.
unsafe fn open<'a>(handle: *mut Handle) -> Option<&'a mut Handle> {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { handle.as_mut() }
}

/// Returns the version of the interface.
///
/// # Safety
///
/// The pointers are null, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetVersion(major: *mut c_uint, minor: *mut c_uint) -> Status {
    if major.is_null() || minor.is_null() {
        return Status::InvalidInput;
    }
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe {
        store(major, oriole_ptxas::RELEASE.0);
        store(minor, oriole_ptxas::RELEASE.1)
    }
}

/// Creates a compiler for a program.
///
/// # Safety
///
/// `handle` is null, or valid for writing; `ptx` is null, or valid for reading `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerCreate(handle: *mut *mut Handle, bytes: usize, ptx: *const c_char) -> Status {
    if handle.is_null() || ptx.is_null() || bytes == 0 {
        return Status::InvalidInput;
    }
    // SAFETY: the pointer is valid for reading as many bytes, by this function's contract.
    let text = unsafe { slice::from_raw_parts(ptx.cast::<u8>(), bytes) };
    let created = Box::new(Handle { compiler: Compiler::new(text), callback: None });
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { store(handle, Box::into_raw(created)) }
}

/// Destroys a compiler and sets the handle to null.
///
/// # Safety
///
/// `handle` is null, or points to a handle as [`nvPTXCompilerCreate`] stored it, or to null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerDestroy(handle: *mut *mut Handle) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(place) = (unsafe { handle.as_mut() }) else { return Status::InvalidCompilerHandle };
    let pointer = std::mem::replace(place, std::ptr::null_mut());
    if pointer.is_null() {
        return Status::InvalidCompilerHandle;
    }
    // SAFETY: the pointer comes from `Box::into_raw` and is used no more, because the handle is null now.
    drop(unsafe { Box::from_raw(pointer) });
    Status::Success
}

/// Compiles the program.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `options` is null, or points to `count` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerCompile(handle: *mut Handle, count: c_int, options: *const *const c_char) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    let Ok(count) = usize::try_from(count) else { return Status::InvalidInput };
    if options.is_null() && count > 0 {
        return Status::InvalidInput;
    }
    // SAFETY: the pointer is valid for reading as many pointers, by this function's contract.
    let pointers = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(options, count) } };
    if pointers.iter().any(|pointer| pointer.is_null()) {
        return Status::InvalidInput;
    }
    // SAFETY: the pointers are C strings, by this function's contract.
    let texts = pointers.iter().map(|&pointer| unsafe { CStr::from_ptr(pointer) });
    let options = texts.map(|text| text.to_string_lossy().into_owned()).collect();
    let cancel = handle.callback.map(|(callback, payload)| {
        let payload = Payload(payload);
        // SAFETY: the caller registered this function with this payload.
        let asked = move || unsafe { callback(payload.pointer(), std::ptr::null_mut()) } == 1;
        Arc::new(asked) as Arc<dyn Fn() -> bool + Send + Sync>
    });
    handle.compiler.compile(options, cancel)
}

/// Returns the size of the compiled program in bytes.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `bytes` is null, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetCompiledProgramSize(handle: *mut Handle, bytes: *mut usize) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    let Some(cubin) = &handle.compiler.cubin else { return Status::CompilerInvocationIncomplete };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { store(bytes, cubin.len()) }
}

/// Copies the compiled program.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `image` is null, or valid for writing the bytes of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetCompiledProgram(handle: *mut Handle, image: *mut c_void) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    let Some(cubin) = &handle.compiler.cubin else { return Status::CompilerInvocationIncomplete };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { copy(image, cubin) }
}

/// Returns the length of the errors of the last compilation.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `length` is null, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetErrorLogSize(handle: *mut Handle, length: *mut usize) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { store(length, handle.compiler.errors.len()) }
}

/// Copies the errors of the last compilation.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `log` is null, or valid for writing the text and one byte more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetErrorLog(handle: *mut Handle, log: *mut c_char) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { copy_text(log, &handle.compiler.errors) }
}

/// Returns the length of the warnings and other messages of the last compilation.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `length` is null, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetInfoLogSize(handle: *mut Handle, length: *mut usize) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { store(length, handle.compiler.info.len()) }
}

/// Copies the warnings and other messages of the last compilation.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `log` is null, or valid for writing the text and one byte more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetInfoLog(handle: *mut Handle, log: *mut c_char) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { copy_text(log, &handle.compiler.info) }
}

/// Registers a function that can cancel a compilation before it starts and before every pass; null removes it.
///
/// # Safety
///
/// `handle` as for [`nvPTXCompilerDestroy`]; `callback` may be called with `payload` until the handle is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerSetFlowCallback(handle: *mut Handle, callback: Option<Callback>, payload: *mut c_void) -> Status {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    let Some(handle) = (unsafe { open(handle) }) else { return Status::InvalidCompilerHandle };
    handle.callback = callback.map(|callback| (callback, payload));
    Status::Success
}
