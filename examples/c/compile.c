/* Compiles a PTX file with the C interface of Oriole, shows progress, and checks the result.
 *
 *   cc compile.c $(pkg-config --cflags --libs oriole) -o compile
 *   ./compile kernel.ptx kernel.cubin sm_90a
 */
#include <oriole.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a file; the size goes to `size`. */
static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t room = 0;
    *size = 0;
    if (!file) {
        perror(path);
        exit(2);
    }
    do {
        room = room ? 2 * room : 4096;
        bytes = realloc(bytes, room);
        if (!bytes)
            exit(2);
        *size += fread(bytes + *size, 1, room - *size, file);
    } while (*size == room);
    fclose(file);
    return bytes;
}

static void show_progress(const OrioleProgress *progress, void *user)
{
    (void)user;
    if (!progress->pass)
        printf("%s: %zu of %zu functions\n", progress->function, progress->functions_done, progress->functions);
}

/* Cancels after as many passes as `user` says; never if it is negative. */
static int is_cancelled(void *user)
{
    int *passes = user;
    return *passes >= 0 && (*passes)-- == 0;
}

/* Prints what a call reports about the PTX. Returns 0 if the call succeeded. */
static int report(const OrioleResult *result)
{
    OrioleDiagnostic diagnostic;
    for (size_t index = 0; oriole_result_diagnostic(result, index, &diagnostic) == ORIOLE_STATUS_OK; index++) {
        printf("%s %s, line %u, column %u: %s\n", diagnostic.is_error ? "error" : "warning", diagnostic.code,
               (unsigned)diagnostic.line, (unsigned)diagnostic.column, diagnostic.message);
        if (diagnostic.help)
            printf("  %s\n", diagnostic.help);
    }
    if (oriole_result_status(result) == ORIOLE_STATUS_OK)
        return 0;
    printf("status %d: %s\n", (int)oriole_result_status(result), oriole_result_message(result));
    return 1;
}

int main(int count, char **arguments)
{
    int status = 1, passes = count > 4 ? atoi(arguments[4]) : -1;
    size_t ptx_size, size;
    if (count < 4) {
        fprintf(stderr, "usage: %s FILE.ptx OUT.cubin ARCH [PASSES]\n", arguments[0]);
        return 2;
    }
    char *ptx = read_file(arguments[1], &ptx_size);
    OrioleCompiler *compiler = oriole_compiler_new();
    oriole_compiler_set_arch(compiler, arguments[3]);
    oriole_compiler_set_source_name(compiler, arguments[1]);
    oriole_compiler_set_progress(compiler, show_progress, NULL);
    oriole_compiler_set_cancel(compiler, is_cancelled, &passes);

    OrioleResult *compiled = oriole_compile(compiler, ptx, ptx_size);
    if (report(compiled) == 0) {
        const void *cubin = oriole_result_data(compiled, &size);
        FILE *file = fopen(arguments[2], "wb");
        if (!file || fwrite(cubin, 1, size, file) != size || fclose(file) != 0) {
            perror(arguments[2]);
            return 2;
        }
        OrioleResult *listing = oriole_disassemble(cubin, size, NULL, false);
        OrioleResult *findings = oriole_verify(cubin, size);
        OrioleResult *explanation = oriole_explain(compiler, ptx, ptx_size);
        const char *text = oriole_result_data(listing, NULL);
        const char *json = oriole_result_data(explanation, NULL);
        status = report(listing) | report(findings) | report(explanation);
        printf("oriole %s: %zu bytes, %s machine code, hazards: %s, explanation: %.9s\n", oriole_version(), size,
               text && strstr(text, "EXIT") ? "with" : "without", (const char *)oriole_result_data(findings, NULL), json ? json : "");
        oriole_result_free(explanation);
        oriole_result_free(findings);
        oriole_result_free(listing);
    }
    oriole_result_free(compiled);
    oriole_compiler_free(compiler);
    free(ptx);
    return status;
}
