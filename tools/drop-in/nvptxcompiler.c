/* The flow of programs that use nvPTXCompiler: compiles a PTX file with options of ptxas and prints the status of every call and both logs.
 * Written against NVIDIA's header; tools/drop-in/nvptxcompiler.py builds it with NVIDIA's library and with Oriole's.
 *
 *     nvptxcompiler IN.ptx OUT.cubin OPTION... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvPTXCompiler.h"

/* Prints the status of a call; returns whether the call succeeded. */
static int report(const char *call, nvPTXCompileResult status)
{
    printf("%s: %d\n", call, (int)status);
    return status == NVPTXCOMPILE_SUCCESS;
}

#define CALL(name, ...) report(#name, name(__VA_ARGS__))

/* Returns the text of a file, with a zero byte at its end; the caller frees it. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        return NULL;
    }
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (text == NULL || fread(text, 1, (size_t)size, file) != (size_t)size) {
        return NULL;
    }
    text[size] = '\0';
    fclose(file);
    return text;
}

int main(int count, char **arguments)
{
    if (count < 3) {
        return 2;
    }
    unsigned int major = 0, minor = 0;
    CALL(nvPTXCompilerGetVersion, &major, &minor);
    printf("version %u.%u\n", major, minor);
    char *ptx = read_file(arguments[1]);
    nvPTXCompilerHandle compiler = NULL;
    if (ptx == NULL || !CALL(nvPTXCompilerCreate, &compiler, strlen(ptx), ptx)) {
        return 1;
    }
    int is_compiled = CALL(nvPTXCompilerCompile, compiler, count - 3, (const char *const *)(arguments + 3));

    size_t size = 0;
    if (CALL(nvPTXCompilerGetErrorLogSize, compiler, &size) && size > 0) {
        char *log = malloc(size + 1);
        CALL(nvPTXCompilerGetErrorLog, compiler, log);
        printf("error log:\n%s", log);
        free(log);
    }
    size = 0;
    if (CALL(nvPTXCompilerGetInfoLogSize, compiler, &size) && size > 0) {
        char *log = malloc(size + 1);
        CALL(nvPTXCompilerGetInfoLog, compiler, log);
        printf("info log:\n%s", log);
        free(log);
    }
    size = 0;
    if (is_compiled && CALL(nvPTXCompilerGetCompiledProgramSize, compiler, &size)) {
        void *image = malloc(size);
        CALL(nvPTXCompilerGetCompiledProgram, compiler, image);
        FILE *file = fopen(arguments[2], "wb");
        if (file == NULL || fwrite(image, 1, size, file) != size || fclose(file) != 0) {
            return 1;
        }
        free(image);
    }
    CALL(nvPTXCompilerDestroy, &compiler);
    free(ptx);
    return 0;
}
