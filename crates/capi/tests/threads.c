/* Several threads use both interfaces at the same time: successful and failing compilations, cancellation, and all results read and freed.
 *
 *   threads FILE.ptx [THREADS] [ROUNDS]
 */
#include "nvPTXCompiler.h"
#include "oriole.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const WRONG = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { add.u32 %r1, %r2; nonsense }\n";

static char *ptx;
static size_t ptx_size;
static int rounds = 2;
static OrioleCompiler *shared;

static void fail(const char *what)
{
    fprintf(stderr, "threads: %s\n", what);
    exit(1);
}

static int is_cancelled(void *user)
{
    int *passes = user;
    return (*passes)-- == 0;
}

/* Reads everything that a result has, then frees it. Returns its status. */
static OrioleStatus consume(OrioleResult *result)
{
    OrioleStatus status = oriole_result_status(result);
    OrioleDiagnostic diagnostic;
    size_t size = 0, total = strlen(oriole_result_message(result)) + strlen(oriole_result_log(result));
    for (size_t index = 0; oriole_result_diagnostic(result, index, &diagnostic) == ORIOLE_STATUS_OK; index++)
        total += strlen(diagnostic.message) + strlen(diagnostic.code);
    const unsigned char *data = (const unsigned char *)oriole_result_data(result, &size);
    for (size_t index = 0; data && index < size; index++)
        total += data[index];
    oriole_result_free(result);
    return total ? status : ORIOLE_STATUS_OK;
}

static void own_interface(void)
{
    size_t size;
    OrioleResult *compiled = oriole_compile(shared, ptx, ptx_size);
    if (oriole_result_status(compiled) != ORIOLE_STATUS_OK)
        fail(oriole_result_message(compiled));
    const void *cubin = oriole_result_data(compiled, &size);
    if (consume(oriole_disassemble(cubin, size, NULL, true)) != ORIOLE_STATUS_OK)
        fail("disassembly failed");
    if (consume(oriole_verify(cubin, size)) != ORIOLE_STATUS_OK)
        fail("verification failed");
    if (consume(oriole_explain(shared, ptx, ptx_size)) != ORIOLE_STATUS_OK)
        fail("explanation failed");
    consume(compiled);
    if (consume(oriole_compile(shared, WRONG, strlen(WRONG))) == ORIOLE_STATUS_OK)
        fail("a wrong module was accepted");
    if (consume(oriole_compile(shared, NULL, 5)) != ORIOLE_STATUS_INVALID_ARGUMENT)
        fail("a null pointer was accepted");
    if (consume(oriole_verify("no cubin", 8)) == ORIOLE_STATUS_OK)
        fail("a text was accepted as a cubin");

    int passes = 5;
    OrioleCompiler *cancelled = oriole_compiler_new();
    oriole_compiler_set_arch(cancelled, "sm_90");
    oriole_compiler_set_cancel(cancelled, is_cancelled, &passes);
    if (consume(oriole_compile(cancelled, ptx, ptx_size)) != ORIOLE_STATUS_CANCELLED)
        fail("a cancelled compilation went on");
    oriole_compiler_free(cancelled);
}

static void vendor_interface(void)
{
    const char *options[] = {"--gpu-name=sm_90", "-v"}, *unknown[] = {"--unknown"};
    nvPTXCompilerHandle compiler;
    size_t size;
    if (nvPTXCompilerCreate(&compiler, ptx_size, ptx) != NVPTXCOMPILE_SUCCESS)
        fail("no handle");
    if (nvPTXCompilerCompile(compiler, 1, unknown) != NVPTXCOMPILE_ERROR_COMPILATION_FAILURE)
        fail("an unknown option was accepted");
    if (nvPTXCompilerCompile(compiler, 2, options) != NVPTXCOMPILE_SUCCESS)
        fail("the compilation failed");
    nvPTXCompilerGetInfoLogSize(compiler, &size);
    char *log = malloc(size + 1);
    nvPTXCompilerGetInfoLog(compiler, log);
    free(log);
    nvPTXCompilerGetCompiledProgramSize(compiler, &size);
    char *program = malloc(size);
    nvPTXCompilerGetCompiledProgram(compiler, program);
    if (memcmp(program, "\177ELF", 4) != 0)
        fail("no program");
    free(program);
    nvPTXCompilerDestroy(&compiler);
}

static void *work(void *argument)
{
    for (int round = 0; round < rounds; round++) {
        own_interface();
        vendor_interface();
    }
    return argument;
}

int main(int count, char **arguments)
{
    pthread_t threads[64];
    int number = count > 2 ? atoi(arguments[2]) : 4;
    FILE *file = count > 1 ? fopen(arguments[1], "rb") : NULL;
    if (!file || number < 1 || number > 64)
        fail("usage: threads FILE.ptx [THREADS] [ROUNDS]");
    rounds = count > 3 ? atoi(arguments[3]) : rounds;
    ptx = malloc(1 << 20);
    ptx_size = fread(ptx, 1, 1 << 20, file);
    fclose(file);
    shared = oriole_compiler_new();
    oriole_compiler_set_arch(shared, "sm_90");
    for (int index = 0; index < number; index++)
        if (pthread_create(&threads[index], NULL, work, NULL) != 0)
            fail("no thread");
    for (int index = 0; index < number; index++)
        pthread_join(threads[index], NULL);
    oriole_compiler_free(shared);
    free(ptx);
    printf("%d threads, %d rounds\n", number, rounds);
    return 0;
}
