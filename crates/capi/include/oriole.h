/* Oriole, an open PTX assembler for NVIDIA GPUs: the C interface. docs/c-library.md describes it.
 *
 * Generated from crates/capi/src/own; do not edit.
 */

#ifndef ORIOLE_H
#define ORIOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * What a call returns.
 */
typedef enum OrioleStatus {
    /**
     * The call has a result.
     */
    ORIOLE_STATUS_OK = 0,
    /**
     * The PTX has errors.
     */
    ORIOLE_STATUS_INVALID_PTX = 1,
    /**
     * The PTX uses a feature that is not implemented.
     */
    ORIOLE_STATUS_UNSUPPORTED = 2,
    /**
     * The program needs more than the target or the settings provide, or is for another target.
     */
    ORIOLE_STATUS_RESOURCE_LIMIT = 3,
    /**
     * A function is called and not defined.
     */
    ORIOLE_STATUS_UNRESOLVED = 4,
    /**
     * A pointer is null, or a setting names a target or kernel that does not exist.
     */
    ORIOLE_STATUS_INVALID_ARGUMENT = 5,
    /**
     * The file has no machine code that can be read.
     */
    ORIOLE_STATUS_INVALID_FILE = 6,
    /**
     * The callback cancelled the call.
     */
    ORIOLE_STATUS_CANCELLED = 7,
    /**
     * A fault of Oriole itself.
     */
    ORIOLE_STATUS_INTERNAL = 8,
} OrioleStatus;

/**
 * Settings of a compiler. Calls do not change them, so several threads may use them at the same time, unless one of them changes a
 * setting.
 */
typedef struct OrioleCompiler OrioleCompiler;

/**
 * The result of a call: a status, the data if there is any, and errors and warnings. It does not change, and belongs to the caller.
 */
typedef struct OrioleResult OrioleResult;

/**
 * How far a compilation is. The totals grow if the code turns out to call functions of the run-time library.
 */
typedef struct OrioleProgress {
    /**
     * Name of the function that this is about.
     */
    const char *function;
    /**
     * Name of the pass that starts; NULL if the function is finished.
     */
    const char *pass;
    /**
     * Number of finished functions.
     */
    size_t functions_done;
    /**
     * Number of functions to compile.
     */
    size_t functions;
    /**
     * Number of PTX instructions of the finished functions, a measure of the work done.
     */
    size_t instructions_done;
    /**
     * Number of PTX instructions of all functions.
     */
    size_t instructions;
} OrioleProgress;

/**
 * Receives the progress of a compilation and the pointer that the caller registered with the callback. The pointers in `progress` are
 * valid during the call.
 */
typedef void (*OrioleProgressCallback)(const struct OrioleProgress *progress, void *user);

/**
 * Cancels a compilation by returning anything but 0.
 */
typedef int (*OrioleCancelCallback)(void *user);

/**
 * An error or a warning about PTX. Lines and columns count from 1 and are 0 if the message concerns the whole module. The texts belong
 * to the result.
 */
typedef struct OrioleDiagnostic {
    /**
     * Whether it is an error; otherwise it is a warning.
     */
    bool is_error;
    /**
     * The stable code, such as "E0702".
     */
    const char *code;
    /**
     * What is wrong.
     */
    const char *message;
    /**
     * Advice; NULL if there is none.
     */
    const char *help;
    /**
     * Line of the first character that is marked.
     */
    uint32_t line;
    /**
     * Column of the first character that is marked.
     */
    uint32_t column;
    /**
     * Line after the last character that is marked.
     */
    uint32_t end_line;
    /**
     * Column after the last character that is marked.
     */
    uint32_t end_column;
} OrioleDiagnostic;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Creates settings: the target of the PTX, optimization level 3, all kernels, all processors. Returns NULL only if that fails.
 */
struct OrioleCompiler *oriole_compiler_new(void);

/**
 * Frees settings. NULL is allowed.
 *
 * # Safety
 *
 * `compiler` is NULL, or comes from `oriole_compiler_new` and is not used any more.
 */
void oriole_compiler_free(struct OrioleCompiler *compiler);

/**
 * Sets the target, such as "sm_90a"; NULL is the target of the PTX. A name that does not exist is reported by the next call.
 *
 * # Safety
 *
 * `compiler` comes from `oriole_compiler_new` and is not used by another thread; `name` is NULL or a C string.
 */
enum OrioleStatus oriole_compiler_set_arch(struct OrioleCompiler *compiler,
                                           const char *name);

/**
 * Sets the optimization level, 0 to 3. Higher numbers mean 3.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_opt_level(struct OrioleCompiler *compiler, uint8_t level);

/**
 * Sets the maximum number of registers of each thread.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_max_registers(struct OrioleCompiler *compiler, uint32_t registers);

/**
 * Sets whether floating-point products and sums without a rounding modifier may become multiply-adds; they do by default.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_fmad(struct OrioleCompiler *compiler,
                                           bool is_allowed);

/**
 * Sets whether to make an object for the linker instead of a program.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_relocatable(struct OrioleCompiler *compiler, bool is_relocatable);

/**
 * Sets whether to write line tables and the PTX text into the cubin, for debuggers and profilers.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_line_info(struct OrioleCompiler *compiler, bool is_wanted);

/**
 * Sets whether to write line tables and the debug sections of the PTX, and to compile without optimization.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_device_debug(struct OrioleCompiler *compiler, bool is_wanted);

/**
 * Sets the file name in messages and explanations.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_source_name(struct OrioleCompiler *compiler, const char *name);

/**
 * Adds a kernel to compile. Without any, all kernels are compiled.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_add_entry(struct OrioleCompiler *compiler, const char *kernel);

/**
 * Compiles on the calling thread alone, without starting threads. For hostile input its stack should have 64 MiB.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`.
 */
enum OrioleStatus oriole_compiler_set_sequential(struct OrioleCompiler *compiler);

/**
 * Registers a function that is called when a pass starts on a function and when a function is finished; NULL removes it. The callbacks
 * of one compiler are called by one thread at a time, but not always the same one. They must not use the compiler, throw exceptions or
 * leave by `longjmp`.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_arch`; `callback` may be called with `user` until another one is registered or the compiler is freed.
 */
enum OrioleStatus oriole_compiler_set_progress(struct OrioleCompiler *compiler,
                                               OrioleProgressCallback callback,
                                               void *user);

/**
 * Registers a function that is called before every pass and cancels the call by returning anything but 0; NULL removes it. The rules of
 * `oriole_compiler_set_progress` apply.
 *
 * # Safety
 *
 * As for `oriole_compiler_set_progress`.
 */
enum OrioleStatus oriole_compiler_set_cancel(struct OrioleCompiler *compiler,
                                             OrioleCancelCallback callback,
                                             void *user);

/**
 * Returns the version of the library, such as "0.1.0".
 */
const char *oriole_version(void);

/**
 * Compiles PTX of `size` bytes. The data of the result is a cubin.
 *
 * # Safety
 *
 * `compiler` comes from `oriole_compiler_new`; `ptx` is valid for reading `size` bytes. NULL for either is reported by the result.
 */
struct OrioleResult *oriole_compile(const struct OrioleCompiler *compiler,
                                    const char *ptx,
                                    size_t size);

/**
 * Parses and checks PTX. The result has no data; its status is `ORIOLE_STATUS_OK` if there are no errors.
 *
 * # Safety
 *
 * As for `oriole_compile`.
 */
struct OrioleResult *oriole_check(const struct OrioleCompiler *compiler, const char *ptx, size_t size);

/**
 * Compiles PTX and explains why the code came out as it did. The data of the result is JSON.
 *
 * # Safety
 *
 * As for `oriole_compile`.
 */
struct OrioleResult *oriole_explain(const struct OrioleCompiler *compiler, const char *ptx, size_t size);

/**
 * Explains the machine code of a cubin of any compiler. The data of the result is JSON.
 *
 * # Safety
 *
 * `file` is NULL or valid for reading `size` bytes.
 */
struct OrioleResult *oriole_explain_cubin(const void *file, size_t size);

/**
 * Prints the machine code of a cubin as text, in the format of `nvdisasm -c`, or with control words in the format that `oriole asm` reads.
 * `function` is the kernel or function to print; NULL prints all. The data of the result is the text.
 *
 * # Safety
 *
 * `file` is NULL or valid for reading `size` bytes; `function` is NULL or a C string.
 */
struct OrioleResult *oriole_disassemble(const void *file,
                                        size_t size,
                                        const char *function,
                                        bool control);

/**
 * Checks the machine code of a cubin with all verifiers. The data of the result is a JSON array of hazards, `[]` if the code is sound.
 *
 * # Safety
 *
 * `file` is NULL or valid for reading `size` bytes.
 */
struct OrioleResult *oriole_verify(const void *file,
                                   size_t size);

/**
 * Frees a result, with everything that was read from it. NULL is allowed.
 *
 * # Safety
 *
 * `result` is NULL, or comes from a call and is not used any more.
 */
void oriole_result_free(struct OrioleResult *result);

/**
 * Returns the status of a call. A NULL result, which calls return if there is no memory, is `ORIOLE_STATUS_INTERNAL`.
 *
 * # Safety
 *
 * `result` is NULL, or comes from a call and has not been freed.
 */
enum OrioleStatus oriole_result_status(const struct OrioleResult *result);

/**
 * Returns the data of a call: a cubin, a text or JSON. NULL if it failed or has none. A zero byte follows the data, so that texts are C
 * strings. `size` is NULL, or receives the number of bytes without it. The data belongs to the result.
 *
 * # Safety
 *
 * `result` as for `oriole_result_status`; `size` is NULL or valid for writing.
 */
const void *oriole_result_data(const struct OrioleResult *result,
                               size_t *size);

/**
 * Returns one line about why a call failed, empty if it did not. The text belongs to the result.
 *
 * # Safety
 *
 * `result` as for `oriole_result_status`.
 */
const char *oriole_result_message(const struct OrioleResult *result);

/**
 * Returns errors, warnings and remarks as the command line prints them, with source lines. The text belongs to the result.
 *
 * # Safety
 *
 * `result` as for `oriole_result_status`.
 */
const char *oriole_result_log(const struct OrioleResult *result);

/**
 * Returns errors and warnings as a JSON array. The text belongs to the result.
 *
 * # Safety
 *
 * `result` as for `oriole_result_status`.
 */
const char *oriole_result_diagnostics_json(const struct OrioleResult *result);

/**
 * Returns the number of errors and warnings.
 *
 * # Safety
 *
 * `result` as for `oriole_result_status`.
 */
size_t oriole_result_diagnostic_count(const struct OrioleResult *result);

/**
 * Reads an error or a warning. Its texts belong to the result.
 *
 * # Safety
 *
 * `result` as for `oriole_result_status`; `diagnostic` is NULL or valid for writing.
 */
enum OrioleStatus oriole_result_diagnostic(const struct OrioleResult *result,
                                           size_t index,
                                           struct OrioleDiagnostic *diagnostic);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ORIOLE_H */
