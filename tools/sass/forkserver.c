/* Loaded into nvdisasm (LD_PRELOAD): one initialised process answers many requests.
 *
 * nvdisasm opens its input twice; the second time it is ready to disassemble. There we stop it and read
 * requests, lines of `input path TAB output path`, from descriptor 198. For each a forked child goes on with that input
 * and its output redirected; its exit status is written to descriptor 199. A child never frees memory and
 * leaves without destructors: writing to the shared pages is most of the time such a short life takes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int child;
extern void __libc_free(void *p);

void free(void *p)
{
    if (!child)
        __libc_free(p);
}

void exit(int status)
{
    fflush(NULL);
    if (child)
        _exit(status);
    void (*real)(int) = dlsym(RTLD_NEXT, "exit");
    real(status);
    abort();
}

static void serve(char *path, size_t size)
{
    char line[1024];
    FILE *requests = fdopen(198, "r");
    while (fgets(line, sizeof line, requests)) {
        line[strcspn(line, "\n")] = 0;
        char *tab = strchr(line, '\t');
        if (!tab)
            _exit(9);
        *tab = 0;
        pid_t pid = fork();
        if (pid == 0) {
            int out = open(tab + 1, O_CREAT | O_TRUNC | O_WRONLY, 0600);
            dup2(out, 1);
            dup2(out, 2);
            strncpy(path, line, size - 1);
            child = 1;
            return;
        }
        int status = 0;
        waitpid(pid, &status, 0);
        char reply[32];
        int n = snprintf(reply, sizeof reply, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 255);
        if (write(199, reply, n) != n)
            _exit(9);
    }
    _exit(0);
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (!real)
        real = dlsym(RTLD_NEXT, "fopen");
    const char *input = getenv("FORKSERVER_INPUT");
    if (input && path && strcmp(path, input) == 0) {
        static int seen;
        if (++seen == 2) {
            static char request[1024];
            serve(request, sizeof request);
            unsetenv("FORKSERVER_INPUT");
            return real(request, mode);
        }
    }
    return real(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}
