/* Written against the interface of nvPTXCompiler: compiles a program, reads the logs, writes the cubin. */
#include "nvPTXCompiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(call, expected)                                                                                \
    do {                                                                                                      \
        nvPTXCompileResult result = (call);                                                                   \
        if (result != (expected)) {                                                                           \
            fprintf(stderr, "line %d: %s returned %d, not %d\n", __LINE__, #call, (int)result, (int)(expected)); \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

static const char *const PROGRAM =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry simpleVectorAdd(.param .u64 a, .param .u64 b) {\n"
    "    .reg .f32 %f<3>; .reg .b32 %r<2>; .reg .b64 %rd<5>;\n"
    "    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x;\n"
    "    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;\n"
    "    ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd2], %f2; ret;\n"
    "}\n";

static int cancel(void *payload, void *reserved)
{
    (void)reserved;
    return *(int *)payload;
}

int main(int count, char **arguments)
{
    nvPTXCompilerHandle compiler = NULL;
    unsigned int major = 0, minor = 99;
    size_t size = 0;
    const char *options[] = {"--gpu-name=sm_90", "--verbose"};
    const char *wrong[] = {"--gpu-name=sm_90", "--no-such-option"};
    int decision = 1;

    EXPECT(nvPTXCompilerGetVersion(&major, &minor), NVPTXCOMPILE_SUCCESS);
    if (major != 13 || minor != 0) {
        fprintf(stderr, "version %u.%u\n", major, minor);
        return 1;
    }
    EXPECT(nvPTXCompilerGetCompiledProgramSize(NULL, &size), NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);
    EXPECT(nvPTXCompilerCreate(NULL, strlen(PROGRAM), PROGRAM), NVPTXCOMPILE_ERROR_INVALID_INPUT);
    EXPECT(nvPTXCompilerCreate(&compiler, 0, PROGRAM), NVPTXCOMPILE_ERROR_INVALID_INPUT);
    EXPECT(nvPTXCompilerCreate(&compiler, strlen(PROGRAM), PROGRAM), NVPTXCOMPILE_SUCCESS);
    EXPECT(nvPTXCompilerGetCompiledProgramSize(compiler, &size), NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE);
    EXPECT(nvPTXCompilerCompile(compiler, 2, NULL), NVPTXCOMPILE_ERROR_INVALID_INPUT);

    EXPECT(nvPTXCompilerSetFlowCallback(compiler, cancel, &decision), NVPTXCOMPILE_SUCCESS);
    EXPECT(nvPTXCompilerCompile(compiler, 2, options), NVPTXCOMPILE_ERROR_CANCELLED);
    decision = 0;

    EXPECT(nvPTXCompilerCompile(compiler, 2, wrong), NVPTXCOMPILE_ERROR_COMPILATION_FAILURE);
    EXPECT(nvPTXCompilerGetErrorLogSize(compiler, &size), NVPTXCOMPILE_SUCCESS);
    char *log = malloc(size + 1);
    memset(log, 'x', size + 1);
    EXPECT(nvPTXCompilerGetErrorLog(compiler, log), NVPTXCOMPILE_SUCCESS);
    if (strlen(log) != size || strstr(log, "Unknown option '-no-such-option'") == NULL) {
        fprintf(stderr, "error log of %zu bytes: %s\n", size, log);
        return 1;
    }
    free(log);

    EXPECT(nvPTXCompilerCompile(compiler, 2, options), NVPTXCOMPILE_SUCCESS);
    EXPECT(nvPTXCompilerGetErrorLogSize(compiler, &size), NVPTXCOMPILE_SUCCESS);
    if (size != 0) {
        fprintf(stderr, "errors after a successful compilation\n");
        return 1;
    }
    EXPECT(nvPTXCompilerGetInfoLogSize(compiler, &size), NVPTXCOMPILE_SUCCESS);
    log = malloc(size + 1);
    EXPECT(nvPTXCompilerGetInfoLog(compiler, log), NVPTXCOMPILE_SUCCESS);
    fputs(log, stdout);
    free(log);

    EXPECT(nvPTXCompilerGetCompiledProgramSize(compiler, &size), NVPTXCOMPILE_SUCCESS);
    char *image = malloc(size);
    EXPECT(nvPTXCompilerGetCompiledProgram(compiler, image), NVPTXCOMPILE_SUCCESS);
    FILE *file = count == 2 ? fopen(arguments[1], "wb") : NULL;
    if (file == NULL || fwrite(image, 1, size, file) != size || fclose(file) != 0) {
        fprintf(stderr, "the output cannot be written\n");
        return 1;
    }
    free(image);
    EXPECT(nvPTXCompilerDestroy(&compiler), NVPTXCOMPILE_SUCCESS);
    EXPECT(nvPTXCompilerDestroy(&compiler), NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE);
    return compiler == NULL ? 0 : 1;
}
