// Launches a kernel of a cubin with one block: host CUBIN KERNEL [N [THREADS]]
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { CUresult r = (x); if (r) { printf("%s: error %d\n", #x, r); exit(1); } } while (0)
int main(int argc, char **argv)
{
    CUdevice device; CUcontext context; CUmodule module; CUfunction kernel; CUdeviceptr in, out;
    int values[64], results[32], n = argc > 3 ? atoi(argv[3]) : 4, threads = argc > 4 ? atoi(argv[4]) : 32;
    CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDevicePrimaryCtxRetain(&context, device)); CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoad(&module, argv[1])); CHECK(cuModuleGetFunction(&kernel, module, argv[2]));
    for (int i = 0; i < 64; i++) values[i] = 3 * i + 1;
    CHECK(cuMemAlloc(&in, sizeof values)); CHECK(cuMemAlloc(&out, sizeof results));
    CHECK(cuMemcpyHtoD(in, values, sizeof values));
    void *arguments[] = {&out, &in, &n};
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, 0, arguments, 0));
    if (threads > 32) threads = 32;
    CHECK(cuCtxSynchronize()); CHECK(cuMemcpyDtoH(results, out, threads * sizeof(int)));
    for (int i = 0; i < threads; i++) printf("%d ", results[i]);
    printf("\n");
}
