//! The settings of a compiler.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use oriole::{Compiler, Error, Progress};

use super::guarded;
use super::types::{OrioleCancelCallback, OrioleProgress, OrioleProgressCallback, OrioleStatus};

/// Settings of a compiler. Calls do not change them, so several threads may use them at the same time, unless one of them changes a
/// setting.
#[derive(Default)]
pub struct OrioleCompiler {
    arch: Option<String>,
    settings: Compiler,
    progress: Option<(ProgressFunction, User)>,
    cancel: Option<(CancelFunction, User)>,
    /// Held while a callback runs.
    calling: Arc<Mutex<()>>,
}

type ProgressFunction = unsafe extern "C" fn(*const OrioleProgress, *mut c_void);
type CancelFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What the caller registered with a callback. It is only handed back.
#[derive(Clone, Copy)]
struct User(*mut c_void);

impl User {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: the pointer is not dereferenced here. The interface says that callbacks come from other threads, one at a time.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl OrioleCompiler {
    /// Returns the compiler with these settings.
    pub(super) fn compiler(&self) -> Result<Compiler, Error> {
        let mut compiler = self.settings.clone();
        if let Some(arch) = &self.arch {
            compiler = compiler.arch(arch)?;
        }
        if let Some((progress, user)) = self.progress {
            let calling = Arc::clone(&self.calling);
            compiler = compiler.on_progress(move |now| report(now, progress, user, &calling));
        }
        if let Some((cancel, user)) = self.cancel {
            let calling = Arc::clone(&self.calling);
            compiler = compiler.cancel_when(move || {
                let _one_at_a_time = calling.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller registered this function with this pointer.
                unsafe { cancel(user.pointer()) != 0 }
            });
        }
        Ok(compiler)
    }
}

/// Calls the progress callback.
fn report(now: &Progress<'_>, progress: ProgressFunction, user: User, calling: &Mutex<()>) {
    let function = CString::new(now.function).unwrap_or_default();
    let pass = now.pass.map(|pass| CString::new(pass).unwrap_or_default());
    let now = OrioleProgress {
        function: function.as_ptr(),
        pass: pass.as_ref().map_or(std::ptr::null(), |pass| pass.as_ptr()),
        functions_done: now.functions_done,
        functions: now.functions,
        instructions_done: now.instructions_done,
        instructions: now.instructions,
    };
    let _one_at_a_time = calling.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller registered this function with this pointer; the texts outlive the call.
    unsafe { progress(&raw const now, user.pointer()) };
}

/// Changes a setting.
///
/// # Safety
///
/// `compiler` is null, or comes from [`oriole_compiler_new`], has not been freed, and is not used by another thread.
unsafe fn change(compiler: *mut OrioleCompiler, change: impl FnOnce(&mut OrioleCompiler)) -> OrioleStatus {
    guarded(OrioleStatus::Internal, || {
        // SAFETY: the caller keeps the contract of this function (see `# Safety`).
        let Some(compiler) = (unsafe { compiler.as_mut() }) else { return OrioleStatus::InvalidArgument };
        change(compiler);
        OrioleStatus::Ok
    })
}

/// Changes a setting of the compiler that the handle refers to.
///
/// # Safety
///
/// As for [`change`].
unsafe fn set(compiler: *mut OrioleCompiler, set: impl FnOnce(Compiler) -> Compiler) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { change(compiler, |compiler| compiler.settings = set(std::mem::take(&mut compiler.settings))) }
}

/// Copies a text of the caller; `None` if the pointer is null.
///
/// # Safety
///
/// `text` is null, or a C string.
pub(super) unsafe fn text_of(text: *const c_char) -> Option<String> {
    // SAFETY: the pointer is a C string, by this function's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Creates settings: the target of the PTX, optimization level 3, all kernels, all processors. Returns NULL only if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn oriole_compiler_new() -> *mut OrioleCompiler {
    guarded(std::ptr::null_mut(), || Box::into_raw(Box::default()))
}

/// Frees settings. NULL is allowed.
///
/// # Safety
///
/// `compiler` is NULL, or comes from `oriole_compiler_new` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_free(compiler: *mut OrioleCompiler) {
    guarded((), || {
        if !compiler.is_null() {
            // SAFETY: the pointer comes from `Box::into_raw` and is used no more, by this function's contract.
            drop(unsafe { Box::from_raw(compiler) });
        }
    });
}

/// Sets the target, such as "sm_90a"; NULL is the target of the PTX. A name that does not exist is reported by the next call.
///
/// # Safety
///
/// `compiler` comes from `oriole_compiler_new` and is not used by another thread; `name` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_arch(compiler: *mut OrioleCompiler, name: *const c_char) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { change(compiler, |compiler| compiler.arch = text_of(name)) }
}

/// Sets the optimization level, 0 to 3. Higher numbers mean 3.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_opt_level(compiler: *mut OrioleCompiler, level: u8) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, |settings| settings.opt_level(level)) }
}

/// Sets the maximum number of registers of each thread.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_max_registers(compiler: *mut OrioleCompiler, registers: u32) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, |settings| settings.max_registers(registers)) }
}

/// Sets whether floating-point products and sums without a rounding modifier may become multiply-adds; they do by default.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_fmad(compiler: *mut OrioleCompiler, is_allowed: bool) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, |settings| settings.fmad(is_allowed)) }
}

/// Sets whether to make an object for the linker instead of a program.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_relocatable(compiler: *mut OrioleCompiler, is_relocatable: bool) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, |settings| settings.relocatable(is_relocatable)) }
}

/// Sets whether to write line tables and the PTX text into the cubin, for debuggers and profilers.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_line_info(compiler: *mut OrioleCompiler, is_wanted: bool) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, |settings| settings.line_info(is_wanted)) }
}

/// Sets whether to write line tables and the debug sections of the PTX, and to compile without optimization.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_device_debug(compiler: *mut OrioleCompiler, is_wanted: bool) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, |settings| settings.device_debug(is_wanted)) }
}

/// Sets the file name in messages and explanations.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_source_name(compiler: *mut OrioleCompiler, name: *const c_char) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    match unsafe { text_of(name) } {
        // SAFETY: as above.
        Some(name) => unsafe { set(compiler, |settings| settings.source_name(name)) },
        None => OrioleStatus::InvalidArgument,
    }
}

/// Adds a kernel to compile. Without any, all kernels are compiled.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_add_entry(compiler: *mut OrioleCompiler, kernel: *const c_char) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    match unsafe { text_of(kernel) } {
        // SAFETY: as above.
        Some(kernel) => unsafe { set(compiler, |settings| settings.entry(kernel)) },
        None => OrioleStatus::InvalidArgument,
    }
}

/// Compiles on the calling thread alone, without starting threads. For hostile input its stack should have 64 MiB.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_sequential(compiler: *mut OrioleCompiler) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { set(compiler, Compiler::sequential) }
}

/// Registers a function that is called when a pass starts on a function and when a function is finished; NULL removes it. The callbacks
/// of one compiler are called by one thread at a time, but not always the same one. They must not use the compiler, throw exceptions or
/// leave by `longjmp`.
///
/// # Safety
///
/// As for `oriole_compiler_set_arch`; `callback` may be called with `user` until another one is registered or the compiler is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_progress(
    compiler: *mut OrioleCompiler,
    callback: OrioleProgressCallback,
    user: *mut c_void,
) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { change(compiler, |compiler| compiler.progress = callback.map(|callback| (callback, User(user)))) }
}

/// Registers a function that is called before every pass and cancels the call by returning anything but 0; NULL removes it. The rules of
/// `oriole_compiler_set_progress` apply.
///
/// # Safety
///
/// As for `oriole_compiler_set_progress`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oriole_compiler_set_cancel(
    compiler: *mut OrioleCompiler,
    callback: OrioleCancelCallback,
    user: *mut c_void,
) -> OrioleStatus {
    // SAFETY: the caller keeps the contract of this function (see `# Safety`).
    unsafe { change(compiler, |compiler| compiler.cancel = callback.map(|callback| (callback, User(user)))) }
}
