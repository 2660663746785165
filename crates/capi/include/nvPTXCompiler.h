/* Oriole's stand-in for the PTX compiler library of CUDA 13.0: the same functions, types and status codes.
 *
 * Link with -loriole instead of -lnvptxcompiler_static. docs/c-library.md describes the functions.
 */
#ifndef ORIOLE_NVPTXCOMPILER_H
#define ORIOLE_NVPTXCOMPILER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compiler with one PTX program. */
typedef struct nvPTXCompiler *nvPTXCompilerHandle;

/* What every function returns. */
typedef enum {
    NVPTXCOMPILE_SUCCESS = 0,
    NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE = 1,
    NVPTXCOMPILE_ERROR_INVALID_INPUT = 2,
    NVPTXCOMPILE_ERROR_COMPILATION_FAILURE = 3,
    NVPTXCOMPILE_ERROR_INTERNAL = 4,
    NVPTXCOMPILE_ERROR_OUT_OF_MEMORY = 5,
    NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE = 6,
    NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION = 7,
    NVPTXCOMPILE_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 8,
    NVPTXCOMPILE_ERROR_CANCELLED = 9
} nvPTXCompileResult;

/* Returns the version of this interface: 13.0. */
nvPTXCompileResult nvPTXCompilerGetVersion(unsigned int *major, unsigned int *minor);

/* Creates a compiler for a program of ptxCodeLen bytes. The text is copied; it may end with a zero byte. */
nvPTXCompileResult nvPTXCompilerCreate(nvPTXCompilerHandle *compiler, size_t ptxCodeLen, const char *ptxCode);

/* Destroys a compiler and sets the handle to NULL. */
nvPTXCompileResult nvPTXCompilerDestroy(nvPTXCompilerHandle *compiler);

/* Compiles the program with options of the ptxas command line, such as "--gpu-name=sm_90". */
nvPTXCompileResult nvPTXCompilerCompile(nvPTXCompilerHandle compiler, int numCompileOptions, const char *const *compileOptions);

/* Returns the size of the compiled program in bytes. */
nvPTXCompileResult nvPTXCompilerGetCompiledProgramSize(nvPTXCompilerHandle compiler, size_t *binaryImageSize);

/* Copies the compiled program, a cubin, to memory of that size. */
nvPTXCompileResult nvPTXCompilerGetCompiledProgram(nvPTXCompilerHandle compiler, void *binaryImage);

/* Returns the length of the errors of the last compilation, without the zero byte at the end. */
nvPTXCompileResult nvPTXCompilerGetErrorLogSize(nvPTXCompilerHandle compiler, size_t *errorLogSize);

/* Copies the errors of the last compilation, with a zero byte at the end, to memory of that length plus one. */
nvPTXCompileResult nvPTXCompilerGetErrorLog(nvPTXCompilerHandle compiler, char *errorLog);

/* Returns the length of the warnings and other messages of the last compilation, without the zero byte at the end. */
nvPTXCompileResult nvPTXCompilerGetInfoLogSize(nvPTXCompilerHandle compiler, size_t *infoLogSize);

/* Copies the warnings and other messages, with a zero byte at the end, to memory of that length plus one. */
nvPTXCompileResult nvPTXCompilerGetInfoLog(nvPTXCompilerHandle compiler, char *infoLog);

/* Registers a function that is called with `payload` and NULL before a compilation and before each of its passes, by one thread at a time, but
 * not always the same one. If it returns 1, the compilation is cancelled. */
nvPTXCompileResult nvPTXCompilerSetFlowCallback(nvPTXCompilerHandle compiler, int (*callback)(void *payload, void *reserved), void *payload);

#ifdef __cplusplus
}
#endif

#endif
