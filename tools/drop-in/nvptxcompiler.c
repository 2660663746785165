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

/* Prints a log of `compiler` below its title, unless the log is empty. The two functions return the size of the log and its text. */
#define PRINT_LOG(title, get_size, get_text)                       \
    do {                                                           \
        size_t log_size = 0;                                       \
        if (CALL(get_size, compiler, &log_size) && log_size > 0) { \
            char *log = malloc(log_size + 1);                      \
            CALL(get_text, compiler, log);                         \
            printf(title ":\n%s", log);                            \
            free(log);                                             \
        }                                                          \
    } while (0)

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

    PRINT_LOG("error log", nvPTXCompilerGetErrorLogSize, nvPTXCompilerGetErrorLog);
    PRINT_LOG("info log", nvPTXCompilerGetInfoLogSize, nvPTXCompilerGetInfoLog);
    size_t size = 0;
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
